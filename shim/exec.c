/*
 * exec: see exec.h.
 */
#include "shim/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/fsutil.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

static int report = -1;
static const char *prefix = "";

void exec_report_to(int fd, const char *before)
{
	report = fd;
	prefix = before;
}

void exec_fail(const char *fmt, ...)
{
	char text[EXEC_TEXT_MAX];
	va_list ap;
	int n;

	n = snprintf(text, sizeof(text), "%s", prefix);
	va_start(ap, fmt);
	n += vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	if (n >= (int)sizeof(text)) {
		memcpy(text + sizeof(text) - 4, "...", 4);
		n = (int)sizeof(text) - 1;
	}
	if (n > 0)
		(void)!write(report, text, (size_t)n);
	_exit(127);
}

/* ---- exec ---------------------------------------------------------------------------------------- */

static void fail_interpreter(const char *path) __attribute__((noreturn));
static void fail_exec(const char *path, int why) __attribute__((noreturn));

/* exec says ENOENT for a file that is there when its interpreter is not. */
static void fail_interpreter(const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	char line[256];
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	char *name;

	if (n > 2 && line[0] == '#' && line[1] == '!') {
		line[n] = '\0';
		name = line + 2 + strspn(line + 2, " \t");
		name[strcspn(name, " \t\r\n")] = '\0';
		if (memchr(line, '\r', (size_t)n))
			exec_fail(
			    "%s: bad interpreter: '%s' not found (the first line ends in a carriage return, as files "
			    "written on "
			    "Windows do)",
			    path, name);
		exec_fail("%s: bad interpreter: '%s' not found", path, name);
	}
	exec_fail("%s: bad interpreter: the program needs a loader that is not here", path);
}

static void fail_exec(const char *path, int why)
{
	struct stat st;
	int there = stat(path, &st) == 0;

	if (why == ENOENT && there)
		fail_interpreter(path);
	if (why == ENOENT)
		exec_fail("command not found: %s", path);
	if (why == EACCES && there && S_ISDIR(st.st_mode))
		exec_fail("permission denied: %s is a directory", path);
	if (why == EACCES && there && !(st.st_mode & 0111))
		exec_fail(
		    "permission denied: %s is not executable (chmod +x, or name its interpreter in the command)",
		    path);
	if (why == EACCES)
		exec_fail("permission denied: %s", path);
	if (why == ENOEXEC)
		exec_fail("exec format error: %s is neither a program for this machine nor a script with a #! line",
		          path);
	if (why == E2BIG)
		exec_fail("argument list too long: arguments and environment of %s", path);
	exec_fail("cannot execute %s: %s", path, strerror(why));
}

/* Each folder of PATH in turn; an empty one is the working directory. Goes on after EACCES, as shells do, but
 * then that is the answer. */
static void search_path(const struct strv *argv, const struct strv *env, char *const *envp)
{
	const char *path = strv_getenv(env, "PATH"), *name = argv->v[0], *denied = NULL;
	const char *at;
	char *full = NULL;
	size_t len;

	if (!path)
		path = DEFAULT_PATH;
	for (at = path;; at += len + 1) {
		len = strcspn(at, ":");
		full = len ? xasprintf("%.*s/%s", (int)len, at, name) : xasprintf("./%s", name);
		execve(full, argv->v, envp);
		if (errno == EACCES)
			denied = full;
		else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != ENAMETOOLONG)
			fail_exec(full, errno);
		else if (access(full, F_OK) == 0)
			fail_exec(full, ENOENT); /* it is its interpreter that is missing */
		if (!at[len])
			break;
	}
	if (denied)
		fail_exec(denied, EACCES);
	exec_fail("command not found: %s (searched PATH=%s)", name, path);
}

void exec_enter(const char *cwd)
{
	if (!cwd || !cwd[0])
		cwd = "/";
	if (chdir(cwd) == 0)
		return;
	if (errno == ENOENT)
		exec_fail("no such directory: %s", cwd);
	if (errno == ENOTDIR)
		exec_fail("not a directory: %s", cwd);
	if (errno == EACCES)
		exec_fail("permission denied: cannot enter directory %s", cwd);
	exec_fail("cannot enter directory %s: %s", cwd, strerror(errno));
}

void exec_program(const struct strv *argv, const struct strv *env, void (*ready)(int fd))
{
	static char *const no_env[] = {NULL};
	char *const *envp = env->v ? env->v : no_env;

	if (!argv->n)
		exec_fail("no command was given");
	if (ready)
		ready(report);
	if (!strchr(argv->v[0], '/'))
		search_path(argv, env, envp);
	execve(argv->v[0], argv->v, envp);
	fail_exec(argv->v[0], errno);
}
