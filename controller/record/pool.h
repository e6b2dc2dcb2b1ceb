/*
 * pool: warm pools: what jobs left on their nodes (docs/spec/15-pools.md), and what each event does to them.
 *
 * Two kinds of records of the cluster: a pool, by its id, and what one job left in a pool, by the number of
 * the job. The second one has the costs of the time that it waits; events of the pool change both.
 */
#ifndef HEARTH_CONTROLLER_RECORD_POOL_H
#define HEARTH_CONTROLLER_RECORD_POOL_H

#include "controller/record/cluster.h"
#include "store/base/rows.h"

/* clang-format off */
#define POOL_STATES(P) P(POOL_AVAILABLE, "available") P(POOL_IN_USE, "in_use") P(POOL_TERMINATED, "terminated")
#define POOL_LEFTS(P) P(LEFT_AVAILABLE, "available") P(LEFT_REUSED, "reused") P(LEFT_TERMINATED, "terminated")
#define POOL_CAUSES(P) \
	P(POOL_EXPIRED, "expired") P(POOL_DROPPED, "dropped") P(POOL_GAVE_WAY, "gave way") P(POOL_NODE, "node") \
	P(POOL_LIMIT, "limit") P(POOL_OWNER, "owner")
/* clang-format on */
#define P(id, name) id,
enum pool_state { POOL_STATES(P) N_POOL_STATE };
enum pool_left { POOL_LEFTS(P) N_POOL_LEFT };
enum pool_cause { POOL_CAUSES(P) N_POOL_CAUSE };
#undef P
extern const char *const pool_state_names[], *const pool_left_names[], *const pool_cause_names[];

struct pool_part { /* of a pool, on one node */
	char *node;
	uint64_t node_id;
	struct wire_u32v gpus, cpus;
	uint64_t memory_bytes, disk_bytes;
	uint64_t price_uusd; /* an hour, millionths of a US dollar; 0 unknown */
	uint64_t used_by;    /* job; 0: it is idle */
};

struct pool_rec {
	struct cluster_rec head;    /* its name is the id as text */
	char *name, *owner, *queue; /* NULL = "" */
	char *cause, *cause_text;   /* of its end: a word, and a sentence; NULL none */
	char *kept_by;              /* the user that set its time; NULL: its last job did */
	char *environment;          /* JSON; NULL unknown */
	char *ended_parts;          /* JSON: the newest [{node, cause, text, at_us}]; NULL none */
	uint64_t id, made_by, last_job, keep_alive_s;
	uint64_t made_us, idle_us, expires_us, chain_us, ended_us; /* ended_us 0: it lives */
	uint64_t idle_uusd;                                        /* until its last change, of all its jobs */
	/* The parking of that number waits for a job; 0 none. The newest one and its epoch; since when. */
	uint64_t parked, parkings, park_epoch, park_us;
	char *launch;    /* JSON: how its last job was launched; NULL unknown */
	char *park_text; /* why nothing is parked; NULL nothing went wrong */
	uint8_t exclusive;
	struct pool_part *parts;
	uint32_t n_parts;
};

struct pool_job_rec {        /* what a job left */
	struct cluster_rec head; /* its name is the job's number */
	uint64_t job, pool, left_us, until_us, reused_by, price_uusd, since_us, idle_uusd;
	char *account;
	enum pool_left status;
};

enum pool_state pool_state_of(const struct pool_rec *p);
uint64_t pool_used_by(const struct pool_rec *p);                            /* job; 0 none */
struct pool_part *pool_part_on(const struct pool_rec *p, uint64_t node_id); /* NULL none */
struct pool_rec *cluster_pool(const struct cluster *c, uint64_t id);
struct pool_job_rec *cluster_pool_job(const struct cluster *c, uint64_t job);
/* The costs of all idle time of the pool until now, in millionths of a US dollar. */
uint64_t pool_uusd(const struct cluster *c, const struct pool_rec *p, uint64_t now_us);

/* ---- for record/cluster.c and record/cluster_rows.c --------------------------------------------------- */

void pool_apply(struct cluster *c, struct pool_rec *p, enum event_type t, uint64_t at_us, const cJSON *data);
void pool_rec_fini(struct pool_rec *p);
void pool_job_rec_fini(struct pool_job_rec *l);
void pool_from_record_row(struct pool_rec *p, const struct pool_row *row);
void pool_job_from_record_row(struct pool_job_rec *l, const struct pool_job_row *row);
/* Texts are borrowed, but parts are malloc'ed. */
void pool_make_row(const struct pool_rec *p, struct pool_row *row);
void pool_job_make_row(const struct pool_job_rec *l, struct pool_job_row *row);

#endif
