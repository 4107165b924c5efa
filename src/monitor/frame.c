/* SPDX-License-Identifier: MIT
 *
 * Frames: snapshots as bytes. Writer and reader run on one machine, so numbers keep its byte order; the version keeps a
 * sampler that is older or newer than its daemon out. The reader believes nothing: not the length, not the counts, not
 * that text ends. Each field is named once, in a function that both writes and reads.
 *
 *	u32 magic, u32 version, u32 kind, u32 length of what follows;  then a snapshot, or the text of an error; that there
 *	is no driver at all is an error of its own, since no waiting helps
 */
#include "monitor/monitor.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

#define FRAME_MAGIC 0x464d4452u	/* "RDMF" */
#define FRAME_VERSION 8u
#define FRAME_MAX_BYTES (16u << 20)

enum frame_kind { FRAME_SNAPSHOT = 1, FRAME_ERROR = 2, FRAME_NO_DRIVER = 3 };

struct frame_header { uint32_t magic, version, kind, length; };

/* Writes to `out`, or, where that is NULL, reads from `in`. */
struct codec {
	struct buf *out;
	const char *in;
	size_t left;
	bool bad;
};

static void put_raw(struct codec *c, void *value, size_t n)
{
	if (c->out) {
		buf_add(c->out, value, n);
	} else if (c->bad || c->left < n) {
		c->bad = true;
		memset(value, 0, n);
	} else {
		memcpy(value, c->in, n);
		c->in += n;
		c->left -= n;
	}
}

#define put(c, lvalue) put_raw((c), &(lvalue), sizeof (lvalue))

/* Infinities and NaNs would spread through every mean that they enter. */
static void put_number(struct codec *c, double *v)
{
	put(c, *v);
	if (!c->out && !isfinite(*v))
		c->bad = true;
}

/* A bool of which the bytes are neither 0 nor 1 is undefined behaviour to read. */
static void put_flag(struct codec *c, bool *v)
{
	uint8_t byte = *v ? 1 : 0;
	put(c, byte);
	*v = byte != 0;
}

static void put_text(struct codec *c, char *text, size_t size)
{
	put_raw(c, text, size);
	if (!c->out)
		text[size - 1] = 0;
}

static bool is_printable(const char *text)
{
	while (*text > ' ' && *text < 0x7f)
		text++;
	return !*text;
}

/* A text of any length, or NULL, which an empty one stands for. The reader makes room for no more than came. */
static void put_long_text(struct codec *c, char **text)
{
	uint32_t n = c->out && *text ? (uint32_t)strlen(*text) : 0;
	put(c, n);
	if (!c->out && n > c->left)
		c->bad = true;
	if (c->bad || !n)
		return;
	if (!c->out)
		*text = alloc_zero((size_t)n + 1);
	put_raw(c, *text, n);
	if (!is_printable(*text) || strlen(*text) != n)
		c->bad = true;
}

static void put_gpu(struct codec *c, struct gpu_reading *r)
{
	put_text(c, r->uuid, sizeof r->uuid);
	put_text(c, r->parent_uuid, sizeof r->parent_uuid);
	put_text(c, r->name, sizeof r->name);
	put(c, r->index);
	put(c, r->sm_count);
	put_flag(c, &r->mig);
	put(c, r->instance);
	put_flag(c, &r->mps_capable);
	put_flag(c, &r->one_process);
	put_flag(c, &r->fallen);
	put(c, r->valid);
	put(c, r->mem_total_mib);
	put(c, r->mem_used_mib);
	put(c, r->mem_reserved_mib);
	double *const numbers[] = { &r->gract, &r->smact, &r->smocc, &r->dram, &r->gpu_util, &r->pcie_rx_mib_s,
				    &r->pcie_tx_mib_s, &r->power_w, &r->energy_j, &r->tensor, &r->fp16, &r->fp32, &r->fp64,
				    &r->nvlink_rx_mib_s, &r->nvlink_tx_mib_s, &r->sm_mhz, &r->mem_mhz, &r->temperature_c };
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		put_number(c, numbers[i]);
	put(c, r->throttle);
	put_text(c, r->smact_source, sizeof r->smact_source);
	if (!is_printable(r->smact_source))
		c->bad = true;
}

static bool is_ascii(const char *text)
{
	while (*text >= ' ' && *text < 0x7f)
		text++;
	return !*text;
}

static void put_proc(struct codec *c, struct proc_reading *p)
{
	put(c, p->gpu);
	put(c, p->id.pid);
	put(c, p->id.start_ticks);
	put(c, p->uid);
	put(c, p->mem_mib);
	put(c, p->claimed);
	put_flag(c, &p->mps_server);
	put(c, p->started_ms);
	put_text(c, p->program, sizeof p->program);
	put_text(c, p->command, sizeof p->command);
	put_text(c, p->token, sizeof p->token);
	if (!is_ascii(p->program) || !is_ascii(p->command) || !is_ascii(p->token))
		c->bad = true;
}

static void put_snapshot(struct codec *c, struct snapshot *s)
{
	uint32_t n_gpus = s->n_gpus, n_procs = s->n_procs;
	put(c, s->mono_ms);
	put(c, s->wall_ms);
	put(c, n_gpus);
	put(c, n_procs);
	put(c, s->n_others);
	put_long_text(c, &s->chosen);
	/* Reading adds one element at a time, so a count that lies costs no more memory than the bytes that came. */
	for (uint32_t i = 0; i < n_gpus && !c->bad; i++)
		put_gpu(c, c->out ? &s->gpus[i] : snapshot_add_gpu(s));
	for (uint32_t i = 0; i < n_procs && !c->bad; i++) {
		struct proc_reading *p = c->out ? &s->procs[i] : snapshot_add_proc(s);
		put_proc(c, p);
		if (p->gpu >= n_gpus)
			c->bad = true;
	}
}

static void write_frame(struct buf *out, enum frame_kind kind, const void *body, size_t n)
{
	struct frame_header h = { FRAME_MAGIC, FRAME_VERSION, kind, (uint32_t)n };
	buf_add(out, &h, sizeof h);
	buf_add(out, body, n);
}

void monitor_frame_write(const struct snapshot *s, struct buf *out)
{
	scoped_buf body = { 0 };
	struct snapshot copy = *s;	/* the codec reads and writes, so it takes no const */
	struct codec c = { .out = &body };
	put_snapshot(&c, &copy);
	write_frame(out, FRAME_SNAPSHOT, body.data, body.len);
}

void monitor_frame_write_error(const struct error *e, struct buf *out)
{
	write_frame(out, e->code == ERR_NOT_FOUND ? FRAME_NO_DRIVER : FRAME_ERROR, e->text, strnlen(e->text, sizeof e->text));
}

static int read_snapshot(const char *body, size_t n, struct snapshot *out, struct error *err)
{
	struct codec c = { .in = body, .left = n };
	memset(out, 0, sizeof *out);
	put_snapshot(&c, out);
	if (!c.bad && !c.left)
		return 1;
	snapshot_clear(out);
	return error_set(err, ERR_CORRUPT, "sampler: its snapshot of %zu bytes does not hold what it says", n);
}

int monitor_frame_read(struct buf *in, struct snapshot *out, struct error *err)
{
	struct frame_header h;
	if (in->len < sizeof h)
		return 0;
	memcpy(&h, in->data, sizeof h);
	if (h.magic != FRAME_MAGIC || h.length > FRAME_MAX_BYTES || h.kind < FRAME_SNAPSHOT || h.kind > FRAME_NO_DRIVER)
		return error_set(err, ERR_CORRUPT, "sampler: what it wrote is not a frame");
	if (h.version != FRAME_VERSION)
		return error_set(err, ERR_CORRUPT, "sampler: speaks version %u, this daemon %u: they are of different builds",
				 h.version, FRAME_VERSION);
	if (in->len - sizeof h < h.length)	/* the rest is on its way; the length was bounded above */
		return 0;
	const char *body = in->data + sizeof h;
	int rc;
	if (h.kind != FRAME_SNAPSHOT)
		rc = error_set(err, h.kind == FRAME_NO_DRIVER ? ERR_NOT_FOUND : ERR_UNAVAILABLE, "%.*s", (int)h.length, body);
	else
		rc = read_snapshot(body, h.length, out, err);
	buf_drop(in, sizeof h + h.length);
	return rc;
}
