/* SPDX-License-Identifier: MIT
 * Claims on disk: see claims_folder.h. All calls are short ones to a local folder: the list of names is read anew only when the
 * folder has changed, since /tmp may hold a hundred thousand, and a file is a page or two of the cache.
 */
#include "daemon/claims_folder.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/scope.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "rad-claims-"
#define NAME_LEN 64
#define PUBLISH_TRIES 3
#define TORN_TRIES 4
#define TORN_MS 1000		/* one that cannot be read for longer than that says nothing */
#define MAX_ENTRIES 50000	/* of the folder that are gone through, some 20 ms, */
#define MAX_STATS 4096		/* and of those with such a name that are looked at */
#define LEFT_S 10		/* a file without a lock is left over, and not being made, when it is so old */
#define SETTLED_NS 1000000000	/* the folder's time counts when it is older than this: two changes may have the same */

struct other { char name[NAME_LEN]; uid_t uid; int64_t torn_since_ms; };

struct claims_folder {
	char *path, *mark;		/* mark: NULL: files have names by chance alone */
	int fd;
	char own_name[NAME_LEN];
	int own_fd;			/* -1: none */
	dev_t own_dev;
	ino_t own_ino;
	struct claims_page page;	/* ours */
	struct timespec read_as_of;	/* of the folder, when its names were read; 0: they are to be read again */
	struct other others[CLAIMS_FILES];
	size_t n_others;
};

static uint64_t pid_space(void)
{
	struct stat st;
	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

/* Root's, or our own; and where others may write, they must not be able to take away what is another's. */
static int check_folder(int fd, const char *path, struct error *err)
{
	struct stat st;
	if (fstat(fd, &st))
		return error_errno(err, "%s", path);
	bool trusted = st.st_uid == 0 || st.st_uid == geteuid();
	if (trusted && (!(st.st_mode & (S_IWGRP | S_IWOTH)) || st.st_mode & S_ISVTX))
		return 0;
	return error_set(err, ERR_DENIED, "%s: belongs to uid %u with mode %o, so others could take away what is there: chmod +t "
			 "it, as root", path, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777);
}

struct claims_folder *claims_folder_open(const char *path, const char *mark, struct error *err)
{
	scoped_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		error_errno(err, "%s", path);
	if (fd < 0 || check_folder(fd, path, err))
		return NULL;
	struct claims_folder *f = alloc_zero(sizeof *f);
	f->path = alloc_string(path);
	f->mark = mark ? alloc_string(mark) : NULL;
	f->fd = steal_fd(fd);
	f->own_fd = -1;
	f->page.owner.pid = getpid();
	proc_stat(getpid(), &f->page.owner.start_ticks, NULL);
	f->page.space = pid_space();
	return f;
}

/* Our file --------------------------------------------------------------------------------------------------------------- */

/* Asked by inode: a file of that name may be another's by now, where /tmp was cleaned up and somebody was quicker. */
static bool own_is_there(const struct claims_folder *f)
{
	struct stat st;
	return f->own_fd >= 0 && !fstatat(f->fd, f->own_name, &st, AT_SYMLINK_NOFOLLOW) && st.st_dev == f->own_dev &&
	       st.st_ino == f->own_ino;
}

static bool own_outlives_us(const struct claims_folder *f)
{
	unsigned runs = 0;
	for (size_t i = 0; i < f->page.n; i++)
		runs += f->page.runs[i].n;
	return runs;
}

/* A file with running tasks in it stays: it speaks for them until the next radd of this store replaces it, or their shims
 * are gone. */
static void drop_own(struct claims_folder *f)
{
	if (f->own_fd < 0)
		return;
	if (own_is_there(f) && !own_outlives_us(f))
		unlinkat(f->fd, f->own_name, 0);
	close(f->own_fd);
	f->own_fd = -1;
}

static void keep_own(struct claims_folder *f, int fd, const struct stat *st)
{
	f->own_dev = st->st_dev;
	f->own_ino = st->st_ino;
	f->own_fd = fd;
}

/* 0; 1: it is being written; -1: it cannot be read. */
static int read_page(int fd, struct claims_page *page)
{
	char text[CLAIMS_BYTES];
	for (int tries = 0; tries < TORN_TRIES; tries++) {
		ssize_t got = pread(fd, text, sizeof text, 0);
		if (got < 0)
			return -1;
		if (got > 0 && !claims_page_read(text, (size_t)got, page))
			return 0;
	}
	return 1;
}

/* Whether that process wrote it, and runs. One that cannot be looked at (hidepid) or is of another namespace has its lock to
 * speak for it alone. */
static bool owner_lives(const struct claims_folder *f, const struct claims_page *p, uid_t uid)
{
	uint64_t start;
	if (p->space != f->page.space)
		return true;
	if (!proc_stat(p->owner.pid, &start, NULL))
		return start == p->owner.start_ticks && proc_uid(p->owner.pid) == uid;
	return !kill(p->owner.pid, 0) || errno == EPERM;
}

/* Whether nothing has our name, or a file that a former daemon of this store left. A lock tells of no daemon by itself:
 * whoever may read the file can hold one. */
static bool name_is_free(const struct claims_folder *f)
{
	struct stat st;
	scoped_fd int fd = openat(f->fd, f->own_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return false;
	scoped_free struct claims_page *page = alloc_zero(sizeof *page);
	return !flock(fd, LOCK_SH | LOCK_NB) || (!read_page(fd, page) && !owner_lives(f, page, st.st_uid));
}

/* Locked before anybody else may open it, and with its room taken at once, so that a full disk hinders the first writing at
 * most. */
static int fill_own(int fd, const struct buf *text, struct stat *st)
{
	if (flock(fd, LOCK_EX | LOCK_NB) || (errno = posix_fallocate(fd, 0, CLAIMS_BYTES)))
		return -1;
	return io_write_full(fd, text->data, text->len) || fchmod(fd, 0644) || fstat(fd, st) ? -1 : 0;
}

/* Named after the store's mark, so that its next radd finds the file; by chance where that name is taken by something that
 * cannot be trusted. It comes to its name when it is whole: who looks sees a former daemon's rows until then, and these from
 * then on. */
static int make_own(struct claims_folder *f, const struct buf *text, struct error *err)
{
	struct stat st;
	unsigned chance = 0;
	char new_name[NAME_LEN];
	drop_own(f);
	if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) < 0)
		chance = (unsigned)clock_wall_ms();
	snprintf(f->own_name, sizeof f->own_name, PREFIX "%u-%.32s", (unsigned)geteuid(), f->mark ? f->mark : "");
	if (!f->mark || !name_is_free(f))
		snprintf(f->own_name, sizeof f->own_name, PREFIX "%u-%08x", (unsigned)geteuid(), chance);
	snprintf(new_name, sizeof new_name, "." PREFIX "%u-%08x", (unsigned)geteuid(), chance);
	scoped_fd int fd = openat(f->fd, new_name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, "%s/%s", f->path, new_name);
	if (fill_own(fd, text, &st) || renameat(f->fd, new_name, f->fd, f->own_name)) {
		error_errno(err, "%s/%s", f->path, f->own_name);
		unlinkat(f->fd, new_name, 0);
		return -1;
	}
	keep_own(f, steal_fd(fd), &st);
	return 0;
}

/* What does not fit of shims is left out before rows are. */
static void fill_page(struct claims_folder *f, const struct core_claim *rows, const struct claims_runs *runs, size_t n,
		      struct buf *text)
{
	f->page.n = n < CLAIMS_ROWS ? n : CLAIMS_ROWS;
	memcpy(f->page.rows, rows, f->page.n * sizeof *rows);
	memset(f->page.runs, 0, sizeof f->page.runs);
	if (runs)
		memcpy(f->page.runs, runs, f->page.n * sizeof *runs);
	claims_page_write(&f->page, text);
	for (size_t i = f->page.n; text->len > CLAIMS_BYTES && (i || f->page.n);) {
		if (i)
			f->page.runs[--i].n = 0;
		else
			f->page.n--;
		buf_drop(text, text->len);
		claims_page_write(&f->page, text);
	}
}

/* Somebody who cleans up may have taken the file away while it was written: then nobody has seen that. */
int claims_folder_publish(struct claims_folder *f, const struct core_claim *rows, const struct claims_runs *runs, size_t n,
			  struct error *err)
{
	scoped_buf text = { 0 };
	fill_page(f, rows, runs, n, &text);
	for (int tries = 0; tries < PUBLISH_TRIES; tries++) {
		bool there = own_is_there(f);
		if (!there && make_own(f, &text, err))
			continue;
		if (there && (lseek(f->own_fd, 0, SEEK_SET) || io_write_full(f->own_fd, text.data, text.len)))
			return error_errno(err, "%s/%s", f->path, f->own_name);
		if (own_is_there(f))
			return 0;
		error_set(err, ERR_UNAVAILABLE, "%s/%s: was removed while it was written", f->path, f->own_name);
	}
	return -1;
}

void claims_folder_close(struct claims_folder *f)
{
	if (!f)
		return;
	drop_own(f);
	close(f->fd);
	free(f->mark);
	free(f->path);
	free(f);
}

/* The others' ------------------------------------------------------------------------------------------------------------- */

/* Whether it may be a daemon's: its owner is the one in its name. Of one user so many, whoever else has how many. */
static bool is_a_claim(const struct claims_folder *f, const char *name, uid_t *uid)
{
	struct stat st;
	unsigned said;
	size_t times = 0;
	if (sscanf(name, PREFIX "%10u-", &said) != 1 || (said && !geteuid()) || strlen(name) >= NAME_LEN ||
	    !strcmp(name, f->own_name) || fstatat(f->fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
	    st.st_uid != said)
		return false;
	*uid = st.st_uid;
	for (size_t i = 0; i < f->n_others; i++) {
		if (!strcmp(f->others[i].name, name))
			return false;
		times += f->others[i].uid == *uid;
	}
	return times < CLAIMS_FILES_USER;
}

/* Those that were known come first, so that nobody can hide a daemon by making many files. */
static void keep_known(struct claims_folder *f)
{
	size_t n = f->n_others;
	f->n_others = 0;
	for (size_t i = 0; i < n; i++) {
		struct other o = f->others[i];
		if (is_a_claim(f, o.name, &o.uid))
			f->others[f->n_others++] = o;
	}
}

/* Of ours, without a lock (the caller has one): a file that nobody makes or writes any more. */
static bool is_left_over(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_mtim.tv_sec + LEFT_S < clock_wall_ms() / 1000;
}

/* What a daemon that was killed before its file came to its name has left. */
static void drop_unmade(const struct claims_folder *f, const char *name)
{
	struct stat st;
	scoped_fd int fd = openat(f->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0 && !fstat(fd, &st) && is_left_over(&st) && !flock(fd, LOCK_SH | LOCK_NB))
		unlinkat(f->fd, name, 0);
}

static void find_new(struct claims_folder *f, DIR *dir)
{
	size_t entries = 0, stats = 0;
	for (const struct dirent *e; entries < MAX_ENTRIES && stats < MAX_STATS && (e = readdir(dir)); entries++) {
		uid_t uid;
		bool unmade = *e->d_name == '.';
		if (strncmp(e->d_name + unmade, PREFIX, strlen(PREFIX)))
			continue;
		stats++;
		if (unmade)
			drop_unmade(f, e->d_name);
		if (unmade || f->n_others == CLAIMS_FILES || !is_a_claim(f, e->d_name, &uid))
			continue;
		struct other *o = &f->others[f->n_others++];
		*o = (struct other){ .uid = uid };
		memcpy(o->name, e->d_name, strlen(e->d_name) + 1);	/* its length was looked at */
	}
	if (entries == MAX_ENTRIES || stats == MAX_STATS)
		log_warn_limited("%s: holds so many files that other daemons' claims may not be found: clean it up", f->path);
}

/* The names as they are: read again where the folder has changed, or may have within the time that its clock tells apart. */
static void read_names(struct claims_folder *f)
{
	struct stat st;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if (fstat(f->fd, &st) || (st.st_mtim.tv_sec == f->read_as_of.tv_sec && st.st_mtim.tv_nsec == f->read_as_of.tv_nsec))
		return;
	int64_t age_ns = (now.tv_sec - st.st_mtim.tv_sec) * INT64_C(1000000000) + now.tv_nsec - st.st_mtim.tv_nsec;
	scoped_dir DIR *dir = io_open_folder(f->fd, ".");
	if (!dir)
		return;
	f->read_as_of = age_ns > SETTLED_NS ? st.st_mtim : (struct timespec){ 0 };
	keep_known(f);
	find_new(f, dir);
}

/* Whether that shim runs. Of a user's daemon it is the user's too; of root's it is the task's user's. One that cannot be looked
 * at does not count: its pid may be anybody's. */
static bool run_lives(struct proc_id run, uid_t uid)
{
	uint64_t start;
	return !proc_stat(run.pid, &start, NULL) && start == run.start_ticks && (!uid || proc_uid(run.pid) == uid);
}

static unsigned count_living(const struct claims_runs *runs, uid_t uid)
{
	unsigned living = 0;
	for (unsigned i = 0; i < runs->n; i++)
		living += run_lives(runs->id[i], uid);
	return living;
}

/* Its daemon is gone, for a moment perhaps. Rows of tasks that run on stay as they are: the claim of one that is not known to
 * have ended counts whole, since which of a row's memory was whose is not said. Returns 0; -1: nothing is left. */
static int keep_left(const struct claims_folder *f, uid_t uid, struct claims_page *page)
{
	size_t kept = 0;
	if (page->space != f->page.space)
		return -1;
	for (size_t i = 0; i < page->n; i++)
		if (count_living(&page->runs[i], uid))
			page->rows[kept++] = page->rows[i];
	page->n = kept;
	return kept ? 0 : -1;
}

/* Without a lock nobody writes, so one reading will do. */
static int read_left(const struct claims_folder *f, int fd, uid_t uid, struct claims_page *page)
{
	char text[CLAIMS_BYTES];
	ssize_t got = pread(fd, text, sizeof text, 0);
	return got <= 0 || claims_page_read(text, (size_t)got, page) ? -1 : keep_left(f, uid, page);
}

/* 0; 1: it is being written; -1: it says nothing. */
static int read_file(const struct claims_folder *f, const struct other *o, struct claims_page *page, uid_t *uid)
{
	struct stat st;
	scoped_fd int fd = openat(f->fd, o->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_size > CLAIMS_BYTES)
		return -1;
	*uid = st.st_uid;
	if (!flock(fd, LOCK_SH | LOCK_NB)) {
		int left = read_left(f, fd, st.st_uid, page);
		if (left && is_left_over(&st))
			unlinkat(f->fd, o->name, 0);
		return left;
	}
	int rc = read_page(fd, page);
	return rc || owner_lives(f, page, st.st_uid) ? rc : keep_left(f, st.st_uid, page);
}

/* A user's daemon speaks of that user's tasks, root's of everybody's. The daemon of root's heeds root alone: see
 * doc/decisions/0104. */
static void take_rows(struct claims_seen *out, const struct claims_page *p, uid_t uid)
{
	for (size_t i = 0; i < p->n; i++) {
		struct core_claim c = p->rows[i];
		if (uid && c.uid != uid)
			continue;
		alloc_grow(out->rows, out->n, out->cap);
		out->rows[out->n++] = c;
	}
}

/* A page that stays torn for longer than TORN_MS says nothing any more: a user who writes nonsense there must not hold up
 * everybody's placements. */
void claims_folder_look(struct claims_folder *f, struct claims_seen *out)
{
	uid_t uid;
	scoped_free struct claims_page *page = alloc_zero(sizeof *page);
	out->n = 0;
	out->unsure = false;
	read_names(f);
	for (size_t i = 0; i < f->n_others; i++) {
		struct other *o = &f->others[i];
		int rc = read_file(f, o, page, &uid);
		if (rc < 0 || (!geteuid() && uid)) {
			o->torn_since_ms = 0;
		} else if (rc > 0) {
			o->torn_since_ms = o->torn_since_ms ? o->torn_since_ms : clock_mono_ms();
			out->unsure = out->unsure || clock_mono_ms() - o->torn_since_ms < TORN_MS;
		} else {
			o->torn_since_ms = 0;
			take_rows(out, page, uid);
		}
	}
}

void claims_seen_clear(struct claims_seen *s)
{
	free(s->rows);
	*s = (struct claims_seen){ 0 };
}
