/* SPDX-License-Identifier: MIT
 *
 * Two readers of nearly the same words. A setting was written for radd, so whatever it says that is not there is a mistake, and
 * radd does not start on other GPUs than were meant. CUDA_VISIBLE_DEVICES was written for CUDA, perhaps by a batch system, so
 * it means to radd what it means to a program under the same driver, oddities included; what these are was tried out on two
 * H200 (driver 580.159): "1x" is 1, a blank may stand before a number but not before a UUID, digits of a UUID may be in
 * either case, and the same GPU twice is an error that leaves none.
 */
#include "device/nvml_choice.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PREFIX_LEN 4		/* "GPU-", "MIG-" */
#define SHOWN_LEN 12		/* of a UUID: tells GPUs apart, and is accepted back */
#define SHOWN_MAX 600		/* characters of a list of GPUs in an error */

/* One word of a list, blanks around it not counted. */
struct word { const char *text; int len; };

static struct word next_word(const char **rest)
{
	const char *from = *rest, *to = from + strcspn(from, ",");
	*rest = to;
	while (from < to && isspace((unsigned char)*from))
		from++;
	while (to > from && isspace((unsigned char)to[-1]))
		to--;
	return (struct word){ from, (int)(to - from) };
}

static void list_names(const struct nvml_machine *m, struct buf *out)
{
	buf_add_text(out, "there are ");
	for (size_t i = 0; i < m->n && out->len < SHOWN_MAX; i++) {
		const struct nvml_name *name = &m->names[i];
		if (name->parent)	/* in full: instances differ in their last characters too */
			buf_printf(out, ", %s", name->uuid);
		else
			buf_printf(out, "%s%u (%.*s)", i ? ", " : "", name->index, SHOWN_LEN, name->uuid);
	}
	if (out->len >= SHOWN_MAX)
		buf_add_text(out, " and more");
}

/* Fails with `what` and the list of what there is. */
static int refuse(const struct nvml_machine *m, const char *what, struct error *err)
{
	scoped_buf there = { 0 };
	list_names(m, &there);
	return error_set(err, ERR_INVALID, "devices: nvml: %s; %s", what, buf_text(&there));
}

static const struct nvml_name *by_number(const struct nvml_machine *m, long number)
{
	for (size_t i = 0; i < m->n; i++)
		if (!m->names[i].parent && (long)m->names[i].index == number)
			return &m->names[i];
	return NULL;
}

static bool is_uuid(const char *word)
{
	return !strncmp(word, "GPU-", PREFIX_LEN) || !strncmp(word, "MIG-", PREFIX_LEN);
}

/* That whose UUID is, or alone begins with, the text. *several: more than one begin so. */
static const struct nvml_name *by_uuid(const struct nvml_machine *m, const char *text, size_t len, bool *several)
{
	const struct nvml_name *found = NULL;
	*several = false;
	if (len <= PREFIX_LEN || !is_uuid(text))
		return NULL;
	for (size_t i = 0; i < m->n; i++) {
		const char *uuid = m->names[i].uuid;
		if (strncasecmp(uuid, text, len))
			continue;
		if (!uuid[len])
			return &m->names[i];
		*several = *several || found;
		found = &m->names[i];
	}
	return *several ? NULL : found;
}

/* Whether two names share anything: the same one, or an instance and its GPU. */
static bool overlap(const struct nvml_name *a, const struct nvml_name *b)
{
	return a == b || (a->parent && !strcmp(a->parent, b->uuid)) || (b->parent && !strcmp(b->parent, a->uuid));
}

/* 0; -1 when it, or a part of it, is there already. */
static int add_name(const struct nvml_machine *m, bool *taken, const struct nvml_name *name, struct buf *chosen)
{
	for (size_t i = 0; i < m->n; i++)
		if (taken[i] && overlap(&m->names[i], name))
			return -1;
	taken[name - m->names] = true;
	buf_printf(chosen, "%s%s", chosen->len ? "," : "", name->uuid);
	return 0;
}

static bool is_number(struct word w)
{
	return w.len && (int)strspn(w.text, "0123456789") >= w.len;
}

static int add_word(const struct nvml_machine *m, bool *taken, struct word w, struct buf *chosen, struct error *err)
{
	char what[160];
	bool several = false, number = is_number(w);
	const struct nvml_name *name = number ? by_number(m, strtol(w.text, NULL, 10)) : by_uuid(m, w.text, (size_t)w.len, &several);
	int shown = w.len < 60 ? w.len : 60;
	if (!w.len)
		snprintf(what, sizeof what, "a word of its list is empty: write numbers or UUIDs, nvml:0,2");
	else if (number && m->unsure)
		snprintf(what, sizeof what, "%.*s: a GPU does not answer, so numbers are not certain: name GPUs by UUID", shown, w.text);
	else if (several)
		snprintf(what, sizeof what, "%.*s begins more than one UUID", shown, w.text);
	else if (!name)
		snprintf(what, sizeof what, "%.*s names no GPU here", shown, w.text);
	else if (add_name(m, taken, name, chosen))
		snprintf(what, sizeof what, "%.*s is in its list already", shown, w.text);
	else
		return 0;
	return refuse(m, what, err);
}

int nvml_choice_setting(const struct nvml_machine *m, const char *list, struct buf *chosen, struct error *err)
{
	scoped_free bool *taken = alloc_zero((m->n + 1) * sizeof *taken);
	for (;; list++) {
		if (add_word(m, taken, next_word(&list), chosen, err))
			return -1;
		if (!*list)
			return 0;
	}
}

/* What CUDA takes a word of its list for; NULL: nothing. */
static const struct nvml_name *cuda_word(const struct nvml_machine *m, const char *word, const char *first)
{
	bool several;
	char *end;
	if (is_uuid(first))
		return strncmp(word, first, PREFIX_LEN) ? NULL : by_uuid(m, word, strcspn(word, ", "), &several);
	errno = 0;
	long number = strtol(word, &end, 10);
	return end == word || errno || number < 0 ? NULL : by_number(m, number);
}

static bool all_alike(const struct nvml_machine *m)
{
	for (size_t i = 1; i < m->n; i++)
		if (!m->names[i].parent && strcmp(m->names[i].model, m->names[0].model))
			return false;
	return true;
}

int nvml_choice_cuda(const struct nvml_machine *m, const char *list, bool fastest_first, struct buf *chosen,
		     const char **ended, struct error *err)
{
	scoped_free bool *taken = alloc_zero((m->n + 1) * sizeof *taken);
	scoped_buf what = { 0 };
	const char *word = list;
	*ended = NULL;
	buf_printf(&what, "CUDA_VISIBLE_DEVICES=%.60s ", list);
	for (const struct nvml_name *name; (name = cuda_word(m, word, list));) {
		if (!is_uuid(list) && (m->unsure || (fastest_first && !all_alike(m)))) {
			buf_add_text(&what, m->unsure ? "counts GPUs of which one does not answer: name them by UUID"
				: "counts by speed (CUDA_DEVICE_ORDER), which only CUDA can: name GPUs by UUID, or set PCI_BUS_ID");
			return refuse(m, buf_text(&what), err);
		}
		if (add_name(m, taken, name, chosen)) {
			buf_add_text(&what, "names a GPU twice, and CUDA then shows none");
			return refuse(m, buf_text(&what), err);
		}
		word += strcspn(word, ",");
		if (!*word)
			return 0;
		word++;
	}
	*ended = *word ? word : NULL;	/* a comma at the end ends nothing early */
	if (chosen->len)
		return 0;
	buf_add_text(&what, "leaves radd no GPU: unset it, or name some: devices: nvml:0");
	return refuse(m, buf_text(&what), err);
}
