/* SPDX-License-Identifier: MIT
 * rad acct --by: sums of users, groups, months, as radd made them.
 */
#ifndef RAD_CLI_ACCT_GROUPS_H
#define RAD_CLI_ACCT_GROUPS_H

#include "cli/format.h"
#include "cli/term.h"

#include <jansson.h>

/* The reply's "groups": gives those that have a "gid" the group's name, as "group". */
void acct_groups_name(json_t *groups);
/* The unit of their energies, of the column and of what stands above it. */
struct format_energy_unit acct_groups_unit(const json_t *groups);
/* As a table, one line a sum; `csv`: by RFC 4180. */
void acct_groups_print(const json_t *groups, const struct term *term, bool csv);

#endif
