/* SPDX-License-Identifier: MIT
 * The daemon's reader of sampler frames, fed arbitrary bytes. What it accepts, written again, reads the same.
 */
#include "monitor/monitor.h"

#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	scoped_buf in = { 0 }, first = { 0 }, second = { 0 };
	struct snapshot s, again;
	struct error err;
	buf_add(&in, data, size);
	while (monitor_frame_read(&in, &s, &err) == 1) {
		first.len = second.len = 0;
		monitor_frame_write(&s, &first);
		monitor_frame_write(&s, &second);
		FUZZ_HOLDS(monitor_frame_read(&first, &again, &err) == 1);
		monitor_frame_write(&again, &first);
		FUZZ_HOLDS(first.len == second.len && !memcmp(first.data, second.data, first.len));
		snapshot_clear(&again);
		snapshot_clear(&s);
	}
	return 0;
}
