/*
 * layer: how a tree of the caches comes into a job's folder without a copy of its bytes.
 *
 * The job may change its files, and the cache must not see it. Where the file system has reflinks the copy
 * costs little. Else hearth-hold mounts the cached tree read-only with a folder for the job's changes on top
 * (base/layers.h). Small trees are copied: that is as fast, and a program may then rename files from one
 * folder of the job into another.
 *
 * Overlayfs shows the owners of the cached files. The first account that uses a tree becomes their owner;
 * other accounts get copies. The cache itself is closed to all accounts, so nobody reaches them elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/capture.h"
#include "agent/base/layers.h"
#include "agent/stage/stage_int.h"
#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"

#define WORTH_BYTES (4u << 20) /* a smaller tree is copied in some 10 ms */
#define TRY_MS      10000u
#define PAGE        4096

/* ---- what this machine can do -------------------------------------------------------------------------- */

static int has_reflinks(const char *dir)
{
	cleanup_close int from = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600),
	                  to = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char page[PAGE] = {1};

	return from >= 0 && to >= 0 && fs_write_all(from, page, sizeof(page), NULL) == 0 &&
	       ioctl(to, FICLONE, from) == 0;
}

static int make_trial(const char *dir, struct err *e)
{
	static const char *const folders[] = {"lower", "upper", "work", "ml", "ml/tree"};
	cleanup_free char *at = xasprintf("%s/at", dir), *file = xasprintf("%s/lower/file", dir);

	if (fs_mkdir_p(dir, 0700, e) < 0)
		return -1;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		cleanup_free char *path = xasprintf("%s/%s", dir, folders[i]);

		if (mkdir(path, 0700) < 0)
			return err_sys(e, errno, "%s", path);
	}
	if (symlink("tree", at) < 0)
		return err_sys(e, errno, "%s", at);
	return fs_replace(file, "0", 1, 0644, e);
}

/* By hearth-hold, in the place where the layers will be. */
static int try_layer(const struct stage *s)
{
	cleanup_free char *hold = xasprintf("%s/hearth-hold", s->env->cfg.libexec_dir), *dir = NULL, *out = NULL;
	const char *argv[] = {hold, "--try", NULL, s->env->is_root ? NULL : "--user", "1", NULL};
	struct capture c = {.argv = argv, .timeout_ms = TRY_MS, .max = 512};
	struct err e = {0};
	char name[17];
	size_t n = 0;
	int rc;

	random_hex(name, 16);
	argv[2] = dir = xasprintf("%s/cache/try-%s", s->data_dir, name);
	rc = make_trial(dir, &e) < 0 ? -1 : capture_run(&c, &out, &n, &e);
	if (rc < 0)
		log_info("event=no_layers reason=\"%s\" text=\"%.*s\"", e.text, out ? (int)strcspn(out, "\n") : 0,
		         out ? out : "");
	fs_rm_rf(dir, NULL);
	return rc == 0;
}

static int can_layer(const struct stage *s)
{
	static atomic_int known; /* 1 no, 2 yes */
	const struct agent_config *cfg = &s->env->cfg;

	if (cfg->no_namespaces || !cfg->libexec_dir || FAULT("agent.layers"))
		return 0;
	if (!atomic_load(&known))
		atomic_store(&known, 1 + try_layer(s));
	return atomic_load(&known) == 2;
}

int stage_can_share(const struct stage *s)
{
	return has_reflinks(s->data_dir) || can_layer(s);
}

/* ---- whose files --------------------------------------------------------------------------------------- */

static int is_owner(const struct stage *s, const struct stat *st)
{
	return s->as_user ? st->st_uid == s->user.uid && st->st_gid == s->user.gid : st->st_uid == geteuid();
}

/* 1: no file has a name in another tree, too, that may come to belong to somebody else. */
static int is_alone(const struct stage *s, char *tree)
{
	char *const paths[] = {tree, NULL};
	FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	FTSENT *at;
	int alone = walk != NULL;

	while (alone && (at = fts_read(walk)))
		alone = at->fts_info != FTS_F || at->fts_statp->st_nlink == 1 || is_owner(s, at->fts_statp);
	if (walk)
		fts_close(walk);
	return alone;
}

int stage_give_tree(const struct stage *s, char *tree, struct err *e)
{
	char *const paths[] = {tree, NULL};
	FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	FTSENT *at;
	int rc = 0;

	if (!walk)
		return err_sys(e, errno, "%s", tree);
	while (rc == 0 && (at = fts_read(walk)))
		if (at->fts_info == FTS_ERR || at->fts_info == FTS_DNR || at->fts_info == FTS_NS)
			rc = err_sys(e, at->fts_errno, "%s", at->fts_accpath);
		else if (at->fts_info != FTS_D && lchown(at->fts_accpath, s->user.uid, s->user.gid) < 0)
			rc = err_sys(e, errno, "%s: owner", at->fts_accpath);
	fts_close(walk);
	return rc;
}

int stage_own_tree(struct stage *s, struct cache_entry *c, const char *tree, struct err *e)
{
	cleanup_free char *jobs = xasprintf("%s/jobs", s->data_dir), *path = xstrdup(tree);
	struct stat st;
	int rc;

	if (lstat(tree, &st) < 0)
		return err_sys(e, errno, "%s", tree);
	if (is_owner(s, &st))
		return 1;
	if (st.st_uid != geteuid())
		return 0;
	rc = cache_lock_alone(c);
	if (rc < 0)
		return err_set(e, ERR_UNAVAILABLE, "%s: was removed", c->dir);
	if (rc == 0 || layers_use(jobs, c->dir) || !is_alone(s, path))
		rc = 0;
	else
		rc = stage_give_tree(s, path, e) < 0 ? -1 : 1;
	cache_lock_shared(c);
	return rc;
}

/* ---- delivery ------------------------------------------------------------------------------------------ */

/* As much as a copy would count. */
static int count_tree(struct stage *s, uint64_t bytes, const char *what, struct err *e)
{
	if (stage_check_room(s, bytes, what, e) < 0)
		return -1;
	s->bytes += bytes;
	return stage_step(s, bytes) < 0 ? err_set(e, ERR_UNAVAILABLE, "cancelled") : 0;
}

int stage_layer(struct stage *s, struct cache_entry *c, const char *tree, const char *to, struct err *e)
{
	uint64_t bytes = cache_bytes(c);
	int rc;

	if (s->ahead || bytes < WORTH_BYTES || has_reflinks(c->dir) || !can_layer(s))
		return 0;
	rc = stage_own_tree(s, c, tree, e);
	if (rc <= 0)
		return rc;
	if (count_tree(s, bytes, "the tree", e) < 0 ||
	    layers_add(s->work, to, tree, s->as_user ? &s->user : NULL, e) < 0)
		return -1;
	return 1;
}

int stage_mount_layers(struct stage *s, struct err *e)
{
	cleanup_free char *out = NULL;
	struct strv layers = {0}, argv = {0};
	struct capture c = {.timeout_ms = TRY_MS, .max = 512};
	struct err why = {0};
	size_t n = 0;
	int rc = 0;

	if (s->holder_pid)
		layers_list(s->work, &layers);
	if (layers.n) {
		strv_addf(&argv, "%s/hearth-hold", s->env->cfg.libexec_dir);
		strv_add(&argv, "--join");
		strv_addf(&argv, "%u", s->holder_pid);
		strv_add(&argv, "--start");
		strv_addf(&argv, "%" PRIu64, s->holder_start);
		for (size_t i = 0; i < layers.n; i++) {
			strv_add(&argv, "--layer");
			strv_add(&argv, layers.v[i]);
		}
		if (!s->env->is_root) {
			strv_add(&argv, "--user");
			strv_add(&argv, "1");
		}
		c.argv = (const char *const *)argv.v;
		rc = capture_run(&c, &out, &n, &why);
		if (rc < 0)
			err_set(e, why.code, "files of the job: %s", out && *out ? out : why.text);
	}
	strv_fini(&layers);
	strv_fini(&argv);
	return rc;
}
