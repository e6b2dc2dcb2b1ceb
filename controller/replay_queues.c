/*
 * replay_queues: see the header. What an event does to a row is told again here, in short, as queues.c,
 * budget.c and instances.c do it.
 */
#include "controller/replay_queues.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#include "common/xalloc.h"

enum set_kind { SET_QUEUE = 'q', SET_BUDGET = 'b', SET_INSTANCE = 'i' };

struct set_seen {
	char *key; /* kind, then its path or name */
	int there; /* a row of it is expected */
	int row;   /* and was seen */
	int is_queue, borrow;
	uint64_t weight_milli, quota_gpus, uusd;
	char period[8];
	cJSON *own; /* of an instance type */
	UT_hash_handle hh;
};

static int say(char *why, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int say(char *why, size_t n, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, n, fmt, ap);
	va_end(ap);
	return -1;
}

static const char *kind_text(enum set_kind kind)
{
	return kind == SET_QUEUE ? "queue" : kind == SET_BUDGET ? "budget" : "instance type";
}

static const char *text(const cJSON *d, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(d, key));

	return s ? s : "";
}

static double number(const cJSON *d, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(d, key);

	return cJSON_IsNumber(v) && v->valuedouble > 0 && v->valuedouble < 1e12 ? v->valuedouble : 0;
}

static struct set_seen *get(struct set_seen **all, enum set_kind kind, const char *name, int make)
{
	cleanup_free char *key = xasprintf("%c%s", (char)kind, name);
	struct set_seen *s;

	HASH_FIND_STR(*all, key, s);
	if (s || !make)
		return s;
	s = xcalloc(1, sizeof *s);
	s->key = xstrdup(key);
	s->weight_milli = 1000;
	s->is_queue = kind == SET_QUEUE && !strcmp(name, "default"); /* is there without having been made */
	HASH_ADD_KEYPTR(hh, *all, s->key, strlen(s->key), s);
	return s;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void gone(struct set_seen *s)
{
	s->there = s->is_queue = s->borrow = 0;
	s->weight_milli = 1000;
	s->quota_gpus = s->uusd = 0;
	cJSON_Delete(s->own);
	s->own = NULL;
}

static void instance_set(struct set_seen *s, const cJSON *changes)
{
	const cJSON *v;

	if (!s->own)
		s->own = cJSON_CreateObject();
	cJSON_ArrayForEach (v, changes) {
		cJSON_DeleteItemFromObjectCaseSensitive(s->own, v->string);
		if (!cJSON_IsNull(v))
			cJSON_AddItemToObject(s->own, v->string, cJSON_Duplicate(v, 1));
	}
	s->there = 1;
}

static void change(struct set_seen *s, enum event_type type, const cJSON *d)
{
	switch (type) {
	case EV_QUEUE_SET:
		s->is_queue = s->there = 1;
		s->weight_milli = (uint64_t)llround(number(d, "weight") * 1000);
		break;
	case EV_QUOTA_SET:
		s->there = 1;
		s->quota_gpus = (uint64_t)number(d, "gpus");
		s->borrow = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d, "borrow"));
		break;
	case EV_QUOTA_REMOVED:
		s->quota_gpus = 0;
		s->borrow = 0;
		s->there = s->is_queue;
		break;
	case EV_BUDGET_SET:
		s->there = 1;
		s->uusd = (uint64_t)llround(number(d, "usd") * 1e6);
		snprintf(s->period, sizeof s->period, "%s", text(d, "period"));
		break;
	case EV_INSTANCE_SET:
		instance_set(s, cJSON_GetObjectItemCaseSensitive(d, "set"));
		break;
	case EV_QUEUE_REMOVED:
	case EV_BUDGET_REMOVED:
	case EV_INSTANCE_REMOVED:
		gone(s);
		break;
	default:
		break; /* that a budget is used up, or open again, changes no row */
	}
}

int set_seen_event(struct set_seen **all, enum event_type type, const cJSON *data, char *why, size_t size)
{
	enum set_kind kind = type == EV_INSTANCE_SET || type == EV_INSTANCE_REMOVED ? SET_INSTANCE
	                     : type <= EV_QUOTA_REMOVED                             ? SET_QUEUE
	                                                                            : SET_BUDGET;
	int makes =
	    type == EV_QUEUE_SET || type == EV_QUOTA_SET || type == EV_BUDGET_SET || type == EV_INSTANCE_SET;
	const char *name = text(data, kind == SET_INSTANCE ? "instance" : "queue");
	struct set_seen *s = *name ? get(all, kind, name, makes) : NULL;

	if (!s || (!makes && !s->there))
		return say(why, size, "there is no %s \"%.80s\"", kind_text(kind), name);
	change(s, type, data);
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* NULL: there should be none. */
static struct set_seen *expected(struct set_seen **all, enum set_kind kind, const char *name, char *why,
                                 size_t size)
{
	struct set_seen *s = get(all, kind, name ? name : "", 0);

	if (s && s->there) {
		s->row = 1;
		return s;
	}
	say(why, size, s ? "events say that it was removed" : "no event tells of it");
	return NULL;
}

static int on_queue(struct set_seen **all, const struct queue_row *r, char *why, size_t size)
{
	struct set_seen *s = expected(all, SET_QUEUE, r->path, why, size);

	if (!s)
		return -1;
	if (s->is_queue != r->is_queue)
		return say(why, size, "is_queue: events give %d, the row has %d", s->is_queue, r->is_queue);
	if (s->weight_milli != r->weight_milli)
		return say(why, size, "weight: events give %llu thousandths, the row has %llu",
		           (unsigned long long)s->weight_milli, (unsigned long long)r->weight_milli);
	if (s->quota_gpus != r->quota_gpus || s->borrow != r->borrow)
		return say(why, size, "quota: events give %llu GPUs, borrow %d; the row has %u and %d",
		           (unsigned long long)s->quota_gpus, s->borrow, r->quota_gpus, r->borrow);
	return 0;
}

static int on_budget(struct set_seen **all, const struct budget_row *r, char *why, size_t size)
{
	struct set_seen *s = expected(all, SET_BUDGET, r->path, why, size);

	if (!s)
		return -1;
	if (s->uusd != r->uusd || strcmp(s->period, r->period ? r->period : "") != 0)
		return say(why, size, "events give %llu millionths of a dollar a %s, the row has %llu a %.20s",
		           (unsigned long long)s->uusd, s->period, (unsigned long long)r->uusd,
		           r->period ? r->period : "");
	return 0;
}

static int on_instance(struct set_seen **all, const char *name, const char *own, char *why, size_t size)
{
	struct set_seen *s = expected(all, SET_INSTANCE, name, why, size);
	cJSON *row;
	int same;

	if (!s)
		return -1;
	row = own ? cJSON_Parse(own) : NULL;
	same = row && cJSON_Compare(s->own, row, 1);
	cJSON_Delete(row);
	return same ? 0 : say(why, size, "its facts are not those that events give: %.200s", own ? own : "");
}

int set_seen_row(struct set_seen **all, const struct store_cluster_row *row, char *why, size_t size)
{
	if (row->queue)
		return on_queue(all, row->queue, why, size);
	if (row->budget)
		return on_budget(all, row->budget, why, size);
	return on_instance(all, row->instance, row->own, why, size);
}

int set_seen_rest(struct set_seen **all, char *why, size_t size)
{
	struct set_seen *s, *tmp;
	int rc = 0;

	HASH_ITER (hh, *all, s, tmp) {
		if (s->there && !s->row)
			rc = say(why, size, "%s %.80s has events and no row", kind_text((enum set_kind)s->key[0]),
			         s->key + 1);
		HASH_DEL(*all, s);
		cJSON_Delete(s->own);
		free(s->key);
		free(s);
		if (rc)
			return rc;
	}
	return 0;
}
