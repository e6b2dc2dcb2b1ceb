/*
 * spec_keys: the table of all keys of job.json, one line each: path, type, default, built or reserved, the
 * function that reads it, where it goes, its bounds, and a sentence of help. docs/spec/06-job.md says the
 * same at more length.
 *
 * "groups[].name" is a key of each element of a list, "inputs.*.uri" one of each value of an object with free
 * names. A reserved key (built 0) is accepted when its value is null, empty or its default, and refused
 * otherwise.
 */
#include "common/spec/preload.h"
#include "common/spec/spec_int.h"
#include "common/spec/spec_rules.h"

#include <string.h>

#include "common/base/strutil.h"

#define P(m) offsetof(struct spec_parse, m)
#define G(m) offsetof(struct spec_group, m)
#define I(m) offsetof(struct spec_input, m)
#define T(m) offsetof(struct spec_metric, m)
#define X(m) offsetof(struct spec_axis, m)
#define R(m) offsetof(struct watch_rule, m)

/* clang-format off */
#define KEYS(K) \
	K("name", "string", "\"job\"", 1, spec_v_name, P(s.name), 1, 128, "name of the job; need not be unique") \
	K("experiment", "string", "\"\"", 1, spec_v_name, P(s.experiment), 0, 128, "groups jobs in listings and charts") \
	K("notes", "string", "\"\"", 1, spec_v_text, P(s.notes), 0, 65536, "free text, searchable") \
	K("tags", "object of strings", "{}", 1, spec_v_tags, 0, 0, 100, "name: value, searchable") \
	K("command", "list of strings", "[]", 1, spec_v_argv, P(s.command), 0, 4096, "program and arguments of each rank; no shell in between") \
	K("source_dir", "string", "null", 1, spec_v_path, P(s.source_dir), 0, 4096, "folder that is sent along; ranks start in it") \
	K("requirements", "string", "null", 1, spec_v_relpath, P(s.requirements), 0, 1024, "pip requirements file inside source_dir") \
	K("image", "string", "null", 0, spec_v_reserved, 0, 0, 0, "container image") \
	K("hyperparameters", "object", "{}", 1, spec_v_hps, 0, 0, SPEC_MAX_HPS, "become arguments (--name value), SM_HP_NAME and a JSON file") \
	K("scale", "object", "null", 0, spec_v_reserved, 0, 0, 0, "hyperparameters that follow the world size") \
	K("environment", "object of strings", "{}", 1, spec_v_env, 0, 0, 1000, "environment variables of each rank") \
	K("secrets", "list of strings", "[]", 0, spec_v_reserved, 0, 0, 0, "named secrets put into the environment") \
	K("resources", "object", "{}", 1, spec_v_object, 0, 0, 0, "what each node of the gang must have") \
	K("resources.instances", "integer", "1", 1, spec_v_u32, P(base.instances), 1, SPEC_MAX_NODES, "number of nodes; all start together or none does") \
	K("resources.gpus_per_instance", "integer", "0", 1, spec_v_u32, P(base.gpus_per_instance), 0, 1024, "GPUs on each node") \
	K("resources.ranks_per_instance", "integer", "0", 1, spec_v_u32, P(base.ranks_per_instance), 0, 1024, "processes on each node; 0: one for each GPU, at least 1") \
	K("resources.cpus_per_rank", "integer", "1", 1, spec_v_u32, P(base.cpus_per_rank), 1, 4096, "CPUs held for each rank") \
	K("resources.memory", "size", "\"0\"", 1, spec_v_size, P(s.memory_bytes), 0, 1LL << 50, "memory on each node, enforced; 0: no limit") \
	K("resources.disk", "size", "\"0\"", 1, spec_v_size, P(s.disk_bytes), 0, 1LL << 50, "disk on each node, enforced; 0: no limit") \
	K("resources.exclusive", "boolean", "false", 1, spec_v_bool, P(s.exclusive), 0, 0, "nothing else may run on the job's nodes") \
	K("resources.instance_type", "string or list of strings", "\"any\"", 1, spec_v_types, P(s.instance_types), 0, 32, "node type, or a list in order of preference") \
	K("resources.gpu_model", "string", "\"any\"", 1, spec_v_model, P(s.gpu_model), 0, 128, "GPU model that the nodes must have") \
	K("resources.gpu_memory", "size", "\"0\"", 1, spec_v_size, P(s.gpu_memory_bytes), 0, 1LL << 50, "least memory of each GPU") \
	K("resources.requires", "list of strings", "[]", 1, spec_v_requires, P(s.requires), 0, 32, "labels (k=v) or features that the nodes must have") \
	K("resources.gpu_visibility", "string", "\"all\"", 1, spec_v_visibility, P(s.gpu_visibility_one), 0, 0, "all: a rank sees every GPU of the job on its node; one: only its own") \
	K("resources.placement", "object", "{}", 1, spec_v_object, 0, 0, 0, "how close together the nodes should be") \
	K("resources.placement.span", "string", "null", 1, spec_v_span, P(s.span), 0, 0, "node, switch or rack that should hold all of the job (of nodes: their labels switch=NAME, rack=NAME)") \
	K("resources.placement.hard", "boolean", "false", 1, spec_v_bool, P(s.span_hard), 0, 0, "wait rather than spread wider") \
	K("launcher", "string", "\"mpirun\"", 1, spec_v_launcher, P(s.launcher), 0, 0, LAUNCHER_NAMES) \
	K("mpi_options", "list of strings", "[]", 1, spec_v_mpi, P(s.mpi_options), 0, 192, "--mca NAME VALUE settings of the MPI library") \
	K("groups", "list of objects", "null", 1, spec_v_groups, 0, 1, 64, "unequal parts of the gang, in rank order; makes TF_CONFIG") \
	K("groups[].name", "string", "", 1, spec_v_name, G(name), 1, 32, "chief, worker, ps, evaluator ...") \
	K("groups[].instances", "integer", "1", 1, spec_v_u32, G(instances), 1, SPEC_MAX_NODES, "nodes of this group") \
	K("groups[].gpus_per_instance", "integer", "that of resources", 1, spec_v_u32, G(gpus_per_instance), 0, 1024, "GPUs on each node of this group") \
	K("groups[].ranks_per_instance", "integer", "that of resources", 1, spec_v_u32, G(ranks_per_instance), 0, 1024, "processes on each node of this group") \
	K("groups[].cpus_per_rank", "integer", "that of resources", 1, spec_v_u32, G(cpus_per_rank), 1, 4096, "CPUs held for each rank of this group") \
	K("groups[].command", "list of strings", "that of the job", 1, spec_v_argv, G(command), 0, 4096, "program and arguments of this group's ranks") \
	K("inputs", "object of objects", "{}", 1, spec_v_inputs, 0, 0, 64, "channels: data put on each node before the start") \
	K("inputs.*.uri", "string", "", 1, spec_v_input_uri, I(uri), 0, 4096, "file:///PATH, http(s)://..., job:ID/model, job:ID/output or job:ID/checkpoint") \
	K("inputs.*.mode", "string", "\"copy\"", 1, spec_v_input_mode, I(link), 0, 0, "copy, or link (file:// only): used where it lies") \
	K("inputs.*.sha256", "string", "null", 1, spec_v_sha256, I(sha256), 0, 0, "checksum of an http(s) file") \
	K("inputs.*.unpack", "boolean", "false", 1, spec_v_bool, I(unpack), 0, 0, "unpack the tar archive that the uri names") \
	K("output_uri", "string", "null", 1, spec_v_output, P(s.output_uri), 0, 4096, "file:///PATH for models and outputs; null: hearthd keeps them") \
	K("resume_from", "string", "null", 1, spec_v_resume, 0, 0, 4096, "checkpoint to start from: job:ID, job:ID@STEP or file:///PATH") \
	K("checkpoint", "object", "{}", 1, spec_v_object, 0, 0, 0, "copies of checkpoints that Hearth makes while the job runs") \
	K("checkpoint.uri", "string", "null", 1, spec_v_output, P(s.checkpoint_uri), 0, 4096, "file:///PATH for the copies; null: output_uri, else hearthd's store") \
	K("checkpoint.every_s", "number or \"auto\"", "null", 0, spec_v_reserved, 0, 0, 0, "seconds between checkpoints") \
	K("checkpoint.keep_last", "integer", "3", 1, spec_v_u32, P(s.keep_last), 1, 32, "verified copies that are kept; pinned ones stay, too") \
	K("checkpoint.signal", "string", "null", 0, spec_v_reserved, 0, 0, 0, "signal that asks for a checkpoint") \
	K("checkpoint.overdue_s", "integer", "null", 0, spec_v_reserved, 0, 0, 0, "alert when none was seen for so long") \
	K("metrics", "list of objects", "[]", 1, spec_v_metrics, 0, 0, 100, "numbers read from the log") \
	K("metrics[].name", "string", "", 1, spec_v_name, T(name), -1, 128, "name of the series") \
	K("metrics[].regex", "string", "", 1, spec_v_regex, T(regex), 0, 4096, "PCRE2 pattern; its first group is the number") \
	K("watch", "object", "{}", 1, spec_v_object, 0, 0, 0, "what hearthd watches while the job runs, and what follows (docs/spec/14-watch.md)") \
	K("watch.loss", "string", "\"loss\"", 1, spec_v_watch, 0, 0, 0, "metric that is the loss") \
	K("watch.step", "string", "\"step\"", 1, spec_v_watch, 0, 0, 0, "metric that is the step") \
	K("watch.throughput", "string", "null", 1, spec_v_watch, 0, 0, 0, "metric that is the throughput; null: the time between steps") \
	K("watch.on_spike", "string", "\"pin\"", 1, spec_v_watch, 0, 0, 0, "action at a loss spike: alert, pin, rollback, restart or stop") \
	K("watch.on_drop", "string", "\"pin\"", 1, spec_v_watch, 0, 0, 0, "action at a sudden drop of the loss") \
	K("watch.on_nan", "string", "\"pin\"", 1, spec_v_watch, 0, 0, 0, "action when the loss is not finite") \
	K("watch.on_divergence", "string", "\"pin\"", 1, spec_v_watch, 0, 0, 0, "action when the loss rises slowly") \
	K("watch.on_plateau", "string", "\"alert\"", 1, spec_v_watch, 0, 0, 0, "action when the loss stays flat; no rollback, as for the next ones") \
	K("watch.on_slow", "string", "\"alert\"", 1, spec_v_watch, 0, 0, 0, "action when steps take longer than before") \
	K("watch.on_stall", "string", "\"alert\"", 1, spec_v_watch, 0, 0, 0, "action when one step took very long") \
	K("watch.on_hang", "string", "\"alert\"", 1, spec_v_watch, 0, 0, 0, "action when no step ends any more") \
	K("watch.rising_steps", "integer", "50", 1, spec_v_watch, 0, 0, 0, "a spike that still rises so many steps after its onset is acted on") \
	K("watch.patience_steps", "integer", "200", 1, spec_v_watch, 0, 0, 0, "a spike that has not healed after so many steps is acted on") \
	K("watch.margin_steps", "integer", "100", 1, spec_v_watch, 0, 0, 0, "steps from the checkpoint of a rollback to the onset; doubles each time") \
	K("watch.max_rollbacks", "integer", "3", 1, spec_v_watch, 0, 0, 0, "rollbacks after which the job stops") \
	K("watch.missing_steps", "integer", "50", 1, spec_v_watch, 0, 0, 0, "steps without a loss that count as not finite") \
	K("watch.settle_steps", "integer", "50", 1, spec_v_watch, 0, 0, 0, "steps after the order of a rollback in which nothing is judged") \
	K("watch.spike_points", "integer", "3", 1, spec_v_watch, 0, 0, 0, "high points among five that make a spike") \
	K("watch.spike_floor", "number", "0.2", 1, spec_v_watch, 0, 0, 0, "least height of a spike") \
	K("watch.spike_share", "number", "0.05", 1, spec_v_watch, 0, 0, 0, "least height as a share of the loss") \
	K("watch.spike_sigma", "number", "5", 1, spec_v_watch, 0, 0, 0, "least height in standard deviations") \
	K("watch.heal_sigma", "number", "3", 1, spec_v_watch, 0, 0, 0, "distance from the old level at which a spike has healed") \
	K("watch.drop_share", "number", "0.15", 1, spec_v_watch, 0, 0, 0, "least depth of a drop as a share of the loss") \
	K("watch.drop_sigma", "number", "8", 1, spec_v_watch, 0, 0, 0, "least depth in standard deviations") \
	K("watch.divergence_share", "number", "0.12", 1, spec_v_watch, 0, 0, 0, "rise of the level as a share of its best") \
	K("watch.divergence_sigma", "number", "3", 1, spec_v_watch, 0, 0, 0, "rise in standard deviations") \
	K("watch.plateau_steps", "integer", "2000", 1, spec_v_watch, 0, 0, 0, "least length of a plateau") \
	K("watch.plateau_share", "number", "0.001", 1, spec_v_watch, 0, 0, 0, "improvement that ends a plateau, as a share") \
	K("watch.slow_share", "number", "0.04", 1, spec_v_watch, 0, 0, 0, "rise of the step time that counts, as a share") \
	K("watch.slow_sigma", "number", "1.5", 1, spec_v_watch, 0, 0, 0, "rise in standard deviations") \
	K("watch.slow_steps", "integer", "16", 1, spec_v_watch, 0, 0, 0, "steps that a rise lasts before the alarm") \
	K("watch.slow_act_steps", "integer", "64", 1, spec_v_watch, 0, 0, 0, "steps that a rise lasts before the action") \
	K("watch.stall_times", "number", "60", 1, spec_v_watch, 0, 0, 0, "multiple of the usual step time that is a stall") \
	K("watch.hang_s", "number", "60", 1, spec_v_watch, 0, 0, 0, "least seconds without a step that are a hang") \
	K("watch.hang_times", "number", "2", 1, spec_v_watch, 0, 0, 0, "least multiple of the longest pause seen") \
	K("watch.on_straggler", "string", "null", 0, spec_v_reserved, 0, 0, 0, "action when one rank holds up the others") \
	K("rules", "list of objects", "[]", 1, spec_v_rules, 0, 0, RULES_MAX, "own rules over metrics and lines of the log (docs/spec/14-watch.md)") \
	K("rules[].name", "string", "", 1, spec_v_name, R(name), -1, RULE_NAME_MAX, "name of the rule") \
	K("rules[].metric", "string", "null", 1, spec_v_name, R(metric), -1, 128, "metric to compare; needs above or below") \
	K("rules[].above", "number", "null", 1, spec_v_real, R(above), 0, 0, "the rule holds while the metric is above this") \
	K("rules[].below", "number", "null", 1, spec_v_real, R(below), 0, 0, "the rule holds while the metric is below this") \
	K("rules[].for_steps", "integer", "1", 1, spec_v_i64, R(for_steps), 1, 1000000000, "steps that it holds before the rule is raised") \
	K("rules[].pattern", "string", "null", 1, spec_v_rule_pattern, R(pattern), 0, RULE_PATTERN_MAX, "PCRE2 pattern of a line of the log, instead of a metric") \
	K("rules[].absent_s", "number", "null", 1, spec_v_real, R(absent_s), 0, 0, "seconds without such a line; null: the rule is raised when a line matches") \
	K("rules[].action", "string", "\"alert\"", 1, spec_v_rule_action, R(action), 0, 0, "alert, pin, rollback, restart or stop") \
	K("rules[].budget", "integer", "3", 1, spec_v_i64, R(budget), 0, 1000, "rollbacks, restarts or stops in all attempts; then the rule only alerts") \
	K("retry", "object", "{}", 1, spec_v_object, 0, 0, 0, "restarts after a failure") \
	K("retry.max_attempts", "integer", "3", 1, spec_v_u32, P(s.retry.max_attempts), 0, 1000, "restarts after an unknown exit code or signal; 0: none") \
	K("retry.capacity", "integer", "30", 1, spec_v_u32, P(s.retry.capacity), 0, 1000, "restarts in a day after faults of nodes, agents or the start; 0: none") \
	K("retry.wait_s", "integer", "60", 1, spec_v_u32, P(s.retry.wait_s), 0, 3600, "seconds that a job holds its good nodes while it looks for others") \
	K("retry.no_progress", "integer", "3", 1, spec_v_u32, P(s.retry.no_progress), 0, 1000, "restarts without a new checkpoint after which the job fails, if it ever left one; 0: no limit") \
	K("limits", "object", "{}", 1, spec_v_object, 0, 0, 0, "bounds of the run") \
	K("limits.max_runtime_s", "integer", "0", 1, spec_v_i64, P(s.max_runtime_s), 0, 366LL * 86400, "seconds from the placement, of all attempts together, after which the job is stopped; 0: the administrator's default") \
	K("limits.grace_s", "integer", "30", 1, spec_v_i64, P(s.grace_s), 0, 3600, "seconds between TERM and KILL at a stop") \
	K("limits.max_wait_s", "integer", "0", 1, spec_v_i64, P(s.max_wait_s), 0, 366LL * 86400, "seconds that the job waits in the queue at most, then it ends; 0: no limit") \
	K("limits.max_cost_usd", "number", "null", 1, spec_v_money, P(s.max_cost_usd), 0, 1000000000, "money to spend on all attempts at most, then the job ends; null: no limit") \
	K("warm_pool", "object", "{}", 1, spec_v_object, 0, 0, 0, "nodes that stay warm after the job for the next job of its owner (docs/spec/15-pools.md)") \
	K("warm_pool.keep_alive_s", "integer", "0", 1, spec_v_i64, P(s.keep_alive_s), 0, 366LL * 86400, "seconds that they stay warm without a job; 0: not at all") \
	K("warm_pool.pool", "string or integer", "null", 1, spec_v_pool, P(s.pool), 1, 128, "id or name of a warm pool of yours: the job uses it, or waits for it; null: the best one at once") \
	K("warm_pool.preload", "list of strings", "[]", 1, spec_v_preload, P(s.preload), 0, PRELOAD_MAX, "Python modules that a waiting interpreter imports ahead of the next job") \
	K("warm_pool.cuda_context", "boolean", "false", 1, spec_v_bool, P(s.cuda_context), 0, 0, "that interpreter also makes a CUDA context on the rank's GPU") \
	K("priority", "integer", "0", 1, spec_v_i64, P(s.priority), -1000, 1000, "higher starts first") \
	K("queue", "string", "\"default\"", 1, spec_v_queue, P(s.queue), 1, SPEC_MAX_QUEUE, "queue that the job waits in (jobctl queue ls); a/b is below a") \
	K("preemptible", "boolean", "true", 1, spec_v_bool, P(s.preemptible), 0, 0, "false: never stopped for a higher priority, and for a quota only what its queue holds beyond its own; nothing is stopped for others yet") \
	K("after", "list of integers or strings", "[]", 1, spec_v_after, 0, 0, SPEC_MAX_AFTER, "jobs to wait for: ID or afterok:ID (ended well), afterany:ID (ended), after:ID (started)") \
	K("sweep", "object", "null", 1, spec_v_sweep, 0, 0, SWEEP_MAX_AXES, "hyperparameters to try; each is a list of values or one of the forms below") \
	K("sweep.*.from", "number", "null", 1, spec_v_real, X(from), 0, 0, "first value of a range") \
	K("sweep.*.to", "number", "null", 1, spec_v_real, X(to), 0, 0, "its last") \
	K("sweep.*.step", "number", "1", 1, spec_v_real, X(step), 0, 0, "from one value of it to the next") \
	K("sweep.*.linear", "list of numbers", "null", 1, spec_v_ends, X(linear), 0, 0, "least and greatest value, spread evenly") \
	K("sweep.*.log", "list of numbers", "null", 1, spec_v_ends, X(log), 0, 0, "least and greatest value, spread evenly by their logarithm") \
	K("sweep.*.count", "integer", "log: one a decade", 1, spec_v_u32, X(count), 2, SWEEP_MAX_MEMBERS, "how many values a linear or log axis has; at random without it: any") \
	K("search", "object", "{}", 1, spec_v_search, 0, 0, 0, "which members a sweep has, and what they are compared by") \
	K("search.method", "string", "\"grid\"", 1, spec_v_method, 0, 0, 0, "grid: a member for each combination; random: samples of them") \
	K("search.samples", "integer", "0", 1, spec_v_u32, P(s.sweep.samples), 0, SWEEP_MAX_MEMBERS, "members of a random search") \
	K("search.seed", "integer", "0", 1, spec_v_i64, P(s.sweep.seed), 0, 1LL << 53, "of a random search: the same seed gives the same members") \
	K("search.metric", "string", "null", 1, spec_v_name, P(s.search.metric), -1, 128, "what the members are compared by") \
	K("search.goal", "string", "\"min\"", 1, spec_v_goal, 0, 0, 0, "min or max: which value of it is the best") \
	K("search.halving", "object", "null", 1, spec_v_halving, 0, 0, 0, "stop the worse members early") \
	K("search.halving.eta", "integer", "3", 1, spec_v_u32, P(s.search.eta), 2, 100, "one in so many goes on beyond each comparison") \
	K("search.halving.min_step", "integer", "", 1, spec_v_i64, P(s.search.min_step), 1, 1LL << 40, "step of the first comparison; the next is at eta times that") \
	K("array", "integer or object", "null", 1, spec_v_array, 0, 1, SWEEP_MAX_MEMBERS, "so many jobs that differ by HEARTH_ARRAY_INDEX only") \
	K("array.job", "integer", "null", 1, spec_v_i64, P(s.member.job), 0, 1LL << 53, "of one member: the job that it belongs to; written by hearthd") \
	K("array.index", "integer", "null", 1, spec_v_u32, P(s.member.index), 0, SWEEP_MAX_MEMBERS, "of one member: its number, from 0") \
	K("array.count", "integer", "null", 1, spec_v_u32, P(s.member.count), 1, SWEEP_MAX_MEMBERS, "of one member: how many there are") \
	K("max_parallel", "integer", "0", 1, spec_v_u32, P(s.max_parallel), 0, SWEEP_MAX_MEMBERS, "members that hold resources at once; 0: no limit") \
	K("objective", "string", "null", 0, spec_v_reserved, 0, 0, 0, "what instance_type \"auto\" optimises")
/* clang-format on */

#define PUBLIC(path, type, dflt, built, fn, offset, min, max, help) {path, type, help, built, dflt},
static const struct spec_key keys[] = {KEYS(PUBLIC)};

static const struct {
	spec_value_fn fn;
	size_t offset;
	int64_t min, max;
} rules[] = {
#define RULE(path, type, dflt, built, fn, offset, min, max, help) {fn, offset, min, max},
    KEYS(RULE)};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))
_Static_assert(N_KEYS == sizeof(rules) / sizeof(rules[0]), "one rule a key");

const struct spec_key *spec_keys(size_t *n)
{
	*n = N_KEYS;
	return keys;
}

/* The last part of path when it is a direct key of prefix, else NULL. */
static const char *own_part(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);

	if (n) {
		if (strncmp(path, prefix, n) != 0 || path[n] != '.')
			return NULL;
		path += n + 1;
	}
	return strchr(path, '.') ? NULL : path;
}

const struct spec_rule *spec_rule_find(const char *prefix, const char *key, struct spec_rule *out)
{
	size_t n = strlen(prefix);

	if (strchr(key, '.')) /* would be taken for the path of another object's key */
		return NULL;
	for (size_t i = 0; i < N_KEYS; i++) {
		const char *path = keys[i].path;

		if (strncmp(path, prefix, n) != 0 || (n && path[n] != '.') || strcmp(path + n + (n > 0), key) != 0)
			continue;
		*out = (struct spec_rule){&keys[i], rules[i].fn, rules[i].offset, rules[i].min, rules[i].max};
		return out;
	}
	return NULL;
}

/* Words that batch systems and clouds have for a key. */
static const struct {
	const char *word, *path;
} others[] = {{"gpus", "resources.gpus_per_instance"},
              {"gpu", "resources.gpus_per_instance"},
              {"num_gpus", "resources.gpus_per_instance"},
              {"gpus_per_node", "resources.gpus_per_instance"},
              {"nodes", "resources.instances"},
              {"nnodes", "resources.instances"},
              {"num_nodes", "resources.instances"},
              {"hosts", "resources.instances"},
              {"instance_count", "resources.instances"},
              {"ranks", "resources.ranks_per_instance"},
              {"processes", "resources.ranks_per_instance"},
              {"nproc_per_node", "resources.ranks_per_instance"},
              {"ntasks_per_node", "resources.ranks_per_instance"},
              {"ranks_per_node", "resources.ranks_per_instance"},
              {"cpus", "resources.cpus_per_rank"},
              {"cpu", "resources.cpus_per_rank"},
              {"cpus_per_task", "resources.cpus_per_rank"},
              {"mem", "resources.memory"},
              {"ram", "resources.memory"},
              {"type", "resources.instance_type"},
              {"gpu_type", "resources.gpu_model"},
              {"time", "limits.max_runtime_s"},
              {"time_limit", "limits.max_runtime_s"},
              {"timeout", "limits.max_runtime_s"},
              {"walltime", "limits.max_runtime_s"},
              {"max_run", "limits.max_runtime_s"},
              {"max_wait", "limits.max_wait_s"},
              {"retries", "retry.max_attempts"},
              {"max_retries", "retry.max_attempts"},
              {"restarts", "retry.max_attempts"},
              {"max_restarts", "retry.max_attempts"},
              {"partition", "queue"},
              {"dependency", "after"},
              {"depends_on", "after"},
              {"cmd", "command"},
              {"entrypoint", "command"},
              {"args", "command"},
              {"env", "environment"},
              {"hparams", "hyperparameters"},
              {"src", "source_dir"},
              {"code", "source_dir"}};

/* The key of the object with that prefix that another word means, or the whole path of one elsewhere. */
static const char *other_word(const char *prefix, const char *key)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		const char *dot, *part, *own;

		if (strcmp(others[i].word, key) != 0)
			continue;
		dot = strrchr(others[i].path, '.');
		part = dot ? dot + 1 : others[i].path;
		for (size_t k = 0; k < N_KEYS; k++) {
			own = own_part(keys[k].path, prefix);
			if (own && strcmp(own, part) == 0)
				return own;
		}
		return others[i].path;
	}
	return NULL;
}

const char *spec_key_meant(const char *prefix, const char *key)
{
	const char *known[N_KEYS + 1], *near = other_word(prefix, key);
	size_t n = 0;

	if (near)
		return near;
	for (size_t i = 0; i < N_KEYS; i++) {
		const char *part = own_part(keys[i].path, prefix);

		if (part)
			known[n++] = part;
	}
	known[n] = NULL;
	near = str_nearest(key, known);
	/* The right key in the wrong object is as common as a slip of the finger. */
	for (size_t i = 0; !near && i < N_KEYS; i++) {
		const char *dot = strrchr(keys[i].path, '.');

		if (strcmp(dot ? dot + 1 : keys[i].path, key) == 0)
			near = keys[i].path;
	}
	return near;
}

void spec_unknown_key(struct spec_parse *p, const char *prefix, const char *where, const char *key)
{
	const char *near;

	if (p->problems.n >= SPEC_MAX_PROBLEMS) { /* will only be counted: no search */
		spec_problem(p, where, "unknown key");
		return;
	}
	near = spec_key_meant(prefix, key);
	if (near)
		spec_problem(p, where, "unknown key; did you mean \"%s\"?", near);
	else
		spec_problem(p, where, "unknown key");
}
