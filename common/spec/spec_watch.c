/* spec_watch: see spec_watch.h; one table has a line for each key. */
#include "common/spec/spec_watch.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"

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

static int reject_key(const char *path, const char *name, struct err *e)
{
	const char *names[N_KEYS + 1];
	for (size_t i = 0; i < N_KEYS; i++)
		names[i] = keys[i].name;
	names[N_KEYS] = NULL;
	const char *near = str_nearest(name, names);
	if (near)
		return err_set(e, ERR_INVALID, "%s.%.64s: unknown key; did you mean \"%s\"?", path, name, near);
	return err_set(e, ERR_INVALID, "%s.%.64s: unknown key", path, name);
}

static int read_name(const cJSON *v, const char *path, const struct watch_key *k, char *out, struct err *e)
{
	if (!cJSON_IsString(v) || !*v->valuestring || strlen(v->valuestring) >= SPEC_WATCH_NAME ||
	    str_has_control(v->valuestring))
		return err_set(e, ERR_INVALID, "%s.%s: expected the name of a metric, of 1 to %d bytes", path,
		               k->name, SPEC_WATCH_NAME - 1);
	snprintf(out, SPEC_WATCH_NAME, "%s", v->valuestring);
	return 0;
}

static int read_action(const cJSON *v, const char *path, const struct watch_key *k, struct watch_conf *c,
                       struct err *e)
{
	const char *given = cJSON_IsString(v) ? v->valuestring : "";
	enum watch_kind kind = (enum watch_kind)k->min;
	/* A rollback undoes steps: it helps only where a step did harm. */
	int harmless = kind >= WATCH_PLATEAU;
	if (strcmp(given, "checkpoint") == 0 || strcmp(given, "checkpoint_restart") == 0)
		return err_set(e, ERR_UNSUPPORTED, "%s.%s: \"%s\" is reserved and not built yet", path, k->name,
		               given);
	for (int a = 0; a < WATCH_ACTIONS; a++) {
		if (strcmp(watch_action_name((enum watch_action)a), given) != 0)
			continue;
		if (harmless && a == WATCH_ROLLBACK)
			break;
		c->on[kind] = (enum watch_action)a;
		return 0;
	}
	return err_set(e, ERR_INVALID,
	               "%s.%s: expected \"alert\", \"pin\", %s\"restart\" or \"stop\", got %s%.64s%s", path,
	               k->name, harmless ? "" : "\"rollback\", ", *given ? "\"" : "",
	               *given ? given : "no string", *given ? "\"" : "");
}

static int read_number(const cJSON *v, const char *path, const struct watch_key *k, char *at, struct err *e)
{
	if (!cJSON_IsNumber(v) || !(v->valuedouble >= k->min && v->valuedouble <= k->max) ||
	    (k->type == KEY_WHOLE && v->valuedouble != floor(v->valuedouble)))
		return err_set(e, ERR_INVALID, "%s.%s: expected a %snumber from %g to %g", path, k->name,
		               k->type == KEY_WHOLE ? "whole " : "", k->min, k->max);
	if (k->type == KEY_WHOLE)
		*(int64_t *)(void *)at = (int64_t)v->valuedouble;
	else
		*(double *)(void *)at = v->valuedouble;
	return 0;
}

int spec_watch_read(const cJSON *obj, const char *path, struct spec_watch *out, struct err *e)
{
	struct spec_watch w = {.conf = watch_conf_default, .loss = "loss", .step = "step"};
	const cJSON *v;
	if (!cJSON_IsObject(obj))
		return err_set(e, ERR_INVALID, "%s: expected an object", path);
	cJSON_ArrayForEach (v, obj) {
		const struct watch_key *k = find_key(v->string);
		int rc;
		if (!k)
			return reject_key(path, v->string, e);
		char *at = (char *)&w + k->offset;
		if (cJSON_IsNull(v))
			continue;
		else if (k->type == KEY_NAME)
			rc = read_name(v, path, k, at, e);
		else if (k->type == KEY_ACTION)
			rc = read_action(v, path, k, &w.conf, e);
		else
			rc = read_number(v, path, k, at, e);
		if (rc < 0)
			return -1;
	}
	*out = w;
	return 0;
}
