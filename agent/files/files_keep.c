/*
 * files_keep: see files_keep.h.
 */
#include "agent/files/files_keep.h"

#include <string.h>
#include <unistd.h>

#include "agent/files/files_int.h"
#include "common/base/buf.h"

static int ask_plain(struct files *f, const struct files_msg *m, struct files_msg *end, struct err *e)
{
	if (files_ask(f, m, NULL, NULL, end, e) < 0)
		return -1;
	if (end->fd >= 0)
		close(end->fd);
	return 0;
}

int files_keep(struct files *f, int held, struct err *e)
{
	struct files_msg m = {.type = FILES_KEEP, .fd = held}, end;

	return ask_plain(f, &m, &end, e);
}

int files_calm(struct files *f, const char *cpus, uint64_t rate, int idle, struct err *e)
{
	struct files_msg m = {.type = FILES_CALM, .texts = {cpus}, .v = {rate, (uint64_t)(idle != 0)}, .fd = -1};
	struct files_msg end;

	return ask_plain(f, &m, &end, e);
}

static int add_data(struct files *f, const struct files_msg *m, void *arg, struct err *e)
{
	(void)f;
	if (m->type == FILES_DATA && buf_put(arg, m->bytes, m->n_bytes) == 0)
		return 0;
	return err_set(e, ERR_PROTOCOL, "hearth-files: unexpected message %d, or too long", m->type);
}

int files_watch(struct files *f, int ml, const char *dir, uint64_t wait_ms, int force, struct listing *out,
                struct err *e)
{
	struct files_msg m = {
	    .type = FILES_WATCH, .texts = {dir}, .v = {wait_ms, (uint64_t)(force != 0)}, .fd = ml};
	struct files_msg end;
	struct buf b;
	int rc;

	buf_init(&b, LISTING_BYTES);
	rc = files_ask(f, &m, add_data, &b, &end, e);
	if (rc == 0 && end.fd >= 0)
		close(end.fd);
	if (rc == 0 && end.v[1])
		rc = listing_decode(&b, out, e) < 0 ? -1 : 1;
	buf_fini(&b);
	return rc;
}

void files_hurry(struct files *f)
{
	struct files_msg m = {.type = FILES_HURRY, .fd = -1};

	files_tell(f, &m, NULL);
}

int files_hold(struct files *f, struct files_hold *h, struct err *e)
{
	struct files_msg m = {.type = FILES_HOLD,
	                      .texts = {h->dir, h->entry, h->place},
	                      .v = {h->print, (uint64_t)(h->links != 0), (uint64_t)(h->ranks != 0), h->most},
	                      .fd = h->ml};
	struct files_msg end;

	if (ask_plain(f, &m, &end, e) < 0)
		return -1;
	h->bytes = end.v[1];
	h->files = end.v[2];
	h->held_print = end.v[3];
	return 0;
}

static int take_digest(const struct files_msg *end, struct files_digest *out, struct err *e)
{
	if (!hash_is_hex(end->texts[1]))
		return err_set(e, ERR_PROTOCOL, "hearth-files: invalid digest");
	memcpy(out->digest, end->texts[1], HASH_HEX_SIZE);
	out->bytes = end->v[1];
	out->files = end->v[2];
	out->print = end->v[3];
	return 0;
}

int files_digest(struct files *f, const char *what, struct files_digest *out, struct err *e)
{
	struct files_msg m = {.type = FILES_DIGEST, .texts = {what}, .fd = -1}, end;

	return ask_plain(f, &m, &end, e) < 0 ? -1 : take_digest(&end, out, e);
}

int files_put_kept(struct files *f, const char *place, const char *dir, const char *where, const char *text,
                   struct files_digest *out, struct err *e)
{
	struct files_msg m = {.type = FILES_KEPT, .texts = {place, dir, where, text}, .fd = -1}, end;

	if (ask_plain(f, &m, &end, e) < 0 || take_digest(&end, out, e) < 0)
		return -1;
	out->resumed = end.v[3];
	out->print = 0;
	return 0;
}

int files_drop(struct files *f, const char *place, const char *copy, struct err *e)
{
	struct files_msg m = {.type = FILES_DROP, .texts = {place, copy}, .fd = -1}, end;

	return ask_plain(f, &m, &end, e);
}

int files_check(struct files *f, const char *place, struct err *e)
{
	struct files_msg m = {.type = FILES_CHECK, .texts = {place}, .fd = -1}, end;

	return ask_plain(f, &m, &end, e);
}
