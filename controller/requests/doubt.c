/*
 * doubt: see doubt.h.
 */
#include "controller/requests/doubt.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "controller/record/ckpt.h"

static int has_bad_loss(const struct ckpt *k)
{
	return k->loss && !isfinite(strtod(k->loss, NULL));
}

void doubt_checkpoint(struct core *c, uint64_t job, const struct ckpt *k, struct text *out)
{
	const struct ckpt_nodes any = {NULL, 0};
	const struct ckpt *before = NULL;
	const struct cjob *of;
	struct err e;

	if (!k || (!k->set_aside && !has_bad_loss(k)))
		return;
	text_add(out,
	         k->set_aside ? "a rollback of job %" PRIu64 " set step %" PRId64 " aside"
	                      : "job %" PRIu64 ": the loss at step %" PRId64 " is not finite",
	         job, k->step);
	of = job_get(c, job, &e);
	for (uint32_t i = 0; of && of->r.ckpts && i < of->r.ckpts->n; i++) {
		const struct ckpt *x = &of->r.ckpts->v[i];
		TEXT(why);

		if (x->step >= 0 && x->step < k->step && !x->set_aside && !has_bad_loss(x) &&
		    (!before || x->step > before->step) && ckpt_usable(x, &any, &why))
			before = x;
	}
	if (before)
		text_add(out, "; the newest sound one before it is step %" PRId64 " (--from %" PRId64 ")",
		         before->step, before->step);
}
