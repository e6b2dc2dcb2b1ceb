/*
 * queues: queues and their users, with weights, quotas and use.
 */
#ifndef HEARTH_CONTROLLER_SHARE_QUEUES_H
#define HEARTH_CONTROLLER_SHARE_QUEUES_H

#include "common/spec/spec.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/observer.h"

#define ACCOUNT_PATH (SPEC_MAX_QUEUE + 140) /* "queue/@owner" */
void queues_clear(struct core *c);
int queue_load(struct core *c, const struct queue_row *r);
void queues_loaded(const struct core *c);
void usage_load(struct core *c, const struct usage_row *r);
/* Sends the weight and the quota on record to the library. */
void queue_tell(struct core *c, const char *path);
uint32_t queue_unfinished(const struct core *c, const char *path); /* jobs that name it and have not ended */
void queue_jobs(struct core *c, const char *path, int delta);      /* unfinished jobs that name it */
/* Functions of struct observer; they count unfinished jobs. */
void queue_before_event(struct core *c, const struct cjob *j, enum event_type t, cJSON *data);
void queue_after_event(struct core *c, struct cjob *j, enum event_type t, const struct job_before *before);
int queue_exists(const struct core *c, const char *path, struct err *e);
/* -1: a quota forbids a job of so many GPUs for good. */
int queue_holds(const struct core *c, const char *queue, const char *owner, uint64_t gpus, struct err *e);
void account_path(char *out, size_t n, const char *queue, const char *owner);
void usage_mark(struct core *c, const struct cjob *j); /* a job released its GPUs */
void usage_write(struct core *c);                      /* adds the rows of marked accounts to the turn */
int queue_of_path(const struct core *c, const char *path,
                  struct err *e); /* -1: unknown queue, or unknown queue of that user */

#endif
