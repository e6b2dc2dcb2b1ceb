/*
 * bulk_blob: blobs for threads. Each function asks on the loop and waits; an answer that comes when the
 * thread has gone is dropped.
 */
#include <string.h>

#include "agent/bulk.h"

#define HAVE_MAX 4096

struct ask {
	struct bulk *b;
	uint16_t type;
	void *msg; /* struct wm_..., owned */
	struct worker_call *call;
	int rc;
	struct err e;
	void *reply; /* owned, of the type that answers */
	uint16_t reply_type;
};

static void ask_drop(void *p)
{
	struct ask *a = p;

	wire_free(a->type, a->msg);
	wire_free(a->reply_type, a->reply);
	free(a);
}

static void on_reply(int rc, uint16_t type, void *reply, const struct err *e, void *arg)
{
	struct ask *a = arg;

	a->rc = rc;
	if (e)
		a->e = *e;
	a->reply = reply;
	a->reply_type = type;
	worker_call_end(a->call);
}

static void start(struct worker_call *c, void *data)
{
	struct ask *a = data;

	a->call = c;
	bulk_request(a->b, a->type, a->msg, BULK_REQUEST_MS, on_reply, a);
}

struct answer {
	int rc;
	struct err e;
	void *reply;
};

static void take(void *data, void *out)
{
	struct ask *a = data;
	struct answer *to = out;

	to->rc = a->rc;
	to->e = a->e;
	to->reply = a->reply;
	a->reply = NULL;
}

/* Takes msg. The reply is the caller's. */
static void *ask(struct worker *w, struct bulk *b, uint16_t type, void *msg, struct err *e)
{
	struct ask *a = xcalloc(1, sizeof(*a));
	struct answer got = {0};

	*a = (struct ask){.b = b, .type = type, .msg = msg};
	if (worker_call(w, start, a, ask_drop, take, &got, BULK_REQUEST_MS + 5000, e) < 0)
		return NULL;
	if (got.rc < 0) {
		err_set(e, got.e.code, "%s", got.e.text);
		return NULL;
	}
	return got.reply;
}

/* What the other side says of itself may be any number. */
static enum err_code code_of(uint32_t code)
{
	return code >= ERR_INVALID && code <= ERR_NOSPACE ? (enum err_code)code : ERR_INTERNAL;
}

int bulk_blob_get(struct worker *w, struct bulk *b, const char *digest, char **data, size_t *n, struct err *e)
{
	struct wm_blob_get *m = xcalloc(1, sizeof(*m));
	struct wm_blob_data *r;

	m->digest = xstrdup(digest);
	r = ask(w, b, WM_BLOB_GET, m, e);
	if (!r)
		return err_wrap(e, "blob %.12s", digest);
	if (r->code) {
		err_set(e, code_of(r->code), "blob %.12s: %s", digest, r->text);
		wire_free(WM_BLOB_DATA, r);
		return -1;
	}
	*data = r->data.data ? (char *)r->data.data : xstrdup("");
	*n = r->data.n;
	r->data = (struct wire_bytes){0};
	wire_free(WM_BLOB_DATA, r);
	return 0;
}

int bulk_blob_put(struct worker *w, struct bulk *b, const char *digest, const void *data, size_t n,
                  struct err *e)
{
	struct wm_blob_put *m = xcalloc(1, sizeof(*m));
	struct wm_blob_ok *r;
	int rc = 0;

	m->digest = xstrdup(digest);
	m->data = (struct wire_bytes){.data = n ? xmemdup(data, n) : NULL, .n = (uint32_t)n};
	r = ask(w, b, WM_BLOB_PUT, m, e);
	if (!r)
		return err_wrap(e, "blob %.12s", digest);
	if (r->code)
		rc = err_set(e, code_of(r->code), "blob %.12s: %s", digest, r->text);
	wire_free(WM_BLOB_OK, r);
	return rc;
}

int bulk_blob_have(struct worker *w, struct bulk *b, char *const *digests, size_t n, uint8_t *missing,
                   struct err *e)
{
	struct wm_blob_have *m;
	struct wm_blob_missing *r;
	size_t next = 0;

	if (n > HAVE_MAX)
		return err_set(e, ERR_INTERNAL, "too many digests in one question");
	m = xcalloc(1, sizeof(*m));
	for (size_t i = 0; i < n; i++)
		wire_strv_add(&m->digests, digests[i]);
	r = ask(w, b, WM_BLOB_HAVE, m, e);
	if (!r)
		return -1;
	memset(missing, 0, n);
	/* The answer keeps the order of the question, so one pass finds all; anything else is looked for from the
	 * start. */
	for (uint32_t k = 0; k < r->digests.n; k++) {
		size_t tried = 0;

		while (tried < n && strcmp(digests[next % n], r->digests.v[k]) != 0) {
			next++;
			tried++;
		}
		if (tried < n)
			missing[next % n] = 1;
	}
	wire_free(WM_BLOB_MISSING, r);
	return 0;
}
