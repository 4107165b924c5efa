/* SPDX-License-Identifier: MIT
 * See asking.h. Only who handles the signal gets it: its default would end the program, and a time slot ends nobody.
 */
#include "daemon/asking.h"

#include "base/log.h"

#include <string.h>

bool asking_is_heard(const struct launch_home *home, const struct task *t)
{
	return launch_hears(home, t, task_signal(t));
}

bool asking_was_told(const struct launch_home *home, const struct task *t, int64_t wall_ms)
{
	int64_t ago_ms = launch_sent_ago_ms(home, t, LAUNCH_SLOT);
	return ago_ms >= 0 && ago_ms <= wall_ms - task_attempt(t)->slot_asked_ms;
}

void asking_for_place(const struct launch_home *home, const struct task *t)
{
	int sig = task_signal(t), n = launch_ask(home, t, sig);
	char id[TASK_ID_TEXT];
	task_id_text(t->id, id);
	if (n) {
		launch_note_sent(home, t, LAUNCH_SLOT);
		log_info("task %s: asked to make place: %s sent to %d processes", id, strsignal(sig), n);
	} else {
		log_info("task %s: its time slot is over, and none of its processes has a handler for %s: it keeps its GPU", id,
			 strsignal(sig));
	}
}
