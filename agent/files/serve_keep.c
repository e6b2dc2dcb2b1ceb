/*
 * serve_keep: checkpoints that the agent holds. The folder of held ones comes by descriptor (KEEP): it is the
 * account's, but below a folder that only the agent may enter, so no process of the job reaches it.
 *
 *   KEEP    fd: folder of held checkpoints
 *   CALM    texts: CPUs ("3,4"; empty: any); v: bytes a second (0 no limit), 1: at idle priority
 *   DIGEST  texts: place of a held one, or a path -> texts[1]: digest; v: 1 bytes, 2 files, 3 print
 *   CHECK   texts: place of a held one: its files have the digests that its hearth.json names; else ERR_IO
 *   KEPT    texts: place, DIR, where below it, text of its manifest; -> texts[1]: digest of both, which was
 *           read back; v: 1 bytes, 2 files, 3 bytes that were there. A copy that was cut off goes on where it
 * was DROP    texts: place of a held one, or "", uri folder of a copy: also of one that was cut off
 *
 * A copy is DIR/WHERE with a manifest DIR/WHERE.manifest, which is renamed into its place last: a folder
 * without one does not count as a copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/copy.h"
#include "agent/files/serve_int.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"

#define NICE       19
#define LOCK_TRIES 50
#define LOCK_MS    100

int serve_keep(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	(void)reply;
	if (m->fd < 0)
		return err_set(e, ERR_PROTOCOL, "the folder of held checkpoints is missing");
	if (s->held >= 0)
		close(s->held);
	s->held = fcntl(m->fd, F_DUPFD_CLOEXEC, 3);
	return s->held < 0 ? err_sys(e, errno, "folder of held checkpoints") : 0;
}

/* ---- priority --------------------------------------------------------------------------------------- */

static void use_cpus(const char *list)
{
	cpu_set_t set;
	char *end;

	CPU_ZERO(&set);
	while (*list) {
		unsigned long cpu = strtoul(list, &end, 10);

		if (end == list)
			return;
		if (cpu < CPU_SETSIZE)
			CPU_SET(cpu, &set);
		list = *end == ',' ? end + 1 : end;
	}
	if (CPU_COUNT(&set))
		sched_setaffinity(0, sizeof(set), &set);
}

/* Each step may be forbidden somewhere: then the next one has to do. */
int serve_calm(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	const struct sched_param none = {0};

	(void)reply;
	(void)e;
	s->rate = m->v[0];
	use_cpus(m->texts[0]);
	setpriority(PRIO_PROCESS, 0, NICE);
	if (!m->v[1])
		return 0;
	sched_setscheduler(0, SCHED_IDLE, &none);
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 7));
	return 0;
}

/* ---- digests ---------------------------------------------------------------------------------------- */

static int count_chunk(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	(void)digest;
	(void)data;
	return server_step(n, arg) < 0 ? err_set(e, ERR_UNAVAILABLE, "cancelled") : 0;
}

/* Takes fd. */
static int digest_of(struct server *s, int fd, const char *shown, struct tree_stats *st,
                     char digest[HASH_HEX_SIZE], struct err *e)
{
	cleanup_free char *manifest = NULL;
	uint64_t special = 0;
	size_t n = 0;

	return tree_scan_open(fd, shown, NULL, NULL, count_chunk, s, &manifest, &n, digest, st, &special, e);
}

int serve_digest(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	const char *what = m->texts[0];
	int held = *what != '/';
	struct tree_stats st = {0};
	struct stat info;
	int fd;

	if (held && (s->held < 0 || !server_is_name(what)))
		return err_set(e, ERR_PROTOCOL, "no held checkpoint \"%.40s\"", what);
	fd = held ? openat(s->held, what, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
	          : fs_open_named(AT_FDCWD, what, O_RDONLY, &info, e);
	if (fd < 0)
		return held ? err_sys(e, errno, "held checkpoint %s", what) : -1;
	if (digest_of(s, fd, what, &st, s->digest, e) < 0)
		return -1;
	if (held)
		server_print(s, s->held, what, 0, &reply->v[3], NULL);
	reply->texts[1] = s->digest;
	reply->v[1] = st.bytes;
	reply->v[2] = st.files;
	return 0;
}

/* ---- copies outside of the node ----------------------------------------------------------------------- */

struct outside {
	char *dest, *part, *manifest, *manifest_part;
	int lock; /* the open part; -1 none */
};

static void outside_fini(struct outside *o)
{
	free(o->dest);
	free(o->part);
	free(o->manifest);
	free(o->manifest_part);
	if (o->lock >= 0)
		close(o->lock);
}

static void outside_paths(struct outside *o, const char *where)
{
	const char *slash = strrchr(where, '/'), *name = slash ? slash + 1 : where;
	cleanup_free char *above = slash ? xstrndup(where, (size_t)(slash - where)) : xstrdup(".");

	o->dest = xstrdup(where);
	o->part = xasprintf("%s/.%s.part", above, name);
	o->manifest = xasprintf("%s.manifest", where);
	o->manifest_part = xasprintf("%s/.%s.manifest", above, name);
}

/* Paths below the working folder; makes the folder above them. */
static int outside_init(struct outside *o, const char *where, struct err *e)
{
	const char *slash = strrchr(where, '/');
	cleanup_free char *above = slash ? xstrndup(where, (size_t)(slash - where)) : xstrdup(".");

	outside_paths(o, where);
	return fs_mkdir_p(above, 0755, e);
}

static int remove_tree(const char *path, struct err *e)
{
	return access(path, F_OK) < 0 && errno == ENOENT ? 0 : fs_rm_rf(path, e);
}

/* The helper before this one may be about to end. A file system without locks has to do without. */
static int lock_part(struct server *s, int fd, const char *shown, struct err *e)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
			return 0;
		poll(NULL, 0, LOCK_MS);
		if (server_is_stopped(s))
			break;
	}
	return err_set(e, ERR_UNAVAILABLE, "%s: another process still writes it", shown);
}

static int open_part(struct server *s, struct outside *o, struct err *e)
{
	if (mkdir(o->part, 0755) == 0 || errno == EEXIST)
		o->lock = open(o->part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return o->lock < 0 ? err_sys(e, errno, "%s", o->part) : lock_part(s, o->lock, o->part, e);
}

static int copy_out(struct server *s, const char *place, struct outside *o, struct copy *c, struct err *e)
{
	int from = openat(s->held, place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (from < 0)
		return err_sys(e, errno, "held checkpoint %s", place);
	if (open_part(s, o, e) < 0) {
		close(from);
		return -1;
	}
	if (copy_open(c, from, place, o->lock, NULL, e) < 0)
		return -1;
	return fsync(o->lock) < 0 ? err_sys(e, errno, "%s", o->part) : 0;
}

/* What is read back is compared with what is held. */
static int read_back(struct server *s, const char *place, const struct outside *o, struct err *e)
{
	char copied[HASH_HEX_SIZE];
	struct tree_stats st = {0};
	int held = openat(s->held, place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), part;

	if (held < 0 || digest_of(s, held, place, &st, s->digest, e) < 0)
		return held < 0 ? err_sys(e, errno, "held checkpoint %s", place) : -1;
	part = open(o->part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (part < 0 || digest_of(s, part, o->part, &st, copied, e) < 0)
		return part < 0 ? err_sys(e, errno, "%s", o->part) : -1;
	return strcmp(copied, s->digest) == 0
	           ? 0
	           : err_set(e, ERR_IO, "%s: read back, it differs from what was written", o->part);
}

static int commit_copy(const struct outside *o, const char *text, struct err *e)
{
	if (remove_tree(o->manifest, e) < 0 || remove_tree(o->dest, e) < 0)
		return -1;
	if (rename(o->part, o->dest) < 0)
		return err_sys(e, errno, "%s", o->dest);
	if (fs_write_atomic(o->manifest_part, text, strlen(text), 0644, e) < 0)
		return -1;
	return rename(o->manifest_part, o->manifest) < 0 ? err_sys(e, errno, "%s", o->manifest) : 0;
}

static int put_copy(struct server *s, const struct files_msg *m, struct copy *c, struct err *e)
{
	struct outside o = {.lock = -1};
	struct err ignored;
	int rc = outside_init(&o, m->texts[2], e);

	if (rc == 0)
		rc = copy_out(s, m->texts[0], &o, c, e);
	if (rc == 0)
		rc = read_back(s, m->texts[0], &o, e);
	if (rc == 0) {
		cleanup_free char *text = xasprintf("%sdigest %s\n", m->texts[3], s->digest);

		rc = commit_copy(&o, text, e);
	}
	if (rc < 0 && o.lock >= 0 && !s->stopped) /* one that was cut off goes on later */
		remove_tree(o.part, &ignored);
	outside_fini(&o);
	return rc;
}

int serve_kept(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	struct copy c = {.step = server_step, .arg = s, .sync = 1, .resume = 1};
	cleanup_close int out = -1;
	int rc;

	if (s->held < 0 || !server_is_name(m->texts[0]) || strstr(m->texts[2], ".."))
		return err_set(e, ERR_PROTOCOL, "no held checkpoint \"%.40s\"", m->texts[0]);
	out = server_open_output(m->texts[1], e);
	if (out < 0)
		return -1;
	if (fchdir(out) < 0)
		return err_sys(e, errno, "%s", m->texts[1]);
	rc = put_copy(s, m, &c, e);
	if (chdir("/") < 0 && rc == 0)
		rc = err_sys(e, errno, "/");
	reply->texts[1] = s->digest;
	reply->v[1] = c.bytes;
	reply->v[2] = c.files;
	reply->v[3] = c.resumed;
	return rc < 0 ? err_wrap(e, "%s", m->texts[1]) : 0;
}

/* ---- drop ------------------------------------------------------------------------------------------- */

/* The manifest goes first: what a broken removal leaves does not count as a copy. */
static int drop_copy(struct server *s, const char *path, struct err *e)
{
	struct outside o = {.lock = -1};
	int rc = 0;

	outside_paths(&o, path);
	if (unlink(o.manifest) == 0)
		rc = remove_tree(o.dest, e);
	else if (errno != ENOENT)
		rc = err_sys(e, errno, "%s", o.manifest);
	if (rc == 0)
		o.lock = open(o.part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (o.lock >= 0)
		rc = lock_part(s, o.lock, o.part, e) < 0 ? -1 : remove_tree(o.part, e);
	outside_fini(&o);
	return rc;
}

int serve_drop(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	(void)reply;
	if (m->texts[0][0] && server_drop_held(s, m->texts[0], e) < 0)
		return -1;
	return m->texts[1][0] == '/' ? drop_copy(s, m->texts[1], e) : 0;
}
