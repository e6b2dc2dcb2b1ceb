/*
 * log_names: algo-K is node rank K - 1; a machine is looked up among the attempt's ranks.
 */
#include "controller/log_names.h"

#include <stdio.h>
#include <string.h>

#include "common/strutil.h"
#include "store/store.h"

static const cJSON *rank_list(const cJSON *ranks)
{
	return cJSON_IsArray(ranks) ? ranks : cJSON_GetObjectItemCaseSensitive(ranks, "ranks");
}

static int64_t number(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsNumber(v) ? (int64_t)v->valuedouble : -1;
}

/* "algo-2" -> 1; a machine's name -> its node rank; -1 unknown. */
static int64_t node_rank(const cJSON *ranks, const char *node)
{
	const cJSON *r;
	uint64_t k;

	if (!strncmp(node, "algo-", 5) && str_parse_u64(node + 5, &k) == 0 && k >= 1 && k <= UINT32_MAX)
		return (int64_t)k - 1;
	cJSON_ArrayForEach (r, rank_list(ranks)) {
		const cJSON *name = cJSON_GetObjectItemCaseSensitive(r, "node");

		if (cJSON_IsString(name) && !strcmp(name->valuestring, node))
			return number(r, "node_rank");
	}
	return -1;
}

static int first_rank(const cJSON *ranks, int64_t node, char *out, size_t out_size, struct err *e)
{
	int64_t least = -1;
	const cJSON *r;

	cJSON_ArrayForEach (r, rank_list(ranks))
		if (number(r, "node_rank") == node && (least < 0 || number(r, "rank") < least))
			least = number(r, "rank");
	if (least < 0)
		return err_set(e, ERR_NOT_FOUND, "no rank of this attempt is known on node algo-%lld",
		               (long long)node + 1);
	snprintf(out, out_size, "rank-%lld", (long long)least);
	return 0;
}

int log_name_choose(const cJSON *ranks, const char *name, const char *node, char *out, size_t out_size,
                    struct err *e)
{
	static const char *const per_node[] = {"setup", "system"};
	uint64_t k;
	unsigned i;
	int64_t at = 0;

	if (node && (at = node_rank(ranks, node)) < 0)
		return err_set(
		    e, ERR_NOT_FOUND,
		    "node: \"%.64s\" is no node of this attempt; nodes are algo-1, algo-2 ... or names of machines",
		    node);
	for (i = 0; i < 2; i++) {
		size_t n = strlen(per_node[i]);

		if (strncmp(name, per_node[i], n) || (name[n] && name[n] != '-'))
			continue;
		if (name[n] && (at = node_rank(ranks, name + n + 1)) < 0)
			return err_set(
			    e, ERR_NOT_FOUND,
			    "\"%.64s\" is no node of this attempt; nodes are algo-1, algo-2 ... or names of machines",
			    name + n + 1);
		snprintf(out, out_size, "%s-algo-%lld", per_node[i], (long long)at + 1);
		return 0;
	}
	if (!strcmp(name, "mpirun") || (!strncmp(name, "rank-", 5) && str_parse_u64(name + 5, &k) == 0)) {
		snprintf(out, out_size, "%s", name);
		return 0;
	}
	if (!strcmp(name, "rank") || !strcmp(name, "node"))
		return first_rank(ranks, at, out, out_size, e);
	at = node_rank(ranks, name);
	if (at >= 0)
		return first_rank(ranks, at, out, out_size, e);
	return err_set(
	    e, ERR_NOT_FOUND,
	    "no stream is called \"%.64s\"; there are rank-N, mpirun, setup and system (with ?node=algo-K)",
	    name);
}

int log_name_resolve(struct store_reader *r, uint64_t job, uint32_t attempt, const char *name,
                     const char *node, char *out, size_t out_size, struct err *e)
{
	cJSON *ranks = store_ranks_json(r, job, attempt, NULL);
	int rc = log_name_choose(ranks, name, node, out, out_size, e);

	cJSON_Delete(ranks);
	return rc;
}
