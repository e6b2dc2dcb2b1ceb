/*
 * serve_trees: requests about whole trees: copy one into a folder, measure one, cut one into chunks for
 * hearthd's store.
 *
 *   COPY     texts: path; v: limit in bytes (0 none), step after which entries are left out (-1: none are)
 *            -> v: 1 entries left out for their step, 2 sockets, FIFOs, devices left out
 *   MEASURE  texts: folder; v: 1: without `failure` -> v: 1 files and links, 2 bytes
 *   STORE    texts: folder; v: 1: without `failure` -> texts[1]: digest; v: 1 bytes, 2 files
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/copy.h"
#include "agent/files/serve_int.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/tree/steps.h"
#include "common/tree/tree.h"

#define DEPTH_MAX   128
#define BATCH_BYTES (32u * 1024 * 1024)

int server_is_failure(const char *relpath, uint64_t flag)
{
	return flag && strcmp(relpath, "failure") == 0;
}

/* ---- measure ---------------------------------------------------------------------------------------- */

struct meter {
	struct server *s;
	uint64_t files, bytes, flag;
};

static void measure_entry(struct meter *m, int at, const char *name, int depth);

/* Takes fd. What cannot be read is not counted: to copy it fails later, with its name. */
static void measure_folder(struct meter *m, int fd, int depth)
{
	DIR *d = fdopendir(fd);
	const struct dirent *one;

	if (!d) {
		close(fd);
		return;
	}
	while ((one = readdir(d)) && server_step(0, m->s) == 0)
		if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0 &&
		    !(depth == 0 && server_is_failure(one->d_name, m->flag)))
			measure_entry(m, dirfd(d), one->d_name, depth);
	closedir(d);
}

static void measure_entry(struct meter *m, int at, const char *name, int depth)
{
	struct stat st;
	int fd;

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) {
		m->files++;
		m->bytes += S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	} else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
		fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			measure_folder(m, fd, depth + 1);
	}
}

int serve_measure(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	struct meter meter = {.s = s, .flag = m->v[0]};
	int fd = server_open_below(m, m->texts[0], e);

	if (fd < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	measure_folder(&meter, fd, 0);
	if (s->stopped)
		return err_set(e, ERR_UNAVAILABLE, "cancelled");
	reply->v[1] = meter.files;
	reply->v[2] = meter.bytes;
	return 0;
}

/* ---- copy ------------------------------------------------------------------------------------------- */

struct copying {
	struct server *s;
	int64_t last;
	uint64_t later;
};

static int step_copy(uint64_t bytes, void *arg)
{
	return server_step(bytes, ((struct copying *)arg)->s);
}

static int skip_later(const char *relpath, void *arg)
{
	struct copying *c = arg;
	int later = steps_is_later(relpath, c->last);

	c->later += (uint64_t)later;
	return later;
}

static int tell_total(struct server *s, int fd, struct err *e)
{
	struct meter meter = {.s = s};
	struct files_msg m = {.type = FILES_PROGRESS, .fd = -1};
	int walk = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (walk >= 0)
		measure_folder(&meter, walk, 0);
	m.v[1] = meter.bytes;
	return files_send(&s->channel, &m, e);
}

int serve_copy(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	const char *path = m->texts[0], *name = strrchr(path, '/');
	struct copying k = {.s = s, .last = (int64_t)m->v[1]};
	struct copy c = {.step = step_copy, .arg = &k, .limit = m->v[0], .skip = skip_later};
	struct stat st;
	int in, rc;

	if (m->fd < 0)
		return err_set(e, ERR_PROTOCOL, "%s: no folder to copy it into", path);
	in = fs_open_named(AT_FDCWD, path, O_RDONLY, &st, e);
	if (in < 0)
		return -1;
	if (S_ISDIR(st.st_mode))
		rc = tell_total(s, in, e) < 0 ? close(in), -1 : copy_open(&c, in, path, m->fd, NULL, e);
	else
		rc = copy_open(&c, in, path, m->fd, name && name[1] ? name + 1 : "data", e);
	reply->v[1] = k.later;
	reply->v[2] = c.special;
	return rc;
}

/* ---- chunks for hearthd ------------------------------------------------------------------------------ */

struct batch {
	struct server *s;
	char digests[FILES_BATCH * (HASH_HEX_SIZE - 1)];
	char *data[FILES_BATCH];
	size_t sizes[FILES_BATCH];
	uint32_t n;
	size_t bytes;
	uint64_t flag;
};

static void empty_batch(struct batch *b)
{
	for (uint32_t i = 0; i < b->n; i++)
		free(b->data[i]);
	b->n = 0;
	b->bytes = 0;
}

static const char *digest_at(const struct batch *b, uint32_t i)
{
	return b->digests + (size_t)i * (HASH_HEX_SIZE - 1);
}

/* 1 for each chunk that hearthd lacks. */
static int ask_wanted(struct batch *b, uint8_t wanted[FILES_BATCH], struct err *e)
{
	struct files_msg m = {
	    .type = FILES_CHUNKS, .bytes = b->digests, .n_bytes = b->n * (HASH_HEX_SIZE - 1), .fd = -1};

	if (files_send(&b->s->channel, &m, e) < 0 || files_recv(&b->s->channel, -1, &m, e) < 0)
		return -1;
	if (m.fd >= 0)
		close(m.fd);
	if (m.type != FILES_WANTED || m.n_bytes != b->n)
		return err_set(e, ERR_PROTOCOL, "no answer about %u chunks", b->n);
	memcpy(wanted, m.bytes, b->n);
	return 0;
}

static int send_chunk(struct batch *b, uint32_t i, struct err *e)
{
	char digest[HASH_HEX_SIZE] = "";
	struct files_msg m = {.type = FILES_CHUNK, .texts = {digest}, .v = {b->sizes[i]}, .fd = -1};

	memcpy(digest, digest_at(b, i), HASH_HEX_SIZE - 1);
	return files_send(&b->s->channel, &m, e) < 0 ? -1 : server_send_data(b->s, b->data[i], b->sizes[i], e);
}

static int flush_batch(struct batch *b, struct err *e)
{
	uint8_t wanted[FILES_BATCH];
	int rc = b->n ? ask_wanted(b, wanted, e) : 0;

	for (uint32_t i = 0; i < b->n && rc == 0; i++) {
		if (wanted[i])
			rc = send_chunk(b, i, e);
		if (rc == 0 && server_step(b->sizes[i], b->s) < 0)
			rc = err_set(e, ERR_UNAVAILABLE, "cancelled");
	}
	empty_batch(b);
	return rc;
}

static int add_chunk(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	struct batch *b = arg;

	memcpy(b->digests + (size_t)b->n * (HASH_HEX_SIZE - 1), digest, HASH_HEX_SIZE - 1);
	b->data[b->n] = n ? xmemdup(data, n) : xstrdup("");
	b->sizes[b->n] = n;
	b->bytes += n;
	if (server_step(0, b->s) < 0) {
		b->n++;
		return err_set(e, ERR_UNAVAILABLE, "cancelled");
	}
	return ++b->n == FILES_BATCH || b->bytes >= BATCH_BYTES ? flush_batch(b, e) : 0;
}

static int skip_failure(const char *relpath, int is_dir, void *arg)
{
	(void)is_dir;
	return server_is_failure(relpath, ((const struct batch *)arg)->flag);
}

/* The texts of m go with the next message, the agent's answer. */
int serve_store(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	cleanup_free char *dir = xstrdup(m->texts[0]), *manifest = NULL;
	struct batch *b = xcalloc(1, sizeof(*b));
	struct tree_stats st = {0};
	uint64_t special = 0;
	size_t n = 0;
	int fd = server_open_below(m, dir, e), rc = -1;

	b->s = s;
	b->flag = m->v[0];
	if (fd >= 0)
		rc = tree_scan_open(fd, dir, skip_failure, b, add_chunk, b, &manifest, &n, s->digest, &st, &special,
		                    e);
	if (rc == 0)
		rc = flush_batch(b, e);
	empty_batch(b); /* of a scan that broke off */
	free(b);
	if (rc == 0)
		rc = server_send_data(s, manifest, n, e);
	reply->texts[1] = s->digest;
	reply->v[1] = st.bytes;
	reply->v[2] = st.files;
	return rc;
}
