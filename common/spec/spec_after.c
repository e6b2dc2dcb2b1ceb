/*
 * spec_after: jobs that a specification names, and those that it waits for: "after": [17, "afterok:17",
 * "afterany:18.3", "after:19"]. The words are those that users of batch systems know; a number alone, or as a
 * string, means afterok. 17.3 is the member 3 of the array 17: its own number is 17 + 1 + 3.
 */
#include "common/spec/spec_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"

static const char *const names[] = {
    [SPEC_AFTER_ANY] = "afterany", [SPEC_AFTER_OK] = "afterok", [SPEC_AFTER_START] = "after"};

const char *spec_after_name(enum spec_after_kind k)
{
	return names[k];
}

static void note_member(struct spec_parse *p, const char *where, uint64_t array, uint32_t index)
{
	struct job_spec *s = &p->s;

	s->member_refs = xreallocarray(s->member_refs, s->n_member_refs + 1, sizeof(*s->member_refs));
	s->member_refs[s->n_member_refs++] = (struct spec_member_ref){xstrdup(where), array, index};
}

size_t spec_take_job(struct spec_parse *p, const char *where, const char *s, uint64_t *job)
{
	size_t n = strspn(s, "0123456789"), k = s[n] == '.' ? strspn(s + n + 1, "0123456789") : 0;
	char text[48];
	uint64_t array;
	uint32_t index;

	if (!n || n > 18 || s[0] == '0' || k > 9)
		return 0;
	snprintf(text, sizeof(text), "%.*s", (int)(n + (k ? k + 1 : 0)), s);
	if (!k)
		return str_parse_u64(text, job) == 0 ? n : 0;
	if (str_parse_member(text, &array, &index) < 0)
		return 0;
	*job = array + 1 + index;
	note_member(p, where, array, index);
	return n + 1 + k;
}

static int read_text(struct spec_parse *p, const char *where, const char *s, struct spec_after *a)
{
	const char *colon = strchr(s, ':'), *ref = colon ? colon + 1 : s;
	size_t n = colon ? (size_t)(colon - s) : 0, used;
	int k = SPEC_AFTER_ANY;

	a->kind = SPEC_AFTER_OK;
	while (colon && k <= SPEC_AFTER_START && (strlen(names[k]) != n || strncmp(names[k], s, n) != 0))
		k++;
	if (k > SPEC_AFTER_START)
		return -1;
	if (colon)
		a->kind = (enum spec_after_kind)k;
	used = spec_take_job(p, where, ref, &a->job);
	return used && !ref[used] ? 0 : -1;
}

static void read_one(struct spec_parse *p, const char *where, const cJSON *v)
{
	static const char wanted[] =
	    "a job's number, \"17.3\" for a member, or afterok:ID (ended well), afterany:ID (ended), after:ID "
	    "(started)";
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
	} else if (read_text(p, where, v->valuestring, &a) < 0 || !a.job) {
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
