/*
 * spec_after: the jobs that a job waits for: "after": [17, "afterok:17", "afterany:18", "after:19"]. The
 * words are those that users of batch systems know; a number alone, or as a string, means afterok.
 */
#include "common/spec_int.h"

#include <inttypes.h>
#include <string.h>

#include "common/strutil.h"

static const char *const names[] = {
    [SPEC_AFTER_ANY] = "afterany", [SPEC_AFTER_OK] = "afterok", [SPEC_AFTER_START] = "after"};

const char *spec_after_name(enum spec_after_kind k)
{
	return names[k];
}

static int read_text(const char *s, struct spec_after *a)
{
	const char *colon = strchr(s, ':');
	size_t n = colon ? (size_t)(colon - s) : 0;

	a->kind = SPEC_AFTER_OK;
	if (!colon)
		return str_parse_u64(s, &a->job);
	for (int k = SPEC_AFTER_ANY; k <= SPEC_AFTER_START; k++) {
		if (strlen(names[k]) == n && strncmp(names[k], s, n) == 0) {
			a->kind = (enum spec_after_kind)k;
			return str_parse_u64(colon + 1, &a->job);
		}
	}
	return -1;
}

static void read_one(struct spec_parse *p, const char *where, const cJSON *v)
{
	static const char wanted[] =
	    "a job's number, or afterok:ID (ended well), afterany:ID (ended), after:ID (started)";
	struct spec_after a = {0, SPEC_AFTER_OK};

	if (cJSON_IsNumber(v)) {
		if (v->valuedouble < 1 || v->valuedouble > 9e15 ||
		    v->valuedouble != (double)(uint64_t)v->valuedouble) {
			spec_problem(p, where, "expected %s", wanted);
			return;
		}
		a.job = (uint64_t)v->valuedouble;
	} else if (!cJSON_IsString(v)) {
		spec_wrong_type(p, where, wanted, v);
		return;
	} else if (read_text(v->valuestring, &a) < 0 || !a.job) {
		spec_problem(p, where, "\"%.60s\": expected %s",
		             spec_string(p, where, v, 60, 0) ? v->valuestring : "", wanted);
		return;
	}
	for (size_t i = 0; i < p->s.n_after; i++) {
		if (p->s.after[i].job == a.job && p->s.after[i].kind == a.kind) {
			spec_problem(p, where, "%s:%" PRIu64 " is given twice", names[a.kind], a.job);
			return;
		}
	}
	p->s.after[p->s.n_after++] = a;
}

void spec_v_after(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out)
{
	char path[SPEC_WHERE_SIZE];
	const cJSON *item;
	size_t i = 0;

	(void)out;
	if (!cJSON_IsArray(v)) {
		spec_wrong_type(p, where, "a list such as [17, \"afterany:18\"]", v);
		return;
	}
	if (cJSON_GetArraySize(v) > r->max) {
		spec_problem(p, where, "has %d entries; at most %" PRId64 " are allowed", cJSON_GetArraySize(v),
		             r->max);
		return;
	}
	if (!v->child || !spec_once(p, where, p->s.after))
		return;
	p->s.after = xcalloc((size_t)cJSON_GetArraySize(v), sizeof(*p->s.after));
	cJSON_ArrayForEach (item, v)
		read_one(p, spec_where_index(path, where, i++), item);
}
