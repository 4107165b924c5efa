/* SPDX-License-Identifier: MIT */
#include "feed/wire.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HELLO_MAGIC = 0x31484446, ANSWER_MAGIC = 0x31414446, KEEP_MAGIC = 0x314b4446 };	/* "FDH1", "FDA1", "FDK1" */

struct hello_head {
	uint32_t magic, join;
	uint64_t token, want;
	uint32_t length, zero;
};

struct keep_head {
	uint32_t magic, offers;
	uint64_t ring;
	uint32_t length, zero;
};

struct answer_head {
	uint32_t magic, welcome, reader, code, length;
};

size_t feed_wire_put_hello(const struct feed_hello *hello, unsigned char out[FEED_WIRE_MAX])
{
	struct hello_head head = { .magic = HELLO_MAGIC, .join = hello->join, .token = hello->token, .want = hello->want };
	head.length = (uint32_t)strnlen(hello->sign, FEED_SIGN_MAX);
	memcpy(out, &head, sizeof head);
	memcpy(out + sizeof head, hello->sign, head.length);
	return sizeof head + head.length;
}

size_t feed_wire_put_keep(const struct feed_keep *keep, unsigned char out[FEED_WIRE_MAX])
{
	struct keep_head head = { .magic = KEEP_MAGIC, .offers = keep->offers, .ring = keep->ring };
	head.length = (uint32_t)strnlen(keep->key, FEED_KEY_MAX);
	memcpy(out, &head, sizeof head);
	memcpy(out + sizeof head, keep->key, head.length);
	return sizeof head + head.length;
}

size_t feed_wire_put_answer(const struct feed_answer *answer, unsigned char out[FEED_WIRE_MAX])
{
	struct answer_head head = { ANSWER_MAGIC, answer->welcome, answer->reader, answer->code, 0 };
	head.length = (uint32_t)strnlen(answer->text, sizeof answer->text - 1);
	memcpy(out, &head, sizeof head);
	memcpy(out + sizeof head, answer->text, head.length);
	return sizeof head + head.length;
}

/* The rest of a message as text: of that length, without a zero byte in it. */
static int get_text(const unsigned char *bytes, size_t n, size_t length, char *text, size_t size)
{
	if (n != length || length >= size || memchr(bytes, 0, length))
		return -1;
	memcpy(text, bytes, length);
	text[length] = 0;
	return 0;
}

int feed_wire_get_hello(const unsigned char *bytes, size_t n, struct feed_hello *hello)
{
	struct hello_head head;
	if (n < sizeof head)
		return -1;
	memcpy(&head, bytes, sizeof head);
	if (head.magic != HELLO_MAGIC || head.join > FEED_JOIN_NOW || head.zero)
		return -1;
	hello->token = head.token;
	hello->want = head.want;
	hello->join = head.join;
	return get_text(bytes + sizeof head, n - sizeof head, head.length, hello->sign, sizeof hello->sign);
}

int feed_wire_get_keep(const unsigned char *bytes, size_t n, struct feed_keep *keep)
{
	struct keep_head head;
	if (n < sizeof head)
		return -1;
	memcpy(&head, bytes, sizeof head);
	if (head.magic != KEEP_MAGIC || head.offers > 1 || head.zero)
		return -1;
	keep->ring = head.ring;
	keep->offers = head.offers;
	return get_text(bytes + sizeof head, n - sizeof head, head.length, keep->key, sizeof keep->key);
}

int feed_wire_get_answer(const unsigned char *bytes, size_t n, struct feed_answer *answer)
{
	struct answer_head head;
	if (n < sizeof head)
		return -1;
	memcpy(&head, bytes, sizeof head);
	if (head.magic != ANSWER_MAGIC || head.welcome > 1 || head.reader >= FEED_READERS_MAX || head.code > ERR_INTERNAL)
		return -1;
	answer->welcome = head.welcome;
	answer->reader = head.reader;
	answer->code = head.code;
	return get_text(bytes + sizeof head, n - sizeof head, head.length, answer->text, sizeof answer->text);
}

int feed_wire_send(int sock, const void *bytes, size_t n, const int *fds, size_t count)
{
	struct iovec part = { (void *)bytes, n };
	_Alignas(struct cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };
	if (count) {
		msg.msg_control = room;
		msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

/* Two descriptors into fds; any other number is closed, and all are where none are wanted. */
static void take_fds(struct msghdr *msg, int *fds)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			if (fds && count == 2 && fds[i] < 0)
				fds[i] = fd;
			else
				close(fd);
		}
	}
}

ssize_t feed_wire_receive(int sock, void *bytes, size_t size, int *fds)
{
	struct iovec part = { bytes, size };
	_Alignas(struct cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))];
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
	if (fds)
		fds[0] = fds[1] = -1;
	ssize_t n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n >= 0)
		take_fds(&msg, fds);
	return n;
}
