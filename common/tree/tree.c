/*
 * tree: the manifest: reading it strictly, and what can be learnt from it. See tree.h.
 *
 * A manifest comes from outside. It is read line by line: known form, canonical escapes, ascending paths (so
 * none twice), every parent a directory of the same manifest (so a link has nothing below it), links that
 * stay inside, parts that sum up to the file's size. What passes here can be written out without another
 * look.
 */
#include "common/tree/tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/xalloc.h"
#include "common/tree/tree_int.h"

/* ---- a set of strings ---------------------------------------------------------------------------- */

struct set_item {
	UT_hash_handle hh;
	char key[];
};
struct tree_set {
	struct set_item *items;
};

struct tree_set *tree_set_create(void)
{
	return xcalloc(1, sizeof(struct tree_set));
}

int tree_set_has(const struct tree_set *s, const char *key, size_t n)
{
	struct set_item *item;

	HASH_FIND(hh, s->items, key, n, item);
	return item != NULL;
}

int tree_set_add(struct tree_set *s, const char *key, size_t n)
{
	struct set_item *item;

	if (tree_set_has(s, key, n))
		return 0;
	item = xcalloc(1, sizeof(*item) + n + 1);
	memcpy(item->key, key, n);
	HASH_ADD(hh, s->items, key, n, item);
	return 1;
}

void tree_set_destroy(struct tree_set *s)
{
	struct set_item *item, *next;

	if (!s)
		return;
	HASH_ITER (hh, s->items, item, next) {
		HASH_DEL(s->items, item);
		free(item);
	}
	free(s);
}

/* ---- paths --------------------------------------------------------------------------------------- */

/* Relative, no empty part, no "." or "..", no part over 255 bytes, not deeper than TREE_DEPTH. */
static int tree_path_ok(const char *path)
{
	size_t depth = 0;

	if (strlen(path) > TREE_PATH_MAX)
		return 0;
	for (;; path++) {
		size_t n = strcspn(path, "/");

		if (!n || n > 255 || (n == 1 && path[0] == '.') || (n == 2 && strncmp(path, "..", 2) == 0) ||
		    ++depth > TREE_DEPTH)
			return 0;
		path += n;
		if (!*path)
			return 1;
	}
}

int tree_link_ok(const char *path, const char *target)
{
	size_t depth = 0; /* directories between the root and the link */
	int descended = 0;

	if (!*target || *target == '/' || strlen(target) > TREE_PATH_MAX)
		return 0;
	for (; *path; path++)
		depth += *path == '/';
	while (*target) {
		size_t n = strcspn(target, "/");

		if (n == 2 && strncmp(target, "..", 2) == 0) {
			if (descended || !depth)
				return 0;
			depth--;
		} else if (n && !(n == 1 && *target == '.')) {
			descended = 1;
		}
		target += n;
		target += *target == '/';
	}
	return 1;
}

/* ---- reading a line ------------------------------------------------------------------------------ */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Undoes the escapes of [s, s+n) into out (TREE_PATH_MAX + 1 bytes). Only the bytes that must be escaped may
 * be, so that a path has one spelling. */
static int undo_escapes(const char *s, size_t n, char *out)
{
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c <= 0x20 || c == 0x7f || used >= TREE_PATH_MAX)
			return -1;
		if (c == '%') {
			int hi = i + 2 < n ? hex_digit(s[i + 1]) : -1;
			int lo = i + 2 < n ? hex_digit(s[i + 2]) : -1;

			if (hi < 0 || lo < 0)
				return -1;
			c = (unsigned char)(hi << 4 | lo);
			if (!c || (c > 0x20 && c != '%' && c != 0x7f))
				return -1;
			i += 2;
		}
		out[used++] = (char)c;
	}
	out[used] = '\0';
	return used ? 0 : -1;
}

/* Next word of the line: to the next space or the end. */
static int next_word(const char **s, const char *end, const char **word, size_t *n)
{
	const char *space;

	if (*s >= end)
		return -1;
	space = memchr(*s, ' ', (size_t)(end - *s));
	*word = *s;
	*n = (size_t)((space ? space : end) - *s);
	*s = space ? space + 1 : end;
	return *n && !(space && *s == end) ? 0 : -1; /* no empty word, none missing after a space */
}

static int read_number(const char *s, size_t n, unsigned base, uint64_t max, uint64_t *out)
{
	uint64_t v = 0;

	if (!n || n > 19 || (n > 1 && s[0] == '0'))
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || (unsigned)(s[i] - '0') >= base)
			return -1;
		v = v * base + (unsigned)(s[i] - '0');
	}
	if (v > max)
		return -1;
	*out = v;
	return 0;
}

int tree_next_part(const char **list, char digest[HASH_HEX_SIZE], uint64_t *off, uint64_t *len)
{
	const char *s = *list, *colon, *end;

	if (!*s || strcmp(s, "-") == 0)
		return 0;
	if (strspn(s, "0123456789abcdef") != HASH_HEX_SIZE - 1 || s[HASH_HEX_SIZE - 1] != ':')
		return -1;
	end = strchrnul(s, ',');
	colon = memchr(s + HASH_HEX_SIZE, ':', (size_t)(end - (s + HASH_HEX_SIZE)));
	if (!colon ||
	    read_number(s + HASH_HEX_SIZE, (size_t)(colon - (s + HASH_HEX_SIZE)), 10, TREE_CHUNK_MAX, off) < 0 ||
	    read_number(colon + 1, (size_t)(end - colon - 1), 10, TREE_CHUNK_MAX, len) < 0)
		return -1;
	if (!*len || *off + *len > TREE_CHUNK_MAX || (*end && !end[1]))
		return -1;
	memcpy(digest, s, HASH_HEX_SIZE - 1);
	digest[HASH_HEX_SIZE - 1] = '\0';
	*list = *end ? end + 1 : end;
	return 1;
}

/* The parts of a file must sum up to its size. */
static int check_parts(const char *chunks, uint64_t size)
{
	char digest[HASH_HEX_SIZE];
	uint64_t off, len, sum = 0;
	int rc;

	while ((rc = tree_next_part(&chunks, digest, &off, &len)) == 1)
		sum += len;
	return rc == 0 && sum == size ? 0 : -1;
}

/* ---- the walk ------------------------------------------------------------------------------------ */

struct walk {
	struct tree_set *dirs;
	char path[TREE_PATH_MAX + 1], last[TREE_PATH_MAX + 1], target[TREE_PATH_MAX + 1];
	char *chunks; /* of the present line, owned */
};

/* Fills en from the line [s, end). What is wrong, or NULL. */
static const char *read_line(struct walk *w, const char *s, const char *end, struct tree_entry *en)
{
	const char *word;
	uint64_t mode;
	size_t n;

	*en = (struct tree_entry){.path = w->path, .target = "", .chunks = "-"};
	if (next_word(&s, end, &word, &n) < 0 || n != 1 || !strchr("dlf", *word))
		return "a line begins with d, l or f";
	en->type = *word;
	if (next_word(&s, end, &word, &n) < 0 || read_number(word, n, 8, 0777, &mode) < 0)
		return "mode is wrong";
	en->mode = (unsigned)mode;
	if (en->type == 'f' &&
	    (next_word(&s, end, &word, &n) < 0 || read_number(word, n, 10, INT64_MAX, &en->size) < 0))
		return "size is wrong";
	if (next_word(&s, end, &word, &n) < 0 || undo_escapes(word, n, w->path) < 0 || !tree_path_ok(w->path))
		return "path is not allowed";
	if (en->type == 'l') {
		if (next_word(&s, end, &word, &n) < 0 || undo_escapes(word, n, w->target) < 0 ||
		    !tree_link_ok(w->path, w->target))
			return "link leaves the tree";
		en->target = w->target;
	}
	if (en->type == 'f') {
		if (next_word(&s, end, &word, &n) < 0)
			return "chunks are missing";
		free(w->chunks);
		w->chunks = xstrndup(word, n);
		if (check_parts(w->chunks, en->size) < 0)
			return "chunks are wrong";
		en->chunks = w->chunks;
	}
	return s == end ? NULL : "there is more on the line than should be";
}

/* Order and parent. What is wrong, or NULL. */
static const char *check_place(struct walk *w, const struct tree_entry *en)
{
	const char *slash = strrchr(w->path, '/');

	if (strcmp(w->path, w->last) <= 0)
		return "paths are not in order";
	if (slash && !tree_set_has(w->dirs, w->path, (size_t)(slash - w->path)))
		return "the parent is not a directory";
	memcpy(w->last, w->path, strlen(w->path) + 1);
	if (en->type == 'd')
		tree_set_add(w->dirs, w->path, strlen(w->path));
	return NULL;
}

int tree_each(const char *manifest, size_t n,
              int (*fn)(const struct tree_entry *en, void *arg, struct err *e), void *arg, struct err *e)
{
	const char *s = manifest + strlen(TREE_HEADER), *end = manifest + n;
	struct walk *w;
	size_t line = 1;
	int rc = 0;

	if (n > TREE_MANIFEST_MAX)
		return err_set(e, ERR_LIMIT, "manifest of %zu bytes; at most %u are allowed", n, TREE_MANIFEST_MAX);
	if (n < strlen(TREE_HEADER) || memcmp(manifest, TREE_HEADER, strlen(TREE_HEADER)) != 0)
		return err_set(e, ERR_INVALID, "not a manifest of a tree");
	if (memchr(manifest, '\0', n))
		return err_set(e, ERR_INVALID, "the manifest holds a NUL byte");
	w = xcalloc(1, sizeof(*w)); /* too large for the stack of a thread */
	w->dirs = tree_set_create();
	while (rc == 0 && s < end) {
		const char *stop = memchr(s, '\n', (size_t)(end - s)), *wrong;
		struct tree_entry en;

		line++;
		wrong = stop ? read_line(w, s, stop, &en) : "the last line is cut short";
		if (!wrong)
			wrong = check_place(w, &en);
		if (wrong)
			rc = err_set(e, ERR_INVALID, "manifest line %zu: %s", line, wrong);
		else if (fn)
			rc = fn(&en, arg, e) < 0 ? -1 : 0;
		s = stop ? stop + 1 : end;
	}
	tree_set_destroy(w->dirs);
	free(w->chunks);
	free(w);
	return rc;
}

/* ---- what is in it ------------------------------------------------------------------------------- */

struct gather {
	struct tree_set *seen;
	struct strv digests;
	struct tree_stats st;
	int keep;
};

static int gather_entry(const struct tree_entry *en, void *arg, struct err *e)
{
	struct gather *g = arg;
	const char *list = en->chunks;
	char digest[HASH_HEX_SIZE];
	uint64_t off, len;

	(void)e;
	if (en->type != 'f')
		return 0;
	g->st.files++;
	g->st.bytes += en->size;
	while (tree_next_part(&list, digest, &off, &len) == 1) {
		if (!tree_set_add(g->seen, digest, strlen(digest)))
			continue;
		g->st.chunks++;
		if (g->keep)
			strv_add(&g->digests, digest);
	}
	return 0;
}

int tree_measure(const char *manifest, size_t n, struct tree_stats *st, struct err *e)
{
	struct gather g = {.seen = tree_set_create()};
	int rc = tree_each(manifest, n, gather_entry, &g, e);

	tree_set_destroy(g.seen);
	if (rc == 0)
		*st = g.st;
	return rc;
}

int tree_chunks(const char *manifest, size_t n, char ***v, size_t *count, struct err *e)
{
	struct tree_stats st;

	return tree_contents(manifest, n, v, count, &st, e);
}

int tree_contents(const char *manifest, size_t n, char ***v, size_t *count, struct tree_stats *st,
                  struct err *e)
{
	struct gather g = {.seen = tree_set_create(), .keep = 1};
	int rc = tree_each(manifest, n, gather_entry, &g, e);

	tree_set_destroy(g.seen);
	if (rc < 0) {
		strv_fini(&g.digests);
		return -1;
	}
	*v = g.digests.v;
	*count = g.digests.n;
	*st = g.st;
	return 0;
}
