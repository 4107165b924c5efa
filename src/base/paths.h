/* SPDX-License-Identifier: MIT
 *
 * Where programs are looked for on behalf of whoever brings no PATH, or whose own must not count.
 */
#ifndef RAD_BASE_PATHS_H
#define RAD_BASE_PATHS_H

#define PATHS_USER "/usr/local/bin:/usr/bin:/bin"
/* With those of administrators: sendmail, hooks. */
#define PATHS_ALL PATHS_USER ":/usr/local/sbin:/usr/sbin:/sbin"

#endif
