/* SPDX-License-Identifier: MIT
 * Sweeping at the start: see sweeping.h. Looking is quick and comes before anything is launched.
 */
#include "daemon/sweeping.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/troubles.h"
#include "launch/leftovers.h"

#include <stdlib.h>

struct sweeping {
	struct leftovers *found;
	char *folder;		/* of attempts, for people */
};

static char *stray_text(const struct sweeping *s, const struct stray *one)
{
	return alloc_printf("attempt %s/%s is no task's of this queue (was rad.db moved away, or put back from a copy?), and its "
			    "processes, below pid %d of uid %u, still run: they are left alone and count as foreign; when nobody "
			    "needs them: pkill -s %d", s->folder, one->name, (int)one->shim.pid, (unsigned)one->uid, (int)one->shim.pid);
}

static char *unknown_text(const struct sweeping *s)
{
	size_t n = leftovers_unknown(s->found);
	return n ? alloc_printf("%zu folder%s in %s %s of another queue's tasks, which ended: remove what nobody needs", n,
				n > 1 ? "s" : "", s->folder, n > 1 ? "are" : "is") : NULL;
}

static void sweeping_log(const struct sweeping *s, bool removes)
{
	size_t n, ended = leftovers_ended(s->found);
	const struct stray *strays = leftovers_strays(s->found, &n);
	for (size_t i = 0; i < n; i++) {
		scoped_free char *text = stray_text(s, &strays[i]);
		log_warn("%s", text);
	}
	scoped_free char *unknown = unknown_text(s);
	if (unknown)
		log_warn("%s", unknown);
	if (ended)
		log_info("%zu attempt%s that ended under an earlier radd left a folder: %s", ended, ended > 1 ? "s" : "",
			 removes ? "removed" : "kept, since not all tasks could be read");
}

static void forget_one(void *ctx, bool (*way)(const char *path), const char *path)
{
	forgetting_add(ctx, way, alloc_string(path));
}

struct sweeping *sweeping_start(struct forgetting *forgetting, const struct launch_home *home, char *const *keep, size_t n_keep,
				bool remove)
{
	struct sweeping *s = alloc_zero(sizeof *s);
	s->folder = alloc_printf("%s/attempts", home->state_dir);
	s->found = leftovers_find(home, keep, n_keep);
	sweeping_log(s, remove);
	if (remove)
		leftovers_each(s->found, forget_one, forgetting);
	return s;
}

void sweeping_destroy(struct sweeping *s)
{
	if (!s)
		return;
	leftovers_destroy(s->found);
	free(s->folder);
	free(s);
}

/* By pid and start time: owners.c asks for each process on its way up, and a stray's children are foreign, whatever their
 * environment says. */
bool sweeping_is_stray(const struct sweeping *s, struct proc_id id)
{
	size_t n = 0;
	const struct stray *strays = s ? leftovers_strays(s->found, &n) : NULL;
	for (size_t i = 0; i < n; i++)
		if (proc_same(strays[i].shim, id))
			return true;
	return false;
}

/* Asked anew each time whether it lives, since a stray may end at any moment and is nobody's child here; unlike
 * sweeping_is_stray, where an ended one harms nothing, as no process has its pid and start time again. */
void sweeping_tell(const struct sweeping *s, json_t *troubles)
{
	size_t n = 0;
	const struct stray *strays = s ? leftovers_strays(s->found, &n) : NULL;
	for (size_t i = 0; i < n; i++) {
		scoped_free char *text = proc_alive(strays[i].shim) ? stray_text(s, &strays[i]) : NULL;
		if (text)
			troubles_add(troubles, "attempts", "%s", text);
	}
	scoped_free char *unknown = s ? unknown_text(s) : NULL;
	if (unknown)
		troubles_add(troubles, "attempts", "%s", unknown);
}
