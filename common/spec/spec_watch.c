/* spec_watch: see spec_watch.h; one table has a line for each key. */
#include "common/spec/spec_watch.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/spec/spec_int.h"

enum key_type { KEY_NAME, KEY_ACTION, KEY_WHOLE, KEY_REAL };

struct watch_key {
	const char *name;
	enum key_type type;
	size_t offset;
	double min, max;
};

#define N(m)                                                                                                 \
	{                                                                                                        \
#m, KEY_NAME, offsetof(struct spec_watch, m), 0, 0                                                   \
	}
#define A(name, kind)                                                                                        \
	{                                                                                                        \
		name, KEY_ACTION, 0, kind, 0                                                                         \
	}
#define W(m, min, max)                                                                                       \
	{                                                                                                        \
#m, KEY_WHOLE, offsetof(struct spec_watch, conf.m), min, max                                         \
	}
#define R(m, min, max)                                                                                       \
	{                                                                                                        \
#m, KEY_REAL, offsetof(struct spec_watch, conf.m), min, max                                          \
	}

static const struct watch_key keys[] = {
    N(loss),
    N(step),
    N(throughput),
    A("on_spike", WATCH_SPIKE),
    A("on_drop", WATCH_DROP),
    A("on_nan", WATCH_NAN),
    A("on_divergence", WATCH_DIVERGENCE),
    A("on_plateau", WATCH_PLATEAU),
    A("on_slow", WATCH_SLOW),
    A("on_stall", WATCH_STALL),
    A("on_hang", WATCH_HANG),
    W(rising_steps, 1, 1e9),
    W(patience_steps, 1, 1e9),
    W(margin_steps, 0, 1e9),
    W(max_rollbacks, 0, 100),
    W(missing_steps, 1, 1e9),
    W(settle_steps, 0, 1e9),
    W(spike_points, 2, 3),
    R(spike_floor, 0, 1e9),
    R(spike_share, 0, 100),
    R(spike_sigma, 1, 100),
    R(heal_sigma, 0.5, 100),
    R(drop_share, 0, 100),
    R(drop_sigma, 1, 100),
    R(divergence_share, 0.01, 100),
    R(divergence_sigma, 1, 100),
    W(plateau_steps, 100, 1e9),
    R(plateau_share, 0, 1),
    R(slow_share, 0.01, 100),
    R(slow_sigma, 0.5, 100),
    W(slow_steps, 8, 1e9),
    W(slow_act_steps, 8, 1e9),
    R(stall_times, 2, 1e6),
    R(hang_s, 1, 1e6),
    R(hang_times, 1, 100),
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

static const struct watch_key *find_key(const char *name)
{
	for (size_t i = 0; i < N_KEYS; i++) {
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	}
	return NULL;
}

static int reject_key(const char *name, struct err *e)
{
	const char *names[N_KEYS + 1];
	for (size_t i = 0; i < N_KEYS; i++)
		names[i] = keys[i].name;
	names[N_KEYS] = NULL;
	const char *near = str_nearest(name, names);
	if (near)
		return err_set(e, ERR_INVALID, "unknown key; did you mean \"%s\"?", near);
	return err_set(e, ERR_INVALID, "unknown key");
}

static int read_name(const cJSON *v, char *out, struct err *e)
{
	if (!cJSON_IsString(v) || !*v->valuestring || strlen(v->valuestring) >= SPEC_WATCH_NAME ||
	    str_has_control(v->valuestring))
		return err_set(e, ERR_INVALID, "expected the name of a metric, of 1 to %d bytes",
		               SPEC_WATCH_NAME - 1);
	snprintf(out, SPEC_WATCH_NAME, "%s", v->valuestring);
	return 0;
}

static int read_action(const cJSON *v, const struct watch_key *k, struct watch_conf *c, struct err *e)
{
	const char *given = cJSON_IsString(v) ? v->valuestring : "";
	enum watch_kind kind = (enum watch_kind)k->min;
	/* A rollback undoes steps: it helps only where a step did harm. */
	int harmless = kind >= WATCH_PLATEAU;
	if (strcmp(given, "checkpoint") == 0 || strcmp(given, "checkpoint_restart") == 0)
		return err_set(e, ERR_UNSUPPORTED, "\"%s\" is reserved and not built yet", given);
	for (int a = 0; a < WATCH_ACTIONS; a++) {
		if (strcmp(watch_action_name((enum watch_action)a), given) != 0)
			continue;
		if (harmless && a == WATCH_ROLLBACK)
			break;
		c->on[kind] = (enum watch_action)a;
		return 0;
	}
	return err_set(e, ERR_INVALID, "expected \"alert\", \"pin\", %s\"restart\" or \"stop\", got %s%.64s%s",
	               harmless ? "" : "\"rollback\", ", *given ? "\"" : "", *given ? given : "no string",
	               *given ? "\"" : "");
}

static int read_number(const cJSON *v, const struct watch_key *k, char *at, struct err *e)
{
	if (!cJSON_IsNumber(v) || !(v->valuedouble >= k->min && v->valuedouble <= k->max) ||
	    (k->type == KEY_WHOLE && v->valuedouble != floor(v->valuedouble)))
		return err_set(e, ERR_INVALID, "expected a %snumber from %g to %g",
		               k->type == KEY_WHOLE ? "whole " : "", k->min, k->max);
	if (k->type == KEY_WHOLE)
		*(int64_t *)(void *)at = (int64_t)v->valuedouble;
	else
		*(double *)(void *)at = v->valuedouble;
	return 0;
}

void spec_watch_init(struct spec_watch *w)
{
	*w = (struct spec_watch){.conf = watch_conf_default, .loss = "loss", .step = "step"};
}

int spec_watch_set(struct spec_watch *w, const char *key, const cJSON *v, struct err *e)
{
	const struct watch_key *k = find_key(key);
	if (!k)
		return reject_key(key, e);
	char *at = (char *)w + k->offset;
	if (cJSON_IsNull(v))
		return 0;
	if (k->type == KEY_NAME)
		return read_name(v, at, e);
	if (k->type == KEY_ACTION)
		return read_action(v, k, &w->conf, e);
	return read_number(v, k, at, e);
}

int spec_watch_read(const cJSON *obj, const char *path, struct spec_watch *out, struct err *e)
{
	struct spec_watch w;
	struct err why;
	const cJSON *v;
	if (!cJSON_IsObject(obj))
		return err_set(e, ERR_INVALID, "%s: expected an object", path);
	spec_watch_init(&w);
	cJSON_ArrayForEach (v, obj) {
		if (spec_watch_set(&w, v->string, v, &why) < 0)
			return err_set(e, why.code, "%s.%.64s: %s", path, v->string, why.text);
	}
	*out = w;
	return 0;
}

cJSON *spec_watch_json(const struct spec_watch *w)
{
	cJSON *o = cJSON_CreateObject();
	for (size_t i = 0; i < N_KEYS; i++) {
		const struct watch_key *k = &keys[i];
		const char *at = (const char *)w + k->offset;
		if (k->type == KEY_NAME)
			json_add_str(o, k->name, *at ? at : NULL);
		else if (k->type == KEY_ACTION)
			json_add_str(o, k->name, watch_action_name(w->conf.on[(int)k->min]));
		else if (k->type == KEY_WHOLE)
			cJSON_AddNumberToObject(o, k->name, (double)*(const int64_t *)(const void *)at);
		else
			cJSON_AddNumberToObject(o, k->name, *(const double *)(const void *)at);
	}
	return o;
}

void spec_v_watch(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out)
{
	struct err e;

	(void)out;
	if (spec_watch_set(&p->s.watch, strrchr(r->key->path, '.') + 1, v, &e) == 0)
		return;
	if (e.code == ERR_UNSUPPORTED)
		spec_unsupported(p, where, "%s", e.text);
	else
		spec_problem(p, where, "%s", e.text);
}
