/*
 * identity: see identity.h. The bare system calls set capabilities: two calls need no library.
 */
#include "agent/files/identity.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/xalloc.h"

#define GROUPS_MAX   65536 /* the kernel's NGROUPS_MAX */
#define MEMORY_BYTES (2ull << 30)
#define FILES_OPEN   640 /* a copy holds two folders a level */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1 /* reserves more addresses than any bound */
#else
#define IS_SANITIZED 0
#endif

/* ---- the text --------------------------------------------------------------------------------------- */

static int parse_number(const char **at, uint32_t *out)
{
	unsigned long v;
	char *end;

	errno = 0;
	v = strtoul(*at, &end, 10);
	if (end == *at || errno || v >= UINT_MAX || (*end != ':' && *end != '\0') || **at == '-' || **at == '+')
		return -1;
	if (*end == ':' && end[1] == '\0')
		return -1;
	*out = (uint32_t)v;
	*at = *end ? end + 1 : end;
	return 0;
}

int identity_parse(const char *text, struct identity *out, struct err *e)
{
	struct identity id = {0};
	const char *at = text;
	uint32_t group;

	if (parse_number(&at, &id.uid) < 0 || parse_number(&at, &id.gid) < 0)
		return err_set(e, ERR_INVALID, "\"%.40s\" is not an account (UID:GID[:GROUP]...)", text);
	id.groups = xcalloc(strlen(text) / 2 + 1, sizeof(*id.groups)); /* a group has two characters at least */
	id.groups[id.n_groups++] = id.gid;
	while (*at) {
		if (id.n_groups == GROUPS_MAX || parse_number(&at, &group) < 0) {
			free(id.groups);
			return err_set(e, ERR_INVALID, "\"%.40s...\": invalid group or too many of them", text);
		}
		id.groups[id.n_groups++] = group;
	}
	*out = id;
	return 0;
}

/* ---- rights ----------------------------------------------------------------------------------------- */

static int set_caps(uint32_t low)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{.effective = low, .permitted = low}};

	return (int)syscall(SYS_capset, &head, sets);
}

static uint32_t held_caps(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}};

	return syscall(SYS_capget, &head, sets) < 0 ? 0 : sets[0].permitted;
}

/* An account that is root goes on as root at files; a job of it has every right there, too. */
static uint32_t kept_caps(uid_t uid)
{
	const uint32_t over_files = 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH |
	                            1u << CAP_FOWNER | 1u << CAP_FSETID;

	return uid == 0 ? over_files & held_caps() : 0;
}

/* Where this process lacks CAP_SETPCAP, in a container, the two below fail; without new privileges by exec
 * they are a second lock only. */
static void lock_caps(void)
{
	for (unsigned long cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno == EINVAL)
			break; /* the last one that the kernel knows is behind us */
	prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
	                             SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

static int change_ids(const struct identity *id, struct err *e)
{
	uid_t r, u, s;
	gid_t rg, g, sg;

	/* In a user namespace of its own root may not, and stays with the groups that it had. */
	if (setgroups(id->groups ? id->n_groups : 1, id->groups ? id->groups : &id->gid) < 0 &&
	    id->uid != geteuid())
		return err_sys(e, errno, "groups of account %u", (unsigned)id->uid);
	if (setresgid(id->gid, id->gid, id->gid) < 0 || setresuid(id->uid, id->uid, id->uid) < 0)
		return err_sys(e, errno, "become account %u", (unsigned)id->uid);
	if (getresuid(&r, &u, &s) < 0 || r != id->uid || u != id->uid || s != id->uid ||
	    getresgid(&rg, &g, &sg) < 0 || rg != id->gid || g != id->gid || sg != id->gid)
		return err_set(e, ERR_DENIED, "cannot become account %u", (unsigned)id->uid);
	return 0;
}

/* ---- bounds ----------------------------------------------------------------------------------------- */

static int limit_to(__rlimit_resource_t what, uint64_t most)
{
	struct rlimit l;

	if (getrlimit(what, &l) < 0)
		return -1;
	if (l.rlim_max == RLIM_INFINITY || l.rlim_max > most)
		l.rlim_max = (rlim_t)most;
	l.rlim_cur = l.rlim_max;
	return setrlimit(what, &l);
}

static int set_bounds(struct err *e)
{
	if (limit_to(RLIMIT_CORE, 0) < 0 || limit_to(RLIMIT_NPROC, 0) < 0 ||
	    limit_to(RLIMIT_NOFILE, FILES_OPEN) < 0 || (!IS_SANITIZED && limit_to(RLIMIT_AS, MEMORY_BYTES) < 0))
		return err_sys(e, errno, "limits");
	return 0;
}

int identity_assume(const struct identity *id, struct err *e)
{
	uint32_t kept = kept_caps(id ? id->uid : geteuid());

	lock_caps();
	if (id && change_ids(id, e) < 0)
		return -1;
	if (set_caps(kept) < 0 || held_caps() != kept)
		return err_sys(e, errno, "drop capabilities");
	/* The change of ids resets these. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_sys(e, errno, "lock the process");
	return set_bounds(e);
}
