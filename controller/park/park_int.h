/*
 * park_int: what the files of this room share.
 */
#ifndef HEARTH_CONTROLLER_PARK_PARK_INT_H
#define HEARTH_CONTROLLER_PARK_PARK_INT_H

#include "common/base/hashtable.h"
#include "controller/park/orteds.h"
#include "controller/park/park.h"

struct park_node {             /* of a parking, in the order of node ranks */
	uint64_t node_id, session; /* for which `sent` counts */
	uint8_t state;             /* enum launch_state, as last reported */
	uint8_t sent;              /* SENT_... */
	uint8_t reported;          /* in this session */
	uint8_t gone;              /* nothing of it is there */
	uint64_t gpus;             /* one bit for each: its number modulo 64 */
	uint8_t ordered;           /* PREPARE was sent, in any session: something may be there */
};

enum park_state { PARK_PREPARING, PARK_STARTING, PARK_PARKED, PARK_ENDING };

struct parking {
	struct {
		uint64_t pool, number;
	} key;
	uint64_t epoch, due_us; /* boot: it is given up then; UINT64_MAX never */
	uint64_t way_us;        /* boot: an ENDING one holds back launches on its GPUs until then; 0 no longer */
	uint64_t parked_us;     /* boot: since when it is PARKED, as far as this hearthd knows */
	enum park_state state;
	uint32_t n, port;
	struct park_node *nodes;
	char *text;               /* why jobs do not get its interpreters; NULL they do */
	struct park_order *order; /* of a PREPARING one */
	struct rsh *rsh;
	UT_hash_handle hh;
};

struct pool_park { /* what is tried for a pool */
	uint64_t pool, of_job, again_us;
	uint32_t tries;
	UT_hash_handle hh;
};

struct parking *parking_new(struct core *c, uint64_t pool, uint64_t number, uint64_t epoch, uint32_t n);
struct parking *parking_find(const struct core *c, uint64_t pool, uint64_t number);
struct park_node *parking_node(const struct parking *k, uint64_t node_id); /* NULL none */
struct orted_launch parking_orteds(struct parking *k);
/* It goes on by what its nodes have reported. */
void parking_step(struct core *c, struct parking *k);
/* A node has no interpreter for a job, and says why. The first text counts. */
void parking_no_interpreter(struct core *c, struct parking *k, const char *text);
/* It failed: it is ended, and tried again later. */
void parking_failed(struct core *c, struct parking *k, const char *text);
void parking_end(struct core *c, struct parking *k); /* kills what is there; it stays until that is gone */
void parking_free(struct core *c, struct parking *k);
uint64_t park_gpus(const struct wire_u32v *gpus);      /* as in park_node */
void park_way_over(struct core *c, struct parking *k); /* it holds back nobody any more */
/* What a node reported of an ending one. */
void parking_ending(struct core *c, struct parking *k, struct park_node *x, uint8_t state);
void parking_settle(struct core *c, struct parking *k); /* frees an ending one of which nothing is left */

struct park_order *park_order_make(struct core *c, const struct pool_rec *p, struct parking *k);
void park_order_free(struct park_order *o);
void park_send(struct core *c, struct parking *k); /* orders that are due and were not sent in this session */

#endif
