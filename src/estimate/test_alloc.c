/* SPDX-License-Identifier: MIT
 * The simulated allocator: a situation for each rule, properties of random use, and its configuration.
 */
#include "base/scope.h"
#include "base/units.h"
#include "estimate/alloc.h"

#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Events as text: "+20M" a segment, "-20M" one given back, "m20M" pages mapped, "u20M" unmapped. */
static void note_event(void *ctx, enum alloc_event event, uint64_t address, uint64_t size, unsigned stream)
{
	struct buf *b = ctx;
	static const char sign[] = "+-mu";

	(void)address, (void)stream;
	if (size % MIB)
		buf_printf(b, "%s%c%llu", b->len ? " " : "", sign[event], (unsigned long long)size);
	else
		buf_printf(b, "%s%c%lluM", b->len ? " " : "", sign[event], (unsigned long long)(size / MIB));
}

static uint64_t read_size(const char **at)
{
	char *end;
	uint64_t n = strtoull(*at, &end, 10);

	if (*end == 'M' || *end == 'K')
		n <<= *end++ == 'M' ? 20 : 10;
	*at = end;
	return n;
}

#define IDS 32

/* One step: "a3=5M" request 5 MiB as 3; "@1" on stream 1; "~2" where 2 was or is; "!" out of memory. "f3" frees it, "e"
 * empties the cache. */
static void step(struct alloc_sim *a, const char **at, uint64_t where[IDS])
{
	char what = *(*at)++;
	uint32_t id = what == 'e' ? 0 : (uint32_t)strtoul(*at, (char **)at, 10);
	unsigned stream = 0;
	uint64_t size;
	const char *now;

	if (what == 'e')
		alloc_sim_empty_cache(a);
	if (what == 'f')
		alloc_sim_free(a, id);
	if (what != 'a')
		return;
	++*at;
	size = read_size(at);
	if (**at == '@')
		stream = (unsigned)strtoul(*at + 1, (char **)at, 10);
	now = *at;
	assert_int_equal(alloc_sim_request(a, id, size, stream), *now != '!');
	where[id] = alloc_sim_address(a, id);
	if (*now == '~')
		assert_int_equal(where[id], where[strtoul(now + 1, (char **)at, 10)]);
	*at += **at == '!';
}

static void run(struct alloc_sim *a, const char *steps)
{
	uint64_t where[IDS] = { 0 };

	while (*steps) {
		step(a, &steps, where);
		while (*steps == ' ')
			steps++;
	}
}

struct rule {
	const char *what, *conf;
	uint64_t cap_mib;	/* 0: none */
	const char *steps, *events;
	uint64_t reserved, allocated;
};

static const struct rule rules[] = {
	/* rounding and segments */
	{ "nothing is no request", "", 0, "a0=0", "", 0, 0 },
	{ "a byte takes 512", "", 0, "a0=1", "+2M", 2 * MIB, 512 },
	{ "511 bytes too", "", 0, "a0=511", "+2M", 2 * MIB, 512 },
	{ "513 take 1024", "", 0, "a0=513", "+2M", 2 * MIB, 1024 },
	{ "1 MiB is small", "", 0, "a0=1M a1=1M", "+2M", 2 * MIB, 2 * MIB },
	{ "a byte more is large", "", 0, "a0=1048577", "+20M", 20 * MIB, MIB + 512 },
	{ "small and large do not mix", "", 0, "a0=2M f0 a1=1K", "+20M +2M", 22 * MIB, 1024 },
	{ "just below 10 MiB", "", 0, "a0=10485248", "+20M", 20 * MIB, 10485248 },
	{ "rounding comes before the choice", "", 0, "a0=10485249", "+10M", 10 * MIB, 10 * MIB },
	{ "10 MiB have a segment of their own", "", 0, "a0=10M", "+10M", 10 * MIB, 10 * MIB },
	{ "in steps of 2 MiB", "", 0, "a0=10485761", "+12M", 12 * MIB, 10 * MIB + 512 },
	/* reuse */
	{ "the smallest that fits", "", 0, "a0=30M a1=14M a2=18M f0 f1 f2 a3=13M~1 a4=15M~2", "+30M +14M +18M", 62 * MIB,
	  29 * MIB },
	{ "the lowest address of equals", "", 0, "a0=12M a1=12M a2=12M f2 f0 f1 a3=12M~0 a4=12M~1", "+12M +12M +12M", 36 * MIB,
	  24 * MIB },
	{ "not of another stream", "", 0, "a0=12M f0 a1=12M@1 a2=12M~0", "+12M +12M", 24 * MIB, 24 * MIB },
	{ "nor a small one", "", 0, "a0=1K f0 a1=1K@7", "+2M +2M", 4 * MIB, 1024 },
	/* splitting */
	{ "small: 512 bytes are split off", "", 0, "a0=1M a1=1048064 a2=512", "+2M", 2 * MIB, 2 * MIB },
	{ "large: 1 MiB stays with the block", "", 0, "a0=9M a1=10M", "+20M", 20 * MIB, 20 * MIB },
	{ "large: more than 1 MiB is split off", "", 0, "a0=9M a1=10485248", "+20M", 20 * MIB, 19 * MIB - 512 },
	{ "a segment's tail counts as allocated", "", 0, "a0=10485761 a1=2M", "+12M +20M", 32 * MIB, 10 * MIB + 512 + 2 * MIB },
	{ "a tail of exactly 1 MiB", "", 0, "a0=11M", "+12M", 12 * MIB, 12 * MIB },
	/* merging */
	{ "with the one behind", "", 0, "a0=5M a1=5M a2=5M f1 f0 a3=9M~0", "+20M", 20 * MIB, 14 * MIB + MIB },
	{ "with the one in front", "", 0, "a0=5M a1=5M a2=5M f0 f1 a3=9M~0", "+20M", 20 * MIB, 15 * MIB },
	{ "with both", "", 0, "a0=5M a1=5M a2=5M f0 f2 f1 a3=18M~0", "+20M", 20 * MIB, 18 * MIB },
	{ "not across segments", "", 0, "a0=10M a1=10M f0 f1 a2=20M", "+10M +10M +20M", 40 * MIB, 20 * MIB },
	/* a cap */
	{ "free segments go before it fails", "", 40, "a0=30M f0 a1=36M", "+30M -30M +36M", 36 * MIB, 36 * MIB },
	{ "large ones first, small ones too", "", 40, "a0=1K a1=30M f0 f1 a2=40M", "+2M +30M -30M -2M +40M", 40 * MIB, 40 * MIB },
	{ "one in use stays", "", 40, "a0=9M a1=9M f1 a2=30M!", "+20M", 20 * MIB, 9 * MIB },
	{ "out of memory", "", 20, "a0=30M!", "", 0, 0 },
	{ "exactly the cap", "", 20, "a0=9M", "+20M", 20 * MIB, 9 * MIB },
	{ "a failure releases what it can", "", 40, "a0=30M f0 a1=42M!", "+30M -30M", 0, 0 },
	{ "the cache is emptied", "", 0, "a0=1K a1=30M a2=9M f0 f1 e", "+2M +30M +20M -30M -2M", 20 * MIB, 9 * MIB },
	/* max_split_size_mb */
	{ "oversize blocks are not for others", "max_split_size_mb:32", 0, "a0=64M f0 a1=12M", "+64M +12M", 76 * MIB, 12 * MIB },
	{ "nor for oversize requests far below", "max_split_size_mb:32", 0, "a0=64M f0 a1=44M", "+64M +44M", 108 * MIB, 44 * MIB },
	{ "but near them, whole", "max_split_size_mb:32", 0, "a0=64M f0 a1=46M~0", "+64M", 64 * MIB, 64 * MIB },
	{ "how near is a setting", "max_split_size_mb:32,max_non_split_rounding_mb:40", 0, "a0=64M f0 a1=34M~0", "+64M", 64 * MIB,
	  64 * MIB },
	{ "smaller ones are split", "max_split_size_mb:32", 0, "a0=30M f0 a1=12M~0 a2=12M", "+30M", 30 * MIB, 24 * MIB },
	{ "one oversize block goes first", "max_split_size_mb:32", 92, "a0=64M a3=1K f3 f0 a1=33M", "+64M +2M -64M +34M", 36 * MIB,
	  34 * MIB },
	{ "or the largest, together", "max_split_size_mb:32", 160, "a0=40M a1=64M a2=34M f0 f1 f2 a3=100M",
	  "+40M +64M +34M -64M -40M +100M", 134 * MIB, 100 * MIB },
	{ "or all, when that is not enough", "max_split_size_mb:32", 100, "a0=40M a1=20M f0 f1 a2=90M", "+40M +20M -40M -20M +90M",
	  90 * MIB, 90 * MIB },
	/* garbage_collection_threshold */
	{ "the older one is collected", "garbage_collection_threshold:0.4", 200, "a0=28M a1=30M f0 a2=40M f1 a3=50M",
	  "+28M +30M +40M -28M +50M", 120 * MIB, 90 * MIB },
	{ "again, until it is enough", "garbage_collection_threshold:0.2", 200, "a0=28M a1=30M f0 a2=40M f1 a3=50M",
	  "+28M +30M -28M +40M -30M +50M", 90 * MIB, 90 * MIB },
	{ "split ones are not", "garbage_collection_threshold:0.1", 200, "a0=9M a1=9M f0 a2=50M", "+20M +50M", 70 * MIB, 59 * MIB },
	{ "not without a cap", "garbage_collection_threshold:0.1", 0, "a0=30M f0 a1=50M", "+30M +50M", 80 * MIB, 50 * MIB },
	/* roundup_power2_divisions */
	{ "steps of a quarter", "roundup_power2_divisions:4", 0, "a0=5242881", "+20M", 20 * MIB, 6 * MIB },
	{ "powers of two stay", "roundup_power2_divisions:4", 0, "a0=4M", "+20M", 20 * MIB, 4 * MIB },
	{ "not for the smallest", "roundup_power2_divisions:4", 0, "a0=1025", "+2M", 2 * MIB, 1536 },
	{ "by ranges", "roundup_power2_divisions:[2:4,4:1,>:2]", 0, "a0=2097153 a1=4194305 a2=17M", "+20M +24M", 44 * MIB,
	  5 * MIB / 2 + 4 * MIB + 512 + 24 * MIB },
	/* expandable_segments */
	{ "pages of 20 MiB", "expandable_segments:True", 0, "a0=30M a1=5M", "m40M", 40 * MIB, 35 * MIB },
	{ "the range grows", "expandable_segments:True", 0, "a0=30M a1=15M", "m40M m20M", 60 * MIB, 45 * MIB },
	{ "small pages of 2 MiB", "expandable_segments:True", 0, "a0=1M a1=1M a2=1K", "m2M m2M", 4 * MIB, 2 * MIB + 1024 },
	{ "whole pages go", "expandable_segments:True", 0, "a0=30M a1=30M f0 e", "m40M m20M u20M", 40 * MIB, 30 * MIB },
	{ "and come back where they were", "expandable_segments:True", 0, "a0=30M a1=30M f0 e a2=25M~0", "m40M m20M u20M m20M",
	  60 * MIB, 55 * MIB },
	{ "nothing is left of it", "expandable_segments:True", 0, "a0=30M a1=1K f0 f1 e", "m40M m2M u40M u2M", 0, 0 },
	{ "512 bytes are split off", "expandable_segments:True", 0, "a0=20970496 a1=10M a2=2M", "m20M m20M", 40 * MIB,
	  20970496 + 12 * MIB },
	{ "a hole before the end", "expandable_segments:True", 0, "a0=12M a1=12M f0 a2=11M~0", "m20M m20M", 40 * MIB, 23 * MIB },
	{ "a cap counts pages", "expandable_segments:True", 40, "a0=8M a1=30M a2=3M!", "m20M m20M", 40 * MIB, 38 * MIB },
	{ "and no page is mapped above it", "expandable_segments:True", 50, "a0=30M a1=2K@1 a2=9M@2!", "m40M m2M", 42 * MIB,
	  30 * MIB + 2048 },
	{ "pages go before it fails", "expandable_segments:True", 62, "a0=30M f0 a1=1K@1 a2=44M@1", "m40M m2M u40M m60M", 62 * MIB,
	  44 * MIB + 1024 },
	/* large_segment_size_mb */
	{ "other large segments", "large_segment_size_mb:40", 0, "a0=2M a1=10M", "+40M", 40 * MIB, 12 * MIB },
	{ "pages too", "large_segment_size_mb:40,expandable_segments:True", 0, "a0=2M", "m40M", 40 * MIB, 2 * MIB },
	{ "the largest pages", "large_segment_size_mb:1048576,expandable_segments:True", 0, "a0=2M a1=30M", "m1048576M", 1048576 * MIB,
	  32 * MIB },
};

static void test_rules(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rules); i++) {
		const struct rule *k = &rules[i];
		scoped_buf events = { 0 };
		struct alloc_watch watch = { .event = note_event, .ctx = &events };
		struct alloc_conf conf;
		struct alloc_sim *a;

		print_message("%s\n", k->what);
		assert_int_equal(alloc_conf_parse(k->conf, 211, &conf, NULL), 0);
		a = alloc_sim_create(&conf, &watch);
		alloc_sim_reset(a, k->cap_mib ? k->cap_mib * MIB : ALLOC_NO_CAP);
		run(a, k->steps);
		assert_string_equal(buf_text(&events), k->events);
		assert_int_equal(alloc_sim_stats(a)->reserved, k->reserved);
		assert_int_equal(alloc_sim_stats(a)->allocated, k->allocated);
		alloc_sim_destroy(a);
	}
}

static void test_peaks_and_retries(void **state)
{
	struct alloc_conf conf = alloc_conf_default();
	struct alloc_sim *a = alloc_sim_create(&conf, NULL);

	(void)state;
	alloc_sim_reset(a, 40 * MIB);
	run(a, "a0=30M f0 a1=36M f1 a2=40M f2 e a3=50M!");
	assert_int_equal(alloc_sim_stats(a)->retries, 3);
	assert_int_equal(alloc_sim_stats(a)->peak_reserved, 40 * MIB);
	assert_int_equal(alloc_sim_stats(a)->peak_allocated, 40 * MIB);
	assert_int_equal(alloc_sim_stats(a)->reserved, 0);
	alloc_sim_reset(a, ALLOC_NO_CAP);
	assert_int_equal(alloc_sim_stats(a)->peak_reserved, 0);
	alloc_sim_destroy(a);
}

/* --- random use --- */

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

static uint64_t any_size(void)
{
	return 1 + draw((uint64_t)1 << (4 + draw(24)));
}

#define LIVE 200

struct use {
	struct alloc_sim *a;
	uint64_t size[LIVE], by_events;
};

static void sum_event(void *ctx, enum alloc_event event, uint64_t address, uint64_t size, unsigned stream)
{
	struct use *u = ctx;

	(void)address, (void)stream;
	if (event == ALLOC_SEGMENT_NEW || event == ALLOC_PAGES_MAPPED)
		u->by_events += size;
	else
		u->by_events -= size;
}

/* No two live requests overlap. */
static void check_disjoint(const struct use *u)
{
	for (uint32_t i = 0; i < LIVE; i++)
		for (uint32_t k = 0; k < i; k++) {
			uint64_t x = alloc_sim_address(u->a, i), y = alloc_sim_address(u->a, k);

			assert_true(!x || !y || x + u->size[i] <= y || y + u->size[k] <= x);
		}
}

static void use_at_random(struct use *u, uint64_t cap)
{
	const struct alloc_stats *s = alloc_sim_stats(u->a);

	for (int i = 0; i < 2000; i++) {
		uint32_t id = (uint32_t)draw(LIVE);

		if (alloc_sim_address(u->a, id)) {
			alloc_sim_free(u->a, id);
		} else {
			u->size[id] = any_size();
			alloc_sim_request(u->a, id, u->size[id], (unsigned)draw(3));
		}
		assert_true(s->allocated <= s->reserved && s->reserved <= cap);
		assert_true(s->reserved <= s->peak_reserved && s->allocated <= s->peak_allocated);
		assert_true(s->peak_allocated <= s->peak_reserved);
		assert_int_equal(s->reserved, u->by_events);
		if (i % 100 == 0)
			check_disjoint(u);
	}
}

static void test_random_use(void **state)
{
	static const char *const confs[] = { "", "expandable_segments:True", "max_split_size_mb:21", "roundup_power2_divisions:8",
		"garbage_collection_threshold:0.3", "expandable_segments:True,max_split_size_mb:30,large_segment_size_mb:30" };

	(void)state;
	for (seed = 0; seed < 4 * COUNT_OF(confs);) {
		uint64_t start = seed, cap = seed / COUNT_OF(confs) % 2 ? 300 * MIB : ALLOC_NO_CAP;
		struct use u = { 0 };
		struct alloc_watch watch = { .event = sum_event, .ctx = &u };
		struct alloc_conf conf;

		print_message("seed %llu\n", (unsigned long long)seed);
		assert_int_equal(alloc_conf_parse(confs[seed % COUNT_OF(confs)], 211, &conf, NULL), 0);
		u.a = alloc_sim_create(&conf, &watch);
		alloc_sim_reset(u.a, cap);
		use_at_random(&u, cap);
		for (uint32_t i = 0; i < LIVE; i++)
			alloc_sim_free(u.a, i);
		assert_int_equal(alloc_sim_stats(u.a)->allocated, 0);
		alloc_sim_empty_cache(u.a);
		assert_int_equal(alloc_sim_stats(u.a)->reserved, 0);
		alloc_sim_destroy(u.a);
		seed = start + 1;
	}
}

/* A copy goes on as the original does, whether the copy was used before or not, and on its own. */
static void test_copy(void **state)
{
	static const char *const confs[] = { "", "max_split_size_mb:24", "expandable_segments:True",
					     "garbage_collection_threshold:0.5" };

	(void)state;
	for (size_t i = 0; i < COUNT_OF(confs); i++) {
		scoped_buf events = { 0 }, copied = { 0 };
		struct alloc_conf conf;
		struct alloc_sim *a, *b;

		assert_int_equal(alloc_conf_parse(confs[i], 211, &conf, NULL), 0);
		a = alloc_sim_create(&conf, &(struct alloc_watch){ note_event, NULL, &events });
		b = alloc_sim_create(&conf, &(struct alloc_watch){ note_event, NULL, &copied });
		run(b, "a0=50M a1=9M@3 a31=1K@7 f0");
		alloc_sim_reset(a, 160 * MIB);
		run(a, "a0=30M a1=3K a2=9M a3=15M@1 f0 f1 a4=12M f3");
		alloc_sim_copy(b, a);
		assert_memory_equal(alloc_sim_stats(a), alloc_sim_stats(b), sizeof(struct alloc_stats));
		events.len = copied.len = 0;
		run(a, "f2 a5=14M a6=40M a7=2K a8=5M@1 e a9=50M");
		run(b, "f2 a5=14M a6=40M a7=2K a8=5M@1 e a9=50M");
		assert_true(copied.len > 0);
		assert_string_equal(buf_text(&copied), buf_text(&events));
		assert_memory_equal(alloc_sim_stats(a), alloc_sim_stats(b), sizeof(struct alloc_stats));
		for (uint32_t id = 0; id < IDS; id++)
			assert_int_equal(alloc_sim_address(a, id), alloc_sim_address(b, id));
		alloc_sim_destroy(a);
		alloc_sim_destroy(b);
	}
}

/* A hard cap refuses and changes nothing; the request can be made again under another one. */
static void test_hard_cap(void **state)
{
	struct alloc_conf conf = alloc_conf_default();
	struct alloc_sim *a = alloc_sim_create(&conf, NULL);
	struct alloc_stats before;

	(void)state;
	run(a, "a0=30M a1=9M f0");
	before = *alloc_sim_stats(a);
	alloc_sim_set_cap(a, 60 * MIB, true);
	run(a, "a2=36M!");
	assert_memory_equal(alloc_sim_stats(a), &before, sizeof before);
	run(a, "a2=25M f2");
	alloc_sim_set_cap(a, 86 * MIB, false);
	run(a, "a2=36M");
	assert_int_equal(alloc_sim_stats(a)->reserved, (30 + 20 + 36) * MIB);
	alloc_sim_set_cap(a, 90 * MIB, false);
	run(a, "a3=34M");	/* what is free goes */
	assert_int_equal(alloc_sim_stats(a)->reserved, (20 + 36 + 34) * MIB);
	assert_int_equal(alloc_sim_stats(a)->retries, 1);
	alloc_sim_destroy(a);
}

/* --- configuration --- */

static void test_conf(void **state)
{
	struct alloc_conf c;

	(void)state;
	assert_int_equal(alloc_conf_parse(" max_split_size_mb : 64 , garbage_collection_threshold:0.8,"
					  "per_process_memory_fraction:0.5,backend:native", 211, &c, NULL), 0);
	assert_int_equal(c.max_split, 64 * MIB);
	assert_true(c.gc_threshold == 0.8 && c.fraction == 0.5);
	assert_false(c.async || c.expandable);
	assert_string_equal(c.note, "");
	assert_int_equal(alloc_conf_parse("backend:cudaMallocAsync", 0, &c, NULL), 0);
	assert_true(c.async);
	assert_int_equal(alloc_conf_parse(NULL, 0, &c, NULL), 0);
	assert_true(c.max_split == UINT64_MAX && c.fraction == 1);
	assert_int_equal(alloc_conf_parse("later_setting:[1:2,3:4],expandable_segments:True,", 211, &c, NULL), 0);
	assert_string_equal(c.note, "later_setting passed over");
	assert_true(c.expandable);
}

static void test_conf_by_version(void **state)
{
	struct alloc_conf c;

	(void)state;
	assert_int_equal(alloc_conf_parse("max_split_size_mb:50,large_segment_size_mb:40", 210, &c, NULL), 0);
	assert_int_equal(c.large_segment, 40 * MIB);
	assert_int_equal(c.max_non_split_rounding, 40 * MIB);
	assert_int_equal(alloc_conf_parse("max_split_size_mb:30,large_segment_size_mb:40", 210, &c, NULL), -1);
	/* an expandable range would hold no such page */
	assert_int_equal(alloc_conf_parse("large_segment_size_mb:1048577,expandable_segments:True", 210, &c, NULL), -1);
	assert_int_equal(alloc_conf_parse("large_segment_size_mb:40", 209, &c, NULL), 0);
	assert_int_equal(c.large_segment, 20 * MIB);
	assert_string_equal(c.note, "large_segment_size_mb passed over");
	/* ">" is for what comes after the last; it used to change the last as well */
	assert_int_equal(alloc_conf_parse("roundup_power2_divisions:[64:8,128:2,256:4,>:1]", 211, &c, NULL), 0);
	assert_int_equal(c.power2_divisions[0], 8);
	assert_int_equal(c.power2_divisions[6], 8);
	assert_int_equal(c.power2_divisions[7], 2);
	assert_int_equal(c.power2_divisions[8], 4);
	assert_int_equal(c.power2_divisions[9], 1);
	assert_int_equal(c.power2_divisions[15], 1);
	assert_int_equal(alloc_conf_parse("roundup_power2_divisions:[64:8,128:2,256:4,>:1]", 208, &c, NULL), 0);
	assert_int_equal(c.power2_divisions[8], 1);
	/* what no entry names stays without */
	assert_int_equal(alloc_conf_parse("roundup_power2_divisions:[128:8,512:1,2048:8]", 211, &c, NULL), 0);
	assert_int_equal(c.power2_divisions[8], 0);
	assert_int_equal(c.power2_divisions[15], 0);
}

static void test_conf_refused(void **state)
{
	static const char *const bad[] = { "max_split_size_mb", "max_split_size_mb:", "max_split_size_mb:x", "max_split_size_mb:19",
		"garbage_collection_threshold:0", "garbage_collection_threshold:1", "garbage_collection_threshold:2",
		"large_segment_size_mb:10", "roundup_power2_divisions:0", "expandable_segments:true", "roundup_power2_divisions:3",
		"backend:other", "roundup_power2_divisions:[64:8", "roundup_power2_divisions:[63:8]", "roundup_power2_divisions:[64:3]",
		"expandable_segments:True max_split_size_mb:40", "expandable_segments:True:False", "unknown", "unknown:[1",
		"max_split_size_mb:99999999999999999999", "roundup_power2_divisions:[", "[", "::" };
	struct alloc_conf c;
	scoped_free char *longer = calloc(1, ALLOC_CONF_MAX + 2);

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct error err = ERROR_INIT;

		print_message("%s\n", bad[i]);
		assert_int_equal(alloc_conf_parse(bad[i], 211, &c, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_true(strlen(err.text) > 10);
	}
	memset(longer, ',', ALLOC_CONF_MAX + 1);
	assert_int_equal(alloc_conf_parse(longer, 211, &c, NULL), -1);
}

static void test_conf_choice(void **state)
{
	const char *text;
	struct error err;

	(void)state;
	assert_int_equal(alloc_conf_choose(NULL, NULL, &text, NULL), 0);
	assert_null(text);
	assert_int_equal(alloc_conf_choose("a", NULL, &text, NULL), 0);
	assert_string_equal(text, "a");
	assert_int_equal(alloc_conf_choose(NULL, "b", &text, NULL), 0);
	assert_string_equal(text, "b");
	assert_int_equal(alloc_conf_choose("a", "a", &text, NULL), 0);
	assert_int_equal(alloc_conf_choose("a", "b", &text, &err), -1);
	assert_non_null(strstr(err.text, "PYTORCH_ALLOC_CONF differ"));
}

static void test_torch_version(void **state)
{
	(void)state;
	assert_int_equal(alloc_torch_parse("2.11.0+cu130"), 211);
	assert_int_equal(alloc_torch_parse("2.4"), 204);
	assert_int_equal(alloc_torch_parse(""), 0);
	assert_int_equal(alloc_torch_parse("two"), 0);
	assert_int_equal(alloc_torch_parse("12.100"), 0);
}

/* A place among thousands of free blocks of one size is found without a look at each of them, in whatever order they come. */
static void test_many_of_one_size(void **state)
{
	enum { N = 20000, STEP = 7919 };	/* which has no divisor in common with N */
	struct alloc_conf conf = alloc_conf_default();
	struct alloc_sim *a = alloc_sim_create(&conf, NULL);
	uint64_t lowest = UINT64_MAX;

	(void)state;
	for (uint32_t id = 0; id < 2 * N; id++)
		assert_true(alloc_sim_request(a, id, 512, 0));
	for (uint32_t n = 0; n < N; n++) {
		uint32_t id = 2 * (n * STEP % N);

		lowest = alloc_sim_address(a, id) < lowest ? alloc_sim_address(a, id) : lowest;
		alloc_sim_free(a, id);
	}
	assert_true(alloc_sim_request(a, 0, 512, 0));
	assert_int_equal(alloc_sim_address(a, 0), lowest);
	assert_true(alloc_sim_stats(a)->work < 64 * N);
	alloc_sim_destroy(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_peaks_and_retries),
		cmocka_unit_test(test_random_use),
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_hard_cap),
		cmocka_unit_test(test_many_of_one_size),
		cmocka_unit_test(test_conf),
		cmocka_unit_test(test_conf_by_version),
		cmocka_unit_test(test_conf_refused),
		cmocka_unit_test(test_conf_choice),
		cmocka_unit_test(test_torch_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
