/*
 * local_jobs: calls to the local cluster's own hearthd.
 *
 * DIR/stop_jobs exists if `local down` ended processes, or began to, while hearthd did not answer. hearthd's
 * record still says that those jobs run, so the next `local up` stops them before any agent can start them
 * again.
 */
#ifndef HEARTH_JOBCTL_LOCAL_LOCAL_JOBS_H
#define HEARTH_JOBCTL_LOCAL_LOCAL_JOBS_H

#include "common/base/err.h"
#include "jobctl/client/client.h"

struct client *local_client(const char *dir, unsigned patience_s, struct err *e);
cJSON *local_nodes(const char *dir); /* the answer of GET /nodes, with a short time limit; NULL: no answer */

/* Returns the jobs that have not ended, waiting ones too; NULL: hearthd does not answer. The caller's. */
cJSON *local_active_jobs(struct client *c);
/* Returns "2 jobs (17 train running, 18 eval queued)"; a long list is cut. Malloc'ed. */
char *local_jobs_text(const cJSON *jobs);
/* Stops all jobs that have not ended, and waits for their ends. Returns how many are left, -1: unknown. */
int local_stop_jobs(const char *dir);

/* Makes the mark for the next local_stop_now. 1: it is new, 0: it existed, -1: error. */
int local_stop_later(const char *dir, struct err *e);
void local_stop_never(const char *dir); /* removes the mark */
void local_stop_now(const char *dir);

#endif
