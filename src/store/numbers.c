/* SPDX-License-Identifier: MIT
 * Numbers of jobs, given out once, also when rad.db is moved away to begin anew, or put back from an older copy: people, their
 * scripts and their logs name tasks by them.
 *
 * So a bound lies beside the store, in the file `next-job`: no number from there on was given out. It is moved on by
 * blocks, before the first number of a block is used, and the store notes the bound in the same turn. A store that
 * has not noted the bound that lies there lacks what was given out below it, and goes on above. Where the disk takes
 * no bound, numbers go on without: they repeat only if the store is lost as well.
 */
#include "store/store_internal.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/log.h"
#include "base/scope.h"

#include <string.h>

#define NUMBERS_BLOCK 1000
#define NUMBERS_FILE "next-job"
#define NUMBERS_META "next_job"

static char *numbers_path(const struct store *s)
{
	int folder = (int)(strrchr(s->path, '/') - s->path);
	return alloc_printf("%.*s/" NUMBERS_FILE, folder, s->path);
}

/* 0: none is noted. */
static uint32_t numbers_read(const char *text)
{
	unsigned long long n = text ? strtoull(text, NULL, 10) : 0;
	return n <= UINT32_MAX / 2 ? (uint32_t)n : 0;
}

int numbers_open(struct store *s, struct error *err)
{
	int64_t last;
	scoped_buf text = { 0 };
	scoped_free char *path = numbers_path(s), *known = store_get_meta(s, NUMBERS_META);
	if (store_query_int(s, "SELECT coalesce(max(job), 0) FROM jobs", &last, err))
		return -1;
	s->next_job = (uint32_t)last + 1;
	uint32_t bound = io_read_file(path, 64, &text, NULL) ? 0 : numbers_read(buf_text(&text));
	s->reserved_job = numbers_read(known);
	if (bound > s->next_job && bound != s->reserved_job) {
		log_info("numbers of jobs go on from %u: this rad.db does not know what was given out below", bound);
		s->next_job = bound;
	}
	return 0;
}

uint32_t store_next_job(struct store *s)
{
	if (s->next_job >= s->reserved_job) {
		struct error err = ERROR_INIT;
		scoped_free char *path = numbers_path(s), *text = alloc_printf("%u\n", s->next_job + NUMBERS_BLOCK);
		s->reserved_job = s->next_job + NUMBERS_BLOCK;
		if (io_replace_file(path, text, strlen(text), 0600, &err))
			log_warn_limited("%s", err.text);
		store_set_meta(s, NUMBERS_META, text, NULL);
	}
	return s->next_job++;
}
