/* SPDX-License-Identifier: MIT
 * The table of settings and the reader of the file. The file is YAML, read with libyaml's event parser, because its marks
 * give the line of every key (doc/decisions/0002-config-reader.md).
 */
#include "daemon/config.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <yaml.h>

typedef int (*setter)(struct config *c, const char *value, struct error *err);

static bool is_off(const char *value)
{
	return !strcasecmp(value, "off") || !strcasecmp(value, "no") || !strcasecmp(value, "false");
}

static int parse_bool(const char *value, bool *out, struct error *err)
{
	*out = !strcasecmp(value, "on") || !strcasecmp(value, "yes") || !strcasecmp(value, "true");
	if (!*out && !is_off(value))
		return error_set(err, ERR_INVALID, "'%.40s' is neither on nor off", value);
	return 0;
}

static int parse_fraction(const char *value, double *out, struct error *err)
{
	if (is_off(value)) {
		*out = NAN;
		return 0;
	}
	return units_parse_double(value, 0.01, 1, out, err);
}

/* A bare number is GiB here, as in the papers' "5 GB"; with a suffix it is what it says. */
static int parse_gib(const char *value, uint64_t *out, struct error *err)
{
	double gib;
	if (is_off(value)) {
		*out = 0;
		return 0;
	}
	if (!units_parse_double(value, 0, 4096, &gib, NULL)) {
		*out = (uint64_t)(gib * 1024);
		return 0;
	}
	return units_parse_mib(value, out, err);
}

/* Seconds, or one of the forms of a duration with a unit. */
static int parse_ms(const char *value, double min_s, double max_s, int64_t *out, struct error *err)
{
	double s;
	int64_t whole;
	if (units_parse_double(value, 0, 1e9, &s, NULL)) {
		if (units_parse_duration(value, &whole, err))
			return -1;
		s = (double)whole;
	}
	if (s < min_s || s > max_s)
		return error_set(err, ERR_INVALID, "'%.40s': must be from %g to %g seconds", value, min_s, max_s);
	*out = (int64_t)(s * 1000);
	return 0;
}

#define SETTER(name) static int name(struct config *c, const char *value, struct error *err)

SETTER(set_devices)
{
	free(c->devices);
	c->devices = alloc_string(value);
	(void)err;
	return 0;
}
SETTER(set_placement) { return map_rank_parse(value, &c->core.map.rank, err); }
SETTER(set_share)
{
	enum share_mode mode;
	if (share_mode_parse(value, &mode, err))
		return -1;
	if (mode == SHARE_AUTO)
		mode = SHARE_MPS;
	if (mode == SHARE_MIG)
		return error_set(err, ERR_INVALID, "'mig' is not a default: instances are used wherever they are there");
	c->core.map.share = mode;
	return 0;
}
SETTER(set_max_smact) { return parse_fraction(value, &c->core.map.max_smact, err); }
SETTER(set_max_gract) { return parse_fraction(value, &c->core.map.max_gract, err); }
SETTER(set_min_free) { return parse_gib(value, &c->core.map.min_free_mib, err); }
SETTER(set_slack) { return parse_gib(value, &c->core.map.slack_mib, err); }
SETTER(set_max_slowdown)
{
	c->core.map.max_slowdown = 0;
	return is_off(value) ? 0 : units_parse_double(value, 1, 1000, &c->core.map.max_slowdown, err);
}
SETTER(set_min_gain) { return units_parse_double(value, 0, 1, &c->core.map.min_gain, err); }
SETTER(set_order) { return core_order_parse(value, &c->core.order, err); }
SETTER(set_pass_max) { return parse_ms(value, 0, 86400 * 7, &c->core.pass_max_ms, err); }
SETTER(set_max_tasks)
{
	int64_t n = 0;
	if (!is_off(value) && units_parse_int(value, 1, 48, &n, err))
		return -1;
	c->core.map.max_tasks = (unsigned)n;
	return 0;
}
SETTER(set_user_tasks)
{
	int64_t n = 0;
	if (!is_off(value) && units_parse_int(value, 1, 10000000, &n, err))
		return -1;
	c->user_tasks = (size_t)n;
	return 0;
}
SETTER(set_foreign)
{
	c->core.map.foreign_share = !strcmp(value, "share");
	if (!c->core.map.foreign_share && strcmp(value, "avoid"))
		return error_set(err, ERR_INVALID, "'%.40s' is neither avoid nor share", value);
	return 0;
}
SETTER(set_ledger) { return parse_bool(value, &c->core.map.ledger, err); }
SETTER(set_fence) { return parse_bool(value, &c->core.fence, err); }
SETTER(set_mps) { return parse_bool(value, &c->mps, err); }
SETTER(set_positional)
{
	c->positional_policy = !strcmp(value, "honour");
	if (!c->positional_policy && strcmp(value, "ignore"))
		return error_set(err, ERR_INVALID, "'%.40s' is neither ignore nor honour", value);
	return 0;
}
SETTER(set_interval) { return parse_ms(value, 0.1, 60, &c->interval_ms, err); }
SETTER(set_window) { return parse_ms(value, 1, 3600, &c->core.window.span_ms, err); }
SETTER(set_settle) { return parse_ms(value, 0, 3600, &c->core.window.settle_ms, err); }
SETTER(set_warm) { return parse_ms(value, 0, 3600, &c->core.warm_ms, err); }
SETTER(set_stale) { return parse_ms(value, 1, 3600, &c->core.stale_ms, err); }
SETTER(set_kill_wait) { return parse_ms(value, 0, 3600, &c->kill_wait_ms, err); }
SETTER(set_recovery) { return recover_mode_parse(value, &c->core.recover.mode, err); }
SETTER(set_keep_max) { return parse_ms(value, 0, 86400 * 7, &c->core.recover.keep_max_ms, err); }
SETTER(set_grow_step) { return parse_gib(value, &c->core.recover.grow_step_mib, err); }
SETTER(set_max_attempts)
{
	int64_t n;
	if (units_parse_int(value, 1, 100, &n, err))
		return -1;
	c->core.recover.max_attempts = (unsigned)n;
	return 0;
}

static const struct { const char *key, *standard, *help; setter set; } keys[] = {
	{ "devices", "nvml", "where GPUs come from: nvml, or simulated ones such as sim:4xa100-40g", set_devices },
	{ "placement", "magm", "which of the GPUs that fit is taken: magm, rr, lug, mug, ff, gain or exclusive", set_placement },
	{ "share", "mps", "how tasks share a GPU when they do not say: mps (where it works, else streams), streams or never",
	  set_share },
	{ "max_smact", "0.80", "no task joins a GPU whose SMs are busier than this under mps; off: not asked", set_max_smact },
	{ "max_gract", "0.90", "the same under streams, by GRACT", set_max_gract },
	{ "max_slowdown", "off", "how many times slower than alone a task may be made, where it says nothing itself",
	  set_max_slowdown },
	{ "min_gain", "0.05", "under gain: part of its work that a task must add to what a GPU does, to join others",
	  set_min_gain },
	{ "order", "fifo", "of the queue: fifo, backfill (later tasks pass one that does not fit), or plan (all done soonest)",
	  set_order },
	{ "pass_max", "3600", "seconds for which the first in line may be passed before GPUs are kept for it", set_pass_max },
	{ "min_free", "5", "GiB asked of a GPU, and held, for a task without an estimate; off: not asked", set_min_free },
	{ "slack", "2", "GiB that must be free on top of a claim at admission", set_slack },
	{ "max_tasks", "2", "tasks per GPU where no load can be read; off: no limit", set_max_tasks },
	{ "user_tasks", "10000", "unfinished tasks one user may have at a time, administrators apart; off: no limit", set_user_tasks },
	{ "foreign", "avoid", "GPUs used by processes that are not ours (over 1 GiB): avoid or share", set_foreign },
	{ "ledger", "on", "hold what tasks are expected to take; off: believe the driver's free memory", set_ledger },
	{ "fence", "on", "give MPS tasks whose claim is declared or known a memory limit of that size", set_fence },
	{ "mps", "on", "start MPS control daemons where share asks for them", set_mps },
	{ "positional_policy", "ignore", "line 7 of positional task files (exclusive, collocation): ignore or honour",
	  set_positional },
	{ "interval", "1", "seconds between samples", set_interval },
	{ "window", "90", "seconds over which load is averaged", set_window },
	{ "settle", "30", "seconds of samples needed after the set of tasks on a GPU changed", set_settle },
	{ "warm", "30", "seconds of activity after which what a task is seen to use is believed", set_warm },
	{ "stale", "10", "seconds after which a reading no longer counts", set_stale },
	{ "kill_wait", "30", "seconds between SIGTERM and SIGKILL", set_kill_wait },
	{ "recovery", "exclusive", "a task that ran out of GPU memory: exclusive (alone on its GPUs), grow (more memory) or off",
	  set_recovery },
	{ "keep_max", "1800", "seconds for which GPUs are kept free for such a task before it grows instead", set_keep_max },
	{ "grow_step", "5", "GiB by which a claim grows (section 7.2 of the dissertation)", set_grow_step },
	{ "max_attempts", "3", "attempts of one task before out-of-memory is final", set_max_attempts },
};

struct config config_default(void)
{
	struct config c = { .core = core_config_default(), .interval_ms = 1000, .kill_wait_ms = 30000, .mps = true,
			    .user_tasks = 10000 };
	c.devices = alloc_string("nvml");
	return c;
}

void config_clear(struct config *c)
{
	free(c->devices);
	c->devices = NULL;
}

void config_describe(FILE *out)
{
	for (size_t i = 0; i < COUNT_OF(keys); i++)
		fprintf(out, "%s\t%s\t%s\n", keys[i].key, keys[i].standard, keys[i].help);
}

static int unknown_key(const char *key, struct error *err)
{
	const char *names[COUNT_OF(keys) + 1] = { NULL };
	for (size_t i = 0; i < COUNT_OF(keys); i++)
		names[i] = keys[i].key;
	const char *near = words_nearest(key, names);
	return error_set(err, ERR_INVALID, "unknown key '%.60s'%s%s%s; rad.conf(5) lists them", key, near ? ": did you mean '" : "",
			 near ? near : "", near ? "'?" : "");
}

int config_set(struct config *c, const char *key, const char *value, struct error *err)
{
	for (size_t i = 0; i < COUNT_OF(keys); i++)
		if (!strcmp(key, keys[i].key))
			return keys[i].set(c, value, err) ? error_wrap(err, "%s", key) : 0;
	return unknown_key(key, err);
}

/* The flat mapping: scalars only, key then value. */
static int read_mapping(yaml_parser_t *parser, const char *path, struct config *c, struct error *err)
{
	scoped_free char *key = NULL;
	for (;;) {
		yaml_event_t e;
		if (!yaml_parser_parse(parser, &e))
			return error_set(err, ERR_INVALID, "%s:%zu: not YAML: %s", path, parser->problem_mark.line + 1,
					 parser->problem ? parser->problem : "unreadable");
		size_t line = e.start_mark.line + 1;
		yaml_event_type_t type = e.type;
		scoped_free char *text = type == YAML_SCALAR_EVENT ? alloc_string((const char *)e.data.scalar.value) : NULL;
		yaml_event_delete(&e);
		if (type == YAML_STREAM_END_EVENT && key)
			return error_set(err, ERR_INVALID, "%s:%zu: '%.60s' is not a 'key: value' line", path, line, key);
		if (type == YAML_STREAM_END_EVENT)
			return 0;
		if (type == YAML_SEQUENCE_START_EVENT || type == YAML_ALIAS_EVENT || (type == YAML_MAPPING_START_EVENT && key))
			return error_set(err, ERR_INVALID, "%s:%zu: one 'key: value' a line is expected, no lists or blocks", path, line);
		if (type != YAML_SCALAR_EVENT)
			continue;
		if (!key) {
			key = steal(text);
			continue;
		}
		if (config_set(c, key, text, err))
			return error_wrap(err, "%s:%zu", path, line);
		free(steal(key));
	}
}

int config_read(const char *path, bool must_exist, struct config *c, struct error *err)
{
	scoped_buf text = { 0 };
	if (access(path, F_OK) && errno == ENOENT && !must_exist)
		return 0;
	if (io_read_file(path, 1 << 20, &text, err))
		return -1;
	yaml_parser_t parser;
	if (!yaml_parser_initialize(&parser))
		return error_set(err, ERR_INTERNAL, "%s: the YAML parser cannot start", path);
	yaml_parser_set_input_string(&parser, (const unsigned char *)buf_text(&text), text.len);
	int rc = read_mapping(&parser, path, c, err);
	yaml_parser_delete(&parser);
	return rc;
}
