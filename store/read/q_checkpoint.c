/*
 * q_checkpoint: the checkpoints of a job: as rows, and as JSON.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "store/base/sqlh.h"
#include "store/read/find.h"
#include "store/read/from_row.h"
#include "store/read/query.h"
#include "store/read/reader_int.h"

#define STORED "blob:" /* CKPT_URI_STORE of the wire */

static int each_checkpoint(struct store_reader *r, uint64_t job, const struct store_checkpoints *to,
                           struct err *e)
{
	sqlite3_stmt *st =
	    reader_sql(r, "SELECT " CHECKPOINT_COLUMNS " FROM checkpoint WHERE job = ? ORDER BY number", e);
	struct checkpoint_row row;
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)job);
	while ((rc = sqlh_step(st, e)) > 0) {
		checkpoint_from_row(st, &row);
		to->checkpoint(&row, to->arg);
		checkpoint_row_fini(&row);
	}
	sqlite3_finalize(st);
	return rc;
}

static int each_part(struct store_reader *r, uint64_t job, const struct store_checkpoints *to, struct err *e)
{
	sqlite3_stmt *st = reader_sql(
	    r, "SELECT " CHECKPOINT_PART_COLUMNS " FROM checkpoint_part WHERE job = ? ORDER BY number, part", e);
	struct checkpoint_part_row row;
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)job);
	while ((rc = sqlh_step(st, e)) > 0) {
		checkpoint_part_from_row(st, &row);
		to->part(&row, to->arg);
		checkpoint_part_row_fini(&row);
	}
	sqlite3_finalize(st);
	return rc;
}

int store_checkpoints(struct store_reader *r, uint64_t job, const struct store_checkpoints *to, struct err *e)
{
	int rc;

	if (reader_begin(r, e) < 0)
		return -1;
	rc = each_checkpoint(r, job, to, e);
	if (rc == 0)
		rc = each_part(r, job, to, e);
	reader_end(r);
	return rc;
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

struct listing {
	struct checkpoint_row *entries;
	struct checkpoint_part_row *parts;
	size_t n_entries, n_parts;
};

static void keep_entry(struct checkpoint_row *row, void *arg)
{
	struct listing *l = arg;

	l->entries = xreallocarray(l->entries, l->n_entries + 1, sizeof(*l->entries));
	l->entries[l->n_entries++] = *row;
	memset(row, 0, sizeof(*row));
}

static void keep_part(struct checkpoint_part_row *row, void *arg)
{
	struct listing *l = arg;

	l->parts = xreallocarray(l->parts, l->n_parts + 1, sizeof(*l->parts));
	l->parts[l->n_parts++] = *row;
	memset(row, 0, sizeof(*row));
}

static void listing_fini(struct listing *l)
{
	for (size_t i = 0; i < l->n_entries; i++)
		checkpoint_row_fini(&l->entries[i]);
	for (size_t i = 0; i < l->n_parts; i++)
		checkpoint_part_row_fini(&l->parts[i]);
	free(l->entries);
	free(l->parts);
}

static void add_place(cJSON *places, const char *kind, const char *where, const char *name,
                      const struct checkpoint_part_row *p)
{
	cJSON *o = cJSON_CreateObject();

	json_add_str(o, kind, where);
	json_add_str(o, "state", p->state);
	json_add_u64(o, "node_rank", p->node_rank);
	json_add_str(o, "name", name ? name : "");
	json_add_str(o, "digest", p->digest ? p->digest : "");
	cJSON_AddItemToArray(places, o);
}

/* A verified part is outside of its node, and may be on it, too. */
static void add_places(cJSON *places, const char *name, const struct checkpoint_part_row *p)
{
	const char *uri = p->uri ? p->uri : "", *digest = p->digest ? p->digest : "";
	int outside = *uri && p->state && strcmp(p->state, "verified") == 0;

	if (outside && strcmp(uri, STORED) == 0) {
		char *stored = xasprintf(STORED "%s", digest);

		add_place(places, "uri", stored, name, p);
		free(stored);
	} else if (outside) {
		add_place(places, "uri", uri, name, p);
	}
	if (p->held || !outside)
		add_place(places, "node", p->node, name, p);
}

/* The digest of one part, or that of all digests in their order. */
static void add_digest(cJSON *o, const struct checkpoint_part_row *p, size_t n)
{
	struct hash_ctx *h;
	char hex[HASH_HEX_SIZE];

	if (n == 1) {
		json_add_str(o, "digest", p->digest ? p->digest : "");
		return;
	}
	h = hash_start();
	for (size_t i = 0; i < n; i++)
		hash_add(h, p[i].digest ? p[i].digest : "", p[i].digest ? strlen(p[i].digest) : 0);
	hash_end_hex(h, hex);
	json_add_str(o, "digest", n ? hex : "");
}

static cJSON *entry_json(const struct checkpoint_row *c, const struct checkpoint_part_row *p, size_t n)
{
	double loss = c->loss ? strtod(c->loss, NULL) : NAN;
	cJSON *o = cJSON_CreateObject(), *places = cJSON_CreateArray();
	uint64_t size = 0;

	for (size_t i = 0; i < n; i++) {
		size += p[i].size_bytes;
		add_places(places, c->name, &p[i]);
	}
	cJSON_AddItemToObject(o, "step", c->step < 0 ? cJSON_CreateNull() : cJSON_CreateNumber((double)c->step));
	json_add_time(o, "at", c->at_us);
	json_add_u64(o, "attempt", c->attempt);
	cJSON_AddNumberToObject(o, "save_s", (double)c->save_ms / 1000);
	cJSON_AddItemToObject(o, "loss", isfinite(loss) ? cJSON_CreateNumber(loss) : cJSON_CreateNull());
	if (c->loss && !isfinite(loss)) /* JSON has no NaN */
		cJSON_AddFalseToObject(o, "loss_finite");
	json_add_u64(o, "size_bytes", size);
	add_digest(o, p, n);
	json_add_u64(o, "shards", c->shards);
	cJSON_AddItemToObject(o, "places", places);
	cJSON_AddBoolToObject(o, "complete", c->complete);
	cJSON_AddBoolToObject(o, "pinned", c->pinned);
	cJSON_AddBoolToObject(o, "set_aside", c->set_aside);
	json_add_str(o, "step_by", c->step_by ? c->step_by : "");
	return o;
}

cJSON *store_checkpoints_json(struct store_reader *r, uint64_t job, struct err *e)
{
	struct listing l = {0};
	const struct store_checkpoints to = {keep_entry, keep_part, &l};
	cJSON *list = NULL;
	size_t at = 0;

	if (store_checkpoints(r, job, &to, e) == 0) {
		list = cJSON_CreateArray();
		for (size_t i = 0; i < l.n_entries; i++) {
			size_t from = at;

			while (at < l.n_parts && l.parts[at].number == l.entries[i].number)
				at++;
			cJSON_AddItemToArray(list, entry_json(&l.entries[i], &l.parts[from], at - from));
		}
	}
	listing_fini(&l);
	return list;
}
