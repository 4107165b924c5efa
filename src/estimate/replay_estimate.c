/* SPDX-License-Identifier: MIT
 *
 * `replay`: a capture of the task, replayed under the allocator configuration of its environment, plus fixed costs.
 *
 * The environment is the task's, as it will run: it decides over the allocator's settings and the libraries' workspaces,
 * which is why the same capture can have different estimates for two submitters. A capture that says of itself that it does
 * not tell all (`doubts`) gets a wide margin and no fence: enforcing a figure that may be too small would make the doubt
 * come true. But with cudnn.benchmark, which takes what is free for sure, only what has no bound goes without a fence.
 */
#include "estimate/table.h"

#include "base/scope.h"
#include "base/text.h"
#include "base/units.h"
#include "estimate/replay.h"
#include "models/margins.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SPARED 1.5	/* times what it would be otherwise, that is worth telling */

_Static_assert(CAPTURE_MAX_BYTES / 3 * 4 <= SPEC_MAX_CAPTURE, "a spec has room for every capture, in base64");

static const char *replay_variable(const struct spec *s, const char *name)
{
	size_t n = strlen(name);

	for (char **v = s->environ; v && *v; v++)
		if (!strncmp(*v, name, n) && (*v)[n] == '=')
			return *v + n + 1;
	return NULL;
}

/* The task's environment decides; where it says nothing, what the capture found. */
static int replay_configure(const struct spec *s, const struct capture *c, struct alloc_conf *conf, struct error *err)
{
	const char *text;

	if (alloc_conf_choose(replay_variable(s, "PYTORCH_CUDA_ALLOC_CONF"), replay_variable(s, "PYTORCH_ALLOC_CONF"), &text, err))
		return -1;
	return alloc_conf_parse(text ? text : c->alloc_conf, alloc_torch_parse(c->torch), conf, err);
}

/* What it keeps of all its steps, in bytes, as far as it keeps something of each. */
static uint64_t replay_grown(const struct capture *c)
{
	uint64_t steps = c->steps ? c->steps : MARGIN_GROWN_STEPS;

	return c->growth > CAPTURE_MAX_LIVE / steps ? CAPTURE_MAX_LIVE : c->growth * steps;
}

/* What makes the capture less than the whole story: those without a bound first. No text: nothing does. */
struct replay_doubt {
	bool is;
	bool open;		/* what comes may be of any size; else other sizes of what was seen */
	const char *what;
};

static struct replay_doubt replay_doubt(const struct capture *c, const struct alloc_conf *conf, const struct replay_figures *f,
					uint64_t grown)
{
	const struct replay_doubt doubts[] = {
		{ f->capped, true, "its own per_process_memory_fraction is too small" },
		{ c->flags & CAPTURE_CUT_SHORT, true, "the capture was cut short" },
		{ c->flags & CAPTURE_UNKNOWN_OP, true, "it runs operators that are not known" },
		{ (double)grown > MARGIN_GROWN * (double)(f->high + f->fixed), true, "its memory grows from iteration to iteration" },
		{ c->iterations < 3, true, "fewer than 3 iterations were captured" },
		{ conf->async, true, "cudaMallocAsync is not simulated" },
		{ c->flags & CAPTURE_COMPILED, false, "it is compiled, the eager run was captured" },
		{ c->flags & CAPTURE_DATA_DEPENDENT, false, "what it runs depends on its data" },
		{ c->flags & CAPTURE_VARIABLE_SHAPES, false, "its shapes vary" },
		{ c->flags & CAPTURE_MAY_LEARN, false, "layers that do not learn may do so later" },
	};

	for (size_t i = 0; i < COUNT_OF(doubts); i++)
		if (doubts[i].is)
			return doubts[i];
	return (struct replay_doubt){ false };
}

static uint64_t replay_mib(uint64_t bytes)
{
	return (bytes + MIB - 1) / MIB;
}

static void replay_tell(const struct capture *c, const struct replay_figures *f, const struct overheads *o,
			const struct replay_doubt *doubt, struct estimate_result *out)
{
	int n = snprintf(out->note, sizeof out->note, "replay: %llu MiB reserved for %llu in use, %llu outside (%s)",
			 (unsigned long long)replay_mib(f->comfort), (unsigned long long)replay_mib(f->allocated),
			 (unsigned long long)replay_mib(f->fixed), o->card[0] ? o->card : "card not known");
	const char *more[] = {
		doubt->is ? doubt->what : NULL,
		!(c->flags & CAPTURE_CUDNN_BENCHMARK) ? NULL : out->value.fenced ? "cudnn.benchmark takes more where nothing limits it" :
			"cudnn.benchmark takes what is free",
	};

	if (f->scratch && n > 0 && (size_t)n < sizeof out->note)
		n += snprintf(out->note + n, sizeof out->note - (size_t)n, ", up to %llu for a convolution by rules",
			      (unsigned long long)replay_mib(f->scratch));
	for (size_t i = 0; i < COUNT_OF(more); i++)
		if (more[i] && n > 0 && (size_t)n < sizeof out->note)
			n += snprintf(out->note + n, sizeof out->note - (size_t)n, "; %s", more[i]);
}

/* What the job would take in all if PyTorch kept what it was given back in one range, and not a block for each size that was
 * ever asked for; 0: little less, or it does so. Only where much of what is reserved is not in use. */
static uint64_t replay_spared(const struct capture *c, const struct alloc_conf *conf, const struct replay_environment *env,
			      const struct overheads *o, uint64_t total, const struct replay_figures *f)
{
	struct alloc_conf expandable = *conf;
	struct replay_figures spared;
	uint64_t bytes;

	if (conf->expandable || conf->async || (double)f->comfort < SPARED * (double)f->allocated)
		return 0;
	expandable.expandable = true;
	if (replay_capture(c, &expandable, env, o, total, &spared, NULL))
		return 0;
	bytes = spared.comfort + spared.fixed;
	return (double)(f->comfort + f->fixed) < SPARED * (double)bytes ? 0 : bytes;
}

static void replay_tell_spared(uint64_t bytes, struct estimate_result *out)
{
	size_t n = strlen(out->note);

	if (bytes)
		snprintf(out->note + n, sizeof out->note - n, "; %llu MiB with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
			 (unsigned long long)replay_mib(bytes));
}

/* What grows little is added: a doubt would cost more. */
static void replay_conclude(const struct capture *c, const struct replay_figures *f, uint64_t grown,
			    const struct replay_doubt *doubt, double learnt, struct estimate_result *out)
{
	struct estimate *e = &out->value;
	double own = f->scratch ? MARGIN_REPLAY_CONVOLUTIONS : MARGIN_REPLAY;
	double margin = doubt->is ? fmax(MARGIN_REPLAY_DOUBTFUL, learnt) : learnt > 0 ? learnt : own;
	uint64_t more, high;

	e->comfort_mib = replay_mib(f->comfort + f->fixed);
	e->need_mib = replay_mib(f->need + f->fixed);
	if (e->need_mib > e->comfort_mib)
		e->need_mib = e->comfort_mib;	/* `need` lies on the grid, `comfort` does not have to */
	high = replay_mib(f->high + f->fixed);
	more = (uint64_t)((double)high * margin) + 1;
	e->claim_mib = high + more + (doubt->is ? 0 : replay_mib(grown));
	e->fenced = e->enforced_for_life = !doubt->is || (!doubt->open && c->flags & CAPTURE_CUDNN_BENCHMARK);
	out->low_mib = e->comfort_mib > more ? e->comfort_mib - more : 0;
	out->high_mib = e->claim_mib;
}

static int replay_estimate(const struct spec *s, const struct estimate_context *c, struct estimate_result *out,
			   struct error *err)
{
	const struct overheads *o = replay_overheads(c->gpu_name);
	scoped_capture capture = { 0 };
	const struct replay_environment env = {
		replay_variable(s, "CUBLAS_WORKSPACE_CONFIG"), replay_variable(s, "CUBLASLT_WORKSPACE_SIZE"),
		replay_variable(s, "TORCH_CUBLASLT_UNIFIED_WORKSPACE"),
	};
	struct replay_figures figures;
	struct alloc_conf conf;
	struct replay_doubt doubt;
	uint64_t grown;

	if (capture_read_text(s->capture, &capture, err) || replay_configure(s, &capture, &conf, err) ||
	    replay_capture(&capture, &conf, &env, o, c->gpu_total_mib * MIB, &figures, err))
		return -1;
	grown = replay_grown(&capture);
	doubt = replay_doubt(&capture, &conf, &figures, grown);
	replay_conclude(&capture, &figures, grown, &doubt, c->margin, out);
	replay_tell(&capture, &figures, o, &doubt, out);
	replay_tell_spared(replay_spared(&capture, &conf, &env, o, c->gpu_total_mib * MIB, &figures), out);
	return 0;
}

/* One that is being made is waited for by whoever asks. */
bool estimate_has_capture(const struct spec *s)
{
	return s->capture || s->capture_until_s;
}

bool estimate_replay(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out)
{
	struct error err = ERROR_INIT;

	(void)declared_mib;
	if (!s->capture) {
		snprintf(out->note, sizeof out->note, "no capture (capture: FILE, --capture FILE)");
		return false;
	}
	if (!replay_estimate(s, c, out, &err))
		return true;
	text_printf(out->note, sizeof out->note, "%.*s", (int)sizeof out->note - 1, err.text);
	return false;
}
