/*
 * launch_info: facts for the record of the run: software of the node (driver, CUDA, MPI ...) and packages
 * of the job's interpreter. The packages cost the start of an interpreter, so the main node asks for them
 * once the ranks run, and remembers the answer for PACKAGES_US.
 */
#include <stdio.h>
#include <string.h>

#include "agent/launch/launch_steps.h"

#define PACKAGES_US 600000000ull
#define REMEMBERED  8
#define TEXT_MAX    (1024 * 1024)

static struct remembered {
	char *key, *text; /* key: account and folder of the interpreter */
	uint64_t at_us;
} remembered[REMEMBERED]; /* of this process; only a saving, so it may be forgotten at any time */

static char *key_of(const struct launch *l)
{
	return xasprintf("%u %s", (unsigned)l->user.uid, l->venv_bin ? l->venv_bin : "");
}

static struct remembered *find_packages(const char *key)
{
	for (int i = 0; i < REMEMBERED; i++)
		if (remembered[i].key && strcmp(remembered[i].key, key) == 0)
			return &remembered[i];
	return NULL;
}

static void remember_packages(const char *key, const char *text, uint64_t now)
{
	struct remembered *r = find_packages(key);

	for (int i = 0; i < REMEMBERED && !r; i++)
		if (!remembered[i].key)
			r = &remembered[i];
	for (int i = 0; i < REMEMBERED && !r; i++)
		if (i == 0 || remembered[i].at_us < r->at_us)
			r = &remembered[i];
	free(r->key);
	free(r->text);
	*r = (struct remembered){.key = xstrdup(key), .text = xstrdup(text), .at_us = now};
}

void launch_info_forget(void)
{
	for (int i = 0; i < REMEMBERED; i++) {
		free(remembered[i].key);
		free(remembered[i].text);
		remembered[i] = (struct remembered){0};
	}
}

static void on_packages(const char *text, const char *why, void *arg)
{
	struct launch *l = arg;
	cleanup_free char *key = key_of(l);

	l->packages = NULL;
	launch_inside_ended(l);
	if (!text) {
		launch_say(l, "list of packages: %s", why ? why : "unknown");
		return;
	}
	remember_packages(key, text, clock_boot_us(l->host->env->clock));
	launch_run_info(l, "pip", text);
}

static int uses_python(const struct launch *l)
{
	struct strv argv = {0};
	const char *slash;
	int yes;

	if (l->venv_bin)
		return 1;
	plan_argv(l->plan, &argv);
	slash = argv.n ? strrchr(argv.v[0], '/') : NULL;
	yes = argv.n && strncmp(slash ? slash + 1 : argv.v[0], "python", 6) == 0;
	strv_fini(&argv);
	return yes;
}

void launch_info_packages(struct launch *l)
{
	cleanup_free char *key = key_of(l);
	const struct remembered *r = find_packages(key);

	if (l->plan->m->node_rank != 0 || l->packages || !uses_python(l))
		return;
	if (r && clock_boot_us(l->host->env->clock) - r->at_us < PACKAGES_US) {
		launch_run_info(l, "pip", r->text);
		return;
	}
	l->packages = stage_packages(l->host->link, l->venv_bin, launch_inside_packages(l), on_packages, l);
}

void launch_info_software(struct launch *l)
{
	struct strv lines = {0};
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		abort();
	inventory_software(l->host->inv, &lines);
	for (size_t i = 0; i < lines.n; i++)
		fprintf(f, "%s\n", lines.v[i]);
	if (fclose(f) != 0)
		abort();
	if (n < TEXT_MAX)
		launch_run_info(l, "software", text);
	free(text);
	strv_fini(&lines);
}
