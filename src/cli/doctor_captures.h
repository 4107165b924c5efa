/* SPDX-License-Identifier: MIT
 *
 * rad doctor on captures: whether what they write can be laid aside (cli/aside.h).
 */
#ifndef RAD_CLI_DOCTOR_CAPTURES_H
#define RAD_CLI_DOCTOR_CAPTURES_H

#include "cli/doctor.h"

/* `proc`: "/proc", which says what denies it. */
void doctor_captures(struct doctor *d, const char *proc);

#endif
