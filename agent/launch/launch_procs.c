/*
 * launch_procs: lists the processes of a launch on this node, writes the order for each one's shim, and
 * starts the shims.
 *
 * - mpirun: on the main node mpirun and its ranks, on others orted and its ranks. Ranks wait for the go of
 *   hearth-rank, orted for ORTED_START.
 * - direct: ranks, which wait for the agent's go.
 * - torchrun: torchrun, and its ranks, which wait for hearth-rank's go as under mpirun.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/command/env.h"
#include "agent/command/launcher.h"
#include "agent/command/mpi.h"
#include "agent/launch/launch_park.h"
#include "agent/launch/launch_steps.h"
#include "agent/launch/shimlink.h"
#include "common/base/buf.h"
#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/secret.h"
#include "common/base/strutil.h"
#include "common/os/fsutil.h"
#include "common/spec/preload.h"
#include "common/tree/steps.h"
#include "shim/shim.h"

#define SLOW_MS         150
#define SEGMENT_BYTES   (8u * 1024 * 1024)
#define LOG_MAX_DEFAULT (1024ull * 1024 * 1024)
#define TOKEN_DIGITS    32
#define ENTRIES_MAX     65536

void launch_list_procs(struct launch *l)
{
	const struct launcher_facts *f = launcher_facts(l->plan->spec->launcher);
	uint8_t kind = l->plan->m->node_rank == 0 ? f->first_kind : f->other_kind;

	if (kind)
		lproc_new(l, kind, NO_RANK);
	for (uint32_t i = 0; i < l->plan->local_ranks; i++)
		lproc_new(l, PROC_RANK, i);
}

/* ---- CPUs and GPUs of a rank ------------------------------------------------------------------------ */

/* GPUs of one rank when each sees its own: dealt out evenly, in order. */
static void own_gpus(const struct launch *l, uint32_t local_rank, uint32_t *from, uint32_t *n)
{
	uint32_t gpus = l->plan->m->gpus.n, ranks = l->plan->local_ranks;

	*from = (uint32_t)((uint64_t)local_rank * gpus / ranks);
	*n = (uint32_t)((uint64_t)(local_rank + 1) * gpus / ranks) - *from;
}

/* Returns the CPUs that the spec asks for, pinned or not. */
static uint32_t cpus_per_rank(const struct launch *l)
{
	const struct spec_group *g = spec_group_of(l->plan->spec, l->plan->m->node_rank);

	return g && g->cpus_per_rank ? g->cpus_per_rank : 1;
}

static void take_out(uint32_t *set, uint32_t *n, uint32_t cpu)
{
	for (uint32_t k = 0; k < *n; k++)
		if (set[k] == cpu) {
			set[k] = set[--*n];
			return;
		}
}

/* CPUs of local rank L near its GPUs, none given twice: the ranks before it choose first. Returns how many;
 * 0: not pinned. */
static uint32_t rank_cpus(const struct launch *l, uint32_t local_rank, uint32_t *out)
{
	const struct wire_u32v *gpus = &l->plan->m->gpus;
	uint32_t want = cpus_per_rank(l), n_left = l->n_cpus, n = 0;
	cleanup_free uint32_t *left = xcalloc(l->n_cpus + 1, sizeof(*left));

	if (l->n_cpus == 0)
		return 0;
	memcpy(left, l->cpus, l->n_cpus * sizeof(*left));
	for (uint32_t r = 0; r <= local_rank && n_left; r++) {
		uint32_t from, n_gpus;

		own_gpus(l, r, &from, &n_gpus);
		n = inventory_cpus_near(l->host->inv, n_gpus ? gpus->v + from : NULL, n_gpus, left, n_left,
		                        want < n_left ? want : n_left, out);
		for (uint32_t i = 0; i < n && r < local_rank; i++)
			take_out(left, &n_left, out[i]);
	}
	return n;
}

static char *visible_devices(const struct launch *l, uint32_t local_rank)
{
	const struct wire_u32v *gpus = &l->plan->m->gpus;
	uint32_t from = 0, n = gpus->n;

	if (l->plan->spec->gpu_visibility_one && local_rank != NO_RANK)
		own_gpus(l, local_rank, &from, &n);
	return inventory_visible_devices(l->host->inv, n ? gpus->v + from : NULL, n);
}

/* ---- environment ------------------------------------------------------------------------------------ */

/* Scripts that talk to hearthd over TLS need its authority. */
static int has_ca(const struct launch *l)
{
	return strncmp(l->plan->m->url, "https:", 6) == 0 && l->host->ca_pem;
}

/* Before staging: while ml is closed to the job's account (launch_dirs.c). */
int launch_write_config(struct launch *l, struct err *e)
{
	cleanup_free char *dir = xasprintf("%s/input/config", l->paths.ml);
	cleanup_free char *ca = xasprintf("%s/hearth-ca.pem", dir);
	struct env_in in = {.plan = l->plan,
	                    .paths = &l->paths,
	                    .user = &l->user,
	                    .ifname = l->host->ifname,
	                    .instance_type = l->host->env->cfg.instance_type};

	if (has_ca(l) && fs_replace(ca, l->host->ca_pem, strlen(l->host->ca_pem), 0644, e) < 0)
		return -1;
	return env_files(&in, dir, e);
}

static void note_environment(struct launch *l, const struct lproc *p, const struct strv *env)
{
	struct strv masked = {0};
	struct buf lines;

	if (launch_is_parking(l))
		return;
	env_masked(env, &masked);
	buf_init(&lines, SIZE_MAX);
	for (size_t i = 0; i < masked.n; i++) {
		buf_put(&lines, "\n  ", 3);
		buf_put(&lines, masked.v[i], strlen(masked.v[i]));
	}
	launch_say(l, "environment of %s:%.*s", p->name, (int)lines.len, (const char *)lines.data);
	buf_fini(&lines);
	strv_fini(&masked);
}

/* The entry of that step; of several the first by name. NULL: none. */
static char *step_entry(const struct launch *l, int64_t step)
{
	cleanup_close int ml = open(l->paths.ml, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int fd = ml < 0 ? -1 : fs_open_below(ml, "checkpoints", O_RDONLY | O_DIRECTORY, 0);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *one;
	char *found = NULL;

	/* The folder is the account's: not without end, on the loop. */
	for (int i = 0; d && i < ENTRIES_MAX && (one = readdir(d)); i++) {
		if (steps_entry(one->d_name, strlen(one->d_name)) != step ||
		    (found && strcmp(found, one->d_name) <= 0))
			continue;
		free(found);
		found = xstrdup(one->d_name);
	}
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	return found;
}

/* Returns the path to resume from: the entry of the named step; or the whole folder when no step was named,
 * or when the staged files have no folders by step. */
static char *resume_path(const struct launch *l)
{
	const struct wm_prepare *m = l->plan->m;
	cleanup_free char *found = m->resume_name[0]     ? xstrdup(m->resume_name)
	                           : m->resume_step >= 0 ? step_entry(l, m->resume_step)
	                                                 : NULL;

	return xasprintf("%s/checkpoints%s%s", l->paths.ml_seen, found ? "/" : "", found ? found : "");
}

static struct launcher_in launcher_in_of(const struct launch *l)
{
	return (struct launcher_in){.plan = l->plan,
	                            .rsh = l->host->rsh_path,
	                            .rank = l->host->rank_path,
	                            .run_dir = l->paths.run,
	                            .cidr = l->host->cidr,
	                            .as_root = l->user.uid == 0,
	                            .has_fabric = inventory_has_fabric(l->host->inv)};
}

static void proc_environment(struct lproc *p, struct strv *out)
{
	struct launch *l = p->l;
	const struct launcher_actions *actions = launcher_actions(l->plan->spec->launcher);
	const struct launcher_in launcher_in = launcher_in_of(l);
	cleanup_free char *run_tmp = xasprintf("%s/t", l->paths.run);
	cleanup_free char *job_tmp = xasprintf("%s/tmp", l->paths.work);
	cleanup_free char *shm = xasprintf("%s/s", l->paths.run);
	cleanup_free char *resume = resume_path(l);
	cleanup_free char *visible = visible_devices(l, p->local_rank);
	cleanup_free char *ca = xasprintf("%s/input/config/hearth-ca.pem", l->paths.ml_seen);
	struct strv left_out = {0};
	struct env_in in = {.plan = l->plan,
	                    .paths = &l->paths,
	                    .user = &l->user,
	                    .local_rank = p->kind == PROC_RANK ? p->local_rank : NO_RANK,
	                    .cpus = cpus_per_rank(l),
	                    .node_cpus = l->n_cpus ? l->n_cpus : cpus_per_rank(l) * l->plan->local_ranks,
	                    .visible = visible,
	                    .ifname = l->host->ifname,
	                    .instance_type = l->host->env->cfg.instance_type,
	                    .venv_bin = l->venv_bin,
	                    .mpi_bin = l->host->mpi_bin,
	                    .tools_bin = l->host->tools_bin,
	                    .tmpdir = l->own_tmp ? "/tmp" : job_tmp,
	                    .resume_dir =
	                        l->plan->m->resume_from[0] || l->plan->m->resume_name[0] ? resume : NULL,
	                    .shm_dir = l->own_tmp ? NULL : shm,
	                    .left_out = &left_out};

	if (p->kind != PROC_RANK && actions->bare_env) {
		in.tmpdir = l->own_tmp ? "/tmp" : run_tmp;
		env_launcher(&in, l->host->sock_path, out);
		actions->add_env(&launcher_in, out);
		return;
	}
	in.ca_file = has_ca(l) ? ca : NULL;
	env_rank(&in, out);
	for (size_t i = 0; i < left_out.n; i++)
		launch_say(l, "%s is too long for an environment variable and was left out", left_out.v[i]);
	strv_fini(&left_out);
	if (p->kind != PROC_RANK && actions->add_env)
		actions->add_env(&launcher_in, out);
	if (p->local_rank == 0)
		note_environment(l, p, out);
}

/* ---- command ----------------------------------------------------------------------------------------------
 */

/* Shows the launcher's line in the system stream and in the record of the run. */
static void show_line(struct launch *l, const char *kind, const struct strv *argv)
{
	cleanup_free char *line = mpi_line(argv);
	cleanup_free char *shown = secret_text(line);

	launch_say(l, "%s: %s", kind, shown);
	launch_run_info(l, kind, shown);
}

static void launcher_command(const struct launch *l, struct strv *argv)
{
	const struct launcher_actions *actions = launcher_actions(l->plan->spec->launcher);
	const struct launcher_in in = launcher_in_of(l);

	if (l->plan->m->node_rank != 0)
		actions->other_argv(&in, argv);
	else
		actions->first_argv(&in, argv);
}

void launch_show_line(struct launch *l)
{
	const char *info = launcher_actions(l->plan->spec->launcher)->line_info;
	struct strv argv = {0};

	if (!info || l->plan->m->node_rank != 0)
		return;
	launcher_command(l, &argv);
	show_line(l, info, &argv);
	strv_fini(&argv);
}

static void proc_command(struct lproc *p, struct strv *argv)
{
	if (p->kind == PROC_RANK) {
		plan_argv(p->l->plan, argv);
		return;
	}
	launcher_command(p->l, argv);
	if (!launch_is_parking(p->l))
		launch_show_line(p->l);
}

/* ---- the shim's order ------------------------------------------------------------------------------- */

void launch_order(const struct launch *l, struct shim_launch *s)
{
	s->token = xstrdup(l->plan->m->token);
	s->job = l->job;
	s->attempt = l->attempt;
	s->set_ids = (uint8_t)(l->host->env->is_root != 0);
	s->uid = l->user.uid;
	s->gid = l->user.gid;
	s->user = xstrdup(l->user.name);
	container_shim(l->container, &s->cgroup_procs, &s->oom_files, &s->container_pid, &s->container_start);
	s->memlock_unlimited = (uint8_t)(inventory_has_fabric(l->host->inv) != 0);
	s->allow_setuid = (uint8_t)(l->host->env->cfg.allow_setuid != 0);
	s->core_files = (uint8_t)(l->host->env->cfg.core_files != 0);
	s->lease = xasprintf("%s/lease", l->host->env->cfg.run_dir);
}

/* While a launch is parked ml is closed to its account. */
static char *start_folder(const struct launch *l)
{
	if (!launch_is_parking(l))
		return xasprintf("%s/code", l->paths.ml_seen);
	return l->own_tmp ? xstrdup("/tmp") : xasprintf("%s/tmp", l->paths.work);
}

/* ---- parked ranks ----------------------------------------------------------------------------------- */

/* The interpreter that waits for a command; none where none can. */
static void park_command(const struct launch *l, const struct strv *argv, struct strv *out)
{
	struct preload_command c;

	if (l->plan->spec->preload.n && l->host->park_path && preload_split(argv, &c, NULL) == 0)
		preload_park_argv(argv, l->plan->spec, l->host->park_path, out);
}

static int same_words(const struct strv *a, const struct strv *b)
{
	for (size_t i = 0; i < a->n && a->n == b->n; i++)
		if (strcmp(a->v[i], b->v[i]) != 0)
			return 0;
	return a->n == b->n;
}

/* malloc'ed: why the interpreter that waits cannot run this; NULL: it can. */
static char *interpreter_differs(const struct lproc *p, const struct shim_launch *order)
{
	struct strv want = {0};
	char *why = NULL;

	park_command(p->l, &p->start->argv, &want);
	if (!want.n)
		why = xstrdup("the job has no preload, or another kind of command");
	else if (!same_words(&want, &order->park_argv))
		why = xstrdup("it has another interpreter or other modules");
	else if (strncmp(p->text, SHIM_TEXT_READY, strlen(SHIM_TEXT_READY)) != 0)
		why = xstrdup(p->text);
	strv_fini(&want);
	return why ? why : preload_env_differs(&order->env, &p->start->env);
}

static int fits_interpreter(const struct lproc *p)
{
	struct shim_launch order = {0};
	cleanup_free char *why = NULL;
	struct err e = {0};
	int waits;

	if (shim_launch_read(p->dir, &order, &e) < 0) {
		log_warn("event=shim_order_unreadable dir=%s reason=\"%s\"", p->dir, e.text);
		return 0;
	}
	waits = order.park_argv.n != 0;
	if (waits)
		why = interpreter_differs(p, &order);
	if (why)
		launch_say(p->l, "rank %u: the interpreter that waits is not used: %s", p->rank, why);
	shim_launch_fini(&order);
	return waits && !why;
}

int launch_make_start(struct lproc *p, struct err *e)
{
	cleanup_free char *cwd = start_folder(p->l);

	lproc_free_start(p);
	p->start = xcalloc(1, sizeof(*p->start));
	proc_environment(p, &p->start->env);
	proc_command(p, &p->start->argv);
	p->start->preloaded = fits_interpreter(p);
	return shimlink_check_start(&p->start->argv, &p->start->env, cwd, e);
}

void launch_start_rank(struct lproc *p)
{
	cleanup_free char *cwd = start_folder(p->l);

	if (!p->start)
		launch_make_start(p, NULL); /* by an earlier agent it was not too large */
	p->went = 1;
	shimlink_start(p->link, &p->start->argv, &p->start->env, cwd, p->start->preloaded);
}

void launch_start_refused(struct lproc *p, enum err_code code, const char *text)
{
	if (code == ERR_UNSUPPORTED && p->start && p->start->preloaded) { /* it ended in between */
		launch_say(p->l, "rank %u: the interpreter that waits is not used: %s", p->rank, text);
		p->start->preloaded = 0;
		launch_start_rank(p);
		return;
	}
	shimlink_quit(p->link, 0, BY_ORDER);
	lproc_end(p, PS_FAILED, text);
}

/* ---- the shim's order for a process ----------------------------------------------------------------- */

static void fill_launch(struct lproc *p, struct shim_launch *s)
{
	struct launch *l = p->l;
	cleanup_free uint32_t *cpus = xcalloc(l->n_cpus + 1, sizeof(*cpus));
	uint32_t n = l->n_cpus;
	char digits[TOKEN_DIGITS + 1];

	launch_order(l, s);
	random_hex(digits, TOKEN_DIGITS);
	s->shim_token = xstrdup(digits);
	s->kind = p->kind;
	s->rank = p->rank;
	s->cwd = start_folder(l);
	s->logdir = xstrdup(p->logdir);
	s->wait_go = 1;
	s->metrics = p->kind == PROC_RANK;
	s->park = p->kind == PROC_RANK && launch_is_parking(l);
	s->await_launcher = s->park && !launcher_facts(l->plan->spec->launcher)->ranks_at_go;
	s->segment_bytes = SEGMENT_BYTES;
	s->max_bytes = l->host->env->cfg.log_max_bytes ? l->host->env->cfg.log_max_bytes : LOG_MAX_DEFAULT;
	s->grace_ms = l->plan->m->grace_ms;
	if (p->kind == PROC_RANK)
		n = rank_cpus(l, p->local_rank, cpus);
	else if (n)
		memcpy(cpus, l->cpus, n * sizeof(*cpus));
	for (uint32_t i = 0; i < n; i++)
		wire_u32v_add(&s->cpus, cpus[i]);
	proc_environment(p, &s->env);
	proc_command(p, &s->argv);
	if (s->park)
		park_command(l, &s->argv, &s->park_argv);
}

/* ---- starting a shim -------------------------------------------------------------------------------- */

static void drop_ready(struct lproc *p)
{
	loop_fd_destroy(p->ready);
	p->ready = NULL;
	p->ready_fd = -1;
}

/* The node's fault and none of the command's: told as a failed preparation, not as a rank that could not
 * start. */
static void shim_failed(struct lproc *p, const char *text)
{
	struct launch *l = p->l;

	p->unsaid = 1;
	lproc_end(p, PS_FAILED, text);
	launch_fail(l, RC_AGENT, text);
}

static void on_ready(int fd, int what, void *arg)
{
	struct lproc *p = arg;
	struct err e = {0};
	char *token;

	(void)what;
	drop_ready(p);
	if (shim_ready(fd, p->dir, &p->id, &e) < 0) {
		cleanup_free char *text = xasprintf("%s: %s", p->name, e.text);

		/* Not reaped yet, so the number is still that of our child. */
		if (kill(p->spawned, SIGKILL) == 0)
			waitpid(p->spawned, NULL, 0);
		p->spawned = 0;
		shim_failed(p, text);
		return;
	}
	p->spawned = 0;
	token = shim_key_read(p->dir, &e);
	if (!token) {
		shim_failed(p, e.text);
		return;
	}
	free(p->token);
	p->token = token;
	lproc_watch(p);
	if (p->quit)
		lproc_quit(p, 0, BY_ORDER);
}

int launch_spawn_proc(struct lproc *p, struct err *e)
{
	struct shim_launch s = {0};
	int rc;

	if (FAULT("agent.slow_spawn"))
		poll(NULL, 0, SLOW_MS); /* as it is on a machine under load */
	if ((mkdir(p->dir, 0711) < 0 && errno != EEXIST) || chmod(p->dir, 0711) < 0)
		return err_sys(e, errno, "%s", p->dir);
	if (mkdir(p->logdir, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "%s", p->logdir);
	fill_launch(p, &s);
	rc = shim_launch_write(p->dir, &s, e);
	shim_launch_fini(&s);
	if (rc < 0)
		return -1;
	if (shim_spawn(p->l->host->shim_path, p->dir, &p->spawned, &p->ready_fd, e) < 0) {
		p->spawned = 0;
		p->ready_fd = -1;
		return err_wrap(e, "%s", p->name);
	}
	p->ready = loop_fd_create(p->l->host->env->loop, p->ready_fd, LOOP_READ, on_ready, p);
	return 0;
}
