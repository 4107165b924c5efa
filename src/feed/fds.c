/* SPDX-License-Identifier: MIT */
#include "feed/fds.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

enum { FDS_MAX = 1024 };

static pthread_mutex_t fds_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fds_once = PTHREAD_ONCE_INIT;
static int fds[FDS_MAX];	/* fd + 1; 0: free */

static void before_fork(void)
{
	pthread_mutex_lock(&fds_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&fds_lock);
}

static void in_child(void)
{
	for (int i = 0; i < FDS_MAX; i++) {
		if (fds[i])
			close(fds[i] - 1);
		fds[i] = 0;
	}
	pthread_mutex_unlock(&fds_lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

int feed_fds_own(int fd)
{
	if (fd < 0)
		return fd;
	pthread_once(&fds_once, watch_forks);
	pthread_mutex_lock(&fds_lock);
	int i = 0;
	while (i < FDS_MAX && fds[i])
		i++;
	if (i < FDS_MAX)
		fds[i] = fd + 1;
	pthread_mutex_unlock(&fds_lock);
	if (i < FDS_MAX)
		return fd;
	close(fd);
	errno = EMFILE;
	return -1;
}

void feed_fds_close(int *fd)
{
	if (*fd < 0)
		return;
	pthread_mutex_lock(&fds_lock);
	for (int i = 0; i < FDS_MAX; i++) {
		if (fds[i] != *fd + 1)
			continue;
		fds[i] = 0;
		close(*fd);
		break;
	}
	pthread_mutex_unlock(&fds_lock);
	*fd = -1;
}
