/*
 * server_int: what the files of the server share: its threads and how they post to each other. Not for
 * others.
 *
 * Threads: the state thread (its loop is not ours), n I/O threads, the bulk thread. All messages are small
 * structs through bounded channels:
 *
 * - I/O -> state, to_state: requests, agents' messages. Full: requests are answered 503, agents are paused.
 * - state -> I/O, answers: never full, as at most IO_WAITING_MAX requests of a thread are in work.
 * - any -> I/O, in: agents' orders, notices, acknowledgements. Full: see each sender.
 * - I/O -> bulk: files/data_threads.h.
 */
#ifndef HEARTH_CONTROLLER_SERVER_INT_H
#define HEARTH_CONTROLLER_SERVER_INT_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/os/chan.h"
#include "common/os/loop.h"
#include "controller/files/logs/logstore.h"
#include "controller/http/auth.h"
#include "controller/http/http.h"
#include "controller/http/route.h"
#include "controller/server.h"
#include "store/store.h"

#define IO_WAITING_MAX  4096u /* requests of one I/O thread that the state thread has not answered */
#define IO_MAX          16u
#define TO_STATE_MAX    32768u
#define IO_IN_MAX       65536u
#define SERVER_NAME_MAX 128 /* node names */

struct agents;
struct follow;
struct manifests;
struct sse;
struct data_threads;
struct pending;
struct disk_space;

struct io {
	struct server *s;
	unsigned index;
	pthread_t thread;
	int started;
	struct loop *loop;
	struct http *http;
	struct http_counters count;
	struct loop_timer *tick;
	struct loop_timer *end; /* of the thread, when hearthd ends */
	struct chan *in, *answers;
	struct store_reader *reader;
	struct auth_names *names;
	struct pending *pending; /* requests given to the state thread */
	unsigned waiting;
	struct agents *agents;       /* agent connections (agents.c) */
	struct sse *sse;             /* followers of events (api_stream.c) */
	struct follow *follow;       /* followers of logs (api_logs.c) */
	struct manifests *manifests; /* of trees that were asked for lately (api_data.c) */
	double join_tokens;          /* rate limit of /agents/join */
	uint64_t join_at_us;
	_Atomic uint32_t listeners;    /* followers of events and of logs on this thread */
	_Atomic uint64_t notices_lost; /* notices that found `in` full: followers read the store again */
};

enum to_state_kind { TS_REQUEST, TS_AGENT_UP, TS_AGENT_MSG, TS_AGENT_DOWN };
struct to_state {
	enum to_state_kind kind;
	struct request *rq;
	char node[SERVER_NAME_MAX];
	uint64_t session;
	uint8_t role;
	uint16_t type;
	uint64_t id;
	void *msg; /* struct wm_hello of TS_AGENT_UP too; owned */
	char *why;
};

struct node_session; /* server_agents.c: the state thread's view of who is connected */

struct server {
	char *data_dir, *db_path, *cluster, *admin_user, *web_dir;
	struct tls_ca *ca;
	uint32_t lease_ms, beat_ms;
	uint64_t max_runtime_default_s, max_runtime_limit_s;
	int loopback;
	unsigned port;
	int tcp_fd, unix_fd;
	char *unix_path;
	SSL_CTX *ssl;
	struct loop *state_loop;
	struct server_ops ops;
	struct chan *to_state;
	struct auth *auth;
	struct io io[IO_MAX];
	unsigned n_io;
	struct data_threads *data;
	struct disk_space *disk;    /* NULL: not looked at */
	char *openapi;              /* text, made once */
	struct node_session *nodes; /* state thread only */
	struct loop_timer *retry;   /* state thread: closes that found a channel full */
	_Atomic uint64_t next_session;
	_Atomic uint64_t state_full;   /* requests answered 503 because the state thread's channel was full */
	_Atomic uint64_t agent_pauses; /* connections of agents that were paused because a channel was full */
	_Atomic uint64_t notice_id;    /* newest event that was made known */
	_Atomic int stopping;
};

/* Runs fn(io, arg) on that I/O thread. -1: its channel is full, nothing was posted. drop frees arg when the
 * thread ends first. */
typedef void (*io_fn)(struct io *io, void *arg);
int io_post(struct io *io, io_fn fn, void *arg, void (*drop)(void *arg));

/* I/O thread -> state thread. -1 full: m stays the caller's. */
int server_to_state(struct server *s, struct to_state *m);
void to_state_free(struct to_state *m);

/* Sends the call's request to the state thread and answers the call with what comes back. Takes rq. */
void server_request(struct call *c, struct io *io, struct request *rq);
/* As above, but fn gets the answer: takes body; e is NULL below 400. The call may be gone by then
 * (call_open). */
typedef void (*answer_fn)(struct call *c, struct io *io, int status, cJSON *body, const struct err *e);
void server_request_cb(struct call *c, struct io *io, struct request *rq, answer_fn fn);
/* A request with everything filled that comes from the call: user, role, job, Idempotency-Key. Takes body. */
struct request *server_request_new(struct call *c, enum request_op op, cJSON *body);

/* Counters that any thread may read; server_stats adds those of the state thread. */
cJSON *server_io_stats(struct server *s);

/* server_agents.c, on the state thread */
void server_agent_up(struct server *s, struct to_state *m);
void server_agent_down(struct server *s, struct to_state *m);
void server_agent_msg(struct server *s, struct to_state *m); /* takes m->msg */
void server_agents_free(struct server *s);

/* agents.c, on an I/O thread */
struct agents *agents_create(struct io *io);
void agents_destroy(struct agents *a);
void agents_upgrade(struct call *c, struct io *io); /* handler of GET /agent/v1 */
void agents_send(struct io *io, uint64_t session, uint16_t type, void *msg, uint64_t id); /* takes msg */
void agents_close(struct io *io, uint64_t session, const char *why);
#define SESSION_IO(session) ((unsigned)((session)&0xff))

/* api_stream.c */
struct sse *sse_create(struct io *io);
void sse_destroy(struct sse *s);
void sse_notice(struct io *io, struct event_row *ev); /* takes ev */

/* api_data.c */
void manifests_free(struct manifests *ms);

/* api_logs.c */
struct follow *follow_create(struct io *io);
void follow_destroy(struct follow *f);
void follow_notice(struct io *io, const struct event_row *ev);
struct log_grown { /* the stream is size bytes long now (0: only look); complete: no more will come */
	uint64_t job, size;
	uint32_t attempt;
	int complete;
	char stream[LOGSTORE_STREAM_MAX + 1];
};
void follow_grown(struct io *io, void *grown); /* takes */

#endif
