/* Environment and files of a rank: a golden table, and what must not be there. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/command/env.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_plan.h"

static const char *const nodes[] = {"algo-1", "algo-2", "algo-3", NULL};
static const char *const addresses[] = {"10.77.0.1", "10.77.0.2", "10.77.0.3"};
static const char *const groups[] = {"chief", "worker", "worker"};
static const uint32_t ranks[] = {2, 2, 1};

static const char spec[] =
    "{\"name\":\"digits\",\"command\":[\"/usr/bin/python3\",\"-u\",\"train.py\"],"
    "\"hyperparameters\":{\"lr\":1e-4,\"epochs\":5,\"flag\":true,\"layers\":[1,2],\"note\":\"a "
    "b\",\"learning-rate\":0.10},"
    "\"environment\":{\"NCCL_DEBUG\":\"WARN\",\"WANDB_API_KEY\":\"s3cret\",\"PATH\":\"/opt/x/bin\"},"
    "\"inputs\":{\"train\":{\"uri\":\"file:///data/a\"},\"base.1\":{\"uri\":\"file:///data/b\"}},"
    "\"groups\":[{\"name\":\"chief\",\"instances\":1,\"ranks_per_instance\":2},"
    "{\"name\":\"worker\",\"instances\":2,\"ranks_per_instance\":2}]}";

static struct launch_paths paths = {
    .run = "/run/hearth/n/17.2", .work = "/d/jobs/17.2", .ml = "/d/jobs/17.2/ml", .ml_seen = "/opt/ml"};
static struct launch_user user = {
    .uid = 1000, .gid = 1000, .name = "ada", .home = "/home/ada", .shell = "/bin/bash"};

static struct plan *make(uint32_t node_rank)
{
	struct err e;
	struct plan *p = plan_create(test_prepare(spec, node_rank, nodes, addresses, ranks, groups), &e);

	if (!p)
		tap_bail("plan: %s", e.text);
	return p;
}

static struct env_in input(const struct plan *p, uint32_t local_rank)
{
	return (struct env_in){.plan = p,
	                       .paths = &paths,
	                       .user = &user,
	                       .local_rank = local_rank,
	                       .cpus = 3,
	                       .node_cpus = 6,
	                       .visible = "0,1",
	                       .ifname = "eth0",
	                       .instance_type = "cpu.small",
	                       .venv_bin = "/d/venv/bin",
	                       .tmpdir = "/tmp"};
}

/* NAME, value; NULL: must be unset */
static const char *const golden[][2] = {
    {"PATH", "/d/venv/bin:/opt/x/bin"},
    {"HOME", "/home/ada"},
    {"USER", "ada"},
    {"SHELL", "/bin/bash"},
    {"LANG", "C.UTF-8"},
    {"TMPDIR", "/tmp"},
    {"PYTHONUNBUFFERED", "1"},
    {"OMP_NUM_THREADS", "3"},
    {"RANK", "3"},
    {"LOCAL_RANK", "1"},
    {"WORLD_SIZE", "5"},
    {"LOCAL_WORLD_SIZE", "2"},
    {"NODE_RANK", "1"},
    {"MASTER_ADDR", "10.77.0.1"},
    {"MASTER_PORT", "20100"},
    {"NCCL_SOCKET_IFNAME", "eth0"},
    {"GLOO_SOCKET_IFNAME", "eth0"},
    {"CUDA_VISIBLE_DEVICES", "0,1"},
    {"OMPI_COMM_WORLD_RANK", "3"},
    {"OMPI_COMM_WORLD_SIZE", "5"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
    {"OMPI_COMM_WORLD_NODE_RANK", "1"},
    {"TF_CONFIG",
     "{\"cluster\":{\"chief\":[\"10.77.0.1:20101\",\"10.77.0.1:20102\"],\"worker\":[\"10.77.0.2:20103\","
     "\"10.77.0.2:20104\",\"10.77.0.3:20105\"]},\"task\":{\"type\":\"worker\",\"index\":1}}"},
    {"SM_HOSTS", "[\"algo-1\",\"algo-2\",\"algo-3\"]"},
    {"SM_CURRENT_HOST", "algo-2"},
    {"SM_NUM_GPUS", "0"},
    {"SM_NUM_CPUS", "6"},
    {"SM_NETWORK_INTERFACE_NAME", "eth0"},
    {"SM_HPS",
     "{\"lr\":0.0001,\"epochs\":5,\"flag\":true,\"layers\":[1,2],\"note\":\"a b\",\"learning-rate\":0.1}"},
    {"SM_HP_LR", "0.0001"},
    {"SM_HP_LEARNING-RATE", "0.1"},
    {"SM_HP_NOTE", "a b"},
    {"SM_CHANNELS", "[\"train\",\"base.1\"]"},
    {"SM_CHANNEL_TRAIN", "/opt/ml/input/data/train"},
    {"SM_CHANNEL_BASE.1", "/opt/ml/input/data/base.1"},
    {"SM_MODEL_DIR", "/opt/ml/model"},
    {"SM_OUTPUT_DATA_DIR", "/opt/ml/output/data"},
    {"SM_USER_ENTRY_POINT", "train.py"},
    {"SM_MODULE_NAME", "train"},
    {"SM_MODULE_DIR", "/opt/ml/code"},
    {"SM_CURRENT_INSTANCE_GROUP", "worker"},
    {"SM_CURRENT_INSTANCE_GROUP_HOSTS", "[\"algo-2\",\"algo-3\"]"},
    {"SM_INSTANCE_GROUPS", "[\"chief\",\"worker\"]"},
    {"SM_IS_HETERO", "true"},
    {"SM_HOST_COUNT", "3"},
    {"SM_CURRENT_HOST_RANK", "1"},
    {"TRAINING_JOB_NAME", "digits"},
    {"HEARTH_JOB", "17"},
    {"HEARTH_ATTEMPT", "2"},
    {"HEARTH_CHECKPOINT_DIR", "/opt/ml/checkpoints"},
    {"HEARTH_HOSTFILE", "/opt/ml/input/config/hostfile"},
    {"HEARTH_TENSORBOARD_DIR", "/opt/ml/output/tensorboard"},
    {"HEARTH_URL", "http://127.0.0.1:7070"},
    {"HEARTH_TOKEN", "job-token-secret"},
    {"HEARTH_METRICS_FD", "9"},
    {"HEARTH_TOKEN_LAUNCH", "launch-token-0001"},
    {"NCCL_DEBUG", "WARN"},
    {"HEARTH_RESUME_FROM", NULL},
    {"HEARTH_RESUME_STEP", NULL},
    {"HEARTH_SKIP_STEPS", NULL},
    {"OMPI_MCA_btl_vader_backing_directory", NULL},
    {"HEARTH_LAUNCH_TOKEN", NULL},
};

static const char *const sm_all[] = {"SM_HOSTS",
                                     "SM_NETWORK_INTERFACE_NAME",
                                     "SM_HPS",
                                     "SM_USER_ENTRY_POINT",
                                     "SM_FRAMEWORK_PARAMS",
                                     "SM_RESOURCE_CONFIG",
                                     "SM_INPUT_DATA_CONFIG",
                                     "SM_OUTPUT_DATA_DIR",
                                     "SM_CHANNELS",
                                     "SM_CURRENT_HOST",
                                     "SM_CURRENT_INSTANCE_TYPE",
                                     "SM_CURRENT_INSTANCE_GROUP",
                                     "SM_CURRENT_INSTANCE_GROUP_HOSTS",
                                     "SM_INSTANCE_GROUPS",
                                     "SM_INSTANCE_GROUPS_DICT",
                                     "SM_DISTRIBUTION_INSTANCE_GROUPS",
                                     "SM_IS_HETERO",
                                     "SM_MODULE_NAME",
                                     "SM_MODULE_DIR",
                                     "SM_LOG_LEVEL",
                                     "SM_FRAMEWORK_MODULE",
                                     "SM_INPUT_DIR",
                                     "SM_INPUT_CONFIG_DIR",
                                     "SM_OUTPUT_DIR",
                                     "SM_OUTPUT_INTERMEDIATE_DIR",
                                     "SM_NUM_CPUS",
                                     "SM_NUM_GPUS",
                                     "SM_NUM_NEURONS",
                                     "SM_MODEL_DIR",
                                     "SM_TRAINING_ENV",
                                     "SM_USER_ARGS",
                                     "SM_TOPOLOGY",
                                     "SM_MASTER_ADDR",
                                     "SM_MASTER_PORT",
                                     "SM_HOST_COUNT",
                                     "SM_CURRENT_HOST_RANK",
                                     "SM_SOURCE_DIR",
                                     "SM_ENTRY_SCRIPT",
                                     "SM_DISTRIBUTED_CONFIG",
                                     "SM_OUTPUT_FAILURE"};

static void test_golden(void)
{
	struct plan *p = make(1);
	struct env_in in = input(p, 1);
	struct strv env = {0}, masked = {0};
	cJSON *json;

	setenv("AGENT_OWN_VARIABLE", "leak", 1);
	env_rank(&in, &env);
	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++)
		is_str(strv_getenv(&env, golden[i][0]), golden[i][1], golden[i][0]);
	for (size_t i = 0; i < sizeof(sm_all) / sizeof(sm_all[0]); i++)
		ok(strv_getenv(&env, sm_all[i]) != NULL, "%s is set", sm_all[i]);
	is_str(strv_getenv(&env, "AGENT_OWN_VARIABLE"), NULL, "nothing of the agent's environment");
	is_str(strv_getenv(&env, "SM_USER_ARGS"),
	       "[\"--epochs\",\"5\",\"--flag\",\"true\",\"--layers\",\"[1,2]\",\"--learning-rate\",\"0.1\",\"--"
	       "lr\",\"0.0001\","
	       "\"--note\",\"a b\"]",
	       "SM_USER_ARGS");
	json = cJSON_Parse(strv_getenv(&env, "SM_TRAINING_ENV"));
	ok(json && cJSON_GetObjectItem(json, "hyperparameters"), "SM_TRAINING_ENV is JSON");
	cJSON_Delete(json);
	env_masked(&env, &masked);
	is_str(strv_getenv(&masked, "WANDB_API_KEY"), "***", "a secret is masked");
	is_str(strv_getenv(&masked, "HEARTH_TOKEN"), "***", "the job's token too");
	is_str(strv_getenv(&masked, "RANK"), "3", "the rest is plain");
	ok(strcmp(strv_getenv(&masked, "SM_HPS"), strv_getenv(&env, "SM_HPS")) == 0,
	   "without secrets JSON is untouched");
	strv_fini(&env);
	strv_fini(&masked);
	plan_destroy(p);
}

static void test_variants(void)
{
	struct plan *p = make(0);
	struct env_in in = input(p, NO_RANK);
	struct strv env = {0}, left_out = {0};

	free(p->m->skip_steps);
	p->m->skip_steps = xstrdup("10-20,30-30");
	p->m->resume_step = 1200;
	in.resume_dir = "/opt/ml/checkpoints";
	in.shm_dir = "/dev/shm/x";
	in.visible = NULL;
	in.venv_bin = NULL;
	in.mpi_bin = "/opt/ompi/bin";
	env_rank(&in, &env);
	is_str(strv_getenv(&env, "RANK"), NULL, "torchrun sets the ranks itself");
	is_str(strv_getenv(&env, "HEARTH_RESUME_FROM"), "/opt/ml/checkpoints", "resume");
	is_str(strv_getenv(&env, "HEARTH_RESUME_STEP"), "1200", "its step");
	is_str(strv_getenv(&env, "HEARTH_SKIP_STEPS"), "10-20,30-30", "steps to skip");
	is_str(strv_getenv(&env, "CUDA_VISIBLE_DEVICES"), NULL, "not set when unknown");
	is_str(strv_getenv(&env, "OMPI_MCA_btl_vader_backing_directory"), "/dev/shm/x",
	       "own shared memory folder");
	is_str(strv_getenv(&env, "PATH"), "/opt/ompi/bin:/opt/x/bin", "an Open MPI elsewhere is found");
	strv_fini(&env);
	in.tools_bin = "/h/build/agent";
	env_rank(&in, &env);
	is_str(strv_getenv(&env, "PATH"), "/opt/ompi/bin:/opt/x/bin:/h/build/agent", "hearth-ckpt is found last");
	in.tools_bin = "/usr/local/bin";
	strv_fini(&env);
	env_rank(&in, &env);
	is_str(strv_getenv(&env, "PATH"), "/opt/ompi/bin:/opt/x/bin", "an installed one as any other program");
	in.tools_bin = NULL;
	strv_fini(&env);

	env_launcher(&in, "/run/a.sock", &env);
	is_str(strv_getenv(&env, "HEARTH_LAUNCH_DIR"), "/run/hearth/n/17.2", "launcher knows the shims");
	is_str(strv_getenv(&env, "HEARTH_AGENT_SOCK"), "/run/a.sock", "and the agent");
	is_str(strv_getenv(&env, "HEARTH_TOKEN"), NULL, "but has no token of the job");
	is_str(strv_getenv(&env, "NCCL_DEBUG"), NULL, "nor its variables");
	is_str(env.v[0], "HEARTH_TOKEN_LAUNCH=launch-token-0001", "it carries the mark, before all others");
	strv_fini(&env);

	free(p->m->job_token);
	p->m->job_token = xcalloc(1, 200000);
	memset(p->m->job_token, 'x', 199999);
	in.left_out = &left_out;
	env_rank(&in, &env);
	ok(left_out.n >= 1 && strcmp(left_out.v[0], "HEARTH_TOKEN") == 0,
	   "a value that the kernel refuses is named");
	strv_fini(&left_out);
	strv_fini(&env);
	plan_destroy(p);
}

static void test_files(void)
{
	struct plan *p = make(2);
	struct env_in in = input(p, 0);
	const char *dir = tap_tmpdir();
	struct err e = {0};
	char path[4096], *text;

	is_int(env_files(&in, dir, &e), 0, "files are written");
	snprintf(path, sizeof(path), "%s/hyperparameters.json", dir);
	fs_read_file(path, 65536, &text, NULL, &e);
	like(text, "\"epochs\":\"5\"", "all values are strings");
	free(text);
	snprintf(path, sizeof(path), "%s/resourceconfig.json", dir);
	fs_read_file(path, 65536, &text, NULL, &e);
	like(text, "\"current_host\":\"algo-3\"", "resourceconfig.json");
	free(text);
	snprintf(path, sizeof(path), "%s/hostfile", dir);
	fs_read_file(path, 65536, &text, NULL, &e);
	is_str(text, "algo-1 slots=2 # 10.77.0.1\nalgo-2 slots=2 # 10.77.0.2\nalgo-3 slots=1 # 10.77.0.3\n",
	       "hostfile");
	free(text);
	plan_destroy(p);
}

static void test_entry_point(void)
{
	static const struct {
		const char *argv[5], *want;
	} rows[] = {{{"python3", "train.py", NULL}, "train.py"},
	            {{"/usr/bin/python3.11", "-u", "-W", "ignore", NULL}, "/usr/bin/python3.11"},
	            {{"python3", "-m", "pkg.train", NULL}, "pkg.train"},
	            {{"python3", "-c", "print(1)", NULL}, "python3"},
	            {{"./a.out", "x", NULL}, "./a.out"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct strv argv = {0};

		for (size_t k = 0; rows[i].argv[k]; k++)
			strv_add(&argv, rows[i].argv[k]);
		is_str(env_entry_point(&argv), rows[i].want, rows[i].want);
		strv_fini(&argv);
	}
}

static void test_plan(void)
{
	static const uint32_t no_ranks[] = {2, 0, 1};
	struct plan *p = make(1), *again;
	const char *dir = tap_tmpdir();
	struct wm_prepare *m;
	struct err e = {0};

	is_int(p->world, 5, "world");
	is_int(p->first_rank, 2, "first rank of the second node");
	is_int(plan_node_index(p, "algo-3"), 2, "index of a name");
	is_int(plan_node_index(p, "algo-4"), -1, "no such name");
	is_int(plan_save(p, dir, &e), 0, "saved");
	again = plan_load(dir, &e);
	ok(again && again->world == 5 && strcmp(again->m->token, "launch-token-0001") == 0, "loaded");
	plan_destroy(again);
	plan_destroy(p);

	m = test_prepare(spec, 3, nodes, addresses, ranks, groups);
	ok(!plan_create(m, &e), "node rank outside");
	like(e.text, "node rank 3 of 3", "says so");
	m = test_prepare(spec, 0, nodes, addresses, no_ranks, groups);
	ok(!plan_create(m, &e), "a node without ranks");
	m = test_prepare(spec, 0, nodes, addresses, ranks, groups);
	m->gang->data[3]++;
	ok(!plan_create(m, &e), "a table that is malformed");
	like(e.text, "gang's table", "says so");
	m = test_prepare("{\"name\":\"x\",\"command\":[\"a\"]}", 0, nodes, addresses, ranks, groups);
	ok(!plan_create(m, &e), "spec of another size");
	like(e.text, "asks for 1 nodes", "says so");
}

int main(void)
{
	test_golden();
	test_variants();
	test_files();
	test_entry_point();
	test_plan();
	return tap_done();
}
