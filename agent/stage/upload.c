/*
 * upload: see upload.h. Where the results of a run go:
 *
 *   output_uri  file://DIR: into DIR/JOB/KIND[/algo-K], written as the job's account: first into
 *               DIR/JOB/.hearth, synced, then renamed
 *   none        hearthd's store: chunks that it lacks, then the manifest
 *
 * An agent that is cut off may still upload when a newer attempt of the job runs elsewhere, and hearthd
 * cannot stop it. So the folder itself says whose turn it is: a mark has the greatest epoch that uploaded,
 * and an upload holds a lock. Unfinished files have the attempt in their name, so two uploads never write
 * into one folder.
 *
 * Several nodes: outputs and checkpoints of each are in algo-K. The model of the main node is in KIND
 * itself (usually the only one), and those of others in algo-K. The upload reads everything as the job's
 * account, so a link in its folders leads only where that account may go.
 */
#include "agent/stage/upload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "agent/base/asuser.h"
#include "agent/base/copy.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"

#define TELL_US       200000u
#define BATCH_N       256u
#define BATCH_SIZE    (32u * 1024 * 1024)
#define LOCK_TRIES    600u
#define LOCK_PAUSE_MS 100u

struct upload {
	struct agent_env *env;
	struct data_link *b;
	struct worker *handle; /* loop's */
	struct worker *w;      /* the thread's own */
	struct upload_ops ops;
	void *arg;
	uint64_t job, epoch;
	uint32_t attempt, node_rank, n_nodes;
	char *ml, *uri;              /* uri NULL: hearthd */
	char cluster[HASH_HEX_SIZE]; /* whose epochs they are */
	int ml_fd;
	struct asuser as;
	uint64_t done, total, told_us;
	int rc;
	struct err e;
};

static const struct {
	const char *kind, *dir;
} kinds[] = {{"model", "model"}, {"output", "output"}, {"checkpoint", "checkpoints"}};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* ---- to the loop
 * ---------------------------------------------------------------------------------------------- */

static void on_progress(void *arg, void *data)
{
	struct upload *u = arg;
	const uint64_t *v = data;

	if (u->ops.progress)
		u->ops.progress(v[0], v[1], u->arg);
}

static int count_step(uint64_t bytes, void *arg)
{
	struct upload *u = arg;
	uint64_t now = clock_boot_us(u->env->clock), v[2];

	u->done += bytes;
	if (now - u->told_us >= TELL_US) {
		u->told_us = now;
		v[0] = u->done;
		v[1] = u->total > u->done ? u->total : u->done;
		worker_post(u->w, on_progress, xmemdup(v, sizeof(v)), free);
	}
	return worker_cancelled(u->w) ? -1 : 0;
}

struct found {
	char *kind, *digest, *uri;
	uint64_t size, files;
};

static void found_free(void *p)
{
	struct found *f = p;

	free(f->kind);
	free(f->digest);
	free(f->uri);
	free(f);
}

static void on_found(void *arg, void *data)
{
	struct upload *u = arg;
	const struct found *f = data;
	struct upload_result r = {
	    .kind = f->kind, .digest = f->digest, .uri = f->uri, .size_bytes = f->size, .files = f->files};

	u->ops.artifact(&r, u->arg);
}

static void report_artifact(struct upload *u, const char *kind, const char *digest, const char *uri,
                            uint64_t size, uint64_t files)
{
	struct found *f = xcalloc(1, sizeof(*f));

	*f = (struct found){
	    .kind = xstrdup(kind), .digest = xstrdup(digest), .uri = xstrdup(uri), .size = size, .files = files};
	worker_post(u->w, on_found, f, found_free);
}

/* ---- what there is
 * ---------------------------------------------------------------------------------------------- */

/* The job's folder by descriptor: the way to it need not be open to the job's account. */
static char *source_path(const struct upload *u, const char *dir)
{
	return xasprintf("/proc/self/fd/%d/%s", u->ml_fd, dir);
}

static int is_failure(const char *kind, const char *relpath)
{
	return strcmp(kind, "output") == 0 && strcmp(relpath, "failure") == 0;
}

struct counter {
	struct upload *u;
	const char *kind;
	char *dir;
	uint64_t n;
	int depth;
};

/* 1 as soon as there is anything but folders. */
static int count_entry(const char *name, void *arg)
{
	struct counter *c = arg;
	char *dir = c->dir;
	struct stat st;

	if (c->depth == 0 && is_failure(c->kind, name))
		return 0;
	c->dir = xasprintf("%s/%s", dir, name);
	if (lstat(c->dir, &st) == 0) {
		if (!S_ISDIR(st.st_mode)) {
			c->n += S_ISREG(st.st_mode) || S_ISLNK(st.st_mode);
		} else if (c->depth < 128) {
			c->depth++;
			fs_each(c->dir, count_entry, c, NULL);
			c->depth--;
		}
	}
	free(c->dir);
	c->dir = dir;
	return c->n ? -1 : 0;
}

static int has_files(struct upload *u, const char *kind, const char *dir)
{
	struct counter c = {.u = u, .kind = kind, .dir = source_path(u, dir)};

	fs_each(c.dir, count_entry, &c, NULL);
	free(c.dir);
	return c.n > 0;
}

/* ---- file://
 * ------------------------------------------------------------------------------------------------------ */

static int skip_failure(const char *relpath, void *arg)
{
	(void)arg;
	return is_failure("output", relpath);
}

static int remove_tree(const char *path, struct err *e)
{
	return access(path, F_OK) < 0 && errno == ENOENT ? 0 : fs_rm_rf(path, e);
}

/* ---- whose turn it is ------------------------------------------------------------------------------ */

/* The place of one kind of one node, and its files in JOB/.hearth during the upload. */
struct place {
	char *dest, *part, *old, *mark, *side, *prefix;
	int merge; /* other nodes have their folders in dest */
};

static void place_fini(struct place *p)
{
	free(p->dest);
	free(p->part);
	free(p->old);
	free(p->mark);
	free(p->side);
	free(p->prefix);
}

static void place_init(struct place *p, const struct upload *u, const char *kind)
{
	cleanup_free char *base = xasprintf("%s/%" PRIu64, u->uri + strlen("file://"), u->job);
	int sub = u->n_nodes > 1 && (u->node_rank > 0 || strcmp(kind, "model") != 0);
	cleanup_free char *name = sub ? xasprintf("%s-algo-%u", kind, u->node_rank + 1) : xstrdup(kind);

	p->merge = u->n_nodes > 1 && !sub;
	p->dest = sub ? xasprintf("%s/%s/algo-%u", base, kind, u->node_rank + 1) : xasprintf("%s/%s", base, kind);
	p->side = xasprintf("%s/.hearth", base);
	p->prefix = xasprintf("%s.part.", name);
	p->part = xasprintf("%s/%s%u.%" PRIu64, p->side, p->prefix, u->attempt, u->epoch);
	p->old = xasprintf("%s/%s.old", p->side, name);
	p->mark = xasprintf("%s/%s.epoch", p->side, name);
}

/* Does the mark name this cluster and a newer epoch than this upload's? */
static int is_newer(int mark, const struct upload *u, uint64_t *epoch)
{
	char text[256], cluster[HASH_HEX_SIZE] = "";
	ssize_t n = pread(mark, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%" SCNu64 " %64s", epoch, cluster) == 2 && strcmp(cluster, u->cluster) == 0 &&
	       *epoch > u->epoch;
}

/* From here to the end of the swap nobody else's comes in between. A file system without locks has to do
 * without: the mark is looked at all the same. */
static int lock_mark(struct upload *u, int mark, struct err *e)
{
	for (unsigned tries = 0; flock(mark, LOCK_EX | LOCK_NB) < 0; tries++) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			break;
		if (tries >= LOCK_TRIES)
			return err_set(e, ERR_BUSY, "another upload to the same place is still under way");
		if (worker_pause(u->w, LOCK_PAUSE_MS) < 0)
			break;
	}
	return worker_cancelled(u->w) ? err_set(e, ERR_UNAVAILABLE, "cancelled") : 0;
}

/* The descriptor of the mark, locked; -1: this upload may not go (any more). */
static int take_turn(struct upload *u, const struct place *p, struct err *e)
{
	int mark = open(p->mark, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	uint64_t epoch = 0;

	if (mark < 0)
		return err_sys(e, errno, "%s", p->mark);
	if (lock_mark(u, mark, e) == 0) {
		if (!is_newer(mark, u, &epoch))
			return mark;
		err_set(e, ERR_CONFLICT,
		        "a newer attempt (epoch %" PRIu64 ", this is %" PRIu64 ") has uploaded there", epoch,
		        u->epoch);
	}
	close(mark);
	return -1;
}

static int write_mark(const struct upload *u, const struct place *p, int mark, struct err *e)
{
	cleanup_free char *text = xasprintf("%" PRIu64 " %s %u\n", u->epoch, u->cluster, u->attempt);
	size_t n = strlen(text);

	if (ftruncate(mark, 0) < 0 || pwrite(mark, text, n, 0) != (ssize_t)n || fsync(mark) < 0)
		return err_sys(e, errno, "%s", p->mark);
	return 0;
}

static int drop_part(const char *name, void *arg)
{
	const struct place *p = arg;
	cleanup_free char *path = xasprintf("%s/%s", p->side, name);
	struct err ignored;

	if (strncmp(name, p->prefix, strlen(p->prefix)) == 0)
		fs_rm_rf(path, &ignored);
	return 0;
}

/* The new one takes the place of an older attempt's, which is out of the way for two renames only. */
static int swap_in(const struct place *p, struct err *e)
{
	struct err ignored;

	if (remove_tree(p->old, e) < 0)
		return -1;
	if (rename(p->dest, p->old) < 0 && errno != ENOENT)
		return err_sys(e, errno, "%s", p->dest);
	if (rename(p->part, p->dest) < 0) {
		err_sys(e, errno, "%s", p->dest);
		(void)!rename(p->old, p->dest);
		return -1;
	}
	remove_tree(p->old, &ignored);
	return 0;
}

static int of_other_node(const char *name)
{
	return strncmp(name, "algo-", 5) == 0 && name[5] && strspn(name + 5, "0123456789") == strlen(name + 5);
}

struct mover {
	const char *from, *to;
	struct err *e;
};

static int drop_entry(const char *name, void *arg)
{
	struct mover *m = arg;
	cleanup_free char *path = xasprintf("%s/%s", m->to, name);

	return of_other_node(name) ? 0 : fs_rm_rf(path, m->e);
}

static int move_entry(const char *name, void *arg)
{
	struct mover *m = arg;
	cleanup_free char *from = xasprintf("%s/%s", m->from, name), *to = xasprintf("%s/%s", m->to, name);

	return rename(from, to) < 0 ? err_sys(m->e, errno, "%s", to) : 0;
}

/* As swap_in, but other nodes may be writing their own folders in there. */
static int merge_in(const char *part, const char *dest, struct err *e)
{
	struct mover m = {.from = part, .to = dest, .e = e};
	struct err why;

	if (fs_mkdir_p(dest, 0755, e) < 0)
		return -1;
	e->code = ERR_NONE;
	if (fs_each(dest, drop_entry, &m, &why) < 0 || fs_each(part, move_entry, &m, &why) < 0)
		return e->code ? -1 : err_set(e, why.code, "%s", why.text);
	return fs_rm_rf(part, e);
}

/* The mark comes first: if the swap breaks off, an older one must not come back for that. */
static int put_in_place(struct upload *u, const struct place *p, struct err *e)
{
	int mark = take_turn(u, p, e), rc;
	struct err ignored;

	if (mark < 0) {
		remove_tree(p->part, &ignored);
		return -1;
	}
	rc = write_mark(u, p, mark, e);
	if (rc == 0)
		rc = p->merge ? merge_in(p->part, p->dest, e) : swap_in(p, e);
	if (rc == 0)
		fs_each(p->side, drop_part, (void *)(uintptr_t)p, NULL); /* of attempts that came to nothing */
	close(mark);
	return rc;
}

static int make_dirs(const struct place *p, struct err *e)
{
	cleanup_free char *parent = xstrdup(p->dest);

	*strrchr(parent, '/') = '\0';
	return fs_mkdir_p(parent, 0755, e) < 0 || fs_mkdir_p(p->side, 0755, e) < 0 || remove_tree(p->part, e) < 0
	           ? -1
	           : 0;
}

static int copy_to(struct upload *u, const struct place *p, const char *kind, const char *dir, struct err *e)
{
	cleanup_free char *from = source_path(u, dir), *uri = xasprintf("file://%s", p->dest);
	struct copy c = {
	    .step = count_step, .arg = u, .sync = 1, .skip = strcmp(kind, "output") == 0 ? skip_failure : NULL};
	cleanup_close int to = -1;

	if (make_dirs(p, e) < 0)
		return err_wrap(e, "output_uri");
	if (mkdir(p->part, 0755) < 0 || (to = open(p->part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		return err_sys(e, errno, "output_uri: %s", p->part);
	if (copy_into(&c, from, to, e) < 0 || fsync(to) < 0)
		return -1;
	if (put_in_place(u, p, e) < 0)
		return err_wrap(e, "output_uri");
	report_artifact(u, kind, "", uri, c.bytes, c.files);
	return 0;
}

static int copy_kind(struct upload *u, const char *kind, const char *dir, struct err *e)
{
	struct place p;
	int rc;

	place_init(&p, u, kind);
	rc = copy_to(u, &p, kind, dir, e);
	place_fini(&p);
	return rc;
}

/* ---- hearthd's store
 * ------------------------------------------------------------------------------------------------ */

struct sender {
	struct upload *u;
	char *digests[BATCH_N];
	char *data[BATCH_N];
	size_t sizes[BATCH_N];
	size_t n, bytes;
};

static int flush_blobs(struct sender *x, struct err *e)
{
	uint8_t missing[BATCH_N];
	int rc = 0;

	if (x->n)
		rc = data_link_blob_have(x->u->w, x->u->b, x->digests, x->n, missing, e);
	for (size_t i = 0; i < x->n; i++) {
		if (rc == 0 && missing[i])
			rc = data_link_blob_put(x->u->w, x->u->b, x->digests[i], x->data[i], x->sizes[i], e);
		if (rc == 0 && count_step(x->sizes[i], x->u) < 0)
			rc = err_set(e, ERR_UNAVAILABLE, "cancelled");
		free(x->digests[i]);
		free(x->data[i]);
	}
	x->n = x->bytes = 0;
	return rc;
}

static int on_chunk(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	struct sender *x = arg;

	x->digests[x->n] = xstrdup(digest);
	x->data[x->n] = n ? xmemdup(data, n) : xstrdup("");
	x->sizes[x->n] = n;
	x->bytes += n;
	return ++x->n == BATCH_N || x->bytes >= BATCH_SIZE ? flush_blobs(x, e) : 0;
}

static int skip_in_tree(const char *relpath, int is_dir, void *arg)
{
	(void)is_dir;
	return is_failure(arg, relpath);
}

static int store_kind(struct upload *u, const char *kind, const char *dir, struct err *e)
{
	cleanup_free char *from = source_path(u, dir), *manifest = NULL;
	struct sender *x = xcalloc(1, sizeof(*x));
	char digest[HASH_HEX_SIZE];
	struct tree_stats st = {0};
	uint64_t special = 0;
	size_t n = 0;
	int rc;

	x->u = u;
	rc = tree_scan(from, skip_in_tree, (void *)(uintptr_t)kind, on_chunk, x, &manifest, &n, digest, &st,
	               &special, e);
	if (rc == 0)
		rc = flush_blobs(x, e);
	for (size_t i = 0; i < x->n; i++) { /* of a scan that broke off */
		free(x->digests[i]);
		free(x->data[i]);
	}
	free(x);
	if (rc == 0)
		rc = data_link_blob_put(u->w, u->b, digest, manifest, n, e);
	if (rc == 0)
		report_artifact(u, kind, digest, "", st.bytes, st.files);
	return rc;
}

/* ---- the thread
 * ------------------------------------------------------------------------------------------------------ */

static int do_all(struct upload *u, struct err *e)
{
	int has[N_KINDS], rc = 0;
	int64_t bytes;

	for (size_t i = 0; i < N_KINDS; i++) {
		cleanup_free char *from = source_path(u, kinds[i].dir);

		has[i] = has_files(u, kinds[i].kind, kinds[i].dir);
		bytes = has[i] ? fs_tree_bytes(from, NULL) : 0;
		u->total += bytes > 0 ? (uint64_t)bytes : 0;
	}
	for (size_t i = 0; i < N_KINDS && rc == 0; i++) {
		if (!has[i])
			continue;
		rc = u->uri ? copy_kind(u, kinds[i].kind, kinds[i].dir, e)
		            : store_kind(u, kinds[i].kind, kinds[i].dir, e);
		if (rc < 0)
			err_wrap(e, "%s", kinds[i].kind);
	}
	return rc;
}

static void run_upload(struct worker *w, void *arg)
{
	struct upload *u = arg;

	u->w = w;
	if (u->uri && strncmp(u->uri, "file:///", 8) != 0) {
		u->rc = err_set(&u->e, ERR_INVALID, "output_uri \"%.100s\": expected file:///PATH", u->uri);
		return;
	}
	u->rc = asuser_enter(&u->as, &u->e);
	if (u->rc == 0)
		u->rc = do_all(u, &u->e);
	asuser_leave(&u->as);
}

static void upload_done(void *arg)
{
	struct upload *u = arg;

	u->ops.done(u->rc, u->rc < 0 ? u->e.text : NULL, u->arg);
}

static void release_upload(void *arg)
{
	struct upload *u = arg;

	if (u->ml_fd >= 0)
		close(u->ml_fd);
	asuser_fini(&u->as);
	free(u->ml);
	free(u->uri);
	free(u);
}

/* The account that the job runs as owns its folder; one that was not handed over is the agent's. */
static int find_user(struct upload *u, const struct launch_user *user, struct err *e)
{
	struct launch_user owner = {0};
	struct stat st;

	u->ml_fd = open(u->ml, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (u->ml_fd < 0 || fstat(u->ml_fd, &st) < 0)
		return err_sys(e, errno, "%s", u->ml);
	owner.uid = st.st_uid;
	owner.gid = st.st_gid;
	asuser_init(&u->as, u->env->is_root, user->uid == st.st_uid ? user : &owner);
	return 0;
}

/* Two clusters may write to one folder, and a cluster that is set up again counts its epochs from the start.
 */
static void name_cluster(struct upload *u)
{
	cleanup_free char *path = xasprintf("%s/ca.pem", u->env->cfg.data_dir);
	cleanup_free char *pem = NULL;
	size_t n = 0;

	if (fs_read_file(path, 65536, &pem, &n, NULL) < 0)
		n = 0;
	hash_hex(pem ? pem : "", n, u->cluster);
}

struct upload *upload_start(struct agent_env *env, struct data_link *b, uint64_t job, uint32_t attempt,
                            uint64_t epoch, uint32_t node_rank, uint32_t n_nodes,
                            const struct launch_paths *paths, const struct launch_user *user,
                            const char *output_uri, const struct upload_ops *ops, void *arg)
{
	static const struct worker_task task = {
	    .run = run_upload, .done = upload_done, .release = release_upload};
	struct upload *u = xcalloc(1, sizeof(*u));
	size_t n;
	struct err e;

	*u = (struct upload){.env = env,
	                     .b = b,
	                     .ops = *ops,
	                     .arg = arg,
	                     .job = job,
	                     .attempt = attempt,
	                     .epoch = epoch,
	                     .node_rank = node_rank,
	                     .n_nodes = n_nodes,
	                     .ml = xstrdup(paths->ml),
	                     .ml_fd = -1};
	u->uri = output_uri && *output_uri ? xstrdup(output_uri) : NULL;
	for (n = u->uri ? strlen(u->uri) : 0; n > strlen("file:///") && u->uri[n - 1] == '/'; n--)
		u->uri[n - 1] = '\0';
	if (u->uri)
		name_cluster(u);

	if (find_user(u, user, &e) < 0 || !(u->handle = worker_start(data_link_workers(b), &task, u, &e))) {
		log_error("event=upload_not_started job=%" PRIu64 " reason=\"%s\"", job, e.text);
		release_upload(u);
		return NULL;
	}
	return u;
}

void upload_cancel(struct upload *u)
{
	if (u)
		worker_cancel(u->handle);
}
