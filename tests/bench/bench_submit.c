/*
 * bench_submit: durable submits a second over HTTP, by 1 and 16 connections.
 *
 *   bench_submit SOCKET [SECONDS] [CONNECTIONS...]
 *   bench_submit SOCKET --tls ADDRESS PORT TOKEN [SECONDS] [CONNECTIONS...]
 *
 * With --tls each series runs twice, alternately: over the socket, and over TLS with a user's token. So the
 * two are compared in one run, on stores of the same size.
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
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
	const char *address, *token; /* address NULL: the unix socket only */
	unsigned port;
	SSL_CTX *ctx;
} tls;

struct conn {
	int fd;
	SSL *ssl; /* NULL: plain */
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
	                 "application/json\r\n%s%s%sIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
	                 c->ssl ? "Authorization: Bearer " : "", c->ssl ? tls.token : "", c->ssl ? "\r\n" : "",
	                 key, n, body);
	c->n = 0;
	c->sent_us = bench_now_us();
	if ((c->ssl ? SSL_write(c->ssl, head, h) : (int)write(c->fd, head, (size_t)h)) != h)
		bench_die("short write");
}

static void take(struct conn *c, struct samples *took)
{
	size_t room = sizeof(c->in) - 1 - c->n;
	ssize_t k = c->ssl ? SSL_read(c->ssl, c->in + c->n, (int)room) : read(c->fd, c->in + c->n, room);

	if (k <= 0)
		bench_die("connection closed");
	c->n += (size_t)k;
	c->in[c->n] = 0;
	if (!bench_answer_complete(c->in, c->n))
		return;
	samples_add(took, bench_now_us() - c->sent_us);
	send_one(c);
}

/* The certificate is not checked: that costs the client, once, and nothing of hearthd's. */
static void dial_tls(struct conn *c)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)tls.port)};
	int one = 1;

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || inet_pton(AF_INET, tls.address, &to.sin_addr) != 1 ||
	    connect(c->fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		bench_die("%s port %u: no connection", tls.address, tls.port);
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->ssl = SSL_new(tls.ctx);
	if (SSL_set_fd(c->ssl, c->fd) != 1 || SSL_connect(c->ssl) != 1)
		bench_die("no TLS with %s", tls.address);
}

static void report(const char *over, unsigned connections, uint64_t took_us, struct samples *s,
                   const struct usage *before, const struct usage *after)
{
	double n = (double)s->n, seconds = (double)took_us / 1e6;

	printf("{\"bench\": \"submit\", \"over\": \"%s\", \"connections\": %u, \"seconds\": %.1f, \"submits\": "
	       "%zu, \"per_s\": %.0f, "
	       "\"median_us\": %u, \"p99_us\": %u, \"max_us\": %u, \"hearthd_cpu_us\": %.1f, "
	       "\"hearthd_sleeps\": %.2f, \"hearthd_rss_mib\": %.0f}\n",
	       over, connections, seconds, s->n, n / seconds, samples_at(s, 0.5), samples_at(s, 0.99),
	       samples_at(s, 1), (double)(after->cpu_us - before->cpu_us) / n,
	       (double)(after->switches - before->switches) / n, (double)after->rss_kib / 1024);
	fflush(stdout);
}

static void series(const char *path, int over_tls, unsigned connections, double seconds)
{
	int watched = bench_dial(path); /* whose peer is hearthd */
	struct conn *conns = xcalloc(connections, sizeof(*conns));
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct usage before, after;
	struct samples took = {0};
	uint64_t start, end, now;

	for (unsigned i = 0; i < connections; i++) {
		struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &conns[i]};

		if (over_tls)
			dial_tls(&conns[i]);
		else
			conns[i].fd = bench_dial(path);
		epoll_ctl(ep, EPOLL_CTL_ADD, conns[i].fd, &ev);
	}
	usage_of(bench_peer(watched), &before);
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
	usage_of(bench_peer(watched), &after);
	report(over_tls ? "tls" : "unix", connections, now - start, &took, &before, &after);
	for (unsigned i = 0; i < connections; i++) {
		SSL_free(conns[i].ssl);
		close(conns[i].fd);
	}
	close(watched);
	close(ep);
	samples_fini(&took);
	free(conns);
}

static void both(const char *path, unsigned connections, double seconds)
{
	series(path, 0, connections, seconds);
	if (tls.address)
		series(path, 1, connections, seconds);
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : NULL;
	double seconds;

	if (argc > 5 && strcmp(argv[2], "--tls") == 0) {
		tls.address = argv[3];
		tls.port = (unsigned)atoi(argv[4]);
		tls.token = argv[5];
		tls.ctx = SSL_CTX_new(TLS_client_method());
		argc -= 4;
		argv += 4;
	}
	if (!path) {
		fprintf(stderr, "usage: bench_submit SOCKET [--tls ADDRESS PORT TOKEN] [SECONDS] [CONNECTIONS...]\n");
		return 2;
	}
	seconds = argc > 2 ? atof(argv[2]) : 5;
	if (argc < 4) {
		both(path, 1, seconds);
		both(path, 16, seconds);
	}
	for (int i = 3; i < argc; i++)
		both(path, (unsigned)atoi(argv[i]), seconds);
	SSL_CTX_free(tls.ctx);
	return 0;
}
