/* SPDX-License-Identifier: MIT
 * See jobmap.h. The folder is opened anew for each change: another file system may have been mounted there.
 */
#include "daemon/jobmap.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/now.h"
#include "daemon/troubles.h"
#include "daemon/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define GPUS 1024	/* of one machine, at most */

struct jobmap {
	char *folder;		/* NULL: off */
	bool dirty;
	size_t gpus;
	char *trouble;		/* why the last writing failed; NULL: it did not */
	char *written[GPUS];	/* by index; NULL: nothing yet */
};

struct jobmap *jobmap_create(const char *folder)
{
	struct jobmap *j = alloc_zero(sizeof *j);
	j->folder = strcmp(folder, "off") ? alloc_string(folder) : NULL;
	j->dirty = true;
	return j;
}

void jobmap_destroy(struct jobmap *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < GPUS; i++)
		free(j->written[i]);
	free(j->folder);
	free(j->trouble);
	free(j);
}

void jobmap_note(struct jobmap *j, const struct event *ev)
{
	j->dirty = j->dirty || ev->kind == EV_PLACED || ev->kind == EV_ENDED || ev->kind == EV_MOVED;
}

/* A GPU that comes has no file yet, though nothing was placed. */
void jobmap_note_gpus(struct jobmap *j, size_t n)
{
	j->dirty = j->dirty || n != j->gpus;
	j->gpus = n;
}

/* Files ------------------------------------------------------------------------------------------------------------------ */

/* Its last part is made where it is missing, in a folder that is trusted. */
static int make_folder(const char *path, struct error *err)
{
	char real[PATH_MAX];
	scoped_free char *parent = alloc_string(path);
	char *slash = strrchr(parent, '/');
	if (slash == parent)
		slash++;
	*slash = 0;
	if (!realpath(parent, real))
		return error_errno(err, "%s", parent);
	/* There, and not by its path again, which may have a link that somebody else can have lead elsewhere by now. */
	scoped_free char *inside = alloc_printf("%s/%s", real, strrchr(path, '/') + 1), *folders = alloc_string(inside);
	if (trust_folders(folders, err))
		return -1;
	return mkdir(inside, 0755) && errno != EEXIST ? error_errno(err, "%s", path) : 0;
}

/* A descriptor of the folder, which nobody else could have put there; -1. */
static int open_folder(const char *path, struct error *err)
{
	char real[PATH_MAX];
	struct stat st;
	if (*path != '/')
		return error_set(err, ERR_INVALID, "%s: is not an absolute path", path);
	if (!realpath(path, real) && (errno != ENOENT || make_folder(path, err) || !realpath(path, real)))
		return err && err->text[0] ? -1 : error_errno(err, "%s", path);
	scoped_fd int fd = open(real, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return error_errno(err, "%s", path);
	if (trust_check(path, &st, err) || trust_folders(real, err))
		return -1;
	return steal_fd(fd);
}

/* By a new file that takes the old one's place: dcgm-exporter reads whenever it likes, and must see one list or the
 * other. */
static int write_one(int folder, size_t index, const char *text, struct error *err)
{
	char name[24], part[32];
	snprintf(name, sizeof name, "%zu", index);
	snprintf(part, sizeof part, ".rad-%zu", index);	/* no number, so dcgm-exporter passes it over */
	unlinkat(folder, part, 0);
	scoped_fd int fd = openat(folder, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0 || fchmod(fd, 0644) || io_write_full(fd, text, strlen(text)) || renameat(folder, part, folder, name)) {
		error_errno(err, "%s", name);
		unlinkat(folder, part, 0);
		return -1;
	}
	return 0;
}

int jobmap_check(const char *folder, struct error *err)
{
	scoped_fd int fd = strcmp(folder, "off") ? open_folder(folder, err) : -1;
	return fd < 0 && strcmp(folder, "off") ? -1 : 0;
}

/* What they hold ----------------------------------------------------------------------------------------------------------- */

/* By the GPU's index; "" where there is none. Instances of one GPU add up. */
static void collect(struct core *core, struct buf texts[GPUS])
{
	scoped_json *answer = core_gpus_json(core, now_read());
	size_t i, k;
	json_t *g, *id;
	json_array_foreach(json_object_get(answer, "gpus"), i, g) {
		json_int_t index = json_integer_value(json_object_get(g, "index"));
		if (index < 0 || index >= GPUS)
			continue;
		buf_add_text(&texts[index], "");
		json_array_foreach(json_object_get(g, "tasks"), k, id)
			buf_printf(&texts[index], "%s\n", json_string_value(id));
	}
}

/* What a GPU's file holds is noted once that file stands, so that the next try begins with the one that failed. */
static int write_all(struct jobmap *j, const struct buf texts[GPUS], struct error *err)
{
	scoped_fd int folder = open_folder(j->folder, err);
	if (folder < 0)
		return -1;
	for (size_t i = 0; i < GPUS; i++) {
		const char *text = texts[i].len ? texts[i].data : "\n";
		if (!texts[i].data || (j->written[i] && !strcmp(j->written[i], text)))
			continue;
		if (write_one(folder, i, text, err))
			return error_wrap(err, "%s", j->folder);
		free(j->written[i]);
		j->written[i] = alloc_string(text);
	}
	return 0;
}

/* Only what changed is written, after the commit. One that fails is tried again with the next change, not each turn: the
 * folder is another program's, and may be gone for good. */
void jobmap_work(struct jobmap *j, struct core *core)
{
	struct error err = ERROR_INIT;
	if (!j->dirty || !j->folder)
		return;
	scoped_free struct buf *texts = alloc_zero(GPUS * sizeof *texts);
	j->dirty = false;
	collect(core, texts);
	free(j->trouble);
	j->trouble = NULL;
	if (write_all(j, texts, &err)) {
		log_warn_limited("dcgm_job_mapping: %s", err.text);
		j->trouble = alloc_string(err.text);
	}
	for (size_t i = 0; i < GPUS; i++)
		buf_free(&texts[i]);
}

void jobmap_tell(const struct jobmap *j, json_t *troubles)
{
	if (j->trouble)
		troubles_add(troubles, "dcgm_job_mapping", "files for dcgm-exporter cannot be written, so its metrics name no tasks, or "
			     "wrong ones: %s", j->trouble);
}
