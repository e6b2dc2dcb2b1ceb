/*
 * lookup: see the header. Thread and loop share one struct, counted; the last of them releases it. The thread
 * writes its result, then the eventfd; the loop reads the eventfd, then the result.
 */
#include "common/net/lookup.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/xalloc.h"

struct shared {
	atomic_uint refs;
	atomic_int done;
	int fd;
	char *host, *port;
	lookup_fn fn;
	int rc;
	struct addrinfo *addrs;
};

struct lookup {
	struct shared *s;
	struct loop_fd *event;
	void (*found)(struct addrinfo *addrs, const struct err *why, void *arg);
	void *arg;
};

static atomic_uint threads; /* that have not come back from the resolver */

unsigned lookup_threads(void)
{
	return atomic_load(&threads);
}

static void release_shared(struct shared *s)
{
	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	if (s->addrs)
		freeaddrinfo(s->addrs);
	close(s->fd);
	free(s->host);
	free(s->port);
	free(s);
}

static void resolve_host(struct shared *s)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};

	s->rc = getaddrinfo(s->host, s->port, &hints, &s->addrs);
	if (s->rc == EAI_NONAME) {
		hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
		s->rc = (s->fn ? s->fn : getaddrinfo)(s->host, s->port, &hints, &s->addrs);
	}
	if (s->rc != 0)
		s->addrs = NULL;
}

static void signal_done(struct shared *s)
{
	const uint64_t one = 1;

	atomic_store(&s->done, 1);
	while (write(s->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void *run_lookup(void *arg)
{
	struct shared *s = arg;

	resolve_host(s);
	atomic_fetch_sub(&threads, 1);
	signal_done(s);
	release_shared(s);
	return NULL;
}

static int is_number(const char *host)
{
	const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST};
	struct addrinfo *a = NULL;
	int rc = getaddrinfo(host, NULL, &hints, &a);

	if (rc == 0)
		freeaddrinfo(a);
	return rc == 0;
}

static int start_thread(struct shared *s, struct err *e)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t t;
	int rc;

	if (atomic_fetch_add(&threads, 1) >= LOOKUP_MAX) {
		atomic_fetch_sub(&threads, 1);
		return err_set(e, ERR_BUSY, "cannot find the host %.200s: %d earlier look-ups have not come back",
		               s->host, LOOKUP_MAX);
	}
	atomic_fetch_add(&s->refs, 1);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&t, &attr, run_lookup, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (rc == 0)
		return 0;
	atomic_fetch_sub(&s->refs, 1);
	atomic_fetch_sub(&threads, 1);
	return err_sys(e, rc, "thread for a look-up");
}

static void on_event(int fd, int what, void *arg)
{
	struct lookup *k = arg;
	struct shared *s = k->s;
	struct addrinfo *addrs = s->addrs;
	void (*found)(struct addrinfo *, const struct err *, void *) = k->found;
	struct err e = {.code = ERR_NONE};
	void *to = k->arg;

	(void)fd;
	(void)what;
	if (!atomic_load(&s->done))
		return;
	s->addrs = NULL;
	if (!addrs)
		err_set(&e, ERR_UNAVAILABLE, "cannot find the host %.200s: %s", s->host, gai_strerror(s->rc));
	lookup_cancel(k);
	found(addrs, &e, to);
}

struct lookup *lookup_start(struct loop *l, const char *host, const char *port, lookup_fn fn,
                            void (*found)(struct addrinfo *addrs, const struct err *why, void *arg),
                            void *arg, struct err *e)
{
	struct lookup *k = xcalloc(1, sizeof(*k));
	struct shared *s = xcalloc(1, sizeof(*s));

	*s = (struct shared){.host = xstrdup(host), .port = xstrdup(port), .fn = fn};
	atomic_init(&s->refs, 1);
	s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	*k = (struct lookup){.s = s, .found = found, .arg = arg};
	if (s->fd < 0)
		err_sys(e, errno, "eventfd");
	else
		k->event = loop_fd_create(l, s->fd, LOOP_READ, on_event, k);
	if (s->fd >= 0 && is_number(host)) {
		resolve_host(s);
		signal_done(s);
		return k;
	}
	if (s->fd >= 0 && start_thread(s, e) == 0)
		return k;
	lookup_cancel(k);
	return NULL;
}

void lookup_cancel(struct lookup *k)
{
	if (!k)
		return;
	loop_fd_destroy(k->event);
	release_shared(k->s);
	free(k);
}
