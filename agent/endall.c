/*
 * endall: see endall.h.
 */
#include "agent/endall.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "agent/agent_core.h"
#include "agent/container/sweeper.h"
#include "agent/launch/launch_steps.h"
#include "agent/launch/launches.h"
#include "common/base/json.h"
#include "common/base/log.h"

#define MARK     "HEARTH_TOKEN_LAUNCH"
#define WHY      "the node's launches were ended by hand"
#define GRACE_MS 5000u
#define STEP_US  20000u
#define END_US   45000000u /* the ladder and its sweep take less */
#define SHIM_MS  2000
#define SWEEP_MS 2000

struct item {
	struct launch *l;
	int processes; /* that carried its mark before; -1 unknown */
	int ran;
};

struct endall {
	struct agent *a;
	struct loop_timer *timer;
	uint64_t end_us;
	struct item *items;
	uint32_t n;
	int left;
	FILE *out;
};

static void note_launch(struct launch *l, void *arg)
{
	struct endall *n = arg;
	int processes;

	if (l->state == LAUNCH_CLEANED || l->removing)
		return;
	processes = proc_count_env(MARK, l->plan->m->token, NULL);
	n->items = xrealloc(n->items, (n->n + 1) * sizeof(*n->items));
	n->items[n->n++] =
	    (struct item){.l = l, .processes = processes, .ran = processes != 0 || !launch_is_over(l)};
}

static int end_shim(const struct proc_id *id)
{
	struct pollfd p = {.fd = proc_open(id, NULL), .events = POLLIN};
	int gone;

	if (p.fd < 0)
		return 0;
	proc_signal(p.fd, SIGKILL, NULL);
	gone = poll(&p, 1, SHIM_MS) > 0;
	close(p.fd);
	return !gone;
}

/* Its processes have ended, and their shims have put on record how: these, and what held the namespaces. */
static int end_rest(struct launch *l)
{
	int left = sweep_now(l->plan->m->token, l->container, SWEEP_MS);

	for (struct lproc *p = l->procs; p; p = p->next)
		if (p->id.pid > 0)
			left = left < 0 ? left : left + end_shim(&p->id);
	container_destroy(l->container);
	l->container = NULL;
	return left;
}

static void print_item(const struct endall *n, const struct item *i, int left)
{
	cJSON *o = cJSON_CreateObject();
	const char *name = i->l->plan->spec->name;
	char *text;

	json_add_u64(o, i->l->plan->m->park ? "pool" : "job", i->l->job);
	cJSON_AddNumberToObject(o, "attempt", i->l->attempt);
	cJSON_AddStringToObject(o, "name", name ? name : "");
	cJSON_AddNumberToObject(o, "processes", i->processes);
	cJSON_AddNumberToObject(o, "left", left);
	text = json_text(o);
	fprintf(n->out, "%s\n", text);
	free(text);
	cJSON_Delete(o);
}

static void finish_items(struct endall *n)
{
	for (uint32_t i = 0; i < n->n; i++) {
		int left = end_rest(n->items[i].l);

		n->left |= left != 0;
		if (n->items[i].ran || left)
			print_item(n, &n->items[i], left);
	}
	n->left |= launches_alive(n->a->launches);
}

static void wait_step(void *arg)
{
	struct endall *n = arg;

	if (launches_alive(n->a->launches) && clock_boot_us(n->a->env.clock) < n->end_us) {
		loop_timer_arm(n->timer, STEP_US);
		return;
	}
	finish_items(n);
	loop_stop(n->a->env.loop);
}

static int end_all(struct agent *a, FILE *out)
{
	struct endall n = {.a = a, .out = out, .end_us = clock_boot_us(a->env.clock) + END_US};

	launches_each(a->launches, note_launch, &n);
	launches_stop(a->launches, GRACE_MS, WHY);
	n.timer = loop_timer_create(a->env.loop, wait_step, &n);
	loop_timer_arm(n.timer, 0);
	loop_run(a->env.loop);
	loop_timer_destroy(n.timer);
	free(n.items);
	if (n.left)
		fprintf(stderr,
		        "hearth-agent: some processes could not be ended; the log above names their launches\n");
	return n.left;
}

int endall_run(struct agent_config *cfg, FILE *out)
{
	struct loop *loop;
	struct agent *a;
	struct err e = {0};
	int rc = 1;

	if (access(cfg->run_dir, F_OK) < 0)
		return 0; /* nothing was started since the machine was */
	cfg->alone = 1;
	loop = loop_create();
	a = agent_create(loop, cfg, &e);
	if (a)
		rc = end_all(a, out);
	else
		fprintf(stderr, "hearth-agent: %s\n", e.text);
	agent_destroy(a);
	loop_destroy(loop);
	return rc;
}
