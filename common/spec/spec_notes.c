/* spec_notes: what a specification may mean otherwise than it says. Nothing is refused: a program may report
 * any metric by itself, and no specification says which. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/spec/preload.h"
#include "common/spec/spec.h"

/* "loss, step" */
static char *metric_names(const struct job_spec *s)
{
	char *all = xstrdup("");

	for (size_t i = 0; i < s->n_metrics; i++) {
		char *longer = xasprintf("%s%s%s", all, i ? ", " : "", s->metrics[i].name);

		free(all);
		all = longer;
	}
	return all;
}

static int reads_metric(const struct job_spec *s, const char *name)
{
	for (size_t i = 0; i < s->n_metrics; i++)
		if (strcmp(s->metrics[i].name, name) == 0)
			return 1;
	return 0;
}

static void note_search(const struct job_spec *s, struct strv *notes)
{
	const char *metric = s->search.metric, *near;
	int halving = s->search.eta != 0;
	struct strv known = {0};
	char *names;

	if (!metric || !s->sweep.n_axes)
		return;
	for (size_t i = 0; i < s->n_metrics; i++)
		strv_add(&known, s->metrics[i].name);
	near = s->n_metrics ? str_nearest(metric, (const char *const *)known.v) : NULL;
	names = metric_names(s);
	if (!reads_metric(s, metric) && (s->n_metrics || halving))
		strv_addf(notes, "search.metric: no pattern under \"metrics\" is called \"%s\"%s%s%s%s%s: %s", metric,
		          near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "",
		          s->n_metrics ? "; there are " : "", names,
		          halving
		              ? "unless the program reports it by itself (hearth.log), no member is ever stopped"
		              : "unless the program reports it by itself (hearth.log), the members are not compared");
	else if (halving && s->n_metrics && !reads_metric(s, "step"))
		strv_addf(
		    notes,
		    "search.halving: no pattern under \"metrics\" is called \"step\", so what is read as \"%s\" has "
		    "no step: unless the program reports it by itself (hearth.log), no member is ever stopped",
		    metric);
	free(names);
	strv_fini(&known);
}

/* Adds a note on a key whose metric no pattern reads. */
static void note_unread(const struct job_spec *s, struct strv *notes, const char *key, const char *metric,
                        const char *without)
{
	struct strv known = {0};
	const char *near;
	char *names;

	if (reads_metric(s, metric))
		return;
	for (size_t i = 0; i < s->n_metrics; i++)
		strv_add(&known, s->metrics[i].name);
	near = s->n_metrics ? str_nearest(metric, (const char *const *)known.v) : NULL;
	names = metric_names(s);
	strv_addf(notes,
	          "%s: no pattern under \"metrics\" is called \"%s\"%s%s%s%s%s: unless the program reports it by "
	          "itself (hearth.log), %s",
	          key, metric, near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "",
	          s->n_metrics ? "; there are " : "", names, without);
	free(names);
	strv_fini(&known);
}

/* Returns the first kind from..to-1 that was given an action beyond its default; WATCH_KINDS: none. */
static enum watch_kind asked_kind(const struct watch_conf *conf, enum watch_kind from, enum watch_kind to)
{
	for (enum watch_kind k = from; k < to; k++)
		if (conf->on[k] > watch_conf_default.on[k])
			return k;
	return WATCH_KINDS;
}

static void note_watch(const struct job_spec *s, struct strv *notes)
{
	const struct spec_watch *w = &s->watch;
	enum watch_kind of_loss = asked_kind(&w->conf, WATCH_SPIKE, WATCH_SLOW);
	enum watch_kind of_steps = asked_kind(&w->conf, WATCH_SLOW, WATCH_KINDS);
	char key[64];

	if (strcmp(w->loss, "loss") != 0) {
		note_unread(s, notes, "watch.loss", w->loss, "the loss is not watched");
	} else if (of_loss != WATCH_KINDS) {
		snprintf(key, sizeof(key), "watch.on_%s", watch_kind_name(of_loss));
		note_unread(s, notes, key, w->loss, "the loss is not watched");
	}
	if (strcmp(w->step, "step") != 0) {
		note_unread(s, notes, "watch.step", w->step, "the steps are not watched");
	} else if (of_steps != WATCH_KINDS) {
		snprintf(key, sizeof(key), "watch.on_%s", watch_kind_name(of_steps));
		note_unread(s, notes, key, w->step, "the steps are not watched");
	}
	if (*w->throughput)
		note_unread(s, notes, "watch.throughput", w->throughput, "the steps are not watched");
}

static void note_rules(const struct job_spec *s, struct strv *notes)
{
	for (size_t i = 0; i < s->n_rules; i++) {
		char key[48];

		if (!s->rules[i].metric)
			continue;
		snprintf(key, sizeof(key), "rules[%zu].metric", i);
		note_unread(s, notes, key, s->rules[i].metric, "the rule is never raised");
	}
}

/* Says why no interpreter waits for jobs like this one. */
static void note_preload(const struct job_spec *s, struct strv *notes)
{
	struct err e;

	if (!s->preload.n)
		return;
	if (s->launcher == LAUNCHER_TORCHRUN) {
		strv_add(notes,
		         "warm_pool.preload: it is ignored, because torchrun starts interpreters of its own; use "
		         "the launcher mpirun or direct");
		return;
	}
	for (size_t i = 0; i < s->n_groups; i++) {
		struct preload_command c;
		const struct strv *argv = s->groups[i].command.n ? &s->groups[i].command : &s->command;

		if (preload_split(argv, &c, &e) == 0)
			continue;
		if (s->has_groups)
			strv_addf(notes, "warm_pool.preload: it is ignored for the group \"%s\": %s", s->groups[i].name,
			          e.text);
		else
			strv_addf(notes, "warm_pool.preload: it is ignored: %s", e.text);
	}
}

void spec_notes(const struct job_spec *s, struct strv *notes)
{
	note_preload(s, notes);
	note_search(s, notes);
	note_watch(s, notes);
	note_rules(s, notes);
}
