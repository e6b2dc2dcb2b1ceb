/*
 * checkpoints_req: pins checkpoints of a job.
 *
 * A step may have several checkpoints: its newest complete one is pinned, with the other files of that step.
 * To unpin ends the pins of all.
 */
#include "controller/requests/requests.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/text.h"
#include "controller/record/rec.h"
#include "controller/run/checkpoints.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

/* Returns the newest checkpoint of the step of which something is left; NULL none. */
static const struct ckpt *find_step(const struct job_rec *r, int64_t step)
{
	for (uint32_t i = r->ckpts ? r->ckpts->n : 0; i-- > 0;)
		if (r->ckpts->v[i].step == step && ckpt_is_complete(&r->ckpts->v[i]))
			return &r->ckpts->v[i];
	return NULL;
}

static uint32_t count_pinned(const struct job_rec *r)
{
	uint32_t n = 0;

	for (uint32_t i = 0; r->ckpts && i < r->ckpts->n; i++)
		n += r->ckpts->v[i].pinned;
	return n;
}

static void list_steps(const struct job_rec *r, struct text *out)
{
	for (uint32_t i = 0; r->ckpts && i < r->ckpts->n; i++)
		if (r->ckpts->v[i].step >= 0 && ckpt_is_complete(&r->ckpts->v[i]))
			text_join(out, ", ", "%" PRId64, r->ckpts->v[i].step);
}

/* To pin k pins this one, too: it is k, or another complete file of its step, and is not pinned yet. */
static int goes_with(const struct ckpt *file, const struct ckpt *k)
{
	return !file->pinned && (file == k || (ckpt_is_sibling(file, k) && ckpt_is_complete(file)));
}

static uint32_t count_new_pins(const struct job_rec *r, const struct ckpt *k)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->ckpts->n; i++)
		n += goes_with(&r->ckpts->v[i], k) ? 1 : 0;
	return n;
}

static void pin_files(struct core *c, struct cjob *j, const struct ckpt *k, const char *text)
{
	for (uint32_t i = 0; i < j->r.ckpts->n; i++)
		if (goes_with(&j->r.ckpts->v[i], k))
			checkpoint_pin(c, j, j->r.ckpts->v[i].number, 1, text);
}

static void pin_step(struct core *c, struct request *rq, struct cjob *j, int64_t step)
{
	const struct ckpt *k = find_step(&j->r, step);
	char ref[REC_REF_SIZE];
	uint32_t had = count_pinned(&j->r), n = k ? count_new_pins(&j->r, k) : 0;
	TEXT(steps);
	TEXT(text);

	rec_ref(&j->r, ref);
	list_steps(&j->r, &steps);
	if (!k) {
		reply_fail(c, rq, ERR_NOT_FOUND, "job %s has no complete checkpoint of step %" PRId64 "%s%s", ref,
		           step, text_is_empty(&steps) ? "" : "; it has ", steps.at);
		return;
	}
	if (n && had + n > CKPT_PIN_MAX) {
		reply_fail(c, rq, ERR_LIMIT,
		           "job %s has %u pinned checkpoints, and step %" PRId64 " has %u files; it may have %d: "
		           "jobctl checkpoints %s --unpin STEP",
		           ref, had, step, n, CKPT_PIN_MAX, ref);
		return;
	}
	text_add(&text, "pinned by %s", req_user(c, rq));
	pin_files(c, j, k, text.at);
	text_clear(&text);
	text_add(&text, "the checkpoint of step %" PRId64 " is pinned", step);
	op_answer(c, rq, j, text.at);
}

static void unpin_step(struct core *c, struct request *rq, struct cjob *j, int64_t step)
{
	char ref[REC_REF_SIZE];
	uint32_t n = 0;
	TEXT(text);

	text_add(&text, "unpinned by %s", req_user(c, rq));
	for (uint32_t i = 0; j->r.ckpts && i < j->r.ckpts->n; i++) {
		const struct ckpt *k = &j->r.ckpts->v[i];

		if (k->step != step)
			continue;
		n++;
		if (k->pinned)
			checkpoint_pin(c, j, k->number, 0, text.at);
	}
	if (!n) {
		reply_fail(c, rq, ERR_NOT_FOUND, "job %s has no checkpoint of step %" PRId64, rec_ref(&j->r, ref),
		           step);
		return;
	}
	text_clear(&text);
	text_add(&text, "the checkpoint of step %" PRId64 " is not pinned", step);
	op_answer(c, rq, j, text.at);
}

void req_checkpoint(struct core *c, struct request *rq)
{
	struct cjob *j = req_job(c, rq);
	int64_t step = -1;
	int pinned = -1;
	struct err e;

	if (!j)
		return;
	if (json_get_i64(rq->body, "", "step", 0, INT64_C(1) << 53, &step, &e) < 0 ||
	    json_get_bool(rq->body, "", "pinned", &pinned, &e) < 0)
		reply_err(c, rq, &e);
	else if (step < 0 || pinned < 0)
		reply_fail(c, rq, ERR_INVALID, "expected step, a whole number, and pinned, true or false");
	else if (pinned)
		pin_step(c, rq, j, step);
	else
		unpin_step(c, rq, j, step);
}
