/*
 * This folder carries messages between programs: their table, frames, connections, keys and names.
 *
 * wire: binary frames between hearthd and hearth-agent, between agents, and between an agent and its shims.
 *
 * Frame: u32 body length | u16 type | u16 reserved (0) | u64 id | body. Big-endian. The length is checked
 * against the limit of its type before anything is read. Unknown types are refused. Messages, their fields
 * and who may send them: wire_msg.h. Spec: docs/spec/02-wire.md.
 *
 * Versions: hearthd and agents speak the present version and the one before it, and settle one of them in the
 * handshake. The table says since which version a message or field exists; messages of WIRE_EVER never
 * change. Two sides without a common version settle on 0: on such a connection only messages of WIRE_EVER
 * pass, so an agent of any version renews its lease.
 */
#ifndef HEARTH_COMMON_NET_WIRE_H
#define HEARTH_COMMON_NET_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"

#define WIRE_VERSION     3 /* present: raise it by one with the first change of a message after a release */
#define WIRE_PREVIOUS    (WIRE_VERSION - 1)
#define WIRE_OLDEST      2           /* of which a connection is accepted at all: the first with WIRE_EVER */
#define WIRE_EVER        0           /* since: for ever; layout and meaning never change */
#define WIRE_ALL         0xffffffffu /* version: every field that the table has */
#define WIRE_HEADER_SIZE 16
#define WIRE_MAX_BODY    (8u * 1024 * 1024) /* a 4 MiB chunk and its frame, a launch order with its spec */
#define WIRE_MAX_STR     (4u * 1024 * 1024)
#define WIRE_MAX_ITEMS   (1u << 20) /* entries of a vector (but BYTES) */

/* Field types. Vectors and strings are owned by the message. STR is never NULL after decoding. */
struct wire_bytes {
	uint8_t *data;
	uint32_t n;
};
struct wire_strv {
	char **v;
	uint32_t n;
};
struct wire_u32v {
	uint32_t *v;
	uint32_t n;
};
struct wire_u64v {
	uint64_t *v;
	uint32_t n;
};
struct wire_i64v {
	int64_t *v;
	uint32_t n;
};
struct wire_f64v {
	double *v;
	uint32_t n;
};

/* Bytes that many messages carry alike: an encoded message, kept once and counted. It does not change, so
 * threads may share it. NULL is an empty one. */
struct wire_shared {
	_Atomic uint32_t refs;
	uint32_t n;
	uint8_t data[];
};

struct wire_frame {
	uint16_t type;
	uint64_t id;
	const uint8_t *body; /* points into the buffer given to wire_next */
	uint32_t n;
};

/* Checks and reads a header alone (f->body is NULL): a reader refuses a frame before it waits for the body.
 */
int wire_header(const uint8_t header[WIRE_HEADER_SIZE], struct wire_frame *f, struct err *e);
/* As wire_header, but of a type that this program may not know: only the length is checked. */
int wire_header_any(const uint8_t header[WIRE_HEADER_SIZE], struct wire_frame *f, struct err *e);
/* Takes the next whole frame out of `in` (moves its position). 1 frame, 0 need more bytes, -1 malformed. */
int wire_next(struct buf *in, struct wire_frame *f, struct err *e);

/* What this program speaks: WIRE_VERSION and WIRE_PREVIOUS, and more where a test raises them (failpoints
 * wire.raised and wire.raised_twice). */
unsigned wire_present(void);
unsigned wire_previous(void);
/* Returns the version to speak with a side whose hello offered that one; 0: none. */
unsigned wire_settle(unsigned offered);
int wire_speaks(unsigned version, uint16_t type); /* 1: that version has the message */
/* Returns the version since which the message has the layout that `version` has: for files. */
unsigned wire_layout(unsigned version, uint16_t type);

/* Appends a frame for msg (a struct wm_NAME), as `version` lays it out, to out; nothing is appended on error.
 */
int wire_encode_at(unsigned version, uint16_t type, const void *msg, uint64_t id, struct buf *out,
                   struct err *e);
int wire_encode(uint16_t type, const void *msg, uint64_t id, struct buf *out, struct err *e); /* WIRE_ALL */
/* As wire_encode_at, but shared bytes that end the message may be left out: *tail are these (not a reference
 * more), to be sent right behind; NULL none. */
int wire_encode_front(unsigned version, uint16_t type, const void *msg, uint64_t id, struct buf *out,
                      struct wire_shared **tail, struct err *e);
/* The body of msg, for a field of another message. The caller's: wire_unshare. NULL: too large. */
struct wire_shared *wire_share(uint16_t type, const void *msg, struct err *e);
struct wire_shared *wire_share_again(struct wire_shared *s); /* one reference more */
void wire_unshare(struct wire_shared *s);                    /* one less; NULL allowed */
/* Decodes a body as `version` lays it out; *msg is a malloc'ed struct wm_NAME, to be released by wire_free.
 * Fields that are newer are 0 or empty. Trailing bytes are an error. */
int wire_decode_at(unsigned version, uint16_t type, const uint8_t *body, size_t n, void **msg, struct err *e);
/* WIRE_ALL */
int wire_decode(uint16_t type, const uint8_t *body, size_t n, void **msg, struct err *e);
void wire_free(uint16_t type, void *msg); /* the struct and all it owns; NULL allowed */
/* Releases what msg owns, not msg itself (a struct on the stack filled with owned parts). */
void wire_fini(uint16_t type, void *msg);
void *wire_copy(uint16_t type, const void *msg); /* deep copy, malloc'ed */
const char *wire_name(uint16_t type);            /* "launch_report"; "?" when unknown */
/* One line for debug logs: name and short fields; secrets (token, spec, env) are left out. */
const char *wire_text(uint16_t type, const void *msg, char *out, size_t out_size);

/* Senders and states in which a frame is allowed; an endpoint refuses other frames. */
enum wire_from {
	WIRE_FROM_AGENT = 1,
	WIRE_FROM_CTL = 2,
	WIRE_FROM_SHIM = 4,
	WIRE_FROM_SHIMCLIENT = 8,
	WIRE_FROM_PEER = 16,
	WIRE_FROM_RSH = 32
};
enum wire_phase { WIRE_HANDSHAKE = 1, WIRE_CONTROL = 2, WIRE_BULK = 4, WIRE_LOCAL = 8 };
int wire_allowed(uint16_t type, unsigned from, unsigned phase);

/* Helpers to fill messages. */
void wire_strv_add(struct wire_strv *s, const char *str);
void wire_u32v_add(struct wire_u32v *s, uint32_t v);
void wire_u64v_add(struct wire_u64v *s, uint64_t v);

#endif
