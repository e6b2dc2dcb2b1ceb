/*
 * data_link_blob: blobs for threads. Each function asks on the loop and waits; an answer that comes when the
 * thread has gone is dropped. A blob larger than a piece (a manifest) goes in several questions, in order.
 */
#include <string.h>

#include "agent/link/data_link.h"
#include "common/tree/tree.h"

#define HAVE_MAX 4096

struct ask {
	struct data_link *b;
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

static void start_call(struct worker_call *c, void *data)
{
	struct ask *a = data;

	a->call = c;
	data_link_request(a->b, a->type, a->msg, DATA_LINK_REQUEST_MS, on_reply, a);
}

struct answer {
	int rc;
	struct err e;
	void *reply;
};

static void take_reply(void *data, void *out)
{
	struct ask *a = data;
	struct answer *to = out;

	to->rc = a->rc;
	to->e = a->e;
	to->reply = a->reply;
	a->reply = NULL;
}

/* Takes msg. The reply is the caller's. */
static void *ask_controller(struct worker *w, struct data_link *b, uint16_t type, void *msg, struct err *e)
{
	struct ask *a = xcalloc(1, sizeof(*a));
	struct answer got = {0};

	*a = (struct ask){.b = b, .type = type, .msg = msg};
	if (worker_call(w, start_call, a, ask_drop, take_reply, &got, DATA_LINK_REQUEST_MS + 5000, e) < 0)
		return NULL;
	if (got.rc < 0) {
		err_set(e, got.e.code, "%s", got.e.text);
		return NULL;
	}
	return got.reply;
}

/* The other side may send any number. */
static enum err_code code_of(uint32_t code)
{
	return code >= ERR_INVALID && code <= ERR_NOSPACE ? (enum err_code)code : ERR_INTERNAL;
}

/* Takes the message. NULL: not answered, or answered with an error. */
static void *ask_blob(struct worker *w, struct data_link *b, uint16_t type, void *msg, const char *digest,
                      struct err *e)
{
	void *r = ask_controller(w, b, type, msg, e);
	const struct wm_blob_data *data = r;
	const struct wm_blob_ok *ok = r;
	uint32_t code;

	if (!r) {
		err_wrap(e, "blob %.12s", digest);
		return NULL;
	}
	code = type == WM_BLOB_GET ? data->code : ok->code;
	if (!code)
		return r;
	err_set(e, code_of(code), "blob %.12s: %s", digest, type == WM_BLOB_GET ? data->text : ok->text);
	wire_free(type == WM_BLOB_GET ? WM_BLOB_DATA : WM_BLOB_OK, r);
	return NULL;
}

static struct wm_blob_data *get_piece(struct worker *w, struct data_link *b, const char *digest,
                                      uint64_t offset, struct err *e)
{
	struct wm_blob_get *m = xcalloc(1, sizeof(*m));

	m->digest = xstrdup(digest);
	m->offset = offset;
	return ask_blob(w, b, WM_BLOB_GET, m, digest, e);
}

/* The sizes come from the other side: none is believed that does not fit the others. */
static int check_piece(const struct wm_blob_data *r, const char *digest, uint64_t offset, uint64_t total,
                       size_t max, struct err *e)
{
	if (r->total > max)
		return err_set(e, ERR_LIMIT, "blob %.12s is larger than allowed", digest);
	if (r->total != total || r->data.n > total - offset || (!r->data.n && offset < total))
		return err_set(e, ERR_PROTOCOL, "blob %.12s: the controller sent a piece of the wrong size", digest);
	return 0;
}

int data_link_blob_get(struct worker *w, struct data_link *b, const char *digest, size_t max, char **data,
                       size_t *n, struct err *e)
{
	struct wm_blob_data *r;
	char *all = NULL;
	uint64_t total = 0, have = 0;

	do {
		r = get_piece(w, b, digest, have, e);
		if (r && have == 0)
			total = r->total;
		if (!r || check_piece(r, digest, have, total, max, e) < 0) {
			wire_free(WM_BLOB_DATA, r);
			free(all);
			return -1;
		}
		if (!all)
			all = xmalloc((size_t)total + 1);
		if (r->data.n)
			memcpy(all + have, r->data.data, r->data.n);
		have += r->data.n;
		wire_free(WM_BLOB_DATA, r);
	} while (have < total);
	all[have] = '\0';
	*data = all;
	*n = (size_t)have;
	return 0;
}

int data_link_blob_put(struct worker *w, struct data_link *b, const char *digest, const void *data, size_t n,
                       struct err *e)
{
	struct wm_blob_ok *r;
	uint64_t present, offset = 0;

	for (;;) {
		struct wm_blob_put *m = xcalloc(1, sizeof(*m));
		size_t k = n - offset < TREE_CHUNK_MAX ? (size_t)(n - offset) : TREE_CHUNK_MAX;

		m->digest = xstrdup(digest);
		m->offset = offset;
		m->total = n;
		m->data =
		    (struct wire_bytes){.data = k ? xmemdup((const char *)data + offset, k) : NULL, .n = (uint32_t)k};
		r = ask_blob(w, b, WM_BLOB_PUT, m, digest, e);
		if (!r)
			return -1;
		present = r->present;
		wire_free(WM_BLOB_OK, r);
		if (present >= n)
			return 0;
		if (present <= offset)
			return err_set(e, ERR_PROTOCOL, "blob %.12s: the controller has not stored a piece of it",
			               digest);
		offset = present;
	}
}

int data_link_blob_have(struct worker *w, struct data_link *b, char *const *digests, size_t n,
                        uint8_t *missing, struct err *e)
{
	struct wm_blob_have *m;
	struct wm_blob_missing *r;
	size_t next = 0;

	if (n > HAVE_MAX)
		return err_set(e, ERR_INTERNAL, "too many digests in one question");
	m = xcalloc(1, sizeof(*m));
	for (size_t i = 0; i < n; i++)
		wire_strv_add(&m->digests, digests[i]);
	r = ask_controller(w, b, WM_BLOB_HAVE, m, e);
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
