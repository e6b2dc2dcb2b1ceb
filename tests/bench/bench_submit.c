/*
 * bench_submit: durable submits a second over HTTP, by 1 and 16 connections.
 *
 *   bench_submit SOCKET [SECONDS] [CONNECTIONS...]
 *
 * Each connection sends POST /api/v1/jobs (a held job of 8 hyperparameters) and reads the whole answer before
 * the next: closed loop, keep-alive, no pipelining. Prints a JSON line a series with rate, latency, and what
 * a submit costs hearthd: CPU time and how often one of its threads slept (both hold on a busy machine, the
 * rate does not). Jobs stay held, so nothing runs. One thread, epoll, a minimal HTTP reader, so that the
 * client costs little beside hearthd on the same machine.
 */
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "tests/bench/lib.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

struct conn {
	int fd;
	char in[8192];
	size_t n;
	uint64_t sent_us;
};

/* Values that differ from job to job, as in a search: those of one job are nobody else's neighbours in an
 * index. */
static void send_one(struct conn *c)
{
	static unsigned k;
	char body[1024], head[2048], key[33];
	int n = snprintf(body, sizeof(body),
	                 "{\"spec\": \"{\\\"name\\\": \\\"bench\\\", \\\"command\\\": [\\\"/bin/true\\\"], "
	                 "\\\"hyperparameters\\\": {\\\"lr\\\": %.6f, \\\"epochs\\\": %u, \\\"batch\\\": %u, "
	                 "\\\"width\\\": %u, \\\"depth\\\": %u, \\\"seed\\\": %u, \\\"opt\\\": \\\"adam%u\\\", "
	                 "\\\"decay\\\": %.7f}}\", \"hold\": true}",
	                 (double)(k * 2654435761u % 1000003u) / 1e6, k % 17, 16u << k % 5, 64u << k % 4, k % 9,
	                 k * 2246822519u, k % 3, (double)(k * 3266489917u % 100003u) / 1e7);

	k++;
	random_hex(key, 32);
	int h = snprintf(head, sizeof(head),
	                 "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
	                 "application/json\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
	                 key, n, body);
	c->n = 0;
	c->sent_us = bench_now_us();
	if (write(c->fd, head, (size_t)h) != h)
		bench_die("short write");
}

static void take(struct conn *c, struct samples *took)
{
	ssize_t k = read(c->fd, c->in + c->n, sizeof(c->in) - 1 - c->n);

	if (k <= 0)
		bench_die("connection closed");
	c->n += (size_t)k;
	c->in[c->n] = 0;
	if (!bench_answer_complete(c->in, c->n))
		return;
	samples_add(took, bench_now_us() - c->sent_us);
	send_one(c);
}

static void report(unsigned connections, uint64_t took_us, struct samples *s, const struct usage *before,
                   const struct usage *after)
{
	double n = (double)s->n, seconds = (double)took_us / 1e6;

	printf(
	    "{\"bench\": \"submit\", \"connections\": %u, \"seconds\": %.1f, \"submits\": %zu, \"per_s\": %.0f, "
	    "\"median_us\": %u, \"p99_us\": %u, \"max_us\": %u, \"hearthd_cpu_us\": %.1f, "
	    "\"hearthd_sleeps\": %.2f, \"hearthd_rss_mib\": %.0f}\n",
	    connections, seconds, s->n, n / seconds, samples_at(s, 0.5), samples_at(s, 0.99), samples_at(s, 1),
	    (double)(after->cpu_us - before->cpu_us) / n, (double)(after->switches - before->switches) / n,
	    (double)after->rss_kib / 1024);
	fflush(stdout);
}

static void series(const char *path, unsigned connections, double seconds)
{
	struct conn *conns = xcalloc(connections, sizeof(*conns));
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct usage before, after;
	struct samples took = {0};
	uint64_t start, end, now;

	for (unsigned i = 0; i < connections; i++) {
		struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &conns[i]};

		conns[i].fd = bench_dial(path);
		epoll_ctl(ep, EPOLL_CTL_ADD, conns[i].fd, &ev);
	}
	usage_of(bench_peer(conns[0].fd), &before);
	start = now = bench_now_us();
	end = start + (uint64_t)(seconds * 1e6);
	for (unsigned i = 0; i < connections; i++)
		send_one(&conns[i]);
	for (; now < end; now = bench_now_us()) {
		struct epoll_event evs[64];
		int n = epoll_wait(ep, evs, 64, 10000);

		if (n <= 0)
			bench_die("no answer for 10 s");
		for (int i = 0; i < n; i++)
			take(evs[i].data.ptr, &took);
	}
	usage_of(bench_peer(conns[0].fd), &after);
	report(connections, now - start, &took, &before, &after);
	for (unsigned i = 0; i < connections; i++)
		close(conns[i].fd);
	close(ep);
	samples_fini(&took);
	free(conns);
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? atof(argv[2]) : 5;

	if (argc < 2) {
		fprintf(stderr, "usage: bench_submit SOCKET [SECONDS] [CONNECTIONS...]\n");
		return 2;
	}
	if (argc < 4) {
		series(argv[1], 1, seconds);
		series(argv[1], 16, seconds);
	}
	for (int i = 3; i < argc; i++)
		series(argv[1], (unsigned)atoi(argv[i]), seconds);
	return 0;
}
