/*
 * The room link: bytes to hearthd that hearthd acknowledges: reports (outbox) and bulk data (data_link).
 *
 * data_link: the agent's second connection to hearthd: logs, metrics, blobs. For the loop's thread, except
 * the three functions at the end.
 *
 * The link dials for ever with back-off, and at once when the control connection has come up. A connection
 * counts as a success once hearthd has acknowledged something on it, or after 10 s: a hearthd with a full
 * disk accepts each connection and ends it at the first line. Unacknowledged bytes are sent again: requests
 * by the link, logs and metrics by their subscribers after `up`. The link buffers only what the connection
 * itself queues: a subscriber that is refused (ERR_BUSY) keeps its bytes on disk until `room`.
 */
#ifndef HEARTH_AGENT_LINK_DATA_LINK_H
#define HEARTH_AGENT_LINK_DATA_LINK_H

#include "agent/base/agent_env.h"
#include "agent/base/worker.h"
#include "common/net/wire_msg.h"

#define DATA_LINK_STREAM_WINDOW (8u * 1024 * 1024)  /* bytes of one stream sent and not acknowledged */
#define DATA_LINK_TOTAL_WINDOW  (32u * 1024 * 1024) /* of all streams together */
#define DATA_LINK_REQUEST_MS    120000u

struct data_link;
struct data_link *data_link_create(struct agent_env *env, const char *ca_pem, const char *cert_path,
                                   const char *key_path);
void data_link_destroy(struct data_link *b);
/* The controller was found again: a link that waits for its turn is dialled at once. */
void data_link_dial_now(struct data_link *b);

struct data_link_sub;
struct data_link_sub_ops {
	void (*up)(void *arg);   /* connected (again): what is not acknowledged must be sent again */
	void (*room)(void *arg); /* after a refusal: try again */
	void (*log_ack)(uint64_t offset, void *arg); /* durable up to here */
	void (*metrics_ack)(uint64_t seq, void *arg);
};
/* stream NULL: metrics of (job, attempt). One subscriber each. */
struct data_link_sub *data_link_subscribe(struct data_link *b, uint64_t job, uint32_t attempt,
                                          const char *stream, const struct data_link_sub_ops *ops, void *arg);
void data_link_unsubscribe(struct data_link_sub *s);
int data_link_is_up(const struct data_link *b);
/* ERR_UNAVAILABLE: not connected (up follows); ERR_BUSY: a window or the queue is full (room follows). */
int data_link_send_log(struct data_link_sub *s, const struct wm_log_data *m, struct err *e);
int data_link_send_metrics(struct data_link_sub *s, const struct wm_metrics *m, struct err *e);

/* A question with one answer; waits for the connection and comes again on a new one, until the deadline.
 * reply is NULL when rc < 0, else it is the callee's (wire_free). */
typedef void (*data_link_reply_fn)(int rc, uint16_t type, void *reply, const struct err *e, void *arg);
void data_link_request(struct data_link *b, uint16_t type, const void *msg, uint32_t timeout_ms,
                       data_link_reply_fn fn, void *arg);

/* Threads of those that use the connection; ended by data_link_destroy. Each kind of work has its own, so
 * that a hundred slow downloads hold up no upload and no look-up of an account. */
enum data_link_pool {
	POOL_STAGING,
	POOL_UPLOADS,
	POOL_ACCOUNTS,
	POOL_INFO,
	POOL_KEEPERS,
	POOL_COPIES,
	POOL_REMOVALS,
	N_DATA_LINK_POOLS
};
struct workers *data_link_workers(struct data_link *b, enum data_link_pool pool);
/* A sentence for a task that was late in its pool. */
int data_link_late(enum data_link_pool pool, struct err *e);

/* ---- on a worker's thread: they wait ------------------------------------------------------------------ */
/* At most max bytes; the digest is not checked. */
int data_link_blob_get(struct worker *w, struct data_link *b, const char *digest, size_t max, char **data,
                       size_t *n, struct err *e);
int data_link_blob_put(struct worker *w, struct data_link *b, const char *digest, const void *data, size_t n,
                       struct err *e);
/* missing[i] = 1 for those that the controller has not; at most 4,096 at a time. */
int data_link_blob_have(struct worker *w, struct data_link *b, char *const *digests, size_t n,
                        uint8_t *missing, struct err *e);

#endif
