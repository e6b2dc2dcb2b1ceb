/*
 * Connections that prove nothing: they cannot keep users and agents out. Another process opens more of them
 * than hearthd has room for.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/tap.h"
#include "tests/unit/controller/http/httpkit.h"

#define FILES  1256 /* that hearthd may open: 500 connections */
#define SILENT 900

static struct hkit *k;

/* Silent connections, until it is killed; half of them send a part of a request. */
static pid_t crowd(int *done)
{
	int pipe_fds[2];
	pid_t pid;

	if (pipe(pipe_fds) < 0)
		tap_bail("pipe");
	pid = fork();
	if (pid == 0) {
		close(pipe_fds[0]);
		for (int i = 0; i < SILENT; i++) {
			int fd = raw_connect(k);

			if (i % 2)
				raw_send(fd, "GET / HTTP/1.1\r\nHost:");
		}
		if (write(pipe_fds[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	close(pipe_fds[1]);
	*done = pipe_fds[0];
	return pid;
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
	int done, known = raw_connect(k), closed, status;
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
	pid = crowd(&done);
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
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(done);
	close(known);
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
	hkit_stop(k);
	return tap_done();
}
