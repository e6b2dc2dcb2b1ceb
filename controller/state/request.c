/*
 * request: making and freeing one, and what its line in the table says.
 */
#include "controller/state/request.h"

#include "common/base/xalloc.h"

struct request *request_new(enum request_op op)
{
	struct request *rq = xcalloc(1, sizeof(*rq));

	rq->op = op;
	return rq;
}

void request_free(struct request *rq)
{
	if (!rq)
		return;
	free(rq->user);
	free(rq->account);
	free(rq->owner);
	free(rq->token_id);
	free(rq->node);
	free(rq->text);
	free(rq->idem_key);
	spec_destroy(rq->spec);
	cJSON_Delete(rq->body);
	free(rq);
}

static const struct {
	const char *text;
	enum request_effect effect;
} ops[] = {
#define R(op, handler, role, effect, text) [op] = {text, effect},
    REQUEST_OPS(R)
#undef R
};
#define N_OPS (sizeof(ops) / sizeof(ops[0]))

const char *request_op_text(enum request_op op)
{
	return (size_t)op < N_OPS ? ops[op].text : "?";
}

int request_op_writes(enum request_op op)
{
	return (size_t)op >= N_OPS || ops[op].effect != RQ_ASKS;
}

int request_op_repeats(enum request_op op)
{
	return (size_t)op >= N_OPS || ops[op].effect == RQ_CHANGES;
}
