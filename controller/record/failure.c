/*
 * failure: see failure.h.
 */
#include "controller/record/failure.h"

#include <signal.h>

#include "common/base/json.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "common/classify/cause.h"
#include "controller/record/rec.h"

#define NO_RANK     0xffffffffu
#define OUTLIVED_US 60000000ull /* a rank that ends so long after its line did not end because of it */
#define WENT_ON_US  2000000ull  /* so does one that reports a step so long after it */

/* ---- the list --------------------------------------------------------------------------------------- */

static int strength(const struct failure_rec *f)
{
	return cause_strength(f->verdict, state_name(STATE_CLASS, (int)f->cls));
}

static void free_line(struct failure_rec *f)
{
	free(f->reason);
	free(f->line);
}

void failure_list_free(struct failure_list *l)
{
	if (!l)
		return;
	for (uint32_t i = 0; i < l->n; i++)
		free_line(&l->v[i]);
	free(l);
}

/* Compares two lines of a stream. An agent sends an equally strong one when much output lay between: the
 * program went on after the first. */
static int is_better(const struct failure_rec *f, const struct failure_rec *old)
{
	return strength(f) > strength(old) || (strength(f) == strength(old) && f->at_us > old->at_us);
}

/* Returns where a line goes: its place, l->n for a new one, or -1 when the list has no place for it. */
static int find_slot(const struct failure_list *l, const struct failure_rec *f)
{
	int weakest = -1;

	for (uint32_t i = 0; l && i < l->n; i++) {
		if (l->v[i].rank == f->rank && l->v[i].place == f->place)
			return is_better(f, &l->v[i]) ? (int)i : -1;
		if (weakest < 0 || strength(&l->v[i]) <= strength(&l->v[weakest]))
			weakest = (int)i;
	}
	if (!l || l->n < FAILURES_MAX)
		return l ? (int)l->n : 0;
	return strength(f) > strength(&l->v[weakest]) ? weakest : -1;
}

int failure_list_wants(const struct failure_list *l, const struct failure_rec *f)
{
	return strength(f) > 0 && find_slot(l, f) >= 0;
}

static const char *text_of(const cJSON *data, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(data, key);

	return cJSON_IsString(v) ? v->valuestring : "";
}

static uint64_t whole_of(const cJSON *data, const char *key, uint64_t otherwise)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(data, key);

	return cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble < 0x1p53 ? (uint64_t)v->valuedouble
	                                                                           : otherwise;
}

void failure_list_add(struct failure_list **l, const cJSON *data)
{
	int cls = state_find(STATE_CLASS, text_of(data, "class")),
	    verdict = verdict_find(text_of(data, "verdict")), at;
	struct failure_rec f = {.rank = (uint32_t)whole_of(data, "rank", NO_RANK),
	                        .place = (uint32_t)whole_of(data, "place", 0),
	                        .cls = cls < 0 ? RC_UNKNOWN : (enum reason_class)cls,
	                        .verdict = verdict < 0 ? VERDICT_UNKNOWN : (enum line_verdict)verdict,
	                        .at_us = whole_of(data, "at_us", 0)};

	at = find_slot(*l, &f);
	if (at < 0)
		return;
	if (!*l)
		*l = xcalloc(1, sizeof(**l));
	if ((uint32_t)at < (*l)->n)
		free_line(&(*l)->v[at]);
	else
		(*l)->n++;
	f.reason = xstrdup(text_of(data, "reason"));
	f.line = xstrdup(text_of(data, "line"));
	(*l)->v[at] = f;
}

cJSON *failure_json(const struct failure_rec *f)
{
	cJSON *d = cJSON_CreateObject();

	if (f->rank != NO_RANK)
		json_add_u64(d, "rank", f->rank);
	json_add_u64(d, "place", f->place);
	json_add_str(d, "class", state_name(STATE_CLASS, (int)f->cls));
	json_add_str(d, "verdict", verdict_name(f->verdict));
	json_add_str(d, "reason", f->reason);
	json_add_str(d, "line", f->line);
	json_add_u64(d, "at_us", f->at_us);
	return d;
}

/* ---- the cause -------------------------------------------------------------------------------------- */

/* Whether the first rank that failed was killed by something outside of Hearth and its launcher. */
static int is_killed_from_outside(const struct attempt_rec *a)
{
	uint32_t first = rec_first_failed(a);

	return first < a->n_ranks && a->ranks[first].signal == SIGKILL && !a->ranks[first].ended_by;
}

/* Returns 0 when the line cannot have ended its attempt: its program went on after it, or it names a mistake
 * of the program, and the first rank that failed was killed from outside. Others then stumble over the lost
 * one. */
static int is_of_the_end(const struct attempt_rec *a, const struct failure_rec *l, const uint64_t *step_us)
{
	const struct rank_rec *k = l->rank < a->n_ranks ? &a->ranks[l->rank] : NULL;

	if (l->verdict == VERDICT_USER && is_killed_from_outside(a))
		return 0;
	if (!k || !l->at_us || l->verdict == VERDICT_DRAIN)
		return 1;
	return k->ended_us <= l->at_us + OUTLIVED_US && (!step_us || step_us[l->rank] <= l->at_us + WENT_ON_US);
}

/* Returns the earliest of the strongest lines; clocks of agents differ little (09-agent.md). */
static const struct failure_rec *strongest_line(const struct attempt_rec *a, const uint64_t *step_us)
{
	const struct failure_list *l = a->failures;
	const struct failure_rec *best = NULL;

	for (uint32_t i = 0; l && i < l->n; i++) {
		int d = !is_of_the_end(a, &l->v[i], step_us) ? -1 : best ? strength(&l->v[i]) - strength(best) : 1;

		if (d > 0 || (d == 0 && l->v[i].at_us < best->at_us))
			best = &l->v[i];
	}
	return best;
}

static int has_lost_place(const struct attempt_rec *a)
{
	for (uint32_t i = 0; i < a->n_places; i++)
		if (a->places[i].state == PLACE_LOST)
			return 1;
	return 0;
}

/* The facts of the kernel and of hearthd alone. */
static struct attempt_cause cause_by_facts(const struct attempt_rec *a)
{
	struct attempt_cause c = {.cls = RC_UNKNOWN, .verdict = VERDICT_UNKNOWN, .rank = rec_first_failed(a)};
	const struct place_rec *limited = rec_limited(a);

	if (has_lost_place(a)) {
		c.cls = RC_NODE_LOST;
		c.verdict = VERDICT_MOVE;
	} else if (limited) {
		c.cls = limited->cls;
		c.verdict = VERDICT_USER;
	} else if (c.rank < a->n_ranks) {
		c.cls = rec_rank_class(&a->ranks[c.rank]);
		c.verdict = c.cls == RC_OOM ? VERDICT_USER : c.cls == RC_SIGNAL ? VERDICT_MOVE : VERDICT_UNKNOWN;
	}
	return c;
}

struct attempt_cause attempt_cause(const struct attempt_rec *a, const uint64_t *step_us)
{
	struct attempt_cause c = cause_by_facts(a);
	const struct failure_rec *line = strongest_line(a, step_us);
	int certain = c.cls == RC_NODE_LOST || c.cls == RC_OOM || c.cls == RC_DISK;

	if (!line || strength(line) <= cause_strength(c.verdict, state_name(STATE_CLASS, (int)c.cls)))
		return c;
	if (certain && line->verdict != VERDICT_DRAIN)
		return c;
	return (struct attempt_cause){.cls = line->cls,
	                              .verdict = line->verdict,
	                              .rank = line->rank < a->n_ranks ? line->rank : a->n_ranks,
	                              .line = line};
}

void attempt_cause_words(const struct attempt_rec *a, const struct attempt_cause *c, struct text *t)
{
	const struct failure_rec *l = c->line;

	if (!l)
		return;
	if (c->rank < a->n_ranks)
		text_add(t, "rank %u on %s: ", c->rank, a->places[a->ranks[c->rank].place].node);
	else if (l->place < a->n_places)
		text_add(t, "the launcher on %s: ", a->places[l->place].node);
	text_add(t, "%s (%s)", l->line, l->reason);
}
