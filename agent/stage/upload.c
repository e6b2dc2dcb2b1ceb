/*
 * upload: see upload.h. Where the results of a run go:
 *
 *   output_uri  file://DIR: into DIR/JOB/KIND[/algo-K] (agent/files/serve_put.c)
 *   none        hearthd's store: chunks that it lacks, then the manifest
 *
 * The folders are the account's by then, and its processes may still be there. So the agent looks only
 * whether any entry is there at all; hearth-files reads and copies, as that account.
 */
#include "agent/stage/upload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/files/files.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"

#define TELL_US    200000u
#define LOOK_DEPTH 4
#define LOOK_MAX   256 /* folders and names that the agent looks at itself */

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
	struct launch_user user;
	struct files *files; /* thread */
	uint64_t done, total, told_us;
	uint64_t waited; /* loop's: words that it waits */
	int rc;
	struct err e;
};

static const struct {
	const char *kind, *dir;
} kinds[] = {{"checkpoint", "checkpoints"}, {"model", "model"}, {"output", "output"}}; /* in this order */
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

static void on_checkpoints(void *arg, void *data)
{
	struct upload *u = arg;

	(void)data;
	u->ops.checkpoints(u->arg);
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

/* ---- what there is --------------------------------------------------------------------------------- */

static int is_output(const char *kind)
{
	return strcmp(kind, "output") == 0;
}

/* Takes fd. 1: something else than folders may be below it: also when more is there than is worth a look. */
static int may_hold_files(int fd, int no_failure, int depth, unsigned *looks)
{
	DIR *d = fdopendir(fd);
	const struct dirent *one;
	int found = 0, sub;

	if (!d)
		close(fd);
	while (d && !found && (one = readdir(d))) {
		if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0 ||
		    (no_failure && strcmp(one->d_name, "failure") == 0))
			continue;
		sub = one->d_type != DT_DIR || depth == LOOK_DEPTH || ++*looks > LOOK_MAX
		          ? -1
		          : fs_open_below(dirfd(d), one->d_name, O_RDONLY | O_DIRECTORY, 0);
		found = sub < 0 || may_hold_files(sub, 0, depth + 1, looks);
	}
	if (d)
		closedir(d);
	return !d || found;
}

/* Most jobs leave none, and a helper for each of them would be a process too many. */
static int may_have(const struct upload *u, const char *kind, const char *dir)
{
	int fd = fs_open_below(u->ml_fd, dir, O_RDONLY | O_DIRECTORY, 0);
	unsigned looks = 0;

	return fd < 0 ? errno != ENOENT : may_hold_files(fd, is_output(kind), 0, &looks);
}

/* ---- the two places --------------------------------------------------------------------------------- */

/* The address of a kind, as serve_put.c chooses its place; malloc'ed. */
static char *upload_uri(const struct upload *u, const char *kind)
{
	int sub = u->n_nodes > 1 && (u->node_rank > 0 || strcmp(kind, "model") != 0);

	return sub ? xasprintf("%s/%" PRIu64 "/%s/algo-%u", u->uri, u->job, kind, u->node_rank + 1)
	           : xasprintf("%s/%" PRIu64 "/%s", u->uri, u->job, kind);
}

static int put_kind(struct upload *u, struct files_tree *t, const char *kind, struct err *e)
{
	const struct files_place p = {.output = u->uri + strlen("file://"),
	                              .kind = kind,
	                              .cluster = u->cluster,
	                              .job = u->job,
	                              .epoch = u->epoch,
	                              .attempt = u->attempt,
	                              .node_rank = u->node_rank,
	                              .n_nodes = u->n_nodes};
	cleanup_free char *uri = NULL;

	if (files_put(u->files, t, &p, e) < 0)
		return -1;
	uri = upload_uri(u, kind);
	report_artifact(u, kind, "", uri, t->bytes, t->files);
	return 0;
}

static int ask_missing(char *const *digests, size_t n, uint8_t *missing, void *arg, struct err *e)
{
	struct upload *u = arg;

	return data_link_blob_have(u->w, u->b, digests, n, missing, e);
}

static int put_blob(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	struct upload *u = arg;

	return data_link_blob_put(u->w, u->b, digest, data, n, e);
}

static int store_kind(struct upload *u, struct files_tree *t, const char *kind, struct err *e)
{
	const struct files_store_ops ops = {.missing = ask_missing, .put = put_blob, .arg = u};

	if (files_store(u->files, t, &ops, e) < 0)
		return -1;
	report_artifact(u, kind, t->digest, "", t->bytes, t->files);
	return 0;
}

/* ---- the thread
 * ------------------------------------------------------------------------------------------------------ */

static struct files_tree tree_of(const struct upload *u, size_t i)
{
	return (struct files_tree){.ml = u->ml_fd, .dir = kinds[i].dir, .no_failure = is_output(kinds[i].kind)};
}

static int upload_all(struct upload *u, struct err *e)
{
	struct files_tree trees[N_KINDS];
	int rc = 0;

	for (size_t i = 0; i < N_KINDS && rc == 0; i++) {
		trees[i] = tree_of(u, i);
		if (may_have(u, kinds[i].kind, kinds[i].dir))
			rc = files_measure(u->files, &trees[i], e);
		u->total += trees[i].bytes;
	}
	for (size_t i = 0; i < N_KINDS && rc == 0; i++) {
		if (i == 1 && u->ops.checkpoints)
			worker_post(u->w, on_checkpoints, NULL, NULL);
		if (trees[i].files == 0)
			continue;
		rc = u->uri ? put_kind(u, &trees[i], kinds[i].kind, e) : store_kind(u, &trees[i], kinds[i].kind, e);
		if (rc < 0)
			err_wrap(e, "%s", kinds[i].kind);
	}
	return rc;
}

static void run_upload(struct worker *w, void *arg)
{
	struct upload *u = arg;
	const struct files_params files = {.env = u->env, .user = &u->user, .step = count_step, .arg = u};

	u->w = w;
	if (u->uri && strncmp(u->uri, "file:///", 8) != 0) {
		u->rc = err_set(&u->e, ERR_INVALID, "output_uri \"%.100s\": expected file:///PATH", u->uri);
		return;
	}
	u->files = files_create(&files);
	u->rc = upload_all(u, &u->e);
	files_destroy(u->files);
	u->files = NULL;
}

static void upload_done(void *arg)
{
	struct upload *u = arg;

	u->ops.done(u->rc, u->rc < 0 ? u->e.text : NULL, u->arg);
}

/* Other jobs have all threads. That is progress: the results are safe, and the node is not to blame. */
static void upload_waits(void *arg)
{
	struct upload *u = arg;

	if (u->ops.progress)
		u->ops.progress(++u->waited, 0, u->arg);
}

static void release_upload(void *arg)
{
	struct upload *u = arg;

	if (u->ml_fd >= 0)
		close(u->ml_fd);
	user_fini(&u->user);
	free(u->ml);
	free(u->uri);
	free(u);
}

/* The account that the job runs as owns its folder; one that was not handed over is the agent's. */
static int find_user(struct upload *u, const struct launch_user *user, struct err *e)
{
	struct launch_user owner = {0};
	struct stat st;

	u->ml_fd = open(u->ml, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (u->ml_fd < 0 || fstat(u->ml_fd, &st) < 0)
		return err_sys(e, errno, "%s", u->ml);
	owner.uid = st.st_uid;
	owner.gid = st.st_gid;
	user_copy(&u->user, user->uid == st.st_uid ? user : &owner);
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
	struct worker_task task = {
	    .run = run_upload, .done = upload_done, .release = release_upload, .waits = upload_waits};
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

	if (find_user(u, user, &e) == 0) {
		task.owner = u->user.uid + 1ull;
		u->handle = worker_start(data_link_workers(b, POOL_UPLOADS), &task, u, &e);
	}
	if (!u->handle) {
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
