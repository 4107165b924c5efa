/* SPDX-License-Identifier: MIT
 *
 * `rad exporter`: /metrics. Each scrape asks radd, those that come together or within a second share an answer, and after
 * EXPORTER_DEADLINE_MS a radd that has said nothing is one that is not up.
 */
#ifndef RAD_HTTP_EXPORTER_H
#define RAD_HTTP_EXPORTER_H

#include "http/serve.h"

#define EXPORTER_DEADLINE_MS 3000	/* Prometheus waits 10 s where nobody said otherwise */

struct exporter;
extern const struct serve_route exporter_routes[];

/* `socket` is radd's. */
struct exporter *exporter_create(uv_loop_t *loop, const char *socket, bool tasks, bool users);
/* Answers those who wait. Before serve_destroy. */
void exporter_stop(struct exporter *e);
void exporter_destroy(struct exporter *e);

#endif
