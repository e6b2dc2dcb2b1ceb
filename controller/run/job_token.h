/*
 * job_token: the token of an attempt, with which its ranks reach hearthd.
 */
#ifndef HEARTH_CONTROLLER_RUN_JOB_TOKEN_H
#define HEARTH_CONTROLLER_RUN_JOB_TOKEN_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

void token_job_make(struct core *c, struct cjob *j);
void token_job_expire(struct core *c, struct cjob *j);
void token_secrets(const struct cjob *j, uint32_t place, char launch[33], char job[41]);

#endif
