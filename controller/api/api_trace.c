/*
 * api_trace: the record of the scheduler, from the store, on this thread.
 */
#include <string.h>

#include "common/base/strutil.h"
#include "controller/api/api_cluster.h"
#include "controller/api/thread.h"
#include "controller/http/route.h"
#include "store/read/query.h"

#define PAGE_BYTES (512u << 10)

void api_trace(struct call *c, struct io *io)
{
	struct err e;
	cJSON *o = store_history_parts(io->reader, &e);

	if (o)
		call_json(c, 200, o);
	else
		call_fail(c, &e);
}

/* Finds the number of the part, or of the last one; 0: it does not exist. */
static int find_part(struct call *c, struct io *io, uint64_t *part, struct err *e)
{
	cJSON *all = store_history_parts(io->reader, e);
	const cJSON *p;

	if (!all)
		return -1;
	*part = 0;
	cJSON_ArrayForEach (p, cJSON_GetObjectItemCaseSensitive(all, "parts")) {
		uint64_t n = (uint64_t)cJSON_GetObjectItemCaseSensitive(p, "part")->valuedouble, wanted;

		if (strcmp(c->params[0], "last") == 0 || (str_parse_u64(c->params[0], &wanted) == 0 && wanted == n))
			*part = n;
	}
	cJSON_Delete(all);
	return 0;
}

void api_trace_part(struct call *c, struct io *io)
{
	uint64_t part;
	struct err e;
	cJSON *o;

	if (find_part(c, io, &part, &e) < 0) {
		call_fail(c, &e);
		return;
	}
	if (!part) {
		call_problem(c, 404, "jobctl trace --list", "the record has no part \"%s\", or it was removed",
		             c->params[0]);
		return;
	}
	o = store_history_lines(io->reader, part, query_u64(c, "after", 0), PAGE_BYTES, &e);
	if (o)
		call_json(c, 200, o);
	else
		call_fail(c, &e);
}
