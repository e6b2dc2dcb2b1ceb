/*
 * simfolder: see simfolder.h.
 */
#include "tests/unit/agent/keep/simfolder.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/xalloc.h"

/* ---- a program ---------------------------------------------------------------------------------------- */

uint64_t sim_random(struct sim *s, uint64_t n)
{
	s->rng ^= s->rng << 13;
	s->rng ^= s->rng >> 7;
	s->rng ^= s->rng << 17;
	return s->rng % n;
}

struct op *sim_op(struct sim *s, uint64_t at_us, unsigned rank, enum what what, char *path)
{
	if (s->n_ops == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 256;
		s->ops = xreallocarray(s->ops, s->cap, sizeof(*s->ops));
	}
	s->ops[s->n_ops] =
	    (struct op){.at_us = at_us, .order = s->n_ops, .what = what, .rank = rank, .path = path};
	return &s->ops[s->n_ops++];
}

/* A file in pieces; returns when it is closed. Takes path. */
uint64_t sim_put(struct sim *s, uint64_t t, unsigned rank, int64_t step, char *path)
{
	unsigned pieces = 1 + (unsigned)sim_random(s, 6);
	struct op *op = sim_op(s, t, rank, CREATE, path);

	op->step = step;
	op->pieces = pieces;
	for (unsigned i = 0; i < pieces; i++)
		sim_op(s, t += 1 + sim_random(s, 60 * MS), rank, PIECE, xstrdup(path))->pieces = pieces;
	sim_op(s, t += sim_random(s, 20 * MS), rank, CLOSE, xstrdup(path));
	return t;
}

/* A marker: opened, which empties it, then written. Takes both. */
uint64_t sim_mark(struct sim *s, uint64_t t, unsigned rank, char *path, char *text)
{
	sim_op(s, t, rank, CREATE, path)->other = xstrdup("");
	sim_op(s, t += 1 + sim_random(s, 30 * MS), rank, PIECE, xstrdup(path))->other = text;
	sim_op(s, t += sim_random(s, 5 * MS), rank, CLOSE, xstrdup(path));
	return t;
}

uint64_t sim_move(struct sim *s, uint64_t t, unsigned rank, char *from, char *to)
{
	t += sim_random(s, 20 * MS);
	sim_op(s, t, rank, RENAME, from)->other = to;
	return t;
}

/* ---- the folder --------------------------------------------------------------------------------------- */

struct file *sim_find(struct sim *s, const char *path)
{
	for (size_t i = 0; i < s->n_files; i++)
		if (strcmp(s->files[i].path, path) == 0)
			return &s->files[i];
	return NULL;
}

int sim_is_below(const char *path, const char *top)
{
	size_t n = strlen(top);

	return strncmp(path, top, n) == 0 && (!path[n] || path[n] == '/');
}

void sim_remove(struct sim *s, const char *path)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_files; i++) {
		if (!sim_is_below(s->files[i].path, path)) {
			s->files[n++] = s->files[i];
			continue;
		}
		free(s->files[i].path);
		free(s->files[i].text);
		free(s->files[i].target);
	}
	s->n_files = n;
}

struct file *sim_make(struct sim *s, const char *path, uint64_t now)
{
	struct file *f = sim_find(s, path);

	if (!f) {
		s->files = xreallocarray(s->files, s->n_files + 1, sizeof(*s->files));
		f = &s->files[s->n_files++];
		*f = (struct file){.path = xstrdup(path), .inode = ++s->inode, .born_us = now};
	}
	f->mtime_us = f->ctime_us = now;
	f->size = f->written = 0;
	return f;
}

static void move_path(struct sim *s, const char *from, const char *to, uint64_t now)
{
	sim_remove(s, to);
	for (size_t i = 0; i < s->n_files; i++) {
		struct file *f = &s->files[i];
		char *path;

		if (!sim_is_below(f->path, from))
			continue;
		path = xasprintf("%s%s", to, f->path + strlen(from));
		f->moved = strcmp(f->path, from) == 0 ? 1 : 2; /* 2: its folder */
		f->ctime_us = f->moved == 1 ? now : f->ctime_us;
		free(f->path);
		f->path = path;
	}
}

void sim_perform(struct sim *s, const struct op *op)
{
	struct keep_moment *at = &s->at;
	struct file *f = op->what == CREATE ? sim_make(s, op->path, op->at_us) : sim_find(s, op->path);

	if (op->what == CREATE) {
		f->step = op->step;
		f->pieces = op->pieces;
		f->writer = op->rank + 1;
		if (op->other)
			free(f->text), f->text = xstrdup(op->other);
	} else if (op->what == PIECE && f) {
		f->written++;
		f->size = op->other ? strlen(op->other) : 1000u * f->written;
		f->mtime_us = f->ctime_us = op->at_us;
		if (op->other)
			free(f->text), f->text = xstrdup(op->other);
	} else if (op->what == CLOSE && f) {
		f->writer = 0;
	} else if (op->what == RENAME) {
		move_path(s, op->path, op->other, op->at_us);
	} else if (op->what == REMOVE) {
		sim_remove(s, op->path);
	} else if (op->what == LINK) {
		sim_remove(s, op->path);
		sim_make(s, op->path, op->at_us)->target = xstrdup(op->other);
	} else if (op->what == STEP && at->n_steps < KEEP_STEPS) {
		at->steps[at->n_steps++] = (struct keep_step){.at_us = op->at_us, .step = op->step};
	}
}

/* ---- what the keeper sees ----------------------------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
	const unsigned char *x = (const void *)((const struct listing_item *)a)->path;
	const unsigned char *y = (const void *)((const struct listing_item *)b)->path;

	for (; *x && *x == *y; x++, y++)
		;
	return (*x == '/' ? 1 : *x ? *x + 1 : 0) - (*y == '/' ? 1 : *y ? *y + 1 : 0);
}

static void list_path(struct listing *l, const char *path, char type)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->items[i].path, path) == 0)
			return;
	listing_add(l, path)->type = type;
}

static void list_file(struct listing *l, const struct file *f)
{
	struct listing_item *it;

	for (const char *slash = strchr(f->path, '/'); slash; slash = strchr(slash + 1, '/')) {
		cleanup_free char *above = xstrndup(f->path, (size_t)(slash - f->path));

		list_path(l, above, 'd');
	}
	list_path(l, f->path, f->target ? 'l' : 'f');
	it = &l->items[l->n - 1];
	it->size = f->size;
	it->inode = f->inode;
	it->mtime_ns = f->mtime_us * 1000;
	it->ctime_ns = f->ctime_us * 1000;
	it->born_ns = f->born_us * 1000;
	it->flags = (uint8_t)((f->writer ? LISTING_OPEN : 0) | (f->moved == 1 ? LISTING_MOVED : 0));
	if (f->text || f->target) {
		it->text = xstrdup(f->text ? f->text : f->target);
		it->n_text = strlen(it->text);
	}
}

void sim_list(struct sim *s, struct listing *l, uint64_t now)
{
	*l = (struct listing){.at_us = now};
	for (size_t i = 0; i < s->n_files; i++)
		list_file(l, &s->files[i]);
	if (l->n)
		qsort(l->items, l->n, sizeof(*l->items), by_path);
	for (size_t i = 0; i < s->n_files; i++)
		s->files[i].moved = 0;
}
