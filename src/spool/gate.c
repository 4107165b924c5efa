/* SPDX-License-Identifier: MIT
 * Places of an array that is limited: see spool.h. A place names a claim, an element and the version that claims it, before
 * that version is made: so there are never more claims than places, whoever is killed in between, and nobody gives one back.
 */
#include "spool/private.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void gate_path(uint32_t job, unsigned version, char path[SPOOL_NAME])
{
	snprintf(path, SPOOL_NAME, "jobs/%u/g.%u", job, version);
}

static bool gate_is_there(const struct spool *s, uint32_t job, unsigned version)
{
	char path[SPOOL_NAME];
	gate_path(job, version, path);
	return !faccessat(s->fd, path, F_OK, AT_SYMLINK_NOFOLLOW);
}

static bool read_place(const json_t *o, struct spool_place *place)
{
	json_int_t element = json_integer_value(json_array_get(o, 0)), claim = json_integer_value(json_array_get(o, 1));
	if (json_array_size(o) != 2 || element < 0 || element > (1 << TASK_INDEX_BITS) - 2 || claim < 1 || claim > SPOOL_MAX_VERSION)
		return false;
	*place = (struct spool_place){ (uint32_t)element, (unsigned)claim };
	return true;
}

static bool read_places(const json_t *list, struct spool_gate *g)
{
	size_t i;
	json_t *one;
	if (!json_is_array(list) || json_array_size(list) > SPOOL_MAX_PLACES)
		return false;
	g->places = alloc_zero((json_array_size(list) + 1) * sizeof *g->places);
	json_array_foreach(list, i, one)
		if (!read_place(one, &g->places[g->n++]))
			return false;
	return true;
}

bool spool_parse_gate(const char *text, size_t len, struct spool_gate *g)
{
	scoped_json *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	*g = (struct spool_gate){ .n = 0 };
	if (json_integer_value(json_object_get(o, "format")) == SPOOL_FORMAT && read_places(json_object_get(o, "places"), g))
		return true;
	spool_gate_clear(g);
	g->broken = true;
	return false;
}

int spool_gate_read(const struct spool *s, uint32_t job, unsigned from, struct spool_gate *g, struct error *err)
{
	char path[SPOOL_NAME];
	scoped_buf text = { 0 };
	struct error why = ERROR_INIT;
	while (from < SPOOL_MAX_GATE && gate_is_there(s, job, from + 1))
		from++;
	*g = (struct spool_gate){ .n = 0 };
	gate_path(job, from, path);
	if (from && spool_file_text(s, path, SPOOL_MAX_FILE, &text, &why)) {
		if (!spool_is_damage(&why))
			return error_pass(err, &why);
		g->broken = true;
	} else if (from) {
		spool_parse_gate(buf_text(&text), text.len, g);
	}
	g->version = from;
	return 0;
}

void spool_gate_clear(struct spool_gate *g)
{
	free(g->places);
	*g = (struct spool_gate){ .n = 0 };
}

int spool_gate_change(const struct spool *s, uint32_t job, struct spool_gate *g, struct error *err)
{
	char name[SPOOL_NAME], path[SPOOL_NAME], folder[SPOOL_NAME];
	if (g->version >= SPOOL_MAX_GATE)
		return error_set(err, ERR_CONFLICT, "task %u: its limit was counted %d times, which is the most there is", job,
				 SPOOL_MAX_GATE);
	json_t *places = json_array();
	for (size_t i = 0; i < g->n; i++)
		json_array_append_new(places, json_pack("[iI]", (int)g->places[i].element, (json_int_t)g->places[i].claim));
	scoped_json *content = json_pack("{si, so}", "format", SPOOL_FORMAT, "places", places);
	gate_path(job, g->version + 1, path);
	snprintf(folder, sizeof folder, "jobs/%u", job);
	if (spool_file_make(s, content, name, err))
		return -1;
	int rc = spool_file_link(s, name, folder, path, err);
	g->version += !rc;
	return rc;
}
