/* SPDX-License-Identifier: MIT
 * See http_options.h.
 */
#include "cli/http_options.h"

#include <string.h>

void http_options_rows(struct http_options *o, bool web, struct args_option rows[HTTP_OPTIONS_ROWS])
{
	const struct args_option both[] = {
		{ "listen", 0, "ADDRESS", web ? "where: " HTTP_OPTIONS_WEB " if nothing is said, or unix:PATH; port 0: any that is free"
					      : "where: " HTTP_OPTIONS_EXPORTER " if nothing is said, or unix:PATH; port 0: any that is free",
		  .value = &o->listen },
		{ "network", 0, NULL, "the address may be one that other machines reach", .flag = &o->network },
		{ "host", 0, "NAMES", "what else this machine is called by those who ask, commas between", .value = &o->hosts },
		{ "group", 0, "GROUP", "of unix:PATH: the group that may connect, by name or number (who starts it: theirs)",
		  .value = &o->group },
		{ "user", 0, "USER", "whom to become when started as root (default nobody)", .value = &o->user },
	};
	const struct args_option more[] = {
		{ "no-token", 0, NULL, "whoever reaches the address sees the page", .flag = &o->no_token }, { 0 },
	};
	const struct args_option series[] = {
		{ "tasks", 0, NULL, "series of each running task as well", .flag = &o->tasks },
		{ "users", 0, NULL, "series of each user as well", .flag = &o->users }, { 0 },
	};
	memcpy(rows, both, sizeof both);
	if (web)
		memcpy(rows + sizeof both / sizeof *both, more, sizeof more);
	else
		memcpy(rows + sizeof both / sizeof *both, series, sizeof series);
}
