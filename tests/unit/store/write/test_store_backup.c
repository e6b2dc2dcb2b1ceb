/* a copy is whole or not there, and an existing file is never touched: names taken before and meanwhile, a
 * disk that is full, a source that is damaged, locked, older or foreign, a process that is killed in the
 * middle. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/os/fsutil.h"
#include "store/write/backup.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

static char dir[500], to[600];

/* A new empty folder, and a name in it. */
static void fresh(const char *name)
{
	struct err e;

	snprintf(dir, sizeof(dir), "%s/%s", tap_tmpdir(), name);
	snprintf(to, sizeof(to), "%s/copy.db", dir);
	if (fs_mkdir_p(dir, 0700, &e) < 0)
		tap_bail("%s", e.text);
}

static int files(void)
{
	DIR *d = opendir(dir);
	int n = 0;

	if (!d)
		tap_bail("opendir %s", dir);
	for (const struct dirent *f; (f = readdir(d));)
		n += f->d_name[0] != '.';
	closedir(d);
	return n;
}

/* All rows are the same, but for the one that says that it is a copy. */
static int is_copy(const char *path, const char *copy)
{
	static const char settings[] =
	    "SELECT total(length(key) + length(value)) FROM setting WHERE key <> 'backup'",
	                  marked[] = "SELECT count(*) FROM setting WHERE key = 'backup' AND value LIKE '20__-%Z'";
	char *a = kit_digest(path, " setting "), *b = kit_digest(copy, " setting ");
	int same = strcmp(a, b) == 0 && kit_number(path, settings) == kit_number(copy, settings) &&
	           kit_number(copy, marked) == 1;

	free(a);
	free(b);
	return same;
}

static void test_plain(const char *good)
{
	struct stat st;
	char here[500];
	struct err e;

	fresh("plain");
	ok(store_backup(good, to, &e) == 0 && files() == 1 && is_copy(good, to), "a copy, and nothing beside it");
	ok(stat(to, &st) == 0 && (st.st_mode & 077) == 0, "the owner's alone");
	is_int(kit_number(to, "SELECT journal_mode = 'delete' FROM pragma_journal_mode"), 1,
	       "one file to carry away");
	ok(files() == 1, "also when it was looked at");
	if (!getcwd(here, sizeof(here)) || chdir(dir) < 0)
		tap_bail("chdir");
	ok(store_backup("copy.db", "again.db", &e) == 0 && is_copy("copy.db", "again.db"),
	   "a name without a folder; a copy of a copy");
	if (chdir(here) < 0)
		tap_bail("chdir");
	ok(store_rebuild(to, &e) == 0 && is_copy(good, to), "projections made anew are as they were");
}

/* ---- names that are taken
 * --------------------------------------------------------------------------------------- */

static void test_taken(const char *good)
{
	static const char text[] = "somebody's";
	char *is;
	size_t n;
	struct err e;

	fresh("taken");
	if (fs_write_atomic(to, text, strlen(text), 0600, &e) < 0)
		tap_bail("%s", e.text);
	ok(store_backup(good, to, &e) < 0 && e.code == ERR_CONFLICT && strstr(e.text, "exists already"),
	   "a file: %s", e.text);
	ok(fs_read_file(to, 100, &is, &n, &e) == 0 && n == strlen(text) && memcmp(is, text, n) == 0 &&
	       files() == 1,
	   "is as it was, and nothing beside it");
	free(is);
	fresh("folder");
	if (mkdir(to, 0700) < 0)
		tap_bail("mkdir");
	ok(store_backup(good, to, &e) < 0 && e.code == ERR_CONFLICT && files() == 1, "a folder");
	fresh("link");
	if (symlink("/nowhere/at/all", to) < 0)
		tap_bail("symlink");
	ok(store_backup(good, to, &e) < 0 && files() == 1, "a link to nowhere is not followed: %s", e.text);
	fresh("none");
	snprintf(to, sizeof(to), "%s/no/copy.db", dir);
	ok(store_backup(good, to, &e) < 0 && e.code == ERR_NOT_FOUND && files() == 0,
	   "a folder that there is not: %s", e.text);
}

/* What happens when the copy's own file is opened. */
static void (*when_opened)(const char *part);

static int on_connection(sqlite3 *db, char **why, const void *api)
{
	const char *path = sqlite3_db_filename(db, "main");

	(void)why, (void)api;
	if (path && strstr(path, ".part.") && when_opened)
		when_opened(path);
	return SQLITE_OK;
}

static int backup_with(void (*fn)(const char *part), const char *good, struct err *e)
{
	void (*ext)(void) = (void (*)(void))on_connection;
	int rc;

	when_opened = fn;
	sqlite3_auto_extension(ext);
	rc = store_backup(good, to, e);
	sqlite3_cancel_auto_extension(ext);
	return rc;
}

static void take_name(const char *part)
{
	int fd = open(to, O_WRONLY | O_CREAT | O_EXCL, 0600);

	(void)part;
	if (fd < 0 || write(fd, "x", 1) != 1)
		tap_bail("cannot take the name");
	close(fd);
}

static void test_taken_meanwhile(const char *good)
{
	struct stat st;
	struct err e;

	fresh("meanwhile");
	ok(backup_with(take_name, good, &e) < 0 && strstr(e.text, "File exists"),
	   "a name that is taken while it copies: %s", e.text);
	ok(stat(to, &st) == 0 && st.st_size == 1 && files() == 1, "is as it was, and nothing beside it");
}

/* ---- a lock
 * ------------------------------------------------------------------------------------------------------- */

static sqlite3 *locker;

static void lock_part(const char *part)
{
	char name[700];

	snprintf(name, sizeof(name), "%s", part);
	when_opened = NULL; /* this very connection is opened now */
	if (sqlite3_open(name, &locker) != SQLITE_OK ||
	    sqlite3_exec(locker, "BEGIN EXCLUSIVE", NULL, NULL, NULL) != SQLITE_OK)
		tap_bail("cannot lock: %s", sqlite3_errmsg(locker));
}

static void *unlock_later(void *arg)
{
	struct timespec half = {0, 500000000};

	(void)arg;
	nanosleep(&half, NULL);
	sqlite3_exec(locker, "ROLLBACK", NULL, NULL, NULL);
	return NULL;
}

static pthread_t unlocker;

static void lock_part_a_while(const char *part)
{
	lock_part(part);
	if (pthread_create(&unlocker, NULL, unlock_later, NULL) != 0)
		tap_bail("pthread_create");
}

static void test_locked(const char *good)
{
	struct err e;

	fresh("locked");
	ok(backup_with(lock_part, good, &e) < 0 && e.code == ERR_BUSY && files() == 0,
	   "who is locked out for ever gives up, and leaves nothing: %s", e.text);
	sqlite3_close(locker);
	fresh("unlocked");
	ok(backup_with(lock_part_a_while, good, &e) == 0 && files() == 1 && is_copy(good, to),
	   "a lock that goes away is waited for");
	pthread_join(unlocker, NULL);
	sqlite3_close(locker);
}

/* ---- a source that is not in order
 * ----------------------------------------------------------------------------------- */

static void test_damaged(const char *good)
{
	char path[600], junk[4096];
	struct stat st;
	struct err e;
	int refused = 0, tries = 0, bad = 0;

	memset(junk, 0x5a, sizeof(junk));
	fresh("damaged");
	snprintf(path, sizeof(path), "%s/damaged.db", tap_tmpdir());
	/* a page after the other is overwritten; every one that is in use is noticed */
	for (off_t page = 1;; page++) {
		int fd, rc;

		unlink(path);
		if (store_backup(good, path, &e) < 0)
			tap_bail("%s", e.text);
		fd = open(path, O_RDWR);
		if (fd < 0 || fstat(fd, &st) < 0)
			tap_bail("open");
		if (page * 4096 >= st.st_size) {
			close(fd);
			break;
		}
		if (pwrite(fd, junk, sizeof(junk), page * 4096) != (ssize_t)sizeof(junk))
			tap_bail("pwrite");
		close(fd);
		rc = store_backup(path, to, &e);
		tries++;
		refused += rc < 0;
		bad += files() != (rc == 0);
		unlink(to);
	}
	ok(!bad && tries > 20 && refused == tries,
	   "%d of %d damaged pages are noticed, and no copy of them is kept", refused, tries);
	ok(store_backup("/no/such.db", to, &e) < 0 && e.code == ERR_NOT_FOUND && files() == 0, "no source");
}

static void test_foreign(const char *good)
{
	char path[600];
	struct err e;

	fresh("foreign");
	snprintf(path, sizeof(path), "%s/foreign.db", tap_tmpdir());
	kit_sql(path, "CREATE TABLE things (a)");
	ok(store_backup(path, to, &e) < 0 && e.code == ERR_INVALID && files() == 0, "another program's: %s",
	   e.text);
	unlink(path);
	if (store_backup(good, path, &e) < 0)
		tap_bail("%s", e.text);
	kit_sql(path, "INSERT INTO migration VALUES (9999, 'x', 'x', 0)");
	ok(store_backup(path, to, &e) < 0 && e.code == ERR_CONFLICT && files() == 0, "a newer hearthd's: %s",
	   e.text);
	ok(store_rebuild(path, &e) < 0 && e.code == ERR_CONFLICT, "nor is it rebuilt");
}

/* ---- full, killed
 * ------------------------------------------------------------------------------------------------------ */

static void test_full(const char *good)
{
	char path[600];
	struct stat st;
	struct err e;
	int bad = 0, refused = 0;

	fresh("full");
	if (stat(good, &st) < 0)
		tap_bail("stat");
	snprintf(path, sizeof(path), "size=%lld", (long long)st.st_size * 2);
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", dir, "tmpfs", 0, path) < 0) {
		tap_skip("needs the right to mount a file system");
		return;
	}
	for (long long part = 0; part <= 8; part++) {
		int rc;

		snprintf(path, sizeof(path), "size=%lld", 8192 + (long long)st.st_size * part / 7);
		if (mount("tmpfs", dir, "tmpfs", MS_REMOUNT, path) < 0)
			tap_bail("remount");
		rc = store_backup(good, to, &e);
		refused += rc < 0;
		bad += rc < 0 ? files() != 0 || e.code != ERR_NOSPACE : files() != 1 || !is_copy(good, to);
		if (rc < 0 && e.code != ERR_NOSPACE)
			tap_diag("%s", e.text);
		unlink(to);
	}
	ok(!bad && refused > 3 && refused < 9,
	   "a disk with room for a part of it: told as such %d times, and nothing is left", refused);
	umount2(dir, MNT_DETACH);
}

/* Killed when the copy is as long as that. */
static int kill_at(const char *good, off_t size)
{
	uint64_t end = clock_boot_us(clock_real()) + 60000000;
	char part[700];
	struct stat st;
	int status;
	pid_t pid = fork();

	if (pid < 0)
		tap_bail("fork");
	if (pid == 0)
		_exit(store_backup(good, to, &(struct err){0}) < 0);
	snprintf(part, sizeof(part), "%s.part.%ld", to, (long)pid);
	while ((stat(part, &st) < 0 || st.st_size < size) && waitpid(pid, &status, WNOHANG) == 0)
		if (clock_boot_us(clock_real()) > end)
			tap_bail("waited 60 s for a copy");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	unlink(part);
	return access(to, F_OK) == 0;
}

static void test_killed(const char *good)
{
	struct stat st;
	struct err e;
	int bad = 0, whole = 0;

	if (stat(good, &st) < 0)
		tap_bail("stat");
	for (int i = 0; i < 12; i++) {
		char name[32];

		snprintf(name, sizeof(name), "killed%d", i);
		fresh(name);
		if (kill_at(good, st.st_size * i / 11)) {
			whole++;
			bad += !is_copy(good, to);
			unlink(to);
		}
		bad += store_backup(good, to, &e) < 0 || !is_copy(good, to);
	}
	ok(!bad,
	   "killed in the middle 12 times: the name was whole (%d) or not there, and the next copy is whole",
	   whole);
}

int main(void)
{
	struct kit k;

	kit_open(&k, "good");
	kit_fill(&k);
	kit_close(&k);
	test_plain(k.path);
	test_taken(k.path);
	test_taken_meanwhile(k.path);
	test_locked(k.path);
	test_damaged(k.path);
	test_foreign(k.path);
	test_killed(k.path);
	test_full(k.path);
	return tap_done();
}
