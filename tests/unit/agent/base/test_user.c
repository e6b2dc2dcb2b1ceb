/*
 * user: the groups of an account, from a data base of this test's own.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "agent/base/user.h"
#include "tests/lib/tap.h"

#define FIRST 4000000000u /* the longest numbers */

/* The file that the library reads, in a mount namespace of this process's own. */
static int put(const char *name, const char *over, void (*fill)(FILE *f, unsigned n), unsigned n)
{
	cleanup_free char *path = xasprintf("%s/%s", tap_tmpdir(), name);
	FILE *f = fopen(path, "w");

	if (!f)
		tap_bail("%s", path);
	fill(f, n);
	fclose(f);
	return mount(path, over, NULL, MS_BIND, NULL);
}

static void accounts(FILE *f, unsigned n)
{
	(void)n;
	fprintf(f, "root:x:0:0::/root:/bin/sh\nada:x:4711:%u::/home/ada:/bin/sh\n", FIRST);
}

static void groups(FILE *f, unsigned n)
{
	fprintf(f, "root:x:0:\nown:x:%u:\n", FIRST);
	for (unsigned i = 1; i < n; i++)
		fprintf(f, "g%u:x:%u:ada\n", i, FIRST + i);
}

static int look(unsigned n, struct launch_user *u, struct err *e)
{
	if (put("group", "/etc/group", groups, n) < 0)
		tap_bail("/etc/group");
	int rc = user_lookup(1, "ada", u, e);

	umount("/etc/group");
	return rc;
}

static void test_groups(void)
{
	struct launch_user u = {0};
	struct err e = {0};

	is_int(look(3, &u, &e), 0, "an account in three groups");
	is_int(u.uid, 4711, "is the one of the file");
	is_int(u.n_groups, 3, "with all of them");
	user_fini(&u);
	is_int(look(USER_GROUPS_MAX, &u, &e), 0, "in as many as may be");
	is_int(u.n_groups, USER_GROUPS_MAX, "with all of them, too");
	user_fini(&u);
	is_int(look(USER_GROUPS_MAX + 1, &u, &e), -1, "in one more");
	like(e.text, "account ada is in too many groups", "is told so, not cut short");
	user_fini(&u);
}

int main(void)
{
	if (geteuid() != 0)
		tap_skip_all("needs root: /etc/group is another file for this process");
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    put("passwd", "/etc/passwd", accounts, 0) < 0)
		tap_skip_all("no right to make namespaces");
	test_groups();
	umount("/etc/passwd");
	return tap_done();
}
