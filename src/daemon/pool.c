/* SPDX-License-Identifier: MIT
 * See pool.h. Whether so many threads can be had is tried with some that do nothing, since libuv does not say it.
 */
#include "daemon/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <uv.h>

#define THREADS 4	/* of the pool, where UV_THREADPOOL_SIZE says nothing else */

static void *wait_there(void *gate)
{
	pthread_mutex_lock(gate);
	pthread_mutex_unlock(gate);
	return NULL;
}

static int try_threads(struct error *err)
{
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	pthread_t threads[THREADS];
	size_t n = 0;
	int failed = 0;
	pthread_mutex_lock(&gate);
	while (n < THREADS && !(failed = pthread_create(&threads[n], NULL, wait_there, &gate)))
		n++;
	pthread_mutex_unlock(&gate);
	for (size_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	errno = failed;
	return failed ? error_errno(err, "no thread can be made: this user has too many processes, or radd may have too little memory "
				    "(ulimit -u, -v)") : 0;
}

static void nothing(uv_work_t *work)
{
	(void)work;
}

int pool_begin(struct error *err)
{
	uv_loop_t loop;
	uv_work_t work;
	if (try_threads(err))
		return -1;
	int failed = uv_loop_init(&loop);
	if (failed)
		return error_set(err, ERR_UNAVAILABLE, "a loop for threads: %s", uv_strerror(failed));
	uv_queue_work(&loop, &work, nothing, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	return 0;
}
