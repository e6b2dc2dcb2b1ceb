/*
 * agent_ctl: see agent_ctl.h. HTTP is as much as an agent needs: one request a connection, a body by
 * Content-Length.
 */
#include "tests/unit/agent/launch/agent_ctl.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

/* ---- reports ----------------------------------------------------------------------------------------------
 */

static void ack(struct ctl_agent *a, uint64_t id)
{
	struct wm_ack m = {.acked = id};

	if (!a->c->no_acks && a->control)
		peer_send(a->control, WM_ACK, &m, 0, NULL);
}

static void take_proc(struct ctl_agent *a, struct wm_proc_report *r)
{
	struct ctl_proc *slot = NULL;

	for (int i = CTL_PROCS - 1; i >= 0; i--) {
		struct ctl_proc *p = &a->procs[i];

		if (!p->r || (p->r->kind == r->kind && p->r->rank == r->rank && p->r->job == r->job))
			slot = p->r || !slot || !slot->r ? p : slot;
	}
	if (slot->r)
		wire_free(WM_PROC_REPORT, slot->r);
	slot->r = r;
}

static void relay_orted(struct ctl *c, const struct wm_proc_report *r)
{
	struct wm_rsh_state m = {.job = r->job,
	                         .attempt = r->attempt,
	                         .epoch = r->epoch,
	                         .rsh_id = r->token,
	                         .state = r->state,
	                         .exit_code = r->exit_code,
	                         .signal = r->signal,
	                         .text = r->text};

	for (int i = 0; i < 16; i++)
		if (c->rsh[i].from && strcmp(c->rsh[i].id, r->token) == 0 && c->rsh[i].from->control)
			peer_send(c->rsh[i].from->control, WM_RSH_STATE, &m, 0, NULL);
}

static void relay_rsh(struct ctl_agent *a, struct wm_rsh_request *r)
{
	struct wm_orted_start m = {
	    .job = r->job, .attempt = r->attempt, .epoch = r->epoch, .rsh_id = r->rsh_id, .argv = r->argv};
	struct ctl *c = a->c;
	int k = atoi(r->host + 5) - 1, i = 0;

	while (i < 15 && c->rsh[i].from && strcmp(c->rsh[i].id, r->rsh_id) != 0)
		i++;
	c->rsh[i].from = a;
	snprintf(c->rsh[i].id, sizeof(c->rsh[i].id), "%s", r->rsh_id);
	if (k >= 0 && k < CTL_NODES && c->nodes[k] && c->nodes[k]->control)
		peer_send(c->nodes[k]->control, WM_ORTED_START, &m, 0, NULL);
}

static void on_beat(struct ctl_agent *a, const struct wm_beat *b)
{
	uint64_t now = clock_boot_us(clock_real());
	struct wm_beat_ack m = {.seq = b->seq, .lease_ms = a->c->lease_ms, .peers_changed = 1};

	if (a->beats++ && now - a->beat_us > a->beat_gap_us)
		a->beat_gap_us = now - a->beat_us;
	a->beat_us = now;
	if (!a->control)
		return; /* of an agent that was killed meanwhile */
	for (int i = 0; i < CTL_AGENTS; i++) {
		const struct ctl_agent *o = &a->c->agents[i];
		char line[160];

		if (!o->inv)
			continue;
		snprintf(line, sizeof(line), "%s %s:%u", o->name, o->inv->address, o->inv->peer_port);
		wire_strv_add(&m.peers, line);
	}
	peer_send(a->control, WM_BEAT_ACK, &m, 0, NULL);
	wire_fini(WM_BEAT_ACK, &m);
}

static void add_artifact(struct ctl_agent *a, const struct wm_artifact_report *r)
{
	char *old = a->artifacts;

	if (strcmp(r->kind, "failure") == 0) {
		free(a->failure);
		a->failure = xstrdup(r->text);
		return;
	}
	a->artifacts =
	    xasprintf("%s%s %s %u\n", old ? old : "", r->kind, r->uri[0] ? r->uri : r->digest, r->files);
	free(old);
}

static void on_control(struct ctl_agent *a, uint16_t type, uint64_t id, void *msg)
{
	switch (type) {
	case WM_INVENTORY:
		wire_free(WM_INVENTORY, a->inv);
		a->inv = msg;
		return;
	case WM_LAUNCH_REPORT:
		wire_free(WM_LAUNCH_REPORT, a->launch);
		a->launch = msg;
		a->seen |= 1u << a->launch->state;
		if (a->launch->job < CTL_JOBS)
			a->states[a->launch->job] = (uint8_t)a->launch->state;
		if (a->launch->attempt < CTL_ATTEMPTS) {
			a->attempts[a->launch->attempt].state = a->launch->state;
			a->attempts[a->launch->attempt].over = a->launch->over;
		}
		ack(a, id);
		return;
	case WM_PROC_REPORT:
		if (((struct wm_proc_report *)msg)->kind == PROC_ORTED)
			relay_orted(a->c, msg);
		take_proc(a, msg);
		ack(a, id);
		return;
	case WM_RUN_INFO:
		if (strcmp(((struct wm_run_info *)msg)->kind, "mpirun") == 0) {
			free(a->mpirun_line);
			a->mpirun_line = xstrdup(((struct wm_run_info *)msg)->text);
		}
		ack(a, id);
		break;
	case WM_ARTIFACT_REPORT:
		add_artifact(a, msg);
		ack(a, id);
		break;
	case WM_POOL_BAD:
		snprintf(a->pool_bad, sizeof(a->pool_bad), "%llu %llu %s",
		         (unsigned long long)((struct wm_pool_bad *)msg)->pool,
		         (unsigned long long)((struct wm_pool_bad *)msg)->job, ((struct wm_pool_bad *)msg)->text);
		ack(a, id);
		break;
	case WM_RSH_REQUEST:
		relay_rsh(a, msg);
		break;
	case WM_SYNC_END:
		a->synced = a->connections;
		break;
	case WM_BEAT:
		on_beat(a, msg);
		break;
	}
	wire_free(type, msg);
}

/* ---- bulk ------------------------------------------------------------------------------------------- */

static struct ctl_stream *stream_of(struct ctl *c, const char *name)
{
	for (int i = 0; i < 512; i++) {
		if (c->streams[i].name && strcmp(c->streams[i].name, name) != 0)
			continue;
		if (!c->streams[i].name)
			c->streams[i].name = xstrdup(name);
		return &c->streams[i];
	}
	abort();
}

static void on_log(struct ctl_agent *a, const struct wm_log_data *m)
{
	cleanup_free char *key = xasprintf("%llu %s", (unsigned long long)m->job, m->stream);
	struct ctl_stream *s = stream_of(a->c, key);
	struct wm_log_ack back = {.job = m->job, .attempt = m->attempt, .stream = m->stream};

	if (m->offset <= s->n && m->offset + m->data.n > s->n) {
		size_t skip = s->n - m->offset, n = m->data.n - skip;

		s->data = xrealloc(s->data, s->n + n + 1);
		memcpy(s->data + s->n, m->data.data + skip, n);
		s->n += n;
		s->data[s->n] = '\0';
	}
	s->eof |= m->eof;
	back.offset = s->n;
	peer_send(a->bulk, WM_LOG_ACK, &back, 0, NULL);
}

static void on_bulk(struct ctl_agent *a, uint16_t type, uint64_t id, void *msg)
{
	char none[] = "";

	if (!a->bulk) {
		wire_free(type, msg);
		return;
	}
	if (type == WM_LOG_DATA) {
		on_log(a, msg);
	} else if (type == WM_METRICS) {
		const struct wm_metrics *m = msg;
		struct wm_metrics_ack back = {.job = m->job, .attempt = m->attempt, .seq = m->seq};

		peer_send(a->bulk, WM_METRICS_ACK, &back, 0, NULL);
	} else if (a->c->no_blobs && (type == WM_BLOB_HAVE || type == WM_BLOB_PUT)) {
		; /* no answer: the upload waits */
	} else if (type == WM_BLOB_HAVE) {
		struct wm_blob_missing back = {0};

		peer_send(a->bulk, WM_BLOB_MISSING, &back, id, NULL);
	} else if (type == WM_BLOB_PUT) {
		const struct wm_blob_put *m = msg;
		struct wm_blob_ok back = {.text = none, .present = m->offset + m->data.n};

		peer_send(a->bulk, WM_BLOB_OK, &back, id, NULL);
	}
	wire_free(type, msg);
}

/* ---- connections ------------------------------------------------------------------------------------ */

struct conn {
	struct ctl *c;
	struct bufferevent *bev; /* before the upgrade */
	struct peer *peer;
	struct ctl_agent *a;
	uint8_t role;
	struct conn *next;
};

static int on_hello(struct peer *p, const struct wm_hello *hello, const char *node, struct wm_welcome *w,
                    struct err *e, void *arg)
{
	struct conn *k = arg;

	(void)p;
	for (int i = 0; i < CTL_AGENTS; i++)
		if (strcmp(k->c->agents[i].name, node) == 0)
			k->a = &k->c->agents[i];
	if (!k->a || (k->c->refused && strcmp(k->c->refused, node) == 0)) {
		k->c->refusals++;
		return err_set(e, k->c->refused_as ? (enum err_code)k->c->refused_as : ERR_DENIED, "who is %s?",
		               node);
	}
	k->role = hello->role;
	w->version = WIRE_VERSION;
	w->session = 1;
	w->lease_ms = k->c->lease_ms;
	w->beat_ms = 100;
	return 0;
}

static void on_open(struct peer *p, const struct wm_welcome *w, void *arg)
{
	struct conn *k = arg;

	(void)w;
	if (k->role == ROLE_BULK) {
		k->a->bulk = p;
		return;
	}
	k->a->control = p;
	k->a->connections++;
}

static void on_msg(struct peer *p, uint16_t type, uint64_t id, void *msg, void *arg)
{
	struct conn *k = arg;

	(void)p;
	if (k->role == ROLE_BULK)
		on_bulk(k->a, type, id, msg);
	else
		on_control(k->a, type, id, msg);
}

static void conn_free(struct conn *k)
{
	struct conn **at = (struct conn **)&k->c->conns;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	if (k->a && k->a->control == k->peer)
		k->a->control = NULL;
	if (k->a && k->a->bulk == k->peer)
		k->a->bulk = NULL;
	peer_destroy(k->peer);
	if (k->bev)
		bufferevent_free(k->bev);
	free(k);
}

static void on_close(struct peer *p, const struct err *why, void *arg)
{
	(void)p;
	(void)why;
	conn_free(arg);
}

static const struct peer_ops ops = {
    .on_open = on_open, .on_msg = on_msg, .on_close = on_close, .on_hello = on_hello};

static void join(struct conn *k, const char *body)
{
	cJSON *in = cJSON_Parse(body), *out = cJSON_CreateObject();
	const char *token = cJSON_GetStringValue(cJSON_GetObjectItem(in, "token"));
	const char *node = cJSON_GetStringValue(cJSON_GetObjectItem(in, "node"));
	struct err e;
	char *cert =
	    token && strcmp(token, k->c->token) == 0
	        ? tls_ca_sign_csr(k->c->ca, cJSON_GetStringValue(cJSON_GetObjectItem(in, "csr")), node, 30, &e)
	        : NULL;
	char *text;

	if (cert) { /* another one from now on */
		k->c->joins++;
		k->c->refused = NULL;
	}
	cJSON_AddStringToObject(out, cert ? "cert" : "detail", cert ? cert : "this token is not known");
	cJSON_AddStringToObject(out, "ca", tls_ca_pem(k->c->ca));
	text = cJSON_PrintUnformatted(out);
	evbuffer_add_printf(
	    bufferevent_get_output(k->bev),
	    "HTTP/1.1 %s\r\nContent-Length: %zu\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n%s",
	    cert ? "200 OK" : "403 Forbidden", strlen(text), text);
	free(text);
	free(cert);
	cJSON_Delete(in);
	cJSON_Delete(out);
}

static void on_request(struct bufferevent *bev, void *arg)
{
	struct peer_accept accept = {.ca = ((struct conn *)arg)->c->ca, .cluster = "test", .timeout_ms = 5000};
	struct evbuffer *in = bufferevent_get_input(bev);
	struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
	struct conn *k = arg;
	char *head, *at;
	size_t body = 0;

	if (end.pos < 0)
		return;
	head = xcalloc(1, (size_t)end.pos + 5);
	evbuffer_copyout(in, head, (size_t)end.pos + 4);
	at = strcasestr(head, "content-length:");
	if (at)
		body = (size_t)atoi(at + 15);
	if (evbuffer_get_length(in) >= (size_t)end.pos + 4 + body) {
		evbuffer_drain(in, (size_t)end.pos + 4);
		if (strncmp(head, "POST ", 5) == 0) {
			char *text = xcalloc(1, body + 1);

			evbuffer_remove(in, text, body);
			join(k, text);
			free(text);
		} else {
			evbuffer_add_printf(bufferevent_get_output(bev),
			                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: hearth-agent/1\r\n"
			                    "Connection: Upgrade\r\n\r\n");
			k->bev = NULL;
			k->peer = peer_accept(k->c->loop, bev, &accept, &ops, k);
		}
	}
	free(head);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
		conn_free(arg);
}

static void on_accept(struct evconnlistener *el, evutil_socket_t fd, struct sockaddr *sa, int n, void *arg)
{
	struct ctl *c = arg;
	struct conn *k;

	(void)el;
	(void)sa;
	(void)n;
	if (c->mute) {
		close(fd);
		return;
	}
	k = xcalloc(1, sizeof(*k));
	k->c = c;
	k->next = c->conns;
	c->conns = k;
	k->bev = bufferevent_socket_new(loop_base(c->loop), fd, BEV_OPT_CLOSE_ON_FREE);
	bufferevent_setcb(k->bev, on_request, NULL, on_event, k);
	bufferevent_enable(k->bev, EV_READ | EV_WRITE);
}

/* ---- life ------------------------------------------------------------------------------------------- */

struct ctl *ctl_start(const char *dir)
{
	struct ctl *c = xcalloc(1, sizeof(*c));
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(sa);
	struct err e = {0};

	c->dir = xstrdup(dir);
	c->loop = loop_create();
	c->lease_ms = 5000;
	c->prepare_timeout_ms = 20000;
	c->ca = tls_ca_open(dir, clock_real_us(clock_real()), &e);
	if (!c->ca)
		tap_bail("authority: %s", e.text);
	c->listener = evconnlistener_new_bind(loop_base(c->loop), on_accept, c,
	                                      LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 64,
	                                      (struct sockaddr *)&sa, sizeof(sa));
	if (!c->listener || getsockname(evconnlistener_get_fd(c->listener), (struct sockaddr *)&sa, &n) < 0)
		tap_bail("listen");
	c->port = ntohs(sa.sin_port);
	snprintf(c->url, sizeof(c->url), "http://127.0.0.1:%u", c->port);
	snprintf(c->token, sizeof(c->token), "hj1-%s-%s", "00112233445566778899aabbccddeeff",
	         tls_ca_fingerprint(c->ca));
	memcpy(c->given, c->token, sizeof(c->given));
	return c;
}

void ctl_drop(struct ctl *c)
{
	c->mute = 1;
	while (c->conns)
		conn_free(c->conns);
}

void ctl_refuse(struct ctl *c, struct ctl_agent *a)
{
	struct conn *k = c->conns, *next;

	c->refused = a ? a->name : NULL;
	for (; a && k; k = next) {
		next = k->next;
		if (k->a == a)
			conn_free(k);
	}
}

static int has_refused(struct ctl *c, void *arg)
{
	return c->refusals >= *(unsigned *)arg;
}

int ctl_wait_refusals(struct ctl *c, unsigned n, uint32_t timeout_ms)
{
	return ctl_wait(c, timeout_ms, has_refused, &n);
}

void ctl_heal(struct ctl *c)
{
	c->mute = 0;
}

void ctl_forget_reports(struct ctl *c)
{
	for (int i = 0; i < CTL_AGENTS; i++) {
		struct ctl_agent *a = &c->agents[i];

		wire_free(WM_LAUNCH_REPORT, a->launch);
		a->launch = NULL;
		a->seen = 0;
		memset(a->attempts, 0, sizeof(a->attempts));
		for (int k = 0; k < CTL_PROCS; k++) {
			wire_free(WM_PROC_REPORT, a->procs[k].r);
			a->procs[k].r = NULL;
		}
		free(a->failure);
		free(a->artifacts);
		free(a->mpirun_line);
		a->failure = a->artifacts = a->mpirun_line = NULL;
	}
}

void ctl_stop(struct ctl *c)
{
	for (int i = 0; i < CTL_AGENTS; i++)
		ctl_agent_kill(&c->agents[i], SIGTERM);
	ctl_drop(c);
	ctl_forget_reports(c);
	for (int i = 0; i < CTL_AGENTS; i++)
		wire_free(WM_INVENTORY, c->agents[i].inv);
	for (int i = 0; i < 512; i++) {
		free(c->streams[i].name);
		free(c->streams[i].data);
	}
	evconnlistener_free(c->listener);
	tls_ca_close(c->ca);
	loop_destroy(c->loop);
	free(c->dir);
	free(c);
}

struct ctl_agent *ctl_agent_start(struct ctl *c, int i, const char *name, const char *const *extra)
{
	const char *top = getenv("HEARTH_TOP_BUILDDIR");
	cleanup_free char *path = xasprintf("%s/agent/hearth-agent", top ? top : "..");
	struct ctl_agent *a = &c->agents[i];
	cleanup_free char *data = xasprintf("%s/%s", c->dir, name);
	cleanup_free char *log = xasprintf("%s/%s.log", c->dir, name);
	const char *argv[40] = {path,     "--controller", c->url,      "--data",      data,
	                        "--name", name,           "--address", "127.0.0.1",   "--fake-gpus",
	                        "2",      "--log-level",  "debug",     "--allow-root"};
	int n = 14;

	for (; extra && *extra; extra++)
		argv[n++] = *extra;
	a->c = c;
	snprintf(a->name, sizeof(a->name), "%s", name);
	snprintf(a->dir, sizeof(a->dir), "%s", data);
	a->pid = fork();
	if (a->pid == 0) {
		FILE *f = freopen(log, "a", stderr);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv("HEARTH_JOIN_TOKEN", c->given, 1);
		execv(path, (char *const *)(uintptr_t)argv);
		fprintf(f ? f : stdout, "%s: no such program\n", path);
		_exit(127);
	}
	return a;
}

void ctl_agent_kill(struct ctl_agent *a, int signo)
{
	if (!a->pid)
		return;
	kill(a->pid, signo);
	waitpid(a->pid, NULL, 0);
	a->pid = 0;
}

/* ---- waiting ----------------------------------------------------------------------------------------------
 */

int ctl_wait(struct ctl *c, uint32_t timeout_ms, int (*cond)(struct ctl *c, void *arg), void *arg)
{
	uint64_t end = clock_boot_us(clock_real()) + (uint64_t)timeout_ms * 1000;

	while (!cond(c, arg)) {
		if (clock_boot_us(clock_real()) > end)
			return 0;
		loop_run_once(c->loop, 50);
	}
	return 1;
}

struct want {
	struct ctl_agent *a;
	int state, connections;
	uint8_t kind, proc_state;
	uint32_t rank;
	const char *phase;
};

static int has_state(struct ctl *c, void *arg)
{
	const struct want *w = arg;

	(void)c;
	return w->a->launch && w->a->launch->state == w->state;
}

static int has_phase(struct ctl *c, void *arg)
{
	const struct want *w = arg;

	(void)c;
	return w->a->launch && strcmp(w->a->launch->phase, w->phase) == 0;
}

int ctl_wait_phase(struct ctl_agent *a, const char *phase, uint32_t timeout_ms)
{
	struct want w = {.a = a, .phase = phase};

	return ctl_wait(a->c, timeout_ms, has_phase, &w);
}

int ctl_wait_state(struct ctl_agent *a, enum launch_state s, uint32_t timeout_ms)
{
	struct want w = {.a = a, .state = (int)s};

	if (ctl_wait(a->c, timeout_ms, has_state, &w))
		return 1;
	tap_diag("%s: state %d, text '%s'", a->name, a->launch ? a->launch->state : -1,
	         a->launch ? a->launch->text : "");
	return 0;
}

static int has_synced(struct ctl *c, void *arg)
{
	const struct want *w = arg;

	(void)c;
	return w->a->synced >= w->connections;
}

int ctl_wait_synced(struct ctl_agent *a, int connections, uint32_t timeout_ms)
{
	struct want w = {.a = a, .connections = connections};

	return ctl_wait(a->c, timeout_ms, has_synced, &w);
}

static char no_text[] = "";
static const struct wm_proc_report nothing = {
    .exit_code = 999, .signal = 999, .text = no_text, .token = no_text};

const struct wm_proc_report *ctl_proc(const struct ctl_agent *a, uint8_t kind, uint32_t rank)
{
	for (int i = 0; i < CTL_PROCS; i++)
		if (a->procs[i].r && a->procs[i].r->kind == kind && a->procs[i].r->rank == rank)
			return a->procs[i].r;
	return &nothing;
}

static int has_proc(struct ctl *c, void *arg)
{
	const struct want *w = arg;
	const struct wm_proc_report *r = ctl_proc(w->a, w->kind, w->rank);

	(void)c;
	return r->state == w->proc_state;
}

int ctl_wait_proc(struct ctl_agent *a, uint8_t kind, uint32_t rank, uint8_t state, uint32_t timeout_ms)
{
	struct want w = {.a = a, .kind = kind, .rank = rank, .proc_state = state};
	const struct wm_proc_report *r;

	if (ctl_wait(a->c, timeout_ms, has_proc, &w))
		return 1;
	r = ctl_proc(a, kind, rank);
	tap_diag("%s: kind %u rank %u is in state %d '%s'", a->name, kind, rank, r->state, r->text);
	return 0;
}

struct log_want {
	char *path;
	const char *text;
};

static int log_has(struct ctl *c, void *arg)
{
	const struct log_want *w = arg;
	char *text = NULL;
	int found;

	(void)c;
	if (fs_read_file(w->path, 16 * 1024 * 1024, &text, NULL, NULL) < 0)
		return 0;
	found = strstr(text, w->text) != NULL;
	free(text);
	return found;
}

int ctl_wait_log(struct ctl_agent *a, const char *text, uint32_t timeout_ms)
{
	struct log_want w = {.path = xasprintf("%s.log", a->dir), .text = text};
	int rc = ctl_wait(a->c, timeout_ms, log_has, &w);

	free(w.path);
	return rc;
}

const char *ctl_stream(const struct ctl *c, const char *name)
{
	for (int i = 0; i < 512; i++)
		if (c->streams[i].name && strcmp(c->streams[i].name, name) == 0)
			return c->streams[i].data ? c->streams[i].data : "";
	return "";
}
