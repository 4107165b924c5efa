/* SPDX-License-Identifier: MIT
 * Placement as tables of situations, each a line of words (see the three readers below): policy, request, GPUs, and what comes
 * out: "slots mode claim", or the reason of every GPU. GPUs have 40448 MiB (an A100-40G less the driver's reserve) unless said.
 */
#include "map/map.h"

#include "base/scope.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define EMPTY 40448
#define MAX_ROW_GPUS 4

/* The value of `word` if it is "key=value" or "key", else NULL. */
static const char *value_of(const char *word, const char *key)
{
	size_t n = strlen(key);
	if (strncmp(word, key, n) || (word[n] && word[n] != '='))
		return NULL;
	return word[n] ? word + n + 1 : word + n;
}

static uint64_t number(const char *v) { return strtoull(v, NULL, 10); }
static double limit(const char *v) { return strcmp(v, "off") ? strtod(v, NULL) : NAN; }

static enum share_mode mode(const char *v)
{
	enum share_mode m = SHARE_AUTO;
	assert_int_equal(share_mode_parse(v, &m, NULL), 0);
	return m;
}

/* "GRACT:SMACT" or "GRACT:SMACT:LIMIT" */
static struct map_tenant tenant(const char *v)
{
	struct map_tenant t = { { NAN, NAN }, 0 };
	assert_true(sscanf(v, "%lf:%lf:%lf", &t.load.gract, &t.load.smact, &t.max_slowdown) >= 2);
	return t;
}

static enum map_rank rank_of(const char *word)
{
	unsigned r = 0;
	while (r < MAP_RANK_COUNT && strcmp(word, map_rank_name((enum map_rank)r)))
		r++;
	assert_true(r < MAP_RANK_COUNT);
	return (enum map_rank)r;
}

static void read_policy(const char *word, struct map_policy *p)
{
	const char *v;
	if ((v = value_of(word, "rank")))
		p->rank = rank_of(v);
	else if ((v = value_of(word, "share")))
		p->share = mode(v);
	else if ((v = value_of(word, "smact")))
		p->max_smact = limit(v);
	else if ((v = value_of(word, "gract")))
		p->max_gract = limit(v);
	else if ((v = value_of(word, "min")))
		p->min_free_mib = number(v);
	else if ((v = value_of(word, "slack")))
		p->slack_mib = number(v);
	else if ((v = value_of(word, "slower")))
		p->max_slowdown = limit(v);
	else if ((v = value_of(word, "gain")))
		p->min_gain = limit(v);
	else if ((v = value_of(word, "tasks")))
		p->max_tasks = (unsigned)number(v);
	else if (value_of(word, "foreign"))
		p->foreign_share = true;
	else if (value_of(word, "narrow"))
		p->mps_multi_gpu = false;
	else
		fail_msg("policy: %s", word);
}

static void read_request(const char *word, struct map_request *r)
{
	const char *v;
	if ((v = value_of(word, "gpus")))
		r->gpus = (unsigned)number(v);
	else if ((v = value_of(word, "claim")))
		r->claim_mib = number(v);
	else if ((v = value_of(word, "need")))
		r->need_mib = number(v);
	else if ((v = value_of(word, "share")))
		r->share = mode(v);
	else if ((v = value_of(word, "uid")))
		r->uid = (uid_t)number(v);
	else if ((v = value_of(word, "self")))
		r->self = tenant(v);
	else if ((v = value_of(word, "task")))
		r->task = TASK_ID(number(v), -1);
	else if (value_of(word, "declared"))
		r->claim_is_declared = true;
	else if (value_of(word, "exclusive"))
		r->exclusive = true;
	else if (value_of(word, "start"))
		r->start_alone = true;
	else if ((v = value_of(word, "company")))
		r->company.slots[r->company.n++] = (uint32_t)number(v);
	else
		fail_msg("request: %s", word);
}

/* Who is there, of the GPUs of one row. */
static struct map_tenant tenants[MAX_ROW_GPUS][4];

/* One more task. */
static void read_tenant(const char *v, struct map_gpu *g)
{
	struct map_tenant *t = &tenants[g->index][g->n_tasks++];
	*t = tenant(v);
	g->tenants = tenants[g->index];
	g->has_limit = g->has_limit || t->max_slowdown > 0;
}

static bool read_gpu_flag(const char *word, struct map_gpu *g)
{
	const struct { const char *key; bool *flag; bool to; } flags[] = {
		{ "drained", &g->drained, true }, { "stale", &g->stale, true },
		{ "settling", &g->settling, true }, { "unseen", &g->unseen, true },
		{ "multi", &g->has_multi_gpu, true }, { "mig", &g->mig, true },
		{ "nomps", &g->mps_capable, false }, { "oneprocess", &g->one_process, true }, { "empty", &(bool){ false }, false },
	};
	for (size_t i = 0; i < COUNT_OF(flags); i++) {
		if (strcmp(word, flags[i].key))
			continue;
		*flags[i].flag = flags[i].to;
		return true;
	}
	return false;
}

static void read_gpu(const char *word, struct map_gpu *g)
{
	const char *v;
	if ((v = value_of(word, "total")))
		g->total_mib = g->available_mib = number(v);
	else if ((v = value_of(word, "free")))
		g->available_mib = number(v);
	else if ((v = value_of(word, "streams")) || (v = value_of(word, "mps")) || (v = value_of(word, "never"))) {
		g->n_tasks = (unsigned)number(v);
		g->mode = *word == 's' ? SHARE_STREAMS : *word == 'm' ? SHARE_MPS : SHARE_NEVER;
	} else if ((v = value_of(word, "has")))
		read_tenant(v, g);
	else if ((v = value_of(word, "uid")))
		g->mps_uid = (int64_t)number(v);
	else if ((v = value_of(word, "smact")))
		g->load.smact = limit(v), g->load.smact_known = strcmp(v, "off") != 0;
	else if ((v = value_of(word, "gract")))
		g->load.gract = limit(v), g->load.gract_known = strcmp(v, "off") != 0;
	else if ((v = value_of(word, "other")))
		g->foreign_mib = number(v);
	else if ((v = value_of(word, "cold")))
		g->n_cold = (unsigned)number(v);
	else if ((v = value_of(word, "kept")))
		g->kept_for = TASK_ID(number(v), -1);
	else if (!read_gpu_flag(word, g))
		fail_msg("gpu: %s", word);
}

#define READ(text, reader, object) do { \
	char copy_[256], *save_ = NULL; \
	snprintf(copy_, sizeof copy_, "%s", (text) ? (text) : ""); \
	for (char *w_ = strtok_r(copy_, " ", &save_); w_; w_ = strtok_r(NULL, " ", &save_)) \
		reader(w_, object); \
} while (0)

static struct map_gpu gpu(uint32_t i)
{
	return (struct map_gpu){
		.slot = 10 + i, .index = i, .uuid = "GPU-00000000-1111", .total_mib = EMPTY, .available_mib = EMPTY,
		.load = { 0, 0, true, true }, .mps_uid = 1000, .mps_capable = true,
	};
}

struct row {
	const char *what, *policy, *request, *gpu[MAX_ROW_GPUS], *comes;
};

/* "0 mps 20000" or the reasons. */
static void result_text(bool placed, const struct placement *out, const struct map_finding *f, size_t n, char *text,
			size_t size)
{
	size_t len = 0;
	*text = '\0';
	if (!placed) {
		for (size_t i = 0; i < n; i++)
			len += (size_t)snprintf(text + len, size - len, "%s%s", i ? " " : "", map_reason_word(f[i].reason));
		return;
	}
	for (unsigned i = 0; i < out->n; i++)
		len += (size_t)snprintf(text + len, size - len, "%s%u", i ? "," : "", out->slots[i] - 10);
	snprintf(text + len, size - len, " %s %ju", share_mode_name(out->mode), (uintmax_t)out->claim_mib);
}

static size_t read_row(const struct row *row, struct map_policy *p, struct map_request *r, struct map_gpu *g)
{
	*p = map_policy_default();
	p->rank = RANK_MAGM;
	*r = (struct map_request){ .task = TASK_ID(1, -1), .gpus = 1, .uid = 1000, .self.load = { NAN, NAN } };
	READ(row->policy, read_policy, p);
	READ(row->request, read_request, r);
	size_t n = 0;
	for (; n < MAX_ROW_GPUS && row->gpu[n]; n++) {
		g[n] = gpu((uint32_t)n);
		READ(row->gpu[n], read_gpu, &g[n]);
	}
	return n;
}

static void check_row(const struct row *row)
{
	struct map_policy p;
	struct map_request r;
	struct map_gpu g[MAX_ROW_GPUS];
	struct map_finding f[MAX_ROW_GPUS];
	struct placement out;
	uint32_t turn = 0;
	char text[200];
	size_t n = read_row(row, &p, &r, g);
	bool placed = map_place(&p, g, n, &r, &turn, &out, f);
	result_text(placed, &out, f, n, text, sizeof text);
	if (strcmp(text, row->comes))
		fail_msg("%s: got '%s', not '%s'", row->what, text, row->comes);
}

#define CHECK(rows) do { \
	(void)state; \
	for (size_t i_ = 0; i_ < COUNT_OF(rows); i_++) \
		check_row(&(rows)[i_]); \
} while (0)

static void memory(void **state)
{
	static const struct row rows[] = {
		{ "plain", "", "claim=12578", { "empty" }, "0 mps 12578" },
		{ "exact fit with slack", "", "claim=10000", { "mps=1 free=12048" }, "0 mps 10000" },
		{ "1 MiB short", "", "claim=10000", { "mps=1 free=12047" }, "Memory" },
		{ "2 GiB of slack, section 6.3.3", "slack=2048", "claim=15120", { "mps=1 free=17168" }, "0 mps 15120" },
		{ "slack off", "slack=0", "claim=10000", { "mps=1 free=10000" }, "0 mps 10000" },
		{ "slack is not asked of an idle GPU", "", "claim=39424 declared", { "empty" }, "0 mps 39424" },
		{ "all of an idle GPU", "", "claim=40448 declared", { "empty" }, "0 mps 40448" },
		{ "1 MiB above it, declared", "", "claim=40449 declared", { "empty" }, "Memory" },
		{ "1 MiB above it, estimated: cut, and alone", "", "claim=40449", { "empty" }, "0 never 40448" },
		{ "an estimate above, where something runs", "", "claim=50000", { "mps=1 free=30000" }, "Memory" },
		{ "an estimate above, a little foreign memory", "", "claim=50000", { "free=39448 other=1000" }, "0 never 39448" },
		{ "an estimate just below, a little foreign memory", "", "claim=40000", { "free=39448 other=1000" },
		  "0 never 39448" },
		{ "... goes where it fits first", "rank=ff", "claim=40000", { "free=39448 other=1000", "empty" }, "1 mps 40000" },
		{ "a large estimate waits for a large GPU", "", "claim=60000", { "empty", "total=81408 mps=1 free=50000" },
		  "Memory Memory" },
		{ "... and takes it", "", "claim=60000", { "empty", "total=81408" }, "1 mps 60000" },
		{ "... unless that one is gone", "", "claim=60000", { "empty", "total=81408 stale" }, "0 never 40448" },
		{ "... but not if it is drained", "", "claim=60000", { "empty", "total=81408 drained" }, "Memory Drained" },
		{ "above all: the largest only", "rank=mug", "claim=90000", { "empty", "total=81408" }, "1 never 81408" },
		{ "GPUs of one model differ a little", "rank=ff", "claim=90000", { "total=81000", "total=81408" },
		  "0 never 81000" },
		{ "... and other models more", "rank=ff", "claim=90000", { "total=77000", "total=81408" }, "1 never 81408" },
		{ "no estimate asks for 5 GiB", "", "", { "mps=1 free=5120" }, "0 mps 5120" },
		{ "1 MiB less", "", "", { "mps=1 free=5119" }, "Memory" },
		{ "no estimate on a small idle GPU", "", "", { "total=4864" }, "0 never 4864" },
		{ "min_free off", "min=0", "", { "mps=1 free=10" }, "0 mps 0" },
		{ "without an estimate beside another, not yet warm: two thirds", "", "", { "mps=1 free=26966 cold=1" }, "0 mps 5120" },
		{ "... of the whole GPU", "", "", { "mps=1 free=26965 cold=1" }, "Cold" },
		{ "... for three there is no room that could be left", "", "", { "mps=2 free=40447 cold=2" }, "Cold" },
		{ "one with an estimate may join them", "", "claim=8000", { "mps=1 free=12000 cold=1" }, "0 mps 8000" },
		{ "a claim that would wrap", "", "claim=18446744073709551615 declared", { "mps=1 free=5000" }, "Memory" },
		{ "its memory is not free yet", "", "claim=39000", { "free=20000 settling" }, "Settling" },
		{ "... which is no obstacle where there is room", "", "claim=10000", { "free=20000 settling" }, "0 mps 10000" },
		{ "... and no promise where there never is", "", "claim=50000 declared", { "free=20000 settling" }, "Memory" },
		{ "nothing left beside what settles", "", "claim=50000", { "free=0 settling" }, "Settling" },
	};
	CHECK(rows);
}

static void load(void **state)
{
	static const struct row rows[] = {
		{ "SMACT at 80 %", "", "claim=5000", { "mps=1 smact=0.8 gract=1" }, "0 mps 5000" },
		{ "SMACT above", "", "claim=5000", { "mps=1 smact=0.801 gract=0.1" }, "Load" },
		{ "GRACT at 90 %", "", "claim=5000", { "streams=1 smact=1 gract=0.9" }, "0 streams 5000" },
		{ "GRACT above", "", "claim=5000", { "streams=1 smact=0.1 gract=0.91" }, "Load" },
		{ "idle: what its last task left does not count", "", "claim=5000", { "smact=1 gract=1" }, "0 mps 5000" },
		{ "SMACT off", "smact=off", "claim=5000", { "mps=1 smact=1" }, "0 mps 5000" },
		{ "GRACT off", "gract=off", "claim=5000", { "streams=1 gract=1" }, "0 streams 5000" },
		{ "off for one mode is not off for the other", "smact=off", "claim=5000", { "streams=1 gract=1" }, "Load" },
		{ "unknown: one more", "", "claim=5000", { "mps=1 smact=off" }, "0 mps 5000" },
		{ "unknown: as many as allowed", "", "claim=5000", { "mps=2 smact=off" }, "MaxTasks" },
		{ "GRACT known does not help under MPS", "", "claim=5000", { "mps=2 smact=off gract=0.1" }, "MaxTasks" },
		{ "known: any number", "", "claim=5000", { "mps=9 smact=0.1" }, "0 mps 5000" },
		{ "max_tasks off", "tasks=0", "claim=5000", { "mps=9 smact=off" }, "0 mps 5000" },
		{ "limits off leave max_tasks", "smact=off gract=off", "claim=5000", { "mps=2 smact=off" }, "MaxTasks" },
		{ "all off", "smact=off gract=off tasks=0 min=0 slack=0", "", { "streams=7 free=1 smact=off gract=off" },
		  "0 streams 0" },
	};
	CHECK(rows);
}

static void modes(void **state)
{
	static const struct row rows[] = {
		{ "auto under an MPS policy", "", "claim=5000", { "empty" }, "0 mps 5000" },
		{ "... where there is no MPS", "", "claim=5000", { "nomps" }, "0 streams 5000" },
		{ "auto under a streams policy", "share=streams", "claim=5000", { "empty" }, "0 streams 5000" },
		{ "auto takes the mode it finds", "", "claim=5000", { "streams=1" }, "0 streams 5000" },
		{ "but not MPS against the policy", "share=streams", "claim=5000", { "mps=1" }, "Mode" },
		{ "mps insists", "share=streams", "claim=5000 share=mps", { "streams=1", "mps=1 free=9000" }, "1 mps 5000" },
		{ "mps waits", "", "claim=5000 share=mps", { "streams=1", "nomps", "never=1" }, "Mode Mode Mode" },
		{ "streams insists", "", "claim=5000 share=streams", { "mps=1", "streams=1 free=9000" }, "1 streams 5000" },
		{ "streams on an idle GPU", "", "claim=5000 share=streams", { "empty" }, "0 streams 5000" },
		{ "nobody joins an exclusive task", "", "claim=5000", { "never=1" }, "Mode" },
		{ "of one process: under MPS as ever", "", "claim=5000", { "oneprocess" }, "0 mps 5000" },
		{ "... in slices first", "", "claim=5000 share=streams", { "oneprocess" }, "0 streams 5000" },
		{ "... and no more", "", "claim=5000 share=streams", { "streams=1 oneprocess", "streams=1 free=9000" }, "1 streams 5000" },
		{ "exclusive needs idle GPUs", "", "claim=5000 exclusive", { "mps=1", "streams=1", "never=1" },
		  "Busy Busy Busy" },
		{ "exclusive", "", "claim=5000 exclusive", { "mps=1", "empty" }, "1 never 5000" },
		{ "share never is exclusive", "", "claim=5000 share=never", { "mps=1", "empty" }, "1 never 5000" },
		{ "exclusive is not yet idle", "", "claim=5000 exclusive", { "settling" }, "Settling" },
		{ "recovery starts alone, and shares later", "", "claim=5000 start", { "mps=1", "empty" }, "1 mps 5000" },
		{ "recovery waits", "", "claim=5000 start", { "mps=1", "never=1" }, "Busy Busy" },
		{ "policy never", "share=never", "claim=5000", { "mps=1", "empty" }, "1 never 5000" },
		{ "policy never outweighs a wish for MPS", "share=never", "claim=5000 share=mps", { "nomps" }, "0 never 5000" },
		{ "rank exclusive", "rank=exclusive", "claim=5000", { "streams=1", "empty" }, "1 never 5000" },
		{ "another user's MPS server", "", "claim=5000", { "mps=1 uid=1001" }, "MpsUser" },
		{ "... elsewhere", "", "claim=5000 uid=1001", { "mps=1", "streams=1 free=9000" }, "1 streams 5000" },
		{ "... idle, it is in nobody's way", "", "claim=5000", { "uid=1001" }, "0 mps 5000" },
	};
	CHECK(rows);
}

static void several_gpus(void **state)
{
	static const struct row rows[] = {
		{ "two at once", "", "claim=9718 gpus=2", { "empty", "empty", "empty" }, "0,1 mps 9718" },
		{ "they join MPS", "", "claim=9718 gpus=2", { "mps=1", "mps=1 multi" }, "0,1 mps 9718" },
		{ "and are joined", "", "claim=5000", { "mps=1 multi" }, "0 mps 5000" },
		{ "one of the two has another user's server", "", "claim=9718 gpus=2", { "mps=1 uid=1001", "mps=1" },
		  "MpsUser Gpus" },
		{ "one of the two cannot do MPS", "", "claim=9718 gpus=2 share=mps", { "nomps", "empty" }, "Mode Gpus" },
		{ "the best two, in one mode", "", "claim=9718 gpus=2", { "streams=1 free=20000", "empty", "streams=1 free=30000" },
		  "1,2 streams 9718" },
		{ "the mode of the policy first", "", "claim=9718 gpus=2",
		  { "streams=1 free=30000", "empty", "mps=1 free=20000", "streams=1 free=39000" }, "1,2 mps 9718" },
		{ "no mode has enough of them", "", "claim=9718 gpus=2", { "streams=1", "mps=1" }, "Gpus Gpus" },
		{ "a wish for MPS is not time-sliced", "", "claim=9718 gpus=2 share=mps", { "streams=1", "empty" }, "Mode Gpus" },
		{ "an idle GPU that cannot do MPS", "", "claim=9718 gpus=2", { "nomps", "empty" }, "0,1 streams 9718" },
		{ "one is of one process", "", "claim=9718 gpus=2 share=streams", { "oneprocess", "empty" }, "0,1 streams 9718" },
		{ "one is too few", "", "claim=9718 gpus=2", { "empty", "streams=1 free=9000" }, "Gpus Memory" },
		{ "a server for each GPU: not under MPS", "narrow", "claim=9718 gpus=2", { "empty", "empty" }, "0,1 streams 9718" },
		{ "... not onto MPS", "narrow", "claim=9718 gpus=2", { "empty", "mps=1" }, "Gpus Mode" },
		{ "... MPS not onto it", "narrow", "claim=5000 share=mps", { "streams=1 multi" }, "Mode" },
		{ "... nor were it to run under MPS", "narrow", "claim=5000", { "mps=1 multi" }, "Mode" },
		{ "auto joins it by time slicing", "", "claim=5000", { "streams=1 multi" }, "0 streams 5000" },
		{ "exclusive", "", "claim=9718 gpus=2 exclusive", { "empty", "streams=1", "empty" }, "0,2 never 9718" },
		{ "... MPS never", "narrow", "claim=9718 gpus=2 share=mps", { "empty", "empty" }, "Mode Mode" },
		{ "cut on both", "", "claim=50000 gpus=2", { "empty", "total=40440" }, "0,1 never 40440" },
		{ "cut on one: alone on both", "", "claim=40000 gpus=2", { "empty", "free=39448 other=1000" },
		  "0,1 never 39448" },
		{ "... in any order", "", "claim=40000 gpus=2", { "free=39448 other=1000", "empty" }, "1,0 never 39448" },
		{ "cut on one, and the other is shared", "", "claim=30000 gpus=2",
		  { "streams=1 free=35000", "total=30900 free=29900 other=1000" }, "Gpus Gpus" },
		{ "cut to the second largest of two", "", "claim=90000 gpus=2", { "empty", "total=81408" }, "1,0 never 40448" },
		{ "more than there are", "", "claim=100 gpus=3", { "empty", "empty" }, "Gpus Gpus" },
		{ "none at all", "", "claim=100 gpus=0", { "empty" }, "Gpus" },
		{ "too many to count", "", "claim=100 gpus=65", { "empty" }, "Gpus" },
	};
	CHECK(rows);
}

static void mig(void **state)
{
	static const struct row rows[] = {
		{ "one task", "", "claim=9000", { "mig total=9728" }, "0 mig 9000" },
		{ "one task each", "", "claim=4000", { "mig total=9728 free=5000 streams=1" }, "Busy" },
		{ "smallest instance, no estimate", "", "", { "mig total=4864" }, "0 mig 4864" },
		{ "an estimate goes where it fits", "rank=mug", "claim=15000", { "mig total=9728", "mig total=19968" },
		  "1 mig 15000" },
		{ "an estimate above all instances", "", "claim=25000", { "mig total=9728", "mig total=19968" }, "1 mig 19968" },
		{ "exclusive", "", "claim=4000 exclusive", { "mig total=9728" }, "0 mig 4000" },
		{ "share mig", "", "claim=4000 share=mig", { "empty", "mig total=9728" }, "1 mig 4000" },
		{ "share mps or streams does not take it", "", "claim=4000 share=mps", { "mig total=9728" }, "Mode" },
		{ "... streams", "", "claim=4000 share=streams", { "mig total=9728" }, "Mode" },
		{ "several at once are no use", "", "claim=4000 gpus=2", { "mig total=9728", "mig total=9728" }, "Mode Mode" },
	};
	CHECK(rows);
}

static void who_may_not(void **state)
{
	static const struct row rows[] = {
		{ "drained", "", "claim=5000", { "drained" }, "Drained" },
		{ "the first reason is told", "", "claim=99999 declared", { "drained stale mps=1 free=0" }, "Drained" },
		{ "stale reading, or a GPU that fell off the bus", "", "claim=5000", { "stale", "free=9000" }, "1 mps 5000" },
		{ "all gone", "", "claim=5000", { "stale", "stale" }, "NoReading NoReading" },
		{ "kept for another", "", "claim=5000", { "kept=7" }, "Kept" },
		{ "kept for this one", "", "claim=5000 start task=7", { "kept=7" }, "0 mps 5000" },
		{ "kept for this one, not idle yet", "", "claim=5000 start task=7", { "kept=7 mps=1" }, "Busy" },
		{ "foreign", "", "claim=5000", { "free=20000 other=1025" }, "Foreign" },
		{ "1 GiB foreign is a desktop", "", "claim=5000 exclusive", { "free=20000 other=1024" }, "0 never 5000" },
		{ "foreign beside ours", "", "claim=5000", { "mps=1 free=20000 other=7000" }, "Foreign" },
		{ "foreign: share", "foreign", "claim=5000", { "free=20000 other=7000" }, "0 mps 5000" },
		{ "... asks for slack", "foreign", "claim=19000", { "free=20000 other=7000" }, "Memory" },
		{ "... cuts a guess whose need is there", "foreign", "claim=50000 need=17952", { "free=20000 other=20000" },
		  "0 never 20000" },
		{ "... and leaves slack beyond the need", "foreign", "claim=50000 need=17953", { "free=20000 other=20000" }, "Memory" },
		{ "... cuts none of which the need is not known", "foreign", "claim=50000", { "free=20000 other=20000" }, "Memory" },
		{ "... nor a declaration", "foreign", "claim=30000 need=9000 declared", { "free=20000 other=20000" }, "Memory" },
		{ "... nor where ours run", "foreign", "claim=50000 need=9000", { "mps=1 free=20000 other=9000" }, "Memory" },
		{ "... nor what nothing is known of", "foreign min=5000", "", { "free=4000 other=20000" }, "Memory" },
		{ "... and only on one as large as any", "foreign", "claim=50000 need=9000",
		  { "free=20000 other=20000", "total=81408 mps=1 free=30000" }, "Memory Memory" },
		{ "... rather whole, on another", "foreign rank=ff", "claim=50000 need=9000",
		  { "total=81408 free=40000 other=41408", "total=81408 free=60000 other=21408" }, "1 mps 50000" },
		{ "... and several at once", "foreign", "gpus=2 claim=30000 need=9000",
		  { "free=33000 other=7000", "free=20000 other=20000" }, "0,1 never 20000" },
		{ "... asks for load", "foreign", "claim=5000", { "free=20000 other=7000 smact=0.95" }, "Load" },
		{ "... does not become idle", "foreign", "claim=30000", { "free=20000 other=7000 settling" }, "Memory" },
		{ "... is never idle", "foreign", "claim=5000 exclusive", { "free=20000 other=7000" }, "Foreign" },
		{ "no GPUs", "", "claim=5000", { NULL }, "" },
	};
	CHECK(rows);
}

static void ranks(void **state)
{
	static const struct row rows[] = {
		{ "magm: most available", "rank=magm", "claim=5000", { "mps=1 free=20000", "mps=1 free=30000", "mps=1 free=25000" },
		  "1 mps 5000" },
		{ "magm: ties go to the lowest index", "rank=magm", "claim=5000", { "mps=1 free=20000", "empty", "empty" },
		  "1 mps 5000" },
		{ "lug: least loaded", "rank=lug", "claim=5000", { "mps=1 smact=0.5", "mps=1 smact=0.3 free=9000", "mps=1 smact=0.4" },
		  "1 mps 5000" },
		{ "lug: idle is 0, whatever the window says", "rank=lug", "claim=5000", { "mps=1 smact=0.1", "smact=0.7" },
		  "1 mps 5000" },
		{ "lug: unknown is full", "rank=lug", "claim=5000", { "mps=1 smact=off gract=off", "mps=1 smact=0.8" }, "1 mps 5000" },
		{ "lug: GRACT where SMACT is not known", "rank=lug", "claim=5000",
		  { "streams=1 smact=off gract=0.7", "streams=1 smact=off gract=0.6" }, "1 streams 5000" },
		{ "lug: fewer tasks on a tie", "rank=lug", "claim=5000", { "mps=2 smact=0.5", "mps=1 smact=0.5" }, "1 mps 5000" },
		{ "mug: least available that fits", "rank=mug", "claim=5000",
		  { "mps=1 free=20000", "mps=1 free=7048", "mps=1 free=7047" }, "1 mps 5000" },
		{ "mug: active before idle, however small that is", "rank=mug", "claim=5000", { "total=9728", "mps=1 free=30000" },
		  "1 mps 5000" },
		{ "mug: idle when nothing active fits", "rank=mug", "claim=5000", { "mps=1 free=7000", "empty" }, "1 mps 5000" },
		{ "ff: the first", "rank=ff", "claim=5000", { "mps=1 free=7000", "mps=1 free=8000", "empty" }, "1 mps 5000" },
		{ "rr from the beginning", "rank=rr", "claim=5000", { "mps=1 free=7000", "mps=1 free=8000", "empty" }, "1 mps 5000" },
	};
	CHECK(rows);
}

/* Ties go by the index that people see, not by the place in the list. */
/* Time slices give 0.92 of a GPU, and what a light task needs first. */
static void gains(void **state)
{
	static const struct row rows[] = {
		{ "all is gained on an idle GPU", "rank=gain", "claim=9 self=0.5:0.5", { "mps=0 has=0.6:0.6", "free=9000" }, "1 mps 9" },
		{ "... and where there is room", "rank=gain", "claim=9 self=0.3:0.3", { "streams=0 has=0.9:0.7", "streams=0 has=0.6:0.6" },
		  "1 streams 9" },
		{ "ties go to the most memory", "rank=gain", "claim=9 self=0.3:0.3",
		  { "streams=0 has=0.2:0.2 free=20000", "streams=0 has=0.3:0.3 free=30000" }, "1 streams 9" },
		{ "a heavy one waits for a better moment", "rank=gain", "claim=9 self=0.9:0.9", { "streams=0 has=0.9:0.9" }, "Gain" },
		{ "... and a light one brings enough", "rank=gain", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9" }, "0 streams 9" },
		{ "just enough", "rank=gain gain=0.2", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9" }, "0 streams 9" },
		{ "just not", "rank=gain gain=0.201", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9" }, "Gain" },
		{ "two fill it nearly", "rank=gain", "claim=9 self=0.4:0.4", { "streams=0 has=0.5:0.5 has=0.41:0.4" }, "Gain" },
		{ "loads that are not known are half a GPU", "rank=gain", "claim=9", { "streams=1" }, "0 streams 9" },
		{ "... so two of them fill it", "rank=gain", "claim=9", { "streams=2" }, "Gain" },
		{ "streams: switching costs more than there is left", "rank=gain gain=0", "claim=9 self=0.3:0.1",
		  { "streams=0 has=0.99:0.5" }, "Gain" },
		{ "MPS: SM activity counts", "rank=gain", "claim=9 self=0.3:0.1", { "mps=0 has=0.99:0.5" }, "0 mps 9" },
		{ "streams: GPU time does", "rank=gain", "claim=9 self=0.3:0.9", { "streams=0 has=0.5:0.5" }, "0 streams 9" },
		{ "the measured load is not asked", "rank=gain", "claim=9 self=0.3:0.3", { "mps=0 has=0.5:0.5 smact=0.99" }, "0 mps 9" },
		{ "... which others ask", "", "claim=9 self=0.3:0.3", { "mps=0 has=0.5:0.5 smact=0.99" }, "Load" },
		{ "one of unknown load has just started: the expected load counts", "rank=gain", "claim=9 self=0.9:0.9",
		  { "mps=1 unseen smact=0.5" }, "0 mps 9" },
		{ "... as it does under others", "rank=gain", "claim=9 self=0.1:0.1", { "mps=1 unseen smact=0.81" }, "Load" },
		{ "... and gain does not", "rank=gain gain=0.99", "claim=9 self=0.9:0.9", { "mps=1 unseen smact=0.5" }, "0 mps 9" },
		{ "... but a limit on the slow-down", "rank=gain slower=1.2", "claim=9 self=0.9:0.9", { "mps=1 unseen smact=0.5" },
		  "Slowdown" },
		{ "... and in slices that are the exception it is waited for", "rank=gain", "claim=9 self=0.1:0.1",
		  { "streams=1 unseen gract=0.5" }, "Unseen" },
		{ "... not by one that asks for slices", "rank=gain", "claim=9 self=0.1:0.1 share=streams", { "streams=1 unseen gract=0.5" },
		  "0 streams 9" },
		{ "... nor where slices are the rule", "rank=gain share=streams", "claim=9 self=0.1:0.1",
		  { "streams=1 unseen gract=0.5" }, "0 streams 9" },
		{ "... or all there can be", "rank=gain", "claim=9 self=0.1:0.1", { "streams=1 unseen gract=0.5 nomps" }, "0 streams 9" },
		{ "others wait there too", "", "claim=9", { "streams=1 unseen gract=0.5", "streams=1 gract=0.5 free=20000" }, "1 streams 9" },
		{ "several GPUs", "rank=gain", "claim=9 gpus=2 self=0.4:0.4",
		  { "streams=0 has=0.9:0.9", "streams=0 has=0.5:0.2", "streams=0 has=0.4:0.9 free=40447" }, "1,2 streams 9" },
	};
	CHECK(rows);
}

/* 5 % of 40448 MiB are 2022. Slots are numbered from 10. */
static void company(void **state)
{
	static const struct row rows[] = {
		{ "with those of its feed, where others have little more", "", "claim=5000 company=11",
		  { "mps=1 free=32000", "mps=1 free=30000", "mps=1 free=31000" }, "1 mps 5000" },
		{ "on a tie", "", "claim=5000 company=11", { "mps=1 free=30000", "mps=1 free=30000" }, "1 mps 5000" },
		{ "not where others have more than that", "", "claim=5000 company=11", { "mps=1 free=32023", "mps=1 free=30000" },
		  "0 mps 5000" },
		{ "nor an idle one", "", "claim=5000 company=11", { "empty", "mps=1 free=30000" }, "0 mps 5000" },
		{ "nor where it does not fit", "", "claim=5000 company=11", { "mps=1 free=7100", "mps=1 free=6000" }, "0 mps 5000" },
		{ "of several, the better one", "", "claim=5000 company=11 company=12",
		  { "mps=1 free=32000", "mps=1 free=30000", "mps=1 free=31000" }, "2 mps 5000" },
		{ "several GPUs", "", "gpus=2 claim=5000 company=12", { "mps=1 free=31000", "mps=1 free=32000", "mps=1 free=30500" },
		  "2,1 mps 5000" },
		{ "lug: 0.05 of a load", "rank=lug", "claim=5000 company=11", { "mps=1 smact=0.30", "mps=1 smact=0.34" }, "1 mps 5000" },
		{ "lug: no more", "rank=lug", "claim=5000 company=11", { "mps=1 smact=0.30", "mps=1 smact=0.36" }, "0 mps 5000" },
		{ "mug: the fuller one is the better", "rank=mug", "claim=5000 company=11", { "mps=1 free=30000", "mps=1 free=32000" },
		  "1 mps 5000" },
		{ "mug: no more", "rank=mug", "claim=5000 company=11", { "mps=1 free=30000", "mps=1 free=32023" }, "0 mps 5000" },
		{ "gain: 0.05 of its work", "rank=gain", "claim=9 self=0.3:0.3 company=11", { "empty", "streams=0 has=0.1:0.1" },
		  "1 streams 9" },
		{ "gain: no more", "rank=gain", "claim=9 self=0.3:0.3 company=11", { "empty", "streams=0 has=0.9:0.9" }, "0 mps 9" },
		{ "by position it does not count", "rank=ff", "claim=5000 company=11", { "empty", "mps=1" }, "0 mps 5000" },
	};
	CHECK(rows);
}

/* Beside a task of 0.1, one of 0.9 has 0.82 of the GPU: it takes 1.098 times as long. */
static void slow_downs(void **state)
{
	static const struct row rows[] = {
		{ "no limit", "", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9" }, "0 streams 9" },
		{ "a limit that is kept to", "slower=1.1", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9" }, "0 streams 9" },
		{ "... and one that is not", "slower=1.09", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9" }, "Slowdown" },
		{ "of the one that is there", "", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9:1.09" }, "Slowdown" },
		{ "... which beats the general one", "slower=1.09", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9:1.1" }, "0 streams 9" },
		{ "... if stricter, too", "slower=1.1", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9:1.09" }, "Slowdown" },
		{ "of the newcomer", "", "claim=9 self=0.9:0.9:1.09", { "streams=0 has=0.1:0.1" }, "Slowdown" },
		{ "... that it keeps to", "", "claim=9 self=0.9:0.9:1.1", { "streams=0 has=0.1:0.1" }, "0 streams 9" },
		{ "any of them", "", "claim=9 self=0.6:0.6", { "streams=0 has=0.1:0.1 has=0.5:0.5:1.1" }, "Slowdown" },
		{ "another GPU", "", "claim=9 self=0.9:0.9:1.1", { "streams=0 has=0.5:0.5 free=39000", "streams=0 has=0.02:0.02 free=9000" },
		  "1 streams 9" },
		{ "an idle one in any case", "slower=1", "claim=9 self=0.99:0.99:1", { "empty" }, "0 mps 9" },
		{ "two heavy ones", "", "claim=9 self=0.9:0.2:1.95", { "streams=0 has=0.9:0.2" }, "Slowdown" },
		{ "... 0.46 each", "", "claim=9 self=0.9:0.2:1.96", { "streams=0 has=0.9:0.2" }, "0 streams 9" },
		{ "MPS", "", "claim=9 self=0.9:0.9:1.5", { "mps=0 has=0.9:0.9" }, "Slowdown" },
		{ "a limit where nothing is known", "", "claim=9 self=0.5:0.5:1.08", { "streams=1" }, "Slowdown" },
		{ "before gain", "rank=gain", "claim=9 self=0.9:0.9:1.1", { "mps=0 has=0.9:0.9" }, "Slowdown" },
		{ "more tasks than can be predicted", "slower=9", "claim=9 self=0.1:0.1", { "mps=65" }, "MaxTasks" },
	};
	CHECK(rows);
}

/* Once what runs there is gone. */
static void suits(void **state)
{
	(void)state;
	static const struct { const char *request, *gpu; bool yes; } rows[] = {
		{ "claim=40000 declared", "mps=3 free=100 smact=0.99 kept=7 cold=1", true }, { "claim=41000 declared", "empty", false },
		{ "claim=41000", "mps=1", true }, { "exclusive", "never=1 settling", true }, { "claim=9", "drained", false },
		{ "claim=9", "stale", false }, { "gpus=2", "mig", false }, { "share=mig", "empty", false },
		{ "share=mig", "mig mps=1", true }, { "claim=9", "other=4000", false },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const struct row row = { .request = rows[i].request, .gpu = { rows[i].gpu } };
		struct map_policy p;
		struct map_request r;
		struct map_gpu g[MAX_ROW_GPUS];
		read_row(&row, &p, &r, g);
		if (map_suits(&p, g, 1, &r, g) != rows[i].yes)
			fail_msg("%s, %s", rows[i].request, rows[i].gpu);
	}
}

static void ties_by_index(void **state)
{
	(void)state;
	struct map_policy p = map_policy_default();
	struct map_gpu g[3] = { gpu(2), gpu(0), gpu(1) };
	struct map_request r = { .task = 1, .gpus = 2, .claim_mib = 1000 };
	struct placement out;
	uint32_t turn = 0;
	assert_true(map_place(&p, g, 3, &r, &turn, &out, NULL));
	assert_int_equal(out.slots[0], 10);
	assert_int_equal(out.slots[1], 11);
}

static void take(struct map_gpu *g, const struct placement *out)
{
	for (unsigned i = 0; i < out->n; i++) {
		struct map_gpu *at = &g[out->slots[i] - 10];
		at->n_tasks++;
		at->mode = out->mode;
		at->available_mib -= out->claim_mib;
	}
}

/* Places one task after the other and writes where they went: "0 1 2 3 -". */
static void place_all(const struct map_policy *p, struct map_gpu *g, size_t n, const uint64_t *claims, size_t tasks, char *text)
{
	uint32_t turn = 0;
	for (size_t i = 0; i < tasks; i++) {
		struct map_request r = { .task = TASK_ID(i + 1, -1), .gpus = 1, .claim_mib = claims[i], .uid = 1000 };
		struct placement out;
		bool placed = map_place(p, g, n, &r, &turn, &out, NULL);
		if (placed)
			take(g, &out);
		text += sprintf(text, i ? " %c" : "%c", placed ? '0' + (int)(out.slots[0] - 10) : '-');
	}
}

static void figures(void **state)
{
	(void)state;
	static const struct { const char *what, *policy; uint64_t claims[6]; size_t tasks; const char *comes; } rows[] = {
		{ "figure 6.3: T1 to T4 get a GPU each, T5 waits", "rank=exclusive", { 2168, 2168, 2168, 2168, 2168 }, 5, "0 1 2 3 -" },
		{ "figure 6.3 with round robin: T5 goes to the first GPU", "rank=rr", { 2168, 2168, 2168, 2168, 2168, 2168 }, 6,
		  "0 1 2 3 0 1" },
		{ "figure 6.4: active GPUs are filled first", "rank=mug", { 12578, 12578, 12578, 12578, 2168, 600 }, 6,
		  "0 0 0 1 1 0" },
		{ "most available memory spreads", "rank=magm", { 20774, 12578, 15120, 7224, 2168, 2168 }, 6, "0 1 2 3 3 3" },
		{ "first fit", "rank=ff", { 20774, 20774, 12578, 12578, 2168, 2168 }, 6, "0 1 0 1 0 0" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct map_policy p = map_policy_default();
		struct map_gpu g[4] = { gpu(0), gpu(1), gpu(2), gpu(3) };
		char text[32];
		READ(rows[i].policy, read_policy, &p);
		place_all(&p, g, 4, rows[i].claims, rows[i].tasks, text);
		if (strcmp(text, rows[i].comes))
			fail_msg("%s: got '%s', not '%s'", rows[i].what, text, rows[i].comes);
	}
	/* Any GPU that becomes idle sooner hosts T5. */
	struct map_policy p = map_policy_default();
	struct map_gpu g[4] = { gpu(0), gpu(1), gpu(2), gpu(3) };
	p.rank = RANK_EXCLUSIVE;
	for (int i = 0; i < 4; i++)
		g[i].n_tasks = i != 2, g[i].mode = SHARE_NEVER;
	place_all(&p, g, 4, (const uint64_t[]){ 2168 }, 1, (char[32]){ "" });
	assert_int_equal(g[2].n_tasks, 1);
}

/* Turns pass over GPUs that do not fit, survive a GPU that disappears, and move past all GPUs of a placement. */
static void round_robin(void **state)
{
	(void)state;
	struct map_policy p = map_policy_default();
	p.rank = RANK_RR;
	struct map_gpu g[4] = { gpu(0), gpu(1), gpu(2), gpu(3) };
	struct map_request r = { .task = 1, .gpus = 1, .claim_mib = 1000 };
	struct placement out;
	uint32_t turn = 1;
	g[1].stale = g[2].drained = true;
	assert_true(map_place(&p, g, 4, &r, &turn, &out, NULL));
	assert_int_equal(out.slots[0], 13);
	assert_int_equal(turn, 0);
	g[3].stale = g[0].stale = true;
	assert_false(map_place(&p, g, 4, &r, &turn, &out, NULL));
	assert_int_equal(turn, 0);
	g[0].stale = g[1].stale = g[2].drained = g[3].stale = false;
	r.gpus = 3, turn = 2;
	assert_true(map_place(&p, g, 4, &r, &turn, &out, NULL));
	assert_int_equal(out.slots[0], 12);
	assert_int_equal(out.slots[2], 10);
	assert_int_equal(turn, 1);
	r.gpus = 1, turn = 4000000000u;
	assert_true(map_place(&p, g, 3, &r, &turn, &out, NULL));
	assert_int_equal(out.slots[0], 10 + 4000000000u % 3);
	/* Other ranks have no turn. */
	p.rank = RANK_MAGM, turn = 3;
	assert_true(map_place(&p, g, 4, &r, &turn, &out, NULL));
	assert_int_equal(turn, 3);
}

static void feasible(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "fits", "", "claim=40448 declared", { "empty" }, "" },
		{ "fits once it is undrained, answers, and is empty", "", "claim=40448 declared", { "drained stale mps=3 free=0" }, "" },
		{ "estimates are cut", "", "claim=99999", { "empty" }, "" },
		{ "no estimate", "", "", { "total=1024" }, "" },
		{ "memory no GPU has", "", "claim=81920 declared", { "empty", "total=40960" },
		  "80.0G of GPU memory wanted on each GPU: GPU 1 has 40.0G when empty, and none has more: declare less, or use a "
		  "smaller batch" },
		{ "memory that cannot be read", "", "claim=2048 declared", { "total=0" },
		  "GPU 0: its memory cannot be read, so no task of known memory can be placed: see `rad doctor`" },
		{ "memory that too few GPUs have", "", "claim=60000 gpus=2 declared", { "empty", "total=81408" },
		  "58.6G of GPU memory wanted on each GPU: of the 2 largest GPUs GPU 0 has 39.5G when empty: declare less, or use a "
		  "smaller batch" },
		{ "more GPUs than there are", "", "gpus=3", { "empty", "empty" }, "3 GPUs wanted, and there are only 2: ask for fewer" },
		{ "none known", "", "gpus=1", { NULL }, "no GPU is known here: see `rad gpus` and `rad doctor`" },
		{ "more than the one", "", "gpus=2", { "empty" }, "2 GPUs wanted, and there is only 1: ask for fewer" },
		{ "MIG instances do not add up", "", "gpus=2", { "empty", "mig" },
		  "2 GPUs wanted, and there is only 1 that such a task can use: ask for fewer" },
		{ "none at all", "", "gpus=0", { "empty" }, "0 GPUs wanted: 1 to 64 can be asked for" },
		{ "too many", "", "gpus=65", { "empty" }, "65 GPUs wanted: 1 to 64 can be asked for" },
		{ "no MPS", "", "share=mps", { "nomps" },
		  "share mps: no GPU here can run an MPS server; use share auto or streams" },
		{ "MPS for two", "", "share=mps gpus=2", { "empty", "empty" }, "" },
		{ "MPS for two, a server for each GPU", "narrow", "share=mps gpus=2", { "empty", "empty" },
		  "2 GPUs with share mps: the MPS servers here serve one GPU each (mps-multi-gpu off); use share auto or streams" },
		{ "MPS for two, and one cannot", "", "share=mps gpus=2", { "empty", "nomps" },
		  "2 GPUs with share mps, and only 1 here can run an MPS server: ask for fewer, or use share auto or streams" },
		{ "MPS for two, and none can", "", "share=mps gpus=2", { "nomps", "nomps" },
		  "share mps: no GPU here can run an MPS server; use share auto or streams" },
		{ "no MIG", "", "share=mig", { "empty" },
		  "share mig: there is no MIG instance here; an administrator creates them with nvidia-smi, or use share auto" },
		{ "MIG for two", "", "share=mig gpus=2", { "mig", "mig" },
		  "2 GPUs with share mig: a task can use one MIG instance only" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct map_policy p;
		struct map_request r;
		struct map_gpu g[MAX_ROW_GPUS];
		struct error err = ERROR_INIT;
		size_t n = read_row(&rows[i], &p, &r, g);
		int rc = map_feasible(&p, g, n, &r, &err);
		if (strcmp(err.text, rows[i].comes) || rc != (*rows[i].comes ? -1 : 0))
			fail_msg("%s: %d '%s'", rows[i].what, rc, err.text);
		assert_int_equal(err.code, !rc ? ERR_NONE : n ? ERR_INVALID : ERR_UNAVAILABLE);
	}
}

static void summary(void **state)
{
	(void)state;
	struct map_finding f[5] = { { .reason = MAP_BUSY }, { .reason = MAP_MEMORY }, { .reason = MAP_MEMORY },
				    { .reason = MAP_LOAD }, { .reason = MAP_LOAD } };
	assert_int_equal(map_summary(f, 1), MAP_BUSY);
	assert_int_equal(map_summary(f, 3), MAP_MEMORY);
	assert_int_equal(map_summary(f, 4), MAP_MEMORY);
	assert_int_equal(map_summary(f, 5), MAP_LOAD);
	assert_int_equal(map_summary(NULL, 0), MAP_TOO_FEW);
	assert_string_equal(map_reason_word(MAP_TOO_FEW), "Gpus");
	assert_string_equal(map_reason_word(MAP_REASON_COUNT), "?");
	assert_string_equal(map_reason_help(MAP_LOAD), "its SMs are too busy");
}

static void explain(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "ok", "", "claim=14131", { "mps=1 free=30720" },
		  "GPU 0: fits: 30.0G available, 15.8G wanted (claim 13.8G + slack 2.0G); would run as mps" },
		{ "ok in company", "", "claim=14131 company=10", { "mps=1 free=30720" },
		  "GPU 0: fits: 30.0G available, 15.8G wanted (claim 13.8G + slack 2.0G); would run as mps; tasks of its feed run "
		  "there, so it is taken before GPUs that are better by 5 % at most" },
		{ "ok alone", "", "claim=50000", { "empty" },
		  "GPU 0: fits: 39.5G available, 39.5G wanted (claim 48.8G, cut to what there is); would run as exclusive" },
		{ "drained", "", "", { "drained" }, "GPU 0: drained by an administrator; `rad undrain 0` puts it back" },
		{ "stale", "", "", { "stale" }, "GPU 0 GPU-00000000: it does not answer, or its last reading is too old; see `rad doctor`" },
		{ "kept", "", "", { "kept=7" }, "GPU 0: kept free for task 7, which goes first" },
		{ "alone", "", "", { "never=1" }, "GPU 0: used by its task alone: nothing joins until that ends" },
		{ "streams wanted", "", "share=streams", { "mps=2" },
		  "GPU 0: shared under MPS, and share streams is wanted; share auto could join" },
		{ "MPS wanted", "", "share=mps", { "streams=2" },
		  "GPU 0: shared by time slicing, and share mps is wanted; share auto could join" },
		{ "no MPS", "", "share=mps", { "nomps" },
		  "GPU 0: no MPS server can run there, and share mps is wanted; share auto takes it" },
		{ "not against the policy", "share=streams", "", { "mps=2" },
		  "GPU 0: shared under MPS: the policy shares by time slicing; free when its tasks end" },
		{ "two GPUs", "narrow", "gpus=2", { "mps=2" },
		  "GPU 0: shared under MPS: a task of 2 GPUs cannot join; free when its tasks end" },
		{ "MIG for two", "", "gpus=2", { "mig" }, "GPU 0 GPU-00000000: a MIG instance: a task of 2 GPUs cannot use it" },
		{ "MIG, MPS", "", "share=mps", { "mig" },
		  "GPU 0 GPU-00000000: a MIG instance: it is not shared, and share mps is wanted; share auto takes it" },
		{ "no MIG", "", "share=mig", { "empty" }, "GPU 0: no MIG instance, and share mig is wanted" },
		{ "user", "", "", { "mps=1 uid=1001" },
		  "GPU 0: user 1001's MPS server runs there, and MPS is for one user at a time; free when its tasks end" },
		{ "foreign", "", "", { "other=7168" },
		  "GPU 0: processes that are not ours hold 7.0G; above 1.0G a GPU is not used (foreign: share would allow it)" },
		{ "busy", "", "exclusive", { "mps=2" }, "GPU 0: 2 tasks run there, and the task wants its GPUs alone" },
		{ "busy by policy", "rank=exclusive", "", { "never=1" },
		  "GPU 0: 1 task runs there, and the policy gives each task its own GPUs" },
		{ "busy for recovery", "", "start", { "mps=1" },
		  "GPU 0: 1 task runs there, and it ran out of memory before and starts alone" },
		{ "busy MIG", "", "", { "mig mps=1" },
		  "GPU 0 GPU-00000000: 1 task runs there, and a MIG instance takes one task at a time" },
		{ "settling", "", "exclusive", { "settling" },
		  "GPU 0: a task has ended there and its memory is not yet seen to be free; a few seconds" },
		{ "cold", "", "", { "mps=1 free=20000 cold=1" },
		  "GPU 0: another task without an estimate has just started there, and a third of the GPU for each is not left; "
		  "fits once it is warm, or with --gpu-mem" },
		{ "memory", "", "claim=14131", { "mps=1 free=12595" },
		  "GPU 0: 12.3G available, 15.8G wanted (claim 13.8G + slack 2.0G): 3.5G short; a claim of up to 10.3G would fit now" },
		{ "memory for nobody", "", "claim=14131", { "mps=1 free=2000" },
		  "GPU 0: 2.0G available, 15.8G wanted (claim 13.8G + slack 2.0G): 13.8G short; fits when tasks there end" },
		{ "memory for no estimate", "", "", { "mps=1 free=5119" },
		  "GPU 0: 5.0G available, 5.0G wanted (no estimate: min_free): 1M short; a declared --gpu-mem of less could fit" },
		{ "unreadable", "", "", { "total=0 free=0" }, "GPU 0: its memory cannot be read; see `rad doctor`" },
		{ "one process", "", "share=streams", { "streams=1 oneprocess" },
		  "GPU 0: in exclusive-process mode (nvidia-smi), where tasks share it under MPS only: nothing joins until that ends" },
		{ "too small when empty", "", "claim=60000 declared", { "empty" },
		  "GPU 0: 39.5G available, 58.6G wanted (claim 58.6G): 19.1G short; it has 39.5G when empty" },
		{ "SMACT", "", "claim=1000", { "mps=1 smact=0.87" },
		  "GPU 0: SMACT 0.87, at most 0.80 to join (max_smact): fits when the load falls or a task ends" },
		{ "GRACT", "", "claim=1000", { "streams=1 gract=0.97" },
		  "GPU 0: GRACT 0.97, at most 0.90 to join (max_gract): fits when the load falls or a task ends" },
		{ "no load", "", "claim=1000", { "mps=2 smact=off" },
		  "GPU 0: 2 tasks run there and no load can be read; at most 2 then (max_tasks)" },
		{ "unseen", "", "claim=1000", { "streams=1 unseen" },
		  "GPU 0: shared by time slicing, and a task of unknown load has just started there: asked again once that was seen" },
		{ "slow-down", "slower=1.05", "claim=1000 self=0.1:0.1", { "streams=0 has=0.9:0.9" },
		  "GPU 0: a task would run 1.10 times slower than alone, and at most 1.05 is allowed (max_slowdown): fits when a task there "
		  "ends" },
		{ "gain", "rank=gain", "claim=1000 self=0.9:0.9", { "streams=0 has=0.9:0.9" },
		  "GPU 0: beside the tasks there 2 % of its work would be gained, at least 5 % is wanted (min_gain): fits when one ends" },
		{ "too few", "", "claim=1000 gpus=2", { "empty" }, "GPU 0: fits, but 1 of 2 GPUs fit at once" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct map_policy p;
		struct map_request r;
		struct map_gpu g[MAX_ROW_GPUS];
		struct map_finding f[MAX_ROW_GPUS];
		struct placement out;
		uint32_t turn = 0;
		char text[256], tiny[20];
		size_t n = read_row(&rows[i], &p, &r, g);
		map_place(&p, g, n, &r, &turn, &out, f);
		map_explain(&p, &g[0], &r, &f[0], text, sizeof text);
		if (strcmp(text, rows[i].comes))
			fail_msg("%s: got '%s'", rows[i].what, text);
		map_explain(&p, &g[0], &r, &f[0], tiny, sizeof tiny);
		assert_int_equal(strlen(tiny), 19);
		assert_memory_equal(tiny, text, 19);
	}
}

static void names(void **state)
{
	(void)state;
	for (unsigned i = 0; i < MAP_RANK_COUNT; i++)
		assert_int_equal(rank_of(map_rank_name((enum map_rank)i)), i);
	assert_string_equal(map_rank_name(MAP_RANK_COUNT), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory), cmocka_unit_test(load), cmocka_unit_test(modes), cmocka_unit_test(several_gpus),
		cmocka_unit_test(mig), cmocka_unit_test(who_may_not), cmocka_unit_test(ranks), cmocka_unit_test(gains),
		cmocka_unit_test(company),
		cmocka_unit_test(slow_downs), cmocka_unit_test(suits), cmocka_unit_test(ties_by_index),
		cmocka_unit_test(figures), cmocka_unit_test(round_robin), cmocka_unit_test(feasible), cmocka_unit_test(summary),
		cmocka_unit_test(explain), cmocka_unit_test(names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
