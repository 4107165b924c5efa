/* SPDX-License-Identifier: MIT
 *
 * Kinds of device: all in which one make of GPU differs from another. A row says how such GPUs are read, by which words a
 * task is told which of them are its own, and how tasks share them. Whoever asks for GPUs asks through this table: nothing
 * above this stage knows a kind by its name.
 *
 * A daemon has one `struct device`: the GPUs that its setting `devices` names. Making it touches no driver; its reader does,
 * and so is opened in the sampler process alone.
 */
#ifndef RAD_DEVICE_DEVICE_H
#define RAD_DEVICE_DEVICE_H

#include "base/error.h"
#include "device/reading.h"

#include <stdbool.h>

/* How tasks become MPS clients. */
enum device_mps {
	DEVICE_MPS_NONE,	/* not at all */
	DEVICE_MPS_SERVER,	/* of a server, which has to be started for their user (launch/mps.h) */
	DEVICE_MPS_FILE,	/* nothing is started: they are pointed at the kind's file in place of a server's folder */
};

/* A variable of a task's environment. Whatever a row sets is taken out of what the user brought, on every kind of device. */
struct device_variable {
	const char *name;
	enum {
		DEVICE_SAYS_TEXT,	/* `text`; NULL: it is only taken out */
		DEVICE_SAYS_GPUS,	/* the task's GPUs: indices, or UUIDs where an index would not do */
		DEVICE_SAYS_FILE,	/* the path of the kind's file */
	} says;
	const char *text;
};

/* What a reader is opened with. */
struct device_opening {
	const char *spec;	/* what stood after name and colon, perhaps ""; NULL: there was no colon */
	const char *file;	/* path of the kind's file; NULL if it has none, or there is no state folder */
	const char *chosen;	/* snapshot.chosen of an earlier reader, which counts in place of the spec; NULL: this is the first */
	bool watch, as_given;	/* as device_watch says */
};

struct device_kind {
	const char *name;		/* "nvml" */
	const char *example;		/* settings, for whoever wrote a wrong one */
	bool needs_driver;		/* false: its GPUs are made up here, so nothing has to answer for them */
	const char *file;		/* name of the file that it keeps in the state folder; NULL: none */
	enum device_mps mps;
	const char *mps_process;	/* the program of an MPS server, as process lists show it; NULL without servers */
	struct device_variable variables[4];	/* ends with a name of NULL */
	/* Whether a spec can be understood, as far as that can be known without the devices; NULL: nothing of it can. */
	int (*check)(const char *spec, struct error *err);
	/* The reader, in a process that may hang. `open` returns its state, or NULL with an error that says what to do. `sample`
	 * fills an empty snapshot, each GPU's smact_source with the kind's own word for it; a single GPU that fails gets
	 * `fallen`, and -1 is returned only when nothing could be read. */
	void *(*open)(const struct device_opening *how, struct error *err);
	int (*sample)(void *state, struct snapshot *out, struct error *err);
	void (*close)(void *state);
};

/* The table; ends with NULL. */
extern const struct device_kind *const device_kinds[];

struct device;

/* Whether a daemon would take that value of `devices`, as far as can be said without touching a driver or keeping a file. */
int device_check(const char *setting, struct error *err);
/* `setting` is a value of `devices`: "nvml", "nvml:0,2", "sim:4xa100-40g". `folder` is the state folder, where the kind may
 * keep a file; NULL: there is none. NULL when the setting names no kind. */
struct device *device_create(const char *setting, const char *folder, struct error *err);
void device_destroy(struct device *d);	/* takes NULL; closes its reader */

const struct device_kind *device_kind(const struct device *d);
const char *device_setting(const struct device *d);
const char *device_folder(const struct device *d);	/* NULL: none */
const char *device_file(const struct device *d);	/* NULL: none */

/* Before it is opened: this reader is somebody's who watches, beside radd's. Its readings tell clocks and throttle reasons too,
 * which cost calls of their own; and simulated devices that are there stay as they are. `as_given`: others than the setting
 * names are refused (ERR_CONFLICT). */
void device_watch(struct device *d, bool as_given);
/* The reader of this process: opened once, with an earlier reader's choice or NULL, then sampled. */
int device_open(struct device *d, const char *chosen, struct error *err);
int device_sample(struct device *d, struct snapshot *out, struct error *err);

/* The place of a UUID in a list "UUID,UUID"; -1: it is not there. */
int device_place(const char *list, const char *uuid);

#endif
