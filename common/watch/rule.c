/* rule: see rule.h. */
#include "common/watch/rule.h"

void rule_begin(struct rule_state *s)
{
	*s = (struct rule_state){.since = -1, .last = -1, .acts = s->acts};
}

/* NaN is neither above nor below; the loss watch finds it. */
static int is_met(const struct watch_rule *r, double value)
{
	return value > r->above || value < r->below;
}

/* Counts a raise. Each one is an event for ever, and steps that go back or values that alternate would raise
 * the rule with nearly every point; it then waits for the next minute. */
static int may_raise(struct rule_state *s, uint64_t now_us)
{
	uint64_t used = s->raised_us > now_us ? s->raised_us : now_us;

	if (used - now_us > (uint64_t)(RULE_BURST - 1) * RULE_AGAIN_US)
		return 0;
	s->raised_us = used + RULE_AGAIN_US;
	return 1;
}

int rule_point(const struct watch_rule *r, struct rule_state *s, int64_t step, double value, uint64_t now_us)
{
	if (step == s->last)
		return 0;
	if (step < s->last) { /* the run went back */
		s->since = -1;
		s->fired = 0;
	}
	s->last = step;
	if (!is_met(r, value)) {
		s->since = -1;
		s->fired = 0;
		return 0;
	}
	if (s->since < 0)
		s->since = step;
	if (s->fired || step - s->since + 1 < r->for_steps || !may_raise(s, now_us))
		return 0;
	s->fired = 1;
	return 1;
}

int rule_seen(const struct watch_rule *r, struct rule_state *s, uint64_t now_us)
{
	s->quiet_us = now_us;
	s->fired = 0;
	if (r->absent_s > 0 || (s->raised_us && now_us - s->raised_us < RULE_AGAIN_US))
		return 0;
	s->raised_us = now_us;
	return 1;
}

int rule_silent(const struct watch_rule *r, struct rule_state *s, uint64_t now_us)
{
	if (!(r->absent_s > 0))
		return 0;
	if (!s->quiet_us)
		s->quiet_us = now_us;
	if (s->fired || (double)(now_us - s->quiet_us) < r->absent_s * 1e6)
		return 0;
	s->fired = 1;
	return 1;
}

int rule_may_act(const struct watch_rule *r, struct rule_state *s)
{
	if (r->action <= WATCH_PIN || s->acts >= r->budget)
		return 0;
	s->acts++;
	return 1;
}
