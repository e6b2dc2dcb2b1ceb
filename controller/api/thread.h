/*
 * thread: what handlers share (struct api) and what they keep on each I/O thread (struct api_thread).
 */
#ifndef HEARTH_CONTROLLER_API_THREAD_H
#define HEARTH_CONTROLLER_API_THREAD_H

#include <stdatomic.h>
#include <stdint.h>

#include "controller/http/auth.h"
#include "controller/io/io.h"
#include "store/base/rows.h"
#include "store/read/reader.h"

struct agents_shared;
struct call;
struct data_threads;
struct disk_space;
struct event_row;
struct follow;
struct log_grown;
struct manifests;
struct sse;
struct state_link;

struct api { /* set before the first thread starts; then only the atomics change */
	struct io_set *ios;
	struct auth *auth;
	struct data_threads *data;
	struct manifests *manifests; /* of trees that were asked for lately */
	struct disk_space *disk;     /* for uploads; NULL: not looked at */
	struct state_link *link;
	struct agents_shared *agents;
	const char *cluster;
	const char *web_dir; /* NULL: the embedded files */
	int loopback;        /* the TCP listener is a loopback one */
	int tls;
	uint64_t max_runtime_default_s, max_runtime_limit_s; /* for a job's own page */
	char *openapi;                                       /* text, made once */
	_Atomic uint64_t notice_id;                          /* newest event that was made known */
};

struct api_thread {
	struct api *api;
	struct auth_names *names;
	struct sse *sse;       /* followers of events (api_stream.c); NULL once the thread ends */
	struct follow *follow; /* followers of logs (api_logs.c); NULL once the thread ends */
	double join_tokens;    /* rate limit of /agents/join */
	uint64_t join_at_us;
	_Atomic uint32_t listeners;    /* followers of events and of logs on this thread */
	_Atomic uint64_t notices_lost; /* notices that found the channel full: followers read the store again */
};

static inline struct api *api_of(const struct io *io)
{
	return io->api->api;
}

/* Fills in the description of the API and the id of the newest event in the store. */
int api_init(struct api *a, const char *db_path, struct err *e);
void api_fini(struct api *a);

/* io_ops of the API, for each I/O thread. */
void api_call(struct call *c, void *io);
void api_thread_begin(struct io *io, struct api *a);
void api_thread_stop(struct io *io);
void api_thread_end(struct io *io);

/* State thread: an event that was committed. */
void api_notice(struct api *a, const struct event_row *ev);
/* data_ops.grown, by watchers that are I/O threads. Takes g. */
void api_log_grown(struct api *a, unsigned io, struct log_grown *g);
/* I/O counters, for /metrics. Any thread. */
cJSON *api_numbers(struct api *a);

/* api_stream.c */
struct sse *sse_create(struct io *io);
void sse_destroy(struct sse *s);
void sse_notice(struct io *io, struct event_row *ev); /* takes ev */

/* api_logs.c */
struct follow *follow_create(struct io *io);
void follow_destroy(struct follow *f);
void follow_notice(struct io *io, const struct event_row *ev);
void follow_grown(struct io *io, void *grown); /* takes struct log_grown */

#endif
