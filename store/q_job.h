/*
 * q_job: fields of a job that its own page and lists share.
 */
#ifndef HEARTH_STORE_Q_JOB_H
#define HEARTH_STORE_Q_JOB_H

#include "store/rows.h"
#include <cjson/cJSON.h>

void job_fields_json(cJSON *o, const struct job_row *r);

#endif
