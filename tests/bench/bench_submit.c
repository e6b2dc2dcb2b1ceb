/*
 * bench_submit: durable submits a second over HTTP, by 1 and 16 connections.
 *
 *   bench_submit SOCKET [SECONDS] [CONNECTIONS...]
 *
 * Each connection sends POST /api/v1/jobs (a held job of 8 hyperparameters) and reads the whole answer before
 * the next: closed loop, keep-alive, no pipelining. Prints a JSON line a series with rate and latency. Jobs
 * stay held, so nothing runs. One thread, epoll, own minimal HTTP reader, so that the client costs little
 * beside hearthd on the same machine.
 */
#include "common/clock.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SAMPLES_MAX 4000000

struct conn {
	int fd;
	char in[8192];
	size_t n;
	uint64_t sent_us;
};

static uint32_t *samples;
static size_t n_samples;

static int dial(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		fprintf(stderr, "bench_submit: %s: %s\n", path, strerror(errno));
		exit(1);
	}
	return fd;
}

static void send_one(struct conn *c)
{
	static const char spec[] = "{\\\"name\\\": \\\"bench\\\", \\\"command\\\": [\\\"/bin/true\\\"], "
	                           "\\\"hyperparameters\\\": {\\\"lr\\\": 0.1, \\\"epochs\\\": 5, "
	                           "\\\"batch\\\": 64, \\\"width\\\": 128, \\\"depth\\\": 3, \\\"seed\\\": 7, "
	                           "\\\"opt\\\": \\\"adam\\\", \\\"decay\\\": 0.01}}";
	char body[1024], head[2048], key[33];
	int n = snprintf(body, sizeof(body), "{\"spec\": \"%s\", \"hold\": true}", spec);
	random_hex(key, 32);
	int h = snprintf(head, sizeof(head),
	                 "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
	                 "application/json\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
	                 key, n, body);
	c->n = 0;
	c->sent_us = clock_boot_us(clock_real());
	if (write(c->fd, head, (size_t)h) != h) {
		fprintf(stderr, "bench_submit: short write\n");
		exit(1);
	}
}

/* 1 when the whole answer is there. */
static int complete(const struct conn *c)
{
	const char *end = memmem(c->in, c->n, "\r\n\r\n", 4), *len;
	if (!end)
		return 0;
	if (strncmp(c->in, "HTTP/1.1 201", 12) != 0 && strncmp(c->in, "HTTP/1.1 200", 12) != 0) {
		fprintf(stderr, "bench_submit: refused: %.*s\n", (int)c->n, c->in);
		exit(1);
	}
	len = strcasestr(c->in, "content-length:");
	return len && (size_t)(end + 4 - c->in) + strtoul(len + 15, NULL, 10) <= c->n;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static void series(const char *path, unsigned connections, double seconds)
{
	struct conn *conns = xcalloc(connections, sizeof(*conns));
	int ep = epoll_create1(EPOLL_CLOEXEC);
	n_samples = 0;
	for (unsigned i = 0; i < connections; i++) {
		conns[i].fd = dial(path);
		struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &conns[i]};
		epoll_ctl(ep, EPOLL_CTL_ADD, conns[i].fd, &ev);
		send_one(&conns[i]);
	}
	uint64_t start = clock_boot_us(clock_real()), end = start + (uint64_t)(seconds * 1e6), now = start;
	while (now < end && n_samples < SAMPLES_MAX) {
		struct epoll_event evs[64];
		int n = epoll_wait(ep, evs, 64, 10000);
		if (n <= 0) {
			fprintf(stderr, "bench_submit: no answer for 10 s\n");
			exit(1);
		}
		now = clock_boot_us(clock_real());
		for (int i = 0; i < n; i++) {
			struct conn *c = evs[i].data.ptr;
			ssize_t k = read(c->fd, c->in + c->n, sizeof(c->in) - 1 - c->n);
			if (k <= 0) {
				fprintf(stderr, "bench_submit: connection closed\n");
				exit(1);
			}
			c->n += (size_t)k;
			c->in[c->n] = 0;
			if (complete(c)) {
				samples[n_samples++] = (uint32_t)(now - c->sent_us);
				send_one(c);
			}
		}
	}
	qsort(samples, n_samples, sizeof(*samples), by_value);
	printf("{\"bench\": \"submit\", \"connections\": %u, \"seconds\": %.1f, \"submits\": %zu, \"per_s\": "
	       "%.0f, \"median_us\": %u, \"p99_us\": %u, \"max_us\": "
	       "%u}\n",
	       connections, (double)(now - start) / 1e6, n_samples,
	       (double)n_samples * 1e6 / (double)(now - start), samples[n_samples / 2],
	       samples[n_samples * 99 / 100], samples[n_samples - 1]);
	fflush(stdout);
	for (unsigned i = 0; i < connections; i++)
		close(conns[i].fd);
	close(ep);
	free(conns);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: bench_submit SOCKET [SECONDS] [CONNECTIONS...]\n");
		return 2;
	}
	double seconds = argc > 2 ? atof(argv[2]) : 5;
	samples = xcalloc(SAMPLES_MAX + 64, sizeof(*samples));
	if (argc < 4) {
		series(argv[1], 1, seconds);
		series(argv[1], 16, seconds);
	}
	for (int i = 3; i < argc; i++)
		series(argv[1], (unsigned)atoi(argv[i]), seconds);
	free(samples);
	return 0;
}
