/*
 * quota: how many series of metrics, and how many bytes of outputs in hearthd's store, an attempt and all
 * running jobs of a user may have. What is above is refused; an event of the job says so, once for each kind.
 * The count begins again when hearthd starts, but for checkpoints: their bytes are those of the job's list,
 * of all its attempts.
 */
#ifndef HEARTH_CONTROLLER_STATE_QUOTA_H
#define HEARTH_CONTROLLER_STATE_QUOTA_H

#include <stdint.h>

#include "common/net/wire_msg.h"

struct active;
struct cjob;
struct core;

enum quota_kind { QUOTA_LOG, QUOTA_SERIES, QUOTA_ARTIFACT, QUOTA_CHECKPOINTS, QUOTA_STEP_FILES };

/* Posts the event, unless the attempt has one of that kind. */
void quota_say(struct core *c, struct cjob *j, enum quota_kind kind, const char *text);
/* 1: the series may be stored; 0: it is refused and counted. The job has an attempt. */
int quota_series(struct core *c, struct cjob *j, const char *name, uint32_t rank);
/* 0: counted; -1: it is refused. The job has an attempt. */
int quota_artifact(struct core *c, struct cjob *j, const struct wm_artifact_report *m, const char *node);
/* 0: a checkpoint of so many bytes fits into hearthd's store; -1: it is refused. The job has an attempt. */
int quota_checkpoint(struct core *c, struct cjob *j, uint64_t bytes, const char *node);
/* The job's list of checkpoints or its status has changed. gone: the job leaves the memory. */
void quota_stored(struct core *c, struct cjob *j, int gone);
void quota_free(struct core *c, struct active *a); /* the attempt ends */

#endif
