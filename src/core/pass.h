/* SPDX-License-Identifier: MIT
 *
 * The pass: one walk through the queue that tries to place waiting tasks. A pass is made when something has moved (the versions
 * of tasks, fleet and estimates), was given up or came due. What it remembers, and why each is forgotten, is a table in
 * pass_private.h.
 *
 * The recovery queue comes first, then the main queue, which is ordered by priority, then by whose turn it is (queue/fair.h).
 * What a waiting task goes through, in either:
 *
 *	state		is left
 *	behind others	when a pass comes to it. It is placed, left out, or the first that does not fit: passed
 *	left out	its user has what he may have (queue/allowance.h), or it waits for GPUs that are drained, silent or reserved (it is
 *			set aside): nothing idles for it, and its next may be first. Until that is over
 *	passed		the first of its queue (`struct first`). Later tasks may start, each queue by its rules below. It is placed,
 *			overtaken by one that goes before it, or insists after pass_max, at once under `fifo`, where its user is
 *			owed a start while others wait, and where a recovering task is to be alone
 *	insists		the GPUs that it needs, those with the fewest tasks, are kept for it, and so is room of the host: nobody else
 *			starts there, so it starts at the latest when the tasks there have ended. Until it is placed or overtaken
 *	planned		beside these: the plan says where it starts, and in which order. A recovering task does not wait for that
 *	made place for	beside these: GPUs that others were asked to vacate are kept for it at once, under every order
 *
 * Whoever is overtaken loses what is kept for it, but not the time for which it was passed: that is noted by user, so that it
 * does not begin anew when users take turns.
 *
 * A recovering task for which GPUs are kept asks for more memory after keep_max (section 7.2), and need not be alone.
 *
 * In the main queue later tasks pass the head by the order:
 *	strict		none does but CPU tasks, which are in no order with it
 *	backfill	all may
 *	fifo		the kept GPUs' expected end is the head's promise: others start there only if their time limits end before it
 *	plan		a plan says which task goes where, and in which order (map/plan.h); the filter still decides about each start
 *
 * Where MPS servers serve one user each, users take turns at them: pass_turns.c. CPU tasks, which ask for no GPU, stand in a
 * queue of their own and are placed behind the others: pass_cpu.c.
 */
#ifndef RAD_CORE_PASS_H
#define RAD_CORE_PASS_H

#include "core/estimates.h"
#include "core/fleet.h"
#include "core/host.h"
#include "core/tasks.h"

struct pass;

/* The other owners, and the core's config and ops, outlive it. */
struct pass *pass_create(const struct core_config *config, const struct core_ops *ops, struct fair *fair, struct tasks *ts,
			 struct fleet *f, struct estimates *e, struct host *h);
/* Takes NULL. */
void pass_destroy(struct pass *p);

/* Places what can be placed (EV_PLACED for each), if anything moved or is due. Returns when to call again at the latest (mono),
 * or INT64_MAX. */
int64_t pass_turn(struct pass *p, struct now now);
/* Settings, allowances or reservations changed: forgets what was decided by them. */
void pass_reconsider(struct pass *p);
/* The task waits no more: no GPUs are kept for it, and how long it was passed is forgotten. */
void pass_give_up(struct pass *p, task_id id);
/* What is kept for that task is chosen anew in the next pass. */
void pass_choose_anew(struct pass *p, task_id id);

/* For these others make place, from now on, in place of those before; no slot twice. Returns whether other GPUs are kept than
 * before. */
bool pass_vacate(struct pass *p, const struct vacated *list, size_t n);
/* NULL: none are for that task. Valid until the next pass or pass_vacate. */
const struct vacated *pass_vacated_for(const struct pass *p, task_id id);
/* Whether any are. */
bool pass_vacates(const struct pass *p);

/* What the task asks of placement now. Its pointers are valid until the next pass. */
struct map_request pass_request(struct pass *p, const struct task *t, struct now now);
/* Whether the request would be placed now, and what placement finds on each slot: fleet_size findings, or NULL. Places
 * nothing. */
bool pass_would_place(struct pass *p, const struct map_request *r, struct map_finding *findings, struct now now);
/* Whether GPUs of this machine could ever run the task if it declared `gpu_mem_mib`. 0, or -1 with why not. */
int pass_feasible(const struct pass *p, const struct spec *spec, uint64_t gpu_mem_mib, struct error *err);
/* What the largest GPU that the task may use offers when empty (for n GPUs, the n-th largest); 0: there is none now. */
uint64_t pass_largest_mib(const struct pass *p, const struct spec *spec);
/* What the user may have at one time. */
struct allowance pass_allowance(const struct pass *p, uid_t uid);
/* What its user would have more. */
struct fair_taken pass_would_take(const struct pass *p, const struct map_request *r);
/* Whether too few GPUs are in use for the task, whatever ends there: it would wait for drained, silent or reserved ones. Then
 * it holds up nobody, and nothing is kept for it any more. */
bool pass_lacks_gpus(struct pass *p, const struct map_request *r, struct now now);
/* A walk through both queues past those who were found so in the last pass, as queue_walk_begin. */
void pass_walk_begin(const struct pass *p, struct queue_walk *w);
/* Which limit of its user keeps this task from being tried, or the user's first task, behind which it waits; which of the two,
 * and how much that one asks for; never: it alone is kept, since it is more than the user may have at any time.
 * ALLOWANCE_COUNT: none does. */
struct pass_left_out { enum allowance_kind kind; const struct task *by; uint64_t asks; bool never; };
struct pass_left_out pass_left_out(struct pass *p, const struct task *t, struct now now);
/* Whether under ORDER_PLAN there is no plan since too few times are known: of so many of the tasks that it was to be of.
 * False while the next one is to come. */
bool pass_plan_lacks_times(const struct pass *p, size_t *known, size_t *asked);
/* The head of the main queue, which did not fit in the last pass; 0: none. */
task_id pass_head(const struct pass *p);

/* Checks the invariants: GPUs are kept, and turns given, only for tasks that wait. 0, or -1 with the first that is broken. */
int pass_check(const struct pass *p, struct error *err);

#endif
