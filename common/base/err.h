/*
 * This folder has what every other folder stands on: errors, memory, buffers, texts, JSON, time and chance.
 * It opens no file and waits for nothing.
 *
 * err: one error value for the whole project.
 *
 * A function that can fail returns 0 or -1 (or NULL) and takes `struct err *e` last. `e` may be
 * NULL when the caller does not care. The code decides what callers and HTTP clients do; the text
 * is for people: what failed, on what, and why. A failed call leaves its other arguments as they were.
 */
#ifndef HEARTH_COMMON_BASE_ERR_H
#define HEARTH_COMMON_BASE_ERR_H

#include <stddef.h>

/* name, HTTP status, short text. The closed list of what can go wrong. Their order is on the wire: new ones
 * come last. */
#define ERR_CODES(E)                                                                                         \
	E(ERR_NONE, 200, "no error")                                                                             \
	E(ERR_INVALID, 400, "invalid") /* the request itself is wrong */                                         \
	E(ERR_UNAUTHORIZED, 401, "not authenticated")                                                            \
	E(ERR_DENIED, 403, "not allowed")                                                                        \
	E(ERR_NOT_FOUND, 404, "not found")                                                                       \
	E(ERR_CONFLICT, 409, "conflict")         /* state does not permit it now */                              \
	E(ERR_LIMIT, 413, "limit exceeded")      /* too large, too many */                                       \
	E(ERR_UNSUPPORTED, 422, "not supported") /* known, but not built yet */                                  \
	E(ERR_BUSY, 429, "busy")                 /* a bounded queue is full */                                   \
	E(ERR_INTERNAL, 500, "internal error")                                                                   \
	E(ERR_IO, 500, "input/output error")                                                                     \
	E(ERR_PROTOCOL, 502, "protocol error")                                                                   \
	E(ERR_UNAVAILABLE, 503, "unavailable") /* the other side is not there */                                 \
	E(ERR_TIMEOUT, 504, "timed out")                                                                         \
	E(ERR_NOSPACE, 507, "no space left")                                                                     \
	E(ERR_GONE, 410, "gone") /* removed for good, by an administrator; nothing else gives this one */

enum err_code {
#define E(name, status, text) name,
	ERR_CODES(E)
#undef E
};

struct err {
	enum err_code code;
	char text[512]; /* always terminated; cut with "..." when longer */
};

/* Fill *e (when not NULL). Always returns -1, so that one can write `return err_set(e, ...)`. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As err_set with ": strerror(errnum)" appended; ENOSPC/EDQUOT -> ERR_NOSPACE, ENOENT -> ERR_NOT_FOUND,
 * EACCES/EPERM -> ERR_DENIED, ETIMEDOUT -> ERR_TIMEOUT, anything else ERR_IO. Returns -1. */
int err_sys(struct err *e, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Put "context: " before the text that is there, keeping the code. Returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

const char *err_code_name(enum err_code code); /* "ERR_INVALID" */
const char *err_code_text(enum err_code code); /* "invalid" */
int err_http_status(enum err_code code);

#endif
