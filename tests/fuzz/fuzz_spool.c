/* SPDX-License-Identifier: MIT
 * Records and places of a queue of files, which another release, a torn write or a hand may have made: any bytes are one or none;
 * one that was read names nobody's path, and has no state but with what that needs.
 */
#include "fuzz.h"

#include "spool/spool.h"

#include <string.h>

static void check_record(const struct spool_record *r, bool good)
{
	FUZZ_HOLDS(good == (r->state != SPOOL_BROKEN));
	FUZZ_HOLDS(memchr(r->event, 0, sizeof r->event) && memchr(r->by, 0, sizeof r->by) && memchr(r->text, 0, sizeof r->text));
	FUZZ_HOLDS(memchr(r->pilot, 0, sizeof r->pilot) && !strchr(r->pilot, '/') && *r->pilot != '.');
	FUZZ_HOLDS(r->state < SPOOL_BROKEN || (r->state == SPOOL_BROKEN && *r->text && !r->task));
	FUZZ_HOLDS(r->state != SPOOL_CLAIMED || *r->pilot);
	FUZZ_HOLDS(r->state != SPOOL_ENDED || task_state_terminal(r->end));
	FUZZ_HOLDS(r->claim <= SPOOL_MAX_VERSION && r->claims <= SPOOL_MAX_VERSION && r->cuts <= SPOOL_MAX_VERSION);
	FUZZ_HOLDS(good ? r->ran_s >= 0 && r->ran_s < 1e12 : r->ran_s == 0);
	struct spool_record next = spool_record_next(r, "fuzzed", NULL);
	FUZZ_HOLDS(!next.task && !strcmp(next.event, "fuzzed") && next.version == r->version);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spool_record r;
	struct spool_gate g;
	bool good = spool_parse_record((const char *)data, size, &r);
	check_record(&r, good);
	spool_record_clear(&r);
	good = spool_parse_gate((const char *)data, size, &g);
	FUZZ_HOLDS(good == !g.broken && (good || (!g.n && !g.places)) && g.n <= SPOOL_MAX_PLACES);
	for (size_t i = 0; i < g.n; i++)
		FUZZ_HOLDS(g.places[i].claim >= 1 && g.places[i].claim <= SPOOL_MAX_VERSION && g.places[i].element < 1u << TASK_INDEX_BITS);
	spool_gate_clear(&g);
	return 0;
}
