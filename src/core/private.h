/* SPDX-License-Identifier: MIT
 *
 * The core is its owners, each opaque to the others, in the order in which each uses those above it:
 *	fair		what users had lately, and whose turn it is (queue/fair.h)
 *	tasks		records, queue, arrays, dependencies; every event
 *	fleet		GPUs, readings, windows, ledgers, running attempts
 *	host		what running tasks asked for of memory and CPUs
 *	estimates	what is expected of tasks, what ended ones taught
 *	limits		time limits of running attempts
 *	endings		ends of attempts, until they are judged
 *	pass		what is tried when
 *	timeslots	who makes place for those that wait
 * core.c joins them and is what the wirings call; changes.c and suspend.c are what people have done to tasks, view.c shows
 * them, reserve.c says what reservations meet.
 */
#ifndef RAD_CORE_PRIVATE_H
#define RAD_CORE_PRIVATE_H

#include "core/core.h"
#include "core/endings.h"
#include "core/estimates.h"
#include "core/fleet.h"
#include "core/host.h"
#include "core/limits.h"
#include "core/pass.h"
#include "core/tasks.h"
#include "core/timeslots.h"

struct core {
	struct core_config config;
	struct core_ops ops;
	struct fair *fair;
	struct tasks *tasks;
	struct fleet *fleet;
	struct host *host;
	struct estimates *estimates;
	uint64_t learnt;	/* version of the estimates of which the fleet was told */
	struct limits *limits;
	struct endings *endings;
	struct pass *pass;
	struct timeslots *timeslots;
	size_t unchecked;	/* events since the invariants were last looked at */
	unsigned events_open;	/* that are being told */
	struct now now;		/* of the call under way, for what follows from events */
};

/* core.c: an event that a person, or the core for him, asked for. */
void core_emit(struct core *c, struct task *t, enum event_kind kind, uint32_t uid);

#endif
