/*
 * Crowds of connections cannot keep others out: those that prove nothing, those of one account over the unix
 * socket, and those of one user. Another process opens more of them than hearthd has room for.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/tap.h"
#include "tests/unit/controller/http/httpkit.h"

#define FILES  1256 /* that hearthd may open: 500 connections */
#define SILENT 900

static struct hkit *k;

/* Silent; half of them send a part of a request. */
static void open_silent(int i)
{
	int fd = raw_connect(k);

	if (i % 2)
		raw_send(fd, "GET / HTTP/1.1\r\nHost:");
}

static void open_silent_unix(int i)
{
	int fd = raw_unix(k);

	if (i % 2)
		raw_send(fd, "GET / HTTP/1.1\r\nHost:");
}

static void send_authorized(int fd, const char *path)
{
	char rq[300];

	snprintf(rq, sizeof(rq), "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", path,
	         hkit_token(k));
	raw_send(fd, rq);
}

static void ask_once(int fd, const char *path)
{
	send_authorized(fd, path);
	free(raw_read(fd, "\r\n\r\n", 2000, NULL));
}

/* Idle after a call that proved who calls. */
static void open_known(int i)
{
	(void)i;
	ask_once(raw_connect(k), "/api/v1/whoami");
}

/* Followers of events, whose answers do not end. */
static void open_follower(int i)
{
	(void)i;
	ask_once(raw_connect(k), "/api/v1/stream");
}

/* Connections that last until the process is killed. */
static pid_t crowd(int n, void (*open_one)(int i), int *done)
{
	int pipe_fds[2];
	pid_t pid;

	if (pipe(pipe_fds) < 0)
		tap_bail("pipe");
	pid = fork();
	if (pid == 0) {
		close(pipe_fds[0]);
		for (int i = 0; i < n; i++)
			open_one(i);
		if (write(pipe_fds[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	close(pipe_fds[1]);
	*done = pipe_fds[0];
	return pid;
}

static void end_crowd(pid_t pid, int done)
{
	int status;

	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(done);
}

static int is_closed(int fd)
{
	int closed = 0;

	free(raw_read(fd, NULL, 200, &closed));
	return closed;
}

static void test_crowd(void)
{
	struct answer *a;
	int done, known = raw_connect(k), closed;
	char rq[300], byte, *text;
	uint64_t begin;
	pid_t pid;

	snprintf(rq, sizeof(rq),
	         "GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
	         hkit_token(k));
	raw_send(known, rq);
	text = raw_read(known, "}", 5000, &closed);
	like(text, "200 OK", "a caller that is known");
	free(text);
	pid = crowd(SILENT, open_silent, &done);
	ok(read(done, &byte, 1) == 1, "%d silent connections were made", SILENT);
	begin = hkit_now_us();
	for (int i = 0; i < 3; i++) {
		a = http(k, "GET", "/api/v1/whoami", "admin", NULL, NULL);
		is_int(a->status, 200, "another caller is let in and answered");
		answer_free(a);
	}
	ok(hkit_now_us() - begin < 5000000, "before the silent ones run into their time limit");
	ok(!is_closed(known), "the connection of the known caller is still there");
	raw_send(known, rq);
	text = raw_read(known, "}", 5000, &closed);
	like(text, "200 OK", "and is answered");
	free(text);
	text = NULL;
	end_crowd(pid, done);
	close(known);
}

static int status_on(int fd, const char *path)
{
	char *text;
	int status;

	send_authorized(fd, path);
	text = raw_read(fd, "\r\n\r\n", 5000, NULL);
	status = strlen(text) > 12 ? atoi(text + 9) : 0;
	free(text);
	return status;
}

/* Agents in their handshake and users at their login are strangers, too: they keep their places. */
static void test_account(void)
{
	int stranger = raw_connect(k), done, others = 0;
	char byte;
	pid_t pid = crowd(SILENT, open_silent_unix, &done);

	ok(read(done, &byte, 1) == 1, "%d silent connections to the unix socket were made", SILENT);
	ok(!is_closed(stranger), "a stranger over TCP keeps the place that it had");
	is_int(status_on(stranger, "/api/v1/whoami"), 200, "and is answered");
	for (int i = 0; i < 100; i++) {
		int fd = raw_connect(k);

		others += status_on(fd, "/") / 100 != 5;
		close(fd);
	}
	is_int(others, 100, "new connections over TCP are accepted");
	close(stranger);
	end_crowd(pid, done);
}

/* One account has no more than its part of the unix socket: a newer connection replaces its oldest. */
static void test_account_part(void)
{
	struct answer *a;
	int first = raw_unix(k), done;
	char byte;
	pid_t pid = crowd(SILENT, open_silent_unix, &done);

	ok(read(done, &byte, 1) == 1, "the account opened many connections");
	ok(is_closed(first), "the oldest silent connection of the account was closed");
	a = http(k, "GET", "/api/v1/whoami", "unix", NULL, NULL);
	is_int(a->status, 200, "the account itself is answered");
	answer_free(a);
	close(first);
	end_crowd(pid, done);
}

static void test_known(void)
{
	int stranger = raw_connect(k), first = raw_connect(k), done;
	char byte;
	pid_t pid;

	is_int(status_on(first, "/api/v1/whoami"), 200, "a user is known");
	pid = crowd(SILENT, open_known, &done);
	ok(read(done, &byte, 1) == 1, "%d connections made a call each", SILENT);
	ok(is_closed(first), "the oldest idle connection of the user was closed");
	ok(!is_closed(stranger), "a stranger keeps its place");
	is_int(status_on(stranger, "/") / 100, 2, "and is answered");
	close(stranger);
	close(first);
	end_crowd(pid, done);
}

static void test_followers(void)
{
	int stranger = raw_connect(k), fd, done;
	char byte, *text;
	pid_t pid = crowd(200, open_follower, &done);

	ok(read(done, &byte, 1) == 1, "one user has many followers");
	fd = raw_connect(k);
	raw_send(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
	text = raw_read(fd, "\r\n\r\n", 5000, NULL);
	like(text, "200 OK", "others are let in");
	free(text);
	close(fd);
	fd = raw_connect(k);
	send_authorized(fd, "/api/v1/whoami");
	text = raw_read(fd, "}", 5000, NULL);
	like(text, " 429 ", "the user himself is refused");
	like(text, "Retry-After: ", "with a time to try again");
	like(text, "you have too many connections", "and the reason");
	free(text);
	close(fd);
	ok(!is_closed(stranger), "a stranger keeps its place");
	close(stranger);
	end_crowd(pid, done);
}

int main(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_max < FILES)
		tap_bail("too few descriptors are allowed");
	r.rlim_cur = r.rlim_max = FILES;
	setrlimit(RLIMIT_NOFILE, &r);
	k = hkit_start(&(struct hkit_options){.io_threads = 1});
	test_crowd();
	test_account();
	test_account_part();
	test_known();
	test_followers();
	hkit_stop(k);
	return tap_done();
}
