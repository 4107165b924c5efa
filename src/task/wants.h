/* SPDX-License-Identifier: MIT
 *
 * Which members of a task's object somebody asked for, so that no others are made: of ten thousand tasks, those that nobody
 * looks at take most of the time. They are named as in `list` of doc/protocol.md: "name", "estimate.claim_mib" (of a member,
 * and of a list that of its last), "attempts[].gpus" (that of each in a list).
 */
#ifndef RAD_TASK_WANTS_H
#define RAD_TASK_WANTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TASK_WANTS_MAX 100

struct task_wants {
	bool all;
	size_t n;
	uint64_t marks, within;	/* of the members, and of the members of these: where a mark is not set, none is of that name */
	struct { const char *member, *within; size_t length; } names[TASK_WANTS_MAX];	/* within NULL: all of the member */
};

/* Borrows the texts. NULL, or more than there is room for: all. */
struct task_wants task_wants_of(const json_t *members);
/* Takes NULL: all. */
bool task_wants(const struct task_wants *w, const char *member);
/* All of that member. */
bool task_wants_whole(const struct task_wants *w, const char *member);
/* The member `name` of one that is not wanted whole. */
bool task_wants_within(const struct task_wants *w, const char *member, const char *name);

#endif
