/* SPDX-License-Identifier: MIT
 *
 * The pass: what is tried when. One goes through the queue: what each task asks for, what the GPUs have, and where it goes. It
 * happens where something moved (the versions of tasks, fleet and estimates) or came due, and it remembers of each kind of
 * request at which version of the fleet it did not fit, so that only what moved since is asked again.
 *
 * Where MPS servers serve one user each, users take turns at them: pass_turns.c.
 *
 * The recovery queue comes first. Its head, if it wants GPUs alone, has them kept free: the n with the least work, chosen once,
 * for at most keep_max; after that it asks for more memory instead of for solitude (section 7.2).
 *
 * The main queue is by priority, then by whose turn it is (queue/fair.h). Under `strict` a head that does not fit stops the
 * pass. Under `backfill` the next ones may pass it, until it has been the head for pass_max: then the GPUs that it needs, those
 * with the least work, are kept for it. As what runs there ends and nobody else comes, it starts at the latest when the last of
 * that has ended: nothing starves. Under `fifo` they are kept at once, and that end is what the head is promised: others may
 * start elsewhere, and on those GPUs only if their time limit is over by then. Under `plan` a plan says who goes where and in
 * which order (map/plan.h); each start is still asked of the filter.
 *
 * Time of passing is counted for the first task of each user, so that it does not begin anew when users take turns. For a user
 * who is owed a start while others wait, GPUs are kept at once under every order: how many tasks somebody else has there makes
 * no difference to him. A user who has what he may have (queue/allowance.h) is left out.
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
/* What was decided under other settings is forgotten. */
void pass_reconsider(struct pass *p);
/* Whatever GPUs are kept for that task are kept no longer. */
void pass_give_up(struct pass *p, task_id id);

/* What the task asks of placement now. Its pointers live until the next pass. */
struct map_request pass_request(struct pass *p, const struct task *t, struct now now);
/* Whether it would be placed as of now, and what placement finds on each slot (fleet_size findings). Places nothing. */
bool pass_would_place(struct pass *p, const struct map_request *r, struct map_finding *findings, struct now now);
/* Whether GPUs of this machine could ever run that, had it declared so much; -1 with why not. */
int pass_feasible(const struct pass *p, const struct spec *spec, uint64_t gpu_mem_mib, struct error *err);
/* What the largest GPU that it may use offers when empty (of n at once, the smallest); 0: there is none just now. */
uint64_t pass_largest_mib(const struct pass *p, const struct spec *spec);
/* What that user may have at one time, and which of it keeps this task, or the first of his behind which it stands, from being
 * tried; ALLOWANCE_COUNT: none does. */
struct allowance pass_allowance(const struct pass *p, uid_t uid);
enum allowance_kind pass_left_out(struct pass *p, const struct task *t, struct now now);
/* The head of the main queue that did not fit in the last pass; 0: none. */
task_id pass_blocked_at(const struct pass *p);

/* Whether the invariants hold: GPUs are kept only for tasks that wait. */
int pass_check(const struct pass *p, struct error *err);

#endif
