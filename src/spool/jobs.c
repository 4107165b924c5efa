/* SPDX-License-Identifier: MIT
 * Jobs of a queue: see spool.h. A job is a folder that is made complete and then given its number, by a rename that fails
 * where the number is taken; so numbers have no gaps, and the highest is found without reading them all.
 */
#include "spool/private.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_job(const struct spool *s, uint32_t job)
{
	char path[SPOOL_NAME];
	snprintf(path, sizeof path, "jobs/%u/job", job);
	return !faccessat(s->fd, path, F_OK, AT_SYMLINK_NOFOLLOW);
}

void spool_ask_server(const struct spool *s, uint32_t job)
{
	char path[SPOOL_NAME];
	snprintf(path, sizeof path, "jobs/%u", job);
	spool_open_folder(s, path);
}

uint32_t spool_last_job(const struct spool *s)
{
	uint32_t low = 0, step = 1;
	spool_open_folder(s, "jobs");
	while (low + step <= SPOOL_MAX_JOB && is_job(s, low + step)) {
		low += step;
		step *= 2;
	}
	for (; step; step /= 2)
		if (low + step <= SPOOL_MAX_JOB && is_job(s, low + step))
			low += step;
	return low;
}

/* Complete, in tmp/. */
static int make_folder(const struct spool *s, const json_t *content, char folder[SPOOL_NAME], struct error *err)
{
	char name[SPOOL_NAME], unique[SPOOL_NAME], inside[SPOOL_NAME + 8];
	if (spool_file_make(s, content, name, err))
		return -1;
	spool_unique(unique);
	snprintf(folder, SPOOL_NAME, "tmp/%.80s", unique);
	snprintf(inside, sizeof inside, "%s/job", folder);
	if (!mkdirat(s->fd, folder, 0700) && !renameat(s->fd, name, s->fd, inside) && !spool_sync_folder(s, folder, err))
		return 0;
	error_errno(err, "%s/%s", s->dir, folder);
	unlinkat(s->fd, name, 0);
	unlinkat(s->fd, inside, 0);
	unlinkat(s->fd, folder, AT_REMOVEDIR);
	return -1;
}

static int make_live(const struct spool *s, uint32_t job, struct error *err)
{
	char path[SPOOL_NAME];
	snprintf(path, sizeof path, "live/%u", job);
	scoped_fd int fd = openat(s->fd, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0600);
	return fd < 0 ? error_errno(err, "%s/%s", s->dir, path) : spool_sync_folder(s, "live", err);
}

/* Whether that number is ours though the rename failed: its answer was lost, and it was done twice, or too late. */
static bool number_is_ours(const struct spool *s, uint32_t job, const json_t *content)
{
	scoped_json *there = spool_job(s, job, false, NULL);
	return there && json_equal(json_object_get(there, "mark"), json_object_get(content, "mark"));
}

/* On the list first: a number that is listed and not there is passed over, one that is there and not listed would wait for
 * ever. */
static int give_number(const struct spool *s, const char *folder, const json_t *content, uint32_t *job, struct error *err)
{
	for (*job = spool_last_job(s) + 1; *job <= SPOOL_MAX_JOB; ++*job) {
		char path[SPOOL_NAME];
		snprintf(path, sizeof path, "jobs/%u", *job);
		if (make_live(s, *job, err))
			return -1;
		int no = renameat(s->fd, folder, s->fd, path) ? errno : 0;
		bool taken = no == EEXIST || no == ENOTEMPTY;
		/* The number is what counts, whatever the sync says: a pilot may have begun it. */
		if (!no || (!taken && number_is_ours(s, *job, content)))
			return spool_sync_folder(s, "jobs", NULL), 0;
		errno = no;
		if (!taken)
			return error_errno(err, "%s/%s", s->dir, path);
	}
	return error_set(err, ERR_UNAVAILABLE, "%s: is full: %u jobs", s->dir, SPOOL_MAX_JOB);
}

int spool_submit(const struct spool *s, int format, const json_t *spec, const json_t *env, uint32_t *job, struct error *err)
{
	char folder[SPOOL_NAME], mark[SPOOL_NAME], inside[SPOOL_NAME + 8];
	spool_unique(mark);
	scoped_json *content = json_pack("{si, ss, ss, sI, sO, sO}", "format", format, "mark", mark, "by", s->by, "time_ms",
					 (json_int_t)clock_wall_ms(), "spec", spec, "environ", env);
	if (make_folder(s, content, folder, err))
		return -1;
	if (!give_number(s, folder, content, job, err))
		return 0;
	snprintf(inside, sizeof inside, "%s/job", folder);
	unlinkat(s->fd, inside, 0);
	unlinkat(s->fd, folder, AT_REMOVEDIR);
	return -1;
}

json_t *spool_job(const struct spool *s, uint32_t job, bool env, struct error *err)
{
	char path[SPOOL_NAME];
	struct error why = ERROR_INIT;
	snprintf(path, sizeof path, "jobs/%u/job", job);
	json_t *o = spool_file_read(s, path, SPOOL_MAX_JOB_FILE, &why);
	if (!o && why.code == ERR_NOT_FOUND) {
		why = ERROR_INIT;
		spool_open_folder(s, "jobs");
		o = spool_file_read(s, path, SPOOL_MAX_JOB_FILE, &why);
	}
	if (!o && why.code == ERR_NOT_FOUND)
		error_set(err, ERR_NOT_FOUND, "task %u: there is no such task in %s", job, s->dir);
	else if (!o)
		error_pass(err, &why);
	if (o && json_integer_value(json_object_get(o, "format")) > SPOOL_FORMAT_WAITS) {
		error_set(err, ERR_CONFLICT, "task %u: was submitted by a newer rad, which this one cannot read", job);
		json_decref(o);
		return NULL;
	}
	if (o && !env)
		json_object_del(o, "environ");
	return o;
}

/* ---- the list of live ones ---- */

/* "12", "12.7", "12_3.7": the task, and the version it was put back with (0: the whole job, as it was submitted). */
static bool parse_live(const char *name, task_id *id, unsigned *version)
{
	char text[SPOOL_NAME];
	int64_t number = 0;
	const char *dot = strchr(name, '.');
	size_t len = dot ? (size_t)(dot - name) : strlen(name);
	if (!len || len >= TASK_ID_TEXT)
		return false;
	memcpy(text, name, len);
	text[len] = 0;
	if (task_id_parse(text, id, NULL) || (dot && units_parse_int(dot + 1, 1, SPOOL_MAX_VERSION, &number, NULL)))
		return false;
	*version = (unsigned)number;
	return TASK_JOB(*id) > 0;
}

static DIR *open_folder(const struct spool *s, const char *path, struct error *err)
{
	DIR *d = io_open_folder(s->fd, path);
	if (!d && errno == ENOENT)
		error_set(err, ERR_NOT_FOUND, "%s/%s: is not there", s->dir, path);
	else if (!d)
		error_errno(err, "%s/%s", s->dir, path);
	return d;
}

int spool_live(const struct spool *s, void (*each)(void *ctx, uint32_t job), void *ctx, struct error *err)
{
	scoped_dir DIR *d = open_folder(s, "live", err);
	struct idmap seen = { 0 };
	if (!d)
		return -1;
	for (struct dirent *e; (e = readdir(d));) {
		task_id id;
		unsigned version;
		if (!parse_live(e->d_name, &id, &version) || idmap_get(&seen, TASK_JOB(id)))
			continue;
		idmap_put(&seen, TASK_JOB(id), &seen);
		each(ctx, TASK_JOB(id));
	}
	idmap_free(&seen);
	return 0;
}

/* All of a job's names have to go at once or not at all, or the elements that were not put back would be forgotten with one
 * that was: so each name is judged by itself. */
void spool_tidy(const struct spool *s, uint32_t job, unsigned (*ended)(void *ctx, task_id id), void *ctx)
{
	scoped_dir DIR *d = open_folder(s, "live", NULL);
	for (struct dirent *e; d && (e = readdir(d));) {
		char path[SPOOL_NAME];
		task_id id;
		unsigned version;
		if (!parse_live(e->d_name, &id, &version) || TASK_JOB(id) != job || ended(ctx, id) <= version)
			continue;
		snprintf(path, sizeof path, "live/%.80s", e->d_name);
		unlinkat(s->fd, path, 0);
	}
}

uint64_t spool_stamp(const struct spool *s, uint32_t job)
{
	char path[SPOOL_NAME];
	struct stat st;
	snprintf(path, sizeof path, "jobs/%u", job);
	if (fstatat(s->fd, path, &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	return ((uint64_t)st.st_mtim.tv_sec * 1000000007u) ^ ((uint64_t)st.st_mtim.tv_nsec << 8) ^ (uint64_t)st.st_size ^ 1;
}

/* "t.4", "3.4" */
static bool parse_version(uint32_t job, const char *name, task_id *id, unsigned *version)
{
	const char *dot = strchr(name, '.');
	char text[16];
	int64_t element = -1, number;
	size_t len = dot ? (size_t)(dot - name) : 0;
	if (!len || len >= sizeof text)
		return false;
	memcpy(text, name, len);
	text[len] = 0;
	if ((strcmp(text, "t") && units_parse_int(text, 0, (1 << TASK_INDEX_BITS) - 2, &element, NULL)) ||
	    units_parse_int(dot + 1, 1, SPOOL_MAX_VERSION, &number, NULL))
		return false;
	*id = TASK_ID(job, (int32_t)element);
	*version = (unsigned)number;
	return true;
}

/* The last version of a task that is there. */
struct top_version { task_id id; unsigned version; };

int spool_versions(const struct spool *s, uint32_t job, void (*each)(void *ctx, task_id id, unsigned version), void *ctx,
		   struct error *err)
{
	char path[SPOOL_NAME];
	snprintf(path, sizeof path, "jobs/%u", job);
	scoped_dir DIR *d = open_folder(s, path, err);
	struct idmap top = { 0 };
	size_t at = 0;
	if (!d)
		return -1;
	for (struct dirent *e; (e = readdir(d));) {
		task_id id;
		unsigned version;
		if (!parse_version(job, e->d_name, &id, &version))
			continue;
		struct top_version *one = idmap_get(&top, id);
		if (!one) {
			one = alloc_zero(sizeof *one);
			idmap_put(&top, id, one);
		}
		one->id = id;
		one->version = version > one->version ? version : one->version;
	}
	for (struct top_version *one; (one = idmap_next(&top, &at));) {
		each(ctx, one->id, one->version);
		free(one);
	}
	idmap_free(&top);
	return 0;
}
