/* q_history: the record of the scheduler, as it is given out: which parts there are, and the lines of one. */
#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "store/base/sqlh.h"
#include "store/read/query.h"
#include "store/read/reader_int.h"

static cJSON *part_json(sqlite3_stmt *st)
{
	cJSON *o = cJSON_CreateObject();
	char at[CLOCK_RFC3339_SIZE];

	json_add_u64(o, "part", sqlh_u64(st, 0));
	clock_rfc3339(sqlh_u64(st, 1), at);
	cJSON_AddStringToObject(o, "began_at", at);
	clock_rfc3339(sqlh_u64(st, 2), at);
	cJSON_AddStringToObject(o, "written_at", at);
	json_add_u64(o, "bytes", sqlh_u64(st, 3));
	return o;
}

cJSON *store_history_parts(struct store_reader *r, struct err *e)
{
	sqlite3_stmt *st = reader_sql(
	    r, "SELECT part, min(at_us), max(at_us), sum(bytes) FROM history GROUP BY part ORDER BY part", e);
	cJSON *o, *list;
	int rc;

	if (!st)
		return NULL;
	o = cJSON_CreateObject();
	list = cJSON_AddArrayToObject(o, "parts");
	while ((rc = sqlh_step(st, e)) > 0)
		cJSON_AddItemToArray(list, part_json(st));
	sqlite3_finalize(st);
	if (rc == 0)
		return o;
	cJSON_Delete(o);
	return NULL;
}

/* Rows from the one behind `after` on, of one part, until there are `most` bytes. */
static int read_lines(sqlite3_stmt *st, uint64_t part, size_t most, cJSON *o, struct err *e)
{
	cJSON *texts = cJSON_AddArrayToObject(o, "texts");
	uint64_t last = 0;
	size_t n = 0;
	int rc;

	while ((rc = sqlh_step(st, e)) > 0 && sqlh_u64(st, 1) == part && n < most) {
		const char *text = sqlh_str(st, 2);

		n += text ? strlen(text) : 0;
		last = sqlh_u64(st, 0);
		cJSON_AddItemToArray(texts, cJSON_CreateString(text ? text : ""));
	}
	if (rc > 0 && sqlh_u64(st, 1) == part) /* there is more */
		json_add_u64(o, "next", last);
	else
		cJSON_AddNullToObject(o, "next");
	return rc < 0 ? -1 : 0;
}

cJSON *store_history_lines(struct store_reader *r, uint64_t part, uint64_t after, size_t most, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r,
	                              "SELECT id, part, text FROM history WHERE id > ?2 AND id >= (SELECT "
	                              "min(id) FROM history WHERE part = ?1) ORDER BY id",
	                              e);
	cJSON *o;
	int rc;

	if (!st)
		return NULL;
	sqlite3_bind_int64(st, 1, (int64_t)part);
	sqlite3_bind_int64(st, 2, (int64_t)after);
	o = cJSON_CreateObject();
	json_add_u64(o, "part", part);
	rc = read_lines(st, part, most, o, e);
	sqlite3_finalize(st);
	if (rc == 0)
		return o;
	cJSON_Delete(o);
	return NULL;
}
