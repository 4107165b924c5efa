/* SPDX-License-Identifier: MIT
 *
 * Where streams of the loop are read into: one buffer for all of them.
 */
#ifndef RAD_LAUNCH_CHUNK_H
#define RAD_LAUNCH_CHUNK_H

#include <uv.h>

/* For uv_read_start. What was read has to be copied before the callback returns. */
void chunk_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out);

#endif
