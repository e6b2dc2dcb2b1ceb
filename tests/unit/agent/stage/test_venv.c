/*
 * venv: requirements.txt into an environment, without a network: a wheel made here, found by --find-links.
 * Built once, used again, two jobs at once, pip's complaint as the reason, heartbeats, package list.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/capture.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/stage/stagekit.h"

static struct stagekit k;
static char *wheels;

static void make_wheel(const char *name, const char *version, const char *body)
{
	static const char script[] =
	    "import sys, zipfile\n"
	    "name, version, body, out = sys.argv[1:5]\n"
	    "info = '%s-%s.dist-info/' % (name, version)\n"
	    "z = zipfile.ZipFile('%s/%s-%s-py3-none-any.whl' % (out, name, version), 'w')\n"
	    "z.writestr(name + '.py', body)\n"
	    "z.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n' % (name, "
	    "version))\n"
	    "z.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: "
	    "py3-none-any\\n')\n"
	    "z.writestr(info + 'entry_points.txt', '[console_scripts]\\n%s-run = %s:main\\n' % (name, name))\n"
	    "z.writestr(info + 'RECORD', '')\n"
	    "z.close()\n";
	const char *argv[] = {"/usr/bin/python3", "-c", script, name, version, body, wheels, NULL};
	struct capture c = {.argv = argv, .timeout_ms = 60000, .max = 4096, .with_stderr = 1};
	char *out = NULL;
	struct err e;
	size_t n;

	if (capture_run(&c, &out, &n, &e) < 0)
		tap_bail("%s: %s", e.text, out);
	free(out);
}

static char *bundle_with(const char *requirements)
{
	static unsigned count;
	cleanup_free char *dir = xasprintf("%s/src-%u", top, ++count),
	                  *file = xasprintf("%s/requirements.txt", dir);
	cleanup_free char *script = xasprintf("%s/train.py", dir);

	stagekit_put(script, "print(1)\n");
	if (requirements)
		stagekit_put(file, requirements);
	return stagekit_tree(&k, dir);
}

static void stage(const char *requirements)
{
	cleanup_free char *digest = bundle_with(requirements);

	stagekit_run(
	    &k,
	    "\"source_dir\":\".\",\"requirements\":\"requirements.txt\",\"environment\":{\"PIP_NO_COLOR\":\"1\"}",
	    digest, NULL, NULL);
}

/* What a program of the environment prints. */
static char *run_in(const char *program, const char *arg1, const char *arg2)
{
	cleanup_free char *path = xasprintf("%s/%s", k.venv_bin ? k.venv_bin : "/nonexistent", program);
	const char *argv[] = {path, arg1, arg2, NULL};
	struct capture c = {.argv = argv,
	                    .timeout_ms = 60000,
	                    .max = 65536,
	                    .with_stderr = 1,
	                    .user = k.env.is_root ? &k.user : NULL};
	char *out = NULL;
	size_t n;

	if (capture_run(&c, &out, &n, NULL) < 0 && !out)
		out = xstrdup("");
	return out;
}

static char *tiny(const char *more)
{
	return xasprintf("# ours\n--no-index\n--find-links file://%s\ntinypkg==1.0\n%s", wheels, more);
}

static void test_build(void)
{
	cleanup_free char *req = tiny(""), *out = NULL, *first = NULL, *link = NULL;
	char target[4096];
	ssize_t n;

	stage(req);
	is_int(k.rc, 0, k.text ? k.text : "built");
	ok(k.venv_bin != NULL, "a folder of programs");
	like(k.phases, "requirements", "phase");
	like(k.log, "building the environment", "told");
	like(k.log, "Successfully installed tinypkg-1.0", "pip's own words are in the setup stream");
	out = run_in("python", "-c", "import tinypkg; print(tinypkg.VALUE)");
	is_str(out, "one\n", "the package can be imported");
	free(out);
	out = run_in("tinypkg-run", NULL, NULL);
	is_str(out, "main of one\n", "its script runs");
	link = xasprintf("%s/venv", k.paths.work);
	n = readlink(link, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	ok(n > 0 && strncmp(k.venv_bin, target, strlen(target)) == 0, "the job says which one it uses");

	first = xstrdup(k.venv_bin);
	make_wheel("tinypkg", "9.0", "VALUE = 'nine'\n"); /* what is outside does not matter any more */
	stage(req);
	is_str(k.venv_bin, first, "the same requirements, the same environment");
	like(k.log, "is here already", "not built again");
	ok(!strstr(k.log, "pip"), "pip is not run");
}

static void test_nothing(void)
{
	stage("# nothing\n\n--no-index\n");
	is_int(k.rc, 0, "no requirement");
	ok(k.venv_bin == NULL, "no environment");
	like(k.log, "asks for nothing", "told");
	stage(NULL);
	is_int(k.cls, RC_USER_ERROR, "no such file");
	is_str(k.text, "requirements.txt is not in the source tree", "in words");
}

static void test_fails(void)
{
	cleanup_free char *req =
	    xasprintf("--no-index\n--find-links file://%s\nno-such-package-of-ours==3\n", wheels);

	stage(req);
	is_int(k.rc, -1, "a package that there is not");
	is_int(k.cls, RC_USER_ERROR, "the user's error");
	like(k.text,
	     "pip install -r requirements.txt: ERROR: No matching distribution found for "
	     "no-such-package-of-ours==3",
	     "pip's reason");
	like(k.log, "ERROR: Could not find a version", "all of it in the setup stream");
	ok(k.venv_bin == NULL, "no environment");
	stage(req);
	is_int(k.rc, -1, "and the failure is not kept as a success");
}

static void test_local(void)
{
	cleanup_free char *dir = xasprintf("%s/src-local", top), *req = xasprintf("%s/requirements.txt", dir);
	cleanup_free char *more = xasprintf("%s/more.txt", dir), *text = tiny(""), *digest = NULL, *first = NULL;

	stagekit_put(req, "-r more.txt\n");
	stagekit_put(more, text);
	digest = stagekit_tree(&k, dir);
	stagekit_run(&k, "\"source_dir\":\".\",\"requirements\":\"requirements.txt\"", digest, NULL, NULL);
	is_int(k.rc, 0, k.text ? k.text : "requirements in another file of the tree");
	first = xstrdup(k.venv_bin);
	stagekit_put(more, "# nothing now\n");
	free(digest);
	digest = stagekit_tree(&k, dir);
	stagekit_run(&k, "\"source_dir\":\".\",\"requirements\":\"requirements.txt\"", digest, NULL, NULL);
	ok(k.venv_bin && strcmp(first, k.venv_bin) != 0, "another tree, another environment");
}

static char *in_env(const char *name)
{
	cleanup_free char *out =
	    run_in("python", "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])");

	out[strcspn(out, "\n")] = '\0';
	return xasprintf("%s/%s", out, name);
}

/* As an ordinary user's job may, and a root agent's by a second name of a file. */
static void test_changed(void)
{
	cleanup_free char *req = tiny("# changed\n"), *first = NULL, *trap = NULL, *old = NULL, *out = NULL;
	cleanup_free char *cached = NULL, *link = NULL;

	stage(req);
	is_int(k.rc, 0, k.text ? k.text : "built");
	first = xstrdup(k.venv_bin);
	cached = in_env("__pycache__/added.cpython-39.pyc");
	stagekit_put(cached, "");
	stage(req);
	ok(!k.built, "what Python adds to __pycache__ does not count as a change");
	ok(access(cached, F_OK) < 0, "and does not reach the next job: it may hold any code");
	trap = in_env("trap.py");
	stagekit_put(trap, "print('trap')\n");
	link = xasprintf("%s/venv", k.paths.work);
	stage(req);
	ok(k.built, "an environment that a job has changed is made again");
	like(k.log, "a job changed the environment", "the setup stream says so");
	like(k.log, "trap.py", "and names the file");
	out = run_in("python", "-c", "import trap");
	ok(!strstr(out, "trap\n"), "packages that a job installs at run time do not reach the next job: %s", out);
	ok(strcmp(first, k.venv_bin) != 0 && access(trap, F_OK) == 0, "the job that runs keeps the one it has");
	old = in_env("tinypkg.py");
	stagekit_put(old, "VALUE = 'two'\n");
	stage(req);
	ok(k.built, "a changed module is noticed");
	free(out);
	out = run_in("python", "-c", "import tinypkg; print(tinypkg.VALUE)");
	is_str(out, "one\n", "and does not reach the next job");
	stage(req);
	ok(!k.built, "an unchanged one is used");
	unlink(link);
}

/* Two at once: the second waits for the first. */
static void test_two(void)
{
	cleanup_free char *req = tiny("# two\n"), *digest = bundle_with(req);
	struct stagekit other = k;
	struct stage *a;

	other.setup = NULL;
	other.text = other.venv_bin = other.log = other.keys = NULL;
	other.paths = (struct launch_paths){0};
	other.runs = 500;
	a = stagekit_begin(&other, "\"source_dir\":\".\",\"requirements\":\"requirements.txt\"", digest, NULL,
	                   NULL);
	stagekit_begin(&k, "\"source_dir\":\".\",\"requirements\":\"requirements.txt\"", digest, NULL, NULL);
	stagekit_wait(&k);
	stagekit_wait(&other);
	is_int(k.rc + other.rc, 0, "both succeed");
	is_str(k.venv_bin, other.venv_bin, "with one environment");
	ok(!strstr(k.log, "Successfully installed") != !strstr(other.log, "Successfully installed"),
	   "that was built once");
	(void)a;
	nodelog_close(other.setup);
	free(other.text);
	free(other.venv_bin);
	free(other.log);
	free(other.keys);
	free(other.paths.run);
	free(other.paths.work);
	free(other.paths.ml);
	free(other.paths.ml_seen);
}

static struct {
	int n;
	char *text;
} list;

static void on_packages(const char *text, const char *why, void *arg)
{
	(void)arg;
	list.n++;
	list.text = text ? xstrdup(text) : NULL;
	if (why)
		tap_diag("%s", why);
}

static struct inside *place_of_packages(void)
{
	cleanup_free char *shim = xasprintf("%s/shim/hearth-shim", getenv("HEARTH_TOP_BUILDDIR"));
	cleanup_free char *dir = xasprintf("%s/packages", k.paths.run),
	                  *logdir = xasprintf("%s/logs/packages", k.paths.work);
	struct shim_launch order = {.token = xstrdup("packages"),
	                            .set_ids = (uint8_t)k.env.is_root,
	                            .uid = k.user.uid,
	                            .gid = k.user.gid};

	return inside_create(shim, dir, logdir, &order);
}

static void test_packages(void)
{
	cleanup_free char *req = tiny(""), *none = xstrdup("/nonexistent/bin");

	stage(req);
	stage_packages(k.link, k.venv_bin, place_of_packages(), on_packages, NULL);
	UNTIL(list.n == 1);
	like(list.text ? list.text : "", "\ntinypkg==1.0\n", "the packages of the environment");
	like(list.text ? list.text : "", "pip==", "and those of the node");
	free(list.text);
	stage_packages(k.link, none, place_of_packages(), on_packages, NULL);
	UNTIL(list.n == 2);
	ok(list.text == NULL, "unknown is not empty");
}

int main(void)
{
	if (access("/usr/bin/python3", X_OK) < 0)
		tap_skip_all("no /usr/bin/python3");
	if (system("/usr/bin/python3 -c 'import pip, venv' 2>/dev/null") != 0)
		tap_skip_all("no pip for /usr/bin/python3");
	stagekit_start(&k);
	wheels = xasprintf("%s/wheels", top);
	if (fs_mkdir_p(wheels, 0755, NULL) < 0)
		tap_bail("%s", wheels);
	make_wheel("tinypkg", "1.0", "VALUE = 'one'\ndef main():\n    print('main of', VALUE)\n");
	test_build();
	test_nothing();
	test_fails();
	test_local();
	test_changed();
	test_two();
	test_packages();
	stagekit_stop(&k);
	free(wheels);
	return tap_done();
}
