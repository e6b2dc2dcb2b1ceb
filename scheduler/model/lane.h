/* lane: waiting jobs of one shape, account and burst, in order (queue), and what their run times teach. */
#ifndef HEARTH_SCHEDULER_MODEL_LANE_H
#define HEARTH_SCHEDULER_MODEL_LANE_H
#include "scheduler/base/uthash.h"
#include "scheduler/sched.h"

#define NONE UINT32_MAX

struct account;
struct job;
struct shape;

struct tally { /* run times seen, older ones fading */
	double sum, n;
};
struct size { /* gangs of so many GPUs */
	uint64_t gpus;
	struct tally seen;
	UT_hash_handle hh;
};
struct kin { /* jobs of one owner, name and size: expected to take about the same */
	char *key;
	struct size *size;
	struct tally seen;
	uint64_t last_submit_s;
	struct lane *lane; /* the burst that is open; NULL */
	uint32_t users;
	UT_hash_handle hh;
};

struct lane {
	struct shape *shape;
	struct account *account;
	struct kin *kin;             /* NULL when nothing is learned */
	struct job *waiting, *first; /* root of the ordered tree; its first */
	uint32_t users, active_at;   /* jobs of this lane; index in active, or NONE */
	/* run times of this burst: those ended, and what is running has run already */
	struct tally seen;
	uint64_t n_running, start_sum;
	double mean;                         /* expected run time, as of the last look */
	uint64_t refused;                    /* era in which it may not start */
	uint64_t barred_gen, barred_until_s; /* gen in which, and time up to which, only reservations bar it */
	struct lane *next_of_shape;
};

struct lane *lane_get(struct sched *s, struct shape *sh, const struct sched_job *j,
                      uint64_t submit_s); /* users up */
void lane_put(struct sched *s, struct lane *l);
void lane_wait(struct sched *s, struct job *j); /* into its lane's tree */
void lane_unwait(struct sched *s, struct job *j);
void lane_started(struct sched *s, struct job *j);
void lane_stopped(struct sched *s, struct job *j, int learn);
void lanes_fini(struct sched *s);
double lane_expect(const struct sched *s, const struct lane *l); /* run time, seconds */
int lane_learns(const struct sched *s);

/* queue.c: one tree a lane, order: priority down, is_first before others, order up, id up */
int queue_before(const struct job *a, const struct job *b);
void queue_insert(struct lane *l, struct job *j);
void queue_remove(struct lane *l, struct job *j);
struct job *queue_first(const struct lane *l);
uint32_t queue_count_before(const struct lane *l, const struct job *j); /* j need not be in this tree */
struct job *queue_at(const struct lane *l, uint32_t i);                 /* i-th, NULL none */
const char *queue_check(const struct lane *l, size_t *n);

#endif
