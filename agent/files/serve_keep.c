/*
 * serve_keep: checkpoints that the agent holds. The folder of held ones comes by descriptor (KEEP): it is the
 * account's, but below a folder that only the agent may enter, so no process of the job reaches it.
 *
 *   KEEP    fd: folder of held checkpoints
 *   CALM    texts: CPUs ("3,4"; empty: any); v: bytes a second (0 no limit), 1: at idle priority
 *   HOLD    texts: folder below fd, entry, place; v: print of the entry, 1: hard links will do
 *           -> v: 1 bytes, 2 files, 3 print in its place. ERR_CONFLICT: the entry has changed meanwhile
 *   DIGEST  texts: place of a held one, or a path -> texts[1]: digest; v: 1 bytes, 2 files, 3 print
 *   KEPT    texts: place, DIR, where below it, text of its manifest; -> texts[1]: digest of both, which was
 *           read back; v: 1 bytes, 2 files
 *   DROP    texts: place of a held one, or "", uri folder of a copy
 *
 * A copy is DIR/WHERE with a manifest DIR/WHERE.manifest, which is renamed into its place last: a folder
 * without one does not count as a copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
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

#define NICE 19

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

/* ---- hold ------------------------------------------------------------------------------------------- */

/* A name without "/", ".", "..". */
static int is_plain(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int drop_held(struct server *s, const char *place, struct err *e)
{
	cleanup_free char *path = xasprintf("/proc/self/fd/%d/%s", s->held, place);

	if (s->held < 0 || !is_plain(place))
		return err_set(e, ERR_PROTOCOL, "no held checkpoint \"%.40s\"", place);
	return fs_rm_rf(path, e);
}

static int print_of(struct server *s, int at, const char *name, uint64_t *print)
{
	struct listing l = {0};
	int rc = server_list_entry(s, at, name, &l);

	if (rc == 0)
		*print = listing_print(&l, 0);
	listing_fini(&l);
	return rc;
}

/* Makes the folders of "a/b/name" below `at`: the open one that gets `name`. Takes at. */
static int open_parent(int at, const char *entry, struct err *e)
{
	const char *slash;

	while (at >= 0 && (slash = strchr(entry, '/'))) {
		cleanup_free char *name = xstrndup(entry, (size_t)(slash - entry));
		int below;

		if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
			below = err_sys(e, errno, "%s", name);
		else if ((below = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
			err_sys(e, errno, "%s", name);
		close(at);
		at = below;
		entry = slash + 1;
	}
	return at;
}

static int open_place(struct server *s, const char *place, struct err *e)
{
	int fd;

	if (s->held < 0 || !is_plain(place))
		return err_set(e, ERR_PROTOCOL, "no place for a checkpoint: \"%.40s\"", place);
	if (mkdirat(s->held, place, 0700) < 0)
		return err_sys(e, errno, "folder of held checkpoints");
	fd = openat(s->held, place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, errno, "folder of held checkpoints") : fd;
}

static int copy_entry_to(struct copy *c, int from, const char *entry, int to, struct err *e)
{
	const char *slash = strrchr(entry, '/'), *name = slash ? slash + 1 : entry;
	cleanup_free char *above = slash ? xstrndup(entry, (size_t)(slash - entry)) : xstrdup(".");
	cleanup_close int source = fs_open_below(from, above, O_RDONLY | O_DIRECTORY, 0);
	cleanup_close int parent = open_parent(fcntl(to, F_DUPFD_CLOEXEC, 3), entry, e);

	if (parent < 0)
		return -1;
	if (source < 0)
		return err_sys(e, errno, "%s", entry);
	return copy_at(c, source, name, entry, parent, e);
}

static int hold_entry(struct server *s, const struct files_msg *m, int from, struct files_msg *reply,
                      struct err *e)
{
	const char *entry = m->texts[1], *place = m->texts[2];
	struct copy c = {.step = server_step, .arg = s, .hard_links = m->v[1] != 0};
	uint64_t print = 0;
	int to;

	if (print_of(s, from, entry, &print) < 0 || print != m->v[0])
		return err_set(e, ERR_CONFLICT, "%s has changed", entry);
	to = open_place(s, place, e);
	if (to < 0)
		return -1;
	if (copy_entry_to(&c, from, entry, to, e) < 0) {
		close(to);
		return -1;
	}
	reply->v[1] = c.bytes;
	reply->v[2] = c.files;
	print_of(s, s->held, place, &reply->v[3]);
	close(to);
	if (print_of(s, from, entry, &print) == 0 && print == m->v[0])
		return 0;
	return err_set(e, ERR_CONFLICT, "%s changed while it was held", entry);
}

int serve_hold(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	cleanup_close int from = server_open_below(m, m->texts[0], e);
	struct err ignored;

	if (from < 0)
		return -1;
	if (hold_entry(s, m, from, reply, e) == 0)
		return 0;
	drop_held(s, m->texts[2], &ignored);
	return -1;
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

	if (held && (s->held < 0 || !is_plain(what)))
		return err_set(e, ERR_PROTOCOL, "no held checkpoint \"%.40s\"", what);
	fd = held ? openat(s->held, what, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
	          : fs_open_named(AT_FDCWD, what, O_RDONLY, &info, e);
	if (fd < 0)
		return held ? err_sys(e, errno, "held checkpoint %s", what) : -1;
	if (digest_of(s, fd, what, &st, s->digest, e) < 0)
		return -1;
	if (held)
		print_of(s, s->held, what, &reply->v[3]);
	reply->texts[1] = s->digest;
	reply->v[1] = st.bytes;
	reply->v[2] = st.files;
	return 0;
}

/* ---- copies outside of the node ----------------------------------------------------------------------- */

struct outside {
	char *dest, *part, *manifest, *manifest_part;
};

static void outside_fini(struct outside *o)
{
	free(o->dest);
	free(o->part);
	free(o->manifest);
	free(o->manifest_part);
}

/* Paths below the working folder; makes the folder above them. */
static int outside_init(struct outside *o, const char *where, struct err *e)
{
	const char *slash = strrchr(where, '/');
	cleanup_free char *above = slash ? xstrndup(where, (size_t)(slash - where)) : xstrdup(".");

	o->dest = xstrdup(where);
	o->part = xasprintf("%s/.%s.part", above, slash ? slash + 1 : where);
	o->manifest = xasprintf("%s.manifest", where);
	o->manifest_part = xasprintf("%s/.%s.manifest", above, slash ? slash + 1 : where);
	return fs_mkdir_p(above, 0755, e);
}

static int remove_tree(const char *path, struct err *e)
{
	return access(path, F_OK) < 0 && errno == ENOENT ? 0 : fs_rm_rf(path, e);
}

static int copy_out(struct server *s, const char *place, const struct outside *o, struct copy *c,
                    struct err *e)
{
	cleanup_close int to = -1;
	int from = openat(s->held, place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (from < 0)
		return err_sys(e, errno, "held checkpoint %s", place);
	if (remove_tree(o->part, e) == 0 && mkdir(o->part, 0755) == 0)
		to = open(o->part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to < 0) {
		close(from);
		return err_sys(e, errno, "%s", o->part);
	}
	if (copy_open(c, from, place, to, NULL, e) < 0)
		return -1;
	return fsync(to) < 0 ? err_sys(e, errno, "%s", o->part) : 0;
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
	struct outside o = {0};
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
	if (rc < 0)
		remove_tree(o.part, &ignored);
	outside_fini(&o);
	return rc;
}

int serve_kept(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	struct copy c = {.step = server_step, .arg = s, .sync = 1};
	cleanup_close int out = -1;
	int rc;

	if (s->held < 0 || !is_plain(m->texts[0]) || strstr(m->texts[2], ".."))
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
	return rc < 0 ? err_wrap(e, "%s", m->texts[1]) : 0;
}

/* ---- drop ------------------------------------------------------------------------------------------- */

/* The manifest goes first: what a broken removal leaves does not count as a copy. */
static int drop_copy(const char *path, struct err *e)
{
	cleanup_free char *manifest = xasprintf("%s.manifest", path);

	if (unlink(manifest) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "%s", manifest);
	return remove_tree(path, e);
}

int serve_drop(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	(void)reply;
	if (m->texts[0][0] && drop_held(s, m->texts[0], e) < 0)
		return -1;
	return m->texts[1][0] == '/' ? drop_copy(m->texts[1], e) : 0;
}
