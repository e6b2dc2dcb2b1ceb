#include "tests/unit/controller/http/httpkit.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/chan.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "store/store.h"
#include "tests/lib/tap.h"

struct hkit {
	struct hkit_options o;
	char dir[512], token[128], url[128];
	struct tls_ca *ca;
	pthread_t thread;
	struct loop *loop;
	struct chan *calls;
	struct store *store;
	struct server *server;
	_Atomic unsigned requests, ups, downs;
	_Atomic uint64_t session;
	char admin[64];
};

struct call_msg {
	void (*fn)(struct hkit *k, void *arg);
	void *arg;
	sem_t done;
};

uint64_t hkit_now_us(void)
{
	return clock_boot_us(clock_real());
}

/* ---- the scripted state thread ---------------------------------------------------------------- */

static void on_call_msg(void *msg, void *arg)
{
	struct call_msg *m = msg;

	m->fn(arg, m->arg);
	sem_post(&m->done);
}

void hkit_call(struct hkit *k, void (*fn)(struct hkit *k, void *arg), void *arg)
{
	struct call_msg m = {.fn = fn, .arg = arg};

	sem_init(&m.done, 0, 0);
	chan_send_wait(k->calls, &m);
	while (sem_wait(&m.done) < 0 && errno == EINTR)
		;
	sem_destroy(&m.done);
}

static void on_request(struct request *rq, void *arg)
{
	struct hkit *k = arg;
	cJSON *o;

	atomic_fetch_add(&k->requests, 1);
	if (rq->op == REQ_BRIEF) { /* completes the answer that it is given: as it is */
		cJSON *given = rq->body;

		rq->body = NULL;
		rq->reply(rq, 200, given, NULL);
		return;
	}
	if (k->o.on_request && k->o.on_request(k, rq) == 0)
		return;
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "op", request_op_text(rq->op));
	cJSON_AddStringToObject(o, "user", rq->user);
	cJSON_AddNumberToObject(o, "role", rq->role);
	json_add_u64(o, "job", rq->job);
	if (rq->node)
		cJSON_AddStringToObject(o, "node", rq->node);
	if (rq->idem_key) {
		cJSON_AddStringToObject(o, "key", rq->idem_key);
		cJSON_AddStringToObject(o, "digest", rq->idem_digest);
	}
	if (rq->spec)
		cJSON_AddStringToObject(o, "spec_name", rq->spec->name);
	if (rq->text)
		cJSON_AddStringToObject(o, "text", rq->text);
	if (rq->body)
		cJSON_AddItemToObject(o, "body", cJSON_Duplicate(rq->body, 1));
	if (rq->op == REQ_NODES)
		cJSON_AddItemToObject(
		    o, "nodes",
		    cJSON_Parse("[{\"name\":\"alpha\",\"state\":\"up\"},{\"name\":\"beta\",\"state\":\"lost\"}]"));
	if (rq->op == REQ_STATS)
		cJSON_AddItemToObject(o, "jobs", cJSON_Parse("{\"running\":3,\"queued\":2}"));
	rq->reply(rq, 200, o, NULL);
}

static void on_up(const char *node, uint64_t session, const struct wm_hello *hello, void *arg)
{
	struct hkit *k = arg;

	(void)node;
	(void)hello;
	atomic_store(&k->session, session);
	atomic_fetch_add(&k->ups, 1);
}

static void on_msg(const char *node, uint64_t session, uint16_t type, uint64_t id, void *msg, void *arg)
{
	struct hkit *k = arg;

	if (k->o.on_agent_msg)
		k->o.on_agent_msg(k, node, session, type, id, msg);
	else
		wire_free(type, msg);
}

static void on_down(const char *node, uint64_t session, const char *why, void *arg)
{
	struct hkit *k = arg;

	(void)node;
	(void)session;
	(void)why;
	atomic_fetch_add(&k->downs, 1);
}

static void *state_main(void *arg)
{
	struct hkit *k = arg;

	loop_run(k->loop);
	return NULL;
}

static void end_loop(struct hkit *k, void *arg)
{
	(void)arg;
	server_stop(k->server);
	store_close(k->store);
	loop_stop(k->loop);
}

static void drop_line(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	if (level >= LOG_LVL_WARN || getenv("HTTPKIT_LOG"))
		fprintf(stderr, "%s\n", line);
}

static void start_all(struct hkit *k)
{
	struct server_ops ops = {
	    .agent_up = on_up, .agent_msg = on_msg, .agent_down = on_down, .request = on_request, .arg = k};
	struct server_config c = {.data_dir = k->dir,
	                          .listen = k->o.listen ? k->o.listen : "127.0.0.1:0",
	                          .io_threads = k->o.io_threads,
	                          .ca = k->ca,
	                          .cluster = "test",
	                          .admin_user = k->admin,
	                          .disk = k->o.disk,
	                          .logs = k->o.logs,
	                          .lease_ms = 10000,
	                          .beat_ms = 1000};
	cleanup_free char *db = xasprintf("%s/hearth.db", k->dir);
	struct store_config sc = {.path = db, .clock = clock_real()};
	struct err e;

	k->store = store_open(&sc, k->loop, &e);
	if (!k->store)
		tap_bail("store_open: %s", e.text);
	k->server = server_start(&c, k->loop, &ops, &e);
	if (!k->server)
		tap_bail("server_start: %s", e.text);
}

struct hkit *hkit_start(const struct hkit_options *o)
{
	static unsigned serial;
	struct hkit *k = xcalloc(1, sizeof(*k));
	struct passwd *pw = getpwuid(geteuid());
	cleanup_free char *path = NULL, *text = NULL;
	struct err e;
	size_t n;

	if (o)
		k->o = *o;
	if (!serial++)
		curl_global_init(CURL_GLOBAL_ALL);
	log_set_sink(drop_line, NULL);
	snprintf(k->admin, sizeof(k->admin), "%s", pw ? pw->pw_name : "root");
	if (k->o.dir)
		snprintf(k->dir, sizeof(k->dir), "%s", k->o.dir);
	else
		snprintf(k->dir, sizeof(k->dir), "%s/d%u", tap_tmpdir(), serial);
	if (fs_mkdir_p(k->dir, 0700, &e) < 0)
		tap_bail("%s", e.text);
	k->ca = tls_ca_open(k->dir, clock_real_us(clock_real()), &e);
	if (!k->ca)
		tap_bail("tls_ca_open: %s", e.text);
	k->loop = loop_create();
	k->calls = chan_create(k->loop, 64, 0, on_call_msg, k);
	start_all(k);
	path = xasprintf("%s/admin.token", k->dir);
	if (fs_read_file(path, 200, &text, &n, &e) < 0)
		tap_bail("%s", e.text);
	snprintf(k->token, sizeof(k->token), "%.64s", text);
	snprintf(k->url, sizeof(k->url), "%s://127.0.0.1:%u",
	         o && o->listen && strncmp(o->listen, "127.", 4) != 0 ? "https" : "http", server_port(k->server));
	if (pthread_create(&k->thread, NULL, state_main, k))
		tap_bail("pthread_create");
	return k;
}

void hkit_stop(struct hkit *k)
{
	hkit_call(k, end_loop, NULL);
	pthread_join(k->thread, NULL);
	chan_destroy(k->calls, NULL);
	loop_destroy(k->loop);
	tls_ca_close(k->ca);
	free(k);
}

const char *hkit_dir(const struct hkit *k)
{
	return k->dir;
}

const char *hkit_token(const struct hkit *k)
{
	return k->token;
}

const char *hkit_url(const struct hkit *k)
{
	return k->url;
}

unsigned hkit_port(const struct hkit *k)
{
	return server_port(k->server);
}

struct server *hkit_server(struct hkit *k)
{
	return k->server;
}

struct tls_ca *hkit_ca(struct hkit *k)
{
	return k->ca;
}

unsigned hkit_requests(struct hkit *k)
{
	return atomic_load(&k->requests);
}

unsigned hkit_agents_up(struct hkit *k)
{
	return atomic_load(&k->ups);
}

unsigned hkit_agents_down(struct hkit *k)
{
	return atomic_load(&k->downs);
}

uint64_t hkit_agent_session(struct hkit *k)
{
	return atomic_load(&k->session);
}

/* ---- rows ------------------------------------------------------------------------------------- */

struct commit {
	struct store_txn *t;
	sem_t done;
	int rc;
	char text[512];
};

static void on_committed(int rc, const struct err *e, void *arg)
{
	struct commit *c = arg;

	c->rc = rc;
	if (rc < 0)
		snprintf(c->text, sizeof(c->text), "%s", e->text);
	sem_post(&c->done);
}

static void do_commit(struct hkit *k, void *arg)
{
	struct commit *c = arg;
	struct err e;

	if (store_commit(k->store, c->t, on_committed, c, &e) < 0)
		on_committed(-1, &e, c);
}

void hkit_commit(struct hkit *k, struct store_txn *t)
{
	struct commit c = {.t = t};

	sem_init(&c.done, 0, 0);
	hkit_call(k, do_commit, &c);
	while (sem_wait(&c.done) < 0 && errno == EINTR)
		;
	sem_destroy(&c.done);
	if (c.rc < 0)
		tap_bail("commit: %s", c.text);
}

/* The id of the next event: `least`, or behind the newest where that is not greater. As in hearthd ids only
 * grow: the store takes what is not above its mark for projected, and would never put it into the indexes. */
static uint64_t next_event(struct hkit *k, uint64_t least)
{
	struct store_stats st;

	store_stats(k->store, &st);
	return st.last_event < least ? least : st.last_event + 1;
}

void hkit_wait_projected(struct hkit *k)
{
	uint64_t end = hkit_now_us() + 60000000;
	struct store_stats st;

	for (;;) {
		store_stats(k->store, &st);
		if (st.projected_event >= st.last_event)
			return;
		if (hkit_now_us() > end)
			tap_bail("the projections of the store stay behind");
		poll(NULL, 0, 5);
	}
}

#define SPEC                                                                                                 \
	"{\"name\":\"digits\",\"command\":[\"/bin/true\",\"--api-key\",\"hunter2\"],"                            \
	"\"environment\":{\"A_TOKEN\":\"hunter2\",\"B\":\"b\",\"DATABASE_URL\":\"postgres://u:hunter2@h\"},"     \
	"\"hyperparameters\":{\"lr\":0.1,\"hf_token\":\"hunter2\"}}"

static void put_job(struct hkit *k, uint64_t id, const char *name, const char *owner, const char *status,
                    uint32_t attempts, uint8_t deleted)
{
	struct store_txn *t = store_txn_new();
	struct job_row row = {.id = id,
	                      .name = (char *)(uintptr_t)name,
	                      .owner = (char *)(uintptr_t)(owner ? owner : k->admin),
	                      .experiment = (char *)"",
	                      .notes = (char *)"",
	                      .status = (char *)(uintptr_t)status,
	                      .queue = (char *)"default",
	                      .spec = (char *)SPEC,
	                      .created_us = clock_real_us(clock_real()),
	                      .exit_code = -1,
	                      .reason = (char *)"",
	                      .wanted = (char *)"",
	                      .attempts = attempts,
	                      .nodes = 1,
	                      .deleted = deleted,
	                      .cleanup = (char *)"",
	                      .idem_digest = (char *)""};
	struct event_row ev = {.id = next_event(k, id * 1000),
	                       .job = id,
	                       .at_us = row.created_us,
	                       .type = (char *)"submitted",
	                       .data = (char *)"{}"};

	store_txn_event(t, &ev);
	store_txn_job(t, &row);
	hkit_commit(k, t);
}

void hkit_job(struct hkit *k, uint64_t id, const char *name, const char *owner, const char *status,
              uint32_t attempts)
{
	put_job(k, id, name, owner, status, attempts, 0);
}

void hkit_array(struct hkit *k, uint64_t id, const char *name, const char *owner, uint64_t array,
                uint32_t members)
{
	struct store_txn *t = store_txn_new();
	struct job_row row = {.id = id,
	                      .name = (char *)(uintptr_t)name,
	                      .owner = (char *)(uintptr_t)(owner ? owner : k->admin),
	                      .status = (char *)"queued",
	                      .queue = (char *)"default",
	                      .array = array,
	                      .members = members};
	struct event_row ev = {
	    .id = next_event(k, id * 1000), .job = id, .type = (char *)"submitted", .data = (char *)"{}"};

	store_txn_event(t, &ev);
	store_txn_job(t, &row);
	hkit_commit(k, t);
}

void hkit_job_removed(struct hkit *k, uint64_t id, const char *name)
{
	put_job(k, id, name, NULL, "completed", 1, 1);
}

static void do_notice(struct hkit *k, void *arg)
{
	server_notice(k->server, arg);
}

void hkit_event(struct hkit *k, uint64_t id, uint64_t job, const char *type)
{
	struct store_txn *t = store_txn_new();
	struct event_row ev = {.id = next_event(k, id),
	                       .job = job,
	                       .attempt = 1,
	                       .at_us = clock_real_us(clock_real()),
	                       .type = (char *)(uintptr_t)type,
	                       .data = (char *)"{\"n\":1}"};

	store_txn_event(t, &ev);
	hkit_commit(k, t);
	hkit_call(k, do_notice, &ev);
}

/* ---- clients ---------------------------------------------------------------------------------- */

struct gathered {
	char *text;
	size_t n, cap;
};

static size_t gather_bytes(char *p, size_t size, size_t n, void *arg)
{
	struct gathered *g = arg;

	if (g->n + size * n + 1 > g->cap) {
		g->cap = 2 * (g->n + size * n + 1);
		g->text = xrealloc(g->text, g->cap);
	}
	memcpy(g->text + g->n, p, size * n);
	g->n += size * n;
	g->text[g->n] = '\0';
	return size * n;
}

static struct answer *perform_request(struct hkit *k, const char *method, const char *path, const char *auth,
                                      const void *body, size_t n, const char *const *headers)
{
	struct answer *a = xcalloc(1, sizeof(*a));
	struct gathered to_body = {xstrdup(""), 0, 1}, to_headers = {xstrdup(""), 0, 1};
	cleanup_free char *url = xasprintf("%s%s", k->url, path), *sock = xasprintf("%s/hearthd.sock", k->dir),
	                  *line = NULL;
	cleanup_free char *ca = xasprintf("%s/ca.pem", k->dir);
	struct curl_slist *list = NULL;
	CURL *c = curl_easy_init();
	long status = 0;

	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, 30L);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(c, CURLOPT_CAINFO, ca);
	if (strcmp(method, "HEAD") == 0)
		curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
	if (body) {
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
		curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long)n);
		list = curl_slist_append(list, "Content-Type: application/json");
	}
	if (auth && strcmp(auth, "unix") == 0)
		curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, sock);
	else if (auth) {
		line = strcmp(auth, "admin") ? xasprintf("Authorization: %s", auth)
		                             : xasprintf("Authorization: Bearer %s", k->token);
		list = curl_slist_append(list, line);
	}
	for (; headers && *headers; headers++)
		list = curl_slist_append(list, *headers);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, list);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, gather_bytes);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, &to_body);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, gather_bytes);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, &to_headers);
	CURLcode rc = curl_easy_perform(c);
	if (rc != CURLE_OK)
		snprintf(a->problem, sizeof(a->problem), "%s", curl_easy_strerror(rc));
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	a->status = (int)status;
	curl_slist_free_all(list);
	curl_easy_cleanup(c);
	a->body = to_body.text;
	a->body_n = to_body.n;
	a->headers = to_headers.text;
	a->json = json_parse(a->body, a->body_n, NULL);
	return a;
}

struct answer *http(struct hkit *k, const char *method, const char *path, const char *auth, const char *body,
                    const char *const *headers)
{
	return perform_request(k, method, path, auth, body, body ? strlen(body) : 0, headers);
}

struct answer *http_bytes(struct hkit *k, const char *method, const char *path, const char *auth,
                          const void *body, size_t n)
{
	return perform_request(k, method, path, auth, body, n, NULL);
}

void answer_free(struct answer *a)
{
	if (!a)
		return;
	cJSON_Delete(a->json);
	free(a->headers);
	free(a->body);
	free(a);
}

const char *answer_str(const struct answer *a, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(a->json, key);

	return cJSON_IsString(v) ? v->valuestring : NULL;
}

double answer_num(const struct answer *a, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(a->json, key);

	return cJSON_IsNumber(v) ? v->valuedouble : -1;
}

const char *answer_header(const struct answer *a, const char *name)
{
	static char value[1024];
	const char *p = a->headers;
	size_t n = strlen(name);

	while (p && *p) {
		if (strncasecmp(p, name, n) == 0 && p[n] == ':') {
			p += n + 1;
			p += strspn(p, " ");
			snprintf(value, sizeof(value), "%.*s", (int)strcspn(p, "\r\n"), p);
			return value;
		}
		p = strchr(p, '\n');
		p = p ? p + 1 : NULL;
	}
	return NULL;
}

int raw_connect(struct hkit *k)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
	                        .sin_port = htons((uint16_t)hkit_port(k)),
	                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		tap_bail("connect: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

int raw_unix(struct hkit *k)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%.90s/hearthd.sock", k->dir);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		tap_bail("connect %s: %s", a.sun_path, strerror(errno));
	return fd;
}

void raw_send(int fd, const char *text)
{
	size_t n = strlen(text);
	ssize_t k;

	while (n) {
		k = send(fd, text, n, MSG_NOSIGNAL);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return; /* the server has closed: the test looks at what it said */
		text += k;
		n -= (size_t)k;
	}
}

char *raw_read(int fd, const char *needle, unsigned timeout_ms, int *closed)
{
	uint64_t end = hkit_now_us() + timeout_ms * 1000ull;
	static _Thread_local char piece[1u << 18];
	char *text = xcalloc(1, 1);
	size_t n = 0, from = 0, cap = 1;

	if (closed)
		*closed = 0;
	while (!(needle && memmem(text + from, n - from, needle, strlen(needle)))) {
		uint64_t now = hkit_now_us();
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t k;

		if (now >= end || poll(&p, 1, (int)((end - now) / 1000) + 1) <= 0)
			break;
		k = recv(fd, piece, sizeof(piece), 0);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			if (closed)
				*closed = 1;
			break;
		}
		if (n + (size_t)k + 1 > cap) {
			cap = 2 * (n + (size_t)k + 1);
			text = xrealloc(text, cap);
		}
		memcpy(text + n, piece, (size_t)k);
		from = needle && n > strlen(needle) ? n - strlen(needle) : 0;
		n += (size_t)k;
		text[n] = '\0';
	}
	return text;
}
