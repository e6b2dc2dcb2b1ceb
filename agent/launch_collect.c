/*
 * launch_collect: after the end: upload what the run left, drain the logs, release the shims, take the
 * container down, remove the folders, say CLEANED. Each step is entered again from the start by an agent that
 * died in between; all of them may be done twice.
 *
 * The shims are released only when all reports of ends are durable at the controller and the logs are: until
 * then they are the only ones who know.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/launch.h"
#include "agent/outbox.h"
#include "agent/shimlink.h"
#include "common/fsutil.h"
#include "common/log.h"

#define FAILURE_MAX     1024
#define UPLOAD_TRIES    5
#define UPLOAD_RETRY_US 3000000u
#define RELEASE_US      5000000u

static void start_upload(struct launch *l);
static void drain_logs(struct launch *l);
static void clean(struct launch *l);

/* ---- artifacts -------------------------------------------------------------------------------------- */

static void report_artifact(struct launch *l, const char *kind, const char *digest, const char *uri,
                            uint64_t size, uint64_t files, const char *text)
{
	cleanup_free char *key = xasprintf("%s artifact %s", l->key, kind);
	struct wm_artifact_report m = {.job = l->job,
	                               .attempt = l->attempt,
	                               .epoch = l->epoch,
	                               .kind = (char *)(uintptr_t)kind,
	                               .digest = (char *)(uintptr_t)(digest ? digest : ""),
	                               .uri = (char *)(uintptr_t)(uri ? uri : ""),
	                               .size_bytes = size,
	                               .files = (uint32_t)(files < UINT32_MAX ? files : UINT32_MAX),
	                               .text = (char *)(uintptr_t)(text ? text : "")};

	outbox_put(l->a->outbox, WM_ARTIFACT_REPORT, key, &m);
}

/* What the program itself says of its failure: before ENDED, so that the reason is there when the end is
 * judged. */
void launch_report_failure_file(struct launch *l)
{
	cleanup_free char *path = xasprintf("%s/output/failure", l->paths.ml);
	cleanup_free char *text = NULL;
	size_t n = 0;

	/* Far larger than what is used: a file that is larger still is none of this kind. */
	if (fs_read_file(path, 1024 * 1024, &text, &n, NULL) < 0 || n == 0)
		return;
	if (n > FAILURE_MAX)
		n = FAILURE_MAX;
	while (n > 0 && n == FAILURE_MAX && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--; /* not in the middle of a character */
	text[n] = '\0';
	if (strlen(text))
		report_artifact(l, "failure", NULL, NULL, n, 1, text);
}

/* ---- uploads ----------------------------------------------------------------------------------------------
 */

static void on_progress(uint64_t done, uint64_t total, void *arg)
{
	struct launch *l = arg;
	uint64_t now = clock_boot_us(l->a->env.clock);

	l->done_bytes = done;
	l->total_bytes = total;
	if (now - l->reported_us < 250000)
		return;
	l->reported_us = now;
	launch_report(l);
}

static void on_artifact(const struct upload_result *r, void *arg)
{
	struct launch *l = arg;

	launch_say(l, "%s: %" PRIu64 " files, %" PRIu64 " bytes -> %s", r->kind, r->files, r->size_bytes,
	           r->uri && r->uri[0] ? r->uri : "hearthd");
	report_artifact(l, r->kind, r->digest, r->uri, r->size_bytes, r->files, NULL);
}

static void on_uploaded(int rc, const char *text, void *arg)
{
	struct launch *l = arg;

	l->upload = NULL;
	if (rc == 0) {
		drain_logs(l);
		return;
	}
	log_warn("event=upload_failed job=%" PRIu64 " attempt=%u try=%u reason=\"%s\"", l->job, l->attempt,
	         l->upload_tries, text ? text : "");
	launch_say(l, "upload failed: %s", text ? text : "no reason given");
	if (l->upload_tries < UPLOAD_TRIES) {
		launch_arm(l, (uint64_t)UPLOAD_RETRY_US << (l->upload_tries - 1), start_upload);
		return;
	}
	/* What the run made is worth more than a tidy disk. */
	l->kept_outputs = 1;
	l->cls = RC_STAGING;
	free(l->text);
	l->text = xasprintf("outputs could not be uploaded (%s); they are kept on node %s in %s",
	                    text ? text : "?", l->a->env.cfg.node, l->paths.ml);
	drain_logs(l);
}

static const struct upload_ops upload_ops = {
    .progress = on_progress, .artifact = on_artifact, .done = on_uploaded};

static void start_upload(struct launch *l)
{
	l->upload_tries++;
	launch_phase(l, "uploading");
	launch_save(l);
	launch_report(l);
	l->upload = upload_start(&l->a->env, l->a->bulk, l->job, l->attempt, l->plan->m->node_rank,
	                         l->plan->n_nodes, &l->paths, l->plan->spec->output_uri, &upload_ops, l);
	if (!l->upload)
		on_uploaded(-1, "the upload could not be started", l);
}

/* ---- logs ------------------------------------------------------------------------------------------- */

static void on_drained(void *arg)
{
	struct launch *l = arg;

	l->tails_open--;
	launch_collect_step(l);
}

static void finish(struct launch *l, struct tail *t)
{
	if (!t)
		return;
	l->tails_open++;
	tail_finish(t, on_drained, l);
}

static void drain_logs(struct launch *l)
{
	launch_phase(l, NULL);
	launch_save(l);
	launch_say(l, "cleaning up");
	if (l->setup)
		nodelog_close(l->setup);
	if (l->system)
		nodelog_close(l->system);
	l->setup = l->system = NULL;
	l->draining = 1;
	l->tails_open = 1; /* this function's own, so that no callback finds 0 too early */
	for (struct lproc *p = l->procs; p; p = p->next)
		finish(l, p->tail);
	finish(l, l->setup_tail);
	finish(l, l->system_tail);
	on_drained(l);
}

/* ---- the end ----------------------------------------------------------------------------------------------
 */

static void late_release(struct launch *l)
{
	for (struct lproc *p = l->procs; p; p = p->next)
		if (p->link && !shimlink_is_gone(p->link))
			log_warn("event=shim_not_released job=%" PRIu64 " attempt=%u proc=%s", l->job, l->attempt,
			         p->name);
	l->releases_open = 0;
	clean(l);
}

static void release(struct launch *l)
{
	l->releases_open = 1;
	launch_save(l); /* from here on a missing shim is no lost one */
	launch_arm(l, RELEASE_US, late_release);
	for (struct lproc *p = l->procs; p; p = p->next)
		if (p->link && !shimlink_is_gone(p->link))
			shimlink_release(p->link);
	launch_collect_step(l);
}

/* Called when a tail is drained, a report is durable, a shim is gone. */
void launch_collect_step(struct launch *l)
{
	if (!l->collecting || l->upload || l->tails_open || l->state == LAUNCH_CLEANED || !l->draining)
		return;
	if (!l->releases_open) {
		cleanup_free char *procs = xasprintf("%s proc", l->key);

		if (outbox_holds(l->a->outbox, procs) == 0)
			release(l);
		return;
	}
	for (struct lproc *p = l->procs; p; p = p->next)
		if (p->link && !shimlink_is_gone(p->link))
			return;
	launch_arm(l, 0, clean); /* not here: the caller is a callback of a shim link */
}

static int strip_one(const char *name, void *arg)
{
	const struct launch *l = arg;
	cleanup_free char *path = xasprintf("%s/%s", l->paths.run, name);

	if (strcmp(name, "plan") && strcmp(name, "life"))
		fs_rm_rf(path, NULL);
	return 0;
}

/* Plan and life stay until the controller has CLEANED durably: an agent that starts meanwhile must be able to
 * say so. */
static void strip_run(struct launch *l)
{
	fs_each(l->paths.run, strip_one, l, NULL);
}

static void clean(struct launch *l)
{
	struct err e = {0};

	while (l->procs) {
		struct lproc *p = l->procs;

		l->procs = p->next;
		lproc_free(p);
	}
	if (l->setup_tail)
		tail_destroy(l->setup_tail);
	if (l->system_tail)
		tail_destroy(l->system_tail);
	l->setup_tail = l->system_tail = NULL;
	if (l->packages)
		packages_cancel(l->packages);
	l->packages = NULL;
	if (l->container)
		container_destroy(l->container);
	l->container = NULL;
	if (!l->kept_outputs && fs_rm_rf(l->paths.work, &e) < 0) {
		log_warn("event=not_removed job=%" PRIu64 " attempt=%u reason=\"%s\"", l->job, l->attempt, e.text);
		if (!l->text[0]) {
			free(l->text);
			l->text = xasprintf("left behind: %s", e.text);
		}
	}
	strip_run(l);
	l->state = LAUNCH_CLEANED;
	launch_save(l);
	log_info("event=launch job=%" PRIu64 " attempt=%u state=cleaned", l->job, l->attempt);
	launch_report(l);
}

void launch_collect(struct launch *l, int keep)
{
	if (!launch_is_over(l)) {
		log_warn("event=collect_too_early job=%" PRIu64 " attempt=%u", l->job, l->attempt);
		launch_report(l);
		return;
	}
	if (l->collecting || l->state == LAUNCH_CLEANED) {
		launch_report(l);
		return;
	}
	l->collecting = 1;
	l->keep = keep;
	/* What CLEANED says is about the clean-up alone; the end was told with ENDED. */
	l->cls = RC_NONE;
	l->text[0] = '\0';
	launch_save(l);
	/* A launch that never ran has nothing to keep. */
	if (keep && l->state == LAUNCH_ENDED)
		start_upload(l);
	else
		drain_logs(l);
}
