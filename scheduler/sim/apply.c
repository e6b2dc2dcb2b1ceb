/* apply: gives the library one line of a record. */
#include "scheduler/sim/apply.h"

void record_line_apply(struct sched *s, const struct record_line *in)
{
	switch (in->kind) {
	case LINE_NOW:
		sched_now(s, in->id);
		break;
	case LINE_POLICY:
		sched_policy_set(s, &in->policy);
		break;
	case LINE_QUEUE:
		sched_queue_set(s, &in->queue);
		break;
	case LINE_CLOSE:
		sched_queue_close(s, in->name, in->yes);
		break;
	case LINE_USED:
		sched_usage_set(s, in->name, in->number, in->id);
		break;
	case LINE_NODE:
		sched_node_set(s, &in->node);
		break;
	case LINE_GONE:
		sched_node_remove(s, in->id);
		break;
	case LINE_RESERVATION:
		sched_reservation_set(s, &in->reservation);
		break;
	case LINE_UNRESERVE:
		sched_reservation_remove(s, in->id);
		break;
	case LINE_JOB:
		sched_job_add(s, &in->job);
		break;
	case LINE_EXCHANGE:
		sched_job_exchange(s, &in->job, in->drop, in->n_drop);
		break;
	case LINE_RESTORE:
		sched_job_restore(s, &in->job, &in->places, in->id);
		break;
	case LINE_HOLDS:
		sched_job_holds(s, in->id, &in->places, in->job.memory_bytes, in->job.disk_bytes, in->job.exclusive);
		break;
	case LINE_REMOVE:
		sched_job_remove(s, in->id);
		break;
	case LINE_PARK:
		sched_job_park(s, in->id);
		break;
	case LINE_KNOW:
		sched_job_know(s, in->id);
		break;
	case LINE_STARTED:
		sched_job_started(s, in->id);
		break;
	case LINE_END:
		sched_job_finished(s, in->id, in->yes);
		break;
	case LINE_RELEASE:
		sched_job_release_place(s, in->id, in->node_id);
		break;
	case LINE_POOL:
		sched_pool_set(s, &in->pool);
		break;
	case LINE_POOL_REMOVE:
		sched_pool_remove(s, in->id);
		break;
	case LINE_NOTHING:
	case LINE_AT:
	case LINE_TRY:
	case LINE_TRIED:
	case LINE_STEP:
		break;
	}
}
