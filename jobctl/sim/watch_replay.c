/*
 * watch_replay: `jobctl replay-loss` and `jobctl replay-steps`: run a recorded curve through the watches that
 * hearthd uses, and print their alarms and orders. No controller is asked.
 *
 * A recorded curve does not go back. After the order of a rollback the next rows count as the run's
 * continuation: while they do not heal, the next rollback follows, as in a run that it does not help. A row
 * whose step is below the one before means that the recorded run went back.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/spec/spec_watch.h"
#include "common/watch/loss.h"
#include "common/watch/pace.h"
#include "jobctl/show/print.h"
#include "jobctl/sim/simulate.h"
#include "jobctl/sim/watch_picture.h"

#define MAX_CURVE ((size_t)256 << 20)
#define MAX_SPEC  ((size_t)1 << 20)
#define MAX_STEP  ((int64_t)1 << 53)
#define MAX_FOUND 100000 /* alarms, and orders */

struct columns {
	size_t step, value, n;
};

struct replay {
	struct ctx *ctx;
	const char *path, *column; /* of the values: "loss" or "seconds" */
	struct watch_loss *loss;   /* one of the two */
	struct watch_pace *pace;
	struct watch_picture picture;
	cJSON *alarms, *actions;
	size_t n_found;
};

/* ---- CSV ---------------------------------------------------------------------------------------------- */

/* Ends the field at p with 0; returns the next one, NULL at the end of the line. Blanks around it go. */
static char *split_field(char *p, char **field)
{
	char *end = p + strcspn(p, ",");
	char *next = *end ? end + 1 : NULL;
	*end = '\0';
	while (end > p && strchr(" \t\r", end[-1]))
		*--end = '\0';
	*field = p + strspn(p, " \t");
	return next;
}

static int read_header(const struct replay *r, char *line, struct columns *cols)
{
	cleanup_free char *safe = print_safe(line);
	char *p = line, *field;
	int own = 0;
	*cols = (struct columns){SIZE_MAX, SIZE_MAX, 0};
	while (p) {
		p = split_field(p, &field);
		if (strcmp(field, "step") == 0)
			cols->step = cols->n;
		else if (strcmp(field, r->column) == 0 || (!own && strcmp(field, "value") == 0)) {
			cols->value = cols->n;
			own = strcmp(field, r->column) == 0;
		}
		cols->n++;
	}
	if (cols->step == SIZE_MAX || cols->value == SIZE_MAX)
		return ctx_fail(r->ctx, ERR_INVALID,
		                "%s: line 1: expected the columns step,%s among others, got \"%.200s\"", r->path,
		                r->column, safe);
	return 0;
}

static int parse_step(const char *s, int64_t *out)
{
	char *end;
	errno = 0;
	long long v = strtoll(s, &end, 10);
	if (end == s || *end || errno || v < 0 || v > MAX_STEP)
		return -1;
	*out = v;
	return 0;
}

/* Reads a number, nan or inf. An empty field is a step without a value: *missing. */
static int parse_value(const char *s, double *out, int *missing)
{
	char *end;
	*missing = !*s;
	*out = strtod(s, &end);
	return *end || strpbrk(s, "xX(") ? -1 : 0;
}

/* ---- results ------------------------------------------------------------------------------------------- */

static cJSON *value_json(double v)
{
	return isfinite(v) ? simulate_number(v) : cJSON_CreateNull();
}

static cJSON *step_json(int64_t step)
{
	return step == WATCH_NO_STEP ? cJSON_CreateNull() : cJSON_CreateNumber((double)step);
}

static cJSON *alarm_json(const struct replay *r, const struct watch_alarm *a)
{
	cJSON *o = cJSON_CreateObject();
	cJSON_AddItemToObject(o, "step", step_json(a->step));
	cJSON_AddStringToObject(o, "kind", watch_kind_name(a->kind));
	cJSON_AddItemToObject(o, "onset", step_json(a->onset));
	cJSON_AddItemToObject(o, r->column, value_json(a->loss));
	cJSON_AddItemToObject(o, "reference", value_json(a->reference));
	return o;
}

static cJSON *order_json(const struct watch_order *a)
{
	cJSON *o = cJSON_CreateObject(), *skip = cJSON_CreateNull();
	if (a->skip_from != WATCH_NO_STEP) {
		double both[] = {(double)a->skip_from, (double)a->skip_to};
		cJSON_Delete(skip);
		skip = cJSON_CreateDoubleArray(both, 2);
	}
	cJSON_AddItemToObject(o, "step", step_json(a->step));
	cJSON_AddStringToObject(o, "action", watch_action_name(a->action));
	cJSON_AddItemToObject(o, "to_step", step_json(a->to_step));
	cJSON_AddItemToObject(o, "skip", skip);
	cJSON_AddStringToObject(o, "reason", a->reason);
	return o;
}

static int add_results(struct replay *r, const struct watch_out *out)
{
	r->n_found += out->n_alarms + out->n_orders;
	if (r->n_found > MAX_FOUND)
		return ctx_fail(r->ctx, ERR_INVALID, "%s: more than %d alarms and actions; is it a curve of one run?",
		                r->path, MAX_FOUND);
	for (uint32_t i = 0; i < out->n_alarms; i++) {
		cJSON_AddItemToArray(r->alarms, alarm_json(r, &out->alarms[i]));
		watch_picture_mark(&r->picture, out->alarms[i].onset, 0);
	}
	for (uint32_t i = 0; i < out->n_orders; i++) {
		cJSON_AddItemToArray(r->actions, order_json(&out->orders[i]));
		if (out->orders[i].action != WATCH_PIN)
			watch_picture_mark(&r->picture, out->orders[i].step, 1);
	}
	return 0;
}

/* ---- the run ---------------------------------------------------------------------------------------------
 */

static int feed_row(struct replay *r, int64_t step, double v, int missing)
{
	struct watch_out out = {.n_alarms = 0};
	if (r->loss && missing)
		watch_loss_advance(r->loss, step, &out);
	else if (r->loss)
		watch_loss_feed(r->loss, step, v, &out);
	else if (!missing)
		watch_pace_feed(r->pace, step, v, &out);
	if (!missing)
		watch_picture_add(&r->picture, step, v);
	return add_results(r, &out);
}

static int replay_row(struct replay *r, char *line, size_t number, const struct columns *cols)
{
	char *p = line, *field, *step_text = NULL, *value_text = NULL;
	size_t i = 0;
	int64_t step;
	double v;
	int missing;
	for (; p; i++) {
		p = split_field(p, &field);
		if (i == cols->step)
			step_text = field;
		else if (i == cols->value)
			value_text = field;
	}
	if (i != cols->n)
		return ctx_fail(r->ctx, ERR_INVALID, "%s: line %zu: expected %zu fields, got %zu", r->path, number,
		                cols->n, i);
	if (parse_step(step_text, &step) < 0)
		return ctx_fail(r->ctx, ERR_INVALID,
		                "%s: line %zu: step: expected a whole number from 0, got '%.40s'", r->path, number,
		                step_text);
	if (parse_value(value_text, &v, &missing) < 0 || (r->pace && !missing && v < 0))
		return ctx_fail(r->ctx, ERR_INVALID, "%s: line %zu: %s: expected a number%s, got '%.40s'", r->path,
		                number, r->column, r->pace ? " from 0" : ", nan or inf", value_text);
	return feed_row(r, step, v, missing);
}

static int replay_text(struct replay *r, char *text, size_t n)
{
	struct columns cols = {.n = 0};
	size_t number = 0;
	if (memchr(text, '\0', n))
		return ctx_fail(r->ctx, ERR_INVALID, "%s: not a text file: it has a byte 0", r->path);
	for (char *line = text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		number++;
		if (number == 1 ? read_header(r, line, &cols) < 0
		                : line[strspn(line, " \t\r")] && replay_row(r, line, number, &cols) < 0)
			return -1;
	}
	return 0;
}

/* ---- output ----------------------------------------------------------------------------------------------
 */

static void print_lists(const struct replay *r)
{
	const cJSON *v;
	if (!cJSON_GetArraySize(r->alarms))
		puts("no alarms");
	else
		printf("%-10s %-10s %-10s %-12s %s\n", "STEP", "ALARM", "ONSET", r->loss ? "LOSS" : "SECONDS",
		       "REFERENCE");
	cJSON_ArrayForEach (v, r->alarms) {
		const cJSON *value = jget(v, r->column), *reference = jget(v, "reference");
		printf("%-10.0f %-10s %-10.0f %-12s %s\n", jget(v, "step")->valuedouble, jget(v, "kind")->valuestring,
		       jget(v, "onset")->valuedouble, cJSON_IsRaw(value) ? value->valuestring : "-",
		       cJSON_IsRaw(reference) ? reference->valuestring : "-");
	}
	if (cJSON_GetArraySize(r->actions))
		printf("\n%-10s %-10s %-10s %-17s %s\n", "STEP", "ACTION", "TO STEP", "SKIP", "REASON");
	cJSON_ArrayForEach (v, r->actions) {
		const cJSON *to = jget(v, "to_step"), *skip = jget(v, "skip");
		char *to_text = cJSON_IsNumber(to) ? xasprintf("%.0f", to->valuedouble) : xstrdup("-");
		char *skip_text = cJSON_IsArray(skip)
		                      ? xasprintf("%.0f-%.0f", cJSON_GetArrayItem(skip, 0)->valuedouble,
		                                  cJSON_GetArrayItem(skip, 1)->valuedouble)
		                      : xstrdup("-");
		printf("%-10.0f %-10s %-10s %-17s %s\n", jget(v, "step")->valuedouble, jget(v, "action")->valuestring,
		       to_text, skip_text, jget(v, "reason")->valuestring);
		free(to_text);
		free(skip_text);
	}
}

static int finish_replay(struct replay *r, const char *svg)
{
	if (svg && watch_picture_write(&r->picture, svg, r->column, &r->ctx->err) < 0)
		return -1;
	if (!r->ctx->json) {
		print_lists(r);
		return 0;
	}
	cJSON *o = cJSON_CreateObject();
	cJSON_AddItemReferenceToObject(o, "alarms", r->alarms);
	cJSON_AddItemReferenceToObject(o, "actions", r->actions);
	ctx_print_json(o);
	cJSON_Delete(o);
	return 0;
}

/* Reads the configuration: the object `watch` itself, or a specification that has it. */
static int read_watch(struct ctx *c, struct spec_watch *out)
{
	const char *path = args_get(&c->args, "watch");
	char *text = NULL;
	size_t n;
	cJSON *empty = cJSON_CreateObject(), *root = NULL;
	int rc = -1;
	if (!path) {
		rc = spec_watch_read(empty, "watch", out, &c->err);
	} else if (simulate_read(c, path, MAX_SPEC, &text, &n) == 0) {
		root = json_parse(text, n, &c->err);
		const cJSON *inner = cJSON_GetObjectItemCaseSensitive(root, "watch");
		if (root)
			rc = spec_watch_read(inner ? inner : root, "watch", out, &c->err);
		if (rc < 0)
			err_wrap(&c->err, "%s", path);
	}
	free(text);
	cJSON_Delete(root);
	cJSON_Delete(empty);
	return rc;
}

static int replay_exec(struct ctx *c, int of_loss)
{
	struct spec_watch spec;
	struct replay r = {.ctx = c, .path = c->args.operand[0], .column = of_loss ? "loss" : "seconds"};
	char *text = NULL;
	size_t n;
	if (read_watch(c, &spec) < 0 || simulate_read(c, r.path, MAX_CURVE, &text, &n) < 0)
		return -1;
	r.alarms = cJSON_CreateArray();
	r.actions = cJSON_CreateArray();
	watch_picture_init(&r.picture);
	if (of_loss)
		r.loss = watch_loss_new(&spec.conf, (struct watch_source){0});
	else
		r.pace = watch_pace_new(&spec.conf);
	int rc = replay_text(&r, text, n);
	if (rc == 0)
		rc = finish_replay(&r, args_get(&c->args, "svg"));
	watch_loss_destroy(r.loss);
	watch_pace_destroy(r.pace);
	watch_picture_fini(&r.picture);
	cJSON_Delete(r.alarms);
	cJSON_Delete(r.actions);
	free(text);
	return rc;
}

static int loss_exec(struct ctx *c)
{
	return replay_exec(c, 1);
}

static int steps_exec(struct ctx *c)
{
	return replay_exec(c, 0);
}

static const struct arg_opt opts[] = {
    {"watch", 0, "FILE", "Use the keys of `watch` in this file; by default the watch alerts and pins"},
    {"svg", 0, "FILE", "Draw the curve with its alarms and actions"},
    {NULL, 0, NULL, NULL},
};

const struct verb verbs_watch_replay[] = {
    {"replay-loss", "FILE", "Run a loss curve (CSV: step,loss) through the loss watch", opts, 1, 1,
     loss_exec},
    {"replay-steps", "FILE", "Run step times (CSV: step,seconds) through the throughput watch", opts, 1, 1,
     steps_exec},
    {NULL, NULL, NULL, NULL, 0, 0, NULL},
};
