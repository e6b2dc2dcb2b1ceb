/*
 * test_spec: what job.json may say: the whole example of the contract, defaults, the normalized form and its
 * way back, and the table of keys itself. Bad documents: test_spec_bad.
 */
#include "common/spec/spec.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/json.h"
#include "common/os/fsutil.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"

#define CMD "\"command\": [\"true\"]"

static struct job_spec *parse(const char *text, struct err *e)
{
	e->text[0] = '\0';
	e->code = ERR_NONE;
	return spec_parse(text, strlen(text), e);
}

static struct job_spec *must_parse(const char *text)
{
	struct err e;
	struct job_spec *s = parse(text, &e);

	if (!s)
		tap_bail("%s\n%s", text, e.text);
	return s;
}

static void test_after(void)
{
	static const struct {
		const char *text, *said;
	} wrong[] = {{"17", "expected a list such as [17"},
	             {"[0]", "after[0]: expected a job's number"},
	             {"[1.5]", "after[0]: expected a job's number"},
	             {"[\"afterok:\"]", "after[0]: \"afterok:\": expected a job's number"},
	             {"[\"before:3\"]", "after[0]: \"before:3\": expected"},
	             {"[\"afterok:-3\"]", "expected"},
	             {"[3, true]", "after[1]"},
	             {"[3, \"afterok:3\"]", "after[1]: afterok:3 is given twice"}};
	struct job_spec *s =
	    must_parse("{" CMD ", \"after\": [17, \"18\", \"afterok:19\", \"afterany:17\", \"after:17\"]}");
	struct err e;
	cJSON *again;

	is_int(s->n_after, 5, "five jobs to wait for");
	ok(s->after[0].job == 17 && s->after[0].kind == SPEC_AFTER_OK && s->after[1].job == 18 &&
	       s->after[1].kind == SPEC_AFTER_OK && s->after[2].kind == SPEC_AFTER_OK,
	   "a number alone: until it ended well");
	ok(s->after[3].kind == SPEC_AFTER_ANY && s->after[4].kind == SPEC_AFTER_START, "the other kinds");
	again = spec_to_json(s);
	is_str(cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(again, "after"), 4)->valuestring, "after:17",
	       "and back again");
	cJSON_Delete(again);
	spec_destroy(s);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char text[200];

		snprintf(text, sizeof(text), "{" CMD ", \"after\": %s}", wrong[i].text);
		ok(!parse(text, &e) && strstr(e.text, wrong[i].said), "refused: %s", wrong[i].text);
	}
}

/* ---- reserved keys -------------------------------------------------------------------------------- */

static const char *const reserved[] = {
    "\"image\": \"ubuntu\"",
    "\"scale\": {\"lr\": \"linear\"}",
    "\"secrets\": [\"KEY\"]",
    "\"checkpoint\": {\"every_s\": \"auto\"}",
    "\"checkpoint\": {\"signal\": \"SIGUSR1\"}",
    "\"watch\": {\"on_straggler\": \"alert\"}",
    "\"watch\": {\"on_spike\": \"checkpoint\"}",
    "\"rules\": [{\"name\": \"x\", \"pattern\": \"y\", \"action\": \"checkpoint\"}]",
    "\"objective\": \"cost\"",
    "\"resources\": {\"instance_type\": \"auto\"}",
    "\"output_uri\": \"s3://bucket/x\"",
};

static const char *const no_money[] = {"0", "-1", "0.001", "1e10", "\"5\"", "true", "[]"};
static void test_reserved(void)
{
	struct err e;
	char text[512];

	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
		struct job_spec *s;

		snprintf(text, sizeof(text), "{" CMD ", %s}", reserved[i]);
		s = parse(text, &e);
		ok(!s && e.code == ERR_UNSUPPORTED && strstr(e.text, "not built yet"), "refused as not built: %s",
		   reserved[i]);
		spec_destroy(s);
	}
	spec_destroy(must_parse("{" CMD ", \"image\": null, \"scale\": {}, \"secrets\": [], \"checkpoint\": "
	                        "{\"uri\": null, \"every_s\": null}, \"watch\": {},"
	                        " \"rules\": [], \"retry\": {\"max_attempts\": null, \"capacity\": null}, "
	                        "\"warm_pool\": {\"keep_alive_s\": 0, \"preload\": []},"
	                        " \"preemptible\": true, \"after\": [], \"sweep\": null, \"array\": null, "
	                        "\"limits\": {\"max_wait_s\": null,"
	                        " \"max_cost_usd\": null}, \"objective\": null, \"resources\": "
	                        "{\"instance_type\": \"any\"}, \"groups\": null}"));
	ok(1, "null, empty and default values of reserved keys are accepted");
	for (size_t i = 0; i < sizeof(no_money) / sizeof(no_money[0]); i++) {
		snprintf(text, sizeof(text), "{" CMD ", \"limits\": {\"max_cost_usd\": %s}}", no_money[i]);
		ok(!parse(text, &e) && e.code == ERR_INVALID && strstr(e.text, "limits.max_cost_usd"),
		   "no sum of money: %s", no_money[i]);
	}
	ok(!parse("{" CMD ", \"objective\": \"cost\", \"nmae\": 1}", &e) && e.code == ERR_INVALID,
	   "with a real mistake beside it: invalid");
}

/* Every key of the table that is not built, with a value that says something: none may be passed over. */
static void test_every_reserved_key(void)
{
	size_t n, seen = 0;
	const struct spec_key *keys = spec_keys(&n);

	for (size_t i = 0; i < n; i++) {
		char parts[64], text[400] = "", *save = NULL;
		int depth = 0, has_members = 0;
		struct err e;

		for (size_t k = 0; k < n; k++)
			has_members |= strncmp(keys[k].path, keys[i].path, strlen(keys[i].path)) == 0 &&
			               keys[k].path[strlen(keys[i].path)] == '.';
		if (keys[i].built || has_members)
			continue;
		seen++;
		snprintf(parts, sizeof(parts), "%s", keys[i].path);
		for (char *p = strtok_r(parts, ".", &save); p; p = strtok_r(NULL, ".", &save), depth++)
			snprintf(text + strlen(text), sizeof(text) - strlen(text),
			         "%s\"%s\": ", depth ? "{" : "{" CMD ", ", p);
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "\"something\"%.*s", depth, "}}}}");
		ok(!parse(text, &e) && e.code == ERR_UNSUPPORTED && strstr(e.text, keys[i].path) &&
		       strstr(e.text, "not built yet"),
		   "%s is refused by name", keys[i].path);
	}
	ok(seen >= 8, "%zu keys are reserved", seen);
}

/* ---- the example of the contract ------------------------------------------------------------------- */

static const char example[] =
    "{\"name\": \"digits-ddp\", \"experiment\": \"digits\", \"notes\": \"\", \"tags\": {\"team\": "
    "\"vision\"},\n"
    "\"command\": [\"/usr/bin/python3\", \"train.py\"], \"source_dir\": \".\", \"requirements\": "
    "\"requirements.txt\",\n"
    "\"image\": null, \"hyperparameters\": {\"lr\": 0.1, \"epochs\": 5}, \"environment\": {\"NCCL_DEBUG\": "
    "\"WARN\"},\n"
    "\"resources\": {\"instances\": 2, \"gpus_per_instance\": 1, \"ranks_per_instance\": 1, "
    "\"cpus_per_rank\": 2,\n"
    "  \"memory\": \"8GiB\", \"disk\": \"20GiB\", \"exclusive\": false, \"instance_type\": \"any\", "
    "\"gpu_model\": \"any\",\n"
    "  \"gpu_memory\": \"0\", \"requires\": [\"nvlink\"], \"gpu_visibility\": \"all\",\n"
    "  \"placement\": {\"span\": null, \"hard\": false}},\n"
    "\"launcher\": \"mpirun\", \"mpi_options\": [], \"groups\": null,\n"
    "\"inputs\": {\"train\": {\"uri\": \"file:///data/digits\", \"mode\": \"copy\"}, \"base\": {\"uri\": "
    "\"job:17/model\"}},\n"
    "\"output_uri\": \"file:///results/\", \"resume_from\": \"job:17@1200\",\n"
    "\"metrics\": [{\"name\": \"loss\", \"regex\": \"loss=([0-9.eE+-]+|nan|inf)\"}, {\"name\": \"step\", "
    "\"regex\": \"step=([0-9]+)\"}],\n"
    "\"limits\": {\"max_runtime_s\": 86400, \"max_wait_s\": null, \"max_cost_usd\": 12.5},\n"
    "\"priority\": 0, \"queue\": \"default\", \"preemptible\": true, \"after\": []";
static const char example_reserved[] =
    ", \"scale\": {\"lr\": \"linear\", \"base_world\": 1}, \"secrets\": [\"WANDB_API_KEY\"],\n"
    "\"checkpoint\": {\"uri\": \"file:///checkpoints/\", \"every_s\": \"auto\", \"keep_last\": 3, "
    "\"signal\": \"SIGUSR1\",\n"
    "  \"overdue_s\": 7200},\n"
    "\"watch\": {\"loss\": \"loss\", \"step\": \"step\", \"throughput\": \"samples_per_second\", "
    "\"on_spike\": \"rollback\",\n"
    "  \"on_nan\": \"rollback\", \"on_drop\": \"alert\", \"on_plateau\": \"alert\", \"on_hang\": "
    "\"restart\",\n"
    "  \"on_slow\": \"alert\", \"on_straggler\": \"alert\"},\n"
    "\"retry\": {\"max_attempts\": 5, \"capacity\": 30}, \"warm_pool\": {\"keep_alive_s\": 1800, "
    "\"preload\": [\"torch\"]}";

static void test_example(void)
{
	struct strv problems = {0};
	struct job_spec *s;
	char text[8192];
	struct err e;
	int all = 1;

	snprintf(text, sizeof(text), "%s}", example);
	s = must_parse(text);
	is_str(s->name, "digits-ddp", "name");
	is_str(s->experiment, "digits", "experiment");
	ok(s->n_tags == 1 && strcmp(s->tags[0].value, "vision") == 0, "tags");
	ok(s->command.n == 2 && strcmp(s->command.v[1], "train.py") == 0, "command");
	is_str(s->requirements, "requirements.txt", "requirements");
	ok(s->n_hps == 2 && s->hps[0].type == SPEC_REAL && strcmp(s->hps[0].text, "0.1") == 0,
	   "real hyperparameter");
	ok(s->hps[1].type == SPEC_INT && s->hps[1].num == 5, "whole hyperparameter");
	ok(s->n_env == 1 && strcmp(s->env[0].name, "NCCL_DEBUG") == 0, "environment");
	is_int(spec_nodes(s), 2, "nodes");
	is_int(spec_ranks(s), 2, "ranks");
	is_int(s->groups[0].cpus_per_rank, 2, "CPUs");
	is_str(s->groups[0].name, "algo", "the one group's name");
	is_int(s->memory_bytes, 8LL << 30, "memory");
	is_int(s->disk_bytes, 20LL << 30, "disk");
	is_int(s->instance_types.n, 0, "any type");
	ok(!s->gpu_model, "any model");
	ok(s->requires.n == 1 && strcmp(s->requires.v[0], "nvlink") == 0, "requires");
	ok(!s->span, "no span");
	is_int(s->launcher, LAUNCHER_MPIRUN, "launcher");
	ok(!s->has_groups, "no groups");
	ok(s->n_inputs == 2 && strcmp(s->inputs[1].uri, "job:17/model") == 0 && !s->inputs[0].link, "inputs");
	is_str(s->output_uri, "file:///results/", "output");
	is_int(s->keep_last, 3, "checkpoints that are kept");
	is_str(s->resume_job, "job:17", "resume job");
	is_int(s->resume_step, 1200, "resume step");
	is_int(s->n_metrics, 2, "metrics");
	is_int(s->max_runtime_s, 86400, "run time");
	is_int(s->grace_s, 30, "grace");
	ok(spec_group_of(s, 1) == &s->groups[0] && !spec_group_of(s, 2), "group of a node");
	spec_destroy(s);

	snprintf(text, sizeof(text), "%s%s}", example, example_reserved);
	s = spec_parse_list(text, strlen(text), &problems, &e);
	ok(!s && e.code == ERR_UNSUPPORTED, "the whole example asks for what is not built");
	ok(problems.n > 5 && problems.n <= 20, "the problems are listed one by one: %zu", problems.n);
	for (size_t i = 0; i < problems.n; i++)
		all = all && strstr(problems.v[i], "not built yet");
	ok(all, "each says so");
	like(e.text, "more)", "the one error text says that there are more");
	strv_fini(&problems);
}

/* The keys `watch`: each is read where its table says, and the normalized form gives them back. */
static void test_watch(void)
{
	static const char *const bad[][2] = {
	    {"{\"on_plateau\": \"rollback\"}", "watch.on_plateau: expected \"alert\", \"pin\", \"restart\""},
	    {"{\"on_nan\": \"explode\"}", "got \"explode\""},
	    {"{\"rising_steps\": 0}", "watch.rising_steps: expected a whole number from 1 to 1e+09"},
	    {"{\"spike_points\": 2.5}", "watch.spike_points: expected a whole number from 2 to 3"},
	    {"{\"heal_sigma\": \"3\"}", "watch.heal_sigma: expected a number from 0.5 to 100"},
	    {"{\"loss\": 3}", "watch.loss: expected the name of a metric"},
	    {"[]", "watch: expected an object"}};
	struct job_spec *s = must_parse("{" CMD "}"), *again;
	size_t n, found = 0;
	const struct spec_key *keys = spec_keys(&n);
	cJSON *o, *v;
	struct err e;

	ok(!s->n_rules && s->watch.conf.on[WATCH_NAN] == WATCH_PIN &&
	       s->watch.conf.on[WATCH_SLOW] == WATCH_ALERT && strcmp(s->watch.loss, "loss") == 0 &&
	       !*s->watch.throughput,
	   "without keys the watches alert and pin");
	spec_destroy(s);
	s = must_parse("{" CMD ", \"watch\": {\"loss\": \"train/loss\", \"on_spike\": \"rollback\", \"on_hang\": "
	               "\"restart\", \"margin_steps\": 7, \"slow_share\": 0.1, \"step\": null}}");
	ok(strcmp(s->watch.loss, "train/loss") == 0 && strcmp(s->watch.step, "step") == 0 &&
	       s->watch.conf.on[WATCH_SPIKE] == WATCH_ROLLBACK && s->watch.conf.on[WATCH_HANG] == WATCH_RESTART &&
	       s->watch.conf.margin_steps == 7 && s->watch.conf.slow_share == 0.1,
	   "keys of watch are read");
	o = spec_to_json(s);
	again = spec_from_json(o, &e);
	ok(again && memcmp(&again->watch, &s->watch, sizeof(s->watch)) == 0, "and written");
	cJSON_ArrayForEach (v, cJSON_GetObjectItem(o, "watch"))
		for (size_t i = 0; i < n; i++)
			found += strncmp(keys[i].path, "watch.", 6) == 0 && strcmp(keys[i].path + 6, v->string) == 0 &&
			         keys[i].built;
	is_int(found, cJSON_GetArraySize(cJSON_GetObjectItem(o, "watch")),
	       "each has its line in the table of keys");
	cJSON_Delete(o);
	spec_destroy(again);
	spec_destroy(s);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[200];

		snprintf(text, sizeof(text), "{" CMD ", \"watch\": %s}", bad[i][0]);
		ok(!parse(text, &e) && strstr(e.text, bad[i][1]), "refused: %s", bad[i][0]);
	}
}

static void test_rules(void)
{
	static const char *const bad[][2] = {
	    {"{}", "rules: expected a list"},
	    {"[{\"metric\": \"m\", \"above\": 1}]", "rules[0]: needs a name"},
	    {"[{\"name\": \"a\"}]", "needs a metric or a pattern, and not both"},
	    {"[{\"name\": \"a\", \"metric\": \"m\", \"pattern\": \"x\", \"above\": 1}]", "and not both"},
	    {"[{\"name\": \"a\", \"metric\": \"m\"}]", "needs \"above\" or \"below\""},
	    {"[{\"name\": \"a\", \"metric\": \"m\", \"above\": 1, \"below\": 2}]",
	     "needs \"above\" or \"below\""},
	    {"[{\"name\": \"a\", \"pattern\": \"(\"}]", "rules[0].pattern"},
	    {"[{\"name\": \"a\", \"pattern\": \"\"}]", "the pattern is empty"},
	    {"[{\"name\": \"a\", \"pattern\": \"x\", \"absent_s\": 0.5}]", "expected a number from 1 to 604800"},
	    {"[{\"name\": \"a\", \"pattern\": \"x\", \"above\": 5}]", "are for a metric"},
	    {"[{\"name\": \"a\", \"pattern\": \"x\", \"action\": \"shout\"}]", "got \"shout\""},
	    {"[{\"name\": \"a\", \"pattern\": \"x\", \"budget\": 1001}]", "rules[0].budget"},
	    {"[{\"name\": \"a\", \"pattern\": \"x\", \"patern\": \"x\"}]", "did you mean \"pattern\"?"},
	    {"[{\"name\": \"a\", \"pattern\": \"x\"}, {\"name\": \"a\", \"pattern\": \"y\"}]",
	     "another rule is called \"a\""}};
	struct job_spec *s = must_parse("{" CMD ", \"rules\": [{\"name\": \"gradients\", \"metric\": "
	                                "\"grad_norm\", \"above\": 1000, \"for_steps\": 20}, "
	                                "{\"name\": \"quiet\", \"pattern\": \"step=\", \"absent_s\": 600, "
	                                "\"action\": \"restart\", \"budget\": 2}]}");
	char text[8192] = "{" CMD ", \"rules\": [";
	cJSON *a = spec_to_json(s), *b;
	struct job_spec *again;
	struct err e;

	ok(s->n_rules == 2 && s->rules[0].above == 1000 && s->rules[0].for_steps == 20 &&
	       s->rules[0].budget == 3 && s->rules[1].absent_s == 600 && s->rules[1].action == WATCH_RESTART &&
	       s->rules[1].budget == 2,
	   "rules are read");
	again = spec_from_json(a, &e);
	b = again ? spec_to_json(again) : NULL;
	ok(b && cJSON_Compare(a, b, 1), "and written");
	cJSON_Delete(a);
	cJSON_Delete(b);
	spec_destroy(again);
	spec_destroy(s);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char one[300];

		snprintf(one, sizeof(one), "{" CMD ", \"rules\": %s}", bad[i][0]);
		ok(!parse(one, &e) && strstr(e.text, bad[i][1]), "refused: %s", bad[i][0]);
	}
	for (int i = 0; i < 33; i++)
		snprintf(text + strlen(text), 60, "%s{\"name\": \"r%d\", \"pattern\": \"x\"}", i ? ", " : "", i);
	snprintf(text + strlen(text), sizeof(text) - strlen(text), "]}");
	ok(!parse(text, &e) && strstr(e.text, "has 33 entries; at most 32 are allowed"),
	   "more rules than the bound");
}

static void test_checkpoint(void)
{
	struct err e;
	struct job_spec *s = must_parse("{" CMD ", \"checkpoint\": {\"uri\": \"file:///c\", \"keep_last\": 5}}");

	is_str(s->checkpoint_uri, "file:///c", "the folder for copies");
	is_int(s->keep_last, 5, "how many are kept");
	spec_destroy(s);
	ok(!parse("{" CMD ", \"checkpoint\": {\"keep_last\": 0}}", &e) && strstr(e.text, "checkpoint.keep_last"),
	   "none are refused");
	ok(!parse("{" CMD ", \"checkpoint\": {\"uri\": \"s3://b\"}}", &e) && strstr(e.text, "checkpoint.uri"),
	   "other places are refused");
}

static void test_collects(void)
{
	struct strv problems = {0};
	struct err e;
	const char *text =
	    "{\"name\": 5, \"priority\": \"x\", \"command\": 1, \"resources\": {\"instances\": 0}, \"bogus\": 1}";
	char many[4096] = "{" CMD;

	ok(!spec_parse_list(text, strlen(text), &problems, &e), "several mistakes");
	is_int(problems.n, 5, "all are found");
	strv_fini(&problems);
	like(e.text, "name: expected a string", "first");
	like(e.text, "\nbogus: unknown key", "last, on its own line");
	for (int i = 0; i < 50; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), ", \"unknown_key_number_%d\": 1", i);
	snprintf(many + strlen(many), sizeof(many) - strlen(many), "}");
	ok(!spec_parse_list(many, strlen(many), &problems, &e), "fifty mistakes");
	is_int(problems.n, 21, "twenty are listed");
	is_str(problems.v[20], "and 30 more", "thirty counted");
	ok(strlen(e.text) < sizeof(e.text) - 4 && !strstr(e.text, "..."), "the one text holds whole lines");
	strv_fini(&problems);
}

/* ---- good documents -------------------------------------------------------------------------------- */

static void test_defaults(void)
{
	struct job_spec *s = must_parse("{" CMD "}");
	cJSON *again;

	ok(s->preemptible, "it may be stopped for others");
	is_str(s->name, "job", "name");
	is_str(s->experiment, "", "experiment");
	is_int(spec_nodes(s), 1, "one node");
	is_int(spec_ranks(s), 1, "one rank");
	is_int(s->groups[0].gpus_per_instance, 0, "no GPU");
	is_int(s->groups[0].cpus_per_rank, 1, "one CPU");
	is_int(s->memory_bytes, 0, "no memory limit");
	is_str(s->queue, "default", "queue");
	is_int(s->max_runtime_s, 0, "administrator's run time");
	is_int(s->resume_step, -1, "no step");
	ok(!s->resume_job && !s->output_uri && !s->source_dir && !s->span && !s->requirements, "nothing else");
	spec_destroy(s);
	s = must_parse("{" CMD ", \"resources\": {\"instances\": 3, \"gpus_per_instance\": 4}}");
	is_int(s->groups[0].ranks_per_instance, 4, "a rank for each GPU");
	is_int(spec_ranks(s), 12, "world size");
	spec_destroy(s);
	s = must_parse("{" CMD ", \"resources\": {\"gpus_per_instance\": 8, \"ranks_per_instance\": 1, "
	               "\"gpu_model\": \"NVIDIA H200\","
	               "\"gpu_memory\": \"80GB\", \"gpu_visibility\": \"one\", \"exclusive\": true,"
	               "\"instance_type\": [\"ml.p5.48xlarge\", \"ml.p4d.24xlarge\"], \"requires\": "
	               "[\"zone=a\"], \"memory\": 1048576}}");
	is_int(s->groups[0].ranks_per_instance, 1, "one rank over eight GPUs");
	is_str(s->gpu_model, "NVIDIA H200", "model");
	is_int(s->gpu_memory_bytes, 80000000000, "GPU memory");
	is_int(s->memory_bytes, 1048576, "memory as a number");
	ok(s->gpu_visibility_one && s->exclusive && s->instance_types.n == 2, "visibility, exclusive, types");
	spec_destroy(s);
	s = must_parse("{" CMD ", \"preemptible\": false}");
	again = spec_to_json(s);
	ok(!s->preemptible && cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(again, "preemptible")),
	   "or may not, and that is kept");
	cJSON_Delete(again);
	spec_destroy(s);
	s = must_parse("{\"command\": [\"sh\", \"-c\", \"a\\nb\\tc\"], \"notes\": \"two\\nlines\"}");
	is_str(s->command.v[2], "a\nb\tc", "a script as an argument keeps its lines");
	spec_destroy(s);
	s = must_parse("{" CMD
	               ", \"name\": null, \"resources\": null, \"hyperparameters\": null, \"metrics\": null}");
	is_str(s->name, "job", "null is as if left out");
	spec_destroy(s);
}

static void test_mpi_options(void)
{
	struct job_spec *s = must_parse(
	    "{" CMD ", \"mpi_options\": [\"-mca\", \"pml\", \"ob1\", \"--mca\", \"btl_tcp_if_include\", \"eth0\","
	    " \"--mca\", \"coll_tuned_use_dynamic_rules\", \"1\", \"--mca\", \"mpi_show_handle_leaks\", "
	    "\"-1\"]}");

	is_int(s->mpi_options.n, 12, "four settings");
	is_str(s->mpi_options.v[0], "--mca", "in one spelling");
	is_str(s->mpi_options.v[2], "ob1", "value");
	spec_destroy(s);
}

static void test_hps(void)
{
	static const struct {
		const char *json, *text;
		enum spec_value type;
	} cases[] = {
	    {"5", "5", SPEC_INT},
	    {"5.0", "5", SPEC_INT},
	    {"-3", "-3", SPEC_INT},
	    {"1e3", "1000", SPEC_INT},
	    {"9007199254740992", "9007199254740992", SPEC_INT},
	    {"0.1", "0.1", SPEC_REAL},
	    {"1e-05", "1e-05", SPEC_REAL},
	    {"3.141592653589793", "3.141592653589793", SPEC_REAL},
	    {"0.30000000000000004", "0.30000000000000004", SPEC_REAL},
	    {"1e20", "1e+20", SPEC_REAL},
	    {"100000000000000000000", "1e+20", SPEC_REAL},
	    {"true", "true", SPEC_BOOL},
	    {"false", "false", SPEC_BOOL},
	    {"\"12345678901234567890\"", "12345678901234567890", SPEC_STR},
	    {"\"\"", "", SPEC_STR},
	    {"\"ünïcode \\\"q\\\"\"", "ünïcode \"q\"", SPEC_STR},
	    {"[1, 2.5, \"x\"]", "[1,2.5,\"x\"]", SPEC_JSON},
	    {"{\"a\": {\"b\": null}}", "{\"a\":{\"b\":null}}", SPEC_JSON},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[256];
		struct job_spec *s;

		snprintf(text, sizeof(text), "{" CMD ", \"hyperparameters\": {\"x\": %s}}", cases[i].json);
		s = must_parse(text);
		is_str(s->hps[0].text, cases[i].text, cases[i].json);
		is_int(s->hps[0].type, cases[i].type, "its type");
		spec_destroy(s);
	}
}

/* ---- groups ---------------------------------------------------------------------------------------- */

static const char groups_text[] =
    "{\"groups\": [{\"name\": \"chief\", \"command\": [\"chief.py\"]},"
    "{\"name\": \"worker\", \"instances\": 3, \"gpus_per_instance\": 2, \"command\": [\"w.py\"]},"
    "{\"name\": \"ps\", \"instances\": 2, \"ranks_per_instance\": 1, \"cpus_per_rank\": 8, \"command\": "
    "[\"ps.py\"]}],"
    "\"resources\": {\"cpus_per_rank\": 3}}";

static void test_groups(void)
{
	struct job_spec *s = must_parse(groups_text);

	is_int(s->n_groups, 3, "three groups");
	is_int(spec_nodes(s), 6, "nodes");
	is_int(spec_ranks(s), 1 + 6 + 2, "ranks");
	ok(s->has_groups, "given");
	is_str(spec_group_of(s, 0)->name, "chief", "first node");
	is_str(spec_group_of(s, 3)->name, "worker", "fourth");
	is_str(spec_group_of(s, 5)->name, "ps", "last");
	ok(!spec_group_of(s, 6), "none beyond");
	is_int(s->groups[0].cpus_per_rank, 3, "CPUs of resources");
	is_int(s->groups[2].cpus_per_rank, 8, "own CPUs");
	spec_destroy(s);
}

/* ---- normalized form -------------------------------------------------------------------------------- */

static char *normalized(const struct job_spec *s)
{
	cJSON *json = spec_to_json(s);
	char *text = json_text(json);

	cJSON_Delete(json);
	return text;
}

static void check_round(const char *text, const char *what)
{
	struct job_spec *s = must_parse(text), *back;
	char *one = normalized(s), *two;

	back = must_parse(one);
	two = normalized(back);
	is_str(two, one, what);
	ok(back->n_hps == s->n_hps && back->n_groups == s->n_groups && back->n_inputs == s->n_inputs &&
	       back->memory_bytes == s->memory_bytes && spec_ranks(back) == spec_ranks(s),
	   "same counts");
	for (size_t i = 0; i < s->n_hps; i++)
		ok(back->hps[i].type == s->hps[i].type && strcmp(back->hps[i].text, s->hps[i].text) == 0,
		   "same hyperparameter %zu", i);
	free(one);
	free(two);
	spec_destroy(s);
	spec_destroy(back);
}

static void test_normalized(void)
{
	char text[8192];

	check_round("{" CMD "}", "the shortest job");
	snprintf(text, sizeof(text), "%s}", example);
	check_round(text, "the example");
	check_round(groups_text, "groups");
	check_round("{" CMD ", \"hyperparameters\": {\"a\": 0.30000000000000004, \"b\": 1e-300, \"c\": [1, "
	            "{\"d\": \"\\n\"}], \"e\": true,"
	            " \"f\": 9007199254740991, \"g\": \"x\\ny\", \"h\": 1e20}, \"environment\": {\"A\": "
	            "\"\\t=b\"}, \"resources\":"
	            " {\"instance_type\": \"t\", \"memory\": \"1.5GB\"}, \"inputs\": {\"a\": {\"uri\": "
	            "\"https://h/x.tar\", \"unpack\": true,"
	            " \"sha256\": \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"},"
	            " \"b\": {\"uri\": \"file:///x y\", \"mode\": \"link\"}},"
	            " \"resume_from\": \"file:///ckpt/5\", \"launcher\": \"direct\", \"limits\": {\"grace_s\": "
	            "0}, \"priority\": -7}",
	            "odd values");
	check_round("{" CMD ", \"resume_from\": \"job:9\", \"mpi_options\": [\"--mca\", \"pml\", \"ob1\"]}",
	            "resume at the latest");
}

/* ---- limits and tables ------------------------------------------------------------------------------ */

static void test_limits(void)
{
	struct err e;
	char *big = xmalloc(SPEC_MAX_BYTES + 2);
	size_t n;

	memset(big, ' ', SPEC_MAX_BYTES + 1);
	ok(!spec_parse(big, SPEC_MAX_BYTES + 1, &e) && e.code == ERR_LIMIT, "a document over the limit");
	snprintf(big, SPEC_MAX_BYTES, "{" CMD ", \"hyperparameters\": {\"a\": \"%*s\"}}", 60000, "x");
	ok(!parse(big, &e), "hyperparameters beyond what an environment holds");
	like(e.text, "hyperparameters: are", "named");
	n = (size_t)snprintf(big, SPEC_MAX_BYTES, "{\"command\": [\"x\"");
	for (size_t i = 0; i < 5000; i++)
		n += (size_t)snprintf(big + n, SPEC_MAX_BYTES - n, ",\"a\"");
	snprintf(big + n, SPEC_MAX_BYTES - n, "]}");
	ok(!parse(big, &e), "too many arguments");
	golden("job/spec-command-has-entries-at-most", e.text, "5001", "4096");
	free(big);
}

static void test_keys(void)
{
	size_t n, built = 0, unnamed = 0;
	const struct spec_key *keys = spec_keys(&n);

	for (size_t i = 0; i < n; i++) {
		built += (size_t)keys[i].built;
		unnamed += !*keys[i].path || !*keys[i].type || !*keys[i].help || !keys[i].dflt;
		for (size_t k = 0; k < i; k++)
			if (strcmp(keys[i].path, keys[k].path) == 0)
				ok(0, "%s stands twice", keys[i].path);
	}
	ok(n > 70 && built > 45 && !unnamed, "%zu keys, %zu built, each with type and help", n, built);
	is_str(launcher_name(LAUNCHER_TORCHRUN), "torchrun", "launcher's name");
	spec_destroy(NULL);
}

/* docs/spec/06-job.md has a row for each key, and its example is a job. */
static void test_document(void)
{
	const char *top = getenv("HEARTH_TOP_SRCDIR");
	char *path = xasprintf("%s/docs/spec/06-job.md", top ? top : "."), *text, *start, *end;
	size_t n, missing = 0;
	const struct spec_key *keys = spec_keys(&n);
	struct err e;

	if (fs_read_file(path, 1 << 20, &text, &(size_t){0}, &e) < 0) {
		free(path);
		tap_skip("docs/spec/06-job.md is not here");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		char *row = xasprintf("| `%s` | %s | ", keys[i].path, keys[i].type), *at = strstr(text, row);

		if (!at || !strstr(at, keys[i].help) || !strstr(at, keys[i].dflt)) {
			tap_diag("no row like: %s%s | %s", row, keys[i].dflt, keys[i].help);
			missing++;
		}
		free(row);
	}
	is_int(missing, 0, "each key has its row in the document");
	start = strstr(text, "```json\n");
	end = start ? strstr(start + 8, "```") : NULL;
	if (end) {
		*end = '\0';
		spec_destroy(must_parse(start + 8));
	}
	ok(end, "its example is a job");
	free(text);
	free(path);
}

/* Documents made by hand may hold what the reader of text refuses. */
static void test_from_json(void)
{
	cJSON *root = cJSON_Parse("{\"command\": [\"a\"], \"groups\": [{\"name\": \"a\"}], \"groups\": "
	                          "[{\"name\": \"b\"}, {\"name\": \"c\"}]}");
	struct err e;
	struct job_spec *s = spec_from_json(root, &e);

	ok(!s, "a key given twice");
	like(e.text, "groups: is given twice", "is named");
	cJSON_Delete(root);
}

int main(void)
{
	test_after();
	test_reserved();
	test_every_reserved_key();
	test_example();
	test_watch();
	test_rules();
	test_checkpoint();
	test_collects();
	test_defaults();
	test_mpi_options();
	test_hps();
	test_groups();
	test_normalized();
	test_limits();
	test_keys();
	test_from_json();
	test_document();
	return tap_done();
}
