/* SPDX-License-Identifier: MIT
 *
 * rad-slurm.conf, and what a job asks of Slurm by it. The administrator writes it beside slurm.conf: which GPUs the cluster
 * has, what a piece of one is, where radd places. Slurm's plugins are compiled with this file too (slurm/), so it needs the C
 * library, base/error and base/units, and nothing that a program with other libraries in it could clash with.
 */
#ifndef RAD_CLI_SLURM_CONF_H
#define RAD_CLI_SLURM_CONF_H

#include "base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLURM_CONF_KINDS 16
#define SLURM_GRES 32

struct slurm_conf {
	/* `gpus: 8x141G, 4x40G`: the kinds of node, by how many GPUs of what memory they have. None: not known. */
	struct slurm_kind { unsigned count; uint64_t mib; } kinds[SLURM_CONF_KINDS];
	unsigned n_kinds;
	uint64_t piece_mib;	/* `piece`: of one shard, and of one radmem; 1G */
	bool shards;		/* `shards`: GPUs can be had in pieces (gres/shard); on */
	double whole;		/* `whole`: from this part of a GPU on it is asked for as a whole; 0.8 */
	char place[256];	/* `place`: partitions where radd places (gres/radmem), commas between; "" */
	char socket[108];	/* `socket`: radd's, on each node */
	char helper[PATH_MAX], rad[PATH_MAX];	/* `helper`, `rad`: the programs; "": where they were installed */
	/* Seconds: `announce_limit` for telling radd of a job; `place_limit` for a place; `end_limit` for what came of it. */
	int64_t announce_limit_s, place_limit_s, end_limit_s;
	int64_t place_tries;	/* `place_tries`: times that a job without a place is put back into Slurm's queue */
};

void slurm_conf_default(struct slurm_conf *c);
/* Reads a file into *c, over the defaults. One that is not there is none (0). -1 with file, line and what is wrong. */
int slurm_conf_read(const char *path, struct slurm_conf *c, struct error *err);
/* Sets one key, as a line of the file or an argument of the SPANK plugin does. */
int slurm_conf_set(struct slurm_conf *c, const char *key, const char *value, struct error *err);
/* Where it is: RAD_SLURM_CONF, else beside slurm.conf (SLURM_CONF), else /etc/slurm. */
void slurm_conf_path(char path[PATH_MAX]);
/* In which of those partitions radd places: a name, or several with commas between, of which Slurm takes one (NULL, "": Slurm's
 * default one, which is not known here). */
enum slurm_places { SLURM_PLACES_IN_NONE, SLURM_PLACES_IN_SOME, SLURM_PLACES_IN_ALL };
enum slurm_places slurm_conf_places(const struct slurm_conf *c, const char *partitions);

/* Whether a list, with commas or blanks between, has that word. */
bool slurm_conf_lists(const char *list, const char *name, size_t len);

/* What a job needs: memory on each of its GPUs (0: not known), and whether it is to be alone there. */
struct slurm_wish { uint64_t claim_mib; unsigned gpus; bool exclusive; enum slurm_places placed; };
/* Whether some node has such GPUs. -1 with the reason. */
int slurm_conf_fits(const struct slurm_conf *c, const struct slurm_wish *w, struct error *err);
/* The `--gres` for it, and why in a few words. -1: no node has that, or its partitions want different ones. */
int slurm_conf_size(const struct slurm_conf *c, const struct slurm_wish *w, char gres[SLURM_GRES], const char **why,
		    struct error *err);
/* Pieces of one GPU that are all of it, of the largest there are; 0: not known. */
unsigned slurm_conf_all(const struct slurm_conf *c);
/* How many `name` a list of generic resources asks for ("gres:gpu:1,gres/shard:20"); 0: none. */
unsigned slurm_conf_gres(const char *list, const char *name);

#endif
