/*
 * launch_keep: the launch and its keeper (agent/keep/keeper.h): what the keeper needs to know of ranks and
 * steps, and when the collection may go on.
 */
#include <inttypes.h>
#include <string.h>

#include "agent/keep/held.h"
#include "agent/keep/keeper.h"
#include "agent/launch/launch_steps.h"

/* The folder for copies: checkpoint.uri, else output_uri; NULL: hearthd's store. */
static const char *copy_uri(const struct launch *l)
{
	const char *uri = l->plan->m->checkpoint_uri;

	if (uri && uri[0])
		return uri;
	uri = l->plan->spec->output_uri;
	return uri && uri[0] ? uri : NULL;
}

static uint64_t started_us(const struct launch *l)
{
	for (unsigned i = 0; i < l->n_phases; i++)
		if (strcmp(l->phases[i].name, "running") == 0)
			return l->phases[i].started_us;
	return clock_real_us(l->host->env->clock);
}

/* Its checkpoints were reported before. */
static void on_over(void *arg)
{
	struct launch *l = arg;

	if (launch_is_over(l) && l->state != LAUNCH_CLEANED)
		launch_report(l);
}

void launch_keep_start(struct launch *l)
{
	const struct wm_prepare *m = l->plan->m;
	struct keeper_params p = {.env = l->host->env,
	                          .link = l->host->link,
	                          .outbox = l->host->outbox,
	                          .removals = l->host->removals,
	                          .job = l->job,
	                          .epoch = l->epoch,
	                          .attempt = l->attempt,
	                          .node_rank = m->node_rank,
	                          .n_nodes = l->plan->n_nodes,
	                          .key = l->key,
	                          .ml = l->paths.ml,
	                          .user = &l->user,
	                          .uri = copy_uri(l),
	                          .cpus = l->cpus,
	                          .n_cpus = l->n_cpus,
	                          .restored = m->resume_from[0] != '\0' || m->resume_name[0] != '\0',
	                          .warn = launch_warn,
	                          .over = on_over,
	                          .arg = l};

	if (l->keeper || l->host->env->cfg.alone)
		return;
	p.from_us = started_us(l);
	l->keeper = keeper_create(&p);
}

void launch_keep_step(int64_t step, uint64_t at_us, void *arg)
{
	struct launch *l = arg;

	if (l->keeper)
		keeper_step(l->keeper, step, at_us);
}

void launch_keep_ended(struct lproc *p)
{
	if (p->kind != PROC_RANK || p->counted || !p->l->keeper || !lproc_exited(p))
		return;
	p->counted = 1;
	keeper_rank_ended(p->l->keeper, p->ended_us ? p->ended_us : clock_real_us(p->l->host->env->clock),
	                  p->state != PS_FAILED && p->state != PS_LOST && p->exit_code == 0 && p->signal == 0);
}

void launch_keep_over(struct launch *l)
{
	for (struct lproc *p = l->procs; p; p = p->next)
		launch_keep_ended(p);
	if (l->keeper)
		keeper_over(l->keeper);
}

void launch_keep_flush(struct launch *l, void (*done)(void *arg))
{
	if (!l->keeper) {
		done(l);
		return;
	}
	launch_keep_over(l);
	keeper_set_epoch(l->keeper, l->epoch);
	keeper_flush(l->keeper, done, l);
}

/* hearthd looks for the folder of checkpoints among what is durable. */
static int has_saved(const struct launch *l)
{
	cleanup_free char *key = xasprintf("%s artifact checkpoint", l->key);

	return l->checkpoints_saved && !outbox_holds(l->host->outbox, key);
}

enum launch_over launch_how_over(const struct launch *l)
{
	if (!launch_is_over(l) || l->unsure || l->unkilled)
		return OVER_UNKNOWN;
	if (has_saved(l) || l->state != LAUNCH_ENDED)
		return OVER_SAVED;
	return l->keeper ? keeper_how_over(l->keeper) : OVER_COPIED;
}

/* What the next attempt may begin with stays on the node. */
void launch_keep_end(struct launch *l)
{
	int remove = !l->keep || (l->keeper && keeper_ended_well(l->keeper) && keeper_all_copied(l->keeper));

	if (l->keeper)
		keeper_end(l->keeper);
	keeper_destroy(l->keeper);
	l->keeper = NULL;
	if (remove)
		held_drop_launch(l->host->env, l->host->trash, l->key);
}
