/*
 * bundle: see bundle.h.
 *
 * Upload: jobctl reads the folder once and collects chunks in memory, up to a bound. It asks hearthd which
 * of them are missing, and sends those in order, the manifest last. A large folder thus needs no disk space,
 * and no second reading that might see another state.
 *
 * Download: chunks go to a private folder in the target, and each is checked by its digest. The tree is
 * written when all are complete, so an interrupted download leaves no partial files.
 */
#include "jobctl/client/bundle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "jobctl/client/ignore.h"
#include "jobctl/client/interrupt.h"
#include "jobctl/client/progress.h"

#define BATCH_BYTES  (32u * 1024 * 1024)
#define BATCH_CHUNKS 1000
#define MEASURE_DEEP 64

/* ---- upload ------------------------------------------------------------------------------------- */

struct piece {
	char digest[HASH_HEX_SIZE];
	char *data;
	size_t n;
};

struct upload {
	struct client *c; /* NULL: nothing is sent */
	struct bundle_report *r;
	const char *tree; /* digest of the manifest, as soon as it is known */
	struct piece *v;
	size_t n, bytes;
	uint64_t done;
	struct progress progress;
};

static void drop_pieces(struct upload *u)
{
	for (size_t i = 0; i < u->n; i++)
		free(u->v[i].data);
	u->n = u->bytes = 0;
}

/* Sends one blob in parts of at most TREE_CHUNK_MAX. */
static int send_blob(struct upload *u, const struct piece *p, struct err *e)
{
	size_t off = 0;
	do {
		size_t k = p->n - off < TREE_CHUNK_MAX ? p->n - off : TREE_CHUNK_MAX;
		char *path = xasprintf("/blobs/%s?offset=%zu&size=%zu", p->digest, off, p->n);
		int rc = client_put(u->c, path, p->data + off, k, e);
		free(path);
		if (rc)
			return -1;
		off += k;
	} while (off < p->n);
	return 0;
}

static int is_listed(const cJSON *list, const char *digest)
{
	const cJSON *d;
	cJSON_ArrayForEach (d, list) {
		if (cJSON_IsString(d) && strcmp(d->valuestring, digest) == 0)
			return 1;
	}
	return 0;
}

/* Asks which of the collected pieces hearthd lacks, sends those, and frees all. */
static int send_pieces(struct upload *u, struct err *e)
{
	cJSON *body = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(body, "digests"), *answer = NULL;
	const cJSON *missing = NULL;
	int rc = 0;
	for (size_t i = 0; i < u->n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(u->v[i].digest));
	if (u->n)
		rc = client_call(u->c, "POST", "/blobs/missing", body, &answer, e);
	if (!rc && u->n)
		rc = json_get_arr(answer, "the answer of /blobs/missing", "missing", &missing, e);
	for (size_t i = 0; !rc && i < u->n; i++) {
		if (is_listed(missing, u->v[i].digest)) {
			rc = u->r->only_ask ? 0 : send_blob(u, &u->v[i], e);
			u->r->sent_bytes += strcmp(u->v[i].digest, u->tree) != 0 ? u->v[i].n : 0;
		}
		u->done += u->v[i].n;
		progress_update(&u->progress, u->done);
	}
	drop_pieces(u);
	cJSON_Delete(answer);
	cJSON_Delete(body);
	return rc;
}

static int collect_piece(const char *digest, const void *data, size_t n, struct upload *u, struct err *e)
{
	if ((u->n == BATCH_CHUNKS || u->bytes + n > BATCH_BYTES) && send_pieces(u, e))
		return -1;
	struct piece *p = &u->v[u->n++];
	memcpy(p->digest, digest, HASH_HEX_SIZE);
	p->data = xmemdup(data, n ? n : 1);
	p->n = n;
	u->bytes += n;
	return 0;
}

static int take_chunk(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	struct upload *u = arg;
	if (interrupted())
		return err_set(e, ERR_TIMEOUT, "interrupted");
	if (u->r->chunk && u->r->chunk(digest, data, n, u->r->arg, e) < 0)
		return -1;
	return u->c ? collect_piece(digest, data, n, u, e) : 0;
}

struct measure {
	const char *root;
	char *rel; /* path of the present folder, "" for the root */
	unsigned depth;
	struct ignore *ig;
	uint64_t bytes;
};

/* Adds up sizes for the progress bar; the scan reports what cannot be read. */
static int measure_entry(const char *name, void *arg)
{
	struct measure *m = arg;
	char *rel = xasprintf("%s%s%s", m->rel, *m->rel ? "/" : "", name),
	     *path = xasprintf("%s/%s", m->root, rel);
	struct stat st;
	if (!lstat(path, &st) && !ignore_skip(rel, S_ISDIR(st.st_mode), m->ig)) {
		if (S_ISREG(st.st_mode))
			m->bytes += (uint64_t)st.st_size;
		if (S_ISDIR(st.st_mode) && m->depth < MEASURE_DEEP) {
			struct measure sub = {m->root, rel, m->depth + 1, m->ig, 0};
			fs_each(path, measure_entry, &sub, NULL);
			m->bytes += sub.bytes;
		}
	}
	free(path);
	free(rel);
	return interrupted() ? -1 : 0;
}

static uint64_t measure_folder(const char *dir, struct ignore *ig)
{
	char top[] = "";
	struct measure m = {dir, top, 0, ig, 0};
	if (progress_wanted())
		fs_each(dir, measure_entry, &m, NULL);
	return m.bytes;
}

/* Refuses a bad source folder as wrong usage, whatever errno says. */
static int check_source(const char *dir, struct err *e)
{
	struct stat st;
	if (stat(dir, &st))
		return err_set(e, ERR_INVALID, "source_dir: %s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "source_dir: %s is not a directory", dir);
	return 0;
}

int bundle_upload(struct client *c, const char *dir, char digest[HASH_HEX_SIZE], struct bundle_report *r,
                  struct err *e)
{
	struct ignore ig = {{0}};
	struct upload u = {.c = c, .r = r, .tree = digest};
	int rc = -1;
	if (check_source(dir, e) || ignore_read(&ig, dir, e)) {
		ignore_fini(&ig);
		return -1;
	}
	digest[0] = 0;
	u.v = xcalloc(BATCH_CHUNKS, sizeof(*u.v));
	progress_start(&u.progress, c && !r->only_ask ? "uploading" : "reading", measure_folder(dir, &ig));
	if (tree_scan(dir, ignore_skip, &ig, take_chunk, &u, &r->manifest, &r->manifest_n, digest, NULL,
	              &r->left_out, e))
		err_wrap(e, "source_dir %s", dir);
	else
		rc = c && (collect_piece(digest, r->manifest, r->manifest_n, &u, e) || send_pieces(&u, e)) ? -1 : 0;
	progress_end(&u.progress);
	drop_pieces(&u);
	free(u.v);
	ignore_fini(&ig);
	return rc;
}

/* ---- download ----------------------------------------------------------------------------------- */

int bundle_get_blob(struct client *c, const char *digest, const char *query, size_t max, char **data,
                    size_t *n, struct err *e)
{
	char *path = xasprintf("/blobs/%s?%s", digest, query), real[HASH_HEX_SIZE];
	int rc = client_get(c, path, max, data, n, e);
	free(path);
	if (rc)
		return -1;
	hash_hex(*data, *n, real);
	if (strcmp(real, digest) == 0)
		return 0;
	free(*data);
	*data = NULL;
	return err_set(e, ERR_PROTOCOL, "the controller sent bytes that do not match the digest %s", digest);
}

static int get_chunks(struct client *c, const char *query, const char *manifest, size_t n, const char *spool,
                      struct err *e)
{
	struct tree_stats st;
	struct progress p;
	char **chunks = NULL;
	size_t count = 0;
	uint64_t done = 0;
	if (tree_measure(manifest, n, &st, e) || tree_chunks(manifest, n, &chunks, &count, e))
		return -1;
	int rc = 0;
	progress_start(&p, "downloading", st.bytes);
	for (size_t i = 0; i < count; i++) {
		char *data = NULL;
		size_t k = 0;
		if (!rc)
			rc = bundle_get_blob(c, chunks[i], query, TREE_CHUNK_MAX, &data, &k, e);
		if (!rc)
			rc = blob_cache(spool, chunks[i], data, k, e);
		done += k;
		progress_update(&p, done);
		free(data);
		free(chunks[i]);
	}
	progress_end(&p);
	free(chunks);
	return rc;
}

int bundle_download(struct client *c, const char *digest, const char *query, const char *dir, struct err *e)
{
	char *manifest = NULL, *spool = xasprintf("%s/.hearth-get-XXXXXX", dir);
	size_t n = 0;
	struct tree_stats st;
	if (!hash_is_hex(digest)) {
		free(spool);
		return err_set(e, ERR_PROTOCOL, "the controller sent '%.80s', which is not a digest", digest);
	}
	int rc = bundle_get_blob(c, digest, query, TREE_MANIFEST_MAX, &manifest, &n, e);
	if (!rc)
		rc = fs_mkdir_p(dir, 0755, e);
	if (!rc && !mkdtemp(spool)) {
		rc = err_sys(e, errno, "%s", spool);
	} else if (!rc) {
		rc = get_chunks(c, query, manifest, n, spool, e);
		if (!rc)
			rc = tree_extract(manifest, n, spool, dir, &st, e);
		fs_rm_rf(spool, NULL);
	}
	free(manifest);
	free(spool);
	return rc;
}

int bundle_copy(const char *uri, const char *dir, struct err *e)
{
	if (strncmp(uri, "file://", 7) != 0)
		return err_set(e, ERR_UNSUPPORTED, "jobctl cannot fetch from %s; fetch it with another program", uri);
	if (fs_mkdir_p(dir, 0755, e) < 0)
		return -1;
	if (fs_copy_tree(uri + 7, dir, e) < 0)
		return err_wrap(e, "it is at %s on the cluster's nodes", uri);
	return 0;
}

static int check_digest(const char *dir, const char *digest, const char *uri, struct err *e)
{
	char *manifest = NULL, real[HASH_HEX_SIZE];
	struct tree_stats st;
	uint64_t special;
	size_t n;

	if (tree_scan(dir, NULL, NULL, NULL, NULL, &manifest, &n, real, &st, &special, e) < 0)
		return -1;
	free(manifest);
	if (strcmp(real, digest) == 0)
		return 0;
	return err_set(e, ERR_IO, "the copy at %s does not match the digest that hearthd has of it (%.12s)", uri,
	               digest);
}

struct mover {
	const char *from, *to;
	struct err *e;
};

static int move_entry(const char *name, void *arg)
{
	const struct mover *m = arg;
	char *from = xasprintf("%s/%s", m->from, name), *to = xasprintf("%s/%s", m->to, name);
	int rc = 0;

	if (access(to, F_OK) == 0)
		rc = err_set(m->e, ERR_CONFLICT, "%s exists; choose another directory, or remove it first", to);
	else if (rename(from, to) < 0)
		rc = err_sys(m->e, errno, "%s", to);
	free(from);
	free(to);
	return rc;
}

/* Through a private folder: a copy that is damaged or cut off leaves nothing. */
int bundle_copy_checked(const char *uri, const char *digest, const char *dir, struct err *e)
{
	char *spool = xasprintf("%s/.hearth-get-XXXXXX", dir);
	struct mover m = {spool, dir, e};
	int rc = fs_mkdir_p(dir, 0755, e);

	if (rc == 0 && !mkdtemp(spool)) {
		rc = err_sys(e, errno, "%s", spool);
	} else if (rc == 0) {
		rc = bundle_copy(uri, spool, e);
		if (rc == 0)
			rc = check_digest(spool, digest, uri, e);
		if (rc == 0)
			rc = fs_each(spool, move_entry, &m, e);
		fs_rm_rf(spool, NULL);
	}
	free(spool);
	return rc;
}
