/* SPDX-License-Identifier: MIT
 *
 * Where a feed is found, and who takes part in it. In a folder of the user's own (/tmp/radfeed-UID, or $RADFEED_DIR; mode
 * 0700, the owner is looked at) a feed has two files: NAME.sock, on which its writer listens, and NAME.feed, of which
 * below. A feed of a group, "GROUP:NAME", has them in /tmp/radfeed-group-GID (or $RADFEED_DIR): mode 2770, of that group.
 * Its members may each write when their turn comes, so they trust each other with what the batches are; what one has
 * written no other can alter, and nobody else is let in. Of NAME.feed
 *
 *  - byte 0 is locked by the one that writes. Those who would go on after it wait for that lock;
 *  - each reader holds a lock on one byte of its own, its *token*, a number by chance. A token is alive while its byte is
 *    locked;
 *  - the content (struct feed_state) says at which position another writer goes on. Only who holds byte 0 writes it, from a
 *    copy of its own, which is what counts while it lives. Nobody maps the file: whoever may write to it could make it
 *    shorter, and the next look at the mapping would be the end of the process (SIGBUS).
 *
 * The locks are of open file descriptions (F_OFD_SETLK), in files that forks close (fds.h).
 *
 * A writer may be killed between any two times that it writes the state, and what is there must do. The rule is: too early is
 * harmless, because readers say what they want and pass over the rest; too late would lose something. So `next` is raised
 * after the item was published, and a reader's `want` is cleared after it has the ring; the position to go on is the least
 * of them:
 *
 *	min(next, want of each living member)
 */
#ifndef RAD_FEED_PLACE_H
#define RAD_FEED_PLACE_H

#include "base/error.h"
#include "feed/folder.h"
#include "feed/ring.h"

#include <sys/un.h>

#define FEED_STATE_MAGIC 0x3254534445454652ull	/* "RFEEDST2" */

#define FEED_FOLDER_MAX 4096

struct feed_place {
	struct feed_party party;
	char state[sizeof ((struct sockaddr_un *)0)->sun_path];
	struct sockaddr_un sock;
};

struct feed_member {
	uint64_t token;	/* 0: none */
	uint64_t want;	/* it has no ring yet, and needs all from this position on. FEED_NEVER: it has the last writer's ring */
};

struct feed_state {
	uint64_t magic;
	uint64_t seed;
	char sign[FEED_SIGN_MAX + 1];
	uint64_t next;		/* position of the first item that was perhaps not published */
	uint64_t shown;		/* where the writer's figures are (look.h): its pid, and in the low 32 bits 1 + the ring's
				 * descriptor; 0 there: it has no ring yet */
	struct feed_member member[FEED_READERS_MAX];
};

/* Where a feed lies, of a group's too, and in which folder. Returns 1, 0 if the folder is not there, or -1; ERR_DENIED where
 * it is not the user's alone, or the group's. */
int feed_place_look(const char *name, char dir[FEED_FOLDER_MAX], struct feed_place *place, struct error *err);
/* Both, of a group's too; the folder is made if it is not there. ERR_DENIED where it is not the user's alone, or the
 * group's. */
int feed_place_find(const char *name, struct feed_place *place, struct error *err);

/* The lock of the writer: waits for it. Sets *fd, and *state to what the file has. ERR_UNAVAILABLE after a signal. */
int feed_place_claim(const struct feed_place *place, int *fd, struct feed_state *state, struct error *err);
/* Whether the state was ever written, and some member of it is alive: then the feed goes on. */
bool feed_place_goes_on(const struct feed_state *state, int fd);
/* Those that follow change the state, and the file `fd`, which has all of it again whatever was done to it meanwhile. */
/* Where it goes on: see above. Forgets members that are gone; the others want all from there on, until each has another
 * ring. */
uint64_t feed_place_position(struct feed_state *state, int fd);
/* Begins anew. */
void feed_place_begin(struct feed_state *state, int fd, const char *sign, uint64_t seed);
/* Notes a member, with what it wants; if it is there already, only that. There must be a row for it: who holds the lock of the
 * writer lets no more in (struct feed_writer). */
void feed_place_note(struct feed_state *state, int fd, uint64_t token, uint64_t want);
/* That member has left. */
void feed_place_forget(struct feed_state *state, int fd, uint64_t token);
/* All before that position was published. */
void feed_place_published(struct feed_state *state, int fd, uint64_t next);
/* Where the figures of this process's ring are; -1: it has none yet. */
void feed_place_show(struct feed_state *state, int fd, int ring_fd);
/* Takes the files away, if no token is alive. Only for who holds the lock of the writer. */
void feed_place_remove(const struct feed_place *place, int fd);

/* A token of the reader's own, in the file that is there now. Sets *fd, which holds it. */
int feed_place_join(const struct feed_place *place, int *fd, uint64_t *token, struct error *err);
/* The same for who holds nothing: if nobody writes either. Waits for a writer that has seen the last token and is about to end,
 * wait_ms at most. */
void feed_place_sweep(const struct feed_place *place, int wait_ms);
/* Lets the token go. Who leaves last, when nobody writes, takes the files away. Closes *fd. */
void feed_place_leave(const struct feed_place *place, int *fd, uint64_t token);
/* Whether that file still is the one in its place. */
bool feed_place_current(const struct feed_place *place, int fd);
/* Whether another open file holds the lock of the writer. */
bool feed_place_is_claimed(int fd);
/* Whether another open file holds that token. */
bool feed_place_alive(int fd, uint64_t token);
/* The living tokens, `max` at most. Returns how many. */
size_t feed_place_tokens(int fd, uint64_t *tokens, size_t max);

#endif
