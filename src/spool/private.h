/* SPDX-License-Identifier: MIT
 *
 * Files of a queue: how they are read and made. Private to this folder.
 */
#ifndef RAD_SPOOL_PRIVATE_H
#define RAD_SPOOL_PRIVATE_H

#include "base/buf.h"
#include "spool/spool.h"

#include <sys/stat.h>

#define SPOOL_MAX_JOB_FILE (24u << 20)	/* as a submission to radd */
#define SPOOL_MAX_FILE (4u << 20)	/* records, statuses */

/* What was read last of a submission, and of which file: of an array each element asks for it, and its file may be long. */
struct spool_seen {
	uint32_t job;		/* 0: of none */
	struct stat of;
	char by[SPOOL_NAME];
	int64_t time_ms;
	bool hold;
};

struct spool {
	char *dir;
	int fd;			/* of the folder: all paths are from there */
	char mark[17];
	char by[SPOOL_NAME];	/* user@host */
	struct spool_seen *seen;	/* owned */
};

/* The whole of a regular file of ours, as JSON; never follows a link, never waits for a pipe. NULL with *err. */
json_t *spool_file_read(const struct spool *s, const char *path, size_t max, struct error *err);
/* The text of it. */
int spool_file_text(const struct spool *s, const char *path, size_t max, struct buf *text, struct error *err);
/* A complete and synced file in tmp/, under a name of its own (NAME: room for SPOOL_NAME). */
int spool_file_make(const struct spool *s, const json_t *content, char *name, struct error *err);
/* Gives that file the name `path`, in the folder `folder`, if nobody has it, and takes its own away. 0; 1: the name is taken;
 * -1. */
int spool_file_link(const struct spool *s, const char *name, const char *folder, const char *path, struct error *err);
/* Content under that name, whatever was there. Not synced: for what is written again and again. */
int spool_file_replace(const struct spool *s, const char *path, const json_t *content, struct error *err);
int spool_sync_folder(const struct spool *s, const char *folder, struct error *err);
/* As spool_ask_server. */
void spool_open_folder(const struct spool *s, const char *folder);
/* A name that nobody else makes. */
void spool_unique(char name[SPOOL_NAME]);

#endif
