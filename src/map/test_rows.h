/* SPDX-License-Identifier: MIT
 *
 * Placement as tables of situations, each a line of words (see the three readers below): policy, request, GPUs, and what comes
 * out: "slots mode claim", or the reason of every GPU. GPUs have 40448 MiB (an A100-40G less the driver's reserve) unless said.
 */
#ifndef RAD_MAP_TEST_ROWS_H
#define RAD_MAP_TEST_ROWS_H

#include "map/map.h"
#include "models/margins.h"

#include "base/scope.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EMPTY 40448
#define MAX_ROW_GPUS 4

/* The value of `word` if it is "key=value" or "key", else NULL. */
static inline const char *value_of(const char *word, const char *key)
{
	size_t n = strlen(key);
	if (strncmp(word, key, n) || (word[n] && word[n] != '='))
		return NULL;
	return word[n] ? word + n + 1 : word + n;
}

static inline uint64_t number(const char *v) { return strtoull(v, NULL, 10); }
static inline double limit(const char *v) { return strcmp(v, "off") ? strtod(v, NULL) : NAN; }

static inline enum share_mode mode(const char *v)
{
	enum share_mode m = SHARE_AUTO;
	assert_int_equal(share_mode_parse(v, &m, NULL), 0);
	return m;
}

/* "GRACT:SMACT", "GRACT:SMACT:LIMIT" or "GRACT:SMACT:LIMIT:KERNELS" */
static inline struct map_tenant tenant(const char *v)
{
	struct map_tenant t = { { NAN, NAN }, 0 };
	assert_true(sscanf(v, "%lf:%lf:%lf:%lf", &t.load.gract, &t.load.smact, &t.max_slowdown, &t.load.kernels) >= 2);
	return t;
}

static inline enum map_rank rank_of(const char *word)
{
	unsigned r = 0;
	while (r < MAP_RANK_COUNT && strcmp(word, map_rank_name((enum map_rank)r)))
		r++;
	assert_true(r < MAP_RANK_COUNT);
	return (enum map_rank)r;
}

static inline void read_policy(const char *word, struct map_policy *p)
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

static uint32_t planned_slots[2];	/* a GPU, and the next one */

static inline void read_request(const char *word, struct map_request *r)
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
	else if ((v = value_of(word, "planned")))	/* on that slot */
		planned_slots[0] = (uint32_t)number(v), planned_slots[1] = planned_slots[0] + 1, r->planned = planned_slots;
	else if ((v = value_of(word, "among")))
		r->among = (unsigned)number(v);
	else if (value_of(word, "later"))
		r->later = true;
	else if ((v = value_of(word, "company")))
		r->company.slots[r->company.n++] = (uint32_t)number(v);
	else
		fail_msg("request: %s", word);
}

/* Who is there, of the GPUs of one row. */
static struct map_tenant tenants[MAX_ROW_GPUS][4];

/* One more task. */
static inline void read_tenant(const char *v, struct map_gpu *g)
{
	struct map_tenant *t = &tenants[g->index][g->n_tasks++];
	*t = tenant(v);
	g->tenants = tenants[g->index];
	g->has_limit = g->has_limit || t->max_slowdown > 0;
}

static inline bool read_gpu_flag(const char *word, struct map_gpu *g)
{
	const struct { const char *key; bool *flag; bool to; } flags[] = {
		{ "drained", &g->drained, true }, { "stale", &g->stale, true },
		{ "settling", &g->settling, true }, { "unseen", &g->unseen, true }, { "captured", &g->capture_comes, true },
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

static inline void read_cold(struct map_gpu *g, uint64_t signature)
{
	if (g->n_cold < MAP_COLD_MOST)
		g->cold[g->n_cold] = signature;
	g->n_cold++;
}

static inline void read_gpu(const char *word, struct map_gpu *g)
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
	else if ((v = value_of(word, "cold")))	/* of a signature each */
		for (unsigned k = (unsigned)number(v); k; k--)
			read_cold(g, 1 + g->n_cold);
	else if ((v = value_of(word, "alike")))	/* of the request's */
		for (unsigned k = (unsigned)number(v); k; k--)
			read_cold(g, 0);
	else if ((v = value_of(word, "usual")))
		g->usual_mib = g->usual_mean_mib = number(v);
	else if ((v = value_of(word, "mean")))
		g->usual_mean_mib = number(v);
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

static inline struct map_gpu gpu(uint32_t i)
{
	return (struct map_gpu){
		.slot = 10 + i, .index = i, .uuid = "GPU-00000000-1111", .total_mib = EMPTY, .available_mib = EMPTY,
		.load = { 0, 0, true, true }, .mps_uid = 1000, .mps_capable = true, .usual_mib = MARGIN_USUAL_MIB,
		.usual_mean_mib = MARGIN_USUAL_MEAN_MIB,
	};
}

struct row {
	const char *what, *policy, *request, *gpu[MAX_ROW_GPUS], *comes;
};

/* "0 mps 20000" or the reasons. */
static inline void result_text(bool placed, const struct placement *out, const struct map_finding *f, size_t n, char *text,
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

/* A row as placement sees it, and what comes of it. */
struct situation {
	struct map_policy p;
	struct map_request r;
	struct map_gpu g[MAX_ROW_GPUS];
	struct map_scene scene;
	uint32_t turn;
	struct map_finding f[MAX_ROW_GPUS];
	struct placement out;
	bool placed;
};

static inline void read_row(const struct row *row, struct situation *s)
{
	*s = (struct situation){ .p = map_policy_default(),
				 .r = { .task = TASK_ID(1, -1), .gpus = 1, .uid = 1000, .self.load = { NAN, NAN } } };
	s->p.rank = RANK_MAGM;
	s->scene = (struct map_scene){ &s->p, s->g, 0, &s->turn };
	READ(row->policy, read_policy, &s->p);
	READ(row->request, read_request, &s->r);
	for (size_t i = 0; i < MAX_ROW_GPUS && row->gpu[i]; i++) {
		s->g[s->scene.n++] = gpu((uint32_t)i);
		READ(row->gpu[i], read_gpu, &s->g[i]);
	}
}

static inline void place_row(const struct row *row, struct situation *s)
{
	read_row(row, s);
	s->placed = map_place(&s->scene, &s->r, &s->out, s->f);
}

static inline void check_row(const struct row *row)
{
	struct situation s;
	char text[200];
	place_row(row, &s);
	result_text(s.placed, &s.out, s.f, s.scene.n, text, sizeof text);
	if (strcmp(text, row->comes))
		fail_msg("%s: got '%s', not '%s'", row->what, text, row->comes);
}

#define CHECK(rows) do { \
	(void)state; \
	for (size_t i_ = 0; i_ < COUNT_OF(rows); i_++) \
		check_row(&(rows)[i_]); \
} while (0)

#endif
