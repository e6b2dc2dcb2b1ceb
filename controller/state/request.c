/*
 * request: making and freeing one; the answer is the I/O side's.
 */
#include "controller/state/request.h"
#include "common/base/xalloc.h"

struct request *request_new(enum request_op op)
{
	struct request *rq = xcalloc(1, sizeof *rq);

	rq->op = op;
	return rq;
}

void request_free(struct request *rq)
{
	if (!rq)
		return;
	free(rq->user);
	free(rq->node);
	free(rq->text);
	free(rq->idem_key);
	spec_destroy(rq->spec);
	cJSON_Delete(rq->body);
	free(rq);
}

const char *request_op_text(enum request_op op)
{
	switch (op) {
#define R(o, w, text)                                                                                        \
	case o:                                                                                                  \
		return text;
		REQUEST_OPS(R)
#undef R
	}
	return "?";
}

int request_op_writes(enum request_op op)
{
	switch (op) {
#define R(o, w, text)                                                                                        \
	case o:                                                                                                  \
		return w;
		REQUEST_OPS(R)
#undef R
	}
	return 1;
}
