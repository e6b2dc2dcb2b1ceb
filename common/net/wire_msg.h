/*
 * wire_msg: the table of all messages. One line each: number, name, senders, phase, since; fields below.
 *
 * A message is reported or ordered by state, not by change: every one may come twice or again after a
 * reconnection, and the receiver drops what it has. Every order to an agent carries (job, attempt, epoch);
 * one with an epoch below the greatest seen for that job is dropped. Field kinds: U8 U32 U64 I64 F64 STR
 * BYTES STRV U32V U64V I64V F64V. docs/spec/02-wire.md says the same in words.
 *
 * To add a field: F(KIND, name, WIRE_VERSION), with the present version as a number, and its row in the
 * document. A message of WIRE_EVER gets none: put it into another message or a new one. Those of shims are
 * such messages, because a shim lives as long as its job, while agents are upgraded several times. What reads
 * the field must cope with 0 or empty, because agents and hearthd of the version before do not send it. To
 * add a message: a line in the table with the present version. It is not sent to a side that does not know it
 * (peer_speaks): say what happens then. tests/frozen/wire-N.txt has the bytes of the versions in use; renew
 * the present one by HEARTH_FREEZE=1 and test_wire_layouts.
 */
#ifndef HEARTH_COMMON_NET_WIRE_MSG_H
#define HEARTH_COMMON_NET_WIRE_MSG_H

#include "common/net/wire.h"

/* ---- values used in fields --------------------------------------------------------------------- */
enum wire_role { ROLE_CONTROL = 1, ROLE_BULK = 2 };

enum launch_state { /* of one launch (job, attempt) on one node */
	                LAUNCH_UNKNOWN = 0,
	                LAUNCH_PREPARING, /* staging inputs, environment, container, shims */
	                LAUNCH_READY,     /* everything but start; waits for LAUNCH_GO */
	                LAUNCH_RUNNING,
	                LAUNCH_STOPPING, /* kill ladder runs */
	                LAUNCH_ENDED,    /* no process of it is left on this node; exits were reported */
	                LAUNCH_FAILED,   /* could not be prepared or started; reason says why; no process left */
	                LAUNCH_CLEANED,  /* outputs uploaded or dropped, directories removed; the agent forgets it
	                                    after the ack */
	                LAUNCH_PARKED,   /* of a pool: its launcher and shims wait for a job */
};
enum launch_over {                   /* of an ENDED or FAILED launch: how much of its end is past */
	               OVER_UNKNOWN = 0, /* not said: only CLEANED tells that nothing of it is left */
	               OVER_STOPPED, /* no process is left, and all whole checkpoints of it are held and reported
	                              */
	               OVER_COPIED,  /* also, the newest checkpoint is outside of the node, or cannot be copied */
	               OVER_SAVED,   /* also, its folder of checkpoints is an artifact, or it has none */
};
enum proc_kind { PROC_RANK = 1, PROC_ORTED = 2, PROC_MPIRUN = 3, PROC_TORCHRUN = 4 };
enum proc_state {
	PS_UNKNOWN = 0,
	PS_WAITING, /* shim is up, waits for go */
	PS_RUNNING,
	PS_EXITED, /* exit_code / signal / oom are exact */
	PS_LOST,   /* the shim is gone without a record: fate unknown */
	PS_FAILED, /* never started: text says why (command not found ...) */
	PS_PARKED, /* armed: has all but the agent's SHIM_START */
};
enum ended_by {                /* who put an end to a process */
	            BY_ITSELF = 0, /* or by something that Hearth knows nothing of */
	            BY_ORDER,      /* a kill that the controller or the agent wanted */
	            BY_LAUNCHER,   /* what mpirun or torchrun started in its place was gone, or passed a signal on
	                            */
	            BY_LEASE, /* its shim: the lease of the node was over. Agents report such a process as lost */
};
enum peer_sight {                 /* what an agent learns of another one at its peer port */
	              SIGHT_AWAY,     /* no connection: no machine, or no agent on it */
	              SIGHT_SILENT,   /* something accepted a connection, and did not answer */
	              SIGHT_ANSWERED, /* the agent itself, by its certificate */
};
enum ckpt_state {                   /* of a part of a checkpoint */
	              CKPT_COPYING = 1, /* whole, and held on its node */
	              CKPT_VERIFIED,    /* also outside of the node, and read back */
	              CKPT_TORN,        /* not whole: it changed meanwhile, or a copy is damaged */
	              CKPT_GONE,        /* no copy is left */
};
/* clang-format off */
/* Why a launch or an attempt ended badly. Their order is on the wire and in the store: new ones go last. */
#define REASON_CLASSES(S) \
	S(RC_NONE, "") S(RC_UNKNOWN, "unknown") S(RC_USER_ERROR, "user_error") S(RC_OOM, "oom") S(RC_TIMEOUT, "timeout") \
	S(RC_NODE_LOST, "node_lost") S(RC_STAGING, "staging") S(RC_DISK, "disk") S(RC_LAUNCH, "launch") S(RC_STOPPED, "stopped") \
	S(RC_AGENT, "agent") S(RC_SIGNAL, "signal") S(RC_COST, "cost") S(RC_GPU, "gpu") S(RC_NETWORK, "network") \
	S(RC_STORAGE, "storage") S(RC_HANG, "hang") S(RC_NUMERIC, "numeric") S(RC_PREEMPTED, "preempted") \
	S(RC_RECLAIMED, "reclaimed")
/* clang-format on */
#define S(e, t) e,
enum reason_class { REASON_CLASSES(S) N_REASON_CLASS };
#undef S

/* clang-format off */
/* ---- handshake (both connections; after HTTP Upgrade, see peer.h) ------------------------------- */
#define WM_CHALLENGE_F(F) F(U32, version_min) F(U32, version_max) F(BYTES, nonce) F(STR, cluster)
/* proof = signature by the agent's key over "hearth-hello" + nonce + role byte + exporter (32 bytes of TLS exporter, or none) */
#define WM_HELLO_F(F)                                                                                                              \
	F(U32, version) F(U8, role) F(STR, node) F(STR, cert_pem) F(BYTES, proof) F(STR, boot_id) F(U64, instance) F(STR, software)
#define WM_WELCOME_F(F) F(U32, version) F(U64, node_id) F(U64, session) F(U32, lease_ms) F(U32, beat_ms) F(U64, real_us)
#define WM_REFUSED_F(F) F(U32, code) F(STR, text)

/* ---- control: agent -> controller ----------------------------------------------------------------- */
/* gpus: one JSON-free line each: "index|uuid|model|memory_bytes|numa|nvlink_group|minor"; labels "k=v" */
#define WM_INVENTORY_F(F)                                                                                                          \
	F(STR, address) F(U32, peer_port) F(U32, port_lo) F(U32, port_hi) F(STR, interface_name) F(STR, fabric_interface) F(U32, cpus)  \
	F(U32, slots) F(U64, memory_bytes) F(U64, disk_bytes) F(STRV, gpus) F(U8, gpus_fake) F(STRV, labels) F(STR, instance_type)  \
	F(F64, price_per_hour) F(STRV, fabrics) F(STR, topology) F(STRV, software) F(STR, os_user) F(U8, is_root) F(STR, hostname)
#define WM_BEAT_F(F)                                                                                                               \
	F(U64, seq) F(U64, boot_us) F(F64, load1) F(U64, memory_used) F(U64, disk_free) F(F64, cpu_used) F(F64V, gpu_util) F(U64V, gpu_memory_used) \
	F(U64, peers_gen) /* generation of its list of peers; 0: it has none, or does not know */                                   \
	F(I64, ahead_us) F(U64, ahead_error_us) /* its wall clock against hearthd's; error 0: not measured yet */
/* full state after each connection: every launch and process the agent knows is reported between begin and end */
#define WM_SYNC_BEGIN_F(F) F(U64, instance) F(U32, launches)
#define WM_SYNC_END_F(F) F(U64, instance)
/* rank of no meaning is 0xffffffff. progress: bytes done/total of the phase. cls: enum reason_class */
/* phase of an ENDED launch: all that it made is on record */
#define LAUNCH_PHASE_SAVED "saved"
/* phase of a FAILED launch: a copy of the checkpoint that it begins with is damaged or missing. text: which, and why */
#define LAUNCH_PHASE_RESTORE "restore"
#define WM_LAUNCH_REPORT_F(F)                                                                                                      \
	F(U64, job) F(U32, attempt) F(U64, epoch) F(U8, state) F(STR, phase) F(U64, phase_started_us) F(U64, done_bytes)             \
	F(U64, total_bytes) F(U8, cls) F(STR, text) F(STRV, phases) F(U8, over, 3) /* enum launch_over */
#define WM_PROC_REPORT_F(F)                                                                                                        \
	F(U64, job) F(U32, attempt) F(U64, epoch) F(U8, kind) F(U32, rank) F(U32, local_rank) F(STR, token) F(U8, state) F(U32, pid)     \
	F(U32, exit_code) F(U32, signal) F(U8, oom) F(U8, ended_by) F(U64, started_us) F(U64, ended_us) F(STR, text) F(BYTES, last_lines)
/* what a run left: registered only when the epoch is the job's present one. kind: model | output | failure | checkpoint */
#define WM_ARTIFACT_REPORT_F(F)                                                                                                    \
	F(U64, job) F(U32, attempt) F(U64, epoch) F(STR, kind) F(STR, digest) F(STR, uri) F(U64, size_bytes) F(U32, files) F(STR, text)
/* A part of a checkpoint: what this node holds of one. Again for each newer state of the same part, which (attempt, seq) names on this node.
 * name: the entry below the folder of checkpoints, also the only one in the tree that digest names. state: enum ckpt_state. shards: parts of the
 * whole, 0 not said. uri: file:// folder that holds the entry, CKPT_URI_STORE, "" only on the node. text: why it is torn or gone. */
#define CKPT_URI_STORE "blob:" /* in hearthd's store, by its digest */
#define WM_CHECKPOINT_REPORT_F(F)                                                                                                  \
	F(U64, job) F(U32, attempt) F(U64, epoch) F(U64, seq) F(I64, step) F(STR, name) F(STR, format) F(STR, step_by) F(U8, state)     \
	F(U32, shards) F(U64, size_bytes) F(U32, files) F(STR, digest) F(STR, uri) F(U64, at_us) F(U64, save_ms) F(STR, text)
/* facts for the run's record: "pip" (package list), "software" (driver, CUDA, MPI ...), "mpirun" (exact line).
 * "warning:KEY": no fact, but a sentence for the job's owner, which becomes an event of the job */
#define WARNING_KIND "warning:"
#define WM_RUN_INFO_F(F) F(U64, job) F(U32, attempt) F(U64, epoch) F(STR, kind) F(STR, text)
/* A line of a log that names a failure (common/classify). rank of no meaning: a launcher's output. cls: enum reason_class, verdict: enum line_verdict.
 * Again for the same stream when a stronger line follows. offset: of the line's end in its stream. */
#define WM_FAILURE_LINE_F(F)                                                                                                       \
	F(U64, job) F(U32, attempt) F(U64, epoch) F(U32, rank) F(STR, stream) F(U8, cls) F(U8, verdict) F(STR, reason) F(STR, line) F(U64, at_us) F(U64, offset)
/* hearth-rsh asks for orted on a node of the launch; answered by RSH_STATE with the same rsh_id */
#define WM_RSH_REQUEST_F(F) F(U64, job) F(U32, attempt) F(U64, epoch) F(STR, rsh_id) F(STR, host) F(STRV, argv)
#define WM_RSH_CANCEL_F(F) F(U64, job) F(U32, attempt) F(U64, epoch) F(STR, rsh_id)

/* What this agent learnt of the node that NODE_ASK names. ask: of that order. reach: enum peer_sight. The rest as in PEER_SEEN, of a node that answered. */
#define WM_NODE_SEEN_F(F) F(U64, ask) F(STR, node) F(U8, reach) F(STR, boot_id) F(U64, instance) F(U32V, missing)

/* What became of a PREFETCH. code: enum err_code, 0 all is in the caches. bytes: fetched from hearthd. Nobody acknowledges it. */
#define WM_PREFETCHED_F(F) F(U64, job) F(U32, attempt) F(U32, code) F(U64, bytes) F(STR, text)

/* This node leaves a pool as suspect: what is left on it after a job. pool 0: the pool that the job would leave here. */
#define WM_POOL_BAD_F(F) F(U64, pool) F(U64, job) F(STR, text)

/* ---- control: controller -> agent ----------------------------------------------------------------- */
/* peers: "name address:port" of all known agents, for the lease question; empty = unchanged since the last */
#define WM_BEAT_ACK_F(F) F(U64, seq) F(U32, lease_ms) F(U64, real_us) F(STRV, peers) F(U8, peers_changed) F(U64, peers_gen)
#define WM_ACK_F(F) F(U64, acked) /* frame id of the report that is durable now */
/* The part that all nodes of a launch get, encoded once and sent inside each PREPARE: memory does not grow with the square of the nodes.
 * spec: normalized JSON of the job (common/spec/spec.h). nodes, addresses, ranks_per_node, groups have one entry per node in node-rank order.
 * input_digests: one per input, "" where the agent finds it. */
#define WM_GANG_F(F) F(STR, spec) F(STRV, nodes) F(STRV, addresses) F(U32V, ranks_per_node) F(STRV, groups) F(STRV, input_digests)
/* checkpoint_uri: where copies of checkpoints go, "" hearthd's store. resume_name: entry to restore; then resume_digests and resume_uris have the
 * parts that this node gets, and resume_from is the first of them, for agents of version 2. resume_local: launch whose copy on this node may be
 * used, "" none.
 * gang: a WM_GANG, last so that connections can send it without a copy.
 * pool: warm pool that the job uses here, 0 none. pool_keep 1: the job may leave a pool, or give its pool back.
 * park 1: no job, but a launch that waits for one: job is the pool, attempt the number of the parking. parked: the launch of that parking of the
 * pool becomes this one, 0 none.
 * account: the Unix account that runs it. gpus: indexes on this node. cpu_ids: CPUs of this node held by the job (empty = not pinned). */
#define WM_PREPARE_F(F)                                                                                                            \
	F(U64, job) F(U32, attempt) F(U64, epoch) F(STR, launch_id) F(STR, token) F(STR, account) F(STR, job_name)           \
	F(U32, node_rank) F(U32V, gpus) F(U32V, cpu_ids)                                                                               \
	F(U64, memory_bytes) F(U64, disk_bytes) F(U32, master_port) F(U32, port_lo) F(U32, port_hi) F(STR, bundle_digest) F(STR, resume_from) F(I64, resume_step) F(STR, skip_steps)   \
	F(STR, url) F(STR, job_token) F(U32, grace_ms) F(U32, prepare_timeout_ms) F(STR, checkpoint_uri, 3) F(STR, resume_name, 3)  \
	F(STR, resume_local, 3) F(STRV, resume_digests, 3) F(STRV, resume_uris, 3) F(U64, pool, 3)      \
	F(U8, pool_keep, 3) F(U8, park, 3) F(U32, parked, 3) F(SHARED, gang)
#define WM_LAUNCH_GO_F(F) F(U64, job) F(U32, attempt) F(U64, epoch)
#define WM_ORTED_START_F(F) F(U64, job) F(U32, attempt) F(U64, epoch) F(STR, rsh_id) F(STRV, argv)
/* state: enum proc_state of that orted */
#define WM_RSH_STATE_F(F) F(U64, job) F(U32, attempt) F(U64, epoch) F(STR, rsh_id) F(U8, state) F(U32, exit_code) F(U32, signal) F(STR, text)
#define WM_KILL_F(F) F(U64, job) F(U32, attempt) F(U64, epoch) F(U32, grace_ms) F(STR, reason)
/* after LAUNCH_ENDED: keep = 1 upload model/output first (what to upload is in the spec), 0 drop; then remove everything */
#define WM_COLLECT_F(F) F(U64, job) F(U32, attempt) F(U64, epoch) F(U8, keep)
/* controller's line for the node's `system` stream of that job */
#define WM_NOTE_F(F) F(U64, job) F(U32, attempt) F(U64, epoch) F(STR, text)

/* Fingerprints (tls_fingerprint) of the certificates of removed nodes, which peer ports refuse: all of them, those that
 * were seen last come first. An agent of version 2 refuses none. */
#define RETIRED_MAX 1024
#define WM_RETIRED_F(F) F(STRV, fingerprints)

/* Copies that may be removed: on their node, and at their uri. One entry a copy: (attempt, seq) of its report; uri "": there is no copy outside
 * the node, CKPT_URI_STORE: hearthd removes that one. */
#define WM_CHECKPOINT_KEEP_F(F) F(U64, job) F(U32, attempt) F(U64, epoch) F(U32V, attempts) F(U64V, seqs) F(STRV, names) F(STRV, uris)

/* A copy that a CHECKPOINT_REPORT said is in hearthd's store does not count: the agent has to copy it once more. text: why. */
#define WM_CHECKPOINT_AGAIN_F(F) F(U64, job) F(U32, attempt) F(U64, epoch) F(U64, seq) F(STR, text)

/* An administrator's rules for lines of logs, as text (docs/spec/13-failures.md); "" none. After each connection and each change. */
#define WM_FAILURE_PATTERNS_F(F) F(STR, text)

/* hearthd misses a node, "name address:port", and wants to know what it says of itself and of these launches (jobs, attempts: one entry each).
 * Answered by NODE_SEEN after at most timeout_ms, or not at all. */
#define NODE_ASK_LAUNCHES 64 /* in one question */
#define WM_NODE_ASK_F(F) F(U64, ask) F(STR, peer) F(U32, timeout_ms) F(U64V, jobs) F(U32V, attempts)

/* The node may soon have a launch of that job: fetch these trees (digests) into the cache. urgent 1: before others. spec: as in GANG, where the node
 * is to make the environment of its requirements and to download its inputs, as that account, from the source tree bundle; "" it is not. Neither
 * tree nor spec: the job needs nothing more. Answered by PREFETCHED for the trees and for the rest, or not at all. */
#define PREFETCH_TREES 64 /* in one order */
#define WM_PREFETCH_F(F) F(U64, job) F(U32, attempt) F(U8, urgent) F(STRV, trees) F(STR, account) F(STR, bundle) F(STR, spec)

/* All warm pools with a part on this node, one entry each: the list replaces the one before. jobs: that made or last used it, whose cache folder becomes
 * the pool's. until_us: its end by hearthd's wall clock, 0 while a job uses it. */
#define POOLS_MAX 4096 /* on one node */
#define WM_POOLS_F(F) F(U64V, pools) F(U64V, jobs) F(U64V, until_us)

/* ---- bulk: agent -> controller ----------------------------------------------------------------- */
/* stream: "rank-N", "mpirun", "setup-algo-K", "system-algo-K". offset: of data[0] in the stream. A gap (offset > known) is stored as a gap with a visible
 * count. eof = 1 on the last one (data may be empty). rec: side index for this chunk, 16 bytes each: u32 offset in data | u64 real_us | u32 fd (1, 2). */
#define WM_LOG_DATA_F(F)                                                                                                           \
	F(U64, job) F(U32, attempt) F(U64, epoch) F(STR, stream) F(U64, offset) F(BYTES, data) F(BYTES, rec) F(U8, eof)
/* parallel vectors, one entry a point; step -1 = none; seq rises per (job, attempt) and is acknowledged */
#define WM_METRICS_F(F)                                                                                                            \
	F(U64, job) F(U32, attempt) F(U64, epoch) F(U64, seq) F(STRV, names) F(U32V, name_ix) F(U32V, ranks) F(I64V, steps) F(F64V, values) F(U64V, times)
/* Pieces of at most TREE_CHUNK_MAX bytes (common/tree/tree.h). GET: from offset on, answered by BLOB_DATA with the same frame id. PUT: bytes at offset of a
 * blob of total bytes, in order; answered by BLOB_OK with the same frame id. */
#define WM_BLOB_GET_F(F) F(STR, digest) F(U64, offset)
#define WM_BLOB_HAVE_F(F) F(STRV, digests)                 /* answered by BLOB_MISSING with the same frame id */
#define WM_BLOB_PUT_F(F) F(STR, digest) F(U64, offset) F(U64, total) F(BYTES, data)

/* ---- bulk: controller -> agent ----------------------------------------------------------------- */
#define WM_LOG_ACK_F(F) F(U64, job) F(U32, attempt) F(STR, stream) F(U64, offset) /* durable up to here */
#define WM_METRICS_ACK_F(F) F(U64, job) F(U32, attempt) F(U64, seq)
#define WM_BLOB_DATA_F(F) F(U32, code) F(STR, text) F(U64, total) F(BYTES, data) /* code: 0 or enum err_code; total: size of the blob */
#define WM_BLOB_MISSING_F(F) F(STRV, digests)
#define WM_BLOB_OK_F(F) F(U32, code) F(STR, text) F(U64, present) /* how much of it is there: the next piece begins here */

/* ---- shim control socket (nine verbs; frame id is echoed in the reply) --------------------------- */
#define WM_SHIM_HELLO_F(F) F(U32, version) F(STR, token)
#define WM_SHIM_STATUS_F(F)                                                                                                        \
	F(U32, version) F(STR, token) F(U8, kind) F(U8, state) F(U32, pid) F(U64, start_ticks) F(U32, exit_code) F(U32, signal) F(U8, oom)    \
	F(U8, ended_by) F(U64, started_us) F(U64, ended_us) F(U64, out_bytes) F(U64, dropped_bytes) F(STR, text)
#define WM_SHIM_QUERY_F(F) F(U8, watch)                    /* watch = 1: a SHIM_STATUS also at each change */
#define WM_SHIM_SIGNAL_F(F) F(U32, signal) F(U8, only_if_caught)
#define WM_SHIM_TAIL_F(F) F(U32, max_bytes)                /* answered by SHIM_DATA */
#define WM_SHIM_DATA_F(F) F(BYTES, data)
/* env: NAME=VALUE put over the prepared environment; cwd "" = prepared one; argv empty = prepared one; descriptors 0-2 may come by SCM_RIGHTS (stdin is used) */
#define WM_SHIM_GO_F(F) F(STRV, argv) F(STRV, env) F(STR, cwd) F(U8, mirror) /* mirror = 1: this connection's end runs the kill ladder */
/* The agent's go for a parked process: all of its command and environment, in which the launcher's variables of SHIM_GO win. preloaded = 0: the waiting
 * interpreter, if there is one, is not used. */
#define WM_SHIM_START_F(F) F(STRV, argv) F(STRV, env) F(STR, cwd) F(U8, preloaded)
#define WM_SHIM_ATTACH_F(F) F(U32, rows) F(U32, cols) F(U8, detach)
#define WM_SHIM_RELEASE_F(F) F(U8, unused)                 /* agent has the exit durable: the shim removes its state and ends */
#define WM_SHIM_QUIT_F(F) F(U32, grace_ms) F(U8, by)       /* kill ladder, then record the exit; stays until released. by: enum ended_by */
#define WM_SHIM_OK_F(F) F(U32, code) F(STR, text)

/* ---- agent's local socket (hearth-rsh) -------------------------------------------------------------- */
#define WM_LOCAL_RSH_F(F) F(STR, token) F(STR, rsh_id) F(STR, host) F(STRV, argv)
#define WM_LOCAL_RSH_STATE_F(F) F(STR, rsh_id) F(U8, state) F(U32, exit_code) F(U32, signal) F(STR, text)

/* ---- peer port: agent <-> agent ------------------------------------------------------------------- */
#define WM_PEER_ASK_F(F) F(STR, node)
#define WM_PEER_ANSWER_F(F) F(STR, node) F(U8, has_controller) F(U64, ack_age_ms)
/* Which boot and which process of the agent answer, and which of the launches are certainly not there: missing has their places in the question.
 * An agent of version 2 ends the connection. */
#define WM_PEER_LOOK_F(F) F(STR, node) F(U64V, jobs) F(U32V, attempts)
#define WM_PEER_SEEN_F(F) F(STR, node) F(STR, boot_id) F(U64, instance) F(U32V, missing)

/* number, NAME, name, senders, phases, since which version */
#define WIRE_MESSAGES(M)                                                               \
	M(1, CHALLENGE, challenge, WIRE_FROM_CTL, WIRE_HANDSHAKE, WIRE_EVER)               \
	M(2, HELLO, hello, WIRE_FROM_AGENT, WIRE_HANDSHAKE, WIRE_EVER)                     \
	M(3, WELCOME, welcome, WIRE_FROM_CTL, WIRE_HANDSHAKE, WIRE_EVER)                   \
	M(4, REFUSED, refused, WIRE_FROM_CTL, WIRE_HANDSHAKE, WIRE_EVER)                   \
	M(16, INVENTORY, inventory, WIRE_FROM_AGENT, WIRE_CONTROL, 2)                      \
	M(17, BEAT, beat, WIRE_FROM_AGENT, WIRE_CONTROL, WIRE_EVER)                        \
	M(18, SYNC_BEGIN, sync_begin, WIRE_FROM_AGENT, WIRE_CONTROL, 2)                    \
	M(19, SYNC_END, sync_end, WIRE_FROM_AGENT, WIRE_CONTROL, 2)                        \
	M(20, LAUNCH_REPORT, launch_report, WIRE_FROM_AGENT, WIRE_CONTROL, 2)              \
	M(21, PROC_REPORT, proc_report, WIRE_FROM_AGENT, WIRE_CONTROL, 2)                  \
	M(22, ARTIFACT_REPORT, artifact_report, WIRE_FROM_AGENT, WIRE_CONTROL, 2)          \
	M(23, RUN_INFO, run_info, WIRE_FROM_AGENT, WIRE_CONTROL, 2)                        \
	M(24, RSH_REQUEST, rsh_request, WIRE_FROM_AGENT, WIRE_CONTROL, 2)                  \
	M(25, RSH_CANCEL, rsh_cancel, WIRE_FROM_AGENT, WIRE_CONTROL, 2)                    \
	M(26, CHECKPOINT_REPORT, checkpoint_report, WIRE_FROM_AGENT, WIRE_CONTROL, 3)      \
	M(27, FAILURE_LINE, failure_line, WIRE_FROM_AGENT, WIRE_CONTROL, 3)                \
	M(28, NODE_SEEN, node_seen, WIRE_FROM_AGENT, WIRE_CONTROL, 3)                      \
	M(29, PREFETCHED, prefetched, WIRE_FROM_AGENT, WIRE_CONTROL, 3)                    \
	M(30, POOL_BAD, pool_bad, WIRE_FROM_AGENT, WIRE_CONTROL, 3)                        \
	M(40, BEAT_ACK, beat_ack, WIRE_FROM_CTL, WIRE_CONTROL, WIRE_EVER)                  \
	M(41, ACK, ack, WIRE_FROM_CTL, WIRE_CONTROL, 2)                                    \
	M(42, PREPARE, prepare, WIRE_FROM_CTL, WIRE_CONTROL, 2)                            \
	M(43, LAUNCH_GO, launch_go, WIRE_FROM_CTL, WIRE_CONTROL, 2)                        \
	M(44, ORTED_START, orted_start, WIRE_FROM_CTL, WIRE_CONTROL, 2)                    \
	M(45, RSH_STATE, rsh_state, WIRE_FROM_CTL, WIRE_CONTROL, 2)                        \
	M(46, KILL, kill, WIRE_FROM_CTL, WIRE_CONTROL, 2)                                  \
	M(47, COLLECT, collect, WIRE_FROM_CTL, WIRE_CONTROL, 2)                            \
	M(48, NOTE, note, WIRE_FROM_CTL, WIRE_CONTROL, 2)                                  \
	M(49, GANG, gang, 0, 0, WIRE_EVER)                                                 \
	M(50, RETIRED, retired, WIRE_FROM_CTL, WIRE_CONTROL, 3)                            \
	M(51, CHECKPOINT_KEEP, checkpoint_keep, WIRE_FROM_CTL, WIRE_CONTROL, 3)            \
	M(52, FAILURE_PATTERNS, failure_patterns, WIRE_FROM_CTL, WIRE_CONTROL, 3)          \
	M(53, NODE_ASK, node_ask, WIRE_FROM_CTL, WIRE_CONTROL, 3)                          \
	M(54, PREFETCH, prefetch, WIRE_FROM_CTL, WIRE_CONTROL, 3)                          \
	M(55, POOLS, pools, WIRE_FROM_CTL, WIRE_CONTROL, 3)                                \
	M(56, CHECKPOINT_AGAIN, checkpoint_again, WIRE_FROM_CTL, WIRE_CONTROL, 3)          \
	M(64, LOG_DATA, log_data, WIRE_FROM_AGENT, WIRE_BULK, 2)                           \
	M(65, METRICS, metrics, WIRE_FROM_AGENT, WIRE_BULK, 2)                             \
	M(66, BLOB_GET, blob_get, WIRE_FROM_AGENT, WIRE_BULK, 2)                           \
	M(67, BLOB_HAVE, blob_have, WIRE_FROM_AGENT, WIRE_BULK, 2)                         \
	M(68, BLOB_PUT, blob_put, WIRE_FROM_AGENT, WIRE_BULK, 2)                           \
	M(80, LOG_ACK, log_ack, WIRE_FROM_CTL, WIRE_BULK, 2)                               \
	M(81, METRICS_ACK, metrics_ack, WIRE_FROM_CTL, WIRE_BULK, 2)                       \
	M(82, BLOB_DATA, blob_data, WIRE_FROM_CTL, WIRE_BULK, 2)                           \
	M(83, BLOB_MISSING, blob_missing, WIRE_FROM_CTL, WIRE_BULK, 2)                     \
	M(84, BLOB_OK, blob_ok, WIRE_FROM_CTL, WIRE_BULK, 2)                               \
	M(96, SHIM_HELLO, shim_hello, WIRE_FROM_SHIMCLIENT, WIRE_LOCAL, WIRE_EVER)         \
	M(97, SHIM_QUERY, shim_query, WIRE_FROM_SHIMCLIENT, WIRE_LOCAL, WIRE_EVER)         \
	M(98, SHIM_SIGNAL, shim_signal, WIRE_FROM_SHIMCLIENT, WIRE_LOCAL, WIRE_EVER)       \
	M(99, SHIM_TAIL, shim_tail, WIRE_FROM_SHIMCLIENT, WIRE_LOCAL, WIRE_EVER)           \
	M(100, SHIM_GO, shim_go, WIRE_FROM_SHIMCLIENT, WIRE_LOCAL, WIRE_EVER)              \
	M(101, SHIM_ATTACH, shim_attach, WIRE_FROM_SHIMCLIENT, WIRE_LOCAL, WIRE_EVER)      \
	M(102, SHIM_RELEASE, shim_release, WIRE_FROM_SHIMCLIENT, WIRE_LOCAL, WIRE_EVER)    \
	M(103, SHIM_QUIT, shim_quit, WIRE_FROM_SHIMCLIENT, WIRE_LOCAL, WIRE_EVER)          \
	M(104, SHIM_START, shim_start, WIRE_FROM_SHIMCLIENT, WIRE_LOCAL, 3)                \
	M(110, SHIM_OK, shim_ok, WIRE_FROM_SHIM, WIRE_LOCAL, WIRE_EVER)                    \
	M(111, SHIM_STATUS, shim_status, WIRE_FROM_SHIM, WIRE_LOCAL, WIRE_EVER)            \
	M(112, SHIM_DATA, shim_data, WIRE_FROM_SHIM, WIRE_LOCAL, WIRE_EVER)                \
	M(120, LOCAL_RSH, local_rsh, WIRE_FROM_RSH, WIRE_LOCAL, WIRE_EVER)                 \
	M(121, LOCAL_RSH_STATE, local_rsh_state, WIRE_FROM_AGENT, WIRE_LOCAL, WIRE_EVER)   \
	M(130, PEER_ASK, peer_ask, WIRE_FROM_PEER, WIRE_LOCAL, WIRE_EVER)                  \
	M(131, PEER_ANSWER, peer_answer, WIRE_FROM_PEER, WIRE_LOCAL, WIRE_EVER)            \
	M(132, PEER_LOOK, peer_look, WIRE_FROM_PEER, WIRE_LOCAL, 3)                        \
	M(133, PEER_SEEN, peer_seen, WIRE_FROM_PEER, WIRE_LOCAL, 3)

enum wire_type {
#define M(num, NAME, name, from, phase, since) WM_##NAME = num,
	WIRE_MESSAGES(M)
#undef M
};

#define WIRE_C_U8    uint8_t
#define WIRE_C_U32   uint32_t
#define WIRE_C_U64   uint64_t
#define WIRE_C_I64   int64_t
#define WIRE_C_F64   double
#define WIRE_C_STR   char *
#define WIRE_C_BYTES struct wire_bytes
#define WIRE_C_STRV  struct wire_strv
#define WIRE_C_SHARED struct wire_shared *
#define WIRE_C_U32V  struct wire_u32v
#define WIRE_C_U64V  struct wire_u64v
#define WIRE_C_I64V  struct wire_i64v
#define WIRE_C_F64V  struct wire_f64v

/* A field is F(KIND, name) or F(KIND, name, SINCE). */
#define WIRE_SINCE(...)             (__VA_ARGS__ + 0u)
#define WIRE_FIELD(kind, name, ...) WIRE_C_##kind name;
#define M(num, NAME, name, from, phase, since) \
	struct wm_##name {                         \
		WM_##NAME##_F(WIRE_FIELD)              \
	};
WIRE_MESSAGES(M)
#undef M
#undef WIRE_FIELD
/* clang-format on */

#endif
