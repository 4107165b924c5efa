/* SPDX-License-Identifier: MIT
 *
 * Files and descriptors: whole reads and writes, bounded.
 */
#ifndef RAD_BASE_IO_H
#define RAD_BASE_IO_H

#include "base/buf.h"
#include "base/error.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reads until n bytes or the end. Returns the bytes read, or -1 (errno set). */
ssize_t io_read_full(int fd, void *bytes, size_t n);
/* Writes all of it. Returns 0, or -1 (errno set). */
int io_write_full(int fd, const void *bytes, size_t n);
/* Appends the whole of a file, or fails if it is larger than `max`, or no file; the error names the path. */
int io_read_file(const char *path, size_t max, struct buf *out, struct error *err);
/* The same from an open descriptor; `name` is for the error. */
int io_read_fd(int fd, const char *name, size_t max, struct buf *out, struct error *err);
/* Replaces a file so that a crash leaves the old or the new one, never a part: temporary, fsync, rename, fsync
 * of the folder where that can be done. An error of that last step leaves the new one in place. */
int io_replace_file(const char *path, const void *bytes, size_t n, unsigned mode, struct error *err);
/* Of that path, which was renamed or made there: that it is there survives a crash, where folders can be synced at all. */
int io_sync_parent(const char *path, struct error *err);
/* As io_replace_file, for a path that a person named: what is there and no file, a device or a pipe, is written into, as by a
 * shell, and so is what a link of root's or of the caller's own leads to (/dev/stdout). Nobody may read the new file who might
 * not read the one that was there. */
int io_save_file(const char *path, const void *bytes, size_t n, struct error *err);
/* A folder below the one that `at` is, not followed where a link has that name, to be read. NULL (errno set). */
DIR *io_open_folder(int at, const char *path);
/* mkdir -p; the last component gets `mode`. */
int io_make_dirs(const char *path, unsigned mode, struct error *err);
/* rm -rf: links are removed, not followed; what cannot be removed stays, and the rest goes. */
void io_remove_tree(const char *path);
int io_set_nonblocking(int fd, bool on);
/* First in a program: where the caller closed a standard descriptor, one that refuses to be used takes its place. The next file
 * would have it otherwise, a store or a connection, and be written what was to be printed. */
void io_fill_standard(void);

#endif
