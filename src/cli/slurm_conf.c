/* SPDX-License-Identifier: MIT
 * rad-slurm.conf, and sizes in Slurm's terms: see slurm_conf.h.
 *
 * A job that is to have a GPU to itself asks for all pieces of one, not for gres/gpu: before 23.11.5 Slurm gives a whole GPU
 * also where pieces of it are in use.
 */
#include "cli/slurm_conf.h"

#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

void slurm_conf_default(struct slurm_conf *c)
{
	*c = (struct slurm_conf){ .piece_mib = 1024, .shards = true, .whole = 0.8, .socket = "/run/rad/radd.sock",
				  .announce_limit_s = 3, .place_limit_s = 20, .end_limit_s = 10, .place_tries = 20 };
}

/* "8x141G, 4x40G" */
static int set_kinds(struct slurm_conf *c, const char *value, struct error *err)
{
	char text[LINE_MAX_BYTES], *rest = text;
	snprintf(text, sizeof text, "%s", value);
	c->n_kinds = 0;
	for (char *word; (word = strtok_r(rest, ", ", &rest));) {
		char *x = strchr(word, 'x');
		int64_t count;
		struct slurm_kind *k = &c->kinds[c->n_kinds];
		if (c->n_kinds == SLURM_CONF_KINDS)
			return error_set(err, ERR_INVALID, "more than %d kinds of node", SLURM_CONF_KINDS);
		if (!x)
			return error_set(err, ERR_INVALID, "'%.40s': must be GPUs of a node x memory of one, as 8x141G", word);
		*x = 0;
		if (units_parse_int(word, 1, 1024, &count, err) || units_parse_mib(x + 1, &k->mib, err))
			return -1;
		k->count = (unsigned)count;
		c->n_kinds++;
	}
	return 0;
}

static int set_text(char *out, size_t size, const char *value, struct error *err)
{
	if (strlen(value) >= size)
		return error_set(err, ERR_INVALID, "longer than %zu characters", size - 1);
	memcpy(out, value, strlen(value) + 1);
	return 0;
}

/* Root uses it from a user's folder. */
static int set_path(char *out, size_t size, const char *value, struct error *err)
{
	if (*value != '/')
		return error_set(err, ERR_INVALID, "'%.40s': must begin with /", value);
	return set_text(out, size, value, err);
}

static int set_switch(bool *out, const char *value, struct error *err)
{
	if (strcmp(value, "on") && strcmp(value, "off"))
		return error_set(err, ERR_INVALID, "'%.40s': must be on or off", value);
	*out = !strcmp(value, "on");
	return 0;
}

/* What a GPU is divided by. */
static int set_piece(uint64_t *out, const char *value, struct error *err)
{
	uint64_t mib;
	if (units_parse_mib(value, &mib, err))
		return -1;
	if (!mib)
		return error_set(err, ERR_INVALID, "must be more than nothing");
	*out = mib;
	return 0;
}

static int set_value(struct slurm_conf *c, const char *key, const char *value, struct error *err)
{
	const struct { const char *key; int64_t *value, min, max; } numbers[] = {
		{ "announce_limit", &c->announce_limit_s, 1, 600 }, { "place_limit", &c->place_limit_s, 1, 600 },
		{ "end_limit", &c->end_limit_s, 1, 600 }, { "place_tries", &c->place_tries, 0, 1000000 },
	};
	const struct { const char *key; char *out; size_t size; } texts[] = {
		{ "place", c->place, sizeof c->place }, { "rad", c->rad, sizeof c->rad },
	}, paths[] = {
		{ "socket", c->socket, sizeof c->socket }, { "helper", c->helper, sizeof c->helper },
	};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (!strcmp(key, numbers[i].key))
			return units_parse_int(value, numbers[i].min, numbers[i].max, numbers[i].value, err);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (!strcmp(key, texts[i].key))
			return set_text(texts[i].out, texts[i].size, value, err);
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		if (!strcmp(key, paths[i].key))
			return set_path(paths[i].out, paths[i].size, value, err);
	if (!strcmp(key, "gpus"))
		return set_kinds(c, value, err);
	if (!strcmp(key, "piece"))
		return set_piece(&c->piece_mib, value, err);
	if (!strcmp(key, "whole"))
		return units_parse_double(value, 0, 1, &c->whole, err);
	if (!strcmp(key, "shards"))
		return set_switch(&c->shards, value, err);
	return error_set(err, ERR_INVALID, "no such setting; there are gpus, piece, whole, shards, place, place_limit, place_tries, "
			 "announce_limit, end_limit, socket, helper, rad");
}

int slurm_conf_set(struct slurm_conf *c, const char *key, const char *value, struct error *err)
{
	return set_value(c, key, value, err) ? error_wrap(err, "%.40s", key) : 0;
}

/* Cuts comment and blanks; NULL: nothing else is there. */
static char *trim(char *text)
{
	text[strcspn(text, "#\n")] = 0;
	while (isspace((unsigned char)*text))
		text++;
	for (char *end = text + strlen(text); end > text && isspace((unsigned char)end[-1]);)
		*--end = 0;
	return *text ? text : NULL;
}

static int read_line(struct slurm_conf *c, char *line, struct error *err)
{
	char *key = trim(line), *colon = key ? strchr(key, ':') : NULL, *value;
	if (!key)
		return 0;
	if (!colon)
		return error_set(err, ERR_INVALID, "'%.40s': must be 'setting: value'", key);
	*colon = 0;
	value = trim(colon + 1);
	return slurm_conf_set(c, key, value ? value : "", err);
}

/* The rest of it would be read as another line. */
static int check_length(const char *line, struct error *err)
{
	size_t len = strlen(line);
	if (len < LINE_MAX_BYTES - 1 || line[len - 1] == '\n')
		return 0;
	return error_set(err, ERR_INVALID, "is longer than %d bytes: split it, or shorten it", LINE_MAX_BYTES - 2);
}

/* /dev/null is an empty one. */
static int check_file(int fd, const char *path, struct error *err)
{
	struct stat st;
	if (fstat(fd, &st))
		return error_errno(err, "%s", path);
	if (S_ISREG(st.st_mode) || (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)))
		return 0;
	return error_set(err, ERR_INVALID, "%s: is a %s, not a file", path,
			 S_ISDIR(st.st_mode) ? "folder" : S_ISFIFO(st.st_mode) ? "pipe" : "device");
}

/* Opened as base/io does it: a pipe in its place is not waited for. */
int slurm_conf_read(const char *path, struct slurm_conf *c, struct error *err)
{
	char line[LINE_MAX_BYTES];
	int rc, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	if (fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, "%s", path);
	if (!f) {
		error_errno(err, "%s", path);
		close(fd);
		return -1;
	}
	rc = check_file(fd, path, err);
	for (int n = 1; !rc && fgets(line, sizeof line, f); n++)
		if (check_length(line, err) || read_line(c, line, err))
			rc = error_wrap(err, "%s:%d", path, n);
	fclose(f);
	return rc;
}

void slurm_conf_path(char path[PATH_MAX])
{
	const char *own = getenv("RAD_SLURM_CONF"), *slurm = getenv("SLURM_CONF"), *slash = slurm ? strrchr(slurm, '/') : NULL;
	if (own)
		snprintf(path, PATH_MAX, "%s", own);
	else if (slash)
		snprintf(path, PATH_MAX, "%.*s/rad-slurm.conf", (int)(slash - slurm), slurm);
	else
		snprintf(path, PATH_MAX, "/etc/slurm/rad-slurm.conf");
}

bool slurm_conf_lists(const char *list, const char *name, size_t len)
{
	for (const char *p = list; *p; p += strcspn(p, ", ")) {
		p += strspn(p, ", ");
		if (strcspn(p, ", ") == len && !strncmp(p, name, len))
			return true;
	}
	return false;
}

enum slurm_places slurm_conf_places(const struct slurm_conf *c, const char *partitions)
{
	bool some = false, all = true;
	for (const char *p = partitions ? partitions : ""; *p; p += strcspn(p, ",")) {
		p += strspn(p, ",");
		if (!*p)
			break;
		bool here = slurm_conf_lists(c->place, p, strcspn(p, ","));
		some = some || here;
		all = all && here;
	}
	return !some ? SLURM_PLACES_IN_NONE : all ? SLURM_PLACES_IN_ALL : SLURM_PLACES_IN_SOME;
}

/* Sizes ---------------------------------------------------------------------------------------------------------------- */

static uint64_t largest_mib(const struct slurm_conf *c)
{
	uint64_t most = 0;
	for (unsigned i = 0; i < c->n_kinds; i++)
		most = c->kinds[i].mib > most ? c->kinds[i].mib : most;
	return most;
}

static unsigned most_gpus(const struct slurm_conf *c)
{
	unsigned most = 0;
	for (unsigned i = 0; i < c->n_kinds; i++)
		most = c->kinds[i].count > most ? c->kinds[i].count : most;
	return most;
}

int slurm_conf_fits(const struct slurm_conf *c, const struct slurm_wish *w, struct error *err)
{
	char want[32], have[32];
	for (unsigned i = 0; i < c->n_kinds; i++)
		if (c->kinds[i].count >= w->gpus && c->kinds[i].mib >= w->claim_mib)
			return 0;
	if (!c->n_kinds)
		return 0;
	units_format_mib((double)w->claim_mib, want, sizeof want);
	units_format_mib((double)largest_mib(c), have, sizeof have);
	if (w->claim_mib > largest_mib(c))
		return error_set(err, ERR_INVALID, "%s does not fit any GPU of this cluster: the largest has %s", want, have);
	if (w->gpus > most_gpus(c))
		return error_set(err, ERR_INVALID, "%u GPUs of one node: no node of this cluster has more than %u", w->gpus, most_gpus(c));
	return error_set(err, ERR_INVALID, "%u GPUs of %s each: no node of this cluster has that", w->gpus, want);
}

unsigned slurm_conf_all(const struct slurm_conf *c)
{
	return (unsigned)(largest_mib(c) / c->piece_mib);
}

static uint64_t pieces(const struct slurm_conf *c, uint64_t mib)
{
	return (mib + c->piece_mib - 1) / c->piece_mib;
}

static bool wants_whole(const struct slurm_conf *c, const struct slurm_wish *w, const char **why)
{
	uint64_t most = largest_mib(c);
	*why = w->exclusive ? "alone on its GPU" : !w->claim_mib ? "nothing says what it takes" :
	       most && (double)w->claim_mib > c->whole * (double)most ? "more than a share of a GPU pays for" : NULL;
	return *why;
}

int slurm_conf_size(const struct slurm_conf *c, const struct slurm_wish *w, char gres[SLURM_GRES], const char **why,
		    struct error *err)
{
	bool whole = wants_whole(c, w, why);
	uint64_t all = slurm_conf_all(c), each = pieces(c, w->claim_mib);
	if (slurm_conf_fits(c, w, err))
		return -1;
	if (all && (whole || each > all))	/* of a GPU that no number of pieces divides evenly, a rest is in none */
		each = all;
	if (w->placed == SLURM_PLACES_IN_SOME)
		return error_set(err, ERR_INVALID, "radd places in some of its partitions and Slurm in others, and a job asks for what "
				 "one of the two gives: name partitions of one kind ('place' of rad-slurm.conf: %.100s)", c->place);
	if (w->placed && !each)
		return error_set(err, ERR_INVALID, "nothing says what it takes, nor 'gpus' of rad-slurm.conf what a GPU has: add "
				 "--gpu-mem");
	if (w->placed && w->exclusive && !all)
		return error_set(err, ERR_INVALID, "it is to be alone on its GPU, and 'gpus' of rad-slurm.conf does not say how much "
				 "that is: have it said there, or leave out --exclusive");
	if (!whole)
		*why = "by its estimate";
	if (w->placed) {
		snprintf(gres, SLURM_GRES, "radmem:%llu", (unsigned long long)(each * w->gpus));
	} else if (w->gpus > 1 || !c->shards || !each) {
		*why = w->gpus > 1 ? "pieces are of one GPU" : whole ? *why : "there are no pieces here";
		snprintf(gres, SLURM_GRES, "gpu:%u", w->gpus);
	} else {
		snprintf(gres, SLURM_GRES, "shard:%llu", (unsigned long long)each);
	}
	return 0;
}

/* "gres:shard:20", "gres/shard:20", "shard:20", "gpu", "gpu:a100:2": the number is the last word. */
unsigned slurm_conf_gres(const char *list, const char *name)
{
	unsigned total = 0;
	size_t len = strlen(name);
	for (const char *p = list ? list : ""; *p; p += strcspn(p, ",;"), p += strspn(p, ",;")) {
		if (!strncmp(p, "gres", 4) && (p[4] == ':' || p[4] == '/'))
			p += 5;
		size_t item = strcspn(p, ",;( \n"), last = item;
		if (strncmp(p, name, len) || (item > len && p[len] != ':' && p[len] != '='))
			continue;
		while (last > len && isdigit((unsigned char)p[last - 1]))
			last--;
		bool number = last < item && (p[last - 1] == ':' || p[last - 1] == '=');
		total += number ? (unsigned)strtoul(p + last, NULL, 10) : 1;
	}
	return total;
}
