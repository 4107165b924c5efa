/* SPDX-License-Identifier: MIT
 *
 * Processes as /proc shows them. A process is known by pid *and* start time: pids come round again.
 */
#ifndef RAD_BASE_PROC_H
#define RAD_BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;

struct proc_id {
	pid_t pid;		/* 0: none */
	uint64_t start_ticks;	/* field 22 of /proc/PID/stat: clock ticks since boot */
};

static inline bool proc_same(struct proc_id a, struct proc_id b)
{
	return a.pid == b.pid && a.start_ticks == b.start_ticks;
}

/* What one look at a process tells. */
struct proc_seen {
	struct proc_id id;
	pid_t parent, session;
};

/* The same, and what it took, in the text of /proc/PID/stat. The time is its own and that of children it waited for. */
struct proc_figures {
	pid_t parent, session;
	long threads;
	char state;
	uint64_t cpu_ticks, start_ticks, rss_pages;
};
/* False: it is no such text, as of a process that is gone. */
bool proc_parse_stat(const char *text, struct proc_figures *f);
/* Returns 0, or -1 if there is no such process, or it cannot be looked at (errno). A zombie counts as gone, unless it is a main
 * thread that others outlive. */
int proc_see(pid_t pid, struct proc_seen *seen);
/* Fills *start_ticks, and *parent if not NULL; else as proc_see. */
int proc_stat(pid_t pid, uint64_t *start_ticks, pid_t *parent);
/* Whether exactly that process is seen to run (a zombie does not). */
bool proc_alive(struct proc_id id);
/* Whether it is seen not to run. Who is short of descriptors or memory sees neither: what an end brings about asks for this. */
bool proc_gone(struct proc_id id);
/* The effective uid of a process; -1 as uid_t if it is gone. */
uid_t proc_uid(pid_t pid);
/* Whether all of a process is that user's, as proc_parse_owned. False too if it cannot be looked at (errno). */
bool proc_owned(pid_t pid, uid_t uid);
/* Whether the text of a /proc/PID/status says that all of it is that user's: real, effective, saved and file-system uid. */
bool proc_parse_owned(const char *text, uid_t uid);
/* Whether it says that there is a handler for that signal. */
bool proc_parse_catches(const char *text, int signal);
/* Sends it to exactly that process, by a pidfd. Returns 0, or -1: gone, or refused. */
int proc_signal(struct proc_id id, int signal);
/* Whether the process has a handler for that signal: neither its default nor ignored. False too if it is gone. */
bool proc_catches(pid_t pid, int signal);
/* pidfd_open(2). Returns a descriptor with O_CLOEXEC, or -1 (errno). */
int proc_pidfd(pid_t pid);
/* pidfd_send_signal(2). Returns 0, or -1 (errno). */
int proc_pidfd_signal(int fd, int signal);
/* Reads what /proc/PID/`name` begins with as text, at most size - 1 bytes. Returns how many, or -1 (errno) with "" as text. */
ssize_t proc_read(pid_t pid, const char *name, char *text, size_t size);
/* Copies the value of `name` from the environment the process was started with. Can block while that process is in
 * an uninterruptible sleep: call it only from a helper process. Returns 0, or -1 if unset or unreadable. */
int proc_environ(pid_t pid, const char *name, char *value, size_t size);
/* Appends the number of this boot of the machine, a line. Returns 0, or -1 where it is not told. */
int proc_boot(struct buf *out);
/* Whether `pid` is `ancestor` or descends from it, by walking parents (at most 64). */
bool proc_descends(pid_t pid, pid_t ancestor);

#endif
