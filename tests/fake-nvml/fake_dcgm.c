/* SPDX-License-Identifier: MIT
 *
 * A stand-in for NVIDIA's libdcgm. The file named by RAD_FAKE_DCGM says what it answers (README.md beside this file).
 * Declared from the same facts as src/monitor/dcgm.c, but apart from it: a layout that is wrong there shows here.
 */
#include "script.h"

#include <stdint.h>
#include <stdio.h>
#include <time.h>

struct params { unsigned int version, persist, timeout_ms, is_socket; };
struct entity { int group; unsigned int id; };
struct value {
	unsigned int version;
	int group;
	unsigned int entity;
	unsigned short field, type;
	int status;
	unsigned int unused;
	int64_t ts;
	union { int64_t i64; double dbl; char str[256]; char blob[4096]; } v;
};

enum { OK = 0, BAD_PARAM = -1, NOT_CONNECTED = -21 };

static json_t *script;
static int watched;

EXPORT int dcgmInit(void);
EXPORT int dcgmInit(void)
{
	script_read("RAD_FAKE_DCGM", &script);
	return script_failure(script, "dcgmInit");
}

__attribute__((destructor)) static void forget(void)
{
	json_decref(script);
	script = NULL;
}

EXPORT int dcgmShutdown(void);
EXPORT int dcgmShutdown(void)
{
	forget();
	return OK;
}

EXPORT int dcgmConnect_v2(const char *address, struct params *p, uintptr_t *handle);
EXPORT int dcgmConnect_v2(const char *address, struct params *p, uintptr_t *handle)
{
	script_read("RAD_FAKE_DCGM", &script);
	const char *listens = json_string_value(json_object_get(script, "listens"));
	if (p->version != (16 | 2u << 24) || !listens || strcmp(listens, address) || p->is_socket != (*address == '/'))
		return NOT_CONNECTED;
	*handle = 7;
	watched = 0;
	return OK;
}

EXPORT int dcgmDisconnect(uintptr_t handle);
EXPORT int dcgmDisconnect(uintptr_t handle)
{
	return handle == 7 ? OK : BAD_PARAM;
}

EXPORT int dcgmStartEmbedded(int mode, uintptr_t *handle);
EXPORT int dcgmStartEmbedded(int mode, uintptr_t *handle)
{
	*handle = 7;
	return mode == 1 && json_is_true(json_object_get(script, "embedded")) ? OK : NOT_CONNECTED;
}

EXPORT int dcgmStopEmbedded(uintptr_t handle);
EXPORT int dcgmStopEmbedded(uintptr_t handle)
{
	return dcgmDisconnect(handle);
}

EXPORT int dcgmGetAllSupportedDevices(uintptr_t handle, unsigned int ids[32], int *count);
EXPORT int dcgmGetAllSupportedDevices(uintptr_t handle, unsigned int ids[32], int *count)
{
	size_t i;
	json_t *gpu;
	*count = 0;
	json_array_foreach(json_object_get(script, "gpus"), i, gpu)
		ids[(*count)++] = (unsigned)json_integer_value(json_object_get(gpu, "id"));
	return handle == 7 ? OK : BAD_PARAM;
}

EXPORT int dcgmFieldGroupCreate(uintptr_t handle, int n, const unsigned short *ids, const char *name, uintptr_t *group);
EXPORT int dcgmFieldGroupCreate(uintptr_t handle, int n, const unsigned short *ids, const char *name, uintptr_t *group)
{
	*group = 9;
	return handle == 7 && n > 0 && ids && name ? OK : BAD_PARAM;
}

EXPORT int dcgmWatchFields(uintptr_t handle, uintptr_t gpus, uintptr_t group, long long us, double age_s, int samples);
EXPORT int dcgmWatchFields(uintptr_t handle, uintptr_t gpus, uintptr_t group, long long us, double age_s, int samples)
{
	if (handle != 7 || gpus != 0x7fffffff || group != 9 || us < 100000 || age_s <= 0 || samples <= 0)
		return BAD_PARAM;
	watched = 1;
	return script_failure(script, "dcgmWatchFields");
}

static void answer(const json_t *gpu, struct value *v)
{
	char key[12];
	snprintf(key, sizeof key, "%d", v->field);
	const json_t *value = json_object_get(json_object_get(gpu, "fields"), key);
	v->type = json_is_integer(value) ? 'i' : 'd';
	if (v->field == 54) {
		v->type = 's';
		snprintf(v->v.str, sizeof v->v.str, "%s", json_string_value(json_object_get(gpu, "uuid")));
	} else if (json_is_integer(value)) {
		v->v.i64 = json_integer_value(value);
	} else {
		v->v.dbl = watched && json_is_real(value) ? json_real_value(value) : 140737488355328.0 + 2;
	}
}

EXPORT int dcgmEntitiesGetLatestValues(uintptr_t handle, struct entity *entities, unsigned int n_entities,
				       unsigned short *ids, unsigned int n, unsigned int flags, struct value *values);
EXPORT int dcgmEntitiesGetLatestValues(uintptr_t handle, struct entity *entities, unsigned int n_entities,
				       unsigned short *ids, unsigned int n, unsigned int flags, struct value *values)
{
	size_t i;
	json_t *gpu;
	script_read("RAD_FAKE_DCGM", &script);
	int code = script_failure(script, "dcgmEntitiesGetLatestValues");
	if (code || handle != 7 || n_entities != 1 || entities->group != 1 || flags > 1)
		return code ? code : BAD_PARAM;
	json_array_foreach(json_object_get(script, "gpus"), i, gpu) {
		if ((unsigned)json_integer_value(json_object_get(gpu, "id")) != entities->id)
			continue;
		for (unsigned int k = 0; k < n; k++) {
			int64_t age_us = json_integer_value(json_object_get(gpu, "age_ms")) * 1000;
			values[k] = (struct value){ .group = 1, .entity = entities->id, .field = ids[k] };
			values[k].ts = (int64_t)time(NULL) * 1000000 - age_us;
			answer(gpu, &values[k]);
		}
		return OK;
	}
	return BAD_PARAM;
}
