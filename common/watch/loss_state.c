/* loss_state: the state of a loss watch as JSON, and back. One table names the fields; a field that is
 * missing, or outside of its bounds, makes the whole state invalid. */
#include <math.h>
#include <stddef.h>

#include "common/base/xalloc.h"
#include "common/watch/loss_int.h"

#define STATE_VERSION 2
#define NUMBER_MAX    ((double)((int64_t)1 << 53))

enum field_type { FIELD_WHOLE, FIELD_REAL };

struct field {
	const char *name;
	enum field_type type;
	size_t offset, count;
	int64_t min, max; /* of a whole number; INT64_MIN is stored as null */
};

#define W(m, min, max)                                                                                       \
	{                                                                                                        \
#m, FIELD_WHOLE, offsetof(struct watch_loss, m), 1, min, max                                         \
	}
#define WS(m, n, min, max)                                                                                   \
	{                                                                                                        \
#m, FIELD_WHOLE, offsetof(struct watch_loss, m), n, min, max                                         \
	}
#define R(m)                                                                                                 \
	{                                                                                                        \
#m, FIELD_REAL, offsetof(struct watch_loss, m), 1, 0, 0                                              \
	}
#define RS(m, n)                                                                                             \
	{                                                                                                        \
#m, FIELD_REAL, offsetof(struct watch_loss, m), n, 0, 0                                              \
	}
#define STEP(m)  W(m, WATCH_NO_STEP, (int64_t)1 << 53)
#define COUNT(m) W(m, 0, (int64_t)1 << 53)
#define BLOCKS(m)                                                                                            \
	W(m.n, 0, WATCH_BLOCKS), COUNT(m.per), RS(m.sum, WATCH_BLOCKS), RS(m.squares, WATCH_BLOCKS),             \
	    WS(m.count, WATCH_BLOCKS, 0, (int64_t)1 << 53),                                                      \
	    WS(m.first, WATCH_BLOCKS, WATCH_NO_STEP, (int64_t)1 << 53), R(m.zero)

static const struct field fields[] = {COUNT(points),
                                      STEP(first_step),
                                      STEP(last_step),
                                      STEP(loss_step),
                                      WS(gaps, WATCH_GAPS, WATCH_NO_STEP, (int64_t)1 << 53),
                                      COUNT(n_recent),
                                      RS(recent, WATCH_RECENT),
                                      R(best_early),
                                      R(best_level),
                                      STEP(best_early_step),
                                      STEP(best_level_step),
                                      COUNT(above_early),
                                      W(plateau_marked, 0, 1),
                                      R(plateau_level),
                                      COUNT(n_marks),
                                      COUNT(rollbacks),
                                      W(stopped, 0, 1),
                                      COUNT(outliers),
                                      COUNT(clear_outliers),
                                      W(event.state, WATCH_QUIET, WATCH_ALARMED),
                                      W(event.kind, 0, WATCH_PLATEAU),
                                      W(event.sign, -1, 1),
                                      STEP(event.onset),
                                      STEP(event.alarm_step),
                                      STEP(event.last_bad),
                                      STEP(event.acted_step),
                                      W(event.reopened, 0, 1),
                                      COUNT(event.points),
                                      W(event.calm, 0, WATCH_HELD - 1),
                                      W(event.highs, 0, 255),
                                      W(event.clear, 0, 255),
                                      W(event.was_clear, 0, 1),
                                      R(event.reference),
                                      R(event.high),
                                      R(event.low),
                                      RS(event.held, WATCH_HELD),
                                      R(event.alarm_level),
                                      W(past.n, 0, WATCH_PAST),
                                      COUNT(past.every),
                                      COUNT(past.skipped),
                                      WS(past.step, WATCH_PAST, WATCH_NO_STEP, (int64_t)1 << 53),
                                      RS(past.value, WATCH_PAST),
                                      BLOCKS(rise),
                                      BLOCKS(trend)};

#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

static cJSON *number_json(double v)
{
	return isfinite(v) ? cJSON_CreateNumber(v) : cJSON_CreateNull();
}

static cJSON *field_json(const struct field *f, const void *at)
{
	cJSON *list = cJSON_CreateArray();
	for (size_t i = 0; i < f->count; i++) {
		int64_t whole = f->type == FIELD_WHOLE ? ((const int64_t *)at)[i] : 0;
		double real = f->type == FIELD_REAL ? ((const double *)at)[i] : (double)whole;
		cJSON_AddItemToArray(list, whole == WATCH_NO_STEP ? cJSON_CreateNull() : number_json(real));
	}
	return list;
}

cJSON *watch_loss_save(const struct watch_loss *w)
{
	cJSON *o = cJSON_CreateObject(), *window = cJSON_CreateArray(), *steps = cJSON_CreateArray(),
	      *marks = cJSON_CreateArray();
	cJSON_AddNumberToObject(o, "version", STATE_VERSION);
	for (size_t i = 0; i < N_FIELDS; i++)
		cJSON_AddItemToObject(o, fields[i].name, field_json(&fields[i], (const char *)w + fields[i].offset));
	for (uint32_t i = 0; i < w->window.n; i++) {
		uint32_t at = (w->window.at + i) % WATCH_WINDOW;
		cJSON_AddItemToArray(window, cJSON_CreateNumber(w->window.ring[at]));
		cJSON_AddItemToArray(steps, cJSON_CreateNumber((double)w->window_steps[at]));
	}
	for (int64_t i = 0; i < w->n_marks && i < WATCH_MARKS; i++) {
		const struct watch_mark *m = &w->marks[i];
		double v[] = {(double)m->kind, (double)m->onset, (double)m->end};
		cJSON_AddItemToArray(marks, cJSON_CreateDoubleArray(v, 3));
	}
	cJSON_AddItemToObject(o, "window", window);
	cJSON_AddItemToObject(o, "window_steps", steps);
	cJSON_AddItemToObject(o, "marks", marks);
	return o;
}

/* ---- reading ----------------------------------------------------------------------------------------------
 */

static int read_whole(const cJSON *v, const struct field *f, int64_t *out)
{
	if (cJSON_IsNull(v)) {
		*out = WATCH_NO_STEP;
		return f->min == WATCH_NO_STEP ? 0 : -1;
	}
	if (!cJSON_IsNumber(v) || !(fabs(v->valuedouble) <= NUMBER_MAX) ||
	    v->valuedouble != floor(v->valuedouble))
		return -1;
	*out = (int64_t)v->valuedouble;
	return *out < f->min || *out > f->max ? -1 : 0;
}

static int read_field(struct watch_loss *w, const struct field *f, const cJSON *list)
{
	char *at = (char *)w + f->offset;
	const cJSON *v;
	size_t i = 0;
	if (!cJSON_IsArray(list) || (size_t)cJSON_GetArraySize(list) != f->count)
		return -1;
	cJSON_ArrayForEach (v, list) {
		if (f->type == FIELD_WHOLE && read_whole(v, f, (int64_t *)(void *)at + i) < 0)
			return -1;
		if (f->type == FIELD_REAL && !cJSON_IsNull(v) && !(cJSON_IsNumber(v) && isfinite(v->valuedouble)))
			return -1;
		/* Only a best level that was never set is infinite, and only a reference may be missing. */
		if (f->type == FIELD_REAL)
			((double *)(void *)at)[i] = cJSON_IsNull(v) ? INFINITY : v->valuedouble;
		i++;
	}
	return 0;
}

static int read_window(struct watch_loss *w, const cJSON *list)
{
	const cJSON *v;
	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > WATCH_WINDOW)
		return -1;
	cJSON_ArrayForEach (v, list) {
		if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble))
			return -1;
		w->window.ring[w->window.n++] = v->valuedouble;
	}
	watch_window_sort(&w->window);
	return 0;
}

static int read_window_steps(struct watch_loss *w, const cJSON *list)
{
	const struct field step = {.min = -((int64_t)1 << 53), .max = (int64_t)1 << 53};
	const cJSON *v;
	uint32_t i = 0;
	if (!cJSON_IsArray(list) || (uint32_t)cJSON_GetArraySize(list) != w->window.n)
		return -1;
	cJSON_ArrayForEach (v, list) {
		if (read_whole(v, &step, &w->window_steps[i++]) < 0)
			return -1;
	}
	return 0;
}

static int past_is_sound(const struct watch_past *p)
{
	for (int64_t i = 0; i < p->n; i++) {
		if (!isfinite(p->value[i]))
			return 0;
	}
	return 1;
}

static int read_marks(struct watch_loss *w, const cJSON *list)
{
	const struct field kind = {.min = 0, .max = WATCH_PLATEAU},
	                   step = {.min = WATCH_NO_STEP, .max = INT64_MAX};
	int64_t expected = w->n_marks < WATCH_MARKS ? w->n_marks : WATCH_MARKS, i = 0;
	const cJSON *v;
	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != expected)
		return -1;
	cJSON_ArrayForEach (v, list) {
		struct watch_mark *m = &w->marks[i++];
		if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) != 3 ||
		    read_whole(cJSON_GetArrayItem(v, 0), &kind, &m->kind) ||
		    read_whole(cJSON_GetArrayItem(v, 1), &step, &m->onset) ||
		    read_whole(cJSON_GetArrayItem(v, 2), &step, &m->end))
			return -1;
	}
	return 0;
}

static int blocks_are_sound(const struct watch_blocks *b)
{
	for (int64_t i = 0; i < b->n; i++) {
		if (b->count[i] < 1 || b->count[i] > b->per || !isfinite(b->sum[i]) || !isfinite(b->squares[i]))
			return 0;
	}
	return isfinite(b->zero);
}

struct watch_loss *watch_loss_load(const struct watch_conf *conf, struct watch_source source,
                                   const cJSON *state, struct err *e)
{
	struct watch_loss *w = watch_loss_new(conf, source);
	const cJSON *version = cJSON_GetObjectItemCaseSensitive(state, "version");
	const char *bad = cJSON_IsNumber(version) && version->valueint == STATE_VERSION ? NULL : "version";
	for (size_t i = 0; i < N_FIELDS && !bad; i++) {
		if (read_field(w, &fields[i], cJSON_GetObjectItemCaseSensitive(state, fields[i].name)) < 0)
			bad = fields[i].name;
	}
	if (!bad && read_window(w, cJSON_GetObjectItemCaseSensitive(state, "window")) < 0)
		bad = "window";
	if (!bad && read_window_steps(w, cJSON_GetObjectItemCaseSensitive(state, "window_steps")) < 0)
		bad = "window_steps";
	if (!bad && !past_is_sound(&w->past))
		bad = "past";
	if (!bad && read_marks(w, cJSON_GetObjectItemCaseSensitive(state, "marks")) < 0)
		bad = "marks";
	if (!bad && (!blocks_are_sound(&w->rise) || !blocks_are_sound(&w->trend)))
		bad = "blocks";
	if (!bad)
		return w;
	watch_loss_destroy(w);
	err_set(e, ERR_INVALID, "the stored state of the loss watch is invalid: %s", bad);
	return NULL;
}
