/* SPDX-License-Identifier: MIT
 *
 * Lays the file system aside for a capture (decision 247): what it writes, removes or renames from then on, this process and
 * all that it starts see, and nobody else. A mount namespace of its own, in which folders are the lower layers of overlays
 * (overlayfs); their upper layers are dropped with it.
 *
 * In libradcapture.so too, for radrm.capture: needs the C library only.
 */
#ifndef RAD_CLI_ASIDE_H
#define RAD_CLI_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

#define ASIDE_API __attribute__((visibility("default")))

/* For a process of one thread, or one that has just forked. `scratch`: an empty folder, under which the upper layers are, in
 * memory where that will do: of all that is written `mib`; on its disk no file may be larger than that. It is the caller's to
 * remove, with what is in it, when all processes have ended. The working folder and $HOME are laid aside; other folders are
 * where aside_cover is asked. `programs`: those that this process starts may call that too. What they are permitted to do is
 * what it was before, but within aside_cover.
 * 0, or -1 with errno: nothing is laid aside, and the process is as it was. */
ASIDE_API int aside_enter(const char *scratch, uint64_t mib, bool programs);

/* In a program that such a process started, before it does anything: it has its right to mount for aside_cover alone. */
void aside_rest(void);

/* Somebody is about to change what is at that path, or make it: lays its folder aside unless it is, by an overlay of the
 * topmost folder from which all belong to this user. `scratch`: aside_enter's. What stays as it is: folders for temporary files
 * and caches ($TMPDIR, $XDG_CACHE_HOME, $HF_HOME, $TORCH_HOME, and where these are by default), which are shared by design,
 * and what is no disk.
 * 1: it is now; 0: it was, or nothing is to be done; -1 with errno: it is not. */
ASIDE_API int aside_cover(const char *scratch, const char *path);

/* Whether all that can be done for a process that works in that folder: tried in one of its own. */
bool aside_works(const char *folder);

#endif
