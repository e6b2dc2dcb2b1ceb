/*
 * simdata: what serves a launch on its node, in memory: inventory, staging, containers, uploads, log tails.
 * Steps take their time, fail now and then and sometimes hang; a container kills what carries its launch's
 * mark. The functions of the rooms machine, container, logs and stage, of
 * agent/command/env.h and of agent/base/user.h, in their place.
 */
#include "agent/base/priority.h"
#include "agent/base/trash.h"
#include "agent/base/user.h"
#include "agent/command/env.h"
#include "agent/container/container.h"
#include "agent/container/sweeper.h"
#include "agent/control/session.h"
#include "agent/logs/nodelog.h"
#include "agent/logs/tailer.h"
#include "agent/machine/inventory.h"
#include "agent/stage/packages.h"
#include "agent/stage/stage.h"
#include "agent/stage/upload.h"
#include "common/os/fsutil.h"
#include "tests/world/sim.h"
#include <stdio.h>
#include <string.h>

void sim_data_start(void)
{
	sim_keep_start();
	sim->data_faults = (sim->o.faults >> SIM_F_DATA) & 1;
}

/* The world has no data link. */
struct workers *data_link_workers(struct data_link *b, enum data_link_pool pool)
{
	(void)b;
	(void)pool;
	return NULL;
}

void data_link_dial_now(struct data_link *b)
{
	(void)b;
}

/* ---- inventory ---------------------------------------------------------------------------------------- */

void inventory_fill(struct inventory *inv, struct wm_inventory *m)
{
	const struct sim_node *n = sim->now;
	char line[80];

	(void)inv;
	*m = (struct wm_inventory){.port_lo = 21000, .port_hi = 21099, .cpus = SIM_SLOTS, .slots = SIM_SLOTS};
	m->address = xstrdup(n->address);
	m->interface_name = xstrdup("");
	m->fabric_interface = xstrdup("");
	m->memory_bytes = (uint64_t)64 << 30;
	m->disk_bytes = (uint64_t)500 << 30;
	for (uint32_t i = 0; i < SIM_GPUS; i++) {
		snprintf(line, sizeof line, "%u|GPU-%u|A100|85899345920|0|0|%u", i, i, i);
		wire_strv_add(&m->gpus, line);
	}
	m->instance_type = xstrdup("box");
	m->topology = xstrdup("{}");
	m->os_user = xstrdup("");
	m->hostname = xstrdup("");
}

void inventory_beat(struct inventory *inv, struct wm_beat *m)
{
	(void)inv;
	*m = (struct wm_beat){.load1 = 0.5};
}

uint32_t inventory_slot_cpu(struct inventory *inv, uint32_t slot)
{
	(void)inv;
	return slot;
}

uint32_t inventory_cpus_near(struct inventory *inv, const uint32_t *gpus, uint32_t n_gpus,
                             const uint32_t *cpus, uint32_t n_cpus, uint32_t want, uint32_t *out)
{
	(void)inv;
	(void)gpus;
	(void)n_gpus;
	for (uint32_t i = 0; i < want && i < n_cpus; i++)
		out[i] = cpus[i];
	return want < n_cpus ? want : n_cpus;
}

char *inventory_visible_devices(struct inventory *inv, const uint32_t *gpus, uint32_t n)
{
	(void)inv;
	(void)gpus;
	(void)n;
	return xstrdup("");
}

void inventory_devices(struct inventory *inv, const uint32_t *gpus, uint32_t n, struct strv *out)
{
	(void)inv;
	(void)gpus;
	(void)n;
	(void)out;
}

int inventory_gpus_idle(struct inventory *inv, const uint32_t *gpus, uint32_t n, uint64_t since_us,
                        uint32_t *gpu, uint64_t *used)
{
	(void)inv;
	(void)since_us;
	(void)gpus;
	(void)n;
	(void)gpu;
	(void)used;
	return 1;
}

int inventory_has_fabric(const struct inventory *inv)
{
	(void)inv;
	return 0;
}

void inventory_software(struct inventory *inv, struct strv *out)
{
	(void)inv;
	strv_add(out, "world=1");
}

/* ---- containers ---------------------------------------------------------------------------------------- */

struct sim_container { /* what is left of one on its node when the agent dies */
	char *name;
	char boot_id[PROC_BOOT_ID_SIZE];
	struct sim_container *next;
};

struct container {
	struct sim_node *n;
	char *token, *name;
	struct loop_timer *making; /* NULL: it is made */
	const struct container_ops *ops;
	void *arg;
};

static struct container *container_new(const struct container_params *p)
{
	struct container *c = xcalloc(1, sizeof *c);

	c->n = sim->now;
	c->token = xstrdup(p->token);
	c->name = xstrdup(p->name);
	return c;
}

static struct sim_container *container_find(struct sim_node *n, const char *name)
{
	for (struct sim_container *s = n->containers; s; s = s->next)
		if (strcmp(s->name, name) == 0 && strcmp(s->boot_id, n->boot_id) == 0)
			return s;
	return NULL;
}

static void on_made(void *arg)
{
	struct container *c = arg;
	int bad = sim->data_faults && sim_one_in(&sim->rng_prog, 200);
	struct err why = {0};

	loop_timer_destroy(c->making);
	c->making = NULL;
	if (bad)
		err_set(&why, ERR_TIMEOUT, "a file server does not answer");
	c->ops->ready(bad ? -1 : 0, &why, c->arg);
}

struct container *container_create(struct agent_env *env, const struct container_params *p,
                                   const struct container_ops *ops, void *arg, struct err *e)
{
	struct sim_container *s;
	struct container *c;

	sim_crash_point();
	if (sim->data_faults && sim_one_in(&sim->rng_prog, 200)) {
		err_set(e, ERR_IO, "no cgroup");
		return NULL;
	}
	if (!container_find(sim->now, p->name)) {
		s = xcalloc(1, sizeof *s);
		s->name = xstrdup(p->name);
		memcpy(s->boot_id, sim->now->boot_id, sizeof s->boot_id);
		LL_PREPEND(sim->now->containers, s);
	}
	c = container_new(p);
	c->ops = ops;
	c->arg = arg;
	c->making = loop_timer_create(env->loop, on_made, c);
	/* Mostly at once; now and then a file server takes its time. */
	loop_timer_arm(c->making, sim_one_in(&sim->rng_prog, 8) ? sim_span(&sim->rng_prog, 1000, 20000000) : 0);
	return c;
}

struct container *container_adopt(struct agent_env *env, const struct container_params *p,
                                  const struct container_ops *ops, void *arg, struct err *e)
{
	(void)env;
	(void)ops;
	(void)arg;
	if (!container_find(sim->now, p->name)) {
		err_set(e, ERR_NOT_FOUND, "no container of that name");
		return NULL;
	}
	return container_new(p);
}

void container_env_fini(struct agent_env *env)
{
	(void)env;
}

void container_shim(const struct container *c, struct strv *cgroup_procs, struct strv *oom_files,
                    uint32_t *holder_pid, uint64_t *holder_start)
{
	(void)c;
	(void)cgroup_procs;
	(void)oom_files;
	*holder_pid = 0;
	*holder_start = 0;
}

const struct strv *container_notes(const struct container *c)
{
	static const struct strv none;

	(void)c;
	return &none;
}

int container_isolated(const struct container *c)
{
	(void)c;
	return 0;
}

int container_processes(struct container *c)
{
	return sim_procs_with_token(c->n, c->token);
}

int container_oom_seen(struct container *c)
{
	(void)c;
	return 0;
}

void container_forget(struct container *c)
{
	loop_timer_destroy(c->making);
	free(c->token);
	free(c->name);
	free(c);
}

void container_reap(void)
{
}

void container_destroy(struct container *c)
{
	struct sim_container *s = container_find(c->n, c->name);

	sim_crash_point();
	if (s) {
		LL_DELETE(c->n->containers, s);
		free(s->name);
		free(s);
	}
	container_forget(c);
}

void priority_urgent(int on)
{
	(void)on;
}

/* ---- the sweeper: a look through a node's processes takes its time ---------------------------------------
 */

struct sweeper {
	struct sim_node *n;
	struct loop *loop;
	struct sweep_ask *asks;
};

struct sweep_ask {
	struct sweeper *s;
	struct loop_timer *timer;
	char *token;
	uint64_t end;
	void (*done)(int left, void *arg);
	void *arg;
	struct sweep_ask *prev, *next;
};

struct sweeper *sweeper_create(struct loop *l, const struct clock *clock)
{
	struct sweeper *s = xcalloc(1, sizeof *s);

	(void)clock;
	s->n = simloop_tag_of(l);
	s->loop = l;
	return s;
}

void sweep_cancel(struct sweep_ask *w)
{
	if (!w)
		return;
	DL_DELETE(w->s->asks, w);
	loop_timer_destroy(w->timer);
	free(w->token);
	free(w);
}

void sweeper_destroy(struct sweeper *s)
{
	while (s && s->asks)
		sweep_cancel(s->asks);
	free(s);
}

static uint64_t look_us(void)
{
	return sim_span(&sim->rng_prog, 300, 100000);
}

static void on_look(void *arg)
{
	struct sweep_ask *w = arg;
	void (*done)(int left, void *arg) = w->done;
	void *of = w->arg;
	int left = 0;

	sim_crash_point();
	if (w->token)
		left = sim_procs_with_token(w->s->n, w->token);
	if (left && sim_rnd(&sim->rng_prog, 10)) /* else it takes them a moment */
		sim_procs_kill_token(w->s->n, w->token);
	if (left && simloop_now() < w->end) {
		loop_timer_arm(w->timer, look_us());
		return;
	}
	sweep_cancel(w);
	done(left, of);
}

struct sweep_ask *sweeper_ask(struct sweeper *s, const struct sweep_params *p)
{
	struct sweep_ask *w = xcalloc(1, sizeof *w);

	w->s = s;
	w->token = xstrdup(p->token);
	w->end = simloop_now() + p->timeout_ms * 1000ull;
	w->done = p->done;
	w->arg = p->arg;
	w->timer = loop_timer_create(s->loop, on_look, w);
	loop_timer_arm(w->timer, p->urgent && p->container ? 200 : look_us());
	DL_APPEND(s->asks, w);
	return w;
}

/* ---- steps that take time ------------------------------------------------------------------------------ */

enum step_kind { STEP_STAGE, STEP_UPLOAD, STEP_TAIL };
struct step {
	struct sim_node *n;
	struct loop_timer *timer;
	const struct stage_ops *stage;
	const struct upload_ops *upload;
	int checkpoints; /* of an upload: they are there */
	void (*drained)(void *arg);
	void *arg;
	int left; /* looks at progress before it is done; -1 hangs */
	uint64_t done_bytes;
	uint64_t job; /* of an upload */
	uint32_t attempt;
};
struct stage {
	struct step s;
};
struct upload {
	struct step s;
};
struct tail {
	struct step s;
};

static void step_init(struct step *s, struct loop *l, loop_cb cb, void *arg)
{
	s->n = sim->now;
	s->arg = arg;
	s->timer = loop_timer_create(l, cb, s);
}

static void again(struct step *s)
{
	loop_timer_arm(s->timer, sim_span(&sim->rng_prog, 1000, 500000));
}

static void on_stage(void *arg)
{
	struct step *s = arg;
	const struct stage_ops *ops = s->stage;
	void *a = s->arg;
	int bad = sim->data_faults && sim_one_in(&sim->rng_prog, 25);
	struct stage_result r = {.rc = 0};

	if (s->left != 0) {
		if (s->left > 0) {
			s->left--;
			s->done_bytes += 1000;
			ops->progress("input", s->done_bytes, 10000, a);
		}
		again(s);
		return;
	}
	loop_timer_destroy(s->timer);
	free(s);
	if (bad)
		r = (struct stage_result){.rc = -1,
		                          .cls = sim_rnd(&sim->rng_prog, 2) ? RC_DISK : RC_STAGING,
		                          .text = "it could not be brought in"};
	ops->done(&r, a);
}

struct stage *stage_start(struct agent_env *env, struct data_link *b, const struct stage_params *p,
                          const struct stage_ops *ops, void *arg)
{
	struct step *s = xcalloc(1, sizeof *s);

	(void)b;
	(void)p;
	sim_crash_point();
	sim_check_effect("stages");
	step_init(s, env->loop, on_stage, arg);
	s->stage = ops;
	s->left = (int)sim_rnd(&sim->rng_prog, 4);
	if (sim->data_faults && sim_one_in(&sim->rng_prog, 100))
		s->left = -1;
	again(s);
	return (struct stage *)s;
}

static void step_free(void *p)
{
	struct step *s = p;

	loop_timer_destroy(s->timer);
	free(s);
}

void stage_cancel(struct stage *s)
{
	step_free(s);
}

/* No job of the world has requirements, and nobody asks for its packages. */
struct inside *inside_create(const char *shim_path, const char *dir, const char *logdir,
                             struct shim_launch *order)
{
	(void)shim_path;
	(void)dir;
	(void)logdir;
	shim_launch_fini(order);
	return NULL;
}

struct stage *stage_build(struct agent_env *env, struct data_link *b, const struct stage_params *p,
                          const char *build_key, const char *tmpdir, struct inside *in,
                          const struct stage_ops *ops, void *arg)
{
	(void)env;
	(void)b;
	(void)p;
	(void)build_key;
	(void)tmpdir;
	(void)in;
	(void)ops;
	(void)arg;
	return NULL;
}

void stage_stop(struct stage *s)
{
	(void)s;
}

int stage_busy(const struct stage *s)
{
	(void)s;
	return 0;
}

struct packages *stage_packages(struct data_link *b, const char *venv_bin, struct inside *in,
                                void (*done)(const char *text, const char *why, void *arg), void *arg)
{
	(void)b;
	(void)venv_bin;
	(void)in;
	(void)done;
	(void)arg;
	return NULL;
}

void packages_stop(struct packages *p)
{
	(void)p;
}

int packages_busy(const struct packages *p)
{
	(void)p;
	return 0;
}

void packages_cancel(struct packages *p)
{
	(void)p;
}

static void on_upload(void *arg)
{
	struct step *s = arg;
	const struct upload_ops *ops = s->upload;
	struct upload_result r = {.kind = "model", .digest = "0", .size_bytes = 1000, .files = 1};
	struct upload_result left = {.kind = "checkpoint", .size_bytes = 1000, .files = 1};
	void *a = s->arg;
	char digest[HASH_HEX_SIZE];
	int bad = sim->data_faults && sim_one_in(&sim->rng_prog, 10),
	    leaves = sim_begin_leaves(s->job, s->attempt, s->n, digest);

	if (s->left > 0) {
		s->left--;
		ops->progress(1000, 2000, a);
		again(s);
		return;
	}
	if (!bad && !sim_net_heard(s->n)) { /* it goes to hearthd */
		again(s);
		return;
	}
	if (!bad && !s->checkpoints) { /* they come first, and the rest may take longer than the next attempt */
		s->checkpoints = 1;
		s->left = (int)sim_rnd(&sim->rng_prog, 6);
		left.digest = digest;
		again(s);
		if (leaves)
			ops->artifact(&left, a);
		ops->checkpoints(a);
		return;
	}
	loop_timer_destroy(s->timer);
	free(s);
	if (bad) {
		ops->done(-1, "the other end is full", a);
		return;
	}
	ops->artifact(&r, a);
	ops->done(0, NULL, a);
}

struct upload *upload_start(struct agent_env *env, struct data_link *b, uint64_t job, uint32_t attempt,
                            uint64_t epoch, uint32_t node_rank, uint32_t n_nodes,
                            const struct launch_paths *paths, const struct launch_user *user,
                            const char *output_uri, const struct upload_ops *ops, void *arg)
{
	struct step *s = xcalloc(1, sizeof *s);

	(void)b;
	(void)epoch;
	(void)node_rank;
	(void)n_nodes;
	(void)paths;
	(void)user;
	(void)output_uri;
	sim_crash_point();
	sim_check_effect("uploads");
	step_init(s, env->loop, on_upload, arg);
	s->upload = ops;
	s->job = job;
	s->attempt = attempt;
	s->left = (int)sim_rnd(&sim->rng_prog, 3);
	again(s);
	return (struct upload *)s;
}

void upload_cancel(struct upload *u)
{
	step_free(u);
}

static void on_tail(void *arg)
{
	struct step *s = arg;

	if (!sim_net_heard(s->n))
		again(s);
	else
		s->drained(s->arg);
}

void tailer_set_rules(struct tailer *t, const char *text)
{
	(void)t, (void)text;
}

struct tail *tail_start(struct tailer *t, const struct tail_params *p)
{
	struct step *s = xcalloc(1, sizeof *s);

	(void)t;
	(void)p;
	step_init(s, sim->now->loop, on_tail, NULL);
	return (struct tail *)s;
}

int tail_read_rest(struct tail *tl)
{
	(void)tl;
	return 1;
}

void tail_finish(struct tail *tl, void (*done)(void *arg), void *arg)
{
	struct step *s = (struct step *)tl;

	s->drained = done;
	s->arg = arg;
	loop_timer_arm(s->timer, sim_span(&sim->rng_prog, 500, 50000));
}

void tail_destroy(struct tail *tl)
{
	step_free(tl);
}

char *tail_last_lines(const char *logdir, size_t max, size_t *n)
{
	(void)logdir;
	(void)max;
	*n = 0;
	return NULL;
}

/* ---- logs of the node -----------------------------------------------------------------------------------
 */

struct nodelog {
	int unused;
};

struct nodelog *nodelog_open(const char *logdir, const struct clock *clock, struct err *e)
{
	(void)logdir;
	(void)clock;
	(void)e;
	return xcalloc(1, sizeof(struct nodelog));
}

void nodelog_line(struct nodelog *n, const char *fmt, ...)
{
	(void)n;
	(void)fmt;
}

void nodelog_bytes(struct nodelog *n, const void *p, size_t len)
{
	(void)n;
	(void)p;
	(void)len;
}

void nodelog_close(struct nodelog *n)
{
	free(n);
}

/* ---- environment, account --------------------------------------------------------------------------------
 */

void env_rank(const struct env_in *in, struct strv *out)
{
	(void)in;
	(void)out;
}

void env_launcher(const struct env_in *in, const char *agent_sock, struct strv *out)
{
	(void)in;
	(void)agent_sock;
	(void)out;
}

void env_masked(const struct strv *env, struct strv *out)
{
	(void)env;
	(void)out;
}

int env_files(const struct env_in *in, const char *dir, struct err *e)
{
	(void)in;
	(void)dir;
	(void)e;
	return 0;
}

/* Answers after a while, now and then not in time. */
struct user_ask {
	struct loop_timer *timer;
	char *owner;
	void (*found)(struct launch_user *u, const struct err *why, void *arg);
	void *arg;
};

static void ask_free(struct user_ask *q)
{
	loop_timer_destroy(q->timer);
	free(q->owner);
	free(q);
}

static void on_answer(void *arg)
{
	struct user_ask *q = arg, was = *q;
	struct launch_user u = {.uid = 1000, .gid = 1000, .name = q->owner};
	struct err e = {.code = ERR_NONE};

	q->owner = NULL;
	ask_free(q);
	u.home = xstrdup("/");
	u.shell = xstrdup("/bin/sh");
	was.found(&u, &e, was.arg);
}

struct user_ask *user_ask(struct agent_env *env, struct workers *ws, const char *owner,
                          void (*found)(struct launch_user *u, const struct err *why, void *arg), void *arg,
                          struct err *e)
{
	struct user_ask *q = xcalloc(1, sizeof *q);
	int hangs = sim->data_faults && sim_one_in(&sim->rng_prog, 200);

	(void)ws;
	(void)e;
	sim_crash_point();
	sim_check_effect("looks up an account");
	*q = (struct user_ask){.owner = xstrdup(owner), .found = found, .arg = arg};
	q->timer = loop_timer_create(env->loop, on_answer, q);
	loop_timer_arm(q->timer, hangs ? 3600000000u : sim_span(&sim->rng_prog, 100, 20000));
	return q;
}

void user_ask_cancel(struct user_ask *q)
{
	if (q)
		ask_free(q);
}

void user_fini(struct launch_user *u)
{
	free(u->name);
	free(u->home);
	free(u->shell);
	free(u->groups);
	*u = (struct launch_user){0};
}

/* ---- trash: gone at once ------------------------------------------------------------------------------- */

int trash_put(struct trash *t, const char *path, const char *key, struct err *e)
{
	(void)t;
	(void)key;
	return fs_rm_rf(path, e);
}

void trash_wait(struct trash *t, const char *key, void (*done)(const char *why, void *arg), void *arg)
{
	(void)t;
	(void)key;
	done(NULL, arg);
}

void trash_forget(struct trash *t, void *arg)
{
	(void)t;
	(void)arg;
}
