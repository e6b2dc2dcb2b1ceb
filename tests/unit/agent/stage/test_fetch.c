/*
 * fetch, http inputs: a real server with odd habits: resume, retries, redirects, checksums, bounds, caching,
 * cancel.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/stage/fetch.h"
#include "common/base/hash.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/stage/stagekit.h"

#define SIZE (256 * 4096)

static struct stagekit k;
static pid_t server;
static int server_in = -1;
static unsigned port;
static char sha256[HASH_HEX_SIZE];
static char said[4096];
static int steps, stop_after;

/* ---- the server
 * ------------------------------------------------------------------------------------------------ */

static int server_up(const char *tar)
{
	cleanup_free char *script =
	    xasprintf("%s/tests/unit/agent/stage/odd_http.py", getenv("HEARTH_TOP_SRCDIR") ?: ".");
	const char *argv[] = {"python3", script, tar, NULL};
	struct proc_spawn s = {
	    .path = "/usr/bin/python3", .argv = (char *const *)(uintptr_t)argv, .stderr_fd = 2};
	int in[2], out[2];
	char line[32] = "";
	struct err e;

	if (access("/usr/bin/python3", X_OK) < 0 || access(script, R_OK) < 0 || pipe2(in, O_CLOEXEC) < 0 ||
	    pipe2(out, O_CLOEXEC) < 0)
		return -1;
	s.stdin_fd = in[0];
	s.stdout_fd = out[1];
	if (proc_spawn(&s, &server, NULL, &e) < 0)
		tap_bail("%s", e.text);
	close(in[0]);
	close(out[1]);
	server_in = in[1];
	if (read(out[0], line, sizeof(line) - 1) <= 0 || sscanf(line, "%u", &port) != 1)
		tap_bail("no server");
	close(out[0]);
	return 0;
}

static char *asked(void)
{
	cleanup_free char *part = xasprintf("%s/asked", top), *url = xasprintf("http://127.0.0.1:%u/log", port);
	struct fetch f = {.url = url, .part = part};
	char *text;
	size_t n;

	if (fetch_run(&f, NULL) < 0 || fs_read_file(part, 1 << 20, &text, &n, NULL) < 0)
		tap_bail("no log");
	unlink(part);
	return text;
}

/* How often a line of the log begins with this. */
static int times(const char *line)
{
	cleanup_free char *log = asked();
	int n = 0;

	for (const char *p = log; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		n += strncmp(p, line, strlen(line)) == 0;
	return n;
}

/* ---- fetch itself
 * -------------------------------------------------------------------------------------------- */

static void say(const char *line, void *arg)
{
	size_t n = strlen(said);

	(void)arg;
	snprintf(said + n, sizeof(said) - n, "%s\n", line);
}
static int step(uint64_t done, uint64_t total, void *arg)
{
	(void)done;
	(void)total;
	(void)arg;
	return ++steps > stop_after && stop_after ? -1 : 0;
}
static int no_pause(uint32_t ms, void *arg)
{
	(void)ms;
	(void)arg;
	return 0;
}

static int get(const char *path, struct fetch *f, struct err *e)
{
	cleanup_free char *url = xasprintf("http://127.0.0.1:%u%s", port, path);
	cleanup_free char *part = xasprintf("%s/part", top);
	int rc;

	said[0] = '\0';
	steps = 0;
	e->text[0] = '\0';
	f->url = url;
	f->part = part;
	f->say = say;
	f->step = step;
	f->pause = no_pause;
	f->backoff_ms = 1;
	rc = fetch_run(f, e);
	f->url = f->part = NULL;
	return rc;
}

static void fresh(void)
{
	cleanup_free char *part = xasprintf("%s/part", top), *meta = xasprintf("%s/part.meta", top);

	unlink(part);
	unlink(meta);
}

static void good(const char *path, const char *what)
{
	cleanup_free char *part = xasprintf("%s/part", top);
	struct fetch f = {.sha256 = sha256};
	char real[HASH_HEX_SIZE] = "";
	struct err e;

	is_int(get(path, &f, &e), 0, e.text[0] ? e.text : what);
	hash_file_hex(part, real, NULL);
	is_str(real, sha256, what);
}

static void bad(const char *path, enum err_code code, const char *words)
{
	struct fetch f = {.tries = 3};
	struct err e;

	fresh();
	is_int(get(path, &f, &e), -1, path);
	is_int(e.code, code, "  code");
	like(e.text, words, "  words");
}

static void test_good(void)
{
	fresh();
	good("/file", "whole");
	ok(steps > 0, "progress");
	fresh();
	good("/plain", "without validator");
	fresh();
	good("/nolength", "without length");
	fresh();
	good("/redirect", "over a redirect");
	fresh();
	good("/cut/300000", "cut again and again: gone on with");
	like(said, "try 2 of 6", "the retry is told");
	is_int(times("/cut/300000 bytes=300000-"), 1, "by range, from where it was");
	is_int(times("/cut/300000 bytes=900000-"), 1, "to the end");
	fresh();
	good("/busy/2", "after two refusals");
	like(said, "503", "that were told");
}

static void test_bad(void)
{
	struct fetch small = {.limit = 1000}, wrong = {0}, stopped = {0};
	struct err e;

	bad("/nothing", ERR_NOT_FOUND, "/nothing: the server answers 404");
	bad("/secret", ERR_DENIED, "403");
	bad("/loop", ERR_INVALID, "redirect");
	bad("/ftp", ERR_INVALID, "ftp");
	bad("/busy/9", ERR_UNAVAILABLE, "503");
	is_int(times("/busy/9"), 3, "as many tries as allowed");
	bad("/cut/0", ERR_UNAVAILABLE, "/cut/0: ");
	fresh();
	is_int(get("/file", &small, &e), -1, "larger than allowed");
	is_int(e.code, ERR_LIMIT, "  code");
	fresh();
	is_int(get("/nolength", &small, &e), -1, "larger than allowed, without length");
	is_int(e.code, ERR_LIMIT, "  code");
	wrong.sha256 = "0000000000000000000000000000000000000000000000000000000000000000";
	fresh();
	is_int(get("/file", &wrong, &e), -1, "wrong checksum");
	is_int(e.code, ERR_INVALID, "  code");
	like(e.text, "expected 0000", "  words");
	fresh();
	stop_after = 3;
	is_int(get("/slow", &stopped, &e), -1, "stopped");
	stop_after = 0;
	like(e.text, "cancelled", "  words");
	port++;
	bad("/file", ERR_UNAVAILABLE, "connect");
	port--;
	bad("/../..", ERR_NOT_FOUND, "404");
}

static void test_names(void)
{
	static const char *const names[][2] = {
	    {"http://h/a/b.tar?x=/y", "b.tar"}, {"http://h", "download"},        {"http://h/", "download"},
	    {"http://h/..", "download"},        {"http://h/a#b/c", "a"},         {"http://h:1/x%20y", "x%20y"},
	    {"http://h?/q", "download"},        {"http://h/.hidden", "download"}};
	static const char *const shown[][2] = {{"http://u:secret@h/x", "http://u:***@h/x"},
	                                       {"https://h:80/x@y", "https://h:80/x@y"},
	                                       {"http://u@h/", "http://u@h/"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		cleanup_free char *got = fetch_name(names[i][0]);

		is_str(got, names[i][1], names[i][0]);
	}
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		cleanup_free char *got = fetch_shown(shown[i][0]);

		is_str(got, shown[i][1], shown[i][0]);
	}
}

/* ---- as inputs
 * ------------------------------------------------------------------------------------------------- */

static void input(const char *path, const char *more)
{
	cleanup_free char *keys =
	    xasprintf("\"inputs\":{\"x\":{\"uri\":\"http://127.0.0.1:%u%s\"%s}}", port, path, more);

	stagekit_run(&k, keys, NULL, NULL, NULL);
}

static void is_input(const char *path, const char *want)
{
	cleanup_free char *got = stagekit_read(&k, path);

	is_str(got, want, path);
	is_int(stagekit_owner(&k, path), k.user.uid, "  belongs to the job");
}

static void test_inputs(void)
{
	cleanup_free char *check = xasprintf(",\"sha256\":\"%s\"", sha256),
	                  *url = xasprintf("http://127.0.0.1:%u/changing", port);
	cleanup_free char *line = xasprintf("curl -s -X POST %s", url);
	struct stage *s;
	int before;

	input("/changing?q=1", "");
	is_int(k.rc, 0, k.text ? k.text : "fetched");
	is_input("input/data/x/changing", "version 1\n");
	input("/changing?q=1", "");
	like(k.log, "has not changed", "asked again, not loaded again");
	is_input("input/data/x/changing", "version 1\n");
	if (system(line) == 0) {
		input("/changing?q=1", "");
		is_input("input/data/x/changing", "version 2\n");
	} else {
		tap_skip("no curl program");
	}
	input("/file", check);
	is_int(k.rc, 0, k.text ? k.text : "with a checksum");
	before = times("/file");
	input("/file", check);
	is_int(k.rc, 0, "again");
	is_int(times("/file"), before, "without asking the network");
	like(k.log, "right checksum", "which is told");
	input("/plain", ",\"sha256\":\"0000000000000000000000000000000000000000000000000000000000000000\"");
	is_int(k.cls, RC_USER_ERROR, "a wrong checksum is the user's error");
	input("/nothing", "");
	is_int(k.cls, RC_USER_ERROR, "so is a wrong address");
	like(k.text, "input x: http://127.0.0.1:", "named");
	input("/pack.tar.gz", ",\"unpack\":true");
	is_int(k.rc, 0, k.text ? k.text : "unpacked");
	is_input("input/data/x/inner.txt", "packed\n");
	stagekit_run(&k, "\"inputs\":{\"x\":{\"uri\":\"http://127.0.0.1:1/x\"}}", NULL, NULL, NULL);
	is_int(k.cls, RC_STAGING, "nobody there is not the user's error");
	like(k.log, "try 2 of", "tries are told");
	line[0] = '\0';
	char *keys = xasprintf(
	    "\"resources\":{\"disk\":\"100KiB\"},\"inputs\":{\"x\":{\"uri\":\"http://127.0.0.1:%u/nolength\"}}",
	    port);
	stagekit_run(&k, keys, NULL, NULL, NULL);
	is_int(k.cls, RC_USER_ERROR, "the disk limit");
	free(keys);
	keys = xasprintf("\"inputs\":{\"x\":{\"uri\":\"http://127.0.0.1:%u/slow\"}}", port);
	s = stagekit_begin(&k, keys, NULL, NULL, NULL);
	UNTIL(k.n_progress > 1);
	stage_cancel(s);
	free(keys);
	is_int(k.done, 0, "a slow one is cancelled at once");
}

int main(void)
{
	cleanup_free char *tar = NULL, *line = NULL;
	uint8_t *data;

	stagekit_start(&k);
	fetch_global_init();
	tar = xasprintf("%s/pack.tar.gz", top);
	line = xasprintf("cd %s && echo packed >inner.txt && tar czf pack.tar.gz inner.txt", top);
	if (system(line) != 0 || server_up(tar) < 0)
		tap_skip_all("no /usr/bin/python3 for the server");
	data = xmalloc(SIZE);
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)i;
	hash_hex(data, SIZE, sha256);
	free(data);
	test_good();
	test_bad();
	test_names();
	test_inputs();
	stagekit_stop(&k);
	close(server_in);
	waitpid(server, NULL, 0);
	return tap_done();
}
