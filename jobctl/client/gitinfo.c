/*
 * gitinfo: see gitinfo.h. git runs as a child with a deadline: on a slow file system the submit does not
 * wait, and the record goes without it. Options of a repository that make git execute programs are switched
 * off.
 */
#include "jobctl/client/gitinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/proc.h"
#include "jobctl/client/ignore.h"

#define DIFF_MAX      (256 * 1024)
#define DIFF_JSON_MAX (320 * 1024) /* hearthd bounds what accompanies a specification */
#define NAMES_MAX     (16 * 1024)
#define GIT_S         5

struct output {
	char *text; /* ends with 0 */
	size_t n;
	int cut;
};

/* Reads until the end, max bytes or the deadline. 0 at the end or when cut. */
static int read_output(int fd, size_t max, uint64_t deadline_us, struct output *o)
{
	o->text = xmalloc(max + 1);
	for (;;) {
		uint64_t now = clock_boot_us(clock_real());
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t k = 0;
		if (o->n == max) {
			o->cut = 1;
			break;
		}
		if (now >= deadline_us || (poll(&p, 1, (int)((deadline_us - now) / 1000) + 1) < 0 && errno != EINTR))
			return -1;
		if (p.revents)
			k = read(fd, o->text + o->n, max - o->n);
		if (p.revents && k == 0)
			break;
		if (k < 0 && errno != EINTR && errno != EAGAIN)
			return -1;
		o->n += k > 0 ? (size_t)k : 0;
	}
	o->text[o->n] = 0;
	return 0;
}

/* Ends the child if it still runs; returns its status. */
static int reap_child(pid_t pid, int pidfd, int kill_it)
{
	int status = -1;
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	if (kill_it || poll(&p, 1, 1000) <= 0)
		proc_signal(pidfd, SIGKILL, NULL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

/* Returns the output of git -C dir ARGS, and its length in n unless NULL; NULL if git fails or needs too
 * long. */
static char *run_git(const char *dir, const char *const *args, size_t max, size_t *n, int *cut)
{
	static const char *const paths[] = {"/usr/bin/git", "/usr/local/bin/git", "/bin/git", NULL};
	const char *const *path = paths;
	while (*path && access(*path, X_OK))
		path++;
	if (!*path)
		return NULL;
	struct strv argv = {0}, env = {0};
	static const char *const head[] = {"git", "--no-pager", "-c", "core.fsmonitor=false", "-C", NULL};
	for (const char *const *h = head; *h; h++)
		strv_add(&argv, *h);
	strv_add(&argv, dir);
	for (; *args; args++)
		strv_add(&argv, *args);
	for (char **v = environ; *v; v++)
		strv_add(&env, *v);
	strv_setenv(&env, "GIT_OPTIONAL_LOCKS", "0");
	strv_setenv(&env, "GIT_TERMINAL_PROMPT", "0");
	int fds[2] = {-1, -1}, pidfd = -1, rc = pipe2(fds, O_CLOEXEC);
	pid_t pid = -1;
	if (!rc) {
		struct proc_spawn s = {.path = *path,
		                       .argv = argv.v,
		                       .envp = env.v,
		                       .stdin_fd = -1,
		                       .stdout_fd = fds[1],
		                       .stderr_fd = -1};
		rc = proc_spawn(&s, &pid, &pidfd, NULL);
		close(fds[1]);
	}
	struct output o = {0};
	if (!rc) {
		rc = read_output(fds[0], max, clock_boot_us(clock_real()) + GIT_S * 1000000ull, &o);
		int status = reap_child(pid, pidfd, rc || o.cut);
		if (!rc && !o.cut && status != 0)
			rc = -1;
		close(pidfd);
	}
	if (fds[0] >= 0)
		close(fds[0]);
	strv_fini(&argv);
	strv_fini(&env);
	if (cut)
		*cut = o.cut;
	if (n)
		*n = o.n;
	if (rc) {
		free(o.text);
		return NULL;
	}
	return o.text;
}

static int add_line(cJSON *run, const char *key, const char *dir, const char *const *args)
{
	char *text = run_git(dir, args, 1024, NULL, NULL);
	if (!text)
		return -1;
	text[strcspn(text, "\r\n")] = 0;
	int ok = *text && str_valid_utf8(text, strlen(text));
	if (ok)
		cJSON_AddStringToObject(run, key, text);
	free(text);
	return ok ? 0 : -1;
}

static void add_diff(cJSON *run, char *diff, int cut)
{
	/* The cut is at the end of a line, so that no character is torn. */
	char *end = cut ? strrchr(diff, '\n') : NULL;
	if (end)
		end[1] = 0;
	if (!str_valid_utf8(diff, strlen(diff))) {
		cJSON_AddTrueToObject(run, "diff_cut"); /* JSON cannot hold a diff of another encoding */
		return;
	}
	cJSON *v = cJSON_CreateString(diff);
	char *text = json_text(v);
	int fits = strlen(text) <= DIFF_JSON_MAX;
	free(text);
	if (fits)
		cJSON_AddItemToObject(run, "diff", v);
	else
		cJSON_Delete(v);
	if (cut || !fits)
		cJSON_AddTrueToObject(run, "diff_cut");
}

/* Returns whether the file, or a folder above it, is not sent. */
static int is_left_out(const struct ignore *ig, const char *rel)
{
	char *part = xstrdup(rel);
	int skip = 0;
	for (char *p = part; !skip && (p = strchr(p, '/')); p++) {
		*p = 0;
		skip = ignore_skip(part, 1, (void *)ig);
		*p = '/';
	}
	if (!skip && *part && part[strlen(part) - 1] != '/')
		skip = ignore_skip(part, 0, (void *)ig);
	free(part);
	return skip;
}

/* Returns lines "untracked: NAME" for files that are sent although git does not know them; NULL: unknown.
 * Malloc'ed. */
static char *list_untracked(const char *dir, int *cut)
{
	static const char *const others[] = {"ls-files", "--others", "--exclude-standard", "-z", "--", ".", NULL};
	struct ignore ig = {{0}};
	size_t n = 0, k = 0;
	char *names = run_git(dir, others, NAMES_MAX, &n, cut), *out = NULL;
	if (names && !ignore_read(&ig, dir, NULL)) {
		out =
		    xmalloc(n * 13 + 1); /* each name has at least one byte and its end, and gets a line of its own */
		for (char *name = names; memchr(name, 0, n - (size_t)(name - names)); name += strlen(name) + 1) {
			if (is_left_out(&ig, name))
				continue;
			for (char *p = name; *p; p++)
				*p = (unsigned char)*p < ' ' ? '?' : *p;
			char *end = stpcpy(stpcpy(stpcpy(out + k, "untracked: "), name), "\n");
			k = (size_t)(end - out);
		}
		out[k] = 0;
	}
	ignore_fini(&ig);
	free(names);
	return out;
}

void gitinfo_add(const char *dir, cJSON *run)
{
	static const char *const head[] = {"rev-parse", "--verify", "HEAD", NULL};
	static const char *const branch[] = {"rev-parse", "--abbrev-ref", "HEAD", NULL};
	static const char *const diff[] = {
	    "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--relative", "HEAD", "--", ".", NULL};
	int cut = 0, names_cut = 0;
	if (add_line(run, "git_commit", dir, head))
		return;
	add_line(run, "git_branch", dir, branch);
	char *changes = run_git(dir, diff, DIFF_MAX, NULL, &cut), *names = list_untracked(dir, &names_cut);
	int dirty = (changes && *changes) || (names && *names);
	/* If git was too slow for one of them, the tree is not called clean. */
	if (dirty || (changes && names && !names_cut))
		cJSON_AddBoolToObject(run, "git_dirty", dirty);
	if (dirty) {
		/* The names come first: git apply ignores them, and a long diff does not cut them off. */
		char *all = xasprintf("%s%s", names ? names : "", changes ? changes : "");
		add_diff(run, all, cut || names_cut || !names || !changes);
		free(all);
	}
	free(names);
	free(changes);
}
