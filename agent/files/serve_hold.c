/*
 * serve_hold: puts a checkpoint where the job cannot change it, and checks it against its hearth.json.
 *
 *   HOLD  texts: folder below fd, entry, place; v: print of the entry, 1: hard links will do, 2: the entry is
 *         the rank name of several (listing_rank_name), 3: most bytes
 *         -> v: 1 bytes, 2 files, 3 print in its place. ERR_CONFLICT: the entry has changed meanwhile
 *
 * An entry with a link that leaves it, or with something else than files, folders and links, is refused: its
 * copies would lack that file. Links of the same folder that name the entry are held with it: a program that
 * finds its newest checkpoint by such a link finds it after a restore.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/base/copy.h"
#include "agent/files/serve_int.h"
#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"

#define LINKS_MAX    16
#define FREE_PART    20 /* one in so many bytes of the disk stays free */
#define MANIFEST     "hearth.json"
#define MANIFEST_MAX (16u * 1024 * 1024)
#define DEPTH_MAX    32
#define BUFFER       (256u * 1024)

int server_is_name(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

int server_drop_held(struct server *s, const char *place, struct err *e)
{
	cleanup_free char *path = xasprintf("/proc/self/fd/%d/%s", s->held, place);

	if (s->held < 0 || !server_is_name(place))
		return err_set(e, ERR_PROTOCOL, "no held checkpoint \"%.40s\"", place);
	return fs_rm_rf(path, e);
}

/* ---- entries ---------------------------------------------------------------------------------------- */

static int is_member(const char *entry, int ranks, const char *name)
{
	cleanup_free char *own = ranks ? listing_rank_name(name) : NULL;

	return strcmp(own ? own : ranks ? "" : name, entry) == 0;
}

/* fn(open folder, name, arg) for each entry of the folder; ends with the first that is not 0. */
static int each_name(int folder, int (*fn)(int folder, const char *name, void *arg), void *arg)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
	const struct dirent *one;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while (rc == 0 && (one = readdir(d)))
		if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0)
			rc = fn(folder, one->d_name, arg);
	closedir(d);
	return rc;
}

struct printing {
	struct server *s;
	const char *entry;
	uint64_t print, items;
	struct server_size *size;
};

/* The others of the folder may go with their own checkpoint, so a link to one of them leaves this one, too.
 */
static char *describe_odd(const struct listing *l, const struct listing_item *it)
{
	size_t root = strlen(l->items[0].path);
	const char *path = str_valid_utf8(it->path, strlen(it->path)) ? it->path : "an entry of it";

	if (it->type == 's')
		return xasprintf("%s is a FIFO, socket or device", path);
	if (it->type == 'l' && (!it->text || it == l->items || !tree_link_ok(it->path + root + 1, it->text)))
		return xasprintf("the link %s leaves the checkpoint; put the file itself there", path);
	return NULL;
}

static void add_size(const struct listing *l, struct server_size *size)
{
	for (size_t i = 0; size && i < l->n; i++) {
		size->bytes += l->items[i].type == 'f' ? l->items[i].size : 0;
		if (!size->odd)
			size->odd = describe_odd(l, &l->items[i]);
	}
}

static int print_member(int folder, const char *name, void *arg)
{
	struct printing *p = arg;
	struct listing l = {0};
	int rc;

	if (!is_member(p->entry, 1, name))
		return 0;
	rc = server_list_entry(p->s, folder, name, &l);
	if (rc == 0) {
		p->print += listing_part_print(&l, 0);
		p->items += l.n;
		add_size(&l, p->size);
	}
	rc = rc < 0 && l.n ? 1 : 0; /* one that has gone since is missing in the print */
	listing_fini(&l);
	return rc || p->items > LISTING_ITEMS;
}

int server_print(struct server *s, int at, const char *entry, int ranks, uint64_t *print,
                 struct server_size *size)
{
	struct printing p = {.s = s, .entry = entry, .size = size};
	struct listing l = {0};
	int rc;

	if (ranks) {
		rc = each_name(at, print_member, &p);
		*print = p.print;
		return rc == 0 && p.items ? 0 : rc > 0 ? 1 : -1;
	}
	rc = server_list_entry(s, at, entry, &l);
	if (rc == 0) {
		*print = listing_print(&l, 0);
		add_size(&l, size);
	} else {
		rc = l.n ? 1 : -1;
	}
	listing_fini(&l);
	return rc;
}

/* ---- hold ------------------------------------------------------------------------------------------- */

struct holding {
	struct server *s;
	struct copy copy;
	const char *name; /* of the entry in its folder */
	int ranks, to;
	unsigned links;
	struct err e;
};

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

/* What an agent that was killed has left there is in no index. */
static int open_place(struct server *s, const char *place, struct err *e)
{
	int fd, rc;

	if (s->held < 0 || !server_is_name(place))
		return err_set(e, ERR_PROTOCOL, "no place for a checkpoint: \"%.40s\"", place);
	rc = mkdirat(s->held, place, 0700);
	if (rc < 0 && errno == EEXIST) {
		if (server_drop_held(s, place, e) < 0)
			return -1;
		rc = mkdirat(s->held, place, 0700);
	}
	if (rc < 0)
		return err_sys(e, errno, "folder of held checkpoints");
	fd = openat(s->held, place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, errno, "folder of held checkpoints") : fd;
}

/* A link whose target is a name in its own folder, and a part of the checkpoint. */
static void hold_link(struct holding *h, int folder, const char *name)
{
	char target[256];
	ssize_t n = readlinkat(folder, name, target, sizeof(target) - 1);

	if (n <= 0 || h->links == LINKS_MAX)
		return;
	target[n] = '\0';
	if (is_member(h->name, h->ranks, target) && symlinkat(target, h->to, name) == 0)
		h->links++;
}

static int hold_name(int folder, const char *name, void *arg)
{
	struct holding *h = arg;
	struct stat st;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISLNK(st.st_mode))
		hold_link(h, folder, name);
	else if (is_member(h->name, h->ranks, name))
		return copy_at(&h->copy, folder, name, name, h->to, &h->e);
	return 0;
}

static int check_room(const struct server *s, const struct files_msg *m, uint64_t bytes, struct err *e)
{
	uint64_t most = m->v[3];
	struct statvfs fs;
	char a[32], b[32];

	if (most && bytes > most)
		return err_set(e, ERR_LIMIT,
		               "it has %s, and this node may hold %s for this job (hearth-agent --held-limit)",
		               str_size(bytes, a, sizeof(a)), str_size(most, b, sizeof(b)));
	if (!m->v[1] && fstatvfs(s->held, &fs) == 0 &&
	    (uint64_t)fs.f_bavail * fs.f_frsize < bytes + (uint64_t)fs.f_blocks * fs.f_frsize / FREE_PART)
		return err_set(e, ERR_NOSPACE, "it has %s, and %s are free on the disk of this node",
		               str_size(bytes, a, sizeof(a)),
		               str_size((uint64_t)fs.f_bavail * fs.f_frsize, b, sizeof(b)));
	return 0;
}

/* -1: it has changed, is too large, or would not be whole, and why. */
static int check_entry(struct server *s, const struct files_msg *m, int folder, const char *name,
                       struct err *e)
{
	struct server_size size = {0};
	uint64_t print = 0;
	int rc = server_print(s, folder, name, m->v[2] != 0, &print, &size);
	cleanup_free char *odd = size.odd;

	if (rc > 0)
		return err_set(e, ERR_LIMIT, "it has more than %u files", LISTING_ITEMS);
	if (rc < 0)
		return err_set(e, ERR_NOT_FOUND, "%s is gone", name);
	if (print != m->v[0])
		return err_set(e, ERR_CONFLICT, "%s has changed", name);
	if (odd)
		return err_set(e, ERR_INVALID, "%s", odd);
	return check_room(s, m, size.bytes, e);
}

static int copy_entry(struct server *s, const struct files_msg *m, int folder, struct holding *h,
                      struct err *e)
{
	int to = open_place(s, m->texts[2], e);

	h->to = to < 0 ? -1 : open_parent(fcntl(to, F_DUPFD_CLOEXEC, 3), m->texts[1], e);
	if (to >= 0)
		close(to);
	if (h->to < 0)
		return -1;
	if (each_name(folder, hold_name, h) != 0)
		return h->e.code ? err_set(e, h->e.code, "%s", h->e.text) : err_sys(e, errno, "%s", m->texts[1]);
	return 0;
}

static int hold_entry(struct server *s, const struct files_msg *m, int from, struct files_msg *reply,
                      struct err *e)
{
	const char *entry = m->texts[1], *slash = strrchr(entry, '/');
	cleanup_free char *above = slash ? xstrndup(entry, (size_t)(slash - entry)) : xstrdup(".");
	cleanup_close int folder = fs_open_below(from, above, O_RDONLY | O_DIRECTORY, 0);
	struct holding h = {.s = s,
	                    .copy = {.step = server_step, .arg = s, .hard_links = m->v[1] != 0},
	                    .name = slash ? slash + 1 : entry,
	                    .ranks = m->v[2] != 0,
	                    .to = -1};
	uint64_t print = 0;
	int rc;

	if (folder < 0)
		return err_set(e, ERR_NOT_FOUND, "%s is gone", entry);
	if (check_entry(s, m, folder, h.name, e) < 0)
		return -1;
	rc = copy_entry(s, m, folder, &h, e);
	if (h.to >= 0)
		close(h.to);
	if (rc < 0)
		return -1;
	reply->v[1] = h.copy.bytes;
	reply->v[2] = h.copy.files;
	server_print(s, s->held, m->texts[2], 0, &reply->v[3], NULL);
	if (server_print(s, folder, h.name, h.ranks, &print, NULL) == 0 && print == m->v[0])
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
	server_drop_held(s, m->texts[2], &ignored);
	return -1;
}

/* ---- hearth.json ------------------------------------------------------------------------------------ */

static int digest_file(struct server *s, int fd, char digest[HASH_HEX_SIZE], struct err *e)
{
	struct hash_ctx *h = hash_start();
	cleanup_free char *buf = xmalloc(BUFFER);
	ssize_t n;
	int rc = 0;

	while (rc == 0 && (n = read(fd, buf, BUFFER)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = err_sys(e, errno, "read");
		else if (server_step((uint64_t)n, s) < 0)
			rc = err_set(e, ERR_UNAVAILABLE, "cancelled");
		else
			hash_add(h, buf, (size_t)n);
	}
	hash_end_hex(h, digest);
	return rc;
}

static int check_file(struct server *s, int folder, const cJSON *file, struct err *e)
{
	const char *want = json_str_or(file, "sha256", NULL);
	char digest[HASH_HEX_SIZE];
	cleanup_close int fd = -1;

	if (!want)
		return 0;
	fd = fs_open_below(folder, file->string, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return err_set(e, ERR_IO, "%s, which its " MANIFEST " names, is missing", file->string);
	if (digest_file(s, fd, digest, e) < 0)
		return -1;
	return strcasecmp(digest, want) == 0
	           ? 0
	           : err_set(e, ERR_IO, "%s has another sha256 than its " MANIFEST " says", file->string);
}

static int check_manifest(struct server *s, int folder, struct err *e)
{
	cleanup_close int fd = fs_open_below(folder, MANIFEST, O_RDONLY | O_NONBLOCK, 0);
	cleanup_free char *text = NULL;
	const cJSON *one;
	cJSON *json;
	size_t n = 0;
	int rc = 0;

	if (fd < 0 || fs_read_fd(fd, MANIFEST, MANIFEST_MAX, &text, &n, e) < 0)
		return 0;
	json = json_parse(text, n, NULL);
	cJSON_ArrayForEach (one, cJSON_GetObjectItemCaseSensitive(json, "files"))
		if (rc == 0 && one->string)
			rc = check_file(s, folder, one, e);
	cJSON_Delete(json);
	return rc;
}

struct checking {
	struct server *s;
	int depth;
	struct err e;
};

static int check_below(int folder, const char *name, void *arg)
{
	struct checking *c = arg;
	struct stat st;
	cleanup_close int fd = -1;
	int rc;

	if (strcmp(name, MANIFEST) == 0)
		return check_manifest(c->s, folder, &c->e);
	if (c->depth >= DEPTH_MAX || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return 0;
	c->depth++;
	rc = each_name(fd, check_below, c);
	c->depth--;
	return rc;
}

int serve_check(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	struct checking c = {.s = s};
	cleanup_close int fd = -1;

	(void)reply;
	if (s->held < 0 || !server_is_name(m->texts[0]))
		return err_set(e, ERR_PROTOCOL, "no held checkpoint \"%.40s\"", m->texts[0]);
	fd = openat(s->held, m->texts[0], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "held checkpoint %s", m->texts[0]);
	if (each_name(fd, check_below, &c) != 0 && c.e.code)
		return err_set(e, c.e.code, "%s", c.e.text);
	return 0;
}
