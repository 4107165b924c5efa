/* SPDX-License-Identifier: MIT */
#include "feed/ring.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010	/* Linux 5.1 */
#endif

enum { PAGE_BYTES = 4096, TMPFS = 0x01021994 };
static const uint64_t slot_bytes_max = 1ull << 40;

uint64_t feed_ring_bytes(uint64_t slots, uint64_t slot_bytes, uint64_t *data_at)
{
	if (slots < 2 || slots > FEED_SLOTS_MAX || slot_bytes == 0 || slot_bytes % PAGE_BYTES || slot_bytes > slot_bytes_max)
		return 0;
	uint64_t head = sizeof(struct feed_ring) + slots * sizeof(struct feed_slot);
	*data_at = (head + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	return *data_at + slots * slot_bytes;
}

int feed_ring_memory(const char *name, uint64_t bytes, bool read_only, void **map, struct error *err)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return error_errno(err, "shared memory of %llu MiB", (unsigned long long)(bytes >> 20));
	*map = MAP_FAILED;
	if (ftruncate(fd, (off_t)bytes) || fchmod(fd, 0600))
		goto failed;
	*map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*map == MAP_FAILED)
		goto failed;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | (read_only ? F_SEAL_FUTURE_WRITE : 0) | F_SEAL_SEAL))
		goto failed;
	return fd;
failed:
	error_errno(err, "shared memory of %llu MiB, sealed (Linux 5.1 and newer)", (unsigned long long)(bytes >> 20));
	if (*map != MAP_FAILED)
		munmap(*map, bytes);
	close(fd);
	return -1;
}

uint64_t feed_ring_sum(const void *bytes, uint64_t n)
{
	uint64_t sum = 0xcbf29ce484222325ull ^ n;
	for (uint64_t at = 0; at < n; at += sizeof(uint64_t)) {
		uint64_t word = 0;
		memcpy(&word, (const unsigned char *)bytes + at, n - at < sizeof word ? n - at : sizeof word);
		sum = (sum ^ word) * 0x100000001b3ull;
		sum ^= sum >> 29;
	}
	return sum;
}

/* A memfd of huge pages can be sealed as well, and to read where it has none is a SIGBUS. */
int feed_ring_check(int fd, uint64_t *bytes, struct error *err)
{
	struct stat st;
	struct statfs fs;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || fstatfs(fd, &fs) || fs.f_type != TMPFS)
		return error_set(err, ERR_CORRUPT, "feed: what came is no sealed memory");
	*bytes = (uint64_t)st.st_size;
	return 0;
}

uint64_t feed_ring_number(int fd)
{
	struct stat st;
	return fstat(fd, &st) ? 0 : (uint64_t)st.st_ino;
}

bool feed_ring_valid(const struct feed_ring *ring, uint64_t bytes)
{
	uint64_t data_at;
	return bytes >= sizeof *ring && ring->magic == FEED_RING_MAGIC &&
	       feed_ring_bytes(ring->slots, ring->slot_bytes, &data_at) == bytes && ring->data_at == data_at;
}
