/* SPDX-License-Identifier: MIT
 *
 * The daemon's side of the sampler process: starting it, reading its frames, leaving it behind when it hangs. Nothing here
 * ever waits: a process that hangs in the driver does not even die of SIGKILL until the driver lets go.
 */
#ifndef RAD_MONITOR_SAMPLER_H
#define RAD_MONITOR_SAMPLER_H

#include "base/error.h"
#include "device/reading.h"

#include <stdint.h>
#include <sys/types.h>

struct device;
struct sampler;

/* What the started program gets: `PROGRAM --sampler DEVICES FOLDER INTERVAL_MS CHOSEN`, the empty word standing for what is not
 * there, with the pipe as descriptor SAMPLER_FD. Its main hands these on and exits with what this returns. */
#define SAMPLER_FD 3
int sampler_main(int argc, char **argv);

/* `program` is radd's own path. Starts nothing yet. Once a snapshot has named the GPUs that were chosen, samplers that are
 * started after it keep to these: a number of the setting may be another GPU's by then. */
struct sampler *sampler_create(const char *program, const struct device *device, int64_t interval_ms);
/* Stops it and forgets it; takes NULL. */
void sampler_destroy(struct sampler *s);

/* Starts a process; one that runs is stopped first. Fails when the program cannot be run, or when SAMPLER_MAX_STUCK former
 * ones still hang in the driver (ERR_UNAVAILABLE). */
#define SAMPLER_MAX_STUCK 8
int sampler_start(struct sampler *s, struct error *err);
/* Kills it and closes the pipe. One that does not die is left behind, and collected when it does. */
void sampler_stop(struct sampler *s);

/* The end of the pipe to poll for reading, and the process; -1 when none runs. The descriptor changes with every start. */
int sampler_fd(const struct sampler *s);
pid_t sampler_pid(const struct sampler *s);
/* How many stopped ones have not ended yet; collects those that have. */
unsigned sampler_stuck(struct sampler *s);

/* 1: one snapshot is in *out (clear it; call again, there may be more); 0: nothing yet; -1: it ended or wrote nonsense:
 * start another, not at once. Never blocks. */
int sampler_read(struct sampler *s, struct snapshot *out, struct error *err);

#endif
