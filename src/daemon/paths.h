/* SPDX-License-Identifier: MIT
 *
 * Where a daemon keeps its things when nobody says.
 */
#ifndef RAD_DAEMON_PATHS_H
#define RAD_DAEMON_PATHS_H

/* The state folder: root's /var/lib/rad; else below XDG_STATE_HOME, else the home folder. Free it. */
char *daemon_default_state_dir(void);

#endif
