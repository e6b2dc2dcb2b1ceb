/*
 * tags: the tags of a job as {key: value}: those of its specification, changed by the rows of the table tag.
 * The caller frees the tree.
 */
#ifndef HEARTH_STORE_BASE_TAGS_H
#define HEARTH_STORE_BASE_TAGS_H

#include <cjson/cJSON.h>
#include <sqlite3.h>
#include <stdint.h>

#include "common/base/err.h"

cJSON *tags_of_spec(const cJSON *spec); /* without the table */
cJSON *tags_of(sqlite3 *db, uint64_t job, const cJSON *spec, struct err *e);
/* The same for many jobs with one statement. */
sqlite3_stmt *tags_prepare(sqlite3 *db, struct err *e);
cJSON *tags_by(sqlite3_stmt *st, uint64_t job, const cJSON *spec, struct err *e);

#endif
