/* Arrays and sweeps in job.json: what is read, what is refused, and which members come of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/spec/spec.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"

#define CMD "\"command\": [\"/bin/x\"]"

static struct job_spec *parse(const char *members, struct err *e)
{
	char text[2000];

	snprintf(text, sizeof(text), "{" CMD ", %s}", members);
	return spec_parse(text, strlen(text), e);
}

static struct job_spec *good(const char *members)
{
	struct err e;
	struct job_spec *s = parse(members, &e);

	if (!s)
		tap_bail("%s: %s", members, e.text);
	return s;
}

static char *values_of(const struct job_spec *s, uint32_t index)
{
	cJSON *v = sweep_values(&s->sweep, index);
	char *text = json_text(v);

	cJSON_Delete(v);
	return text;
}

static void value_is(const struct job_spec *s, uint32_t index, const char *wanted)
{
	char *text = values_of(s, index);

	is_str(text, wanted, wanted);
	free(text);
}

static void test_grid(void)
{
	struct job_spec *s =
	    good("\"sweep\": {\"lr\": {\"log\": [1e-4, 1e-1]}, \"width\": [64, 128], \"seed\": {\"from\": 0, "
	         "\"to\": 9}}");

	is_int(spec_members(s), 80, "a logarithmic axis has a value a decade: 4 x 2 x 10");
	value_is(s, 0, "{\"lr\":0.0001,\"width\":64,\"seed\":0}");
	value_is(s, 1, "{\"lr\":0.0001,\"width\":64,\"seed\":1}");
	value_is(s, 10, "{\"lr\":0.0001,\"width\":128,\"seed\":0}");
	value_is(s, 20, "{\"lr\":0.001,\"width\":64,\"seed\":0}");
	value_is(s, 79, "{\"lr\":0.1,\"width\":128,\"seed\":9}");
	spec_destroy(s);
	s = good("\"sweep\": {\"drop\": {\"from\": 0.1, \"to\": 0.5, \"step\": 0.1}}");
	is_int(spec_members(s), 5, "a step that is no power of two meets the end");
	value_is(s, 2, "{\"drop\":0.3}");
	value_is(s, 4, "{\"drop\":0.5}");
	spec_destroy(s);
	s = good(
	    "\"sweep\": {\"a\": {\"linear\": [0, 1], \"count\": 5}, \"b\": {\"log\": [16, 1024], \"count\": 7}}");
	is_int(spec_members(s), 35, "with counts");
	value_is(s, 0, "{\"a\":0,\"b\":16}");
	value_is(s, 8, "{\"a\":0.25,\"b\":32}");
	value_is(s, 34, "{\"a\":1,\"b\":1024}");
	spec_destroy(s);
	s = good("\"sweep\": {\"opt\": [\"adam\", \"sgd\", true, [1, 2], {\"k\": 0.5}]}");
	value_is(s, 1, "{\"opt\":\"sgd\"}");
	value_is(s, 4, "{\"opt\":{\"k\":0.5}}");
	spec_destroy(s);
}

static void test_random(void)
{
	static const char text[] =
	    "\"sweep\": {\"lr\": {\"log\": [1e-4, 1e-1]}, \"width\": [64, 128]}, \"search\": {\"method\": "
	    "\"random\", \"samples\": 500, \"seed\": 7}";
	struct job_spec *s = good(text), *same = good(text);
	double low = 0, wide = 0;
	int inside = 1, equal = 1;

	is_int(spec_members(s), 500, "as many members as samples");
	for (uint32_t i = 0; i < 500; i++) {
		cJSON *v = sweep_values(&s->sweep, i);
		double lr = cJSON_GetObjectItem(v, "lr")->valuedouble;
		char *a = values_of(s, i), *b = values_of(same, i);

		inside &= lr >= 1e-4 && lr <= 1e-1;
		low += lr < 1e-4 * sqrt(1000);
		wide += cJSON_GetObjectItem(v, "width")->valuedouble > 100;
		equal &= strcmp(a, b) == 0;
		free(a);
		free(b);
		cJSON_Delete(v);
	}
	ok(inside, "all between the ends");
	ok(low > 200 && low < 300, "half of them in the lower half of the decades: %.0f", low);
	ok(wide > 200 && wide < 300, "and half of them wide: %.0f", wide);
	ok(equal, "the same seed gives the same members");
	same->sweep.seed = 8;
	{
		char *a = values_of(s, 0), *b = values_of(same, 0);

		ok(strcmp(a, b) != 0, "another seed gives others");
		free(a);
		free(b);
	}
	spec_destroy(s);
	spec_destroy(same);
}

/* Every number of combinations, and each of them once. */
static void test_no_repetition(void)
{
	int bad = 0;

	for (unsigned n = 1; n <= 130; n++) {
		char text[200];
		unsigned char seen[130] = {0};
		struct job_spec *s;

		snprintf(text, sizeof(text),
		         "\"sweep\": {\"x\": {\"from\": 1, \"to\": %u}}, \"search\": {\"method\": \"random\", "
		         "\"samples\": "
		         "%u, \"seed\": %u}",
		         n, n, n * 13);
		s = good(text);
		for (uint32_t i = 0; i < n; i++) {
			cJSON *v = sweep_values(&s->sweep, i);
			int x = cJSON_GetObjectItem(v, "x")->valueint;

			bad += x < 1 || x > (int)n || seen[x - 1]++;
			cJSON_Delete(v);
		}
		spec_destroy(s);
	}
	is_int(bad, 0, "where the combinations can be counted none comes twice");
}

static void test_refused(void)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
	    {"\"sweep\": {\"lr\": []}", "sweep.lr:"},
	    {"\"sweep\": {\"lr\": 1}", "sweep.lr:"},
	    {"\"sweep\": {\"lr\": [1, 2, 1]}", "sweep.lr[2]:"},
	    {"\"sweep\": {\"lr\": [1, null]}", "sweep.lr[1]:"},
	    {"\"sweep\": {\"lr\": {\"log\": [0, 1]}}", "sweep.lr:"},
	    {"\"sweep\": {\"lr\": {\"log\": [-1, 1]}}", "-1"},
	    {"\"sweep\": {\"lr\": {\"log\": [1, 0.1]}}", "sweep.lr:"},
	    {"\"sweep\": {\"lr\": {\"log\": [1]}}", "sweep.lr.log:"},
	    {"\"sweep\": {\"lr\": {\"lg\": [1, 2]}}", "sweep.lr.lg:"},
	    {"\"sweep\": {\"lr\": {}}", "sweep.lr:"},
	    {"\"sweep\": {\"s\": {\"from\": 9, \"to\": 1}}", "sweep.s:"},
	    {"\"sweep\": {\"s\": {\"from\": 9}}", "sweep.s:"},
	    {"\"sweep\": {\"s\": {\"from\": 0, \"to\": 1, \"step\": 0}}", "sweep.s:"},
	    {"\"sweep\": {\"s\": {\"from\": 0.1, \"to\": 0.5}}", "\"linear\""},
	    {"\"sweep\": {\"s\": {\"from\": 0, \"to\": 9, \"log\": [1, 2]}}", "sweep.s:"},
	    {"\"sweep\": {\"s\": {\"linear\": [0, 1]}}", "sweep.s:"},
	    {"\"sweep\": {\"a\": {\"from\": 1, \"to\": 200}, \"b\": {\"from\": 1, \"to\": 100}}", "sweep:"},
	    {"\"sweep\": {\"a\": {\"from\": 1, \"to\": 1e15}, \"b\": {\"from\": 1, \"to\": 1e15}}",
	     "more than 9007199254740992"},
	    {"\"hyperparameters\": {\"lr\": 1}, \"sweep\": {\"lr\": [1, 2]}", "sweep.lr:"},
	    {"\"sweep\": {\"lr\": [1, 2]}, \"search\": {\"method\": \"bayes\"}", "search.method:"},
	    {"\"sweep\": {\"lr\": [1, 2]}, \"search\": {\"method\": \"random\"}", "search.samples:"},
	    {"\"sweep\": {\"lr\": [1, 2]}, \"search\": {\"method\": \"random\", \"samples\": 3}", "2"},
	    {"\"sweep\": {\"lr\": [1, 2]}, \"search\": {\"samples\": 3}", "\"method\""},
	    {"\"sweep\": {\"lr\": [1, 2]}, \"search\": {\"goal\": \"minimum\"}", "search.goal:"},
	    {"\"sweep\": {\"lr\": [1, 2]}, \"search\": {\"halving\": {\"min_step\": 1}}", "search.metric:"},
	    {"\"sweep\": {\"lr\": [1, 2]}, \"search\": {\"metric\": \"loss\", \"halving\": {}}",
	     "search.halving.min_step:"},
	    {"\"sweep\": {\"lr\": [1, 2]}, \"search\": {\"metric\": \"loss\", \"halving\": {\"min_step\": 1, "
	     "\"eta\": 1}}",
	     "search.halving.eta:"},
	    {"\"search\": {\"metric\": \"loss\"}", "search:"},
	    {"\"max_parallel\": 3", "max_parallel:"},
	    {"\"array\": 3, \"sweep\": {\"lr\": [1, 2]}", "array:"},
	    {"\"array\": 0", "array:"},
	    {"\"array\": \"3\"", "array:"},
	    {"\"array\": {\"index\": 3, \"count\": 3}", "array.index:"},
	    {"\"array\": {\"index\": 3}", "array.count:"},
	    {"\"array\": 3, \"max_parallel\": 1, \"limits\": {\"max_wait_s\": 9}",
	     "limits.max_wait_s: counts from the submit"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct err e = {.text = ""};
		struct job_spec *s = parse(bad[i].text, &e);
		char *id = xasprintf("sweep/%s", bad[i].text);

		ok(!s, "refused: %s", bad[i].text);
		golden(id, e.text, bad[i].why);
		free(id);
		spec_destroy(s);
	}
}

static void note_is(const char *members, const char *part)
{
	struct job_spec *s = good(members);
	struct strv notes = {0};

	spec_notes(s, &notes);
	ok(part ? notes.n == 1 && strstr(notes.v[0], part) : !notes.n, "%s: %s", members,
	   part ? part : "nothing");
	if (notes.n)
		tap_diag("said: %s", notes.v[0]);
	strv_fini(&notes);
	spec_destroy(s);
}

/* What is compared has to be read from somewhere. */
static void test_notes(void)
{
#define SWEEP       "\"sweep\": {\"lr\": [1, 2]}, \"search\": {\"metric\": \"loss\""
#define HALVING     ", \"halving\": {\"min_step\": 1}}"
#define READS(name) "{\"name\": \"" name "\", \"regex\": \"(x)\"}"
	note_is(SWEEP HALVING ", \"metrics\": [" READS("loss") "," READS("step") "]", NULL);
	note_is(
	    SWEEP HALVING ", \"metrics\": [" READS("los") "," READS("step") "]",
	    "is called \"loss\" (did you mean \"los\"?); there are los, step: unless the program reports it by "
	    "itself (hearth.log), no member is ever stopped");
	note_is(SWEEP HALVING, "no pattern under \"metrics\" is called \"loss\": unless");
	note_is(SWEEP HALVING ", \"metrics\": [" READS("loss") "]",
	        "search.halving: no pattern under \"metrics\" is "
	        "called \"step\"");
	note_is(SWEEP "}, \"metrics\": [" READS("acc") "]", "the members are not compared");
	note_is(SWEEP "}", NULL);
	note_is("\"sweep\": {\"lr\": [1, 2]}", NULL);
	note_is("\"name\": \"one\"", NULL);
}

/* What is watched, too. */
static void test_watch_notes(void)
{
	note_is("\"watch\": {\"on_nan\": \"rollback\"}", "watch.on_nan: no pattern under \"metrics\" is called "
	                                                 "\"loss\": unless the program reports it by itself "
	                                                 "(hearth.log), the loss is not watched");
	note_is("\"watch\": {\"on_nan\": \"rollback\"}, \"metrics\": [" READS("loss") "," READS("step") "]",
	        NULL);
	note_is("\"watch\": {\"on_nan\": \"alert\"}", NULL);
	note_is("\"watch\": {\"loss\": \"los\"}, \"metrics\": [" READS("loss") "]",
	        "watch.loss: no pattern under \"metrics\" is called \"los\" (did you mean \"loss\"?)");
	note_is("\"watch\": {\"loss\": \"nll\"}, \"metrics\": [" READS("nll") "]", NULL);
	note_is("\"watch\": {\"on_hang\": \"restart\"}",
	        "watch.on_hang: no pattern under \"metrics\" is called \"step\"");
	note_is("\"watch\": {\"throughput\": \"tok\"}", "watch.throughput: ");
	note_is("\"rules\": [{\"name\": \"big\", \"metric\": \"norm\", \"above\": 3}], \"metrics\": [" READS(
	            "nor") "]",
	        "rules[0].metric: no pattern under \"metrics\" is called \"norm\" (did you mean \"nor\"?)");
	note_is("\"rules\": [{\"name\": \"big\", \"metric\": \"norm\", \"above\": 3}], \"metrics\": [" READS(
	            "norm") "]",
	        NULL);
	note_is("\"rules\": [{\"name\": \"seen\", \"pattern\": \"x\"}]", NULL);
}

static char *normalized(const struct job_spec *s)
{
	cJSON *o = spec_to_json(s);
	char *text = json_text(o);

	cJSON_Delete(o);
	return text;
}

static void test_back(void)
{
	static const char *const texts[] = {
	    "\"sweep\": {\"a\": {\"log\": [1e-4, 1e-1]}, \"b\": [1, \"x\"], \"c\": {\"from\": 0, \"to\": 9}}, "
	    "\"search\": "
	    "{\"metric\": \"loss\", \"goal\": \"max\", \"halving\": {\"min_step\": 10}}, \"max_parallel\": 4",
	    "\"sweep\": {\"a\": {\"log\": [1e-4, 1e-1]}, \"b\": {\"linear\": [0, 0.5]}}, \"search\": "
	    "{\"method\": \"random\", "
	    "\"samples\": 9, \"seed\": 3}",
	    "\"array\": 20, \"max_parallel\": 2",
	    "\"array\": {\"job\": 17, \"index\": 3, \"count\": 20}",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct job_spec *s = good(texts[i]), *back;
		char *one = normalized(s), *two;
		struct err e;

		back = spec_parse(one, strlen(one), &e);
		ok(back != NULL, "the normalized form can be read");
		if (back) {
			two = normalized(back);
			is_str(two, one, "and is the same again");
			is_int(spec_members(back), spec_members(s), "with the same members");
			free(two);
		}
		spec_destroy(back);
		spec_destroy(s);
		free(one);
	}
}

static void test_member(void)
{
	static const char text[] =
	    "{" CMD ", \"name\": \"n\", \"hyperparameters\": {\"epochs\": 5}, \"sweep\": {\"lr\": [1, 2]}, "
	    "\"search\": {\"metric\": \"loss\"}, \"max_parallel\": 1}";
	struct job_spec *s = spec_parse(text, strlen(text), NULL), *m;
	cJSON *json = json_parse(text, strlen(text), NULL);
	char *member = spec_member_text(json, s, 17, 1);

	is_str(member,
	       "{\"command\":[\"/bin/"
	       "x\"],\"name\":\"n\",\"hyperparameters\":{\"epochs\":5,\"lr\":2},\"array\":{\"job\":17,"
	       "\"index\":1,\"count\":2}}",
	       "a member is a job of its own, with its values and its number");
	m = spec_parse(member, strlen(member), NULL);
	ok(m && !spec_members(m) && m->member.job == 17 && m->member.index == 1 && m->member.count == 2,
	   "it can be read, and has no members");
	spec_destroy(m);
	spec_destroy(s);
	cJSON_Delete(json);
	free(member);
	s = good("\"array\": 3, \"hyperparameters\": null");
	is_int(spec_members(s), 3, "a plain array");
	json = json_parse("{\"array\": 3}", 12, NULL);
	member = spec_member_text(json, s, 9, 2);
	is_str(member, "{\"array\":{\"job\":9,\"index\":2,\"count\":3}}", "its members differ by their number");
	spec_destroy(s);
	cJSON_Delete(json);
	free(member);
}

int main(void)
{
	test_grid();
	test_random();
	test_no_repetition();
	test_refused();
	test_back();
	test_member();
	test_notes();
	test_watch_notes();
	return tap_done();
}
