/* SPDX-License-Identifier: MIT
 * Beliefs about loads travel: from workers, into the store, out to people. So what comes in is made clean here, once, and
 * whoever computes with one afterwards meets numbers in range or NaN.
 */
#include "task/load.h"

#include "base/json.h"

#include <math.h>
#include <string.h>

static const char *const sources[] = {
#define X(name, word) [name] = word,
	LOAD_SOURCES(X)
#undef X
};

struct load_belief load_unknown(void)
{
	return (struct load_belief){ { NAN, NAN, 0 }, NAN, NAN, NAN, NAN, NAN, LOAD_UNKNOWN };
}

#define MOST_KERNELS 1e8	/* in a second: no host launches so many */
#define MOST_RUN_S 1e9		/* thirty years */
#define MOST_CORES 1e6

static double within(double v, double most)
{
	return v >= 0 && v <= most ? v : NAN;
}

static double known(double v, double most)
{
	return v > 0 && v <= most ? v : 0;
}

/* One that says neither load says nothing that anybody would ask for. */
struct load_belief load_clean(const struct load_belief *b)
{
	struct load_belief c = load_unknown();
	if (b->source <= LOAD_UNKNOWN || b->source >= LOAD_SOURCE_COUNT)
		return c;
	c = (struct load_belief){ { within(b->load.gract, 1), within(b->load.smact, 1),
				    known(b->load.kernels, MOST_KERNELS) },
				  within(b->gract_sd, 1), within(b->smact_sd, 1), within(b->dram, 1), within(b->dram_sd, 1),
				  within(b->watts, 1e5), b->source, known(b->host, 1), known(b->run_s, MOST_RUN_S), known(b->limit_s, MOST_RUN_S),
				  known(b->loader, 1), known(b->cores, MOST_CORES) };
	return isnan(c.load.gract) && isnan(c.load.smact) ? load_unknown() : c;
}

double load_run_s(const struct load_belief *b)
{
	return b->limit_s > 0 && (!(b->run_s > 0) || b->limit_s < b->run_s) ? b->limit_s : b->run_s;
}

/* The host's part is not rounded: what a run takes at the host's pace is computed from it. */
json_t *load_to_json(const struct load_belief *b)
{
	if (b->source == LOAD_UNKNOWN)
		return json_null();
	return json_pack("{so, so, so, so, so, so, so, so, ss, so*, so*, so*, so*, so*}", "gract", json_round3(b->load.gract),
		"gract_sd", json_round3(b->gract_sd), "smact", json_round3(b->load.smact), "smact_sd", json_round3(b->smact_sd),
		"dram", json_round3(b->dram), "dram_sd", json_round3(b->dram_sd), "watts", json_round3(b->watts),
		"kernels_s", json_round3(b->load.kernels > 0 ? b->load.kernels : NAN),
		"source", sources[b->source], "host", b->host > 0 ? json_real(b->host) : NULL,
		"run_s", b->run_s > 0 ? json_round3(b->run_s) : NULL,
		"limit_s", b->limit_s > 0 ? json_round3(b->limit_s) : NULL, "loader", b->loader > 0 ? json_real(b->loader) : NULL,
		"cores", b->cores > 0 ? json_round3(b->cores) : NULL);
}

static int read_source(const json_t *v, enum load_source *s, struct error *err)
{
	const char *word = json_string_value(json_object_get(v, "source"));
	for (unsigned i = 0; word && i < LOAD_SOURCE_COUNT; i++)
		if (!strcmp(word, sources[i])) {
			*s = (enum load_source)i;
			return 0;
		}
	return error_set(err, ERR_CORRUPT, "the 'source' of a load is '%.40s'", word ? word : "(missing)");
}

int load_from_json(const json_t *v, struct load_belief *b, struct error *err)
{
	*b = load_unknown();
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_object(v))
		return error_set(err, ERR_CORRUPT, "a load is no object");
	if (read_source(v, &b->source, err) || json_read_double(v, "gract", &b->load.gract, err) ||
	    json_read_double(v, "gract_sd", &b->gract_sd, err) || json_read_double(v, "smact", &b->load.smact, err) ||
	    json_read_double(v, "smact_sd", &b->smact_sd, err) || json_read_double(v, "dram", &b->dram, err) ||
	    json_read_double(v, "dram_sd", &b->dram_sd, err) || json_read_double(v, "watts", &b->watts, err) ||
	    json_read_double(v, "kernels_s", &b->load.kernels, err) || json_read_double(v, "host", &b->host, err) ||
	    json_read_double(v, "run_s", &b->run_s, err) || json_read_double(v, "limit_s", &b->limit_s, err) ||
	    json_read_double(v, "loader", &b->loader, err) || json_read_double(v, "cores", &b->cores, err))
		return -1;
	*b = load_clean(b);
	return 0;
}
