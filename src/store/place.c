/* SPDX-License-Identifier: MIT
 * The state folder: who may own it and where it may lie. SQLite's WAL keeps its index in shared memory and trusts fcntl
 * locks and fsync; the daemon's own lock is an flock. None of these hold across the machines of a network file system.
 */
#include "store/store_internal.h"

#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define MAGIC_FUSE 0x65735546UL

static const struct { unsigned long magic; const char *name; } network_fs[] = {
	{ 0x6969, "NFS" },
	{ 0x517B, "SMB" },
	{ 0xFE534D42, "SMB" },
	{ 0xFF534D42, "CIFS" },
	{ 0x0BD00BD0, "Lustre" },
	{ 0x47504653, "GPFS" },
	{ 0x19830326, "BeeGFS" },
	{ 0x00C36400, "CephFS" },
	{ 0x5346414F, "AFS" },
	{ 0x6B414653, "AFS" },
	{ 0x73757245, "Coda" },
	{ 0x01021997, "9P" },
	{ 0x20030528, "OrangeFS" },
	{ 0x7461636F, "OCFS2" },
	{ 0x01161970, "GFS2" },
};

/* FUSE file systems known to be local; every other one (sshfs, rclone, GlusterFS, s3fs...) may have a network behind it. */
static const char *const local_fuse[] = { "fuseblk", "fuse.fuse-overlayfs" };

const char *store_network_fs(unsigned long magic, const char *mount_type)
{
	magic &= 0xFFFFFFFFUL;	/* f_type is signed on some systems */
	for (size_t i = 0; i < COUNT_OF(network_fs); i++)
		if (network_fs[i].magic == magic)
			return network_fs[i].name;
	if (magic != MAGIC_FUSE)
		return NULL;
	for (size_t i = 0; i < COUNT_OF(local_fuse); i++)
		if (mount_type && !strcmp(mount_type, local_fuse[i]))
			return NULL;
	return mount_type && *mount_type ? mount_type : "FUSE";
}

/* What the kernel shows of an ext4 that took an error, or was shut down: statvfs(3) knows nothing of it. */
static bool is_halted(const char *options)
{
	static const char *const words[] = { "emergency_ro", "shutdown" };
	for (size_t n; *options; options += n + (options[n] == ',')) {
		n = strcspn(options, ",\n");
		for (size_t i = 0; i < COUNT_OF(words); i++)
			if (strlen(words[i]) == n && !memcmp(options, words[i], n))
				return true;
		if (options[n] == '\n')
			break;
	}
	return false;
}

bool store_mount_line(const char *line, dev_t dev, struct store_mount *m)
{
	unsigned major_no, minor_no;
	int source = 0, options = 0;
	const char *dash = strstr(line, " - ");
	if (!dash || sscanf(line, "%*d %*d %u:%u", &major_no, &minor_no) != 2 || makedev(major_no, minor_no) != dev ||
	    sscanf(dash, " - %63s%n %*s %n", m->type, &source, &options) != 1)
		return false;
	m->halted = options && is_halted(dash + options);
	return true;
}

/* Of the mount that holds `dev`, in /proc/self/mountinfo; zeroes if it cannot be told. */
static void find_mount(dev_t dev, struct store_mount *m)
{
	*m = (struct store_mount){ .halted = false };
	scoped_file FILE *f = fopen("/proc/self/mountinfo", "re");
	scoped_free char *line = NULL;
	size_t size = 0;
	while (f && getline(&line, &size, f) > 0)
		if (store_mount_line(line, dev, m))
			return;
}

const char *store_network_folder(const char *dir)
{
	struct statfs fs;
	struct stat st;
	static struct store_mount m;	/* may be the answer: see store.h */
	if (stat(dir, &st) || statfs(dir, &fs))
		return NULL;
	find_mount(st.st_dev, &m);
	return store_network_fs((unsigned long)fs.f_type, m.type);
}

enum store_writes store_writes(const char *dir)
{
	struct store_mount m;
	struct statvfs fs;
	struct stat st;
	if (stat(dir, &st))
		return STORE_WRITES_PASS;
	find_mount(st.st_dev, &m);
	if (m.halted)
		return STORE_WRITES_HALTED;
	if (!statvfs(dir, &fs) && fs.f_flag & ST_RDONLY)
		return STORE_WRITES_READ_ONLY;
	/* A file without a name, where the caller may make one: other file systems tell it only so. */
	scoped_fd int fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	return fd < 0 && (errno == EROFS || errno == EIO) ? STORE_WRITES_HALTED : STORE_WRITES_PASS;
}

/* What cannot be found out (a file system that stat refuses) is taken for local: refusing would be a guess, too. */
static int check_file_system(const char *dir, struct error *err)
{
	const char *name = store_network_folder(dir);
	if (!name)
		return 0;
	return error_set(err, ERR_INVALID, "%s: is on a network file system (%s), where locks and writes are not safe enough "
			 "for the state: choose a local folder, for example: radd --state /var/tmp/rad-%u", dir, name,
			 (unsigned)geteuid());
}

/* Looks at the open folder, not at the path again, so that nobody can exchange it in between. */
int store_open_place(const char *dir, struct error *err)
{
	scoped_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st))
		return error_errno(err, "state folder %s", dir);
	/* Whoever can write here can make us run what he likes as whom he likes. */
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return error_set(err, ERR_DENIED, "state folder %s: belongs to uid %u: choose one of your own with --state",
				 dir, (unsigned)st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return error_set(err, ERR_DENIED, "state folder %s: others may write to it (mode %03o): chmod go-w it, or "
				 "choose another folder with --state", dir, (unsigned)st.st_mode & 0777);
	return steal_fd(fd);
}

int store_place(const char *dir, struct error *err)
{
	if (io_make_dirs(dir, 0700, err))
		return error_wrap(err, "state folder");
	scoped_fd int fd = store_open_place(dir, err);
	return fd < 0 ? -1 : check_file_system(dir, err);
}

/* Where it cannot be told, writing will tell. */
bool store_has_room(const struct store *s)
{
	struct statvfs fs;
	return statvfs(s->path, &fs) || (unsigned long long)fs.f_bavail * fs.f_frsize >= STORE_MIN_ROOM_BYTES;
}
