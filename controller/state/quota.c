/*
 * quota: see quota.h. The series of an attempt are a set of hashes: two series with the same hash count as
 * one, which harms nobody.
 */
#include "controller/state/quota.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/ckpt.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/turn.h"

struct quota_user {
	char *name;
	uint64_t series, bytes;
	uint64_t stored; /* bytes of checkpoints in hearthd's store, of all jobs that have not ended */
	unsigned attempts;
	UT_hash_handle hh;
};

struct key {
	uint64_t key;
	UT_hash_handle hh;
};

struct quota_use {
	struct quota_user *user;
	struct key *series, *artifacts;
	uint64_t bytes;
	uint64_t refused; /* reports of series above the quota */
	uint8_t said;     /* bits: 1 << enum quota_kind */
};

static struct quota_user *user_of(struct core *c, const struct cjob *j)
{
	const char *name = j->r.owner ? j->r.owner : "";
	struct quota_user *u;

	HASH_FIND_STR(c->quota_users, name, u);
	if (u)
		return u;
	u = xcalloc(1, sizeof(*u));
	u->name = xstrdup(name);
	HASH_ADD_KEYPTR(hh, c->quota_users, u->name, strlen(u->name), u);
	return u;
}

static void forget_unused(struct core *c, struct quota_user *u)
{
	if (u->attempts || u->stored)
		return;
	HASH_DEL(c->quota_users, u);
	free(u->name);
	free(u);
}

static struct quota_use *use_of(struct core *c, struct cjob *j)
{
	struct quota_user *u;

	if (j->act->quota)
		return j->act->quota;
	u = user_of(c, j);
	u->attempts++;
	j->act->quota = xcalloc(1, sizeof(*j->act->quota));
	j->act->quota->user = u;
	return j->act->quota;
}

void quota_say(struct core *c, struct cjob *j, enum quota_kind kind, const char *text)
{
	static const char *const names[] = {"log", "series", "artifact", "checkpoints", "checkpoint_files"};
	struct quota_use *q = use_of(c, j);
	cJSON *d;

	if (q->said & 1u << kind)
		return;
	q->said |= (uint8_t)(1u << kind);
	d = cJSON_CreateObject();
	json_add_str(d, "quota", names[kind]);
	json_add_str(d, "text", text);
	job_post(c, j, EV_OVER_QUOTA, d);
	log_warn("event=over_quota job=%" PRIu64 " quota=%s text=\"%s\"", j->r.id, names[kind], text);
}

#define HASH_START 0xcbf29ce484222325u

/* FNV-1a, with the ending 0. */
static uint64_t hash_text(uint64_t h, const char *text)
{
	do
		h = (h ^ (uint8_t)*text) * 0x100000001b3u;
	while (*text++);
	return h;
}

static int set_has(struct key *set, uint64_t key)
{
	struct key *k;

	HASH_FIND(hh, set, &key, sizeof(key), k);
	return k != NULL;
}

static void set_add(struct key **set, uint64_t key)
{
	struct key *k = xcalloc(1, sizeof(*k));

	k->key = key;
	HASH_ADD(hh, *set, key, sizeof(k->key), k);
}

static void set_free(struct key **set)
{
	struct key *k, *next;

	HASH_ITER (hh, *set, k, next) {
		HASH_DEL(*set, k);
		free(k);
	}
}

static int is_above(uint64_t n, uint64_t most)
{
	return most && n > most;
}

int quota_series(struct core *c, struct cjob *j, const char *name, uint32_t rank)
{
	const struct quota_limits *l = &c->cfg.quota;
	struct quota_use *q = use_of(c, j);
	uint64_t key = hash_text(HASH_START ^ rank, name);
	TEXT(text);

	if (set_has(q->series, key))
		return 1;
	if (is_above(HASH_COUNT(q->series) + 1, l->series_job))
		text_add(&text,
		         "the metric \"%.128s\" of rank %u is not stored: an attempt may have %" PRIu64
		         " series (max_series_job)",
		         name, rank, l->series_job);
	else if (is_above(q->user->series + 1, l->series_user))
		text_add(&text,
		         "the metric \"%.128s\" of rank %u is not stored: all running jobs of a user may have "
		         "%" PRIu64 " series (max_series_user)",
		         name, rank, l->series_user);
	if (!text_is_empty(&text)) {
		q->refused++;
		quota_say(c, j, QUOTA_SERIES, text.at);
		return 0;
	}
	set_add(&q->series, key);
	q->user->series++;
	return 1;
}

/* 0: so many bytes more fit; -1: an event says that they do not. */
static int check_bytes(struct core *c, struct cjob *j, const char *kind, uint64_t bytes, const char *node)
{
	const struct quota_limits *l = &c->cfg.quota;
	const struct quota_use *q = use_of(c, j);
	uint64_t stored = ckpt_stored(&j->r);
	char size[24], most[24];
	TEXT(text);

	str_size(bytes, size, sizeof(size));
	if (is_above(q->bytes + stored + bytes, l->artifact_job))
		text_add(&text,
		         "%.40s of node %s (%s) is not stored: outputs of an attempt%s may have %s "
		         "(max_artifacts_job_mb). Set output_uri",
		         kind, node, size, stored ? " and checkpoints of its job" : "",
		         str_size(l->artifact_job, most, sizeof(most)));
	else if (is_above(q->user->bytes + q->user->stored + bytes, l->artifact_user))
		text_add(&text,
		         "%.40s of node %s (%s) is not stored: outputs of all running jobs of a user may have %s "
		         "(max_artifacts_user_mb). Set output_uri",
		         kind, node, size, str_size(l->artifact_user, most, sizeof(most)));
	if (text_is_empty(&text))
		return 0;
	quota_say(c, j, QUOTA_ARTIFACT, text.at);
	return -1;
}

int quota_checkpoint(struct core *c, struct cjob *j, uint64_t bytes, const char *node)
{
	return check_bytes(c, j, "checkpoint", bytes, node);
}

void quota_stored(struct core *c, struct cjob *j, int gone)
{
	uint64_t now = gone || job_ended(j->r.status) ? 0 : ckpt_stored(&j->r);
	struct quota_user *u;

	if (now == j->stored)
		return;
	u = user_of(c, j);
	u->stored = u->stored - j->stored + now;
	j->stored = now;
	forget_unused(c, u);
}

int quota_artifact(struct core *c, struct cjob *j, const struct wm_artifact_report *m, const char *node)
{
	struct quota_use *q = use_of(c, j);
	uint64_t key = hash_text(hash_text(hash_text(HASH_START, m->kind), node), m->digest);

	if (set_has(q->artifacts, key)) /* reported again */
		return 0;
	if (check_bytes(c, j, m->kind, m->size_bytes, node) < 0)
		return -1;
	q->bytes += m->size_bytes;
	q->user->bytes += m->size_bytes;
	set_add(&q->artifacts, key);
	return 0;
}

void quota_free(struct core *c, struct active *a)
{
	struct quota_use *q = a->quota;

	if (!q)
		return;
	if (q->refused)
		log_info("event=series_refused user=%s reports=%" PRIu64, q->user->name, q->refused);
	q->user->series -= HASH_COUNT(q->series);
	q->user->bytes -= q->bytes;
	q->user->attempts--;
	forget_unused(c, q->user);
	set_free(&q->series);
	set_free(&q->artifacts);
	free(q);
	a->quota = NULL;
}
