/*
 * replace: see replace.h.
 */
#include "controller/run/replace.h"

#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/run/array.h"
#include "controller/share/alloc.h"
#include "controller/state/core_state.h"
#include "controller/state/turn.h"

#define NAMED 3 /* nodes in a sentence */

static int is_listed(const cJSON *list, const char *name)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, list)
		if (cJSON_IsString(v) && strcmp(v->valuestring, name) == 0)
			return 1;
	return 0;
}

void replace_names(struct core *c, const struct cjob *j, const char **names)
{
	const struct attempt_rec *a = j->r.att;
	cJSON *plan = a->plan ? cJSON_Parse(a->plan) : NULL;
	const cJSON *avoid = cJSON_GetObjectItemCaseSensitive(plan, "avoid");

	for (uint32_t i = 0; i < a->n_places; i++) {
		const struct place_rec *p = &a->places[i];

		names[i] = p->state == PLACE_LOST || is_listed(avoid, p->node) || !alloc_lasts(c, p->node_id)
		               ? NULL
		               : p->node;
	}
	cJSON_Delete(plan);
}

void replace_add_kept(struct core *c, const struct cjob *j, cJSON *d)
{
	const struct attempt_rec *a = j->r.att;
	cJSON *plan = a->plan ? cJSON_Parse(a->plan) : NULL, *keeps = cJSON_CreateArray();
	const cJSON *avoid = cJSON_GetObjectItemCaseSensitive(plan, "avoid");
	int again = a->state == ATT_ENDED; /* it keeps some of what it kept */

	for (uint32_t i = 0; (again || rec_keeps_nodes(&j->r)) && i < a->n_places; i++) {
		const struct place_rec *p = &a->places[i];

		if (p->state >= PLACE_ENDED && p->state <= PLACE_CLEANED && (p->kept || !again) &&
		    !is_listed(avoid, p->node) && alloc_lasts(c, p->node_id))
			cJSON_AddItemToArray(keeps, cJSON_CreateNumber(i));
	}
	cJSON_AddItemToObject(d, "keeps", keeps);
	cJSON_Delete(plan);
}

/* Returns 1 when a kept place is on a node that was lost or drained since. */
static int is_kept_lost(struct core *c, const struct attempt_rec *a)
{
	for (uint32_t i = 0; i < a->n_places; i++)
		if (a->places[i].kept && !alloc_lasts(c, a->places[i].node_id))
			return 1;
	return 0;
}

uint32_t replace_kept(const struct attempt_rec *a)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < a->n_places; i++)
		n += a->places[i].kept;
	return n;
}

void replace_give_up(struct core *c, struct cjob *j, const struct job_spec *spec)
{
	alloc_unqueue(c, j);
	array_queue(c, j, spec);
}

/* "b, c and 2 more", the nodes that the job gave back; "nodes" when it names none. */
static void name_missing(const struct attempt_rec *a, struct text *out)
{
	uint32_t named = 0, more = 0;

	for (uint32_t i = 0; i < a->n_places; i++) {
		if (a->places[i].kept)
			continue;
		if (named < NAMED)
			text_add(out, "%s%s", named++ ? ", " : "", a->places[i].node);
		else
			more++;
	}
	if (more)
		text_add(out, " and %u more", more);
}

/* No node came in time. Follows S-159. */
static void end_wait(struct core *c, struct cjob *j, const struct job_spec *spec)
{
	uint32_t kept = replace_kept(j->r.att);
	cJSON *d;
	char span[40];
	TEXT(reason);

	if (j->collect) /* nodes may still come until its results are saved */
		return;
	d = cJSON_CreateObject();
	text_add(&reason, "%.500s; no node replaced ", j->r.reason ? j->r.reason : "");
	name_missing(j->r.att, &reason);
	text_add(&reason, " within %s: the job ", str_duration(spec->retry.wait_s, span, sizeof(span)));
	if (kept)
		text_add(&reason, "gave back its other %u node%s and ", kept, kept == 1 ? "" : "s");
	text_add(&reason, "waits first of its priority");
	json_add_str(d, "reason", reason.at);
	if (j->r.begins)
		json_add_str(d, "begins", j->r.begins);
	if (job_post(c, j, EV_REQUEUED, d) == 0)
		replace_give_up(c, j, spec);
}

/* Asks for nodes in place of those that the job does not keep. */
static int replace_nodes(struct core *c, struct cjob *j, const struct job_spec *spec)
{
	const struct attempt_rec *a = j->r.att;
	uint64_t *drop = xcalloc(a->n_places, sizeof(*drop));
	uint32_t n = 0;
	int rc;

	for (uint32_t i = 0; i < a->n_places; i++)
		if (!a->places[i].kept)
			drop[n++] = a->places[i].node_id;
	rc = alloc_exchange(c, j, spec, drop, n);
	free(drop);
	return rc;
}

void replace_begin(struct core *c, struct cjob *j, const struct job_spec *spec)
{
	if (replace_nodes(c, j, spec) < 0) {
		end_wait(c, j, spec);
		return;
	}
	j->recover_us = now_boot(c) + (uint64_t)spec->retry.wait_s * 1000000;
	job_deadline(c, j, j->recover_us);
}

/* Notes that the job gives back more. */
static void keep_less(struct core *c, struct cjob *j)
{
	cJSON *d = cJSON_CreateObject();

	json_add_str(d, "status", state_name(STATE_JOB, JOB_RECOVERING));
	json_add_str(d, "text", "a node that the job kept is lost or drained: the job gives it back");
	json_add_str(d, "reason", j->r.reason);
	if (j->r.begins)
		json_add_str(d, "begins", j->r.begins);
	replace_add_kept(c, j, d);
	job_post(c, j, EV_REQUEUED, d);
}

void replace_review(struct core *c, struct cjob *j, const struct job_spec *spec)
{
	if (now_boot(c) >= j->recover_us) {
		end_wait(c, j, spec);
		return;
	}
	if (is_kept_lost(c, j->r.att))
		keep_less(c, j);
	if (replace_nodes(c, j, spec) < 0)
		end_wait(c, j, spec);
	else
		job_deadline(c, j, j->recover_us);
}
