/* SPDX-License-Identifier: MIT
 *
 * Which tasks run on which GPU, for dcgm-exporter (--hpc-job-mapping-dir): in a folder of the administrator's, a file for each
 * GPU, named by its index, with the id of a task a line, so that NVIDIA's own metrics carry the label hpc_job. radd keeps it,
 * and not rad exporter: it knows of a change when it happens, and may write where dcgm-exporter, often root's, reads.
 *
 * Files are replaced by renaming and never removed: dcgm-exporter gives up all labels of a scrape when one that it has seen is
 * gone. Of a GPU without tasks it says an empty line, since older releases leave out what they find an empty file for.
 * The instances of a GPU under MIG are one file: dcgm-exporter asks by the GPU's index.
 */
#ifndef RAD_DAEMON_JOBMAP_H
#define RAD_DAEMON_JOBMAP_H

#include "core/core.h"

#include <jansson.h>

struct jobmap;

/* `folder`: its whole path, or "off". */
struct jobmap *jobmap_create(const char *folder);
void jobmap_destroy(struct jobmap *j);

/* An event of any task. */
void jobmap_note(struct jobmap *j, const struct event *ev);
/* GPUs were read. */
void jobmap_note_gpus(struct jobmap *j, size_t n);
/* After the commit: writes what changed. What fails is logged and tried again with the next change; tasks go on. */
void jobmap_work(struct jobmap *j, struct core *core);

/* What `status` tells of it: {"check", "text"}, where files could not be written. */
void jobmap_tell(const struct jobmap *j, json_t *troubles);

/* Whether the folder (or "off") can be used as it is now; makes it where it is missing. */
int jobmap_check(const char *folder, struct error *err);

#endif
