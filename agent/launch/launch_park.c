/*
 * launch_park: a launch without a job, which waits in a warm pool for one (PREPARE with park = 1; docs/spec/
 * 09-agent.md, Parked launches).
 *
 * It is prepared like others, but has no source, inputs, checkpoints, logs for hearthd or job token, and ml
 * stays closed to the account. At GO its launcher starts; hearth-rank arms the shims of the ranks. When all
 * are armed the launch is PARKED. It ends when any of its processes does. launch_take.c makes it a job's.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "agent/command/launcher.h"
#include "agent/launch/launch_park.h"
#include "agent/launch/launch_steps.h"
#include "agent/launch/shimlink.h"
#include "agent/pool/pools.h"
#include "agent/pool/uses.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"

#define PROBE_US 10000000u
#define SAY_US   5000000u /* that adopted shims have to say how they are */

int launch_is_parking(const struct launch *l)
{
	return l->plan->m->park != 0;
}

/* What linked inputs point to, as staging writes it down: the container shows it. */
static int write_links(const struct launch *l, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/links", l->paths.work), *text = xstrdup("");
	const struct job_spec *spec = l->plan->spec;

	for (size_t i = 0; i < spec->n_inputs; i++) {
		const char *uri = spec->inputs[i].uri;
		char *next;

		if (!spec->inputs[i].link || strncmp(uri, "file://", 7) != 0)
			continue;
		next = xasprintf("%s%s\n", text, uri + 7);
		free(text);
		text = next;
	}
	return fs_replace(path, text, strlen(text), 0600, e);
}

/* The environment of the pool's last job. An interpreter that waits has it already; a job that brings another
 * one does not use that interpreter. */
static void find_environment(struct launch *l)
{
	cleanup_free char *pool = l->pool ? pools_path(l->pool) : NULL;
	cleanup_free char *key = pool && l->plan->spec->requirements ? uses_environment(pool) : NULL;
	char *bin = key ? xasprintf("%s/cache/venvs/%s/env/bin", l->host->env->cfg.data_dir, key) : NULL;

	free(l->venv_bin);
	l->venv_bin = bin && access(bin, X_OK) == 0 ? xstrdup(bin) : NULL;
	free(bin);
}

int launch_park_prepare(struct launch *l, struct err *e)
{
	if (l->plan->spec->launcher == LAUNCHER_TORCHRUN)
		return err_set(e, ERR_UNSUPPORTED, "launches of torchrun are not parked");
	find_environment(l);
	return write_links(l, e);
}

/* ---- parked ----------------------------------------------------------------------------------------- */

/* 0: all of them wait for a job; else -1, and e names the first that does not. */
int launch_park_check(const struct launch *l, struct err *e)
{
	for (const struct lproc *p = l->procs; p; p = p->next) {
		uint8_t want = p->kind == PROC_RANK ? PS_PARKED : PS_RUNNING;

		if (p->state != want || !p->link || shimlink_is_gone(p->link))
			return err_set(e, ERR_CONFLICT, "%s is not %s", p->name,
			               p->kind == PROC_RANK ? "armed" : "running");
	}
	return 0;
}

static void probe(struct launch *l)
{
	struct err e = {0};

	if (l->state != LAUNCH_PARKED || l->stopping)
		return;
	if (launch_park_check(l, &e) < 0) {
		launch_fail(l, RC_LAUNCH, e.text);
		return;
	}
	for (struct lproc *p = l->procs; p; p = p->next)
		if (!shimlink_probe(p->link)) {
			cleanup_free char *text = xasprintf("the shim of %s does not answer any more", p->name);

			launch_fail(l, RC_LAUNCH, text);
			return;
		}
	launch_arm(l, PROBE_US, probe);
}

/* The text of PARKED: why jobs get no interpreter that waits. */
static void say_interpreter(struct launch *l)
{
	for (const struct lproc *p = l->procs; p; p = p->next)
		if (p->kind == PROC_RANK && strncmp(p->text, SHIM_TEXT_BAD, strlen(SHIM_TEXT_BAD)) == 0) {
			free(l->text);
			l->text = xstrdup(p->text);
			return;
		}
}

static void probe_adopted(struct launch *l)
{
	probe(l);
}

void launch_park_step(struct launch *l)
{
	if (l->state == LAUNCH_PARKED && !l->stopping && l->on_timer == probe_adopted &&
	    launch_park_check(l, NULL) == 0) {
		log_info("event=parked_again launch=%s", l->key);
		launch_arm(l, PROBE_US, probe);
	}
	if (l->state != LAUNCH_RUNNING || !l->going || l->stopping || launch_park_check(l, NULL) < 0)
		return;
	launch_phase(l, NULL);
	say_interpreter(l);
	launch_set_state(l, LAUNCH_PARKED);
	launch_arm(l, 0, probe);
}

void launch_park_adopted(struct launch *l)
{
	launch_arm(l, SAY_US, probe_adopted);
}

void launch_park_changed(struct lproc *p)
{
	struct launch *l = p->l;
	int wrong = l->state == LAUNCH_PARKED && p->state == PS_WAITING;

	if ((lproc_ended(p) || wrong) && !l->stopping) {
		cleanup_free char *text =
		    xasprintf("%s %s while the launch was parked%s%s", p->name, wrong ? "was not armed" : "ended",
		              p->text[0] ? ": " : "", p->text);

		launch_fail(l, RC_LAUNCH, text);
	}
	launch_park_step(l);
	launch_check_end(l);
}
