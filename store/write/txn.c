/*
 * txn: filling a transaction. Operations and their values are copied into one growing block, which the writer
 * binds to its statements without copying again; so a submit costs the state thread a few memcpy's instead of
 * an allocation for every string.
 */
#include "store/write/txn.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "store/base/columns.h"
#include "store/base/rows.h"
#include "store/write/txn_op.h"

struct store_txn *store_txn_new(void)
{
	return xcalloc(1, sizeof(struct store_txn));
}

void store_txn_free(struct store_txn *t)
{
	if (!t)
		return;
	free(t->err);
	free(t->data);
	free(t);
}

static size_t aligned_size(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

/* n zeroed bytes at the end; valid until the next call. */
static void *extend_block(struct store_txn *t, size_t n)
{
	size_t need = t->len + aligned_size(n);

	if (need > t->cap) {
		t->cap = need * 2 < 1024 ? 1024 : need * 2;
		t->data = xrealloc(t->data, t->cap);
	}
	memset(t->data + t->len, 0, need - t->len);
	t->len = need;
	return t->data + need - aligned_size(n);
}

static void begin_op(struct store_txn *t, enum op_kind kind, uint64_t key)
{
	struct op *o = extend_block(t, sizeof(*o));

	t->last = t->len - aligned_size(sizeof(*o));
	o->kind = kind;
	o->key = key;
}

static void end_op(struct store_txn *t)
{
	struct op *o = (struct op *)(void *)(t->data + t->last);

	o->size = t->len - t->last;
}

static void count_param(struct store_txn *t)
{
	((struct op *)(void *)(t->data + t->last))->n++;
}

static void put_i(struct store_txn *t, int64_t v)
{
	struct param *p = extend_block(t, sizeof(*p));

	p->type = PARAM_INT;
	p->i = v;
	count_param(t);
}

static void put_u(struct store_txn *t, uint64_t v)
{
	assert(v <= INT64_MAX); /* ids and times; SQLite has no unsigned */
	put_i(t, (int64_t)v);
}

static void put_bytes(struct store_txn *t, enum param_type type, const void *data, size_t n)
{
	struct param *p = extend_block(t, sizeof(*p) + n + 1);

	assert(n <= UINT32_MAX);
	p->type = type;
	p->n = (uint32_t)n;
	if (n)
		memcpy(p + 1, data, n);
	count_param(t);
}

static void put_s(struct store_txn *t, const char *s)
{
	if (s) {
		put_bytes(t, PARAM_TEXT, s, strlen(s));
		return;
	}
	extend_block(t, sizeof(struct param)); /* PARAM_NULL is 0 */
	count_param(t);
}

const struct op *txn_next(const struct store_txn *t, size_t *at)
{
	const struct op *o;

	if (*at >= t->len)
		return NULL;
	o = (const struct op *)(const void *)(t->data + *at);
	*at += o->size;
	return o;
}

const struct param *op_params(const struct op *o)
{
	return (const struct param *)(const void *)(o + 1);
}

const struct param *param_next(const struct param *p)
{
	size_t n = sizeof(*p) + (p->type == PARAM_TEXT || p->type == PARAM_BLOB ? p->n + 1u : 0);

	return (const struct param *)(const void *)((const uint8_t *)p + aligned_size(n));
}

const void *param_bytes(const struct param *p)
{
	return p + 1;
}

const char *param_text(const struct param *p)
{
	return p->type == PARAM_NULL ? NULL : (const char *)(p + 1);
}

/* ---- the records: values in the order of the statements in apply.c ---------------------------------- */

void store_txn_event(struct store_txn *t, const struct event_row *r)
{
	begin_op(t, OP_EVENT, r->job);
	put_u(t, r->id);
	put_u(t, r->job);
	put_u(t, r->attempt);
	put_u(t, r->at_us);
	put_s(t, r->type);
	put_s(t, r->data ? r->data : "{}");
	end_op(t);
	if (r->id > t->max_event)
		t->max_event = r->id;
}

#define PUT_TEXT(v)     put_s(t, v);
#define PUT_NULLABLE(v) put_s(t, v);
#define PUT_FILLED(v)   put_s(t, (v) ? (v) : "");
#define PUT_U64(v)      put_u(t, v);
#define PUT_U32(v)      put_u(t, v);
#define PUT_U8(v)       put_u(t, v);
#define PUT_I64(v)      put_i(t, v);

#define PUT_COLUMN(kind, name, how) PUT_##kind(r->name)

void store_txn_job(struct store_txn *t, const struct job_row *r)
{
	begin_op(t, OP_JOB, r->id);
	JOB_TABLE(PUT_COLUMN, PUT_COLUMN)
	end_op(t);
	if (r->id + r->members > t->max_job)
		t->max_job = r->id + r->members;
	if (!r->spec)
		return;
	begin_op(t, OP_JOB_SPEC, r->id);
	put_u(t, r->id);
	put_s(t, r->spec);
	put_s(t, r->run);
	end_op(t);
}

void store_txn_attempt(struct store_txn *t, const struct attempt_row *r)
{
	begin_op(t, OP_ATTEMPT, r->job);
	ATTEMPT_TABLE(PUT_COLUMN, PUT_COLUMN)
	end_op(t);
}

void store_txn_rank(struct store_txn *t, const struct rank_row *r)
{
	begin_op(t, OP_RANK, r->job);
	RANK_TABLE(PUT_COLUMN, PUT_COLUMN)
	end_op(t);
}

void store_txn_checkpoint(struct store_txn *t, const struct checkpoint_row *r)
{
	begin_op(t, OP_CHECKPOINT, r->job);
	CHECKPOINT_TABLE(PUT_COLUMN, PUT_COLUMN)
	end_op(t);
}

void store_txn_checkpoint_part(struct store_txn *t, const struct checkpoint_part_row *r)
{
	begin_op(t, OP_CHECKPOINT_PART, r->job);
	CHECKPOINT_PART_TABLE(PUT_COLUMN, PUT_COLUMN)
	end_op(t);
}

/* Pools have numbers of jobs. */
void store_txn_pool(struct store_txn *t, const struct pool_row *r)
{
	begin_op(t, OP_POOL, 0);
	POOL_TABLE(PUT_COLUMN, PUT_COLUMN)
	end_op(t);
	if (r->id > t->max_job)
		t->max_job = r->id;
}

void store_txn_pool_job(struct store_txn *t, const struct pool_job_row *r)
{
	begin_op(t, OP_POOL_JOB, 0);
	POOL_JOB_TABLE(PUT_COLUMN, PUT_COLUMN)
	end_op(t);
}

void store_txn_checkpoint_del(struct store_txn *t, uint64_t job, uint32_t number)
{
	begin_op(t, OP_CHECKPOINT_DEL, job);
	put_u(t, job);
	put_u(t, number);
	end_op(t);
	begin_op(t, OP_CHECKPOINT_PARTS_DEL, job);
	put_u(t, job);
	put_u(t, number);
	end_op(t);
}

void store_txn_watch(struct store_txn *t, uint64_t job, const char *state)
{
	begin_op(t, state ? OP_WATCH : OP_WATCH_DEL, job);
	put_u(t, job);
	if (state)
		put_s(t, state);
	end_op(t);
}

void store_txn_node(struct store_txn *t, const struct node_row *r)
{
	begin_op(t, OP_NODE, NODE_KEY | r->id);
	put_u(t, r->id);
	put_s(t, r->name);
	put_s(t, r->address);
	put_s(t, r->state);
	put_s(t, r->reason);
	put_s(t, r->cert_fingerprint);
	put_s(t, r->inventory);
	put_u(t, r->joined_us);
	put_u(t, r->seen_us);
	put_u(t, r->drain);
	put_u(t, r->spare);
	end_op(t);
}

void store_txn_artifact(struct store_txn *t, const struct artifact_row *r)
{
	begin_op(t, OP_ARTIFACT, r->job);
	put_u(t, r->job);
	put_u(t, r->attempt);
	put_s(t, r->kind);
	put_s(t, r->node ? r->node : "");
	put_s(t, r->digest ? r->digest : "");
	put_s(t, r->uri ? r->uri : "");
	put_u(t, r->size_bytes);
	put_u(t, r->files);
	put_u(t, r->at_us);
	end_op(t);
}

void store_txn_tag(struct store_txn *t, const struct tag_row *r)
{
	begin_op(t, OP_TAG, r->job);
	put_u(t, r->job);
	put_s(t, r->key);
	put_s(t, r->value);
	end_op(t);
}

void store_txn_answer(struct store_txn *t, const struct answer_row *r)
{
	begin_op(t, OP_ANSWER, 0);
	put_s(t, r->key);
	put_s(t, r->digest);
	put_u(t, r->status);
	put_s(t, r->body);
	put_u(t, r->at_us);
	end_op(t);
	if (r->at_us <= IDEM_KEPT_US)
		return;
	begin_op(t, OP_ANSWERS_OLD, 0);
	put_u(t, r->at_us - IDEM_KEPT_US);
	end_op(t);
}

void store_txn_token(struct store_txn *t, const struct token_row *r)
{
	begin_op(t, OP_TOKEN, 0);
	put_s(t, r->id);
	put_s(t, r->kind);
	put_s(t, r->secret_hash);
	put_s(t, r->owner);
	put_u(t, r->job);
	put_u(t, r->created_us);
	put_u(t, r->expires_us);
	put_u(t, r->used_us);
	put_s(t, r->used_by);
	put_s(t, r->scope);
	put_s(t, r->account);
	put_s(t, r->note);
	put_s(t, r->made_with);
	put_u(t, r->seen_us);
	put_s(t, r->seen_from);
	end_op(t);
}

void store_txn_token_seen(struct store_txn *t, const char *id, uint64_t seen_us, const char *from)
{
	begin_op(t, OP_TOKEN_SEEN, 0);
	put_s(t, id);
	put_u(t, seen_us);
	put_s(t, from);
	end_op(t);
}

void store_txn_token_del(struct store_txn *t, const char *id)
{
	begin_op(t, OP_TOKEN_DEL, 0);
	put_s(t, id);
	end_op(t);
}

void store_txn_queue(struct store_txn *t, const struct queue_row *r)
{
	begin_op(t, OP_QUEUE, 0);
	put_s(t, r->path);
	put_u(t, r->is_queue);
	put_u(t, r->weight_milli);
	put_u(t, r->quota_gpus);
	put_u(t, r->borrow);
	put_u(t, r->warm_gpus);
	put_u(t, r->warm_nodes);
	end_op(t);
}

void store_txn_queue_del(struct store_txn *t, const char *path)
{
	begin_op(t, OP_QUEUE_DEL, 0);
	put_s(t, path);
	end_op(t);
}

void store_txn_usage(struct store_txn *t, const struct usage_row *r)
{
	begin_op(t, OP_USAGE, 0);
	put_s(t, r->path);
	put_u(t, r->gpu_ms);
	put_u(t, r->at_us);
	end_op(t);
}

void store_txn_instance(struct store_txn *t, const char *name, const char *own)
{
	begin_op(t, own ? OP_INSTANCE : OP_INSTANCE_DEL, 0);
	put_s(t, name);
	if (own)
		put_s(t, own);
	end_op(t);
}

void store_txn_reservation(struct store_txn *t, const struct reservation_row *r)
{
	begin_op(t, OP_RESERVATION, 0);
	put_s(t, r->name);
	put_s(t, r->state);
	put_s(t, r->queue);
	put_s(t, r->nodes);
	put_s(t, r->reason);
	put_s(t, r->owner);
	put_u(t, r->from_us);
	put_u(t, r->to_us);
	put_u(t, r->created_us);
	end_op(t);
}

void store_txn_reservation_del(struct store_txn *t, const char *name)
{
	begin_op(t, OP_RESERVATION_DEL, 0);
	put_s(t, name);
	end_op(t);
}

void store_txn_budget(struct store_txn *t, const struct budget_row *r)
{
	begin_op(t, r->uusd ? OP_BUDGET : OP_BUDGET_DEL, 0);
	put_s(t, r->path);
	if (r->uusd) {
		put_u(t, r->uusd);
		put_s(t, r->period);
		put_s(t, r->action);
	}
	end_op(t);
}

void store_txn_history(struct store_txn *t, int begins, uint64_t at_us, const char *text, size_t n)
{
	begin_op(t, begins ? OP_HISTORY_BEGIN : OP_HISTORY, 0);
	put_u(t, at_us);
	put_bytes(t, PARAM_TEXT, text, n);
	end_op(t);
}

void store_txn_history_old(struct store_txn *t, uint64_t keep_bytes)
{
	begin_op(t, OP_HISTORY_OLD, 0);
	put_u(t, keep_bytes);
	end_op(t);
}

void store_txn_setting(struct store_txn *t, const char *key, const char *value)
{
	begin_op(t, value ? OP_SETTING : OP_SETTING_DEL, 0);
	put_s(t, key);
	if (value)
		put_s(t, value);
	end_op(t);
}

void store_txn_run_info(struct store_txn *t, uint64_t job, uint32_t attempt, const char *node,
                        const char *kind, const char *text)
{
	begin_op(t, OP_RUN_INFO, job);
	put_u(t, job);
	put_u(t, attempt);
	put_s(t, node ? node : "");
	put_s(t, kind);
	put_s(t, text);
	end_op(t);
}

void store_txn_metric(struct store_txn *t, const struct metric_chunk *c)
{
	if (c->n == 0)
		return;
	/* No key: losing points does not make a later state of the job wrong. */
	begin_op(t, OP_METRIC, 0);
	put_u(t, c->job);
	put_u(t, c->attempt);
	put_u(t, c->rank);
	put_s(t, c->name);
	put_s(t, c->node ? c->node : "");
	put_u(t, c->seq);
	put_bytes(t, PARAM_BLOB, c->steps, c->n * sizeof(*c->steps));
	put_bytes(t, PARAM_BLOB, c->values, c->n * sizeof(*c->values));
	put_bytes(t, PARAM_BLOB, c->times_us, c->n * sizeof(*c->times_us));
	end_op(t);
}

static void drop_op(struct store_txn *t, uint64_t job, unsigned what, uint64_t at_us, unsigned if_not_pinned)
{
	begin_op(t, OP_DROP, job);
	put_u(t, job);
	put_u(t, what & STORE_ALL);
	put_u(t, at_us);
	put_u(t, if_not_pinned);
	end_op(t);
}

void store_txn_drop(struct store_txn *t, uint64_t job, unsigned what, uint64_t at_us)
{
	drop_op(t, job, what, at_us, 0);
}

void store_txn_retire(struct store_txn *t, uint64_t job, unsigned what, uint64_t at_us)
{
	drop_op(t, job, what, at_us, 1);
}
