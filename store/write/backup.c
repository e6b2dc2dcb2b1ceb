/*
 * backup: an online copy by SQLite's backup API, and new projections.
 *
 * The copy is made under another name, brought out of WAL mode (one file to carry away), checked, synced and
 * only then renamed: a file that has the asked name is whole.
 */
#include "store/write/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "store/base/sqlh.h"
#include "store/write/migrate.h"
#include "store/write/project.h"
#include "store/write/wdb.h"

#define STEP_PAGES     4096
#define REBUILD_EVENTS 16384
#define STALL_LIMIT    50 /* steps without progress, 100 ms each */

/* Steps until done. The source's writer goes on between the steps; pages it changes meanwhile are copied
 * again by SQLite. */
static int copy_database(sqlite3 *from, sqlite3 *to, struct err *e)
{
	sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");
	int rc, stalls = 0;

	if (!b)
		return sqlh_err(to, sqlite3_errcode(to), e, "backup");
	do {
		rc = sqlite3_backup_step(b, STEP_PAGES);
		if (rc == SQLITE_BUSY || rc == SQLITE_LOCKED) {
			sqlite3_sleep(100);
			stalls++;
		}
	} while (rc == SQLITE_OK || ((rc == SQLITE_BUSY || rc == SQLITE_LOCKED) && stalls < STALL_LIMIT));
	sqlite3_backup_finish(b);
	return rc == SQLITE_DONE ? 0 : sqlh_err(to, rc, e, "backup");
}

static int check_copy(sqlite3 *db, struct err *e)
{
	sqlite3_stmt *st = sqlh_prepare(db, "PRAGMA integrity_check(1)", e);
	int rc;

	if (!st)
		return -1;
	rc = sqlh_step(st, e);
	if (rc > 0 && strcmp(sqlh_str(st, 0), "ok") != 0)
		rc = err_set(e, ERR_IO, "the copy is damaged: %s", sqlh_str(st, 0));
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

static int sync_path(const char *path, int flags, struct err *e)
{
	int fd = open(path, flags | O_CLOEXEC), rc = 0;

	if (fd < 0 || fsync(fd) < 0)
		rc = err_sys(e, errno, "fsync %s", path);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int put_in_place(const char *part, const char *to, struct err *e)
{
	char *dir = xstrdup(to), *slash = strrchr(dir, '/');
	int rc;

	if (slash)
		slash[slash == dir] = '\0';
	rc = sync_path(part, O_RDWR, e);
	/* link, not rename: it does not replace what came there meanwhile. */
	if (rc == 0 && link(part, to) < 0)
		rc = err_sys(e, errno, "%s", to);
	if (rc == 0)
		rc = sync_path(slash ? dir : ".", O_RDONLY | O_DIRECTORY, e);
	free(dir);
	return rc;
}

/* A hearthd that starts with the copy must know that it is one: see controller/incarnation.h. */
static int mark_copy(sqlite3 *to, struct err *e)
{
	sqlite3_stmt *st = sqlh_prepare(to, "INSERT OR REPLACE INTO setting VALUES ('backup', ?)", e);
	char at[CLOCK_RFC3339_SIZE];
	int rc;

	if (!st)
		return -1;
	sqlh_bind_str(st, 1, clock_rfc3339(clock_real_us(clock_real()), at));
	rc = sqlh_run(st, e);
	sqlite3_finalize(st);
	return rc;
}

/* The copy: its own connection in plain journal mode. */
static int make_copy(sqlite3 *from, const char *part, struct err *e)
{
	sqlite3 *to = NULL;
	int fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc;

	if (fd < 0)
		return err_sys(e, errno, "create %s", part);
	close(fd);
	rc = sqlite3_open_v2(part, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc != SQLITE_OK)
		rc = sqlh_err(to, rc, e, part);
	else
		rc = copy_database(from, to, e) < 0 || sqlh_exec(to, "PRAGMA journal_mode=DELETE", e) < 0 ||
		             mark_copy(to, e) < 0 || check_copy(to, e) < 0
		         ? -1
		         : 0;
	sqlite3_close(to);
	return rc;
}

/* Its name, and what SQLite made beside it and could not take away (a full disk, a lock). */
static void remove_part(const char *part)
{
	static const char *const ends[] = {"", "-journal", "-wal", "-shm"};

	for (int i = 0; i < 4; i++) {
		char *name = xasprintf("%s%s", part, ends[i]);

		unlink(name);
		free(name);
	}
}

int store_backup(const char *path, const char *to, struct err *e)
{
	sqlite3 *from;
	char *part;
	int rc;

	if (access(to, F_OK) == 0)
		return err_set(e, ERR_CONFLICT, "%s exists already", to);
	from = sqlh_open(path, SQLH_READ, e);
	if (!from)
		return -1;
	part = xasprintf("%s.part.%ld", to, (long)getpid());
	rc = migrate_check(from, e);
	if (rc == 0)
		rc = make_copy(from, part, e);
	if (rc == 0)
		rc = put_in_place(part, to, e);
	remove_part(part);
	free(part);
	sqlh_close(from);
	return rc;
}

int store_rebuild(const char *path, struct err *e)
{
	struct wdb w;
	int rc;

	if (access(path, F_OK) < 0)
		return err_sys(e, errno, "%s", path);
	if (wdb_init(&w, path, clock_real(), e) < 0)
		return -1;
	rc = project_reset(&w, e);
	if (rc == 0)
		while ((rc = project_step(&w, REBUILD_EVENTS, e)) > 0)
			continue;
	wdb_fini(&w);
	return rc;
}
