/*
 * request: what crosses between the I/O threads (HTTP) and the state thread.
 *
 * An I/O thread authenticates, parses and bounds a call, fills a request and sends it through the state
 * thread's channel. The state thread answers each request exactly once by request_reply, after everything
 * that the answer claims is committed. The answer travels back to the I/O thread that asked. A request that
 * meets a full channel is answered 503 by the I/O thread itself.
 */
#ifndef HEARTH_CONTROLLER_REQUEST_H
#define HEARTH_CONTROLLER_REQUEST_H

#include "common/base/err.h"
#include "common/base/hash.h"
#include "common/spec/spec.h"
#include "controller/state/role.h"
#include <cjson/cJSON.h>
#include <stdint.h>

/* op, needs to write (1) or only asks (0), in words */
#define REQUEST_OPS(R)                                                                                       \
	R(REQ_SUBMIT, 1, "submit a job") /* spec, text, body: {bundle, run, hold, dry_run, spec_warnings} */     \
	R(REQ_STOP, 1, "stop a job")     /* body: {grace_s?} */                                                  \
	R(REQ_HOLD, 1, "hold a job")                                                                             \
	R(REQ_RELEASE, 1, "release a job")                                                                       \
	R(REQ_SET, 1,                                                                                            \
	  "change a job") /* body: {priority?, time?, queue?, notes?, name?, pinned?, tags?: {k: v|null}} */     \
	R(REQ_REQUEUE, 1, "requeue a job")                                                                       \
	R(REQ_CLONE, 1, "clone a job") /* body: {set: {path: value}, hold} ; spec = changed spec of the clone */ \
	R(REQ_RM, 1, "remove a job's data")                                                                      \
	R(REQ_WHY, 0, "explain")        /* -> {status, waits_for: [..], ahead, text} */                          \
	R(REQ_NODES, 0, "list nodes")   /* -> {nodes: [..]} with GPUs, CPUs, who holds them, beat age, load */   \
	R(REQ_DRAIN, 1, "drain a node") /* body: {reason} */                                                     \
	R(REQ_RESUME, 1, "resume a node")                                                                        \
	R(REQ_NODE_LOST, 1, "declare a node lost")                                                               \
	R(REQ_NODE_RM, 1, "remove a node")   /* body: {force?} */                                                \
	R(REQ_TOP, 0, "overview")            /* -> running and waiting jobs, use of nodes, last metrics */       \
	R(REQ_TOKEN, 1, "make a join token") /* body: {kind: join, ttl_s} -> {token, expires_at} */              \
	R(REQ_QUEUES, 0,                                                                                         \
	  "list queues") /* -> {queues: [..]} with weight, quota, what is held, waits, was used */               \
	R(REQ_QUEUE_SET, 1, "set a queue") /* node: its path; body: {weight?} */                                 \
	R(REQ_QUEUE_RM, 1, "remove a queue")                                                                     \
	R(REQ_QUOTA_SET, 1, "set a quota") /* node: path of a queue or user; body: {gpus, borrow?} */            \
	R(REQ_QUOTA_RM, 1, "remove a quota")                                                                     \
	R(REQ_INSTANCES, 0, "list instance types")     /* node: one of them -> {instances: [..]}, or that one */ \
	R(REQ_INSTANCE_SET, 1, "set an instance type") /* node: its name; body: facts, null takes one back */    \
	R(REQ_INSTANCE_RM, 1, "remove an instance type")                                                         \
	R(REQ_RESERVES, 0, "list reservations")     /* -> {reservations: [..]} */                                \
	R(REQ_RESERVE_ADD, 1, "make a reservation") /* node: its name; body: see api_reserve.c */                \
	R(REQ_RESERVE_SET, 1, "change a reservation")                                                            \
	R(REQ_RESERVE_RM, 1, "remove a reservation")                                                             \
	R(REQ_BRIEF, 0, "say why jobs wait") /* body: the answer to be completed: a job, or {jobs: [..]} */      \
	R(REQ_BUDGETS, 0, "list budgets")                                                                        \
	R(REQ_BUDGET_SET, 1, "set a budget") /* node: path of a queue or user; body: {usd?, period?, action?} */ \
	R(REQ_BUDGET_RM, 1, "remove a budget")                                                                   \
	R(REQ_JOIN, 1, "join a node") /* body: {token, node, csr} -> {cert, ca, node} (no login needed) */       \
	R(REQ_STATS, 0, "counters")   /* -> numbers for /metrics */

enum request_op {
#define R(op, w, text) op,
	REQUEST_OPS(R)
#undef R
};

struct request {
	enum request_op op;
	char *user; /* who asks: account name; owned */
	enum user_role role;
	uint64_t token_job;              /* of ROLE_JOB: the job whose token it is */
	uint64_t job;                    /* 0 none */
	char *node;                      /* node name; NULL none */
	struct job_spec *spec;           /* SUBMIT, CLONE: parsed already */
	char *text;                      /* verbatim spec text */
	cJSON *body;                     /* parsed body; NULL none */
	char *idem_key;                  /* Idempotency-Key; NULL none */
	char idem_digest[HASH_HEX_SIZE]; /* of user + method + path + body */

	/* filled by the I/O side */
	void (*reply)(struct request *rq, int status, cJSON *body,
	              const struct err *e); /* any thread's view: called on the state thread;
	                                       takes rq and body; e set when status >= 400 */
	void *io;                           /* the I/O side's own */
	void *core;                         /* the state thread's own */
};

struct request *request_new(enum request_op op);
void request_free(struct request *rq);
const char *request_op_text(enum request_op op);
int request_op_writes(enum request_op op); /* 1: changes something */

#endif
