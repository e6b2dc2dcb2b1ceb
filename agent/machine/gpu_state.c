/*
 * gpu_state: see gpu_state.h.
 *
 * The file has a line for each GPU: its number and its settings in the order of enum gpu_setting.
 */
#include "agent/machine/gpu_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "agent/base/worker.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define FILE_MAX 16384
#define QUEUE    1024
#define STOP_MS  3000

struct gpu_noted {
	uint32_t gpu;
	struct gpu_settings was;
};

struct gpu_task {
	struct gpu_state *state; /* loop */
	struct nvml *nvml;
	char *fake, *path;
	struct gpu_noted v[GPUS_MAX];
	uint32_t n;
	char *why;
	int asked, done; /* somebody wants the result; it is known */
	struct gpu_task *prev, *next;
};

struct gpu_state {
	struct agent_env *env;
	struct nvml *nvml;
	const struct gpus *gpus;
	struct workers *workers;
	struct gpu_task *asked;
};

struct gpu_state *gpu_state_create(struct agent_env *env, struct nvml *nvml, const struct gpus *gpus)
{
	static const struct workers_limits one = {.threads = 1, .queue = QUEUE};
	struct gpu_state *s = xcalloc(1, sizeof(*s));

	*s = (struct gpu_state){.env = env, .nvml = nvml, .gpus = gpus};
	s->workers = workers_create_pool(env->loop, &one);
	return s;
}

static void task_free(void *arg)
{
	struct gpu_task *t = arg;

	free(t->fake);
	free(t->path);
	free(t->why);
	free(t);
}

int gpu_state_destroy(struct gpu_state *s)
{
	struct gpu_task *t, *next;
	int rc;

	if (!s)
		return 0;
	rc = workers_destroy(s->workers, STOP_MS);
	DL_FOREACH_SAFE (s->asked, t, next)
		if (t->done) {
			DL_DELETE(s->asked, t);
			task_free(t);
		}
	free(s);
	return rc;
}

/* ---- on the thread ------------------------------------------------------------------------------------ */

static void read_settings(const struct gpu_task *t, uint32_t gpu, struct gpu_settings *out)
{
	if (t->nvml)
		gpu_nvml_settings(t->nvml, gpu, out);
	else
		gpu_fake_settings(t->fake, gpu, out);
}

static void put_setting(const struct gpu_task *t, uint32_t gpu, const struct gpu_settings *to,
                        enum gpu_setting which)
{
	if (t->nvml)
		gpu_nvml_put(t->nvml, gpu, to, which);
	else
		gpu_fake_put(t->fake, gpu, to, which);
}

static void run_note(struct worker *w, void *arg)
{
	struct gpu_task *t = arg;
	cleanup_free char *text = xstrdup("");
	struct err e = {0};

	(void)w;
	for (uint32_t i = 0; i < t->n; i++) {
		char *next;

		read_settings(t, t->v[i].gpu, &t->v[i].was);
		next = xasprintf("%s%u", text, t->v[i].gpu);
		free(text);
		text = next;
		for (int k = 0; k < GPU_SETTINGS; k++) {
			next = xasprintf("%s %" PRId64, text, t->v[i].was.v[k]);
			free(text);
			text = next;
		}
		next = xasprintf("%s\n", text);
		free(text);
		text = next;
	}
	if (fs_replace(t->path, text, strlen(text), 0600, &e) < 0)
		log_warn("event=gpus_not_noted reason=\"%s\"", e.text);
}

static int differs(const struct gpu_settings *was, const struct gpu_settings *is, int k)
{
	return was->v[k] >= 0 && is->v[k] >= 0 && was->v[k] != is->v[k];
}

static void put_gpu(struct gpu_task *t, const struct gpu_noted *g)
{
	static const char *const names[GPU_SETTINGS] = {"power limit (mW)", "compute mode", "MIG mode",
	                                                "graphics clock (MHz)", "memory clock (MHz)"};
	struct gpu_settings is;

	read_settings(t, g->gpu, &is);
	for (int k = 0; k < GPU_SETTINGS; k++)
		if (differs(&g->was, &is, k))
			put_setting(t, g->gpu, &g->was, (enum gpu_setting)k);
	read_settings(t, g->gpu, &is);
	for (int k = 0; k < GPU_SETTINGS && !t->why; k++)
		if (differs(&g->was, &is, k))
			t->why = xasprintf("%s of GPU %u is %" PRId64 " after the job, and was %" PRId64, names[k],
			                   g->gpu, is.v[k], g->was.v[k]);
}

static void run_put(struct worker *w, void *arg)
{
	struct gpu_task *t = arg;

	for (uint32_t i = 0; i < t->n && !worker_cancelled(w); i++)
		put_gpu(t, &t->v[i]);
}

/* ---- on the loop -------------------------------------------------------------------------------------- */

static void on_put(void *arg)
{
	struct gpu_task *t = arg;

	t->done = 1;
	if (t->why)
		log_warn("event=gpu_changed text=\"%s\"", t->why);
}

/* One with a result that somebody wants is freed when it was asked for. */
static void release_task(void *arg)
{
	struct gpu_task *t = arg;

	if (t->asked && t->done)
		return;
	if (t->asked)
		DL_DELETE(t->state->asked, t);
	task_free(t);
}

static struct gpu_task *task_new(struct gpu_state *s, const char *path)
{
	struct gpu_task *t = xcalloc(1, sizeof(*t));

	t->state = s;
	t->nvml = s->nvml;
	t->fake = xstrdup(s->env->cfg.fake_gpus);
	t->path = xstrdup(path);
	return t;
}

static int start_task(struct gpu_state *s, struct gpu_task *t, void (*run)(struct worker *w, void *arg))
{
	const struct worker_task task = {.run = run, .done = on_put, .release = release_task};
	struct err e = {0};

	if (worker_start(s->workers, &task, t, &e))
		return 0;
	log_warn("event=gpu_settings_not_read reason=\"%s\"", e.text);
	release_task(t);
	return -1;
}

void gpu_state_note(struct gpu_state *s, const char *path, const uint32_t *gpus, uint32_t n)
{
	struct gpu_task *t = task_new(s, path);

	for (uint32_t i = 0; i < n && i < GPUS_MAX; i++)
		if (gpus[i] < s->gpus->n)
			t->v[t->n++].gpu = gpus[i];
	start_task(s, t, run_note);
}

static int parse_line(const char *line, struct gpu_noted *g)
{
	return sscanf(line, "%" SCNu32 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &g->gpu,
	              &g->was.v[0], &g->was.v[1], &g->was.v[2], &g->was.v[3], &g->was.v[4]) == 1 + GPU_SETTINGS;
}

static void load_noted(const struct gpu_state *s, struct gpu_task *t)
{
	cleanup_free char *text = NULL;
	char *save = NULL;
	size_t n;

	if (fs_read_file(t->path, FILE_MAX, &text, &n, NULL) < 0)
		return;
	for (char *line = strtok_r(text, "\n", &save); line && t->n < GPUS_MAX;
	     line = strtok_r(NULL, "\n", &save))
		if (parse_line(line, &t->v[t->n]) && t->v[t->n].gpu < s->gpus->n)
			t->n++;
}

static struct gpu_task *find_asked(const struct gpu_state *s, const char *path)
{
	struct gpu_task *t;

	DL_FOREACH (s->asked, t)
		if (strcmp(t->path, path) == 0)
			return t;
	return NULL;
}

int gpu_state_put_back(struct gpu_state *s, const char *path, char **why)
{
	struct gpu_task *t = why ? find_asked(s, path) : NULL;

	if (why)
		*why = NULL;
	if (t && !t->done)
		return 0;
	if (t) {
		*why = t->why;
		t->why = NULL;
		DL_DELETE(s->asked, t);
		task_free(t);
		return 1;
	}
	t = task_new(s, path);
	load_noted(s, t);
	if (!t->n) {
		task_free(t);
		return 1;
	}
	t->asked = why != NULL;
	if (why)
		DL_APPEND(s->asked, t);
	if (why && start_task(s, t, run_put) == 0)
		return 0;
	if (!why)
		start_task(s, t, run_put);
	return 1;
}
