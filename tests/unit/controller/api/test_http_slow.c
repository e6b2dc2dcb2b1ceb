/*
 * Searches that take long: others are answered meanwhile, and a search ends when its client leaves, when its
 * time is over, and when hearthd stops. The failpoint work.slow makes a search last until somebody ends it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/xalloc.h"
#include "controller/io/work.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/http/httpkit.h"

#ifdef HEARTH_FAULTS

static struct hkit *k;

static int search(const char *text)
{
	cleanup_free char *rq = xasprintf("GET /api/v1/jobs?text=%s HTTP/1.1\r\nHost: localhost\r\n"
	                                  "Authorization: Bearer %s\r\n\r\n",
	                                  text, hkit_token(k));
	int fd = raw_connect(k);

	raw_send(fd, rq);
	return fd;
}

static int status_of(const char *path)
{
	struct answer *a = http(k, "GET", path, "admin", NULL, NULL);
	int status = a->status;

	answer_free(a);
	return status;
}

/* Waits until so many searches are on a worker. */
static int slow_ones(unsigned n)
{
	for (int i = 0; i < 1000 && fault_count("work.slow") < n; i++)
		usleep(10000);
	return fault_count("work.slow") >= n;
}

static void test_others(void)
{
	int fds[WORK_THREADS + 1], closed;
	uint64_t begin = hkit_now_us();
	char *text;

	fault_arm("work.slow", 1, WORK_THREADS);
	for (unsigned i = 0; i < WORK_THREADS; i++)
		fds[i] = search("endless");
	ok(slow_ones(WORK_THREADS), "each worker has a search that does not end");
	is_int(status_of("/api/v1/whoami"), 200, "another request is answered");
	is_int(status_of("/api/v1/jobs/1"), 200, "so is one that reads the store");
	ok(hkit_now_us() - begin < WORK_LIMIT_MS * 1000ull, "before the searches end");
	fds[WORK_THREADS] = search("one");
	text = raw_read(fds[WORK_THREADS], "\r\n\r\n", 200, &closed);
	is_str(text, "", "a further search waits");
	free(text);
	for (unsigned i = 0; i < WORK_THREADS; i++)
		close(fds[i]);
	text = raw_read(fds[WORK_THREADS], "null}", 8000, &closed);
	like(text, "200 OK", "until clients leave: their searches end");
	free(text);
	close(fds[WORK_THREADS]);
}

static void test_limit(void)
{
	uint64_t begin = hkit_now_us();
	struct answer *a;

	fault_arm("work.slow", 1, 1);
	a = http(k, "GET", "/api/v1/jobs?text=endless", "admin", NULL, NULL);
	is_int(a->status, 504, "a search ends when its time is over");
	ok(hkit_now_us() - begin >= WORK_LIMIT_MS * 1000ull, "which is %u s", WORK_LIMIT_MS / 1000);
	like(a->body, "narrow it", "and the answer says what to do");
	answer_free(a);
	is_int(status_of("/api/v1/jobs?text=one"), 200, "the next search is answered");
}

static void test_full(void)
{
	enum { N = WORK_QUEUE + WORK_THREADS + 40 };
	int *fds = xcalloc(N, sizeof(int)), closed, refused = 0, status = 0;

	fault_arm("work.slow", 1, N);
	for (int i = 0; i < N; i++)
		fds[i] = search("endless");
	for (int i = N - 1; i >= 0 && refused < 10; i--) {
		char *text = raw_read(fds[i], "\r\n\r\n", 50, &closed);

		refused += strstr(text, " 503 ") != NULL;
		free(text);
	}
	ok(refused >= 10, "searches beyond the queue are refused (%d)", refused);
	is_int(status_of("/api/v1/whoami"), 200, "other requests are answered");
	for (int i = 0; i < N; i++)
		close(fds[i]);
	free(fds);
	fault_clear();
	for (int i = 0; i < 500 && (status = status_of("/api/v1/jobs?text=one")) == 503; i++)
		usleep(10000);
	is_int(status, 200, "when all have left, a search is answered");
}

int main(void)
{
	int fd;

	k = hkit_start(NULL);
	hkit_job(k, 1, "one", "root", "completed", 1);
	test_others();
	test_limit();
	test_full();
	fault_arm("work.slow", 1, 1);
	fd = search("endless");
	slow_ones(1);
	hkit_stop(k);
	ok(1, "hearthd stops with a search under way");
	close(fd);
	return tap_done();
}

#else

int main(void)
{
	tap_skip("built without failpoints");
	return tap_done();
}

#endif
