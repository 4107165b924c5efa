/* SPDX-License-Identifier: MIT
 * Which devices are simulated: the built-in models, "4xa100-40g,1xh200-141g", and YAML files. YAML is read by libyaml's
 * document calls, which know the line of everything, so that errors can name it.
 */
#include "monitor/simdev.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"
#include "base/units.h"

#include <ctype.h>
#include <string.h>
#include <yaml.h>

#define MAX_FILE (256 << 10)
#define MAX_MEM_MIB (16 << 20)

/* Totals as nvidia-smi shows them, reserves as NVML's second memory call does; peaks are the power limits of the boards, idle
 * what they draw with no process on them. models/power.h says what comes between. */
const struct device_model simdev_models[] = {
	{ "a100-40g", "NVIDIA A100-SXM4-40GB", 40960, 600, 108, 55, 400 },
	{ "a100-80g", "NVIDIA A100-SXM4-80GB", 81920, 760, 108, 65, 400 },
	{ "h100-80g", "NVIDIA H100 80GB HBM3", 81559, 550, 132, 75, 700 },
	{ "h200-141g", "NVIDIA H200", 143771, 620, 132, 75, 700 },
	{ "v100-16g", "Tesla V100-SXM2-16GB", 16384, 250, 80, 40, 300 },
	{ "v100-32g", "Tesla V100-SXM2-32GB", 32768, 260, 80, 45, 300 },
	{ "" },
};

static const struct device_model *find_model(const char *name)
{
	for (const struct device_model *m = simdev_models; *m->name; m++)
		if (!strcmp(m->name, name))
			return m;
	return NULL;
}

static int unknown_model(const char *name, struct error *err)
{
	scoped_buf names = { 0 };
	for (const struct device_model *m = simdev_models; *m->name; m++)
		buf_printf(&names, " %s", m->name);
	return error_set(err, ERR_INVALID, "no simulated device is called '%.40s'; there are:%s. A YAML file can describe "
			 "others", name, names.data);
}

struct devices { struct device_model *list; size_t n, cap; };

static int add_devices(struct devices *d, const struct device_model *model, int64_t count, struct error *err)
{
	if (d->n + (size_t)count > SIMDEV_MAX_DEVICES)
		return error_set(err, ERR_INVALID, "more than %d simulated devices", SIMDEV_MAX_DEVICES);
	for (int64_t i = 0; i < count; i++) {
		alloc_grow(d->list, d->n, d->cap);
		d->list[d->n++] = *model;
	}
	return 0;
}

/* "4xa100-40g" or "a100-40g". No model's name begins with digits and an x. */
static int parse_item(char *item, struct devices *out, struct error *err)
{
	int64_t count = 1;
	char *name = item;
	size_t digits = strspn(item, "0123456789");
	if (digits && item[digits] == 'x') {
		item[digits] = 0;
		name = item + digits + 1;
		if (units_parse_int(item, 1, SIMDEV_MAX_DEVICES, &count, err))
			return error_wrap(err, "number of devices");
	}
	const struct device_model *model = find_model(name);
	return model ? add_devices(out, model, count, err) : unknown_model(name, err);
}

static int parse_list(const char *spec, struct devices *out, struct error *err)
{
	scoped_free char *copy = alloc_string(spec);
	char *rest = copy, *item;
	while ((item = strsep(&rest, ",")))
		if (parse_item(item, out, err))
			return error_wrap(err, "simulated devices '%.80s'", spec);
	return 0;
}

/* One item of a file while its keys are read. */
struct item { struct device_model model; int64_t count; };

static int read_text(const char *value, char *out, size_t size, struct error *err)
{
	for (const char *p = value; *p; p++)
		if (iscntrl((unsigned char)*p))
			return error_set(err, ERR_INVALID, "control characters are not allowed");
	if (!*value || strlen(value) >= size)
		return error_set(err, ERR_INVALID, "must have 1 to %zu characters", size - 1);
	memcpy(out, value, strlen(value) + 1);
	return 0;
}

static int read_model(struct item *it, const char *value, struct error *err)
{
	return read_text(value, it->model.name, sizeof it->model.name, err);
}

static int read_gpu_name(struct item *it, const char *value, struct error *err)
{
	return read_text(value, it->model.gpu_name, sizeof it->model.gpu_name, err);
}

static int read_count(struct item *it, const char *value, struct error *err)
{
	return units_parse_int(value, 1, SIMDEV_MAX_DEVICES, &it->count, err);
}

static int read_mib(const char *value, uint64_t *mib, struct error *err)
{
	if (units_parse_mib(value, mib, err))
		return -1;
	return *mib <= MAX_MEM_MIB ? 0 : error_set(err, ERR_INVALID, "'%.40s' is more than 16T", value);
}

static int read_memory(struct item *it, const char *value, struct error *err)
{
	return read_mib(value, &it->model.mem_total_mib, err);
}

static int read_reserved(struct item *it, const char *value, struct error *err)
{
	return read_mib(value, &it->model.mem_reserved_mib, err);
}

static int read_sm_count(struct item *it, const char *value, struct error *err)
{
	int64_t count;
	if (units_parse_int(value, 1, 10000, &count, err))
		return -1;
	it->model.sm_count = (uint32_t)count;
	return 0;
}

static int read_idle_w(struct item *it, const char *value, struct error *err)
{
	return units_parse_double(value, 0, 100000, &it->model.idle_w, err);
}

static int read_peak_w(struct item *it, const char *value, struct error *err)
{
	return units_parse_double(value, 0, 100000, &it->model.peak_w, err);
}

static int read_limit_w(struct item *it, const char *value, struct error *err)
{
	return units_parse_double(value, 0, 100000, &it->model.limit_w, err);
}

/* `model` comes first: what it brings, the others change. */
static const struct key {
	const char *name;
	int (*read)(struct item *it, const char *value, struct error *err);
} keys[] = {
	{ "model", read_model }, { "count", read_count }, { "gpu_name", read_gpu_name }, { "memory", read_memory },
	{ "reserved", read_reserved }, { "sm_count", read_sm_count }, { "idle_w", read_idle_w }, { "peak_w", read_peak_w },
	{ "limit_w", read_limit_w },
};

struct file { const char *path; yaml_document_t doc; };

static int wrong_at(const struct file *f, const yaml_node_t *node, struct error *err)
{
	return error_wrap(err, "%s:%zu", f->path, node->start_mark.line + 1);
}

static const char *scalar(const yaml_node_t *node)
{
	bool plain = node->type == YAML_SCALAR_NODE && strlen((char *)node->data.scalar.value) == node->data.scalar.length;
	return plain ? (char *)node->data.scalar.value : NULL;
}

static int check_key(const struct file *f, const yaml_node_t *node, struct error *err)
{
	const char *name = scalar(node);
	for (size_t k = 0; name && k < COUNT_OF(keys); k++)
		if (!strcmp(name, keys[k].name))
			return 0;
	error_set(err, ERR_INVALID, "unknown key '%.40s'; a device has: model count gpu_name memory reserved sm_count idle_w "
		  "peak_w limit_w", name ? name : "(not a word)");
	return wrong_at(f, node, err);
}

/* Applies one key wherever the mapping has it. */
static int apply_key(struct file *f, const yaml_node_t *map, const struct key *key, struct item *it, struct error *err)
{
	for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
		const yaml_node_t *name = yaml_document_get_node(&f->doc, p->key);
		const yaml_node_t *value = yaml_document_get_node(&f->doc, p->value);
		if (check_key(f, name, err))
			return -1;
		if (strcmp(scalar(name), key->name))
			continue;
		const char *text = scalar(value);
		if (!text)
			error_set(err, ERR_INVALID, "must be one word or number");
		if (text && !key->read(it, text, err))
			continue;
		error_wrap(err, "%s", key->name);
		return wrong_at(f, value, err);
	}
	return 0;
}

static int check_item(const struct device_model *m, struct error *err)
{
	if (!m->mem_total_mib)
		return error_set(err, ERR_INVALID, "'%s' is no built-in model: say its memory", m->name);
	if (m->mem_reserved_mib >= m->mem_total_mib)
		return error_set(err, ERR_INVALID, "the driver cannot reserve %llu MiB of %llu MiB",
				 (unsigned long long)m->mem_reserved_mib, (unsigned long long)m->mem_total_mib);
	if (m->idle_w > m->peak_w)
		return error_set(err, ERR_INVALID, "idle_w %g is above peak_w %g", m->idle_w, m->peak_w);
	if (m->limit_w > 0 && m->limit_w < m->idle_w)
		return error_set(err, ERR_INVALID, "limit_w %g is below idle_w %g", m->limit_w, m->idle_w);
	return 0;
}

static int read_item(struct file *f, const yaml_node_t *map, struct devices *out, struct error *err)
{
	struct item it = { .count = 1 };
	if (map->type != YAML_MAPPING_NODE) {
		error_set(err, ERR_INVALID, "a device is a list of keys, such as '- model: a100-40g'");
		return wrong_at(f, map, err);
	}
	if (apply_key(f, map, &keys[0], &it, err))
		return -1;
	if (!*it.model.name) {
		error_set(err, ERR_INVALID, "a device needs a model: a built-in one, or a name of your own");
		return wrong_at(f, map, err);
	}
	const struct device_model *known = find_model(it.model.name);
	if (known) {
		it.model = *known;
	} else {
		snprintf(it.model.gpu_name, sizeof it.model.gpu_name, "%s", it.model.name);
		it.model.sm_count = 100;
		it.model.idle_w = 50, it.model.peak_w = 400;
	}
	for (size_t k = 1; k < COUNT_OF(keys); k++)
		if (apply_key(f, map, &keys[k], &it, err))
			return -1;
	if (check_item(&it.model, err) || add_devices(out, &it.model, it.count, err))
		return wrong_at(f, map, err);
	return 0;
}

static int read_document(struct file *f, struct devices *out, struct error *err)
{
	static const yaml_node_t nowhere;
	const yaml_node_t *root = yaml_document_get_root_node(&f->doc), *list = NULL;
	bool map = root && root->type == YAML_MAPPING_NODE;
	if (map && root->data.mapping.pairs.top == root->data.mapping.pairs.start + 1) {
		const yaml_node_t *name = yaml_document_get_node(&f->doc, root->data.mapping.pairs.start->key);
		if (scalar(name) && !strcmp(scalar(name), "devices"))
			list = yaml_document_get_node(&f->doc, root->data.mapping.pairs.start->value);
	}
	if (!list || list->type != YAML_SEQUENCE_NODE || list->data.sequence.items.start == list->data.sequence.items.top) {
		error_set(err, ERR_INVALID, "must hold one key, 'devices:', and under it a list of devices");
		return wrong_at(f, root ? root : &nowhere, err);
	}
	for (yaml_node_item_t *i = list->data.sequence.items.start; i < list->data.sequence.items.top; i++)
		if (read_item(f, yaml_document_get_node(&f->doc, *i), out, err))
			return -1;
	return 0;
}

static int parse_file(const char *path, struct devices *out, struct error *err)
{
	scoped_buf text = { 0 };
	struct file f = { .path = path };
	yaml_parser_t parser;
	if (io_read_file(path, MAX_FILE, &text, err))
		return -1;
	if (!yaml_parser_initialize(&parser))
		return error_set(err, ERR_SYSTEM, "%s: out of memory", path);
	yaml_parser_set_input_string(&parser, (const unsigned char *)buf_text(&text), text.len);
	int rc = -1;
	if (yaml_parser_load(&parser, &f.doc)) {
		rc = read_document(&f, out, err);
		yaml_document_delete(&f.doc);
	} else {
		error_set(err, ERR_INVALID, "%s:%zu: is not YAML: %s", path, parser.problem_mark.line + 1,
			  parser.problem ? parser.problem : "unreadable");
	}
	yaml_parser_delete(&parser);
	return rc;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);
	return n >= k && !strcmp(text + n - k, end);
}

int simdev_parse(const char *spec, struct device_model **out, size_t *n, struct error *err)
{
	struct devices found = { 0 };
	bool is_file = ends_with(spec, ".yaml") || ends_with(spec, ".yml");
	if (is_file ? parse_file(spec, &found, err) : parse_list(spec, &found, err)) {
		free(found.list);
		return -1;
	}
	*out = found.list;
	*n = found.n;
	return 0;
}
