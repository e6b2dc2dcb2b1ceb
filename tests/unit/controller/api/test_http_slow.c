/*
 * Searches that take long: others are answered meanwhile, and a search ends when its client leaves, when its
 * time is over, and when hearthd stops. The failpoint work.slow makes a search last until somebody ends it.
 */
#include <linux/securebits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "controller/io/work.h"
#include "store/store.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/http/httpkit.h"

#ifdef HEARTH_FAULTS

#define UNKNOWN_UID 64321 /* of no account */

static struct hkit *k;

/* Makes a user. His token is his name. */
static void add_user(const char *name)
{
	struct store_txn *t = store_txn_new();
	char hash[HASH_HEX_SIZE];
	struct token_row row = {.id = (char *)(uintptr_t)name,
	                        .kind = (char *)(uintptr_t) "user",
	                        .secret_hash = hash,
	                        .owner = (char *)(uintptr_t)name,
	                        .created_us = 1};

	hash_hex(name, strlen(name), hash);
	store_txn_token(t, &row);
	hkit_commit(k, t);
}

static int ask_by(const char *token, const char *path)
{
	cleanup_free char *rq = xasprintf("GET %s HTTP/1.1\r\nHost: localhost\r\n"
	                                  "Authorization: Bearer %s\r\n\r\n",
	                                  path, token);
	int fd = raw_connect(k);

	raw_send(fd, rq);
	return fd;
}

static int search_by(const char *token, const char *text)
{
	cleanup_free char *path = xasprintf("/api/v1/jobs?text=%s", text);

	return ask_by(token, path);
}

static int search(const char *text)
{
	return search_by(hkit_token(k), text);
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
		fds[i] = i < WORK_USER_THREADS ? search("endless") : search_by("ada", "endless");
	ok(slow_ones(WORK_THREADS), "each worker has a search that does not end");
	is_int(status_of("/api/v1/whoami"), 200, "another request is answered");
	is_int(status_of("/api/v1/jobs/1"), 200, "so is one that reads the store");
	ok(hkit_now_us() - begin < WORK_LIMIT_MS * 1000ull, "before the searches end");
	fds[WORK_THREADS] = search_by("bob", "one");
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

/* Status of a call over the unix socket from an account that does not exist. */
static int unknown_status(void)
{
	int fds[2], status = 0, fd;
	char *text;
	pid_t pid;

	if (pipe(fds) < 0 || (pid = fork()) < 0)
		tap_bail("pipe, fork");
	if (pid == 0) {
		/* The folder is closed to others, so root's rights stay. */
		if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 || setuid(UNKNOWN_UID) < 0)
			_exit(1);
		fd = raw_unix(k);
		raw_send(fd, "GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\n\r\n");
		text = raw_read(fd, "\r\n\r\n", 8000, NULL);
		status = strlen(text) > 12 ? atoi(text + 9) : 0;
		_exit(write(fds[1], &status, sizeof(status)) != sizeof(status));
	}
	close(fds[1]);
	if (read(fds[0], &status, sizeof(status)) != sizeof(status))
		status = -1;
	close(fds[0]);
	waitpid(pid, NULL, 0);
	return status;
}

/* A slow name service delays its caller only, also where searches have all workers. */
static void test_names(void)
{
	int fd = raw_unix(k), searches[WORK_THREADS];
	uint64_t begin;
	char *text;

	fault_clear();
	fault_arm("work.slow", 2, WORK_THREADS); /* the first one is the look-up's own */
	fault_arm("auth.slow_name", 1, 1);
	raw_send(fd, "GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\n\r\n");
	for (int i = 0; i < 1000 && fault_count("auth.slow_name") < 1; i++)
		usleep(10000);
	begin = hkit_now_us();
	for (unsigned i = 0; i < WORK_THREADS; i++)
		searches[i] = i < WORK_USER_THREADS ? search("endless") : search_by("ada", "endless");
	is_int(status_of("/api/v1/whoami"), 200, "another request is answered during a look-up of an account");
	ok(hkit_now_us() - begin < 2000000, "at once");
	text = raw_read(fd, "}", 8000, NULL);
	like(text, "200 OK", "the caller is answered when his account is known");
	free(text);
	for (unsigned i = 0; i < WORK_THREADS; i++)
		close(searches[i]);
	raw_send(fd, "GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\n\r\n");
	text = raw_read(fd, "}", 8000, NULL);
	like(text, "200 OK", "his next call is answered, too");
	free(text);
	is_int(fault_count("auth.slow_name"), 1, "without another look-up");
	close(fd);
	if (geteuid() == 0) {
		is_int(unknown_status(), 401, "an account that does not exist is refused");
		is_int(unknown_status(), 401, "again");
		is_int(fault_count("auth.slow_name"), 2, "the second time from memory");
	}
	fault_clear();
}

/* All that a user can make large or slow runs on workers, and ends when its client leaves. */
static void test_kinds(void)
{
	static const char *const paths[] = {
	    "/api/v1/jobs?text=endless",
	    "/api/v1/jobs/resolve?ref=one",
	    "/api/v1/jobs/1",
	    "/api/v1/jobs/1/attempts",
	    "/api/v1/jobs/1/members",
	    "/api/v1/jobs/1/metrics",
	    "/api/v1/jobs/1/metrics/loss",
	    "/api/v1/jobs/1/artifacts/code",
	    "/api/v1/jobs/1/artifacts/code?manifest=1",
	    "/api/v1/jobs/1/artifacts/code/train.py",
	    "/api/v1/blobs/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855?job=1&kind=code",
	    "/api/v1/cost",
	    "/api/v1/trace",
	    "/api/v1/trace/last",
	};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		uint64_t begin;
		int fd;

		fault_clear();
		fault_arm("work.slow", 1, 1);
		fault_arm("work.large", 1, 1);
		fd = ask_by(hkit_token(k), paths[i]);
		ok(slow_ones(1), "a worker answers %s", paths[i]);
		begin = hkit_now_us();
		is_int(status_of("/api/v1/whoami"), 200, "another request is answered meanwhile");
		close(fd);
		/* One user has two workers: a later question shows that the earlier ones ended with their clients. */
		ok(hkit_now_us() - begin < WORK_LIMIT_MS * 1000ull / 2, "without waiting for it");
	}
	fault_clear();
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

/* Sends the search of a user, and returns the status of its answer; 0: none came in time. */
static int answer_within(const char *token, const char *text, unsigned ms)
{
	int fd = search_by(token, text), closed, status;
	cleanup_free char *answer = raw_read(fd, "\r\n\r\n", ms, &closed);

	status = strlen(answer) > 12 ? atoi(answer + 9) : 0;
	close(fd);
	return status;
}

/* A user with many slow searches: others have their turn, and his own wait no longer than the limit. */
static void test_turns(void)
{
	int fds[WORK_USER_QUEUE], closed, late;
	uint64_t begin;
	char *text;

	fault_arm("work.slow", 1, WORK_USER_THREADS);
	for (unsigned i = 0; i + 1 < WORK_USER_QUEUE; i++)
		fds[i] = search_by("ada", "endless");
	ok(slow_ones(WORK_USER_THREADS), "a user has slow searches on workers and others that wait");
	is_int(answer_within("bob", "one", 3000), 200, "the search of another user is answered meanwhile");
	sleep(2);
	fault_arm("work.slow", 1, WORK_USER_QUEUE);
	begin = hkit_now_us();
	late = search_by("ada", "endless");
	text = raw_read(late, "\r\n\r\n", 25000, &closed);
	like(text, " 504 ", "a search that waited long ends with 504");
	ok(hkit_now_us() - begin < (WORK_LIMIT_MS + 1500) * 1000ull, "its limit counts from its arrival: %.1f s",
	   (double)(hkit_now_us() - begin) / 1e6);
	free(text);
	close(late);
	for (unsigned i = 0; i + 1 < WORK_USER_QUEUE; i++)
		close(fds[i]);
	fault_clear();
}

static unsigned fill(const char *token, int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fds[i] = search_by(token, "endless");
	return n;
}

/* Waits until the search of a user is answered. */
static int status_when_free(const char *token)
{
	int status = 0;

	for (int i = 0; i < 500 && (status = answer_within(token, "one", 5000)) != 200; i++)
		usleep(10000);
	return status;
}

static void test_full(void)
{
	enum { USERS = WORK_QUEUE / WORK_USER_QUEUE };
	static int fds[WORK_QUEUE];
	unsigned n = 0;
	int extra, closed;
	char *text;

	fault_arm("work.slow", 1, WORK_QUEUE);
	n += fill("ada", fds, WORK_USER_QUEUE);
	slow_ones(WORK_USER_THREADS);
	usleep(200000);
	extra = search_by("ada", "endless");
	text = raw_read(extra, "}", 2000, &closed);
	like(text, " 429 ", "a user with too many searches is refused");
	like(text, "Retry-After: ", "with a time to try again");
	like(text, "you have 32 searches", "and the reason");
	free(text);
	close(extra);
	for (unsigned i = 1; i < USERS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "user%u", i);
		add_user(name);
		n += fill(name, fds + n, WORK_USER_QUEUE);
	}
	usleep(500000);
	is_int(answer_within("bob", "endless", 3000), 503, "a search beyond the queue is refused");
	is_int(status_of("/api/v1/whoami"), 200, "other requests are answered");
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	fault_clear();
	is_int(status_when_free("bob"), 200, "when all have left, a search is answered");
}

int main(void)
{
	int fd;

	k = hkit_start(&(struct hkit_options){.io_threads = 1});
	hkit_job(k, 1, "one", "root", "completed", 1);
	add_user("ada");
	add_user("bob");
	test_names();
	test_others();
	test_kinds();
	test_limit();
	test_turns();
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
