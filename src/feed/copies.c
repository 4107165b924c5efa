/* SPDX-License-Identifier: MIT */
#include "feed/copies.h"
#include "base/alloc.h"
#include "feed/fds.h"
#include "feed/ring.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define COPIES_MAGIC 0x3153504f43444546ull	/* "FEDCOPS1" */

struct feed_copies_page {
	uint64_t magic, slots, stride, bytes;
	struct { _Atomic uint64_t begun, made; } slot[];	/* 1 + the item's position; 0: none yet */
};

struct feed_copies {
	struct feed_copies_page *page;
	uint64_t map_bytes, slots, stride, bytes;
	int fd;		/* opened for this object alone: locks are its own */
};

static uint64_t page_bytes(uint64_t slots)
{
	return sizeof(struct feed_copies_page) + slots * sizeof ((struct feed_copies_page *)0)->slot[0];
}

static struct feed_copies *adopt(int fd, void *map, uint64_t bytes, struct error *err)
{
	char path[64];
	struct feed_copies *c = alloc_zero(sizeof *c);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	*c = (struct feed_copies){ .page = map, .map_bytes = bytes, .fd = feed_fds_own(open(path, O_RDWR | O_CLOEXEC)) };
	c->slots = c->page->slots;
	c->stride = c->page->stride;
	c->bytes = c->page->bytes;
	if (c->fd >= 0)
		return c;
	error_errno(err, "feed: %s", path);
	munmap(map, bytes);
	free(c);
	return NULL;
}

struct feed_copies *feed_copies_make(uint64_t slots, uint64_t stride, uint64_t bytes, int *fd, struct error *err)
{
	void *map;
	if (!stride || slots > FEED_SLOTS_MAX || stride > bytes / (slots ? slots : 1)) {
		error_set(err, ERR_INVALID, "feed: %llu copies of %llu bytes do not go into %llu", (unsigned long long)slots,
			  (unsigned long long)stride, (unsigned long long)bytes);
		return NULL;
	}
	*fd = feed_ring_memory("radfeed-copies", page_bytes(slots), false, &map, err);
	if (*fd < 0)
		return NULL;
	struct feed_copies_page *page = map;
	page->slots = slots;
	page->stride = stride;
	page->bytes = bytes;
	page->magic = COPIES_MAGIC;
	struct feed_copies *c = adopt(*fd, map, page_bytes(slots), err);
	if (!c)
		close(*fd);
	return c;
}

struct feed_copies *feed_copies_open(int fd, uint64_t slots, struct error *err)
{
	uint64_t bytes;
	if (feed_ring_check(fd, &bytes, err))
		return NULL;
	struct feed_copies_page *page = bytes == page_bytes(slots) ?
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
	if (page == MAP_FAILED) {
		error_set(err, ERR_CORRUPT, "feed: what came is no table of copies");
		return NULL;
	}
	uint64_t stride = page->stride, all = page->bytes;
	if (page->magic == COPIES_MAGIC && page->slots == slots && stride && stride <= all / slots) {
		struct feed_copies *c = adopt(fd, page, bytes, err);
		if (c) {	/* as checked */
			c->slots = slots;
			c->stride = stride;
			c->bytes = all;
		}
		return c;
	}
	error_set(err, ERR_CORRUPT, "feed: what came is no table of copies");
	munmap(page, bytes);
	return NULL;
}

void feed_copies_size(const struct feed_copies *c, uint64_t *stride, uint64_t *bytes)
{
	*stride = c->stride;
	*bytes = c->bytes;
}

static bool lock(const struct feed_copies *c, uint32_t slot, short how)
{
	struct flock one = { .l_type = how, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1 };
	return fcntl(c->fd, F_OFD_SETLK, &one) == 0;
}

int feed_copies_ask(struct feed_copies *c, const struct feed_item *item)
{
	uint64_t want = FEED_POS(item->epoch, item->index) + 1;
	if (item->slot >= c->slots || item->bytes > c->stride)
		return FEED_COPY_NEVER;
	_Atomic uint64_t *made = &c->page->slot[item->slot].made, *begun = &c->page->slot[item->slot].begun;
	if (atomic_load_explicit(made, memory_order_acquire) == want)
		return FEED_COPY_THERE;
	if (!lock(c, item->slot, F_WRLCK))
		return FEED_COPY_SOON;
	int answer = FEED_COPY_MAKE;
	if (atomic_load_explicit(made, memory_order_acquire) == want)
		answer = FEED_COPY_THERE;
	else if (atomic_load(begun) != atomic_load(made))
		answer = FEED_COPY_NEVER;
	else
		atomic_store(begun, want);
	if (answer != FEED_COPY_MAKE)
		lock(c, item->slot, F_UNLCK);
	return answer;
}

void feed_copies_made(struct feed_copies *c, const struct feed_item *item, bool whole)
{
	if (item->slot >= c->slots)
		return;
	if (whole)
		atomic_store_explicit(&c->page->slot[item->slot].made, FEED_POS(item->epoch, item->index) + 1, memory_order_release);
	lock(c, item->slot, F_UNLCK);
}

void feed_copies_close(struct feed_copies *c)
{
	if (!c)
		return;
	feed_fds_close(&c->fd);
	munmap(c->page, c->map_bytes);
	free(c);
}
