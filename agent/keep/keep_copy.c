/*
 * keep_copy: see keep_copy.h.
 */
#include "agent/keep/keep_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/worker.h"
#include "agent/files/files_keep.h"
#include "common/base/strutil.h"
#include "common/net/wire_msg.h"
#include "common/os/fsutil.h"

#define HAVE_MAX 1024

struct keep_copy {
	struct agent_env *env;
	struct data_link *link;
	void (*done)(const struct keep_copied *r, void *arg);
	void *arg;
	struct worker *handle, *w;
	struct launch_user user;
	char *held, *cpus, *uri, *name;
	int held_fd;
	uint64_t rate, seq, held_print, bytes, job, epoch;
	int idle;
	int64_t step;
	uint32_t attempt, node_rank;
	struct files *files;
	struct strv chunks; /* that hearthd must have */
	struct files_digest digest;
	char *copy_uri;
	int rc, changed;
	struct err e;
};

static int step_copy(uint64_t bytes, void *arg)
{
	(void)bytes;
	return worker_cancelled(((struct keep_copy *)arg)->w) ? -1 : 0;
}

/* ---- into a folder ----------------------------------------------------------------------------------- */

/* Two clusters may write to one folder. */
static void name_cluster(const struct agent_env *env, char out[HASH_HEX_SIZE])
{
	cleanup_free char *path = xasprintf("%s/ca.pem", env->cfg.data_dir);
	cleanup_free char *pem = NULL;
	size_t n = 0;

	if (fs_read_file(path, 65536, &pem, &n, NULL) < 0)
		n = 0;
	hash_hex(pem ? pem : "", n, out);
}

char *keep_copy_place(const struct agent_env *env, uint64_t job, uint32_t attempt, uint64_t seq,
                      uint32_t node_rank)
{
	char cluster[HASH_HEX_SIZE];

	name_cluster(env, cluster);
	return xasprintf("%" PRIu64 "/kept/%.8s-%u.%" PRIu64 "-algo-%u", job, cluster, attempt, seq,
	                 node_rank + 1);
}

static int copy_to_folder(struct keep_copy *c, const char *place, struct err *e)
{
	const char *dir = c->uri + strlen("file://");
	cleanup_free char *where = NULL, *text = NULL;
	char cluster[HASH_HEX_SIZE];

	if (strncmp(c->uri, "file:///", 8) != 0)
		return err_set(e, ERR_INVALID, "\"%.100s\": expected file:///PATH", c->uri);
	name_cluster(c->env, cluster);
	where = keep_copy_place(c->env, c->job, c->attempt, c->seq, c->node_rank);
	text = xasprintf("hearth-checkpoint 1\ncluster %s\nepoch %" PRIu64 "\njob %" PRIu64
	                 "\nattempt %u\nstep %" PRId64 "\n",
	                 cluster, c->epoch, c->job, c->attempt, c->step);
	if (files_put_kept(c->files, place, dir, where, text, &c->digest, e) < 0)
		return -1;
	c->copy_uri = xasprintf("%s/%s", c->uri, where);
	return 0;
}

/* ---- into hearthd's store ----------------------------------------------------------------------------- */

static int ask_missing(char *const *digests, size_t n, uint8_t *missing, void *arg, struct err *e)
{
	struct keep_copy *c = arg;

	for (size_t i = 0; i < n; i++)
		strv_add(&c->chunks, digests[i]);
	return data_link_blob_have(c->w, c->link, digests, n, missing, e);
}

static int put_blob(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	struct keep_copy *c = arg;

	return data_link_blob_put(c->w, c->link, digest, data, n, e);
}

static int check_stored(struct keep_copy *c, struct err *e)
{
	uint8_t missing[HAVE_MAX];

	strv_add(&c->chunks, c->digest.digest);
	for (size_t at = 0; at < c->chunks.n; at += HAVE_MAX) {
		size_t n = c->chunks.n - at < HAVE_MAX ? c->chunks.n - at : HAVE_MAX;

		memset(missing, 0, n);
		if (data_link_blob_have(c->w, c->link, c->chunks.v + at, n, missing, e) < 0)
			return -1;
		for (size_t i = 0; i < n; i++)
			if (missing[i])
				return err_set(e, ERR_IO, "hearthd lacks a part of it that it had accepted");
	}
	return 0;
}

static int copy_to_store(struct keep_copy *c, const char *place, struct err *e)
{
	const struct files_store_ops ops = {.missing = ask_missing, .put = put_blob, .arg = c};
	struct files_tree t = {.ml = c->held_fd, .dir = place};
	char a[32], b[32];

	if (c->bytes > c->env->cfg.store_limit)
		return err_set(
		    e, ERR_LIMIT,
		    "it has %s, and this node sends at most %s of one checkpoint to hearthd's store (hearth-agent "
		    "--checkpoint-store); set checkpoint.uri",
		    str_size(c->bytes, a, sizeof(a)), str_size(c->env->cfg.store_limit, b, sizeof(b)));
	if (files_digest(c->files, place, &c->digest, e) < 0)
		return -1;
	if (files_store(c->files, &t, &ops, e) < 0)
		return -1;
	if (strcmp(t.digest, c->digest.digest) != 0)
		return err_set(e, ERR_CONFLICT, "it changed while it was copied");
	if (check_stored(c, e) < 0)
		return -1;
	c->copy_uri = xstrdup(CKPT_URI_STORE);
	return 0;
}

/* ---- the thread ------------------------------------------------------------------------------------- */

static int begin_copy(struct keep_copy *c, struct err *e)
{
	const struct files_params p = {.env = c->env, .user = &c->user, .step = step_copy, .arg = c};

	c->held_fd = open(c->held, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c->held_fd < 0)
		return err_sys(e, errno, "%s", c->held);
	c->files = files_create(&p);
	return files_keep(c->files, c->held_fd, e) < 0 ? -1 : files_calm(c->files, c->cpus, c->rate, c->idle, e);
}

/* A hard link shares its bytes with a file that the job may write again. */
static int is_unchanged(struct keep_copy *c, const char *place, struct err *e)
{
	struct files_digest d = {0};

	if (files_digest(c->files, place, &d, e) < 0)
		return -1;
	if (d.print == c->held_print && (!c->digest.digest[0] || strcmp(d.digest, c->digest.digest) == 0)) {
		c->digest = d;
		return 0;
	}
	c->changed = 1;
	return err_set(e, ERR_CONFLICT, "the program wrote to its file again");
}

static int copy_held(struct keep_copy *c, struct err *e)
{
	cleanup_free char *place = xasprintf("%" PRIu64, c->seq);
	struct err why = {0};
	int rc;

	if (begin_copy(c, e) < 0)
		return -1;
	if (files_check(c->files, place, e) < 0) {
		c->changed = e->code == ERR_IO && !worker_cancelled(c->w);
		return -1;
	}
	rc = c->uri ? copy_to_folder(c, place, &why) : copy_to_store(c, place, &why);
	if (worker_cancelled(c->w))
		return err_set(e, ERR_UNAVAILABLE, "cancelled");
	/* Also where the copy failed: its digest is of use on this node. */
	if (is_unchanged(c, place, e) < 0)
		return -1;
	return rc < 0 ? err_set(e, why.code, "%s", why.text) : 0;
}

static void run_copy(struct worker *w, void *arg)
{
	struct keep_copy *c = arg;

	c->w = w;
	c->rc = copy_held(c, &c->e);
	files_destroy(c->files);
	c->files = NULL;
}

static void copy_done(void *arg)
{
	struct keep_copy *c = arg;
	struct keep_copied r = {.seq = c->seq,
	                        .rc = c->rc,
	                        .changed = c->changed,
	                        .uri = c->rc == 0 ? c->copy_uri : "",
	                        .text = c->rc < 0 ? c->e.text : NULL};

	memcpy(r.digest, c->digest.digest, sizeof(r.digest));
	c->done(&r, c->arg);
}

static void copy_free(void *arg)
{
	struct keep_copy *c = arg;

	if (c->held_fd >= 0)
		close(c->held_fd);
	user_fini(&c->user);
	strv_fini(&c->chunks);
	free(c->held);
	free(c->cpus);
	free(c->uri);
	free(c->name);
	free(c->copy_uri);
	free(c);
}

struct keep_copy *keep_copy_start(const struct keep_copy_params *p,
                                  void (*done)(const struct keep_copied *r, void *arg), void *arg,
                                  struct err *e)
{
	const struct worker_task task = {
	    .run = run_copy, .done = copy_done, .release = copy_free, .owner = p->user->uid + 1ull};
	struct keep_copy *c = xcalloc(1, sizeof(*c));

	*c = (struct keep_copy){.env = p->env,
	                        .link = p->link,
	                        .done = done,
	                        .arg = arg,
	                        .held = xstrdup(p->held),
	                        .cpus = xstrdup(p->cpus),
	                        .uri = xstrdup(p->uri),
	                        .name = xstrdup(p->entry->name),
	                        .held_fd = -1,
	                        .rate = p->rate,
	                        .seq = p->entry->seq,
	                        .held_print = p->entry->held_print,
	                        .bytes = p->entry->bytes,
	                        .idle = p->idle,
	                        .step = p->entry->step,
	                        .job = p->job,
	                        .epoch = p->epoch,
	                        .attempt = p->attempt,
	                        .node_rank = p->node_rank};
	user_copy(&c->user, p->user);
	c->handle = worker_start(data_link_workers(p->link, POOL_COPIES), &task, c, e);
	if (!c->handle) {
		copy_free(c);
		return NULL;
	}
	return c;
}

void keep_copy_cancel(struct keep_copy *c)
{
	if (c)
		worker_cancel(c->handle);
}
