/*
 * input: one channel of a job's inputs into ml/input/data/CHANNEL.
 *
 * - file://: a copy, or a link to it, which the container makes visible (DATA/jobs/J.A/links)
 * - http(s): through DATA/cache/inputs; with a checksum the network is not asked again, else the server is
 *   asked whether the file changed
 * - job:ID/K: a tree of hearthd, or the file:// folder of that job
 *
 * The kernel decides whether the job's account may read a file.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/child.h"
#include "agent/base/copy.h"
#include "agent/stage/fetch.h"
#include "agent/stage/stage_int.h"
#include "common/base/hash.h"
#include "common/base/strutil.h"
#include "common/os/fsutil.h"

#define META_MAX   1024
#define UNPACK_MS  (6u * 3600 * 1000)
#define SIZE_EVERY 2 /* seconds between two looks at what tar has written */

/* ---- archives ---------------------------------------------------------------------------------------------
 */

struct unpacking {
	struct stage *s;
	const char *dir;
	unsigned ticks;
	struct err why;
};

static void tar_output(const char *p, size_t n, void *arg)
{
	stage_bytes(((struct unpacking *)arg)->s, p, n);
}

static int tar_tick(uint64_t silent_ms, void *arg)
{
	struct unpacking *u = arg;
	uint64_t left;
	int64_t used;

	(void)silent_ms;
	if (stage_step(u->s, 0) < 0)
		return err_set(&u->why, ERR_UNAVAILABLE, "cancelled");
	if (++u->ticks % SIZE_EVERY)
		return 0;
	used = fs_tree_bytes(u->dir, NULL);
	u->s->done = used > 0 ? (uint64_t)used : u->s->done;
	if (stage_left(u->s, &left) && used > 0 && (uint64_t)used > left)
		return err_set(&u->why, ERR_LIMIT, "the archive's contents pass the job's disk limit");
	return 0;
}

static const char *tar_filter(int fd)
{
	unsigned char magic[6] = {0};

	if (pread(fd, magic, sizeof(magic), 0) < 0)
		return NULL;
	if (magic[0] == 0x1f && magic[1] == 0x8b)
		return "--gzip";
	if (memcmp(magic, "BZh", 3) == 0)
		return "--bzip2";
	if (memcmp(magic,
	           "\xfd"
	           "7zXZ",
	           5) == 0)
		return "--xz";
	if (memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0)
		return "--zstd";
	return NULL;
}

/* From an open file, so that tar need not be allowed to open it. GNU tar refuses "..", strips leading '/' and
 * makes links last. */
static int unpack_archive(struct stage *s, int fd, const char *shown, const char *dir, struct err *e)
{
	static char *const envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", NULL};
	const char *argv[8] = {"/bin/tar", "--extract", "--file=-", "--no-same-owner", "--no-same-permissions"};
	struct unpacking u = {.s = s, .dir = dir};
	struct child c = {.argv = argv,
	                  .envp = envp,
	                  .cwd = dir,
	                  .user = s->as_user ? &s->user : NULL,
	                  .stdin_fd = fd,
	                  .timeout_ms = UNPACK_MS,
	                  .output = tar_output,
	                  .tick = tar_tick,
	                  .arg = &u};
	const char *filter = tar_filter(fd);
	struct err why = {0};
	uint64_t left;
	int64_t used;

	argv[5] = filter;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, errno, "%s", shown);
	stage_say(s, "%s: unpacking", shown);
	if (child_run(&c, &why) < 0) {
		if (u.why.code)
			return err_set(e, u.why.code, "%s: %s", shown, u.why.text);
		return err_set(e, ERR_INVALID, "%s: cannot be unpacked: %s", shown,
		               c.last_line[0] ? c.last_line : why.text);
	}
	used = fs_tree_bytes(dir, NULL);
	if (used > 0 && stage_left(s, &left) && (uint64_t)used > left)
		return err_set(e, ERR_LIMIT, "%s: the archive's contents pass the job's disk limit", shown);
	s->bytes += used > 0 ? (uint64_t)used : 0;
	return 0;
}

/* into: an empty folder of the agent's. By descriptor: the way to it is closed to the account that tar runs
 * as.
 */
static int unpack_into(struct stage *s, int fd, const char *shown, int into, struct err *e)
{
	cleanup_free char *dir = xasprintf("/proc/self/fd/%d/.", into);

	return stage_give(s, into, e) < 0 ? -1 : unpack_archive(s, fd, shown, dir, e);
}

static int unpack_below(struct stage *s, int fd, const char *shown, const char *to, struct err *e)
{
	cleanup_close int made = stage_open_below(s, to, e);

	return made < 0 ? -1 : unpack_into(s, fd, shown, made, e);
}

/* ---- file:// ---------------------------------------------------------------------------------------------
 */

static int make_link(struct stage *s, const char *path, int at, const char *link, struct err *e)
{
	if (unlinkat(at, link, 0) < 0 && errno != ENOENT &&
	    (errno != EISDIR || unlinkat(at, link, AT_REMOVEDIR) < 0))
		return err_sys(e, errno, "%s", link);
	if (symlinkat(path, at, link) < 0)
		return err_sys(e, errno, "%s", link);
	if (s->as_user && fchownat(at, link, s->user.uid, s->user.gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "%s: owner", link);
	strv_add(&s->links, path);
	return 0;
}

static int link_file(struct stage *s, const char *path, const char *to, int is_folder, struct err *e)
{
	const char *channel = strrchr(to, '/');
	cleanup_free char *above = xstrndup(to, (size_t)(channel - to));
	cleanup_close int fd = stage_open_below(s, is_folder ? above : to, e);

	if (fd < 0)
		return -1;
	if (is_folder) /* the channel itself is the link */
		return make_link(s, path, fd, channel + 1, e);
	return make_link(s, path, fd, strrchr(path, '/') + 1, e) < 0 ? -1 : stage_give(s, fd, e);
}

static int from_file(struct stage *s, const struct stage_input *in, const char *path, const char *to,
                     struct err *e)
{
	struct files_info info;
	int fd, rc;

	if (files_look(s->files, path, &info, e) < 0)
		return -1;
	if (in->unpack && !info.is_folder) {
		fd = files_open(s->files, path, e);
		rc = fd < 0 ? -1 : unpack_below(s, fd, path, to, e);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	return in->link ? link_file(s, path, to, info.is_folder, e) : stage_files(s, path, to, -1, e);
}

/* ---- http(s)
 * ------------------------------------------------------------------------------------------------ */

static int http_step(uint64_t done, uint64_t total, void *arg)
{
	struct stage *s = arg;

	s->done = done;
	s->total = total;
	return stage_step(s, 0);
}
static int http_pause(uint32_t ms, void *arg)
{
	return worker_pause(((struct stage *)arg)->w, ms);
}
static void http_say(const char *line, void *arg)
{
	stage_say(arg, "%s", line);
}

/* Two lines: ETag, Last-Modified. */
static void read_meta(const char *dir, char etag[256], char modified[64])
{
	cleanup_free char *path = xasprintf("%s/meta", dir);
	char *text, *nl;
	size_t n;

	etag[0] = modified[0] = '\0';
	if (fs_read_file(path, META_MAX, &text, &n, NULL) < 0)
		return;
	nl = strchr(text, '\n');
	if (nl) {
		snprintf(etag, 256, "%.*s", (int)(nl - text), text);
		snprintf(modified, 64, "%.*s", (int)strcspn(nl + 1, "\n"), nl + 1);
	}
	free(text);
}

/* KEY/files/NAME: a folder, so that it can be shown to a job without a copy. */
static int keep_download(const char *part, const char *dir, const struct fetch *f, struct err *e)
{
	cleanup_free char *files = xasprintf("%s/files", dir), *name = fetch_name(f->url),
	                  *data = xasprintf("%s/%s", files, name), *meta = xasprintf("%s/meta", dir);
	cleanup_free char *part_meta = xasprintf("%s.meta", part),
	                  *text = xasprintf("%s\n%s\n", f->etag, f->modified);

	if (fs_replace(meta, text, strlen(text), 0600, e) < 0)
		return -1;
	if ((mkdir(files, 0755) < 0 && errno != EEXIST) || rename(part, data) < 0 || chmod(data, 0644) < 0)
		return err_sys(e, errno, "%s", data);
	unlink(part_meta);
	return 0;
}

/* Opens the cache's entry with the file in it, downloading what is not there. */
static int cached_download(struct stage *s, const struct stage_input *in, const char *kind, const char *key,
                           struct cache_entry *c, struct err *e)
{
	cleanup_free char *part = xasprintf("%s/%s.part", kind, key), *shown = fetch_shown(in->uri);
	char etag[256], modified[64];
	struct fetch f = {.url = in->uri,
	                  .sha256 = in->sha256,
	                  .part = part,
	                  .step = http_step,
	                  .pause = http_pause,
	                  .say = http_say,
	                  .arg = s};
	uint64_t left;

	if (cache_open(c, kind, key, 0700, stage_pause, s, e) < 0)
		return -1;
	if (c->complete && in->sha256) {
		stage_say(s, "%s: the copy on this node has the right checksum", shown);
		return 0;
	}
	if (stage_left(s, &left)) {
		f.limit = left;
		if (!left)
			return err_set(e, ERR_LIMIT, "%s: the job's disk limit is reached", shown);
	}
	if (s->ahead) {
		if (stage_room_ahead(s, &left, e) < 0)
			return -1;
		if (!left)
			return err_set(e, ERR_NOSPACE, "%s: too little of the disk would be left free", shown);
		f.limit = f.limit && f.limit < left ? f.limit : left;
	}
	if (c->complete) {
		read_meta(c->dir, etag, modified);
		f.if_etag = etag;
		f.if_modified = modified;
	}
	if (fetch_run(&f, e) < 0)
		return -1;
	if (f.unchanged) {
		stage_say(s, "%s: has not changed, the copy on this node is used", shown);
		return 0;
	}
	if (c->complete) { /* it is another file now */
		cache_close(c);
		if (cache_drop(kind, key, stage_pause, s, e) < 0 ||
		    cache_open(c, kind, key, 0700, stage_pause, s, e) < 0)
			return -1;
		if (c->complete) /* somebody else was as fast: theirs is as new */
			return 0;
	}
	stage_say(s, "%s: %" PRIu64 " bytes", shown, f.bytes);
	return keep_download(part, c->dir, &f, e) < 0 ? -1 : cache_commit(c, e);
}

static int copy_step(uint64_t bytes, void *arg)
{
	((struct stage *)arg)->bytes += bytes;
	return stage_step(arg, bytes);
}

/* A file without a checksum may change, and then the entry is removed: no layer on it. */
static int layer_download(struct stage *s, const struct stage_input *in, struct cache_entry *entry,
                          const char *files, const char *to, int fd, struct err *e)
{
	int rc = in->sha256 ? stage_layer(s, entry, files, to, e) : 0;

	return rc > 0 && stage_give(s, fd, e) < 0 ? -1 : rc;
}

static int deliver_entry(struct stage *s, const struct stage_input *in, struct cache_entry *entry,
                         const char *to, struct err *e)
{
	cleanup_free char *files = xasprintf("%s/files", entry->dir), *name = fetch_name(in->uri),
	                  *data = xasprintf("%s/%s", files, name), *shown = fetch_shown(in->uri);
	struct copy c = {
	    .step = copy_step, .arg = s, .set_owner = s->as_user, .uid = s->user.uid, .gid = s->user.gid};
	cleanup_close int fd = -1;
	int rc;

	if (in->unpack) {
		fd = open(data, O_RDONLY | O_CLOEXEC);
		return fd < 0 ? err_sys(e, errno, "%s", data) : unpack_below(s, fd, shown, to, e);
	}
	fd = stage_open_below(s, to, e);
	if (fd < 0)
		return -1;
	if (stage_left(s, &c.limit) && c.limit == 0)
		return err_set(e, ERR_LIMIT, "%s: the job's disk limit is reached", shown);
	s->done = 0;
	rc = layer_download(s, in, entry, files, to, fd, e);
	if (rc != 0)
		return rc > 0 ? 0 : -1;
	return copy_tree(&c, data, fd, name, e) < 0 ? -1 : stage_give(s, fd, e);
}

static int download(struct stage *s, const struct stage_input *in, struct cache_entry *c, struct err *e)
{
	cleanup_free char *kind = xasprintf("%s/cache/inputs", s->data_dir);
	/* Per account: an address may hold a password. */
	cleanup_free char *id =
	    xasprintf("files\n%s\n%s\n%u", in->uri, in->sha256 ? in->sha256 : "", s->as_user ? s->user.uid : 0);
	char key[HASH_HEX_SIZE];

	hash_hex(id, strlen(id), key);
	strv_addf(&s->uses, "inputs/%s", key);
	return cached_download(s, in, kind, key, c, e);
}

/* Downloads the archive and unpacks it into the entry. */
static int fill_unpacked(struct stage *s, const struct stage_input *in, struct cache_entry *u,
                         const char *files, struct err *e)
{
	cleanup_free char *name = fetch_name(in->uri), *shown = fetch_shown(in->uri), *data = NULL;
	cleanup_close int archive = -1, into = -1;
	struct cache_entry c = {.lock_fd = -1};
	uint64_t before = s->bytes; /* the delivery counts */
	int rc = download(s, in, &c, e);

	if (rc == 0) {
		data = xasprintf("%s/files/%s", c.dir, name);
		archive = open(data, O_RDONLY | O_CLOEXEC);
		if (mkdir(files, 0755) == 0)
			into = open(files, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		rc = archive < 0 || into < 0 ? err_sys(e, errno, "%s", archive < 0 ? data : files)
		                             : unpack_into(s, archive, shown, into, e);
	}
	cache_close(&c);
	s->bytes = before;
	return rc < 0 ? -1 : cache_commit(u, e);
}

static int deliver_unpacked(struct stage *s, struct cache_entry *u, const char *files, const char *to,
                            struct err *e)
{
	struct copy c = {
	    .step = copy_step, .arg = s, .set_owner = s->as_user, .uid = s->user.uid, .gid = s->user.gid};
	cleanup_close int fd = stage_open_below(s, to, e);
	int rc = fd < 0 ? -1 : stage_layer(s, u, files, to, e);

	if (rc == 0 && stage_left(s, &c.limit) && c.limit == 0)
		rc = err_set(e, ERR_LIMIT, "the job's disk limit is reached");
	if (rc == 0)
		rc = copy_into(&c, files, fd, e);
	return rc < 0 ? -1 : stage_give(s, fd, e);
}

/* An archive with a checksum is unpacked once, and jobs of the account then see its files without a copy. */
static int from_unpacked(struct stage *s, const struct stage_input *in, const char *to, struct err *e)
{
	cleanup_free char *kind = xasprintf("%s/cache/inputs", s->data_dir), *files = NULL,
	                  *id = xasprintf("unpacked\n%s\n%u", in->sha256, s->as_user ? s->user.uid : 0);
	struct cache_entry u = {.lock_fd = -1};
	char key[HASH_HEX_SIZE];
	int rc;

	hash_hex(id, strlen(id), key);
	strv_addf(&s->uses, "inputs/%s", key);
	if (cache_open(&u, kind, key, 0700, stage_pause, s, e) < 0)
		return -1;
	files = xasprintf("%s/files", u.dir);
	if (u.complete)
		stage_say(s, "the unpacked files on this node are of the right checksum");
	rc = u.complete ? 0 : fill_unpacked(s, in, &u, files, e);
	if (rc == 0)
		rc = deliver_unpacked(s, &u, files, to, e);
	cache_close(&u);
	return rc;
}

static int from_http(struct stage *s, const struct stage_input *in, const char *to, struct err *e)
{
	struct cache_entry c = {.lock_fd = -1};
	int rc;

	if (in->unpack && in->sha256 && stage_can_share(s))
		return from_unpacked(s, in, to, e);
	rc = download(s, in, &c, e);
	if (rc == 0)
		rc = deliver_entry(s, in, &c, to, e);
	cache_close(&c);
	return rc;
}

/* ---- all
 * ---------------------------------------------------------------------------------------------------- */

static int has_scheme(const char *uri, const char *scheme)
{
	return strncmp(uri, scheme, strlen(scheme)) == 0;
}

static int bring_input(struct stage *s, const struct stage_input *in, const char *to, struct err *e)
{
	const char *uri = in->uri;

	if (has_scheme(uri, "job:")) {
		if (!in->digest[0])
			return err_set(e, ERR_UNAVAILABLE, "%s: hearthd has no stored files for this address", uri);
		if (has_scheme(in->digest, "file://"))
			return from_file(s, in, in->digest + 7, to, e);
		strv_addf(&s->uses, "trees/%s", in->digest);
		return stage_tree(s, in->digest, to, NULL, e);
	}
	if (has_scheme(uri, "file://"))
		return from_file(s, in, uri + 7, to, e);
	if (has_scheme(uri, "http://") || has_scheme(uri, "https://"))
		return from_http(s, in, to, e);
	return err_set(e, ERR_INVALID, "%s: unknown kind of address; expected file://, http(s):// or job:ID/KIND",
	               uri);
}

int stage_one_input(struct stage *s, const struct stage_input *in)
{
	cleanup_free char *to = xasprintf("input/data/%s", in->name), *phase = xasprintf("input:%s", in->name);
	cleanup_free char *shown = fetch_shown(in->uri);
	struct err e = {0};
	int users_fault;

	stage_phase(s, phase, 0);
	stage_say(s, "input %s: %s%s", in->name, shown, in->link ? " (link)" : "");
	if (bring_input(s, in, to, &e) == 0)
		return 0;
	err_wrap(&e, "input %s", in->name);
	/* The job's owner can correct these: a path, a permission, a checksum. */
	users_fault = e.code == ERR_NOT_FOUND || e.code == ERR_DENIED || e.code == ERR_INVALID;
	return stage_fail(s, users_fault ? RC_USER_ERROR : RC_NONE, &e);
}

int stage_input_ahead(struct stage *s, const struct stage_input *in)
{
	cleanup_free char *phase = xasprintf("input:%s", in->name);
	struct cache_entry c = {.lock_fd = -1};
	struct err e = {0};
	int rc;

	if (!in->sha256 || (!has_scheme(in->uri, "http://") && !has_scheme(in->uri, "https://")))
		return 0;
	stage_phase(s, phase, 0);
	rc = download(s, in, &c, &e);
	cache_close(&c);
	return rc == 0 ? 0 : stage_fail(s, RC_NONE, &e);
}
