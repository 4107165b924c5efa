/* SPDX-License-Identifier: MIT
 * Questions and answers of slow estimators, and the worker that answers one.
 *
 * The worker runs with the rights of the task's user and reads what he sent, so its answer counts as his word: each number has
 * to be in its range, and an answer that is none is no answer.
 */
#include "daemon/estimating_wire.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "daemon/estimating.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define MOST_MIB (INT64_C(1) << 40)
#define MAX_QUESTION ((size_t)64 << 20)
#define WORKER_MEMORY ((rlim_t)4 << 30)

/* radd's side ---------------------------------------------------------------------------------------------------------- */

char *estimating_write_question(const char *row, const struct spec *spec, uint64_t declared_mib,
				const struct estimate_context *c)
{
	scoped_json *o = json_pack("{ss, so, so, sI, so, sI, sf}", "estimator", row, "spec", spec_to_json(spec),
		"environ", spec_environ_to_json(spec), "declared_mib", (json_int_t)declared_mib,
		"gpu_name", json_text_or_null(c->gpu_name), "gpu_total_mib", (json_int_t)c->gpu_total_mib, "margin", c->margin);
	return json_to_text(o);
}

static int read_mib(const json_t *o, const char *key, uint64_t *mib, struct error *err)
{
	int64_t v = 0;
	if (json_read_int(o, key, 0, MOST_MIB, &v, err))
		return -1;
	*mib = (uint64_t)v;
	return 0;
}

/* Each in its range, and in order (need, comfort, claim), since placement counts with them: a worker runs with its user's
 * rights, who may have made it say anything. */
static int read_value(const json_t *o, struct estimate_result *said, struct error *err)
{
	struct estimate *e = &said->value;
	if (read_mib(o, "need_mib", &e->need_mib, err) || read_mib(o, "comfort_mib", &e->comfort_mib, err) ||
	    read_mib(o, "claim_mib", &e->claim_mib, err) || read_mib(o, "low_mib", &said->low_mib, err) ||
	    read_mib(o, "high_mib", &said->high_mib, err) || json_read_bool(o, "fenced", &e->fenced, err) ||
	    json_read_bool(o, "for_life", &e->enforced_for_life, err))
		return -1;
	if (e->need_mib > e->comfort_mib || e->comfort_mib > e->claim_mib)
		return error_set(err, ERR_INVALID, "its figures are not in order");
	return load_from_json(json_object_get(o, "load"), &e->prior, err);
}

int estimating_read_answer(const char *text, bool *spoke, struct estimate_result *said, struct error *err)
{
	json_error_t why;
	scoped_json *o = json_loads(text, 0, &why);
	scoped_free char *note = NULL;
	memset(said, 0, sizeof *said);
	*spoke = false;
	if (!json_is_object(o))
		return error_set(err, ERR_INVALID, "its answer is not JSON");
	if (json_read_text(o, "note", sizeof said->note - 1, &note, err) || read_value(o, said, err) ||
	    json_read_bool(o, "spoke", spoke, err))
		return -1;
	text_printf(said->note, sizeof said->note, "%s", note ? note : "");
	return 0;
}

/* The worker's side ---------------------------------------------------------------------------------------------------- */

static const struct estimator *find_row(const struct estimator *table, const json_t *question)
{
	const char *name = json_string_value(json_object_get(question, "estimator"));
	for (; table->name; table++)
		if (name && !strcmp(table->name, name))
			return table;
	return NULL;
}

static int write_answer(bool spoke, const struct estimate_result *said)
{
	const struct estimate *e = &said->value;
	scoped_json *o = json_pack("{sb, sI, sI, sI, sI, sI, sb, sb, ss, so}", "spoke", spoke, "need_mib", (json_int_t)e->need_mib,
		"comfort_mib", (json_int_t)e->comfort_mib, "claim_mib", (json_int_t)e->claim_mib,
		"low_mib", (json_int_t)said->low_mib, "high_mib", (json_int_t)said->high_mib, "fenced", e->fenced,
		"for_life", e->enforced_for_life, "note", said->note, "load", load_to_json(&e->prior));
	scoped_free char *text = json_to_text(o);
	return puts(text) < 0 || fflush(stdout) ? 1 : 0;
}

/* What it reads may be made to take for ever, or all there is. */
static void limit_itself(void)
{
	setrlimit(RLIMIT_CPU, &(struct rlimit){ ESTIMATING_DEADLINE_MS / 1000 + 1, ESTIMATING_DEADLINE_MS / 1000 + 1 });
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
#if !defined RAD_SANITIZE_ADDRESS && !defined RAD_SANITIZE_THREAD	/* whose shadows are larger */
	setrlimit(RLIMIT_AS, &(struct rlimit){ WORKER_MEMORY, WORKER_MEMORY });
#endif
}

/* jansson's own way of reading a descriptor is a byte at a time. */
static json_t *read_question(void)
{
	scoped_buf text = { 0 };
	json_error_t why;
	return io_read_fd(STDIN_FILENO, "question", MAX_QUESTION, &text, NULL) ? NULL : json_loads(buf_text(&text), 0, &why);
}

/* Limits come before the first byte is read, since the question holds what its user wrote. */
int estimating_worker(const struct estimator *table)
{
	struct error err = ERROR_INIT;
	struct estimate_context c = { 0 };
	struct estimate_result said;
	uint64_t declared_mib = 0;
	limit_itself();
	prctl(PR_SET_DUMPABLE, 0);	/* it has its user's rights, but what it answers is to be ours */
	scoped_json *q = read_question();
	const struct estimator *row = find_row(table, q);
	if (!row) {
		fprintf(stderr, "radd: --estimate: no question, or one to an estimator that is not known: it is for radd's own use\n");
		return 2;
	}
	struct spec *s = spec_from_json(json_object_get(q, "spec"), json_object_get(q, "environ"), &err);
	if (!s || read_mib(q, "declared_mib", &declared_mib, &err) || read_mib(q, "gpu_total_mib", &c.gpu_total_mib, &err) ||
	    json_read_double(q, "margin", &c.margin, &err)) {
		fprintf(stderr, "radd: --estimate: %s\n", err.text);
		spec_unref(s);
		return 1;
	}
	c.gpu_name = json_string_value(json_object_get(q, "gpu_name"));
	bool spoke = estimate_ask(row, s, declared_mib, &c, &said);
	if (spoke)
		estimate_add_load(s, &c, &said);
	spec_unref(s);
	return write_answer(spoke, &said);
}
