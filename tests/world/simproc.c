/*
 * simproc: shims and the processes they own. The functions of common/os/proc.h, agent/launch/shimlink.h and
 * of the part of shim/shim.h that starts shims, in their place; their files (launch, key, state) are the real
 * ones.
 *
 * A shim that is killed takes its process with it, and its state file says no end: what became of the process
 * is unknown. The end of a process is in the file some time after it happened, and is told after that.
 */
#include "agent/launch/shimlink.h"
#include "common/os/fsutil.h"
#include "shim/shim.h"
#include "tests/world/sim.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define PID_BASE 0x40000000 /* above any real one: a signal by mistake finds nobody */

struct shimlink {
	struct sim_proc *p; /* NULL: no such shim is alive */
	char *dir;
	const struct shimlink_ops *ops;
	void *arg;
	struct loop_timer *timer; /* of the agent */
	int up, gone, ended, released, want_go, want_quit, want_release;
	uint8_t told;
	uint32_t grace_ms;
	enum ended_by by;
};

/* ---- common/os/proc.h -----------------------------------------------------------------------------------
 */

int proc_boot_id(char out[PROC_BOOT_ID_SIZE], struct err *e)
{
	(void)e;
	snprintf(out, PROC_BOOT_ID_SIZE, "%s", sim->now ? sim->now->boot_id : "world");
	return 0;
}

int proc_identify(pid_t pid, struct proc_id *out, struct err *e)
{
	*out = (struct proc_id){.pid = pid, .start_ticks = 1};
	return proc_boot_id(out->boot_id, e);
}

static struct sim_proc *by_id(struct sim_node *n, const struct proc_id *id)
{
	struct sim_proc *p;

	if (!n || strcmp(id->boot_id, n->boot_id) != 0)
		return NULL;
	DL_FOREACH (n->procs, p)
		if (p->shim_pid == id->pid && p->shim_alive)
			return p;
	return NULL;
}

int proc_alive(const struct proc_id *id, struct err *e)
{
	(void)e;
	return by_id(sim->now, id) != NULL;
}

int proc_open(const struct proc_id *id, struct err *e)
{
	struct sim_proc *p = by_id(sim->now, id);

	if (!p)
		return err_set(e, ERR_NOT_FOUND, "gone");
	return SIM_FD + (p->shim_pid - PID_BASE);
}

int proc_signal(int pidfd, int signo, struct err *e)
{
	struct sim_proc *p, *t;

	(void)signo;
	DL_FOREACH_SAFE (sim->now->procs, p, t)
		if (p->shim_alive && SIM_FD + (p->shim_pid - PID_BASE) == pidfd) {
			sim_proc_kill_shim(p);
			return 0;
		}
	return err_set(e, ERR_NOT_FOUND, "gone");
}

int proc_sweep_env(const char *name, const char *value, int signo, int max_rounds, struct err *e)
{
	(void)name;
	(void)signo;
	(void)max_rounds;
	(void)e;
	return sim_procs_kill_token(sim->now, value);
}

int proc_count_env(const char *name, const char *value, struct err *e)
{
	(void)name;
	(void)e;
	return sim_procs_with_token(sim->now, value);
}

const char *proc_signal_name(int signo)
{
	static char text[24];

	snprintf(text, sizeof text, "signal %d", signo);
	return text;
}

/* ---- what a shim does --------------------------------------------------------------------------------- */

static uint64_t soon(void)
{
	return 100 + sim_rnd(&sim->rng_prog, 2000);
}

static void proc_free(struct sim_proc *p)
{
	DL_DELETE(p->n->procs, p);
	loop_timer_destroy(p->next_step);
	loop_timer_destroy(p->kill);
	loop_timer_destroy(p->record);
	loop_timer_destroy(p->look);
	if (p->link)
		p->link->p = NULL;
	free((char *)p->st.text);
	free(p->dir);
	free(p);
}

static void tell_link(struct sim_proc *p)
{
	if (p->link && !loop_timer_armed(p->link->timer))
		loop_timer_arm(p->link->timer, soon());
}

/* A folder that was made anew belongs to another shim: this one holds the old one's inode. */
static int owns_dir(const struct sim_proc *p)
{
	char *key = shim_key_read(p->dir, NULL);
	int own = key && strcmp(key, p->shim_token) == 0;

	free(key);
	return own;
}

static void record(struct sim_proc *p)
{
	struct shim_state s = {.version = SHIM_VERSION, .st = p->st};
	struct err e;

	s.shim = (struct proc_id){.pid = p->shim_pid, .start_ticks = 1};
	memcpy(s.shim.boot_id, p->n->boot_id, sizeof s.shim.boot_id);
	s.st.token = p->shim_token;
	if (owns_dir(p) && shim_state_write(p->dir, &s, &e) < 0)
		sim_bad("state of a shim: %s", e.text);
	tell_link(p);
}

static void set_text(struct sim_proc *p, const char *text)
{
	free((char *)p->st.text);
	p->st.text = xstrdup(text);
}

static void on_record(void *arg)
{
	struct sim_proc *p = arg;

	if (!p->shim_alive)
		return;
	p->st.state = PS_EXITED;
	p->st.exit_code = p->exit_code;
	p->st.signal = p->exit_signal;
	p->st.ended_us = sim_real_us(p->n);
	record(p);
}

/* What the program will do is its job's own: the same at each look, another at each attempt. */
struct script {
	int no_start, hang, deaf, stray; /* deaf: does not mind TERM; stray: leaves a process behind */
	uint32_t code, signal;
	uint64_t run_us;
};

static struct script script_of(const struct sim_proc *p)
{
	uint64_t job = sim->o.seed * 1000003 + p->job * 7919 + p->attempt, mine;
	struct script s = {0};
	uint32_t kind;

	if (sim->o.gentle)
		return (struct script){.run_us = 300000 + 1000 * p->rank};

	for (int i = 0; i < 8; i++)
		sim_rnd(&job, 2);
	kind = sim_rnd(&job, 100);
	s.run_us = sim_span(&job, 20000, 20000000);
	s.no_start = kind >= 98;
	s.hang = kind >= 90 && kind < 98;
	s.deaf = sim_rnd(&job, 8) == 0;
	s.stray = sim_rnd(&job, 10) == 0;
	if (kind >= 75 && kind < 90 && sim_rnd(&job, 2) == p->rank % 2) {
		s.code = kind < 85 ? 1 : 0;
		s.signal = kind < 85 ? 0 : SIGSEGV;
	}
	mine = job + p->rank * 31;
	for (int i = 0; i < 4; i++)
		sim_rnd(&mine, 2);
	s.run_us += sim_rnd(&mine, 100000);
	return s;
}

static void child_ends(struct sim_proc *p, uint32_t code, uint32_t signo)
{
	if (!p->child)
		return;
	if (p->truth && p->truth->dying && signo != SIGKILL) /* it never returns to its program */
		return;
	if (p->stuck_until > simloop_now() && (signo == SIGKILL || signo == SIGTERM)) {
		loop_timer_arm(p->kill, p->stuck_until - simloop_now() + 1000);
		if (p->truth && signo == SIGKILL)
			p->truth->dying = 1;
		return;
	}
	p->child = 0;
	p->stray = script_of(p).stray && p->kind == PROC_RANK;
	p->exit_code = code;
	p->exit_signal = signo;
	loop_timer_cancel(p->next_step);
	loop_timer_cancel(p->kill);
	sim_mpi_ended(p);
	if (p->truth) {
		p->truth->alive = 0;
		p->truth->ended = 1;
		p->truth->exit_code = code;
		p->truth->signal = signo;
		sim_say("%s: rank %u of %llu.%u ends, code %u signal %u", p->n->name, p->rank,
		        (unsigned long long)p->job, p->attempt, code, signo);
	}
	loop_timer_arm(p->record, soon());
}

static void on_step(void *arg)
{
	struct sim_proc *p = arg;
	struct script s = script_of(p);

	if (p->shim_alive && p->st.state == PS_UNKNOWN) { /* up */
		if (!p->ready_bad) {
			p->st.state = PS_WAITING;
			record(p);
		}
		simloop_fire(p->ready_fd);
	} else if (p->child && p->kind != PROC_RANK && !p->kill_at) {
		sim_mpi_step(p);
	} else if (p->child) {
		child_ends(p, p->kill_at ? 0 : s.code, p->kill_at ? SIGTERM : s.signal);
	}
}

static void on_kill(void *arg)
{
	child_ends(arg, 0, SIGKILL);
}

/* The shim and its clock; what it decides by is the real one's. */
static void on_look(void *arg)
{
	struct sim_proc *p = arg;
	cleanup_free char *path = xasprintf("%s/lease", p->n->run);
	uint64_t now = sim_boot_us(p->n), next;
	struct lease_record r;
	int known;

	if (!p->shim_alive || (!p->child && !p->stray))
		return;
	known = lease_file_read(path, &r, NULL) == 0 && strcmp(r.boot_id, p->n->boot_id) == 0;
	next = lease_switch_look(&p->lease, known ? &r : NULL, now, 0);
	if (next) {
		loop_timer_arm(p->look, next - now);
		return;
	}
	sim_say("%s: the lease is over, the shim of rank %u of %llu.%u ends it", p->n->name, p->rank,
	        (unsigned long long)p->job, p->attempt);
	p->st.ended_by = BY_LEASE;
	child_ends(p, 0, SIGKILL);
	p->stray = 0;
}

void sim_proc_go(struct sim_proc *p)
{
	struct script s = script_of(p);

	if (!p->shim_alive || p->st.state != PS_WAITING)
		return;
	p->st.started_us = sim_real_us(p->n);
	if (s.no_start && p->kind == PROC_RANK) {
		p->st.state = PS_FAILED;
		p->st.ended_us = p->st.started_us;
		set_text(p, "command not found");
		record(p);
		return;
	}
	p->child = 1;
	p->st.state = PS_RUNNING;
	p->st.pid = (uint32_t)p->shim_pid + 1;
	loop_timer_arm(p->look, 0);
	if (p->kind == PROC_RANK)
		p->truth = sim_check_start(p);
	if (p->kind != PROC_RANK)
		loop_timer_arm(p->next_step, soon());
	else if (!s.hang)
		loop_timer_arm(p->next_step, s.run_us);
	record(p);
}

void sim_proc_quit(struct sim_proc *p, uint32_t grace_ms, enum ended_by by)
{
	struct script s = script_of(p);
	uint64_t at = simloop_now() + (uint64_t)grace_ms * 1000;

	if (!p->shim_alive)
		return;
	if (p->st.state == PS_WAITING) {
		p->st.state = PS_FAILED;
		p->st.ended_us = sim_real_us(p->n);
		set_text(p, "it was told to end before it was started");
		record(p);
	} else if (p->child && (!p->kill_at || at < p->kill_at)) {
		if (!p->kill_at && !s.deaf)
			loop_timer_arm(p->next_step, 1000 + sim_rnd(&sim->rng_prog, 500000));
		if (!p->kill_at)
			p->st.ended_by = (uint8_t)by; /* told with the end */
		p->kill_at = at;
		loop_timer_arm(p->kill, (uint64_t)grace_ms * 1000);
	}
}

void sim_proc_exit(struct sim_proc *p, uint32_t code)
{
	child_ends(p, code, 0);
}

void sim_proc_kill_child(struct sim_proc *p, int signo)
{
	child_ends(p, 0, (uint32_t)signo);
}

void sim_proc_kill_shim(struct sim_proc *p)
{
	int fd = p->st.state == PS_UNKNOWN ? p->ready_fd : -1;

	if (!p->shim_alive)
		return;
	sim_say("%s: shim of rank %u of %llu.%u is killed", p->n->name, p->rank, (unsigned long long)p->job,
	        p->attempt);
	p->shim_alive = 0;
	p->ready_bad = 1;
	if (p->truth && p->st.state == PS_RUNNING)
		p->truth->shim_died = 1;
	child_ends(p, 0, SIGKILL);
	loop_timer_cancel(p->record);
	loop_timer_cancel(p->next_step);
	if (fd >= 0)
		simloop_fire(fd);
	tell_link(p);
}

static void release(struct sim_proc *p)
{
	cleanup_free char *path = xasprintf("%s/state", p->dir);

	if (!p->shim_alive || (p->st.state != PS_EXITED && p->st.state != PS_FAILED))
		return;
	if (owns_dir(p))
		remove(path);
	p->shim_alive = 0;
	tell_link(p);
}

void sim_procs_unlink(struct sim_node *n)
{
	struct sim_proc *p;

	DL_FOREACH (n->procs, p)
		p->link = NULL;
}

void sim_procs_power_off(struct sim_node *n)
{
	struct sim_proc *p, *t;

	DL_FOREACH_SAFE (n->procs, p, t) {
		if (p->truth && p->st.state == PS_RUNNING)
			p->truth->power = 1;
		sim_mpi_ended(p);
		if (p->child && p->truth) {
			p->truth->alive = 0;
			p->truth->ended = 1;
			p->truth->signal = SIGKILL;
		}
		proc_free(p);
	}
}

int sim_procs_kill_token(struct sim_node *n, const char *token)
{
	struct sim_proc *p;
	int hit = 0;

	DL_FOREACH (n->procs, p) {
		if (strcmp(p->token, token) != 0)
			continue;
		hit += p->child || p->stray;
		child_ends(p, 0, SIGKILL); /* once it wakes up, if it is stuck */
		p->stray = 0;
	}
	return hit;
}

int sim_procs_with_token(const struct sim_node *n, const char *token)
{
	const struct sim_proc *p;
	int count = 0;

	DL_FOREACH (n->procs, p)
		count += (p->child || p->stray) && strcmp(p->token, token) == 0;
	return count;
}

/* ---- starting a shim ---------------------------------------------------------------------------------- */

int shim_spawn(const char *shim_path, const char *dir, pid_t *pid, int *ready_fd, struct err *e)
{
	struct shim_launch l;
	struct sim_proc *p;

	(void)shim_path;
	sim_crash_point();
	sim_check_effect("starts a shim");
	if (shim_launch_read(dir, &l, e) < 0)
		return -1;
	if (sim->data_faults && sim_one_in(&sim->rng_prog, 300)) {
		shim_launch_fini(&l);
		return err_set(e, ERR_IO, "no more processes");
	}
	p = xcalloc(1, sizeof *p);
	p->n = sim->now;
	p->dir = xstrdup(dir);
	snprintf(p->token, sizeof p->token, "%s", l.token);
	snprintf(p->shim_token, sizeof p->shim_token, "%s", l.shim_token);
	p->job = l.job;
	p->attempt = l.attempt;
	p->rank = l.rank;
	p->kind = l.kind;
	sim_check_gang(p);
	p->shim_alive = 1;
	p->shim_pid = PID_BASE + 2 * ++sim->next_pid;
	p->ready_fd = SIM_FD + (1 << 28) + ++sim->next_fd;
	p->ready_bad = sim->data_faults && sim_one_in(&sim->rng_prog, 200);
	p->st = (struct wm_shim_status){.version = SHIM_VERSION, .kind = l.kind, .text = xstrdup("")};
	p->next_step = sim_later(on_step, p);
	p->kill = sim_later(on_kill, p);
	p->record = sim_later(on_record, p);
	p->look = sim_later(on_look, p);
	shim_launch_fini(&l);
	DL_APPEND(p->n->procs, p);
	loop_timer_arm(p->next_step, sim_span(&sim->rng_prog, 1000, 50000));
	*pid = p->shim_pid;
	*ready_fd = p->ready_fd;
	sim_crash_point();
	return 0;
}

static void identity_of(const struct sim_proc *p, struct proc_id *id)
{
	*id = (struct proc_id){.pid = p->shim_pid, .start_ticks = 1};
	memcpy(id->boot_id, p->n->boot_id, sizeof id->boot_id);
}

int shim_identify(const char *dir, struct proc_id *id, struct err *e)
{
	const struct sim_proc *p;

	DL_FOREACH (sim->now->procs, p) {
		if (!p->shim_alive || strcmp(p->dir, dir) != 0)
			continue;
		identity_of(p, id);
		return 0;
	}
	return err_set(e, ERR_UNAVAILABLE, "%s/ctl: no shim is listening", dir);
}

int shim_ready(int ready_fd, const char *dir, struct proc_id *id, struct err *e)
{
	struct sim_proc *p;

	DL_FOREACH (sim->now->procs, p) {
		if (p->ready_fd != ready_fd)
			continue;
		if (p->ready_bad) {
			sim_proc_kill_shim(p); /* the caller would, by its number */
			break;
		}
		identity_of(p, id);
		return 0;
	}
	return err_set(e, ERR_UNAVAILABLE, "the shim in %s ended before it was ready", dir);
}

/* ---- agent/launch/shimlink.h
 * --------------------------------------------------------------------------------- */

static void link_gone(struct shimlink *l)
{
	struct shim_state s;
	int lost = 0;

	l->gone = 1;
	if (l->p) {
		l->p->link = NULL;
		if (!l->p->shim_alive && !l->p->child && !l->p->stray)
			proc_free(l->p);
		l->p = NULL;
	}
	if (!l->ended && !l->released) {
		lost = 1;
		if (shim_state_read(l->dir, &s, NULL) == 0) {
			lost = s.st.state != PS_EXITED && s.st.state != PS_FAILED && s.st.state != PS_LOST;
			if (!lost)
				l->ops->status(&s.st, l->arg);
			shim_state_fini(&s);
		}
	}
	l->ops->gone(lost, l->arg);
}

static void link_orders(struct shimlink *l)
{
	if (l->want_go)
		sim_proc_go(l->p);
	if (l->want_quit && !l->ended)
		sim_proc_quit(l->p, l->grace_ms, l->by);
	if (l->want_release)
		release(l->p);
	l->want_go = l->want_quit = l->want_release = 0;
}

static void on_link(void *arg)
{
	struct shimlink *l = arg;
	struct wm_shim_status st;

	if (l->gone)
		return;
	if (!l->p || !l->p->shim_alive) {
		link_gone(l);
		return;
	}
	l->up = 1;
	link_orders(l);
	if (!l->p->shim_alive) { /* released */
		loop_timer_arm(l->timer, soon());
		return;
	}
	if (l->p->st.state == l->told)
		return;
	st = l->p->st;
	st.token = l->p->shim_token;
	l->told = st.state;
	if (st.state == PS_EXITED || st.state == PS_FAILED)
		l->ended = 1;
	l->ops->status(&st, l->arg);
}

struct shimlink *shimlink_create(struct agent_env *env, const char *dir, const char *token,
                                 const struct proc_id *id, const struct shimlink_ops *ops, void *arg)
{
	struct shimlink *l = xcalloc(1, sizeof *l);

	(void)token;
	l->dir = xstrdup(dir);
	l->ops = ops;
	l->arg = arg;
	l->p = by_id(simloop_tag_of(env->loop), id);
	if (l->p)
		l->p->link = l;
	l->timer = loop_timer_create(env->loop, on_link, l);
	/* A shim that is busy with its rank's output answers late. */
	loop_timer_arm(l->timer, sim_one_in(&sim->rng_prog, 3) ? sim_span(&sim->rng_prog, 1000, 150000) : soon());
	return l;
}

void shimlink_destroy(struct shimlink *l)
{
	if (!l)
		return;
	if (l->p) {
		l->p->link = NULL;
		if (!l->p->shim_alive && !l->p->child && !l->p->stray)
			proc_free(l->p);
	}
	loop_timer_destroy(l->timer);
	free(l->dir);
	free(l);
}

static void order(struct shimlink *l)
{
	if (!l->gone)
		loop_timer_arm(l->timer, soon());
}

void shimlink_go(struct shimlink *l, const struct strv *argv, const struct strv *envp)
{
	(void)argv;
	(void)envp;
	sim_check_effect("starts a process");
	sim_crash_point();
	if (l->up && l->p) { /* it is in the socket: the death of the agent does not take it back */
		sim_proc_go(l->p);
		return;
	}
	l->want_go = 1;
	order(l);
}

/* hearthd parks nothing in the world. */
void shimlink_start(struct shimlink *l, const struct strv *argv, const struct strv *envp, const char *cwd,
                    int preloaded)
{
	(void)cwd;
	(void)preloaded;
	shimlink_go(l, argv, envp);
}

int shimlink_check_start(const struct strv *argv, const struct strv *envp, const char *cwd, struct err *e)
{
	(void)argv;
	(void)envp;
	(void)cwd;
	(void)e;
	return 0;
}

int shimlink_probe(struct shimlink *l)
{
	return !l->gone;
}

void shimlink_signal(struct shimlink *l, int signo, int only_if_caught)
{
	(void)l;
	(void)signo;
	(void)only_if_caught;
}

void shimlink_quit(struct shimlink *l, uint32_t grace_ms, enum ended_by by)
{
	if (l->ended || l->gone)
		return;
	sim_check_effect("ends a process");
	sim_crash_point();
	l->want_quit = 1;
	l->grace_ms = grace_ms;
	l->by = by;
	order(l);
}

void shimlink_release(struct shimlink *l)
{
	sim_crash_point();
	l->released = 1;
	l->want_release = 1;
	order(l);
}

int shimlink_has_answered(const struct shimlink *l)
{
	return !l->gone;
}

int shimlink_is_gone(const struct shimlink *l)
{
	return l->gone;
}
