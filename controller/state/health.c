/* health: see health.h. */
#include "controller/state/health.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/text.h"

#define HALF_US     21600000000.0 /* six hours */
#define STEP_US     60000000u     /* how exactly it is said when the level is less */
#define WORST_LEVEL 3

void health_add(struct health *t, enum health_event kind, const char *text, uint64_t boot_us,
                uint64_t real_us)
{
	if (t->n == HEALTH_KEPT)
		memmove(&t->of[0], &t->of[1], --t->n * sizeof(t->of[0]));
	t->of[t->n].at_us = boot_us;
	t->of[t->n++].kind = kind;
	t->last_us = real_us;
	snprintf(t->last, sizeof(t->last), "%s", text ? text : "");
}

static int is_new(const struct health *t, uint32_t i, uint64_t boot_us)
{
	return t->of[i].at_us + HEALTH_DAY_US > boot_us;
}

/* Follows S-128, S-129 and S-130. */
uint32_t health_level(const struct health *t, uint64_t boot_us)
{
	static const double from[] = {0.75, 2, 4};
	double sum = 0;
	uint32_t level = 0;

	for (uint32_t i = 0; i < t->n; i++)
		if (is_new(t, i, boot_us))
			sum += (t->of[i].kind == HEALTH_CONNECTION ? 0.5 : 1) *
			       exp2(-(double)(boot_us - t->of[i].at_us) / HALF_US);
	while (level < WORST_LEVEL && sum >= from[level])
		level++;
	return level;
}

uint64_t health_next_us(const struct health *t, uint64_t boot_us)
{
	uint64_t from = boot_us, to = boot_us + HEALTH_DAY_US;
	uint32_t level = health_level(t, boot_us);

	if (!level)
		return UINT64_MAX;
	while (to - from > STEP_US) { /* it only fades */
		uint64_t middle = from + (to - from) / 2;

		if (health_level(t, middle) < level)
			to = middle;
		else
			from = middle;
	}
	return to;
}

void health_count(const struct health *t, uint64_t boot_us, uint32_t n[HEALTH_KINDS])
{
	memset(n, 0, HEALTH_KINDS * sizeof(*n));
	for (uint32_t i = 0; i < t->n; i++)
		n[t->of[i].kind] += (uint32_t)is_new(t, i, boot_us);
}

const char *health_text(const struct health *t, uint64_t boot_us, char *out, size_t size)
{
	static const char *const one[] = {"its connection broke off", "a launch failed on it", "it was lost"};
	static const char *const more[] = {"its connection broke off %u times", "%u launches failed on it",
	                                   "it was lost %u times"};
	struct text words = text_on(out, size);
	uint32_t n[HEALTH_KINDS];

	health_count(t, boot_us, n);
	for (int k = HEALTH_KINDS - 1; k >= 0; k--) {
		if (n[k] == 1)
			text_join(&words, ", ", "%s", one[k]);
		else if (n[k])
			text_join(&words, ", ", more[k], n[k]); /* NOLINT: from the table above */
	}
	if (!text_is_empty(&words))
		text_add(&words, " within a day");
	return out;
}
