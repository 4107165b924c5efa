/* SPDX-License-Identifier: MIT
 *
 * A task's run at the MLflow server: found or made, brought up to date. They return 0 or -1, with the errors of
 * track_http_call.
 */
#ifndef RAD_CLI_TRACK_MLFLOW_H
#define RAD_CLI_TRACK_MLFLOW_H

#include "cli/track_sync.h"

/* Finds or makes the experiment of that name. */
int track_mlflow_experiment(struct track *t, const char *name, struct error *err);
/* Makes sure that e->run is there, with its parameters, and that e says what it has. Needs e->task for a run that is not. */
int track_mlflow_ensure(struct track *t, struct track_entry *e, struct error *err);
/* Tells the task's state, where the server knows another; of one that is over its sums and tags first. */
int track_mlflow_tell(struct track *t, struct track_entry *e, struct error *err);
/* Sends points (a list of track_run_points) in batches; e->sent_ms follows. */
int track_mlflow_send(struct track *t, struct track_entry *e, const json_t *points, struct error *err);

#endif
