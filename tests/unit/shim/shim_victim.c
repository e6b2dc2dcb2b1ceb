/*
 * shim_victim: a program that does whatever a test of hearth-shim needs a process to do. The first argument
 * names it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *s)
{
	if (write(1, s, strlen(s)) < 0)
		_exit(99);
}

static void for_ever(void)
{
	for (;;)
		pause();
}

static long number(const char *s)
{
	return s ? strtol(s, NULL, 10) : 0;
}

static int do_exit(const char *a)
{
	return (int)number(a);
}

static int do_signal(const char *a)
{
	struct rlimit none = {0};

	setrlimit(RLIMIT_CORE, &none);
	signal((int)number(a), SIG_DFL); /* a sanitizer's handler would make an exit of it */
	raise((int)number(a));
	return 98;
}

static int do_ready(const char *a)
{
	(void)a;
	say("ready\n");
	for_ever();
	return 0;
}

static int do_stubborn(const char *a)
{
	(void)a;
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	return do_ready(NULL);
}

static void on_term(int signo)
{
	(void)signo;
	say("saved\n");
	_exit(7);
}

static int do_handler(const char *a)
{
	(void)a;
	signal(SIGTERM, on_term);
	signal(SIGUSR1, on_term);
	return do_ready(NULL);
}

/* Handler, then stopped: SIGTERM reaches it only after SIGCONT. */
static int do_stopped(const char *a)
{
	(void)a;
	signal(SIGTERM, on_term);
	say("ready\n");
	raise(SIGSTOP);
	for_ever();
	return 0;
}

static void counted_term(int signo)
{
	(void)signo;
	say("term\n");
}

static int do_count(const char *a)
{
	(void)a;
	signal(SIGTERM, counted_term);
	return do_ready(NULL);
}

/* Starts fn in a child and waits until that has said through the pipe that it stands. */
static void start(void (*fn)(int up))
{
	int p[2];
	char c;
	pid_t pid;

	if (pipe(p) < 0 || (pid = fork()) < 0)
		_exit(97);
	if (pid == 0) {
		close(p[0]);
		fn(p[1]);
		_exit(0);
	}
	close(p[1]);
	if (read(p[0], &c, 1) != 1)
		_exit(96);
	close(p[0]);
}

static void up_and_stay(int up)
{
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (write(up, "", 1) != 1)
		_exit(95);
	close(up);
	for_ever();
}

static void other_session(int up)
{
	setsid();
	up_and_stay(up);
}

static void other_group(int up)
{
	setpgid(0, 0);
	up_and_stay(up);
}

/* The classic daemon: fork, session, fork, everything closed. */
static void daemon_of_old(int up)
{
	if (fork() > 0)
		_exit(0);
	setsid();
	if (fork() > 0)
		_exit(0);
	for (int fd = 0; fd < 64; fd++)
		if (fd != up)
			close(fd);
	up_and_stay(up);
}

static void with_children(int up)
{
	setsid();
	start(other_session);
	start(other_group);
	up_and_stay(up);
}

static int do_tree(const char *a)
{
	start(other_session);
	start(other_group);
	start(daemon_of_old);
	start(with_children);
	if (a && strcmp(a, "exit") == 0)
		return 5;
	if (a && strcmp(a, "stubborn") == 0)
		return do_stubborn(NULL);
	return do_ready(NULL);
}

/* A chain: each link forks the next and ends, in a session of its own. */
static void chain(int up)
{
	int told = 0;

	for (;;) {
		pid_t pid = fork();

		if (pid > 0)
			_exit(0);
		setsid();
		if (!told && write(up, "", 1) != 1)
			_exit(94);
		told = 1;
		close(up);
		poll(NULL, 0, 2);
	}
}

static int do_chain(const char *a)
{
	(void)a;
	start(chain);
	return do_ready(NULL);
}

/* Ends at once and leaves somebody who holds the pipes and writes once more after a while. */
static int do_late(const char *a)
{
	long ms = number(a);
	pid_t pid;

	say("early\n");
	pid = fork();
	if (pid == 0) {
		setsid();
		poll(NULL, 0, (int)ms);
		say("late\n");
		for_ever();
	}
	return 3;
}

/* A shell that dies of SIGTERM, and below it a program that needs a while to save. */
static void slow_save(int up)
{
	sigset_t set;
	int got;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (write(up, "", 1) != 1)
		_exit(93);
	sigwait(&set, &got);
	poll(NULL, 0, 1200); /* longer than strays get without a ladder */
	say("saved slowly\n");
	_exit(0);
}

static int do_shell(const char *a)
{
	(void)a;
	start(slow_save);
	return do_ready(NULL);
}

static int do_env(const char *a)
{
	extern char **environ;

	(void)a;
	for (char **v = environ; *v; v++) {
		say(*v);
		say("\n");
	}
	return 0;
}

static int do_fds(const char *a)
{
	char line[64];

	(void)a;
	for (int fd = 0; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			snprintf(line, sizeof(line), "fd %d\n", fd);
			say(line);
		}
	return 0;
}

/* What a process inherits besides descriptors and environment. */
static int do_self(const char *a)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");
	struct rlimit r;

	(void)a;
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "Sig", 3) == 0 || strncmp(line, "Cpus_allowed_list", 17) == 0 ||
		    strncmp(line, "Uid", 3) == 0 || strncmp(line, "NoNewPrivs", 10) == 0 ||
		    strncmp(line, "Gid", 3) == 0 || strncmp(line, "Groups", 6) == 0)
			say(line);
	if (f)
		fclose(f);
	f = fopen("/proc/self/oom_score_adj", "re");
	if (f && fgets(line, sizeof(line), f)) {
		say("oom_score_adj: ");
		say(line);
	}
	if (f)
		fclose(f);
	getrlimit(RLIMIT_NOFILE, &r);
	snprintf(line, sizeof(line), "nofile: %llu\npgid_is_pid: %d\nsid_is_pid: %d\numask: %03o\n",
	         (unsigned long long)r.rlim_cur, getpgrp() == getpid(), getsid(0) == getpid(), umask(022));
	say(line);
	getrlimit(RLIMIT_AS, &r);
	snprintf(line, sizeof(line), "as: %lld\n", (long long)r.rlim_cur);
	say(line);
	getrlimit(RLIMIT_CORE, &r);
	snprintf(line, sizeof(line), "core: %lld %lld\n", (long long)r.rlim_cur, (long long)r.rlim_max);
	say(line);
	return 0;
}

static int do_cwd(const char *a)
{
	char path[4096];

	(void)a;
	say(getcwd(path, sizeof(path)) ? path : "?");
	return 0;
}

/* Lines of 100 bytes, numbered. */
static int do_flood(const char *a)
{
	static char block[100 * 640 + 1]; /* and the last terminator */
	long lines = number(a) / 100, done = 0;

	while (done < lines) {
		long n = lines - done < 640 ? lines - done : 640;

		for (long i = 0; i < n; i++)
			snprintf(block + i * 100, 101, "%-98ld|\n", done + i);
		for (long at = 0; at < n * 100;) {
			ssize_t w = write(1, block + at, (size_t)(n * 100 - at));

			if (w < 0 && errno != EINTR)
				return 92;
			at += w > 0 ? w : 0;
		}
		done += n;
	}
	return 0;
}

/* Alternating lines on both streams; each only when the one before is in the log named by VICTIM_LOG, for two
 * pipes have no order of their own. */
static int do_both(const char *a)
{
	const char *log = getenv("VICTIM_LOG");
	long total = 0;
	char line[32];
	struct stat st;

	for (long i = 0; i < number(a); i++) {
		int n = snprintf(line, sizeof(line), "%s %ld\n", i % 2 ? "err" : "out", i);

		if (write(i % 2 ? 2 : 1, line, (size_t)n) != n)
			return 91;
		total += n;
		while (!log || stat(log, &st) < 0 || st.st_size < total)
			poll(NULL, 0, 1);
	}
	return 0;
}

/* Half a line on stdout, a whole one on stderr, then the other half. */
static int do_halves(const char *a)
{
	(void)a;
	for (int i = 0; i < 20; i++) {
		say("first half, ");
		if (write(2, "WARNING\n", 8) != 8)
			return 90;
		say("second half\n");
	}
	/* A prompt without a line's end must not wait for one. */
	say("prompt> ");
	for_ever();
	return 0;
}

static int do_metrics(const char *a)
{
	const char *fd = getenv("HEARTH_METRICS_FD");

	(void)a;
	if (!fd)
		return 89;
	return write((int)number(fd), "{\"step\": 1, \"loss\": 0.5}\n", 25) == 25 ? 0 : 88;
}

static int do_eat(const char *a)
{
	size_t n = (size_t)number(a) << 20;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 87;
	for (size_t i = 0; i < n; i += 4096)
		p[i] = 1;
	say("ate all\n");
	return 0;
}

static int do_cat(const char *a)
{
	char block[4096];
	ssize_t n;

	(void)a;
	while ((n = read(0, block, sizeof(block))) > 0)
		if (write(1, block, (size_t)n) != n)
			return 86;
	return 0;
}

/* ---- a waiting interpreter: it speaks through HEARTH_PARK_FD and runs an act of this program ---------- */

static int park_fd;

static void speak(const char *s)
{
	if (write(park_fd, s, strlen(s)) < 0)
		_exit(85);
}

static void pause_ms(int ms)
{
	poll(NULL, 0, ms);
}

static void hear(void *p, size_t n)
{
	ssize_t got;

	for (size_t at = 0; at < n; at += (size_t)got)
		if ((got = read(park_fd, (char *)p + at, n - at)) <= 0)
			_exit(84);
}

static unsigned hear_number(void)
{
	unsigned char b[4];

	hear(b, 4);
	return (unsigned)b[0] << 24 | (unsigned)b[1] << 16 | (unsigned)b[2] << 8 | b[3];
}

static char **hear_words(void)
{
	unsigned n = hear_number();
	char **words = calloc(n + 1, sizeof(*words));

	for (unsigned i = 0; words && i < n; i++) {
		unsigned len = hear_number();

		words[i] = calloc(1, len + 1);
		if (!words[i])
			_exit(83);
		hear(words[i], len);
	}
	return words;
}

static void say_ready(const char *how)
{
	static char line[6000];

	memset(line, 'x', sizeof(line) - 1);
	if (strcmp(how, "die") == 0) {
		say("Traceback\nImportError: none of that name\n");
		_exit(1);
	}
	if (strcmp(how, "bad") == 0)
		speak("bad no module\tnamed x\n");
	else if (strcmp(how, "long") == 0)
		speak(line);
	else if (strcmp(how, "never") != 0)
		speak(strcmp(how, "mark") == 0    ? "ready 0123abc\n"
		      : strcmp(how, "twice") == 0 ? "ready\nready\n"
		      : strcmp(how, "odd") == 0   ? "hello\n"
		                                  : "ready\n");
	if (strcmp(how, "bad") == 0 || strcmp(how, "long") == 0 || strcmp(how, "never") == 0)
		for_ever();
}

/* Once ready. */
static void misbehave(const char *how)
{
	if (strcmp(how, "late-die") == 0) {
		pause_ms(200);
		_exit(3);
	} else if (strcmp(how, "late-print") == 0) {
		pause_ms(200);
		say("late words\n");
		for_ever();
	} else if (strcmp(how, "late-word") == 0) {
		pause_ms(200);
		speak("x");
		for_ever();
	} else if (strcmp(how, "close") == 0) {
		close(park_fd);
		for_ever();
	} else if (strcmp(how, "late-children") == 0) {
		pause_ms(100);
		start(other_session);
		start(up_and_stay);
	}
}

static int run_act(char **argv);

static int do_park(const char *how)
{
	extern char **environ;
	const char *number = getenv("HEARTH_PARK_FD");
	static char **argv, **env, **cwd; /* until its end, so that no leak checker asks for them */

	if (!number || !how)
		return 82;
	park_fd = (int)strtol(number, NULL, 10);
	if (strcmp(how, "print") == 0)
		say("one\ntwo\n");
	if (strcmp(how, "children") == 0) {
		start(other_session);
		start(up_and_stay);
	} else if (strcmp(how, "daemon") == 0) {
		start(daemon_of_old);
		while (wait(NULL) < 0 && errno == EINTR)
			continue;
	}
	say_ready(how);
	misbehave(how);
	hear_number();
	argv = hear_words();
	env = hear_words();
	cwd = hear_words();
	if (strcmp(how, "no-g") == 0)
		for_ever();
	if (strcmp(how, "die-g") == 0) {
		say("gave up\n");
		return 4;
	}
	if (strcmp(how, "kill-g") == 0)
		raise(SIGKILL);
	if (strcmp(how, "close-g") == 0) {
		close(park_fd);
		for_ever();
	}
	if (chdir(cwd[0]) < 0)
		return 81;
	environ = env;
	if (strcmp(how, "afresh") == 0) {
		speak("c the options differ\n");
		close(park_fd);
		execve(argv[0], argv, env);
		return 80;
	}
	speak(strcmp(how, "wrong-g") == 0 ? "x" : "g");
	close(park_fd);
	if (strcmp(how, "wrong-g") == 0)
		for_ever();
	return run_act(argv);
}

static const struct {
	const char *name;
	int (*fn)(const char *a);
} acts[] = {
    {"exit", do_exit},       {"signal", do_signal},   {"ready", do_ready},     {"stubborn", do_stubborn},
    {"handler", do_handler}, {"stopped", do_stopped}, {"count", do_count},     {"tree", do_tree},
    {"chain", do_chain},     {"late", do_late},       {"shell", do_shell},     {"env", do_env},
    {"fds", do_fds},         {"self", do_self},       {"cwd", do_cwd},         {"flood", do_flood},
    {"both", do_both},       {"halves", do_halves},   {"metrics", do_metrics}, {"eat", do_eat},
    {"cat", do_cat},         {"park", do_park},
};

static int run_act(char **argv)
{
	for (size_t i = 0; argv[0] && argv[1] && i < sizeof(acts) / sizeof(acts[0]); i++)
		if (strcmp(acts[i].name, argv[1]) == 0)
			return acts[i].fn(argv[2]);
	fprintf(stderr, "shim_victim: what?\n");
	return 100;
}

int main(int argc, char **argv)
{
	(void)argc;
	return run_act(argv);
}
