/* SPDX-License-Identifier: MIT
 * Describing a process: see process.h. What is said of it for people is read here, with the caller's rights; whose it is,
 * radd asks the kernel itself.
 */
#include "cli/process.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"
#include "cli/submit_caller.h"
#include "submit/options.h"

#include <string.h>

#define MAX_WORDS 1000
#define MAX_COMMAND ((size_t)64 << 10)

/* Its command line as words; what names itself nothing is called by its number. */
static void take_command(struct spec *s, pid_t pid)
{
	scoped_free char *path = alloc_printf("/proc/%d/cmdline", (int)pid), *unnamed = alloc_printf("process-%d", (int)pid);
	scoped_buf text = { 0 };
	char *words[MAX_WORDS + 1] = { NULL };
	size_t n = 0;
	if (io_read_file(path, MAX_COMMAND, &text, NULL))
		text.len = 0;
	for (size_t at = 0; at < text.len && n < MAX_WORDS; at += strlen(text.data + at) + 1)
		words[n++] = text.data + at;
	if (!n || !*words[0])
		words[0] = unnamed;
	spec_set_argv(s, words);
}

struct spec *process_spec(pid_t pid, struct error *err)
{
	uint64_t ticks;
	if (proc_stat(pid, &ticks, NULL)) {
		error_set(err, ERR_NOT_FOUND, "process %d: there is none", (int)pid);
		return NULL;
	}
	struct spec *s = spec_create();
	submit_caller_identity(s);
	s->process_pid = pid;
	s->process_ticks = ticks;
	take_command(s, pid);
	s->name = submit_caller_name(words_base(s->argv[0]));
	s->cwd = alloc_string("/");
	s->output = alloc_string("/dev/null");
	return s;
}

bool process_want_pid(struct cli_call *c, const char *word, pid_t *pid)
{
	int64_t number;
	if (units_parse_int(word, 2, INT32_MAX, &number, NULL)) {
		c->rc = cli_usage(c, "'%.40s': expected the number of a process, as 'rad gpus -v' and ps list them", word);
		return false;
	}
	*pid = (pid_t)number;
	return true;
}

int process_set(struct spec *s, const struct process_option *options, size_t n, struct error *err)
{
	struct submit_pending pending = { 0 };
	int failed = 0;
	for (size_t i = 0; i < n && !failed; i++) {
		scoped_free char *where = alloc_printf("--%s", options[i].name);
		if (options[i].value)
			failed = options_set(s, &pending, options_find(options[i].name), options[i].value, where, err);
	}
	s->priority -= pending.nice;
	options_pending_clear(&pending);
	return failed;
}
