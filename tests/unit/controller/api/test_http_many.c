/*
 * Crowds: a thousand idle connections while others work, TLS, and requests from many threads.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/http/httpkit.h"

static struct hkit *k;
static _Atomic unsigned good;

static void *run_worker(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 50; i++) {
		struct answer *a = http(k, i % 2 ? "GET" : "POST", i % 2 ? "/api/v1/jobs/1" : "/api/v1/jobs/1/stop",
		                        "admin", i % 2 ? NULL : "{}", NULL);

		if (a->status == 200)
			atomic_fetch_add(&good, 1);
		answer_free(a);
	}
	return NULL;
}

static void test_idle(void)
{
	enum { N = 1000 };
	int *fds = xcalloc(N, sizeof(int)), i, closed, alive = 0;
	struct rlimit r;
	struct answer *a;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < 3000) {
		tap_skip("fewer than 3,000 descriptors are allowed");
		free(fds);
		return;
	}
	for (i = 0; i < N; i++)
		fds[i] = raw_connect(k);
	a = http(k, "GET", "/api/v1/whoami", "admin", NULL, NULL);
	is_int(a->status, 200, "a request beside 1,000 idle connections");
	answer_free(a);
	for (i = 0; i < N; i += 100) {
		char *text;

		raw_send(fds[i], "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
		text = raw_read(fds[i], NULL, 5000, &closed);
		alive += closed && strstr(text, "200 OK") != NULL;
		free(text);
	}
	is_int(alive, N / 100, "they are still served");
	for (i = 0; i < N; i++)
		close(fds[i]);
	free(fds);
}

static void test_threads(void)
{
	pthread_t t[8];
	int i;

	for (i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, run_worker, NULL);
	for (i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	is_int(atomic_load(&good), 400, "400 requests from 8 threads");
}

static void test_tls(void)
{
	struct hkit_options o = {.listen = "0.0.0.0:0"};
	struct answer *a;
	int fd, closed;
	char *text;

	k = hkit_start(&o);
	a = http(k, "GET", "/api/v1/whoami", "admin", NULL, NULL);
	ok(a->status == 200, "off loopback with TLS: %d %s", a->status, a->problem);
	answer_free(a);
	a = http(k, "POST", "/api/v1/login", NULL, "{\"token\":\"x\"}", NULL);
	is_int(a->status, 401, "and answers");
	answer_free(a);
	fd = raw_connect(k);
	raw_send(fd, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
	text = raw_read(fd, NULL, 5000, &closed);
	ok(closed && !strstr(text, "HTTP/1.1 200"), "never plain there");
	free(text);
	close(fd);
	a = http(k, "GET", "/api/v1/whoami", "unix", NULL, NULL);
	ok(a->status == 0 || a->status == 200, "the unix socket is plain");
	answer_free(a);
	hkit_stop(k);
}

/* What makes a start impossible is said, and nothing of the half-started server stays. */
static void test_failed_starts(void)
{
	static const struct {
		const char *listen, *says;
	} cases[] = {{"nonsense", "HOST:PORT"},
	             {"127.0.0.1:99999", "HOST:PORT"},
	             {"256.0.0.1:0", "256.0.0.1"},
	             {NULL, "in use"},
	             {"0.0.0.0:0", "authority"}};
	struct loop *loop = loop_create();
	char *busy = xasprintf("127.0.0.1:%u", hkit_port(k)), *dir = xasprintf("%s/other", tap_tmpdir());
	struct server_config c = {.data_dir = dir};
	struct server_ops ops = {0};
	struct err e;
	unsigned i;

	fs_mkdir_p(dir, 0700, &e);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		c.listen = cases[i].listen ? cases[i].listen : busy;
		ok(!server_start(&c, loop, &ops, &e) && strstr(e.text, cases[i].says), "listening on %s: %s",
		   c.listen, e.text);
	}
	loop_destroy(loop);
	free(busy);
	free(dir);
}

int main(void)
{
	k = hkit_start(NULL);
	hkit_job(k, 1, "digits", NULL, "queued", 0);
	test_idle();
	test_threads();
	test_failed_starts();
	hkit_stop(k);
	test_tls();
	return tap_done();
}
