/*
 * files_ask: the requests of files.h. Everything that comes back is checked: the account may have put
 * anything there.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/files_int.h"
#include "common/base/buf.h"
#include "common/base/xalloc.h"
#include "common/tree/tree.h"

#define DIGITS (HASH_HEX_SIZE - 1)

/* ---- one path --------------------------------------------------------------------------------------- */

int files_look(struct files *f, const char *path, struct files_info *out, struct err *e)
{
	struct files_msg m = {.type = FILES_LOOK, .texts = {path}, .fd = -1}, end;

	if (files_ask(f, &m, NULL, NULL, &end, e) < 0)
		return -1;
	if (end.fd >= 0)
		close(end.fd);
	*out = (struct files_info){.is_folder = end.v[1] != 0, .size_bytes = end.v[2]};
	return 0;
}

int files_open(struct files *f, const char *path, struct err *e)
{
	struct files_msg m = {.type = FILES_OPEN, .texts = {path}, .fd = -1}, end;
	struct stat st;

	if (files_ask(f, &m, NULL, NULL, &end, e) < 0)
		return -1;
	if (end.fd >= 0 && fstat(end.fd, &st) == 0 && S_ISREG(st.st_mode))
		return end.fd;
	if (end.fd >= 0)
		close(end.fd);
	return err_set(e, ERR_PROTOCOL, "%s: hearth-files sent no file", path);
}

static int add_data(struct files *f, const struct files_msg *m, void *arg, struct err *e)
{
	(void)f;
	if (m->type == FILES_DATA && buf_put(arg, m->bytes, m->n_bytes) == 0)
		return 0;
	return err_set(e, ERR_PROTOCOL, "hearth-files: unexpected message %d, or too long", m->type);
}

int files_read(struct files *f, int folder, const char *path, size_t max, char **text, size_t *n,
               struct err *e)
{
	struct files_msg m = {.type = FILES_READ, .texts = {path}, .v = {max}, .fd = folder};
	struct buf b;
	int rc;

	buf_init(&b, max);
	rc = files_ask(f, &m, add_data, &b, NULL, e);
	if (rc == 0) {
		*n = buf_left(&b);
		*text = xmalloc(*n + 1);
		if (*n)
			memcpy(*text, buf_head(&b), *n);
		(*text)[*n] = '\0';
	}
	buf_fini(&b);
	return rc;
}

int files_try_output(struct files *f, const char *path, struct err *e)
{
	struct files_msg m = {.type = FILES_OUTPUT, .texts = {path}, .fd = -1};

	return files_ask(f, &m, NULL, NULL, NULL, e);
}

int files_check_step(struct files *f, const char *path, int64_t step, struct err *e)
{
	struct files_msg m = {.type = FILES_STEPS, .texts = {path}, .v = {(uint64_t)step}, .fd = -1};

	return files_ask(f, &m, NULL, NULL, NULL, e);
}

/* ---- trees ------------------------------------------------------------------------------------------ */

int files_copy(struct files *f, struct files_copy *c, struct err *e)
{
	struct files_msg m = {
	    .type = FILES_COPY, .texts = {c->path}, .v = {c->limit, (uint64_t)c->last}, .fd = c->to};
	struct files_msg end;

	if (files_ask(f, &m, NULL, NULL, &end, e) < 0)
		return -1;
	if (end.fd >= 0)
		close(end.fd);
	c->later = end.v[1];
	c->special = end.v[2];
	return 0;
}

static int ask_tree(struct files *f, struct files_tree *t, struct files_msg *m, files_more_fn more, void *arg,
                    struct files_msg *end, struct err *e)
{
	m->texts[0] = t->dir;
	m->fd = t->ml;
	if (files_ask(f, m, more, arg, end, e) < 0)
		return -1;
	if (end->fd >= 0)
		close(end->fd);
	return 0;
}

int files_measure(struct files *f, struct files_tree *t, struct err *e)
{
	struct files_msg m = {.type = FILES_MEASURE, .v = {(uint64_t)t->no_failure}}, end;

	if (ask_tree(f, t, &m, NULL, NULL, &end, e) < 0)
		return -1;
	t->files = end.v[1];
	t->bytes = end.v[2];
	return 0;
}

int files_put(struct files *f, struct files_tree *t, const struct files_place *p, struct err *e)
{
	struct files_msg m = {.type = FILES_PUT,
	                      .texts = {NULL, p->output, p->kind, p->cluster},
	                      .v = {p->job, p->attempt, p->epoch, p->node_rank, p->n_nodes}};
	struct files_msg end;

	if (ask_tree(f, t, &m, NULL, NULL, &end, e) < 0)
		return -1;
	t->bytes = end.v[1];
	t->files = end.v[2];
	return 0;
}

/* ---- hearthd's store -------------------------------------------------------------------------------- */

struct storing {
	const struct files_store_ops *ops;
	char digest[HASH_HEX_SIZE]; /* of the chunk that comes */
	size_t size;                /* of it; 0: none comes */
	struct buf chunk, manifest;
};

static int answer_chunks(struct files *f, struct storing *s, const struct files_msg *m, struct err *e)
{
	const char *p = m->bytes;
	uint32_t n = m->n_bytes / DIGITS;
	uint8_t missing[FILES_BATCH] = {0};
	char *digests[FILES_BATCH] = {0};
	struct files_msg reply = {.type = FILES_WANTED, .bytes = missing, .n_bytes = n, .fd = -1};
	int rc = 0;

	if (n == 0 || n > FILES_BATCH || m->n_bytes % DIGITS)
		return err_set(e, ERR_PROTOCOL, "hearth-files: %u bytes of digests", m->n_bytes);
	for (uint32_t i = 0; i < n; i++) {
		digests[i] = xstrndup(p + (size_t)i * DIGITS, DIGITS);
		if (!hash_is_hex(digests[i]))
			rc = err_set(e, ERR_PROTOCOL, "hearth-files: invalid digest");
	}
	if (rc == 0)
		rc = s->ops->missing(digests, n, missing, s->ops->arg, e);
	if (rc == 0)
		rc = files_tell(f, &reply, e);
	for (uint32_t i = 0; i < n; i++)
		free(digests[i]);
	return rc;
}

static int begin_chunk(struct storing *s, const struct files_msg *m, struct err *e)
{
	if (s->size || !hash_is_hex(m->texts[0]) || m->v[0] == 0 || m->v[0] > TREE_CHUNK_MAX)
		return err_set(e, ERR_PROTOCOL, "hearth-files: invalid chunk");
	memcpy(s->digest, m->texts[0], HASH_HEX_SIZE);
	s->size = (size_t)m->v[0];
	return 0;
}

static int add_piece(struct storing *s, const struct files_msg *m, struct err *e)
{
	int rc;

	if (s->size == 0)
		return buf_put(&s->manifest, m->bytes, m->n_bytes) < 0
		           ? err_set(e, ERR_LIMIT, "the list of files has more than %u bytes", TREE_MANIFEST_MAX)
		           : 0;
	if (buf_left(&s->chunk) + m->n_bytes > s->size || buf_put(&s->chunk, m->bytes, m->n_bytes) < 0)
		return err_set(e, ERR_PROTOCOL, "hearth-files: a chunk is longer than announced");
	if (buf_left(&s->chunk) < s->size)
		return 0;
	rc = s->ops->put(s->digest, buf_head(&s->chunk), s->size, s->ops->arg, e);
	buf_reset(&s->chunk);
	s->size = 0;
	return rc;
}

static int take_piece(struct files *f, const struct files_msg *m, void *arg, struct err *e)
{
	struct storing *s = arg;

	switch (m->type) {
	case FILES_CHUNKS:
		return answer_chunks(f, s, m, e);
	case FILES_CHUNK:
		return begin_chunk(s, m, e);
	case FILES_DATA:
		return add_piece(s, m, e);
	default:
		return err_set(e, ERR_PROTOCOL, "hearth-files: unexpected message %d", m->type);
	}
}

static int finish_store(struct files_tree *t, struct storing *s, const struct files_msg *end, struct err *e)
{
	if (!hash_is_hex(end->texts[1]) || buf_left(&s->manifest) == 0)
		return err_set(e, ERR_PROTOCOL, "hearth-files: no list of files");
	memcpy(t->digest, end->texts[1], HASH_HEX_SIZE);
	t->bytes = end->v[1];
	t->files = end->v[2];
	return s->ops->put(t->digest, buf_head(&s->manifest), buf_left(&s->manifest), s->ops->arg, e);
}

int files_store(struct files *f, struct files_tree *t, const struct files_store_ops *ops, struct err *e)
{
	struct files_msg m = {.type = FILES_STORE, .v = {(uint64_t)t->no_failure}}, end;
	struct storing s = {.ops = ops};
	int rc;

	buf_init(&s.chunk, TREE_CHUNK_MAX);
	buf_init(&s.manifest, TREE_MANIFEST_MAX);
	rc = ask_tree(f, t, &m, take_piece, &s, &end, e);
	if (rc == 0)
		rc = finish_store(t, &s, &end, e);
	buf_fini(&s.chunk);
	buf_fini(&s.manifest);
	return rc;
}
