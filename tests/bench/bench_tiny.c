/*
 * bench_tiny: tiny jobs from submit to end.
 *
 *   bench_tiny SOCKET JOBS STORED [ROUNDS]
 *
 * Submits JOBS jobs of /bin/true on one node each (launcher direct) by 16 connections, as fast as they are
 * taken, then waits until none is left. The clock runs from the first submit until all have ended. STORED is
 * only printed. A job that does not complete ends the program: a rate of failed jobs is worth nothing.
 */
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "tests/bench/lib.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define CONNECTIONS 16
#define WAIT_S      600

struct conn {
	int fd, busy;
	char in[8192];
	size_t n;
};

static void submit(struct conn *c)
{
	static const char body[] =
	    "{\"spec\": {\"name\": \"tiny\", \"command\": [\"/bin/true\"], \"launcher\": \"direct\"}}";

	c->n = 0;
	c->busy = 1;
	dprintf(
	    c->fd,
	    "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
	    "%zu\r\n\r\n%s",
	    strlen(body), body);
}

static void take(struct conn *c)
{
	ssize_t k = read(c->fd, c->in + c->n, sizeof(c->in) - 1 - c->n);

	if (k <= 0)
		bench_die("connection closed");
	c->n += (size_t)k;
	c->in[c->n] = '\0';
	if (bench_answer_complete(c->in, c->n))
		c->busy = 0;
}

static void submit_all(const char *sock, unsigned jobs)
{
	struct conn conns[CONNECTIONS];
	int ep = epoll_create1(EPOLL_CLOEXEC);
	unsigned sent = 0, done = 0;

	for (unsigned i = 0; i < CONNECTIONS; i++) {
		struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &conns[i]};

		conns[i].fd = bench_dial(sock);
		epoll_ctl(ep, EPOLL_CTL_ADD, conns[i].fd, &ev);
	}
	for (unsigned i = 0; i < CONNECTIONS && sent < jobs; i++, sent++)
		submit(&conns[i]);
	while (done < jobs) {
		struct epoll_event evs[CONNECTIONS];
		int n = epoll_wait(ep, evs, CONNECTIONS, 10000);

		if (n <= 0)
			bench_die("no answer for 10 s");
		for (int i = 0; i < n; i++) {
			struct conn *c = evs[i].data.ptr;

			take(c);
			if (c->busy)
				continue;
			done++;
			if (sent < jobs) {
				submit(c);
				sent++;
			}
		}
	}
	for (unsigned i = 0; i < CONNECTIONS; i++)
		close(conns[i].fd);
	close(ep);
}

/* How many jobs the query finds: 0 or 1. */
static int any(const char *sock, const char *query)
{
	char target[96];
	char *text;
	cJSON *answer;
	int n;

	snprintf(target, sizeof(target), "/api/v1/jobs?limit=1&%s", query);
	text = bench_call(sock, "GET", target, NULL);
	answer = cJSON_Parse(text);
	n = cJSON_GetArraySize(cJSON_GetObjectItem(answer, "jobs"));
	cJSON_Delete(answer);
	free(text);
	return n;
}

static void round_of(const char *sock, unsigned jobs, const char *stored)
{
	int fd = bench_dial(sock);
	pid_t pid = bench_peer(fd);
	struct usage before, after;
	uint64_t start, submitted, end;

	close(fd);
	usage_of(pid, &before);
	start = bench_now_us();
	submit_all(sock, jobs);
	submitted = bench_now_us();
	while (any(sock, "status=active")) {
		if (bench_now_us() - start > WAIT_S * 1000000ull)
			bench_die("jobs are left after %d s", WAIT_S);
		usleep(20000); /* between two questions */
	}
	end = bench_now_us();
	usage_of(pid, &after);
	if (any(sock, "name=tiny&status=failed") || any(sock, "name=tiny&status=stopped"))
		bench_die("a job did not complete");
	printf("{\"bench\": \"tiny\", \"system\": \"hearth\", \"jobs\": %u, \"stored\": %s, \"submit_s\": %.2f, "
	       "\"all_s\": %.2f, "
	       "\"per_s\": %.1f, \"hearthd_cpu_us\": %.0f, \"hearthd_sleeps\": %.1f}\n",
	       jobs, stored, (double)(submitted - start) / 1e6, (double)(end - start) / 1e6,
	       (double)jobs * 1e6 / (double)(end - start), (double)(after.cpu_us - before.cpu_us) / jobs,
	       (double)(after.switches - before.switches) / jobs);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int rounds = argc > 4 ? atoi(argv[4]) : 3;

	if (argc < 4) {
		fprintf(stderr, "usage: bench_tiny SOCKET JOBS STORED [ROUNDS]\n");
		return 2;
	}
	for (int i = 0; i < rounds; i++)
		round_of(argv[1], (unsigned)atoi(argv[2]), argv[3]);
	return 0;
}
