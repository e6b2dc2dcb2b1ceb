/*
 * container: see container.h: control groups, a holder of namespaces, watched limits.
 *
 * RUN/J.A/container records them, one line each, so that the next agent finds them:
 *     making                        it is not finished; the holder may run although no line names it
 *     cgroup KIND PATH, memory_limited
 *     holder PID START BOOT-ID
 *     note TEXT
 * An agent finds a holder without a line by HEARTH_HOLD=token in its environment.
 */
#include "agent/container/container.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/layers.h"
#include "agent/container/cgroup.h"
#include "agent/container/limits.h"
#include "agent/container/mounts.h"
#include "common/base/buf.h"
#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/os/fsutil.h"

#define RECORD_MAX 65536
#define PIDS_MAX   32768 /* a fork bomb must not take the machine */
#define REMOVE_MS  1000

struct container {
	struct agent_env *env;
	char *token, *record;
	struct cgroup cg;
	struct proc_id holder; /* pid 0: none */
	struct mounts *starting;
	struct loop_timer *later; /* calls ready; NULL: done, or it never will */
	struct err why;           /* no namespaces */
	struct limits *limits, *cache_limits;
	uint64_t memory_bytes, disk_bytes;
	char *name, *work, *cache;
	uint64_t cache_bytes;
	struct strv notes;
	int half; /* taken over while it was being made: only to be destroyed */
	int oom;  /* seen by watching */
	const struct container_ops *ops;
	void *arg;
};

/* ---- record ------------------------------------------------------------------------------------------ */

static int save_record(const struct container *c, int making, struct err *e)
{
	struct strv lines = {0};
	struct buf b;
	int rc;

	if (making)
		strv_add(&lines, "making");
	cgroup_save(&c->cg, &lines);
	if (c->holder.pid)
		strv_addf(&lines, "holder %d %" PRIu64 " %s", c->holder.pid, c->holder.start_ticks,
		          c->holder.boot_id);
	for (size_t i = 0; i < c->notes.n; i++)
		strv_addf(&lines, "note %s", c->notes.v[i]);
	buf_init(&b, RECORD_MAX);
	for (size_t i = 0; i < lines.n; i++) {
		buf_put(&b, lines.v[i], strlen(lines.v[i]));
		buf_put(&b, "\n", 1);
	}
	rc = fs_replace(c->record, b.data ? (const char *)b.data : "", b.len, 0600, e);
	buf_fini(&b);
	strv_fini(&lines);
	return rc;
}

static int load_record(struct container *c, const char *name, struct err *e)
{
	char *text, *save_ptr = NULL;
	size_t n;

	if (fs_read_file(c->record, RECORD_MAX, &text, &n, e) < 0)
		return -1;
	for (char *line = strtok_r(text, "\n", &save_ptr); line; line = strtok_r(NULL, "\n", &save_ptr)) {
		struct proc_id *h = &c->holder;

		if (strcmp(line, "making") == 0)
			c->half = 1;
		else if (strncmp(line, "note ", 5) == 0)
			strv_add(&c->notes, line + 5);
		else if (strncmp(line, "holder ", 7) == 0)
			sscanf(line + 7, "%d %" SCNu64 " %39s", &h->pid, &h->start_ticks, h->boot_id);
		else if (cgroup_load_line(&c->cg, name, line) < 0)
			strv_addf(&c->notes, "its record has an invalid line: %.100s", line);
	}
	free(text);
	return 0;
}

/* ---- making ------------------------------------------------------------------------------------------- */

/* The facts that stay the same while the agent lives: each launch would find the same. */
struct place {
	struct cg_layout layout;
	char *key;   /* Nodes of two clusters on one machine may have the same name; their data folders differ. */
	char *hold;  /* hearth-hold; NULL: not found */
	char *agent; /* the folder of this very program; NULL: unknown */
};

static char *node_key(const struct agent_env *env)
{
	cleanup_free char *real = realpath(env->cfg.data_dir, NULL);
	const char *dir = real ? real : env->cfg.data_dir;
	char hex[HASH_HEX_SIZE];

	hash_hex(dir, strlen(dir), hex);
	return xasprintf("%s-%.8s", env->cfg.node ? env->cfg.node : "node", hex);
}

static char *own_folder(void)
{
	char *real = realpath("/proc/self/exe", NULL), *end = real ? strrchr(real, '/') : NULL;

	if (end && end != real) {
		*end = '\0';
		return real;
	}
	free(real);
	return NULL;
}

static struct place *place_of(struct agent_env *env)
{
	struct place *pl = env->place;

	if (pl)
		return pl;
	pl = env->place = xcalloc(1, sizeof(*pl));
	cg_layout_read(&pl->layout, "/proc/self/mountinfo", "/proc/self/cgroup", env->is_root);
	pl->key = node_key(env);
	pl->hold = mounts_find(env->cfg.libexec_dir);
	pl->agent = own_folder();
	return pl;
}

void container_env_fini(struct agent_env *env)
{
	if (!env->place)
		return;
	cg_layout_fini(&env->place->layout);
	free(env->place->key);
	free(env->place->hold);
	free(env->place->agent);
	free(env->place);
	env->place = NULL;
}

static int has_real_gpus(void)
{
	glob_t g = {0};
	int found = glob("/dev/nvidia[0-9]*", GLOB_NOSORT, NULL, &g) == 0 && g.gl_pathc > 0;

	globfree(&g);
	return found;
}

static void make_groups(struct container *c, const struct container_params *p)
{
	struct cg_limits lim = {.memory_bytes = p->memory_bytes,
	                        .cpus = p->cpus,
	                        .n_cpus = p->n_cpus,
	                        .cpu_quota = p->cpu_quota,
	                        .low = p->low,
	                        .pids_max = PIDS_MAX,
	                        .devices = &p->devices};
	struct place *pl = place_of(c->env);

	/* Without GPUs there is nothing to keep jobs away from: ordinary devices have their permissions. */
	lim.restrict_devices = c->env->is_root && has_real_gpus();
	cgroup_create(&c->cg, &pl->layout, pl->key, p->name, &lim, &c->notes);
	for (int i = 0; i < CG_N; i++)
		if (pl->layout.base[i] &&
		    !c->cg.dir[i]) { /* mounted otherwise by now? The next launch looks again. */
			container_env_fini(c->env);
			break;
		}
}

/* Targets of linked inputs: staging wrote them down (stage.c), because the folder itself belongs to the job.
 */
static void keep_links(const struct launch_paths *paths, struct strv *keep)
{
	cleanup_free char *file = xasprintf("%s/links", paths->work);
	char *text, *save_ptr = NULL;
	struct stat st;
	size_t n;

	if (stat(file, &st) < 0 || st.st_uid != geteuid() || fs_read_file(file, RECORD_MAX, &text, &n, NULL) < 0)
		return;
	for (char *line = strtok_r(text, "\n", &save_ptr); line; line = strtok_r(NULL, "\n", &save_ptr))
		if (line[0] == '/')
			strv_add(keep, line);
	free(text);
}

/* The folder behind /tmp or /var/tmp, malloc'ed. Inside it is open to every account, as these always are;
 * other accounts of the node must not come to it by its path, so the folder above it is the agent's alone. */
static char *make_tmp(const struct launch_paths *paths, const char *name, struct err *e)
{
	cleanup_free char *closed = xasprintf("%s/private", paths->work);
	char *tmp = xasprintf("%s/%s", closed, name);

	if (fs_mkdir_p(closed, 0700, e) < 0 || fs_mkdir_p(tmp, 01777, e) < 0)
		goto fail;
	if (chmod(closed, 0700) == 0 && chmod(tmp, 01777) == 0)
		return tmp;
	err_sys(e, errno, "%s", tmp);
fail:
	free(tmp);
	return NULL;
}

static void on_mounts(const struct proc_id *holder, const struct err *why, void *arg);

/* Starts the holder: on_mounts follows. */
static int make_mounts(struct container *c, const struct container_params *p, struct err *e)
{
	const struct place *pl = place_of(c->env);
	cleanup_free char *tmp = NULL, *var_tmp = NULL;
	struct mounts_params m = {.hold_path = pl->hold, .ml = p->paths->ml, .shm_bytes = p->memory_bytes};
	struct strv keep = {0}, links = {0}, layers = {0};

	if (!pl->hold) {
		container_env_fini(c->env); /* it may come */
		return err_set(e, ERR_NOT_FOUND, "hearth-hold is not in %s",
		               c->env->cfg.libexec_dir ? c->env->cfg.libexec_dir : "(unset)");
	}
	m.tmp = tmp = make_tmp(p->paths, "tmp", e);
	m.var_tmp = var_tmp = tmp ? make_tmp(p->paths, "var-tmp", e) : NULL;
	if (!var_tmp || fs_mkdir_p(p->paths->ml, 0755, e) < 0)
		return -1;
	if (!m.shm_bytes)
		m.shm_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
	strv_add(&keep, c->env->cfg.run_dir);
	strv_add(&keep, c->env->cfg.data_dir);
	strv_add(&keep, c->env->cfg.libexec_dir);
	if (pl->agent && strcmp(pl->agent, c->env->cfg.libexec_dir) != 0)
		strv_add(&keep, pl->agent);
	if (p->user && p->user->home)
		strv_add(&links, p->user->home);
	keep_links(p->paths, &links);
	layers_list(p->paths->work, &layers);
	m.layers = &layers;
	m.keep = &keep;
	m.links = &links;
	m.as = c->env->is_root && p->user && p->user->uid ? p->user : NULL;
	m.user = !c->env->is_root;
	c->starting = mounts_start(c->env->loop, &m, p->token, on_mounts, c, e);
	strv_fini(&keep);
	strv_fini(&links);
	strv_fini(&layers);
	return c->starting ? 0 : -1;
}

static void limit_passed(const char *text, int oom, void *arg)
{
	struct container *c = arg;

	c->oom |= oom;
	c->ops->limit(text, oom, c->arg);
}

static void cache_passed(const char *text, int oom, void *arg)
{
	struct container *c = arg;

	(void)oom;
	c->ops->cache_limit(text, c->arg);
}

static void watch_cache(struct container *c)
{
	const struct limits_params l = {.loop = c->env->loop,
	                                .token = c->token,
	                                .cg = &c->cg,
	                                .dir = c->cache,
	                                .what = "limit of the warm cache passed",
	                                .disk_bytes = c->cache_bytes,
	                                .on_limit = cache_passed,
	                                .arg = c};
	struct err e = {0};

	if (!c->cache || !c->cache_bytes || !c->ops)
		return;
	c->cache_limits = limits_start(&l, &e);
	if (!c->cache_limits)
		log_warn("event=limits_not_watched launch=%s reason=\"%s\"", c->name, e.text);
}

static void watch_limits(struct container *c)
{
	struct limits_params l = {.loop = c->env->loop,
	                          .token = c->token,
	                          .cg = &c->cg,
	                          .dir = c->work,
	                          .disk_bytes = c->disk_bytes,
	                          .on_limit = limit_passed,
	                          .arg = c};
	struct err e = {0};

	watch_cache(c);
	if (!c->cg.memory_limited)
		l.memory_bytes = c->memory_bytes;
	if (!c->ops)
		return;
	c->limits = limits_start(&l, &e);
	if (!c->limits && e.code)
		log_warn("event=limits_not_watched launch=%s reason=\"%s\"", c->name, e.text);
}

static struct container *container_new(struct agent_env *env, const struct container_params *p,
                                       const struct container_ops *ops, void *arg)
{
	struct container *c = xcalloc(1, sizeof(*c));

	c->env = env;
	c->token = xstrdup(p->token);
	c->record = xasprintf("%s/container", p->paths->run);
	c->name = xstrdup(p->name);
	c->work = xstrdup(p->paths->work);
	c->cache = xstrdup(p->cache);
	c->cache_bytes = p->cache_bytes;
	c->memory_bytes = p->memory_bytes;
	c->disk_bytes = p->disk_bytes;
	c->ops = ops;
	c->arg = arg;
	return c;
}

/* Ends what an agent left that died while it made the container. */
static void clear_rest(struct container *c)
{
	struct err e;

	if (access(c->record, F_OK) == 0 && proc_sweep_env("HEARTH_HOLD", c->token, SIGKILL, 3, &e) < 0)
		log_warn("event=sweep_failed reason=\"%s\"", e.text);
}

/* A job runs without namespaces, too: where root lacks the right, as in other containers, and where an
 * ordinary user cannot have them, for whatever reason: nothing promises them to him. */
static int go_without(struct container *c, struct err *e)
{
	struct strv layers = {0};
	size_t n;

	layers_list(c->work, &layers);
	n = layers.n;
	strv_fini(&layers);
	/* Nor one whose files come with the mounts. */
	if (n || (c->env->is_root && c->why.code != ERR_DENIED))
		return err_set(e, c->why.code, "%s", c->why.text);
	strv_addf(&c->notes, "no private /tmp, /dev/shm and /opt/ml: %s", c->why.text);
	return 0;
}

static void on_made(void *arg)
{
	struct container *c = arg;
	struct err e = {0};
	int rc;

	loop_timer_destroy(c->later);
	c->later = NULL;
	rc = c->why.code && go_without(c, &e) < 0 ? -1 : save_record(c, 0, &e);
	if (rc == 0)
		watch_limits(c);
	c->ops->ready(rc, &e, c->arg);
}

static void on_mounts(const struct proc_id *holder, const struct err *why, void *arg)
{
	struct container *c = arg;

	c->starting = NULL;
	if (holder)
		c->holder = *holder;
	else
		c->why = *why;
	on_made(c);
}

struct container *container_create(struct agent_env *env, const struct container_params *p,
                                   const struct container_ops *ops, void *arg, struct err *e)
{
	struct container *c;
	int rc;

	if (str_check_name(p->name, 128, "launch", e) < 0)
		return NULL;
	c = container_new(env, p, ops, arg);
	clear_rest(c);
	make_groups(c, p);
	/* The holder may take a while: who comes after an agent that dies meanwhile finds it and the groups. */
	if (save_record(c, 1, e) < 0) {
		container_destroy(c);
		return NULL;
	}
	c->later = loop_timer_create(env->loop, on_made, c);
	if (env->cfg.no_namespaces)
		rc = err_set(&c->why, ERR_DENIED, "the agent was started with --no-namespaces");
	else if (FAULT("agent.namespaces"))
		rc = err_set(&c->why, ERR_DENIED, "injected");
	else
		rc = make_mounts(c, p, &c->why);
	if (rc < 0)
		loop_timer_arm(c->later, 0);
	return c;
}

struct container *container_adopt(struct agent_env *env, const struct container_params *p,
                                  const struct container_ops *ops, void *arg, struct err *e)
{
	struct container *c = container_new(env, p, ops, arg);

	if (load_record(c, p->name, e) < 0) {
		container_forget(c);
		return NULL;
	}
	if (c->holder.pid && proc_alive(&c->holder, NULL) != 1) {
		strv_add(&c->notes, "the holder of the namespaces is gone: nothing can be started in them");
		c->holder = (struct proc_id){0};
	}
	if (!c->half)
		watch_limits(c);
	return c;
}

/* ---- what others need ------------------------------------------------------------------------------------
 */

void container_shim(const struct container *c, struct strv *cgroup_procs, struct strv *oom_files,
                    uint32_t *holder_pid, uint64_t *holder_start)
{
	cgroup_procs_files(&c->cg, cgroup_procs);
	/* Also without a limit of its own: a node without memory is not the program's failure. */
	cgroup_oom_files(&c->cg, oom_files);
	*holder_pid = (uint32_t)c->holder.pid;
	*holder_start = c->holder.start_ticks;
}

int container_isolated(const struct container *c)
{
	return c->holder.pid != 0;
}

const struct strv *container_notes(const struct container *c)
{
	return &c->notes;
}

int container_processes(struct container *c)
{
	pid_t *pids = NULL;
	int n = cgroup_pids(&c->cg, &pids);
	struct err e;

	free(pids);
	if (n > 0)
		return n;
	/* Also those that went out of the groups, or were never in. */
	return proc_count_env("HEARTH_TOKEN_LAUNCH", c->token, &e);
}

const struct cgroup *container_groups(const struct container *c)
{
	return &c->cg;
}

int container_oom_seen(struct container *c)
{
	return c->oom || cgroup_oom_kills(&c->cg) > 0;
}

void container_reap(void)
{
	mounts_reap();
}

void container_forget(struct container *c)
{
	if (!c)
		return;
	limits_stop(c->limits);
	limits_stop(c->cache_limits);
	mounts_leave(c->starting); /* the next agent finds it by its mark */
	loop_timer_destroy(c->later);
	cgroup_fini(&c->cg);
	strv_fini(&c->notes);
	free(c->name);
	free(c->work);
	free(c->cache);
	free(c->token);
	free(c->record);
	free(c);
}

void container_destroy(struct container *c)
{
	uint64_t end = clock_boot_us(clock_real()) + REMOVE_MS * 1000;
	struct err e;

	if (!c)
		return;
	limits_stop(c->limits);
	limits_stop(c->cache_limits);
	c->limits = c->cache_limits = NULL;
	if (c->starting)
		mounts_cancel(c->starting);
	else if (c->holder.pid)
		mounts_stop(&c->holder);
	else
		clear_rest(c);
	c->starting = NULL;
	while (cgroup_remove(&c->cg, &e) < 0) {
		if (clock_boot_us(clock_real()) >= end) {
			log_warn("event=cgroup_left reason=\"%s\"", e.text);
			break;
		}
		poll(NULL, 0, 5); /* processes that are just ending still hold it */
	}
	unlink(c->record);
	container_forget(c);
}
