/* SPDX-License-Identifier: MIT
 *
 * What a person asked for. Written once at submission, shared by all elements of an array, never changed after
 * (what may change later lives in the task record and comes through an event), but that a capture which was being made may
 * come.
 */
#ifndef RAD_TASK_SPEC_H
#define RAD_TASK_SPEC_H

#include "base/error.h"
#include "base/proc.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* How a GPU is shared. SHARE_AUTO and SHARE_NEVER are wishes; the others are also what a placement gets. */
#define SHARE_MODES(X) \
	X(SHARE_AUTO, "auto")		/* whatever the administrator's default is and the GPU can do */ \
	X(SHARE_NEVER, "never")		/* alone on its GPUs, for as long as it runs ("exclusive") */ \
	X(SHARE_STREAMS, "streams")	/* plain time slicing between processes */ \
	X(SHARE_MPS, "mps")		/* client of an MPS server */ \
	X(SHARE_MIG, "mig")		/* one MIG instance, alone on it */

enum share_mode {
#define X(name, word) name,
	SHARE_MODES(X)
#undef X
	SHARE_MODE_COUNT
};

const char *share_mode_name(enum share_mode mode);
/* Returns 0, or -1 with the list of words in the error. */
int share_mode_parse(const char *word, enum share_mode *mode, struct error *err);

/* name, word, what has become of the other task when it is met */
#define DEPENDENCY_KINDS(X) \
	X(DEP_AFTEROK, "afterok")		/* completed */ \
	X(DEP_AFTERANY, "afterany")		/* ended */ \
	X(DEP_AFTERNOTOK, "afternotok")		/* ended, and did not complete */ \
	X(DEP_AFTER, "after")			/* started, or ended without */ \
	X(DEP_AFTERCORR, "aftercorr")		/* completed: the element of the other array with the same index */

enum dependency_kind {
#define X(name, word) name,
	DEPENDENCY_KINDS(X)
#undef X
	DEPENDENCY_KIND_COUNT
};

struct dependency {
	enum dependency_kind kind;
	int64_t task;	/* a task_id; without index it means the job and so every element of the array */
};

const char *dependency_kind_name(enum dependency_kind kind);
/* The first n bytes of `word`. Returns 0 or -1. */
int dependency_kind_parse(const char *word, size_t n, enum dependency_kind *kind);

/* Resource limits of the submitting shell that are worth keeping, soft and hard; RLIM_INFINITY is -1. */
struct spec_rlimit { int resource; int64_t soft, hard; };

struct spec {
	unsigned refs;

	/* Who. From the socket, never from the client's words. */
	uid_t uid;
	gid_t gid;
	char *user;

	/* What runs. Either a script (its content, stored at submission) or a command (argv). */
	char *name;
	char *script;		/* NULL for a command */
	char *script_name;	/* the file that it was read from, without its folder; NULL: not known */
	char **argv;		/* script: its arguments; command: the whole of it. NULL-terminated, never NULL itself; spec_set_argv */
	char *conda_env;	/* `env:`; NULL for none */
	/* Instead of running anything: a process of the user's that is there already (argv only names it). A lease waits for a
	 * place as any task does; otherwise its place is where it is. 0: none. */
	int64_t process_pid;
	uint64_t process_ticks;	/* since when: pids come round again */
	bool lease;
	/* Whose that process is was said by the administrator's program that watches over it, as Slurm's plugin does, and not by
	 * the process's user: the name by which that program knows it. Never from a submission. NULL: not so. */
	char *announced;
	char *cwd;
	char **environ;		/* "NAME=value", likewise; private: stored apart, never printed; spec_set_environ */
	mode_t umask;
	struct spec_rlimit *rlimits;
	size_t n_rlimits;
	char *output, *error;	/* patterns (%j %A %a %x %u %%); error NULL: into the output */
	bool truncate;		/* both are emptied when it starts for the first time; else appended to, as later starts do */
	char *terminal;		/* the socket on which its submitter's `rad` waits for its terminal; NULL: it has none */

	/* What it needs. */
	unsigned gpus;			/* 0..64; 0: it runs on the host alone, a CPU task */
	uint64_t gpu_mem_mib;		/* declared, per GPU; 0: not declared */
	uint64_t estimates_mib[3];	/* positional files bring Horus, FakeTensor and GPUMemNet figures; 0: none */
	char *gpu_model, *constraint;	/* which GPUs will do (task/constraint.h): both are to be met; NULL: all */
	unsigned cpus;			/* of the machine; 0: did not say */
	uint64_t host_mem_mib;		/* of the machine's memory, for all its processes; 0: did not say */
	char *feed;			/* of a data loader that tasks share (doc/feed.md): they run near each other; NULL: none is said */
	unsigned feed_cpus;		/* of the machine, for the loader: once for all tasks of the feed; 0: did not say */
	uint64_t feed_mem_mib;		/* the same of its memory, the ring's included */
	bool exclusive;
	enum share_mode share;
	double max_slowdown;		/* 0: no limit */

	/* What estimators may use. NULL or 0 where not said. */
	char *model;		/* content of the model summary, read by the client */
	char *model_name;	/* its file name */
	char *capture;		/* base64 of a capture file's content */
	char *capture_notes;	/* what people should know of the script, by the capture that was made: a line each */
	int64_t capture_until_s;	/* wall: the submitter's `rad` makes one, and the task waits for it until then; 0: not */
	bool capture_aside;	/* it leaves files as they are, so the task may run meanwhile */
	int64_t capture_turn_s;	/* wall: until then it may wait for its turn; 0: it is made */
	int64_t batch_size, seq_len;
	int64_t input_channels, input_height, input_width;	/* of an image that goes in: all or none */
	char *optimizer, *precision;
	char *signature;	/* equal for runs that should use the same memory; made at submission */

	/* When. */
	int64_t priority;	/* higher first; --nice lowers it */
	bool hold;
	int64_t time_limit_s;	/* 0: none */
	int64_t slot_s;		/* a time slot, after which it makes place for those that wait; 0: the administrator's, -1: none */
	int requeue_code;	/* its exit code that means "I saved what I did, start me again"; 0: SPEC_REQUEUE_CODE */
	int signal;		/* sent `signal_before_s` before the limit, and at the end of a slot; 0: none, and there USR1 */
	int64_t signal_before_s;
	int64_t begin_s;	/* wall: it does not start before; 0: at once */
	struct dependency *deps;
	size_t n_deps;
	int kill_on_invalid_dep;	/* one can no longer be met: 1: it is cancelled, -1: it stays, 0: the administrator's way */
	bool singleton;		/* after all earlier tasks of its user and name; radd makes dependencies of that at submission */
	char *notify, *notify_to;	/* words of submit/notices.h, and where they go; NULL: none */
	bool requeue;		/* run again when the machine or a neighbour, not the task, was at fault. Default true */
	unsigned retries;	/* how often it is run again when it failed by itself */

	/* Array. */
	uint32_t *array;	/* indices in the order given; NULL: not an array */
	size_t n_array;
	uint32_t array_limit;	/* `%4`: at most so many at once; 0: no limit */

	size_t bytes;		/* of what is large in it: texts, arguments, environment */
	char *no_words[1];	/* argv and environ where there are none */
};

/* The log where none is asked for, in the working directory: by the id alone. `own`: of a user's radd beside the server's. */
const char *spec_log_name(bool own, bool array);
/* Whether its log has one of these names: then this line begins what it writes into a file that was there. */
#define SPEC_LOG_HEADING "\n--- rad: task "
bool spec_log_is_default(const struct spec *s);

/* "afterok:12:13,afterany:14"; of many the first twenty. Free it. */
char *spec_deps_text(const struct dependency *deps, size_t n);
/* As [["afterok", "12"], ...]. */
json_t *spec_deps_to_json(const struct dependency *deps, size_t n);
/* The reverse; NULL is none. Free *deps. Returns 0, or -1 with a bound or a word that is not kept. */
int spec_deps_from_json(const json_t *list, struct dependency **deps, size_t *n, struct error *err);

/* A spec with the defaults of an empty submission, one reference. */
struct spec *spec_create(void);
struct spec *spec_ref(struct spec *s);
/* Drops a reference; takes NULL. */
void spec_unref(struct spec *s);

/* Copies of these instead of what is there, from which they may be taken. */
void spec_set_argv(struct spec *s, char *const *words);
void spec_set_environ(struct spec *s, char *const *words);

/* CPUs of the machine that count as its own: of a task without GPUs one, if it says nothing. */
unsigned spec_cpus(const struct spec *s);

/* Whether the task has to wait when it is submitted: for others, or for its time. */
bool spec_waits(const struct spec *s, int64_t submit_ms);

/* An argument or a variable as it travels, for these are bytes to the kernel, and JSON is UTF-8: a text, or where it is none (a
 * file's name, say) a list of its bytes. */
json_t *spec_word_to_json(const char *word);

/* Everything but `environ` and who. */
json_t *spec_to_json(const struct spec *s);
/* The environment alone, as a list of "NAME=value": it is private, so it travels and is stored apart. */
json_t *spec_environ_to_json(const struct spec *s);
/* The reverse, with every bound checked: used on what clients send and on what the store holds. `env` may be NULL.
 * Returns NULL with *err naming the member. */
struct spec *spec_from_json(const json_t *obj, const json_t *env, struct error *err);

/* The command in one line for people: "python train.py --lr 0.1", or the script's name; words are quoted where a shell wants
 * them to be. Of a long one some thousand bytes, at most. Free it. */
char *spec_command_text(const struct spec *s);

/* Whether somebody is at it: at its terminal, or with a process that was there already. It is run once, whatever becomes of it:
 * what was typed is not typed again, nor a process begun again that we did not begin. */
bool spec_is_attended(const struct spec *s);
/* Whether each element of its array waits for another task; else they wait as one. */
bool spec_waits_by_element(const struct spec *s);

/* The process that it is about; pid 0: none, it runs a program. */
struct proc_id spec_process(const struct spec *s);

/* Expands %j %A %a %x %u %%: job or task id, array job id, array index, name, user; %J %n %t %s as of a batch script. "%03a"
 * has zeros in front of a number. Free it. */
char *spec_expand_path(const struct spec *s, const char *pattern, int64_t task);
/* The pattern that becomes this path, whatever is in it. */
char *spec_literal_path(const char *path);

/* What becomes of `limit` of the process that starts the task: the submitter's word, but never above what that one may. */
static inline void spec_limit_apply(const struct spec_rlimit *want, struct rlimit *limit)
{
	rlim_t soft = want->soft < 0 ? RLIM_INFINITY : (rlim_t)want->soft;
	rlim_t hard = want->hard < 0 ? RLIM_INFINITY : (rlim_t)want->hard;
	limit->rlim_max = hard < limit->rlim_max ? hard : limit->rlim_max;
	limit->rlim_cur = soft < limit->rlim_max ? soft : limit->rlim_max;
}

/* Bounds of what may be asked for. */
#define SPEC_MAX_GPUS 64
#define SPEC_MAX_MIB (1 << 30)		/* of one GPU, and of the host */
#define SPEC_MAX_SLOWDOWN 1000
#define SPEC_MAX_TIME_S ((int64_t)100 * 366 * 86400)
#define SPEC_MAX_INPUT 100000	/* channels, height or width of an image */
#define SPEC_REQUEUE_CODE 85		/* as HTCondor's for programs that checkpoint themselves */
#define SPEC_MIN_SLOT_S 5
#define SPEC_MAX_RETRIES 100
#define SPEC_MAX_DEPS 1000
#define SPEC_DEP_BYTES (sizeof(struct dependency) + 4 * sizeof(void *))	/* with its edge of the graph */
#define SPEC_MAX_ARRAY 10000		/* of a submission: all elements are made in one turn of the daemon */
#define SPEC_MAX_STORED_ARRAY 100000	/* what earlier releases accepted */
#define SPEC_MAX_TEXT (1 << 20)		/* script, summary */
#define SPEC_MAX_CAPTURE (8 << 20)
#define SPEC_MAX_NOTES 4000
#define SPEC_MAX_PATH 4096
#define SPEC_MAX_SOCKET 108		/* sun_path's */

#endif
