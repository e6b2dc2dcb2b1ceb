/*
 * log_events: bytes of a log as server-sent events {"offset","time","fd","text"}, cut at the marks of the
 * side index. The id of an event is the offset behind it, so that Last-Event-ID resumes exactly there.
 */
#ifndef HEARTH_CONTROLLER_API_LOG_EVENTS_H
#define HEARTH_CONTROLLER_API_LOG_EVENTS_H

#include <stddef.h>
#include <stdint.h>

struct evbuffer;

/* Returns how many of the n bytes went out: a character that is cut at the end is left for the next time,
 * unless nothing else is there. */
size_t log_events_put(struct evbuffer *b, const char *dir, uint64_t job, uint32_t attempt, const char *stream,
                      uint64_t offset, const char *p, size_t n);
void log_events_note(struct evbuffer *b, uint64_t id,
                     const char *text); /* a line of Hearth's own: event "skipped" */
/* Bytes at the end of p that are the beginning of an incomplete UTF-8 character. */
size_t log_events_cut(const char *p, size_t n);

#endif
