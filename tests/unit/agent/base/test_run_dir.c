/*
 * test_run_dir: the folder of an agent's volatile files below one that everybody may write to: nobody else
 * can have made it first, and no link leads elsewhere.
 */
#include "agent/base/run_dir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

#define OTHER 65533

static char *in_tmp(const char *name)
{
	return xasprintf("%s/shared/%s", tap_tmpdir(), name);
}

static int mode_of(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 ? (int)(st.st_mode & 07777) : -1;
}

static void test_made(void)
{
	cleanup_free char *run = in_tmp("hearth-1/node"), *above = in_tmp("hearth-1"),
	                  *open_ = in_tmp("root/node");
	struct err e = {0};

	is_int(run_dir_make(run, 0700, &e), 0, "made with what is above it");
	is_int(mode_of(run), 0700, "closed to others");
	is_int(mode_of(above), 0700, "and the folder above, too");
	chmod(run, 0755);
	is_int(run_dir_make(run, 0700, &e), 0, "made before");
	is_int(mode_of(run), 0700, "it is closed again");
	is_int(run_dir_make(open_, 0711, &e), 0, "for jobs of other accounts");
	is_int(mode_of(open_), 0711, "others may walk through it");
	is_int(run_dir_make("relative", 0711, &e), -1, "a relative path is refused");
}

static void test_link(void)
{
	cleanup_free char *link = in_tmp("hearth-2"), *run = in_tmp("hearth-2/node"), *away = in_tmp("away");
	cleanup_free char *last = in_tmp("hearth-3"), *there = in_tmp("away/node");
	struct err e = {0};

	mkdir(away, 0755);
	if (symlink(away, link) < 0 || symlink(away, last) < 0)
		tap_bail("symlink: %s", strerror(errno));
	is_int(run_dir_make(run, 0700, &e), -1, "a link on the way is refused");
	like(e.text, "hearth-2 is a link", "by name");
	like(e.text, "--run", "with what to do");
	is_int(mode_of(there), -1, "nothing was made behind it");
	is_int(run_dir_make(last, 0700, &e), -1, "a link in its place, too");
	is_int(mode_of(away), 0755, "what it leads to is left alone");
}

/* Another account was faster. */
static void test_other(void)
{
	cleanup_free char *above = in_tmp("hearth-4"), *run = in_tmp("hearth-4/node"), *last = in_tmp("hearth-5");
	struct err e = {0};

	if (geteuid() != 0) {
		tap_skip("needs root to make a folder of another account");
		return;
	}
	mkdir(above, 0777);
	mkdir(last, 0777);
	if (chown(above, OTHER, OTHER) < 0 || chown(last, OTHER, OTHER) < 0)
		tap_bail("chown: %s", strerror(errno));
	is_int(run_dir_make(run, 0700, &e), -1, "a folder of somebody else on the way is refused");
	like(e.text, "belongs to the user 65533", "with its owner");
	is_int(run_dir_make(last, 0700, &e), -1, "so is one in its place");
}

int main(void)
{
	cleanup_free char *shared = xasprintf("%s/shared", tap_tmpdir());

	mkdir(shared, 01777);
	chmod(shared, 01777);
	test_made();
	test_link();
	test_other();
	return tap_done();
}
