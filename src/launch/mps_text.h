/* SPDX-License-Identifier: MIT
 *
 * What MPS control daemons say, which run as a user, who may have them say anything. Linked by rad-shim too.
 */
#ifndef RAD_LAUNCH_MPS_TEXT_H
#define RAD_LAUNCH_MPS_TEXT_H

#include <stddef.h>

/* The answer to `get_server_list` or `get_client_list`: pids, in their order, up to what is none; `most` at most are noted.
 * Returns how many. */
size_t mps_text_pids(const char *answer, int *pids, size_t most);
/* The last line of a log that is not blank, as printable text ("" where there is none); the caller's. */
char *mps_text_last_line(const char *log, size_t len);

#endif
