/*
 * checkpoints: what the nodes report of a job's checkpoints.
 *
 * Only the node of a place in the present attempt may report: a late report of an old attempt would describe
 * files that its successor has replaced. hearthd acknowledges every report, or the agent would repeat it.
 */
#include "controller/run/checkpoints.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "controller/run/report.h"
#include "controller/state/turn.h"

void on_checkpoint(struct core *c, struct cnode *n, uint64_t id, const struct wm_checkpoint_report *m)
{
	struct place_rec *p;

	hold_ack(c, n->name, n->session, id);
	if (m->state < CKPT_COPYING || m->state > CKPT_GONE ||
	    !report_current(c, n, m->job, m->attempt, m->epoch, &p))
		return;
	log_info("event=checkpoint job=%" PRIu64 " attempt=%u node=%s step=%" PRId64 " state=%u", m->job,
	         m->attempt, n->name, m->step, m->state);
}
