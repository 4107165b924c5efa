/* SPDX-License-Identifier: MIT
 *
 * The folder of claims that all daemons of a machine reach: /tmp, where nobody can remove or rename what another has put. Each
 * has one file there, rad-claims-UID-..., which it made, owns and holds an flock of, so what it says ends with its process,
 * however that ends; but for the rows of tasks that run on without it, as those of every daemon that is restarted do. The next
 * daemon of the same store puts its own in the place of that file, which anybody may have locked.
 *
 * Nothing of others is believed but what they say of themselves. Looked at is a plain file with one name, of at most
 * CLAIMS_BYTES, opened without following a link or waiting, locked, whose owner's uid is that of a living process of the pid
 * and start time in it; rows of other users' tasks count in root's only; and of one user so many files. So a user can claim
 * too much, at most all of a GPU as one of his tasks could take it, and can hide what is his.
 */
#ifndef RAD_DAEMON_CLAIMS_FOLDER_H
#define RAD_DAEMON_CLAIMS_FOLDER_H

#include "base/error.h"
#include "daemon/claims_page.h"

#define CLAIMS_FOLDER "/tmp"
#define CLAIMS_FILES 64		/* that are looked at in all, */
#define CLAIMS_FILES_USER 8	/* and of one user: more are as if they were not there */

struct claims_folder;

/* NULL: a folder in which others could do more than that, or none. Files come later. `mark`: the store's, by which a file of
 * ours that is there already is known again; NULL: there is none. */
struct claims_folder *claims_folder_open(const char *path, const char *mark, struct error *err);
/* Removes our file, unless it names tasks that run on. Takes NULL. */
void claims_folder_close(struct claims_folder *f);

/* What we hold is there for all to see when this returns 0; makes the file where there is none, or none any more. `runs`: the
 * shims behind each row; NULL: nothing outlives us. */
int claims_folder_publish(struct claims_folder *f, const struct core_claim *rows, const struct claims_runs *runs, size_t n,
			  struct error *err);

/* What the others say. */
struct claims_seen {
	struct core_claim *rows;	/* owned */
	size_t n, cap;
	bool unsure;			/* one of them was being written all the while: look again */
};
void claims_folder_look(struct claims_folder *f, struct claims_seen *out);
void claims_seen_clear(struct claims_seen *s);

#endif
