/* SPDX-License-Identifier: MIT
 *
 * Locals that free themselves at the end of their scope, and `steal` for handing one over on success.
 *	scoped_free char *text = NULL;   ...   return steal(text);
 * One of which nothing but its end is wanted is not unused, whatever the compiler makes of it.
 * Use it for locals; constructors with several steps use a goto ladder instead. Do not mix both in one function.
 */
#ifndef RAD_BASE_SCOPE_H
#define RAD_BASE_SCOPE_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void scope_free(void *p) { free(*(void **)p); }
static inline void scope_close(int *fd) { if (*fd >= 0) close(*fd); }
static inline void scope_fclose(FILE **f) { if (*f) fclose(*f); }
static inline void scope_closedir(DIR **d) { if (*d) closedir(*d); }

#define scoped_free __attribute__((cleanup(scope_free), unused))
#define scoped_fd __attribute__((cleanup(scope_close), unused))
#define scoped_file __attribute__((cleanup(scope_fclose), unused))
#define scoped_dir __attribute__((cleanup(scope_closedir), unused))

#define steal(p) ({ __typeof__(p) stolen_ = (p); (p) = NULL; stolen_; })
#define steal_fd(fd) ({ int stolen_ = (fd); (fd) = -1; stolen_; })

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

#endif
