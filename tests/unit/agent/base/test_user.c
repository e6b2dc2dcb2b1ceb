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
	fprintf(f, "root:x:0:0::/root:/bin/sh\ndaemon:x:1:1::/:/bin/sh\nada:x:4711:%u::/home/ada:/bin/sh\n",
	        FIRST);
}

static void groups(FILE *f, unsigned n)
{
	fprintf(f, "root:x:0:\nown:x:%u:\n", FIRST);
	for (unsigned i = 1; i < n; i++)
		fprintf(f, "g%u:x:%u:ada\n", i, FIRST + i);
}

static const struct user_rules strict = {.is_root = 1, .min_uid = 1000};

static int look(unsigned n, struct launch_user *u, struct err *e)
{
	if (put("group", "/etc/group", groups, n) < 0)
		tap_bail("/etc/group");
	int rc = user_lookup(&strict, "ada", u, e);

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

static int allowed(const struct user_rules *r, const char *account, struct err *e)
{
	struct launch_user u = {0};
	int rc;

	memset(e, 0, sizeof(*e));
	rc = user_lookup(r, account, &u, e);
	user_fini(&u);
	return rc == 0;
}

static void test_rules(void)
{
	const struct user_rules root = {.is_root = 1, .allow_root = 1, .min_uid = 1000},
	                        low = {.is_root = 1, .min_uid = 1}, exact = {.is_root = 1, .min_uid = 4711},
	                        high = {.is_root = 1, .min_uid = 4712};
	struct err e;

	ok(!allowed(&strict, "root", &e), "an agent runs no job as root");
	is_int(e.code, ERR_DENIED, "it refuses");
	ok(strstr(e.text, "'root' has uid 0") && strstr(e.text, "sudo -u") && strstr(e.text, "run_as") &&
	       strstr(e.text, "--allow-root"),
	   "and names three cures: %s", e.text);
	ok(allowed(&root, "root", &e), "with --allow-root it does");
	ok(!allowed(&low, "root", &e), "a lower --min-uid does not let root in");
	ok(!allowed(&strict, "daemon", &e), "an account of the system is refused");
	ok(strstr(e.text, "below uid 1000 ('daemon' has uid 1)") && strstr(e.text, "--min-uid 1"),
	   "with the least uid and the cure: %s", e.text);
	ok(!allowed(&root, "daemon", &e), "--allow-root lets only root in");
	ok(allowed(&low, "daemon", &e), "--min-uid 1 lets it in");
	ok(allowed(&exact, "ada", &e) && !allowed(&high, "ada", &e),
	   "--min-uid is the least one that is allowed");
	ok(!allowed(&strict, "nemo", &e) && e.code == ERR_NOT_FOUND, "a missing account is another error");
}

int main(void)
{
	if (geteuid() != 0)
		tap_skip_all("needs root: /etc/group is another file for this process");
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    put("passwd", "/etc/passwd", accounts, 0) < 0)
		tap_skip_all("no right to make namespaces");
	test_groups();
	test_rules();
	umount("/etc/passwd");
	return tap_done();
}
