/* SPDX-License-Identifier: MIT
 * Which devices are simulated: the built-in models, "4xa100-40g,1xh200-141g", and YAML files. YAML is read by libyaml's
 * document calls, which know the line of everything, so that errors can name it.
 */
#include "device/simdev.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <yaml.h>

#define MAX_FILE (256 << 10)
#define MAX_MEM_MIB (16 << 20)

/* Totals as nvidia-smi shows them, reserves as NVML's second memory call does; peaks are the power limits of the boards, idle
 * what they draw with no process on them. models/power.h says what comes between. */
const struct device_model simdev_models[] = {
	{ "a100-40g", "NVIDIA A100-SXM4-40GB", 40960, 600, 108, 55, 400, .sm_part = 1 },
	{ "a100-80g", "NVIDIA A100-SXM4-80GB", 81920, 760, 108, 65, 400, .sm_part = 1 },
	{ "h100-80g", "NVIDIA H100 80GB HBM3", 81559, 550, 132, 75, 700, .sm_part = 1 },
	{ "h200-141g", "NVIDIA H200", 143771, 620, 132, 75, 700, .sm_part = 1 },
	{ "v100-16g", "Tesla V100-SXM2-16GB", 16384, 250, 80, 40, 300, .sm_part = 1 },
	{ "v100-32g", "Tesla V100-SXM2-32GB", 32768, 260, 80, 45, 300, .sm_part = 1 },
	{ "" },
};

/* MIG profiles, as `nvidia-smi mig -lgip` lists them: compute slices of 7 and memory slices of 8 of a GPU, and SMs. An eighth
 * of the GPU's memory is taken for a memory slice; drivers give a few percent less. */
static const struct profile {
	const char *model, *name;
	unsigned compute, memory;
	uint32_t sm_count;
} profiles[] = {
	{ "a100-40g", "1g.5gb", 1, 1, 14 }, { "a100-40g", "2g.10gb", 2, 2, 28 }, { "a100-40g", "3g.20gb", 3, 4, 42 },
	{ "a100-40g", "4g.20gb", 4, 4, 56 }, { "a100-40g", "7g.40gb", 7, 8, 98 },
	{ "a100-80g", "1g.10gb", 1, 1, 14 }, { "a100-80g", "2g.20gb", 2, 2, 28 }, { "a100-80g", "3g.40gb", 3, 4, 42 },
	{ "a100-80g", "4g.40gb", 4, 4, 56 }, { "a100-80g", "7g.80gb", 7, 8, 98 },
	{ "h100-80g", "1g.10gb", 1, 1, 16 }, { "h100-80g", "2g.20gb", 2, 2, 32 }, { "h100-80g", "3g.40gb", 3, 4, 60 },
	{ "h100-80g", "4g.40gb", 4, 4, 64 }, { "h100-80g", "7g.80gb", 7, 8, 132 },
	{ "h200-141g", "1g.18gb", 1, 1, 16 }, { "h200-141g", "2g.35gb", 2, 2, 32 }, { "h200-141g", "3g.71gb", 3, 4, 60 },
	{ "h200-141g", "4g.71gb", 4, 4, 64 }, { "h200-141g", "7g.141gb", 7, 8, 132 },
};

#define COMPUTE_SLICES 7
#define MEMORY_SLICES 8

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

struct devices { struct device_model *list; size_t n, cap; uint32_t gpus; };

static int find_profile(const char *model, const char *name, const struct profile **found, struct error *err)
{
	scoped_buf names = { 0 };
	*found = NULL;
	for (size_t i = 0; i < COUNT_OF(profiles); i++) {
		if (strcmp(profiles[i].model, model))
			continue;
		buf_printf(&names, " %s", profiles[i].name);
		if (!strcmp(profiles[i].name, name))
			*found = &profiles[i];
	}
	if (*found)
		return 0;
	if (!names.len)
		return error_set(err, ERR_INVALID, "MIG: a simulated %.40s has no profiles; a100, h100 and h200 have", model);
	return error_set(err, ERR_INVALID, "MIG: a simulated %.40s has no profile '%.20s'; it has:%s", model, name, buf_text(&names));
}

/* The instances of one GPU: "3g.20gb+2g.10gb". */
struct layout { const struct profile *list[COMPUTE_SLICES]; size_t n; };

static int parse_layout(const char *model, const char *text, struct layout *out, struct error *err)
{
	scoped_free char *copy = alloc_string(text);
	unsigned compute = 0, memory = 0;
	char *rest = copy, *name;
	out->n = 0;
	while ((name = strsep(&rest, "+"))) {
		const struct profile *p;
		if (find_profile(model, name, &p, err))
			return -1;
		compute += p->compute;
		memory += p->memory;
		if (compute > COMPUTE_SLICES || memory > MEMORY_SLICES)
			return error_set(err, ERR_INVALID, "MIG: %.60s takes %u of %d compute and %u of %d memory slices of a GPU: too many",
					 text, compute, COMPUTE_SLICES, memory, MEMORY_SLICES);
		out->list[out->n++] = p;
	}
	return 0;
}

/* The board's idle power is spread over its instances, what comes on top goes by SMs. */
static struct device_model instance_of(const struct device_model *whole, const struct layout *l, size_t i)
{
	const struct profile *p = l->list[i];
	struct device_model m = *whole;
	unsigned compute = 0;
	for (size_t k = 0; k < l->n; k++)
		compute += l->list[k]->compute;
	m.sm_part = (double)p->sm_count / whole->sm_count;
	m.sm_count = p->sm_count;
	m.mem_total_mib = whole->mem_total_mib * p->memory / MEMORY_SLICES;
	m.mem_reserved_mib = whole->mem_reserved_mib * p->memory / MEMORY_SLICES;
	m.idle_w = whole->idle_w * p->compute / compute;
	m.peak_w = m.idle_w + (whole->peak_w - whole->idle_w) * m.sm_part;
	m.limit_w = whole->limit_w > 0 ? fmax(whole->limit_w * m.peak_w / whole->peak_w, m.idle_w) : 0;
	snprintf(m.profile, sizeof m.profile, "%s", p->name);
	snprintf(m.gpu_name, sizeof m.gpu_name, "%.40s MIG %s", whole->gpu_name, p->name);
	return m;
}

static int add_devices(struct devices *d, const struct device_model *model, const struct layout *layout, int64_t count,
		       struct error *err)
{
	size_t each = layout->n ? layout->n : 1;
	if (d->n + (size_t)count * each > SIMDEV_MAX_NAMED)
		return error_set(err, ERR_INVALID, "more than %d simulated devices", SIMDEV_MAX_NAMED);
	for (int64_t i = 0; i < count; i++, d->gpus++)
		for (size_t k = 0; k < each; k++) {
			alloc_grow(d->list, d->n, d->cap);
			d->list[d->n] = layout->n ? instance_of(model, layout, k) : *model;
			d->list[d->n].instance = (uint32_t)k;
			d->list[d->n++].gpu = d->gpus;
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
		if (units_parse_int(item, 1, SIMDEV_MAX_NAMED, &count, err))
			return error_wrap(err, "number of devices");
	}
	struct layout layout = { .n = 0 };
	char *mig = strstr(name, "/mig=");
	if (mig)
		*mig = 0;
	const struct device_model *model = find_model(name);
	if (!model)
		return unknown_model(name, err);
	if (mig && parse_layout(name, mig + strlen("/mig="), &layout, err))
		return -1;
	return add_devices(out, model, &layout, count, err);
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
struct item { struct device_model model; int64_t count; struct layout layout; };

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
	return units_parse_int(value, 1, SIMDEV_MAX_NAMED, &it->count, err);
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

static int read_mig(struct item *it, const char *value, struct error *err)
{
	return parse_layout(it->model.name, value, &it->layout, err);
}

/* `model` comes first: what it brings, the others change. */
static const struct key {
	const char *name;
	int (*read)(struct item *it, const char *value, struct error *err);
} keys[] = {
	{ "model", read_model }, { "count", read_count }, { "gpu_name", read_gpu_name }, { "memory", read_memory },
	{ "reserved", read_reserved }, { "sm_count", read_sm_count }, { "idle_w", read_idle_w }, { "peak_w", read_peak_w },
	{ "limit_w", read_limit_w }, { "mig", read_mig },
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
		  "peak_w limit_w mig", name ? name : "(not a word)");
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

static int check_item(const struct item *it, struct error *err)
{
	const struct device_model *m = &it->model;
	uint32_t instances = 0;
	for (size_t i = 0; i < it->layout.n; i++)
		instances += it->layout.list[i]->sm_count;
	if (instances > m->sm_count)
		return error_set(err, ERR_INVALID, "'%s' has sm_count %u, and the profiles of its mig have %u: say more, or other profiles",
				 m->name, m->sm_count, instances);
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
		it.model.sm_part = 1;
	}
	for (size_t k = 1; k < COUNT_OF(keys); k++)
		if (apply_key(f, map, &keys[k], &it, err))
			return -1;
	if (check_item(&it, err) || add_devices(out, &it.model, &it.layout, it.count, err))
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

int simdev_parse(const char *spec, struct device_model **out, size_t *n, struct error *err)
{
	struct devices found = { 0 };
	bool is_file = words_end_in(spec, ".yaml") || words_end_in(spec, ".yml");
	if (is_file ? parse_file(spec, &found, err) : parse_list(spec, &found, err)) {
		free(found.list);
		return -1;
	}
	*out = found.list;
	*n = found.n;
	return 0;
}

/* "512x8xa100-40g": the length of the first number where a second count follows, else 0. */
static size_t node_digits(const char *spec)
{
	size_t digits = strspn(spec, "0123456789");
	const char *rest = spec + digits + 1;
	if (!digits || spec[digits] != 'x')
		return 0;
	size_t more = strspn(rest, "0123456789");
	return more && rest[more] == 'x' ? digits : 0;
}

static int repeat(struct device_model **list, size_t *n, size_t nodes, struct error *err)
{
	size_t each = *n;
	if (each * nodes > SIMDEV_MAX_NAMED)
		return error_set(err, ERR_INVALID, "more than %d simulated devices", SIMDEV_MAX_NAMED);
	*list = alloc_resize(*list, each * nodes, sizeof **list);
	for (size_t i = each; i < each * nodes; i++) {
		(*list)[i] = (*list)[i - each];
		(*list)[i].gpu += (*list)[each - 1].gpu + 1;
	}
	*n = each * nodes;
	return 0;
}

int simdev_parse_nodes(const char *spec, struct device_model **out, size_t *n, size_t *nodes, struct error *err)
{
	size_t digits = node_digits(spec);
	scoped_free char *count = alloc_printf("%.*s", (int)digits, spec);
	int64_t many = 1;
	*out = NULL;
	if (digits && units_parse_int(count, 1, SIMDEV_MAX_NAMED, &many, err))
		return error_wrap(err, "simulated devices '%.80s': number of nodes", spec);
	if (simdev_parse(digits ? spec + digits + 1 : spec, out, n, err))
		return -1;
	*nodes = (size_t)many;
	if (many > 1 && repeat(out, n, *nodes, err)) {
		free(*out);
		*out = NULL;
		return error_wrap(err, "simulated devices '%.80s'", spec);
	}
	return 0;
}
