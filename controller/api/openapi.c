/*
 * openapi: paths from the route table, the specification's keys from common/spec/spec.h, the other shapes
 * from the short table below.
 *
 * A shape is "name:type name:type". Types: s string, n number, i integer, b boolean, t time (RFC 3339), o
 * object, a list of objects, S list of strings; a<Shape> a list of that shape, O<Shape> an object of it. A
 * trailing '?' means that the member may be null or absent. Later versions may add members: clients must
 * ignore what they do not know.
 */
#include "controller/api/openapi.h"

#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/spec/spec.h"
#include "controller/http/route.h"

static const struct {
	const char *name, *fields, *description;
} shapes[] = {
    {"Problem", "type:s title:s status:i detail:s errors:S? hint:s?",
     "RFC 9457: detail: what is wrong; errors: every finding; hint: what to try next"},
    {"Submit", "spec:o bundle:s? run:o? hold:b? dry_run:b?",
     "spec: the specification as an object, or its text as a string; bundle: digest of the source tree"},
    {"Submitted",
     "id:i? name:s? status:s? text:s? max_runtime_s:i? max_runtime_from:s? dry_run:b? possible:b? "
     "nodes:i? ranks:i? members:i? expected_start:t? expected_whole:b? expected_cut:b? expected_nodes:S? "
     "price_per_hour_usd:n? expected_price_usd:n? max_price_usd:n? members_expected_price_usd:n? "
     "members_max_price_usd:n? resume_from_job:i? resume_from_step:i? change:O<Change>? resume:O<Resume>? "
     "pool:O<PoolUse>? wants_pool:i? warnings:S?",
     "the new job; with dry_run, text describes it and says whether it would start now; expected_start, "
     "expected_nodes: the present forecast; max_price_usd: the price at its time limit; members_...: of "
     "all members of an array or a sweep, the others are of one member; resume_from_job, "
     "resume_from_step: the checkpoint that a retry begins with; warnings: settings that hearthd "
     "accepts but that will hardly have the wanted effect"},
    {"JobId", "id:i", NULL},
    {"JobList", "jobs:a next:i?", "next: give it as `before` for the following page; null at the end"},
    {"Job",
     "id:i ref:s array:O<ArrayOf>? members:O<MemberCounts>? halved:b name:s? owner:s? account:s? status:s "
     "created_at:t? started_at:t? ended_at:t? ran_s:n? exit_code:i? reason:s? spec:o? attempts:a<Attempt>? "
     "metrics:o? artifacts:a? dropped:S? dropped_at:o? max_runtime_s:i? max_runtime_from:s? cost_usd:n? "
     "price_per_hour_usd:n? alerts:i alert:O<Alert>? warm_pool:O<JobPool>?",
     "ref: the id as people write it, 17.3 for a member; array: the array that it is a member of; "
     "members: of an array or sweep; halved: stopped early, because other members were better; dropped: "
     "logs, bundle, metrics and artifacts that rm (deleted) or retention has removed, with times; the "
     "summary of metrics stays; ran_s: how long the programs of its attempts ran together; of an array "
     "or a sweep from its first start to its end, null before the end; max_runtime_s: the time limit "
     "that applies; max_runtime_from: specification, set (later) or default; alerts: how many alarms its "
     "watches and rules had; alert: the newest one; warm_pool: that it left or will leave"},
    {"JobPool", "pool:i? status:s retained_s:i? reused_by:i? cause:s? cause_text:s?",
     "status: in_use (the job has not ended), available, reused (job reused_by took it) or terminated; "
     "retained_s: how long it waits, or has waited; cause, cause_text: why it is terminated"},
    {"Alert",
     "kind:s at:t step:i? onset:i? loss:n? reference:n? step_s:n? usual_s:n? rank:i? node:s? action:s? "
     "pinned_step:i? rule:s? value:n? text:s",
     "kind: spike, drop, nan, divergence, plateau, slow, stall, hang or rule; onset: its first bad step; "
     "loss: "
     "at `step`, null when not finite; reference: the level before; step_s, usual_s: seconds of a step; "
     "action: what the job's keys say; pinned_step: of the checkpoint that was pinned"},
    {"ArrayOf", "job:i index:i", "the member number `index`, from 0, of that job"},
    {"MemberCounts", "count:i waiting:i running:i completed:i failed:i stopped:i",
     "waiting: also held members and those without a record yet; running: all members that hold "
     "resources"},
    {"MemberList", "metric:s? goal:s? made:i members:a<Member>",
     "the best first when there is a metric, else by index; made: how many have a record already"},
    {"Member", "id:i ref:s array:O<ArrayOf> status:s reason:s? values:o metric:O<MemberMetric>? rungs:a",
     "a job, with the values that its sweep gave it and its result; rungs: its values at the comparisons "
     "of search.halving"},
    {"MemberMetric", "best:n? last:n? min:n? max:n? step:i?",
     "best: min or max, according to the goal; the strings nan, inf, -inf are values that are not "
     "numbers"},
    {"Changed", "id:i ref:s name:s? status:s text:s warnings:S?",
     "status: after the change; text: what was done, or that it was already so; warnings: what is "
     "doubtful about the checkpoint that a requeue names"},
    {"JobChange", "priority:i? time:o? queue:s? notes:s? name:s? pinned:b? tags:o?",
     "time: seconds, or text such as 2h; a tag set to null is removed"},
    {"CheckpointList", "checkpoints:a<Checkpoint>", NULL},
    {"Checkpoint",
     "step:i? at:t? attempt:i save_s:n loss:n? loss_finite:b? size_bytes:i digest:s shards:i "
     "places:a<CheckpointPlace> "
     "complete:b pinned:b set_aside:b step_by:s",
     "at: when it was complete; save_s: how long the program wrote it; loss: the last one up to that step; "
     "loss_finite: false when that is NaN or infinite, else absent; "
     "digest: of its part, or of the digests of its parts; shards: parts that the program names, 0: it "
     "says nothing; set_aside: a rollback left it behind; step_by: hearth.json, table, name or metric"},
    {"CheckpointPlace", "node:s? uri:s? state:s node_rank:i name:s digest:s",
     "a copy on a node, or outside: file:// folder, blob:DIGEST in hearthd's store; state: copying, "
     "verified, torn, gone; node_rank: of the node that wrote this part; name: of the file or folder that "
     "the program wrote; digest: of this part"},
    {"CheckpointChange", "step:i pinned:b", NULL},
    {"Stop", "grace_s:i?", NULL},
    {"Requeue", "from_start:b? from_step:i?",
     "from_start: start as the specification says, like the first attempt; from_step: resume at that "
     "step of any attempt"},
    {"Retry", "from_step:i? hold:b? dry_run:b?", "from_step: left out, the newest one that can be used"},
    {"Clone", "set:o? hold:b? dry_run:b?", "set: {\"hyperparameters.lr\": 0.05}; null removes the key"},
    {"Why",
     "id:i ref:s status:s text:s waits_for:S ahead:i behind:i? due:b? need_instances:i? "
     "free_instances:i? possible_instances:i? expected_start:t? expected_whole:b? expected_cut:b? "
     "next:a? change:O<Change>? resume:O<Resume>? pool:O<PoolUse>? wants_pool:i?",
     "text: a sentence; ahead: jobs that go first; due: the job has waited so long that it goes before "
     "fair share; need_instances, free_instances, possible_instances: of a waiting job, the instances "
     "that it needs, that are free, and that the cluster could give"},
    {"EventList", "events:a next:i?", "next: give it as `after`"},
    {"AttemptList", "attempts:a<Attempt>", NULL},
    {"Attempt",
     "number:i state:s outcome:s? class:s? reason:s? cause:s? nodes:S started_at:t? ended_at:t? exit_code:i? "
     "signal:i? resumed_from_step:i? resumed_from:s? evidence:o? plan:o? skip_steps:s? set_aside:a "
     "lost_steps:i? lost_s:n? recovery:a<RecoveryPhase> phases:a placement:a? epoch:i launch_id:s? "
     "master_port:i? price_per_hour_usd:n? cost_usd:n? pool:O<PoolUse>?",
     "cause: why it was started; evidence: what its outcome was judged by; plan: what follows (action, "
     "step, avoid, text); skip_steps: ranges that the program leaves out, of all rollbacks before it; "
     "set_aside: steps of its checkpoints that rollbacks have left behind; lost_steps, lost_s: what it did "
     "after the checkpoint with which the next attempt begins, null while that is not known; recovery: from "
     "the first trace of its failure to the first new step, empty if no attempt follows a failure"},
    {"RecoveryPhase", "phase:s started_at:t ended_at:t?",
     "phase: noticed, stopped, collected, back_off, placed, prepared, launched, first_step; a phase that "
     "did not occur is left out"},
    {"RankList", "ranks:a", NULL},
    {"Metrics", "",
     "one member for each name: {last, min, max, step, count, attempt, rank, ranks}; of one rank in one "
     "attempt"},
    {"Series", "name:s rank:i? attempt:i? points:a",
     "points: [step, time, value] or, downsampled (raw: false), [step, time, mean, min, max, points, "
     "nan]"},
    {"Run", "facts:a", "facts: {attempt, node, kind, text}"},
    {"LogList", "streams:a", "streams: {attempt, stream, size, complete}"},
    {"ArtifactList", "artifacts:a members:a?",
     "artifacts: {kind, attempt, node, digest, uri, size_bytes, files, at, removed_at}; members: of an "
     "array or a sweep, {id, ref, kinds} of those that left something, at most 1,000"},
    {"Digests", "digests:S", "at most 10,000"},
    {"Missing", "missing:S", NULL},
    {"BlobState", "digest:s offset:i complete:b", "offset: the bytes that hearthd has; continue from there"},
    {"NodeList", "nodes:a<Node>", NULL},
    {"Node",
     "id:i name:s state:s reason:s? connected:b drain:b spare:b protocol:i? address:s? instance_type:s? "
     "cpus:i "
     "slots:i "
     "slots_used:i gpus:i gpus_used:i gpu_list:a<Gpu> memory_bytes:i memory_held_bytes:i "
     "memory_used_bytes:i disk_bytes:i disk_free_bytes:i load1:n cpu_used:n price_per_hour:n power_w:n "
     "doubt:i trouble:O<Trouble>? beat_age_ms:i? clock_ahead_ms:n? clock_error_ms:n? joined_at:t? "
     "seen_at:t? suspect_since:t? switch:s? rack:s? labels:S jobs:a reservations:a pools:a<NodePool>",
     "state: up, connecting, suspect (not heard at the moment), incompatible (upgrade its agent), drained, "
     "maintenance, down, lost, joining; "
     "spare: it only replaces nodes that jobs lost; protocol: version that its agent speaks; doubt: 0 "
     "healthy; the scheduler "
     "uses nodes with more (up to 3) only when others do not suffice; reservations: {name, state, "
     "maintenance, queue, from, to} that are not over; memory_held_bytes: promised to jobs; "
     "clock_ahead_ms: compared with hearthd's clock, exact to clock_error_ms; jobs: ids of its jobs; pools: "
     "warm pools that have a part there"},
    {"Trouble", "connections:i launches:i losses:i last:s? last_at:t?",
     "failures of a node within a day, since the start of hearthd: connections that broke off, launches "
     "that failed on it, its losses"},
    {"Gpu", "index:i model:s? uuid:s? memory_bytes:i job:i? util:n? memory_used:i?",
     "job: the id of the job that holds it"},
    {"NodeChanged", "name:s state:s drain:b spare:b jobs:i", "jobs: the number of its jobs"},
    {"Spare", "off:b?", "off: it takes all jobs again"},
    {"Drain", "reason:s?", NULL},
    {"TraceParts", "parts:a<TracePart>", "empty: the scheduler has had no input yet"},
    {"TracePart", "part:i began_at:t written_at:t bytes:i",
     "each start of hearthd begins a new part; every part can be replayed alone; the oldest are removed"},
    {"TraceLines", "part:i texts:S next:i?",
     "texts: pieces of whole lines, to be joined; next: give it as `after`, null at the end"},
    {"QueueList", "queues:a<Queue>", "queues: Queue each; also users that have waited or used something"},
    {"Queue",
     "name:s queue:b weight:n quota_gpus:i? borrow:b quota_warm_gpus:i? quota_warm_nodes:i? warm_gpus:i? "
     "warm_nodes:i? gpus:i waiting:i waiting_gpus:i used_gpu_hours:n",
     "name: QUEUE, or QUEUE/@USER; queue: it has settings; gpus: held now; waiting: jobs, waiting_gpus: "
     "the GPUs that they need; used_gpu_hours: decays with a half-life of a week; 16 CPU slots of jobs "
     "without GPUs count as one GPU; quota_warm_*: limits of what is idle in warm pools, warm_*: what is "
     "idle there now, if there is a limit"},
    {"QueueName", "name:s", NULL},
    {"QueueChange", "name:s weight:n?", "a/b is below a; a/@ada is the user ada in a"},
    {"QuotaChange", "name:s gpus:i? borrow:b? warm_gpus:i? warm_nodes:i?",
     "borrow: allows more than the quota, after all that are within theirs; warm_gpus, warm_nodes: may be "
     "idle in warm pools; what is not given stays"},
    {"InstanceList", "instances:a<Instance>", "by name; also types that only nodes name"},
    {"Instance",
     "name:s family:s? size:s? gpus:i? gpu_model:s? gpu_memory_gb:n? vcpus:i? memory_gib:n? "
     "network_gbps:n? nvlink:b? formats:S price_per_hour:n? power_w:n? as:S shipped:b set:b nodes:i",
     "name: without \"ml.\"; null: unknown; as: types that its nodes can replace; nodes: how many nodes "
     "have this type"},
    {"InstanceChange",
     "name:s gpus:i? gpu_model:s? gpu_memory_gb:n? vcpus:i? memory_gib:n? network_gbps:n? nvlink:b? "
     "formats:S? price_per_hour:n? power_w:n? as:S?",
     "facts that are not given stay; null resets a fact"},
    {"NodePool", "pool:i name:s? owner:s? state:s expires_at:t? gpus:a parked:b",
     "state: available or in_use; parked: a launch waits there for a job"},
    {"PoolUse", "id:i level:s missed:o? nodes:S? others:a? parked:i?",
     "level: node, environment, launch or interpreter; missed: the first thing that prevented the next "
     "level, {level, "
     "field, had, wants, text: instead of a difference}; parked: number of the parking whose launch became "
     "the job's; "
     "nodes: all that are warm; others: those of them in other pools, {id, nodes}"},
    {"PoolList", "pools:a<Pool> total:i", "total: how many there are, also beyond the limit"},
    {"Pool",
     "id:i name:s owner:s queue:s? exclusive:b state:s made_by:i used_by:i? keep_alive_s:i kept_by:s? "
     "made_at:t idle_since:t? expires_at:t? ended_at:t? cause:s? cause_text:s? idle_usd:n? environment:o? "
     "nodes:a gpus:i ended_nodes:a<PoolEnded> parked:O<PoolParked>? launcher:s? preload:S",
     "name: of the job that used it last; state: available, in_use, terminated; made_by, used_by: jobs; "
     "kept_by: the user that set its time, null: its last job did; cause: why it ended (expired, dropped, "
     "gave way, node, limit, owner), cause_text: as a sentence; idle_usd: what all its idle time has cost; "
     "environment: digests {requirements, source, inputs: [{name, digest}]}; nodes: {node, gpus, cpus, "
     "memory_bytes, state}; ended_nodes: the newest 16; launcher, preload: of the job that used it last"},
    {"PoolParked", "number:i state:s since:t? level:s? text:s?",
     "what waits for a job; state: preparing, starting, parked, failed; level: that a job gets now; text: "
     "why "
     "nothing waits, or why jobs get no interpreter"},
    {"PoolEnded", "node:s cause:s cause_text:s? at:t",
     "a part of a pool that ended; cause: that of a pool, or taken: by a job that takes only this part"},
    {"PoolChange", "keep_alive_s:i", "seconds from now"},
    {"ReservationList", "reservations:a<Reservation>", NULL},
    {"Reservation",
     "name:s state:s maintenance:b queue:s? from:t to:t nodes:S still_running:a reason:s? by:s "
     "created_at:t",
     "state: planned, active, ended; queue: whose jobs may use the nodes, null: nobody's (maintenance); "
     "still_running: jobs {id, name, owner, until} whose time limits reach into it; they are not stopped"},
    {"ReservationNew",
     "name:s nodes:S? count:i? instance_type:s? from:t? to:t? for_s:i? queue:s? maintenance:b? reason:s?",
     "nodes, or a number of them (count, of instance_type): those that are free soonest; from: now "
     "unless given; to or for_s; queue or maintenance"},
    {"ReservationChange",
     "nodes:S? count:i? instance_type:s? from:t? to:t? for_s:i? queue:s? maintenance:b? reason:s?",
     "members that are not given stay; a new start alone moves the end, too"},
    {"Change", "key:s value:o text:s",
     "the cheapest change that lets a waiting job fit now: a key of the specification and its value"},
    {"Resume", "nodes:S now:b text:s",
     "drained nodes to resume so that the job fits unchanged, while present jobs run (now), or at all"},
    {"Cost", "by:s from:t? to:t? total_usd:n total_idle_usd:n rows:a<CostRow> more:i",
     "the dearest first; more: rows left out"},
    {"CostRow", "name:s job:i? usd:n idle_usd:n jobs:i attempts:i running:i hours:n",
     "hours: the time that attempts held nodes; attempts on nodes without a price cost nothing; "
     "idle_usd: of the time for which warm pools of these jobs waited, not part of usd"},
    {"BudgetList", "budgets:a<Budget>", NULL},
    {"Budget", "name:s usd:n period:s spent_usd:n usd_per_hour:n action:s used_up:b resets_at:t",
     "usd_per_hour: of running jobs; used_up: hearthd starts no more of its jobs until resets_at; with "
     "action end it also ends running ones"},
    {"BudgetChange", "name:s usd:n? period:s? action:s?",
     "period: day, week or month, of UTC; a new budget: month. action: hold (running jobs continue when "
     "it is used up; a new budget) or end (they are ended)"},
    {"TokenRequest", "kind:s? ttl_s:i? user:s? scope:s? note:s?",
     "kind: join or user; ttl_s 0: a user's token never expires; scope: user, read, submit, job:ID or admin"},
    {"Token", "id:s kind:s token:s expires_at:t? user:s? scope:s?", NULL},
    {"TokenList", "tokens:a<TokenFacts>", NULL},
    {"TokenFacts",
     "id:s kind:s user:s? scope:s account:s? note:s? made_with:s? created_at:t expires_at:t? used_at:t? "
     "used_from:s?",
     "kind: user, session or join; used_at: to the minute"},
    {"TokenRemoved", "id:s kind:s user:s?", NULL},
    {"Join", "token:s node:s csr:s", NULL},
    {"Joined", "node:s cert:s ca:s", "PEM"},
    {"Top", "nodes:O<TopNodes> jobs:O<TopJobs> running:a<TopRunning> waiting:a<TopWaiting> problem:s?",
     "problem: why hearthd records nothing, or accepts no new work"},
    {"TopNodes",
     "total:i up:i gpus:i gpus_used:i slots:i slots_used:i warm_nodes:i warm_gpus:i parked_nodes:i",
     "of nodes that are up; warm_nodes, warm_gpus: idle in warm pools; parked_nodes: those with a launch "
     "that "
     "waits"},
    {"TopJobs", "running:i starting:i stopping:i waiting:i held:i", NULL},
    {"TopRunning",
     "id:i ref:s name:s? owner:s? status:s attempt:i gpus:i started_at:t? ran_s:n? nodes:S metrics:o",
     "at most 1,000; ran_s: as of a Job; metrics: the last value of each"},
    {"TopWaiting", "id:i ref:s name:s? owner:s? priority:i nodes:i gpus:i queued_at:t? text:s",
     "the first 20; text: why, of the first 5"},
    {"Whoami", "user:s role:s scope:s account:s? token:s? job:i? cluster:s version:s", "token: its id"},
    {"Session", "user:s key:s id:s expires_at:t", "key: the page sends it as X-Hearth-Key"},
    {"Login", "token:s", NULL},
    {"LoginLink", "path:s expires_at:t", NULL},
    {"Health", "status:s version:s problem:s?",
     "problem: why hearthd records nothing, or accepts no new work"},
    {"OpenApi", "openapi:s paths:o", NULL},
};

/* ---- schemas ---------------------------------------------------------------------------------- */

static cJSON *make_reference(const char *name)
{
	cJSON *o = cJSON_CreateObject();
	char *path = xasprintf("#/components/schemas/%s", name);

	cJSON_AddStringToObject(o, "$ref", path);
	free(path);
	return o;
}

/* of: the shape between the angle brackets, NULL none. */
static cJSON *type_of(char t, const char *of)
{
	cJSON *o, *items;
	static const char *const names =
	    "s:string n:number i:integer b:boolean t:string o:object a:array S:array";
	const char *p = strchr(names, t);
	size_t n;

	if (t == 'O')
		return make_reference(of);
	o = cJSON_CreateObject();
	while (p && p[1] != ':')
		p = strchr(p + 1, t);
	if (t == 'o') /* spec and time may be text too */
		return o;
	n = p ? strcspn(p + 2, " ") : 0;
	if (p) {
		char *name = xstrndup(p + 2, n);

		cJSON_AddStringToObject(o, "type", name);
		free(name);
	}
	if (t == 't')
		cJSON_AddStringToObject(o, "format", "date-time");
	if (t == 'a' && of) {
		cJSON_AddItemToObject(o, "items", make_reference(of));
	} else if (t == 'a' || t == 'S') {
		items = cJSON_AddObjectToObject(o, "items");
		if (t == 'S')
			cJSON_AddStringToObject(items, "type", "string");
	}
	return o;
}

static cJSON *make_shape(const char *fields, const char *description)
{
	cJSON *o = cJSON_CreateObject(), *properties, *required;
	const char *p = fields;

	cJSON_AddStringToObject(o, "type", "object");
	if (description)
		cJSON_AddStringToObject(o, "description", description);
	properties = cJSON_AddObjectToObject(o, "properties");
	required = cJSON_CreateArray();
	while (*p) {
		size_t n = strcspn(p, ":");
		char *name = xstrndup(p, n), type = p[n + 1], *of = NULL;
		const char *end = p + n + 2;

		if (*end == '<') {
			of = xstrndup(end + 1, strcspn(end, ">") - 1);
			end += strcspn(end, ">") + 1;
		}
		if (*end != '?')
			cJSON_AddItemToArray(required, cJSON_CreateString(name));
		cJSON_AddItemToObject(properties, name, type_of(type, of));
		free(name);
		free(of);
		p += n + strcspn(p + n, " ");
		p += strspn(p, " ");
	}
	if (cJSON_GetArraySize(required))
		cJSON_AddItemToObject(o, "required", required);
	else
		cJSON_Delete(required);
	return o;
}

static cJSON *spec_schema(void)
{
	cJSON *o = cJSON_CreateObject(), *properties = cJSON_AddObjectToObject(o, "properties");
	size_t n, i;
	const struct spec_key *keys = spec_keys(&n);

	cJSON_AddStringToObject(o, "type", "object");
	cJSON_AddStringToObject(o, "description", "job.json; keys with dots are members of objects");
	for (i = 0; i < n; i++) {
		cJSON *k = cJSON_AddObjectToObject(properties, keys[i].path);

		cJSON_AddStringToObject(k, "x-type", keys[i].type);
		cJSON_AddStringToObject(k, "description", keys[i].help ? keys[i].help : "");
		if (!keys[i].built)
			cJSON_AddStringToObject(k, "x-status", "reserved: refused until it is built");
	}
	return o;
}

/* ---- operations ------------------------------------------------------------------------------- */

static void add_parameter(cJSON *list, const char *name, size_t n, const char *in, const char *type)
{
	cJSON *p = cJSON_CreateObject(), *schema;
	char *copy = xstrndup(name, n);

	cJSON_AddStringToObject(p, "name", copy);
	cJSON_AddStringToObject(p, "in", in);
	if (strcmp(in, "path") == 0)
		cJSON_AddTrueToObject(p, "required");
	schema = cJSON_AddObjectToObject(p, "schema");
	cJSON_AddStringToObject(schema, "type", type);
	cJSON_AddItemToArray(list, p);
	free(copy);
}

static void add_parameters(cJSON *op, const struct route *r)
{
	cJSON *list = cJSON_CreateArray();
	const char *p = r->pattern, *end;

	while ((p = strchr(p, '{'))) {
		end = strchr(p, '}');
		add_parameter(list, p + 1, (size_t)(end - p - 1) - (end[-1] == '*'), "path",
		              strncmp(p, "{id}", 4) != 0 ? "string" : "integer");
		p = end;
	}
	for (p = r->query; *p;) {
		size_t n = strcspn(p, ":");
		char t = p[n + 1];

		add_parameter(list, p, n, "query", t == 'b' ? "boolean" : t == 's' ? "string" : "integer");
		p += n + 2;
		p += strspn(p, " ");
	}
	if (r->flags & RF_WRITE)
		add_parameter(list, "Idempotency-Key", 15, "header", "string");
	if (cJSON_GetArraySize(list))
		cJSON_AddItemToObject(op, "parameters", list);
	else
		cJSON_Delete(list);
}

static void add_content(cJSON *at, const char *schema)
{
	cJSON *content = cJSON_AddObjectToObject(at, "content");

	if (strcmp(schema, "*") == 0)
		cJSON_AddObjectToObject(content, "application/octet-stream");
	else if (strcmp(schema, "text") == 0)
		cJSON_AddObjectToObject(content, "text/plain");
	else if (strcmp(schema, "events") == 0)
		cJSON_AddObjectToObject(content, "text/event-stream");
	else
		cJSON_AddItemToObject(cJSON_AddObjectToObject(content, "application/json"), "schema",
		                      make_reference(schema));
}

static cJSON *make_operation(const struct route *r)
{
	static const char *const roles[] = {"nobody needs to be logged in", "a job's token is enough", "a user",
	                                    "an administrator"};
	cJSON *op = cJSON_CreateObject(), *responses, *answer, *security;
	const char *status = r->flags & RF_LATER ? "501" : "200";

	cJSON_AddStringToObject(op, "summary", r->summary);
	cJSON_AddStringToObject(op, "x-role", roles[r->role]);
	if (r->flags & RF_LATER) {
		cJSON_AddStringToObject(op, "x-status", "not built yet");
		cJSON_AddTrueToObject(op, "deprecated"); /* generators leave it out */
	}
	add_parameters(op, r);
	if (r->request)
		add_content(cJSON_AddObjectToObject(op, "requestBody"), r->request);
	responses = cJSON_AddObjectToObject(op, "responses");
	answer = cJSON_AddObjectToObject(responses, status);
	cJSON_AddStringToObject(answer, "description", r->flags & RF_LATER ? "not built yet" : "done");
	if (r->response && !(r->flags & RF_LATER))
		add_content(answer, r->response);
	answer = cJSON_AddObjectToObject(responses, "default");
	cJSON_AddStringToObject(answer, "description", "a problem");
	cJSON_AddItemToObject(
	    cJSON_AddObjectToObject(cJSON_AddObjectToObject(answer, "content"), "application/problem+json"),
	    "schema", make_reference("Problem"));
	if (r->role == ROLE_NONE) {
		security = cJSON_AddArrayToObject(op, "security");
		(void)security; /* empty: none needed */
	}
	return op;
}

/* OpenAPI has no "rest of the path": the star is left out of the name. */
static char *path_name(const char *pattern)
{
	char *name = xstrdup(pattern), *star = strchr(name, '*');

	if (star)
		memmove(star, star + 1, strlen(star));
	return name;
}

static void add_paths(cJSON *doc, const struct route *r, size_t n)
{
	cJSON *paths = cJSON_AddObjectToObject(doc, "paths");

	for (size_t i = 0; i < n; i++) {
		char *name = path_name(r[i].pattern), method[8];
		cJSON *path = cJSON_GetObjectItemCaseSensitive(paths, name);
		size_t k;

		if (!path)
			path = cJSON_AddObjectToObject(paths, name);
		snprintf(method, sizeof(method), "%s", http_method_name(r[i].method));
		for (k = 0; method[k]; k++)
			method[k] = (char)(method[k] | 0x20);
		cJSON_AddItemToObject(path, method, make_operation(&r[i]));
		free(name);
	}
}

cJSON *openapi_build(const struct route *table, size_t n)
{
	cJSON *doc = cJSON_CreateObject(), *info, *components, *schemas, *bearer, *list;
	unsigned i;

	cJSON_AddStringToObject(doc, "openapi", "3.1.0");
	info = cJSON_AddObjectToObject(doc, "info");
	cJSON_AddStringToObject(info, "title", "Hearth");
	cJSON_AddStringToObject(info, "version", PACKAGE_VERSION);
	cJSON_AddStringToObject(
	    info, "description",
	    "Training jobs on a cluster of your own. Times are RFC 3339 in UTC; ids are decimal and never "
	    "used again; every error is application/problem+json.");
	add_paths(doc, table, n);
	components = cJSON_AddObjectToObject(doc, "components");
	schemas = cJSON_AddObjectToObject(components, "schemas");
	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		cJSON_AddItemToObject(schemas, shapes[i].name, make_shape(shapes[i].fields, shapes[i].description));
	cJSON_AddItemToObject(schemas, "Spec", spec_schema());
	bearer = cJSON_AddObjectToObject(cJSON_AddObjectToObject(components, "securitySchemes"), "bearer");
	cJSON_AddStringToObject(bearer, "type", "http");
	cJSON_AddStringToObject(bearer, "scheme", "bearer");
	list = cJSON_AddArrayToObject(doc, "security");
	bearer = cJSON_CreateObject();
	cJSON_AddArrayToObject(bearer, "bearer");
	cJSON_AddItemToArray(list, bearer);
	return doc;
}

char *openapi_text(const struct route *table, size_t n)
{
	cJSON *doc = openapi_build(table, n);
	char *text = json_text(doc);

	cJSON_Delete(doc);
	return text;
}
