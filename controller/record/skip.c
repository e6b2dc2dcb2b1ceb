/*
 * skip: see skip.h.
 */
#include "controller/record/skip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"

struct range {
	int64_t first, last;
};

static int by_first(const void *pa, const void *pb)
{
	const struct range *a = pa, *b = pb;

	return (a->first > b->first) - (a->first < b->first);
}

/* Reads "7-9" or "7" from n bytes. */
static int parse_range(const char *text, size_t n, struct range *out)
{
	char *one = xstrndup(text, n), *dash = strchr(one, '-');
	uint64_t first, last;
	int bad;

	if (dash)
		*dash = '\0';
	bad = str_parse_u64(one, &first) < 0 || str_parse_u64(dash ? dash + 1 : one, &last) < 0 || last < first ||
	      last > INT64_MAX;
	free(one);
	if (bad)
		return -1;
	*out = (struct range){(int64_t)first, (int64_t)last};
	return 0;
}

static void remove_range(struct range *v, size_t *n, size_t at)
{
	memmove(&v[at], &v[at + 1], (*n - at - 1) * sizeof(*v));
	(*n)--;
}

/* Joins ranges that meet, and then those with the smallest gaps, until at most SKIP_RANGES are left. */
static void join_ranges(struct range *v, size_t *n)
{
	for (size_t i = 0; i + 1 < *n;) {
		if (v[i + 1].first - 1 > v[i].last) {
			i++;
			continue;
		}
		if (v[i + 1].last > v[i].last)
			v[i].last = v[i + 1].last;
		remove_range(v, n, i + 1);
	}
	while (*n > SKIP_RANGES) {
		size_t best = 0;

		for (size_t i = 1; i + 1 < *n; i++)
			if (v[i + 1].first - v[i].last < v[best + 1].first - v[best].last)
				best = i;
		v[best].last = v[best + 1].last;
		remove_range(v, n, best + 1);
	}
}

char *skip_add(const char *list, int64_t first, int64_t last)
{
	size_t n = 0, most = 2;
	struct range *v;
	char *out = NULL;

	for (const char *p = list; p && *p; p++)
		most += *p == ',';
	v = xcalloc(most, sizeof(*v));
	for (const char *p = list; p && *p;) {
		size_t len = strcspn(p, ",");

		n += parse_range(p, len, &v[n]) == 0;
		p += len + (p[len] == ',');
	}
	if (first >= 0 && last >= first)
		v[n++] = (struct range){first, last};
	qsort(v, n, sizeof(*v), by_first);
	join_ranges(v, &n);
	for (size_t i = 0; i < n; i++) {
		char *more =
		    xasprintf("%s%s%" PRId64 "-%" PRId64, out ? out : "", out ? "," : "", v[i].first, v[i].last);

		free(out);
		out = more;
	}
	free(v);
	return out ? out : xstrdup("");
}
