/*
 * faultvfs: each call does what the real VFS does and tells liedisk, both under its lock, so that a cut finds
 * no write half told. The folder's sync is made by the real VFS inside its own sync or delete; it is seen
 * where it opens the folder.
 */
#include "tests/lib/faultvfs.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/liedisk.h"
#include "tests/lib/tap.h"

struct vfile {
	sqlite3_file base;
	const char *path; /* SQLite keeps it until the close; NULL: a temporary file, not watched */
	struct lie_file *f;
	sqlite3_file real[];
};

static sqlite3_vfs vfs;
static sqlite3_vfs *unix_vfs;
static sqlite3_io_methods methods;
static int (*open_directory)(const char *path, int *fd);

static struct vfile *of(sqlite3_file *file)
{
	return (struct vfile *)(void *)file;
}

static sqlite3_file *real(sqlite3_file *file)
{
	return of(file)->real;
}

/* A failure as the real VFS would tell it. */
static int failed(int err, int code)
{
	errno = err;
	return err == ENOSPC && code == SQLITE_IOERR_WRITE ? SQLITE_FULL : code;
}

static int v_close(sqlite3_file *file)
{
	return real(file)->pMethods->xClose(real(file));
}

static int v_read(sqlite3_file *file, void *data, int n, sqlite3_int64 at)
{
	int rc, err;

	liedisk_lock();
	err = of(file)->f ? liedisk_op(LIE_READ, NULL) : 0;
	rc = err ? failed(err, SQLITE_IOERR_READ) : real(file)->pMethods->xRead(real(file), data, n, at);
	liedisk_unlock();
	return rc;
}

/* A write that fails has written its first half. */
static int v_write(sqlite3_file *file, const void *data, int n, sqlite3_int64 at)
{
	struct vfile *v = of(file);
	int rc, err, len = n;

	liedisk_lock();
	err = v->f ? liedisk_op(LIE_WRITE, NULL) : 0;
	if (err)
		len = n / 2;
	rc = len ? v->real->pMethods->xWrite(v->real, data, len, at) : SQLITE_OK;
	if (rc == SQLITE_OK && v->f && len)
		liedisk_wrote(v->f, (uint64_t)at, data, (size_t)len);
	liedisk_unlock();
	return err ? failed(err, SQLITE_IOERR_WRITE) : rc;
}

static int v_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	struct vfile *v = of(file);
	int rc, err;

	liedisk_lock();
	err = v->f ? liedisk_op(LIE_WRITE, NULL) : 0;
	rc = err ? failed(err, SQLITE_IOERR_TRUNCATE) : v->real->pMethods->xTruncate(v->real, size);
	if (rc == SQLITE_OK && v->f)
		liedisk_truncated(v->f, (uint64_t)size);
	liedisk_unlock();
	return rc;
}

static int v_sync(sqlite3_file *file, int flags)
{
	struct vfile *v = of(file);
	int rc, err;

	liedisk_lock();
	err = v->f ? liedisk_op(LIE_SYNC, NULL) : 0;
	if (err && v->f)
		liedisk_sync_failed(v->f);
	rc = err ? failed(err, SQLITE_IOERR_FSYNC) : v->real->pMethods->xSync(v->real, flags);
	if (rc == SQLITE_OK && v->f)
		liedisk_sync_file(v->f);
	liedisk_unlock();
	return rc;
}

/* The real VFS opens a folder for nothing but its sync. */
static int v_open_directory(const char *path, int *fd)
{
	char dir[4096];
	size_t n = strlen(path);

	if (n < sizeof(dir)) {
		memcpy(dir, path, n + 1);
		if (strrchr(dir, '/'))
			*strrchr(dir, '/') = '\0';
		liedisk_sync_dir(dir);
	}
	return open_directory(path, fd);
}

#define PASS(name, args, ...)                                                                                \
	static int v_##name args                                                                                 \
	{                                                                                                        \
		return real(file)->pMethods->x##name(real(file), ##__VA_ARGS__);                                     \
	}
PASS(FileSize, (sqlite3_file * file, sqlite3_int64 *size), size)
PASS(Lock, (sqlite3_file * file, int lock), lock)
PASS(Unlock, (sqlite3_file * file, int lock), lock)
PASS(CheckReservedLock, (sqlite3_file * file, int *out), out)
PASS(FileControl, (sqlite3_file * file, int op, void *arg), op, arg)
PASS(ShmMap, (sqlite3_file * file, int page, int size, int extend, void volatile **out), page, size, extend,
     out)
PASS(ShmLock, (sqlite3_file * file, int at, int n, int flags), at, n, flags)
PASS(ShmUnmap, (sqlite3_file * file, int del), del)
static int v_SectorSize(sqlite3_file *file)
{
	return real(file)->pMethods->xSectorSize(real(file));
}
static int v_DeviceCharacteristics(sqlite3_file *file)
{
	return real(file)->pMethods->xDeviceCharacteristics(real(file));
}
static void v_ShmBarrier(sqlite3_file *file)
{
	real(file)->pMethods->xShmBarrier(real(file));
}

static int v_open(sqlite3_vfs *self, const char *path, sqlite3_file *file, int flags, int *out)
{
	struct vfile *v = of(file);
	int rc, err, fresh;

	(void)self;
	memset(v, 0, sizeof(*v));
	liedisk_lock();
	fresh = path && access(path, F_OK) < 0;
	err = fresh && (flags & SQLITE_OPEN_CREATE) ? liedisk_op(LIE_NAME, path) : 0;
	rc = err ? failed(err, SQLITE_CANTOPEN) : unix_vfs->xOpen(unix_vfs, path, v->real, flags, out);
	if (rc == SQLITE_OK) {
		v->base.pMethods = &methods;
		v->path = path;
		/* One that came about by other means (open) is new, too. */
		if (path)
			liedisk_created(path);
		v->f = path ? liedisk_of_path(path) : NULL;
	}
	liedisk_unlock();
	return rc;
}

static int v_delete(sqlite3_vfs *self, const char *path, int sync_dir)
{
	int rc, err;

	(void)self;
	liedisk_lock();
	err = liedisk_op(LIE_NAME, path);
	if (err) {
		liedisk_unlock();
		return failed(err, SQLITE_IOERR_DELETE);
	}
	/* Told first: the real one syncs the folder inside. */
	if (access(path, F_OK) == 0)
		liedisk_removed(path);
	rc = unix_vfs->xDelete(unix_vfs, path, sync_dir);
	if (rc != SQLITE_OK && rc != SQLITE_IOERR_DELETE_NOENT)
		tap_bail("faultvfs: delete %s: %d", path, rc);
	liedisk_unlock();
	return rc;
}

void faultvfs_register(void)
{
	static const sqlite3_io_methods all = {
	    .iVersion = 2, /* without xFetch: what is mapped could not be seen */
	    .xClose = v_close,
	    .xRead = v_read,
	    .xWrite = v_write,
	    .xTruncate = v_truncate,
	    .xSync = v_sync,
	    .xFileSize = v_FileSize,
	    .xLock = v_Lock,
	    .xUnlock = v_Unlock,
	    .xCheckReservedLock = v_CheckReservedLock,
	    .xFileControl = v_FileControl,
	    .xSectorSize = v_SectorSize,
	    .xDeviceCharacteristics = v_DeviceCharacteristics,
	    .xShmMap = v_ShmMap,
	    .xShmLock = v_ShmLock,
	    .xShmBarrier = v_ShmBarrier,
	    .xShmUnmap = v_ShmUnmap,
	};

	if (unix_vfs)
		return;
	unix_vfs = sqlite3_vfs_find("unix");
	if (!unix_vfs || unix_vfs->iVersion < 3)
		tap_bail("faultvfs: SQLite has no VFS of the kind that is needed");
	open_directory = (int (*)(const char *, int *))unix_vfs->xGetSystemCall(unix_vfs, "openDirectory");
	unix_vfs->xSetSystemCall(unix_vfs, "openDirectory", (sqlite3_syscall_ptr)v_open_directory);
	methods = all;
	vfs = *unix_vfs;
	vfs.zName = "lie";
	vfs.szOsFile = (int)sizeof(struct vfile) + unix_vfs->szOsFile;
	vfs.xOpen = v_open;
	vfs.xDelete = v_delete;
	if (sqlite3_vfs_register(&vfs, 1) != SQLITE_OK)
		tap_bail("faultvfs: cannot be registered");
}
