/* SPDX-License-Identifier: MIT
 *
 * What one daemon publishes of what it holds: text of at most CLAIMS_BYTES, which people can read too.
 *
 *	rad-claims 1 PID START_TICKS PID_SPACE
 *	GPU-UUID UID HELD_MIB USED_MIB TASKS PID:START_TICKS,PID:START_TICKS,...	(some of the shims of these tasks)
 *	...
 *	end CRC			of all before this line, as 8 hexadecimal digits
 *
 * It is written over in place, so a reader may see half of two: the sum tells. What follows the end is left of longer ones. A
 * newer daemon may write more words at the end of a line.
 */
#ifndef RAD_DAEMON_CLAIMS_PAGE_H
#define RAD_DAEMON_CLAIMS_PAGE_H

#include "base/buf.h"
#include "base/proc.h"
#include "core/core.h"

#define CLAIMS_BYTES 16384
#define CLAIMS_ROWS 120		/* what fits */
#define CLAIMS_MIB (1u << 30)	/* no row says more than that */
#define CLAIMS_RUNS 8		/* shims that a row names: while one of them runs, it outlives its daemon */

struct claims_runs { unsigned n; struct proc_id id[CLAIMS_RUNS]; };

/* A running attempt on one GPU. */
struct claims_run { char uuid[GPU_UUID_LEN]; uid_t uid; struct proc_id shim; };

struct claims_page {
	struct proc_id owner;
	uint64_t space;		/* the pid namespace that the pid is of */
	size_t n;
	struct core_claim rows[CLAIMS_ROWS];
	struct claims_runs runs[CLAIMS_ROWS];	/* of the row of the same number */
};

/* Appends the text. */
void claims_page_write(const struct claims_page *page, struct buf *out);
/* Takes any bytes. 0; -1: they are no page, or a torn one, and *out is as it was. */
int claims_page_read(const char *text, size_t n, struct claims_page *out);
/* Which shims each of the `n` rows names: the newest that count to it (`runs` has the oldest first), since those will run
 * longest. A shim counts to the row of its GPU and user; where several users are one row, to the last of its GPU. `out`: one
 * for each row, all zero before. */
void claims_page_name_runs(const struct core_claim *rows, size_t n, const struct claims_run *runs, size_t n_runs,
			   struct claims_runs *out);

#endif
