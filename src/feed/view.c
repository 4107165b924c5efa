/* SPDX-License-Identifier: MIT */
#include "feed/view.h"
#include "base/alloc.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, PAGES_A_READ = 512 };

struct feed_view {
	const struct feed_ring *ring;		/* the whole memfd, read only */
	unsigned char *data;			/* its slots, private */
	struct feed_control *control;
	uint64_t ring_bytes, slots, slot_bytes;	/* as checked: the writer cannot change them under the reader */
	uint64_t ring_number;
	uint32_t reader;
	uint64_t next, done;			/* items; next is FEED_NEVER until the writer says where it begins */
	uint64_t pos_next, last_bytes;		/* after the last item taken, and of it; 0 bytes: an end */
	int pagemap_fd;				/* -1: none; the kernel cannot be asked */
	bool retired;
	size_t held_count;
	bool held[];				/* by slot */
};

static void view_free(struct feed_view *v)
{
	munmap((void *)v->ring, v->ring_bytes);
	munmap(v->data, v->slots * v->slot_bytes);
	munmap(v->control, PAGE_BYTES);
	if (v->pagemap_fd >= 0)
		close(v->pagemap_fd);
	free(v);
}

static struct feed_control *map_control(int fd)
{
	uint64_t bytes;
	if (feed_ring_check(fd, &bytes, NULL) || bytes != PAGE_BYTES)
		return MAP_FAILED;
	return mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

struct feed_view *feed_view_make(int ring_fd, int control_fd, uint32_t reader, struct error *err)
{
	uint64_t bytes;
	if (feed_ring_check(ring_fd, &bytes, err))
		return NULL;
	const struct feed_ring *ring = mmap(NULL, bytes, PROT_READ, MAP_SHARED, ring_fd, 0);
	if (ring == MAP_FAILED) {
		error_errno(err, "feed: its ring");
		return NULL;
	}
	static const size_t fixed = offsetof(struct feed_ring, head);
	struct feed_ring head = { 0 };	/* as it is now: what is checked is what is used */
	memcpy(&head, ring, bytes < fixed ? bytes : fixed);
	if (bytes < sizeof head || !feed_ring_valid(&head, bytes)) {
		error_set(err, ERR_CORRUPT, "feed: what came is no ring");
		munmap((void *)ring, bytes);
		return NULL;
	}
	uint64_t size = head.slots * head.slot_bytes;
	void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, ring_fd, (off_t)head.data_at);
	struct feed_control *control = map_control(control_fd);
	if (data == MAP_FAILED || control == MAP_FAILED) {
		error_errno(err, "feed: its ring");
		if (data != MAP_FAILED)
			munmap(data, size);
		if (control != MAP_FAILED)
			munmap(control, PAGE_BYTES);
		munmap((void *)ring, bytes);
		return NULL;
	}
	struct feed_view *v = alloc_zero(sizeof *v + head.slots);
	*v = (struct feed_view){ .ring = ring, .data = data, .control = control, .ring_bytes = bytes, .slots = head.slots,
				 .slot_bytes = head.slot_bytes, .reader = reader, .next = FEED_NEVER, .pos_next = FEED_NEVER };
	v->ring_number = feed_ring_number(ring_fd);
	v->pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	return v;
}

/* Whether the writer has said where to begin. */
static bool begun(struct feed_view *v)
{
	if (v->next == FEED_NEVER)
		v->next = v->done = atomic_load(&v->ring->start[v->reader]);
	return v->next != FEED_NEVER;
}

/* done: all below it were given back. */
static void advance(struct feed_view *v)
{
	while (v->done < v->next && !v->held[v->done % v->slots])
		v->done++;
	atomic_store(&v->control->done, v->done);
}

/* Only this reader adds to it. */
static void add(_Atomic uint64_t *sum, uint64_t more)
{
	atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + more, memory_order_relaxed);
}

void feed_view_waited(struct feed_view *v, uint64_t us)
{
	add(&v->control->waited_us, us);
}

int feed_view_take(struct feed_view *v, struct feed_item *item, struct error *err)
{
	if (atomic_load_explicit(&v->ring->dropped[v->reader], memory_order_acquire))
		return 2 * error_set(err, ERR_DENIED, "this task held the others up for longer than the feed allows, and was dropped; "
				 "the batches that it had last may be damaged");
	if (!begun(v))
		return 0;
	if (v->next >= atomic_load_explicit(&v->ring->head, memory_order_acquire)) {
		if (v->next - v->done < v->slots)
			return 0;
		return error_set(err, ERR_CONFLICT, "this task holds all %llu batches that the feed has room for: copy what is to be kept",
				 (unsigned long long)v->slots);
	}
	uint32_t slot = (uint32_t)(v->next % v->slots);
	const volatile struct feed_slot *s = &v->ring->slot[slot];	/* read once: a writer of a group's feed may be another user's */
	uint64_t pos = s->pos, bytes = s->bytes, kind = s->kind;
	if (bytes > v->slot_bytes || (kind != FEED_BATCH && kind != FEED_END) || v->held[slot])
		return 2 * error_set(err, ERR_CORRUPT, "feed: an item that is none");
	*item = (struct feed_item){ .kind = (uint32_t)kind, .slot = slot, .epoch = FEED_POS_EPOCH(pos), .index = FEED_POS_INDEX(pos),
				    .bytes = bytes, .data = v->data + slot * v->slot_bytes, .ring = v };
	v->pos_next = kind == FEED_END ? FEED_POS(item->epoch + 1, 0) : pos + 1;
	v->last_bytes = kind == FEED_END ? 0 : bytes;
	v->next++;
	if (kind == FEED_BATCH) {
		add(&v->control->items, 1);
		add(&v->control->bytes, bytes);
	}
	v->held[slot] = true;
	v->held_count++;
	return 1;
}

/* Throws away the pages that are this process's own. A page that is the file's says so in its entry (bit 61); one that
 * was written to is in memory (63) or swapped out (62) without it. */
static void forget_writes(struct feed_view *v, unsigned char *data, uint64_t bytes)
{
	uint64_t entry[PAGES_A_READ];
	uint64_t pages = (bytes + PAGE_BYTES - 1) / PAGE_BYTES;
	for (uint64_t at = 0; at < pages; at += PAGES_A_READ) {
		size_t n = pages - at < PAGES_A_READ ? (size_t)(pages - at) : PAGES_A_READ;
		off_t place = (off_t)(((uintptr_t)data / PAGE_BYTES + at) * sizeof *entry);
		bool own = v->pagemap_fd < 0 || pread(v->pagemap_fd, entry, n * sizeof *entry, place) != (ssize_t)(n * sizeof *entry);
		for (size_t i = 0; i < n && !own; i++)
			own = (entry[i] >> 62) && !(entry[i] >> 61 & 1);
		if (own)
			madvise(data + at * PAGE_BYTES, n * PAGE_BYTES, MADV_DONTNEED);
	}
}

enum feed_view_released feed_view_release(struct feed_view *v, uint32_t slot)
{
	if (slot >= v->slots || !v->held[slot])
		return FEED_VIEW_KEPT;
	uint64_t bytes = ((const volatile struct feed_slot *)v->ring->slot)[slot].bytes;	/* once, as above */
	if (!v->retired)
		forget_writes(v, v->data + slot * v->slot_bytes, bytes < v->slot_bytes ? bytes : v->slot_bytes);
	v->held[slot] = false;
	v->held_count--;
	if (v->retired) {
		if (v->held_count)
			return FEED_VIEW_KEPT;
		view_free(v);
		return FEED_VIEW_GONE;
	}
	advance(v);
	return atomic_load(&v->ring->writer_sleeps) ? FEED_VIEW_AWAITED : FEED_VIEW_KEPT;
}

bool feed_view_sleeps(struct feed_view *v)
{
	atomic_store(&v->control->sleeps, 1);
	return !begun(v) || v->next >= atomic_load(&v->ring->head);
}

void feed_view_awake(struct feed_view *v)
{
	atomic_store_explicit(&v->control->sleeps, 0, memory_order_relaxed);
}

uint64_t feed_view_next(const struct feed_view *v)
{
	return v->pos_next;
}

uint64_t feed_view_ring(const struct feed_view *v)
{
	return v->ring_number;
}

uint64_t feed_view_slots(const struct feed_view *v)
{
	return v->slots;
}

const void *feed_view_shared(const struct feed_view *v, uint32_t slot, void **slots, uint64_t *slots_bytes)
{
	*slots_bytes = v->slots * v->slot_bytes;
	*slots = (unsigned char *)v->ring + (v->ring_bytes - *slots_bytes);
	return (unsigned char *)*slots + slot * v->slot_bytes;
}

uint64_t feed_view_last_sum(const struct feed_view *v)
{
	if (v->next == FEED_NEVER || v->last_bytes == 0)
		return 0;
	void *slots;
	uint64_t bytes;
	return feed_ring_sum(feed_view_shared(v, (uint32_t)((v->next - 1) % v->slots), &slots, &bytes), v->last_bytes);
}

bool feed_view_differs(const struct feed_view *v, uint64_t pos, uint64_t sum)
{
	return sum && v->ring->again_pos == pos && v->ring->again_sum != sum;
}

bool feed_view_retire(struct feed_view *v)
{
	v->retired = true;
	if (v->held_count)
		return false;
	view_free(v);
	return true;
}
