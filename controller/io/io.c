/*
 * io: starting and ending the I/O threads, and posting to them.
 */
#include "controller/io/io.h"

#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "common/base/xalloc.h"
#include "store/read/reader.h"

#define IN_MAX        65536u
#define SLOW_TURN_US  50000
#define STOP_GRACE_US 300000u /* for answers that are being written when hearthd ends */

/* ---- messages from other threads -------------------------------------------------------------- */

struct io_msg {
	io_fn fn;
	void *arg;
	void (*drop)(void *arg);
};

int io_post(struct io *io, io_fn fn, void *arg, void (*drop)(void *arg))
{
	struct io_msg *m = xmalloc(sizeof(*m));

	m->fn = fn;
	m->arg = arg;
	m->drop = drop;
	if (chan_send(io->in, m) == 0)
		return 0;
	free(m);
	return -1;
}

void io_post_wait(struct io *io, io_fn fn, void *arg, void (*drop)(void *arg))
{
	const struct timespec pause = {0, 1000000};

	while (io_post(io, fn, arg, drop) < 0) {
		if (atomic_load(&io->set->stopping)) {
			drop(arg);
			return;
		}
		nanosleep(&pause, NULL); /* the caller's loop serves only others that would find the same */
	}
}

static void on_io_msg(void *msg, void *arg)
{
	struct io_msg *m = msg;

	m->fn(arg, m->arg);
	free(m);
}

static void drop_io_msg(void *msg)
{
	struct io_msg *m = msg;

	if (m->drop)
		m->drop(m->arg);
	free(m);
}

/* ---- one thread ------------------------------------------------------------------------------- */

static void *run_thread(void *arg)
{
	struct io *io = arg;

	loop_run(io->loop);
	return NULL;
}

static void end_thread(void *arg)
{
	struct io *io = arg;

	loop_stop(io->loop);
}

static void stop_thread(struct io *io, void *arg)
{
	(void)arg;
	if (io->http)
		http_stop_accepting(io->http);
	io->set->cfg.ops.stop(io, io->set->cfg.ops.arg);
	io->end = loop_timer_create(io->loop, end_thread, io);
	loop_timer_arm(io->end, STOP_GRACE_US);
}

/* Connections that one I/O thread may have, from what the system allows. */
static unsigned max_conns(const struct io_set *s)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur == RLIM_INFINITY || r.rlim_cur > 65536)
		return 8192 / s->n;
	return r.rlim_cur > 512 ? (unsigned)(r.rlim_cur - 256) / 2 / s->n : 64;
}

static int open_http(struct io *io, struct err *e)
{
	struct io_set *s = io->set;
	struct http_config c = {.tcp_fd = s->cfg.tcp_fd,
	                        .unix_fd = s->cfg.unix_fd,
	                        .ssl = s->cfg.ssl,
	                        .max_conns = max_conns(s),
	                        .loop = io->loop,
	                        .count = &io->count};

	io->reader = store_reader_open(s->db_path, e);
	if (!io->reader)
		return -1;
	io->http = http_create(&c, s->cfg.ops.on_call, io, e);
	return io->http ? 0 : -1;
}

static int prepare_thread(struct io_set *s, unsigned index, struct err *e)
{
	struct io *io = &s->io[index];

	io->loop = loop_create();
	loop_set_slow_warn(io->loop, SLOW_TURN_US);
	io->in = chan_create(io->loop, IN_MAX, 0, on_io_msg, io);
	if (io_serves_http(io) && open_http(io, e) < 0)
		return -1;
	s->cfg.ops.begin(io, s->cfg.ops.arg);
	return 0;
}

static int start_thread(struct io *io, struct err *e)
{
	sigset_t all, old;
	int rc;

	/* Signals are the state thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&io->thread, NULL, run_thread, io);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return err_sys(e, rc, "I/O thread");
	pthread_setname_np(io->thread, io_serves_http(io) ? "hearthd-io" : "hearthd-agents");
	io->started = 1;
	return 0;
}

static void free_thread(struct io *io)
{
	if (!io->loop)
		return;
	io->set->cfg.ops.end(io, io->set->cfg.ops.arg);
	chan_destroy(io->in, drop_io_msg);
	http_destroy(io->http);
	loop_run_once(io->loop, 0); /* runs what the above deferred to the end of the turn */
	store_reader_close(io->reader);
	loop_timer_destroy(io->end);
	loop_destroy(io->loop);
}

/* ---- all of them ------------------------------------------------------------------------------ */

struct io_set *io_set_create(const struct io_config *c)
{
	struct io_set *s = xcalloc(1, sizeof(*s));

	s->cfg = *c;
	s->n = c->n ? c->n : 2;
	if (s->n > IO_MAX)
		s->n = IO_MAX;
	s->all = s->n + IO_AGENTS;
	s->cfg.db_path = s->db_path = xstrdup(c->db_path);
	for (unsigned i = 0; i < s->all; i++) {
		s->io[i].set = s;
		s->io[i].index = i;
	}
	return s;
}

int io_set_start(struct io_set *s, struct err *e)
{
	/* All are prepared first: a running thread may read what belongs to another one. */
	for (unsigned i = 0; i < s->all; i++)
		if (prepare_thread(s, i, e) < 0)
			return -1;
	for (unsigned i = 0; i < s->all; i++)
		if (start_thread(&s->io[i], e) < 0)
			return -1;
	return 0;
}

void io_set_stop(struct io_set *s)
{
	atomic_store(&s->stopping, 1);
	for (unsigned i = 0; i < s->all; i++) {
		struct io_msg *m;

		if (!s->io[i].started)
			continue;
		m = xcalloc(1, sizeof(*m));
		m->fn = stop_thread;
		chan_send_wait(s->io[i].in, m);
	}
	for (unsigned i = 0; i < s->all; i++)
		if (s->io[i].started)
			pthread_join(s->io[i].thread, NULL);
}

void io_set_destroy(struct io_set *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->all; i++)
		free_thread(&s->io[i]);
	free(s->db_path);
	free(s);
}
