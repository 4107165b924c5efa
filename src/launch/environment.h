/* SPDX-License-Identifier: MIT
 *
 * The environment a task sees: what its user had at submission, and what tells it of its GPUs. Pure.
 */
#ifndef RAD_LAUNCH_ENVIRONMENT_H
#define RAD_LAUNCH_ENVIRONMENT_H

#include "launch/launch.h"

#include <stdbool.h>

struct environment_input {
	const struct launch_request *request;
	/* Where no MPS daemon listens. A client that finds one at the default place silently joins it; so a task that is not
	 * to use MPS is pointed there. */
	const char *no_mps_dir;
	const char *token;	/* of the attempt; NULL: none */
	unsigned master_port;	/* 0: none is free */
};

/* NULL-terminated "NAME=value"; free with alloc_free_list. Names that we set replace the user's; the exceptions are the
 * no-preallocation settings of JAX and TensorFlow, PYTHONUNBUFFERED and MASTER_PORT, where the user's word counts: not
 * that of a task which submits this one. Slurm's variables are taken out. */
char **launch_environment(const struct environment_input *in);
/* Whether "NAME=value" is of the step of a Slurm job that its process runs in. In a task it would be wrong: launchers,
 * submitit and MPI take the process for a rank of that step (PMI_FD names a descriptor that it has not got). What people set
 * for MPI themselves, such as PMIX_MCA_*, is not. */
bool environment_is_of_step(const char *variable);
/* The value of `name`, NULL if it is not there. */
const char *environment_get(char *const *env, const char *name);

#endif
