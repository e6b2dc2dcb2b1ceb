/*
 * route_table: every address of the API, one line each.
 *
 * A new route is a line here, a handler in one of the api_ files with its prototype, and, when it has new
 * shapes, a schema in openapi.c. tests/unit/controller/http/test_http_routes checks that the three agree.
 */
#include "controller/api/api.h"
#include "controller/api/api_cluster.h"
#include "controller/api/api_jobs.h"
#include "controller/http/route.h"
#include "controller/io/agents.h"

#define V1   "/api/v1"
#define JOBS V1 "/jobs"
#define JOB  V1 "/jobs/{id}"

#define LOG_QUERY "offset:i limit:u follow:b attempt:u node:s skip:b"

static const struct route table[] = {
    /* jobs */
    {HTTP_POST, JOBS, ROLE_JOB, RF_WRITE | RF_SUBMIT | RF_SPEC, api_jobs_submit, "", "Submit", "Submitted",
     "submit a job"},
    {HTTP_GET, JOBS, ROLE_USER, 0, api_jobs_list,
     "owner:s mine:b status:s name:s text:s experiment:s tag:s before:u limit:u deleted:b members:b array:u",
     NULL, "JobList",
     "list jobs, newest first, in pages by before and next; an array or sweep counts as one job, unless "
     "members or "
     "array=ID asks for its members"},
    {HTTP_GET, JOBS "/resolve", ROLE_JOB, 0, api_jobs_resolve, "ref:s", NULL, "JobId",
     "find the id of \"last\", a name, NAME~1 or a member (17.3)"},
    {HTTP_GET, JOB, ROLE_JOB, RF_JOB | RF_FINDS, api_job_get, "", NULL, "Job",
     "show one job with attempts, metrics and artifacts"},
    {HTTP_GET, JOB "/members", ROLE_JOB, RF_JOB | RF_FINDS, api_job_members, "metric:s limit:u", NULL,
     "MemberList",
     "list members of an array or sweep with their values, the best first; metric: compare them by another "
     "one"},
    {HTTP_PATCH, JOB, ROLE_USER, RF_JOB | RF_WRITE, api_job_set, "", "JobChange", "Changed",
     "change priority, time limit, queue, notes, name, tags or pin"},
    {HTTP_DELETE, JOB, ROLE_USER, RF_JOB | RF_WRITE, api_job_rm, "", NULL, "Changed",
     "remove a job's data; its record stays"},
    {HTTP_POST, JOB "/stop", ROLE_USER, RF_JOB | RF_WRITE, api_job_stop, "", "Stop", "Changed", "stop a job"},
    {HTTP_POST, JOB "/hold", ROLE_USER, RF_JOB | RF_WRITE, api_job_hold, "", NULL, "Changed",
     "hold a waiting job"},
    {HTTP_POST, JOB "/release", ROLE_USER, RF_JOB | RF_WRITE, api_job_release, "", NULL, "Changed",
     "release a held job"},
    {HTTP_POST, JOB "/requeue", ROLE_USER, RF_JOB | RF_WRITE, api_job_requeue, "", "Requeue", "Changed",
     "end the present attempt and queue the job again; it resumes from its checkpoints, or from the step in "
     "the "
     "body"},
    {HTTP_POST, JOB "/clone", ROLE_USER, RF_JOB | RF_WRITE, api_job_clone, "", "Clone", "Submitted",
     "submit the same specification again, with changes; only for the owner, since it has secrets"},
    {HTTP_POST, JOB "/retry", ROLE_USER, RF_JOB | RF_WRITE, api_job_retry, "", "Retry", "Submitted",
     "submit an ended job again as a new job that begins with its newest checkpoint that can be used, or "
     "with "
     "that "
     "of a step; only for the owner"},
    {HTTP_POST, JOB "/checkpoint", ROLE_USER, RF_JOB | RF_WRITE | RF_LATER, NULL, "", NULL, "Job",
     "ask the program for a checkpoint"},
    {HTTP_GET, JOB "/checkpoints", ROLE_JOB, RF_JOB, api_job_checkpoints, "", NULL, "CheckpointList",
     "list registered checkpoints, oldest first"},
    {HTTP_PATCH, JOB "/checkpoints", ROLE_USER, RF_JOB | RF_WRITE, api_job_checkpoint, "", "CheckpointChange",
     "Changed", "pin or unpin the checkpoint of a step"},
    {HTTP_GET, JOB "/report", ROLE_JOB, RF_JOB | RF_LATER, NULL, "", NULL, "Problem",
     "read the report of a run"},
    {HTTP_GET, JOB "/shell", ROLE_USER, RF_JOB | RF_WRITE | RF_LATER, NULL, "", NULL, "Problem",
     "open a terminal in a running job (WebSocket)"},
    {HTTP_GET, JOB "/why", ROLE_JOB, RF_JOB, api_job_why, "", NULL, "Why",
     "explain what the job waits for, or why it ended"},
    {HTTP_GET, JOB "/events", ROLE_JOB, RF_JOB, api_job_events, "after:u limit:u", NULL, "EventList",
     "list events of a job, oldest first"},
    {HTTP_GET, JOB "/attempts", ROLE_JOB, RF_JOB, api_job_attempts, "", NULL, "AttemptList",
     "list attempts with nodes, phases and outcome"},
    {HTTP_GET, JOB "/ranks", ROLE_JOB, RF_JOB, api_job_ranks, "attempt:u", NULL, "RankList",
     "list ranks of an attempt, by default the newest"},
    {HTTP_GET, JOB "/metrics", ROLE_JOB, RF_JOB, api_job_metrics, "rank:i attempt:u", NULL, "Metrics",
     "list the last, least and greatest value of each metric, of one rank in one attempt"},
    {HTTP_GET, JOB "/metrics/{metric*}", ROLE_JOB, RF_JOB, api_job_metric, "rank:i attempt:u points:u", NULL,
     "Series", "read one series of a metric, at most `points` points (0: all)"},
    {HTTP_GET, JOB "/run", ROLE_JOB, RF_JOB, api_job_run, "", NULL, "Run",
     "show the origin of the code, packages, versions, the mpirun line"},
    {HTTP_GET, JOB "/spec", ROLE_JOB, RF_JOB | RF_FINDS, api_job_spec, "", NULL, "Spec",
     "show the specification as submitted, with masked secrets"},
    {HTTP_GET, JOB "/logs", ROLE_JOB, RF_JOB, api_logs_list, "attempt:u", NULL, "LogList",
     "list log streams with their sizes"},
    {HTTP_GET, JOB "/logs/{stream}", ROLE_JOB, RF_JOB | RF_FINDS | RF_STREAM, api_logs_read, LOG_QUERY, NULL,
     "*",
     "read bytes of a stream (rank-N, rank, mpirun, setup, system) from an offset; negative: from its end. "
     "With "
     "Accept: text/event-stream the answer is events"},
    {HTTP_GET, JOB "/artifacts", ROLE_JOB, RF_JOB, api_job_artifacts, "", NULL, "ArtifactList",
     "list the artifacts of the job"},
    {HTTP_GET, JOB "/artifacts/{kind}", ROLE_JOB, RF_JOB, api_artifact, "manifest:b node:s", NULL, "*",
     "list files of one artifact (model, output, code, ...); manifest=1 gives the tree's manifest"},
    {HTTP_GET, JOB "/artifacts/{kind}/{rest*}", ROLE_JOB, RF_JOB | RF_STREAM, api_artifact_file, "node:s",
     NULL, "*", "read one file of an artifact; Range is supported"},

    /* content-addressed data */
    {HTTP_POST, V1 "/blobs/missing", ROLE_JOB, RF_SUBMIT, api_blobs_missing, "", "Digests", "Missing",
     "list those of the given blobs that hearthd does not have"},
    {HTTP_GET, V1 "/blobs/{digest}", ROLE_JOB, RF_STREAM, api_blob_get, "job:u kind:s", NULL, "*",
     "read a blob that is part of a job's artifact of that kind; Range is supported"},
    {HTTP_HEAD, V1 "/blobs/{digest}", ROLE_JOB, 0, api_blob_head, "", NULL, NULL,
     "tell how much of a blob hearthd has: X-Hearth-Offset, and 200 for a whole blob, else 404"},
    {HTTP_PUT, V1 "/blobs/{digest}", ROLE_JOB, RF_RAW | RF_SUBMIT, api_blob_put, "offset:u size:u", "*",
     "BlobState",
     "store a piece of at most 4 MiB of a blob at an offset; the first piece needs size (of the whole)"},

    /* cluster */
    {HTTP_GET, V1 "/nodes", ROLE_USER, 0, api_nodes, "", NULL, "NodeList",
     "list nodes with GPUs, CPUs, their jobs and load"},
    {HTTP_GET, V1 "/nodes/{name}", ROLE_USER, 0, api_node, "", NULL, "Node", "show one node"},
    {HTTP_POST, V1 "/nodes/{name}/drain", ROLE_ADMIN, RF_WRITE, api_node_drain, "", "Drain", "NodeChanged",
     "drain a node: it gets no new work"},
    {HTTP_POST, V1 "/nodes/{name}/resume", ROLE_ADMIN, RF_WRITE, api_node_resume, "", NULL, "NodeChanged",
     "resume a node: it gets work again"},
    {HTTP_POST, V1 "/nodes/{name}/spare", ROLE_ADMIN, RF_WRITE, api_node_spare, "", "Spare", "NodeChanged",
     "keep a node to replace nodes that jobs lose; it takes no other jobs"},
    {HTTP_POST, V1 "/nodes/{name}/lost", ROLE_ADMIN, RF_WRITE, api_node_lost, "", "Drain", "NodeChanged",
     "declare a silent node lost: its ranks are lost, and it is fenced when it returns"},
    {HTTP_POST, V1 "/nodes/{name}/check", ROLE_ADMIN, RF_WRITE | RF_LATER, NULL, "", NULL, "Problem",
     "check a node's health now"},
    {HTTP_DELETE, V1 "/nodes/{name}", ROLE_ADMIN, RF_WRITE, api_node_rm, "force:b", NULL, "NodeChanged",
     "remove a silent node and revoke its certificate; 409 while it has jobs, unless force confirms that it "
     "is "
     "down"},
    {HTTP_GET, V1 "/tokens", ROLE_USER, 0, api_token_list, "", NULL, "TokenList",
     "list tokens and sessions: one's own; an administrator gets all"},
    {HTTP_POST, V1 "/tokens", ROLE_USER, RF_WRITE, api_tokens, "", "TokenRequest", "Token",
     "make a token: for a node to join (administrators), or for a user"},
    {HTTP_DELETE, V1 "/tokens/{name}", ROLE_USER, RF_WRITE, api_token_rm, "", NULL, "TokenRemoved",
     "remove a token or end a session, and all that was made with it"},
    {HTTP_POST, V1 "/agents/join", ROLE_NONE, RF_WRITE, api_join, "", "Join", "Joined",
     "join a node: a certificate for a join token"},
    {HTTP_GET, V1 "/stream", ROLE_JOB, RF_STREAM, api_stream, "job:u after:u", NULL, "events",
     "follow events; Last-Event-ID or after resumes"},
    {HTTP_GET, V1 "/top", ROLE_USER, 0, api_top, "", NULL, "Top",
     "show running and waiting jobs and the use of nodes"},
    {HTTP_GET, V1 "/pools", ROLE_USER, 0, api_pools, "state:s owner:s limit:u", NULL, "PoolList",
     "list warm pools; state: available, in_use, terminated (for an hour) or all; without it those that "
     "live; limit: 100, at most 1000"},
    {HTTP_GET, V1 "/pools/{name}", ROLE_USER, 0, api_pool, "", NULL, "Pool",
     "show one warm pool, by its id or its name"},
    {HTTP_PATCH, V1 "/pools/{name}", ROLE_USER, RF_WRITE, api_pool_keep, "", "PoolChange", "Pool",
     "set how long a warm pool waits, counted from now; its owner or an administrator"},
    {HTTP_DELETE, V1 "/pools/{name}", ROLE_USER, RF_WRITE, api_pool_drop, "node:s", NULL, "Pool",
     "end a warm pool, or its parts on nodes (names with commas between); its owner or an administrator"},
    {HTTP_GET, V1 "/queues", ROLE_USER, 0, api_queues, "", NULL, "QueueList",
     "list queues and their users: weights, quotas, what they hold, wait for and have used"},
    {HTTP_POST, V1 "/queues", ROLE_ADMIN, RF_WRITE, api_queue_set, "", "QueueChange", "Queue",
     "make a queue, or change the weight of a queue or of a user in it"},
    {HTTP_DELETE, V1 "/queues/{path*}", ROLE_ADMIN, RF_WRITE, api_queue_rm, "", NULL, "QueueName",
     "remove a queue without jobs, or the settings of a user in it; a slash may be written as %2F"},
    {HTTP_POST, V1 "/quotas", ROLE_ADMIN, RF_WRITE, api_quota_set, "", "QuotaChange", "Queue",
     "limit the GPUs that a queue, or a user in it, holds at once"},
    {HTTP_DELETE, V1 "/quotas/{path*}", ROLE_ADMIN, RF_WRITE, api_quota_rm, "", NULL, "Queue",
     "remove a quota; a slash may be written as %2F"},
    {HTTP_GET, V1 "/instances", ROLE_USER, 0, api_instances, "", NULL, "InstanceList",
     "list instance types: what a machine of each has and costs, and which replace others"},
    {HTTP_GET, V1 "/instances/{name}", ROLE_USER, 0, api_instance, "", NULL, "Instance",
     "show one instance type"},
    {HTTP_POST, V1 "/instances", ROLE_ADMIN, RF_WRITE, api_instance_set, "", "InstanceChange", "Instance",
     "set facts of an instance type; null resets one"},
    {HTTP_DELETE, V1 "/instances/{name}", ROLE_ADMIN, RF_WRITE, api_instance_rm, "", NULL, "QueueName",
     "reset all facts of an instance type"},
    {HTTP_GET, V1 "/reservations", ROLE_USER, 0, api_reserves, "", NULL, "ReservationList",
     "list reservations of nodes for a queue or for maintenance; ended ones come last, for a day"},
    {HTTP_POST, V1 "/reservations", ROLE_ADMIN, RF_WRITE, api_reserve_add, "", "ReservationNew",
     "Reservation",
     "reserve nodes for a period; other jobs start there only if their time limit ends before it"},
    {HTTP_PATCH, V1 "/reservations/{name}", ROLE_ADMIN, RF_WRITE, api_reserve_set, "", "ReservationChange",
     "Reservation",
     "change nodes, times or queue of a reservation; the start of a reservation that has begun is fixed"},
    {HTTP_DELETE, V1 "/reservations/{name}", ROLE_ADMIN, RF_WRITE, api_reserve_rm, "", NULL, "Reservation",
     "remove a reservation; it ends at once"},
    {HTTP_GET, V1 "/cost", ROLE_USER, 0, api_cost, "by:s queue:s owner:s job:u from:u to:u limit:u", NULL,
     "Cost", "sum what attempts cost, by queue, user or job; from and to: seconds since 1970"},
    {HTTP_GET, V1 "/trace", ROLE_USER, 0, api_trace, "", NULL, "TraceParts",
     "list parts of the scheduler's record of inputs and decisions, oldest first"},
    {HTTP_GET, V1 "/trace/{part}", ROLE_USER, 0, api_trace_part, "after:u", NULL, "TraceLines",
     "read lines of one part, or of the \"last\", for jobctl simulate; after: next of the previous answer"},
    {HTTP_GET, V1 "/budgets", ROLE_USER, 0, api_budgets, "", NULL, "BudgetList",
     "list what queues and their users may spend and have spent"},
    {HTTP_POST, V1 "/budgets", ROLE_ADMIN, RF_WRITE, api_budget_set, "", "BudgetChange", "Budget",
     "limit what a queue, or a user in it, may spend in a day, week or month"},
    {HTTP_DELETE, V1 "/budgets/{path*}", ROLE_ADMIN, RF_WRITE, api_budget_rm, "", NULL, "QueueName",
     "remove a budget; a slash may be written as %2F"},
    {HTTP_GET, V1 "/whoami", ROLE_JOB, 0, api_whoami, "", NULL, "Whoami", "show who the caller is"},

    /* the dashboard's login */
    {HTTP_POST, V1 "/login", ROLE_NONE, RF_WRITE, api_login, "", "Login", "Session",
     "log in: a session for a token; its cookie opens nothing without its key, which the page sends as "
     "X-Hearth-Key"},
    {HTTP_POST, V1 "/login-links", ROLE_USER, RF_WRITE, api_login_link, "", NULL, "LoginLink",
     "make an address that logs a browser in, once, within a minute"},
    {HTTP_POST, V1 "/logout", ROLE_NONE, RF_WRITE, api_logout, "", NULL, NULL, "log out: end the session"},
    {HTTP_GET, "/login", ROLE_NONE, 0, api_login_turn_in, "code:s", NULL, NULL, "log in by a login link"},

    /* for machines */
    {HTTP_GET, "/healthz", ROLE_NONE, 0, api_health, "", NULL, "Health", "answer 200 while hearthd works"},
    {HTTP_GET, "/metrics", ROLE_USER, 0, api_metrics, "", NULL, "text", "read counters as Prometheus text"},
    {HTTP_GET, "/openapi.json", ROLE_NONE, 0, api_openapi, "", NULL, "OpenApi", "read this description"},

    {HTTP_GET, "/agent/v1", ROLE_NONE, 0, agents_upgrade, "", NULL, NULL,
     "connect an agent: Upgrade to hearth-agent/1, which authenticates it"},

    /* pages */
    {HTTP_GET, "/", ROLE_NONE, 0, api_web, "", NULL, "text", "read the dashboard"},
    {HTTP_GET, "/web/{rest*}", ROLE_NONE, 0, api_web, "", NULL, "*", "read a file of the dashboard"},
};

const struct route *route_table(size_t *n)
{
	*n = sizeof(table) / sizeof(table[0]);
	return table;
}
