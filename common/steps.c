/*
 * steps: see steps.h.
 */
#include "common/steps.h"

#include <ctype.h>
#include <stdio.h>

int64_t steps_of(const char *name, size_t n)
{
	uint64_t step = 0;
	size_t end = n, begin;

	while (end && !isdigit((unsigned char)name[end - 1]))
		end--;
	for (begin = end; begin && isdigit((unsigned char)name[begin - 1]);)
		begin--;
	if (begin == end || end - begin > 18)
		return -1;
	for (size_t i = begin; i < end; i++)
		step = step * 10 + (uint64_t)(name[i] - '0');
	return (int64_t)step;
}

void steps_add(struct steps *s, const char *name, size_t n)
{
	int64_t step = steps_of(name, n);

	if (step < 0 || *name == '.')
		return;
	s->found |= step == s->want;
	for (unsigned i = 0; i < s->n; i++)
		if (s->shown[i] == step)
			return;
	if (s->n < STEPS_SHOWN)
		s->shown[s->n++] = step;
	else
		s->more++;
}

int steps_check(const struct steps *s, struct err *e)
{
	char list[STEPS_SHOWN * 21 + 8] = "";
	size_t used = 0;

	if (s->found)
		return 0;
	for (unsigned i = 0; i < s->n; i++)
		used += (size_t)snprintf(list + used, sizeof list - used, "%s%lld", i ? ", " : "",
		                         (long long)s->shown[i]);
	if (!s->n)
		return err_set(e, ERR_NOT_FOUND, "it holds no step %lld: no name in it has a number",
		               (long long)s->want);
	return err_set(e, ERR_NOT_FOUND, "it holds no step %lld; there %s %s%s", (long long)s->want,
	               s->n == 1 ? "is" : "are", list, s->more ? " ..." : "");
}
