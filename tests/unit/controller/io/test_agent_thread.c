/*
 * The thread of agents' control connections: a beat is answered while a user's request holds the only thread
 * that serves HTTP, over plain TCP and over TLS. Connections that ask for the upgrade and then prove nothing
 * keep nobody out, and their number is bounded.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/http/httpagent.h"

#define FILES  1256 /* that hearthd may open: 500 connections */
#define SILENT 900
#define BEATS  2000

static struct hkit *k;
static _Atomic unsigned n_beats, out_of_order;

static void on_agent_msg(struct hkit *kit, const char *node, uint64_t session, uint16_t type, uint64_t id,
                         void *msg)
{
	struct wm_ack ack = {.acked = id};

	if (type == WM_BEAT) {
		if (((struct wm_beat *)msg)->seq != atomic_fetch_add(&n_beats, 1) + 1)
			atomic_fetch_add(&out_of_order, 1);
		server_send_agent(hkit_server(kit), node, session, WM_ACK, &ack, id);
	}
	wire_free(type, msg);
}

/* 1: the answer to this beat came. */
static int beat(struct hagent *a, uint64_t seq)
{
	struct wm_beat b = {.boot_us = 1, .seq = seq};
	struct wm_ack *ack;
	uint64_t id = 0;

	hagent_send(a, WM_BEAT, &b, seq);
	ack = hagent_expect(a, WM_ACK, &id, 10000);
	wire_free(WM_ACK, ack);
	return ack && id == seq;
}

#ifdef HEARTH_FAULTS
static void *ask_slow(void *arg)
{
	*(struct answer **)arg = http(k, "GET", "/api/v1/whoami", "admin", NULL, NULL);
	return NULL;
}

/* The only thread that serves HTTP is in a user's request, and the request goes on after the beat. */
static void test_held(struct hagent *a)
{
	struct answer *slow = NULL;
	uint64_t begin = hkit_now_us();
	pthread_t t;

	fault_clear();
	fault_arm("http.hold", 1, 1);
	pthread_create(&t, NULL, ask_slow, &slow);
	while (fault_count("http.hold") < 1 && hkit_now_us() < begin + 10000000)
		poll(NULL, 0, 1);
	begin = hkit_now_us();
	ok(beat(a, BEATS + 1), "a beat is answered while a user's request holds the HTTP thread");
	ok(hkit_now_us() - begin < 1500000, "the beat does not wait for that request");
	pthread_join(t, NULL);
	ok(slow && slow->status == 200 && hkit_now_us() - begin > 1500000, "the request was still in work then");
	answer_free(slow);
	fault_clear();
}
#endif

static void test_beats(struct hagent *a)
{
	struct wm_beat b = {.boot_us = 1};
	uint64_t end = hkit_now_us() + 20000000;

	for (uint64_t i = 1; i <= BEATS; i++) {
		b.seq = i;
		hagent_send(a, WM_BEAT, &b, i);
	}
	while (atomic_load(&n_beats) < BEATS && hkit_now_us() < end)
		poll(NULL, 0, 2);
	is_int(atomic_load(&n_beats), BEATS, "all beats arrive after the move to the agents' thread");
	is_int(atomic_load(&out_of_order), 0, "in order");
	for (uint64_t i = 1; i <= BEATS; i++)
		wire_free(WM_ACK, hagent_expect(a, WM_ACK, NULL, 10000));
}

static void close_session(struct hkit *kit, void *arg)
{
	server_close_agent(hkit_server(kit), "alpha", *(uint64_t *)arg, "test");
}

static void test_move(const char *listen)
{
	struct hkit_options o = {.listen = listen, .io_threads = 1, .on_agent_msg = on_agent_msg};
	struct hagent *c, *b;
	uint64_t session;

	atomic_store(&n_beats, 0);
	k = hkit_start(&o);
	hagent_join(k, "alpha", 1);
	c = hagent_dial(k, "alpha", ROLE_CONTROL);
	b = hagent_dial(k, "alpha", ROLE_BULK);
	ok(hagent_wait_open(c, 5000) == 1 && hagent_wait_open(b, 5000) == 1, "%s: both connections open",
	   hkit_url(k));
	session = hagent_session(c);
	ok((session & 0xff) != (hagent_session(b) & 0xff), "the control connection has a thread of its own");
	test_beats(c);
#ifdef HEARTH_FAULTS
	test_held(c);
#endif
	hkit_call(k, close_session, &session);
	ok(hagent_wait_closed(c, 5000) && hagent_wait_closed(b, 5000),
	   "hearthd closes a connection that has moved");
	hagent_close(c);
	c = hagent_dial(k, "alpha", ROLE_CONTROL);
	ok(hagent_wait_open(c, 5000) == 1, "the next one opens");
	hkit_stop(k);
	ok(hagent_wait_closed(c, 5000), "the end of hearthd ends it");
	hagent_close(c);
	hagent_close(b);
}

/* Many agents come and go at once; hearthd stops in the midst of their moves. */
static void test_stop(void)
{
	struct hkit_options o = {.listen = "0.0.0.0:0", .io_threads = 2};
	struct hagent *many[40];

	k = hkit_start(&o);
	hagent_join(k, "alpha", 1);
	for (unsigned i = 0; i < 40; i++)
		many[i] = hagent_dial(k, "alpha", ROLE_CONTROL);
	hagent_wait_open(many[5], 5000);
	hkit_stop(k);
	for (unsigned i = 0; i < 40; i++) {
		ok(hagent_wait_closed(many[i], 15000), "connection %u ends with hearthd", i);
		hagent_close(many[i]);
	}
}

/* ---- connections between the upgrade and the proof ---------------------------------------------- */

static void upgrade(int fd)
{
	raw_send(fd, "GET /agent/v1 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
	             "Upgrade: hearth-agent/1\r\n\r\n");
	free(raw_read(fd, "\r\n\r\n", 5000, NULL));
}

static int is_closed(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0;
}

/* A process that opens connections, upgrades them and says nothing more. It writes how many are open. */
static pid_t crowd(int *out)
{
	int fds[SILENT], pipe_fds[2], left = 0;
	pid_t pid;

	if (pipe(pipe_fds) < 0)
		tap_bail("pipe");
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < SILENT; i++) {
			fds[i] = raw_connect(k);
			upgrade(fds[i]);
		}
		usleep(200000);
		for (int i = 0; i < SILENT; i++)
			left += !is_closed(fds[i]);
		if (write(pipe_fds[1], &left, sizeof(left)) == sizeof(left))
			pause();
		_exit(0);
	}
	close(pipe_fds[1]);
	*out = pipe_fds[0];
	return pid;
}

static void test_crowd(void)
{
	int out, left = -1, status;
	struct answer *a;
	struct hagent *c;
	pid_t pid;

	k = hkit_start(&(struct hkit_options){.io_threads = 1, .on_agent_msg = on_agent_msg});
	atomic_store(&n_beats, 0);
	hagent_join(k, "alpha", 1);
	c = hagent_dial(k, "alpha", ROLE_CONTROL);
	ok(hagent_wait_open(c, 5000) == 1, "an agent is connected");
	pid = crowd(&out);
	ok(read(out, &left, sizeof(left)) == sizeof(left), "%d silent connections were upgraded", SILENT);
	ok(left > 0 && left <= 250, "hearthd holds no more of them than of other strangers: %d", left);
	a = http(k, "GET", "/api/v1/whoami", "admin", NULL, NULL);
	is_int(a->status, 200, "a user is answered");
	answer_free(a);
	ok(beat(c, 1), "the agent that has proved its node keeps its connection");
	hagent_close(c);
	c = hagent_dial(k, "alpha", ROLE_CONTROL);
	ok(hagent_wait_open(c, 5000) == 1, "an agent connects beside them");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(out);
	hkit_stop(k);
	hagent_close(c);
}

int main(void)
{
	struct rlimit r;

	test_move(NULL);
	test_move("0.0.0.0:0");
	test_stop();
	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_max < FILES)
		tap_bail("too few descriptors are allowed");
	r.rlim_cur = r.rlim_max = FILES;
	setrlimit(RLIMIT_NOFILE, &r);
	test_crowd();
	return tap_done();
}
