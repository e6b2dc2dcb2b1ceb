/* replacing: what a job waits for that keeps some of its places, and whether spares are in the way. */
#ifndef HEARTH_SCHEDULER_EXPLAIN_REPLACING_H
#define HEARTH_SCHEDULER_EXPLAIN_REPLACING_H
#include "scheduler/sched.h"

struct job;
struct shape;
struct text;

/* "waits for 1 node to replace node-b; keeps 3" */
void replacing_say(const struct sched *s, const struct job *j, struct text *o);
void replacing_explain(const struct sched *s, const struct job *j, struct sched_reason *r);
/* "; 1 node is a spare": of those that could take an instance of it if they were none */
void replacing_say_spares(const struct sched *s, const struct shape *sh, struct text *o);

#endif
