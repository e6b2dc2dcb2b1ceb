/*
 * data_link_ctl: see data_link_ctl.h.
 */
#include "tests/unit/agent/logs/data_link_ctl.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/fsutil.h"
#include "common/tree/tree.h"
#include "tests/lib/tap.h"

/* ---- logs ------------------------------------------------------------------------------------------------
 */

struct data_link_ctl_stream *data_link_ctl_stream(struct data_link_ctl *c, const char *name)
{
	for (int i = 0; i < DATA_LINK_CTL_STREAMS; i++) {
		struct data_link_ctl_stream *s = &c->streams[i];

		if (s->name && strcmp(s->name, name) != 0)
			continue;
		if (!s->name) {
			s->name = xstrdup(name);
			s->data = xstrdup("");
			s->recs = xstrdup("");
		}
		return s;
	}
	tap_bail("too many streams");
}

static void add_recs(struct data_link_ctl_stream *s, const struct wm_log_data *m, size_t skip)
{
	struct buf b;
	uint32_t off, fd;
	uint64_t us;
	char *next;

	buf_view(&b, m->rec.data, m->rec.n);
	while (strlen(s->recs) < 4000 && buf_get_u32(&b, &off) == 0 && buf_get_u64(&b, &us) == 0 &&
	       buf_get_u32(&b, &fd) == 0) {
		if (off < skip)
			continue;
		next = xasprintf("%s%" PRIu64 "@%u ", s->recs, m->offset + off, fd);
		free(s->recs);
		s->recs = next;
	}
}

static void take_log(struct data_link_ctl *c, const struct wm_log_data *m)
{
	cleanup_free char *name = xasprintf("%" PRIu64 ".%u/%s", m->job, m->attempt, m->stream);
	struct data_link_ctl_stream *s = data_link_ctl_stream(c, name);
	struct wm_log_ack ack = {.job = m->job, .attempt = m->attempt, .stream = m->stream};
	size_t skip = 0;

	s->frames++;
	if (m->offset > s->n) {
		s->data = xrealloc(s->data, m->offset + 1);
		memset(s->data + s->n, '#', m->offset - s->n);
		s->lost += m->offset - s->n;
		s->n = m->offset;
	}
	skip = s->n - m->offset < m->data.n ? s->n - m->offset : m->data.n;
	s->sent_again += skip;
	add_recs(s, m, skip);
	s->data = xrealloc(s->data, s->n + m->data.n - skip + 1);
	if (m->data.n > skip)
		memcpy(s->data + s->n, m->data.data + skip, m->data.n - skip);
	s->n += m->data.n - skip;
	s->data[s->n] = '\0';
	s->eof |= m->eof;
	ack.offset = s->n;
	if (!c->hold_acks)
		peer_send(c->peer, WM_LOG_ACK, &ack, 0, NULL);
}

void data_link_ctl_ack_all(struct data_link_ctl *c)
{
	c->hold_acks = 0;
	for (int i = 0; i < DATA_LINK_CTL_STREAMS; i++) {
		struct data_link_ctl_stream *s = &c->streams[i];
		struct wm_log_ack ack = {.offset = s->n};
		unsigned long long job;

		if (!s->name || sscanf(s->name, "%llu.%u", &job, &ack.attempt) != 2)
			continue;
		ack.job = job;
		ack.stream = strchr(s->name, '/') + 1;
		if (c->peer)
			peer_send(c->peer, WM_LOG_ACK, &ack, 0, NULL);
	}
}

/* ---- metrics ---------------------------------------------------------------------------------------------
 */

static void take_metrics(struct data_link_ctl *c, const struct wm_metrics *m)
{
	struct wm_metrics_ack ack = {.job = m->job, .attempt = m->attempt, .seq = m->seq};

	c->batches++;
	if (m->seq <= c->last_seq) {
		c->repeated++;
	} else {
		c->last_seq = m->seq;
		c->points = xrealloc(c->points, c->points_n + m->name_ix.n * 128 + 1);
		for (uint32_t i = 0; i < m->name_ix.n; i++)
			c->points_n +=
			    (size_t)snprintf(c->points + c->points_n, 128, "%u:%.60s=%g@%lld ", m->ranks.v[i],
			                     m->names.v[m->name_ix.v[i]], m->values.v[i], (long long)m->steps.v[i]);
		c->n_points += m->name_ix.n;
	}
	if (!c->hold_metrics)
		peer_send(c->peer, WM_METRICS_ACK, &ack, 0, NULL);
}

/* ---- blobs
 * ------------------------------------------------------------------------------------------------- */

static void give_blob(struct data_link_ctl *c, uint64_t id, const struct wm_blob_get *m)
{
	struct wm_blob_data r = {0};
	struct err e = {0};
	char none[] = "", *data;
	size_t n, skip;

	c->gets++;
	r.text = none;
	if (blob_get(c->blobdir, m->digest, TREE_MANIFEST_MAX, &data, &n, &e) == 0) {
		skip = m->offset < n ? (size_t)m->offset : n;
		r.total = n;
		r.data.data = (uint8_t *)data + skip;
		r.data.n = n - skip < TREE_CHUNK_MAX ? (uint32_t)(n - skip) : TREE_CHUNK_MAX;
	} else {
		data = NULL;
		r.code = e.code;
		r.text = e.text;
	}
	peer_send(c->peer, WM_BLOB_DATA, &r, id, NULL);
	free(data);
}

static void say_missing(struct data_link_ctl *c, uint64_t id, const struct wm_blob_have *m)
{
	struct wm_blob_missing r = {0};

	c->haves++;
	for (uint32_t i = 0; i < m->digests.n; i++)
		if (!blob_has(c->blobdir, m->digests.v[i]))
			wire_strv_add(&r.digests, m->digests.v[i]);
	peer_send(c->peer, WM_BLOB_MISSING, &r, id, NULL);
	wire_fini(WM_BLOB_MISSING, &r);
}

/* Pieces come in order; what is not yet whole waits in `part`. */
static void take_blob(struct data_link_ctl *c, uint64_t id, const struct wm_blob_put *m)
{
	struct wm_blob_ok r = {0};
	struct err e = {0};
	char none[] = "";

	c->puts++;
	r.text = none;
	if (m->offset == 0)
		c->part_n = 0;
	if (m->offset != c->part_n || m->data.n > TREE_CHUNK_MAX) {
		r.code = ERR_CONFLICT;
	} else {
		c->part = xrealloc(c->part, c->part_n + m->data.n + 1);
		if (m->data.n)
			memcpy(c->part + c->part_n, m->data.data, m->data.n);
		c->part_n += m->data.n;
		if (c->part_n >= m->total && blob_cache(c->blobdir, m->digest, c->part, c->part_n, &e) < 0) {
			r.code = e.code;
			r.text = e.text;
		}
	}
	r.present = c->part_n;
	peer_send(c->peer, WM_BLOB_OK, &r, id, NULL);
}

/* ---- connection
 * ---------------------------------------------------------------------------------------------- */

static void on_open(struct peer *p, const struct wm_welcome *w, void *arg)
{
	(void)p;
	(void)w;
	((struct data_link_ctl *)arg)->opened++;
}

static void on_msg(struct peer *p, uint16_t type, uint64_t id, void *msg, void *arg)
{
	struct data_link_ctl *c = arg;

	(void)p;
	if (type == WM_LOG_DATA && c->full)
		peer_close_flushed(p, 1000);
	else if (type == WM_LOG_DATA)
		take_log(c, msg);
	else if (type == WM_METRICS)
		take_metrics(c, msg);
	else if (type == WM_BLOB_GET && !c->deaf)
		give_blob(c, id, msg);
	else if (type == WM_BLOB_HAVE && !c->deaf)
		say_missing(c, id, msg);
	else if (type == WM_BLOB_PUT && !c->deaf)
		take_blob(c, id, msg);
	wire_free(type, msg);
}

static void on_close(struct peer *p, const struct err *why, void *arg)
{
	struct data_link_ctl *c = arg;

	(void)why;
	c->closed++;
	if (c->peer == p)
		c->peer = NULL;
	peer_destroy(p);
}

static int on_hello(struct peer *p, const struct wm_hello *h, const char *node, struct wm_welcome *w,
                    struct err *e, void *arg)
{
	(void)p;
	(void)h;
	(void)node;
	(void)w;
	(void)e;
	(void)arg;
	return 0;
}

static const struct peer_ops ops = {on_open, on_msg, on_close, NULL, on_hello};

static void on_request(struct bufferevent *bev, void *arg)
{
	struct data_link_ctl *c = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
	struct peer_accept a = {.ca = ca, .cluster = "test", .out_limit = 64u << 20};

	if (end.pos < 0)
		return;
	evbuffer_drain(in, (size_t)end.pos + 4);
	bufferevent_write(bev, ANSWER, strlen(ANSWER));
	c->waiting = NULL;
	peer_destroy(c->peer);
	c->peer = peer_accept(loop, bev, &a, &ops, c);
}

static void on_connection(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa, int n, void *arg)
{
	struct data_link_ctl *c = arg;

	(void)l;
	(void)sa;
	(void)n;
	if (c->closed_port) {
		c->refused++;
		close(fd);
		return;
	}
	if (c->waiting)
		bufferevent_free(c->waiting);
	c->waiting = bufferevent_socket_new(loop_base(loop), fd, BEV_OPT_CLOSE_ON_FREE);
	bufferevent_setcb(c->waiting, on_request, NULL, NULL, c);
	bufferevent_enable(c->waiting, EV_READ | EV_WRITE);
}

void data_link_ctl_start(struct data_link_ctl *c)
{
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(four);

	*c = (struct data_link_ctl){.points = xstrdup("")};
	snprintf(c->blobdir, sizeof(c->blobdir), "%s/ctl-blobs", top);
	c->listener = evconnlistener_new_bind(loop_base(loop), on_connection, c,
	                                      LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 16,
	                                      (struct sockaddr *)&four, sizeof(four));
	if (!c->listener)
		tap_bail("cannot listen");
	getsockname(evconnlistener_get_fd(c->listener), (struct sockaddr *)&four, &n);
	snprintf(c->url, sizeof(c->url), "http://127.0.0.1:%u", ntohs(four.sin_port));
}

void data_link_ctl_drop(struct data_link_ctl *c)
{
	peer_destroy(c->peer);
	c->peer = NULL;
}

void data_link_ctl_stop(struct data_link_ctl *c)
{
	data_link_ctl_drop(c);
	if (c->waiting)
		bufferevent_free(c->waiting);
	evconnlistener_free(c->listener);
	for (int i = 0; i < DATA_LINK_CTL_STREAMS; i++) {
		free(c->streams[i].name);
		free(c->streams[i].data);
		free(c->streams[i].recs);
	}
	free(c->points);
	free(c->part);
	loop_run_once(loop, 0);
}

void data_link_ctl_env(struct data_link_ctl *c, struct agent_env *env, const char *name)
{
	struct err e;

	*env = (struct agent_env){.loop = loop, .clock = clock_real(), .instance = 1};
	env->cfg.controller = xstrdup(c->url);
	env->cfg.node = xstrdup("node1");
	env->cfg.data_dir = xasprintf("%s/%s/data", top, name);
	env->cfg.run_dir = xasprintf("%s/%s/run", top, name);
	if (fs_mkdir_p(env->cfg.data_dir, 0755, &e) < 0 || fs_mkdir_p(env->cfg.run_dir, 0755, &e) < 0)
		tap_bail("%s", e.text);
}

void data_link_ctl_env_fini(struct agent_env *env)
{
	free(env->cfg.controller);
	free(env->cfg.node);
	free(env->cfg.data_dir);
	free(env->cfg.run_dir);
}
