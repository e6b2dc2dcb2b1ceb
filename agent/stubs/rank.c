/*
 * hearth-rank: mpirun and torchrun start it instead of a rank.
 *
 * orted kills its children at once when anything goes wrong, so the rank itself must not be one of them. It
 * belongs to a shim that the agent started before, outside orted's tree. hearth-rank finds that shim by
 * HEARTH_LAUNCH_DIR and its local rank, sends go with the variables of the launcher, and mirrors the end:
 * same exit status, same signal. When hearth-rank itself ends, its connection ends, and the shim runs the
 * kill ladder.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "agent/command/mpi.h"
#include "shim/shim.h"

#define CONNECT_MS 10000
#define SEND_MS    10000
#define RECV_MS    10000 /* for the rest of a frame that has begun */

/* Not those of programs: whoever reads mpirun's messages can tell them apart. */
enum { EXIT_LOST = 254, EXIT_NOT_STARTED = 127 };
enum { ID_WATCH = 1, ID_GO, ID_SIGNAL };

static int print_failure(int code, const char *text)
{
	fprintf(stderr, "hearth-rank: %s\n", text);
	return code;
}

static char *shim_dir(struct err *e)
{
	const char *launch = getenv("HEARTH_LAUNCH_DIR"), *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");

	if (!local)
		local = getenv("LOCAL_RANK"); /* torchrun */
	if (!launch || !launch[0] || !local || !local[0] || strspn(local, "0123456789") != strlen(local)) {
		err_set(
		    e, ERR_INVALID,
		    "HEARTH_LAUNCH_DIR and OMPI_COMM_WORLD_LOCAL_RANK are not set; this program is started by mpirun "
		    "in a launch of hearth-agent");
		return NULL;
	}
	return xasprintf("%s/rank-%s", launch, local);
}

static int connect_shim(struct err *e)
{
	cleanup_free char *dir = shim_dir(e);
	cleanup_free char *key = dir ? shim_key_read(dir, e) : NULL;

	return key ? shim_connect(dir, key, CONNECT_MS, e) : -1;
}

/* All that MPI needs to know came from orted in variables of the first names; torchrun chooses the ranks and
 * the store itself. */
static int is_launchers(const char *entry)
{
	static const char *const prefixes[] = {"OMPI_", "PMIX_", "PMI_", "ORTE_", "PRTE_"};
	static const char *const torch[] = {
	    "TORCHELASTIC_", "TORCH_NCCL_", "NCCL_ASYNC_",       "ROLE_",        "GROUP_",      "RANK=",
	    "LOCAL_RANK=",   "WORLD_SIZE=", "LOCAL_WORLD_SIZE=", "MASTER_ADDR=", "MASTER_PORT="};
	int from_torchrun = getenv("TORCHELASTIC_RUN_ID") != NULL;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]) && !from_torchrun; i++)
		if (strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0)
			return 1;
	for (size_t i = 0; i < sizeof(torch) / sizeof(torch[0]) && from_torchrun; i++)
		if (strncmp(entry, torch[i], strlen(torch[i])) == 0)
			return 1;
	return 0;
}

static void launcher_environment(struct wire_strv *env)
{
	extern char **environ;

	for (char **v = environ; *v; v++)
		if (strchr(*v, '=') && is_launchers(*v))
			wire_strv_add(env, *v);
	/* Adds the variables of this node that the launcher cannot know; the later of two counts. */
	for (char **v = environ; *v; v++)
		if (strncmp(*v, MPI_RANK_ENV "OMPI_", sizeof(MPI_RANK_ENV "OMPI_") - 1) == 0 && strchr(*v, '='))
			wire_strv_add(env, *v + sizeof(MPI_RANK_ENV) - 1);
}

static int send_go(int fd, struct err *e)
{
	struct wm_shim_query query = {.watch = 1};
	struct wm_shim_go go = {.cwd = xstrdup(""), .mirror = 1};
	int in = STDIN_FILENO, rc;

	launcher_environment(&go.env);
	rc = shim_send(fd, WM_SHIM_QUERY, &query, ID_WATCH, NULL, 0, SEND_MS, e);
	if (rc == 0)
		rc = shim_send(fd, WM_SHIM_GO, &go, ID_GO, &in, 1, SEND_MS, e);
	wire_fini(WM_SHIM_GO, &go);
	return rc;
}

/* Ends as the rank did; orted reports what it sees of us. */
static int end_by_signal(int signo)
{
	struct rlimit none = {0};
	sigset_t set;

	setrlimit(RLIMIT_CORE, &none); /* a core of the stub would only mislead */
	prctl(PR_SET_DUMPABLE, 0);
	signal(signo, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, signo);
	raise(signo);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return 128 + signo; /* a signal whose default does not end a process */
}

/* -1: goes on. */
static int on_status(const struct wm_shim_status *st)
{
	switch (st->state) {
	case PS_EXITED:
		return st->signal > 0 && st->signal <= 64 ? end_by_signal((int)st->signal) : (int)st->exit_code;
	case PS_FAILED:
		return print_failure(EXIT_NOT_STARTED, st->text);
	case PS_WAITING:
	case PS_PARKED: /* armed: the agent starts it when a job has come */
	case PS_RUNNING:
		return -1;
	default:
		return print_failure(EXIT_LOST, "the fate of the rank is unknown");
	}
}

static int on_frame(int fd)
{
	struct err why;
	uint16_t type;
	uint64_t id;
	void *msg;
	int rc = shim_recv(fd, &type, &id, &msg, RECV_MS, &why), end = -1;

	if (rc == 0)
		return -1;
	if (rc < 0)
		return print_failure(EXIT_LOST, why.text);
	if (type == WM_SHIM_STATUS) {
		end = on_status(msg);
	} else if (type == WM_SHIM_OK && id == ID_GO) {
		const struct wm_shim_ok *m = msg;

		if (m->code != ERR_NONE)
			end = print_failure(EXIT_NOT_STARTED, m->text);
	}
	wire_free(type, msg);
	return end;
}

static void forward_signal(int signal_fd, int fd)
{
	struct signalfd_siginfo info;
	struct wm_shim_signal m;

	if (read(signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	m = (struct wm_shim_signal){.signal = info.ssi_signo};
	/* A failure shows as the end of the connection. */
	shim_send(fd, WM_SHIM_SIGNAL, &m, ID_SIGNAL, NULL, 0, SEND_MS, NULL);
}

static int mirror_end(int fd, int signal_fd)
{
	struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
	int end = -1;

	while (end < 0) {
		/* Without limit: a rank may train for weeks, and its shim's end ends this wait too. */
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return print_failure(EXIT_LOST, strerror(errno));
		if (p[1].revents)
			forward_signal(signal_fd, fd);
		if (p[0].revents)
			end = on_frame(fd);
	}
	return end;
}

int main(int argc, char **argv)
{
	sigset_t set;
	struct err why;
	int fd, signal_fd;

	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		puts("hearth-rank " PACKAGE_VERSION);
		return 0;
	}
	/* Blocked before the connection exists, so that a signal that comes early is passed on after go. */
	sigemptyset(&set);
	for (int i = 0; i < 6; i++)
		sigaddset(&set, (const int[]){SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT}[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (signal_fd < 0)
		return print_failure(EXIT_NOT_STARTED, strerror(errno));
	fd = connect_shim(&why);
	if (fd < 0 || send_go(fd, &why) < 0)
		return print_failure(EXIT_NOT_STARTED, why.text);
	return mirror_end(fd, signal_fd);
}
