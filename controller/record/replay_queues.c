/*
 * replay_queues: see the header. What an event does to a row is told again here, in short, as queues.c,
 * budget.c and instances.c do it.
 */
#include "controller/record/replay_queues.h"

#include <math.h>
#include <string.h>

#include "common/base/json.h"

#define QUEUE    "queue"
#define BUDGET   "budget"
#define INSTANCE "instance type"

/* ---- events ---------------------------------------------------------------------------------- */

static void quota(struct seen *s, uint64_t gpus, int borrow)
{
	seen_set_num(s, "gpus", gpus);
	seen_set_num(s, "borrow", (uint64_t)borrow);
}

static const char *kind_of(enum event_type type)
{
	if (type == EV_INSTANCE_SET || type == EV_INSTANCE_REMOVED)
		return INSTANCE;
	return type <= EV_QUOTA_REMOVED ? QUEUE : BUDGET;
}

/* One that is there without having been made. */
static int is_queue(const struct seen *s)
{
	return seen_num(s, "is_queue") || strcmp(s->name, "default") == 0;
}

int set_event(struct seen **all, enum event_type type, const cJSON *d, char *why, size_t size)
{
	const char *kind = kind_of(type), *key = strcmp(kind, INSTANCE) == 0 ? "instance" : "queue";
	int makes =
	    type == EV_QUEUE_SET || type == EV_QUOTA_SET || type == EV_BUDGET_SET || type == EV_INSTANCE_SET;
	struct seen *s = seen_of_event(all, kind, json_str_or(d, key, ""), makes, why, size);

	if (!s)
		return -1;
	switch (type) {
	case EV_QUEUE_SET:
		seen_take(s, d);
		seen_set_num(s, "is_queue", 1);
		break;
	case EV_QUOTA_SET:
		quota(s, json_whole(d, "gpus", 0), cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d, "borrow")));
		break;
	case EV_QUOTA_REMOVED:
		quota(s, 0, 0);
		s->there = is_queue(s);
		break;
	case EV_BUDGET_SET:
		seen_take(s, d);
		break;
	case EV_INSTANCE_SET:
		seen_take(s, cJSON_GetObjectItemCaseSensitive(d, "set"));
		break;
	case EV_QUEUE_REMOVED:
	case EV_BUDGET_REMOVED:
	case EV_INSTANCE_REMOVED:
		seen_gone(s);
		break;
	default:
		break; /* that a budget is used up, or open again, changes no row */
	}
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* So many of what an event counts in larger units (dollars, weights), def when it says nothing. */
static uint64_t times(const struct seen *s, const char *key, double factor, uint64_t def)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(s->facts, key);

	if (!cJSON_IsNumber(v))
		return def;
	return v->valuedouble > 0 && v->valuedouble < 1e12 ? (uint64_t)llround(v->valuedouble * factor) : 0;
}

static int on_queue(struct seen **all, const struct queue_row *r, char *why, size_t size)
{
	const struct seen *s = seen_of_row(all, QUEUE, r->path, why, size);
	uint64_t weight;

	if (!s)
		return -1;
	if (is_queue(s) != r->is_queue)
		return replay_say(why, size, "is_queue: events give %d, the row has %d", is_queue(s), r->is_queue);
	weight = times(s, "weight", 1000, 1000);
	if (weight != r->weight_milli)
		return replay_say(why, size, "weight: events give %llu thousandths, the row has %llu",
		                  (unsigned long long)weight, (unsigned long long)r->weight_milli);
	if (seen_num(s, "gpus") != r->quota_gpus || seen_num(s, "borrow") != r->borrow)
		return replay_say(why, size, "quota: events give %llu GPUs, borrow %llu; the row has %u and %d",
		                  (unsigned long long)seen_num(s, "gpus"), (unsigned long long)seen_num(s, "borrow"),
		                  r->quota_gpus, r->borrow);
	return 0;
}

static int on_budget(struct seen **all, const struct budget_row *r, char *why, size_t size)
{
	const struct seen *s = seen_of_row(all, BUDGET, r->path, why, size);
	const char *period = r->period ? r->period : "", *action = r->action ? r->action : "";
	const char *told; /* nothing: an event of a version that only held */
	uint64_t uusd;

	if (!s)
		return -1;
	uusd = times(s, "usd", 1e6, 0);
	if (uusd != r->uusd || strcmp(seen_str(s, "period"), period) != 0)
		return replay_say(
		    why, size, "events give %llu millionths of a dollar a %.20s, the row has %llu a %.20s",
		    (unsigned long long)uusd, seen_str(s, "period"), (unsigned long long)r->uusd, period);
	told = *seen_str(s, "action") ? seen_str(s, "action") : "hold";
	if (strcmp(told, action) != 0)
		return replay_say(why, size, "action: events give %.20s, the row has %.20s", told, action);
	return 0;
}

static int on_instance(struct seen **all, const char *name, const char *own, char *why, size_t size)
{
	const struct seen *s = seen_of_row(all, INSTANCE, name, why, size);
	cJSON *row;
	int same;

	if (!s)
		return -1;
	row = own ? cJSON_Parse(own) : NULL;
	same = row && cJSON_Compare(s->facts, row, 1);
	cJSON_Delete(row);
	return same ? 0
	            : replay_say(why, size, "its facts are not those that events give: %.200s", own ? own : "");
}

int set_row(struct seen **all, const struct store_cluster_row *row, char *why, size_t size)
{
	if (row->queue)
		return on_queue(all, row->queue, why, size);
	if (row->budget)
		return on_budget(all, row->budget, why, size);
	return on_instance(all, row->instance, row->own, why, size);
}
