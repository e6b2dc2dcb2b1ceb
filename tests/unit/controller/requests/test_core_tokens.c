/*
 * Tokens of users and sessions on the state thread: who may make which, lists, removal with all that was made
 * with one, last use, bounds, and the same after a restart.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/net/token.h"
#include "controller/record/cluster.h"
#include "store/read/find.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"

#define ONE "{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\"}"

struct who {
	const char *user;
	enum user_role role;
	const char *token; /* id of the token that brings the call; NULL none */
	uint64_t expires_us;
	const char *own; /* the user's own account; NULL: hearthd's rules name one */
};

static int ask(struct world *w, const struct who *as, enum request_op op, const char *node, const char *body)
{
	struct request *rq = world_rq(w, op, 0);

	free(rq->user);
	rq->user = xstrdup(as->user);
	rq->role = as->role;
	rq->token_id = as->token ? xstrdup(as->token) : NULL;
	rq->token_expires_us = as->expires_us;
	rq->account = as->own ? xstrdup(as->own) : NULL;
	rq->account_own = as->own != NULL;
	rq->node = node ? xstrdup(node) : NULL;
	rq->body = cJSON_Parse(body ? body : "{}");
	core_request(w->core, rq);
	world_turn(w);
	return w->status;
}

static const struct who root = {.user = "root", .role = ROLE_ADMIN}, ada = {.user = "ada", .role = ROLE_USER},
                        bob = {.user = "bob", .role = ROLE_USER};

/* The id of a token made so; "" refused. */
static char *make(struct world *w, const struct who *as, const char *body)
{
	return ask(w, as, REQ_TOKEN, NULL, body) == 201 ? xstrdup(world_text(w, "id")) : xstrdup("");
}

static unsigned listed(struct world *w, const struct who *as)
{
	ask(w, as, REQ_TOKENS, NULL, NULL);
	return (unsigned)cJSON_GetArraySize(cJSON_GetObjectItem(w->body, "tokens"));
}

static void test_make(void)
{
	struct world *w = world_create(1);
	cleanup_free char *text = NULL;
	char print[33], hash[HASH_HEX_SIZE];
	const struct token_rec *t;
	struct err e;
	struct who own = ada;

	is_int(ask(w, &ada, REQ_TOKEN, NULL, "{\"kind\": \"join\"}"), 403, "a user makes no token for a node");
	is_int(ask(w, &root, REQ_TOKEN, NULL, "{\"kind\": \"user\", \"user\": \"ada\", \"note\": \"laptop\"}"),
	       201, "an administrator makes one for a user");
	text = xstrdup(world_text(w, "token"));
	ok(user_token_parse(text, print, &e) == 0, "its text is whole: %s", text);
	t = cluster_token(&w->core->records, world_text(w, "id"));
	hash_hex(text, strlen(text), hash);
	ok(t && strcmp(t->secret_hash, hash) == 0, "hearthd stores the hash only");
	ok(t && !t->account && t->expires_us - t->created_us == 90ull * 86400 * 1000000,
	   "hearthd's rules name its account; it lives for 90 days");
	own.own = "alice";
	is_int(ask(w, &own, REQ_TOKEN, NULL, "{\"kind\": \"user\", \"ttl_s\": 0}"), 201,
	       "a user makes one for himself");
	t = cluster_token(&w->core->records, world_text(w, "id"));
	ok(t && t->account && strcmp(t->account, "alice") == 0 && !t->expires_us,
	   "with his own account, and for ever if he wants");
	is_int(ask(w, &ada, REQ_TOKEN, NULL, "{\"kind\": \"user\", \"user\": \"bob\"}"), 403, "not for others");
	is_int(ask(w, &ada, REQ_TOKEN, NULL, "{\"kind\": \"user\", \"scope\": \"admin\"}"), 403,
	       "not with more rights");
	is_int(ask(w, &root, REQ_TOKEN, NULL, "{\"kind\": \"user\", \"scope\": \"admin\"}"), 201,
	       "an administrator may do that");
	is_int(ask(w, &ada, REQ_TOKEN, NULL, "{\"kind\": \"user\", \"scope\": \"all\"}"), 400,
	       "an unknown scope");
	is_int(ask(w, &root, REQ_TOKEN, NULL, "{\"kind\": \"user\", \"user\": \"../x\"}"), 400, "no user's name");
	is_int(ask(w, &ada, REQ_TOKEN, NULL, "{\"kind\": \"odd\"}"), 400, "an unknown kind");
	world_end_well(w);
}

static void test_job_scope(void)
{
	struct world *w = world_create(2);

	is_int((int)world_submit(w, ONE), 1, "a job of ada");
	is_int(ask(w, &ada, REQ_TOKEN, NULL, "{\"kind\": \"user\", \"scope\": \"job:1\"}"), 201,
	       "a token for it");
	is_int((int)cluster_token(&w->core->records, world_text(w, "id"))->job, 1, "names the job");
	is_int(ask(w, &bob, REQ_TOKEN, NULL, "{\"kind\": \"user\", \"scope\": \"job:1\"}"), 403,
	       "not for another user");
	is_int(ask(w, &root, REQ_TOKEN, NULL, "{\"kind\": \"user\", \"user\": \"bob\", \"scope\": \"job:1\"}"),
	       403, "whoever asks: its children would run as ada's account");
	is_int(ask(w, &ada, REQ_TOKEN, NULL, "{\"kind\": \"user\", \"scope\": \"job:9\"}"), 404,
	       "not for a missing job");
	is_int(ask(w, &ada, REQ_TOKEN, NULL, "{\"kind\": \"user\", \"scope\": \"job:x\"}"), 400, "not for none");
	world_end_well(w);
}

static void test_list_and_remove(void)
{
	struct world *w = world_create(3);
	cleanup_free char *a = make(w, &root, "{\"kind\": \"user\", \"user\": \"ada\"}");
	cleanup_free char *b = make(w, &root, "{\"kind\": \"user\", \"user\": \"bob\"}");
	struct who by_a = ada, by_child = ada;
	cleanup_free char *child = NULL, *grandchild = NULL, *session = NULL;

	by_a.token = a;
	child = make(w, &by_a, "{\"kind\": \"user\"}");
	by_child.token = child;
	grandchild = make(w, &by_child, "{\"kind\": \"user\"}");
	session = make(w, &by_child, "{\"kind\": \"session\"}");
	ok(*a && *b && *child && *grandchild && *session, "five were made");
	is_int((int)listed(w, &ada), 4, "ada sees her own");
	is_int((int)listed(w, &root), 5, "an administrator sees all");
	is_int(ask(w, &bob, REQ_TOKEN_RM, a, NULL), 404, "bob removes none of hers");
	world_restart(w);
	is_int((int)listed(w, &ada), 4, "all survive a restart, sessions too");
	is_int(ask(w, &root, REQ_TOKEN_RM, a, NULL), 200, "an administrator removes the first one");
	is_int((int)listed(w, &ada), 0, "what was made with it goes, too");
	is_int((int)listed(w, &root), 1, "bob's stays");
	is_int(ask(w, &bob, REQ_TOKEN_RM, b, NULL), 200, "he removes it himself");
	world_restart(w);
	is_int((int)listed(w, &root), 0, "removed is removed, after a restart as well");
	world_end_well(w);
}

/* A call that an I/O thread accepted before the removal of its token, and that arrives after it. */
static void test_late_call(void)
{
	struct world *w = world_create(7);
	cleanup_free char *id = make(w, &ada, "{\"kind\": \"user\"}");
	cleanup_free char *brief = make(w, &ada, "{\"kind\": \"user\", \"ttl_s\": 60}");
	struct who by = ada, late = ada;

	by.token = id;
	late.token = brief;
	is_int(ask(w, &by, REQ_TOKEN_RM, id, NULL), 200, "a token is removed");
	is_int(ask(w, &by, REQ_TOKEN, NULL, "{\"kind\": \"user\"}"), 401, "it makes no other token");
	is_int(ask(w, &by, REQ_TOKEN, NULL, "{\"kind\": \"session\"}"), 401, "it opens no session");
	world_advance(w, 61000000);
	late.expires_us = 1;
	is_int(ask(w, &late, REQ_TOKEN, NULL, "{\"kind\": \"session\"}"), 401,
	       "an expired token opens no session");
	is_int((int)listed(w, &ada), 0, "ada has no token and no session");
	world_end_well(w);
}

static int is_stored(struct world *w, const char *hash)
{
	struct token_row row;
	int rc;

	memset(&row, 0, sizeof(row));
	rc = store_token_get(w->reader, hash, &row, NULL);
	token_row_fini(&row);
	return rc == 0;
}

static void test_life(void)
{
	struct world *w = world_create(4);
	struct who by = ada;
	cleanup_free char *id = make(w, &ada, "{\"kind\": \"user\", \"ttl_s\": 60}");
	const struct token_rec *t = cluster_token(&w->core->records, id);
	cleanup_free char *hash = xstrdup(t->secret_hash);

	by.token = id;
	by.expires_us = t->expires_us;
	world_advance(w, 1500000);
	for (unsigned i = 0; i < 3; i++) {
		static const char *const wishes[] = {"{\"kind\": \"user\", \"ttl_s\": 0}",
		                                     "{\"kind\": \"user\", \"ttl_s\": 60}",
		                                     "{\"kind\": \"session\"}"};

		free(make(w, &by, wishes[i]));
		ok(cluster_token(&w->core->records, world_text(w, "id"))->expires_us == t->expires_us,
		   "a token makes none that outlives it: %s", wishes[i]);
	}
	world_advance(w, 62000000);
	is_int((int)listed(w, &ada), 0, "expired ones are not listed");
	world_restart(w);
	is_int((int)listed(w, &ada), 0, "nor after a restart");
	ok(is_stored(w, hash), "the store still has them");
	free(make(w, &bob, "{\"kind\": \"user\"}"));
	ok(!is_stored(w, hash), "until the next token is made");
	world_end_well(w);
}

static void test_use(void)
{
	struct world *w = world_create(5);
	cleanup_free char *id = make(w, &ada, "{\"kind\": \"user\"}");
	const struct token_rec *t = cluster_token(&w->core->records, id);
	uint64_t first;

	world_advance(w, 1000000);
	ask(w, &ada, REQ_TOKEN_USED, id, "{\"from\": \"10.0.0.7\"}");
	first = t->seen_us;
	ok(first && t->seen_from && strcmp(t->seen_from, "10.0.0.7") == 0, "the first use, and where from");
	world_advance(w, 30000000);
	ask(w, &ada, REQ_TOKEN_USED, id, "{\"from\": \"10.0.0.8\"}");
	ok(t->seen_us == first, "half a minute later another one costs nothing");
	world_advance(w, 31000000);
	ask(w, &ada, REQ_TOKEN_USED, id, "{\"from\": \"10.0.0.8\"}");
	ok(t->seen_us > first, "a minute later it counts");
	is_int(ask(w, &ada, REQ_TOKEN_USED, "unone", "{\"from\": \"x\"}"), 200, "an unknown one is ignored");
	world_restart(w);
	t = cluster_token(&w->core->records, id);
	ok(t->seen_us > first && strcmp(t->seen_from, "10.0.0.8") == 0, "a restart keeps it");
	world_end_well(w);
}

static void test_bounds(void)
{
	struct world *w = world_create(6);
	cleanup_free char *first = make(w, &ada, "{\"kind\": \"session\"}");

	for (int i = 0; i < 50; i++) {
		world_advance(w, 1000);
		free(make(w, &ada, "{\"kind\": \"session\"}"));
	}
	is_int((int)listed(w, &ada), 50, "a user has 50 sessions");
	ok(!cluster_token(&w->core->records, first), "the oldest one has ended");
	for (int i = 0; i < 1000; i++)
		free(make(w, &ada, "{\"kind\": \"user\"}"));
	is_int(ask(w, &ada, REQ_TOKEN, NULL, "{\"kind\": \"user\"}"), 413, "and 1,000 tokens");
	is_int(ask(w, &bob, REQ_TOKEN, NULL, "{\"kind\": \"user\"}"), 201, "others are not concerned");
	world_end_well(w);
}

int main(void)
{
	test_make();
	test_job_scope();
	test_list_and_remove();
	test_late_call();
	test_life();
	test_use();
	test_bounds();
	return tap_done();
}
