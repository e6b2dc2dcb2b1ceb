/*
 * job_fields: the fields of a job that its own page, lists and tables of members share.
 */
#ifndef HEARTH_STORE_READ_JOB_FIELDS_H
#define HEARTH_STORE_READ_JOB_FIELDS_H

#include <cjson/cJSON.h>

#include "store/base/rows.h"
#include "store/read/reader.h"

/* Adds id, "ref" as people write it, "array": {job, index} or null, and the record. */
void job_fields_json(cJSON *o, const struct job_row *r);
/* Adds "members": {count, waiting, running, completed, failed, stopped} or null. */
int job_members_json(struct store_reader *r, cJSON *job, const struct job_row *row, struct err *e);

#endif
