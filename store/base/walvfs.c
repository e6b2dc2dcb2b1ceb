/*
 * walvfs: see walvfs.h. What is written one after the other gathers in a buffer. A failed write comes back
 * from the call that handed it down: SQLite then gives up the transaction, as for one that failed at once,
 * and what had gathered is dropped with it.
 */
#include "store/base/walvfs.h"

#include <pthread.h>
#include <sqlite3.h>
#include <string.h>

#include "common/base/xalloc.h"

#define GATHER_BYTES (120 * 1024) /* SQLite's own VFS takes less than 128 KiB at once */

struct walfile {
	sqlite3_file base; /* first: SQLite sees this */
	sqlite3_file *real;
	unsigned char *data;
	sqlite3_int64 at; /* where data goes */
	int n;
};

static sqlite3_vfs *below;
static sqlite3_vfs vfs;

static struct walfile *walfile_of(sqlite3_file *f)
{
	return (struct walfile *)(void *)f;
}

static int hand_down(struct walfile *w)
{
	int n = w->n;

	w->n = 0;
	return n ? w->real->pMethods->xWrite(w->real, w->data, n, w->at) : SQLITE_OK;
}

static int w_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	struct walfile *w = walfile_of(f);
	int rc;

	if (w->n && (at != w->at + w->n || n > GATHER_BYTES - w->n)) {
		rc = hand_down(w);
		if (rc != SQLITE_OK)
			return rc;
	}
	if (n > GATHER_BYTES)
		return w->real->pMethods->xWrite(w->real, p, n, at);
	if (!w->data)
		w->data = xmalloc(GATHER_BYTES);
	if (!w->n)
		w->at = at;
	memcpy(w->data + w->n, p, (size_t)n);
	w->n += n;
	return SQLITE_OK;
}

static int w_close(sqlite3_file *f)
{
	struct walfile *w = walfile_of(f);
	int rc = hand_down(w), closed = w->real->pMethods->xClose(w->real);

	free(w->data);
	w->data = NULL;
	return rc != SQLITE_OK ? rc : closed;
}

static int w_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
	int rc = hand_down(walfile_of(f));

	return rc != SQLITE_OK ? rc : walfile_of(f)->real->pMethods->xRead(walfile_of(f)->real, p, n, at);
}

static int w_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	int rc = hand_down(walfile_of(f));

	return rc != SQLITE_OK ? rc : walfile_of(f)->real->pMethods->xTruncate(walfile_of(f)->real, size);
}

static int w_sync(sqlite3_file *f, int flags)
{
	int rc = hand_down(walfile_of(f));

	return rc != SQLITE_OK ? rc : walfile_of(f)->real->pMethods->xSync(walfile_of(f)->real, flags);
}

static int w_size(sqlite3_file *f, sqlite3_int64 *size)
{
	int rc = hand_down(walfile_of(f));

	return rc != SQLITE_OK ? rc : walfile_of(f)->real->pMethods->xFileSize(walfile_of(f)->real, size);
}

static int w_lock(sqlite3_file *f, int level)
{
	return walfile_of(f)->real->pMethods->xLock(walfile_of(f)->real, level);
}

static int w_unlock(sqlite3_file *f, int level)
{
	return walfile_of(f)->real->pMethods->xUnlock(walfile_of(f)->real, level);
}

static int w_reserved(sqlite3_file *f, int *out)
{
	return walfile_of(f)->real->pMethods->xCheckReservedLock(walfile_of(f)->real, out);
}

/* Hands nothing down: nobody would look at what that gives. */
static int w_control(sqlite3_file *f, int op, void *arg)
{
	return walfile_of(f)->real->pMethods->xFileControl(walfile_of(f)->real, op, arg);
}

static int w_sector(sqlite3_file *f)
{
	return walfile_of(f)->real->pMethods->xSectorSize(walfile_of(f)->real);
}

static int w_character(sqlite3_file *f)
{
	return walfile_of(f)->real->pMethods->xDeviceCharacteristics(walfile_of(f)->real);
}

/* Version 1: shared memory and mappings are the database's, not the WAL's. */
static const sqlite3_io_methods methods = {.iVersion = 1,
                                           .xClose = w_close,
                                           .xRead = w_read,
                                           .xWrite = w_write,
                                           .xTruncate = w_truncate,
                                           .xSync = w_sync,
                                           .xFileSize = w_size,
                                           .xLock = w_lock,
                                           .xUnlock = w_unlock,
                                           .xCheckReservedLock = w_reserved,
                                           .xFileControl = w_control,
                                           .xSectorSize = w_sector,
                                           .xDeviceCharacteristics = w_character};

static int v_open(sqlite3_vfs *self, const char *path, sqlite3_file *file, int flags, int *out)
{
	struct walfile *w = walfile_of(file);
	int rc;

	(void)self;
	if (!(flags & SQLITE_OPEN_WAL))
		return below->xOpen(below, path, file, flags, out);
	memset(w, 0, (size_t)vfs.szOsFile);
	w->real = (sqlite3_file *)(void *)(w + 1);
	rc = below->xOpen(below, path, w->real, flags, out);
	if (rc == SQLITE_OK)
		w->base.pMethods = &methods;
	else if (w->real->pMethods) /* SQLite closes what has methods; here it sees ours, which has none */
		w->real->pMethods->xClose(w->real);
	return rc;
}

static void set_up(void)
{
	below = sqlite3_vfs_find(NULL);
	if (!below)
		return;
	sqlite3_vfs_unregister(&vfs);
	vfs = *below;
	vfs.pNext = NULL;
	vfs.zName = "hearth-wal";
	vfs.szOsFile = (int)sizeof(struct walfile) + below->szOsFile;
	vfs.xOpen = v_open;
	if (sqlite3_vfs_register(&vfs, 0) != SQLITE_OK)
		below = NULL;
}

const char *walvfs(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, set_up);
	if (sqlite3_vfs_find(NULL) != below) /* tests replace SQLite's while no store is open */
		set_up();
	return below ? vfs.zName : NULL;
}
