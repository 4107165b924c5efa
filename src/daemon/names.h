/* SPDX-License-Identifier: MIT
 *
 * Names of users, and of the groups that they are in. The user database may be on a server that does not answer, so it is asked
 * by processes of their own (`radd --name`, `radd --groups`), with a deadline; what they said is kept.
 */
#ifndef RAD_DAEMON_NAMES_H
#define RAD_DAEMON_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#define NAMES_AT_ONCE 4
#define NAMES_DEADLINE_MS 5000
/* After which it is asked again; when that fails, what was said before holds. */
#define NAMES_FRESH_MS (10 * 60 * INT64_C(1000))
#define NAMES_RETRY_MS (30 * INT64_C(1000))		/* after no answer */

enum name_state {
	NAME_ASKED,		/* not known yet: `told` will come */
	NAME_KNOWN,
	NAME_NO_ACCOUNT,	/* the database answered that there is none */
	NAME_NO_ANSWER,		/* nor was there one before */
};

struct names;

/* An answer, or none, has come; anew: it is another one than names_of gave before. Mostly it is not: each is asked for again
 * when it is old. */
typedef void names_told(void *ctx, bool anew);

/* `program` is run with the argument `flag`, --name or --groups: names_of then says, as the name, the groups of a user, ':'
 * between them; `told` comes from the loop. */
struct names *names_create(uv_loop_t *loop, const char *program, const char *flag, int64_t deadline_ms,
			   names_told *told, void *ctx);
/* Ends the workers. Frees itself once the loop has closed its handles. Takes NULL. */
void names_destroy(struct names *n);

/* What to call the user, without waiting. *name, valid until the next call, is the number as long as there is no name. */
enum name_state names_of(struct names *n, uid_t uid, const char **name);
/* A request waits for that name: it comes before those that are asked for in passing, as of all who connect, and hang up. */
void names_hurry(struct names *n, uid_t uid);

/* The uid that answers for what `uid` does, and whose bounds count: itself, if it has an account; else the account that it is
 * a subordinate uid of (/etc/subuid); NAMES_NOBODY if it is nobody's; NAMES_UNKNOWN until that is known. All unknown ones
 * count as one user. The database is asked only if `ask`. */
#define NAMES_NOBODY ((uid_t)-2)
#define NAMES_UNKNOWN ((uid_t)-3)
uid_t names_payer(struct names *n, uid_t uid, bool ask);

/* The worker's main: reads a uid, writes its name; where there is no account, an empty line, and the uid of the account that it
 * is a subordinate one of, if there is such. Returns its exit code. */
int names_worker(void);
/* The same for --groups: reads as that does, writes the groups of the account in one line, empty where there is none. */
int names_groups_worker(void);
/* For workers: whether errno, after a look-up that found nothing, is the database's failure, and not that there is none. */
bool names_database_failed(void);

#endif
