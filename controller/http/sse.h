/*
 * sse: the text form of server-sent events (WHATWG HTML, section 9.2).
 */
#ifndef HEARTH_CONTROLLER_HTTP_SSE_H
#define HEARTH_CONTROLLER_HTTP_SSE_H

#include <stdint.h>

struct call;
struct evbuffer;

#define SSE_TYPE "text/event-stream; charset=utf-8"

/* One event. data may have lines; event NULL: "message". */
void sse_put(struct evbuffer *b, uint64_t id, const char *event, const char *data);
void sse_comment(struct evbuffer *b, const char *text);
/* Headers, start of the answer, reconnection time. */
void sse_begin(struct call *c);
int sse_wanted(const struct call *c); /* Accept names text/event-stream */
/* Last-Event-ID as a number; 0 and -1: none, malformed. */
int sse_last_id(const struct call *c, uint64_t *id);

#endif
