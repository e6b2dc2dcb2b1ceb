/*
 * stagekit: see stagekit.h.
 */
#include "tests/unit/agent/stage/stagekit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/fsutil.h"
#include "common/tree/tree.h"
#include "tests/lib/tap.h"

#define TEXT(s) ((char *)(uintptr_t)(s))

void stagekit_put(const char *path, const char *text)
{
	cleanup_free char *dir = xstrdup(path);
	struct err e;

	*strrchr(dir, '/') = '\0';
	if (fs_mkdir_p(dir, 0755, &e) < 0 || fs_replace(path, text, strlen(text), 0644, &e) < 0)
		tap_bail("%s", e.text);
}

void stagekit_start(struct stagekit *k)
{
	memset(k, 0, sizeof(*k));
	k->resume_step = -1;
	signal(SIGPIPE, SIG_IGN);
	ends_start();
	chmod(top, 0711); /* the job's account walks through, as in a real DATA */
	data_link_ctl_start(&k->ctl);
	data_link_ctl_env(&k->ctl, &k->env, "agent");
	k->env.is_root = geteuid() == 0;
	k->env.cfg.libexec_dir =
	    xasprintf("%s/agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : ".");
	k->user = (struct launch_user){
	    .uid = geteuid(), .gid = getegid(), .name = TEXT("me"), .home = TEXT(top), .shell = TEXT("/bin/sh")};
	if (k->env.is_root) {
		k->user.uid = k->user.gid = 65534;
		k->user.name = TEXT("nobody");
	}
	k->link = data_link_create(&k->env, tls_ca_pem(ca), cert_path, key_path);
}

static void forget(struct stagekit *k)
{
	nodelog_close(k->setup);
	k->setup = NULL;
	free(k->text);
	free(k->venv_bin);
	free(k->log);
	free(k->keys);
	k->text = k->venv_bin = k->log = k->keys = NULL;
	k->built = 0;
	k->done = k->rc = 0;
	k->n_progress = 0;
	k->phases[0] = '\0';
}

void stagekit_stop(struct stagekit *k)
{
	data_link_destroy(k->link);
	forget(k);
	free(k->paths.run);
	free(k->paths.work);
	free(k->paths.ml);
	free(k->paths.ml_seen);
	data_link_ctl_stop(&k->ctl);
	free(k->env.cfg.libexec_dir);
	data_link_ctl_env_fini(&k->env);
	ends_stop();
}

void stagekit_job(struct stagekit *k)
{
	static const char *const dirs[] = {
	    "ml",       "ml/code",   "ml/input",       "ml/input/config", "ml/input/data",
	    "ml/model", "ml/output", "ml/output/data", "ml/checkpoints",  "tmp"};
	struct err e;

	forget(k);
	k->runs++;
	free(k->paths.run);
	free(k->paths.work);
	free(k->paths.ml);
	free(k->paths.ml_seen);
	k->paths.run = xasprintf("%s/%u.1", k->env.cfg.run_dir, k->runs);
	k->paths.work = xasprintf("%s/jobs/%u.1", k->env.cfg.data_dir, k->runs);
	k->paths.ml = xasprintf("%s/ml", k->paths.work);
	k->paths.ml_seen = xstrdup(k->paths.ml);
	if (fs_mkdir_p(k->paths.run, 0755, &e) < 0 || fs_mkdir_p(k->paths.work, 0755, &e) < 0)
		tap_bail("%s", e.text);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		cleanup_free char *path = xasprintf("%s/%s", k->paths.work, dirs[i]);

		if (mkdir(path, 0755) < 0 || chown(path, k->user.uid, k->user.gid) < 0)
			tap_bail("%s: %s", path, strerror(errno));
	}
}

/* As launch_dirs.c makes it: the agent's, and closed, until it is handed over. */
static void close_ml(struct stagekit *k)
{
	static const char *const dirs[] = {"", "/input", "/input/config", "/input/data"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		cleanup_free char *path = xasprintf("%s%s", k->paths.ml, dirs[i]);

		if (chown(path, geteuid(), getegid()) < 0 || chmod(path, i ? 0755 : 0700) < 0)
			tap_bail("%s: %s", path, strerror(errno));
	}
}

static void on_progress(const char *phase, uint64_t done, uint64_t total, void *arg)
{
	struct stagekit *k = arg;
	size_t n;

	(void)done;
	(void)total;
	k->n_progress++;
	n = strlen(k->phases);
	if (!strstr(k->phases, phase))
		snprintf(k->phases + n, sizeof(k->phases) - n, "%s ", phase);
}

static struct job_spec *parse_keys(const char *keys)
{
	cleanup_free char *text =
	    xasprintf("{\"name\":\"t\",\"command\":[\"true\"]%s%s}", *keys ? "," : "", keys);
	struct job_spec *spec;
	struct err e;

	spec = spec_parse(text, strlen(text), &e);
	if (!spec)
		tap_bail("%s", e.text);
	return spec;
}

static void on_done(const struct stage_result *r, void *arg);
static const struct stage_ops ops = {on_progress, on_done};

/* As a launch does it when it has its container; here nothing but a shim is around the program. */
static void begin_build(struct stagekit *k, const char *build_key)
{
	cleanup_free char *shim = xasprintf("%s/shim/hearth-shim", getenv("HEARTH_TOP_BUILDDIR"));
	cleanup_free char *dir = xasprintf("%s/build", k->paths.run),
	                  *logdir = xasprintf("%s/logs/build", k->paths.work),
	                  *tmp = xasprintf("%s/tmp", k->paths.work);
	struct shim_launch order = {.token = xasprintf("stagekit-%u", k->runs),
	                            .set_ids = (uint8_t)k->env.is_root,
	                            .uid = k->user.uid,
	                            .gid = k->user.gid};
	struct job_spec *spec = parse_keys(k->keys);
	struct stage_params p = {.job = k->runs,
	                         .epoch = 1,
	                         .attempt = 1,
	                         .spec = spec,
	                         .user = &k->user,
	                         .paths = &k->paths,
	                         .setup = k->setup};

	k->built = 1;
	if (!stage_build(&k->env, k->link, &p, build_key, tmp, inside_create(shim, dir, logdir, &order), &ops, k))
		tap_bail("the build does not start");
	spec_destroy(spec);
}

static void on_done(const struct stage_result *r, void *arg)
{
	struct stagekit *k = arg;

	if (r->rc == 0 && r->build_key) {
		begin_build(k, r->build_key);
		return;
	}
	k->done++;
	k->rc = r->rc;
	k->cls = r->cls;
	k->text = xstrdup(r->text);
	k->venv_bin = xstrdup(r->venv_bin);
}

struct stage *stagekit_begin(struct stagekit *k, const char *keys, const char *bundle, const char *resume,
                             const char *const *digests)
{
	cleanup_free char *dir = NULL;
	struct wire_strv list = {0};
	struct stage_params p = {.job = k->runs,
	                         .epoch = 1,
	                         .attempt = 1,
	                         .user = &k->user,
	                         .bundle_digest = bundle,
	                         .resume_from = resume,
	                         .resume_step = k->resume_step,
	                         .input_digests = &list};
	struct job_spec *spec;
	struct stage *s;
	struct err e;

	stagekit_job(k);
	close_ml(k);
	if (k->before)
		k->before(k);
	dir = xasprintf("%s/logs/setup", k->paths.work);
	k->setup = nodelog_open(dir, k->env.clock, &e);
	if (!k->setup)
		tap_bail("%s", e.text);
	k->keys = xstrdup(keys);
	spec = parse_keys(keys);
	for (size_t i = 0; i < spec->n_inputs; i++)
		wire_strv_add(&list, digests && digests[i] ? digests[i] : "");
	p.spec = spec;
	p.paths = &k->paths;
	p.setup = k->setup;
	s = stage_start(&k->env, k->link, &p, &ops, k);
	if (!s)
		tap_bail("staging does not start");
	/* Staging keeps copies: a cancel may come at any time. */
	spec_destroy(spec);
	for (uint32_t i = 0; i < list.n; i++)
		free(list.v[i]);
	free(list.v);
	return s;
}

void stagekit_wait(struct stagekit *k)
{
	cleanup_free char *dir = xasprintf("%s/logs/setup", k->paths.work);
	size_t n;

	for (uint64_t end = clock_boot_us(clock_real()) + 120000000;
	     !k->done && clock_boot_us(clock_real()) < end;)
		loop_run_once(loop, 50);
	if (!k->done)
		tap_bail("staging does not end");
	k->log = tail_last_lines(dir, 65536, &n);
}

void stagekit_run(struct stagekit *k, const char *keys, const char *bundle, const char *resume,
                  const char *const *digests)
{
	stagekit_begin(k, keys, bundle, resume, digests);
	stagekit_wait(k);
}

char *stagekit_read(const struct stagekit *k, const char *path)
{
	cleanup_free char *full = xasprintf("%s/%s", k->paths.ml, path);
	char *text;
	size_t n;

	return fs_read_file(full, 1 << 20, &text, &n, NULL) < 0 ? NULL : text;
}

uid_t stagekit_owner(const struct stagekit *k, const char *path)
{
	cleanup_free char *full = xasprintf("%s/%s", k->paths.ml, path);
	struct stat st;

	return lstat(full, &st) < 0 ? (uid_t)-1 : st.st_uid;
}

static int keep(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	return blob_cache(arg, digest, data, n, e);
}

char *stagekit_tree(struct stagekit *k, const char *dir)
{
	char digest[HASH_HEX_SIZE], *manifest;
	struct err e;
	size_t n;

	if (tree_scan(dir, NULL, NULL, keep, k->ctl.blobdir, &manifest, &n, digest, NULL, NULL, &e) < 0 ||
	    blob_cache(k->ctl.blobdir, digest, manifest, n, &e) < 0)
		tap_bail("%s", e.text);
	free(manifest);
	return xstrdup(digest);
}

void stagekit_many(const char *dir, unsigned n)
{
	char part[241], name[16];
	cleanup_free char *deep = NULL;
	cleanup_close int fd = -1;
	struct err e;

	memset(part, 'p', sizeof(part) - 1);
	part[sizeof(part) - 1] = '\0';
	deep = xasprintf("%s/%s/%s/%s", dir, part, part, part);
	if (fs_mkdir_p(deep, 0755, &e) < 0 || (fd = open(deep, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		tap_bail("%s", deep);
	for (unsigned i = 0; i < n; i++) {
		int one;

		snprintf(name, sizeof(name), "f%06u", i);
		one = openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		if (one < 0)
			tap_bail("%s/%s: %s", deep, name, strerror(errno));
		close(one);
	}
}
