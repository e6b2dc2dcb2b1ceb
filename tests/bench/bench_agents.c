/*
 * bench_agents: hearthd with many agents that beat each second.
 *
 *   bench_agents HEARTHD DATA AGENTS [SECONDS [SEARCHERS]]
 *
 * Makes the cluster's authority and a certificate for each agent in DATA, starts hearthd there on loopback
 * (plain TCP, handshake signed as always) and connects the agents from one thread: inventory, an empty sync,
 * then a beat a second each, spread over the second. Prints how long until all were up, and over the
 * SECONDS that follow: hearthd's CPU and memory, the time from a beat to its answer (which a long turn of
 * hearthd shows up in), its longest turn and how many took more than the 5 ms that none should, by its own
 * record; the same of the time in which the agents connect.
 *
 * SEARCHERS clients search all jobs for a text meanwhile, each with one search after the other. DATA may be
 * one that bench_fill has filled.
 */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/net/peer.h"
#include "common/net/tls.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "store/store.h"
#include "tests/bench/lib.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define C(s)     ((char *)(uintptr_t)(s))
#define BEAT_US  1000000u
#define UP_LIMIT 120000000ull
#define DIALING  50 /* at once */

#define SEARCHERS_MAX 64u

struct bench;
struct agent {
	struct bench *b;
	struct peer *peer;
	struct loop_timer *beat;
	uint64_t seq, sent_us;
	unsigned index;
};
struct bench {
	struct loop *loop;
	struct agent *agents;
	unsigned n, dialed, up, closed;
	int measuring;
	uint64_t beats;
	struct samples took;
	char url[64];
	const char *data;
	unsigned n_searchers;
	pid_t searchers[SEARCHERS_MAX];
	struct search_count {
		_Atomic uint64_t n, took_us;
	} * searches; /* shared with them */
};

static char *path_of(const struct bench *b, unsigned index, const char *what)
{
	return xasprintf("%s/bench/n%05u.%s", b->data, index + 1, what);
}

/* ---- what hearthd finds when it starts ---------------------------------------------------------- */

static void make_node(struct bench *b, struct tls_ca *ca, struct store_txn *t, unsigned index)
{
	char *key = path_of(b, index, "key"), *cert = path_of(b, index, "pem"), *csr = NULL, *pem;
	char name[32], fingerprint[33];
	struct node_row row = {.id = index + 1,
	                       .name = name,
	                       .address = C(""),
	                       .state = C("up"),
	                       .reason = C(""),
	                       .cert_fingerprint = fingerprint,
	                       .inventory = C("{}"),
	                       .joined_us = 1};
	struct err e;

	snprintf(name, sizeof(name), "n%05u", index + 1);
	if (tls_make_key_csr(key, name, &csr, &e) < 0)
		bench_die("%s", e.text);
	pem = tls_ca_sign_csr(ca, csr, name, 10, &e);
	if (!pem || fs_write_atomic(cert, pem, strlen(pem), 0600, &e) < 0 ||
	    tls_fingerprint(pem, fingerprint, &e) < 0)
		bench_die("%s", e.text);
	store_txn_node(t, &row);
	free(pem);
	free(csr);
	free(key);
	free(cert);
}

static void make_cluster(struct bench *b)
{
	char *path = xasprintf("%s/hearth.db", b->data), *keys = xasprintf("%s/bench", b->data);
	struct store_config config = {.path = path, .clock = clock_real()};
	struct store_txn *t = store_txn_new();
	struct store *store;
	struct tls_ca *ca;
	struct err e;

	mkdir(b->data, 0700);
	mkdir(keys, 0700);
	ca = tls_ca_open(b->data, clock_real_us(clock_real()), &e);
	store = ca ? store_open(&config, b->loop, &e) : NULL;
	if (!store)
		bench_die("%s", e.text);
	for (unsigned i = 0; i < b->n; i++)
		make_node(b, ca, t, i);
	if (store_commit(store, t, NULL, NULL, &e) < 0)
		bench_die("%s", e.text);
	store_close(store);
	tls_ca_close(ca);
	free(keys);
	free(path);
}

/* ---- agents -------------------------------------------------------------------------------------- */

static void give(struct agent *a, uint16_t type, const void *msg)
{
	struct err e;

	if (peer_send(a->peer, type, msg, 0, &e) < 0)
		bench_die("agent %u: %s", a->index, e.text);
}

static void on_beat_due(void *arg)
{
	struct agent *a = arg;
	struct wm_beat beat = {.seq = ++a->seq,
	                       .boot_us = bench_now_us(),
	                       .load1 = 1.5,
	                       .memory_used = 8ull << 30,
	                       .disk_free = 100ull << 30,
	                       .cpu_used = 0.5};

	a->sent_us = bench_now_us();
	give(a, WM_BEAT, &beat);
	loop_timer_arm(a->beat, BEAT_US);
}

static void dial_next(struct bench *b);

static void on_open(struct peer *p, const struct wm_welcome *w, void *arg)
{
	struct agent *a = arg;
	struct wm_inventory inv = {.address = C("127.0.0.1"),
	                           .peer_port = 7071,
	                           .port_lo = 20000,
	                           .port_hi = 29999,
	                           .interface_name = C("eth0"),
	                           .fabric_interface = C(""),
	                           .cpus = 64,
	                           .slots = 64,
	                           .memory_bytes = 256ull << 30,
	                           .disk_bytes = 1000ull << 30,
	                           .instance_type = C("c64"),
	                           .topology = C(""),
	                           .os_user = C("root"),
	                           .is_root = 1,
	                           .hostname = C("bench")};
	struct wm_sync_begin begin = {.instance = a->index + 1};
	struct wm_sync_end end = {.instance = a->index + 1};

	(void)p;
	(void)w;
	give(a, WM_INVENTORY, &inv);
	give(a, WM_SYNC_BEGIN, &begin);
	give(a, WM_SYNC_END, &end);
	a->b->up++;
	loop_timer_arm(a->beat, BEAT_US / a->b->n * a->index);
	dial_next(a->b);
}

static void on_msg(struct peer *p, uint16_t type, uint64_t id, void *msg, void *arg)
{
	struct agent *a = arg;

	(void)p;
	(void)id;
	if (type == WM_BEAT_ACK && a->b->measuring && ((struct wm_beat_ack *)msg)->seq == a->seq) {
		samples_add(&a->b->took, bench_now_us() - a->sent_us);
		a->b->beats++;
	}
	wire_free(type, msg);
}

static void on_close(struct peer *p, const struct err *why, void *arg)
{
	struct agent *a = arg;

	(void)p;
	bench_die("agent %u: closed: %s", a->index, why->text);
}

static const struct peer_ops ops = {.on_open = on_open, .on_msg = on_msg, .on_close = on_close};

static void dial_next(struct bench *b)
{
	struct agent *a;
	struct err e;
	char name[32];

	if (b->dialed == b->n)
		return;
	a = &b->agents[b->dialed];
	a->b = b;
	a->index = b->dialed++;
	a->beat = loop_timer_create(b->loop, on_beat_due, a);
	snprintf(name, sizeof(name), "n%05u", a->index + 1);
	char *cert = path_of(b, a->index, "pem"), *key = path_of(b, a->index, "key");
	struct peer_dial d = {.url = b->url,
	                      .node = name,
	                      .cert_path = cert,
	                      .key_path = key,
	                      .role = ROLE_CONTROL,
	                      .instance = a->index + 1,
	                      .timeout_ms = 60000};
	a->peer = peer_dial(b->loop, &d, &ops, a, &e);
	if (!a->peer)
		bench_die("%s", e.text);
	free(cert);
	free(key);
}

/* ---- hearthd -------------------------------------------------------------------------------------- */

static unsigned free_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) || getsockname(fd, (struct sockaddr *)&at, &n))
		bench_die("no free port");
	close(fd);
	return ntohs(at.sin_port);
}

static pid_t start(struct bench *b, const char *hearthd)
{
	unsigned port = free_port();
	char *listen = xasprintf("127.0.0.1:%u", port), *log = xasprintf("%s/log", b->data);
	char *sock = xasprintf("%s/hearthd.sock", b->data);
	pid_t pid = fork();

	if (pid == 0) {
		int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

		dup2(fd, 1);
		dup2(fd, 2);
		execl(hearthd, hearthd, "--data", b->data, "--listen", listen, (char *)NULL);
		_exit(127);
	}
	snprintf(b->url, sizeof(b->url), "http://%s", listen);
	for (int i = 0; i < 3000 && access(sock, F_OK); i++)
		usleep(10000); /* until it listens */
	if (access(sock, F_OK))
		bench_die("hearthd does not listen: see %s", log);
	free(sock);
	free(log);
	free(listen);
	return pid;
}

/* ---- searchers ------------------------------------------------------------------------------------- */

static void search(const struct bench *b, unsigned index)
{
	static const char *const texts[] = {"train", "lr", "4999", "no-such-word", "train-17"};
	cleanup_free char *sock = xasprintf("%s/hearthd.sock", b->data);

	for (unsigned i = index;; i++) {
		cleanup_free char *target =
		    xasprintf("/api/v1/jobs?text=%s&limit=1000", texts[i % (sizeof(texts) / sizeof(texts[0]))]);
		uint64_t at = bench_now_us();

		free(bench_call(sock, "GET", target, NULL));
		atomic_fetch_add(&b->searches->n, 1);
		atomic_fetch_add(&b->searches->took_us, bench_now_us() - at);
	}
}

static void start_searchers(struct bench *b)
{
	if (b->n_searchers > SEARCHERS_MAX)
		b->n_searchers = SEARCHERS_MAX;
	for (unsigned i = 0; i < b->n_searchers; i++) {
		b->searchers[i] = fork();
		if (b->searchers[i] == 0)
			search(b, i);
	}
}

static void end_searchers(struct bench *b)
{
	for (unsigned i = 0; i < b->n_searchers; i++) {
		kill(b->searchers[i], SIGKILL);
		waitpid(b->searchers[i], NULL, 0);
	}
}

/* ---- hearthd's turns ------------------------------------------------------------------------------- */

struct turns {
	uint64_t longest_us, turns, late; /* late: over 5 ms */
};

static uint64_t number_of(const char *text, const char *name)
{
	cleanup_free char *line = xasprintf("\n%s ", name);
	const char *at = strstr(text, line);

	if (!at)
		bench_die("hearthd does not tell %s", name);
	return strtoull(at + strlen(line), NULL, 10);
}

/* hearthd keeps the longest turn of a span of 5 s and the one before: to be called at least once a span. */
static void look(const struct bench *b, struct turns *t)
{
	cleanup_free char *sock = xasprintf("%s/hearthd.sock", b->data);
	cleanup_free char *text = bench_call(sock, "GET", "/metrics", NULL);
	uint64_t longest = number_of(text, "hearth_turn_longest_us");

	t->longest_us = longest > t->longest_us ? longest : t->longest_us;
	t->turns = number_of(text, "hearth_turns_total");
	t->late = number_of(text, "hearth_turns_late_total");
}

static void run_for(struct bench *b, uint64_t us, struct turns *t)
{
	uint64_t now = bench_now_us(), end = now + us, look_us = now + LOOP_SPAN_US / 2;

	while ((now = bench_now_us()) < end) {
		loop_run_once(b->loop, 100);
		if (now >= look_us) {
			look(b, t);
			look_us = now + LOOP_SPAN_US / 2;
		}
	}
	look(b, t);
}

static void measure(struct bench *b, pid_t pid, double seconds, uint64_t up_us)
{
	struct turns connecting = {0}, quiet = {0}, beating = {0};
	struct usage before, after;
	uint64_t start_us, searches;
	double took;

	look(b, &connecting);
	run_for(b, 2 * LOOP_SPAN_US + 500000,
	        &quiet); /* until the connecting is no longer in what hearthd tells */
	usage_of(pid, &before);
	searches = atomic_load(&b->searches->n);
	b->measuring = 1;
	start_us = bench_now_us();
	run_for(b, (uint64_t)(seconds * 1e6), &beating);
	took = (double)(bench_now_us() - start_us) / 1e6;
	usage_of(pid, &after);
	printf(
	    "{\"bench\": \"agents\", \"agents\": %u, \"up_ms\": %.0f, \"seconds\": %.1f, \"beats_per_s\": %.0f, "
	    "\"hearthd_cpu_percent\": %.1f, \"hearthd_cpu_us_a_beat\": %.1f, \"hearthd_sleeps_a_beat\": %.2f, "
	    "\"hearthd_rss_mib\": %.0f, \"answer_median_us\": %u, \"answer_p99_us\": %u, \"answer_max_us\": %u, "
	    "\"longest_turn_us\": %llu, \"turns_per_s\": %.0f, \"late_turns\": %llu, "
	    "\"connecting_longest_turn_us\": %llu, \"connecting_late_turns\": %llu, \"searchers\": %u, "
	    "\"searches_per_s\": %.1f, \"search_mean_ms\": %.0f}\n",
	    b->n, (double)up_us / 1000, took, (double)b->beats / took,
	    (double)(after.cpu_us - before.cpu_us) / took / 1e4,
	    (double)(after.cpu_us - before.cpu_us) / (double)b->beats,
	    (double)(after.switches - before.switches) / (double)b->beats, (double)after.rss_kib / 1024,
	    samples_at(&b->took, 0.5), samples_at(&b->took, 0.99), samples_at(&b->took, 1),
	    (unsigned long long)beating.longest_us, (double)(beating.turns - quiet.turns) / took,
	    (unsigned long long)(beating.late - quiet.late), (unsigned long long)connecting.longest_us,
	    (unsigned long long)connecting.late, b->n_searchers,
	    (double)(atomic_load(&b->searches->n) - searches) / took,
	    (double)atomic_load(&b->searches->took_us) / 1e3 /
	        (double)(atomic_load(&b->searches->n) ? atomic_load(&b->searches->n) : 1));
}

int main(int argc, char **argv)
{
	struct rlimit files = {65536, 65536};
	struct bench b = {0};
	uint64_t begin;
	pid_t pid;

	if (argc < 4) {
		fprintf(stderr, "usage: bench_agents HEARTHD DATA AGENTS [SECONDS [SEARCHERS]]\n");
		return 2;
	}
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	log_init("bench_agents", LOG_LVL_WARN);
	b.loop = loop_create();
	b.data = argv[2];
	b.n = (unsigned)atoi(argv[3]);
	b.agents = xcalloc(b.n, sizeof(*b.agents));
	make_cluster(&b);
	pid = start(&b, argv[1]);
	begin = bench_now_us();
	for (int i = 0; i < DIALING; i++)
		dial_next(&b);
	while (b.up < b.n) {
		loop_run_once(b.loop, 100);
		if (bench_now_us() - begin > UP_LIMIT)
			bench_die("only %u of %u agents are up", b.up, b.n);
	}
	begin = bench_now_us() - begin;
	b.n_searchers = argc > 5 ? (unsigned)atoi(argv[5]) : 0;
	b.searches = mmap(NULL, sizeof(*b.searches), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	start_searchers(&b);
	measure(&b, pid, argc > 4 ? atof(argv[4]) : 10, begin);
	end_searchers(&b);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	return 0;
}
