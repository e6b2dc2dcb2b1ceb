/*
 * convention: see convention.h. The orders of writing that the rules rest on:
 *
 * Hugging Face Trainer  model, training_args.bin, optimizer, scheduler, rng_state of its rank,
 * trainer_state.json; other ranks write their rng_state_R.pth at their own time DeepSpeed             parts
 * of all ranks, `latest` by rank 0 after its own part, zero_to_fp32.py Megatron              iter_N, a
 * barrier, then the tracker by rank 0, opened for writing (empty) first torch DCP             __R_K.distcp of
 * all ranks, a reduce, then .metadata, by a rename in present versions Lightning             the file or
 * folder, by fsspec: written in place; last.ckpt after the one of the step
 */
#include "agent/keep/convention.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/tree/steps.h"

#define TRACKER  "latest_checkpointed_iteration.txt"
#define STEP_MAX ((int64_t)1 << 53)

/* ---- names ------------------------------------------------------------------------------------------ */

static const char *name_of(const struct listing_item *it)
{
	const char *slash = strrchr(it->path, '/');

	return slash ? slash + 1 : it->path;
}

static int begins_with(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

static int ends_with(const char *name, const char *with)
{
	size_t n = strlen(name), k = strlen(with);

	return n > k && strcmp(name + n - k, with) == 0;
}

/* PREFIX and a whole number, and nothing else: the number; -1: another name. */
static int64_t number_after(const char *name, const char *prefix)
{
	size_t n = strlen(prefix), digits;

	if (!begins_with(name, prefix))
		return -1;
	digits = strspn(name + n, "0123456789");
	return digits && !name[n + digits] ? steps_last_number(name, strlen(name)) : -1;
}

/* The entry of that name in the folder whose entries are from first to end. */
static const struct listing_item *find_in(const struct listing *l, size_t first, size_t end, const char *name)
{
	for (size_t i = first; i < end; i = listing_after(l, i))
		if (strcmp(name_of(&l->items[i]), name) == 0)
			return &l->items[i];
	return NULL;
}

static int has_named(const struct listing *l, size_t first, size_t end, const char *with)
{
	for (size_t i = first; i < end; i = listing_after(l, i))
		if (begins_with(name_of(&l->items[i]), with))
			return 1;
	return 0;
}

/* Nodes but the first may have a marker that was restored and that nobody writes there: it says nothing of
 * what this launch writes. */
static const struct listing_item *of_launch(const struct listing_item *it, const struct keep_moment *at)
{
	return it && !at->first_node && it->mtime_ns / 1000 < at->from_us ? NULL : it;
}

/* The text of a marker without the white space around it, malloc'ed; NULL: no such marker. */
static char *marker_text(const struct listing_item *it)
{
	const char *from;
	size_t n;

	if (!it || it->type != 'f' || !it->text)
		return NULL;
	from = it->text + strspn(it->text, " \t\r\n");
	for (n = strlen(from); n && isspace((unsigned char)from[n - 1]);)
		n--;
	return xstrndup(from, n);
}

/* ---- hearth.json ------------------------------------------------------------------------------------ */

static int fits_file(const struct listing *l, size_t i, const cJSON *file)
{
	cleanup_free char *path = xasprintf("%s/%s", l->items[i].path, file->string);
	const cJSON *size = cJSON_GetObjectItemCaseSensitive(file, "size");

	for (size_t k = i + 1, end = listing_after(l, i); k < end; k++)
		if (strcmp(l->items[k].path, path) == 0)
			return l->items[k].type == 'f' &&
			       (!cJSON_IsNumber(size) || (uint64_t)size->valuedouble == l->items[k].size);
	return 0;
}

static void judge_manifest(const struct listing *l, size_t i, const cJSON *json, struct convention *c)
{
	const cJSON *step = cJSON_GetObjectItemCaseSensitive(json, "step");
	const cJSON *files = cJSON_GetObjectItemCaseSensitive(json, "files"), *one;

	if (!cJSON_IsNumber(step) || step->valuedouble < 0 || step->valuedouble > (double)STEP_MAX)
		return;
	c->step = (int64_t)step->valuedouble;
	c->shards = (uint32_t)(json_whole(json, "shards", 0) & 0xffffu);
	cJSON_ArrayForEach (one, files)
		if (!fits_file(l, i, one))
			return;
	c->mark = MARK_WHOLE;
}

static struct convention hearth_of(const struct listing *l, size_t i, const struct listing_item *manifest)
{
	struct convention c = {.mark = MARK_MISSING,
	                       .format = "hearth",
	                       .step = -1,
	                       .step_by = "hearth.json",
	                       .marked_us = manifest->mtime_ns / 1000,
	                       .linkable = 1};
	const char *name = name_of(&l->items[i]);
	cJSON *json = manifest->text ? json_parse(manifest->text, manifest->n_text, NULL) : NULL;

	if (json)
		judge_manifest(l, i, json, &c);
	if (manifest->size > LISTING_TEXT) { /* too long to be listed: what any other folder needs */
		c.mark = MARK_QUIET;
		c.step = steps_last_number(name, strlen(name));
		c.step_by = "name";
	}
	cJSON_Delete(json);
	return c;
}

/* ---- torch.distributed.checkpoint -------------------------------------------------------------------- */

static int is_part(const char *name)
{
	return ends_with(name, ".distcp");
}

static int has_dcp(const struct listing *l, size_t first, size_t end)
{
	for (size_t i = first; i < end; i = listing_after(l, i))
		if (l->items[i].type == 'f' &&
		    (is_part(name_of(&l->items[i])) || ends_with(name_of(&l->items[i]), ".metadata") ||
		     strcmp(name_of(&l->items[i]), ".metadata") == 0))
			return 1;
	return 0;
}

/* The metadata that covers a part: of the whole, or of its rank (__R_K.distcp has __R.metadata). */
static const struct listing_item *metadata_of(const struct listing *l, size_t first, size_t end,
                                              const struct listing_item *all, const char *part)
{
	size_t n = begins_with(part, "__") ? strspn(part + 2, "0123456789") : 0;
	cleanup_free char *own = n && !all ? xasprintf("%.*s.metadata", (int)(n + 2), part) : NULL;

	return all || !own ? all : find_in(l, first, end, own);
}

/* Without a .metadata of the whole, ranks that have not begun yet leave no trace: it has to be quiet, too. */
static enum mark judge_dcp(const struct listing *l, size_t first, size_t end, const struct keep_moment *at)
{
	const struct listing_item *all = find_in(l, first, end, ".metadata");
	int elsewhere = !at->first_node && !all;

	for (size_t i = first; i < end; i = listing_after(l, i)) {
		const struct listing_item *it = &l->items[i], *meta;

		if (it->type != 'f' || !is_part(name_of(it)))
			continue;
		meta = metadata_of(l, first, end, all, name_of(it));
		if (!meta && elsewhere)
			return MARK_QUIET;
		if (!meta || meta->size == 0 || meta->mtime_ns < it->mtime_ns)
			return MARK_MISSING;
	}
	return all ? MARK_WHOLE : MARK_QUIET;
}

/* ---- DeepSpeed --------------------------------------------------------------------------------------- */

int convention_is_deepspeed(const char *name)
{
	return ends_with(name, "_model_states.pt") || ends_with(name, "_optim_states.pt");
}

static int has_deepspeed(const struct listing *l, size_t first, size_t end)
{
	for (size_t i = first; i < end; i = listing_after(l, i))
		if (convention_is_deepspeed(name_of(&l->items[i])))
			return 1;
	return 0;
}

/* `latest` may name a later one by now. */
static enum mark judge_tag(const struct listing_item *newest, const char *tag, int64_t step,
                           const struct keep_moment *at)
{
	const struct listing_item *marker = of_launch(newest, at);
	cleanup_free char *latest = marker_text(marker);

	if (!latest)
		return at->first_node || marker ? MARK_MISSING : MARK_QUIET;
	if (strcmp(latest, tag) == 0)
		return MARK_QUIET;
	return step >= 0 && number_after(latest, "global_step") > step ? MARK_QUIET : MARK_MISSING;
}

/* ---- what is inside of a folder ----------------------------------------------------------------------- */

/* What is in a folder, from first to end. */
static enum mark judge_inside(const struct listing *l, size_t first, size_t end, const struct keep_moment *at)
{
	const struct listing_item *latest = find_in(l, first, end, "latest");
	enum mark m = MARK_WHOLE;

	for (size_t i = first; i < end && m == MARK_WHOLE; i = listing_after(l, i)) {
		const char *name = name_of(&l->items[i]);

		if (l->items[i].type == 'd' && number_after(name, "global_step") >= 0)
			m = judge_tag(latest, name, number_after(name, "global_step"), at);
	}
	return m == MARK_WHOLE && has_dcp(l, first, end) ? judge_dcp(l, first, end, at) : m;
}

/* A nested format has to be complete, too: the least of its marks. */
static enum mark judge_nested(const struct listing *l, size_t i, const struct keep_moment *at)
{
	enum mark least = MARK_WHOLE;

	for (size_t k = i, end = listing_after(l, i); k < end; k++) {
		enum mark m = l->items[k].type == 'd' ? judge_inside(l, k + 1, listing_after(l, k), at) : MARK_WHOLE;

		if (m < least)
			least = m;
	}
	return least;
}

static int has_trainer(const struct listing *l, size_t first, size_t end)
{
	static const char *const files[] = {"trainer_state.json", "training_args.bin", "optimizer.pt",
	                                    "scheduler.pt", "rng_state.pth"};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (find_in(l, first, end, files[i]))
			return 1;
	return has_named(l, first, end, "rng_state_");
}

/* Trainer with FSDP or DeepSpeed writes the parts of all ranks before anything of its own. */
static int has_parts_below(const struct listing *l, size_t i)
{
	for (size_t k = i + 1, end = listing_after(l, i); k < end; k++)
		if (l->items[k].type == 'f' && strchr(l->items[k].path + strlen(l->items[i].path) + 1, '/') &&
		    (is_part(name_of(&l->items[k])) || convention_is_deepspeed(name_of(&l->items[k]))))
			return 1;
	return 0;
}

static enum mark judge_trainer(const struct listing *l, size_t i, const struct keep_moment *at)
{
	size_t end = listing_after(l, i);
	const struct listing_item *state = find_in(l, i + 1, end, "trainer_state.json");
	enum mark nested = judge_nested(l, i, at);
	cJSON *json;

	if (!state &&
	    has_named(l, i + 1, end, "random_states_")) /* Accelerate's save_state: the last that it writes */
		return nested < MARK_QUIET ? nested : MARK_QUIET;
	if (!state)
		return at->first_node ? MARK_MISSING : nested < MARK_QUIET ? nested : MARK_QUIET;
	if (state->text) {
		json = json_parse(state->text, state->n_text, NULL);
		cJSON_Delete(json);
		if (!json)
			return MARK_MISSING;
	}
	return nested < MARK_QUIET ? nested : MARK_QUIET;
}

/* ---- Megatron ---------------------------------------------------------------------------------------- */

static enum mark judge_iteration(const struct siblings *f, size_t i, int64_t step,
                                 const struct keep_moment *at)
{
	const struct listing_item *marker = of_launch(f->tracker, at);
	cleanup_free char *text = marker_text(marker);
	enum mark nested = judge_nested(f->l, i, at);

	if (nested < MARK_QUIET)
		return nested;
	if (!text)
		return at->first_node || marker ? MARK_MISSING : MARK_QUIET;
	return number_after(text, "") >= step ? MARK_WHOLE : MARK_MISSING;
}

/* ---- folders ----------------------------------------------------------------------------------------- */

static struct convention by_name(enum mark mark, const char *format, const char *name)
{
	int64_t step = steps_last_number(name, strlen(name));

	return (struct convention){
	    .mark = mark, .format = format, .step = step, .step_by = "name", .linkable = step >= 0};
}

static struct convention by_table(enum mark mark, const char *format, int64_t step)
{
	return (struct convention){
	    .mark = mark, .format = format, .step = step, .step_by = "table", .linkable = step >= 0};
}

static int is_named(const char *name)
{
	return number_after(name, "checkpoint-") >= 0 || number_after(name, "global_step") >= 0 ||
	       number_after(name, "iter_") >= 0 || ends_with(name, ".ckpt") || strcmp(name, TRACKER) == 0;
}

/* Some entry below it, at any depth, is a checkpoint of a framework by its name, or has a manifest: then the
 * folder is only where they are. */
static int holds_others(const struct listing *l, size_t i)
{
	for (size_t k = i + 1, end = listing_after(l, i); k < end; k++) {
		const char *name = name_of(&l->items[k]);

		if (is_named(name) || strcmp(name, "hearth.json") == 0 || is_part(name))
			return 1;
	}
	return 0;
}

static int64_t lightning_step(const char *name);

static struct convention folder_of(const struct siblings *f, size_t i, const struct keep_moment *at)
{
	const struct listing *l = f->l;
	const char *name = name_of(&l->items[i]);
	size_t behind = listing_after(l, i);
	const struct listing_item *manifest = find_in(l, i + 1, behind, "hearth.json");
	cleanup_free char *ranks = NULL;
	int64_t step;

	if (manifest && manifest->type == 'f')
		return hearth_of(l, i, manifest);
	if (strcmp(name, "release") == 0 && f->tracker)
		return (struct convention){.mark = MARK_NEVER, .step = -1};
	step = number_after(name, "checkpoint-");
	if (step >= 0 && (has_trainer(l, i + 1, behind) || has_parts_below(l, i)))
		return by_table(judge_trainer(l, i, at), "hf_trainer", step);
	step = number_after(name, "iter_");
	if (step >= 0)
		return by_table(judge_iteration(f, i, step, at), "megatron", step);
	if (ends_with(name, ".ckpt")) {
		enum mark nested = judge_nested(l, i, at);

		return by_table(nested < MARK_QUIET ? nested : MARK_QUIET, "lightning", lightning_step(name));
	}
	step = number_after(name, "global_step");
	if (step >= 0 || has_deepspeed(l, i + 1, behind))
		return by_table(judge_tag(f->latest, name, step, at), "deepspeed", step);
	if (has_dcp(l, i + 1, behind))
		return by_name(judge_dcp(l, i + 1, behind, at), "dcp", name);
	if (holds_others(l, i))
		return (struct convention){.mark = MARK_INSIDE, .step = -1};
	if (behind == i + 1)
		return (struct convention){.mark = MARK_NONE, .step = -1};
	ranks = listing_rank_name(name);
	return l->items[i].flags & LISTING_MOVED ? by_name(MARK_WHOLE, "rename", ranks ? ranks : name)
	                                         : by_name(MARK_QUIET, "plain", ranks ? ranks : name);
}

/* ---- files ------------------------------------------------------------------------------------------- */

/* The number after "step=", else the last one; a version at the end (-v1) does not count. */
static int64_t lightning_step(const char *name)
{
	const char *at = strstr(name, "step="), *v;
	size_t n = strlen(name) - strlen(".ckpt");
	size_t digits;

	if (at) {
		digits = strspn(at + 5, "0123456789");
		return digits ? steps_last_number(at + 5, digits) : -1;
	}
	if (begins_with(name, "last"))
		return -1;
	v = strstr(name, "-v");
	while (v && strspn(v + 2, "0123456789") != n - (size_t)(v + 2 - name))
		v = strstr(v + 2, "-v");
	if (v && v[2] != '.')
		n = (size_t)(v - name);
	if (strstr(name, "epoch=") || memchr(name, '=', n))
		return -1; /* an epoch or the value of a metric */
	return steps_last_number(name, n);
}

/* ---- the entries of one folder ------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	const struct listing_item *x = *(const struct listing_item *const *)a,
	                          *y = *(const struct listing_item *const *)b;

	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return x->mtime_ns < y->mtime_ns ? -1 : x->mtime_ns > y->mtime_ns;
}

static int by_inode(const void *a, const void *b)
{
	const struct listing_item *x = *(const struct listing_item *const *)a,
	                          *y = *(const struct listing_item *const *)b;

	return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static void add_step(struct siblings *f, const struct listing_item *it)
{
	if (it->type != 'f' || !ends_with(name_of(it), ".ckpt") || lightning_step(name_of(it)) < 0)
		return;
	if (f->n_steps % 64 == 0) {
		f->steps = xreallocarray(f->steps, f->n_steps + 64, sizeof(*f->steps));
		f->inodes = xreallocarray(f->inodes, f->n_steps + 64, sizeof(*f->inodes));
	}
	f->steps[f->n_steps] = it;
	f->inodes[f->n_steps++] = it;
}

void siblings_init(struct siblings *f, const struct listing *l, size_t first, size_t end)
{
	*f = (struct siblings){.l = l, .first = first, .end = end};
	for (size_t i = first; i < end; i = listing_after(l, i)) {
		const struct listing_item *it = &l->items[i];

		if (strcmp(name_of(it), "latest") == 0)
			f->latest = it;
		else if (strcmp(name_of(it), TRACKER) == 0)
			f->tracker = it;
		else
			add_step(f, it);
	}
	if (!f->n_steps)
		return;
	qsort(f->steps, f->n_steps, sizeof(*f->steps), by_size);
	qsort(f->inodes, f->n_steps, sizeof(*f->inodes), by_inode);
}

void siblings_fini(struct siblings *f)
{
	free(f->steps);
	free(f->inodes);
}

/* The number of those in a sorted list that are not greater than it. */
static size_t count_until(const struct listing_item *const *v, size_t n, const struct listing_item *it,
                          int (*compare)(const void *a, const void *b))
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (compare(&v[mid], &it) > 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* last.ckpt is written after the file of its step, with the same content. */
static int64_t last_step(const struct siblings *f, size_t i)
{
	const struct listing_item *last = &f->l->items[i];
	const uint64_t near_ns = 2000000000u;
	size_t k = count_until(f->inodes, f->n_steps, last, by_inode);

	if (k && f->inodes[k - 1]->inode == last->inode && f->inodes[k - 1]->size == last->size)
		return lightning_step(name_of(f->inodes[k - 1]));
	k = count_until(f->steps, f->n_steps, last, by_size);
	if (k && f->steps[k - 1]->size == last->size && last->mtime_ns - f->steps[k - 1]->mtime_ns < near_ns)
		return lightning_step(name_of(f->steps[k - 1]));
	return -1;
}

/* Texts that belong to a run rather than to a checkpoint, and markers. */
static int is_beside(const char *name)
{
	static const char *const ends[] = {".json", ".txt",  ".yaml", ".yml", ".csv",
	                                   ".log",  ".lock", ".md",   ".py",  ".html"};
	static const char *const names[] = {"latest", "latest_universal", TRACKER, "zero_to_fp32.py",
	                                    "hearth.json"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return 1;
	if (begins_with(name, "events.out.tfevents"))
		return 1;
	if (steps_last_number(name, strlen(name)) >= 0)
		return 0;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (ends_with(name, ends[i]))
			return 1;
	return 0;
}

static struct convention file_of(const struct siblings *f, size_t i)
{
	const struct listing_item *it = &f->l->items[i];
	cleanup_free char *ranks = listing_rank_name(name_of(it));
	const char *name = ranks ? ranks : name_of(it); /* the number of a rank does not count */
	struct convention c;

	if (is_beside(name) || it->size == 0)
		return (struct convention){.mark = MARK_NONE, .step = -1};
	if (ends_with(name, ".ckpt") &&
	    (strchr(name, '=') || begins_with(name, "last.") || begins_with(name, "last-"))) {
		c = by_table(MARK_QUIET, "lightning", lightning_step(name));
		if (c.step < 0 && begins_with(name, "last"))
			c.step = last_step(f, i);
		c.linkable = strstr(name, "step=") != NULL;
		return c;
	}
	c = by_name(MARK_QUIET, "plain", name);
	if (ends_with(name, ".ckpt"))
		c.step = lightning_step(name);
	if (c.step < 0)
		c.format = "overwrite";
	if (it->flags & LISTING_MOVED) {
		c.format = "rename";
		c.mark = MARK_WHOLE;
		c.linkable = 1;
	}
	return c;
}

struct convention convention_of(const struct siblings *f, size_t i, const struct keep_moment *at)
{
	const struct listing_item *it = &f->l->items[i];
	const char *name = name_of(it);

	if (steps_is_unfinished(name, strlen(name)))
		return (struct convention){.mark = MARK_NONE, .step = -1};
	if (it->type == 'd')
		return folder_of(f, i, at);
	if (it->type == 'f')
		return file_of(f, i);
	return (struct convention){.mark = MARK_NONE, .step = -1};
}
