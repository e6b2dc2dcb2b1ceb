/*
 * brief: adds short reasons for waiting jobs to an answer that an I/O thread has read from the store.
 *
 * A job with a reason on record (it waits for another job) keeps it. A reason for its return to the queue is
 * replaced, because it is past. A job between two attempts keeps its reason behind what it waits for. One
 * call of the scheduler serves all jobs of a page.
 */
#include "controller/requests/requests.h"

#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/state/core_state.h"
#include "controller/state/request.h"
#include "controller/state/turn.h"

#define BRIEF_MAX 1000 /* jobs in one answer */

static int wants_one(const cJSON *job, uint64_t *id)
{
	const char *status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(job, "status")),
	           *reason = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(job, "reason"));
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(job, "id");

	*id = cJSON_IsNumber(v) ? (uint64_t)v->valuedouble : 0;
	if (*id && status && strcmp(status, "recovering") == 0)
		return 1;
	return *id && status && strcmp(status, "queued") == 0 &&
	       (!reason || !*reason || strncmp(reason, "requeued", 8) == 0 ||
	        strncmp(reason, "attempt ", 8) == 0);
}

/* Returns what the job waits for now; a job that has run before says so, too. */
static cJSON *brief_reason(const cJSON *job, const char *text)
{
	const char *status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(job, "status")),
	           *reason = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(job, "reason"));
	int queued = strcmp(status, "queued") == 0, had = reason && *reason;
	char *both = xasprintf("%s%s%s", text, had ? "; " : "",
	                       !had     ? ""
	                       : queued ? "it was sent back to the queue"
	                                : reason);
	cJSON *out = cJSON_CreateString(both);

	free(both);
	return out;
}

static void fill_reasons(struct core *c, cJSON **jobs, const uint64_t *ids, size_t n)
{
	struct sched_brief *b = xcalloc(n + 1, sizeof(*b));

	sched_brief(c->sched, ids, n, b);
	for (size_t i = 0; i < n; i++)
		if (b[i].text[0])
			cJSON_ReplaceItemInObjectCaseSensitive(jobs[i], "reason", brief_reason(jobs[i], b[i].text));
	free(b);
}

void req_brief(struct core *c, struct request *rq)
{
	cJSON *body = rq->body, *list = cJSON_GetObjectItemCaseSensitive(body, "jobs"), *jobs[BRIEF_MAX], *j;
	uint64_t ids[BRIEF_MAX];
	size_t n = 0;

	rq->body = NULL;
	if (list) {
		cJSON_ArrayForEach (j, list)
			if (n < BRIEF_MAX && wants_one(j, &ids[n]))
				jobs[n++] = j;
	} else if (wants_one(body, &ids[0])) {
		jobs[n++] = body;
	}
	fill_reasons(c, jobs, ids, n);
	hold_reply(c, rq, 200, body);
}
