/*
 * chan: a ring under a mutex; the eventfd is written only when the ring was empty, so that a burst costs
 * one wake-up. The mutex is held for a few instructions and never while a callback runs.
 */
#include "common/os/chan.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/loop.h"

struct chan {
	void (*cb)(void *msg, void *arg);
	void *arg;
	size_t batch;
	int event_fd;
	struct loop_fd *watch;
	int in_callback, destroyed; /* loop's thread only */

	pthread_mutex_t lock;
	pthread_cond_t room;
	void **ring;
	size_t capacity, head, length;
};

static void wake_reader(struct chan *c)
{
	const uint64_t one = 1;

	/* Cannot fail but for EINTR: the counter never comes near its end. */
	while (write(c->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		continue;
}

/* NULL when empty, with *left what remains. */
static void *pop_message(struct chan *c, size_t *left)
{
	void *msg = NULL;

	pthread_mutex_lock(&c->lock);
	if (c->length) {
		msg = c->ring[c->head];
		c->head = (c->head + 1) % c->capacity;
		c->length--;
		pthread_cond_signal(&c->room);
	}
	*left = c->length;
	pthread_mutex_unlock(&c->lock);
	return msg;
}

static void release_chan(struct chan *c)
{
	close(c->event_fd);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->room);
	free(c->ring);
	free(c);
}

static void on_event(int fd, int what, void *arg)
{
	struct chan *c = arg;
	uint64_t count;
	size_t left = 0;
	void *msg;

	(void)what;
	/* Before the first pop: a message that comes later writes again. */
	if (read(fd, &count, sizeof(count)) < 0 && errno != EAGAIN && errno != EINTR)
		log_error("event=chan_read_failed errno=%d", errno);
	c->in_callback = 1;
	for (size_t i = 0; i < c->batch && !c->destroyed && (msg = pop_message(c, &left)); i++)
		c->cb(msg, c->arg);
	c->in_callback = 0;
	if (c->destroyed)
		release_chan(c);
	else if (left)
		wake_reader(c);
}

struct chan *chan_create(struct loop *l, size_t capacity, size_t batch, void (*cb)(void *msg, void *arg),
                         void *arg)
{
	struct chan *c = xcalloc(1, sizeof(*c));

	c->cb = cb;
	c->arg = arg;
	c->batch = batch ? batch : 256;
	c->capacity = capacity ? capacity : 1;
	c->ring = xcalloc(c->capacity, sizeof(*c->ring));
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->room, NULL);
	c->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->event_fd < 0) {
		log_error("event=chan_create_failed errno=%d", errno);
		abort();
	}
	c->watch = loop_fd_create(l, c->event_fd, LOOP_READ, on_event, c);
	return c;
}

void chan_destroy(struct chan *c, void (*drop)(void *msg))
{
	size_t left;
	void *msg;

	if (!c)
		return;
	while ((msg = pop_message(c, &left)))
		if (drop)
			drop(msg);
	loop_fd_destroy(c->watch);
	c->destroyed = 1;
	if (!c->in_callback)
		release_chan(c);
}

/* With the lock held and room left. */
static void push_message(struct chan *c, void *msg)
{
	c->ring[(c->head + c->length) % c->capacity] = msg;
	if (c->length++ == 0)
		wake_reader(c);
}

int chan_send(struct chan *c, void *msg)
{
	int rc = -1;

	if (FAULT("chan.send"))
		return -1;
	pthread_mutex_lock(&c->lock);
	if (c->length < c->capacity) {
		push_message(c, msg);
		rc = 0;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void chan_send_wait(struct chan *c, void *msg)
{
	pthread_mutex_lock(&c->lock);
	while (c->length == c->capacity)
		pthread_cond_wait(&c->room, &c->lock);
	push_message(c, msg);
	pthread_mutex_unlock(&c->lock);
}

size_t chan_length(struct chan *c)
{
	size_t n;

	pthread_mutex_lock(&c->lock);
	n = c->length;
	pthread_mutex_unlock(&c->lock);
	return n;
}
