/*
 * alloc: between the core and the scheduler library: jobs and nodes in, decisions out.
 */
#ifndef HEARTH_CONTROLLER_SHARE_ALLOC_H
#define HEARTH_CONTROLLER_SHARE_ALLOC_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/observer.h"
#include "controller/state/turn.h"

#define DECISIONS_A_TURN 64

void alloc_queue(struct core *c, struct cjob *j, const struct job_spec *spec); /* waiting now */
void alloc_unqueue(struct core *c, struct cjob *j); /* it neither waits nor holds; it may come again */
void wait_review(struct core *c, struct cjob *j);   /* of a queued job: is its longest wait over? */
void alloc_holds(struct core *c, struct cjob *j, uint64_t held_s); /* at load; for how long already */
void alloc_release(struct core *c, struct cjob *j, uint64_t node);
int alloc_possible(struct core *c, const struct job_spec *spec, struct sched_reason *r);
/* What `why` would say if that user submitted it now. Call decide first. */
void alloc_ask(struct core *c, const struct job_spec *spec, const char *owner, struct sched_reason *r,
               struct sched_forecast *f);
void alloc_open(struct core *c);              /* a library without jobs */
uint64_t alloc_next_us(const struct core *c); /* when a pass is due by time alone; UINT64_MAX: it is not */
void alloc_tick(struct core *c);
/* How long the scheduler believes that a job may run: its time limit and the grace time. */
uint64_t alloc_limit_s(const struct core *c, const struct cjob *j, const struct job_spec *spec);
size_t alloc_resume(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner,
                    int empty, uint64_t *nodes, size_t max);
int alloc_change(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner,
                 const char *const *queues, int ever, struct sched_change *out);
/* Before decisions: what changed since is told to the library. */
void alloc_prepare(struct core *c);
/* The n-th decision of this turn, from 0; NULL: none, or the rest comes in the next turn (c->more_decisions).
 * The caller frees it by sched_decision_free. */
struct sched_decision *alloc_step(struct core *c, int n);
/* As struct observer has them. The first adds to an event that the library is told, or that it decided: when
 * that was by the library's time, and after which of its passes. The second tells the library that a job
 * holds nothing any more; jobs that wait for it hear of it. */
void alloc_before_event(struct core *c, const struct cjob *j, enum event_type t, cJSON *data);
void alloc_after_event(struct core *c, struct cjob *j, enum event_type t, const struct job_before *before);

#endif
