/*
 * env_json: what scripts read as JSON: SM_* lists and dictionaries, TF_CONFIG, the files of ml/input/config,
 * and the host file.
 */
#include "agent/command/env_json.h"

#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/os/fsutil.h"

static char *text_take(cJSON *v)
{
	char *text = json_text(v);

	cJSON_Delete(v);
	return text;
}

static cJSON *json_hosts(const struct plan *p, const char *group)
{
	cJSON *a = cJSON_CreateArray();

	for (uint32_t i = 0; i < p->n_nodes; i++)
		if (!group || strcmp(p->g->groups.v[i], group) == 0)
			cJSON_AddItemToArray(a, cJSON_CreateString(p->g->nodes.v[i]));
	return a;
}

char *env_json_hosts(const struct plan *p, const char *group)
{
	return text_take(json_hosts(p, group));
}

/* First node of each group, in node order. */
static int first_of_group(const struct plan *p, uint32_t node)
{
	for (uint32_t i = 0; i < node; i++)
		if (strcmp(p->g->groups.v[i], p->g->groups.v[node]) == 0)
			return 0;
	return 1;
}

static cJSON *group_entry(const struct env_in *in, const char *group)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "instance_group_name", group);
	cJSON_AddStringToObject(o, "instance_type", in->instance_type ? in->instance_type : "");
	cJSON_AddItemToObject(o, "hosts", json_hosts(in->plan, group));
	return o;
}

char *env_json_group_names(const struct plan *p)
{
	cJSON *a = cJSON_CreateArray();

	for (uint32_t i = 0; i < p->n_nodes; i++)
		if (first_of_group(p, i))
			cJSON_AddItemToArray(a, cJSON_CreateString(p->g->groups.v[i]));
	return text_take(a);
}

char *env_json_group_dict(const struct env_in *in)
{
	const struct plan *p = in->plan;
	cJSON *o = cJSON_CreateObject();

	for (uint32_t i = 0; i < p->n_nodes; i++)
		if (first_of_group(p, i))
			cJSON_AddItemToObject(o, p->g->groups.v[i], group_entry(in, p->g->groups.v[i]));
	return text_take(o);
}

static cJSON *resource_config(const struct env_in *in)
{
	const struct plan *p = in->plan;
	cJSON *o = cJSON_CreateObject(), *groups = cJSON_CreateArray();

	cJSON_AddStringToObject(o, "current_host", plan_node_name(p));
	cJSON_AddStringToObject(o, "current_instance_type", in->instance_type ? in->instance_type : "");
	cJSON_AddStringToObject(o, "current_group_name", p->g->groups.v[p->m->node_rank]);
	cJSON_AddItemToObject(o, "hosts", json_hosts(p, NULL));
	for (uint32_t i = 0; i < p->n_nodes; i++)
		if (first_of_group(p, i))
			cJSON_AddItemToArray(groups, group_entry(in, p->g->groups.v[i]));
	cJSON_AddItemToObject(o, "instance_groups", groups);
	cJSON_AddStringToObject(o, "network_interface_name", in->ifname ? in->ifname : "");
	return o;
}

char *env_resource_config(const struct env_in *in)
{
	return text_take(resource_config(in));
}

static cJSON *input_config(const struct job_spec *s)
{
	cJSON *o = cJSON_CreateObject();

	for (size_t i = 0; i < s->n_inputs; i++) {
		cJSON *c = cJSON_AddObjectToObject(o, s->inputs[i].name);

		cJSON_AddStringToObject(c, "TrainingInputMode", "File");
		cJSON_AddStringToObject(c, "S3DistributionType", "FullyReplicated");
		cJSON_AddStringToObject(c, "RecordWrapperType", "None");
	}
	return o;
}

char *env_input_config(const struct env_in *in)
{
	return text_take(input_config(in->plan->spec));
}

char *env_json_channels(const struct job_spec *s)
{
	cJSON *a = cJSON_CreateArray();

	for (size_t i = 0; i < s->n_inputs; i++)
		cJSON_AddItemToArray(a, cJSON_CreateString(s->inputs[i].name));
	return text_take(a);
}

static cJSON *json_hps(const struct job_spec *s)
{
	cJSON *o = cJSON_CreateObject();

	for (size_t i = 0; i < s->n_hps; i++) {
		/* The text of a number, truth value or list is JSON as it stands: no digit is lost. */
		if (s->hps[i].type == SPEC_STR)
			cJSON_AddStringToObject(o, s->hps[i].name, s->hps[i].text);
		else
			cJSON_AddRawToObject(o, s->hps[i].name, s->hps[i].text);
	}
	return o;
}

char *env_json_hps(const struct job_spec *s)
{
	return text_take(json_hps(s));
}

/* hyperparameters.json: all values are strings */
static char *env_json_hps_strings(const struct job_spec *s)
{
	cJSON *o = cJSON_CreateObject();

	for (size_t i = 0; i < s->n_hps; i++)
		cJSON_AddStringToObject(o, s->hps[i].name, s->hps[i].text);
	return text_take(o);
}

char *env_json_user_args(const struct job_spec *s)
{
	cJSON *a = cJSON_CreateArray();
	struct strv args = {0};

	plan_hp_args(s, &args);
	for (size_t i = 0; i < args.n; i++)
		cJSON_AddItemToArray(a, cJSON_CreateString(args.v[i]));
	strv_fini(&args);
	return text_take(a);
}

static void add_path(cJSON *o, const struct env_in *in, const char *key, const char *below)
{
	cleanup_free char *path = xasprintf("%s/%s", in->paths->ml_seen, below);

	cJSON_AddStringToObject(o, key, path);
}

char *env_json_training_env(const struct env_in *in)
{
	const struct plan *p = in->plan;
	cJSON *o = cJSON_CreateObject(), *channels;
	struct strv argv = {0};

	plan_argv(p, &argv);
	cJSON_AddItemToObject(o, "additional_framework_parameters", cJSON_CreateObject());
	channels = cJSON_AddObjectToObject(o, "channel_input_dirs");
	for (size_t i = 0; i < p->spec->n_inputs; i++) {
		cleanup_free char *below = xasprintf("input/data/%s", p->spec->inputs[i].name);

		add_path(channels, in, p->spec->inputs[i].name, below);
	}
	cJSON_AddStringToObject(o, "current_host", plan_node_name(p));
	cJSON_AddStringToObject(o, "current_instance_group", p->g->groups.v[p->m->node_rank]);
	cJSON_AddStringToObject(o, "current_instance_type", in->instance_type ? in->instance_type : "");
	cJSON_AddItemToObject(o, "hosts", json_hosts(p, NULL));
	cJSON_AddItemToObject(o, "hyperparameters", json_hps(p->spec));
	add_path(o, in, "input_config_dir", "input/config");
	cJSON_AddItemToObject(o, "input_data_config", input_config(p->spec));
	add_path(o, in, "input_dir", "input");
	cJSON_AddBoolToObject(o, "is_hetero", p->spec->n_groups > 1);
	cJSON_AddBoolToObject(o, "is_master", p->m->node_rank == 0);
	cJSON_AddStringToObject(o, "job_name", p->m->job_name);
	cJSON_AddNumberToObject(o, "log_level", 20);
	cJSON_AddStringToObject(o, "master_hostname", p->g->nodes.v[0]);
	add_path(o, in, "model_dir", "model");
	add_path(o, in, "module_dir", "code");
	cJSON_AddStringToObject(o, "network_interface_name", in->ifname ? in->ifname : "");
	cJSON_AddNumberToObject(o, "num_cpus", in->node_cpus);
	cJSON_AddNumberToObject(o, "num_gpus", p->m->gpus.n);
	add_path(o, in, "output_data_dir", "output/data");
	add_path(o, in, "output_dir", "output");
	add_path(o, in, "output_intermediate_dir", "output/intermediate");
	cJSON_AddItemToObject(o, "resource_config", resource_config(in));
	cJSON_AddStringToObject(o, "user_entry_point", env_entry_point(&argv));
	strv_fini(&argv);
	return text_take(o);
}

/*
 * TensorFlow wants HOST:PORT of each task, and on a cluster of one machine all hosts are equal: so the global
 * rank gives the port. The ports follow MASTER_PORT inside the nodes' range; the range wraps round.
 */
static uint32_t tf_port(const struct wm_prepare *m, uint32_t rank)
{
	uint32_t size, at;

	if (m->port_hi <= m->port_lo || m->master_port < m->port_lo || m->master_port > m->port_hi)
		return m->master_port + 1 + rank;
	size = m->port_hi - m->port_lo + 1;
	at = (m->master_port - m->port_lo + 1 + rank) % size;
	return m->port_lo + at;
}

char *env_tf_config(const struct env_in *in)
{
	const struct plan *p = in->plan;
	uint32_t rank = 0, index = 0, mine = p->first_rank + (in->local_rank == NO_RANK ? 0 : in->local_rank);
	const char *group = p->g->groups.v[p->m->node_rank];
	cJSON *o, *cluster, *task;

	if (!p->spec->has_groups)
		return NULL;
	o = cJSON_CreateObject();
	cluster = cJSON_AddObjectToObject(o, "cluster");
	for (uint32_t i = 0; i < p->n_nodes; i++) {
		cJSON *list = cJSON_GetObjectItemCaseSensitive(cluster, p->g->groups.v[i]);

		if (!list)
			list = cJSON_AddArrayToObject(cluster, p->g->groups.v[i]);
		for (uint32_t k = 0; k < p->g->ranks_per_node.v[i]; k++, rank++) {
			cleanup_free char *at = xasprintf("%s:%u", p->g->addresses.v[i], tf_port(p->m, rank));

			cJSON_AddItemToArray(list, cJSON_CreateString(at));
			if (rank < mine && strcmp(p->g->groups.v[i], group) == 0)
				index++;
		}
	}
	task = cJSON_AddObjectToObject(o, "task");
	cJSON_AddStringToObject(task, "type", group);
	cJSON_AddNumberToObject(task, "index", index);
	return text_take(o);
}

/* Open MPI's and DeepSpeed's form; the address is a comment, because the names need not resolve. */
static char *env_hostfile(const struct plan *p)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		abort();
	for (uint32_t i = 0; i < p->n_nodes; i++)
		fprintf(f, "%s slots=%u # %s\n", p->g->nodes.v[i], p->g->ranks_per_node.v[i], p->g->addresses.v[i]);
	if (fclose(f) != 0)
		abort();
	return text;
}

static int is_python(const char *word)
{
	const char *slash = strrchr(word, '/');
	const char *base = slash ? slash + 1 : word;

	return strncmp(base, "python", 6) == 0 && strspn(base + 6, "0123456789.") == strlen(base + 6);
}

const char *env_entry_point(const struct strv *command)
{
	size_t i = 1;

	if (command->n == 0)
		return "";
	if (!is_python(command->v[0]))
		return command->v[0];
	for (; i < command->n && command->v[i][0] == '-'; i++) {
		if (strcmp(command->v[i], "-c") == 0)
			return command->v[0];
		if (strcmp(command->v[i], "-m") == 0)
			return i + 1 < command->n ? command->v[i + 1] : command->v[0];
		if (strcmp(command->v[i], "-W") == 0 || strcmp(command->v[i], "-X") == 0)
			i++; /* these take a word */
	}
	return i < command->n ? command->v[i] : command->v[0];
}

static int write_take(const char *dir, const char *name, char *text, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/%s", dir, name);
	int rc = fs_replace_changed(path, text, strlen(text), 0644, e);

	free(text);
	return rc;
}

int env_files(const struct env_in *in, const char *dir, struct err *e)
{
	if (write_take(dir, "hyperparameters.json", env_json_hps_strings(in->plan->spec), e) < 0)
		return -1;
	if (write_take(dir, "inputdataconfig.json", env_input_config(in), e) < 0)
		return -1;
	if (write_take(dir, "resourceconfig.json", env_resource_config(in), e) < 0)
		return -1;
	return write_take(dir, "hostfile", env_hostfile(in->plan), e);
}
