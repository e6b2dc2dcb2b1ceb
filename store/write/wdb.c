/*
 * wdb: see wdb.h.
 */
#include "store/write/wdb.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/fault.h"
#include "store/base/sqlh.h"
#include "store/write/migrate.h"
#include "store/write/series.h"

static int load_marks(struct wdb *w, struct err *e)
{
	int64_t event = 0, projected = 0, dirty = 0;

	if (sqlh_number(w->db, "SELECT max(id) FROM event", &event, e) < 0 ||
	    sqlh_number(w->db, "SELECT event FROM projected", &projected, e) < 0 ||
	    sqlh_number(w->db, "SELECT 1 FROM metric_dirty LIMIT 1", &dirty, e) < 0)
		return -1;
	w->last_event = (uint64_t)event;
	w->projected = (uint64_t)projected;
	w->metrics_dirty = (int)dirty;
	return 0;
}

int wdb_init(struct wdb *w, const char *path, const struct clock *clock, struct err *e)
{
	memset(w, 0, sizeof(*w));
	w->clock = clock;
	w->db = sqlh_open(path, SQLH_WRITE, e);
	if (!w->db)
		return -1;
	if (migrate_run(w->db, clock, e) < 0 || load_marks(w, e) < 0) {
		err_wrap(e, "%s", path);
		wdb_fini(w);
		return -1;
	}
	return 0;
}

void wdb_fini(struct wdb *w)
{
	series_forget(w);
	free(w->seen);
	free(w->to_merge);
	sqlh_close(w->db);
	memset(w, 0, sizeof(*w));
}

int wdb_begin(struct wdb *w, struct err *e)
{
	return sqlh_exec(w->db, "BEGIN IMMEDIATE", e);
}

int wdb_commit(struct wdb *w, struct err *e)
{
	if (series_flush(w, e) < 0)
		return -1;
	if (FAULT("store.commit"))
		return err_set(e, ERR_IO, "database: commit: injected");
	return sqlh_exec(w->db, "COMMIT", e);
}

void wdb_rollback(struct wdb *w)
{
	/* Fails when SQLite has rolled back by itself (disk full): that is what is wanted. */
	sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
	series_forget(w);
}
