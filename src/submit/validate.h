/* SPDX-License-Identifier: MIT
 *
 * The daemon's side of accepting a submission. spec_from_json has checked types and ranges of single members; this checks
 * that together they make a task that can be started, whatever a client sent.
 */
#ifndef RAD_SUBMIT_VALIDATE_H
#define RAD_SUBMIT_VALIDATE_H

#include "base/error.h"
#include "task/task.h"

/* Call it with s->uid set from the socket: a signature that names another uid is refused, so that nobody writes into the
 * history of somebody else's runs. Returns 0, or -1 with an error that names the member. */
int submit_validate(const struct spec *s, struct error *err);
/* The same of what may change later, alone. */
int submit_check_name(const char *name, struct error *err);
int submit_check_slowdown(double most, struct error *err);
int submit_check_needs(const struct spec *s, struct error *err);
/* The first member that says something of GPUs, but for their number; NULL: none does. */
const char *submit_said_of_gpus(const struct spec *s);
/* Whether so many elements, each of which waits by itself, may have so many dependencies. */
int submit_check_pairs(size_t elements, size_t deps, struct error *err);
/* Whether there is what the dependency names, as `has` says of tasks and jobs: a mistyped id would make it wait for what never
 * comes. */
int submit_check_dependency(const struct spec *s, const struct dependency *d,
			    int (*has)(void *ctx, task_id id, bool *there, struct error *err), void *ctx, struct error *err);

#endif
