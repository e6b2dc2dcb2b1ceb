/*
 * user: see user.h.
 */
#include "agent/base/user.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <string.h>

#include "common/base/fault.h"

#define PW_BUFFER 16384
#define HANG_MS   60000

/* ---- the question ----------------------------------------------------------------------------------- */

static void fill_account(const struct passwd *pw, struct launch_user *out)
{
	out->uid = pw->pw_uid;
	out->gid = pw->pw_gid;
	out->name = xstrdup(pw->pw_name);
	out->home = xstrdup(pw->pw_dir && pw->pw_dir[0] ? pw->pw_dir : "/");
	out->shell = xstrdup(pw->pw_shell && pw->pw_shell[0] ? pw->pw_shell : "/bin/sh");
}

static int take_groups(struct launch_user *u, struct err *e)
{
	int n = 64;

	u->groups = xcalloc((size_t)n, sizeof(*u->groups));
	while (getgrouplist(u->name, u->gid, u->groups, &n) < 0) {
		if (n <= 0 || n > USER_GROUPS_MAX)
			return err_set(e, ERR_LIMIT, "account %s is in too many groups", u->name);
		u->groups = xreallocarray(u->groups, (size_t)n, sizeof(*u->groups));
	}
	u->n_groups = (uint32_t)n;
	return 0;
}

/* A process may have a uid without a name; it runs all the same. */
static void take_own(struct launch_user *out)
{
	out->uid = geteuid();
	out->gid = getegid();
	out->name = xasprintf("uid%u", (unsigned)geteuid());
	out->home = xstrdup(getenv("HOME") ? getenv("HOME") : "/");
	out->shell = xstrdup("/bin/sh");
}

/* Jobs are other people's programs: they must be neither root nor a service of the system. */
static int check_allowed(const struct user_rules *r, const struct passwd *pw, struct err *e)
{
	if (pw->pw_uid == 0 && !r->allow_root)
		return err_set(
		    e, ERR_DENIED,
		    "this node runs no jobs as root (account '%s' has uid 0); submit as an ordinary user (sudo -u "
		    "USER jobctl submit ...), name an account in hearthd's setting run_as, or start this "
		    "node's agent with --allow-root",
		    pw->pw_name);
	if (pw->pw_uid != 0 && pw->pw_uid < r->min_uid)
		return err_set(
		    e, ERR_DENIED,
		    "this node runs no jobs of accounts below uid %u ('%s' has uid %u); submit as another user, "
		    "or start this node's agent with --min-uid %u",
		    (unsigned)r->min_uid, pw->pw_name, (unsigned)pw->pw_uid, (unsigned)pw->pw_uid);
	return 0;
}

int user_lookup(const struct user_rules *rules, const char *account, struct launch_user *out, struct err *e)
{
	cleanup_free char *space = xmalloc(PW_BUFFER);
	struct passwd pw, *found = NULL;
	struct launch_user u = {0};
	int rc;

	if (FAULT("agent.account"))
		poll(NULL, 0, HANG_MS); /* as a directory service does that is not there */
	if (rules->is_root)
		rc = getpwnam_r(account, &pw, space, PW_BUFFER, &found);
	else
		rc = getpwuid_r(geteuid(), &pw, space, PW_BUFFER, &found);
	if (!found && rc != 0 && rc != ENOENT && rc != ESRCH)
		return err_sys(e, rc, "look up the account '%s'", account);
	if (!found && rules->is_root)
		return err_set(e, ERR_NOT_FOUND,
		               "there is no account '%s' on this node; create it (useradd -m %s) or submit as a user "
		               "that exists here",
		               account, account);
	if (found && rules->is_root && check_allowed(rules, found, e) < 0)
		return -1;
	if (found)
		fill_account(found, &u);
	else
		take_own(&u);
	if (rules->is_root && take_groups(&u, e) < 0) {
		user_fini(&u);
		return -1;
	}
	*out = u;
	return 0;
}

void user_fini(struct launch_user *u)
{
	free(u->name);
	free(u->home);
	free(u->shell);
	free(u->groups);
	memset(u, 0, sizeof(*u));
}

static char *copy_str(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

void user_copy(struct launch_user *to, const struct launch_user *from)
{
	*to = (struct launch_user){.uid = from->uid,
	                           .gid = from->gid,
	                           .name = copy_str(from->name),
	                           .home = copy_str(from->home),
	                           .shell = copy_str(from->shell),
	                           .n_groups = from->n_groups};
	if (from->n_groups)
		to->groups = xmemdup(from->groups, from->n_groups * sizeof(*from->groups));
}

/* ---- on a thread ------------------------------------------------------------------------------------ */

struct user_ask {
	struct worker *w;
	int rc;
	struct user_rules rules;
	char *account;
	struct launch_user user;
	struct err e;
	void (*found)(struct launch_user *u, const struct err *why, void *arg);
	void *arg;
};

static void free_ask(void *arg)
{
	struct user_ask *q = arg;

	user_fini(&q->user);
	free(q->account);
	free(q);
}

static void run_lookup(struct worker *w, void *arg)
{
	struct user_ask *q = arg;

	(void)w;
	q->rc = user_lookup(&q->rules, q->account, &q->user, &q->e);
	if (FAULT("agent.account_groups") && q->user.n_groups)
		q->user.n_groups--; /* as after it was taken out of a group */
}

static void lookup_done(void *arg)
{
	struct user_ask *q = arg;
	struct launch_user u = q->user;

	q->user = (struct launch_user){0};
	q->found(q->rc == 0 ? &u : NULL, &q->e, q->arg);
}

static void lookup_late(void *arg)
{
	struct user_ask *q = arg;

	err_set(&q->e, ERR_TIMEOUT, "look up the account of '%s': other look-ups on this node hang", q->account);
	q->found(NULL, &q->e, q->arg);
}

struct user_ask *user_ask(struct agent_env *env, struct workers *ws, const char *account,
                          void (*found)(struct launch_user *u, const struct err *why, void *arg), void *arg,
                          struct err *e)
{
	static const struct worker_task task = {
	    .run = run_lookup, .done = lookup_done, .release = free_ask, .late = lookup_late};
	struct user_ask *q = xcalloc(1, sizeof(*q));

	*q = (struct user_ask){.account = xstrdup(account), .found = found, .arg = arg};
	q->rules = (struct user_rules){env->is_root, env->cfg.allow_root, env->cfg.min_uid};
	q->w = worker_start(ws, &task, q, e);
	if (q->w)
		return q;
	free_ask(q);
	return NULL;
}

void user_ask_cancel(struct user_ask *q)
{
	if (q)
		worker_cancel(q->w);
}
