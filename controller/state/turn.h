/*
 * turn: events, and what waits for them to be durable.
 *
 * Inputs change records by events; events and rows of one turn are one transaction of the store. Orders,
 * acknowledgements, answers and notices that they explain are held until it is durable, and dropped when it
 * fails (answers then say so).
 */
#ifndef HEARTH_CONTROLLER_STATE_TURN_H
#define HEARTH_CONTROLLER_STATE_TURN_H

#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

#define PROBE_US 1000000 /* time between probes after the store failed */

enum held_kind {
	HELD_SEND,
	HELD_REPLY,
	HELD_NOTICE,
	HELD_CLOSE,
	HELD_REMOVE_DATA,
	HELD_SETTLE,
	HELD_METRICS_ACK
};
struct held { /* sent after the commit, or dropped */
	enum held_kind kind;
	char *node;
	uint64_t session, id, job;
	uint32_t attempt;
	uint16_t type;
	void *msg;
	struct request *rq;
	int status;
	cJSON *body;
	struct err err;
	struct event_row ev;
	struct held *next, *prev;
};

struct turn { /* one transaction and what waits for it */
	struct core *core;
	struct store_txn *txn;
	struct held *held;
	size_t n; /* things in txn */
};

/* Applies and records an event; takes data (an object, or NULL). -1: the tables refused it (logged). */
int job_post(struct core *c, struct cjob *j, enum event_type t, cJSON *data);
/* The same for the records of the cluster. The turn writes the changed rows. -1: refused (logged). */
int cluster_post(struct core *c, enum event_type t, cJSON *data);
struct turn *turn_now(struct core *c);
void hold_send(struct core *c, const struct cnode *n, uint16_t type, const void *msg); /* copies */
/* Sends immediately; only for messages that follow from durable state. */
void send_now(struct core *c, const struct cnode *n, uint16_t type, const void *msg);
void hold_ack(struct core *c, const char *node, uint64_t session, uint64_t id);
void hold_reply(struct core *c, struct request *rq, int status, cJSON *body); /* takes both */
void reply_err(struct core *c, struct request *rq,
               const struct err *e); /* takes rq; held, too, to keep the order of answers */
int reply_fail(struct core *c, struct request *rq, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void hold_close(struct core *c, const char *node, uint64_t session, const char *why);
void hold_remove_data(struct core *c, uint64_t job);
void hold_metrics_ack(struct core *c, const char *node, uint64_t job, uint32_t attempt, uint64_t seq);
void turn_commit(struct core *c);
void turn_tick(struct core *c); /* retries, probes */
uint64_t turn_next_us(const struct core *c);
/* Drops what the store does not have yet. The transaction in the store is released when it is durable. */
void turn_stop(struct core *c, const struct err *e);
void turns_drop(struct core *c, const struct err *e); /* both; requests are answered with e */
void metrics_drop(struct core *c, const struct err *e);

#endif
