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
    {HTTP_POST, JOBS, ROLE_JOB, RF_WRITE | RF_SPEC, api_jobs_submit, "", "Submit", "Submitted",
     "submit a job"},
    {HTTP_GET, JOBS, ROLE_USER, 0, api_jobs_list,
     "owner:s mine:b status:s name:s text:s experiment:s tag:s before:u limit:u deleted:b members:b array:u",
     NULL, "JobList",
     "list jobs, newest first; before and next make pages; an array or sweep is one of them, unless members "
     "or "
     "array=ID ask for its members"},
    {HTTP_GET, JOBS "/resolve", ROLE_JOB, 0, api_jobs_resolve, "ref:s", NULL, "JobId",
     "id of \"last\", a name, NAME~1 or a member (17.3)"},
    {HTTP_GET, JOB, ROLE_JOB, RF_JOB | RF_FINDS, api_job_get, "", NULL, "Job",
     "one job with attempts, metrics and artifacts"},
    {HTTP_GET, JOB "/members", ROLE_JOB, RF_JOB | RF_FINDS, api_job_members, "metric:s limit:u", NULL,
     "MemberList",
     "members of an array or sweep with their values, the best first; metric: another one to compare them "
     "by"},
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
     "end the present attempt and queue again, to go on with the checkpoints that it leaves, or from what "
     "the body "
     "says"},
    {HTTP_POST, JOB "/clone", ROLE_USER, RF_JOB | RF_WRITE, api_job_clone, "", "Clone", "Submitted",
     "submit the same specification again, with changes; needs the owner, since secrets go along"},
    {HTTP_POST, JOB "/retry", ROLE_USER, RF_JOB | RF_WRITE | RF_LATER, NULL, "", NULL, "Job",
     "start again from a checkpoint"},
    {HTTP_POST, JOB "/checkpoint", ROLE_USER, RF_JOB | RF_WRITE | RF_LATER, NULL, "", NULL, "Job",
     "ask the program for a checkpoint"},
    {HTTP_GET, JOB "/checkpoints", ROLE_JOB, RF_JOB | RF_LATER, NULL, "", NULL, "Problem",
     "registered checkpoints"},
    {HTTP_GET, JOB "/report", ROLE_JOB, RF_JOB | RF_LATER, NULL, "", NULL, "Problem", "report of a run"},
    {HTTP_GET, JOB "/shell", ROLE_USER, RF_JOB | RF_LATER, NULL, "", NULL, "Problem",
     "terminal in a running job (WebSocket)"},
    {HTTP_GET, JOB "/why", ROLE_JOB, RF_JOB, api_job_why, "", NULL, "Why",
     "what the job waits for, or why it ended"},
    {HTTP_GET, JOB "/events", ROLE_JOB, RF_JOB, api_job_events, "after:u limit:u", NULL, "EventList",
     "events of a job, oldest first"},
    {HTTP_GET, JOB "/attempts", ROLE_JOB, RF_JOB, api_job_attempts, "", NULL, "AttemptList",
     "attempts with nodes, phases and outcome"},
    {HTTP_GET, JOB "/ranks", ROLE_JOB, RF_JOB, api_job_ranks, "attempt:u", NULL, "RankList",
     "ranks of an attempt, by default the newest"},
    {HTTP_GET, JOB "/metrics", ROLE_JOB, RF_JOB, api_job_metrics, "rank:i attempt:u", NULL, "Metrics",
     "last, least and greatest value of each metric, of one rank in one attempt"},
    {HTTP_GET, JOB "/metrics/{metric*}", ROLE_JOB, RF_JOB, api_job_metric, "rank:i attempt:u points:u", NULL,
     "Series", "one series, at most `points` of them (0: all)"},
    {HTTP_GET, JOB "/run", ROLE_JOB, RF_JOB, api_job_run, "", NULL, "Run",
     "where the code came from, packages, versions, the mpirun line"},
    {HTTP_GET, JOB "/spec", ROLE_JOB, RF_JOB | RF_FINDS, api_job_spec, "", NULL, "Spec",
     "specification as submitted, secrets masked"},
    {HTTP_GET, JOB "/logs", ROLE_JOB, RF_JOB, api_logs_list, "attempt:u", NULL, "LogList",
     "log streams with their sizes"},
    {HTTP_GET, JOB "/logs/{stream}", ROLE_JOB, RF_JOB | RF_FINDS | RF_STREAM, api_logs_read, LOG_QUERY, NULL,
     "*",
     "bytes of a stream (rank-N, rank, mpirun, setup, system) from an offset; negative: from its end. With "
     "Accept: text/event-stream as events"},
    {HTTP_GET, JOB "/artifacts", ROLE_JOB, RF_JOB, api_job_artifacts, "", NULL, "ArtifactList",
     "what the run left"},
    {HTTP_GET, JOB "/artifacts/{kind}", ROLE_JOB, RF_JOB, api_artifact, "manifest:b node:s", NULL, "*",
     "files of one artifact (model, output, code, ...); manifest=1 gives the tree's manifest"},
    {HTTP_GET, JOB "/artifacts/{kind}/{rest*}", ROLE_JOB, RF_JOB | RF_STREAM, api_artifact_file, "node:s",
     NULL, "*", "one file of an artifact; Range is understood"},

    /* content-addressed data */
    {HTTP_POST, V1 "/blobs/missing", ROLE_JOB, 0, api_blobs_missing, "", "Digests", "Missing",
     "which of these blobs hearthd does not have"},
    {HTTP_GET, V1 "/blobs/{digest}", ROLE_JOB, RF_STREAM, api_blob_get, "job:u kind:s", NULL, "*",
     "a blob that is part of a job's artifact of that kind; Range is understood"},
    {HTTP_HEAD, V1 "/blobs/{digest}", ROLE_JOB, 0, api_blob_head, "", NULL, NULL,
     "how much of a blob is here: X-Hearth-Offset, and 200 when whole, else 404"},
    {HTTP_PUT, V1 "/blobs/{digest}", ROLE_JOB, RF_RAW, api_blob_put, "offset:u size:u", "*", "BlobState",
     "a piece of at most 4 MiB of a blob at an offset; size (of the whole) with the first"},

    /* cluster */
    {HTTP_GET, V1 "/nodes", ROLE_USER, 0, api_nodes, "", NULL, "NodeList",
     "nodes with GPUs, CPUs, who holds them, load"},
    {HTTP_GET, V1 "/nodes/{name}", ROLE_USER, 0, api_node, "", NULL, "Node", "one node"},
    {HTTP_POST, V1 "/nodes/{name}/drain", ROLE_ADMIN, RF_WRITE, api_node_drain, "", "Drain", "NodeChanged",
     "give a node no new work"},
    {HTTP_POST, V1 "/nodes/{name}/resume", ROLE_ADMIN, RF_WRITE, api_node_resume, "", NULL, "NodeChanged",
     "give a node work again"},
    {HTTP_POST, V1 "/nodes/{name}/lost", ROLE_ADMIN, RF_WRITE, api_node_lost, "", "Drain", "NodeChanged",
     "declare a silent node lost: its ranks are lost, its return is fenced"},
    {HTTP_POST, V1 "/nodes/{name}/check", ROLE_ADMIN, RF_WRITE | RF_LATER, NULL, "", NULL, "Problem",
     "check a node's health now"},
    {HTTP_DELETE, V1 "/nodes/{name}", ROLE_ADMIN, RF_WRITE, api_node_rm, "force:b", NULL, "NodeChanged",
     "remove a silent node; its certificate is void. 409 while it has jobs, unless force says that it is "
     "down"},
    {HTTP_POST, V1 "/tokens", ROLE_ADMIN, RF_WRITE, api_tokens, "", "TokenRequest", "Token",
     "make a join token"},
    {HTTP_POST, V1 "/agents/join", ROLE_NONE, RF_WRITE, api_join, "", "Join", "Joined",
     "certificate for a node, against a join token"},
    {HTTP_GET, V1 "/stream", ROLE_JOB, RF_STREAM, api_stream, "job:u after:u", NULL, "events",
     "events as they happen; Last-Event-ID or after resumes"},
    {HTTP_GET, V1 "/top", ROLE_USER, 0, api_top, "", NULL, "Top", "running and waiting jobs, use of nodes"},
    {HTTP_GET, V1 "/pools", ROLE_USER, RF_LATER, NULL, "", NULL, "Problem", "warm pools"},
    {HTTP_GET, V1 "/queues", ROLE_USER, 0, api_queues, "", NULL, "QueueList",
     "queues and users in them: weights, quotas, what they hold, wait for and have used"},
    {HTTP_POST, V1 "/queues", ROLE_ADMIN, RF_WRITE, api_queue_set, "", "QueueChange", "Queue",
     "make a queue, or change its weight; of a user in it, too"},
    {HTTP_DELETE, V1 "/queues/{path*}", ROLE_ADMIN, RF_WRITE, api_queue_rm, "", NULL, "QueueName",
     "remove a queue in which no job is left, or what is set for a user in it; a slash may stand as %2F"},
    {HTTP_POST, V1 "/quotas", ROLE_ADMIN, RF_WRITE, api_quota_set, "", "QuotaChange", "Queue",
     "bound the GPUs that a queue, or a user in it, holds at once"},
    {HTTP_DELETE, V1 "/quotas/{path*}", ROLE_ADMIN, RF_WRITE, api_quota_rm, "", NULL, "Queue",
     "take a quota off; a slash may stand as %2F"},
    {HTTP_GET, V1 "/instances", ROLE_USER, 0, api_instances, "", NULL, "InstanceList",
     "instance types: what a machine of each has and costs, which stand in for others"},
    {HTTP_GET, V1 "/instances/{name}", ROLE_USER, 0, api_instance, "", NULL, "Instance", "one of them"},
    {HTTP_POST, V1 "/instances", ROLE_ADMIN, RF_WRITE, api_instance_set, "", "InstanceChange", "Instance",
     "set facts of an instance type; null takes one back"},
    {HTTP_DELETE, V1 "/instances/{name}", ROLE_ADMIN, RF_WRITE, api_instance_rm, "", NULL, "QueueName",
     "take back all that was set for an instance type"},
    {HTTP_GET, V1 "/reservations", ROLE_USER, 0, api_reserves, "", NULL, "ReservationList",
     "nodes that are kept for a queue or for maintenance; ended ones for a day, last"},
    {HTTP_POST, V1 "/reservations", ROLE_ADMIN, RF_WRITE, api_reserve_add, "", "ReservationNew",
     "Reservation", "keep nodes for a time; jobs whose time limit reaches into it do not start there"},
    {HTTP_PATCH, V1 "/reservations/{name}", ROLE_ADMIN, RF_WRITE, api_reserve_set, "", "ReservationChange",
     "Reservation", "change nodes, times or queue; of one that has begun not its beginning"},
    {HTTP_DELETE, V1 "/reservations/{name}", ROLE_ADMIN, RF_WRITE, api_reserve_rm, "", NULL, "Reservation",
     "remove one; it ends at once"},
    {HTTP_GET, V1 "/cost", ROLE_USER, 0, api_cost, "by:s queue:s owner:s job:u from:u to:u limit:u", NULL,
     "Cost", "what attempts cost, by queue, user or job; from and to: seconds since 1970"},
    {HTTP_GET, V1 "/trace", ROLE_USER, 0, api_trace, "", NULL, "TraceParts",
     "parts of the record of what the scheduler was told and decided, oldest first"},
    {HTTP_GET, V1 "/trace/{part}", ROLE_USER, 0, api_trace_part, "after:u", NULL, "TraceLines",
     "lines of one part, or of the \"last\", for jobctl simulate; after: the next of the answer before"},
    {HTTP_GET, V1 "/budgets", ROLE_USER, 0, api_budgets, "", NULL, "BudgetList",
     "what queues and users in them may spend, and what they have"},
    {HTTP_POST, V1 "/budgets", ROLE_ADMIN, RF_WRITE, api_budget_set, "", "BudgetChange", "Budget",
     "bound what a queue, or a user in it, may spend in a day, week or month"},
    {HTTP_DELETE, V1 "/budgets/{path*}", ROLE_ADMIN, RF_WRITE, api_budget_rm, "", NULL, "QueueName",
     "take a budget off; a slash may stand as %2F"},
    {HTTP_GET, V1 "/whoami", ROLE_JOB, 0, api_whoami, "", NULL, "Whoami", "who the caller is"},

    /* the dashboard's login */
    {HTTP_POST, V1 "/login", ROLE_NONE, RF_WRITE, api_login, "", "Login", "Whoami",
     "a session cookie for a token"},
    {HTTP_POST, V1 "/login-links", ROLE_USER, RF_WRITE, api_login_link, "", NULL, "LoginLink",
     "an address that logs a browser in, once, within a minute"},
    {HTTP_POST, V1 "/logout", ROLE_NONE, RF_WRITE, api_logout, "", NULL, NULL, "forget the session cookie"},
    {HTTP_GET, "/login", ROLE_NONE, 0, api_login_turn_in, "code:s", NULL, NULL, "turns a login link in"},

    /* for machines */
    {HTTP_GET, "/healthz", ROLE_NONE, 0, api_health, "", NULL, "Health", "200 when hearthd decides"},
    {HTTP_GET, "/metrics", ROLE_USER, 0, api_metrics, "", NULL, "text", "numbers in Prometheus text"},
    {HTTP_GET, "/openapi.json", ROLE_NONE, 0, api_openapi, "", NULL, "OpenApi", "this description"},

    {HTTP_GET, "/agent/v1", ROLE_NONE, 0, agents_upgrade, "", NULL, NULL,
     "agents' connections: Upgrade to hearth-agent/1; who they are is settled there"},

    /* pages */
    {HTTP_GET, "/", ROLE_NONE, 0, api_web, "", NULL, "text", "the status page"},
    {HTTP_GET, "/web/{rest*}", ROLE_NONE, 0, api_web, "", NULL, "*", "its files"},
};

const struct route *route_table(size_t *n)
{
	*n = sizeof(table) / sizeof(table[0]);
	return table;
}
