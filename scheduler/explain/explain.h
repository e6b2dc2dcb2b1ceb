/*
 * explain: why a job waits, what would help it, and when it is expected to start.
 *
 * Promise of this folder: it only answers questions. No decision follows from an answer, and a question
 * leaves the model as it was. The work of each answer has a bound. It may use scheduler/policy and what that
 * uses.
 */
#ifndef HEARTH_SCHEDULER_EXPLAIN_EXPLAIN_H
#define HEARTH_SCHEDULER_EXPLAIN_EXPLAIN_H
#include "scheduler/sched.h"

#endif
