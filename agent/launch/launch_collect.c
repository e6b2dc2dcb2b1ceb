/*
 * launch_collect: after the end it uploads the results, drains the logs, releases the shims, takes the
 * container down, removes the folders and reports CLEANED. An agent that died in between starts again with
 * the first step; each step may be done twice.
 *
 * The shims are released when hearthd has the logs and all reports of ends and artifacts on record. Until
 * then only the shims know the ends, and the next agent must be able to upload again. A process that could
 * not be killed holds the release back, too: CLEANED frees the GPUs and CPUs that it still uses.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/trash.h"
#include "agent/launch/launch_steps.h"
#include "agent/launch/shimlink.h"
#include "agent/link/outbox.h"
#include "agent/machine/gpu_state.h"
#include "agent/pool/pools.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/os/fsutil.h"

#define FAILURE_MAX     1024
#define UPLOAD_TRIES    5
#define UPLOAD_RETRY_US 3000000u
#define RELEASE_US      5000000u
#define RELEASE_TRIES   3
#define LEFT_US         1000000u
#define GPUS_IDLE_US    50000000u /* that the driver may take to free memory of dead processes */
#define GPUS_LOOK_US    250000u
#define GPUS_FIRST_US   20000u    /* before the first of these looks: the sample needs a moment */
#define GONE_US         30000000u /* that CLEANED waits until the folder is removed */

static void start_upload(struct launch *l);
static void drain_logs(struct launch *l);
static void clean_launch(struct launch *l);

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

	outbox_put(l->host->outbox, WM_ARTIFACT_REPORT, key, &m);
}

/* Reports the program's own text about its failure. This comes before ENDED, so that hearthd has the reason
 * when it decides. The folder belongs to the job's account, so anything may have that name. */
void launch_report_failure_file(struct launch *l)
{
	cleanup_close int ml = open(l->paths.ml, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_free char *text = NULL;
	struct stat st;
	struct err e = {0};
	size_t n = 0;

	if (ml < 0 || fstat(ml, &st) < 0)
		return;
	/* One more than is used: is it the end? */
	if (fs_read_below(ml, "output/failure", st.st_uid, FAILURE_MAX + 1, &text, &n, &e) < 0) {
		if (e.code != ERR_NOT_FOUND)
			launch_say(l, "output/failure is not read: %s", e.text);
		return;
	}
	if (n > FAILURE_MAX)
		for (n = FAILURE_MAX; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80;)
			n--; /* not in the middle of a character */
	text[n] = '\0';
	if (text[0])
		report_artifact(l, "failure", NULL, NULL, n, 1, text);
}

/* ---- uploads ----------------------------------------------------------------------------------------------
 */

static void on_progress(uint64_t done, uint64_t total, void *arg)
{
	struct launch *l = arg;
	uint64_t now = clock_boot_us(l->host->env->clock);

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

/* An agent that starts removes folders without a launch, but not this one. */
static void mark_kept(const struct launch *l)
{
	cleanup_free char *path = xasprintf("%s/" KEPT_OUTPUTS_FILE, l->paths.work);
	struct err e = {0};

	if (fs_write_atomic(path, "", 0, 0600, &e) < 0)
		log_warn("event=not_marked job=%" PRIu64 " attempt=%u reason=\"%s\"", l->job, l->attempt, e.text);
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
	/* The results are worth more than free disk space. */
	l->kept_outputs = 1;
	mark_kept(l);
	l->cls = RC_STAGING;
	free(l->text);
	l->text = xasprintf("outputs could not be uploaded (%s); they stay on node %s in %s", text ? text : "?",
	                    l->host->env->cfg.node, l->paths.ml);
	drain_logs(l);
}

static void on_checkpoints(void *arg)
{
	struct launch *l = arg;

	l->checkpoints_saved = 1;
	launch_report(l);
}

static const struct upload_ops upload_ops = {
    .progress = on_progress, .artifact = on_artifact, .checkpoints = on_checkpoints, .done = on_uploaded};

/* The newest checkpoint is copied first: the next attempt begins with it. */
static void on_flushed(void *arg)
{
	struct launch *l = arg;

	if (launch_is_uploading(l) && !l->upload)
		start_upload(l);
}

static void start_upload(struct launch *l)
{
	l->upload_tries++;
	launch_phase(l, "uploading");
	launch_save(l, NULL);
	launch_report(l);
	/* Its own epoch, also when an order has told of a later one: its successor may have uploaded. */
	l->upload = upload_start(l->host->env, l->host->link, l->job, l->attempt, l->plan->m->epoch,
	                         l->plan->m->node_rank, l->plan->n_nodes, &l->paths, &l->user,
	                         l->plan->spec->output_uri, &upload_ops, l);
	if (!l->upload)
		on_uploaded(-1, "the upload could not be started", l);
}

/* Cut off: by now the controller may have given the attempt up, and the next one's outputs would lie where
 * these go. It says COLLECT once more when it is there again and still wants them. */
void launch_fence_upload(struct launch *l)
{
	if (!launch_is_uploading(l))
		return;
	log_warn("event=upload_fenced job=%" PRIu64 " attempt=%u", l->job, l->attempt);
	if (l->upload)
		upload_cancel(l->upload);
	l->upload = NULL;
	l->collecting = 0;
	l->upload_tries = 0;
	launch_arm(l, 0, NULL);
	launch_phase(l, NULL);
	launch_save(l, NULL);
	launch_report(l);
}

int launch_is_uploading(const struct launch *l)
{
	return l->collecting && l->keep && !l->draining && l->state == LAUNCH_ENDED;
}

/* ---- logs ------------------------------------------------------------------------------------------- */

static void on_drained(void *arg)
{
	struct launch *l = arg;

	l->tails_open--;
	launch_collect_step(l);
}

static void finish_tail(struct launch *l, struct tail *t)
{
	if (!t)
		return;
	l->tails_open++;
	tail_finish(t, on_drained, l);
}

static void drain_logs(struct launch *l)
{
	launch_phase(l, NULL);
	launch_save(l, NULL);
	launch_say(l, "cleaning up");
	if (l->setup)
		nodelog_close(l->setup);
	if (l->system)
		nodelog_close(l->system);
	l->setup = l->system = NULL;
	l->draining = 1;
	l->tails_open = 1; /* this function's own, so that no callback finds 0 too early */
	for (struct lproc *p = l->procs; p; p = p->next)
		finish_tail(l, p->tail);
	finish_tail(l, l->setup_tail);
	finish_tail(l, l->system_tail);
	on_drained(l);
}

/* ---- the end ----------------------------------------------------------------------------------------------
 */

static void late_release(struct launch *l)
{
	for (struct lproc *p = l->procs; p; p = p->next) {
		if (!p->link || shimlink_is_gone(p->link))
			continue;
		log_warn("event=shim_not_released job=%" PRIu64 " attempt=%u proc=%s", l->job, l->attempt, p->name);
		if (l->release_tries < RELEASE_TRIES)
			shimlink_release(p->link); /* refused while its process had not ended */
	}
	if (l->release_tries++ < RELEASE_TRIES) {
		launch_arm(l, RELEASE_US, late_release);
		return;
	}
	l->releases_open = 0;
	clean_launch(l);
}

static void release_shims(struct launch *l)
{
	l->releases_open = 1;
	l->released = 1;
	launch_save(l, NULL); /* from here on a missing shim is not a lost one */
	launch_arm(l, RELEASE_US, late_release);
	for (struct lproc *p = l->procs; p; p = p->next)
		if (p->link && !shimlink_is_gone(p->link))
			shimlink_release(p->link);
	launch_collect_step(l);
}

/* From here on the node may be lost and the result is not. */
static void say_saved(struct launch *l)
{
	cleanup_free char *artifacts = xasprintf("%s artifact", l->key);

	if (l->saved || !l->keep || l->state != LAUNCH_ENDED || l->kept_outputs ||
	    outbox_holds(l->host->outbox, artifacts))
		return;
	l->saved = 1;
	launch_report(l);
}

static void on_rest(int left, void *arg)
{
	struct launch *l = arg;

	l->sweep = NULL;
	if (left > 0) {
		launch_arm(l, LEFT_US, launch_collect_step);
		return;
	}
	l->unkilled = 0;
	launch_report(l);
	launch_collect_step(l);
}

/* Whatever is left holds the clean-up back, and is looked for then (await_rest). */
static void on_proved(int left, void *arg)
{
	struct launch *l = arg;

	l->sweep = NULL;
	if (left == 0) {
		l->unkilled = 0;
		launch_report(l);
	}
	launch_collect_step(l);
}

void launch_prove_over(struct launch *l)
{
	if (l->unkilled && !l->sweep)
		launch_ask_sweep(l, 0, on_proved);
}

/* It holds GPUs and CPUs: looked for again and again. */
static void await_rest(struct launch *l)
{
	if (!l->sweep && l->on_timer != launch_collect_step)
		launch_ask_sweep(l, 0, on_rest);
}

static void report_suspect(struct launch *l, const char *text)
{
	log_warn("event=gpu_suspect job=%" PRIu64 " attempt=%u text=\"%s\"", l->job, l->attempt, text);
	if (l->host->pools)
		pools_suspect(l->host->pools, l->plan->m->pool, l->job, text);
}

/* The next job would find less memory, or what a dead process left in it. */
static void report_gpus(struct launch *l, uint32_t gpu, uint64_t used)
{
	cleanup_free char *text = NULL;
	char size[32];

	text = xasprintf("%s of GPU %u are in use %u s after the job", str_size(used, size, sizeof(size)), gpu,
	                 GPUS_IDLE_US / 1000000);
	report_suspect(l, text);
}

static char *settings_file(const struct launch *l)
{
	return xasprintf("%s/gpus", l->paths.run);
}

void launch_gpus_note(const struct launch *l)
{
	const struct wire_u32v *gpus = &l->plan->m->gpus;
	struct gpu_state *s = inventory_gpu_state(l->host->inv);
	cleanup_free char *file = settings_file(l);

	if (s && gpus->n)
		gpu_state_note(s, file, gpus->v, gpus->n);
}

/* 1: clocks and modes are as before the launch. */
static int gpus_put_back(struct launch *l)
{
	struct gpu_state *s = inventory_gpu_state(l->host->inv);
	cleanup_free char *file = settings_file(l), *why = NULL;

	if (l->gpus_back || !s)
		return 1;
	l->gpus_back = (uint8_t)gpu_state_put_back(s, file, &why);
	if (why)
		report_suspect(l, why);
	return l->gpus_back;
}

/* 1: it waits. Only what may stay warm is looked at: other jobs do not wait for the driver. */
static int await_gpus(struct launch *l)
{
	const struct wm_prepare *m = l->plan->m;
	const struct wire_u32v *gpus = &m->gpus;
	uint64_t now = clock_boot_us(l->host->env->clock), used = 0;
	uint32_t gpu = 0;
	int first = !l->gpus_from_us, warm = !l->discarding && (m->pool || m->pool_keep);

	if (l->gpus_done || !gpus->n)
		return 0;
	if (!warm) { /* nobody waits */
		cleanup_free char *file = settings_file(l);

		l->gpus_done = 1;
		if (inventory_gpu_state(l->host->inv))
			gpu_state_put_back(inventory_gpu_state(l->host->inv), file, NULL);
		return 0;
	}
	if (first) {
		l->gpus_from_us = now;
		l->gpus_until_us = now + (FAULT("agent.gpus") ? GPUS_LOOK_US : GPUS_IDLE_US);
	}
	if (gpus_put_back(l) &&
	    inventory_gpus_idle(l->host->inv, gpus->v, gpus->n, l->gpus_from_us, &gpu, &used)) {
		l->gpus_done = 1;
		return 0;
	}
	if (now >= l->gpus_until_us) {
		l->gpus_done = 1;
		if (l->gpus_back)
			report_gpus(l, gpu, used);
		else
			report_suspect(l, "the driver does not answer for the settings of the GPUs");
		return 0;
	}
	if (l->on_timer != launch_collect_step)
		launch_arm(l, first ? GPUS_FIRST_US : GPUS_LOOK_US, launch_collect_step);
	return 1;
}

/* Called when a tail is drained, a report is durable, a shim is gone. */
void launch_collect_step(struct launch *l)
{
	if (!l->collecting || l->upload || l->state == LAUNCH_CLEANED || !l->draining || l->removing)
		return;
	say_saved(l);
	if (l->tails_open)
		return;
	if (!l->released) {
		cleanup_free char *procs = xasprintf("%s proc", l->key);
		cleanup_free char *artifacts = xasprintf("%s artifact", l->key);

		/* Reports of checkpoints leave before CLEANED, and a hearthd that knows none acknowledges none. */
		if (!l->discarding &&
		    (outbox_holds(l->host->outbox, procs) || outbox_holds(l->host->outbox, artifacts)))
			return;
		if (l->unkilled)
			await_rest(l);
		else if (!await_gpus(l))
			release_shims(l);
		return;
	}
	for (struct lproc *p = l->procs; p; p = p->next)
		if (p->link && !shimlink_is_gone(p->link))
			return;
	launch_arm(l, 0, clean_launch); /* not here: the caller is a callback of a shim link */
}

static void left_behind(struct launch *l, const char *why)
{
	log_warn("event=not_removed job=%" PRIu64 " attempt=%u reason=\"%s\"", l->job, l->attempt, why);
	if (l->text[0])
		return;
	free(l->text);
	l->text = xasprintf("left behind: %s", why);
}

/* Folders may be the job's, with any number of files. */
static int strip_one(const char *name, void *arg)
{
	struct launch *l = arg;
	cleanup_free char *path = xasprintf("%s/%s", l->paths.run, name);
	struct err e = {0};

	if (strcmp(name, "plan") == 0 || strcmp(name, "life") == 0 || unlink(path) == 0)
		return 0;
	if (trash_put(l->host->trash, path, l->key, &e) < 0)
		left_behind(l, e.text);
	return 0;
}

/* Plan and life stay until the controller has CLEANED durably: an agent that starts meanwhile must be able to
 * say so. */
static void strip_run(struct launch *l)
{
	fs_each(l->paths.run, strip_one, l, NULL);
}

static void on_cleaned(struct launch *l)
{
	launch_arm(l, 0, NULL);
	l->removing = 0;
	l->state = LAUNCH_CLEANED;
	pools_quiet(l->pool);
	launch_save(l, NULL);
	log_info("event=launch job=%" PRIu64 " attempt=%u state=cleaned", l->job, l->attempt);
	launch_report(l);
}

static void on_removed(const char *why, void *arg)
{
	struct launch *l = arg;

	if (why)
		left_behind(l, why);
	on_cleaned(l);
}

/* CLEANED frees GPUs and CPUs: they are not to lie idle for a slow disk. */
static void late_removal(struct launch *l)
{
	trash_forget(l->host->trash, l);
	log_warn("event=slow_removal job=%" PRIu64 " attempt=%u text=\"it goes on behind\"", l->job, l->attempt);
	on_cleaned(l);
}

/* Everything is out of use: away with it. Also what an agent begins with that finds its predecessor there. */
void launch_remove(struct launch *l)
{
	struct err e = {0};

	l->removing = 1;
	launch_save(l, NULL); /* before the logs go: nobody is to open them again */
	if (!l->kept_outputs && trash_put(l->host->trash, l->paths.work, l->key, &e) < 0)
		left_behind(l, e.text);
	strip_run(l);
	launch_arm(l, GONE_US, late_removal);
	trash_wait(l->host->trash, l->key, on_removed, l);
}

static void clean_launch(struct launch *l)
{
	launch_free_procs(l);
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
	launch_keep_end(l);
	launch_remove(l);
}

static void drop_tail(struct tail **t)
{
	if (*t)
		tail_destroy(*t);
	*t = NULL;
}

void launch_discard(struct launch *l)
{
	if (l->discarding)
		return;
	launch_fence_upload(l);
	l->discarding = 1;
	l->collecting = 1;
	l->draining = 1;
	l->unsure = 0;
	l->keep = 0;
	if (l->setup)
		nodelog_close(l->setup);
	if (l->system)
		nodelog_close(l->system);
	l->setup = l->system = NULL;
	for (struct lproc *p = l->procs; p; p = p->next)
		drop_tail(&p->tail);
	drop_tail(&l->setup_tail);
	drop_tail(&l->system_tail);
	l->tails_open = 0;
	launch_save(l, NULL);
	launch_collect_step(l);
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
	l->unsure = 0;
	l->keep = keep;
	/* The text of CLEANED is about the clean-up alone; ENDED had the end's. */
	l->cls = RC_NONE;
	l->text[0] = '\0';
	launch_save(l, NULL);
	/* A launch that never ran has nothing to keep. */
	if (keep && l->state == LAUNCH_ENDED)
		launch_keep_flush(l, on_flushed);
	else
		drain_logs(l);
}
