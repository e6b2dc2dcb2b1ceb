/*
 * jobctl_run: see jobctl_run.h.
 */
#include "tests/unit/jobctl/jobctl_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

void jr_init(void)
{
	setenv("HOME", tap_tmpdir(), 1);
	setenv("TZ", "UTC", 1);
	signal(SIGINT, SIG_DFL); /* ignored where a shell runs this in the background */
	setenv("HEARTH_PATIENCE", "0", 1);
	static const char *const unset[] = {"HEARTH_TOKEN",  "HEARTH_CA",      "XDG_CONFIG_HOME",
	                                    "XDG_DATA_HOME", "XDG_STATE_HOME", "NO_COLOR"};
	for (size_t i = 0; i < 5; i++)
		unsetenv(unset[i]);
	if (!getenv("HEARTH_TOP_BUILDDIR"))
		tap_bail("HEARTH_TOP_BUILDDIR is not set");
}

char *jr_path(const char *name)
{
	return xasprintf("%s/%s", tap_tmpdir(), name);
}

void jr_put_file(const char *name, const char *text)
{
	char *path = jr_path(name);
	FILE *f = fopen(path, "w");
	fputs(text, f);
	fclose(f);
	free(path);
}

char *jr_read_text(const char *name)
{
	char *path = jr_path(name), *text = NULL;
	size_t n;
	fs_read_file(path, 1 << 20, &text, &n, NULL);
	free(path);
	return text ? text : xstrdup("");
}

/* Starts it with the words of a line (no quotes); $T in a word is the private folder. out_fd -1: into a file.
 */
pid_t jr_start(const char *url, const char *line, int out_fd)
{
	char *program = xasprintf("%s/jobctl/jobctl", getenv("HEARTH_TOP_BUILDDIR")), *copy = xstrdup(line),
	     *save = NULL;
	char *out = jr_path("stdout"), *err = jr_path("stderr");
	struct strv argv = {0};
	strv_add(&argv, "jobctl");
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		if (!strncmp(w, "$T", 2))
			strv_addf(&argv, "%s%s", tap_tmpdir(), w + 2);
		else
			strv_add(&argv, w);
	}
	pid_t pid = fork();
	if (pid == 0) {
		int o = out_fd >= 0 ? out_fd : open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		dup2(open("/dev/null", O_RDONLY), 0);
		dup2(o, 1);
		dup2(open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
		if (url)
			setenv("HEARTH_URL", url, 1);
		else
			unsetenv("HEARTH_URL");
		alarm(120); /* one that hangs fails its test */
		execv(program, argv.v);
		_exit(99);
	}
	strv_fini(&argv);
	free(program);
	free(copy);
	free(out);
	free(err);
	return pid;
}

void jr_finish(struct run *r, pid_t pid)
{
	int status = -1;
	/* A jobctl that hangs is ended by the test driver's own limit; waiting needs none here. */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	r->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	r->out = jr_read_text("stdout");
	r->err = jr_read_text("stderr");
}

void run_fini(struct run *r)
{
	free(r->out);
	free(r->err);
}

/* Runs it; compares exit status and, unless NULL, output and a part of the errors. */
void jr_expect(struct js *s, const char *line, int code, const char *out, const char *err)
{
	struct run r;
	jr_finish(&r, jr_start(s ? js_url(s) : NULL, line, -1));
	int right = r.code == code && (!out || !strcmp(r.out, out)) && (!err || strstr(r.err, err));
	ok(right, "jobctl %s", line);
	if (!right)
		tap_diag("exit %d (want %d)\nout: %s\nwant: %s\nerr: %s\nwant: %s", r.code, code, r.out,
		         out ? out : "-", r.err, err ? err : "-");
	run_fini(&r);
}

/* Runs it; its output holds each of these lines. */
void jr_expect_lines(struct js *s, const char *line, const char *const *lines)
{
	struct run r;
	jr_finish(&r, jr_start(js_url(s), line, -1));
	is_int(r.code, 0, line);
	for (; *lines; lines++)
		like(r.out, *lines, *lines);
	run_fini(&r);
}

const struct js_seen *js_last_of(struct js *s, const char *method)
{
	for (unsigned i = js_count(s); i-- > 0;) {
		if (!strcmp(js_seen(s, i)->method, method))
			return js_seen(s, i);
	}
	tap_bail("there was no %s", method);
}

int js_count_of(struct js *s, const char *method, const char *uri)
{
	int n = 0;
	for (unsigned i = 0; i < js_count(s); i++)
		n += !strcmp(js_seen(s, i)->method, method) && strstr(js_seen(s, i)->uri, uri);
	return n;
}
