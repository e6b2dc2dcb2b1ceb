/*
 * asuser: see asuser.h. libc's setgroups would change all threads; the bare system call changes this one.
 */
#include "agent/base/asuser.h"

#include <assert.h>
#include <errno.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>

#include "agent/base/caps.h"

void asuser_init(struct asuser *a, int is_root, const struct launch_user *u)
{
	*a = (struct asuser){.uid = u->uid, .gid = u->gid, .needed = is_root && u->uid != 0};
	if (u->n_groups)
		a->groups = xmemdup(u->groups, u->n_groups * sizeof(*u->groups));
	else
		a->groups = xmemdup(&u->gid, sizeof(u->gid));
	a->n_groups = u->n_groups ? u->n_groups : 1;
}

void asuser_fini(struct asuser *a)
{
	free(a->groups);
	*a = (struct asuser){0};
}

int asuser_enter(struct asuser *a, struct err *e)
{
	assert(!a->inside);
	if (!a->needed)
		return 0;
	if (syscall(SYS_setgroups, (size_t)a->n_groups, a->groups) < 0)
		return err_sys(e, errno, "groups of account %u", a->uid);
	setfsgid(a->gid);
	setfsuid(a->uid);
	if (caps_ptrace(0) < 0) {
		int errnum = errno;

		a->inside = 1;
		asuser_leave(a);
		return err_sys(e, errnum, "give up the right over other accounts' processes");
	}
	/* These two tell nothing of failure: asked for an impossible id they answer with the present one. */
	if ((uid_t)setfsuid((uid_t)-1) != a->uid || (gid_t)setfsgid((gid_t)-1) != a->gid) {
		a->inside = 1;
		asuser_leave(a);
		return err_set(e, ERR_DENIED, "cannot act as account %u", a->uid);
	}
	a->inside = 1;
	return 0;
}

void asuser_leave(struct asuser *a)
{
	if (!a->inside)
		return;
	a->inside = 0;
	setfsuid(geteuid());
	setfsgid(getegid());
	caps_ptrace(1);
	/* root's own groups do not matter to root; none is the least. */
	syscall(SYS_setgroups, (size_t)0, NULL);
}
