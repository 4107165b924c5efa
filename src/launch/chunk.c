/* SPDX-License-Identifier: MIT
 * See chunk.h. One thread reads all streams, and libuv asks for a buffer right before each read, so a second one would never be
 * filled. Of 64 KiB: as much as libuv suggests.
 */
#include "launch/chunk.h"

void chunk_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out)
{
	static char chunk[65536];
	(void)h;
	(void)suggested;
	*out = uv_buf_init(chunk, sizeof chunk);
}
