/*
 * cgroup: see cgroup.h.
 */
#include "agent/container/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/base/strutil.h"
#include "common/os/fsutil.h"

#define DEPTH_MAX  8
#define PIDS_LIMIT 1000000

/* Names of the controllers in mount options and files, and of the folders in a record. */
static const char *const kinds[CG_N] = {"v2", "memory", "cpu", "cpuset", "pids", "devices", "freezer"};

/* ---- what is mounted --------------------------------------------------------------------------------- */

static int has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += n)
		if ((at == list || at[-1] == ',') && (at[n] == '\0' || at[n] == ','))
			return 1;
	return 0;
}

/* Path of this process in the hierarchy: "0::PATH" or "N:a,b:PATH". malloc'ed, NULL when it is not listed. */
static char *own_path(const char *self, enum cg_kind kind)
{
	cleanup_free char *copy = xstrdup(self);
	char *save = NULL, *ctl, *path;

	for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		ctl = strchr(line, ':');
		path = ctl ? strchr(ctl + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		ctl++;
		if (kind == CG_V2 ? strncmp(line, "0:", 2) == 0 && *ctl == '\0' : has_word(ctl, kinds[kind]))
			return xstrdup(path);
	}
	return NULL;
}

/* One line of mountinfo: "ID PARENT MAJ:MIN ROOT POINT OPTIONS [optional...] - TYPE SOURCE SUPER". */
static void take_mount(struct cg_layout *l, char *line, const char *self, int is_root)
{
	char *tail = strstr(line, " - "), *field[6], *save = NULL, *type, *super, *own, *dir;
	int n = 0;

	if (!tail)
		return;
	*tail = '\0';
	for (char *f = strtok_r(line, " ", &save); f && n < 6; f = strtok_r(NULL, " ", &save))
		field[n++] = f;
	type = strtok_r(tail + 3, " ", &save);
	super = strtok_r(NULL, " ", &save) ? strtok_r(NULL, " ", &save) : NULL;
	if (n < 6 || !type || !super || (strcmp(type, "cgroup") != 0 && strcmp(type, "cgroup2") != 0))
		return;
	for (int kind = 0; kind < CG_N; kind++) {
		if (l->base[kind] || (kind == CG_V2) != (strcmp(type, "cgroup2") == 0) ||
		    (kind != CG_V2 && !has_word(super, kinds[kind])))
			continue;
		own = is_root ? xstrdup("") : own_path(self, (enum cg_kind)kind);
		/* A mount that shows a part only (ROOT is not /): the path is relative to that part when it is below
		 * it. */
		if (own && strcmp(field[3], "/") != 0 && strncmp(own, field[3], strlen(field[3])) == 0)
			memmove(own, own + strlen(field[3]), strlen(own) - strlen(field[3]) + 1);
		dir = own ? xasprintf("%s%s", field[4], strcmp(own, "/") == 0 ? "" : own) : NULL;
		free(own);
		if (dir && access(dir, W_OK) == 0)
			l->base[kind] = dir;
		else
			free(dir);
	}
}

void cg_layout_read(struct cg_layout *l, const char *mountinfo, const char *self, int is_root)
{
	char *text, *own, *save = NULL;
	size_t n;

	*l = (struct cg_layout){0};
	if (fs_read_file(mountinfo, 4 * 1024 * 1024, &text, &n, NULL) < 0)
		return;
	if (fs_read_file(self, 1024 * 1024, &own, &n, NULL) < 0)
		own = xstrdup("");
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		take_mount(l, line, own, is_root);
	free(text);
	free(own);
}

void cg_layout_fini(struct cg_layout *l)
{
	for (int i = 0; i < CG_N; i++) {
		free(l->base[i]);
		free(l->of_node[i]);
	}
	*l = (struct cg_layout){0};
}

/* ---- small files ----------------------------------------------------------------------------------------
 */

static int write_value(const char *dir, const char *file, const char *value)
{
	cleanup_free char *path = xasprintf("%s/%s", dir, file);
	int fd = open(path, O_WRONLY | O_CLOEXEC), rc;
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, value, strlen(value));
	rc = n < 0 ? -1 : 0;
	n = errno;
	close(fd);
	errno = (int)n;
	return rc;
}

static char *read_value(const char *dir, const char *file)
{
	cleanup_free char *path = xasprintf("%s/%s", dir, file);
	char *text;
	size_t n;

	return fs_read_file(path, 1024 * 1024, &text, &n, NULL) < 0 ? NULL : text;
}

static int has_file(const char *dir, const char *file)
{
	cleanup_free char *path = xasprintf("%s/%s", dir, file);

	return access(path, W_OK) == 0;
}

/* ---- making
 * ------------------------------------------------------------------------------------------------ */

/* A new cpuset of version 1 is empty, and nothing can be put in it before it has CPUs and memory nodes. -1:
 * it has not got them. */
static int inherit_cpuset(const char *parent, const char *dir)
{
	static const char *const files[] = {"cpuset.cpus", "cpuset.mems"};

	for (int i = 0; i < 2; i++) {
		cleanup_free char *value = read_value(parent, files[i]), *now = NULL;
		int why = value && write_value(dir, files[i], value) < 0 ? errno : ENOENT;

		now = read_value(dir, files[i]);
		if (!now || *now == '\n' || !*now) {
			errno = why;
			return -1;
		}
	}
	return 0;
}

static void enable_children(const char *dir)
{
	/* One by one: a single unknown one would refuse the whole line. */
	write_value(dir, "cgroup.subtree_control", "+memory");
	write_value(dir, "cgroup.subtree_control", "+cpu");
	write_value(dir, "cgroup.subtree_control", "+cpuset");
	write_value(dir, "cgroup.subtree_control", "+pids");
}

static char *make_folder(enum cg_kind kind, const char *dir, const char *name)
{
	char *path = xasprintf("%s/%s", dir, name);
	int why = 0;

	if (mkdir(path, 0755) < 0 && errno != EEXIST) {
		why = errno;
	} else if (kind == CG_CPUSET && inherit_cpuset(dir, path) < 0) {
		why = errno;
		rmdir(path); /* what nothing can be put in would only fail the launch */
	}
	if (!why)
		return path;
	free(path);
	errno = why;
	return NULL;
}

/* One level: DIR/NAME. The owner of another launch may be removing an empty level at the same time. */
static char *make_level(enum cg_kind kind, const char *dir, const char *name)
{
	if (kind == CG_V2)
		enable_children(dir);
	return make_folder(kind, dir, name);
}

/* Below what an earlier launch has made ready: the levels above need no look then. NULL: it went with its
 * last launch, or there was none. */
static char *make_quick(enum cg_kind kind, const struct cg_layout *l, const char *node, const char *name)
{
	const char *of_node = l->of_node[kind], *end = of_node ? strrchr(of_node, '/') : NULL;

	return end && strcmp(end + 1, node) == 0 ? make_folder(kind, of_node, name) : NULL;
}

static char *make_dir(enum cg_kind kind, struct cg_layout *l, const char *node, const char *name)
{
	char *dir = make_quick(kind, l, node, name);

	for (int tries = 0; !dir && tries < 10; tries++) {
		cleanup_free char *hearth = make_level(kind, l->base[kind], "hearth");
		char *of_node = hearth ? make_level(kind, hearth, node) : NULL;

		dir = of_node ? make_level(kind, of_node, name) : NULL;
		if (!dir && errno != ENOENT)
			tries = 10;
		if (!dir && of_node)
			rmdir(of_node); /* unless other launches are in it */
		if (!dir && hearth)
			rmdir(hearth);
		free(l->of_node[kind]);
		l->of_node[kind] = of_node;
	}
	return dir;
}

static void add_note(struct strv *notes, const char *what)
{
	strv_addf(notes, "%s: %s", what, strerror(errno));
}

static void limit_memory(struct cgroup *cg, const struct cg_limits *lim, struct strv *notes)
{
	char value[32];

	if (!lim->memory_bytes)
		return;
	snprintf(value, sizeof(value), "%" PRIu64, lim->memory_bytes);
	if (cg->dir[CG_MEMORY]) {
		if (write_value(cg->dir[CG_MEMORY], "memory.limit_in_bytes", value) < 0) {
			add_note(notes, "memory limit refused by the kernel");
			return;
		}
		cg->memory_limited = 1;
		/* Memory and swap together; absent where swap is not accounted. */
		if (write_value(cg->dir[CG_MEMORY], "memory.memsw.limit_in_bytes", value) < 0 && errno != ENOENT)
			add_note(notes, "swap is not limited");
	} else if (cg->dir[CG_V2] && has_file(cg->dir[CG_V2], "memory.max")) {
		if (write_value(cg->dir[CG_V2], "memory.max", value) < 0) {
			add_note(notes, "memory limit refused by the kernel");
			return;
		}
		cg->memory_limited = 1;
		if (write_value(cg->dir[CG_V2], "memory.swap.max", "0") < 0 && errno != ENOENT)
			add_note(notes, "swap is not limited");
	}
}

static void limit_cpus(const struct cgroup *cg, const struct cg_limits *lim, struct strv *notes)
{
	const char *dir = cg->dir[CG_CPUSET] ? cg->dir[CG_CPUSET] : cg->dir[CG_V2];
	cleanup_free char *list = xstrdup("");

	if (!lim->cpus || !lim->n_cpus)
		return;
	if (!dir || !has_file(dir, "cpuset.cpus")) {
		strv_add(notes, "CPUs are not confined by the kernel: no cpuset controller");
		return;
	}
	for (uint32_t i = 0; i < lim->n_cpus; i++) {
		char *next = xasprintf("%s%s%u", list, i ? "," : "", lim->cpus[i]);

		free(list);
		list = next;
	}
	if (write_value(dir, "cpuset.cpus", list) < 0)
		add_note(notes, "CPUs are not confined by the kernel");
}

static void limit_quota(const struct cgroup *cg, const struct cg_limits *lim, struct strv *notes)
{
	char value[48];
	uint64_t quota_us = (uint64_t)(lim->cpu_quota * 100000);

	if (lim->cpu_quota <= 0)
		return;
	quota_us = quota_us < 1000 ? 1000 : quota_us;
	if (cg->dir[CG_CPU]) {
		snprintf(value, sizeof(value), "%" PRIu64, quota_us);
		if (write_value(cg->dir[CG_CPU], "cpu.cfs_quota_us", value) < 0)
			add_note(notes, "no CPU quota");
	} else if (cg->dir[CG_V2] && has_file(cg->dir[CG_V2], "cpu.max")) {
		snprintf(value, sizeof(value), "%" PRIu64 " 100000", quota_us);
		if (write_value(cg->dir[CG_V2], "cpu.max", value) < 0)
			add_note(notes, "no CPU quota");
	} else {
		strv_add(notes, "no CPU quota: no cpu controller");
	}
}

/* Without the controller the programs' own priority has to do. */
static void lower_weight(const struct cgroup *cg, const struct cg_limits *lim)
{
	if (!lim->low)
		return;
	if (cg->dir[CG_CPU])
		write_value(cg->dir[CG_CPU], "cpu.shares", "2");
	else if (cg->dir[CG_V2] && has_file(cg->dir[CG_V2], "cpu.weight"))
		write_value(cg->dir[CG_V2], "cpu.weight", "1");
}

static void limit_pids(const struct cgroup *cg, const struct cg_limits *lim, struct strv *notes)
{
	const char *dir = cg->dir[CG_PIDS] ? cg->dir[CG_PIDS] : cg->dir[CG_V2];
	char value[16];

	if (!lim->pids_max)
		return;
	if (!dir || !has_file(dir, "pids.max")) {
		strv_add(notes, "number of processes is not limited: no pids controller");
		return;
	}
	snprintf(value, sizeof(value), "%u", lim->pids_max);
	if (write_value(dir, "pids.max", value) < 0)
		add_note(notes, "number of processes is not limited");
}

static void limit_devices(const struct cgroup *cg, const struct cg_limits *lim, struct strv *notes)
{
	struct err e;

	if (!lim->restrict_devices)
		return;
	if (cg->dir[CG_DEVICES] ? cgroup_dev_v1(cg->dir[CG_DEVICES], lim->devices, &e) < 0
	    : cg->dir[CG_V2]    ? cgroup_dev_v2(cg->dir[CG_V2], lim->devices, &e) < 0
	                        : err_set(&e, ERR_UNSUPPORTED, "no devices controller") < 0)
		strv_addf(notes, "devices are not confined: %s", e.text);
}

void cgroup_create(struct cgroup *cg, struct cg_layout *l, const char *node, const char *name,
                   const struct cg_limits *lim, struct strv *notes)
{
	int any = 0;

	*cg = (struct cgroup){0};
	for (int i = 0; i < CG_N; i++) {
		cg->dir[i] = l->base[i] ? make_dir((enum cg_kind)i, l, node, name) : NULL;
		any |= cg->dir[i] != NULL;
	}
	if (!any)
		strv_add(notes, "no control groups: processes are found by their environment, limits by looking");
	limit_memory(cg, lim, notes);
	if (lim->memory_bytes && !cg->memory_limited)
		strv_add(notes, "memory limit is watched, not enforced by the kernel");
	limit_cpus(cg, lim, notes);
	limit_quota(cg, lim, notes);
	lower_weight(cg, lim);
	limit_pids(cg, lim, notes);
	limit_devices(cg, lim, notes);
}

void cgroup_fini(struct cgroup *cg)
{
	for (int i = 0; i < CG_N; i++)
		free(cg->dir[i]);
	*cg = (struct cgroup){0};
}

/* ---- record
 * ------------------------------------------------------------------------------------------------ */

void cgroup_save(const struct cgroup *cg, struct strv *out)
{
	for (int i = 0; i < CG_N; i++)
		if (cg->dir[i])
			strv_addf(out, "cgroup %s %s", kinds[i], cg->dir[i]);
	if (cg->memory_limited)
		strv_add(out, "memory_limited");
}

/* BASE/hearth/NODE/NAME, as make_dir makes it. */
static int is_of_launch(const char *dir, const char *name)
{
	const char *ours = strstr(dir, "/hearth/"), *last = strrchr(dir, '/');

	return *dir == '/' && ours && last > ours + 7 && last[1] && (!name || strcmp(last + 1, name) == 0) &&
	       !strstr(dir, "/../");
}

int cgroup_load_line(struct cgroup *cg, const char *name, const char *line)
{
	size_t n;

	if (strcmp(line, "memory_limited") == 0) {
		cg->memory_limited = 1;
		return 0;
	}
	if (strncmp(line, "cgroup ", 7) != 0)
		return -1;
	line += 7;
	for (int i = 0; i < CG_N; i++) {
		n = strlen(kinds[i]);
		if (strncmp(line, kinds[i], n) == 0 && line[n] == ' ' && is_of_launch(line + n + 1, name) &&
		    !cg->dir[i]) {
			cg->dir[i] = xstrdup(line + n + 1);
			return 0;
		}
	}
	return -1;
}

/* ---- processes ------------------------------------------------------------------------------------------
 */

void cgroup_procs_files(const struct cgroup *cg, struct strv *out)
{
	for (int i = 0; i < CG_N; i++)
		if (cg->dir[i])
			strv_addf(out, "%s/cgroup.procs", cg->dir[i]);
}

void cgroup_oom_files(const struct cgroup *cg, struct strv *out)
{
	if (cg->dir[CG_MEMORY])
		strv_addf(out, "%s/memory.oom_control", cg->dir[CG_MEMORY]);
	else if (cg->dir[CG_V2] && has_file(cg->dir[CG_V2], "memory.max"))
		strv_addf(out, "%s/memory.events", cg->dir[CG_V2]);
}

int cgroup_oom_kills(const struct cgroup *cg)
{
	struct strv files = {0};
	char *text = NULL, *at;
	int n = -1;
	size_t size;

	cgroup_oom_files(cg, &files);
	if (files.n && fs_read_file(files.v[0], 65536, &text, &size, NULL) == 0) {
		at = strstr(text, "oom_kill ");
		n = at ? atoi(at + 9) : -1;
		free(text);
	}
	strv_fini(&files);
	return n;
}

struct pid_list {
	pid_t *v;
	size_t n, cap;
};

/* A dead one that nobody has waited for yet holds nothing. */
static int is_zombie(pid_t pid)
{
	char path[64], *text, *at;
	size_t n;
	int dead;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (fs_read_file(path, 4096, &text, &n, NULL) < 0)
		return 1;
	at = strrchr(text, ')');
	dead = at && (at[2] == 'Z' || at[2] == 'X');
	free(text);
	return dead;
}

static void read_pids(const char *dir, int depth, struct pid_list *out)
{
	cleanup_free char *text = read_value(dir, "cgroup.procs");
	char *save = NULL, *sub;
	struct dirent *entry;
	DIR *d;

	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
		pid_t pid = (pid_t)atoi(line);

		if (pid <= 0 || is_zombie(pid)) /* 0: in another pid namespace */
			continue;
		if (out->n == out->cap) {
			out->cap = out->cap ? out->cap * 2 : 64;
			out->v = xreallocarray(out->v, out->cap, sizeof(*out->v));
		}
		out->v[out->n++] = pid;
	}
	d = depth < DEPTH_MAX ? opendir(dir) : NULL;
	while (d && (entry = readdir(d))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		sub = xasprintf("%s/%s", dir, entry->d_name);
		read_pids(sub, depth + 1, out);
		free(sub);
	}
	if (d)
		closedir(d);
}

/* The folder that lists the processes: any of them, all have the same. */
static const char *main_dir(const struct cgroup *cg)
{
	static const enum cg_kind order[] = {CG_V2,  CG_FREEZER, CG_PIDS,  CG_MEMORY,
	                                     CG_CPU, CG_DEVICES, CG_CPUSET};

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (cg->dir[order[i]])
			return cg->dir[order[i]];
	return NULL;
}

int cgroup_pids(const struct cgroup *cg, pid_t **pids)
{
	const char *dir = main_dir(cg);
	struct pid_list list = {0};

	if (!dir)
		return -1;
	read_pids(dir, 0, &list);
	*pids = list.v;
	return (int)list.n;
}

/* A number that was read from a file may be another process by now: held by a pidfd, looked up again, then
 * signalled. */
static void kill_member(const struct cgroup *cg, const char *dir, pid_t pid)
{
	cleanup_close int fd = (int)syscall(SYS_pidfd_open, pid, 0u);
	char path[64];
	const char *name;
	char *text;
	size_t n;

	(void)cg;
	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	if (fs_read_file(path, 65536, &text, &n, NULL) < 0)
		return;
	name = strstr(dir, "/hearth/");
	if (name && strstr(text, name))
		syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0u);
	free(text);
}

/* The kernel kills all of it at once, from Linux 5.14 on and in version 2 alone. */
static int kill_group(const struct cgroup *cg)
{
	return cg->dir[CG_V2] ? write_value(cg->dir[CG_V2], "cgroup.kill", "1") : -1;
}

static void freeze_groups(const struct cgroup *cg, int on)
{
	if (cg->dir[CG_V2] && has_file(cg->dir[CG_V2], "cgroup.freeze"))
		write_value(cg->dir[CG_V2], "cgroup.freeze", on ? "1" : "0");
	if (cg->dir[CG_FREEZER])
		write_value(cg->dir[CG_FREEZER], "freezer.state", on ? "FROZEN" : "THAWED");
}

void cgroup_halt(const struct cgroup *cg)
{
	if (kill_group(cg) < 0)
		freeze_groups(cg, 1);
}

void cgroup_kill(const struct cgroup *cg)
{
	const char *dir = main_dir(cg);
	pid_t *pids = NULL;
	int n;

	if (!dir || kill_group(cg) == 0)
		return;
	/* Frozen, nothing forks while the list is walked; it dies when thawed. */
	freeze_groups(cg, 1);
	n = cgroup_pids(cg, &pids);
	for (int i = 0; i < n; i++)
		kill_member(cg, dir, pids[i]);
	freeze_groups(cg, 0);
	free(pids);
}

static int remove_dir(const char *dir, int depth)
{
	struct dirent *entry;
	char *sub;
	DIR *d;

	if (rmdir(dir) == 0 || errno == ENOENT)
		return 0;
	d = depth < DEPTH_MAX ? opendir(dir) : NULL;
	while (d && (entry = readdir(d))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		sub = xasprintf("%s/%s", dir, entry->d_name);
		remove_dir(sub, depth + 1);
		free(sub);
	}
	if (d)
		closedir(d);
	return rmdir(dir) == 0 || errno == ENOENT ? 0 : -1;
}

int cgroup_remove(struct cgroup *cg, struct err *e)
{
	int rc = 0;

	for (int i = 0; i < CG_N; i++) {
		char *end;

		if (!cg->dir[i])
			continue;
		if (remove_dir(cg->dir[i], 0) < 0) {
			rc = err_sys(e, errno, "%s: remove", cg->dir[i]);
			continue;
		}
		/* The levels of the node and of Hearth go with their last launch. */
		for (int level = 0; level < 2 && (end = strrchr(cg->dir[i], '/')); level++) {
			*end = '\0';
			if (!strstr(cg->dir[i], "/hearth") || rmdir(cg->dir[i]) < 0)
				break;
		}
		free(cg->dir[i]);
		cg->dir[i] = NULL;
	}
	return rc;
}
