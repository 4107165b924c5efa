/* SPDX-License-Identifier: MIT
 * The shared file of simulated devices: locks, pages, clients. What a page says is checked before it is believed: a task
 * of another user may have written it.
 */
#include "device/simdev.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/scope.h"
#include "base/words.h"
#include "share/power.h"
#include "share/share.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define PAGE 4096
#define RAMP_MOST_MS 20000
#define VERSION 3
#define MAGIC "RAD-RM devices\n"
#define DEVICE_MAGIC 0x52414447u	/* "RADG" */

/* Page 0. Devices follow, one a page, in the order of their indices. */
struct simdev_header {
	char magic[16];
	uint32_t version;
	uint32_t ready;		/* 0 while the pages are being written */
	uint32_t n_devices;
};

struct simdev_client {
	int32_t pid;		/* 0: free */
	uint32_t mps, ended;	/* ended: another client's fault took its context */
	uint64_t start_ticks, mem_mib;
	double gract, smact;	/* alone */
};

struct simdev_page {
	uint32_t magic, index;
	struct device_model model;
	char uuid[GPU_UUID_LEN];
	int64_t advanced_ms;	/* energy is counted up to here (mono) */
	double energy_j;
	struct simdev_client clients[SIMDEV_MAX_CLIENTS];
};

static_assert(sizeof(struct simdev_header) <= PAGE && sizeof(struct simdev_page) <= PAGE, "a page is written at once");

struct simdev {
	char *path;
	int fd;
};

/* Open file description locks: dropped by the kernel when the process ends, and not shared by accident between two
 * handles of one process. Whole file: page -1. */
static int lock_page(const struct simdev *s, int64_t page, short type, struct error *err)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = page < 0 ? 0 : page * PAGE,
			      .l_len = page < 0 ? 0 : PAGE };
	int rc;
	do
		rc = fcntl(s->fd, F_OFD_SETLKW, &lock);
	while (rc && errno == EINTR);
	return rc ? error_errno(err, "%s: lock", s->path) : 0;
}

static void unlock_page(const struct simdev *s, int64_t page)
{
	lock_page(s, page, F_UNLCK, NULL);
}

static int file_damaged(const struct simdev *s, const char *what, struct error *err)
{
	return error_set(err, ERR_CORRUPT, "%s: damaged: %s: end the tasks on these simulated devices and remove the file",
			 s->path, what);
}

/* 0; 1 when the file is empty or was never finished; -1. */
static int read_header(const struct simdev *s, struct simdev_header *h, struct error *err)
{
	ssize_t got = pread(s->fd, h, sizeof *h, 0);
	if (got < 0)
		return error_errno(err, "%s", s->path);
	if (!got)
		return 1;
	if (got != sizeof *h || memcmp(h->magic, MAGIC, sizeof h->magic))
		return error_set(err, ERR_CORRUPT, "%s: is not a file of simulated devices, and was left as it is: remove it, and they are "
				 "made anew", s->path);
	if (h->version != VERSION)
		return error_set(err, ERR_CONFLICT, "%s: simulated devices of version %u; this program has version %u: end the "
				 "daemon and tasks that use them and remove the file", s->path, h->version, VERSION);
	if (!h->ready)
		return 1;
	struct stat st;
	if (!h->n_devices || h->n_devices > SIMDEV_MAX_DEVICES || fstat(s->fd, &st) ||
	    st.st_size != (off_t)(h->n_devices + 1) * PAGE)
		return file_damaged(s, "it is shorter or longer than its devices", err);
	return 0;
}

static bool is_text(const char *text, size_t size)
{
	size_t n = strnlen(text, size);
	for (size_t i = 0, len; i < n; i += len)
		if (!(len = words_utf8(text + i, n - i)) || iscntrl((unsigned char)text[i]))
			return false;
	return n && n < size;
}

/* A share of time or of SMs: what is made of one that is none, a NaN even, would be believed of the whole GPU. */
static bool is_part(double load)
{
	return load >= 0 && load <= 1;
}

static bool is_sound(const struct simdev_page *d, uint32_t index)
{
	const struct device_model *m = &d->model;
	if (d->magic != DEVICE_MAGIC || d->index != index || !is_text(d->uuid, sizeof d->uuid) ||
	    !is_text(m->name, sizeof m->name) || !is_text(m->gpu_name, sizeof m->gpu_name))
		return false;
	/* Written so that a NaN fails too. */
	if (!(m->idle_w >= 0 && m->idle_w <= m->peak_w && m->peak_w < 1e9 && m->limit_w >= 0) ||
	    !(d->energy_j >= 0 && isfinite(d->energy_j)) ||
	    !(m->sm_part > 0 && m->sm_part <= 1) || memchr(m->profile, 0, sizeof m->profile) == NULL ||
	    m->mem_reserved_mib >= m->mem_total_mib || d->advanced_ms < 0)
		return false;
	for (size_t i = 0; i < SIMDEV_MAX_CLIENTS; i++)
		if (d->clients[i].pid < 0 || d->clients[i].mem_mib > m->mem_total_mib || !is_part(d->clients[i].gract) ||
		    !is_part(d->clients[i].smact))
			return false;
	return true;
}

/* Its page is locked, so what is read was written at once. */
static int read_device(const struct simdev *s, uint32_t index, struct simdev_page *d, struct error *err)
{
	ssize_t got = pread(s->fd, d, sizeof *d, (off_t)(index + 1) * PAGE);
	if (got < 0)
		return error_errno(err, "%s", s->path);
	if (got != sizeof *d || !is_sound(d, index))
		return file_damaged(s, "a device's page is not one", err);
	return 0;
}

static int write_device(const struct simdev *s, const struct simdev_page *d, struct error *err)
{
	union { struct simdev_page device; char bytes[PAGE]; } page = { .bytes = { 0 } };
	page.device = *d;
	ssize_t put = pwrite(s->fd, &page, PAGE, (off_t)(d->index + 1) * PAGE);
	return put == PAGE ? 0 : error_errno(err, "%s", s->path);
}

static bool client_alive(const struct simdev_client *c)
{
	return !proc_gone((struct proc_id){ c->pid, c->start_ticks });
}

/* How the clients of a device share it now. */
struct simdev_sharing {
	size_t n;
	struct share_task tasks[SIMDEV_MAX_CLIENTS];
	const struct simdev_client *client[SIMDEV_MAX_CLIENTS];
	double running[SIMDEV_MAX_CLIENTS];	/* speeds among themselves, of loads as they are there */
	double speed[SIMDEV_MAX_CLIENTS];	/* against the whole GPU alone */
	struct share_activity activity;
};

/* Clients that `alive` drops do not count; NULL: all count. */
static void sharing_of(const struct simdev_page *d, bool (*alive)(const struct simdev_client *c), struct simdev_sharing *out)
{
	bool all_mps = true;
	double part = d->model.sm_part;
	out->n = 0;
	for (size_t i = 0; i < SIMDEV_MAX_CLIENTS; i++) {
		const struct simdev_client *c = &d->clients[i];
		if (!c->pid || c->ended || (alive && !alive(c)))
			continue;
		out->tasks[out->n] = (struct share_task){ c->gract, c->smact };
		if (part < 1)
			out->tasks[out->n] = share_part_load(&out->tasks[out->n], part);
		out->client[out->n++] = c;
		all_mps = all_mps && c->mps;
	}
	enum share_mode mode = all_mps ? SHARE_MPS : SHARE_STREAMS;
	share_speeds(out->tasks, out->n, mode, out->running);
	out->activity = share_shown(out->tasks, out->n, mode, out->running);
	for (size_t i = 0; i < out->n; i++) {
		const struct share_task whole = { out->client[i]->gract, out->client[i]->smact };
		out->speed[i] = out->running[i] * (part < 1 ? share_part_speed(&whole, part) : 1);
	}
}

static double power_of(const struct device_model *m, const struct simdev_sharing *now)
{
	const struct power_board board = { m->idle_w, m->peak_w, m->limit_w };
	return power_watts(&board, now->tasks, now->running, now->n, NULL);
}

/* Brings a device up to now: energy used since the last time, by those who were there; then the dead are gone. */
static void page_advance(struct simdev_page *d)
{
	struct simdev_sharing before;
	int64_t now_ms = clock_mono_ms();
	sharing_of(d, NULL, &before);
	if (now_ms > d->advanced_ms)
		d->energy_j += power_of(&d->model, &before) * (double)(now_ms - d->advanced_ms) / 1000;
	d->advanced_ms = now_ms;
	for (size_t i = 0; i < SIMDEV_MAX_CLIENTS; i++)
		if (d->clients[i].pid && !client_alive(&d->clients[i]))
			d->clients[i] = (struct simdev_client){ 0 };
}

/* Locks the page of that device and reads it. -1: nothing is locked. */
static int page_take_index(const struct simdev *s, uint32_t index, short lock, struct simdev_page *d, struct error *err)
{
	if (lock_page(s, index + 1, lock, err))
		return -1;
	if (!read_device(s, index, d, err))
		return 0;
	unlock_page(s, index + 1);
	return -1;
}

/* The index is the last group of a UUID. */
static int page_take(const struct simdev *s, const char *uuid, short lock, struct simdev_page *d, struct error *err)
{
	struct simdev_header h;
	int rc = read_header(s, &h, err);
	const char *last = strrchr(uuid, '-');
	unsigned long index = last ? strtoul(last + 1, NULL, 16) : ULONG_MAX;
	if (rc < 0)
		return -1;
	if (!rc && index < h.n_devices) {
		if (page_take_index(s, (uint32_t)index, lock, d, err))
			return -1;
		if (!strcmp(d->uuid, uuid))
			return 0;
		unlock_page(s, d->index + 1);
	}
	return error_set(err, ERR_NOT_FOUND, "%s: has no device %.63s", s->path, uuid);
}

/* Writes what changed and lets the page go. */
static int page_put(const struct simdev *s, const struct simdev_page *d, struct error *err)
{
	int rc = write_device(s, d, err);
	unlock_page(s, d->index + 1);
	return rc;
}

static struct simdev_client *own_client(struct simdev_page *d)
{
	struct proc_id me = { .pid = getpid() };
	if (proc_stat(me.pid, &me.start_ticks, NULL))
		return NULL;
	for (size_t i = 0; i < SIMDEV_MAX_CLIENTS; i++)
		if (d->clients[i].pid == me.pid && d->clients[i].start_ticks == me.start_ticks)
			return &d->clients[i];
	return NULL;
}

static struct simdev_client *free_client(struct simdev_page *d)
{
	for (size_t i = 0; i < SIMDEV_MAX_CLIENTS; i++)
		if (!d->clients[i].pid)
			return &d->clients[i];
	return NULL;
}

int simdev_join(struct simdev *s, const char *uuid, double gract, double smact, bool mps, struct error *err)
{
	struct simdev_page d;
	struct simdev_client me = { .pid = getpid(), .mps = mps, .gract = gract, .smact = smact };
	if (proc_stat(me.pid, &me.start_ticks, NULL))
		return error_set(err, ERR_SYSTEM, "/proc does not show this process: simulated devices need it");
	if (page_take(s, uuid, F_WRLCK, &d, err))
		return -1;
	page_advance(&d);
	struct simdev_client *c = own_client(&d);	/* it may come twice: then it starts anew */
	if (!c)
		c = free_client(&d);
	if (c)
		*c = me;
	if (page_put(s, &d, err))
		return -1;
	return c ? 0 : error_set(err, ERR_UNAVAILABLE, "%s: %d processes are on it, the most a simulated device takes",
				 uuid, SIMDEV_MAX_CLIENTS);
}

/* From the clients' own figures, not from a sum that is kept: a client that died cannot leave a sum wrong. */
static uint64_t free_mib_of(const struct simdev_page *d)
{
	uint64_t used = d->model.mem_reserved_mib;
	for (size_t i = 0; i < SIMDEV_MAX_CLIENTS; i++)
		used += d->clients[i].mem_mib;
	return used < d->model.mem_total_mib ? d->model.mem_total_mib - used : 0;
}

int simdev_set_memory(struct simdev *s, const char *uuid, uint64_t mem_mib, uint64_t *free_mib, struct error *err)
{
	struct simdev_page d;
	if (page_take(s, uuid, F_WRLCK, &d, err))
		return -1;
	page_advance(&d);
	struct simdev_client *me = own_client(&d);
	uint64_t available = free_mib_of(&d);
	bool fits = me && (mem_mib <= me->mem_mib || mem_mib - me->mem_mib <= available);
	if (fits)
		me->mem_mib = mem_mib;
	if (free_mib)
		*free_mib = available;
	if (page_put(s, &d, err))
		return -1;
	if (!me)
		return error_set(err, ERR_CONFLICT, "%s: this process is not on it", uuid);
	return fits ? 0 : 1;
}

double simdev_speed(struct simdev *s, const char *uuid)
{
	struct simdev_page d;
	struct simdev_sharing now;
	if (page_take(s, uuid, F_RDLCK, &d, NULL))
		return 0;
	unlock_page(s, d.index + 1);
	const struct simdev_client *me = own_client(&d);
	if (!me)
		return 0;
	if (me->ended)
		return -1;
	sharing_of(&d, client_alive, &now);
	for (size_t i = 0; i < now.n; i++)
		if (now.client[i] == me)
			return now.speed[i];
	return 0;
}

void simdev_fault(struct simdev *s, const char *uuid)
{
	struct simdev_page d;
	if (page_take(s, uuid, F_WRLCK, &d, NULL))
		return;
	page_advance(&d);
	const struct simdev_client *me = own_client(&d);
	for (size_t i = 0; me && me->mps && i < SIMDEV_MAX_CLIENTS; i++)
		d.clients[i].ended |= d.clients[i].mps;
	page_put(s, &d, NULL);
}

void simdev_leave(struct simdev *s, const char *uuid)
{
	struct simdev_page d;
	if (page_take(s, uuid, F_WRLCK, &d, NULL))
		return;
	page_advance(&d);
	struct simdev_client *me = own_client(&d);
	if (me)
		*me = (struct simdev_client){ 0 };
	page_put(s, &d, NULL);
}

static void fill_gpu(const struct simdev_page *d, const struct simdev_sharing *now, struct gpu_reading *g)
{
	simdev_identify(&d->model, d->index, g);
	memcpy(g->uuid, d->uuid, sizeof g->uuid);	/* an older release gave others, and tasks know their GPUs by those */
	g->mem_total_mib = d->model.mem_total_mib;
	g->mem_reserved_mib = d->model.mem_reserved_mib;
	g->mem_used_mib = d->model.mem_total_mib - free_mib_of(d);
	g->gract = g->gpu_util = now->activity.gract;
	g->smact = now->activity.smact;
	g->power_w = power_of(&d->model, now);
	g->energy_j = d->energy_j;
	g->valid = GPU_MEM_TOTAL | GPU_MEM_USED | GPU_MEM_RESERVED | GPU_GRACT | GPU_SMACT | GPU_UTIL | GPU_POWER | GPU_ENERGY |
		   GPU_PROCS | GPU_PROC_MEM;
}

int simdev_snapshot(struct simdev *s, struct snapshot *out, struct error *err)
{
	struct simdev_header h;
	int rc = read_header(s, &h, err);
	if (rc > 0)
		return error_set(err, ERR_UNAVAILABLE, "%s: simulated devices are being made", s->path);
	for (uint32_t i = 0; !rc && i < h.n_devices; i++) {
		struct simdev_page d;
		struct simdev_sharing now;
		if (page_take_index(s, i, F_WRLCK, &d, err))
			return -1;
		page_advance(&d);
		if (page_put(s, &d, err))
			return -1;
		sharing_of(&d, NULL, &now);
		uint32_t gpu = out->n_gpus;
		fill_gpu(&d, &now, snapshot_add_gpu(out));
		for (size_t c = 0; c < SIMDEV_MAX_CLIENTS; c++) {
			if (!d.clients[c].pid)
				continue;
			struct proc_reading *p = snapshot_add_proc(out);
			p->gpu = gpu;
			p->id = (struct proc_id){ d.clients[c].pid, d.clients[c].start_ticks };
			p->uid = proc_uid(d.clients[c].pid);
			p->mem_mib = d.clients[c].mem_mib;
		}
	}
	return rc;
}

int64_t simdev_ramp_ms(int64_t solo_ms)
{
	int64_t third = solo_ms / 3;
	return third < RAMP_MOST_MS ? third : RAMP_MOST_MS;
}

uint64_t simdev_ramp_mib(uint64_t mem_mib, double part)
{
	uint64_t context = mem_mib < SIMDEV_CONTEXT_MIB ? mem_mib : SIMDEV_CONTEXT_MIB;
	return part >= 1 ? mem_mib : context + (uint64_t)((double)(mem_mib - context) * part);
}

void simdev_uuid(const struct device_model *m, uint32_t place, char uuid[GPU_UUID_LEN])
{
	uint32_t hash = 2166136261u;	/* FNV-1a of 32 bits, not base/hash.h's of 64: stores hold UUIDs made of it */
	for (const char *p = m->name; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619u;
	snprintf(uuid, GPU_UUID_LEN, "%s-%08x-%04x-4000-8000-%012x", *m->profile ? "MIG" : "GPU", (hash + place) * 0x9e3779b1u,
		 (hash ^ hash >> 16) & 0xffff, place);
}

void simdev_identify(const struct device_model *m, uint32_t place, struct gpu_reading *r)
{
	simdev_uuid(m, place, r->uuid);
	memcpy(r->name, m->gpu_name, sizeof r->name);
	r->index = m->gpu;
	r->sm_count = m->sm_count;
	r->mig = *m->profile;
	r->instance = m->instance;
	r->mps_capable = !r->mig;
	strcpy(r->smact_source, "sim");
	struct device_model whole = *m;
	*whole.profile = 0;
	if (r->mig)
		simdev_uuid(&whole, m->gpu, r->parent_uuid);
}

static int make_devices(const struct simdev *s, const struct device_model *models, size_t n, struct error *err)
{
	struct simdev_header h = { .magic = MAGIC, .version = VERSION, .n_devices = (uint32_t)n };
	if (pwrite(s->fd, &h, sizeof h, 0) != sizeof h || ftruncate(s->fd, (off_t)(n + 1) * PAGE))
		return error_errno(err, "%s", s->path);
	for (uint32_t i = 0; i < n; i++) {
		struct simdev_page d = { .magic = DEVICE_MAGIC, .index = i, .model = models[i], .advanced_ms = clock_mono_ms() };
		simdev_uuid(&models[i], i, d.uuid);
		if (write_device(s, &d, err))
			return -1;
	}
	/* Last: a maker that dies before leaves a file that the next one makes again. */
	h.ready = 1;
	return pwrite(s->fd, &h, sizeof h, 0) == sizeof h ? 0 : error_errno(err, "%s", s->path);
}

/* By what makes a difference to whoever runs there. Not memcmp: the structs have padding. */
static bool same_model(const struct device_model *a, const struct device_model *b)
{
	return !strcmp(a->name, b->name) && !strcmp(a->gpu_name, b->gpu_name) && a->mem_total_mib == b->mem_total_mib &&
	       a->mem_reserved_mib == b->mem_reserved_mib && a->sm_count == b->sm_count && a->idle_w == b->idle_w &&
	       a->peak_w == b->peak_w && a->limit_w == b->limit_w && a->gpu == b->gpu && !strcmp(a->profile, b->profile);
}

#define PIDS_LEN 180	/* of a message; a part of a pid would be another's */

/* Those that live, once each, as many as there is room for: a process on several devices is a client of all of them. */
static void add_pids(const struct simdev_page *d, struct buf *pids)
{
	for (size_t c = 0; c < SIMDEV_MAX_CLIENTS; c++) {
		char pid[16];
		snprintf(pid, sizeof pid, " %ld ", (long)d->clients[c].pid);
		if (pids->len < PIDS_LEN && client_alive(&d->clients[c]) && !strstr(buf_text(pids), pid))
			buf_printf(pids, "%s%s", pids->len ? "" : " ", pid + 1);
	}
}

/* 1: the file holds exactly these. 0: others, and nobody is on them. -1 with an error otherwise. */
static int holds_same(const struct simdev *s, const struct simdev_header *h, const struct device_model *models, size_t n,
		      struct error *err)
{
	bool same = h->n_devices == n;
	scoped_buf pids = { 0 };
	for (uint32_t i = 0; i < h->n_devices; i++) {
		struct simdev_page d;
		if (read_device(s, i, &d, err))
			return -1;
		same = same && same_model(&d.model, &models[i]);
		add_pids(&d, &pids);
	}
	if (same || !pids.len)
		return same;
	return error_set(err, ERR_CONFLICT, "%s: processes still run on other simulated devices than the ones asked for: "
			 "ask for those, or end them first: kill%.*s", s->path, (int)pids.len - 1, buf_text(&pids));
}

/* Makes the devices of the spec unless they are there. The whole file is locked. */
static int ensure_devices(const struct simdev *s, const char *spec, struct error *err)
{
	scoped_free struct device_model *models = NULL;
	size_t n = 0;
	struct simdev_header h;
	if (spec && simdev_parse(spec, &models, &n, err))
		return -1;
	if (n > SIMDEV_MAX_DEVICES)
		return error_set(err, ERR_INVALID, "more than %d simulated devices: only rad simulate takes more", SIMDEV_MAX_DEVICES);
	int rc = read_header(s, &h, err);
	if (rc < 0 || (!rc && !spec))
		return rc;
	if (!spec)
		return error_set(err, ERR_NOT_FOUND, "%s: holds no simulated devices yet: start radd with "
				 "--devices sim:4xa100-40g", s->path);
	int same = rc ? 0 : holds_same(s, &h, models, n, err);
	if (same)
		return same < 0 ? -1 : 0;
	return make_devices(s, models, n, err);
}

static int open_file(struct simdev *s, bool make, struct error *err)
{
	struct stat st;
	/* The path may come from an environment: no link is followed, and no pipe or terminal waited for. */
	s->fd = open(s->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | (make ? O_CREAT : 0), 0600);
	if (s->fd < 0 && errno == ENOENT && !make)
		return error_set(err, ERR_NOT_FOUND, "%s: there are no simulated devices here: start radd with "
				 "--devices sim:4xa100-40g", s->path);
	if (s->fd < 0)
		return error_errno(err, "%s", s->path);
	if (fstat(s->fd, &st) || !S_ISREG(st.st_mode))
		return error_set(err, ERR_INVALID, "%s: is not a plain file", s->path);
	/* A daemon of root's runs tasks of all users, and they write here what they use. */
	if (make && !st.st_size && !geteuid() && fchmod(s->fd, 0666))
		return error_errno(err, "%s", s->path);
	return 0;
}

struct simdev *simdev_open(const char *path, const char *spec, struct error *err)
{
	struct simdev *s = alloc_zero(sizeof *s);
	s->fd = -1;
	s->path = alloc_string(path);
	if (open_file(s, spec != NULL, err))
		goto fail;
	/* Tasks only look, and page locks keep them apart; whoever may make the file has it alone. */
	if (lock_page(s, spec ? -1 : 0, spec ? F_WRLCK : F_RDLCK, err) || ensure_devices(s, spec, err))
		goto fail;
	unlock_page(s, -1);
	return s;
fail:
	simdev_close(s);
	return NULL;
}

int simdev_check(struct simdev *s, const char *spec, struct error *err)
{
	scoped_free struct device_model *models = NULL;
	struct simdev_header h;
	struct simdev_page d, first = { .index = 0 };
	size_t n = 0;
	if (simdev_parse(spec, &models, &n, err) || read_header(s, &h, err) < 0)
		return -1;
	bool same = h.n_devices == n;
	for (uint32_t i = 0; i < h.n_devices; i++) {
		if (read_device(s, i, &d, err))
			return -1;
		same = same && same_model(&d.model, &models[i]);
		first = i ? first : d;
	}
	return same ? 0 : error_set(err, ERR_CONFLICT, "%s: %u simulated devices are there, the first of which is %s, and not %.60s",
				    s->path, h.n_devices, first.model.gpu_name, spec);
}

void simdev_close(struct simdev *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	free(s->path);
	free(s);
}
