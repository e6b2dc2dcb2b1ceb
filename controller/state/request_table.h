/*
 * request_table: every request to the state thread, one line each.
 *
 * Columns: the name, its handler in the core (controller/requests), the least role that may use it, what it
 * does to the state, and the words for messages ("submit a job: log in first").
 *
 * Effects:
 * - RQ_ASKS changes nothing.
 * - RQ_CHANGES changes something; the answer is stored under the request's Idempotency-Key.
 * - RQ_ADDS changes something and recognizes its repetition by the record itself: the row of the job has the
 * key, and a node joins again by its name and certificate request.
 *
 * The members of struct request that a request uses besides user, role and job, and the answer (->). node is
 * the name of a node, queue, instance type or reservation, or the id of a token.
 *
 *   REQ_SUBMIT: spec, text, body: {bundle, run, hold, dry_run, spec_warnings}
 *   REQ_STOP: body: {grace_s?}
 *   REQ_SET: body: {priority?, time?, queue?, notes?, name?, pinned?, tags?: {k: v|null}}
 *   REQ_CHECKPOINT: body: {step, pinned}
 *   REQ_CLONE: body: {set: {path: value}, hold} ; spec = changed spec of the clone
 *   REQ_RETRY: body: {from_step?, hold} ; spec = that of the job, with its resume_from
 *   REQ_WHY: -> {status, waits_for: [..], ahead, text}
 *   REQ_NODES: -> {nodes: [..]} with GPUs, CPUs, who holds them, beat age, load
 *   REQ_DRAIN: body: {reason}
 *   REQ_SPARE: body: {off}
 *   REQ_NODE_RM: body: {force?}
 *   REQ_TOP: -> running and waiting jobs, use of nodes, last metrics
 *   REQ_TOKEN: body: {kind: join, ttl_s} -> {id, kind, token, expires_at}, or
 *     {kind: user, user?, scope?, ttl_s? (0: never), note?} -> the same with user and scope, or
 *     {kind: session, scope?, note?} -> {id, user, scope, expires_at, cookie, key}, only from the login
 *   REQ_TOKENS: -> {tokens: [..]}, the caller's own; an administrator gets all
 *   REQ_TOKEN_RM, REQ_TOKEN_USED: node: its id; body of the second: {from}
 *   REQ_QUEUES: -> {queues: [..]} with weight, quota, what is held, waits, was used
 *   REQ_QUEUE_SET: node: its path; body: {weight?}
 *   REQ_QUOTA_SET: node: path of a queue or user; body: {gpus, borrow?}
 *   REQ_INSTANCES: node: one of them -> {instances: [..]}, or that one
 *   REQ_INSTANCE_SET: node: its name; body: facts, null takes one back
 *   REQ_RESERVES: -> {reservations: [..]}
 *   REQ_RESERVE_ADD: node: its name; body: see api_reserve.c
 *   REQ_POOLS: body: {state?, owner?} -> {pools: [..]}
 *   REQ_POOL, REQ_POOL_KEEP, REQ_POOL_DROP: node: its id or name; body: -, {keep_alive_s}, {node?: "a,b"}
 *   REQ_BRIEF: body: the answer to be completed: a job, or {jobs: [..]}
 *   REQ_BUDGET_SET: node: path of a queue or user; body: {usd?, period?, action?}
 *   REQ_JOIN: body: {token, node, csr} -> {cert, ca, node} (no login needed)
 *   REQ_STATS: -> numbers for /metrics
 */
#ifndef HEARTH_CONTROLLER_STATE_REQUEST_TABLE_H
#define HEARTH_CONTROLLER_STATE_REQUEST_TABLE_H

/* clang-format off */
#define REQUEST_OPS(R) \
	R(REQ_SUBMIT,        req_submit,        ROLE_JOB,   RQ_ADDS,    "submit a job")            \
	R(REQ_STOP,          req_stop,          ROLE_JOB,   RQ_CHANGES, "stop a job")              \
	R(REQ_HOLD,          req_hold,          ROLE_JOB,   RQ_CHANGES, "hold a job")              \
	R(REQ_RELEASE,       req_release,       ROLE_JOB,   RQ_CHANGES, "release a job")           \
	R(REQ_SET,           req_set,           ROLE_JOB,   RQ_CHANGES, "change a job")            \
	R(REQ_REQUEUE,       req_requeue,       ROLE_JOB,   RQ_CHANGES, "requeue a job")           \
	R(REQ_CHECKPOINT,    req_checkpoint,    ROLE_USER,  RQ_CHANGES, "pin a checkpoint")        \
	R(REQ_CLONE,         req_clone,         ROLE_USER,  RQ_ADDS,    "clone a job")             \
	R(REQ_RETRY,         req_retry,         ROLE_USER,  RQ_ADDS,    "retry a job")             \
	R(REQ_RM,            req_rm,            ROLE_USER,  RQ_CHANGES, "remove a job's data")     \
	R(REQ_WHY,           req_why,           ROLE_JOB,   RQ_ASKS,    "explain")                 \
	R(REQ_NODES,         req_nodes,         ROLE_JOB,   RQ_ASKS,    "list nodes")              \
	R(REQ_DRAIN,         req_drain,         ROLE_ADMIN, RQ_CHANGES, "drain a node")            \
	R(REQ_RESUME,        req_resume,        ROLE_ADMIN, RQ_CHANGES, "resume a node")           \
	R(REQ_SPARE,         req_spare,         ROLE_ADMIN, RQ_CHANGES, "make a node a spare")     \
	R(REQ_NODE_LOST,     req_node_lost,     ROLE_ADMIN, RQ_CHANGES, "declare a node lost")     \
	R(REQ_NODE_RM,       req_node_rm,       ROLE_ADMIN, RQ_CHANGES, "remove a node")           \
	R(REQ_TOP,           req_top,           ROLE_JOB,   RQ_ASKS,    "overview")                \
	R(REQ_TOKEN,         req_token,         ROLE_USER,  RQ_CHANGES, "make a token")            \
	R(REQ_TOKENS,        req_tokens,        ROLE_USER,  RQ_ASKS,    "list tokens")             \
	R(REQ_TOKEN_RM,      req_token_rm,      ROLE_USER,  RQ_CHANGES, "remove a token")          \
	R(REQ_TOKEN_USED,    req_token_used,    ROLE_NONE,  RQ_CHANGES, "note the use of a token") \
	R(REQ_QUEUES,        req_queues,        ROLE_JOB,   RQ_ASKS,    "list queues")             \
	R(REQ_QUEUE_SET,     req_queue_set,     ROLE_ADMIN, RQ_CHANGES, "set a queue")             \
	R(REQ_QUEUE_RM,      req_queue_rm,      ROLE_ADMIN, RQ_CHANGES, "remove a queue")          \
	R(REQ_QUOTA_SET,     req_quota_set,     ROLE_ADMIN, RQ_CHANGES, "set a quota")             \
	R(REQ_QUOTA_RM,      req_quota_rm,      ROLE_ADMIN, RQ_CHANGES, "remove a quota")          \
	R(REQ_INSTANCES,     req_instances,     ROLE_JOB,   RQ_ASKS,    "list instance types")     \
	R(REQ_INSTANCE_SET,  req_instance_set,  ROLE_ADMIN, RQ_CHANGES, "set an instance type")    \
	R(REQ_INSTANCE_RM,   req_instance_rm,   ROLE_ADMIN, RQ_CHANGES, "remove an instance type") \
	R(REQ_RESERVES,      req_reserves,      ROLE_JOB,   RQ_ASKS,    "list reservations")       \
	R(REQ_RESERVE_ADD,   req_reserve_add,   ROLE_ADMIN, RQ_CHANGES, "make a reservation")      \
	R(REQ_RESERVE_SET,   req_reserve_set,   ROLE_ADMIN, RQ_CHANGES, "change a reservation")    \
	R(REQ_RESERVE_RM,    req_reserve_rm,    ROLE_ADMIN, RQ_CHANGES, "remove a reservation")    \
	R(REQ_POOLS,         req_pools,         ROLE_JOB,   RQ_ASKS,    "list pools")              \
	R(REQ_POOL,          req_pool,          ROLE_JOB,   RQ_ASKS,    "show a pool")             \
	R(REQ_POOL_KEEP,     req_pool_keep,     ROLE_USER,  RQ_CHANGES, "keep a pool")             \
	R(REQ_POOL_DROP,     req_pool_drop,     ROLE_USER,  RQ_CHANGES, "drop a pool")             \
	R(REQ_BRIEF,         req_brief,         ROLE_JOB,   RQ_ASKS,    "say why jobs wait")       \
	R(REQ_BUDGETS,       req_budgets,       ROLE_USER,  RQ_ASKS,    "list budgets")            \
	R(REQ_BUDGET_SET,    req_budget_set,    ROLE_ADMIN, RQ_CHANGES, "set a budget")            \
	R(REQ_BUDGET_RM,     req_budget_rm,     ROLE_ADMIN, RQ_CHANGES, "remove a budget")         \
	R(REQ_JOIN,          req_join,          ROLE_NONE,  RQ_ADDS,    "join a node")             \
	R(REQ_STATS,         req_stats,         ROLE_NONE,  RQ_ASKS,    "counters")
/* clang-format on */

#endif
