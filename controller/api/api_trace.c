/*
 * api_trace: the record of the scheduler, from the store, by workers.
 */
#include <string.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/api/api_cluster.h"
#include "controller/api/thread.h"
#include "controller/http/route.h"
#include "controller/io/work.h"
#include "store/read/query.h"

#define PAGE_BYTES (512u << 10)

/* Worker. */
static cJSON *list_parts(struct store_reader *r, void *state, struct err *e)
{
	(void)state;
	return store_history_parts(r, e);
}

void api_trace(struct call *c, struct io *io)
{
	work_ask(c, io, &(struct work_ask){.ask = list_parts});
}

struct page {
	const char *part; /* the call's: a number, or "last" */
	uint64_t after;
};

/* Finds the number of the part, or of the last one; 0: it does not exist. */
static int find_part(struct store_reader *r, const char *name, uint64_t *part, struct err *e)
{
	cJSON *all = store_history_parts(r, e);
	const cJSON *p;

	if (!all)
		return -1;
	*part = 0;
	cJSON_ArrayForEach (p, cJSON_GetObjectItemCaseSensitive(all, "parts")) {
		uint64_t n = (uint64_t)cJSON_GetObjectItemCaseSensitive(p, "part")->valuedouble, wanted;

		if (strcmp(name, "last") == 0 || (str_parse_u64(name, &wanted) == 0 && wanted == n))
			*part = n;
	}
	cJSON_Delete(all);
	return 0;
}

/* Worker. */
static cJSON *read_page(struct store_reader *r, void *state, struct err *e)
{
	const struct page *ask = state;
	uint64_t part;

	if (find_part(r, ask->part, &part, e) < 0)
		return NULL;
	if (part)
		return store_history_lines(r, part, ask->after, PAGE_BYTES, e);
	err_set(e, ERR_NOT_FOUND,
	        "the record has no part \"%s\", or it was removed; list the parts: jobctl trace --list",
	        ask->part);
	return NULL;
}

void api_trace_part(struct call *c, struct io *io)
{
	const struct page ask = {.part = c->params[0], .after = query_u64(c, "after", 0)};

	work_ask(c, io,
	         &(struct work_ask){.ask = read_page, .state = xmemdup(&ask, sizeof(ask)), .free_state = free});
}
