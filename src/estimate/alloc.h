/* SPDX-License-Identifier: MIT
 *
 * PyTorch's CUDA caching allocator as a pure simulator: which segments it would ask of the driver, and so what a process
 * reserves, for a given order of requests. No GPU, no clock, no I/O; equal input gives equal output.
 *
 * The rules, as found in c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.cpp of PyTorch 2.4 to 2.12:
 *	rounding	up to a multiple of 512 bytes, or to a step between powers of two (roundup_power2_divisions)
 *	pools		up to 1 MiB small, above large; blocks are reused on the stream that asked for them, nowhere else
 *	segments	small 2 MiB; large below 10 MiB: 20 MiB (a setting from 2.10 on); else the next multiple of 2 MiB
 *	reuse		smallest free block that fits, lowest address first; oversize blocks (max_split_size_mb) only for
 *			oversize requests that nearly fill them
 *	split		small: what is left over is 512 bytes or more; large: more than 1 MiB, and the request is not oversize.
 *			What is not split off counts as allocated
 *	free		merges with free neighbours of the segment
 *	miss		collect old unsplit blocks (garbage_collection_threshold, under a cap only); new segment; release
 *			oversize blocks; new segment; release everything that is wholly free; new segment; out of memory
 *	expandable	one range of addresses per pool and stream, mapped by pages of 2 MiB (small) or of a large segment; a cap
 *			counts pages, as the driver's does (one set in the process counts the segment it would have been)
 * Private pools (CUDA graphs, MemPool) are not simulated.
 */
#ifndef RAD_ESTIMATE_ALLOC_H
#define RAD_ESTIMATE_ALLOC_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ALLOC_STREAMS 256		/* streams are numbered 0 to 255 */
#define ALLOC_POWER2_RANGES 16		/* from 1 MiB up, one per power of two */
#define ALLOC_NO_CAP UINT64_MAX

/* A PyTorch version as far as rules depend on it: 2.11.0+cu130 is 211. */
typedef unsigned alloc_torch;
/* Reads "2.11.0+cu130"; 0 if it does not begin with two numbers. */
alloc_torch alloc_torch_parse(const char *text);

/* The allocator's configuration. Sizes in bytes. */
struct alloc_conf {
	uint64_t max_split;		/* blocks from this size on are not split; UINT64_MAX: all are */
	uint64_t max_non_split_rounding;/* an oversize block may exceed its request by less than this */
	uint64_t large_segment;
	double gc_threshold;		/* share of the cap above which old blocks are collected; 0: never */
	double fraction;		/* per_process_memory_fraction of the job's own; 1: none */
	uint32_t power2_divisions[ALLOC_POWER2_RANGES];	/* 0 and 1: no such rounding */
	bool expandable;
	bool async;			/* backend:cudaMallocAsync: not this allocator at all */
	char note[200];			/* settings that were passed over; "" for none */
};

struct alloc_conf alloc_conf_default(void);

/* Reads the value of PYTORCH_CUDA_ALLOC_CONF as that version would ("" and NULL: the defaults). Settings it does not know, and
 * those that do not concern what is reserved, are passed over, the former with a note. Returns 0, or -1 for what PyTorch itself
 * would refuse. At most ALLOC_CONF_MAX bytes are read. */
int alloc_conf_parse(const char *text, alloc_torch torch, struct alloc_conf *conf, struct error *err);
#define ALLOC_CONF_MAX 500

/* Which of both variables counts. Versions differ in that when both are set, so different values are refused. Either may be
 * NULL. Returns 0 with *text one of both, or NULL. */
int alloc_conf_choose(const char *cuda_alloc_conf, const char *alloc_conf, const char **text, struct error *err);

enum alloc_event { ALLOC_SEGMENT_NEW, ALLOC_SEGMENT_GONE, ALLOC_PAGES_MAPPED, ALLOC_PAGES_UNMAPPED };

/* Looking on. Both may be NULL. */
struct alloc_watch {
	void (*event)(void *ctx, enum alloc_event event, uint64_t address, uint64_t size, unsigned stream);
	/* The address of the next segment or expandable range, a multiple of 2 MiB; without it they ascend. */
	uint64_t (*place)(void *ctx, uint64_t size);
	void *ctx;
};

struct alloc_stats {
	uint64_t reserved, allocated;			/* bytes, now */
	uint64_t peak_reserved, peak_allocated;
	unsigned retries;				/* how often everything free was released to get a segment */
	uint64_t lacking;				/* cap that would have met the last request that failed; 0: not known */
	/* Blocks looked at one by one: to find where a new one stands among those of its size, to release, to grow. Input
	 * made to be slow can drive it up, so whoever replays what others wrote bounds it. */
	uint64_t work;
};

struct alloc_sim;

struct alloc_sim *alloc_sim_create(const struct alloc_conf *conf, const struct alloc_watch *watch);
void alloc_sim_destroy(struct alloc_sim *a);
/* Empties it and sets the cap in bytes on what is reserved (ALLOC_NO_CAP for none). Memory it grew is kept for the next run. */
void alloc_sim_reset(struct alloc_sim *a, uint64_t cap);
/* Another cap from here on. A hard one does not make the process shrink: a request for which it leaves no room fails and
 * changes nothing, so that it can be made again under another cap. Not for expandable segments. */
void alloc_sim_set_cap(struct alloc_sim *a, uint64_t cap, bool hard);
/* Makes `to` equal to `from`, which was created with the same configuration. */
void alloc_sim_copy(struct alloc_sim *to, const struct alloc_sim *from);

/* A request of `size` bytes, known as `id` until it is freed: ids are dense, from 0, and not in use. False: out of memory; then
 * nothing is allocated, but what was free may have been released. Size 0 is no request and always succeeds. */
bool alloc_sim_request(struct alloc_sim *a, uint32_t id, uint64_t size, unsigned stream);
/* Gives it back. Does nothing if there is no such request. */
void alloc_sim_free(struct alloc_sim *a, uint32_t id);
/* torch.cuda.empty_cache() */
void alloc_sim_empty_cache(struct alloc_sim *a);
/* The address of a live request; 0: there is none. */
uint64_t alloc_sim_address(const struct alloc_sim *a, uint32_t id);
const struct alloc_stats *alloc_sim_stats(const struct alloc_sim *a);

/* What a request of that size takes at least: the rounding rule alone. */
uint64_t alloc_round(const struct alloc_conf *conf, uint64_t size);

#endif
