/*
 * failures: see failures.h. A job of many ranks may send very many lines; only those that the attempt's
 * bounded list has a place for become events.
 */
#include "controller/run/failures.h"

#include "common/base/json.h"
#include "controller/record/failure.h"
#include "controller/run/report.h"
#include "controller/state/turn.h"

static int is_valid(const struct attempt_rec *a, const struct wm_failure_line *m)
{
	return m->cls > RC_NONE && m->cls < N_REASON_CLASS && m->verdict < N_VERDICT &&
	       (m->rank < a->n_ranks || m->rank == 0xffffffffu);
}

void on_failure_line(struct core *c, struct cnode *n, uint64_t id, const struct wm_failure_line *m)
{
	struct place_rec *p;
	struct failure_rec f;
	struct cjob *j;
	cJSON *d;

	hold_ack(c, n->name, n->session, id);
	j = report_current(c, n, m->job, m->attempt, m->epoch, &p);
	if (!j || !is_valid(j->r.att, m))
		return;
	f = (struct failure_rec){.rank = m->rank,
	                         .place = (uint32_t)(p - j->r.att->places),
	                         .cls = m->cls,
	                         .verdict = m->verdict,
	                         .at_us = m->at_us};
	if (!failure_list_wants(j->r.att->failures, &f))
		return;
	f.line = report_clean_text(m->line, strnlen(m->line, FAILURE_LINE_MAX));
	f.reason = report_clean_text(m->reason, strnlen(m->reason, FAILURE_WORDS_MAX));
	d = failure_json(&f);
	json_add_str(d, "node", n->name);
	json_add_str(d, "stream", m->stream);
	json_add_u64(d, "offset", m->offset);
	free(f.line);
	free(f.reason);
	job_post(c, j, EV_FAILURE_LINE, d);
}
