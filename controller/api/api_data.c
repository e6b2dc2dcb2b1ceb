/*
 * api_data: blobs and artifacts.
 *
 * A digest opens nothing by itself. A user reads a blob that he uploaded himself, or one that an artifact of
 * a job refers to, named by job and kind; everybody may read every job. Each thread caches a few of the
 * manifests that such questions need, since a download asks for each chunk of one tree.
 */
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "common/tree/tree.h"
#include "controller/api/api_jobs.h"
#include "controller/api/download.h"
#include "controller/api/thread.h"
#include "controller/files/blobs/blobstore.h"
#include "controller/files/data_threads.h"
#include "controller/files/disk_space.h"
#include "controller/http/route.h"
#include "controller/io/ask.h"
#include "store/read/find.h"
#include "store/read/query.h"
#include "store/read/retain.h"

#define DIGESTS_MAX 10000
#define ENTRIES_MAX 100000
#define MANIFESTS   4u

/* ---- manifests -------------------------------------------------------------------------------- */

struct manifest {
	char digest[HASH_HEX_SIZE];
	char *text;
	size_t n;
	char **chunks; /* sorted */
	size_t n_chunks;
	uint64_t used;
};

struct manifests {
	struct manifest slot[MANIFESTS];
	uint64_t clock;
};

static void manifest_fini(struct manifest *m)
{
	size_t i;

	for (i = 0; i < m->n_chunks; i++)
		free(m->chunks[i]);
	free(m->chunks);
	free(m->text);
	memset(m, 0, sizeof(*m));
}

void manifests_free(struct manifests *ms)
{
	unsigned i;

	for (i = 0; ms && i < MANIFESTS; i++)
		manifest_fini(&ms->slot[i]);
	free(ms);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct manifest *manifest_get(struct io *io, const char *digest, struct err *e)
{
	struct manifest *m, *oldest;
	unsigned i;

	if (!io->api->manifests)
		io->api->manifests = xcalloc(1, sizeof(*io->api->manifests));
	oldest = &io->api->manifests->slot[0];
	for (i = 0; i < MANIFESTS; i++) {
		m = &io->api->manifests->slot[i];
		if (m->text && strcmp(m->digest, digest) == 0) {
			m->used = ++io->api->manifests->clock;
			return m;
		}
		if (m->used < oldest->used)
			oldest = m;
	}
	manifest_fini(oldest);
	if (blobstore_get(data_blobs(api_of(io)->data), NULL, digest, &oldest->text, &oldest->n, e) < 0) {
		oldest->text = NULL;
		return NULL;
	}
	if (tree_chunks(oldest->text, oldest->n, &oldest->chunks, &oldest->n_chunks, e) < 0) {
		oldest->n_chunks = 0;
		oldest->chunks = NULL;
		manifest_fini(oldest);
		return NULL;
	}
	qsort(oldest->chunks, oldest->n_chunks, sizeof(char *), by_text);
	snprintf(oldest->digest, sizeof(oldest->digest), "%s", digest);
	oldest->used = ++io->api->manifests->clock;
	return oldest;
}

static int manifest_has(const struct manifest *m, const char *digest)
{
	return bsearch(&digest, m->chunks, m->n_chunks, sizeof(char *), by_text) != NULL;
}

/* ---- artifacts -------------------------------------------------------------------------------- */

/* Calls fn with the digest of each artifact of that kind, the newest last; "code" is the source bundle. fn 1
 * stops. -1: error in e. */
static int each_digest(struct io *io, uint64_t job, const char *kind, const char *node,
                       int (*fn)(const char *digest, void *arg), void *arg, struct err *e)
{
	/* The record decides: removed blobs may still be on disk until the next collection. */
	const enum store_keep what = strcmp(kind, "code") == 0 ? STORE_BUNDLE : STORE_ARTIFACTS;
	cJSON *list;
	const cJSON *a, *rows;
	struct job_row row;
	unsigned elsewhere = 0, found = 0;
	int rc = 0;

	if (strcmp(kind, "code") == 0) {
		memset(&row, 0, sizeof(row));
		if (store_job_get(io->reader, job, &row, e) < 0)
			return -1;
		if (!row.bundle)
			rc = err_set(e, ERR_NOT_FOUND, "job %" PRIu64 " has no source tree", job);
		else if (store_check_kept(io->reader, job, what, kind, e) < 0)
			rc = -1;
		else
			rc = fn(row.bundle, arg);
		job_row_fini(&row);
		return rc;
	}
	list = store_artifacts_json(io->reader, job, e);
	if (!list)
		return -1;
	rows = cJSON_IsArray(list) ? list : cJSON_GetObjectItemCaseSensitive(list, "artifacts");
	cJSON_ArrayForEach (a, rows) {
		const cJSON *k = cJSON_GetObjectItemCaseSensitive(a, "kind"),
		            *d = cJSON_GetObjectItemCaseSensitive(a, "digest");
		const cJSON *n = cJSON_GetObjectItemCaseSensitive(a, "node");

		if (rc || !cJSON_IsString(k) || strcmp(k->valuestring, kind) != 0 ||
		    (node && (!cJSON_IsString(n) || strcmp(n->valuestring, node) != 0)))
			continue;
		elsewhere += !cJSON_IsString(d);
		found++;
		if (cJSON_IsString(d))
			rc = store_check_kept(io->reader, job, what, kind, e) < 0 ? -1 : fn(d->valuestring, arg);
	}
	cJSON_Delete(list);
	if (rc == 0 && (!found || found == elsewhere))
		return err_set(e, found ? ERR_CONFLICT : ERR_NOT_FOUND,
		               found ? "the %.64s of job %" PRIu64 " is at its output_uri, not here"
		                     : "job %2$" PRIu64 " has no %1$.64s",
		               kind, job);
	return rc;
}

struct stored_parts {
	int (*fn)(const char *digest, void *arg);
	void *arg;
	int rc;
};

static void skip_entry(struct checkpoint_row *row, void *arg)
{
	(void)row;
	(void)arg;
}

static void stored_part(struct checkpoint_part_row *row, void *arg)
{
	struct stored_parts *s = arg;

	if (s->rc == 0 && row->digest && *row->digest && row->uri && strcmp(row->uri, CKPT_URI_STORE) == 0 &&
	    row->state && strcmp(row->state, "verified") == 0)
		s->rc = s->fn(row->digest, s->arg);
}

/* The same for the registered checkpoints of a job in hearthd's store. */
static int each_stored_part(struct io *io, uint64_t job, int (*fn)(const char *digest, void *arg), void *arg,
                            struct err *e)
{
	struct stored_parts s = {fn, arg, 0};
	const struct store_checkpoints to = {skip_entry, stored_part, &s};

	if (store_check_kept(io->reader, job, STORE_ARTIFACTS, "checkpoint", e) < 0 ||
	    store_checkpoints(io->reader, job, &to, e) < 0)
		return -1;
	return s.rc;
}

static int keep_digest(const char *digest, void *arg)
{
	snprintf(arg, HASH_HEX_SIZE, "%s", digest);
	return 0;
}

/* Newest one. */
static int artifact_digest(struct call *c, struct io *io, char digest[HASH_HEX_SIZE], struct err *e)
{
	if (str_check_name(c->params[1], 64, "kind", e) < 0)
		return -1;
	digest[0] = '\0';
	return each_digest(io, c->target_id, c->params[1], query_str(c, "node"), keep_digest, digest, e) < 0 ? -1
	                                                                                                     : 0;
}

static int add_entry(const struct tree_entry *en, void *arg, struct err *e)
{
	cJSON *list = arg, *o;
	char mode[8];
	const char *type = en->type == 'd' ? "directory" : en->type == 'l' ? "link" : "file";

	if (cJSON_GetArraySize(list) == 0)
		list->valueint = 0; /* counted here: cJSON_GetArraySize walks the list */
	if (++list->valueint > ENTRIES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d files; ask for the manifest (manifest=1)", ENTRIES_MAX);
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "type", type);
	cJSON_AddStringToObject(o, "path", en->path);
	snprintf(mode, sizeof(mode), "%04o", en->mode & 07777);
	cJSON_AddStringToObject(o, "mode", mode);
	if (en->type == 'f')
		json_add_u64(o, "size", en->size);
	if (en->type == 'l')
		cJSON_AddStringToObject(o, "target", en->target);
	cJSON_AddItemToArray(list, o);
	return 0;
}

void api_artifact(struct call *c, struct io *io)
{
	char digest[HASH_HEX_SIZE];
	struct manifest *m;
	struct evbuffer *b;
	struct err e;
	cJSON *o, *list;

	if (artifact_digest(c, io, digest, &e) < 0 || !(m = manifest_get(io, digest, &e))) {
		call_fail(c, &e);
		return;
	}
	call_add_header(c, "X-Hearth-Digest", digest);
	if (query_bool(c, "manifest")) {
		b = evbuffer_new();
		evbuffer_add(b, m->text, m->n);
		call_buffer(c, 200, "application/octet-stream", b);
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "digest", digest);
	list = cJSON_AddArrayToObject(o, "files");
	if (tree_each(m->text, m->n, add_entry, list, &e) < 0) {
		cJSON_Delete(o);
		call_fail(c, &e);
		return;
	}
	call_json(c, 200, o);
}

struct wanted {
	const char *path;
	int found; /* 1 a file, 2 something else */
	char *chunks;
};

static int look_for(const struct tree_entry *en, void *arg, struct err *e)
{
	struct wanted *w = arg;

	(void)e;
	if (strcmp(en->path, w->path) != 0)
		return 0;
	w->found = en->type == 'f' ? 1 : 2;
	if (w->found == 1)
		w->chunks = xstrdup(en->chunks ? en->chunks : "");
	return 0;
}

static struct part *parts_of(const char *chunks, size_t *n, struct err *e)
{
	struct part *parts = NULL, p;
	int rc;

	*n = 0;
	while ((rc = tree_next_part(&chunks, p.digest, &p.offset, &p.length)) > 0) {
		if ((*n & (*n - 1)) == 0) /* room for the next power of two */
			parts = xreallocarray(parts, *n ? 2 * *n : 1, sizeof(*parts));
		parts[(*n)++] = p;
	}
	if (rc < 0) {
		free(parts);
		*n = 0;
		err_set(e, ERR_INTERNAL, "the manifest is damaged");
		return NULL;
	}
	return parts ? parts : xcalloc(1, sizeof(*parts));
}

void api_artifact_file(struct call *c, struct io *io)
{
	struct wanted w = {.path = c->params[2]};
	char digest[HASH_HEX_SIZE];
	struct manifest *m;
	struct part *parts;
	const char *name = strrchr(c->params[2], '/');
	struct err e;
	size_t n;

	if (artifact_digest(c, io, digest, &e) < 0 || !(m = manifest_get(io, digest, &e)) ||
	    tree_each(m->text, m->n, look_for, &w, &e) < 0) {
		free(w.chunks);
		call_fail(c, &e);
		return;
	}
	if (w.found != 1) {
		if (w.found)
			call_problem(c, 409, NULL, "\"%.200s\" is not a plain file", c->params[2]);
		else
			call_problem(c, 404, NULL, "the %s of job %s has no file \"%.200s\"", c->params[1], c->params[0],
			             c->params[2]);
		return;
	}
	parts = parts_of(w.chunks, &n, &e);
	free(w.chunks);
	if (!parts)
		call_fail(c, &e);
	else
		download_start(c, data_blobs(api_of(io)->data), parts, n, name ? name + 1 : c->params[2]);
}

/* ---- blobs ------------------------------------------------------------------------------------ */

struct reference {
	struct io *io;
	const char *digest;
};

static int refers_to(const char *digest, void *arg)
{
	struct reference *ref = arg;
	struct manifest *m;

	if (strcmp(digest, ref->digest) == 0)
		return 1;
	m = manifest_get(ref->io, digest, NULL);
	return m && manifest_has(m, ref->digest);
}

/* May the caller read this blob? */
static int blob_readable(struct call *c, struct io *io, struct err *e)
{
	struct reference ref = {.io = io, .digest = c->params[0]};
	uint64_t job = query_u64(c, "job", 0);
	const char *kind = query_str(c, "kind");
	int rc;

	if (!job && !kind) {
		if (c->who.role == ROLE_JOB)
			return err_set(e, ERR_DENIED, "a job's token reads blobs of that job only: add job and kind");
		if (c->who.role == ROLE_ADMIN ||
		    blobstore_has(data_blobs(api_of(io)->data), c->who.user, c->params[0]))
			return 0;
		return err_set(
		    e, ERR_NOT_FOUND,
		    "you have not uploaded this blob; give the job and the kind of artifact that it belongs to");
	}
	if (!job || !kind)
		return err_set(e, ERR_INVALID, "job and kind must be given together");
	if (c->who.role == ROLE_JOB && c->who.token_job != job)
		return err_set(e, ERR_DENIED, "a job's token reads blobs of that job only");
	rc = strcmp(kind, "checkpoint") == 0 ? each_stored_part(io, job, refers_to, &ref, e) : 0;
	if (rc == 0)
		rc = each_digest(io, job, kind, NULL, refers_to, &ref, e);
	if (rc == 0)
		return err_set(e, ERR_NOT_FOUND, "this blob is not part of the %.64s of job %" PRIu64, kind, job);
	return rc < 0 ? -1 : 0;
}

void api_blob_get(struct call *c, struct io *io)
{
	struct blobstore *bs = data_blobs(api_of(io)->data);
	struct part *p;
	uint64_t size;
	struct err e;
	int fd;

	if (blob_readable(c, io, &e) < 0 || (fd = blobstore_open_blob(bs, NULL, c->params[0], &size, &e)) < 0) {
		call_fail(c, &e);
		return;
	}
	close(fd);
	p = xcalloc(1, sizeof(*p));
	snprintf(p->digest, sizeof(p->digest), "%s", c->params[0]);
	p->length = size;
	call_add_header(c, "Cache-Control", "private, max-age=31536000, immutable");
	download_start(c, bs, p, 1, NULL);
}

/* ---- blobs: on the blob thread ---------------------------------------------------------------- */

struct job_of_blob {   /* work for the blob thread on behalf of a call */
	struct call *call; /* held; touched on its I/O thread only */
	struct io *io;
	char *user;
	char digest[HASH_HEX_SIZE];
	uint64_t offset, total;
	void *data;
	size_t n;
	char **v; /* digests */
	uint8_t *missing;
	/* result */
	int rc, complete;
	uint64_t present;
	struct err e;
	void (*answer)(struct job_of_blob *j);
};

static void job_free(void *arg) /* on the I/O thread, or when that is gone */
{
	struct job_of_blob *j = arg;
	size_t i;

	for (i = 0; j->v && i < j->n; i++)
		free(j->v[i]);
	free(j->v);
	free(j->missing);
	free(j->user);
	free(j->data);
	free(j);
}

static void back_on_io(struct io *io, void *arg)
{
	struct job_of_blob *j = arg;

	(void)io;
	if (j->call->status == 0)
		j->answer(j);
	call_drop(j->call);
	job_free(j);
}

static void ask_blob_thread(struct call *c, struct io *io, struct job_of_blob *j, data_fn fn, size_t bytes)
{
	j->call = call_hold(c);
	j->io = io;
	j->user = xstrdup(c->who.user);
	if (data_post_blob(api_of(io)->data, fn, j, bytes + sizeof(*j), job_free) == 0)
		return;
	call_problem(c, 503, "try again", "too many blobs are being written");
	call_drop(c);
	job_free(j);
}

static void run_put(struct data_threads *b, void *arg)
{
	struct job_of_blob *j = arg;
	struct blob_piece p = {.owner = j->user,
	                       .digest = j->digest,
	                       .offset = j->offset,
	                       .total = j->total,
	                       .data = j->data,
	                       .n = j->n};

	/* Uploads of agents have no such check: they belong to running jobs and are accepted as long as possible.
	 */
	j->rc = disk_space_check(api_of(j->io)->disk, &j->e);
	if (j->rc == 0)
		j->rc = blobstore_put(data_blobs(b), &p, &j->present, &j->complete, &j->e);
	io_post_wait(j->io, back_on_io, j, job_free);
}

static cJSON *blob_state(const struct job_of_blob *j)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "digest", j->digest);
	json_add_u64(o, "offset", j->present);
	cJSON_AddBoolToObject(o, "complete", j->complete);
	return o;
}

static void answer_put(struct job_of_blob *j)
{
	cJSON *o = blob_state(j);

	if (j->rc == 0) {
		call_json(j->call, j->complete ? 201 : 200, o);
		return;
	}
	call_fail_with(j->call, err_http_status(j->e.code), &j->e, o);
	cJSON_Delete(o);
}

void api_blob_put(struct call *c, struct io *io)
{
	struct job_of_blob *j;

	if (c->body_n > BLOBSTORE_PIECE_MAX) {
		call_problem(c, 413, NULL, "a piece has at most %u bytes; send the blob in several, with offset",
		             BLOBSTORE_PIECE_MAX);
		return;
	}
	j = xcalloc(1, sizeof(*j));
	memcpy(j->digest, c->params[0], HASH_HEX_SIZE);
	j->offset = query_u64(c, "offset", 0);
	j->total = query_u64(c, "size", 0);
	j->data = c->body_n ? xmemdup(c->body, c->body_n) : NULL;
	j->n = c->body_n;
	j->answer = answer_put;
	ask_blob_thread(c, io, j, run_put, j->n);
}

static void run_head(struct data_threads *b, void *arg)
{
	struct job_of_blob *j = arg;

	j->rc = blobstore_present(data_blobs(b), j->user, j->digest, &j->present, &j->complete, &j->e);
	io_post_wait(j->io, back_on_io, j, job_free);
}

static void answer_head(struct job_of_blob *j)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, j->rc == 0 ? j->present : 0);
	call_add_header(j->call, "X-Hearth-Offset", text);
	if (j->rc < 0 && j->e.code != ERR_NOT_FOUND)
		call_empty(j->call, err_http_status(j->e.code));
	else
		call_empty(j->call, j->rc == 0 && j->complete ? 200 : 404);
}

void api_blob_head(struct call *c, struct io *io)
{
	struct job_of_blob *j = xcalloc(1, sizeof(*j));

	memcpy(j->digest, c->params[0], HASH_HEX_SIZE);
	j->answer = answer_head;
	ask_blob_thread(c, io, j, run_head, 0);
}

static void run_missing(struct data_threads *b, void *arg)
{
	struct job_of_blob *j = arg;

	j->rc = blobstore_missing(data_blobs(b), j->user, (const char *const *)j->v, j->n, j->missing, &j->e);
	io_post_wait(j->io, back_on_io, j, job_free);
}

static void answer_missing(struct job_of_blob *j)
{
	cJSON *o, *list;
	size_t i;

	if (j->rc < 0) {
		call_fail(j->call, &j->e);
		return;
	}
	o = cJSON_CreateObject();
	list = cJSON_AddArrayToObject(o, "missing");
	for (i = 0; i < j->n; i++)
		if (j->missing[i])
			cJSON_AddItemToArray(list, cJSON_CreateString(j->v[i]));
	call_json(j->call, 200, o);
}

static int take_digests(const cJSON *list, struct job_of_blob *j, struct err *e)
{
	const cJSON *d;
	int n = cJSON_GetArraySize(list);

	if (n > DIGESTS_MAX)
		return err_set(e, ERR_LIMIT, "digests: at most %d at once", DIGESTS_MAX);
	j->v = xcalloc((size_t)n + 1, sizeof(*j->v));
	j->missing = xcalloc((size_t)n + 1, 1);
	cJSON_ArrayForEach (d, list) {
		if (!cJSON_IsString(d) || !hash_is_hex(d->valuestring))
			return err_set(e, ERR_INVALID, "digests[%zu]: expected 64 lower-case hexadecimal digits", j->n);
		j->v[j->n++] = xstrdup(d->valuestring);
	}
	return 0;
}

void api_blobs_missing(struct call *c, struct io *io)
{
	static const char *const known[] = {"digests", NULL};
	cJSON *body = route_body(c);
	struct job_of_blob *j;
	const cJSON *list = NULL;
	struct err e;

	if (!body)
		return;
	j = xcalloc(1, sizeof(*j));
	if (json_check_keys(body, "", known, &e) < 0 || json_get_arr(body, "", "digests", &list, &e) < 0 ||
	    (!list && err_set(&e, ERR_INVALID, "digests: missing") < 0) || take_digests(list, j, &e) < 0) {
		cJSON_Delete(body);
		job_free(j);
		call_fail(c, &e);
		return;
	}
	cJSON_Delete(body);
	j->answer = answer_missing;
	ask_blob_thread(c, io, j, run_missing, j->n * 100);
}
