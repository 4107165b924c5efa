/* SPDX-License-Identifier: MIT
 *
 * Where programs are, and a user's own files.
 */
#ifndef RAD_BASE_PATHS_H
#define RAD_BASE_PATHS_H

/* For whoever brings no PATH, or whose own must not count. */
#define PATHS_USER "/usr/local/bin:/usr/bin:/bin"
/* With those of administrators: sendmail, hooks. */
#define PATHS_ALL PATHS_USER ":/usr/local/sbin:/usr/sbin:/sbin"

/* The path `name` from the folder of the running program; NULL: that is not known. Free it. */
char *paths_beside(const char *name);
/* That of this release's shared library `name`, which belongs to the running program and no other: installed, or in a build.
 * NULL: there is none. Free it. */
char *paths_library(const char *name);
/* How to run the program at `path` once more. That of this process, which a newer one replaced there or which was removed, is
 * still the file that runs; moved away it is not, since it would find nothing beside it: then, and of others, `path` itself. */
const char *paths_again(const char *path);
/* The first program of that name in `path`, "FOLDER:FOLDER..." (NULL: no folder); an empty entry, which would be the current
 * folder, is passed over. NULL: there is none. Free it. */
char *paths_find(const char *name, const char *path);
/* The caller's folder for files of a kind: what the variable says (XDG_CONFIG_HOME), else `usual` (".config") in HOME. A
 * relative one counts as none, as XDG has it. NULL: neither is set. Free it. */
char *paths_own(const char *variable, const char *usual);

#endif
