/*
 * resolve: the checkpoint that an attempt begins with.
 *
 * An attempt begins with the checkpoints that the attempt before it left. If that one left none, it begins as
 * that one did. The first attempt begins as the specification says. An attempt that never ran therefore
 * changes nothing, and an attempt from the start leaves all older checkpoints unused. A requeue may choose
 * another beginning: the start, or a step that any attempt left.
 *
 * The checkpoint is one entry of the job's list (record/ckpt.h), the newest that can be used. A job without a
 * list has the folders that its attempts left after their ends: the whole folder then, because only the
 * program knows which files in it belong together. hearthd looks for a step there only when a user asks.
 * A job that left no checkpoint of its own passes on the one of another job that it began with.
 *
 * The beginning is settled when the previous attempt has ended, since only then all of its checkpoints are
 * registered. The record (job_rec.begins) holds it until the next attempt is placed.
 */
#include "controller/run/resolve.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "common/tree/steps.h"
#include "controller/record/rec.h"
#include "controller/run/checkpoints.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/refs.h"

#define MANIFESTS_READ 16 /* manifests that one question reads, on the state thread */
#define JOBS_PASSED    8  /* jobs in a row that pass on what they began with */

/* ---- checkpoints ------------------------------------------------------------------------------- */

static int find_newest(struct core *c, uint64_t job, uint32_t below, struct left *l, struct err *e)
{
	if (!c->io.left)
		return err_set(e, ERR_NOT_FOUND, "job %" PRIu64 " has left no checkpoint", job);
	return c->io.left(job, "checkpoint", below, l, c->io.arg, e);
}

/* Finds the steps that the folders of all nodes have in common; reads MANIFESTS_READ folders at most. Returns
 * 1 when hearthd cannot see them: they are at an output_uri, or the folder is unusual. */
static int steps_left(struct core *c, const struct left *l, struct steps *out, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < l->n && i < MANIFESTS_READ; i++) {
		struct steps own = {.want = out->want};

		if (!hash_is_hex(l->parts[i].what) || !c->io.checkpoint_steps)
			return 1;
		rc = c->io.checkpoint_steps(l->parts[i].what, i ? &own : out, c->io.arg, e);
		if (rc < 0 && e->code == ERR_LIMIT)
			rc = 1;
		if (i && !rc)
			steps_common(out, &own);
		steps_fini(&own);
	}
	return rc;
}

/* A search for a step in the checkpoints of a job's attempts, the newest first. */
struct search {
	struct steps all;   /* steps found so far */
	size_t manifests;   /* read */
	uint32_t last;      /* the last attempt that was read; 0: none */
	int cut;            /* older attempts exist that were not read */
	struct text *blind; /* the first attempt that could not be read, and why; empty: none */
};

/* Returns 1 when the checkpoint of that attempt has the step. hearthd accepts a checkpoint that it cannot
 * read by its kind: the nodes check it before the job starts. A missing manifest does not hide older
 * attempts. */
static int holds_step(struct core *c, struct search *s, const struct left *l)
{
	struct steps own = {.want = s->all.want};
	struct err why;
	int rc = steps_left(c, l, &own, &why), found = rc > 0 || (rc == 0 && own.found);

	if (rc < 0 && text_is_empty(s->blind))
		text_add(s->blind, "what attempt %u left cannot be read: %.200s", l->attempt, why.text);
	else if (rc >= 0)
		steps_merge(&s->all, &own);
	steps_fini(&own);
	s->last = l->attempt;
	return found;
}

/* Makes the error for a step that was not found: the steps found, and the attempts not read. */
static int not_found(struct search *s, struct err *e)
{
	struct err what;
	TEXT(far);

	if (s->all.n || text_is_empty(s->blind))
		steps_check(&s->all, &what);
	else
		err_set(&what, ERR_NOT_FOUND, "no step %" PRId64 " is found", s->all.want);
	if (s->cut)
		text_add(&far, "; attempts before %u were not looked into (%d manifests at most)", s->last,
		         MANIFESTS_READ);
	return err_set(e, ERR_NOT_FOUND, "%s%s%s%s", what.text, text_is_empty(s->blind) ? "" : "; ", s->blind->at,
	               far.at);
}

/* Adds the steps of a job's list, for the message. */
static void add_listed(const struct job_rec *r, struct steps *out)
{
	char name[24];

	for (uint32_t i = 0; r->ckpts && i < r->ckpts->n; i++)
		if (r->ckpts->v[i].step >= 0 && r->ckpts->v[i].step != out->want) {
			snprintf(name, sizeof(name), "%" PRId64, r->ckpts->v[i].step);
			steps_add(out, name, strlen(name));
		}
	steps_sort(out);
}

static int find_step(struct core *c, const struct job_rec *r, int64_t step, struct left *l, struct err *e)
{
	TEXT(blind);
	struct search s = {.all = {.want = step}, .blind = &blind};
	int rc;

	add_listed(r, &s.all);
	while ((rc = find_newest(c, r->id, s.last ? s.last : UINT32_MAX, l, e)) == 0) {
		size_t needs = !hash_is_hex(l->parts[0].what) ? 0 : l->n < MANIFESTS_READ ? l->n : MANIFESTS_READ;

		s.cut = s.manifests + needs > MANIFESTS_READ;
		s.manifests += needs;
		if (!s.cut && holds_step(c, &s, l))
			break;
		left_fini(l);
		if (s.cut)
			break;
	}
	if (s.cut || (rc < 0 && e->code == ERR_NOT_FOUND && (s.last || s.all.n)))
		rc = not_found(&s, e);
	steps_fini(&s.all);
	return rc;
}

/* Lists the part of each node rank. A rank without a part gets the first part. */
static void give_parts(const struct left *l, struct strv *out)
{
	size_t k = 0;

	for (uint32_t rank = 0; rank <= l->parts[l->n - 1].node_rank && rank < SPEC_MAX_NODES; rank++) {
		int own = l->parts[k].node_rank == rank && !FAULT("mistake.one_part");

		strv_add(out, l->parts[own ? k : 0].what);
		k += own ? 1 : 0;
	}
}

static void give_checkpoint(const struct job_rec *r, const struct ckpt *k, const struct ckpt_nodes *on,
                            uint32_t attempt, struct beginning *out)
{
	TEXT(why);

	out->ckpt = ckpt_copy(k);
	for (uint32_t i = 0; i < r->ckpts->n && out->n_also < BEGIN_ALSO; i++) {
		const struct ckpt *s = &r->ckpts->v[i];

		if (ckpt_is_sibling(s, k) && (k->set_aside ? ckpt_has_copies(s, on, &why) : ckpt_usable(s, on, &why)))
			out->also[out->n_also++] = ckpt_copy(s);
	}
	out->job = r->id;
	out->attempt = attempt;
	out->step = k->step;
}

/* Returns the newest checkpoint that can be used of the line in which an ended job ended: what earlier lines
 * left was given up by a requeue. NULL none, or the job's record does not say. */
static const struct ckpt *ended_line(const struct job_rec *r, const struct ckpt_nodes *on, struct text *why)
{
	const struct ckpt *k = NULL;
	uint32_t attempt;
	int64_t step;

	if (job_ended(r->status) && begins_parse(r->begins, &attempt, &step) == 0)
		k = ckpt_of(r, attempt, step);
	for (; k; k = ckpt_before(r, k)) {
		text_clear(why);
		if (ckpt_usable(k, on, why))
			return k;
	}
	return NULL;
}

/* Returns the newest checkpoint in a job's list that can be used, of that step if step >= 0; NULL none. */
static const struct ckpt *listed(const struct job_rec *r, int64_t step, const struct ckpt_nodes *on,
                                 struct text *why)
{
	for (uint32_t i = r->ckpts ? r->ckpts->n : 0; i-- > 0;) {
		const struct ckpt *k = &r->ckpts->v[i];

		if (step >= 0 ? k->step != step : k->set_aside)
			continue;
		text_clear(why);
		if (step >= 0 ? ckpt_fits_asked(r, k, on, why) : ckpt_fits(r, k, on, why))
			return k;
	}
	return NULL;
}

static int resolve_from(struct core *c, const struct job_spec *spec, const struct ckpt_nodes *on,
                        unsigned jobs, struct beginning *out, struct err *e);

/* 1: the folder holds a step after that one, or hearthd cannot see whether it does. */
static int holds_newer(struct core *c, const struct left *l, int64_t step)
{
	struct steps all = {.want = step};
	struct err e;
	int rc = steps_left(c, l, &all, &e), newer;

	steps_sort(&all);
	newer = rc > 0 || (rc == 0 && (!all.n || all.v[all.n - 1] > step));
	steps_fini(&all);
	return newer;
}

/* A job without a checkpoint of its own passes on what its specification begins with. l: the folder that it
 * left; NULL none. Returns 0 when `out` has that. A checkpoint of a list has a step and is whole; the folder
 * may hold one that a killed program was writing. */
static int pass_on(struct core *c, struct cjob *of, const struct ckpt_nodes *on, unsigned jobs,
                   const struct left *l, struct beginning *out, struct err *e)
{
	struct beginning begun = {.step = -1};
	struct job_spec *spec = job_parse_spec(c, of, e);
	int rc = -1;

	if (spec && !spec->resume_job)
		err_set(e, ERR_NOT_FOUND, "job %" PRIu64 " has left no checkpoint", of->r.id);
	else if (spec)
		rc = resolve_from(c, spec, on, jobs + 1, &begun, e);
	spec_destroy(spec);
	if (rc == 0 && l && !begun.ckpt && (begun.step < 0 || holds_newer(c, l, begun.step)))
		rc = err_set(e, ERR_NOT_FOUND, "its folder is newer");
	if (rc < 0) {
		beginning_fini(&begun);
		return -1;
	}
	beginning_fini(out);
	*out = begun;
	return 0;
}

/* Finds what a job left as a folder, or what it began with. */
static int resolve_folder(struct core *c, struct cjob *of, const struct job_spec *spec,
                          const struct ckpt_nodes *on, unsigned jobs, struct beginning *out, struct err *e)
{
	struct left l = {0};
	struct err none;
	int rc = spec->resume_step < 0 ? find_newest(c, of->r.id, UINT32_MAX, &l, e)
	                               : find_step(c, &of->r, spec->resume_step, &l, e),
	    own = of->r.ckpts && of->r.ckpts->n;

	if (spec->resume_step < 0 && (rc < 0 ? e->code == ERR_NOT_FOUND : !own) &&
	    pass_on(c, of, on, jobs, rc == 0 ? &l : NULL, out, &none) == 0) {
		left_fini(&l);
		return 0;
	}
	if (rc == 0) {
		give_parts(&l, &out->parts);
		out->job = of->r.id;
	}
	left_fini(&l);
	return rc;
}

static int resolve_from(struct core *c, const struct job_spec *spec, const struct ckpt_nodes *on,
                        unsigned jobs, struct beginning *out, struct err *e)
{
	const struct ckpt *k;
	struct cjob *of;
	char kind[32];
	uint64_t job;
	TEXT(why);

	out->step = spec->resume_step;
	if (!spec->resume_job)
		return 0;
	if (strncmp(spec->resume_job, "job:", 4) != 0) {
		strv_add(&out->parts, spec->resume_job);
		return 0;
	}
	if (jobs >= JOBS_PASSED)
		return err_set(e, ERR_LIMIT, "resume_from: %u jobs in a row left no checkpoint of their own", jobs);
	if (ref_parse(spec->resume_job, "checkpoint", &job, kind, sizeof(kind), e) < 0 ||
	    !(of = job_get(c, job, e)))
		return err_wrap(e, "resume_from");
	if (spec->resume_step < 0 && job_ended(of->r.status) && of->r.begins &&
	    strcmp(of->r.begins, "start") == 0)
		return err_set(
		    e, ERR_CONFLICT,
		    "resume_from: when %s ended it was to begin from the start; %s@STEP names a checkpoint",
		    spec->resume_job, spec->resume_job);
	k = spec->resume_step < 0 ? ended_line(&of->r, on, &why) : NULL;
	if (!k)
		k = listed(&of->r, spec->resume_step, on, &why);
	if (k) {
		give_checkpoint(&of->r, k, on, 0, out);
		return 0;
	}
	if (resolve_folder(c, of, spec, on, jobs, out, e) == 0)
		return 0;
	if (!text_is_empty(&why))
		err_set(e, ERR_CONFLICT, "its checkpoint cannot be used: %.800s", why.at);
	return err_wrap(e, "resume_from: %s%s", spec->resume_step < 0 ? "" : "the checkpoint of ",
	                spec->resume_job);
}

int resolve_resume(struct core *c, const struct job_spec *spec, const struct ckpt_nodes *on,
                   struct beginning *out, struct err *e)
{
	return resolve_from(c, spec, on, 0, out, e);
}

/* ---- what an attempt begins with --------------------------------------------------------------- */

static char *begins_text(uint32_t attempt, int64_t step)
{
	return step < 0 ? xasprintf("attempt:%u", attempt) : xasprintf("attempt:%u@%" PRId64, attempt, step);
}

/* Finds the first that can be used, from k on; an event names each that is passed over. What was set aside
 * has an event already. */
static const struct ckpt *choose_from(struct core *c, struct cjob *j, const struct ckpt *k,
                                      const struct ckpt_nodes *on)
{
	for (; k; k = ckpt_before(&j->r, k)) {
		TEXT(why);

		if (ckpt_fits(&j->r, k, on, &why))
			return k;
		if (!k->set_aside)
			checkpoint_passed(c, j, k, why.at);
	}
	return NULL;
}

/* The nodes of the present attempt; others in the places of lost ones. */
static void present_nodes(const struct attempt_rec *a, struct ckpt_nodes *out, const char ***names)
{
	*names = xcalloc(a ? a->n_places : 1, sizeof(**names));
	*out = (struct ckpt_nodes){*names, a ? a->n_places : 0};
	for (uint32_t i = 0; i < out->n; i++)
		(*names)[i] = a->places[i].state == PLACE_LOST ? NULL : a->places[i].node;
}

/* 1: a job's list has a checkpoint of that step. */
static int lists_step(const struct job_rec *r, int64_t step)
{
	for (uint32_t i = 0; r->ckpts && i < r->ckpts->n; i++)
		if (r->ckpts->v[i].step == step)
			return 1;
	return 0;
}

/* 1: the last attempt began with a checkpoint of another job, and its own folder has nothing newer. */
static int has_only_passed(struct core *c, const struct cjob *j, const struct left *l)
{
	const struct attempt_rec *a = j->r.att;
	const struct cjob *of;
	char kind[32];
	uint64_t job;
	struct err e;

	if (!a || !a->resumed_from || strncmp(a->resumed_from, "job:", 4) != 0 || a->resumed_from_step < 0 ||
	    (j->r.ckpts && j->r.ckpts->n) ||
	    ref_parse(a->resumed_from, "checkpoint", &job, kind, sizeof(kind), &e) < 0)
		return 0;
	of = job_get(c, job, &e);
	return of && (lists_step(&of->r, a->resumed_from_step) || !holds_newer(c, l, a->resumed_from_step));
}

/* Chooses the newest checkpoint of the last attempt that can be used; else the folder that it left; else its
 * own beginning. */
static int go_on(struct core *c, struct cjob *j, char **out, struct err *e)
{
	const struct attempt_rec *last = j->r.att;
	struct ckpt_nodes on;
	const struct ckpt *k;
	const char **names;
	struct left l = {0};
	uint32_t attempt;
	int64_t step;
	int rc;

	present_nodes(last, &on, &names);
	k = choose_from(c, j, ckpt_first(&j->r), &on);
	free(names);
	if (k) {
		*out = begins_text(k->attempt, k->step);
		return 0;
	}
	if (last && rec_plan_action(last) == PLAN_ROLLBACK) /* what it left is from behind the fault */
		return 0;
	rc = find_newest(c, j->r.id, UINT32_MAX, &l, e);
	if (rc < 0 && e->code != ERR_NOT_FOUND)
		return -1;
	if (rc == 0 && l.attempt == j->r.attempts && !has_only_passed(c, j, &l))
		*out = begins_text(l.attempt, -1);
	else if (last && begins_parse(last->resumed_from, &attempt, &step) == 0)
		*out = begins_text(attempt, last->resumed_from_step);
	left_fini(&l);
	return 0;
}

/* The user chooses a checkpoint that was set aside: all files of its step count again. */
static void take_back(struct core *c, struct cjob *j, const struct ckpt *k)
{
	for (uint32_t i = 0; i < j->r.ckpts->n; i++) {
		const struct ckpt *s = &j->r.ckpts->v[i];

		if (s->set_aside && (s == k || ckpt_is_sibling(s, k)))
			checkpoint_set_aside(c, j, s->number, 0, "its step was asked for");
	}
}

/* Finds the checkpoint of that step in the job's list, or else the attempt whose folder holds it. */
static int find_asked(struct core *c, struct cjob *j, int64_t step, const struct ckpt **k, uint32_t *attempt,
                      struct err *e)
{
	const struct ckpt_nodes any = {NULL, 0};
	struct left l = {0};
	char ref[REC_REF_SIZE];
	TEXT(why);

	*k = listed(&j->r, step, &any, &why);
	if (*k) {
		*attempt = (*k)->attempt;
		return 0;
	}
	if (find_step(c, &j->r, step, &l, e) < 0) {
		if (!text_is_empty(&why))
			err_set(e, ERR_CONFLICT, "the checkpoint of step %" PRId64 " cannot be used: %.800s", step,
			        why.at);
		return err_wrap(e, "job %s", rec_ref(&j->r, ref));
	}
	*attempt = l.attempt;
	left_fini(&l);
	return 0;
}

/* "step:6" -> 6 */
static int parse_step(const char *asked, int64_t *step)
{
	uint64_t v;

	if (strncmp(asked, "step:", 5) != 0 || str_parse_u64(asked + 5, &v) < 0 || v > INT64_MAX)
		return -1;
	*step = (int64_t)v;
	return 0;
}

int begins_check(struct core *c, struct cjob *j, const char *asked, const struct ckpt **k, struct err *e)
{
	uint32_t attempt;
	int64_t step;

	*k = NULL;
	if (parse_step(asked, &step) < 0 || FAULT("mistake.no_hold"))
		return 0;
	return find_asked(c, j, step, k, &attempt, e);
}

int begins_settle(struct core *c, struct cjob *j, const char *asked, char **out, struct err *e)
{
	const struct ckpt *k;
	uint32_t attempt;
	int64_t step;

	*out = NULL;
	if (!asked || FAULT("mistake.no_choice"))
		return go_on(c, j, out, e);
	if (begins_parse(asked, &attempt, &step) == 0) { /* settled before a new hearthd looks for nodes again */
		*out = xstrdup(asked);
		return 0;
	}
	if (parse_step(asked, &step) < 0)
		return 0; /* from the start */
	if (find_asked(c, j, step, &k, &attempt, e) < 0)
		return -1;
	if (k)
		take_back(c, j, k);
	*out = begins_text(attempt, step);
	return 0;
}

void begins_say(struct core *c, const struct cjob *j, const char *begins, struct text *out)
{
	struct left l = {0};
	uint32_t attempt;
	int64_t step;
	struct err e;

	if (begins_parse(begins, &attempt, &step) < 0) {
		text_add(out, "begins from the start");
	} else if (step < 0) {
		text_add(out, "goes on with the checkpoints of attempt %u", attempt);
	} else {
		/* Files at an output_uri may be from any attempt, and change. */
		if (!ckpt_of(&j->r, attempt, step) && find_newest(c, j->r.id, attempt + 1, &l, &e) == 0 &&
		    strstr(l.parts[0].what, "://"))
			text_add(out, "goes on from step %" PRId64 ", if it is in %.200s: hearthd does not look there",
			         step, l.parts[0].what);
		else
			text_add(out, "goes on from step %" PRId64 " of attempt %u", step, attempt);
		left_fini(&l);
	}
}

/* Finds the folder that an attempt left, for each node. */
static int left_by(struct core *c, const struct cjob *j, uint32_t attempt, int64_t step,
                   struct beginning *out, struct err *e)
{
	struct left l = {0};

	out->attempt = attempt;
	out->step = step;
	if (find_newest(c, j->r.id, attempt + 1, &l, e) < 0)
		return err_wrap(e, "what attempt %u left", attempt);
	if (l.attempt != attempt) {
		left_fini(&l);
		return err_set(e, ERR_NOT_FOUND, "attempt %u has left no checkpoint", attempt);
	}
	give_parts(&l, &out->parts);
	left_fini(&l);
	return 0;
}

/* 1: a node that the job is collected from may still upload what is not verified of it. */
static int is_on_its_way(const struct cjob *j, const struct ckpt *k)
{
	int is = 0;

	for (uint32_t i = 0; j->collect && i < k->n_parts; i++)
		is |= k->parts[i].state == CKPT_COPYING && k->parts[i].attempt == j->collect_attempt;
	return is && !k->set_aside && ckpt_is_complete(k);
}

/* Returns the first that could be used when its copies have arrived, before any that can be used now. */
static const struct ckpt *find_awaited(const struct cjob *j, const struct ckpt *k,
                                       const struct ckpt_nodes *on)
{
	for (; k; k = ckpt_before(&j->r, k)) {
		TEXT(why);

		if (ckpt_fits(&j->r, k, on, &why))
			return NULL;
		if (is_on_its_way(j, k))
			return k;
	}
	return NULL;
}

int begins_resolve(struct core *c, struct cjob *j, const struct job_spec *spec, const struct ckpt_nodes *on,
                   struct beginning *out, struct err *e)
{
	const struct ckpt *named, *k, *awaited;
	uint32_t attempt;
	int64_t step;
	TEXT(why);

	if (begins_parse(j->r.begins, &attempt, &step) < 0)
		return resolve_resume(c, spec, on, out, e);
	named = ckpt_of(&j->r, attempt, step);
	awaited = step >= 0 ? find_awaited(j, named, on) : NULL;
	if (awaited)
		return err_set(e, ERR_CONFLICT, "the checkpoint of step %" PRId64 " is still being copied",
		               awaited->step);
	if (j->r.begins_asked && named && !ckpt_fits(&j->r, named, on, &why)) {
		err_set(e, ERR_CONFLICT, "the checkpoint of step %" PRId64 " cannot be used: %.800s", step, why.at);
		return 1;
	}
	k = choose_from(c, j, named, on);
	if (k) {
		give_checkpoint(&j->r, k, on, k->attempt, out);
		return 0;
	}
	if (left_by(c, j, attempt, step, out, e) == 0)
		return 0;
	if (!named || j->collect) /* its folder may still come */
		return -1;
	out->attempt = 0; /* nothing of it is left: it starts as its first attempt did */
	return resolve_resume(c, spec, on, out, e);
}

int begins_again(struct core *c, struct cjob *j, const struct job_spec *spec, struct beginning *out,
                 struct err *e)
{
	const struct attempt_rec *a = j->r.att;
	const struct ckpt *k;
	struct ckpt_nodes on;
	const char **names;
	uint32_t attempt;
	int64_t step;
	int rc;

	present_nodes(a, &on, &names);
	if (begins_parse(a->resumed_from, &attempt, &step) < 0) {
		rc = resolve_resume(c, spec, &on, out, e);
	} else if (!(k = ckpt_of(&j->r, attempt, a->resumed_from_step))) {
		rc = left_by(c, j, attempt, a->resumed_from_step, out, e);
	} else {
		give_checkpoint(&j->r, k, &on, attempt, out);
		rc = 0;
	}
	free(names);
	return rc;
}
