/* SPDX-License-Identifier: MIT
 * See top_act.h. The state in which a person saw the tasks goes along: one that was to be cancelled while it waited may run by
 * the time that a key is pressed.
 */
#include "cli/top_act.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/ids.h"
#include "cli/member.h"
#include "submit/wire.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

int top_act_choose(struct top_act *a, const char *op, const char *ids, const char *state, struct error *err)
{
	struct ids list = { 0 };
	char id[TASK_ID_TEXT];
	top_act_forget(a);
	if (a->asking)
		return error_set(err, ERR_UNAVAILABLE, "radd has not answered to %s %s yet", a->op, a->ids);
	int failed = ids_add(ids, &list, err);
	if (!failed) {
		json_t *texts = json_array();
		for (size_t i = 0; i < list.n; i++)
			json_array_append_new(texts, json_text(task_id_text(list.list[i], id)));
		a->request = wire_request(op);
		json_object_set_new(a->request, "ids", texts);
		json_object_set_new(a->request, "states", json_pack("[o]", json_text(state)));
		snprintf(a->op, sizeof a->op, "%s", op);
		snprintf(a->ids, sizeof a->ids, "%s", ids);
	}
	ids_clear(&list);
	return failed;
}

void top_act_forget(struct top_act *a)
{
	json_decref(steal(a->request));
}

int top_act_send(struct top_act *a, struct error *err)
{
	a->asking = client_ask(&a->request, 1, err);
	top_act_forget(a);
	return a->asking ? 0 : -1;
}

int top_act_fd(const struct top_act *a)
{
	return client_asked_fd(a->asking);
}

static void say_done(const struct top_act *a, const json_t *reply, char *text, size_t size)
{
	long long n = member_int(reply, "changed"), denied = member_int(reply, "denied");
	scoped_buf said = { 0 };
	buf_printf(&said, "%c%s %s: ", toupper((unsigned char)*a->op), a->op + 1, a->ids);
	if (n > 1)
		buf_printf(&said, "%lld tasks", n);
	else
		buf_add_text(&said, "done");
	if (denied)
		buf_printf(&said, "; %lld not: %s", denied, member_text(reply, "why"));
	text_printf(text, size, "%s", buf_text(&said));
}

bool top_act_take(struct top_act *a, char *text, size_t size)
{
	struct error err = ERROR_INIT;
	scoped_json *reply = NULL;
	if (!a->asking)
		return false;
	int rc = client_asked_take(a->asking, &reply, &err);
	if (!rc && !client_asked_away(a->asking))
		return false;
	if (!rc)
		error_set(&err, ERR_UNAVAILABLE, "radd went away before it had answered to %s %s: look whether it was done", a->op, a->ids);
	if (rc == 1)
		say_done(a, reply, text, size);
	else
		text_printf(text, size, "%s", err.text);
	client_asked_end(steal(a->asking));
	return true;
}

void top_act_clear(struct top_act *a)
{
	top_act_forget(a);
	client_asked_end(steal(a->asking));
}
