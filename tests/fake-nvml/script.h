/* SPDX-License-Identifier: MIT
 * What both fake libraries share: the JSON file that says how they answer.
 */
#ifndef RAD_TESTS_FAKE_SCRIPT_H
#define RAD_TESTS_FAKE_SCRIPT_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Reads the file again when it can; a file that is being replaced leaves the old answers. */
static inline void script_read(const char *variable, json_t **script)
{
	const char *path = getenv(variable);
	json_t *fresh = path ? json_load_file(path, 0, NULL) : NULL;
	if (!fresh)
		return;
	json_decref(*script);
	*script = fresh;
}

/* Never returns when `function` stands in the script's "hang": SIGKILL ends it. */
static inline void script_hang(const json_t *script, const char *function)
{
	size_t i;
	json_t *name;
	json_array_foreach(json_object_get(script, "hang"), i, name)
		while (!strcmp(json_string_value(name), function))
			pause();
}

/* The code that `function` is to fail with: an entry of its own in "fail", or one for "*"; 0: none. */
static inline int script_failure(const json_t *where, const char *function)
{
	const json_t *fail = json_object_get(where, "fail");
	const json_t *code = json_object_get(fail, function);
	return (int)json_integer_value(code ? code : json_object_get(fail, "*"));
}

#endif
