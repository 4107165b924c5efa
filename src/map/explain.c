/* SPDX-License-Identifier: MIT
 * What `rad why` and the queue's REASON column say: the filter's findings as text. Every line tells what is short and, where
 * there is something, what would help.
 */
#include "base/text.h"
#include "base/units.h"
#include "device/reading.h"
#include "map/filter.h"

#include <math.h>
#include <stdio.h>

const char *map_reason_word(enum map_reason r)
{
	static const char *const words[] = {
#define X(name, word, help) [name] = word,
		MAP_REASONS(X)
#undef X
	};
	return r < MAP_REASON_COUNT ? words[r] : "?";
}

const char *map_reason_help(enum map_reason r)
{
	static const char *const helps[] = {
#define X(name, word, help) [name] = help,
		MAP_REASONS(X)
#undef X
	};
	return r < MAP_REASON_COUNT ? helps[r] : "?";
}

enum map_reason map_summary(const struct map_finding *findings, size_t n, unsigned gpus)
{
	size_t count[MAP_REASON_COUNT] = { 0 };
	for (size_t i = 0; i < n; i++)
		if (findings[i].reason < MAP_REASON_COUNT)
			count[findings[i].reason]++;
	/* The filter asks in the order of the reasons, so a later one came nearer to fitting. */
	enum map_reason best = n ? MAP_OK : MAP_TOO_FEW;
	for (unsigned i = 0; i < MAP_REASON_COUNT; i++)
		if (count[i] && count[i] >= count[best])
			best = (enum map_reason)i;
	/* Each of these GPUs fits; the task does not, whatever the plan has it wait for, where they are too few. */
	return best == MAP_LATER && count[best] < gpus ? MAP_TOO_FEW : best;
}

struct explain_line { char *buf; size_t size, len; };

static void say(struct explain_line *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct explain_line *l, const char *fmt, ...)
{
	if (l->len + 1 >= l->size)
		return;
	va_list ap;
	va_start(ap, fmt);
	int n = text_vprintf(l->buf + l->len, l->size - l->len, fmt, ap);
	va_end(ap);
	l->len += n > 0 ? (size_t)n : 0;
}

/* One size, as text that lives as long as the full expression it stands in. */
#define SIZE(mib) units_format_mib((double)(mib), (char[32]){ "" }, 32)

static const char *mode_text(const struct map_gpu *g)
{
	switch (g->mode) {
	case SHARE_STREAMS: return "shared by time slicing";
	case SHARE_MPS: return "shared under MPS";
	default: return "used by its task alone";
	}
}

/* The server of former settings goes when its last client does. */
static void say_user(struct explain_line *l, const struct map_gpu *g, const struct map_request *r)
{
	if (g->mps_uid >= 0 && g->mps_uid != (int64_t)r->uid)
		say(l, "user %u's MPS server runs there, and MPS is for one user at a time%s; free when its tasks end",
		    (unsigned)g->mps_uid, g->turn_task == r->task && r->task ? ", whose other tasks let this one go first" : "");
	else
		say(l, "tasks there are clients of an MPS server from before mps_users was changed; free when they end");
}

static void say_mode(struct explain_line *l, const struct map_policy *p, const struct map_gpu *g, const struct map_request *r)
{
	bool multi = r->gpus > 1 && !p->mps_multi_gpu;
	if (g->mig && r->gpus > 1)
		say(l, "a MIG instance: a task of %u GPUs cannot use it", r->gpus);
	else if (g->mig)
		say(l, "a MIG instance: it is not shared, and share %s is wanted; share auto takes it", share_mode_name(r->share));
	else if (g->mode == SHARE_STREAMS && g->one_process && g->n_tasks)
		say(l, "in exclusive-process mode (nvidia-smi), where tasks share it under MPS only: nothing joins until that ends");
	else if (r->share == SHARE_MIG)
		say(l, "no MIG instance, and share mig is wanted");
	else if (r->share == SHARE_MPS && (!g->mps_capable || multi))
		say(l, "no MPS server can run there%s, and share mps is wanted; share auto takes it",
		    multi ? " for a task of several GPUs" : "");
	else if (g->mode == SHARE_MPS && multi)
		say(l, "%s: a task of %u GPUs cannot join; free when its tasks end", mode_text(g), r->gpus);
	else if (g->mode == SHARE_MPS && r->share == SHARE_AUTO && p->share != SHARE_MPS)
		say(l, "%s: the policy shares by time slicing; free when its tasks end", mode_text(g));
	else if ((g->mode == SHARE_MPS || g->mode == SHARE_STREAMS) && r->share != SHARE_AUTO)
		say(l, "%s, and share %s is wanted; share auto could join", mode_text(g), share_mode_name(r->share));
	else
		say(l, "%s: nothing joins until %s", mode_text(g), g->n_tasks == 1 ? "that ends" : "they end");
}

static const char *why_idle(const struct map_policy *p, const struct map_gpu *g, const struct map_request *r)
{
	if (g->mig)
		return "a MIG instance takes one task at a time";
	if (map_gives_alone(p))
		return "the policy gives each task its own GPUs";
	if (r->exclusive || r->share == SHARE_NEVER)
		return "the task wants its GPUs alone";
	return r->start_alone ? "it ran out of memory before and starts alone" : "an idle GPU is wanted";
}

/* What is wanted, and what it is made of. */
static void say_want(struct explain_line *l, const struct map_request *r, const struct map_finding *f)
{
	double slack = f->want - (double)r->claim_mib;
	say(l, "%s available, %s wanted (", SIZE(f->have), SIZE(f->want));
	if (!r->claim_mib)
		say(l, "no estimate: min_free)");
	else if (slack > 0)
		say(l, "claim %s + slack %s)", SIZE(r->claim_mib), SIZE(slack));
	else
		say(l, "claim %s%s)", SIZE(r->claim_mib), slack < 0 ? ", cut to what there is" : "");
}

static void say_memory(struct explain_line *l, const struct map_policy *p, const struct map_gpu *g, const struct map_request *r,
		       const struct map_finding *f)
{
	uint64_t claim = map_claim_mib(p, r);
	double slack = f->want - (double)claim;
	if (!g->total_mib) {
		say(l, "its memory cannot be read; see `rad doctor`");
		return;
	}
	say_want(l, r, f);
	say(l, ": %s short", SIZE(f->want - f->have));
	if (claim > g->total_mib)
		say(l, "; it has %s when empty", SIZE(g->total_mib));
	else if (!r->claim_mib)
		say(l, "; a declared --gpu-mem of less could fit");
	else if (f->have > slack)
		say(l, "; a claim of up to %s would fit now", SIZE(f->have - slack));
	else
		say(l, "; fits when tasks there end");
}

static void say_capture(struct explain_line *l)
{
	say(l, "a task has just started there without its capture, which is still being made; fits, if it does, once that is there or "
	    "the task was seen");
}

static void say_load(struct explain_line *l, const struct map_gpu *g, const struct map_finding *f)
{
	bool mps = f->mode == SHARE_MPS;
	const char *until = g->unseen ? "tasks of unknown load have just started there; asked again once they were seen" :
					"fits when the load falls or a task ends";
	say(l, "%s %.2f%s, at most %.2f to join (%s): %s", mps ? "SMACT" : "GRACT", f->have, g->unseen ? " is expected" : "", f->want,
	    mps ? "max_smact" : "max_gract", until);
}

static void say_slowdown(struct explain_line *l, const struct map_finding *f)
{
	say(l, "a task would run %.2f times slower than alone, and at most %.2f is allowed (max_slowdown): fits when a task there "
	    "ends", f->have, f->want);
}

static void say_gain(struct explain_line *l, const struct map_finding *f)
{
	say(l, "beside the tasks there %.0f %% of its work would be gained, at least %.0f %% is wanted (min_gain): fits when one ends",
	    f->have * 100, f->want * 100);
}

static void say_cores(struct explain_line *l, const struct map_cores *c, const struct map_finding *f)
{
	say(l, "running tasks need %.1f of %g cores and this one about %.1f: it would gain %.2f of a task here, more than "
	       "%.2f is wanted (max_cpu): fits when cores get free, or on an idle GPU", c->need, c->have, c->more, f->have, f->want);
}

/* As text that lives as long as the full expression it stands in. */
#define IN_ABOUT(s) in_about((s), (char[48]){ "" }, 48)

static const char *in_about(double s, char *text, size_t size)
{
	unsigned minutes = (unsigned)fmin(s / 60, 1e6);
	if (!minutes)
		return "within a minute";
	if (minutes < 60)
		snprintf(text, size, "in about %u min", minutes);
	else
		snprintf(text, size, "in about %u h %u min", minutes / 60, minutes % 60);
	return text;
}

static const char *span(double s, char *text, size_t size)
{
	unsigned minutes = (unsigned)fmin(fmax(s, 0) / 60, 1e7);
	if (s < 60)
		snprintf(text, size, "%.0f s", fmax(s, 0));
	else if (minutes < 60)
		snprintf(text, size, "%u min", minutes);
	else
		snprintf(text, size, "%u h %u min", minutes / 60, minutes % 60);
	return text;
}

/* As text that lives as long as the full expression it stands in. */
#define SPAN(s) span((s), (char[48]){ "" }, 48)

static void say_later(struct explain_line *l, const struct map_request *r, const struct map_finding *f)
{
	if (!isfinite(f->want) && r->gpus > 1)	/* perhaps nobody goes first, and it waits for another of its GPUs */
		say(l, "fits, but the plan has it start on its %u GPUs together, %s", r->gpus, IN_ABOUT(r->planned_s));
	else if (!isfinite(f->want))
		say(l, "fits, but the plan has others start before it; its turn comes %s", IN_ABOUT(r->planned_s));
	else if (f->want > 1)
		say(l, "fits, but beside the %.0f tasks there it would mostly slow them: the plan has it start beside %.0f at most, %s",
		    f->have, f->want - 1, IN_ABOUT(r->planned_s));
	else
		say(l, "fits, but it would mostly slow who runs there: the plan has it start when no task does, %s", IN_ABOUT(r->planned_s));
}

/* have: until it begins; want: what the task may take, or how long it is reserved still. */
static void say_reserved(struct explain_line *l, const struct map_policy *p, const struct map_finding *f)
{
	if (f->have <= 0) {
		say(l, "reserved for another user, for %s more", SPAN(f->want));
		return;
	}
	say(l, "reserved for another user in %s, and ", SPAN(f->have));
	if (f->want > 0)
		say(l, "the task may take %s:", SPAN(f->want));
	else
		say(l, "nobody knows how long the task takes: such tasks do not start in the last %s before a reservation (reserve_lead);",
		    SPAN((double)p->reserve_lead_ms / 1000));
	say(l, " a --time of up to %s would fit", SPAN(f->have));
}

static void say_ok(struct explain_line *l, const struct map_policy *p, const struct map_gpu *g, const struct map_request *r,
		   const struct map_finding *f)
{
	say(l, "fits: ");
	say_want(l, r, f);
	say(l, "; would run as %s", f->mode == SHARE_NEVER ? "exclusive" : share_mode_name(f->mode));
	if (map_row_of(p)->company && map_has_company(r, g))
		say(l, "; tasks of its feed run there, so it is taken before GPUs that are better by %.0f %% at most", MAP_COMPANY * 100);
}

char *map_explain(const struct map_policy *p, const struct map_gpu *g, const struct map_request *r,
		  const struct map_finding *f, char *buf, size_t size)
{
	struct explain_line l = { buf, size, 0 };
	char task[TASK_ID_TEXT], number[GPU_NUMBER_LEN];
	if (size)
		*buf = '\0';
	reading_number(g->index, g->mig, g->instance, number);
	say(&l, "GPU %s", number);
	if (g->stale && g->uuid)	/* another may have its number */
		say(&l, " %.12s", g->uuid);
	say(&l, ": ");
	switch (f->reason) {
	case MAP_OK: say_ok(&l, p, g, r, f); break;
	case MAP_DRAINED: say(&l, "drained by an administrator; `rad undrain %s` puts it back", number); break;
	case MAP_STALE: say(&l, "it does not answer, or its last reading is too old; see `rad doctor`"); break;
	case MAP_CONSTRAINT:
		say(&l, "%s with %s: not what is asked for (%s%s%s)", g->name ? g->name : "a GPU", SIZE(g->total_mib),
		    r->model ? r->model : "", r->model && r->constraint ? ", " : "", r->constraint ? r->constraint : "");
		break;
	case MAP_KEPT: say(&l, "kept free for task %s, which goes first", task_id_text(g->kept_for, task)); break;
	case MAP_RESERVED: say_reserved(&l, p, f); break;
	case MAP_ELSEWHERE:
		say(&l, "not here: the plan has it start on %s, %s", r->gpus == 1 ? "another GPU" : "other GPUs", IN_ABOUT(r->planned_s));
		break;
	case MAP_LATER: say_later(&l, r, f); break;
	case MAP_MODE: say_mode(&l, p, g, r); break;
	case MAP_USER: say_user(&l, g, r); break;
	case MAP_TURN:
		say(&l, "task %s of user %u waits for the MPS server there to be free, and goes first", task_id_text(g->turn_task, task),
		    (unsigned)g->turn_uid);
		break;
	case MAP_FOREIGN:
		if (g->claimed_mib)
			say(&l, "another daemon of this machine has tasks there (rad gpus -v); ");
		say(&l, "processes that are not ours hold %s; above %s a GPU is %s", SIZE(f->have), SIZE(f->want),
		    p->foreign_share ? "not idle" : "not used (foreign: share would allow it)");
		break;
	case MAP_BUSY:
		say(&l, "%u task%s there, and %s", g->n_tasks, g->n_tasks == 1 ? " runs" : "s run", why_idle(p, g, r));
		break;
	case MAP_SETTLING: say(&l, "a task has ended there and its memory is not yet seen to be free; a few seconds"); break;
	case MAP_COLD:
		say(&l, "another task without an estimate has just started there, and neither a third of the GPU for each is left, nor "
			"what so many usually take together; fits once it is warm, or with --gpu-mem");
		break;
	case MAP_CAPTURE: say_capture(&l); break;
	case MAP_MEMORY: say_memory(&l, p, g, r, f); break;
	case MAP_UNSEEN:
		say(&l, "shared by time slicing, and a task of unknown load has just started there: asked again once that was seen");
		break;
	case MAP_LOAD: say_load(&l, g, f); break;
	case MAP_TASKS:
		say(&l, "%.0f tasks run there and its load is not known (yet); at most %.0f then (max_tasks)", f->have, f->want);
		break;
	case MAP_SLOWDOWN: say_slowdown(&l, f); break;
	case MAP_GAIN: say_gain(&l, f); break;
	case MAP_CORES: say_cores(&l, &r->cores, f); break;
	case MAP_TOO_FEW: say(&l, "fits, but %.0f of %.0f GPUs fit at once", f->have, f->want); break;
	case MAP_REASON_COUNT: break;
	}
	return buf;
}
