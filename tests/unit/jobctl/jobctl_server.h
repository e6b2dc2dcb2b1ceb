/*
 * jobctl_server: a scripted HTTP server in a thread, for tests of jobctl and hearth.py. It answers what a
 * function of the test says and remembers what it was asked.
 */
#ifndef HEARTH_TESTS_UNIT_JOBCTL_JOBCTL_SERVER_H
#define HEARTH_TESTS_UNIT_JOBCTL_JOBCTL_SERVER_H

#include <stddef.h>

struct js_seen {
	char *method, *uri, *body;
	size_t body_n;
	char *authorization, *idempotency_key, *content_type, *last_event_id;
};

struct js_answer {
	int status;             /* 0: the connection is closed without an answer */
	const char *type;       /* NULL: application/json */
	const char *body;       /* NULL: empty */
	size_t body_n;          /* 0: strlen */
	const char *headers[8]; /* name, value, ... NULL */
	int chunked;            /* as a stream */
	int cut;                /* the connection is closed after the body, in the middle of the stream */
	int hang;               /* the stream stays open */
};

/* Runs on the server's thread; nth: how many requests came before. What a points to must outlive the server
 * or be static. */
typedef void (*js_fn)(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg);

struct js;
struct js *js_start(js_fn fn, void *arg, const char *unix_path); /* unix_path NULL: 127.0.0.1, a free port */
void js_stop(struct js *s);
const char *js_url(const struct js *s);
unsigned js_count(struct js *s);
const struct js_seen *js_seen(struct js *s, unsigned nth); /* valid until js_stop; NULL: there was none */
int js_wait(struct js *s, unsigned count, unsigned timeout_ms); /* until so many requests came; 0, -1 */

#endif
