/*
 * array_remove: removes the data of an array's members, some members in a turn.
 *
 * Removing goes through members that may be in the store only. A restart forgets the removal. The record of
 * the whole job is marked as removed last, so a second request finishes the work.
 */
#include "controller/run/array.h"

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/record/states.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/turn.h"

struct array_rm {
	uint64_t array;
	uint32_t members, next;
	char *by;
	struct array_rm *link;
};

static void remove_job(struct core *c, struct cjob *j, const char *by)
{
	cJSON *d = cJSON_CreateObject();

	json_add_str(d, "by", by);
	job_post(c, j, EV_REMOVED, d);
	store_txn_drop(turn_now(c)->txn, j->r.id, STORE_ALL, now_real(c));
	hold_remove_data(c, j->r.id);
}

static void rm_drop(struct core *c, struct array_rm *x)
{
	LL_DELETE2(c->arrays.removing, x, link);
	free(x->by);
	free(x);
}

/* Removes the data of the next member, unless it is pinned or already removed. */
static void rm_member(struct core *c, const struct array_rm *x)
{
	struct err e;
	struct cjob *m = job_get(c, x->array + 1 + x->next, &e);

	if (m && m->r.array == x->array && job_ended(m->r.status) && !m->r.pinned && !m->r.deleted)
		remove_job(c, m, x->by);
}

void array_rm_begin(struct core *c, const struct cjob *j, const char *by)
{
	struct array_rm *x = xcalloc(1, sizeof(*x));

	x->array = j->r.id;
	x->members = j->r.members;
	x->by = xstrdup(by);
	LL_APPEND2(c->arrays.removing, x, link);
}

int array_rm_step(struct core *c, uint32_t *budget)
{
	struct array_rm *x;
	struct cjob *j;
	struct err e;

	while (*budget && (x = c->arrays.removing)) {
		for (; *budget && x->next < x->members; --*budget, x->next++)
			rm_member(c, x);
		if (x->next < x->members)
			return 1;
		j = job_get(c, x->array, &e);
		if (j && !j->r.deleted)
			remove_job(c, j, x->by);
		rm_drop(c, x);
	}
	return c->arrays.removing != NULL;
}

void array_rm_clear(struct core *c)
{
	while (c->arrays.removing)
		rm_drop(c, c->arrays.removing);
}
