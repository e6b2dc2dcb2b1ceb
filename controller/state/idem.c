/*
 * idem: idempotency keys.
 *
 * The same key with the same request gets the same answer, also when the first answer was lost. With another
 * request it is refused. A key belongs to a user and is stored for 24 hours. hearthd stores at most IDEM_MAX
 * keys and drops the oldest first.
 *
 * The job's row has the key of a submit, clone or retry. The answer to every other change is stored in the
 * transaction of the change, so it survives a restart. Refusals are not stored, because the next try may
 * succeed. A node's join is identified by its name and certificate request, and has no user.
 */
#include "controller/state/idem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/request.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

#define IDEM_MAX 100000 /* keys remembered at most */

char *idem_scoped(const struct core *c, const struct request *rq)
{
	return xasprintf("%s:%s", req_user(c, rq), rq->idem_key);
}

static void idem_drop(struct core *c, struct idem *i)
{
	HASH_DELETE(hh, c->idem, i);
	free(i->key);
	free(i->body);
	free(i);
}

static struct idem *idem_find(struct core *c, const char *key)
{
	struct idem *i;

	HASH_FIND_STR(c->idem, key, i);
	if (!i || !i->at_us || now_real(c) <= i->at_us + IDEM_KEPT_US)
		return i;
	idem_drop(c, i);
	return NULL;
}

struct idem *idem_add(struct core *c, const char *key, const char *digest, uint64_t job)
{
	struct idem *i;

	HASH_FIND_STR(c->idem, key, i);
	if (i)
		return i;
	if (HASH_COUNT(c->idem) >= IDEM_MAX)
		idem_drop(c, c->idem);
	i = xcalloc(1, sizeof(*i));
	i->key = xstrdup(key);
	snprintf(i->digest, sizeof(i->digest), "%s", digest ? digest : "");
	i->job = job;
	HASH_ADD_KEYPTR(hh, c->idem, i->key, strlen(i->key), i);
	return i;
}

void idem_load(struct core *c, const struct answer_row *r)
{
	struct idem *i = idem_add(c, r->key, r->digest, 0);

	if (i->job || i->body)
		return;
	i->status = (uint16_t)r->status;
	i->body = xstrdup(r->body);
	i->at_us = r->at_us;
}

void idem_clear(struct core *c)
{
	while (c->idem)
		idem_drop(c, c->idem);
}

cJSON *idem_submitted(uint64_t id, const char *name)
{
	cJSON *body = cJSON_CreateObject();

	json_add_u64(body, "id", id);
	json_add_str(body, "name", name);
	return body;
}

static void refuse_reuse(struct core *c, struct request *rq, const struct idem *i)
{
	TEXT(job);

	if (i->job)
		text_add(&job, " (job %" PRIu64 ")", i->job);
	reply_fail(c, rq, ERR_CONFLICT,
	           "the idempotency key \"%.100s\" was used for another request%s; use a new key", rq->idem_key,
	           job.at);
}

int idem_seen(struct core *c, struct request *rq)
{
	struct cjob *j;
	struct idem *i;
	struct err e;
	char *key;

	if (!rq->idem_key || FAULT("mistake.no_idempotency"))
		return 0;
	key = idem_scoped(c, rq);
	i = idem_find(c, key);
	free(key);
	if (!i)
		return 0;
	if (strcmp(i->digest, rq->idem_digest) != 0) {
		refuse_reuse(c, rq, i);
		return 1;
	}
	if (i->body) {
		hold_reply(c, rq, i->status, cJSON_Parse(i->body));
		return 1;
	}
	j = job_get(c, i->job, &e);
	if (j)
		hold_reply(c, rq, 201, idem_submitted(j->r.id, j->r.name));
	else
		reply_err(c, rq, &e);
	return 1;
}

void idem_keep(struct core *c, const struct request *rq, int status, const cJSON *body)
{
	struct answer_row row = {.digest = rq->idem_digest, .status = (uint32_t)status, .at_us = now_real(c)};
	char *key, *text;

	if (!rq->idem_key || status >= 400 || !request_op_repeats(rq->op))
		return;
	row.key = key = idem_scoped(c, rq);
	if (!idem_find(c, key)) {
		row.body = text = body ? json_text(body) : xstrdup("null");
		idem_load(c, &row);
		store_txn_answer(turn_now(c)->txn, &row);
		turn_now(c)->n++;
		free(text);
	}
	free(key);
}
