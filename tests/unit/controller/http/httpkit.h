/*
 * httpkit: a real server (server_start, real sockets, real store) in front of a state thread that the test
 * scripts; and clients: libcurl for what is well-formed, plain sockets for the rest. The test's main thread
 * may block.
 */
#ifndef HEARTH_TESTS_UNIT_CONTROLLER_HTTP_HTTPKIT_H
#define HEARTH_TESTS_UNIT_CONTROLLER_HTTP_HTTPKIT_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/server.h"
#include "store/read/query.h"
#include "store/store.h"

struct hkit;

struct hkit_options {
	const char *listen; /* NULL: 127.0.0.1:0 */
	unsigned io_threads;
	const char *dir;         /* an earlier kit's folder; NULL: a new one */
	struct disk_space *disk; /* NULL: the disk is not looked at */
	struct log_limits logs;
	/* On the state thread: answer with rq->reply; -1: the kit's own answer. May be NULL. */
	int (*on_request)(struct hkit *k, struct request *rq);
	/* On the state thread; takes msg. NULL: freed. */
	void (*on_agent_msg)(struct hkit *k, const char *node, uint64_t session, uint16_t type, uint64_t id,
	                     void *msg);
};
struct hkit *hkit_start(const struct hkit_options *o);
void hkit_stop(struct hkit *k); /* stops server and store; the folder stays until the test ends */

const char *hkit_dir(const struct hkit *k);
const char *hkit_token(const struct hkit *k); /* admin.token */
unsigned hkit_port(const struct hkit *k);
const char *hkit_url(const struct hkit *k); /* https when it listens off loopback */
struct server *hkit_server(struct hkit *k); /* for calls on the state thread */
struct tls_ca *hkit_ca(struct hkit *k);

/* Runs fn on the state thread and waits for it. */
void hkit_call(struct hkit *k, void (*fn)(struct hkit *k, void *arg), void *arg);
/* Commits t (taken) and waits. */
void hkit_commit(struct hkit *k, struct store_txn *t);
/* Waits until the store's indexes have every event. */
void hkit_wait_projected(struct hkit *k);
/* A job row with the event "submitted"; owner NULL: the admin's account. */
void hkit_job(struct hkit *k, uint64_t id, const char *name, const char *owner, const char *status,
              uint32_t attempts);
/* A queued job that is an array of so many members, or, with array, a member of that one. */
void hkit_array(struct hkit *k, uint64_t id, const char *name, const char *owner, uint64_t array,
                uint32_t members);
/* The record of a job that has ended and was removed. */
void hkit_job_removed(struct hkit *k, uint64_t id, const char *name);
/* An event, committed, then made known as the state thread would; its id is greater where the newest is not
 * below this one. */
void hkit_event(struct hkit *k, uint64_t id, uint64_t job, const char *type);

/* Counters of the scripted state thread. */
unsigned hkit_requests(struct hkit *k);
unsigned hkit_agents_up(struct hkit *k), hkit_agents_down(struct hkit *k);
uint64_t hkit_agent_session(struct hkit *k); /* of the last control connection that came up */

/* ---- clients ---------------------------------------------------------------------------------- */

struct answer {
	int status; /* 0: no answer */
	char *headers, *body;
	size_t body_n;
	cJSON *json;       /* when the body is some */
	char problem[256]; /* curl's, when status is 0 */
};
/* auth: "admin" token, "unix" socket, NULL nothing, else a literal Authorization value. body NULL: none.
 * headers: NULL-terminated list or NULL. */
struct answer *http(struct hkit *k, const char *method, const char *path, const char *auth, const char *body,
                    const char *const *headers);
struct answer *http_bytes(struct hkit *k, const char *method, const char *path, const char *auth,
                          const void *body, size_t n);
void answer_free(struct answer *a);
const char *answer_str(const struct answer *a, const char *key);     /* member of the JSON body; NULL */
double answer_num(const struct answer *a, const char *key);          /* -1 when absent */
const char *answer_header(const struct answer *a, const char *name); /* value; static buffer */

/* Plain sockets. fd or bail. */
int raw_connect(struct hkit *k);
int raw_unix(struct hkit *k);
void raw_send(int fd, const char *text);
/* Reads until the peer closes or needle was seen or timeout; returns what came (malloc'ed). *closed: 1 when
 * the peer closed. */
char *raw_read(int fd, const char *needle, unsigned timeout_ms, int *closed);

uint64_t hkit_now_us(void);

#endif
