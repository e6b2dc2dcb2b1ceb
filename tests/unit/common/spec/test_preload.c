/*
 * test_preload: which commands and environments an interpreter that waits fits, and the keys
 * warm_pool.preload and warm_pool.cuda_context.
 */
#include "common/spec/preload.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "tests/lib/tap.h"

/* Splits a command whose arguments are separated by spaces. */
static struct strv words(const char *text)
{
	struct strv out = {0};
	char *copy = xstrdup(text), *save = NULL;

	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		strv_add(&out, w);
	free(copy);
	return out;
}

static void test_split(void)
{
	static const struct {
		const char *command;
		size_t options;
		int module;
		const char *refused; /* a part of the sentence; NULL: it fits */
	} cases[] = {
	    {"python train.py", 0, 0, NULL},
	    {"/opt/venv/bin/python3.11 -u train.py -c 3", 1, 0, NULL},
	    {"python3 -uO -OO -I -W ignore -Wonce -X faulthandler -Xdev t.py --x", 9, 0, NULL},
	    {"python3 -uW ignore t.py", 2, 0, NULL},
	    {"python3 -m pkg.train --lr 1", 0, 1, NULL},
	    {"python3 -B -m pkg", 1, 1, NULL},
	    {"python3 -bdEPqRsS t.py", 1, 0, NULL},
	    {"python3 -c print(1)", 0, 0, "-c runs a text"},
	    {"python3 -i t.py", 0, 0, "-i waits for a terminal"},
	    {"python3 -ui t.py", 0, 0, "-i waits for a terminal"},
	    {"python3 -x t.py", 0, 0, "-x skips the first line"},
	    {"python3 -v t.py", 0, 0, "-v reports the imports"},
	    {"python3 -um pkg", 0, 0, "write -m and the module as arguments of their own"},
	    {"python3 -mpkg", 0, 0, "write -m and the module"},
	    {"python3 -h", 0, 0, "\"-h\" is not an option"},
	    {"python3 --version", 0, 0, "\"--version\" is not an option"},
	    {"python3", 0, 0, "names no script and no module"},
	    {"python3 -u", 0, 0, "names no script and no module"},
	    {"python3 -m", 0, 0, "names no script and no module"},
	    {"python3 -W", 0, 0, "names no script and no module"},
	    {"python3 -X", 0, 0, "names no script and no module"},
	    {"python3 - a", 0, 0, "standard input"},
	    {"bash -c x", 0, 0, "does not begin with a Python interpreter, but with \"bash\""},
	    {"/usr/bin/pythonista t.py", 0, 0, "does not begin with a Python interpreter"},
	    {"./train.py", 0, 0, "does not begin with a Python interpreter"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct strv argv = words(cases[i].command);
		struct preload_command c = {77, 77};
		struct err e = {.code = ERR_NONE};
		int rc = preload_split(&argv, &c, &e);

		if (cases[i].refused)
			ok(rc < 0 && strstr(e.text, cases[i].refused) && c.options == 77, "%s: %s", cases[i].command,
			   rc < 0 ? e.text : "accepted");
		else
			ok(rc == 0 && c.options == cases[i].options && c.module == cases[i].module,
			   "%s: %zu options, module %d", cases[i].command, c.options, c.module);
		strv_fini(&argv);
	}
}

static void test_same(void)
{
	static const struct {
		const char *a, *b;
		int same;
	} cases[] = {
	    {"python3 -u a.py --x 1", "python3 -u -m b", 1}, {"python3 a.py", "python3 b.py", 1},
	    {"python3 -u a.py", "python3 a.py", 0},          {"python3 -u a.py", "python3 -O a.py", 0},
	    {"python3 a.py", "/usr/bin/python3 a.py", 0},    {"python3 a.py", "sh a.py", 0},
	    {"python3 -W a b.py", "python3 -W b b.py", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct strv a = words(cases[i].a), b = words(cases[i].b);

		is_int(preload_same_interpreter(&a, &b), cases[i].same, cases[i].b);
		is_int(preload_same_interpreter(&b, &a), cases[i].same, cases[i].a);
		strv_fini(&a);
		strv_fini(&b);
	}
}

static void test_late_safe(void)
{
	static const char *const safe[] = {"RANK",
	                                   "LOCAL_RANK",
	                                   "WORLD_SIZE",
	                                   "MASTER_ADDR",
	                                   "MASTER_PORT",
	                                   "TF_CONFIG",
	                                   "HEARTH_JOB",
	                                   "SM_HP_LR",
	                                   "OMPI_COMM_WORLD_RANK",
	                                   "PMIX_NAMESPACE",
	                                   "TORCHELASTIC_RUN_ID",
	                                   "TRAINING_JOB_NAME",
	                                   "PWD"};
	static const char *const early[] = {"OMP_NUM_THREADS",
	                                    "LD_PRELOAD",
	                                    "PYTHONPATH",
	                                    "PYTHONHASHSEED",
	                                    "CUDA_VISIBLE_DEVICES",
	                                    "MALLOC_ARENA_MAX",
	                                    "MKL_NUM_THREADS",
	                                    "NCCL_DEBUG",
	                                    "PATH",
	                                    "HOME",
	                                    "LANG",
	                                    "TZ",
	                                    "RANKS",
	                                    "RAN",
	                                    "TF_CONFIG2",
	                                    "SEED",
	                                    ""};

	for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++)
		ok(preload_late_safe(safe[i]), "%s may follow", safe[i]);
	for (size_t i = 0; i < sizeof(early) / sizeof(early[0]); i++)
		ok(!preload_late_safe(early[i]), "\"%s\" must be known before", early[i]);
}

static void test_env(void)
{
	static const struct {
		const char *a, *b, *name;
	} cases[] = {
	    {"A=1 RANK=0 B=2", "B=2 RANK=1 A=1", NULL},
	    {"A=1", "A=2", "A"},
	    {"A=1 A=2", "A=2", NULL},
	    {"A=1", "A=1 B=", "B"},
	    {"B= A=1", "A=1", "B"},
	    {"A=1 MASTER_PORT=1", "A=1", NULL},
	    {"AB=1", "A=B=1", "AB"},
	    {"OMP_NUM_THREADS=1 Z=1", "OMP_NUM_THREADS=2 Z=2", "OMP_NUM_THREADS"},
	    {"", "", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct strv a = words(cases[i].a), b = words(cases[i].b);
		char *name = preload_env_differs(&a, &b);

		is_str(name ? name : "none", cases[i].name ? cases[i].name : "none", cases[i].b);
		free(name);
		strv_fini(&a);
		strv_fini(&b);
	}
}

static struct job_spec *must_parse(const char *text)
{
	struct err e;
	struct job_spec *s = spec_parse(text, strlen(text), &e);

	if (!s)
		tap_bail("%s\n%s", text, e.text);
	return s;
}

#define TORCH                                                                                                \
	"\"resources\": {\"gpus_per_instance\": 1}, \"warm_pool\": {\"keep_alive_s\": 60, \"preload\": "         \
	"[\"torch\", \"torch.distributed\"], \"cuda_context\": true}"

static void test_spec_keys(void)
{
	struct job_spec *s = must_parse("{\"command\": [\"python3\", \"-u\", \"t.py\", \"x\"], " TORCH "}"),
	                *again;
	struct strv argv = {0};
	cJSON *json = spec_to_json(s);
	char *one = json_text(json), *two;
	struct err e;

	ok(s->preload.n == 2 && s->cuda_context, "preload and cuda_context are read");
	cJSON_Delete(json);
	again = spec_parse(one, strlen(one), &e);
	json = spec_to_json(again);
	two = json_text(json);
	is_str(two, one, "the normalized form gives them back");
	preload_park_argv(&s->command, s, "/x/hearth-park", &argv);
	ok(argv.n == 6 && strcmp(argv.v[1], "-u") == 0 && strcmp(argv.v[2], "/x/hearth-park") == 0 &&
	       strcmp(argv.v[3], "--cuda-context") == 0 && strcmp(argv.v[5], "torch.distributed") == 0,
	   "the command of the interpreter that waits");
	cJSON_Delete(json);
	strv_fini(&argv);
	free(one);
	free(two);
	spec_destroy(s);
	spec_destroy(again);
}

static void test_notes(void)
{
	static const struct {
		const char *text, *note;
	} cases[] = {
	    {"{\"command\": [\"python3\", \"t.py\"], " TORCH "}", NULL},
	    {"{\"command\": [\"sh\", \"t.sh\"], \"warm_pool\": {\"keep_alive_s\": 60}}", NULL},
	    {"{\"command\": [\"sh\", \"t.sh\"], " TORCH "}",
	     "warm_pool.preload: it is ignored: the command does not begin with a Python interpreter, but with "
	     "\"sh\""},
	    {"{\"command\": [\"python3\", \"t.py\"], \"launcher\": \"torchrun\", " TORCH "}",
	     "warm_pool.preload: it is ignored, because torchrun starts interpreters of its own"},
	    {"{\"command\": [\"python3\", \"t.py\"], \"groups\": [{\"name\": \"a\"}, {\"name\": \"b\", "
	     "\"command\": "
	     "[\"sleep\", \"1\"]}], \"warm_pool\": {\"preload\": [\"torch\"]}}",
	     "warm_pool.preload: it is ignored for the group \"b\": the command does not begin"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct job_spec *s = must_parse(cases[i].text);
		struct strv notes = {0};

		spec_notes(s, &notes);
		if (cases[i].note)
			ok(notes.n == 1 && strncmp(notes.v[0], cases[i].note, strlen(cases[i].note)) == 0, "noted: %s",
			   notes.n ? notes.v[0] : "nothing");
		else
			is_int(notes.n, 0, "nothing to note");
		strv_fini(&notes);
		spec_destroy(s);
	}
}

int main(void)
{
	test_split();
	test_same();
	test_late_safe();
	test_env();
	test_spec_keys();
	test_notes();
	return tap_done();
}
