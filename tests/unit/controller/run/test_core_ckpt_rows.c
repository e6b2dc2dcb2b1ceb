/* How many rows of the store a report of a checkpoint writes: of the part that reports, not of all. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include "tests/unit/controller/run/ckptkit.h"

#define NODES 64

/* Counts rows that are written and removed, by triggers in the store's file. */
static const char counting[] = "CREATE TABLE counted (what TEXT PRIMARY KEY, n INTEGER);"
                               "INSERT INTO counted VALUES ('checkpoint', 0), ('part', 0), ('removed', 0);"
                               "CREATE TRIGGER count_1 AFTER INSERT ON checkpoint BEGIN "
                               "UPDATE counted SET n = n + 1 WHERE what = 'checkpoint'; END;"
                               "CREATE TRIGGER count_2 AFTER INSERT ON checkpoint_part BEGIN "
                               "UPDATE counted SET n = n + 1 WHERE what = 'part'; END;"
                               "CREATE TRIGGER count_3 AFTER DELETE ON checkpoint BEGIN "
                               "UPDATE counted SET n = n + 1 WHERE what = 'removed'; END;"
                               "CREATE TRIGGER count_4 AFTER DELETE ON checkpoint_part BEGIN "
                               "UPDATE counted SET n = n + 1 WHERE what = 'removed'; END;";

struct counted {
	int64_t checkpoints, parts, removed;
};

static sqlite3 *open_file(const struct world *w)
{
	sqlite3 *db = NULL;

	if (sqlite3_open(w->path, &db) != SQLITE_OK || sqlite3_busy_timeout(db, 10000) != SQLITE_OK)
		tap_bail("cannot open %s", w->path);
	return db;
}

static void run_sql(const struct world *w, const char *sql)
{
	sqlite3 *db = open_file(w);

	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		tap_bail("%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_close(db);
}

static int64_t value(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st = NULL;
	int64_t v;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW)
		tap_bail("%s: %s", sql, sqlite3_errmsg(db));
	v = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return v;
}

/* What was written since the last call. */
static struct counted counted(const struct world *w)
{
	sqlite3 *db = open_file(w);
	struct counted c = {value(db, "SELECT n FROM counted WHERE what = 'checkpoint'"),
	                    value(db, "SELECT n FROM counted WHERE what = 'part'"),
	                    value(db, "SELECT n FROM counted WHERE what = 'removed'")};

	sqlite3_close(db);
	run_sql(w, "UPDATE counted SET n = 0");
	tap_diag("rows: %" PRId64 " checkpoints, %" PRId64 " parts, %" PRId64 " removed", c.checkpoints, c.parts,
	         c.removed);
	return c;
}

static const char *node_name(uint32_t i)
{
	static char name[16];

	snprintf(name, sizeof name, "n%02u", i);
	return name;
}

static uint64_t run_gang(struct world *w)
{
	uint64_t id;

	for (uint32_t i = 0; i < NODES; i++)
		world_agent_up(w, node_name(i), 1, 4);
	id = world_submit(w, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	                     "{\"instances\": 64, \"gpus_per_instance\": 1}}");
	for (uint32_t i = 0; i < NODES; i++)
		world_launch(w, node_name(i), id, 1, LAUNCH_READY, 0, NULL);
	for (uint32_t i = 0; i < NODES; i++)
		world_launch(w, node_name(i), id, 1, LAUNCH_RUNNING, 0, NULL);
	return id;
}

static void test_parts(void)
{
	static const uint8_t states[] = {CKPT_COPYING, CKPT_VERIFIED};
	struct world *w = world_create(51);
	uint64_t id = run_gang(w);
	struct counted c;

	run_sql(w, counting);
	for (size_t s = 0; s < 2; s++)
		for (uint32_t i = 0; i < NODES; i++)
			ck_report(w, id, node_name(i),
			          &(struct ck_part){.attempt = 1,
			                            .seq = 1,
			                            .size = 1,
			                            .step = 10,
			                            .state = states[s],
			                            .shards = NODES,
			                            .uri = s ? "file:///share" : NULL});
	c = counted(w);
	is_int(job_find(w->core, id)->r.ckpts->v[0].n_parts, NODES, "each of 64 nodes has reported its part");
	is_int(c.parts, 2 * NODES, "each report writes the row of its part alone");
	ok(c.checkpoints <= 2 * NODES, "and that of the checkpoint (%" PRId64 ")", c.checkpoints);
	is_int(c.removed, 0, "nothing is removed");
	world_end_well(w);
}

static void test_removal(void)
{
	uint64_t id, seq = 0;
	struct world *w = ck_make(52, &id);
	struct counted c;
	struct ckpt_list *l;

	while (!job_find(w->core, id)->r.ckpts || job_find(w->core, id)->r.ckpts->n < CKPT_MAX) {
		seq++;
		ck_verified(w, id, "a", 1, seq, (int64_t)seq, "file:///s/a");
		world_advance(w, 3000000);
		world_beat(w, "a");
		world_beat(w, "b");
	}
	l = job_find(w->core, id)->r.ckpts;
	is_int(l->v[0].number, 1, "the list is full");
	run_sql(w, counting);
	ck_verified(w, id, "a", 1, seq + 1, (int64_t)seq + 1, "file:///s/a");
	c = counted(w);
	l = job_find(w->core, id)->r.ckpts;
	is_int(l->n, CKPT_MAX, "another one comes");
	is_int(l->v[0].number, 2, "and the oldest one goes");
	is_int(c.removed, 2, "its row and that of its part are removed");
	ok(c.parts <= 2 && c.checkpoints <= 2, "and no row of the others is written again");
	world_restart(w);
	is_int(job_find(w->core, id)->r.ckpts->n, CKPT_MAX, "a controller that starts again has the list");
	is_int(job_find(w->core, id)->r.ckpts->v[0].number, 2, "without the one that was removed");
	world_end_well(w);
}

int main(void)
{
	test_parts();
	test_removal();
	return tap_done();
}
