/*
 * replay_seen: see the header.
 */
#include "controller/record/replay_seen.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"

#define CLOCK_US 5000000ull /* between two looks at the clock: for the event, for the row */

int replay_say(char *why, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return -1;
}

cJSON *replay_data(const struct event_row *ev, char *why, size_t size)
{
	cJSON *d = cJSON_ParseWithOpts(ev->data ? ev->data : "{}", NULL, 1);

	if (cJSON_IsObject(d))
		return d;
	cJSON_Delete(d);
	replay_say(why, size, "its data cannot be read");
	return NULL;
}

/* ---- the table -------------------------------------------------------------------------------- */

struct seen *seen_get(struct seen **all, const char *kind, const char *name, int make)
{
	cleanup_free char *key = xasprintf("%s %s", kind, name);
	struct seen *s;

	HASH_FIND_STR(*all, key, s);
	if (s || !make)
		return s;
	s = xcalloc(1, sizeof *s);
	s->key = xstrdup(key);
	s->kind = kind;
	s->name = s->key + strlen(kind) + 1;
	s->facts = cJSON_CreateObject();
	HASH_ADD_KEYPTR(hh, *all, s->key, strlen(s->key), s);
	return s;
}

struct seen *seen_of_event(struct seen **all, const char *kind, const char *name, int make, char *why,
                           size_t size)
{
	struct seen *s = *name ? seen_get(all, kind, name, make) : NULL;

	if (s && (make || s->there)) {
		s->there = 1;
		return s;
	}
	if (*name)
		replay_say(why, size, "there is no %s \"%.80s\"", kind, name);
	else
		replay_say(why, size, "it has no name");
	return NULL;
}

struct seen *seen_of_row(struct seen **all, const char *kind, const char *name, char *why, size_t size)
{
	struct seen *s = seen_get(all, kind, name ? name : "", 0);

	if (s && s->there) {
		s->row++;
		return s;
	}
	replay_say(why, size, s ? "events say that it was removed" : "no event tells of it");
	return NULL;
}

void seen_gone(struct seen *s)
{
	s->there = 0;
	cJSON_Delete(s->facts);
	s->facts = cJSON_CreateObject();
}

int seen_rest(struct seen **all, char *why, size_t size)
{
	struct seen *s, *tmp;
	int rc = 0;

	HASH_ITER (hh, *all, s, tmp) {
		if (s->there && !s->row)
			rc = replay_say(why, size, "%s %.80s has events and no row", s->kind, s->name);
		HASH_DEL(*all, s);
		cJSON_Delete(s->facts);
		free(s->key);
		free(s);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- facts ------------------------------------------------------------------------------------ */

const char *seen_str(const struct seen *s, const char *key)
{
	return json_str_or(s->facts, key, "");
}

uint64_t seen_num(const struct seen *s, const char *key)
{
	return json_whole(s->facts, key, 0);
}

static void put(struct seen *s, const char *key, cJSON *v)
{
	cJSON_DeleteItemFromObjectCaseSensitive(s->facts, key);
	cJSON_AddItemToObject(s->facts, key, v);
}

void seen_set_str(struct seen *s, const char *key, const char *v)
{
	put(s, key, cJSON_CreateString(v));
}

void seen_set_num(struct seen *s, const char *key, uint64_t v)
{
	put(s, key, cJSON_CreateNumber((double)v));
}

void seen_take(struct seen *s, const cJSON *data)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, data) {
		if (cJSON_IsNull(v))
			cJSON_DeleteItemFromObjectCaseSensitive(s->facts, v->string);
		else
			put(s, v->string, cJSON_Duplicate(v, 1));
	}
}

int seen_str_is(const struct seen *s, const char *key, const char *row, char *why, size_t size)
{
	if (strcmp(seen_str(s, key), row ? row : "") == 0)
		return 0;
	return replay_say(why, size, "%s: events give \"%.150s\", the row has \"%.150s\"", key, seen_str(s, key),
	                  row ? row : "");
}

static int num_differs(const struct seen *s, const char *key, uint64_t row, char *why, size_t size)
{
	return replay_say(why, size, "%s: events give %llu, the row has %llu", key,
	                  (unsigned long long)seen_num(s, key), (unsigned long long)row);
}

int seen_num_is(const struct seen *s, const char *key, uint64_t row, char *why, size_t size)
{
	return seen_num(s, key) == row ? 0 : num_differs(s, key, row, why, size);
}

int seen_near(uint64_t a, uint64_t b)
{
	return !a == !b && (a > b ? a - b : b - a) <= CLOCK_US;
}

int seen_time_near(const struct seen *s, const char *key, uint64_t row, char *why, size_t size)
{
	return seen_near(seen_num(s, key), row) ? 0 : num_differs(s, key, row, why, size);
}
