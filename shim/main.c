/*
 * hearth-shim: arguments, and what this process must be before there is a shim.
 *
 * Nothing but SIGKILL and the verbs of its socket ends it: it has a session of its own and no terminal, and
 * ignores every signal that can be ignored. A dead agent, a closed terminal or `kill` leave it and its
 * process alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/base/log.h"
#include "common/base/strutil.h"
#include "shim/core.h"

#define HEAP_WARM (1024 * 1024)

struct options {
	const char *dir;
	int ready_fd; /* -1 none */
};

static void print_usage(FILE *to)
{
	fputs("usage: hearth-shim --dir DIR [--ready-fd N]\n"
	      "Owns one process of a launch, as DIR/launch says. Started by hearth-agent.\n",
	      to);
}

static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {{"dir", required_argument, NULL, 'd'},
	                                      {"ready-fd", required_argument, NULL, 'r'},
	                                      {"help", no_argument, NULL, 'h'},
	                                      {"version", no_argument, NULL, 'v'},
	                                      {0}};
	uint64_t n;
	int c;

	*o = (struct options){.ready_fd = -1};
	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'd':
			o->dir = optarg;
			break;
		case 'r':
			if (str_parse_u64(optarg, &n) < 0 || n < 3 || n > 1000000 || fcntl((int)n, F_GETFD) < 0) {
				fprintf(stderr, "hearth-shim: --ready-fd: '%s' is not an open descriptor above 2\n", optarg);
				return 2;
			}
			o->ready_fd = (int)n;
			break;
		case 'h':
			print_usage(stdout);
			return -1;
		case 'v':
			puts("hearth-shim " PACKAGE_VERSION);
			return -1;
		default:
			print_usage(stderr);
			return 2;
		}
	}
	if (!o->dir || optind != argc) {
		print_usage(stderr);
		return 2;
	}
	return 0;
}

static void ignore_signals(void)
{
	static const int ignored[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE, SIGTERM,  SIGUSR1,
	                              SIGUSR2, SIGALRM, SIGTSTP, SIGTTIN, SIGTTOU,  SIGXCPU,
	                              SIGXFSZ, SIGIO,   SIGPROF, SIGPWR,  SIGVTALRM};
	struct sigaction sa = {.sa_handler = SIG_IGN};

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		sigaction(ignored[i], &sa, NULL);
	for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
		sigaction(i, &sa, NULL);
}

/* Closes all that the starter left open, except 0-2 and the readiness pipe, which becomes close-on-exec.
 */
static void close_others(int *ready_fd)
{
	if (*ready_fd >= 0) {
		if (*ready_fd != 3) {
			dup2(*ready_fd, 3);
			*ready_fd = 3;
		}
		fcntl(3, F_SETFD, FD_CLOEXEC);
	}
	syscall(SYS_close_range, *ready_fd >= 0 ? 4u : 3u, ~0u, 0u);
}

static void become_owner(void)
{
	int fd;

	setsid(); /* fails when proc_spawn has done it */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	umask(077);
	/* The kernel must not choose this process of the launch when memory is short; an ordinary user cannot ask
	 * for that. */
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		(void)!write(fd, "-1000", 5);
		close(fd);
	}
	/* The heap gets its pages now and keeps them: the little that is allocated later is there already. */
	mallopt(M_MMAP_THRESHOLD, 64 * 1024 * 1024);
	mallopt(M_TRIM_THRESHOLD, 64 * 1024 * 1024);
	free(memset(xmalloc(HEAP_WARM), 1, HEAP_WARM));
}

/* stderr goes to DIR/log: a few lines in a shim's life. */
static void open_log(int dir_fd)
{
	int fd = openat(dir_fd, "log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0)
		dup2(fd, 2);
	if (fd > 2)
		close(fd);
	log_init("hearth-shim", LOG_LVL_INFO);
}

/* Directory lock: one shim at a time; a record that is there tells of one that was, and must not be
 * overwritten. */
static int open_dir(const char *dir, struct err *e)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return err_sys(e, errno, "%s", dir);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		err_set(e, ERR_BUSY, "%s: another shim works here", dir);
	else if (fstatat(fd, "state", &st, AT_SYMLINK_NOFOLLOW) == 0)
		err_set(e, ERR_CONFLICT, "%s: has the record of an earlier shim", dir);
	else
		return fd;
	close(fd);
	return -1;
}

static void tell_starter(int ready_fd, const struct err *e)
{
	if (ready_fd < 0) {
		if (e)
			fprintf(stderr, "hearth-shim: %s\n", e->text);
		return;
	}
	(void)!write(ready_fd, e ? e->text : "", e ? strlen(e->text) : 1);
	close(ready_fd);
}

int main(int argc, char **argv)
{
	struct shim_launch l = {0};
	struct shim s;
	struct options o;
	struct err why;
	int dir_fd, rc;

	rc = parse_options(argc, argv, &o);
	if (rc)
		return rc < 0 ? 0 : rc;
	ignore_signals();
	close_others(&o.ready_fd);
	become_owner();
	dir_fd = open_dir(o.dir, &why);
	if (dir_fd < 0 || shim_launch_read(o.dir, &l, &why) < 0) {
		tell_starter(o.ready_fd, &why);
		return 1;
	}
	open_log(dir_fd);
	rc = shim_init(&s, o.dir, dir_fd, &l, &why);
	(void)!chdir("/");
	if (rc < 0) {
		log_error("event=not_started reason=\"%s\"", why.text);
		tell_starter(o.ready_fd, &why);
		shim_fini(&s);
		close(dir_fd);
		return 1;
	}
	tell_starter(o.ready_fd, NULL);
	shim_begin(&s);
	shim_run(&s);
	shim_fini(&s);
	close(dir_fd);
	return 0;
}
