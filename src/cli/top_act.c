/* SPDX-License-Identifier: MIT
 * See top_act.h. The state in which a person saw the tasks goes along: one that was to be cancelled while it waited may run by
 * the time that a key is pressed.
 */
#include "cli/top_act.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/ids.h"
#include "cli/member.h"
#include "submit/wire.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct top_act_asking { int fd; struct buf in; };

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
	scoped_buf out = { 0 };
	int fd = client_connect(err);
	int failed = fd < 0 || wire_encode(a->request, &out, err) ? -1 : 0;
	top_act_forget(a);
	if (!failed && (io_write_full(fd, out.data, out.len) || io_set_nonblocking(fd, true)))
		failed = error_errno(err, "radd");
	if (failed) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	a->asking = alloc_zero(sizeof *a->asking);
	a->asking->fd = fd;
	return 0;
}

int top_act_fd(const struct top_act *a)
{
	return a->asking ? a->asking->fd : -1;
}

static void end_asking(struct top_act *a)
{
	if (!a->asking)
		return;
	close(a->asking->fd);
	buf_free(&a->asking->in);
	free(steal(a->asking));
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
	char chunk[4096];
	ssize_t n;
	if (!a->asking)
		return false;
	while ((n = read(a->asking->fd, chunk, sizeof chunk)) > 0)
		buf_add(&a->asking->in, chunk, (size_t)n);
	bool away = !n || (errno != EAGAIN && errno != EINTR);
	int rc = wire_decode(&a->asking->in, &reply, &err);
	if (!rc && !away)
		return false;
	if (!rc)
		error_set(&err, ERR_UNAVAILABLE, "radd went away before it had answered to %s %s: look whether it was done", a->op, a->ids);
	if (rc == 1 && !wire_check(reply, &err))
		say_done(a, reply, text, size);
	else
		snprintf(text, size, "%s", err.text);
	end_asking(a);
	return true;
}

void top_act_clear(struct top_act *a)
{
	top_act_forget(a);
	end_asking(a);
}
