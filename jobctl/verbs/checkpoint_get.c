/*
 * checkpoint_get: jobctl get JOB checkpoint --step N.
 *
 * A step may have several files, such as model_10.pt and optim_10.pt, and each file parts of several nodes.
 * An attempt begins with all of them, so all are fetched, or none: every part needs a verified copy outside
 * of its node. The name of a file may be there twice, as a program may save a step again: the newest counts.
 */
#include <inttypes.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "jobctl/client/bundle.h"
#include "jobctl/show/print.h"
#include "jobctl/verbs/checkpoints.h"

struct step {
	double step, attempt;
	const cJSON *list;
	int spread; /* several nodes have parts */
};

static int is_complete(const cJSON *k)
{
	return cJSON_IsTrue(jget(k, "complete")) != 0;
}

static int has_step(const cJSON *k, double step)
{
	return cJSON_IsNumber(jget(k, "step")) && print_number(k, "step") == step;
}

/* Returns the name of the file or folder that the program wrote. */
static const char *name_of(const cJSON *k)
{
	const char *name = jtext(cJSON_GetArrayItem(jget(k, "places"), 0), "name");

	return name ? name : "";
}

/* It is of the step, and the newest of its name. */
static int is_wanted(const struct step *s, const cJSON *k)
{
	const cJSON *later;

	if (!has_step(k, s->step) || print_number(k, "attempt") != s->attempt)
		return 0;
	for (later = k->next; later; later = later->next)
		if (has_step(later, s->step) && print_number(later, "attempt") == s->attempt &&
		    strcmp(name_of(later), name_of(k)) == 0)
			return 0;
	return 1;
}

static int is_outside(const cJSON *place)
{
	return jtext(place, "uri") && strcmp(print_member(place, "state"), "verified") == 0;
}

/* The part of that place has a verified copy outside of its node. */
static int has_copy(const cJSON *places, const cJSON *place)
{
	const cJSON *p;

	cJSON_ArrayForEach (p, places)
		if (is_outside(p) && print_number(p, "node_rank") == print_number(place, "node_rank"))
			return 1;
	return 0;
}

/* Says in why what is missing of a file; nothing if it can be fetched. Returns 1 when it never will be there.
 */
static int add_lack(const cJSON *k, struct text *why)
{
	const cJSON *places = jget(k, "places"), *p;

	cJSON_ArrayForEach (p, places) {
		const char *state = print_member(p, "state");

		if (strcmp(state, "torn") == 0 || strcmp(state, "gone") == 0) {
			text_add(why, "%.200s of node %.80s is %s", name_of(k), print_member(p, "node"), state);
			return 1;
		}
	}
	if (!is_complete(k)) {
		text_add(why, "%.200s is incomplete", name_of(k));
		return 0;
	}
	cJSON_ArrayForEach (p, places)
		if (!has_copy(places, p)) {
			text_add(why, "only node %.80s has its part of %.200s", print_member(p, "node"), name_of(k));
			return 0;
		}
	return 0;
}

/* Adds that the folder which that attempt left may have the step, too: jobctl fetches it as a whole. */
static void add_folder(struct ctx *c, uint64_t job, const char *ref, const struct step *s, struct text *out)
{
	char *path = xasprintf("/jobs/%" PRIu64 "/artifacts", job);
	cJSON *answer = NULL;
	const cJSON *a;
	struct err before = c->err;
	int has = 0;

	if (ctx_get(c, "GET", path, NULL, &answer) < 0)
		c->err = before;
	cJSON_ArrayForEach (a, jget(answer, "artifacts"))
		has |= strcmp(print_member(a, "kind"), "checkpoint") == 0 &&
		       print_number(a, "attempt") == s->attempt && !jtext(a, "removed_at");
	if (has)
		text_add(out,
		         "; the folder of checkpoints that attempt %.0f left may still have it: jobctl get %s "
		         "checkpoint -a %.0f fetches all of it",
		         s->attempt, ref, s->attempt);
	cJSON_Delete(answer);
	free(path);
}

/* Finds what is to be fetched, and fails unless all of it can be. */
static int check_step(struct ctx *c, uint64_t job, const char *ref, struct step *s)
{
	double first = -1;
	int lost = 0;
	const cJSON *k, *p;
	TEXT(why);
	TEXT(folder);

	cJSON_ArrayForEach (k, s->list) {
		if (!is_wanted(s, k))
			continue;
		if (text_is_empty(&why))
			lost = add_lack(k, &why);
		cJSON_ArrayForEach (p, jget(k, "places")) {
			double rank = print_number(p, "node_rank");

			s->spread |= first >= 0 && rank != first;
			first = rank;
		}
	}
	if (text_is_empty(&why))
		return 0;
	add_folder(c, job, ref, s, &folder);
	return ctx_fail(
	    c, ERR_CONFLICT,
	    "the checkpoint of step %.0f cannot be fetched as a whole: %s; see jobctl checkpoints %s%s%s",
	    s->step, why.at, ref, lost ? "" : ", and try again when all of its files are verified", folder.at);
}

static int get_part(struct ctx *c, uint64_t job, const cJSON *place, const char *dir)
{
	const char *uri = jtext(place, "uri"), *digest = jtext(place, "digest");
	char *query;
	int rc;

	if (strncmp(uri, CHECKPOINT_STORED, strlen(CHECKPOINT_STORED)) != 0)
		return bundle_copy_checked(uri, digest ? digest : "", dir, &c->err);
	query = xasprintf("job=%" PRIu64 "&kind=checkpoint", job);
	rc = bundle_download(c->client, uri + strlen(CHECKPOINT_STORED), query, dir, &c->err);
	free(query);
	return rc;
}

static int get_file(struct ctx *c, uint64_t job, const struct step *s, const cJSON *k, const char *dir)
{
	const cJSON *p;

	cJSON_ArrayForEach (p, jget(k, "places")) {
		char *to;
		int rc;

		if (!is_outside(p))
			continue;
		to = s->spread ? xasprintf("%s/algo-%.0f", dir, print_number(p, "node_rank") + 1) : xstrdup(dir);
		rc = get_part(c, job, p, to);
		free(to);
		if (rc < 0)
			return -1;
	}
	return 0;
}

static int get_step(struct ctx *c, uint64_t job, const char *ref, struct step *s, const char *dir)
{
	const cJSON *k;

	if (check_step(c, job, ref, s) < 0)
		return -1;
	cJSON_ArrayForEach (k, s->list)
		if (is_wanted(s, k) && get_file(c, job, s, k, dir) < 0)
			return -1;
	return 0;
}

static int fail_unknown(struct ctx *c, uint64_t job, const char *ref, struct step *s)
{
	double last = -1;
	const cJSON *k;
	TEXT(steps);
	TEXT(folder);

	cJSON_ArrayForEach (k, s->list) {
		if (!cJSON_IsNumber(jget(k, "step")) || !is_complete(k) || print_number(k, "step") == last)
			continue;
		last = print_number(k, "step");
		text_join(&steps, ", ", "%.0f", last);
	}
	cJSON_ArrayForEach (k, s->list)
		if (has_step(k, s->step))
			s->attempt = print_number(k, "attempt");
	if (s->attempt >= 0)
		add_folder(c, job, ref, s, &folder);
	return ctx_fail(c, ERR_NOT_FOUND, "job %s has no complete checkpoint of step %.0f%s%s%s", ref, s->step,
	                text_is_empty(&steps) ? "" : "; it has ", steps.at, folder.at);
}

int checkpoint_fetch(struct ctx *c, uint64_t job, const char *ref, const char *dir)
{
	struct step s = {.attempt = -1};
	uint64_t step = 0;
	cJSON *answer;
	const cJSON *k;
	int rc;

	if (args_u64(&c->args, "step", 0, UINT64_C(1) << 53, &step, &c->err))
		return -1;
	answer = checkpoint_list(c, job);
	if (!answer)
		return -1;
	s.step = (double)step;
	s.list = jget(answer, "checkpoints");
	cJSON_ArrayForEach (k, s.list)
		if (has_step(k, s.step) && is_complete(k))
			s.attempt = print_number(k, "attempt");
	rc = s.attempt < 0 ? fail_unknown(c, job, ref, &s) : get_step(c, job, ref, &s, dir);
	cJSON_Delete(answer);
	return rc;
}
