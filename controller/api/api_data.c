/*
 * api_data: blobs and artifacts.
 *
 * A digest opens nothing by itself. A user reads a blob that he uploaded himself, or one that an artifact of
 * a job refers to, named by job and kind; everybody may read every job. Workers answer what needs a manifest
 * (manifests.h): the trees of users may be large.
 */
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "common/tree/tree.h"
#include "controller/api/api_jobs.h"
#include "controller/api/download.h"
#include "controller/api/thread.h"
#include "controller/files/blobs/blobstore.h"
#include "controller/files/blobs/manifests.h"
#include "controller/files/data_threads.h"
#include "controller/files/disk_space.h"
#include "controller/http/route.h"
#include "controller/io/work.h"
#include "store/read/find.h"
#include "store/read/query.h"
#include "store/read/retain.h"

#define DIGESTS_MAX 10000
#define ENTRIES_MAX 100000

/* ---- artifacts -------------------------------------------------------------------------------- */

struct tree_ask { /* strings of the call */
	struct manifests *manifests;
	struct blobstore *blobs;
	uint64_t job;
	const char *kind, *node, *path, *blob, *user;
	int whole;        /* the manifest itself is wanted */
	int needs_upload; /* the blob must be one that the user has uploaded */
	/* found */
	char digest[HASH_HEX_SIZE];
	const struct manifest *m;
	char *files; /* text of the answer */
	struct part *parts;
	size_t n_parts;
	uint64_t size;
};

static void ask_free(void *arg)
{
	struct tree_ask *t = arg;

	manifests_put(t->manifests, t->m);
	free(t->files);
	free(t->parts);
	free(t);
}

static struct tree_ask *new_ask(struct call *c, struct io *io)
{
	struct tree_ask *t = xcalloc(1, sizeof(*t));

	t->manifests = api_of(io)->manifests;
	t->blobs = data_blobs(api_of(io)->data);
	t->job = c->target_id;
	t->user = c->who.user;
	t->node = query_str(c, "node");
	return t;
}

/* All is in the state of the question, and its answer is for the I/O thread. */
static int is_found(const cJSON *body, void *state)
{
	(void)body;
	(void)state;
	return 1;
}

/* Calls fn with the digest of each artifact of that kind, the newest last; "code" is the source bundle. fn 1
 * stops. -1: error in e. */
static int each_digest(struct store_reader *r, uint64_t job, const char *kind, const char *node,
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
		if (store_job_get(r, job, &row, e) < 0)
			return -1;
		if (!row.bundle)
			rc = err_set(e, ERR_NOT_FOUND, "job %" PRIu64 " has no source tree", job);
		else if (store_check_kept(r, job, what, kind, e) < 0)
			rc = -1;
		else
			rc = fn(row.bundle, arg);
		job_row_fini(&row);
		return rc;
	}
	list = store_artifacts_json(r, job, e);
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
			rc = store_check_kept(r, job, what, kind, e) < 0 ? -1 : fn(d->valuestring, arg);
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
static int each_stored_part(struct store_reader *r, uint64_t job, int (*fn)(const char *digest, void *arg),
                            void *arg, struct err *e)
{
	struct stored_parts s = {fn, arg, 0};
	const struct store_checkpoints to = {skip_entry, stored_part, &s};

	if (store_check_kept(r, job, STORE_ARTIFACTS, "checkpoint", e) < 0 ||
	    store_checkpoints(r, job, &to, e) < 0)
		return -1;
	return s.rc;
}

static int keep_digest(const char *digest, void *arg)
{
	snprintf(arg, HASH_HEX_SIZE, "%s", digest);
	return 0;
}

/* Worker. Finds the manifest of the newest artifact of that kind. */
static int find_tree(struct store_reader *r, struct tree_ask *t, struct err *e)
{
	if (each_digest(r, t->job, t->kind, t->node, keep_digest, t->digest, e) < 0)
		return -1;
	t->m = manifests_get(t->manifests, t->digest, e);
	return t->m ? 0 : -1;
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

static int list_files(struct tree_ask *t, struct err *e)
{
	cJSON *o = cJSON_CreateObject(), *list;
	int rc;

	cJSON_AddStringToObject(o, "digest", t->digest);
	list = cJSON_AddArrayToObject(o, "files");
	rc = tree_each(t->m->text, t->m->n, add_entry, list, e);
	if (rc == 0)
		t->files = json_text(o);
	cJSON_Delete(o);
	return rc;
}

/* Worker. */
static cJSON *read_tree(struct store_reader *r, void *state, struct err *e)
{
	struct tree_ask *t = state;

	if (find_tree(r, t, e) < 0 || (!t->whole && list_files(t, e) < 0))
		return NULL;
	return cJSON_CreateNull();
}

struct sent { /* a manifest that is being sent */
	struct manifests *manifests;
	const struct manifest *m;
};

static void on_sent(const void *data, size_t n, void *arg)
{
	struct sent *s = arg;

	(void)data;
	(void)n;
	manifests_put(s->manifests, s->m);
	free(s);
}

static void answer_manifest(struct call *c, struct tree_ask *t)
{
	struct sent *s = xmalloc(sizeof(*s));
	struct evbuffer *b = evbuffer_new();

	*s = (struct sent){t->manifests, t->m};
	t->m = NULL;
	evbuffer_add_reference(b, s->m->text, s->m->n, on_sent, s);
	call_buffer(c, 200, "application/octet-stream", b);
}

static void answer_tree(struct call *c, struct io *io, cJSON *body, void *state)
{
	struct tree_ask *t = state;

	(void)io;
	cJSON_Delete(body);
	call_add_header(c, "X-Hearth-Digest", t->digest);
	if (t->whole)
		answer_manifest(c, t);
	else
		call_text(c, 200, "application/json", t->files);
}

void api_artifact(struct call *c, struct io *io)
{
	struct tree_ask *t;
	struct err e;

	if (str_check_name(c->params[1], 64, "kind", &e) < 0) {
		call_fail(c, &e);
		return;
	}
	t = new_ask(c, io);
	t->kind = c->params[1];
	t->whole = query_bool(c, "manifest");
	work_ask(c, io, &(struct work_ask){read_tree, is_found, answer_tree, t, ask_free, 0});
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

static int find_file(struct tree_ask *t, struct err *e)
{
	struct wanted w = {.path = t->path};
	int rc = tree_each(t->m->text, t->m->n, look_for, &w, e);

	if (rc == 0 && !w.found)
		rc = err_set(e, ERR_NOT_FOUND, "the %s of job %" PRIu64 " has no file \"%.200s\"", t->kind, t->job,
		             t->path);
	else if (rc == 0 && w.found != 1)
		rc = err_set(e, ERR_CONFLICT, "\"%.200s\" is not a plain file", t->path);
	if (rc == 0 && !(t->parts = parts_of(w.chunks, &t->n_parts, e)))
		rc = -1;
	free(w.chunks);
	return rc;
}

/* Worker. */
static cJSON *read_file_parts(struct store_reader *r, void *state, struct err *e)
{
	struct tree_ask *t = state;

	return find_tree(r, t, e) < 0 || find_file(t, e) < 0 ? NULL : cJSON_CreateNull();
}

static void answer_file(struct call *c, struct io *io, cJSON *body, void *state)
{
	struct tree_ask *t = state;
	const char *name = strrchr(t->path, '/');
	struct part *parts = t->parts;

	(void)io;
	cJSON_Delete(body);
	t->parts = NULL;
	download_start(c, t->blobs, parts, t->n_parts, name ? name + 1 : t->path);
}

void api_artifact_file(struct call *c, struct io *io)
{
	struct tree_ask *t;
	struct err e;

	if (str_check_name(c->params[1], 64, "kind", &e) < 0) {
		call_fail(c, &e);
		return;
	}
	t = new_ask(c, io);
	t->kind = c->params[1];
	t->path = c->params[2];
	work_ask(c, io, &(struct work_ask){read_file_parts, is_found, answer_file, t, ask_free, 0});
}

/* ---- blobs ------------------------------------------------------------------------------------ */

static int refers_to(const char *digest, void *arg)
{
	struct tree_ask *t = arg;
	const struct manifest *m;
	int has;

	if (strcmp(digest, t->blob) == 0)
		return 1;
	m = manifests_get(t->manifests, digest, NULL);
	has = m && manifest_has(m, t->blob);
	manifests_put(t->manifests, m);
	return has;
}

static int check_reference(struct store_reader *r, struct tree_ask *t, struct err *e)
{
	int rc;

	if (t->needs_upload && !blobstore_has(t->blobs, t->user, t->blob))
		return err_set(
		    e, ERR_NOT_FOUND,
		    "you have not uploaded this blob; give the job and the kind of artifact that it belongs to");
	if (!t->job)
		return 0;
	rc = strcmp(t->kind, "checkpoint") == 0 ? each_stored_part(r, t->job, refers_to, t, e) : 0;
	if (rc == 0)
		rc = each_digest(r, t->job, t->kind, NULL, refers_to, t, e);
	if (rc == 0)
		return err_set(e, ERR_NOT_FOUND, "this blob is not part of the %.64s of job %" PRIu64, t->kind,
		               t->job);
	return rc < 0 ? -1 : 0;
}

/* Worker. */
static cJSON *read_blob_size(struct store_reader *r, void *state, struct err *e)
{
	struct tree_ask *t = state;
	int fd;

	if (check_reference(r, t, e) < 0)
		return NULL;
	fd = blobstore_open_blob(t->blobs, NULL, t->blob, &t->size, e);
	if (fd < 0)
		return NULL;
	close(fd);
	return cJSON_CreateNull();
}

static void answer_blob(struct call *c, struct io *io, cJSON *body, void *state)
{
	const struct tree_ask *t = state;
	struct part *p = xcalloc(1, sizeof(*p));

	(void)io;
	cJSON_Delete(body);
	snprintf(p->digest, sizeof(p->digest), "%s", t->blob);
	p->length = t->size;
	call_add_header(c, "Cache-Control", "private, max-age=31536000, immutable");
	download_start(c, t->blobs, p, 1, NULL);
}

/* What may be asked at all; the rest is the worker's. */
static int check_blob_query(const struct call *c, uint64_t job, const char *kind, struct err *e)
{
	if (!job && !kind && c->who.role == ROLE_JOB)
		return err_set(e, ERR_DENIED, "a job's token reads blobs of that job only: add job and kind");
	if (!job != !kind)
		return err_set(e, ERR_INVALID, "job and kind must be given together");
	if (job && c->who.role == ROLE_JOB && c->who.token_job != job)
		return err_set(e, ERR_DENIED, "a job's token reads blobs of that job only");
	return 0;
}

void api_blob_get(struct call *c, struct io *io)
{
	uint64_t job = query_u64(c, "job", 0);
	const char *kind = query_str(c, "kind");
	struct tree_ask *t;
	struct err e;

	if (check_blob_query(c, job, kind, &e) < 0) {
		call_fail(c, &e);
		return;
	}
	t = new_ask(c, io);
	t->job = job;
	t->kind = kind;
	t->blob = c->params[0];
	t->needs_upload = !job && c->who.role != ROLE_ADMIN;
	work_ask(c, io, &(struct work_ask){read_blob_size, is_found, answer_blob, t, ask_free, 0});
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
