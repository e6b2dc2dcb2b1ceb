/*
 * user_tokens_req: tokens of users and sessions of browsers: making, listing, removing, and their last use.
 *
 * Records have only hashes of secrets. A call with an idempotency key leaves its answer, with the token, in
 * the store for 24 hours, so that a repetition gets the same token (idem.h); jobctl sends such a key.
 * Sessions have none.
 *
 * A token never has more rights than its maker: only an administrator makes tokens for other users or with
 * the scope "admin", a token that expires makes none that lives longer, and the removal of a token removes
 * those that were made with it. So a stolen token leaves nothing behind.
 *
 * A session has two secrets. The cookie travels with every request of the browser, also to other ports of the
 * host; the key is known to the page alone. hearthd stores the hash of both together, so one of them opens
 * nothing.
 */
#include "controller/requests/requests.h"

#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/net/token.h"
#include "controller/record/cluster.h"
#include "controller/record/rec.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/request.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

#define USER_TTL_S    (90 * 86400)
#define TTL_MAX_S     (3650 * 86400)
#define TOKENS_MAX    1000 /* of a user */
#define SESSIONS_MAX  50   /* of a user; the oldest ends */
#define SEEN_EVERY_US 60000000u
#define SECRET_BYTES  20

struct token_wish {
	const char *user, *scope, *note;
	int64_t ttl_s;
	uint64_t job;
};

static struct token_rec *token_at(struct cluster_rec *r)
{
	return (struct token_rec *)r;
}

/* Expired tokens count no more; join tokens are nobody's. */
static int is_live(const struct core *c, const struct token_rec *t, const char *user)
{
	return t->kind != TOKEN_JOIN && (!t->expires_us || t->expires_us > now_real(c)) &&
	       (!user || strcmp(t->owner ? t->owner : "", user) == 0);
}

/* ---- removing -------------------------------------------------------------------------------- */

void token_post_removed(struct core *c, const char *id, const char *by)
{
	const struct token_rec *t = cluster_token(&c->records, id);
	cJSON *d = cJSON_CreateObject();

	json_add_str(d, "id", id);
	json_add_str(d, "by", by);
	if (t && t->kind != TOKEN_JOIN)
		json_add_str(d, "user", t->owner);
	cluster_post(c, EV_TOKEN_REMOVED, d);
}

/* Removes the token and all that was made with it. Each step removes one record; there are finitely many. */
static void remove_family(struct core *c, const char *id, const char *by)
{
	cleanup_free char *name = xstrdup(id);
	struct cluster_rec *r, *tmp;
	int again = 1;

	token_post_removed(c, name, by);
	while (again) {
		again = 0;
		HASH_ITER (hh, c->records.all[CLUSTER_TOKEN], r, tmp) {
			if (!token_at(r)->parent || strcmp(token_at(r)->parent, name) != 0)
				continue;
			remove_family(c, r->name, by);
			again = 1; /* the walk's next one may be gone */
			break;
		}
	}
}

void req_token_rm(struct core *c, struct request *rq)
{
	struct token_rec *t = cluster_token(&c->records, rq->node ? rq->node : "");
	const char *me = req_user(c, rq);
	cJSON *body;

	/* Another user's token looks like none: ids are no secrets, but who has which is. */
	if (!t ||
	    (rq->role != ROLE_ADMIN && (t->kind == TOKEN_JOIN || strcmp(t->owner ? t->owner : "", me) != 0))) {
		reply_fail(c, rq, ERR_NOT_FOUND, "there is no token %.40s; list them: jobctl token ls",
		           rq->node ? rq->node : "");
		return;
	}
	body = cJSON_CreateObject();
	json_add_str(body, "id", t->head.name);
	json_add_str(body, "kind", token_kind_names[t->kind]);
	json_add_str(body, "user", t->owner);
	remove_family(c, t->head.name, me);
	hold_reply(c, rq, 200, body);
}

/* ---- listing --------------------------------------------------------------------------------- */

static cJSON *token_json(const struct token_rec *t)
{
	cJSON *o = cJSON_CreateObject();

	json_add_str(o, "id", t->head.name);
	json_add_str(o, "kind", token_kind_names[t->kind]);
	json_add_str(o, "user", t->owner);
	json_add_str(o, "scope", t->scope ? t->scope : t->kind == TOKEN_JOIN ? "join" : "user");
	json_add_str(o, "account", t->account);
	json_add_str(o, "note", t->note);
	json_add_str(o, "made_with", t->parent);
	json_add_time(o, "created_at", t->created_us);
	json_add_time(o, "expires_at", t->expires_us);
	json_add_time(o, "used_at", t->kind == TOKEN_JOIN ? t->used_us : t->seen_us);
	json_add_str(o, "used_from", t->kind == TOKEN_JOIN ? t->node : t->seen_from);
	return o;
}

void req_tokens(struct core *c, struct request *rq)
{
	const char *user = rq->role == ROLE_ADMIN ? NULL : req_user(c, rq);
	cJSON *body = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(body, "tokens");

	for (struct cluster_rec *r = c->records.all[CLUSTER_TOKEN]; r; r = r->hh.next)
		if (is_live(c, token_at(r), user) ||
		    (!user && token_at(r)->kind == TOKEN_JOIN && token_at(r)->expires_us > now_real(c)))
			cJSON_AddItemToArray(list, token_json(token_at(r)));
	hold_reply(c, rq, 200, body);
}

/* ---- last use -------------------------------------------------------------------------------- */

/* Each I/O thread reports the use of a token at most once a minute; so does this, over all of them. */
void req_token_used(struct core *c, struct request *rq)
{
	struct token_rec *t = cluster_token(&c->records, rq->node ? rq->node : "");
	const char *from = "";

	if (t && t->seen_us + SEEN_EVERY_US <= now_real(c) &&
	    json_get_str(rq->body, "", "from", &from, NULL) == 0) {
		t->seen_us = now_real(c);
		rec_set(&t->seen_from, from);
		store_txn_token_seen(turn_now(c)->txn, t->head.name, t->seen_us, from);
		turn_now(c)->n++;
	}
	hold_reply(c, rq, 200, cJSON_CreateObject());
}

/* ---- making ---------------------------------------------------------------------------------- */

/* "job:17", of a job that the user owns: else the token would run its children as another user's account. */
static int check_job_scope(struct core *c, struct token_wish *w, struct err *e)
{
	const struct cjob *j;

	if (str_parse_u64(w->scope + 4, &w->job) < 0 || !w->job)
		return err_set(e, ERR_INVALID, "scope: \"%.40s\": expected job:ID", w->scope);
	j = job_get(c, w->job, e);
	if (!j)
		return err_wrap(e, "scope");
	if (strcmp(j->r.owner ? j->r.owner : "", w->user) != 0)
		return err_set(e, ERR_DENIED, "scope: job %llu belongs to %s, not to %s", (unsigned long long)w->job,
		               j->r.owner ? j->r.owner : "nobody", w->user);
	return 0;
}

static int check_scope(struct core *c, const struct request *rq, struct token_wish *w, struct err *e)
{
	if (!w->scope || strcmp(w->scope, "user") == 0) {
		w->scope = NULL;
		return 0;
	}
	if (strcmp(w->scope, "read") == 0 || strcmp(w->scope, "submit") == 0)
		return 0;
	if (strncmp(w->scope, "job:", 4) == 0)
		return check_job_scope(c, w, e);
	if (strcmp(w->scope, "admin") != 0)
		return err_set(e, ERR_INVALID, "scope: \"%.40s\": expected user, read, submit, job:ID or admin",
		               w->scope);
	return rq->role == ROLE_ADMIN
	           ? 0
	           : err_set(e, ERR_DENIED, "scope: only an administrator makes a token with the scope admin");
}

static int check_room(const struct core *c, const char *user, struct err *e)
{
	unsigned n = 0;

	for (struct cluster_rec *r = c->records.all[CLUSTER_TOKEN]; r; r = r->hh.next)
		n += is_live(c, token_at(r), user) && token_at(r)->kind == TOKEN_USER;
	return n < TOKENS_MAX
	           ? 0
	           : err_set(e, ERR_LIMIT, "%s has %u tokens, which is the limit; remove some: jobctl token rm",
	                     user, n);
}

static int read_wanted(struct core *c, const struct request *rq, struct token_wish *w, struct err *e)
{
	*w = (struct token_wish){.user = req_user(c, rq), .ttl_s = USER_TTL_S};
	if (json_get_str(rq->body, "", "user", &w->user, e) < 0 ||
	    json_get_str(rq->body, "", "scope", &w->scope, e) < 0 ||
	    json_get_str(rq->body, "", "note", &w->note, e) < 0 ||
	    json_get_i64(rq->body, "", "ttl_s", 0, TTL_MAX_S, &w->ttl_s, e) < 0 ||
	    str_check_name(w->user, 63, "user", e) < 0)
		return -1;
	if (w->note && (strlen(w->note) > 200 || str_has_control(w->note)))
		return err_set(e, ERR_INVALID, "note: expected at most 200 printable bytes");
	if (rq->role != ROLE_ADMIN && strcmp(w->user, req_user(c, rq)) != 0)
		return err_set(e, ERR_DENIED, "only an administrator makes tokens for other users (user: %s)",
		               w->user);
	return check_scope(c, rq, w, e) < 0 ? -1 : check_room(c, w->user, e);
}

/* Returns when a new token ends; 0 never. A token of a token ends with it at the latest. The time is
 * absolute, because a rounded duration would let a token extend itself. */
static uint64_t end_of_token(const struct core *c, const struct request *rq, uint64_t ttl_s)
{
	uint64_t wanted = ttl_s ? now_real(c) + ttl_s * 1000000 : 0, parent = rq->token_expires_us;

	return parent && (!wanted || wanted > parent) ? parent : wanted;
}

static struct token_rec *post_made(struct core *c, const struct request *rq, enum token_kind kind,
                                   const struct token_wish *w, const char *hash)
{
	struct token_rec *t;
	char id[17];
	cJSON *d = cJSON_CreateObject();

	token_forget_expired(c);
	snprintf(id, sizeof(id), "%c%.12s", token_kind_names[kind][0], hash);
	json_add_str(d, "id", id);
	json_add_str(d, "kind", token_kind_names[kind]);
	json_add_str(d, "by", req_user(c, rq));
	json_add_str(d, "user", w->user);
	if (w->scope)
		json_add_str(d, "scope", w->scope);
	if (w->job)
		json_add_u64(d, "job", w->job);
	if (w->note && *w->note)
		json_add_str(d, "note", w->note);
	if (rq->account_own && strcmp(w->user, req_user(c, rq)) == 0)
		json_add_str(d, "account", rq->account);
	if (rq->token_id && *rq->token_id)
		json_add_str(d, "made_with", rq->token_id);
	json_add_u64(d, "expires_us", end_of_token(c, rq, (uint64_t)w->ttl_s));
	cluster_post(c, EV_TOKEN_MADE, d);
	t = cluster_token(&c->records, id);
	rec_set(&t->secret_hash, hash);
	return t;
}

static cJSON *made_json(const struct token_rec *t)
{
	cJSON *body = cJSON_CreateObject();

	json_add_str(body, "id", t->head.name);
	json_add_str(body, "kind", token_kind_names[t->kind]);
	json_add_str(body, "user", t->owner);
	json_add_str(body, "scope", t->scope ? t->scope : "user");
	json_add_time(body, "expires_at", t->expires_us);
	return body;
}

void make_user_token(struct core *c, struct request *rq)
{
	uint8_t raw[USER_SECRET_BYTES];
	char hash[HASH_HEX_SIZE];
	cleanup_free char *text = NULL;
	struct token_wish w;
	struct err e;
	cJSON *body;

	if (read_wanted(c, rq, &w, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	c->io.random(raw, sizeof(raw), c->io.arg);
	text = user_token_text(raw, c->io.ca_fingerprint ? c->io.ca_fingerprint(c->io.arg)
	                                                 : "00000000000000000000000000000000");
	hash_hex(text, strlen(text), hash);
	body = made_json(post_made(c, rq, TOKEN_USER, &w, hash));
	json_add_str(body, "token", text);
	hold_reply(c, rq, 201, body);
}

/* Ends the user's oldest session when there are too many. */
static void make_place(struct core *c, const char *user)
{
	const struct token_rec *oldest = NULL;
	unsigned n = 0;

	for (struct cluster_rec *r = c->records.all[CLUSTER_TOKEN]; r; r = r->hh.next) {
		const struct token_rec *t = token_at(r);

		if (t->kind != TOKEN_SESSION || !is_live(c, t, user))
			continue;
		n++;
		if (!oldest || t->created_us < oldest->created_us)
			oldest = t;
	}
	if (n >= SESSIONS_MAX)
		remove_family(c, oldest->head.name, "hearthd");
}

/* The I/O thread has checked who logs in; the body has what the session may do. */
void make_session(struct core *c, struct request *rq)
{
	uint8_t raw[2 * SECRET_BYTES];
	char secrets[4 * SECRET_BYTES + 1], hash[HASH_HEX_SIZE];
	cleanup_free char *both = NULL;
	struct token_wish w = {.user = req_user(c, rq), .ttl_s = 43200};
	struct err e;
	cJSON *body;

	if (json_get_str(rq->body, "", "scope", &w.scope, &e) < 0 ||
	    json_get_str(rq->body, "", "note", &w.note, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	make_place(c, w.user);
	c->io.random(raw, sizeof(raw), c->io.arg);
	str_hex(raw, sizeof(raw), secrets);
	both = xasprintf("%.40s.%.40s", secrets, secrets + 40);
	hash_hex(both, strlen(both), hash);
	body = made_json(post_made(c, rq, TOKEN_SESSION, &w, hash));
	json_add_str(body, "key", secrets + 40);
	secrets[40] = '\0';
	json_add_str(body, "cookie", secrets);
	hold_reply(c, rq, 201, body);
}
