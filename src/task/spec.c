/* SPDX-License-Identifier: MIT
 * The spec and its JSON form. Texts and numbers stand in a table each, so that writing and reading cannot drift apart; the few
 * lists have a function each way. Reading is done on what clients send and on what the store holds: every bound is checked.
 *
 * A spec is counted, not copied: an array of 10,000 elements has one script, one capture and one environment in memory. It
 * never changes after its submission, which is what makes that safe; what `rad update` changes is the task's.
 */
#include "task/spec.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"
#include "task/constraint.h"
#include "task/task.h"

#include <stdlib.h>
#include <string.h>

#define MAX_WORDS 100000	/* arguments, environment entries */

/* A member of the spec that is a text. */
struct text {
	const char *key;
	size_t offset, max;	/* bytes at most */
};

#define TEXT(member, max) { #member, offsetof(struct spec, member), max }
static const struct text texts[] = {
	TEXT(name, 1000),
	TEXT(script, SPEC_MAX_TEXT),
	TEXT(script_name, 1000),
	TEXT(conda_env, SPEC_MAX_PATH),
	TEXT(cwd, SPEC_MAX_PATH),
	TEXT(output, SPEC_MAX_PATH),
	TEXT(error, SPEC_MAX_PATH),
	TEXT(announced, 200),
	TEXT(terminal, SPEC_MAX_SOCKET - 1),
	TEXT(gpu_model, CONSTRAINT_MAX),
	TEXT(constraint, CONSTRAINT_MAX),
	TEXT(feed, 100),
	TEXT(model, SPEC_MAX_TEXT),
	TEXT(model_name, SPEC_MAX_PATH),
	TEXT(capture, SPEC_MAX_CAPTURE),
	TEXT(capture_notes, SPEC_MAX_NOTES),
	TEXT(optimizer, 100),
	TEXT(precision, 100),
	TEXT(signature, 100),
	TEXT(notify, 100),
	TEXT(notify_to, 1000),
};

/* One that is a number, or true or false. */
struct number {
	const char *key;
	enum { N_I64, N_U64, N_U32, N_INT, N_BOOL, N_DOUBLE } type;
	size_t offset;
	int64_t min, max;
};

#define NUMBER(member, type, min, max) { #member, type, offsetof(struct spec, member), min, max }
static const struct number numbers[] = {
	NUMBER(process_pid, N_I64, 0, INT32_MAX),
	NUMBER(process_ticks, N_U64, 0, INT64_MAX),
	NUMBER(lease, N_BOOL, 0, 1),
	NUMBER(gpus, N_U32, 0, SPEC_MAX_GPUS),
	NUMBER(gpu_mem_mib, N_U64, 0, SPEC_MAX_MIB),
	NUMBER(cpus, N_U32, 0, 65536),
	NUMBER(host_mem_mib, N_U64, 0, SPEC_MAX_MIB),
	NUMBER(feed_cpus, N_U32, 0, 65536),
	NUMBER(feed_mem_mib, N_U64, 0, SPEC_MAX_MIB),
	NUMBER(exclusive, N_BOOL, 0, 1),
	NUMBER(max_slowdown, N_DOUBLE, 0, SPEC_MAX_SLOWDOWN),
	NUMBER(capture_until_s, N_I64, 0, INT64_MAX / 1000),
	NUMBER(capture_turn_s, N_I64, 0, INT64_MAX / 1000),
	NUMBER(capture_aside, N_BOOL, 0, 1),
	NUMBER(batch_size, N_I64, 0, INT32_MAX),
	NUMBER(seq_len, N_I64, 0, INT32_MAX),
	NUMBER(input_channels, N_I64, 0, SPEC_MAX_INPUT),
	NUMBER(input_height, N_I64, 0, SPEC_MAX_INPUT),
	NUMBER(input_width, N_I64, 0, SPEC_MAX_INPUT),
	NUMBER(priority, N_I64, INT32_MIN, INT32_MAX),
	NUMBER(hold, N_BOOL, 0, 1),
	NUMBER(time_limit_s, N_I64, 0, SPEC_MAX_TIME_S),
	NUMBER(slot_s, N_I64, -1, SPEC_MAX_TIME_S),
	NUMBER(requeue_code, N_INT, 0, 255),
	NUMBER(begin_s, N_I64, 0, INT64_MAX / 1000),
	NUMBER(singleton, N_BOOL, 0, 1),
	NUMBER(kill_on_invalid_dep, N_INT, -1, 1),
	NUMBER(signal, N_INT, 0, 64),
	NUMBER(signal_before_s, N_I64, 0, 65535),
	NUMBER(requeue, N_BOOL, 0, 1),
	NUMBER(retries, N_U32, 0, SPEC_MAX_RETRIES),
	NUMBER(truncate, N_BOOL, 0, 1),
	NUMBER(array_limit, N_U32, 0, UINT32_MAX),
};

static char **text_at(struct spec *s, const struct text *text)
{
	return (char **)((char *)s + text->offset);
}

/* As every release had it: stores and clients leave out what is so. */
#define SPEC_FRESH { .refs = 1, .gpus = 1, .requeue = true, .umask = 022 }

struct spec *spec_create(void)
{
	struct spec *s = alloc_zero(sizeof *s);
	*s = (struct spec)SPEC_FRESH;
	s->argv = s->environ = s->no_words;
	return s;
}

struct spec *spec_ref(struct spec *s)
{
	s->refs++;
	return s;
}

unsigned spec_cpus(const struct spec *s)
{
	return s->cpus || s->gpus ? s->cpus : 1;
}

bool spec_waits(const struct spec *s, int64_t submit_ms)
{
	return s->n_deps > 0 || s->begin_s * 1000 > submit_ms;
}

/* Each list is one piece of memory with its words. Takes over `words`. */
static void replace_words(struct spec *s, char ***list, char **words)
{
	if (*list != s->no_words)
		free(*list);
	*list = words;
}

void spec_set_argv(struct spec *s, char *const *words)
{
	replace_words(s, &s->argv, alloc_words(words));
}

void spec_set_environ(struct spec *s, char *const *words)
{
	replace_words(s, &s->environ, alloc_words(words));
}

void spec_unref(struct spec *s)
{
	if (!s || --s->refs)
		return;
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		free(*text_at(s, &texts[i]));
	free(s->user);
	replace_words(s, &s->argv, NULL);
	replace_words(s, &s->environ, NULL);
	free(s->rlimits);
	free(s->deps);
	free(s->array);
	free(s);
}

/* What a new spec has need not be said, since a member that is absent is that. Most tasks say few of them, and every one that
 * is said is written, kept and read again for as long as the task is known. */
static bool says_nothing(const struct number *n, const struct spec *s)
{
	static const struct spec fresh = SPEC_FRESH;
	static const size_t size[] = { [N_I64] = sizeof(int64_t), [N_U64] = sizeof(uint64_t), [N_U32] = sizeof(uint32_t),
				       [N_INT] = sizeof(int), [N_BOOL] = sizeof(bool), [N_DOUBLE] = sizeof(double) };
	return !memcmp((const char *)s + n->offset, (const char *)&fresh + n->offset, size[n->type]);
}

static json_t *number_to_json(const struct number *n, const struct spec *s)
{
	if (says_nothing(n, s))
		return NULL;
	const void *at = (const char *)s + n->offset;
	switch (n->type) {
	case N_I64: return json_integer(*(const int64_t *)at);
	case N_U64: return json_integer((json_int_t)*(const uint64_t *)at);
	case N_U32: return json_integer(*(const uint32_t *)at);
	case N_INT: return json_integer(*(const int *)at);
	case N_BOOL: return json_boolean(*(const bool *)at);
	case N_DOUBLE: return json_real(*(const double *)at);
	}
	return NULL;
}

json_t *spec_word_to_json(const char *word)
{
	json_t *text = json_exact(word);
	if (text)
		return text;
	json_t *bytes = json_array();
	for (; *word; word++)
		json_array_append_new(bytes, json_integer((unsigned char)*word));
	return bytes;
}

static json_t *words_to_json(char *const *words)
{
	json_t *a = json_array();
	for (; *words; words++)
		json_array_append_new(a, spec_word_to_json(*words));
	return a;
}

/* Short arrays rather than objects: an array of 10,000 elements has its indices in one place, and names would be most of it. */
static void lists_to_json(const struct spec *s, json_t *o)
{
	json_t *limits = json_array(), *array = json_array();
	for (size_t i = 0; i < s->n_rlimits; i++)
		json_array_append_new(limits, json_pack("[i, I, I]", s->rlimits[i].resource, (json_int_t)s->rlimits[i].soft,
							(json_int_t)s->rlimits[i].hard));
	for (size_t i = 0; i < s->n_array; i++)
		json_array_append_new(array, json_integer(s->array[i]));
	json_object_set_new(o, "rlimits", limits);
	json_object_set_new(o, "deps", spec_deps_to_json(s->deps, s->n_deps));
	if (s->n_array)
		json_object_set_new(o, "array", array);
	else
		json_decref(array);
}

json_t *spec_to_json(const struct spec *s)
{
	json_t *o = json_object();
	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		const char *text = *(char *const *)((const char *)s + texts[i].offset);
		if (text)
			json_object_set_new(o, texts[i].key, json_exact(text));
	}
	for (size_t i = 0; i < COUNT_OF(numbers); i++) {
		json_t *v = number_to_json(&numbers[i], s);
		if (v)
			json_object_set_new(o, numbers[i].key, v);
	}
	json_object_set_new(o, "argv", words_to_json(s->argv));
	json_object_set_new(o, "share", json_text(share_mode_name(s->share)));
	json_object_set_new(o, "umask", json_integer((json_int_t)s->umask));
	json_object_set_new(o, "estimates_mib", json_pack("[I, I, I]", (json_int_t)s->estimates_mib[0],
		(json_int_t)s->estimates_mib[1], (json_int_t)s->estimates_mib[2]));
	lists_to_json(s, o);
	return o;
}

json_t *spec_environ_to_json(const struct spec *s)
{
	return words_to_json(s->environ);
}

/* Null counts as absent, so that a client may send all members always. A NaN does not pass the comparison of doubles. */
static int number_from_json(const struct number *n, const json_t *o, struct spec *s, struct error *err)
{
	void *at = (char *)s + n->offset;
	int64_t v = 0;
	if (n->type == N_BOOL)
		return json_read_bool(o, n->key, at, err);
	if (n->type == N_DOUBLE) {
		double *d = at;
		if (json_read_double(o, n->key, d, err))
			return -1;
		if (!(*d >= (double)n->min && *d <= (double)n->max))
			return error_set(err, ERR_INVALID, "'%s' is %g; it must be from %lld to %lld", n->key, *d,
					 (long long)n->min, (long long)n->max);
		return 0;
	}
	const json_t *member = json_object_get(o, n->key);
	if (!member || json_is_null(member))
		return 0;
	if (json_read_int(o, n->key, n->min, n->max, &v, err))
		return -1;
	switch (n->type) {
	case N_I64: *(int64_t *)at = v; break;
	case N_U64: *(uint64_t *)at = (uint64_t)v; break;
	case N_U32: *(uint32_t *)at = (uint32_t)v; break;
	default: *(int *)at = (int)v; break;
	}
	return 0;
}

/* Bytes of one word without its end, as spec_word_to_json writes it; -1 if it is neither. */
static ssize_t word_length(const json_t *v)
{
	size_t len = json_is_string(v) ? json_string_length(v) : json_array_size(v);
	if (json_is_string(v))
		return strlen(json_string_value(v)) == len ? (ssize_t)len : -1;
	for (size_t i = 0; i < len; i++) {
		json_int_t byte = json_integer_value(json_array_get(v, i));
		if (byte < 1 || byte > 255)
			return -1;
	}
	return len ? (ssize_t)len : -1;
}

/* Returns where the next one goes. */
static char *put_word(const json_t *v, char *to)
{
	if (json_is_string(v))
		return stpcpy(to, json_string_value(v)) + 1;
	for (size_t i = 0; i < json_array_size(v); i++)
		*to++ = (char)json_integer_value(json_array_get(v, i));
	return to + 1;
}

/* As alloc_words makes it, since nobody keeps a word alone. Embedded zeros are refused: they would cut one short unseen. */
static int words_from_json(struct spec *s, const json_t *a, const char *key, char ***list, struct error *err)
{
	size_t n = json_array_size(a), bytes = 0;
	if (!a)
		return 0;
	if (!json_is_array(a) || n > MAX_WORDS)
		return error_set(err, ERR_INVALID, "'%s' must be a list of at most %d texts", key, MAX_WORDS);
	for (size_t i = 0; i < n; i++) {
		ssize_t len = word_length(json_array_get(a, i));
		if (len < 0)
			return error_set(err, ERR_INVALID, "'%s': element %zu is not text", key, i);
		bytes += (size_t)len + 1;
	}
	char **words = alloc_zero((n + 1) * sizeof *words + bytes), *at = (char *)(words + n + 1);
	for (size_t i = 0; i < n; i++) {
		words[i] = at;
		at = put_word(json_array_get(a, i), at);
	}
	replace_words(s, list, words);
	return 0;
}

bool spec_waits_by_element(const struct spec *s)
{
	for (size_t i = 0; i < s->n_deps; i++)
		if (s->deps[i].kind == DEP_AFTERCORR)
			return true;
	return false;
}

static int dependency_from_json(const json_t *d, struct dependency *dep, struct error *err)
{
	const char *kind = json_string_value(json_array_get(d, 0)), *id = json_string_value(json_array_get(d, 1));
	if (kind && !dependency_kind_parse(kind, strlen(kind), &dep->kind))
		return task_id_parse(id, &dep->task, err);
	return error_set(err, ERR_INVALID, "'deps': '%.40s' is no kind of dependency", kind ? kind : "");
}

char *spec_deps_text(const struct dependency *deps, size_t n)
{
	enum { MOST = 20 };
	struct buf out = { 0 };
	char id[TASK_ID_TEXT];
	for (size_t i = 0; i < n && i < MOST; i++)
		buf_printf(&out, "%s%s:%s", i ? deps[i].kind == deps[i - 1].kind ? "" : "," : "",
			   i && deps[i].kind == deps[i - 1].kind ? "" : dependency_kind_name(deps[i].kind), task_id_text(deps[i].task, id));
	buf_add_text(&out, n > MOST ? ",..." : "");
	return buf_steal(&out);
}

json_t *spec_deps_to_json(const struct dependency *deps, size_t n)
{
	json_t *list = json_array();
	char id[TASK_ID_TEXT];
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_pack("[s, s]", dependency_kind_name(deps[i].kind), task_id_text(deps[i].task, id)));
	return list;
}

int spec_deps_from_json(const json_t *list, struct dependency **deps, size_t *n, struct error *err)
{
	size_t size = json_array_size(list);
	if ((list && !json_is_array(list)) || size > SPEC_MAX_DEPS)
		return error_set(err, ERR_INVALID, "'deps' is no list of at most %d dependencies", SPEC_MAX_DEPS);
	struct dependency *all = alloc_zero((size + 1) * sizeof *all);
	for (size_t i = 0; i < size; i++)
		if (dependency_from_json(json_array_get(list, i), &all[i], err)) {
			free(all);
			return -1;
		}
	*deps = all;
	*n = size;
	return 0;
}

/* The bound of arrays is that of what may be stored, not of what may be submitted: an earlier release accepted more, and its
 * tasks must still load. */
static int lists_from_json(const json_t *o, struct spec *s, struct error *err)
{
	const json_t *limits = json_object_get(o, "rlimits"), *array = json_object_get(o, "array");
	if (json_array_size(limits) > 64 || json_array_size(array) > SPEC_MAX_STORED_ARRAY)
		return error_set(err, ERR_INVALID, "too many limits or array elements (%d)", SPEC_MAX_STORED_ARRAY);
	s->n_rlimits = json_array_size(limits);
	s->rlimits = alloc_zero((s->n_rlimits + 1) * sizeof *s->rlimits);
	for (size_t i = 0; i < s->n_rlimits; i++) {
		const json_t *l = json_array_get(limits, i);
		s->rlimits[i] = (struct spec_rlimit){ (int)json_integer_value(json_array_get(l, 0)),
			json_integer_value(json_array_get(l, 1)), json_integer_value(json_array_get(l, 2)) };
	}
	if (spec_deps_from_json(json_object_get(o, "deps"), &s->deps, &s->n_deps, err))
		return -1;
	s->n_array = json_array_size(array);
	s->array = s->n_array ? alloc_zero(s->n_array * sizeof *s->array) : NULL;
	for (size_t i = 0; i < s->n_array; i++) {
		json_int_t v = json_integer_value(json_array_get(array, i));
		if (v < 0 || v >= (1 << TASK_INDEX_BITS) - 1)
			return error_set(err, ERR_INVALID, "'array': index %lld is out of range", (long long)v);
		s->array[i] = (uint32_t)v;
	}
	return 0;
}

/* Identity (uid, gid, user) is in neither table: it comes from the socket or from the store's own columns, never from
 * JSON. */
static int read_all(struct spec *s, const json_t *o, const json_t *env, struct error *err)
{
	int64_t mask = s->umask;
	const char *share = json_string_value(json_object_get(o, "share"));
	const json_t *estimates = json_object_get(o, "estimates_mib");
	if (!json_is_object(o))
		return error_set(err, ERR_INVALID, "a task's description must be an object");
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		if (json_read_text(o, texts[i].key, texts[i].max, text_at(s, &texts[i]), err))
			return -1;
	for (size_t i = 0; i < COUNT_OF(numbers); i++)
		if (number_from_json(&numbers[i], o, s, err))
			return -1;
	if (words_from_json(s, json_object_get(o, "argv"), "argv", &s->argv, err) ||
	    words_from_json(s, env, "environ", &s->environ, err) || json_read_int(o, "umask", 0, 0777, &mask, err) ||
	    (share && share_mode_parse(share, &s->share, err)) || lists_from_json(o, s, err))
		return -1;
	s->umask = (mode_t)mask;
	for (size_t i = 0; i < COUNT_OF(s->estimates_mib); i++) {
		json_int_t v = json_integer_value(json_array_get(estimates, i));
		s->estimates_mib[i] = v > 0 && v < SPEC_MAX_MIB ? (uint64_t)v : 0;
	}
	return 0;
}

static size_t text_bytes(const char *text)
{
	return text ? strlen(text) : 0;
}

static size_t list_bytes(char *const *list)
{
	size_t n = 0;
	for (; list && *list; list++)
		n += strlen(*list) + sizeof *list;
	return n;
}

struct spec *spec_from_json(const json_t *o, const json_t *env, struct error *err)
{
	struct spec *s = spec_create();
	if (!read_all(s, o, env, err)) {
		/* A dependency is an edge of the graph, too. */
		s->bytes = text_bytes(s->script) + text_bytes(s->model) + text_bytes(s->capture) + list_bytes(s->argv) +
			   list_bytes(s->environ) + s->n_deps * SPEC_DEP_BYTES;
		return s;
	}
	spec_unref(s);
	return NULL;
}

bool spec_is_attended(const struct spec *s)
{
	return s->terminal || s->process_pid;
}

struct proc_id spec_process(const struct spec *s)
{
	return (struct proc_id){ (pid_t)s->process_pid, s->process_ticks };
}

#define COMMAND_SHOWN 4096	/* more is nobody's to read; arguments may have megabytes */

/* As a shell would take it back, but for what was announced: there the words are what its program calls it. */
char *spec_command_text(const struct spec *s)
{
	scoped_buf text = { 0 };
	if (s->script)
		buf_add_text(&text, s->script_name ? s->script_name : s->name ? s->name : "script");
	for (char *const *w = s->argv; *w && text.len < COMMAND_SHOWN; w++) {
		scoped_free char *word = alloc_printf("%.*s", COMMAND_SHOWN, *w);
		if (text.len)
			buf_add(&text, " ", 1);
		if (s->announced)
			buf_add_text(&text, word);
		else
			words_add_shell_word(&text, word);
	}
	return buf_steal(&text);
}

/* A name inside a path stays one component. */
static void add_component(struct buf *path, const char *name)
{
	for (; name && *name; name++)
		buf_add(path, *name == '/' ? "_" : name, 1);
}

static void add_number(struct buf *path, int64_t n, int width)
{
	buf_printf(path, "%0*lld", width, (long long)n);
}

const char *spec_log_name(bool own, bool array)
{
	return own ? array ? "rad-own-%A_%a.out" : "rad-own-%j.out" : array ? "rad-%A_%a.out" : "rad-%j.out";
}

bool spec_log_is_default(const struct spec *s)
{
	const char *name = s->output ? words_base(s->output) : "";
	for (int i = 0; i < 4; i++)
		if (!strcmp(name, spec_log_name(i & 1, i & 2)))
			return true;
	return false;
}

char *spec_literal_path(const char *path)
{
	scoped_buf pattern = { 0 };
	for (; *path; path++)
		buf_add(&pattern, *path == '%' ? "%%" : path, *path == '%' ? 2 : 1);
	return buf_steal(&pattern);
}

/* An unknown letter stays as it was typed: a path with a % in it is likelier than a letter we have yet to learn. The letters
 * are sbatch's, with its zeros in front of numbers ("%03a"); a script of its is no step, on node 0, and task 0 there. */
char *spec_expand_path(const struct spec *s, const char *pattern, int64_t task)
{
	scoped_buf path = { 0 };
	char id[TASK_ID_TEXT];
	for (const char *p = pattern; *p; p++) {
		const char *from = p;
		size_t digits = *p == '%' ? strspn(p + 1, "0123456789") : 0;
		if (*p != '%' || !p[digits + 1]) {
			buf_add(&path, p, 1);
			continue;
		}
		int width = digits && digits < 3 ? atoi(p + 1) : 0;
		p += digits + 1;
		switch (*p) {
		case 'j': case 'J':
			if (TASK_INDEX(task) < 0)
				add_number(&path, TASK_JOB(task), width);
			else
				buf_add_text(&path, task_id_text(task, id));
			break;
		case 'A': add_number(&path, TASK_JOB(task), width); break;
		case 'a': add_number(&path, TASK_INDEX(task) < 0 ? 0 : TASK_INDEX(task), width); break;
		case 'n': case 't': add_number(&path, 0, width); break;
		case 's': buf_add_text(&path, "batch"); break;
		case 'x': add_component(&path, s->name); break;
		case 'u': add_component(&path, s->user); break;
		case '%': buf_add(&path, "%", 1); break;
		default: buf_add(&path, from, (size_t)(p - from) + 1); break;
		}
	}
	return buf_steal(&path);
}
