/*
 * wire: see wire.h. Everything here is driven by one table, made from the X-macro of wire_msg.h: for each
 * message its number, name, senders, phases, struct size and fields (kind, offset, name). Encoding, decoding,
 * copying, releasing and printing walk the fields.
 *
 * Encoding measures first and then writes, so that a failure leaves nothing half written. Decoding checks
 * each length against the limit of its kind and against the bytes that are left before it allocates, so the
 * memory taken is bounded by a small multiple of the bytes received.
 *
 * Part of libhbase: no OpenSSL, no libevent (the shim links it).
 */
#include "common/net/wire.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"

/* Before the other side is authenticated: a certificate and a proof, no more. */
#define BODY_MAX_HANDSHAKE (64u * 1024)
#define STRV_ITEM_MIN      4    /* bytes an empty string takes */
#define SHARED_APART       4096 /* shared bytes from here on are not copied into a frame */

enum kind {
	K_U8,
	K_U32,
	K_U64,
	K_I64,
	K_F64,
	K_STR,
	K_BYTES,
	K_STRV,
	K_U32V,
	K_U64V,
	K_I64V,
	K_F64V,
	K_SHARED
};

struct field {
	enum kind kind;
	size_t offset;
	const char *name;
	unsigned since;
};

struct msg_info {
	const char *name;
	unsigned from, phases, since;
	size_t size; /* of the struct */
	const struct field *fields;
	size_t n_fields;
};

/* All vectors share this shape (checked below), so that the code for them can be written once. */
struct any_vec {
	void *v;
	uint32_t n;
};
#define SAME_SHAPE(type, member)                                                                             \
	_Static_assert(sizeof(type) == sizeof(struct any_vec) && offsetof(type, member) == 0 &&                  \
	                   offsetof(type, n) == offsetof(struct any_vec, n),                                     \
	               #type " must look like struct any_vec")
SAME_SHAPE(struct wire_bytes, data);
SAME_SHAPE(struct wire_strv, v);
SAME_SHAPE(struct wire_u32v, v);
SAME_SHAPE(struct wire_u64v, v);
SAME_SHAPE(struct wire_i64v, v);
SAME_SHAPE(struct wire_f64v, v);

/* The field macro gets no struct name, so each case gives it one by a local typedef. */
#define FIELD(kind, name, ...) {K_##kind, offsetof(this_msg, name), #name, WIRE_SINCE(__VA_ARGS__)},
#define M(num, NAME, name_, from_, phase_, since_)                                                           \
	case num: {                                                                                              \
		typedef struct wm_##name_ this_msg;                                                                  \
		static const struct field fields[] = {WM_##NAME##_F(FIELD)};                                         \
		static const struct msg_info info = {                                                                \
		    #name_, from_, phase_, since_, sizeof(this_msg), fields, sizeof(fields) / sizeof(fields[0])};    \
		return &info;                                                                                        \
	}

/* NULL: no such message. Longer than a function should be only after the table is put in. */
static const struct msg_info *info_of(uint16_t type)
{
	switch (type) {
		WIRE_MESSAGES(M)
	default:
		return NULL;
	}
}
#undef M
#undef FIELD

/* Bytes of one element on the wire and in memory; 0 for kinds that are not vectors of fixed elements. */
static size_t elem_size(enum kind k)
{
	switch (k) {
	case K_BYTES:
		return 1;
	case K_U32V:
		return 4;
	case K_U64V:
	case K_I64V:
	case K_F64V:
		return 8;
	default:
		return 0;
	}
}

/* Bytes of a scalar; 0 for the other kinds. */
static size_t scalar_size(enum kind k)
{
	switch (k) {
	case K_U8:
		return 1;
	case K_U32:
		return 4;
	case K_U64:
	case K_I64:
	case K_F64:
		return 8;
	default:
		return 0;
	}
}

static const void *field_at(const void *msg, const struct field *f)
{
	return (const uint8_t *)msg + f->offset;
}

static void *at_mut(void *msg, const struct field *f)
{
	return (uint8_t *)msg + f->offset;
}

/* Greatest body of a type: exact where every field has a fixed size. */
static uint32_t body_max(const struct msg_info *m, unsigned version)
{
	size_t fixed = 0;

	for (size_t i = 0; i < m->n_fields; i++) {
		size_t n = scalar_size(m->fields[i].kind);

		if (m->fields[i].since > version)
			continue;

		if (!n)
			return m->phases == WIRE_HANDSHAKE ? BODY_MAX_HANDSHAKE : WIRE_MAX_BODY;
		fixed += n;
	}
	return (uint32_t)fixed;
}

const char *wire_name(uint16_t type)
{
	const struct msg_info *m = info_of(type);

	return m ? m->name : "?";
}

int wire_allowed(uint16_t type, unsigned from, unsigned phase)
{
	const struct msg_info *m = info_of(type);

	return m && (m->from & from) && (m->phases & phase);
}

/* ---- versions ------------------------------------------------------------------------------------ */

unsigned wire_present(void)
{
	return WIRE_VERSION + (FAULT("wire.raised") ? 1u : 0u) + (FAULT("wire.raised_twice") ? 2u : 0u);
}

unsigned wire_previous(void)
{
	return wire_present() - 1;
}

unsigned wire_settle(unsigned offered)
{
	unsigned present = wire_present();

	return offered == present || offered == present - 1 ? offered : 0;
}

int wire_speaks(unsigned version, uint16_t type)
{
	const struct msg_info *m = info_of(type);

	return m && m->since <= version;
}

unsigned wire_layout(unsigned version, uint16_t type)
{
	const struct msg_info *m = info_of(type);
	unsigned since = m ? m->since : 0;

	for (size_t i = 0; m && i < m->n_fields; i++)
		if (m->fields[i].since > since && m->fields[i].since <= version)
			since = m->fields[i].since;
	return since;
}

/* ---- frames -------------------------------------------------------------------------------------- */

static void read_header(const uint8_t header[WIRE_HEADER_SIZE], struct wire_frame *f)
{
	uint16_t reserved;
	struct buf b;

	*f = (struct wire_frame){0};
	buf_view(&b, header, WIRE_HEADER_SIZE);
	buf_get_u32(&b, &f->n);
	buf_get_u16(&b, &f->type);
	buf_get_u16(&b, &reserved);
	buf_get_u64(&b, &f->id);
}

int wire_header_any(const uint8_t header[WIRE_HEADER_SIZE], struct wire_frame *f, struct err *e)
{
	struct wire_frame h;

	read_header(header, &h);
	if (h.n > WIRE_MAX_BODY)
		return err_set(e, ERR_PROTOCOL, "frame of type %u with %" PRIu32 " bytes, at most %u are allowed",
		               h.type, h.n, WIRE_MAX_BODY);
	*f = h;
	return 0;
}

int wire_header(const uint8_t header[WIRE_HEADER_SIZE], struct wire_frame *f, struct err *e)
{
	struct wire_frame h;
	const struct msg_info *m;
	uint16_t reserved = (uint16_t)(header[6] << 8 | header[7]);

	read_header(header, &h);
	m = info_of(h.type);
	if (!m)
		return err_set(e, ERR_PROTOCOL, "frame of unknown type %u", h.type);
	if (reserved)
		return err_set(e, ERR_PROTOCOL, "%s frame: reserved field is %u", m->name, reserved);
	if (h.n > body_max(m, WIRE_ALL)) /* decoding knows the version, and is exact */
		return err_set(e, ERR_PROTOCOL, "%s frame of %" PRIu32 " bytes, at most %" PRIu32 " are allowed",
		               m->name, h.n, body_max(m, WIRE_ALL));
	*f = h;
	return 0;
}

int wire_next(struct buf *in, struct wire_frame *f, struct err *e)
{
	struct wire_frame h;

	if (buf_left(in) < WIRE_HEADER_SIZE)
		return 0;
	if (wire_header(buf_head(in), &h, e) < 0)
		return -1;
	if (buf_left(in) - WIRE_HEADER_SIZE < h.n)
		return 0;
	h.body = buf_head(in) + WIRE_HEADER_SIZE;
	buf_skip(in, WIRE_HEADER_SIZE + (size_t)h.n);
	*f = h;
	return 1;
}

/* ---- encoding ------------------------------------------------------------------------------------ */

static struct wire_shared *shared_of(const void *msg, const struct field *f)
{
	return f->kind == K_SHARED ? *(struct wire_shared *const *)field_at(msg, f) : NULL;
}

/* Bytes that the field takes; -1 when it passes the limit of its kind. */
static int64_t field_size(const void *msg, const struct field *f)
{
	const struct any_vec *vec = field_at(msg, f);
	size_t elem = elem_size(f->kind), total = 4;

	if (scalar_size(f->kind))
		return (int64_t)scalar_size(f->kind);
	if (f->kind == K_STR) {
		const char *s = *(char *const *)field_at(msg, f);
		size_t n = s ? strlen(s) : 0;

		return n > WIRE_MAX_STR ? -1 : (int64_t)(4 + n);
	}
	if (f->kind == K_SHARED)
		return 4 + (shared_of(msg, f) ? (int64_t)shared_of(msg, f)->n : 0);
	assert(vec->v || !vec->n);
	if (elem)
		return vec->n > (elem == 1 ? WIRE_MAX_BODY : WIRE_MAX_ITEMS) ? -1 : (int64_t)(4 + elem * vec->n);
	if (vec->n > WIRE_MAX_ITEMS)
		return -1;
	for (uint32_t i = 0; i < vec->n; i++) {
		const char *s = ((char *const *)vec->v)[i];
		size_t n = s ? strlen(s) : 0;

		if (n > WIRE_MAX_STR)
			return -1;
		total += 4 + n;
	}
	return (int64_t)total;
}

/* One element of a scalar or vector kind; the room was reserved, so puts cannot fail. */
static void put_elem(struct buf *out, enum kind k, const void *p)
{
	switch (k) {
	case K_U8:
		buf_put_u8(out, *(const uint8_t *)p);
		break;
	case K_U32:
	case K_U32V:
		buf_put_u32(out, *(const uint32_t *)p);
		break;
	case K_U64:
	case K_U64V:
		buf_put_u64(out, *(const uint64_t *)p);
		break;
	case K_I64:
	case K_I64V:
		buf_put_u64(out, (uint64_t) * (const int64_t *)p);
		break;
	case K_F64:
	case K_F64V:
		buf_put_f64(out, *(const double *)p);
		break;
	default:
		abort(); /* no other kind has elements */
	}
}

static void put_field(struct buf *out, const void *msg, const struct field *f)
{
	const struct any_vec *vec = field_at(msg, f);
	size_t elem = elem_size(f->kind);

	if (scalar_size(f->kind)) {
		put_elem(out, f->kind, field_at(msg, f));
	} else if (f->kind == K_STR) {
		buf_put_str(out, *(char *const *)field_at(msg, f));
	} else if (f->kind == K_SHARED) {
		const struct wire_shared *s = shared_of(msg, f);

		buf_put_bytes(out, s ? s->data : NULL, s ? s->n : 0);
	} else if (f->kind == K_BYTES) {
		buf_put_bytes(out, vec->v, vec->n);
	} else {
		buf_put_u32(out, vec->n);
		for (uint32_t i = 0; i < vec->n; i++) {
			if (f->kind == K_STRV)
				buf_put_str(out, ((char *const *)vec->v)[i]);
			else
				put_elem(out, f->kind, (const uint8_t *)vec->v + elem * i);
		}
	}
}

/* Bytes of the whole body. */
static int measure_body(unsigned version, const struct msg_info *m, const void *msg, uint64_t *out,
                        struct err *e)
{
	uint64_t body = 0;

	for (size_t i = 0; i < m->n_fields; i++) {
		int64_t n = m->fields[i].since <= version ? field_size(msg, &m->fields[i]) : 0;

		if (n < 0)
			return err_set(e, ERR_LIMIT, "%s.%s is too large to send", m->name, m->fields[i].name);
		body += (uint64_t)n;
		if (body > body_max(m, version))
			return err_set(e, ERR_LIMIT, "%s would be a frame of more than %" PRIu32 " bytes", m->name,
			               body_max(m, version));
	}
	*out = body;
	return 0;
}

/* Shared bytes that end the message and are worth to be sent without a copy; NULL: none. */
static struct wire_shared *tail_of(unsigned version, const struct msg_info *m, const void *msg)
{
	const struct field *last = &m->fields[m->n_fields - 1];
	struct wire_shared *s = last->since <= version ? shared_of(msg, last) : NULL;

	return s && s->n >= SHARED_APART ? s : NULL;
}

int wire_encode_front(unsigned version, uint16_t type, const void *msg, uint64_t id, struct buf *out,
                      struct wire_shared **tail, struct err *e)
{
	const struct msg_info *m = info_of(type);
	struct wire_shared *last;
	uint8_t *room;
	uint64_t body = 0;
	size_t want, here;

	if (!m)
		return err_set(e, ERR_INTERNAL, "no message of type %u", type);
	if (m->since > version)
		return err_set(e, ERR_UNSUPPORTED, "version %u of the protocol has no %s", version, m->name);
	if (measure_body(version, m, msg, &body, e) < 0)
		return -1;
	last = tail ? tail_of(version, m, msg) : NULL;
	here = WIRE_HEADER_SIZE + (size_t)body - (last ? last->n : 0);
	if (buf_reserve(out, here, &room) < 0)
		return err_set(e, ERR_BUSY, "no room for a %s of %" PRIu64 " bytes", m->name, body);
	want = buf_left(out) + here;
	buf_put_u32(out, (uint32_t)body);
	buf_put_u16(out, type);
	buf_put_u16(out, 0);
	buf_put_u64(out, id);
	for (size_t i = 0; i < m->n_fields - (last ? 1 : 0); i++)
		if (m->fields[i].since <= version)
			put_field(out, msg, &m->fields[i]);
	if (last)
		buf_put_u32(out, last->n);
	assert(buf_left(out) == want);
	if (tail)
		*tail = last;
	return 0;
}

int wire_encode_at(unsigned version, uint16_t type, const void *msg, uint64_t id, struct buf *out,
                   struct err *e)
{
	return wire_encode_front(version, type, msg, id, out, NULL, e);
}

int wire_encode(uint16_t type, const void *msg, uint64_t id, struct buf *out, struct err *e)
{
	return wire_encode_front(WIRE_ALL, type, msg, id, out, NULL, e);
}

/* ---- shared bytes -------------------------------------------------------------------------------- */

static struct wire_shared *shared_new(const void *data, size_t n)
{
	struct wire_shared *s = xmalloc(sizeof(*s) + n);

	atomic_init(&s->refs, 1);
	s->n = (uint32_t)n;
	memcpy(s->data, data, n);
	return s;
}

struct wire_shared *wire_share(uint16_t type, const void *msg, struct err *e)
{
	struct wire_shared *s = NULL;
	struct buf b;

	buf_init(&b, WIRE_HEADER_SIZE + WIRE_MAX_BODY);
	if (wire_encode(type, msg, 0, &b, e) == 0)
		s = shared_new(buf_head(&b) + WIRE_HEADER_SIZE, buf_left(&b) - WIRE_HEADER_SIZE);
	buf_fini(&b);
	return s;
}

struct wire_shared *wire_share_again(struct wire_shared *s)
{
	if (s)
		atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void wire_unshare(struct wire_shared *s)
{
	if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
		free(s);
}

/* ---- decoding ------------------------------------------------------------------------------------ */

static int get_elem(struct buf *in, enum kind k, void *p)
{
	uint64_t bits;

	switch (k) {
	case K_U8:
		return buf_get_u8(in, p);
	case K_U32:
	case K_U32V:
		return buf_get_u32(in, p);
	case K_U64:
	case K_U64V:
		return buf_get_u64(in, p);
	case K_I64:
	case K_I64V:
		if (buf_get_u64(in, &bits) < 0)
			return -1;
		memcpy(p, &bits, sizeof(bits));
		return 0;
	case K_F64:
	case K_F64V:
		return buf_get_f64(in, p);
	default:
		return -1;
	}
}

static int get_vec(struct buf *in, enum kind k, struct any_vec *vec)
{
	size_t elem = elem_size(k), least = k == K_STRV ? STRV_ITEM_MIN : elem;
	uint32_t n;

	if (buf_get_u32(in, &n) < 0 || n > WIRE_MAX_ITEMS || n > buf_left(in) / least)
		return -1;
	if (!n)
		return 0;
	vec->v = xcalloc(n, k == K_STRV ? sizeof(char *) : elem);
	/* n is set first: what was not reached is NULL or 0, and release copes with that. */
	vec->n = n;
	for (uint32_t i = 0; i < n; i++) {
		if (k == K_STRV ? buf_get_str(in, &((char **)vec->v)[i], WIRE_MAX_STR)
		                : get_elem(in, k, (uint8_t *)vec->v + elem * i))
			return -1;
	}
	return 0;
}

static int get_field(struct buf *in, void *msg, const struct field *f)
{
	void *p = at_mut(msg, f);
	struct wire_bytes *bytes = p;
	const uint8_t *data;
	uint32_t n;

	if (scalar_size(f->kind))
		return get_elem(in, f->kind, p);
	if (f->kind == K_STR)
		return buf_get_str(in, p, WIRE_MAX_STR);
	if (f->kind != K_BYTES && f->kind != K_SHARED)
		return get_vec(in, f->kind, p);
	if (buf_get_bytes(in, &data, &n, WIRE_MAX_BODY) < 0)
		return -1;
	if (n && f->kind == K_SHARED) {
		*(struct wire_shared **)p = shared_new(data, n);
	} else if (n) {
		bytes->data = xmemdup(data, n);
		bytes->n = n;
	}
	return 0;
}

/* A string that the version lacks is "", like any empty one. */
static void add_empty(const struct msg_info *m, unsigned version, void *msg)
{
	for (size_t i = 0; i < m->n_fields; i++)
		if (m->fields[i].since > version && m->fields[i].kind == K_STR)
			*(char **)at_mut(msg, &m->fields[i]) = xstrdup("");
}

int wire_decode_at(unsigned version, uint16_t type, const uint8_t *body, size_t n, void **msg, struct err *e)
{
	const struct msg_info *m = info_of(type);
	struct buf in;
	void *out;

	if (!m)
		return err_set(e, ERR_PROTOCOL, "message of unknown type %u", type);
	if (m->since > version)
		return err_set(e, ERR_PROTOCOL, "version %u of the protocol has no %s", version, m->name);
	if (n > body_max(m, version))
		return err_set(e, ERR_PROTOCOL, "%s of %zu bytes, at most %" PRIu32 " are allowed", m->name, n,
		               body_max(m, version));
	out = xcalloc(1, m->size);
	buf_view(&in, body, n);
	for (size_t i = 0; i < m->n_fields; i++) {
		if (m->fields[i].since > version || get_field(&in, out, &m->fields[i]) == 0)
			continue;
		wire_free(type, out);
		return err_set(e, ERR_PROTOCOL, "%s: field %s is malformed or cut short", m->name, m->fields[i].name);
	}
	add_empty(m, version, out);
	if (buf_left(&in)) {
		wire_free(type, out);
		return err_set(e, ERR_PROTOCOL, "%s: %zu bytes too many", m->name, buf_left(&in));
	}
	*msg = out;
	return 0;
}

int wire_decode(uint16_t type, const uint8_t *body, size_t n, void **msg, struct err *e)
{
	return wire_decode_at(WIRE_ALL, type, body, n, msg, e);
}

/* ---- release, copy, print ------------------------------------------------------------------------ */

void wire_fini(uint16_t type, void *msg)
{
	const struct msg_info *m = info_of(type);

	if (!m || !msg)
		return;
	for (size_t i = 0; i < m->n_fields; i++) {
		const struct field *f = &m->fields[i];
		struct any_vec *vec = at_mut(msg, f);

		if (scalar_size(f->kind))
			continue;
		if (f->kind == K_STR) {
			free(*(char **)at_mut(msg, f));
			continue;
		}
		if (f->kind == K_SHARED) {
			wire_unshare(shared_of(msg, f));
			continue;
		}
		if (f->kind == K_STRV)
			for (uint32_t j = 0; j < vec->n; j++)
				free(((char **)vec->v)[j]);
		free(vec->v);
	}
	memset(msg, 0, m->size);
}

void wire_free(uint16_t type, void *msg)
{
	wire_fini(type, msg);
	free(msg);
}

void *wire_copy(uint16_t type, const void *msg)
{
	const struct msg_info *m = info_of(type);
	void *out;

	assert(m);
	out = xmemdup(msg, m->size);
	for (size_t i = 0; i < m->n_fields; i++) {
		const struct field *f = &m->fields[i];
		const struct any_vec *from = field_at(msg, f);
		struct any_vec *to = at_mut(out, f);
		size_t elem = elem_size(f->kind);

		if (scalar_size(f->kind))
			continue;
		if (f->kind == K_STR) {
			const char *s = *(char *const *)field_at(msg, f);

			*(char **)at_mut(out, f) = xstrdup(s ? s : "");
			continue;
		}
		if (f->kind == K_SHARED) {
			wire_share_again(shared_of(msg, f));
			continue;
		}
		to->v = NULL;
		if (!from->n)
			continue;
		if (elem) {
			to->v = xmemdup(from->v, elem * from->n);
			continue;
		}
		to->v = xcalloc(from->n, sizeof(char *));
		for (uint32_t j = 0; j < from->n; j++) {
			const char *s = ((char *const *)from->v)[j];

			((char **)to->v)[j] = xstrdup(s ? s : "");
		}
	}
	return out;
}

/* Fields that may hold secrets or are long: never in logs. */
static int is_hidden(const char *name)
{
	static const char *const hidden[] = {"token", "job_token", "spec",     "env",
	                                     "proof", "nonce",     "cert_pem", "topology"};

	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		if (strcmp(hidden[i], name) == 0)
			return 1;
	return 0;
}

/* " name=value" into out; 0 when the field has nothing to show. */
static int field_text(const void *msg, const struct field *f, char *out, size_t out_size)
{
	const void *p = field_at(msg, f);
	char cut[64], quoted[160];
	const char *s;

	switch (f->kind) {
	case K_U8:
		return snprintf(out, out_size, " %s=%u", f->name, *(const uint8_t *)p);
	case K_U32:
		return snprintf(out, out_size, " %s=%" PRIu32, f->name, *(const uint32_t *)p);
	case K_U64:
		return snprintf(out, out_size, " %s=%" PRIu64, f->name, *(const uint64_t *)p);
	case K_I64:
		return snprintf(out, out_size, " %s=%" PRId64, f->name, *(const int64_t *)p);
	case K_F64:
		return snprintf(out, out_size, " %s=%g", f->name, *(const double *)p);
	case K_STR:
		s = *(char *const *)p;
		if (!s || !*s || is_hidden(f->name))
			return 0;
		snprintf(cut, sizeof(cut), "%s", s);
		return snprintf(out, out_size, " %s=%s", f->name, log_quote(quoted, sizeof(quoted), cut));
	case K_SHARED:
		return 0;
	default:
		if (!((const struct any_vec *)p)->n || is_hidden(f->name))
			return 0;
		return snprintf(out, out_size, " %s=[%" PRIu32 "]", f->name, ((const struct any_vec *)p)->n);
	}
}

const char *wire_text(uint16_t type, const void *msg, char *out, size_t out_size)
{
	const struct msg_info *m = info_of(type);
	size_t used;

	if (!out_size)
		return "";
	snprintf(out, out_size, "%s", m ? m->name : "?");
	for (size_t i = 0; m && i < m->n_fields; i++) {
		char text[256];

		if (field_text(msg, &m->fields[i], text, sizeof(text)) <= 0)
			continue;
		used = strlen(out);
		if (used + strlen(text) >= out_size)
			break;
		memcpy(out + used, text, strlen(text) + 1);
	}
	return out;
}

/* ---- filling ------------------------------------------------------------------------------------- */

/* One entry more each time: a vector may come from decoding or a copy, with no room to spare. */
void wire_strv_add(struct wire_strv *s, const char *str)
{
	s->v = xreallocarray(s->v, (size_t)s->n + 1, sizeof(*s->v));
	s->v[s->n++] = xstrdup(str ? str : "");
}

void wire_u32v_add(struct wire_u32v *s, uint32_t v)
{
	s->v = xreallocarray(s->v, (size_t)s->n + 1, sizeof(*s->v));
	s->v[s->n++] = v;
}

void wire_u64v_add(struct wire_u64v *s, uint64_t v)
{
	s->v = xreallocarray(s->v, (size_t)s->n + 1, sizeof(*s->v));
	s->v[s->n++] = v;
}
