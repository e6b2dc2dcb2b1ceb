/*
 * keep_index: see keep_index.h.
 */
#include "agent/keep/keep_index.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "common/os/fsutil.h"

#define INDEX_MAX (1024u * 1024)

void keep_entry_fini(struct keep_entry *en)
{
	free(en->name);
	free(en->format);
	free(en->step_by);
	free(en->uri);
}

void keep_index_fini(struct keep_index *x)
{
	for (size_t i = 0; i < x->n; i++)
		keep_entry_fini(&x->v[i]);
	for (size_t i = 0; i < x->n_removing; i++)
		free(x->removing[i].copy);
	free(x->v);
	free(x->removing);
	*x = (struct keep_index){0};
}

struct keep_entry *keep_index_add(struct keep_index *x)
{
	x->v = xreallocarray(x->v, x->n + 1, sizeof(*x->v));
	x->v[x->n] = (struct keep_entry){0};
	return &x->v[x->n++];
}

struct keep_entry *keep_index_find(const struct keep_index *x, uint64_t seq)
{
	for (size_t i = 0; i < x->n; i++)
		if (x->v[i].seq == seq)
			return &x->v[i];
	return NULL;
}

static void add_removal(struct keep_index *x, const struct keep_removal *r)
{
	if (x->n_removing == KEEP_REMOVALS)
		keep_index_removed(x, x->removing[0].seq);
	x->removing = xreallocarray(x->removing, x->n_removing + 1, sizeof(*x->removing));
	x->removing[x->n_removing++] = *r;
}

int keep_index_drop(struct keep_index *x, uint64_t seq, const char *copy)
{
	struct keep_entry *en = keep_index_find(x, seq);
	size_t i;

	if (!en)
		return 0;
	add_removal(x, &(struct keep_removal){.seq = seq, .bytes = en->bytes, .copy = xstrdup(copy ? copy : "")});
	i = (size_t)(en - x->v);
	keep_entry_fini(en);
	memmove(en, en + 1, (x->n - i - 1) * sizeof(*en));
	x->n--;
	return 1;
}

struct keep_entry *keep_index_again(struct keep_index *x, uint64_t seq)
{
	struct keep_entry *en = keep_index_find(x, seq);

	if (!en || en->state != CKPT_VERIFIED || strcmp(en->uri, CKPT_URI_STORE) != 0)
		return NULL;
	en->state = CKPT_COPYING;
	free(en->uri);
	en->uri = xstrdup("");
	return en;
}

int keep_index_removed(struct keep_index *x, uint64_t seq)
{
	for (size_t i = 0; i < x->n_removing; i++) {
		struct keep_removal *r = &x->removing[i];

		if (r->seq != seq)
			continue;
		free(r->copy);
		memmove(r, r + 1, (x->n_removing - i - 1) * sizeof(*r));
		x->n_removing--;
		return 1;
	}
	return 0;
}

int keep_entry_newer(const struct keep_entry *a, const struct keep_entry *b)
{
	return a->at_us != b->at_us ? a->at_us > b->at_us : a->seq > b->seq;
}

/* Numbers above 2^53 are texts in JSON. */
static void add_print(cJSON *o, const char *key, uint64_t print)
{
	cleanup_free char *text = xasprintf("%" PRIx64, print);

	json_add_str(o, key, text);
}

static uint64_t get_print(const cJSON *o, const char *key)
{
	return strtoull(json_str_or(o, key, "0"), NULL, 16);
}

static cJSON *entry_json(const struct keep_entry *en)
{
	cJSON *o = cJSON_CreateObject();

	json_add_u64(o, "seq", en->seq);
	cJSON_AddNumberToObject(o, "step", (double)en->step);
	json_add_str(o, "name", en->name);
	json_add_str(o, "format", en->format);
	json_add_str(o, "step_by", en->step_by);
	json_add_u64(o, "state", en->state);
	json_add_u64(o, "shards", en->shards);
	json_add_u64(o, "files", en->files);
	json_add_u64(o, "bytes", en->bytes);
	json_add_u64(o, "at_us", en->at_us);
	json_add_u64(o, "save_ms", en->save_ms);
	json_add_str(o, "digest", en->digest);
	json_add_str(o, "uri", en->uri);
	add_print(o, "print", en->print);
	add_print(o, "held_print", en->held_print);
	return o;
}

static int64_t step_of(const cJSON *o)
{
	const cJSON *step = cJSON_GetObjectItemCaseSensitive(o, "step");

	return cJSON_IsNumber(step) ? (int64_t)step->valuedouble : -1;
}

static void entry_from(const cJSON *o, struct keep_entry *en)
{
	const char *digest = json_str_or(o, "digest", "");

	*en = (struct keep_entry){.seq = json_whole(o, "seq", 0),
	                          .step = step_of(o),
	                          .name = xstrdup(json_str_or(o, "name", "")),
	                          .format = xstrdup(json_str_or(o, "format", "plain")),
	                          .step_by = xstrdup(json_str_or(o, "step_by", "name")),
	                          .state = (uint8_t)json_whole(o, "state", CKPT_COPYING),
	                          .shards = (uint32_t)json_whole(o, "shards", 0),
	                          .files = (uint32_t)json_whole(o, "files", 0),
	                          .bytes = json_whole(o, "bytes", 0),
	                          .at_us = json_whole(o, "at_us", 0),
	                          .save_ms = json_whole(o, "save_ms", 0),
	                          .uri = xstrdup(json_str_or(o, "uri", "")),
	                          .print = get_print(o, "print"),
	                          .held_print = get_print(o, "held_print")};
	if (hash_is_hex(digest))
		memcpy(en->digest, digest, HASH_HEX_SIZE);
}

static cJSON *done_json(const struct keep_done *d)
{
	cJSON *o = cJSON_CreateObject();

	add_print(o, "name", d->name);
	add_print(o, "family", d->family);
	add_print(o, "print", d->print);
	json_add_u64(o, "changed_us", d->changed_us);
	return o;
}

static void done_from(const cJSON *o, struct keep_index *x)
{
	const struct keep_done d = {.name = get_print(o, "name"),
	                            .family = get_print(o, "family"),
	                            .print = get_print(o, "print"),
	                            .changed_us = json_whole(o, "changed_us", 0)};

	keep_done_add(x->done, &x->n_done, &d);
}

static cJSON *removal_json(const struct keep_removal *r)
{
	cJSON *o = cJSON_CreateObject();

	json_add_u64(o, "seq", r->seq);
	json_add_u64(o, "bytes", r->bytes);
	json_add_str(o, "copy", r->copy);
	return o;
}

static void removal_from(const cJSON *o, struct keep_index *x)
{
	add_removal(x, &(struct keep_removal){.seq = json_whole(o, "seq", 0),
	                                      .bytes = json_whole(o, "bytes", 0),
	                                      .copy = xstrdup(json_str_or(o, "copy", ""))});
}

void keep_index_set_steps(struct keep_index *x, const struct keep_moment *m)
{
	x->n_steps = m->n_steps < KEEP_SAVED_STEPS ? m->n_steps : KEEP_SAVED_STEPS;
	if (x->n_steps)
		memcpy(x->steps, m->steps + (m->n_steps - x->n_steps), x->n_steps * sizeof(*x->steps));
}

static cJSON *step_json(const struct keep_step *s)
{
	cJSON *o = cJSON_CreateObject();

	json_add_u64(o, "at_us", s->at_us);
	cJSON_AddNumberToObject(o, "step", (double)s->step);
	return o;
}

static void step_from(const cJSON *o, struct keep_index *x)
{
	if (x->n_steps < KEEP_SAVED_STEPS)
		x->steps[x->n_steps++] = (struct keep_step){.at_us = json_whole(o, "at_us", 0), .step = step_of(o)};
}

int keep_index_save(const struct keep_index *x, const char *dir, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/index", dir), *text = NULL;
	cJSON *o = cJSON_CreateObject(), *list;

	json_add_u64(o, "version", 1);
	json_add_u64(o, "next_seq", x->next_seq);
	list = cJSON_AddArrayToObject(o, "held");
	for (size_t i = 0; i < x->n; i++)
		cJSON_AddItemToArray(list, entry_json(&x->v[i]));
	list = cJSON_AddArrayToObject(o, "removing");
	for (size_t i = 0; i < x->n_removing; i++)
		cJSON_AddItemToArray(list, removal_json(&x->removing[i]));
	list = cJSON_AddArrayToObject(o, "steps");
	for (uint32_t i = 0; i < x->n_steps; i++)
		cJSON_AddItemToArray(list, step_json(&x->steps[i]));
	list = cJSON_AddArrayToObject(o, "done");
	for (size_t i = 0; i < x->n_done; i++)
		cJSON_AddItemToArray(list, done_json(&x->done[i]));
	text = json_text(o);
	cJSON_Delete(o);
	return fs_replace(path, text, strlen(text), 0600, e);
}

int keep_index_load(struct keep_index *x, const char *dir, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/index", dir), *text = NULL;
	struct keep_index got = {0};
	const cJSON *list, *one;
	cJSON *o;
	size_t n = 0;

	if (fs_read_file(path, INDEX_MAX, &text, &n, e) < 0) {
		if (e->code != ERR_NOT_FOUND)
			return -1;
		*x = got;
		return 0;
	}
	o = json_parse(text, n, e);
	if (!o)
		return err_wrap(e, "%s", path);
	got.next_seq = json_whole(o, "next_seq", 1);
	list = cJSON_GetObjectItemCaseSensitive(o, "held");
	cJSON_ArrayForEach (one, list)
		entry_from(one, keep_index_add(&got));
	list = cJSON_GetObjectItemCaseSensitive(o, "removing");
	cJSON_ArrayForEach (one, list)
		removal_from(one, &got);
	list = cJSON_GetObjectItemCaseSensitive(o, "steps");
	cJSON_ArrayForEach (one, list)
		step_from(one, &got);
	list = cJSON_GetObjectItemCaseSensitive(o, "done");
	cJSON_ArrayForEach (one, list)
		done_from(one, &got);
	cJSON_Delete(o);
	*x = got;
	return 0;
}
