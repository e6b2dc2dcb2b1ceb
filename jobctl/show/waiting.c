/*
 * waiting: see waiting.h.
 */
#include "jobctl/show/waiting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "jobctl/client/ctx.h"
#include "jobctl/client/job.h"
#include "jobctl/client/progress.h"
#include "jobctl/show/print.h"

#define FIRST_US 4000000u  /* no line for jobs that start sooner */
#define APART_US 10000000u /* between two lines */
#define OFTEN    30        /* ticks; after that only every fifth asks */

struct waiting {
	struct ctx *c;
	uint64_t job;
	struct client *client; /* of its own: the context's client reads an answer */
	uint64_t since_us, said_us;
	char *said; /* the last line on standard error; NULL: none yet */
	int drawn;  /* a line is on the terminal */
	unsigned ticks;
};

struct waiting *waiting_create(struct ctx *c, uint64_t job)
{
	struct waiting *w = xcalloc(1, sizeof(*w));
	w->c = c;
	w->job = job;
	w->since_us = clock_boot_us(clock_real());
	return w;
}

void waiting_destroy(struct waiting *w)
{
	if (!w)
		return;
	client_destroy(w->client);
	free(w->said);
	free(w);
}

void waiting_wipe(struct waiting *w)
{
	if (w->drawn)
		progress_note("");
	w->drawn = 0;
}

static const char *skip_number(const char *p)
{
	return p + strspn(p, "0123456789.");
}

int waiting_alike(const char *a, const char *b)
{
	for (;; a++, b++) {
		a = skip_number(a);
		b = skip_number(b);
		if (*a != *b)
			return 0;
		if (!*a)
			return 1;
	}
}

/* A job that runs may be silent, so that is not reported. */
static int is_news(const struct waiting *w, const char *status, const char *text)
{
	uint64_t now = clock_boot_us(clock_real());
	if (strcmp(status, "running") == 0 || strcmp(status, "stopping") == 0 || job_ended(status) ||
	    now - w->since_us < FIRST_US)
		return 0;
	return !w->said || (now - w->said_us >= APART_US && !waiting_alike(w->said, text));
}

static void report_reason(struct waiting *w, const cJSON *why)
{
	uint64_t id = w->job;
	char *note =
	    xasprintf("job %" PRIu64 ": %s: %s", id, print_member(why, "status"), print_member(why, "text"));
	char *local = print_local(note), *safe = print_safe(local);
	for (char *p = safe; *p; p++)
		*p = *p == '\n' || *p == '\t' ? ' ' : *p;
	if (progress_wanted()) {
		progress_note(safe);
		w->drawn = 1;
	} else if (is_news(w, print_member(why, "status"), note)) {
		fprintf(stderr, "[hearth: %s]\n", safe);
		free(w->said);
		w->said = xstrdup(note);
		w->said_us = clock_boot_us(clock_real());
	}
	free(safe);
	free(local);
	free(note);
}

void waiting_tick(struct waiting *w)
{
	cJSON *why = NULL;
	if (w->ticks++ > OFTEN && w->ticks % 5)
		return;
	if (!w->client)
		w->client = ctx_second_client(w->c, 0, NULL);
	char *path = xasprintf("/jobs/%" PRIu64 "/why", w->job);
	if (w->client && !client_call(w->client, "GET", path, NULL, &why, NULL))
		report_reason(w, why);
	cJSON_Delete(why);
	free(path);
}
