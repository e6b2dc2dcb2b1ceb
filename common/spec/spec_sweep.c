/*
 * spec_sweep: the keys of job.json that make one text into many jobs: "sweep", "search", "array",
 * "max_parallel"; and the text of a member.
 *
 * An axis of a sweep is a list, {"from", "to", "step"}, {"linear": [lo, hi], "count"} or {"log": [lo, hi],
 * "count"}. What depends on several keys (the method, how many members there are) is settled when all of them
 * have been read.
 */
#include "common/spec/spec_int.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"

/* ---- values -------------------------------------------------------------------------------------- */

static int number(struct spec_parse *p, const char *where, const cJSON *v, double *out)
{
	if (!cJSON_IsNumber(v)) {
		spec_wrong_type(p, where, "a number", v);
		return -1;
	}
	if (!isfinite(v->valuedouble)) {
		spec_problem(p, where, "the number is too large");
		return -1;
	}
	*out = v->valuedouble;
	return 0;
}

void spec_v_real(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out)
{
	number(p, where, v, (double *)(void *)((char *)out + r->offset));
}

void spec_v_ends(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out)
{
	double *ends = (double *)(void *)((char *)out + r->offset), lo, hi;

	if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) != 2) {
		spec_problem(p, where, "expected two numbers: [0.001, 0.1]");
		return;
	}
	if (number(p, where, cJSON_GetArrayItem(v, 0), &lo) < 0 ||
	    number(p, where, cJSON_GetArrayItem(v, 1), &hi) < 0)
		return;
	ends[0] = lo;
	ends[1] = hi;
}

static void one_word(struct spec_parse *p, const char *where, const cJSON *v, const char *const words[3],
                     int *out)
{
	const char *s = spec_string(p, where, v, 32, 0);

	for (int i = 0; s && i < 2; i++) {
		if (strcmp(s, words[i]) == 0) {
			*out = i;
			return;
		}
	}
	if (s)
		spec_problem(p, where, "expected \"%s\" or \"%s\", got \"%s\"", words[0], words[1], s);
}

void spec_v_method(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out)
{
	static const char *const words[3] = {"grid", "random"};

	(void)out;
	(void)r;
	one_word(p, where, v, words, &p->s.sweep.random);
}

void spec_v_goal(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out)
{
	static const char *const words[3] = {"min", "max"};

	(void)out;
	(void)r;
	one_word(p, where, v, words, &p->s.search.max);
}

void spec_v_search(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out)
{
	p->search_given = cJSON_IsObject(v) && v->child;
	spec_object(p, r->key->path, where, v, out);
}

void spec_v_halving(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                    void *out)
{
	p->s.search.eta = 3;
	spec_object(p, r->key->path, where, v, out);
}

/* "array": 20 makes members; {"index": 3, "count": 20} is one of them. */
void spec_v_array(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out)
{
	struct spec_rule n = *r;

	if (cJSON_IsObject(v)) {
		p->member_given = v->child != NULL;
		spec_object(p, r->key->path, where, v, out);
		return;
	}
	if (!cJSON_IsNumber(v)) {
		spec_wrong_type(p, where, "how many members, or {\"index\": 3, \"count\": 20}", v);
		return;
	}
	n.offset = offsetof(struct spec_parse, s.array);
	spec_v_u32(p, &n, where, v, p);
}

/* ---- an axis ------------------------------------------------------------------------------------- */

static void list_axis(struct spec_parse *p, const char *where, const cJSON *v, struct sweep_axis *a)
{
	const cJSON *item, *other;
	char path[SPEC_WHERE_SIZE];
	size_t i = 0;

	if (!v->child || cJSON_GetArraySize(v) > SWEEP_MAX_VALUES) {
		spec_problem(p, where, "has %d values; 1 to %d are possible", cJSON_GetArraySize(v),
		             SWEEP_MAX_VALUES);
		return;
	}
	cJSON_ArrayForEach (item, v) {
		spec_where_index(path, where, i++);
		if (spec_hp_value(p, path, item) < 0)
			continue;
		/* Not among very many: that would take its time, and the members are bounded. */
		for (other = v->child; i <= 1000 && other != item; other = other->next) {
			if (cJSON_Compare(other, item, 1)) {
				spec_problem(p, path, "the list has this value twice");
				break;
			}
		}
	}
	a->kind = SWEEP_LIST;
	a->list = cJSON_Duplicate(v, 1);
}

static void range_axis(struct spec_parse *p, const char *where, const struct spec_axis *g,
                       struct sweep_axis *a)
{
	int whole = g->from == floor(g->from) && g->to == floor(g->to);

	*a = (struct sweep_axis){.name = a->name,
	                         .kind = SWEEP_RANGE,
	                         .lo = g->from,
	                         .hi = g->to,
	                         .step = isnan(g->step) ? 1 : g->step};
	if (isnan(g->from) || isnan(g->to))
		spec_problem(p, where, "needs both ends: {\"from\": 0, \"to\": 9}");
	else if (g->from > g->to)
		spec_problem(p, where, "from %.15g is above to %.15g", g->from, g->to);
	else if (g->count)
		spec_problem(p, where, "count goes with linear or log; a range has a step");
	else if (!(a->step > 0))
		spec_problem(p, where, "the step must be above 0");
	else if (isnan(g->step) && !whole)
		spec_problem(p, where,
		             "%.15g to %.15g is not a range of whole numbers: give a step, or {\"linear\": [%.15g, "
		             "%.15g], \"count\": 5}",
		             g->from, g->to, g->from, g->to);
	else if (sweep_axis_values(a) == UINT64_MAX)
		spec_problem(p, where, "the range has too many values");
}

static void ends_axis(struct spec_parse *p, const char *where, const struct spec_axis *g,
                      struct sweep_axis *a)
{
	int is_log = !isnan(g->log[0]);
	const double *ends = is_log ? g->log : g->linear;

	*a = (struct sweep_axis){.name = a->name,
	                         .kind = is_log ? SWEEP_LOG : SWEEP_LINEAR,
	                         .lo = ends[0],
	                         .hi = ends[1],
	                         .count = g->count};
	if (is_log && !(ends[0] > 0))
		spec_problem(p, where, "a logarithmic axis begins above 0, not at %.15g", ends[0]);
	else if (!(ends[0] < ends[1]))
		spec_problem(p, where, "%.15g is not below %.15g", ends[0], ends[1]);
	else if (!isfinite(ends[1] - ends[0]) || (is_log && !isfinite(ends[1] / ends[0])))
		spec_problem(p, where, "the ends are too far apart");
	else if (!isnan(g->step))
		spec_problem(p, where, "step goes with from and to; here it is count");
}

static void object_axis(struct spec_parse *p, const char *where, const cJSON *v, struct sweep_axis *a)
{
	struct spec_axis g = {
	    .from = NAN, .to = NAN, .step = NAN, .linear = {NAN, NAN}, .log = {NAN, NAN}, .count = 0};
	size_t before = p->problems.n + p->more;
	int range, linear, is_log;

	spec_object(p, "sweep.*", where, v, &g);
	if (p->problems.n + p->more != before)
		return;
	range = !isnan(g.from) || !isnan(g.to);
	linear = !isnan(g.linear[0]);
	is_log = !isnan(g.log[0]);
	if (range + linear + is_log != 1)
		spec_problem(
		    p, where,
		    "expected a list of values, {\"from\": 0, \"to\": 9}, {\"linear\": [0, 1], \"count\": 5} "
		    "or {\"log\": [0.0001, 0.1]}");
	else if (range)
		range_axis(p, where, &g, a);
	else
		ends_axis(p, where, &g, a);
}

void spec_v_sweep(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out)
{
	struct sweep *s = &p->s.sweep;
	const cJSON *item;

	(void)out;
	if (!cJSON_IsObject(v)) {
		spec_wrong_type(p, where, "an object: {\"lr\": {\"log\": [0.0001, 0.1]}, \"width\": [64, 128]}", v);
		return;
	}
	if (cJSON_GetArraySize(v) > r->max) {
		spec_problem(p, where, "has %d entries; at most %" PRId64 " are allowed", cJSON_GetArraySize(v),
		             r->max);
		return;
	}
	s->empty = !v->child;
	if (!v->child || !spec_once(p, where, s->axes))
		return;
	s->axes = xcalloc((size_t)cJSON_GetArraySize(v), sizeof(*s->axes));
	cJSON_ArrayForEach (item, v) {
		struct sweep_axis *a = &s->axes[s->n_axes++];
		char path[SPEC_WHERE_SIZE];

		spec_where(path, where, item->string);
		a->name = xstrdup(item->string);
		if (spec_token(p, path, item->string, 256) < 0)
			continue;
		if (cJSON_IsArray(item))
			list_axis(p, path, item, a);
		else if (cJSON_IsObject(item))
			object_axis(p, path, item, a);
		else
			spec_wrong_type(p, path, "a list of values, or {\"from\": 0, \"to\": 9}", item);
	}
}

/* ---- all of it together -------------------------------------------------------------------------- */

/* What a grid leaves open: a value a decade, and both ends. */
static void settle_axes(struct spec_parse *p)
{
	struct sweep *s = &p->s.sweep;
	char where[SPEC_WHERE_SIZE];

	for (size_t i = 0; !s->random && i < s->n_axes; i++) {
		struct sweep_axis *a = &s->axes[i];

		if (a->kind == SWEEP_LOG && !a->count)
			a->count = (uint32_t)fmax(2, round(log10(a->hi / a->lo)) + 1);
		else if (a->kind == SWEEP_LINEAR && !a->count)
			spec_problem(p, spec_where(where, "sweep", a->name),
			             "how many values? In a grid a linear axis needs a count");
	}
}

static void too_many(struct spec_parse *p, uint64_t n)
{
	const struct sweep *s = &p->s.sweep;
	char text[200] = "";
	size_t used = 0;

	for (size_t i = 0; i < s->n_axes && used + 24 < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%" PRIu64, i ? " x " : "",
		                         sweep_axis_values(&s->axes[i]));
	spec_problem(p, "sweep",
	             "the grid has %s%s%" PRIu64 " members; at most %d are possible: take fewer values, or "
	             "\"search\": {\"method\": \"random\", \"samples\": N}",
	             n == UINT64_MAX ? "" : text, n == UINT64_MAX ? "more than " : " = ",
	             n == UINT64_MAX ? (uint64_t)1 << 53 : n, SWEEP_MAX_MEMBERS);
}

static void check_members(struct spec_parse *p)
{
	const struct sweep *s = &p->s.sweep;
	uint64_t n = sweep_combinations(s);

	if (!s->random && s->samples)
		spec_problem(p, "search.samples",
		             "a grid has one member for each combination; samples go with "
		             "\"method\": \"random\"");
	else if (!s->random && n > SWEEP_MAX_MEMBERS)
		too_many(p, n);
	else if (s->random && !s->samples)
		spec_problem(p, "search.samples", "must be given: how many members the random search has");
	else if (s->random && n && s->samples > n)
		spec_problem(p, "search.samples",
		             "there are only %" PRIu64 " different combinations; leave samples and method out to try "
		             "all of them",
		             n);
}

/* The longest text that a value of the axis becomes. */
static size_t widest(const struct sweep_axis *a)
{
	const cJSON *item;
	size_t most = 24;

	cJSON_ArrayForEach (item, a->list) {
		cleanup_free char *text = json_text(item);

		if (strlen(text) > most)
			most = strlen(text);
	}
	return most;
}

static void check_names(struct spec_parse *p)
{
	const struct job_spec *s = &p->s;
	char where[SPEC_WHERE_SIZE];
	size_t bytes = 0;

	for (size_t i = 0; i < s->n_hps; i++)
		bytes += strlen(s->hps[i].name) + strlen(s->hps[i].text) + 6;
	for (size_t i = 0; i < s->sweep.n_axes; i++) {
		const struct sweep_axis *a = &s->sweep.axes[i];

		bytes += strlen(a->name) + widest(a) + 6;
		for (size_t k = 0; k < s->n_hps; k++)
			if (strcmp(s->hps[k].name, a->name) == 0)
				spec_problem(p, spec_where(where, "sweep", a->name),
				             "is fixed under hyperparameters, too; leave it out of one of them");
	}
	if (s->sweep.n_axes + s->n_hps > SPEC_MAX_HPS)
		spec_problem(p, "sweep", "a job has at most %d hyperparameters", SPEC_MAX_HPS);
	if (bytes > SPEC_MAX_HPS_BYTES)
		spec_problem(p, "sweep",
		             "with its values the hyperparameters are %zu bytes; at most %d fit into the environment "
		             "of a process",
		             bytes, SPEC_MAX_HPS_BYTES);
}

static void check_search(struct spec_parse *p)
{
	const struct spec_search *s = &p->s.search;

	if (s->eta && !s->metric)
		spec_problem(p, "search.metric", "must be given: what halving compares the members by");
	if (s->eta && !s->min_step)
		spec_problem(p, "search.halving.min_step",
		             "must be given: the step at which the members are first compared");
}

void spec_check_sweep(struct spec_parse *p)
{
	const struct job_spec *s = &p->s;

	if (p->problems.n) /* counting what was not understood says nothing new */
		return;
	if (s->array && s->sweep.n_axes)
		spec_problem(p, "array",
		             "a job is an array or a sweep; an axis such as \"seed\": {\"from\": 0, \"to\": 9} "
		             "makes a sweep repeat");
	if (p->search_given && !s->sweep.n_axes)
		spec_problem(p, "search", "there is no sweep to search");
	if (s->max_parallel && !s->sweep.n_axes && !s->array)
		spec_problem(p, "max_parallel", "is for the members of a sweep or an array; this is one job");
	if (s->max_parallel && s->max_wait_s)
		spec_problem(p, "limits.max_wait_s",
		             "counts from the submit: with max_parallel the later members would end waiting for the "
		             "earlier ones; leave one of them out");
	if (p->member_given && !s->member.count)
		spec_problem(p, "array.count", "must be given: how many members the array has");
	else if (p->member_given && s->member.index >= s->member.count)
		spec_problem(p, "array.index", "%u is not one of %u members: they are counted from 0",
		             s->member.index, s->member.count);
	if (p->member_given && s->sweep.n_axes)
		spec_problem(p, "array", "one member of an array has no members of its own");
	if (!s->sweep.n_axes)
		return;
	check_search(p);
	settle_axes(p);
	if (p->problems.n)
		return;
	check_members(p);
	check_names(p);
}

uint32_t spec_members(const struct job_spec *s)
{
	return s->array ? s->array : (uint32_t)sweep_members(&s->sweep);
}

/* ---- the way back -------------------------------------------------------------------------------- */

static cJSON *axis_of(const struct sweep_axis *a)
{
	cJSON *o, *ends;

	if (a->kind == SWEEP_LIST)
		return cJSON_Duplicate(a->list, 1);
	o = cJSON_CreateObject();
	if (a->kind == SWEEP_RANGE) {
		cJSON_AddNumberToObject(o, "from", a->lo);
		cJSON_AddNumberToObject(o, "to", a->hi);
		cJSON_AddNumberToObject(o, "step", a->step);
		return o;
	}
	ends = cJSON_AddArrayToObject(o, a->kind == SWEEP_LOG ? "log" : "linear");
	cJSON_AddItemToArray(ends, cJSON_CreateNumber(a->lo));
	cJSON_AddItemToArray(ends, cJSON_CreateNumber(a->hi));
	if (a->count)
		cJSON_AddNumberToObject(o, "count", a->count);
	return o;
}

static void add_search(cJSON *obj, const struct job_spec *s)
{
	cJSON *search = cJSON_AddObjectToObject(obj, "search"), *halving;

	if (s->sweep.random) {
		cJSON_AddStringToObject(search, "method", "random");
		cJSON_AddNumberToObject(search, "samples", s->sweep.samples);
	}
	if (s->sweep.seed)
		cJSON_AddNumberToObject(search, "seed", (double)s->sweep.seed);
	json_add_str(search, "metric", s->search.metric);
	cJSON_AddStringToObject(search, "goal", s->search.max ? "max" : "min");
	if (!s->search.eta)
		return;
	halving = cJSON_AddObjectToObject(search, "halving");
	cJSON_AddNumberToObject(halving, "eta", s->search.eta);
	cJSON_AddNumberToObject(halving, "min_step", (double)s->search.min_step);
}

static cJSON *member_of(const struct spec_member *m)
{
	cJSON *o = cJSON_CreateObject();

	json_add_u64(o, "job", m->job);
	json_add_u64(o, "index", m->index);
	json_add_u64(o, "count", m->count);
	return o;
}

void spec_sweep_json(cJSON *obj, const struct job_spec *s)
{
	if (s->array)
		cJSON_AddNumberToObject(obj, "array", s->array);
	if (s->member.count)
		cJSON_AddItemToObject(obj, "array", member_of(&s->member));
	if (s->sweep.n_axes) {
		cJSON *axes = cJSON_AddObjectToObject(obj, "sweep");

		for (size_t i = 0; i < s->sweep.n_axes; i++)
			cJSON_AddItemToObject(axes, s->sweep.axes[i].name, axis_of(&s->sweep.axes[i]));
		add_search(obj, s);
	}
	if (s->max_parallel)
		cJSON_AddNumberToObject(obj, "max_parallel", s->max_parallel);
}

char *spec_member_text(const cJSON *spec, const struct job_spec *s, uint64_t job, uint32_t index)
{
	static const char *const own[] = {"sweep", "search", "array", "max_parallel"};
	struct spec_member m = {job, index, spec_members(s)};
	cJSON *o = cJSON_Duplicate(spec, 1), *hps, *values, *v;
	char *text;

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		cJSON_DeleteItemFromObjectCaseSensitive(o, own[i]);
	hps = cJSON_GetObjectItemCaseSensitive(o, "hyperparameters");
	if (s->sweep.n_axes && !cJSON_IsObject(hps)) {
		cJSON_DeleteItemFromObjectCaseSensitive(o, "hyperparameters");
		hps = cJSON_AddObjectToObject(o, "hyperparameters");
	}
	values = s->sweep.n_axes ? sweep_values(&s->sweep, index) : NULL;
	while (values && (v = values->child)) {
		cJSON_DetachItemViaPointer(values, v);
		/* A null stood there: as if it were left out. */
		cJSON_DeleteItemFromObjectCaseSensitive(hps, v->string);
		cJSON_AddItemToObject(hps, v->string, v);
	}
	cJSON_Delete(values);
	cJSON_AddItemToObject(o, "array", member_of(&m));
	text = json_text(o);
	cJSON_Delete(o);
	return text;
}
