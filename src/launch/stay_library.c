/* SPDX-License-Identifier: MIT
 * libradstay.so, which every program of a task loads (LD_PRELOAD; environment.c): keeps CUDA_VISIBLE_DEVICES among the GPUs
 * that the task was given, RAD_VISIBLE_DEVICES, by stay_rule.h. It looks when a program starts, before main() and so before
 * CUDA reads the variable: a shell may have set it for that one, or unset it, which to CUDA is every GPU. And whenever the
 * program itself changes it, as os.environ of Python does by setenv() and unsetenv(), or by putenv() until 3.8. Needs the C
 * library only, makes no program fail, and says nothing.
 *
 * A program that runs others in a container is not to hand LD_PRELOAD on: the file is not there, and ld.so would say so for
 * every program in it.
 *
 * What was given is read once: getenv() beside other threads' setenv() is not safe, and setenv() beside itself is.
 */
#include "launch/stay_rule.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIVEN "RAD_VISIBLE_DEVICES="
#define VISIBLE "CUDA_VISIBLE_DEVICES"
#define PRELOAD "LD_PRELOAD="
#define LIBRARY "/libradstay.so"
#define ENTRIES_MOST 4096		/* of an environment to which one is added */
#define EXPORTED __attribute__((visibility("default")))

static bool told;			/* what was given; else all stays as it is */
static char given[STAY_BYTES];		/* "": no GPU */
static char corrected[sizeof VISIBLE + STAY_BYTES];	/* the entry of the environment; for the life of the process */

/* In `environ` itself: getenv() may be the program's own, and not ready yet (bash has one). */
static char **find(const char *start)
{
	for (char **e = environ; e && *e; e++)
		if (!strncmp(*e, start, strlen(start)))
			return e;
	return NULL;
}

/* The environment has a place more, in memory of ours; where it is as large as that, it stays as it is. */
static void add(char *entry)
{
	static char *room[ENTRIES_MOST];
	size_t n = 0;
	while (environ && environ[n])
		n++;
	if (n + 2 > ENTRIES_MOST)
		return;
	memcpy(room, environ, n * sizeof *room);
	room[n] = entry;
	environ = room;
}

/* Takes this library out of the entry, where it stands. */
static void leave_out(char *entry)
{
	for (char *p = entry + strlen(PRELOAD); *p; ) {
		size_t len = strcspn(p, " :"), own = strlen(LIBRARY);
		char *next = p + len + !!p[len];
		if (len < own || memcmp(p + len - own, LIBRARY, own))
			p = next;
		else
			memmove(p, next, strlen(next) + 1);
	}
}

static bool is_container_runtime(void)
{
	static const char *const names[] = { "apptainer", "singularity", "ch-run" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(program_invocation_short_name, names[i]))
			return true;
	return false;
}

/* Nothing is allocated: malloc() may be the program's own as well. */
__attribute__((constructor)) static void begin(void)
{
	char **is = find(GIVEN), **visible = find(VISIBLE "="), **preload = is_container_runtime() ? find(PRELOAD) : NULL;
	if (preload)
		leave_out(*preload);
	if (!is || strlen(*is) - strlen(GIVEN) >= sizeof given)
		return;
	strcpy(given, *is + strlen(GIVEN));
	told = true;
	memcpy(corrected, VISIBLE "=", sizeof VISIBLE);
	strcpy(corrected + sizeof VISIBLE, given);
	if (!visible)
		add(corrected);
	else if (visible && stay_rule(given, *visible + sizeof VISIBLE, corrected + sizeof VISIBLE))
		*visible = corrected;
}

typedef int setenv_function(const char *, const char *, int);
typedef int putenv_function(char *);
typedef int unsetenv_function(const char *);

/* Whoever comes first looks it up; others may at the same time, and find the same. */
static void *next(const char *name, void *_Atomic *known)
{
	void *f = atomic_load_explicit(known, memory_order_acquire);
	if (!f) {
		f = dlsym(RTLD_NEXT, name);
		atomic_store_explicit(known, f, memory_order_release);
	}
	return f;
}

static int next_setenv(const char *name, const char *value, int overwrite)
{
	static void *_Atomic known;
	setenv_function *f = (setenv_function *)next("setenv", &known);
	errno = f ? errno : ENOSYS;
	return f ? f(name, value, overwrite) : -1;
}

EXPORTED int setenv(const char *name, const char *value, int overwrite)
{
	char instead[STAY_BYTES];
	bool other = told && name && !strcmp(name, VISIBLE) && stay_rule(given, value, instead);
	return next_setenv(name, other ? instead : value, overwrite);
}

/* To CUDA, none is all of the machine's. A name that is NULL is refused by the C library, though it declares that none is. */
EXPORTED int unsetenv(const char *name)
{
	static void *_Atomic known;
	const char *volatile asked = name;
	if (told && asked && !strcmp(name, VISIBLE))
		return next_setenv(VISIBLE, given, 1);
	unsetenv_function *f = (unsetenv_function *)next("unsetenv", &known);
	errno = f ? errno : ENOSYS;
	return f ? f(name) : -1;
}

/* The caller's own text becomes part of the environment, so another one is set only where it has to be. */
EXPORTED int putenv(char *string)
{
	static void *_Atomic known;
	char instead[STAY_BYTES];
	size_t n = sizeof VISIBLE - 1;
	if (!strcmp(string, VISIBLE))
		return unsetenv(string);
	if (told && !strncmp(string, VISIBLE "=", n + 1) && stay_rule(given, string + n + 1, instead))
		return next_setenv(VISIBLE, instead, 1);
	putenv_function *f = (putenv_function *)next("putenv", &known);
	errno = f ? errno : ENOSYS;
	return f ? f(string) : -1;
}
