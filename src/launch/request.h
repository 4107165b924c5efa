/* SPDX-License-Identifier: MIT
 *
 * What a shim is to start, as it lies in the attempt folder. Not JSON: environments, arguments and paths are bytes, not
 * always UTF-8, and the shim then needs no JSON library. The form: lines that end in a zero byte, "key=value"; keys of
 * lists come again. The file is written by the daemon and read by a shim of the same version.
 */
#ifndef RAD_LAUNCH_REQUEST_H
#define RAD_LAUNCH_REQUEST_H

#include "base/buf.h"
#include "base/error.h"
#include "task/spec.h"

#include <stddef.h>
#include <sys/types.h>

/* Scripts, arguments and environment are bounded at submission; this bounds the sum. */
#define REQUEST_MAX ((size_t)64 << 20)

struct shim_request {
	char *label;		/* launch_name: task and attempt; names the cgroup */
	uid_t uid;
	gid_t gid;
	char *user;		/* whose uid that was when it was submitted; NULL: not known */
	mode_t umask;
	char *cwd;
	char *output, *error;	/* expanded, may be relative to cwd; error NULL: into the output */
	uint32_t truncate;	/* 1: both are emptied */
	char *heading;		/* written first where there is something in the output; NULL: nothing is */
	uint32_t mem_max_mib;	/* memory of the machine that it asked for; 0: nothing */
	char *terminal;		/* the socket of the `rad` whose terminal it gets; NULL: it has none */
	char *script;		/* NULL: run argv */
	char *script_name;	/* what bash is to call it; NULL: it does not matter */
	char *conda_env;	/* NULL: none */
	char **argv;		/* NULL-terminated; of a script: its arguments */
	char **environ;		/* NULL-terminated, complete: nothing is added later */
	struct spec_rlimit *rlimits;
	size_t n_rlimits;
};

void shim_request_encode(const struct shim_request *r, struct buf *out);
/* Refuses unknown keys, a missing end, and what is incomplete. Returns NULL on error. Free with shim_request_destroy. */
struct shim_request *shim_request_decode(const char *bytes, size_t n, struct error *err);
/* Takes NULL. */
void shim_request_destroy(struct shim_request *r);

#endif
