/* SPDX-License-Identifier: MIT
 *
 * The settings of a server, and so of a simulation of one: what each is called, what it may be, what it is by itself and what
 * it is for stands in one row of `settings_table` (table.c). radd reads a file by it, `rad simulate` its options, and listings,
 * errors and completions are made from it; a test holds rad.conf(5) to it. A new setting is a row, a paragraph there, and the
 * code that uses it.
 */
#ifndef RAD_SETTINGS_SETTINGS_H
#define RAD_SETTINGS_SETTINGS_H

#include "base/error.h"
#include "core/core.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum settings_origin { SETTINGS_DEFAULT, SETTINGS_FILE, SETTINGS_ENVIRONMENT, SETTINGS_COMMAND_LINE };

struct settings_source {
	enum settings_origin origin;
	size_t line;		/* of the file */
};

struct settings {
	struct core_config core;
	char *devices;			/* "nvml", "sim:4xa100-40g"; owned */
	int64_t interval_ms;		/* between samples */
	int64_t kill_wait_ms;		/* between TERM and KILL */
	bool stay_on_gpus;		/* whether tasks load what keeps them on their GPUs (launch/stay.h) */
	bool positional_policy;		/* whether line 7 of the prototype's task files counts */
	bool capture_auto;		/* whether tasks that run Python are captured while they wait, where they do not say */
	int64_t capture_wait_ms;	/* how long a task waits for that */
	size_t user_tasks;		/* live tasks a user may have; 0: no limit */
	uint64_t user_size_mib;		/* of what he submitted for them; 0: no limit */
	uint64_t user_store_mib;	/* that he may add to the store within a day; 0: no limit */
	int64_t fold_after_ms, forget_after_ms;	/* since a task's end; 0: never */
	size_t keep_tasks;		/* of those that ended; 0: any number */
	char *prolog, *epilog;		/* programs run before and after each attempt; "off": none; owned */
	int64_t hook_wait_ms;		/* after which they are killed */
	char *dcgm_job_mapping;		/* the folder that says which tasks run where (daemon/jobmap.h); "off"; owned */
	bool mps;			/* whether MPS servers may be started at all */
	int64_t mps_idle_ms;		/* 60 s: how long one stays that has no clients */

	struct settings_who *whos;	/* limits of users and groups (settings/who.h), owned */
	size_t n_whos, cap_whos;

	char *file;			/* that was read, NULL: none; owned */
	struct settings_source *from;	/* of each row, owned */
};

/* The rows -------------------------------------------------------------------------------------------------------------- */

enum setting_type {
	SETTING_WORD,		/* one of `words`: an enum or a bool */
	SETTING_NUMBER,		/* a double */
	SETTING_COUNT,		/* an unsigned or size_t */
	SETTING_GIB,		/* a uint64_t in MiB; a bare number is GiB, one with a suffix what it says; rounded up */
	SETTING_SECONDS,	/* an int64_t in ms; a bare number is seconds, one with a unit what it says */
	SETTING_TEXT,		/* a char *, owned, never empty */
};

/* What `off` (also `no`, `false`) is kept as. */
enum setting_off { SETTING_NEVER_OFF, SETTING_OFF_IS_ZERO, SETTING_OFF_IS_NAN };

/* A word and its value. The first of a value is its name, others are taken too. */
struct setting_word {
	const char *word;
	int value;
	const char *refusal;	/* why it is not taken, though it is a word elsewhere; else NULL */
};

struct setting {
	const char *name;
	enum setting_type type;
	size_t offset, size;		/* of the member of struct settings */
	const char *standard;		/* the default, as settings_print writes it */
	double min, max;		/* in the unit of the text */
	enum setting_off off;
	const struct setting_word *words;	/* ends with a NULL word */
	const char *noun;		/* what one of the words is: "placement policy" */
	const char *environment;	/* a variable that sets it for radd, or NULL */
	bool automatic;			/* may be "auto": all ones, in place of which the daemon puts what its machine has */
	bool restart;			/* radd has to be started anew for it; otherwise it may change while tasks run */
	bool server_only;		/* plays no part in a simulation */
	const char *also;		/* another name that is taken for it, or NULL */
	const char *help;		/* one line */
};

/* Ends with a NULL name. */
extern const struct setting settings_table[];

/* By name, '-' and '_' alike; NULL if there is none. */
const struct setting *settings_find(const char *name);
/* What it may be: "a number from 0 to 1, or off", "one of magm, rr, ...". The caller frees it. */
char *settings_range(const struct setting *row);
/* The words that it may be, blanks between them; NULL where it is no word. The caller frees it. */
char *settings_words(const struct setting *row);

/* Values ---------------------------------------------------------------------------------------------------------------- */

struct settings settings_default(void);
void settings_clear(struct settings *s);

/* Sets one from a text. An error says what was found and what it may be, and leaves the value as it was. */
int settings_set(struct settings *s, const struct setting *row, const char *text, struct settings_source from,
		 struct error *err);
/* The same by name; an error begins with the name, or says which name is near. */
int settings_set_named(struct settings *s, const char *name, const char *text, struct settings_source from,
		       struct error *err);
/* As it is written in a file: settings_set takes it back to the same value. The caller frees it. */
char *settings_print(const struct settings *s, const struct setting *row);

/* Told of each mistake of a file, "FILE:LINE: ...". */
typedef void settings_tell(void *ctx, const char *text);
/* Reads a file over what is there. One that is missing is an error only if `must_exist`. All mistakes are told, if `tell` is
 * not NULL; the error is the first of them. */
int settings_read(struct settings *s, const char *path, bool must_exist, settings_tell *tell, void *ctx, struct error *err);
/* The file of who names none: that of RAD_CONFIG, else the standard one, which need not be there (/etc/rad/rad.conf for root,
 * ~/.config/rad/rad.conf for others). Free it. */
char *settings_path(void);
/* What a radd started here has: the defaults; then the file `named`, or else that of settings_path; then variables; then
 * `devices` of the command line, if not NULL. A mistake leaves the rest as it is said. Overwrites *s, which is to be cleared
 * whatever is returned. */
int settings_load(struct settings *s, const char *named, const char *devices, settings_tell *tell, void *ctx,
		  struct error *err);

/* Takes over from `next` what may change while tasks run. Told of every setting that differs: texts of both, whether it was
 * taken over. */
typedef void settings_changed(void *ctx, const struct setting *row, const char *old, const char *new, bool taken);
void settings_adopt(struct settings *s, const struct settings *next, settings_changed *tell, void *ctx);

/* Lists ----------------------------------------------------------------------------------------------------------------- */

/* "default", "/etc/rad/rad.conf:3", "environment", "command line". The caller frees it. */
char *settings_source(const struct settings *s, const struct setting *row);
/* {"schema":1,"file","settings":[{"name","value","default","source"}]}; values are texts, as in a file. */
json_t *settings_json(const struct settings *s);
/* The same as a table for people. */
void settings_write(const struct settings *s, FILE *out);

#endif
