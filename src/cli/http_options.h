/* SPDX-License-Identifier: MIT
 *
 * The options of `rad exporter` and `rad web`. The verb reads them for --help, completion and mistakes; `rad-http`, the program
 * that it becomes, reads the same words again.
 */
#ifndef RAD_CLI_HTTP_OPTIONS_H
#define RAD_CLI_HTTP_OPTIONS_H

#include "base/args.h"

#include <stdbool.h>

#define HTTP_OPTIONS_EXPORTER "127.0.0.1:9836"
#define HTTP_OPTIONS_WEB "127.0.0.1:8836"

struct http_options {
	const char *listen;	/* ADDRESS:PORT or unix:PATH; NULL: as above */
	const char *group;	/* whose a Unix socket is as well; NULL: the caller's */
	const char *user;	/* whom to become, started as root; NULL: nobody */
	const char *hosts;	/* names that this machine is called by, commas between; NULL: its own only */
	bool network;		/* whether the address may be one that others reach */
	bool tasks, users;	/* exporter: series of each running task, of each user */
	bool no_token;		/* web: whoever reaches the address sees the page */
};

#define HTTP_OPTIONS_ROWS 8	/* at most, with the one that ends them */

/* Fills rows that write into *o. */
void http_options_rows(struct http_options *o, bool web, struct args_option rows[HTTP_OPTIONS_ROWS]);

#endif
