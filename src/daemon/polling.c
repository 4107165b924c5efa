/* SPDX-License-Identifier: MIT
 * One uv_poll_t and its whole life: see polling.h. uv_close takes the number off the kernel's list at once, and only the memory
 * has to stay until the loop calls back. uv_poll_stop alone is not enough: a handle that is closed later strikes the number off
 * once more, whoever has it by then.
 */
#include "daemon/polling.h"

#include "base/alloc.h"

#include <stdlib.h>

struct polling {
	uv_poll_t handle;
	polling_ready ready;
	void *ctx;
};

/* An error of the descriptor itself shows when it is read. */
static void polling_event(uv_poll_t *handle, int status, int events)
{
	struct polling *p = handle->data;
	(void)status;
	(void)events;
	p->ready(p->ctx);
}

static void polling_closed(uv_handle_t *handle)
{
	free(handle->data);
}

/* Nothing is watched when it returns NULL, and the descriptor is its caller's either way. */
struct polling *polling_start(uv_loop_t *loop, int fd, polling_ready ready, void *ctx, struct error *err)
{
	struct polling *p = alloc_zero(sizeof *p);
	*p = (struct polling){ .handle.data = p, .ready = ready, .ctx = ctx };
	int rc = uv_poll_init(loop, &p->handle, fd);
	if (rc) {
		free(p);	/* nothing of it is in the loop */
		error_set(err, ERR_SYSTEM, "watching a descriptor: %s", uv_strerror(rc));
		return NULL;
	}
	rc = uv_poll_start(&p->handle, UV_READABLE, polling_event);
	if (!rc)
		return p;
	error_set(err, ERR_SYSTEM, "watching a descriptor: %s", uv_strerror(rc));
	polling_stop(p);
	return NULL;
}

void polling_stop(struct polling *p)
{
	if (p)
		uv_close((uv_handle_t *)&p->handle, polling_closed);
}
