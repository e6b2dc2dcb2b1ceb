/* job: the jobs that the library knows, by id. */
#include "scheduler/model/job.h"

#include "scheduler/base/uthash.h"
#include "scheduler/model/model.h"

struct job *model_job_find(const struct sched *s, uint64_t id)
{
	struct job *j;

	HASH_FIND(hh, s->jobs, &id, sizeof(id), j);
	return j;
}

struct job *model_job_make(struct sched *s, uint64_t id)
{
	struct job *j = mem_alloc(1, sizeof(*j));

	j->id = id;
	HASH_ADD(hh, s->jobs, id, sizeof(j->id), j);
	return j;
}
