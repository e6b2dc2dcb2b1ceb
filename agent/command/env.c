/*
 * env: see env.h. The names and their meaning: docs of torch.distributed, Open MPI's mpirun(1), and the
 * script mode of the managed service, whose scripts run here unchanged. JSON texts: env_json.c.
 */
#include "agent/command/env.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/command/env_json.h"
#include "common/base/secret.h"
#include "common/base/strutil.h"
#include "shim/shim.h"

#define BASE_PATH "/usr/local/bin:/usr/bin:/bin"

static void put_variable(const struct env_in *in, struct strv *out, const char *name, const char *value)
{
	if (!value)
		value = "";
	if (strlen(name) + strlen(value) > ENV_VALUE_MAX) {
		if (in->left_out)
			strv_add(in->left_out, name);
		return;
	}
	strv_setenv(out, name, value);
}

static void put_take(const struct env_in *in, struct strv *out, const char *name, char *value)
{
	put_variable(in, out, name, value);
	free(value);
}

static void put_u(const struct env_in *in, struct strv *out, const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	put_variable(in, out, name, text);
}

static void put_path(const struct env_in *in, struct strv *out, const char *name, const char *below)
{
	put_take(in, out, name, xasprintf("%s/%s", in->paths->ml_seen, below));
}

/* SM_ + PREFIX + NAME in upper case; no character is replaced, as the managed service does it. */
static void put_upper(const struct env_in *in, struct strv *out, const char *prefix, const char *name,
                      char *value)
{
	cleanup_free char *upper = xasprintf("%s%s", prefix, name);

	for (char *p = upper; *p; p++)
		*p = (char)toupper((unsigned char)*p);
	put_take(in, out, upper, value);
}

static int standard_bin(const char *dir)
{
	return !dir || strcmp(dir, "/usr/bin") == 0 || strcmp(dir, "/usr/local/bin") == 0 ||
	       strcmp(dir, "/bin") == 0;
}

static char *search_path(const struct env_in *in, const char *venv_bin, const char *base)
{
	int mpi = !standard_bin(in->mpi_bin), tools = !standard_bin(in->tools_bin);

	/* Hearth's own programs come last: their folder may hold others of the same name as the job's. */
	return xasprintf("%s%s%s%s%s%s%s", venv_bin ? venv_bin : "", venv_bin ? ":" : "", mpi ? in->mpi_bin : "",
	                 mpi ? ":" : "", base, tools ? ":" : "", tools ? in->tools_bin : "");
}

static void env_base(const struct env_in *in, struct strv *out)
{
	put_take(in, out, "PATH", search_path(in, in->venv_bin, BASE_PATH));
	put_variable(in, out, "HOME", in->user->home);
	put_variable(in, out, "USER", in->user->name);
	put_variable(in, out, "LOGNAME", in->user->name);
	put_variable(in, out, "SHELL", in->user->shell);
	put_variable(in, out, "LANG", "C.UTF-8");
	put_variable(in, out, "TMPDIR", in->tmpdir);
}

static void env_torch(const struct env_in *in, struct strv *out)
{
	const struct plan *p = in->plan;

	if (in->local_rank != NO_RANK) {
		put_u(in, out, "RANK", p->first_rank + in->local_rank);
		put_u(in, out, "LOCAL_RANK", in->local_rank);
	}
	put_u(in, out, "WORLD_SIZE", p->world);
	put_u(in, out, "LOCAL_WORLD_SIZE", p->local_ranks);
	put_u(in, out, "NODE_RANK", p->m->node_rank);
	put_variable(in, out, "MASTER_ADDR", p->g->addresses.v[0]);
	put_u(in, out, "MASTER_PORT", p->m->master_port);
	if (in->ifname) {
		put_variable(in, out, "NCCL_SOCKET_IFNAME", in->ifname);
		put_variable(in, out, "GLOO_SOCKET_IFNAME", in->ifname);
		put_variable(in, out, "TP_SOCKET_IFNAME", in->ifname);
	}
	if (in->visible)
		put_variable(in, out, "CUDA_VISIBLE_DEVICES", in->visible);
	put_u(in, out, "OMP_NUM_THREADS", in->cpus ? in->cpus : 1);
	put_variable(in, out, "PYTHONUNBUFFERED", "1");
	if (p->spec->has_groups)
		put_take(in, out, "TF_CONFIG", env_tf_config(in));
}

/* Under mpirun these come from Open MPI itself, by hearth-rank; the values are the same. */
static void env_mpi(const struct env_in *in, struct strv *out)
{
	const struct plan *p = in->plan;

	if (in->shm_dir)
		put_variable(in, out, "OMPI_MCA_btl_vader_backing_directory", in->shm_dir);
	if (in->local_rank == NO_RANK)
		return;
	put_u(in, out, "OMPI_COMM_WORLD_RANK", p->first_rank + in->local_rank);
	put_u(in, out, "OMPI_COMM_WORLD_SIZE", p->world);
	put_u(in, out, "OMPI_COMM_WORLD_LOCAL_RANK", in->local_rank);
	put_u(in, out, "OMPI_COMM_WORLD_LOCAL_SIZE", p->local_ranks);
	put_u(in, out, "OMPI_COMM_WORLD_NODE_RANK", in->local_rank);
	put_u(in, out, "OMPI_UNIVERSE_SIZE", p->world);
}

static void env_sm_paths(const struct env_in *in, struct strv *out)
{
	put_path(in, out, "SM_MODEL_DIR", "model");
	put_path(in, out, "SM_INPUT_DIR", "input");
	put_path(in, out, "SM_INPUT_CONFIG_DIR", "input/config");
	put_path(in, out, "SM_OUTPUT_DIR", "output");
	put_path(in, out, "SM_OUTPUT_DATA_DIR", "output/data");
	put_path(in, out, "SM_OUTPUT_INTERMEDIATE_DIR", "output/intermediate");
	put_path(in, out, "SM_OUTPUT_FAILURE", "output/failure");
	put_path(in, out, "SM_MODULE_DIR", "code");
	put_path(in, out, "SM_SOURCE_DIR", "code");
	for (size_t i = 0; i < in->plan->spec->n_inputs; i++) {
		const char *name = in->plan->spec->inputs[i].name;

		put_upper(in, out, "SM_CHANNEL_", name, xasprintf("%s/input/data/%s", in->paths->ml_seen, name));
	}
}

static void env_sm_gang(const struct env_in *in, struct strv *out)
{
	const struct plan *p = in->plan;
	const struct wm_prepare *m = p->m;

	put_take(in, out, "SM_HOSTS", env_json_hosts(p, NULL));
	put_variable(in, out, "SM_CURRENT_HOST", plan_node_name(p));
	put_variable(in, out, "CURRENT_HOST", plan_node_name(p));
	put_u(in, out, "SM_CURRENT_HOST_RANK", m->node_rank);
	put_u(in, out, "SM_HOST_COUNT", p->n_nodes);
	put_variable(in, out, "SM_MASTER_ADDR", p->g->addresses.v[0]);
	put_u(in, out, "SM_MASTER_PORT", m->master_port);
	put_variable(in, out, "SM_NETWORK_INTERFACE_NAME", in->ifname);
	put_variable(in, out, "SM_CURRENT_INSTANCE_TYPE", in->instance_type);
	put_variable(in, out, "SM_CURRENT_INSTANCE_GROUP", p->g->groups.v[m->node_rank]);
	put_take(in, out, "SM_CURRENT_INSTANCE_GROUP_HOSTS", env_json_hosts(p, p->g->groups.v[m->node_rank]));
	put_take(in, out, "SM_INSTANCE_GROUPS", env_json_group_names(p));
	put_take(in, out, "SM_INSTANCE_GROUPS_DICT", env_json_group_dict(in));
	put_variable(in, out, "SM_DISTRIBUTION_INSTANCE_GROUPS", "[]");
	put_variable(in, out, "SM_IS_HETERO", p->spec->n_groups > 1 ? "true" : "false");
	put_u(in, out, "SM_NUM_GPUS", m->gpus.n);
	put_u(in, out, "SM_NUM_CPUS", in->node_cpus);
	put_u(in, out, "SM_NUM_NEURONS", 0);
	put_variable(in, out, "SM_TOPOLOGY", "");
}

static void env_sm_program(const struct env_in *in, struct strv *out)
{
	const struct job_spec *s = in->plan->spec;
	struct strv argv = {0};
	const char *entry;
	size_t stem;

	plan_argv(in->plan, &argv);
	entry = env_entry_point(&argv);
	stem = strlen(entry);
	if (stem > 3 && strcmp(entry + stem - 3, ".py") == 0)
		stem -= 3;
	put_variable(in, out, "SM_USER_ENTRY_POINT", entry);
	put_variable(in, out, "SM_ENTRY_SCRIPT", entry);
	put_take(in, out, "SM_MODULE_NAME", xstrndup(entry, stem));
	strv_fini(&argv);
	put_take(in, out, "SM_USER_ARGS", env_json_user_args(s));
	put_take(in, out, "SM_HPS", env_json_hps(s));
	for (size_t i = 0; i < s->n_hps; i++)
		put_upper(in, out, "SM_HP_", s->hps[i].name, xstrdup(s->hps[i].text));
	put_variable(in, out, "SM_FRAMEWORK_PARAMS", "{}");
	put_variable(in, out, "SM_FRAMEWORK_MODULE", "");
	put_variable(in, out, "SM_DISTRIBUTED_CONFIG", "{}");
	put_variable(in, out, "SM_LOG_LEVEL", "20");
	put_take(in, out, "SM_CHANNELS", env_json_channels(s));
	put_take(in, out, "SM_RESOURCE_CONFIG", env_resource_config(in));
	put_take(in, out, "SM_INPUT_DATA_CONFIG", env_input_config(in));
	put_take(in, out, "SM_TRAINING_ENV", env_json_training_env(in));
	put_variable(in, out, "TRAINING_JOB_NAME", in->plan->m->job_name);
	put_take(in, out, "TRAINING_JOB_ARN", xasprintf("hearth:job/%" PRIu64, in->plan->m->job));
}

/* One of many that may differ by nothing else. */
static void env_array(const struct env_in *in, struct strv *out)
{
	const struct spec_member *m = &in->plan->spec->member;

	if (!m->count)
		return;
	put_u(in, out, "HEARTH_ARRAY_INDEX", m->index);
	put_u(in, out, "HEARTH_ARRAY_COUNT", m->count);
	if (m->job)
		put_u(in, out, "HEARTH_ARRAY_JOB", m->job);
}

static void env_hearth(const struct env_in *in, struct strv *out)
{
	const struct wm_prepare *m = in->plan->m;

	put_u(in, out, "HEARTH_JOB", m->job);
	put_variable(in, out, "HEARTH_JOB_NAME", m->job_name);
	put_u(in, out, "HEARTH_ATTEMPT", m->attempt);
	env_array(in, out);
	put_variable(in, out, "HEARTH_NODE", plan_node_name(in->plan));
	put_path(in, out, "HEARTH_MODEL_DIR", "model");
	put_path(in, out, "HEARTH_OUTPUT_DIR", "output/data");
	put_path(in, out, "HEARTH_CHECKPOINT_DIR", "checkpoints");
	put_path(in, out, "HEARTH_TENSORBOARD_DIR", "output/tensorboard");
	put_path(in, out, "HEARTH_WARM_CACHE", "sagemaker/warmpoolcache");
	put_path(in, out, "SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY", "sagemaker/warmpoolcache");
	put_path(in, out, "HEARTH_HOSTFILE", "input/config/hostfile");
	if (in->resume_dir)
		put_variable(in, out, "HEARTH_RESUME_FROM", in->resume_dir);
	if (in->resume_dir && m->resume_step >= 0)
		put_u(in, out, "HEARTH_RESUME_STEP", (uint64_t)m->resume_step);
	if (m->skip_steps[0])
		put_variable(in, out, "HEARTH_SKIP_STEPS", m->skip_steps);
	put_variable(in, out, "HEARTH_URL", m->url);
	put_variable(in, out, "HEARTH_TOKEN", m->job_token);
	if (in->ca_file)
		put_variable(in, out, "HEARTH_CA", in->ca_file);
	put_u(in, out, "HEARTH_METRICS_FD", SHIM_METRICS_FD);
}

static void env_user(const struct env_in *in, struct strv *out)
{
	const struct job_spec *s = in->plan->spec;

	for (size_t i = 0; i < s->n_env; i++) {
		/* A PATH of the user's own still finds the job's packages first. */
		if (strcmp(s->env[i].name, "PATH") == 0)
			put_take(in, out, "PATH", search_path(in, in->venv_bin, s->env[i].value));
		else
			put_variable(in, out, s->env[i].name, s->env[i].value);
	}
}

/* First, because a look for the mark reads a bounded part of an environment; and once more at the end, so
 * that no job can hide a process from the sweep. */
static void env_mark(const struct env_in *in, struct strv *out)
{
	put_variable(in, out, "HEARTH_TOKEN_LAUNCH", in->plan->m->token);
}

void env_rank(const struct env_in *in, struct strv *out)
{
	env_mark(in, out);
	env_base(in, out);
	env_torch(in, out);
	env_mpi(in, out);
	env_sm_paths(in, out);
	env_sm_gang(in, out);
	env_sm_program(in, out);
	env_hearth(in, out);
	env_user(in, out);
	env_mark(in, out);
}

/*
 * mpirun and orted need little. OMPI_MCA_* of the job are theirs too (that is how Open MPI is tuned without
 * mpi_options); LD_LIBRARY_PATH as well, for an Open MPI of the user's own.
 */
void env_launcher(const struct env_in *in, const char *agent_sock, struct strv *out)
{
	const struct job_spec *s = in->plan->spec;

	env_mark(in, out);
	env_base(in, out);
	/* A job's virtual environment may bring an mpirun of another kind. */
	put_take(in, out, "PATH", search_path(in, NULL, BASE_PATH));
	for (size_t i = 0; i < s->n_env; i++) {
		const char *name = s->env[i].name;

		if (strncmp(name, "OMPI_MCA_", 9) == 0 || strcmp(name, "LD_LIBRARY_PATH") == 0 ||
		    strcmp(name, "OPAL_PREFIX") == 0)
			put_variable(in, out, name, s->env[i].value);
	}
	put_variable(in, out, "HEARTH_AGENT_SOCK", agent_sock);
	put_variable(in, out, "HEARTH_LAUNCH_TOKEN", in->plan->m->token);
	put_variable(in, out, "HEARTH_LAUNCH_DIR", in->paths->run);
	env_mark(in, out);
}

void env_masked(const struct strv *env, struct strv *out)
{
	for (size_t i = 0; i < env->n; i++) {
		const char *eq = strchr(env->v[i], '=');
		cleanup_free char *name = xstrndup(env->v[i], eq ? (size_t)(eq - env->v[i]) : strlen(env->v[i]));

		cleanup_free char *shown = secret_value(name, eq ? eq + 1 : "");

		strv_addf(out, "%s=%s", name, shown);
	}
}
