/*
 * server: all of hearthd that touches sockets and data files, put together from its rooms: I/O threads with
 * HTTP (API, live streams, logs, blobs), agents' connections, and the data threads. It calls the state thread
 * only through a channel; the state thread calls the functions below.
 */
#ifndef HEARTH_CONTROLLER_SERVER_H
#define HEARTH_CONTROLLER_SERVER_H

#include <stdint.h>

#include "common/base/err.h"
#include "common/net/tls.h"
#include "common/net/wire_msg.h"
#include "controller/files/log_quota.h"
#include "controller/state/request.h"
#include "store/base/rows.h"

struct server;
struct loop;
struct disk_space;

/* Called on the state thread (through its loop's channel). */
struct server_ops {
	void (*agent_up)(const char *node, uint64_t session, const struct wm_hello *hello, void *arg);
	void (*agent_msg)(const char *node, uint64_t session, uint16_t type, uint64_t id, void *msg,
	                  void *arg); /* takes msg; METRICS too */
	void (*agent_down)(const char *node, uint64_t session, const char *why, void *arg);
	void (*request)(struct request *rq, void *arg); /* takes */
	void *arg;
	/* A log of that attempt is above its quota; text is for users. NULL: not asked for. */
	void (*over_quota)(uint64_t job, uint32_t attempt, const char *text, void *arg);
};

struct server_config {
	const char *data_dir; /* DATA: hearth.db, logs/, blobs/, admin.token, hearthd.sock, ca.pem ... */
	const char *listen;   /* HOST:PORT; off loopback: TLS; port 0 = any, see server_port */
	unsigned io_threads;  /* 0 = 2 */
	struct tls_ca *ca;
	const char *cluster;
	const char *admin_user;          /* user behind admin.token */
	const struct accounts *accounts; /* who runs whose jobs; outlives the server; NULL: no rules */
	uint32_t lease_ms, beat_ms;      /* for WELCOME */
	uint64_t max_runtime_default_s, max_runtime_limit_s; /* for a job's own page; 0 = those of the core */
	const char *web_dir;                                 /* NULL = embedded */
	const char *server_names; /* further names for the certificate, comma separated */
	struct log_limits logs;
	struct disk_space *disk; /* for uploads; NULL: not looked at; outlives the server */
};
struct server *server_start(const struct server_config *c, struct loop *state_loop,
                            const struct server_ops *ops, struct err *e);
void server_stop(struct server *s); /* accepts nothing more, ends threads; open requests are answered 503 */
unsigned server_port(const struct server *s);

/* From the state thread. */
void server_send_agent(struct server *s, const char *node, uint64_t session, uint16_t type, const void *msg,
                       uint64_t id);
void server_close_agent(struct server *s, const char *node, uint64_t session, const char *why);
void server_notice(struct server *s, const struct event_row *ev);
void server_metrics_ack(struct server *s, const char *node, uint64_t job, uint32_t attempt, uint64_t seq);
void server_remove_data(struct server *s, uint64_t job);
/* I/O counters for /metrics and top. */
cJSON *server_stats(struct server *s);

#endif
