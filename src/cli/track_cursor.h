/* SPDX-License-Identifier: MIT
 *
 * How far `rad track` is: the runs that are not finished, and since when tasks that ended are still to be looked at. A small
 * file that is replaced whole. It saves work and decides nothing: what a run has is asked of the server wherever that could be
 * in doubt.
 */
#ifndef RAD_CLI_TRACK_CURSOR_H
#define RAD_CLI_TRACK_CURSOR_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A task whose run is under way. */
struct track_entry {
	char *id, *key;
	char *run;		/* its run's id; NULL: not known yet */
	char *status;		/* as the server knows it; "": not told yet. Sums and tags are told before the last one */
	int64_t sent_ms;	/* points of all slots that begin before are there */
	bool doubt;		/* whether the server has what was last sent is not known: ask it */
	bool refused;		/* the server takes no more of it */
	json_t *task;		/* as radd told it in this round; NULL: it did not. Not in the file */
};

struct track_done { char *id; int64_t end_ms; };

struct track_cursor {
	int64_t from_ms;	/* tasks that ended before are done, but for entries */
	int64_t radd_pid, radd_since_ms;	/* which radd answers, and since when: wall */
	struct track_entry *entries;
	size_t n, cap;
	struct track_done *done;	/* those that ended since, and are done */
	size_t n_done, cap_done;
	char *path;
	int lock;		/* held as long as it is open, so that no two write to one */
};

/* Opens the file, or begins one at from_ms where there is none. -1: another process has it (ERR_CONFLICT), or it cannot be
 * read. */
int track_cursor_open(struct track_cursor *c, const char *path, int64_t from_ms, struct error *err);
int track_cursor_save(const struct track_cursor *c, struct error *err);
void track_cursor_close(struct track_cursor *c);

/* By key; NULL: there is none. */
struct track_entry *track_cursor_find(const struct track_cursor *c, const char *key);
/* Takes the key. The entry stands until the next is added or removed. */
struct track_entry *track_cursor_add(struct track_cursor *c, const char *id, char *key, int64_t sent_ms);
bool track_cursor_is_done(const struct track_cursor *c, const char *id, int64_t end_ms);
/* From an entry to one that is done. */
void track_cursor_finish(struct track_cursor *c, struct track_entry *e, int64_t end_ms);
/* All that ended before is done: nothing is kept of it. */
void track_cursor_advance(struct track_cursor *c, int64_t from_ms);

#endif
