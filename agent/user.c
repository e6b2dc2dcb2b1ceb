/*
 * user: the account data base, which may be remote (LDAP): asked once per launch.
 */
#include "agent/user.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>

#define PW_BUFFER 16384

static void take(const struct passwd *pw, struct launch_user *out)
{
	out->uid = pw->pw_uid;
	out->gid = pw->pw_gid;
	out->name = xstrdup(pw->pw_name);
	out->home = xstrdup(pw->pw_dir && pw->pw_dir[0] ? pw->pw_dir : "/");
	out->shell = xstrdup(pw->pw_shell && pw->pw_shell[0] ? pw->pw_shell : "/bin/sh");
}

int user_lookup(int is_root, const char *owner, struct launch_user *out, struct err *e)
{
	cleanup_free char *space = xmalloc(PW_BUFFER);
	struct passwd pw, *found = NULL;
	int rc;

	if (is_root)
		rc = getpwnam_r(owner, &pw, space, PW_BUFFER, &found);
	else
		rc = getpwuid_r(geteuid(), &pw, space, PW_BUFFER, &found);
	if (found) {
		take(found, out);
		return 0;
	}
	if (rc != 0 && rc != ENOENT && rc != ESRCH)
		return err_sys(e, rc, "look up the account of '%s'", owner);
	if (is_root)
		return err_set(e, ERR_NOT_FOUND,
		               "there is no account '%s' on this node; create it (useradd -m %s) or submit as a user "
		               "that exists here",
		               owner, owner);
	/* A process may have a uid without a name; that is no reason not to run. */
	out->uid = geteuid();
	out->gid = getegid();
	out->name = xasprintf("uid%u", (unsigned)geteuid());
	out->home = xstrdup(getenv("HOME") ? getenv("HOME") : "/");
	out->shell = xstrdup("/bin/sh");
	return 0;
}

void user_fini(struct launch_user *u)
{
	free(u->name);
	free(u->home);
	free(u->shell);
	memset(u, 0, sizeof(*u));
}

char *user_self(void)
{
	struct launch_user u = {0};
	char *name;

	user_lookup(0, "", &u, NULL);
	name = xstrdup(u.name);
	user_fini(&u);
	return name;
}
