/* Jobs that a specification names (members of arrays among them), and words that others have for its keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/spec/spec.h"
#include "tests/lib/tap.h"

static struct job_spec *parse(const char *members, struct err *e)
{
	char text[1000];

	snprintf(text, sizeof(text), "{\"command\": [\"true\"], %s}", members);
	e->text[0] = '\0';
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

static void refused(const char *members, const char *why)
{
	struct err e;
	struct job_spec *s = parse(members, &e);

	ok(!s && strstr(e.text, why), "refused: %s", members);
	if (s || !strstr(e.text, why))
		tap_diag("said: %s", e.text);
	spec_destroy(s);
}

static void test_members(void)
{
	struct job_spec *s =
	    good("\"after\": [17, \"17.3\", \"afterany:20.0\"], \"resume_from\": \"job:17.3@1200\", "
	         "\"inputs\": {\"base\": {\"uri\": \"job:9.12/model\"}, \"all\": {\"uri\": "
	         "\"job:8/output\"}}");
	cJSON *again;

	is_int((long)s->after[0].job, 17, "a job of its own");
	is_int((long)s->after[1].job, 21, "17.3 is the fourth behind 17");
	is_int((long)s->after[2].job, 21, "20.0 the first behind 20");
	is_str(s->resume_job, "job:21", "a checkpoint of a member");
	is_int((long)s->resume_step, 1200, "with its step");
	is_str(s->inputs[0].uri, "job:22/model", "an input from a member");
	is_str(s->inputs[1].uri, "job:8/output", "one from a job of its own");
	is_int((long)s->n_member_refs, 4, "each member has to be looked up");
	for (size_t i = 0; i < s->n_member_refs; i++)
		ok(*s->member_refs[i].where && s->member_refs[i].array, "%s names member %u of job %d",
		   s->member_refs[i].where, s->member_refs[i].index, (int)s->member_refs[i].array);
	again = spec_to_json(s);
	is_str(cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(again, "after"), 1)->valuestring, "afterok:21",
	       "the normalized form has its number");
	cJSON_Delete(again);
	spec_destroy(s);
}

static void test_bad_members(void)
{
	refused("\"after\": [17.3]", "\"17.3\" for a member");
	refused("\"after\": [\"17.\"]", "expected a job's number");
	refused("\"after\": [\"17.3.4\"]", "expected a job's number");
	refused("\"after\": [\"0.3\"]", "expected a job's number");
	refused("\"after\": [\"17.99999999999\"]", "expected a job's number");
	refused("\"after\": [\"what:3\"]", "\"what:3\": expected a job's number");
	refused("\"after\": [21, \"17.3\"]", "afterok:21 is given twice");
	refused("\"resume_from\": \"job:17.\"", "ID is a number such as 17 or 17.3");
	refused("\"inputs\": {\"a\": {\"uri\": \"job:17.3\"}}", "expected job:ID/model");
	refused("\"inputs\": {\"a\": {\"uri\": \"job:17.x/model\"}}", "expected job:ID/model");
}

static void test_words(void)
{
	static const struct {
		const char *prefix, *key, *meant;
	} t[] = {{"resources", "gpus", "gpus_per_instance"},
	         {"resources", "nodes", "instances"},
	         {"resources", "instance", "instances"},
	         {"groups[]", "gpus", "gpus_per_instance"},
	         {"", "gpus", "resources.gpus_per_instance"},
	         {"", "gpus_per_instance", "resources.gpus_per_instance"},
	         {"", "nodes", "resources.instances"},
	         {"", "time", "limits.max_runtime_s"},
	         {"limits", "time", "max_runtime_s"},
	         {"", "partition", "queue"},
	         {"", "retries", "retry.max_attempts"},
	         {"", "max_retries", "retry.max_attempts"},
	         {"retry", "max_retries", "max_attempts"},
	         {"", "nmae", "name"},
	         {"", "xyzzy", NULL}};

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		const char *meant = spec_key_meant(t[i].prefix, t[i].key);

		ok(meant && t[i].meant ? strcmp(meant, t[i].meant) == 0 : meant == t[i].meant, "%s of \"%s\" is %s",
		   t[i].key, t[i].prefix, t[i].meant ? t[i].meant : "nothing");
	}
	refused("\"resources\": {\"gpus\": 2}",
	        "resources.gpus: unknown key; did you mean \"gpus_per_instance\"?");
}

/* What is refused of new jobs only: the text itself is read. */
static void test_new(void)
{
	static const struct {
		const char *members, *says; /* NULL: taken */
	} news[] = {
	    {"\"name\": \"last\"", "means one's newest job"},
	    {"\"name\": \"17\"", "put a letter in front: \"job-17\""},
	    {"\"name\": \"17.3\"", "number of a job"},
	    {"\"name\": \"99999999999999999999999\"", "number of a job"},
	    {"\"name\": \"17a\"", NULL},
	    {"\"name\": \"lasting\"", NULL},
	    {"\"name\": \"1.2.3\"", NULL},
	    {"\"sweep\": {}", "sweep: it names no hyperparameter; it needs at least one"},
	    {"\"sweep\": {\"lr\": [1]}", NULL},
	    {"\"resume_from\": \"job:17@9007199254740992\"", NULL},
	    {"\"resume_from\": \"job:17@9007199254740993\"", "resume_from: a step is at most 2^53"},
	    {"\"priority\": 0", NULL},
	};
	struct err e;

	for (size_t i = 0; i < sizeof(news) / sizeof(*news); i++) {
		char text[300];
		struct job_spec *s;

		snprintf(text, sizeof(text), "{\"command\": [\"true\"], %s}", news[i].members);
		s = spec_parse(text, strlen(text), &e);
		ok(s != NULL, "%s is read", news[i].members);
		if (s && news[i].says)
			ok(spec_check_new(s, &e) < 0 && strstr(e.text, news[i].says), "and not taken: %s", e.text);
		else if (s)
			is_int(spec_check_new(s, &e), 0, "and taken");
		spec_destroy(s);
	}
	is_int(spec_check_job_name("", &e), -1, "no name");
}

int main(void)
{
	test_members();
	test_bad_members();
	test_words();
	test_new();
	return tap_done();
}
