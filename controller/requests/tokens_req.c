/*
 * tokens_req: join tokens (one node, one time), and joining.
 *
 * Records have only hashes of secrets; the stored answer to a call with an idempotency key has the token for
 * 24 hours (idem.h). A node may repeat a join whose answer was lost, with the same token,
 * name and request: it gets another certificate. hearthd rejects the name of a connected node and of a node
 * that counts as up. The name of a lost or removed node may be used again; its old certificate is then
 * rejected.
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
#include "common/net/tls.h"
#include "controller/cluster/lease.h"
#include "controller/cluster/nodes.h"
#include "controller/cluster/peers.h"
#include "controller/record/cluster.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/state/core_state.h"
#include "controller/state/node_table.h"
#include "controller/state/request.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

#define JOIN_TTL_S 3600

/* Those of users and sessions go from the store, too: each login leaves one. Join tokens keep their row,
 * which says which node used one. */
void token_forget_expired(struct core *c)
{
	struct cluster_rec *r, *tmp;

	HASH_ITER (hh, c->records.all[CLUSTER_TOKEN], r, tmp) {
		const struct token_rec *t = (const struct token_rec *)r;

		if (!t->expires_us || t->expires_us > now_real(c) || r->changed)
			continue;
		if (t->kind == TOKEN_JOIN)
			cluster_forget(&c->records, r);
		else
			token_post_removed(c, r->name, "expiry");
	}
}

static void make_join_token(struct core *c, struct request *rq)
{
	int64_t ttl = JOIN_TTL_S;
	uint8_t raw[16];
	char secret[33], hash[HASH_HEX_SIZE], id[17], at[CLOCK_RFC3339_SIZE];
	char *text;
	struct token_rec *t;
	struct err e;
	cJSON *d, *body;

	if (json_get_i64(rq->body, "", "ttl_s", 1, 30 * 86400, &ttl, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	if (rq->role != ROLE_ADMIN) {
		reply_fail(c, rq, ERR_DENIED, "only an administrator makes tokens for nodes");
		return;
	}
	token_forget_expired(c);
	c->io.random(raw, sizeof(raw), c->io.arg);
	str_hex(raw, sizeof(raw), secret);
	hash_hex(secret, 32, hash);
	snprintf(id, sizeof(id), "j%.12s", hash);
	d = cJSON_CreateObject();
	json_add_str(d, "id", id);
	json_add_str(d, "kind", "join");
	json_add_str(d, "by", req_user(c, rq));
	json_add_u64(d, "ttl_s", (uint64_t)ttl);
	cluster_post(c, EV_TOKEN_MADE, d);
	t = cluster_token(&c->records, id);
	rec_set(&t->secret_hash, hash);
	text = tls_join_token(secret, c->io.ca_fingerprint ? c->io.ca_fingerprint(c->io.arg)
	                                                   : "00000000000000000000000000000000");
	body = cJSON_CreateObject();
	json_add_str(body, "id", id);
	json_add_str(body, "kind", "join");
	json_add_str(body, "token", text);
	json_add_str(body, "expires_at", clock_rfc3339(t->expires_us, at));
	hold_reply(c, rq, 201, body);
	free(text);
}

/* An I/O thread accepted the token a moment ago; its removal may have come first. */
static int maker_lives(const struct core *c, const struct request *rq, struct err *e)
{
	const struct token_rec *t;

	if (!rq->token_id || !*rq->token_id)
		return 1;
	t = cluster_token(&c->records, rq->token_id);
	if (t && (!t->expires_us || t->expires_us > now_real(c)))
		return 1;
	err_set(e, ERR_UNAUTHORIZED,
	        "the token of this call was removed or has expired; log in with another one");
	return 0;
}

void req_token(struct core *c, struct request *rq)
{
	const char *kind = "join";
	struct err e;

	if (!maker_lives(c, rq, &e) || json_get_str(rq->body, "", "kind", &kind, &e) < 0)
		reply_err(c, rq, &e);
	else if (strcmp(kind, "user") == 0)
		make_user_token(c, rq);
	else if (strcmp(kind, "session") == 0)
		make_session(c, rq);
	else if (strcmp(kind, "join") == 0)
		make_join_token(c, rq);
	else
		reply_fail(c, rq, ERR_INVALID, "kind: \"%.40s\": expected join or user", kind);
}

/* ---- joining --------------------------------------------------------------------------------- */

static struct token_rec *token_of_text(struct core *c, const char *text, struct err *e)
{
	char secret[33], print[33], hash[HASH_HEX_SIZE];

	if (tls_join_parse(text, secret, print, e) < 0)
		return NULL;
	hash_hex(secret, 32, hash);
	for (struct cluster_rec *r = c->records.all[CLUSTER_TOKEN]; r; r = r->hh.next) {
		struct token_rec *t = (struct token_rec *)r;

		if (t->kind == TOKEN_JOIN && t->secret_hash && strcmp(t->secret_hash, hash) == 0)
			return t;
	}
	err_set(e, ERR_UNAUTHORIZED,
	        "this join token is not known (used up, expired long ago, or of another cluster); make one: "
	        "jobctl token create --join");
	return NULL;
}

/* Checks the token for this node. request: the digest of the request. */
static int token_good(struct core *c, const struct token_rec *t, const char *node, const char *request,
                      struct err *e)
{
	if (t->expires_us <= now_real(c))
		return err_set(e, ERR_UNAUTHORIZED,
		               "this join token has expired; make another: jobctl token create --join");
	if (t->used_us &&
	    (strcmp(t->node ? t->node : "", node) != 0 || strcmp(t->request ? t->request : "", request) != 0))
		return err_set(e, ERR_UNAUTHORIZED,
		               "this join token was used already; each is for one node: jobctl token create --join");
	return 0;
}

static int name_free(const struct cnode *n, int repeated, struct err *e)
{
	if (!n || repeated || n->r.state == NODE_REMOVED || (n->r.state == NODE_LOST && !n->connected))
		return 0;
	if (n->connected)
		return err_set(e, ERR_CONFLICT,
		               "node %s is connected; give this one another --name, or stop that agent and remove "
		               "it: jobctl node rm %s",
		               n->name, n->name);
	return err_set(
	    e, ERR_CONFLICT,
	    "node %s is known and not lost yet; give this one another --name, or remove it: jobctl node rm %s",
	    n->name, n->name);
}

static void node_joined(struct core *c, const char *name, struct token_rec *t, const char *request,
                        const char *cert)
{
	struct cnode *n = node_find(c, name);
	char print[33];
	struct err e;
	cJSON *d = cJSON_CreateObject();

	if (n && n->n_jobs) /* its launches belong to the machine with the old certificate */
		node_is_lost(c, n, "another machine joined under its name", NULL);
	if (c->io.fingerprint && c->io.fingerprint(cert, print, c->io.arg, &e) == 0)
		json_add_str(d, "certificate", print);
	json_add_str(d, "node", name);
	json_add_str(d, "token", t->head.name);
	json_add_str(d, "by", t->owner ? t->owner : "");
	cluster_post(c, EV_JOINED, d);
	rec_set(&t->request, request);
	if (!n) {
		n = node_find(c, name);
		node_attach(c, n);
	}
	told_fini(&n->held); /* of the machine that had the name before */
	told_fini(&n->sent);
	n->list_unknown = 0;
	peers_changed(c);
	log_info("event=joined node=%s token=%s", name, t->head.name);
}

void req_join(struct core *c, struct request *rq)
{
	const char *text = "", *name = rq->node, *csr = "";
	char digest[HASH_HEX_SIZE];
	struct cnode *n;
	struct token_rec *t;
	struct err e;
	cJSON *body;
	char *cert;

	if (json_get_str(rq->body, "", "token", &text, &e) < 0 ||
	    json_get_str(rq->body, "", "node", &name, &e) < 0 ||
	    json_get_str(rq->body, "", "csr", &csr, &e) < 0 ||
	    str_check_name(name ? name : "", 63, "node name", &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	hash_hex(csr, strlen(csr), digest);
	digest[16] = '\0';
	t = token_of_text(c, text, &e);
	n = node_find(c, name);
	if (!t || token_good(c, t, name, digest, &e) < 0 || name_free(n, t->used_us != 0, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	cert = c->io.sign_csr(csr, name, c->io.arg, &e);
	if (!cert) {
		reply_err(c, rq, &e);
		return;
	}
	node_joined(c, name, t, digest, cert);
	body = cJSON_CreateObject();
	json_add_str(body, "node", name);
	json_add_str(body, "cert", cert);
	json_add_str(body, "ca", c->io.ca_pem ? c->io.ca_pem(c->io.arg) : "");
	hold_reply(c, rq, 201, body);
	free(cert);
}
