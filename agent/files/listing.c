/*
 * listing: see listing.h.
 *
 *   u32 items | u8 cut | u64 at_us | items: str path, u8 type, u8 flags, 5 u64, u8 has text, bytes text
 */
#include "agent/files/listing.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/xalloc.h"

#define PATH_MAX_BYTES 4096u

struct listing_item *listing_add(struct listing *l, const char *path)
{
	if (l->n >= LISTING_ITEMS) {
		l->cut = 1;
		return NULL;
	}
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 32;
		l->items = xreallocarray(l->items, l->cap, sizeof(*l->items));
	}
	l->items[l->n] = (struct listing_item){.path = xstrdup(path)};
	return &l->items[l->n++];
}

void listing_fini(struct listing *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->items[i].path);
		free(l->items[i].text);
	}
	free(l->items);
	*l = (struct listing){0};
}

size_t listing_after(const struct listing *l, size_t i)
{
	const char *path = l->items[i].path;
	size_t n = strlen(path), at = i + 1;

	while (at < l->n && strncmp(l->items[at].path, path, n) == 0 && l->items[at].path[n] == '/')
		at++;
	return at;
}

static int encode_item(const struct listing_item *it, struct buf *b)
{
	int rc = buf_put_str(b, it->path) | buf_put_u8(b, (uint8_t)it->type) | buf_put_u8(b, it->flags);

	rc |= buf_put_u64(b, it->size) | buf_put_u64(b, it->inode) | buf_put_u64(b, it->mtime_ns);
	rc |= buf_put_u64(b, it->ctime_ns) | buf_put_u64(b, it->born_ns) | buf_put_u8(b, it->text != NULL);
	return rc | (it->text ? buf_put_bytes(b, it->text, (uint32_t)it->n_text) : 0);
}

int listing_encode(const struct listing *l, struct buf *b)
{
	int rc = buf_put_u32(b, (uint32_t)l->n) | buf_put_u8(b, (uint8_t)l->cut) | buf_put_u64(b, l->at_us);

	for (size_t i = 0; i < l->n && rc == 0; i++)
		rc = encode_item(&l->items[i], b);
	return rc;
}

static int decode_item(struct buf *b, struct listing_item *it)
{
	uint8_t type = 0, has = 0;
	const uint8_t *text;
	uint32_t n = 0;

	if (buf_get_str(b, &it->path, PATH_MAX_BYTES) < 0 || buf_get_u8(b, &type) < 0 ||
	    buf_get_u8(b, &it->flags) < 0 || buf_get_u64(b, &it->size) < 0 || buf_get_u64(b, &it->inode) < 0 ||
	    buf_get_u64(b, &it->mtime_ns) < 0 || buf_get_u64(b, &it->ctime_ns) < 0 ||
	    buf_get_u64(b, &it->born_ns) < 0 || buf_get_u8(b, &has) < 0)
		return -1;
	it->type = (char)type;
	if (!has)
		return 0;
	if (buf_get_bytes(b, &text, &n, LISTING_TEXT) < 0)
		return -1;
	it->text = xmalloc(n + 1u);
	if (n)
		memcpy(it->text, text, n);
	it->text[n] = '\0';
	it->n_text = n;
	return 0;
}

/* No step of a path leads out of the folder. */
static int is_below(const char *path)
{
	const char *at = path;

	if (!*path || *path == '/')
		return 0;
	for (; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
		if (*at == '/' || *at == '\0' || strncmp(at, "../", 3) == 0 || strcmp(at, "..") == 0 ||
		    strncmp(at, "./", 2) == 0 || strcmp(at, ".") == 0)
			return 0;
	return 1;
}

int listing_decode(struct buf *b, struct listing *out, struct err *e)
{
	struct listing l = {0};
	uint32_t n = 0;
	uint8_t cut = 0;
	int rc = 0;

	if (buf_get_u32(b, &n) < 0 || n > LISTING_ITEMS || buf_get_u8(b, &cut) < 0 ||
	    buf_get_u64(b, &l.at_us) < 0)
		return err_set(e, ERR_PROTOCOL, "hearth-files: invalid listing");
	l.cut = cut != 0;
	l.cap = n;
	l.items = xcalloc(n + 1u, sizeof(*l.items));
	while (l.n < n && rc == 0) {
		rc = decode_item(b, &l.items[l.n]);
		if (rc == 0 && !is_below(l.items[l.n].path))
			rc = -1;
		l.n++;
	}
	if (rc == 0 && buf_left(b) == 0) {
		*out = l;
		return 0;
	}
	listing_fini(&l);
	return err_set(e, ERR_PROTOCOL, "hearth-files: invalid listing");
}

/* ---- print ------------------------------------------------------------------------------------------ */

static uint64_t add_hash(uint64_t h, const void *p, size_t n)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++)
		h = (h ^ b[i]) * 0x100000001b3u;
	return h;
}

uint64_t listing_print(const struct listing *l, size_t i)
{
	size_t root = strlen(l->items[i].path);
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t k = i, end = listing_after(l, i); k < end; k++) {
		const struct listing_item *it = &l->items[k];

		h = add_hash(h, it->path + root, strlen(it->path + root) + 1);
		h = add_hash(h, &it->type, sizeof(it->type));
		if (it->type == 'd')
			continue;
		h = add_hash(h, &it->size, sizeof(it->size));
		h = add_hash(h, &it->mtime_ns, sizeof(it->mtime_ns));
		h = add_hash(h, &it->inode, sizeof(it->inode));
	}
	return h;
}

uint64_t listing_part_print(const struct listing *l, size_t i)
{
	const char *slash = strrchr(l->items[i].path, '/'), *name = slash ? slash + 1 : l->items[i].path;
	uint64_t own = listing_print(l, i);

	return add_hash(add_hash(0xcbf29ce484222325u, name, strlen(name) + 1), &own, sizeof(own));
}

/* ---- names of ranks ---------------------------------------------------------------------------------- */

/* Bytes of a word such as "rank" and the sign behind it, before digits; 0: none begins at `at`. */
static size_t rank_word(const char *name, const char *at)
{
	static const char *const words[] = {"rank", "shard", "process", "proc", "worker", "gpu", "node", "host"};

	if (at > name && isalpha((unsigned char)at[-1]))
		return 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i]);

		if (strncasecmp(at, words[i], n) != 0)
			continue;
		n += at[n] && strchr("-_=.", at[n]);
		return isdigit((unsigned char)at[n]) ? n : 0;
	}
	return 0;
}

char *listing_rank_name(const char *name)
{
	char *out = xmalloc(strlen(name) + 1), *to = out;
	int found = 0;

	for (const char *at = name; *at;) {
		size_t n = rank_word(name, at);

		if (!n) {
			*to++ = *at++;
			continue;
		}
		memcpy(to, at, n);
		to += n;
		*to++ = '*';
		at += n + strspn(at + n, "0123456789");
		found = 1;
	}
	*to = '\0';
	if (found)
		return out;
	free(out);
	return NULL;
}
