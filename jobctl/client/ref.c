/*
 * ref: see ref.h.
 */
#include "jobctl/client/ref.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/client/ctx.h"

#define RANGE_MAX 10000

int ref_resolve(struct ctx *c, const char *ref, uint64_t *job)
{
	if (!str_parse_u64(ref, job))
		return *job ? 0 : ctx_fail(c, ERR_INVALID, "job 0 does not exist; ids start at 1");
	if (!*ref)
		return ctx_fail(c, ERR_INVALID, "empty job reference; expected an id, `last` or a name");
	if (!ctx_client(c))
		return -1;
	char *esc = client_escape(ref), *path = xasprintf("/jobs/resolve?ref=%s", esc);
	cJSON *answer = NULL;
	int rc = client_call(c->client, "GET", path, NULL, &answer, &c->err);
	int64_t id = 0;
	if (!rc)
		rc = json_get_i64(answer, "the answer", "id", 1, INT64_MAX, &id, &c->err);
	if (!rc && !id)
		rc = ctx_fail(c, ERR_PROTOCOL, "the controller's answer has no id");
	if (!rc)
		*job = (uint64_t)id;
	cJSON_Delete(answer);
	free(esc);
	free(path);
	return rc;
}

/* Expands a range of ids or members ("17-20", "17.0-9"). A name may have dashes, so both sides must be
 * numbers. Returns 1 if it is not a range. */
static int expand_range(const char *part, ref_fn fn, void *arg, struct err *e)
{
	const char *dash = strchr(part, '-');
	uint64_t lo, hi;
	char left[32], number[48];
	uint64_t array = 0;
	uint32_t index;
	if (!dash || (size_t)(dash - part) >= sizeof(left))
		return 1;
	memcpy(left, part, (size_t)(dash - part));
	left[dash - part] = 0;
	if (!str_parse_member(left, &array, &index)) { /* 17.0-9: members; also 17.0-17.9 */
		uint64_t same;
		uint32_t last;
		lo = index;
		if (!str_parse_member(dash + 1, &same, &last) && same == array)
			hi = last;
		else if (str_parse_u64(dash + 1, &hi))
			return 1;
	} else if (str_parse_u64(left, &lo) || str_parse_u64(dash + 1, &hi))
		return 1;
	if (lo > hi)
		return err_set(e, ERR_INVALID, "range '%s' is reversed; the smaller id comes first", part);
	if (hi - lo >= RANGE_MAX)
		return err_set(e, ERR_LIMIT, "range '%s' has more than %d jobs", part, RANGE_MAX);
	for (uint64_t n = hi - lo + 1; n; n--) { /* counts down, because hi may be the greatest number */
		if (array)
			snprintf(number, sizeof(number), "%" PRIu64 ".%" PRIu64, array, (hi - n + 1));
		else
			snprintf(number, sizeof(number), "%" PRIu64, (hi - n + 1));
		if (fn(number, part, arg))
			return -1;
	}
	return 0;
}

int ref_expand(const char *text, ref_fn fn, void *arg, struct err *e)
{
	char *copy = xstrdup(text), *p = copy;
	int rc = 0;
	while (p && !rc) {
		char *comma = strchr(p, ',');
		if (comma)
			*comma = 0;
		if (!*p)
			rc = err_set(e, ERR_INVALID, "'%s' has an empty job reference; expected a list such as 17-20,23",
			             text);
		else
			rc = expand_range(p, fn, arg, e);
		if (rc == 1)
			rc = fn(p, p, arg);
		p = comma ? comma + 1 : NULL;
	}
	free(copy);
	return rc ? -1 : 0;
}

struct collect {
	struct ctx *c;
	struct job_ref *list;
	size_t n;
	const char *last; /* the part that was expanded last; never dereferenced */
	unsigned parts;
};

static int collect_one(const char *ref, const char *part, void *arg)
{
	struct collect *k = arg;
	struct job_ref r = {0};
	if (k->n == RANGE_MAX)
		return ctx_fail(k->c, ERR_LIMIT, "the list has more than %d jobs", RANGE_MAX);
	if (ref_resolve(k->c, ref, &r.id)) {
		if (k->c->err.code != ERR_NOT_FOUND)
			return -1;
		r.id = 0;
		r.why = xstrdup(k->c->err.text);
	}
	k->parts += part != k->last;
	k->last = part;
	r.part = k->parts;
	r.range = ref == part ? NULL : xstrdup(part);
	k->list = xreallocarray(k->list, k->n + 1, sizeof(*k->list));
	k->list[k->n++] = r;
	return 0;
}

void ref_list_free(struct job_ref *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(list[i].why);
		free(list[i].range);
	}
	free(list);
}

int ref_resolve_list(struct ctx *c, const char *const *refs, size_t n, struct job_ref **list, size_t *count)
{
	struct collect k = {.c = c};
	for (size_t i = 0; i < n; i++) {
		k.last = NULL; /* the next operand's parts may have the same addresses */
		if (ref_expand(refs[i], collect_one, &k, &c->err)) {
			ref_list_free(k.list, k.n);
			return -1;
		}
	}
	*list = k.list;
	*count = k.n;
	return 0;
}

int ref_after_kind(const char *text, char kind[AFTER_KIND_SIZE], const char **ref, struct err *e)
{
	static const char *const kinds[] = {"afterok", "afterany", "after", NULL};
	const char *colon = strchr(text, ':'), *near = NULL;
	*ref = colon ? colon + 1 : text;
	char *word = colon ? xstrndup(text, (size_t)(colon - text)) : xstrdup("afterok");
	int known = 0;
	for (const char *const *k = kinds; *k; k++)
		known |= strcmp(*k, word) == 0;
	if (known)
		snprintf(kind, AFTER_KIND_SIZE, "%s", word);
	else
		near = str_nearest(word, kinds);
	free(word);
	if (known && **ref)
		return 0;
	return err_set(e, ERR_INVALID,
	               "--after '%s': expected JOB or afterok:JOB (has completed), afterany:JOB (has ended), "
	               "after:JOB (has started)%s%s%s",
	               text, near ? "; did you mean " : "", near ? near : "", near ? ":JOB?" : "");
}
