/*
 * shim: what agent, hearth-rank and tests know of hearth-shim (docs/spec/03-shim.md).
 *
 * One shim owns one process (a rank, orted, mpirun), its output and its exit status; it is started by the
 * agent outside any launcher's tree and outlives the agent. The agent makes its directory (on tmpfs) with all
 * that it needs:
 *
 * - DIR/launch: what to start (shim_launch_write), 0600
 * - DIR/key: the shim's token alone, 0400, for the account that the process runs as: hearth-rank reads it
 *   (shim_key_read)
 * - DIR/state: who the shim is and what became of the process (replaced atomically at each change)
 * - DIR/ctl: unix socket, nine verbs. The peer's uid is checked: its own or root; the process's account for
 *   all but release, quit and start.
 * - DIR/log: what the shim itself has to say; a few lines
 * - LOGDIR/out.OFFSET.log: raw bytes of stdout and stderr in order of arrival; OFFSET: 20 digits, the offset
 * of its first byte in the stream
 * - LOGDIR/out.OFFSET.idx: 16 bytes a record: u32 offset in file, u64 real_us, u32 fd, big-endian
 * - LOGDIR/metrics.jsonl: the file behind HEARTH_METRICS_FD (O_APPEND)
 *
 * A segment is closed at segment_bytes and a new one opened; when the sum passes max_bytes the oldest is
 * removed and counted as dropped, so that a full bound or a full disk never blocks the process. The agent
 * removes segments that the controller has durable. "Unknown" is a state of its own: a shim that vanished
 * without a record in `state` is lost, never success or failure.
 */
#ifndef HEARTH_SHIM_SHIM_H
#define HEARTH_SHIM_SHIM_H

#include "common/base/err.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "common/os/proc.h"
#include <stdint.h>
#include <sys/types.h>

/* In hello and status, for ever: messages and state files of shims do not change. A new verb gets a new
 * message, and its version is asked for. */
#define SHIM_VERSION   1
#define SHIM_MAX_CONNS 16    /* connections at a time; one more is answered ERR_BUSY */
#define SHIM_TAIL_MAX  65536 /* bytes of output that the shim itself remembers for SHIM_TAIL */
#define SHIM_LAUNCH_MAX                                                                                      \
	(4u * 1024 * 1024) /* largest order: arguments and environment; the kernel takes no more either */
#define SHIM_METRICS_FD                                                                                      \
	9 /* number of the descriptor in the process when metrics = 1; HEARTH_METRICS_FD says it */

struct shim_launch {
	char *token;      /* HEARTH_TOKEN_LAUNCH of the whole launch on this node: the sweep finds strays by it */
	char *shim_token; /* names this shim alone; the socket's hello must carry it */
	uint8_t kind;     /* enum proc_kind */
	uint64_t job;
	uint32_t attempt, rank;
	struct strv argv; /* argv[0] absolute, or found through PATH of env inside cwd */
	struct strv env;  /* whole environment */
	char *cwd;
	char *logdir;
	uint8_t wait_go; /* 1: start on SHIM_GO, 0: at once */
	uint8_t metrics; /* open metrics.jsonl as SHIM_METRICS_FD */
	uint8_t set_ids;
	uint32_t uid, gid;
	char *user;
	struct strv
	    cgroup_procs;       /* files to write the child's pid to before exec ("" none); failure is an error */
	uint32_t container_pid; /* setns into its mount + IPC namespaces before exec (0 none): */
	uint64_t container_start; /*   with its start time */
	struct strv oom_files;    /* cgroup memory event files to read at exit: "memory.events" (oom_kill N) or v1
	                             "memory.oom_control" */
	uint64_t segment_bytes, max_bytes;
	uint64_t limit_nofile; /* 0 keep */
	uint8_t memlock_unlimited;
	uint64_t limit_as;      /* RLIMIT_AS, 0 none */
	uint32_t grace_ms;      /* kill ladder when a mirroring connection ends */
	struct wire_u32v cpus;  /* sched_setaffinity; empty = keep */
	uint32_t oom_score_adj; /* of the child: 0; the shim itself takes -1000 when it may */
	char *cgroup_kill; /* file to write "1" to when killing; only for a cgroup that holds nothing else ("" or
	                      NULL none) */
	uint8_t allow_setuid; /* set-uid programs and file capabilities give rights; 0: PR_SET_NO_NEW_PRIVS */
	uint8_t core_files;   /* the core limit stays as it is; 0: none, also not by the process's own wish */
	char *lease; /* the record by which the process ends without an agent (lease_file.h); "" or NULL none */
	/* A parked process starts by SHIM_START, which the agent sends once the state is PS_PARKED. */
	uint8_t park;
	uint8_t await_launcher; /* PS_PARKED comes after SHIM_GO with mirror = 1 (hearth-rank); 0: without one */
	struct strv park_argv;  /* the waiting interpreter; empty none */
};

/* The waiting interpreter is started like the process (user, cgroups, container, limits, pipes, directory),
 * once the launcher's go has come. HEARTH_PARK_FD in its environment names descriptor SHIM_PARK_FD, a stream
 * socket:
 *
 * - interpreter -> shim, once: "ready\n" or "ready MARK\n"; or "bad TEXT\n", which ends it
 * - shim -> interpreter, at SHIM_START with preloaded = 1: u32 length of what follows, then argv, env and
 *   [cwd] as lists: u32 count, then count x (u32 length, bytes); big-endian. The shim then shuts its side.
 * - interpreter -> shim, within SHIM_BEGIN_MS: 'g', before it runs the program; or "c TEXT\n", before it
 *   executes argv afresh, because the program does not fit what it has loaded. This is the start: state
 *   PS_RUNNING. Stdout and stderr from here on are the program's.
 * - without such an answer: the shim kills it and executes argv itself
 *
 * An interpreter that is bad, ends, prints or starts processes while it is parked is killed; the process
 * stays parked without it. text of a PS_PARKED status is "" without park_argv, else begins with one of the
 * first two; a watch sees the change. text of a PS_RUNNING status begins with the third where the interpreter
 * did not run the program. SHIM_START with preloaded = 1 is ERR_UNSUPPORTED without an interpreter; with
 * preloaded = 0 the shim kills the interpreter first. */
#define SHIM_PARK_FD    8
#define SHIM_BEGIN_MS   5000
#define SHIM_TEXT_READY "interpreter ready"        /* then " MARK" when it said one */
#define SHIM_TEXT_BAD   "interpreter not usable: " /* then why */
#define SHIM_TEXT_AFRESH                                                                                     \
	"executed afresh, not by the interpreter that waited: " /* then why                                      \
	                                                         */

/* DIR/launch (0600) and DIR/key (0400, given to l->uid when set_ids), each atomically. NULL strings are
 * stored as "". */
int shim_launch_write(const char *dir, const struct shim_launch *l, struct err *e);
/* ERR_NOT_FOUND no file, ERR_PROTOCOL torn, damaged or of another version. Strings are owned by the caller
 * (shim_launch_fini). */
int shim_launch_read(const char *dir, struct shim_launch *l, struct err *e);
void shim_launch_fini(struct shim_launch *l);
/* The shim's token out of DIR/key; malloc'ed, NULL on error. */
char *shim_key_read(const char *dir, struct err *e);

struct shim_state { /* DIR/state, versioned, checksummed */
	uint32_t version;
	struct proc_id shim;  /* the shim itself */
	struct proc_id child; /* pid 0: not started */
	struct wm_shim_status st;
};
/* Reads and checks DIR/state: ERR_NOT_FOUND no file, ERR_PROTOCOL torn or damaged. st's strings are owned by
 * the caller (shim_state_fini). */
int shim_state_read(const char *dir, struct shim_state *s, struct err *e);
void shim_state_fini(struct shim_state *s);
int shim_state_write(const char *dir, const struct shim_state *s, struct err *e);

/* Starts `shim_path --dir DIR` in a session of its own. The shim is the caller's child: the caller reaps it
 * by waitpid(id.pid) when it ends (a shim that the caller never reaps counts as gone for proc_alive all the
 * same).
 *
 * shim_spawn returns when the program runs; *ready_fd becomes readable when its state file and its socket are
 * there or when it could not do that, and shim_ready (which takes ready_fd) then says which. shim_start is
 * both, waiting at most timeout_ms; a shim that is not ready by then is killed. After shim_start with wait_go
 * = 0 the process is being started. */
int shim_spawn(const char *shim_path, const char *dir, pid_t *pid, int *ready_fd, struct err *e);
int shim_ready(int ready_fd, const char *dir, struct proc_id *id, struct err *e);
int shim_start(const char *shim_path, const char *dir, uint32_t timeout_ms, struct proc_id *id,
               struct err *e);

/* Blocking client for tests, hearth-rank and tools; the agent uses its own non-blocking one over the same
 * messages. ERR_NOT_FOUND / ERR_UNAVAILABLE: nobody listens; ERR_DENIED: wrong token or user; ERR_BUSY: too
 * many connections. */
int shim_connect(const char *dir, const char *shim_token, uint32_t timeout_ms,
                 struct err *e); /* fd after hello, or -1 */
/* A connected, non-blocking descriptor before hello (also for long paths), for the agent's own client. */
int shim_dial(const char *dir, struct err *e);
/* Identifies the process that serves DIR/ctl: the shim, when its state file cannot be read. Its word counts
 * once it has answered hello. */
int shim_identify(const char *dir, struct proc_id *id, struct err *e);
/* Sends msg and waits for the reply with the same frame id; other frames (status of a watch) are dropped.
 * *reply by wire_free. */
int shim_call(int fd, uint16_t type, const void *msg, uint16_t *reply_type, void **reply, uint32_t timeout_ms,
              struct err *e);
/* One frame, with descriptors (n_fds <= 3) by SCM_RIGHTS. */
int shim_send(int fd, uint16_t type, const void *msg, uint64_t id, const int *fds, unsigned n_fds,
              uint32_t timeout_ms, struct err *e);
/* Next frame: 1; 0 when nothing came in timeout_ms; -1 (ERR_UNAVAILABLE: the other side is gone). */
int shim_recv(int fd, uint16_t *type, uint64_t *id, void **msg, uint32_t timeout_ms, struct err *e);

#endif
