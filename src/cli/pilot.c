/* SPDX-License-Identifier: MIT
 * See pilot.h.
 */
#include "cli/pilot.h"

int64_t pilot_margin_ms(const struct pilot_options *o)
{
	bool brief = o->time_ms && o->margin_ms > o->time_ms / 2;
	return brief ? o->time_ms / 2 : o->margin_ms;
}

/* In a third of what there is: SIGTERM leaves less. */
int64_t pilot_cut_ms(const struct pilot_options *o)
{
	int64_t margin = pilot_margin_ms(o), span = margin < o->grace_ms ? margin : o->grace_ms;
	return span / 3 < 30000 ? span / 3 : 30000;
}
