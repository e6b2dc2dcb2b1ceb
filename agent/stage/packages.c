/*
 * packages: see packages.h.
 */
#include "agent/stage/packages.h"

#include <string.h>

#include "agent/base/worker.h"
#include "agent/stage/stage_int.h"

#define PACKAGES_MS  60000u
#define PACKAGES_MAX (1024 * 1024)

struct packages {
	struct worker *handle; /* loop's */
	struct worker *w;      /* the thread's own */
	struct inside *inside;
	char *python, *text;
	size_t n;
	struct err e;
	void (*done)(const char *text, const char *why, void *arg);
	void *arg;
};

static void take_output(const char *bytes, size_t n, void *arg)
{
	struct packages *p = arg;
	size_t room = PACKAGES_MAX - p->n;

	n = n < room ? n : room;
	memcpy(p->text + p->n, bytes, n);
	p->n += n;
	p->text[p->n] = '\0';
}

static int look_on(uint64_t silent_ms, void *arg)
{
	(void)silent_ms;
	return worker_cancelled(((struct packages *)arg)->w) ? -1 : 0;
}

static void packages_run(struct worker *w, void *arg)
{
	static const char script[] =
	    "import importlib.metadata as m\n"
	    "seen = {}\n"
	    "for d in m.distributions():\n"
	    "    n = d.metadata['Name']\n"
	    "    if n and n.lower() not in seen:\n" /* the first one found is the one that is imported */
	    "        seen[n.lower()] = n + '==' + d.version\n"
	    "print('\\n'.join(seen[k] for k in sorted(seen)))\n";
	struct packages *p = arg;
	/* Warnings do not belong to the list. */
	const char *argv[] = {"/bin/sh", "-c", "exec \"$0\" -c \"$1\" 2>/dev/null", p->python, script, NULL};
	struct strv env = {0};
	struct inside_run r = {.argv = argv,
	                       .env = &env,
	                       .cwd = "/",
	                       .timeout_ms = PACKAGES_MS,
	                       .output = take_output,
	                       .tick = look_on,
	                       .arg = p};
	int rc;

	p->w = w;
	p->text = xcalloc(1, PACKAGES_MAX + 1);
	strv_add(&env, "PATH=/usr/local/bin:/usr/bin:/bin");
	strv_add(&env, "LANG=C.UTF-8");
	strv_add(&env, "LC_ALL=C.UTF-8");
	rc = inside_run(p->inside, &r, &p->e);
	strv_fini(&env);
	if (rc == 0)
		return;
	err_wrap(&p->e, "%s", p->python);
	free(p->text);
	p->text = NULL;
}

static void packages_done(void *arg)
{
	struct packages *p = arg;

	p->done(p->text, p->text ? NULL : p->e.text, p->arg);
}

static void packages_late(void *arg)
{
	struct packages *p = arg;

	data_link_late(POOL_INFO, &p->e);
	packages_done(p);
}

static void packages_free(void *arg)
{
	struct packages *p = arg;

	inside_destroy(p->inside);
	free(p->python);
	free(p->text);
	free(p);
}

struct packages *stage_packages(struct data_link *b, const char *venv_bin, struct inside *in,
                                void (*done_fn)(const char *text, const char *why, void *arg), void *arg)
{
	static const struct worker_task task = {
	    .run = packages_run, .done = packages_done, .release = packages_free, .late = packages_late};
	struct packages *p = xcalloc(1, sizeof(*p));
	struct err e;

	p->inside = in;
	p->python = venv_bin ? xasprintf("%s/python", venv_bin) : xstrdup(STAGE_PYTHON);
	p->done = done_fn;
	p->arg = arg;
	p->handle = worker_start(data_link_workers(b, POOL_INFO), &task, p, &e);
	if (p->handle)
		return p;
	packages_free(p);
	return NULL;
}

void packages_stop(struct packages *p)
{
	inside_stop(p->inside);
}

int packages_busy(const struct packages *p)
{
	return inside_busy(p->inside);
}

void packages_cancel(struct packages *p)
{
	inside_stop(p->inside);
	worker_cancel(p->handle);
}
