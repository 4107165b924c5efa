/* SPDX-License-Identifier: MIT
 *
 * Accounts by user, by group and by month, or by several of these: a sum for each that tasks fall into. For the process that
 * reads them (daemon/lookup.h).
 */
#ifndef RAD_DAEMON_SUMS_H
#define RAD_DAEMON_SUMS_H

#include "base/error.h"
#include "task/task.h"

#include <jansson.h>

enum { SUMS_BY_USER = 1, SUMS_BY_GROUP = 2, SUMS_BY_MONTH = 4, SUMS_MONTHS_MAX = 1200 };

/* "user", "user,month": to a set of these. */
int sums_parse(const char *text, unsigned *by, struct error *err);

/* Whether that is a list of when months begin: [ms], ascending, of SUMS_MONTHS_MAX at most; or NULL. */
int sums_check_months(const json_t *months, struct error *err);

struct sums_table;
/* `months`: as checked, by the calendar of who asks; NULL, before the first and long behind the last: by this machine's. */
struct sums_table *sums_create(unsigned by, const json_t *months);
/* Takes NULL. */
void sums_destroy(struct sums_table *s);
/* A task that has ended, in the month of its end. Returns the number of its row. */
unsigned sums_add(struct sums_table *s, const struct task *t, int64_t now_ms);
/* GPU time as shares that tasks of that row had. */
void sums_add_share(struct sums_table *s, unsigned row, double share_s);
/* [{"user","gid","month", and what account_to_json has, "peak_mib"}], by user, group and month; null for what is not told
 * apart. A group is told by its number: its name is asked by who shows it. */
json_t *sums_json(const struct sums_table *s);

#endif
