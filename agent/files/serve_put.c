/*
 * serve_put: the results of a run into the folder that its owner named (output_uri):
 *
 *   DIR/JOB/KIND[/algo-K]   first into DIR/JOB/.hearth, synced, then renamed
 *
 *   PUT  texts: folder, DIR, KIND, cluster; v: job, attempt, epoch, node rank, nodes -> v: 1 bytes, 2 files
 *
 * An agent that is cut off may still upload when a newer attempt of the job runs elsewhere, and hearthd
 * cannot stop it. So the folder itself says whose turn it is: a mark has the greatest epoch that uploaded,
 * and an upload holds a lock. Unfinished files have the attempt in their name, so two uploads never write
 * into one folder.
 *
 * Several nodes: outputs and checkpoints of each are in algo-K. The model of the main node is in KIND itself
 * (usually the only one), and those of others in algo-K.
 *
 * DIR is opened once (fsnamed.c) and is this process's working folder meanwhile: every path below it is
 * relative.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/copy.h"
#include "agent/files/serve_int.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define LOCK_TRIES    600u
#define LOCK_PAUSE_MS 100u

struct put {
	struct server *s;
	const char *kind;
	const char *cluster; /* whose epochs they are */
	uint64_t job, epoch;
	uint32_t attempt, node_rank, n_nodes;
	struct copy copy;
};

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

static void place_init(struct place *p, const struct put *u)
{
	const char *kind = u->kind;
	cleanup_free char *base = xasprintf("%" PRIu64, u->job);
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
static int is_newer(int mark, const struct put *u, uint64_t *epoch)
{
	char text[256], cluster[HASH_HEX_SIZE] = "";
	ssize_t n = pread(mark, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%" SCNu64 " %64s", epoch, cluster) == 2 && strcmp(cluster, u->cluster) == 0 &&
	       *epoch > u->epoch;
}

/* From here to the end of the swap nobody else's comes in between. A file system without locks has to do
 * without: the mark is looked at all the same. */
static int lock_mark(struct put *u, int mark, struct err *e)
{
	for (unsigned tries = 0; flock(mark, LOCK_EX | LOCK_NB) < 0; tries++) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			break;
		if (tries >= LOCK_TRIES)
			return err_set(e, ERR_BUSY, "another upload to the same place is still under way");
		poll(NULL, 0, LOCK_PAUSE_MS);
		if (server_is_stopped(u->s))
			break;
	}
	return server_is_stopped(u->s) ? err_set(e, ERR_UNAVAILABLE, "cancelled") : 0;
}

/* The descriptor of the mark, locked; -1: this upload may not go (any more). */
static int take_turn(struct put *u, const struct place *p, struct err *e)
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

static int write_mark(const struct put *u, const struct place *p, int mark, struct err *e)
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
static int put_in_place(struct put *u, const struct place *p, struct err *e)
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

static int skip_failure(const char *relpath, void *arg)
{
	(void)arg;
	return server_is_failure(relpath, 1);
}

/* The unfinished folder, new and empty. */
static int open_part(const struct place *p, struct err *e)
{
	int fd;

	if (make_dirs(p, e) < 0)
		return -1;
	if (mkdir(p->part, 0755) < 0 || (fd = open(p->part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		return err_sys(e, errno, "%s", p->part);
	return fd;
}

/* Takes from. */
static int put_folder(struct put *u, const struct place *p, int from, const char *shown, struct err *e)
{
	cleanup_close int to = open_part(p, e);

	if (to < 0) {
		close(from);
		return -1;
	}
	if (copy_open(&u->copy, from, shown, to, NULL, e) < 0)
		return -1;
	if (fsync(to) < 0)
		return err_sys(e, errno, "%s", p->part);
	return put_in_place(u, p, e);
}

static int put_below(struct put *u, const struct files_msg *m, struct err *e)
{
	const char *dir = m->texts[0];
	int from = server_open_below(m, dir, e), rc;
	struct place p;

	if (from < 0)
		return -1;
	place_init(&p, u);
	rc = put_folder(u, &p, from, dir, e);
	place_fini(&p);
	return rc;
}

int serve_put(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	struct put u = {.s = s,
	                .kind = m->texts[2],
	                .cluster = m->texts[3],
	                .job = m->v[0],
	                .attempt = (uint32_t)m->v[1],
	                .epoch = m->v[2],
	                .node_rank = (uint32_t)m->v[3],
	                .n_nodes = (uint32_t)m->v[4],
	                .copy = {.step = server_step, .arg = s, .sync = 1}};
	cleanup_close int out = server_open_output(m->texts[1], e);
	int rc;

	if (out < 0)
		return err_wrap(e, "output_uri");
	if (fchdir(out) < 0)
		return err_sys(e, errno, "output_uri: %s", m->texts[1]);
	if (strcmp(u.kind, "output") == 0)
		u.copy.skip = skip_failure;
	rc = put_below(&u, m, e);
	if (chdir("/") < 0 && rc == 0)
		rc = err_sys(e, errno, "/");
	reply->v[1] = u.copy.bytes;
	reply->v[2] = u.copy.files;
	return rc < 0 ? err_wrap(e, "output_uri: %s", m->texts[1]) : 0;
}
