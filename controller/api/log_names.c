/*
 * log_names: algo-K is node rank K - 1; a machine's name is looked up in the attempt's places.
 */
#include "controller/api/log_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/strutil.h"
#include "common/spec/launcher.h"
#include "store/read/query.h"

static uint64_t ranks_of(const cJSON *place)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(place, "ranks");

	return cJSON_IsNumber(v) && v->valuedouble > 0 ? (uint64_t)v->valuedouble : 0;
}

/* "algo-2" -> 1; a machine's name -> its node rank; -1 unknown. */
static int64_t node_rank(const cJSON *places, const char *node)
{
	const cJSON *p;
	int64_t at = 0;
	uint64_t k;

	if (strncmp(node, "algo-", 5) == 0 && str_parse_u64(node + 5, &k) == 0 && k >= 1 && k <= UINT32_MAX)
		return (int64_t)k - 1;
	cJSON_ArrayForEach (p, places) {
		const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(p, "node"));

		if (name && strcmp(name, node) == 0)
			return at;
		at++;
	}
	return -1;
}

static uint64_t ranks_in(const cJSON *places)
{
	uint64_t n = 0;
	const cJSON *p;

	cJSON_ArrayForEach (p, places)
		n += ranks_of(p);
	return n;
}

/* Ranks are counted through the places, whether they have started or not. */
static int first_rank(const cJSON *places, int64_t node, char *out, size_t out_size, struct err *e)
{
	uint64_t first = 0;
	int64_t at = 0;
	const cJSON *p;

	cJSON_ArrayForEach (p, places) {
		if (at++ == node && ranks_of(p)) {
			snprintf(out, out_size, "rank-%" PRIu64, first);
			return 0;
		}
		first += ranks_of(p);
	}
	return err_set(e, ERR_NOT_FOUND, "this attempt has no known rank on node algo-%" PRId64, node + 1);
}

static int is_launcher_stream(const char *name)
{
	const struct launcher_proc *proc = launcher_proc_called(name);

	return proc && proc->own_stream;
}

int log_name_choose(const cJSON *places, const char *name, const char *node, char *out, size_t out_size,
                    struct err *e)
{
	static const char *const per_node[] = {"setup", "system"};
	uint64_t k;
	unsigned i;
	int64_t at = 0;

	if (node && (at = node_rank(places, node)) < 0)
		return err_set(e, ERR_NOT_FOUND,
		               "node: unknown node \"%.64s\"; expected algo-1, algo-2 ... or the name of a machine "
		               "of this attempt",
		               node);
	for (i = 0; i < 2; i++) {
		size_t n = strlen(per_node[i]);

		if (strncmp(name, per_node[i], n) != 0 || (name[n] && name[n] != '-'))
			continue;
		if (name[n] && (at = node_rank(places, name + n + 1)) < 0)
			return err_set(e, ERR_NOT_FOUND,
			               "unknown node \"%.64s\"; expected algo-1, algo-2 ... or the name of a machine of "
			               "this attempt",
			               name + n + 1);
		snprintf(out, out_size, "%s-algo-%lld", per_node[i], (long long)at + 1);
		return 0;
	}
	if (is_launcher_stream(name) || (strncmp(name, "rank-", 5) == 0 && str_parse_u64(name + 5, &k) == 0)) {
		uint64_t n = *name == 'r' ? ranks_in(places) : 0;

		if (n && k >= n)
			return err_set(e, ERR_NOT_FOUND,
			               "unknown rank %" PRIu64 "; this attempt has %" PRIu64 " rank%s, from 0", k, n,
			               n == 1 ? "" : "s");
		snprintf(out, out_size, "%s", name);
		return 0;
	}
	if (strcmp(name, "rank") == 0 || strcmp(name, "node") == 0)
		return first_rank(places, at, out, out_size, e);
	at = node_rank(places, name);
	if (at >= 0)
		return first_rank(places, at, out, out_size, e);
	return err_set(e, ERR_NOT_FOUND,
	               "unknown stream \"%.64s\"; expected rank-N, " LAUNCHER_STREAMS
	               ", setup and system (with ?node=algo-K)",
	               name);
}

int log_name_resolve(struct store_reader *r, uint64_t job, uint32_t attempt, const char *name,
                     const char *node, char *out, size_t out_size, struct err *e)
{
	cJSON *places = store_placement_json(r, job, attempt, NULL);
	int rc = log_name_choose(places, name, node, out, out_size, e);

	cJSON_Delete(places);
	return rc;
}
