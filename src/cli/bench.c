/* SPDX-License-Identifier: MIT
 * See bench.h.
 */
#include "cli/bench.h"

#include "base/json.h"
#include "cli/term.h"

const char *bench_mode_name(enum bench_mode m)
{
	static const char *const names[] = {
#define X(name, word) [name] = word,
		BENCH_MODES(X)
#undef X
	};
	return names[m];
}

void bench_make_showable(char *text)
{
	term_disarm(text);
	json_make_showable(text);
}
