/*
 * tags: see tags.h.
 */
#include "store/base/tags.h"

#include "store/base/sqlh.h"

static void lay_tag(cJSON *tags, const char *key, const char *value)
{
	cJSON_DeleteItemFromObjectCaseSensitive(tags, key);
	if (value)
		cJSON_AddStringToObject(tags, key, value);
}

cJSON *tags_of_spec(const cJSON *spec)
{
	cJSON *tags = cJSON_CreateObject();
	const cJSON *v;

	cJSON_ArrayForEach (v, cJSON_GetObjectItemCaseSensitive(spec, "tags"))
		if (v->string && cJSON_IsString(v))
			lay_tag(tags, v->string, v->valuestring);
	return tags;
}

sqlite3_stmt *tags_prepare(sqlite3 *db, struct err *e)
{
	return sqlh_prepare(db, "SELECT key, value FROM tag WHERE job = ? ORDER BY key", e);
}

cJSON *tags_by(sqlite3_stmt *st, uint64_t job, const cJSON *spec, struct err *e)
{
	cJSON *tags = tags_of_spec(spec);
	int rc;

	sqlite3_bind_int64(st, 1, (int64_t)job);
	while ((rc = sqlh_step(st, e)) > 0)
		lay_tag(tags, sqlh_str(st, 0), sqlh_str(st, 1));
	sqlite3_reset(st);
	if (rc < 0) {
		cJSON_Delete(tags);
		return NULL;
	}
	return tags;
}

cJSON *tags_of(sqlite3 *db, uint64_t job, const cJSON *spec, struct err *e)
{
	sqlite3_stmt *st = tags_prepare(db, e);
	cJSON *tags = st ? tags_by(st, job, spec, e) : NULL;

	sqlite3_finalize(st);
	return tags;
}
