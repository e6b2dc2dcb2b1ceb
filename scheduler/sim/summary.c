/* summary: the figures of a run, from the start and end of each job. */
#include "scheduler/sim/sim_int.h"

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Nearest rank: the least value that at least p percent do not exceed. Follows S-420. */
static uint64_t percentile_of(const uint64_t *sorted, size_t n, unsigned p)
{
	return n ? sorted[(n * p + 99) / 100 - 1] : 0;
}

/* Follows S-419, S-421 and S-422. */
void sim_summarise(struct sim_result *r, const struct sim_conf *c)
{
	uint64_t *jct = mem_alloc(r->n, sizeof(*jct)), sum = 0, wait = 0, first = SIM_NEVER, last = 0;
	double busy = 0; /* GPU-seconds; exact up to 2^53 */

	for (size_t i = 0; i < r->n; i++) {
		const struct sim_job *j = &r->jobs[i];

		if (j->submit_s < first)
			first = j->submit_s;
		if (j->end_s == SIM_NEVER)
			continue;
		jct[r->ended++] = j->end_s - j->submit_s;
		sum += j->end_s - j->submit_s;
		wait += j->waited_s;
		if (j->waited_s > r->max_wait_s)
			r->max_wait_s = j->waited_s;
		if (j->end_s > last)
			last = j->end_s;
		busy += (double)j->duration_s * j->gpus;
	}
	qsort(jct, r->ended, sizeof(*jct), by_size);
	r->p50_jct_s = percentile_of(jct, r->ended, 50);
	r->p95_jct_s = percentile_of(jct, r->ended, 95);
	r->p99_jct_s = percentile_of(jct, r->ended, 99);
	if (r->ended) {
		r->avg_jct_s = (double)sum / (double)r->ended;
		r->avg_wait_s = (double)wait / (double)r->ended;
		r->makespan_s = last - first;
	}
	if (r->makespan_s)
		r->utilization = busy / ((double)r->makespan_s * c->nodes * c->gpus_per_node);
	free(jct);
}
