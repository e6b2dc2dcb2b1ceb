/*
 * hearth-hold: a process that does nothing but keep the mount and IPC namespace of one launch alive.
 *
 *   hearth-hold --tmp DIR --shm-bytes N --ml DIR [--var-tmp DIR] [--user 1] [--keep PATH]... [--as
 * UID:GID[:GROUP]...]
 *               [--link PATH]... [--layer DIR]...
 *   hearth-hold --try DIR [--user 1]
 *   hearth-hold --join PID --start TICKS --layer DIR... [--user 1]
 *
 * It makes the namespaces and the private mounts below, says "ok" or the failure on its standard output,
 * and sleeps until it is killed. The mounts go with the last process inside. The agent starts it in a
 * session of its own, and it outlives the agent. Later mounts of the host still come in (a network file
 * system); none gets out.
 *
 *   /tmp          DIR of --tmp
 *   /var/tmp      DIR of --var-tmp
 *   /run/lock     an empty tmpfs, where the host has that folder: every account may write there
 *   /dev/shm      a tmpfs of its own, of so many bytes at most
 *   /dev/mqueue   message queues of its own, where the host has that folder
 *   /dev/pts      an instance of its own, so that terminals work for ordinary users
 *   /opt/ml       DIR of --ml
 *   below --ml    for each --layer a tree of the node's caches with the launch's changes on top (layers.h)
 *   PATHs         paths that the above would hide and that must stay visible under their names
 *
 * With --try it mounts the layer in DIR on DIR/ml, writes to the file ml/tree/file there, says "ok" or the
 * failure, and ends. With --join it mounts the layers below /opt/ml in the namespace of that holder (TICKS:
 * its start, as /proc tells it), says "ok" or the failure, and ends.
 *
 * PATHs of --keep are the agent's own. The job's owner named those of --link, and may have put links in
 * their way since: hearth-hold opens them as the account of --as, so that they lead only where that account
 * may go. PATHs below /tmp are made step by step without following links, because the folder belongs to the
 * job.
 *
 * With --user it belongs to an ordinary user, who gets the right to mount by a user namespace of his own.
 * The namespace maps this one uid and gid to themselves, so the processes inside are still that user, to
 * themselves and to everybody else. Supplementary groups still count but have no number there, and set-uid
 * programs gain nothing. Where /opt/ml is missing, this user cannot make it in the host's /opt: then /opt
 * becomes a read-only tmpfs in which everything of the host's /opt is bound again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/caps.h"

#define KEEP_MAX   256
#define LAYER_MAX  256
#define GROUPS_MAX 65536

struct plan {
	const char *tmp, *var_tmp, *ml, *shm_bytes;
	const char *keep[KEEP_MAX];
	int keep_fd[KEEP_MAX];
	char linked[KEEP_MAX]; /* opened as the account */
	int n_keep;
	gid_t *groups; /* of the account; NULL: this process acts as itself */
	size_t n_groups;
	uid_t uid;
	gid_t gid;
	int user; /* in a user namespace of its own */
	const char *layer[LAYER_MAX];
	int n_layer;
	const char *try;          /* NULL: not one */
	const char *join, *start; /* NULL: it makes namespaces of its own */
};

static void die_with(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die_with(const char *fmt, ...)
{
	int why = errno;
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(": %s\n", strerror(why));
	fflush(stdout);
	_exit(1);
}

static int parse_number(const char **at, unsigned *out)
{
	unsigned long v;
	char *end;

	errno = 0;
	v = strtoul(*at, &end, 10);
	if (end == *at || errno || v >= UINT_MAX || (*end != ':' && *end != '\0') || **at == '-')
		return -1;
	*out = (unsigned)v;
	*at = *end ? end + 1 : end;
	return 0;
}

/* UID:GID[:GROUP]... */
static void take_account(struct plan *p, const char *text)
{
	const char *at = text;
	unsigned group;

	p->groups = calloc(GROUPS_MAX, sizeof(*p->groups));
	errno = EINVAL;
	if (!p->groups || parse_number(&at, &p->uid) < 0 || parse_number(&at, &p->gid) < 0)
		die_with("--as %s", text);
	p->groups[p->n_groups++] = p->gid;
	while (*at) {
		errno = EINVAL;
		if (p->n_groups == GROUPS_MAX || parse_number(&at, &group) < 0)
			die_with("--as %s", text);
		p->groups[p->n_groups++] = group;
	}
}

static void add_keep(struct plan *p, const char *path, int linked)
{
	if (p->n_keep == KEEP_MAX) {
		errno = E2BIG;
		die_with("%s: more than %d paths below /tmp to keep", path, KEEP_MAX);
	}
	p->linked[p->n_keep] = (char)linked;
	p->keep[p->n_keep++] = path;
}

static void parse_plan(struct plan *p, int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--tmp") == 0)
			p->tmp = argv[i + 1];
		else if (strcmp(argv[i], "--var-tmp") == 0)
			p->var_tmp = argv[i + 1];
		else if (strcmp(argv[i], "--ml") == 0)
			p->ml = argv[i + 1];
		else if (strcmp(argv[i], "--shm-bytes") == 0)
			p->shm_bytes = argv[i + 1];
		else if (strcmp(argv[i], "--user") == 0)
			p->user = argv[i + 1][0] == '1';
		else if (strcmp(argv[i], "--as") == 0)
			take_account(p, argv[i + 1]);
		else if (strcmp(argv[i], "--keep") == 0)
			add_keep(p, argv[i + 1], 0);
		else if (strcmp(argv[i], "--link") == 0)
			add_keep(p, argv[i + 1], 1);
		else if (strcmp(argv[i], "--layer") == 0 && p->n_layer < LAYER_MAX)
			p->layer[p->n_layer++] = argv[i + 1];
		else if (strcmp(argv[i], "--try") == 0)
			p->try = argv[i + 1];
		else if (strcmp(argv[i], "--join") == 0)
			p->join = argv[i + 1];
		else if (strcmp(argv[i], "--start") == 0)
			p->start = argv[i + 1];
		else
			break;
	}
	if (p->try || (p->join && p->start))
		return;
	if (!p->tmp || !p->ml || !p->shm_bytes) {
		errno = EINVAL;
		die_with(
		    "usage: hearth-hold --tmp DIR --shm-bytes N --ml DIR [--var-tmp DIR] [--user 1] [--keep PATH]... "
		    "[--as UID:GID[:GROUP]...] [--link PATH]... [--layer DIR]...");
	}
}

static void bind_fd(int fd, const char *what, const char *target)
{
	char from[40];

	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	if (mount(from, target, NULL, MS_BIND | MS_REC, NULL) < 0)
		die_with("bind %s on %s", what, target);
}

static int open_path(const char *path)
{
	return open(path, O_PATH | O_CLOEXEC);
}

/* Only the identity at files changes, and with it the rights of root over them. */
static void act_as(uid_t uid, gid_t gid, size_t n, const gid_t *groups)
{
	if (setgroups(n, groups) < 0)
		die_with("groups of account %u", (unsigned)uid);
	setfsgid(gid);
	setfsuid(uid);
	if ((uid_t)setfsuid((uid_t)-1) != uid || (gid_t)setfsgid((gid_t)-1) != gid)
		die_with("act as account %u", (unsigned)uid);
}

/* Not by a link of procfs, which leads to whatever a process has open (fsnamed.c). */
static int open_named(const char *path)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};

	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

/* Without leave to go there it is as if it were not there. */
static int open_linked(const struct plan *p, const char *path)
{
	int fd, errnum;

	if (!p->groups)
		return open_named(path);
	act_as(p->uid, p->gid, p->n_groups, p->groups);
	if (caps_ptrace(0) < 0)
		die_with("give up the right over other accounts' processes");
	fd = open_named(path);
	errnum = errno;
	act_as(geteuid(), getegid(), 0, NULL);
	caps_ptrace(1);
	errno = errnum;
	return fd;
}

/* Makes the place of an absolute path where it is missing: a folder, or an empty file. */
static int make_place(const char *path, int is_dir)
{
	char part[256];
	int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), next;
	size_t n;

	for (const char *p = path; *p && at >= 0; p += n) {
		p += strspn(p, "/");
		n = strcspn(p, "/");
		if (n == 0)
			break;
		if (n >= sizeof(part)) {
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(part, p, n);
		part[n] = '\0';
		if (p[n + strspn(p + n, "/")] || is_dir) {
			mkdirat(at, part, 0755);
			next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		} else {
			next = openat(at, part, O_CREAT | O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
			if (next >= 0)
				close(next);
			next = next < 0 ? -1 : openat(at, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		}
		close(at);
		at = next;
	}
	return at;
}

/* Is the path hidden by a mount? A descriptor holds what it was before. */
static int is_hidden(const char *path, int fd)
{
	struct stat before, now;

	return fstat(fd, &before) == 0 &&
	       (stat(path, &now) < 0 || before.st_dev != now.st_dev || before.st_ino != now.st_ino);
}

static void restore_path(const char *path, int fd)
{
	char target[40];
	struct stat st;
	int place;

	if (fstat(fd, &st) < 0 || !is_hidden(path, fd))
		return;
	place = make_place(path, S_ISDIR(st.st_mode));
	if (place < 0)
		die_with("make the place of %s", path);
	snprintf(target, sizeof(target), "/proc/self/fd/%d", place);
	bind_fd(fd, path, target);
	close(place);
}

/* Without its group where the namespace has no such number: terminals then have the user's own. */
static void mount_terminals(int user)
{
	const char *options =
	    user ? "newinstance,mode=620,ptmxmode=666" : "newinstance,gid=5,mode=620,ptmxmode=666";
	struct stat st;

	if (mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, options) < 0)
		die_with("mount /dev/pts");
	/* Often a link to pts/ptmx already; a node of its own would open the host's instance in old kernels. */
	if (lstat("/dev/ptmx", &st) == 0 && !S_ISLNK(st.st_mode) &&
	    mount("/dev/pts/ptmx", "/dev/ptmx", NULL, MS_BIND, NULL) < 0)
		die_with("bind /dev/ptmx");
}

static void shared_memory(const char *bytes)
{
	char options[64];

	if (mkdir("/dev/shm", 01777) < 0 && errno != EEXIST)
		die_with("make /dev/shm");
	snprintf(options, sizeof(options), "mode=1777,size=%s", bytes);
	if (mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
		die_with("mount /dev/shm");
}

static int is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The host's would show, and keep, queues of the host's IPC namespace. */
static void message_queues(void)
{
	if (is_folder("/dev/mqueue") &&
	    mount("mqueue", "/dev/mqueue", "mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 &&
	    errno != ENODEV)
		die_with("mount /dev/mqueue");
}

/* What one job leaves there the next one would find. */
static void lock_files(void)
{
	if (is_folder("/run/lock") &&
	    mount("tmpfs", "/run/lock", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777,size=5m") < 0)
		die_with("mount /run/lock");
}

/* ---- an ordinary user -------------------------------------------------------------------------------- */

static void write_map(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);

	if (fd < 0 || write(fd, text, n) != (ssize_t)n)
		die_with("new user namespace: %s", path);
	close(fd);
}

static void own_user_namespace(void)
{
	char uids[40], gids[40];

	snprintf(uids, sizeof(uids), "%u %u 1", (unsigned)geteuid(), (unsigned)geteuid());
	snprintf(gids, sizeof(gids), "%u %u 1", (unsigned)getegid(), (unsigned)getegid());
	if (unshare(CLONE_NEWUSER) < 0)
		die_with("new user namespace");
	write_map("/proc/self/setgroups", "deny"); /* what the kernel asks for before a gid may be mapped */
	write_map("/proc/self/uid_map", uids);
	write_map("/proc/self/gid_map", gids);
	prctl(PR_SET_DUMPABLE, 1); /* shims look at our namespaces, a later agent at our environment */
}

/* An entry of the host's /opt under its name in the new one. */
static void bring_back(int from, int to, const char *name)
{
	char target[40], link[4096];
	int fd = openat(from, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), place;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return; /* gone meanwhile, or not this user's to see */
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(from, name, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		if (n <= 0 || symlinkat(link, to, name) < 0)
			die_with("make the link /opt/%s", name);
		close(fd);
		return;
	}
	if (S_ISDIR(st.st_mode))
		place = mkdirat(to, name, 0755) < 0 ? -1 : openat(to, name, O_PATH | O_CLOEXEC);
	else
		place = openat(to, name, O_CREAT | O_EXCL | O_RDONLY | O_CLOEXEC, 0644);
	if (place < 0)
		die_with("make the place of /opt/%s", name);
	snprintf(target, sizeof(target), "/proc/self/fd/%d", place);
	bind_fd(fd, name, target);
	close(place);
	close(fd);
}

static void shadow_opt(void)
{
	DIR *old = opendir("/opt");
	const struct dirent *d;
	int to;

	if (!old)
		die_with("/opt");
	if (mount("tmpfs", "/opt", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m") < 0)
		die_with("mount /opt");
	to = open("/opt", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (to >= 0 && (d = readdir(old)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			bring_back(dirfd(old), to, d->d_name);
	closedir(old);
	if (to < 0 || mkdirat(to, "ml", 0755) < 0)
		die_with("make /opt/ml");
	close(to);
	if (mount(NULL, "/opt", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
		die_with("close /opt");
}

static void make_opt_ml(int user)
{
	if (is_folder("/opt/ml"))
		return;
	if (user) {
		shadow_opt();
		return;
	}
	if (mkdir("/opt", 0755) < 0 && errno != EEXIST)
		die_with("make /opt");
	if (mkdir("/opt/ml", 0755) < 0 && errno != EEXIST)
		die_with("make /opt/ml");
}

/* ---- layers ------------------------------------------------------------------------------------------- */

static int open_at(int dir, const char *name, int flags)
{
	int fd = openat(dir, name, flags | O_CLOEXEC);

	if (fd < 0)
		die_with("layer: %s", name);
	return fd;
}

static void read_place(int dir, char *place, size_t size)
{
	ssize_t n = readlinkat(dir, "at", place, size - 1);

	if (n <= 0)
		die_with("layer: at");
	place[n] = '\0';
}

/* Descriptors, because the kernel takes one page of options. What the launch changes need not survive the
 * machine, so `volatile` saves the writing back at the end; kernels before 5.10 do not know it. */
static int mount_overlay(int user, int lower, int upper, int work, const char *target)
{
	static const char *const more[] = {"volatile,", ""};
	char options[256];

	for (int i = 0; i < 2; i++) {
		snprintf(options, sizeof(options),
		         "%s%s,lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d", more[i],
		         user ? "userxattr" : "index=off,redirect_dir=on", lower, upper, work);
		if (mount("overlay", target, "overlay", MS_NODEV, options) == 0)
			return 0;
	}
	return -1;
}

/* The account may have put a link in the way below ml, so no step of the way may be one. */
static void mount_layer(int user, int ml, const char *layer)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
	                       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
	int dir = open(layer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char place[4096], target[40];
	int lower, upper, work, fd;

	if (dir < 0)
		die_with("layer %s", layer);
	read_place(dir, place, sizeof(place));
	lower = open_at(dir, "lower", O_PATH | O_DIRECTORY);
	upper = open_at(dir, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW);
	work = open_at(dir, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW);
	fd = (int)syscall(SYS_openat2, ml, place, &how, sizeof(how));
	if (fd < 0)
		die_with("layer %s: its place %s", layer, place);
	snprintf(target, sizeof(target), "/proc/self/fd/%d", fd);
	if (mount_overlay(user, lower, upper, work, target) < 0)
		die_with("layer %s: overlay", layer);
	close(fd);
	close(work);
	close(upper);
	close(lower);
	close(dir);
}

/* ---- all of it ------------------------------------------------------------------------------------------
 */

static void own_namespaces(int user)
{
	if (user)
		own_user_namespace();
	if (unshare(CLONE_NEWNS | CLONE_NEWIPC) < 0)
		die_with("new namespaces");
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		die_with("make mounts private");
}

/* A write copies the file up: that is what may be refused although the mount is not. */
static void try_layer(const struct plan *p)
{
	int top, ml, fd;

	own_namespaces(p->user);
	top = open(p->try, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		die_with("%s", p->try);
	ml = open_at(top, "ml", O_PATH | O_DIRECTORY);
	mount_layer(p->user, ml, p->try);
	fd = open_at(ml, "tree/file", O_WRONLY);
	if (write(fd, "1", 1) != 1 || fchmod(fd, 0600) < 0)
		die_with("layer: write");
	close(fd);
	printf("ok\n");
	fflush(stdout);
}

static int open_namespace(const char *pid, const char *kind)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%.20s/ns/%s", pid, kind);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die_with("%s", path);
	return fd;
}

/* The 22nd word; the second one, in brackets, may hold anything. */
static int has_started_at(const char *pid, const char *ticks)
{
	char path[64], text[1024], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strrchr(text, ')');
	for (int i = 2; at && i < 22; i++)
		at = strchr(at + 1, ' ');
	return at && strncmp(at + 1, ticks, strlen(ticks)) == 0 && at[1 + strlen(ticks)] == ' ';
}

static void join_holder(const struct plan *p)
{
	int mounts = open_namespace(p->join, "mnt"), users = p->user ? open_namespace(p->join, "user") : -1, ml;

	/* Looked at behind the open: the number may be another process's by now. */
	if (!has_started_at(p->join, p->start)) {
		errno = ESRCH;
		die_with("holder %s", p->join);
	}
	if ((users >= 0 && setns(users, CLONE_NEWUSER) < 0) || setns(mounts, CLONE_NEWNS) < 0)
		die_with("enter the namespaces of holder %s", p->join);
	ml = open_path("/opt/ml");
	if (ml < 0)
		die_with("/opt/ml");
	for (int i = 0; i < p->n_layer; i++)
		mount_layer(p->user, ml, p->layer[i]);
	printf("ok\n");
	fflush(stdout);
}

static void set_up(struct plan *p)
{
	int tmp, var_tmp = -1, ml;

	own_namespaces(p->user);
	/* Descriptors from before would be of the old namespace's mounts, which cannot be bound here. */
	tmp = open_path(p->tmp);
	if (tmp < 0)
		die_with("%s", p->tmp);
	if (p->var_tmp)
		var_tmp = open_path(p->var_tmp);
	if (p->var_tmp && var_tmp < 0)
		die_with("%s", p->var_tmp);
	ml = open_path(p->ml);
	if (ml < 0)
		die_with("%s", p->ml);
	for (int i = 0; i < p->n_layer; i++)
		mount_layer(p->user, ml, p->layer[i]);
	for (int i = 0; i < p->n_keep; i++)
		/* one that is not there hides nothing */
		p->keep_fd[i] = p->linked[i] ? open_linked(p, p->keep[i]) : open_path(p->keep[i]);
	make_opt_ml(p->user);
	bind_fd(tmp, p->tmp, "/tmp");
	if (p->var_tmp && is_folder("/var/tmp"))
		bind_fd(var_tmp, p->var_tmp, "/var/tmp");
	lock_files();
	shared_memory(p->shm_bytes);
	message_queues();
	mount_terminals(p->user);
	for (int i = 0; i < p->n_keep; i++)
		if (p->keep_fd[i] >= 0)
			restore_path(p->keep[i], p->keep_fd[i]);
	bind_fd(ml, p->ml, "/opt/ml");
}

int main(int argc, char **argv)
{
	struct plan p = {0};
	int null_fd;

	umask(022);
	parse_plan(&p, argc, argv);
	prctl(PR_SET_NAME, "hearth-hold");
	if (p.try) {
		try_layer(&p);
		return 0;
	}
	if (p.join) {
		join_holder(&p);
		return 0;
	}
	set_up(&p);
	if (chdir("/") < 0)
		die_with("chdir");
	printf("ok\n");
	fflush(stdout);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null_fd >= 0; fd++)
		dup2(null_fd, fd);
	if (syscall(SYS_close_range, 3u, ~0u, 0u) < 0) /* before Linux 5.9 */
		for (int fd = 3; fd < 3 + KEEP_MAX + 8; fd++)
			close(fd);
	for (;;)
		pause();
}
