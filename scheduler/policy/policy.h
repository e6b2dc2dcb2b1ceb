/*
 * policy: who starts next, and where.
 *
 * Promise of this folder: it decides by the rules of docs/spec/05a-order.md and 05-scheduler.md alone; the
 * same model and time give the same decision. It may use scheduler/model and what that uses. It takes what it
 * decides from the model's free resources, and gives nothing back.
 */
#ifndef HEARTH_SCHEDULER_POLICY_POLICY_H
#define HEARTH_SCHEDULER_POLICY_POLICY_H
#include "scheduler/sched.h"

/* Returns the next decision, malloc'ed, or NULL. */
struct sched_decision *decide_step(struct sched *s);

#endif
