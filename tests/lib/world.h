/*
 * world: the controller's core, a real store in a private folder, and any number of agents in memory, on one
 * fake clock. Everything happens when the test says so: commits complete or fail on demand, messages are
 * recorded, the clock moves by hand. Equal seeds give equal runs.
 */
#ifndef HEARTH_TESTS_LIB_WORLD_H
#define HEARTH_TESTS_LIB_WORLD_H

#include "common/base/clock.h"
#include "common/os/loop.h"
#include "controller/core.h"
#include "controller/run/attempt.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"
#include "store/read/reader.h"
#include "store/store.h"

struct sent { /* a message that the core let go */
	char *node;
	uint64_t session;
	uint16_t type;
	void *msg;
	uint64_t id;
	struct sent *next, *prev;
};

struct world_commit;
struct world {
	struct clock clock;
	struct loop *loop;
	struct store *store;
	struct store_reader *reader;
	int store_lacks; /* 1: blobs of checkpoints that are reported */
	struct core *core;
	char *dir, *path;
	uint64_t rng;
	struct sent *sent;
	struct world_commit *commits; /* given, not completed */
	int hold_commits;             /* 1: they complete by world_commit_now only */
	int fail_next;                /* so many commits fail (disk full) */
	int store_busy;               /* so many are refused: queue full */
	const char *type;             /* of nodes that give their inventory from now on; NULL "box" */
	double price;                 /* of these, USD an hour */
	const char *const *labels;    /* of nodes that come; NULL-terminated */
	uint32_t lease_ms;            /* of hearthd */
	int warm_parked;              /* of hearthd that is started from now on: pools hold launches ready */
	const char *boot_id;          /* of agents that connect; NULL "b" */
	uint64_t instance;            /* of agents that connect; 0: 1 */
	uint8_t over;                 /* enum launch_over, in reports of ENDED and FAILED launches */
	uint32_t version;             /* of the protocol, of agents that connect; 0: the present one */
	uint64_t n_commits, next_session, next_frame;
	/* the last answer */
	int n_requests, n_replies, status;
	cJSON *body;
	struct err err;
	/* what was seen */
	uint64_t n_events, n_closed;
	char closed_why[256];
	int (*steps)(const char *digest, struct steps *out, struct err *e); /* NULL: no folder holds any */
	void (*on_send)(struct world *w, struct sent *s, void *arg);        /* takes s; NULL: kept in `sent` */
	void (*on_close)(struct world *w, const char *node, uint64_t session, void *arg);
	void (*on_event)(struct world *w, const struct event_row *ev, void *arg);
	void *arg;
};

struct world *world_create_lease(uint64_t seed, uint32_t lease_ms);
static inline struct world *world_create(uint64_t seed)
{
	return world_create_lease(seed, 10000);
}
void world_destroy(struct world *w);
/* The end of a test: memory is consistent, and so is the store, whose replay gives the rows; then as above.
 */
void world_end_well(struct world *w);
/* The controller dies: what was not committed is lost; another one loads. Agents find no connection. */
void world_restart(struct world *w);
/* The same in two steps, with no controller in between; the first `durable` of the transactions that it had
 * given are in the store. */
void world_stop(struct world *w, unsigned durable);
void world_start(struct world *w);
unsigned world_pending(const struct world *w); /* transactions given and not completed */
uint32_t world_rnd(struct world *w, uint32_t n);

/* End of a turn; completes commits (unless hold_commits) until nothing more happens. */
void world_turn(struct world *w);
int world_commit_now(struct world *w);            /* completes the oldest; 0 there was none */
void world_advance(struct world *w, uint64_t us); /* in steps, with ticks and turns */

/* Requests as the administrator; world_turn is included. Status and body are in w. */
int world_request(struct world *w, enum request_op op, uint64_t job, const char *node, const char *body);
/* A node joins with a token made for it; 201. */
int world_join(struct world *w, const char *node);
struct request *world_rq(struct world *w, enum request_op op, uint64_t job);
uint64_t world_submit(struct world *w, const char *spec); /* id; 0 refused */
uint64_t world_submit_full(struct world *w, const char *spec, const char *body, const char *key,
                           const char *digest);
const char *world_status(const struct world *w,
                         uint64_t job); /* of the record; "" unknown (ended ones: from the store) */
const char *world_reason(const struct world *w, uint64_t job);  /* as it is stored; until the next call */
const char *world_text(const struct world *w, const char *key); /* member of the last body */

/* Agents by hand. up: connects, gives its inventory, reports nothing. */
uint64_t world_agent_connect(struct world *w, const char *node);
void world_agent_inventory(struct world *w, const char *node, uint64_t session, uint32_t gpus,
                           uint32_t slots);
uint64_t world_agent_up(struct world *w, const char *node, uint32_t gpus, uint32_t slots);
void world_msg(struct world *w, const char *node, uint64_t session, uint16_t type,
               void *msg); /* copies what msg points to; session 0: present */
void world_launch(struct world *w, const char *node, uint64_t job, uint32_t attempt, uint8_t state,
                  uint8_t cls, const char *text);
void world_rank(struct world *w, const char *node, uint64_t job, uint32_t attempt, uint32_t rank,
                uint8_t state, uint32_t exit_code, uint32_t signo, const char *last_lines);
/* Attempt 1 of a job of one rank on node "a": it runs; it has ended with that code and is cleaned up. */
void world_begin(struct world *w, uint64_t job);
void world_end_with(struct world *w, uint64_t job, uint32_t code);
void world_proc(struct world *w, const char *node, uint64_t job, uint32_t attempt, uint8_t kind,
                uint8_t state, uint32_t exit_code, const char *text);
void world_beat(struct world *w, const char *node);
/* First recorded message of that type to that node, taken out; NULL none. Free by sent_free. */
struct sent *world_sent(struct world *w, const char *node, uint16_t type);
unsigned world_count(const struct world *w, const char *node, uint16_t type);
void world_forget(struct world *w); /* drops all recorded messages */
void sent_free(struct sent *s);

/* Invariants of memory; NULL fine. */
const char *world_check(struct world *w);
/* The store against itself, replay of all events included. Number of findings; they are printed as TAP
 * diagnostics. */
int world_verify(struct world *w);
const char *world_findings(const struct world *w); /* of the last look, a line each */

#endif
