/*
 * presence: see presence.h. The look is made once, by a thread: what comes later is started by this agent,
 * and so is in its list.
 */
#include "agent/control/presence.h"

#include "agent/base/worker.h"
#include "agent/container/sweeper.h"
#include "agent/control/peerdoor.h"
#include "agent/control/peerport.h"
#include "agent/launch/launch.h"
#include "agent/launch/launches.h"
#include "common/base/log.h"
#include "common/os/marks.h"

#define END_MS 3000

struct announcer {
	struct launches *launches;
	struct peerport *peerport;
	struct workers *workers;
	int sure;
};

struct look {
	struct announcer *of;
	struct strv tokens; /* of launches that were adopted */
	int sure;
};

/* ---- the list --------------------------------------------------------------------------------------- */

static void add_id(struct launch *l, void *arg)
{
	struct presence *p = arg;

	p->v[p->n++] = (struct launch_id){.job = l->job, .attempt = l->attempt};
}

void announcer_changed(struct announcer *a)
{
	uint32_t count = a ? launches_count(a->launches) : 0;
	struct presence *p;

	if (!a)
		return;
	p = xcalloc(1, sizeof(*p) + count * sizeof(p->v[0]));
	launches_each(a->launches, add_id, p);
	/* A launch whose plan cannot be read is missing in the list. */
	p->sure = a->sure && p->n == count;
	peerport_launches(a->peerport, p); /* takes */
}

/* ---- the look --------------------------------------------------------------------------------------- */

static void look_run(struct worker *w, void *arg)
{
	struct look *k = arg;
	struct marks *m = marks_create(SWEEP_MARK);
	struct err e = {0};
	int rc;

	(void)w;
	for (size_t i = 0; i < k->tokens.n; i++)
		marks_add(m, k->tokens.v[i]);
	rc = marks_scan(m, 0, &e);
	k->sure = rc >= 0 && marks_strangers(m) == 0;
	if (rc < 0)
		log_warn("event=presence_unknown reason=\"%s\"", e.text);
	else if (!k->sure)
		log_warn("event=presence_unknown processes=%u text=\"processes of unknown launches run here\"",
		         marks_strangers(m));
	marks_destroy(m);
}

static void look_done(void *arg)
{
	struct look *k = arg;

	k->of->sure = k->sure;
	announcer_changed(k->of);
}

static void look_release(void *arg)
{
	struct look *k = arg;

	strv_fini(&k->tokens);
	free(k);
}

static const struct worker_task look_task = {.run = look_run, .done = look_done, .release = look_release};

static void add_token(struct launch *l, void *arg)
{
	strv_add(arg, l->plan->m->token);
}

struct announcer *announcer_create(struct agent_env *env, struct launches *launches,
                                   struct peerport *peerport)
{
	struct announcer *a = xcalloc(1, sizeof(*a));
	struct look *k = xcalloc(1, sizeof(*k));
	struct err e = {0};

	a->launches = launches;
	a->peerport = peerport;
	a->workers = workers_create(env->loop);
	k->of = a;
	launches_each(launches, add_token, &k->tokens);
	if (!worker_start(a->workers, &look_task, k, &e)) {
		log_warn("event=presence_unknown reason=\"%s\"", e.text);
		look_release(k);
	}
	return a;
}

void announcer_destroy(struct announcer *a)
{
	if (!a)
		return;
	workers_destroy(a->workers, END_MS);
	free(a);
}
