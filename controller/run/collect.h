/*
 * collect: the second half of an attempt's end. Its nodes upload, drain logs and remove folders, while the
 * next attempt is prepared and runs (docs/spec/01-states.md, Ending).
 *
 * A job has at most one such attempt: job_rec.old, or job_rec.att until the next one is placed. cjob.collect
 * is what is not stored of it. The code for the newest attempt serves it, too: collect_look exchanges the two
 * for that time.
 */
#ifndef HEARTH_CONTROLLER_RUN_COLLECT_H
#define HEARTH_CONTROLLER_RUN_COLLECT_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* 1: the newest attempt has stopped and another one follows: the rest of its end may go on behind. */
int collect_may_begin(struct core *c, struct cjob *j);
/* The newest attempt has ended, and its nodes collect on. Takes cjob.act. */
void collect_begin(struct core *c, struct cjob *j);
/* The same at load. */
void collect_loaded(struct core *c, struct cjob *j);

/* Makes the attempt that is being collected the job's newest one, with its cjob.act, until collect_back. */
void collect_look(struct cjob *j);
void collect_back(struct cjob *j);
/* The job of a report about an attempt that is being collected, after collect_look; NULL: another attempt. */
struct cjob *collect_of_report(struct core *c, uint16_t type, const void *msg);

/* Repeats orders, gives up nodes without progress, and ends the collection when no node is left. */
void collect_review(struct core *c, struct cjob *j);
/* A connection of the node begins and ends its report of all launches. */
void collect_sync_begin(struct cnode *n);
void collect_sync_end(struct core *c, struct cnode *n);
void collect_node_lost(struct core *c, struct cnode *n, uint64_t silent_us, const char *why);

#endif
