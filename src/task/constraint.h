/* SPDX-License-Identifier: MIT
 *
 * Which models of GPU a task takes: "a100", "a100|h100", "mem>=40G", "h100&mem>=80G|b200".
 *	any	alternatives, `|` between them: one is to be met
 *	all	terms, `&` or `,` between them: each is
 *	term	a word of the model's name as the driver tells it, or a comparison of its memory (>= > <= < =); after a ! what is
 *		not so: "!mig" is a whole GPU, since drivers call an instance "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
 * Words are compared without regard to case and to what stands between letters and digits, from a word's beginning to a word's
 * end: "rtx3090" is "NVIDIA GeForce RTX 3090", "h100" is not "GH100". Memory counts as the vendor's figure does: a GPU of
 * "80 GB" shows some percent less, so 5 % are not looked at.
 */
#ifndef RAD_TASK_CONSTRAINT_H
#define RAD_TASK_CONSTRAINT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define CONSTRAINT_MAX 200	/* bytes */

/* Whether it can be read; -1 with what is wrong. */
int constraint_check(const char *text, struct error *err);
/* Whether a GPU of that name and memory meets it. NULL: every one does; what cannot be read, none. */
bool constraint_met(const char *text, const char *gpu_name, uint64_t total_mib);

#endif
