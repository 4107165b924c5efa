/* SPDX-License-Identifier: MIT
 *
 * The signature of a task: equal for runs that should use the same GPU memory, so that what one run was seen to take
 * tells about the next. What does not change memory does not count: seed, learning rate, name, output. The version of the
 * framework is not known before it runs; the Python environment stands for it. The model of GPU is not known either: history
 * keeps it apart.
 * A hash (base/hash.h), and no secret: who forges a collision only confuses the history of his own runs, since the uid stands
 * in the signature by itself.
 */
#ifndef RAD_SUBMIT_SIGNATURE_H
#define RAD_SUBMIT_SIGNATURE_H

#include "task/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "u1000-0123456789abcdef" from the uid, script or command, its arguments, what was said about the model, and the variables of
 * its environment that name an installation of Python or configure an allocator of GPU memory.
 * `program` is the content of the script that a command runs ("python train.py"), NULL if there is none. Free it. */
char *signature_make(const struct spec *s, const char *program, size_t program_len);

/* Whether a signature that a client sent names that uid. */
bool signature_belongs(const char *signature, uid_t uid);

#endif
