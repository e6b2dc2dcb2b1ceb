/*
 * data_threads_blob: requests of agents to the blob store, on the blob thread.
 *
 * An agent reads only blobs of launches on its node (blobs/blob_rights.h). After a restart of hearthd its
 * question may come before hearthd has sent the order to prepare again. A question without a right therefore
 * waits for such an order for a while, and is refused then.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "common/tree/tree.h"
#include "controller/files/blobs/blob_rights.h"
#include "controller/files/blobs/blobstore.h"
#include "controller/files/data_threads_int.h"
#include "controller/files/disk_space.h"

#define WAIT_MS     10000u
#define LOOK_US     50000u /* between two looks at questions that wait */
#define PER_SESSION 256u   /* questions that wait */
#define WAITING_MAX 65536u

struct ask {
	uint64_t session, id;
	uint16_t type;
	void *msg;
	char node[TLS_NODE_MAX + 1];
	uint64_t until_us; /* of a question that waits */
	struct ask *prev, *next;
};

struct asker { /* a session with questions that wait */
	uint64_t session;
	unsigned n;
	struct ask *asks;
	UT_hash_handle hh;
};

static void ask_free(void *arg)
{
	struct ask *a = arg;

	wire_free(a->type, a->msg);
	free(a);
}

static void read_blob(struct data_threads *b, struct ask *a)
{
	const struct wm_blob_get *m = a->msg;
	struct wm_blob_data *r = xcalloc(1, sizeof(*r));
	struct err e = {.code = ERR_NONE};
	char *data = NULL;
	size_t n = 0;

	if (blobstore_read(b->blobstore, NULL, m->digest, m->offset, TREE_CHUNK_MAX, &data, &n, &r->total, &e) <
	    0)
		r->code = (uint32_t)e.code;
	r->text = xstrdup(r->code ? e.text : "");
	r->data.data = (uint8_t *)data;
	r->data.n = (uint32_t)n;
	b->ops.send(a->session, WM_BLOB_DATA, r, a->id, b->ops.arg);
}

static void refuse_get(struct data_threads *b, struct ask *a, const struct err *e)
{
	const struct wm_blob_get *m = a->msg;
	struct wm_blob_data *r = xcalloc(1, sizeof(*r));
	unsigned held;

	if (log_limit_ok(&b->blob_strangers, clock_boot_us(clock_real()), &held))
		log_warn("event=blob_refused node=%s digest=%s error=\"%s\" suppressed=%u", a->node,
		         hash_is_hex(m->digest) ? m->digest : "-", e->text, held);
	r->code = (uint32_t)e->code;
	r->text = xstrdup(e->text);
	b->ops.send(a->session, WM_BLOB_DATA, r, a->id, b->ops.arg);
}

/* ---- questions that wait ---------------------------------------------------------------------- */

/* -1: too many, the ask stays the caller's. */
static int hold_get(struct data_threads *b, struct ask *a)
{
	struct asker *s;

	HASH_FIND(hh, b->askers, &a->session, sizeof(a->session), s);
	if (b->n_waiting >= WAITING_MAX || (s && s->n >= PER_SESSION))
		return -1;
	if (!s) {
		s = xcalloc(1, sizeof(*s));
		s->session = a->session;
		HASH_ADD(hh, b->askers, session, sizeof(s->session), s);
	}
	a->until_us =
	    clock_boot_us(clock_real()) + (b->ops.blob_wait_ms ? b->ops.blob_wait_ms : WAIT_MS) * 1000ull;
	DL_APPEND(s->asks, a);
	s->n++;
	b->n_waiting++;
	if (!loop_timer_armed(b->blob_timer))
		loop_timer_arm(b->blob_timer, LOOK_US);
	return 0;
}

static void drop_waiting(struct data_threads *b, struct asker *s, struct ask *a)
{
	DL_DELETE(s->asks, a);
	s->n--;
	b->n_waiting--;
	ask_free(a);
}

/* 1: it was answered. It is checked again only when hearthd has sent an order since. */
static int retry_get(struct data_threads *b, struct ask *a, int check, uint64_t now)
{
	const struct wm_blob_get *m = a->msg;
	struct err e = {.code = ERR_NONE};

	if (!check && now < a->until_us)
		return 0;
	if (blob_rights_check(b->rights, a->node, m->digest, &e) == 0) {
		read_blob(b, a);
		return 1;
	}
	if (now < a->until_us)
		return 0;
	refuse_get(b, a, &e);
	return 1;
}

void data_blob_retry(void *arg)
{
	struct data_threads *b = arg;
	uint64_t now = clock_boot_us(clock_real()), changes = blob_rights_changes(b->rights);
	struct asker *s, *tmp;
	struct ask *a, *next;

	HASH_ITER (hh, b->askers, s, tmp) {
		DL_FOREACH_SAFE (s->asks, a, next)
			if (retry_get(b, a, changes != b->rights_seen, now))
				drop_waiting(b, s, a);
		if (s->asks)
			continue;
		HASH_DEL(b->askers, s);
		free(s);
	}
	b->rights_seen = changes;
	if (b->askers)
		loop_timer_arm(b->blob_timer, LOOK_US);
}

void data_blob_end(struct data_threads *b)
{
	struct asker *s, *tmp;
	struct ask *a, *next;

	HASH_ITER (hh, b->askers, s, tmp) {
		DL_FOREACH_SAFE (s->asks, a, next)
			drop_waiting(b, s, a);
		HASH_DEL(b->askers, s);
		free(s);
	}
}

/* ---- answers ---------------------------------------------------------------------------------- */

/* 1: it waits, and the ask is no longer the caller's. */
static int answer_get(struct data_threads *b, struct ask *a)
{
	const struct wm_blob_get *m = a->msg;
	struct err e = {.code = ERR_NONE};

	if (blob_rights_check(b->rights, a->node, m->digest, &e) == 0) {
		read_blob(b, a);
		return 0;
	}
	if (e.code == ERR_DENIED && hold_get(b, a) == 0)
		return 1;
	refuse_get(b, a, &e);
	return 0;
}

static void answer_have(struct data_threads *b, struct ask *a)
{
	const struct wm_blob_have *m = a->msg;
	struct wm_blob_missing *r = xcalloc(1, sizeof(*r));
	uint8_t *missing = xcalloc(m->digests.n ? m->digests.n : 1, 1);
	struct err e;
	uint32_t i;

	if (blobstore_missing(b->blobstore, NULL, (const char *const *)m->digests.v, m->digests.n, missing, &e) <
	    0)
		memset(missing, 1,
		       m->digests.n); /* not known to be here: putting it again does no harm and names the error */
	for (i = 0; i < m->digests.n; i++)
		if (missing[i])
			wire_strv_add(&r->digests, m->digests.v[i]);
	free(missing);
	b->ops.send(a->session, WM_BLOB_MISSING, r, a->id, b->ops.arg);
}

static void answer_put(struct data_threads *b, struct ask *a)
{
	const struct wm_blob_put *m = a->msg;
	struct blob_piece p = {
	    .digest = m->digest, .offset = m->offset, .total = m->total, .data = m->data.data, .n = m->data.n};
	struct wm_blob_ok *r = xcalloc(1, sizeof(*r));
	struct err e = {.code = ERR_NONE};
	int complete = 0;

	if (disk_space_room(b->log_dir, b->ops.limits.min_free_mb) != DISK_ROOM)
		err_set(&e, ERR_NOSPACE, "the disk of hearthd is nearly full, and stores no outputs (min_free_mb)");
	else if (blobstore_put(b->blobstore, &p, &r->present, &complete, &e) == 0 && r->present >= m->total &&
	         !complete)
		err_set(&e, ERR_INVALID, "the blob is incomplete");
	r->code = (uint32_t)e.code;
	r->text = xstrdup(e.code ? e.text : "");
	b->ops.send(a->session, WM_BLOB_OK, r, a->id, b->ops.arg);
}

static void take_ask(struct data_threads *b, void *arg)
{
	struct ask *a = arg;

	switch (a->type) {
	case WM_BLOB_GET:
		if (answer_get(b, a))
			return;
		break;
	case WM_BLOB_HAVE:
		answer_have(b, a);
		break;
	case WM_BLOB_PUT:
		answer_put(b, a);
		break;
	default:
		b->ops.hang_up(a->session, "this message does not belong on a bulk connection", b->ops.arg);
	}
	ask_free(a);
}

static size_t size_of(uint16_t type, const void *msg)
{
	const struct wm_blob_have *have = msg;
	const struct wm_blob_put *put = msg;

	if (type == WM_BLOB_PUT)
		return put->data.n + 512;
	if (type == WM_BLOB_HAVE)
		return (size_t)have->digests.n * 96 + 512;
	return TREE_CHUNK_MAX; /* BLOB_GET: its answer waits in memory */
}

int data_blob_msg(struct data_threads *b, uint64_t session, const char *node, uint16_t type, uint64_t id,
                  void *msg)
{
	struct ask *a = xcalloc(1, sizeof(*a));

	snprintf(a->node, sizeof(a->node), "%s", node);

	a->session = session;
	a->id = id;
	a->type = type;
	a->msg = msg;
	if (data_post_blob(b, take_ask, a, size_of(type, msg), ask_free) == 0)
		return 0;
	free(a);
	return -1;
}
