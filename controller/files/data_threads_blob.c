/*
 * data_threads_blob: requests of agents to the blob store, on the blob thread. An agent may read every blob,
 * since it is a part of Hearth.
 */
#include <string.h>

#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "common/tree/tree.h"
#include "controller/files/blobs/blobstore.h"
#include "controller/files/data_threads_int.h"
#include "controller/files/disk_space.h"

struct ask {
	uint64_t session, id;
	uint16_t type;
	void *msg;
};

static void ask_free(void *arg)
{
	struct ask *a = arg;

	wire_free(a->type, a->msg);
	free(a);
}

static void answer_get(struct data_threads *b, struct ask *a)
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
		answer_get(b, a);
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

int data_blob_msg(struct data_threads *b, uint64_t session, uint16_t type, uint64_t id, void *msg)
{
	struct ask *a = xcalloc(1, sizeof(*a));

	a->session = session;
	a->id = id;
	a->type = type;
	a->msg = msg;
	if (data_post_blob(b, take_ask, a, size_of(type, msg), ask_free) == 0)
		return 0;
	free(a);
	return -1;
}
