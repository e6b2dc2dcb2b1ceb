/*
 * sim: chance, the story, and one run from start to end.
 */
#include "tests/world/sim.h"
#include "common/base/log.h"
#include "tests/lib/tap.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define START_US  1000000u
#define SETTLE_US (40ull * 60 * 1000000 + 5123456) /* after the last fault all must have come to rest */
#define STEPS_MAX 3000000u
#define STORY_MAX 200000u

struct sim *sim;

static const char *const fault_names[] = {
#define F(id, name) name,
    SIM_FAULTS(F)
#undef F
};

const char *sim_fault_name(enum sim_fault f)
{
	return fault_names[f];
}

int sim_fault_find(const char *name)
{
	for (int i = 0; i < SIM_N_FAULT; i++)
		if (strcmp(fault_names[i], name) == 0)
			return i;
	return -1;
}

/* ---- chance ------------------------------------------------------------------------------------------ */

uint32_t sim_rnd(uint64_t *state, uint32_t n)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return n ? (uint32_t)((z ^ (z >> 31)) >> 16) % n : 0;
}

int sim_one_in(uint64_t *state, uint32_t n)
{
	return sim_rnd(state, n) == 0 && n != 0;
}

uint64_t sim_span(uint64_t *state, uint64_t lo, uint64_t hi)
{
	double x = sim_rnd(state, 1000000) / 1e6;

	return (uint64_t)((double)lo * pow((double)hi / (double)lo, x));
}

struct loop_timer *sim_later(loop_cb cb, void *arg)
{
	return loop_timer_create(sim->loop, cb, arg);
}

/* ---- story ------------------------------------------------------------------------------------------- */

static void tell(const char *text)
{
	uint64_t us = simloop_now();
	char *line;

	if (sim->n_lines >= STORY_MAX)
		return;
	line = xasprintf("%6llu.%06llu %s", (unsigned long long)(us / 1000000),
	                 (unsigned long long)(us % 1000000), text);
	if (sim->o.trace > 1)
		fprintf(stderr, "# %s\n", line);
	if (sim->n_lines == sim->cap_lines) {
		sim->cap_lines = sim->cap_lines ? sim->cap_lines * 2 : 1024;
		sim->lines = xreallocarray(sim->lines, sim->cap_lines, sizeof(char *));
	}
	sim->lines[sim->n_lines++] = line;
}

void sim_say(const char *fmt, ...)
{
	char text[1000];
	va_list ap;

	if (!sim->o.trace)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	tell(text);
}

void sim_bad(const char *fmt, ...)
{
	va_list ap;

	if (sim->bad[0])
		return;
	va_start(ap, fmt);
	vsnprintf(sim->bad, sizeof sim->bad, fmt, ap);
	va_end(ap);
	sim_say("BAD: %s", sim->bad);
}

/* Whatever the controller and the agents log belongs to the story. */
static void on_log(enum log_level level, const char *line, void *arg)
{
	const char *event = strstr(line, "event=");

	(void)level;
	(void)arg;
	if (sim && sim->o.trace)
		sim_say("  %s: %s", sim->now ? sim->now->name : "hearthd", event ? event : line);
}

/* ---- a run ------------------------------------------------------------------------------------------- */

static void calm(void)
{
	uint64_t now = simloop_now();

	sim_say("---- all works again");
	sim->calm = 1;
	sim->calm_us = now;
	sim->full_until = 0;
	sim->slow_commits = sim->data_faults = 0;
	sim->w->store_busy = 0;
	for (unsigned i = 0; i < sim->o.nodes; i++) {
		struct sim_node *n = &sim->nodes[i];

		n->cut_ctl_until = n->slow_until = n->full_until = 0;
		memset(n->cut_peer_until, 0, sizeof n->cut_peer_until);
		if (!n->agent && n->powered)
			loop_timer_arm(n->start, 1000 + sim_rnd(&sim->rng_net, 2000000));
	}
	sim_users_calm();
}

static void start(const struct sim_options *o)
{
	simloop_reset(START_US, o->seed);
	sim->o = *o;
	sim->rng_net = o->seed * 4 + 1;
	sim->rng_fault = o->seed * 4 + 2;
	sim->rng_prog = o->seed * 4 + 3;
	sim->rng_user = o->seed * 4 + 4;
	sim->next_session = 100;
	sim_data_start();
	simloop_on_enter(sim_enter);
	sim->loop = loop_create();
	sim_ctl_open();
	log_set_sink(on_log, NULL);
	log_init("world", o->trace ? LOG_LVL_INFO : LOG_LVL_ERROR);
	for (unsigned i = 0; i < o->nodes; i++)
		sim_node_init(&sim->nodes[i], i);
	sim_users_start();
	sim_admin_start();
	sim_faults_start();
}

static int step(void)
{
	if (setjmp(sim->crash)) {
		sim_agent_abandon(sim->crashed);
		return 1;
	}
	return simloop_step();
}

static void play(void)
{
	uint64_t end = START_US + sim->o.fault_us;

	for (; !sim->bad[0] && sim->steps < STEPS_MAX; sim->steps++) {
		if (!sim->calm && (simloop_next() > end))
			calm();
		if (sim->calm && sim->steps % 64 == 0 && sim_check_quiet())
			break;
		if (sim->calm && simloop_now() > sim->calm_us + SETTLE_US)
			break;
		if (!step())
			break;
	}
	if (!sim->bad[0])
		sim_check_end();
}

static void finish(void)
{
	sim_enter(NULL);
	for (unsigned i = 0; i < sim->o.nodes; i++)
		sim_node_fini(&sim->nodes[i]);
	sim_users_fini();
	sim_admin_fini();
	sim_net_fini();
	sim_check_fini();
	sim_ctl_close();
	loop_timer_destroy(sim->fault);
	loop_destroy(sim->loop);
	log_set_sink(NULL, NULL);
	for (uint32_t i = 0; i < sim->n_lines; i++)
		free(sim->lines[i]);
	free(sim->lines);
	free(sim);
	sim = NULL;
}

static void print_story(void)
{
	const char *all = getenv("HEARTH_WORLD_TRACE");
	uint32_t n = all ? sim->n_lines : 150, from = sim->n_lines > n ? sim->n_lines - n : 0;

	if (sim->o.trace != 1 || !sim->bad[0])
		return;
	if (from)
		tap_diag("(%u lines before these; HEARTH_WORLD_TRACE=1 shows them)", from);
	for (uint32_t i = from; i < sim->n_lines; i++)
		tap_diag("%s", sim->lines[i]);
}

int sim_run(const struct sim_options *o, struct sim_result *out)
{
	int bad;

	sim = xcalloc(1, sizeof *sim);
	start(o);
	play();
	print_story();
	*out = (struct sim_result){.steps = sim->steps,
	                           .us = simloop_now() - START_US,
	                           .attempts = sim->n_attempts,
	                           .beside_dying = sim->n_beside_dying,
	                           .commits = sim->w->n_commits,
	                           .events = sim->w->n_events,
	                           .faults = sim->n_faults,
	                           .agent_steps = sim->nodes[o->agent_that_dies].steps};
	for (unsigned i = 0; i < o->jobs; i++)
		out->jobs += sim->jobs[i].id != 0;
	snprintf(out->bad, sizeof out->bad, "%s", sim->bad);
	bad = sim->bad[0] != 0;
	finish();
	return bad ? -1 : 0;
}
