/*
 * This folder decides who may have what: it feeds the scheduler library and accounts for queues, money and
 * reservations. It starts and ends nothing.
 *
 * alloc: feeds jobs to the scheduler library and returns its decisions.
 */
#ifndef HEARTH_CONTROLLER_SHARE_ALLOC_H
#define HEARTH_CONTROLLER_SHARE_ALLOC_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/observer.h"
#include "controller/state/turn.h"

#define DECISIONS_A_TURN 64

void alloc_queue(struct core *c, struct cjob *j, const struct job_spec *spec); /* starts to wait */
void alloc_unqueue(struct core *c,
                   struct cjob *j); /* neither waits nor holds nodes; it may be queued again */
/* When it waits again, it is before all others of its priority, and its wait before that attempt counts, too.
 */
void alloc_goes_first(struct cjob *j, const struct attempt_rec *last);
/* A job between two attempts gives back its places on the nodes in drop and waits for as many others; nobody
 * else gets the rest meanwhile. Its decision has the kept places where the last attempt had them. Until then
 * it is touched when a node changed; who calls again gives back more. alloc_unqueue ends it. -1: the job
 * waits in the queue, or what it holds does not suit spec; nothing happened. */
int alloc_exchange(struct core *c, struct cjob *j, const struct job_spec *spec, const uint64_t *drop,
                   uint32_t n_drop);
int alloc_exchanges(const struct core *c, const struct cjob *j); /* 1: it waits so */
/* May a job keep its place there: will it get it again, now or when the agent is back? Follows S-158. */
int alloc_lasts(struct core *c, uint64_t node);
void wait_review(struct core *c, struct cjob *j); /* ends a queued job whose longest wait is over */
/* At load: the job has what rec_holds says. held_s: seconds since its placement. */
void alloc_holds(struct core *c, struct cjob *j, const struct job_spec *spec, uint64_t held_s);
void alloc_release(struct core *c, struct cjob *j, uint64_t node);
int alloc_possible(struct core *c, const struct job_spec *spec, struct sched_reason *r);
struct alloc_new {              /* a job that is not submitted yet */
	const char *owner, *source; /* source: digest; NULL none */
	uint64_t pool;              /* that it waits for; 0 none */
};
/* Fills what `why` would say if the job were submitted now. Call decide first. */
void alloc_ask(struct core *c, const struct job_spec *spec, const struct alloc_new *of,
               struct sched_reason *r, struct sched_forecast *f);
void alloc_open(struct core *c);              /* creates the library, without jobs */
uint64_t alloc_next_us(const struct core *c); /* when a pass is due by time alone; UINT64_MAX never */
void alloc_tick(struct core *c);
/* How long the scheduler believes that a job may run: its time limit and the grace time. */
uint64_t alloc_limit_s(const struct core *c, const struct cjob *j, const struct job_spec *spec);
size_t alloc_resume(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner,
                    int empty, uint64_t *nodes, size_t max);
int alloc_change(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner,
                 const char *const *queues, int ever, struct sched_change *out);
/* Sends the changes since the last decision to the library. */
void alloc_prepare(struct core *c);
/* The n-th decision of this turn, from 0; NULL: none, or the rest comes in the next turn (c->alloc.more).
 * The caller frees it by sched_decision_free. */
struct sched_decision *alloc_step(struct core *c, int n);
/* Functions of struct observer. alloc_before_event adds the library's time and the number of its last pass to
 * events that the library reads or decided. alloc_after_event reports an ended job to the library, which then
 * releases the jobs that wait for it. */
void alloc_before_event(struct core *c, const struct cjob *j, enum event_type t, cJSON *data);
void alloc_after_event(struct core *c, struct cjob *j, enum event_type t, const struct job_before *before);

#endif
