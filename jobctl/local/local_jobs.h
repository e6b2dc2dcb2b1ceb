/*
 * local_jobs: what jobctl asks of, and tells, the local cluster's own hearthd.
 *
 * DIR/stop_jobs is there when `local down` ended, or began to end, what ran while hearthd did not answer: its
 * record still says that those jobs run, so the next `local up` has them stopped before any agent is there to
 * start them again.
 */
#ifndef HEARTH_JOBCTL_LOCAL_JOBS_H
#define HEARTH_JOBCTL_LOCAL_JOBS_H

#include "common/base/err.h"
#include "jobctl/client/client.h"

struct client *local_client(const char *dir, unsigned patience_s, struct err *e);
cJSON *local_nodes(const char *dir); /* the answer of GET /nodes, soon given up: then NULL */

/* Jobs that have not ended, those that wait too; NULL: hearthd does not answer. The caller's. */
cJSON *local_active_jobs(struct client *c);
/* "2 jobs (17 train running, 18 eval queued)", of long lists the first ones. Malloc'ed. */
char *local_jobs_text(const cJSON *jobs);
/* Every job that has not ended is stopped, and waited for. How many are left, -1 unknown. */
int local_stop_jobs(const char *dir);

/* The next local_stop_now has something to do. 0: it had already; 1: now it has; -1. */
int local_stop_later(const char *dir, struct err *e);
void local_stop_never(const char *dir); /* takes it back */
void local_stop_now(const char *dir);

#endif
