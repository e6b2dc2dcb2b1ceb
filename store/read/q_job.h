/*
 * q_job: fields of a job that its own page and lists share.
 */
#ifndef HEARTH_STORE_Q_JOB_H
#define HEARTH_STORE_Q_JOB_H

#include <cjson/cJSON.h>

#include "store/base/rows.h"

struct store_reader;
struct err;

void job_fields_json(cJSON *o, const struct job_row *r);
/* q_member.c: "ref" as people write it, "array": {job, index} or null. */
void job_array_json(cJSON *o, const struct job_row *r);
/* "members": {count, waiting, running, completed, failed, stopped} or null. */
int job_members_json(struct store_reader *r, cJSON *job, const struct job_row *row, struct err *e);

#endif
