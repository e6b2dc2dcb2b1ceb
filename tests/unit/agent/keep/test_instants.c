/*
 * Programs that write in the order of one framework are killed at many random instants, also while they save,
 * and the keeper looks at random instants. Whatever it finds must be whole, of one step, and of the step that
 * it names; and it must find what was complete for long enough.
 *
 * The folder is a model: a list of writes with their times, which a kill cuts off. It knows what each file
 * holds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/keep/recognise.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

#define MS       1000u
#define S        1000000u
#define BEGIN_US (1000ull * S)
#define RANKS    4
#define TRIALS   250
#define LATE_US  (200u * MS) /* the end of a rank reaches the keeper so much later, at most */

/* ---- a program ---------------------------------------------------------------------------------------- */

enum what { CREATE, PIECE, CLOSE, RENAME, REMOVE, LINK, STEP };

struct op {
	uint64_t at_us;
	size_t order;
	enum what what;
	unsigned rank;
	char *path, *other; /* other: new name, target, or the text of a marker */
	int64_t step;
	unsigned pieces;
};

struct file {
	char *path, *text, *target;
	int64_t step;
	unsigned pieces, written, writer; /* writer: rank + 1 while it is open */
	uint64_t inode, size, mtime_us, ctime_us, born_us;
	int moved;
};

struct saved { /* one save of the program, from the keeper's view */
	int64_t step;
	uint64_t done_us; /* the last write of it */
	unsigned files;   /* that it has, at least */
};

struct sim {
	struct op *ops;
	size_t n_ops, cap;
	struct file *files;
	size_t n_files;
	struct saved saved[64];
	unsigned n_saved;
	uint64_t inode, rng, kill_us[RANKS];
	struct keep_memory m;
	struct keep_moment at;
	int64_t newest; /* that was found */
	unsigned found;
	char *wrong;
};

static uint64_t random_below(struct sim *s, uint64_t n)
{
	s->rng ^= s->rng << 13;
	s->rng ^= s->rng >> 7;
	s->rng ^= s->rng << 17;
	return s->rng % n;
}

static struct op *add_op(struct sim *s, uint64_t at_us, unsigned rank, enum what what, char *path)
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
static uint64_t put(struct sim *s, uint64_t t, unsigned rank, int64_t step, char *path)
{
	unsigned pieces = 1 + (unsigned)random_below(s, 6);
	struct op *op = add_op(s, t, rank, CREATE, path);

	op->step = step;
	op->pieces = pieces;
	for (unsigned i = 0; i < pieces; i++)
		add_op(s, t += 1 + random_below(s, 60 * MS), rank, PIECE, xstrdup(path))->pieces = pieces;
	add_op(s, t += random_below(s, 20 * MS), rank, CLOSE, xstrdup(path));
	return t;
}

/* A marker: opened, which empties it, then written. Takes both. */
static uint64_t mark(struct sim *s, uint64_t t, unsigned rank, char *path, char *text)
{
	add_op(s, t, rank, CREATE, path)->other = xstrdup("");
	add_op(s, t += 1 + random_below(s, 30 * MS), rank, PIECE, xstrdup(path))->other = text;
	add_op(s, t += random_below(s, 5 * MS), rank, CLOSE, xstrdup(path));
	return t;
}

static uint64_t move(struct sim *s, uint64_t t, unsigned rank, char *from, char *to)
{
	t += random_below(s, 20 * MS);
	add_op(s, t, rank, RENAME, from)->other = to;
	return t;
}

/* ---- the folder --------------------------------------------------------------------------------------- */

static struct file *find_file(struct sim *s, const char *path)
{
	for (size_t i = 0; i < s->n_files; i++)
		if (strcmp(s->files[i].path, path) == 0)
			return &s->files[i];
	return NULL;
}

static int is_below(const char *path, const char *top)
{
	size_t n = strlen(top);

	return strncmp(path, top, n) == 0 && (!path[n] || path[n] == '/');
}

static void remove_path(struct sim *s, const char *path)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_files; i++) {
		if (!is_below(s->files[i].path, path)) {
			s->files[n++] = s->files[i];
			continue;
		}
		free(s->files[i].path);
		free(s->files[i].text);
		free(s->files[i].target);
	}
	s->n_files = n;
}

static struct file *make_file(struct sim *s, const char *path, uint64_t now)
{
	struct file *f = find_file(s, path);

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
	remove_path(s, to);
	for (size_t i = 0; i < s->n_files; i++) {
		struct file *f = &s->files[i];
		char *path;

		if (!is_below(f->path, from))
			continue;
		path = xasprintf("%s%s", to, f->path + strlen(from));
		f->moved = strcmp(f->path, from) == 0 ? 1 : 2; /* 2: its folder */
		f->ctime_us = f->moved == 1 ? now : f->ctime_us;
		free(f->path);
		f->path = path;
	}
}

static void run_op(struct sim *s, const struct op *op)
{
	struct keep_moment *at = &s->at;
	struct file *f = op->what == CREATE ? make_file(s, op->path, op->at_us) : find_file(s, op->path);

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
		remove_path(s, op->path);
	} else if (op->what == LINK) {
		remove_path(s, op->path);
		make_file(s, op->path, op->at_us)->target = xstrdup(op->other);
	} else if (op->what == STEP && at->n_steps < KEEP_STEPS) {
		at->steps[at->n_steps++] = (struct keep_step){.at_us = op->at_us, .step = op->step};
	}
}

/* ---- the keeper --------------------------------------------------------------------------------------- */

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

static void list_all(struct sim *s, struct listing *l, uint64_t now)
{
	*l = (struct listing){.at_us = now};
	for (size_t i = 0; i < s->n_files; i++)
		list_file(l, &s->files[i]);
	qsort(l->items, l->n, sizeof(*l->items), by_path);
	for (size_t i = 0; i < s->n_files; i++)
		s->files[i].moved = 0;
}

static void judge(struct sim *s, const struct keep_found *k, uint64_t now)
{
	unsigned files = 0, need = 0;

	if (k->torn || s->wrong)
		return;
	if (strncmp(k->name, "checkpoint-", 11) == 0 && strchr(k->name, '/'))
		s->wrong = xasprintf("%s is a part of a checkpoint", k->name);
	for (size_t i = 0; i < s->n_files; i++) {
		const struct file *f = &s->files[i];

		if (!is_below(f->path, k->name) || f->text || f->target)
			continue;
		files++;
		if (f->writer || f->written < f->pieces || f->step != k->step)
			s->wrong = xasprintf("%.3f s: %s as %s %lld by %s: %s has %u of %u pieces of step %lld",
			                     (double)(now - BEGIN_US) / 1e6, k->name, k->format, (long long)k->step,
			                     k->step_by, f->path, f->written, f->pieces, (long long)f->step);
		if (s->wrong)
			return;
	}
	for (unsigned i = 0; i < s->n_saved; i++)
		if (s->saved[i].step == k->step)
			need = s->saved[i].files;
	if (files < need)
		s->wrong = xasprintf("%.3f s: %s as %s %lld has %u of %u files", (double)(now - BEGIN_US) / 1e6,
		                     k->name, k->format, (long long)k->step, files, need);
	s->found++;
	s->newest = k->step > s->newest ? k->step : s->newest;
}

static uint64_t look(struct sim *s, uint64_t now)
{
	struct keep_found found[16];
	uint64_t look_us = 0;
	struct listing l;
	size_t n;

	list_all(s, &l, now);
	s->at.now_us = now;
	n = recognise(&s->m, &l, &s->at, found, 16, &look_us);
	for (size_t i = 0; i < n; i++)
		judge(s, &found[i], now);
	listing_fini(&l);
	return look_us;
}

/* ---- one life ----------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	return x->at_us < y->at_us ? -1 : x->at_us > y->at_us ? 1 : x->order < y->order ? -1 : 1;
}

static void end_ranks(struct sim *s, uint64_t now)
{
	for (unsigned r = 0; r < RANKS; r++)
		for (size_t i = 0; i < s->n_files && s->kill_us[r] <= now; i++)
			if (s->files[i].writer == r + 1)
				s->files[i].writer = 0;
}

/* Runs the writes up to `now`. Returns 1 when something changed. */
static int run_until(struct sim *s, size_t *next, uint64_t now)
{
	int changed = 0;

	for (; *next < s->n_ops && s->ops[*next].at_us <= now; (*next)++)
		if (s->ops[*next].at_us < s->kill_us[s->ops[*next].rank]) {
			run_op(s, &s->ops[*next]);
			changed |= s->ops[*next].what != STEP;
		}
	end_ranks(s, now);
	return changed;
}

static void live(struct sim *s, uint64_t kill_us)
{
	uint64_t now = BEGIN_US, look_us = 0, due = 0, over_us = kill_us, told_us;
	size_t next = 0;

	qsort(s->ops, s->n_ops, sizeof(*s->ops), by_time);
	for (unsigned r = 0; r < RANKS; r++) { /* one is killed, the others by their launcher a little later */
		s->kill_us[r] = kill_us + (r ? random_below(s, 300 * MS) : 0);
		over_us = s->kill_us[r] > over_us ? s->kill_us[r] : over_us;
	}
	told_us = kill_us + random_below(s, LATE_US);
	for (; now < over_us + LATE_US; now += 1 + random_below(s, 15 * MS)) {
		if (run_until(s, &next, now) && !due)
			due = now + 30 * MS;
		if (now >= told_us)
			s->at.bad_end_us = kill_us;
		if ((!due || now < due) && (!look_us || now < look_us))
			continue;
		look_us = look(s, now);
		due = 0;
	}
	run_until(s, &next, now);
	s->at.bad_end_us = kill_us;
	s->at.over = 1;
	look(s, now);
}

/* The newest step that was complete long enough before the end must be found. */
static void judge_recall(struct sim *s, uint64_t kill_us)
{
	int64_t due = -1;

	for (unsigned i = 0; i < s->n_saved; i++)
		if (s->saved[i].done_us + KEEP_QUIET_US + 300 * MS < kill_us)
			due = s->saved[i].step;
	if (!s->wrong && due > s->newest)
		s->wrong = xasprintf("killed at %.3f s: step %lld was complete, the newest that was found is %lld",
		                     (double)(kill_us - BEGIN_US) / 1e6, (long long)due, (long long)s->newest);
}

static void free_sim(struct sim *s)
{
	for (size_t i = 0; i < s->n_ops; i++) {
		free(s->ops[i].path);
		free(s->ops[i].other);
	}
	while (s->n_files)
		remove_path(s, s->files[0].path);
	free(s->ops);
	free(s->files);
	free(s->wrong);
	keep_memory_fini(&s->m);
}

/* Writes one save; returns when its last write is done. *files: how many it has at least. */
typedef uint64_t (*save_fn)(struct sim *s, uint64_t t, int64_t step, unsigned *files);

struct kind {
	const char *name;
	save_fn save;
	int other_node; /* not the first one: markers are elsewhere */
	void (*before)(struct sim *s);
};

static void write_program(struct sim *s, save_fn save)
{
	uint64_t t = BEGIN_US + 100 * MS;

	for (int64_t step = 1; step <= 24; step++) {
		t += 300 * MS + random_below(s, 300 * MS);
		add_op(s, t, 0, STEP, xstrdup(""))->step = step;
		t += 300 * MS;
		if (step % 6 == 0) {
			struct saved *v = &s->saved[s->n_saved++];

			t = save(s, t, step, &v->files);
			v->step = step;
			v->done_us = t;
		}
	}
}

static void run_kind(const struct kind *kind, uint64_t seed)
{
	unsigned found = 0, lives = 0;
	char *wrong = NULL, *what;

	for (unsigned i = 0; i < TRIALS && !wrong; i++, lives++) {
		struct sim s = {.rng = (seed + i) * 0x9e3779b97f4a7c15u | 1, .newest = -1};
		uint64_t kill_us;

		s.at = (struct keep_moment){.from_us = BEGIN_US, .first_node = !kind->other_node};
		if (kind->before)
			kind->before(&s);
		write_program(&s, kind->save);
		kill_us = BEGIN_US + 2 * S + random_below(&s, s.saved[s.n_saved - 1].done_us - BEGIN_US);
		live(&s, kill_us);
		judge_recall(&s, kill_us);
		if (s.wrong)
			wrong = xasprintf("seed %llu: %s", (unsigned long long)(seed + i), s.wrong);
		found += s.found;
		free_sim(&s);
	}
	what = xasprintf("%s: killed at %u instants, %u checkpoints are whole", kind->name, lives, found);
	is_str(wrong ? wrong : "", "", what);
	free(what);
	free(wrong);
}

/* ---- the orders of writing ---------------------------------------------------------------------------- */

static uint64_t pause_for(struct sim *s, uint64_t most)
{
	return 1 + random_below(s, most);
}

static uint64_t save_overwrite(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	return put(s, t, 0, step, xstrdup("ckpt.pt"));
}

static uint64_t save_rename(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	t = put(s, t, 0, step, xstrdup("model.pt.tmp"));
	return move(s, t, 0, xstrdup("model.pt.tmp"), xstrdup("model.pt"));
}

/* The previous one stays as a second file. */
static uint64_t save_rotate(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	if (step > 6)
		t = move(s, t, 0, xstrdup("model.pt"), xstrdup("model_prev.pt"));
	return put(s, t, 0, step, xstrdup("model.pt"));
}

static uint64_t save_rename_folder(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	cleanup_free char *tmp = xasprintf("tmp-step-%lld", (long long)step);

	*files = 2;
	t = put(s, t, 0, step, xasprintf("%s/model.bin", tmp)) + pause_for(s, 3 * S);
	t = put(s, t, 0, step, xasprintf("%s/optim.bin", tmp));
	return move(s, t, 0, xstrdup(tmp), xasprintf("step-%lld", (long long)step));
}

static uint64_t save_named(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	return put(s, t, 0, step, xasprintf("model_%lld.pt", (long long)step));
}

/* A folder of one file for each rank. */
static uint64_t save_ranks(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	uint64_t last = t;

	*files = RANKS;
	for (unsigned r = 0; r < RANKS; r++) {
		uint64_t end = put(s, t + random_below(s, 500 * MS), r, step,
		                   xasprintf("step_%lld/rank%u.pt", (long long)step, r));

		last = end > last ? end : last;
	}
	return last;
}

static uint64_t save_trainer(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	static const char *const names[] = {"model.safetensors", "training_args.bin", "optimizer.pt",
	                                    "scheduler.pt", "rng_state_0.pth"};
	uint64_t last = t;

	*files = 5 + RANKS - 1;
	for (unsigned i = 0; i < 5; i++) /* training_args.bin follows the model at once */
		t = put(s, t + pause_for(s, i == 1 ? 300 * MS : 3 * S), 0, step,
		        xasprintf("checkpoint-%lld/%s", (long long)step, names[i]));
	t = mark(s, t, 0, xasprintf("checkpoint-%lld/trainer_state.json", (long long)step),
	         xasprintf("{\"global_step\": %lld}", (long long)step));
	for (unsigned r = 1; r < RANKS; r++) {
		uint64_t end = put(s, t + random_below(s, 1500 * MS), r, step,
		                   xasprintf("checkpoint-%lld/rng_state_%u.pth", (long long)step, r));

		last = end > last ? end : last;
	}
	if (step > 12)
		add_op(s, t, 0, REMOVE, xasprintf("checkpoint-%lld", (long long)step - 12));
	return t > last ? t : last;
}

static uint64_t save_deepspeed_at(struct sim *s, uint64_t t, int64_t step, const char *top)
{
	uint64_t last = 0;

	t = put(s, t, 0, step, xasprintf("%sglobal_step%lld/mp_rank_00_model_states.pt", top, (long long)step));
	for (unsigned r = 0; r < RANKS; r++) {
		/* Rank 0 writes `latest` after its own part. */
		uint64_t end = put(s, t + random_below(s, 800 * MS), r, step,
		                   xasprintf("%sglobal_step%lld/zero_pp_rank_%u_mp_rank_00_optim_states.pt", top,
		                             (long long)step, r));

		if (r == 0)
			end = mark(s, end, 0, xasprintf("%slatest", top), xasprintf("global_step%lld", (long long)step));
		last = end > last ? end : last;
	}
	return last;
}

static uint64_t save_deepspeed(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = RANKS + 1;
	return save_deepspeed_at(s, t, step, "");
}

/* Another node of DeepSpeed: its parts, no `latest`. */
static uint64_t save_deepspeed_other(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	uint64_t last = 0;

	*files = RANKS;
	for (unsigned r = 0; r < RANKS; r++) {
		uint64_t end = put(
		    s, t + random_below(s, 800 * MS), r, step,
		    xasprintf("global_step%lld/zero_pp_rank_%u_mp_rank_00_optim_states.pt", (long long)step, r + 4));

		last = end > last ? end : last;
	}
	return last;
}

/* `latest` as the agent restored it before the start. */
static void restored_latest(struct sim *s)
{
	struct file *f = make_file(s, "latest", BEGIN_US - 5 * S);

	f->text = xstrdup("global_step3");
	f->size = 12;
}

static uint64_t save_megatron(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	uint64_t last = 0;

	*files = RANKS;
	for (unsigned r = 0; r < RANKS; r++) {
		uint64_t end = put(s, t + random_below(s, 3 * S), r, step,
		                   xasprintf("iter_%07lld/mp_rank_%02u/model_optim_rng.pt", (long long)step, r));

		last = end > last ? end : last;
	}
	return mark(s, last, 0, xstrdup("latest_checkpointed_iteration.txt"), xasprintf("%lld", (long long)step));
}

static uint64_t save_megatron_other(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	return put(s, t, 0, step, xasprintf("iter_%07lld/mp_rank_08/model_optim_rng.pt", (long long)step));
}

static void restored_tracker(struct sim *s)
{
	struct file *f = make_file(s, "latest_checkpointed_iteration.txt", BEGIN_US - 5 * S);

	f->text = xstrdup("3");
	f->size = 1;
}

static uint64_t save_dcp_at(struct sim *s, uint64_t t, int64_t step, const char *dir)
{
	uint64_t last = 0;

	for (unsigned r = 0; r < RANKS; r++) {
		uint64_t end = put(s, t + random_below(s, 3 * S), r, step, xasprintf("%s/__%u_0.distcp", dir, r));

		last = end > last ? end : last;
	}
	t = put(s, last, 0, step, xasprintf("%s/.metadata.tmp", dir));
	return move(s, t, 0, xasprintf("%s/.metadata.tmp", dir), xasprintf("%s/.metadata", dir));
}

static uint64_t save_dcp(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	cleanup_free char *dir = xasprintf("step_%lld", (long long)step);

	*files = RANKS + 1;
	return save_dcp_at(s, t, step, dir);
}

/* The same folder each time. */
static uint64_t save_dcp_again(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = RANKS + 1;
	return save_dcp_at(s, t, step, "state");
}

/* Without a reduce each rank writes its own metadata. */
static uint64_t save_dcp_ranks(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	uint64_t last = 0;

	*files = 2 * RANKS;
	for (unsigned r = 0; r < RANKS; r++) {
		uint64_t end = put(s, t + random_below(s, 1500 * MS), r, step,
		                   xasprintf("step_%lld/__%u_0.distcp", (long long)step, r));

		end = put(s, end, r, step, xasprintf("step_%lld/__%u.metadata.tmp", (long long)step, r));
		end = move(s, end, r, xasprintf("step_%lld/__%u.metadata.tmp", (long long)step, r),
		           xasprintf("step_%lld/__%u.metadata", (long long)step, r));
		last = end > last ? end : last;
	}
	return last;
}

static uint64_t save_lightning(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	t = put(s, t, 0, step, xasprintf("epoch=%lld-step=%lld.ckpt", (long long)step / 10, (long long)step));
	return put(s, t + pause_for(s, 300 * MS), 0, step, xstrdup("last.ckpt"));
}

static uint64_t save_lightning_link(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	char *name = xasprintf("epoch=%lld-step=%lld-v1.ckpt", (long long)step / 10, (long long)step);

	*files = 1;
	t = put(s, t, 0, step, name);
	add_op(s, t + 1, 0, LINK, xstrdup("last.ckpt"))->other = xstrdup(name);
	return t + 1;
}

static uint64_t save_lightning_last(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	return put(s, t, 0, step, xstrdup("last.ckpt"));
}

/* A strategy with shards makes folders. */
static uint64_t save_lightning_folder(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	cleanup_free char *dir = xasprintf("epoch=0-step=%lld.ckpt", (long long)step);

	*files = RANKS + 2;
	t = save_dcp_at(s, t, step, dir);
	return put(s, t + pause_for(s, 300 * MS), 0, step, xasprintf("%s/meta.pt", dir));
}

static uint64_t save_hearth(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	/* Before its first manifest nobody knows that the program writes one. */
	uint64_t most = step == 6 ? S : 3 * S;

	*files = 2;
	t = put(s, t, 0, step, xasprintf("at-%lld/model.pt", (long long)step));
	for (size_t i = s->n_ops; i-- > 0;) /* the manifest has the size of the whole file */
		if (s->ops[i].what == CREATE) {
			unsigned pieces = s->ops[i].pieces, more;

			t = put(s, t + pause_for(s, most), 0, step, xasprintf("at-%lld/optim.pt", (long long)step));
			for (i = s->n_ops; s->ops[--i].what != CREATE;)
				;
			more = s->ops[i].pieces;
			return mark(s, t + pause_for(s, most), 0, xasprintf("at-%lld/hearth.json", (long long)step),
			            xasprintf("{\"step\": %lld, \"files\": {\"model.pt\": {\"size\": %u}, \"optim.pt\": "
			                      "{\"size\": %u}}}",
			                      (long long)step, 1000 * pieces, 1000 * more));
		}
	return t;
}

/* DeepSpeed and torch's format below the Trainer's folder. */
static uint64_t save_nested_deepspeed(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	cleanup_free char *top = xasprintf("checkpoint-%lld/", (long long)step);

	*files = RANKS + 2;
	t = save_deepspeed_at(s, t, step, top);
	t = put(s, t + pause_for(s, 3 * S), 0, step, xasprintf("%sscheduler.pt", top));
	return mark(s, t + pause_for(s, 3 * S), 0, xasprintf("%strainer_state.json", top), xstrdup("{}"));
}

static uint64_t save_nested_dcp(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	cleanup_free char *dir = xasprintf("checkpoint-%lld/pytorch_model_fsdp_0", (long long)step);

	*files = RANKS + 1;
	t = save_dcp_at(s, t, step, dir);
	return mark(s, t + pause_for(s, 3 * S), 0,
	            xasprintf("checkpoint-%lld/trainer_state.json", (long long)step), xstrdup("{}"));
}

/* Megatron's iteration in torch's format. */
static uint64_t save_megatron_dcp(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	cleanup_free char *dir = xasprintf("iter_%07lld", (long long)step);

	*files = RANKS + 2;
	t = put(s, t, 0, step, xasprintf("%s/common.pt", dir));
	t = save_dcp_at(s, t, step, dir);
	return mark(s, t, 0, xstrdup("latest_checkpointed_iteration.txt"), xasprintf("%lld", (long long)step));
}

int main(void)
{
	static const struct kind kinds[] = {
	    {"a file written over", save_overwrite, 0, NULL},
	    {"a rename", save_rename, 0, NULL},
	    {"the old file renamed, the new one in place", save_rotate, 0, NULL},
	    {"a folder renamed", save_rename_folder, 0, NULL},
	    {"a number in the name", save_named, 0, NULL},
	    {"a file of each rank", save_ranks, 0, NULL},
	    {"Trainer", save_trainer, 0, NULL},
	    {"Trainer, DeepSpeed in it", save_nested_deepspeed, 0, NULL},
	    {"Trainer, torch's format in it", save_nested_dcp, 0, NULL},
	    {"DeepSpeed", save_deepspeed, 0, NULL},
	    {"DeepSpeed, another node", save_deepspeed_other, 1, NULL},
	    {"DeepSpeed, another node with a restored `latest`", save_deepspeed_other, 1, restored_latest},
	    {"Megatron", save_megatron, 0, NULL},
	    {"Megatron, torch's format", save_megatron_dcp, 0, NULL},
	    {"Megatron, another node with a restored tracker", save_megatron_other, 1, restored_tracker},
	    {"torch's format", save_dcp, 0, NULL},
	    {"torch's format, the same folder", save_dcp_again, 0, NULL},
	    {"torch's format, metadata of each rank", save_dcp_ranks, 0, NULL},
	    {"Lightning, last.ckpt a copy", save_lightning, 0, NULL},
	    {"Lightning, last.ckpt a link", save_lightning_link, 0, NULL},
	    {"Lightning, last.ckpt alone", save_lightning_last, 0, NULL},
	    {"Lightning, a folder", save_lightning_folder, 0, NULL},
	    {"hearth.json", save_hearth, 0, NULL},
	};
	const char *text = getenv("HEARTH_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 10) : 1;

	tap_diag("HEARTH_SEED=%llu", (unsigned long long)seed);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		run_kind(&kinds[i], seed);
	return tap_done();
}
