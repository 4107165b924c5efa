/* SPDX-License-Identifier: MIT
 * See snapshot.h. The copy is made beside its place, synced and renamed, so whoever finds one finds it whole.
 */
#include "cli/snapshot.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/git.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_LIST ((size_t)64 << 20)	/* bytes of a list of paths */
#define MOST_BELOW 8			/* submodules of submodules */
#define SYNC_HELPERS 15			/* threads that sync files, beside the first */

struct code_item {
	char *path;		/* from the top; owned */
	struct stat st;
	bool ignored;		/* by git: linked */
};

struct code {
	const char *top;
	char *copies;		/* the folder of all copies, without links; owned. NULL: none is known */
	char *place;		/* of this one; owned. NULL: not known yet */
	struct code_item *items;
	size_t n, cap;
	uint64_t bytes;
};

static void code_clear(struct code *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->items[i].path);
	free(c->items);
	free(c->copies);
	free(c->place);
}

/* ---- paths ---- */

/* What follows `top` in a path that is it or below it; NULL: it is not. */
static const char *within(const char *top, const char *path)
{
	size_t n = strlen(top);
	return strncmp(path, top, n) || (path[n] && path[n] != '/') ? NULL : path + n;
}

/* The same, also where the path leads there by links: git names the top without any. */
static const char *leads_within(const char *top, const char *path, char real[static PATH_MAX])
{
	const char *rel = within(top, path);
	return rel || *path != '/' || !realpath(path, real) ? rel : within(top, real);
}

static char *copies_folder(void)
{
	scoped_free char *data = paths_own("XDG_DATA_HOME", ".local/share");
	if (!data)
		return NULL;
	scoped_free char *said = alloc_printf("%s/rad/snapshots", data);
	char *real = realpath(said, NULL);
	return real ? real : steal(said);
}

/* ---- what there is ---- */

static bool is_left_out(const char *path)
{
	const char *name = words_base(path);
	return !strcmp(name, "__pycache__") || !fnmatch("rad-[0-9]*.out", name, 0);
}

static int list_repository(struct code *c, const char *below, unsigned depth, struct error *err);

/* Of a submodule git names the folder. Neither sockets nor pipes are code, nor earlier copies where a home is a repository. */
static int add_path(struct code *c, const char *below, const char *path, bool ignored, unsigned depth, struct error *err)
{
	struct code_item it = { .ignored = ignored };
	scoped_free char *rel = alloc_printf("%s%s", below, path), *full = NULL;
	size_t len = strlen(rel);
	if (len && rel[len - 1] == '/')
		rel[len - 1] = 0;
	full = alloc_printf("%s/%s", c->top, rel);
	if (is_left_out(rel) || within(c->copies, full) || lstat(full, &it.st))	/* one that is tracked and was removed */
		return 0;
	if (S_ISDIR(it.st.st_mode) && !ignored) {
		scoped_free char *inside = alloc_printf("%s/", rel);
		return depth < MOST_BELOW ? list_repository(c, inside, depth + 1, err) : 0;
	}
	if (!ignored && !S_ISREG(it.st.st_mode) && !S_ISLNK(it.st.st_mode))
		return 0;
	it.path = steal(rel);
	c->bytes += ignored ? 0 : (uint64_t)it.st.st_size;
	alloc_grow(c->items, c->n, c->cap);
	c->items[c->n++] = it;
	return 0;
}

static int list_by(struct code *c, const char *below, const char *const *args, bool ignored, unsigned depth,
		   struct error *err)
{
	scoped_buf list = { 0 };
	scoped_free char *folder = alloc_printf("%s/%s", c->top, below);
	if (git_ask(folder, args, MOST_LIST, &list))
		return error_set(err, ERR_INVALID, "--snapshot: git cannot list the files of %.300s: see 'git status' there", folder);
	for (const char *p = buf_text(&list), *end = p + list.len; p < end; p += strlen(p) + 1)
		if (add_path(c, below, p, ignored, depth, err))
			return -1;
	return 0;
}

static int list_repository(struct code *c, const char *below, unsigned depth, struct error *err)
{
	static const char *const kept[] = { "ls-files", "-z", "--cached", "--others", "--exclude-standard", NULL };
	static const char *const ignored[] = { "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", NULL };
	return list_by(c, below, kept, false, depth, err) || list_by(c, below, ignored, true, depth, err) ? -1 : 0;
}

/* What is below a folder comes next after it. */
static int by_path(const void *a, const void *b)
{
	const char *x = ((const struct code_item *)a)->path, *y = ((const struct code_item *)b)->path;
	while (*x && *x == *y)
		x++, y++;
	return (*x == '/' ? 1 : (unsigned char)*x) - (*y == '/' ? 1 : (unsigned char)*y);
}

/* While files are merged git names one several times; and it may name a folder that it ignores and what is in it. Nothing is
 * made below a link: it would be made in the original. */
static void sort_items(struct code *c)
{
	size_t n = 0;
	if (c->n)
		qsort(c->items, c->n, sizeof *c->items, by_path);
	for (size_t i = 0; i < c->n; i++) {
		const struct code_item *last = n ? &c->items[n - 1] : NULL;
		if (last && (last->ignored ? within(last->path, c->items[i].path) != NULL : !strcmp(last->path, c->items[i].path)))
			free(c->items[i].path);
		else
			c->items[n++] = c->items[i];
	}
	c->n = n;
}

static int check_size(const struct code *c, struct error *err)
{
	const struct code_item *largest = NULL;
	for (size_t i = 0; i < c->n; i++)
		if (!c->items[i].ignored && (!largest || c->items[i].st.st_size > largest->st.st_size))
			largest = &c->items[i];
	if (!largest)
		return error_set(err, ERR_INVALID, "--snapshot: git knows no file in %.300s: 'git add' those that the task needs", c->top);
	if (c->bytes >> 20 <= SNAPSHOT_MOST_MIB)
		return 0;
	return error_set(err, ERR_INVALID, "--snapshot: %.300s has %.1f GiB that git does not ignore, in %.200s alone %.1f: name data "
			 "and results in .gitignore, they are linked then", c->top, (double)c->bytes / (1 << 30), largest->path,
			 (double)largest->st.st_size / (1 << 30));
}

static uint64_t hash_of(const struct code *c)
{
	uint64_t hash = hash_bytes(HASH_SEED, c->top, strlen(c->top) + 1);
	for (size_t i = 0; i < c->n; i++) {
		const struct code_item *it = &c->items[i];
		struct timespec changed = it->st.st_mtim;
		int64_t numbers[] = { it->ignored, (int64_t)it->st.st_mode, it->st.st_size, changed.tv_sec, changed.tv_nsec };
		hash = hash_bytes(hash, it->path, strlen(it->path) + 1);
		hash = hash_bytes(hash, numbers, it->ignored ? sizeof numbers[0] : sizeof numbers);
	}
	return hash;
}

/* ---- the copy ---- */

static int told_where(struct error *err)
{
	return error_wrap(err, "copies are kept below XDG_DATA_HOME, or else ~/.local/share");
}

static int unwritten(const char *path, struct error *err)
{
	error_errno(err, "%.300s", path);
	return told_where(err);
}

static int make_folder_of(const char *path, struct error *err)
{
	scoped_free char *copy = alloc_string(path);
	return io_make_dirs(dirname(copy), 0777, err) ? told_where(err) : 0;
}

/* What a relative link leads to, from the top: within it the link stays as it is, and means the copy. */
static bool leads_out(const char *path, const char *target)
{
	int depth = 0;
	for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/'))
		depth++;
	for (const char *p = target; *p; p += strspn(p, "/")) {
		size_t n = strcspn(p, "/");
		if (n == 2 && !strncmp(p, "..", 2) && --depth < 0)
			return true;
		depth += n != 2 || strncmp(p, "..", 2) ? !(n == 1 && *p == '.') : 0;
		p += n;
	}
	return false;
}

/* An absolute one within the repository leads to the copy's. What git keeps for itself is not copied. */
static int copy_link(const struct code *c, const struct code_item *it, const char *from, const char *to, struct error *err)
{
	char target[PATH_MAX];
	ssize_t n = readlink(from, target, sizeof target - 1);
	if (n < 0)
		return error_errno(err, "%.300s", from);
	target[n] = 0;
	scoped_free char *slash = alloc_string(it->path), *out = NULL;
	const char *rel = within(c->top, target);
	if (rel && !within("/.git", rel))
		out = alloc_printf("%s%s", c->place, rel);
	else if (*target != '/' && leads_out(it->path, target))
		out = alloc_printf("%s/%s/%s", c->top, dirname(slash), target);
	return symlink(out ? out : target, to) ? unwritten(to, err) : 0;
}

static int copy_bytes(int in, int out)
{
	char chunk[1 << 16];
	ssize_t n;
	while ((n = copy_file_range(in, NULL, out, NULL, (size_t)1 << 30, 0)) > 0)
		;
	if (!n || (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR))
		return (int)n;
	while ((n = io_read_full(in, chunk, sizeof chunk)) > 0)
		if (io_write_full(out, chunk, (size_t)n))
			return -1;
	return (int)n;
}

static int copy_file(const struct code_item *it, const char *from, const char *to, struct error *err)
{
	scoped_fd int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (in < 0)
		return error_errno(err, "%.300s", from);
	scoped_fd int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (it->st.st_mode & 0777) | 0600);
	if (out < 0 || copy_bytes(in, out))
		return unwritten(to, err);
	return futimens(out, (struct timespec[]){ it->st.st_mtim, it->st.st_mtim }) ? unwritten(to, err) : 0;
}

static int copy_item(const struct code *c, const struct code_item *it, const char *place, struct error *err)
{
	scoped_free char *from = alloc_printf("%s/%s", c->top, it->path), *to = alloc_printf("%s/%s", place, it->path);
	if (make_folder_of(to, err))
		return -1;
	if (it->ignored)
		return symlink(from, to) ? unwritten(to, err) : 0;
	return S_ISLNK(it->st.st_mode) ? copy_link(c, it, from, to, err) : copy_file(it, from, to, err);
}

/* Of some file systems folders cannot be synced, and then need not be. */
static int sync_one(const char *path)
{
	scoped_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && (!fsync(fd) || errno == EINVAL) ? 0 : errno;
}

struct syncing {
	char **paths;
	size_t n, cap;
	atomic_size_t next;
	atomic_int failed;	/* errno; 0: none has */
};

static void *sync_some(void *arg)
{
	struct syncing *s = arg;
	int no = 0;
	for (size_t i; !s->failed && (i = s->next++) < s->n;)
		if ((no = sync_one(s->paths[i])))
			s->failed = no;
	return NULL;
}

/* Takes the path. */
static void sync_later(struct syncing *s, char *path)
{
	alloc_grow(s->paths, s->n, s->cap);
	s->paths[s->n++] = path;
}

/* The file, and the folders that it is the first in: what is below one stands together. */
static void list_to_sync(struct syncing *s, const char *place, const struct code_item *it, const struct code_item *before)
{
	for (const char *p = strchr(it->path, '/'); p; p = strchr(p + 1, '/'))
		if (!before || strncmp(before->path, it->path, (size_t)(p + 1 - it->path)))
			sync_later(s, alloc_printf("%s/%.*s", place, (int)(p - it->path), it->path));
	if (!it->ignored && S_ISREG(it->st.st_mode))
		sync_later(s, alloc_printf("%s/%s", place, it->path));
}

/* radd's answer stands after a power cut, and so must what the task is to run: a script that lost its bytes does nothing, and
 * is taken for done. Several at a time, of which disks make one: one by one takes seconds for a repository of thousands. Not
 * all of the file system (syncfs), where others may have gigabytes on the way. */
static int sync_all(const struct code *c, const char *place)
{
	struct syncing s = { .paths = NULL };
	pthread_t helpers[SYNC_HELPERS];
	size_t n = 0;
	for (size_t i = 0; i < c->n; i++)
		list_to_sync(&s, place, &c->items[i], i ? &c->items[i - 1] : NULL);
	sync_later(&s, alloc_string(place));
	while (n < SYNC_HELPERS && n < s.n / 8 && !pthread_create(&helpers[n], NULL, sync_some, &s))
		n++;
	sync_some(&s);
	while (n)
		pthread_join(helpers[--n], NULL);
	for (size_t i = 0; i < s.n; i++)
		free(s.paths[i]);
	free(s.paths);
	errno = s.failed;
	return s.failed ? -1 : 0;
}

/* Who made the same one meanwhile was first. */
static int fill(const struct code *c, struct error *err)
{
	scoped_free char *part = alloc_printf("%s.part-XXXXXX", c->place);
	int failed = 0;
	if (make_folder_of(part, err))
		return -1;
	if (!mkdtemp(part))
		return unwritten(part, err);
	for (size_t i = 0; i < c->n && !failed; i++)
		failed = copy_item(c, &c->items[i], part, err);
	if (!failed && (sync_all(c, part) || (rename(part, c->place) && errno != EEXIST && errno != ENOTEMPTY)))
		failed = unwritten(c->place, err);
	if (!failed && io_sync_parent(c->place, err))
		failed = told_where(err);
	io_remove_tree(part);
	return failed;
}

static int make_copy(const struct code *c, struct error *err)
{
	struct stat st;
	return lstat(c->place, &st) && fill(c, err) ? error_wrap(err, "--snapshot") : 0;
}

static char *place_of(const struct code *c)
{
	return alloc_printf("%s/%s-%016llx", c->copies, words_base(c->top), (unsigned long long)hash_of(c));
}

/* ---- the task in it ---- */

/* From the copy it would be something else. One that begins so may be there later. */
static bool is_outside(const struct code *c, const struct spec *s, const char *word)
{
	const char *rel = within(c->top, s->cwd);
	scoped_free char *one = alloc_printf("%s%sx", rel + (*rel == '/'), *rel ? "/" : "");
	scoped_free char *full = alloc_printf("%s/%s", s->cwd, word);
	struct stat st;
	return *word != '/' && leads_out(one, word) && (!strcmp(word, "..") || !strncmp(word, "../", 3) || !stat(full, &st));
}

/* Also in --config=/path/of/it. */
static int check_words(const struct code *c, const struct spec *s, struct error *err)
{
	char real[PATH_MAX];
	for (char *const *word = s->argv; word && *word; word++) {
		const char *equals = strchr(*word, '='), *value = **word != '/' && equals ? equals + 1 : *word;
		const char *rel = leads_within(c->top, value, real);
		if (is_outside(c, s, value))
			return error_set(err, ERR_INVALID, "--snapshot: '%.200s' leads out of the repository, and from the copy to "
					 "something else: name it by its absolute path", *word);
		for (size_t i = 0; rel && *rel && i < c->n; i++)
			if (!c->items[i].ignored && !strcmp(c->items[i].path, rel + 1))
				return error_set(err, ERR_INVALID, "--snapshot: '%.200s' is not the copy's: name it from the folder that "
						 "the task runs in", *word);
	}
	return 0;
}

static bool is_ignored(const struct code *c, const char *rel)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->items[i].ignored && within(c->items[i].path, rel))
			return true;
	return false;
}

/* Folders with the copy's in place of the repository's. One that git ignores is not copied: what is in it knows where it is, as
 * an environment's programs do. */
static char *moved_paths(const struct code *c, const char *paths)
{
	scoped_buf out = { 0 };
	char real[PATH_MAX];
	for (const char *p = paths;; p++) {
		size_t n = strcspn(p, ":");
		scoped_free char *one = alloc_printf("%.*s", (int)n, p);
		const char *rel = leads_within(c->top, one, real);
		bool moves = rel && !(*rel && is_ignored(c, rel + 1));
		buf_printf(&out, "%s%s", moves ? c->place : one, moves ? rel : "");
		p += n;
		if (!*p)
			return buf_steal(&out);
		buf_add_text(&out, ":");
	}
}

/* "PATH=/repo/bin": the same with the copy's; NULL: another variable. */
static char *moved_variable(const struct code *c, const struct spec *s, const char *item)
{
	static const char *const names[] = { "PATH=", "PYTHONPATH=" };
	if (!strncmp(item, "PWD=", 4))
		return alloc_printf("PWD=%s", s->cwd);
	for (size_t i = 0; i < COUNT_OF(names); i++)
		if (!strncmp(item, names[i], strlen(names[i]))) {
			scoped_free char *moved = moved_paths(c, item + strlen(names[i]));
			return alloc_printf("%s%s", names[i], moved);
		}
	return NULL;
}

static void move_environ(const struct code *c, struct spec *s)
{
	size_t n = alloc_count(s->environ);
	char **list = alloc_zero((n + 1) * sizeof *list);
	for (size_t i = 0; i < n; i++) {
		char *moved = moved_variable(c, s, s->environ[i]);
		list[i] = moved ? moved : alloc_string(s->environ[i]);
	}
	spec_set_environ(s, list);
	alloc_free_list(list);
}

/* A folder that git ignores would be the one it is a link to. */
static int check_folder(const struct code *c, const struct spec *s, struct error *err)
{
	const char *folder = within(c->top, s->cwd);
	if (folder && *folder && is_ignored(c, folder + 1))
		return error_set(err, ERR_INVALID, "--snapshot: git ignores %.300s, so nothing of it is copied", s->cwd);
	return folder ? 0 : error_set(err, ERR_INVALID, "--snapshot: %.300s is not below %.300s", s->cwd, c->top);
}

/* One of which git knows no file is made. */
static int move_to(const struct code *c, struct spec *s, struct error *err)
{
	scoped_free char *cwd = alloc_printf("%s%s", c->place, within(c->top, s->cwd)), *was = NULL;
	if (strlen(cwd) >= SPEC_MAX_PATH)
		return error_set(err, ERR_INVALID, "--snapshot: the path of the copy is too long: %.300s...", cwd);
	if (io_make_dirs(cwd, 0777, err))
		return error_wrap(err, "--snapshot");
	was = s->cwd;
	s->cwd = steal(cwd);
	move_environ(c, s);
	return 0;
}

static int take_of(struct code *c, struct spec *s, bool dry, struct error *err)
{
	c->copies = copies_folder();
	if (!c->copies)
		return error_set(err, ERR_INVALID, "--snapshot: HOME is not set, below which copies are kept");
	if (list_repository(c, "", 0, err))
		return -1;
	sort_items(c);
	c->place = place_of(c);
	if (check_folder(c, s, err) || check_size(c, err) || check_words(c, s, err))
		return -1;
	if (dry)
		return 0;
	return make_copy(c, err) || move_to(c, s, err) ? -1 : 0;
}

int snapshot_take(struct spec *s, bool dry, struct error *err)
{
	static const char *const args[] = { "rev-parse", "--show-toplevel", NULL };
	scoped_buf top = { 0 };
	if (git_ask(s->cwd, args, PATH_MAX, &top) || top.len < 2) {
		scoped_free char *why = git_refusal(s->cwd);
		return error_set(err, ERR_INVALID, "--snapshot: %.300s is in no git repository that can be read (%.300s): what is copied "
				 "is what git would keep. Where there is none: git init, and a .gitignore for data; else 'git status' "
				 "says what to do", s->cwd, why ? why : "or there is no git here");
	}
	top.data[--top.len] = 0;	/* the end of the line */
	struct code c = { .top = top.data };
	int failed = take_of(&c, s, dry, err);
	code_clear(&c);
	return failed;
}
