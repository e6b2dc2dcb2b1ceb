/*
 * nodes_req: drain, resume and remove a node, make it a spare, or declare it lost.
 */
#include "controller/requests/requests.h"

#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/cluster/lease.h"
#include "controller/cluster/nodes.h"
#include "controller/cluster/peers.h"
#include "controller/cluster/prefetch.h"
#include "controller/record/event.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/share/node_feed.h"
#include "controller/state/core_state.h"
#include "controller/state/health.h"
#include "controller/state/node_table.h"
#include "controller/state/request.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

static struct cnode *find_named(struct core *c, struct request *rq)
{
	struct cnode *n = rq->node ? node_find(c, rq->node) : NULL;
	struct err e;

	if (n && n->r.state != NODE_REMOVED)
		return n;
	node_unknown(c, rq->node ? rq->node : "", &e);
	reply_err(c, rq, &e);
	return NULL;
}

static void answer_node(struct core *c, struct request *rq, const struct cnode *n)
{
	cJSON *body = cJSON_CreateObject();

	json_add_str(body, "name", n->name);
	json_add_str(body, "state", state_name(STATE_NODE, (int)n->r.state));
	cJSON_AddBoolToObject(body, "drain", n->r.drain);
	cJSON_AddBoolToObject(body, "spare", n->r.spare);
	json_add_u64(body, "jobs", n->n_jobs);
	hold_reply(c, rq, 200, body);
}

static void change_node(struct core *c, struct cnode *n, const struct request *rq, enum event_type t,
                        const char *reason)
{
	cJSON *d = cJSON_CreateObject();

	json_add_str(d, "node", n->name);
	json_add_str(d, "by", req_user(c, rq));
	json_add_str(d, "text", reason);
	cluster_post(c, t, d);
	node_changed(c, n, 0);
}

void req_drain(struct core *c, struct request *rq)
{
	struct cnode *n = find_named(c, rq);
	const char *reason = NULL;
	struct err e;

	if (!n)
		return;
	if (json_get_str(rq->body, "", "reason", &reason, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	change_node(c, n, rq, EV_DRAINED, reason ? reason : "drained");
	answer_node(c, rq, n);
}

void req_resume(struct core *c, struct request *rq)
{
	struct cnode *n = find_named(c, rq);

	if (!n)
		return;
	if (n->r.drain) {
		n->health = (struct health){0}; /* somebody has looked at it */
		change_node(c, n, rq, EV_RESUMED, "");
	}
	answer_node(c, rq, n);
}

void req_spare(struct core *c, struct request *rq)
{
	struct cnode *n = find_named(c, rq);
	int off = 0;
	struct err e;

	if (!n)
		return;
	if (json_get_bool(rq->body, "", "off", &off, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	if (n->r.spare != !off)
		change_node(c, n, rq, off ? EV_SPARE_OFF : EV_SPARE, "");
	prefetch_due(c);
	answer_node(c, rq, n);
}

void req_node_rm(struct core *c, struct request *rq)
{
	struct cnode *n = find_named(c, rq);
	int force = 0;
	struct err e;
	cJSON *d;

	if (!n)
		return;
	if (n->connected) {
		reply_fail(c, rq, ERR_CONFLICT, "node %s is connected; stop its agent first", n->name);
		return;
	}
	if (json_get_bool(rq->body, "", "force", &force, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	if (n->n_jobs && !force) {
		reply_fail(
		    c, rq, ERR_CONFLICT,
		    "node %s has %u job%s whose processes may still run. Removing the node ends their attempts "
		    "in hearthd, which may start these jobs on other nodes. If the machine is certainly down: "
		    "jobctl node rm --yes %s (in the API: force=1)",
		    n->name, n->n_jobs, n->n_jobs == 1 ? "" : "s", n->name);
		return;
	}
	if (n->n_jobs ||
	    n->n_collects) /* the administrator confirms that the node is gone, and its ranks with it */
		node_is_lost(c, n, "removed by an administrator", req_user(c, rq));
	d = cJSON_CreateObject();
	json_add_str(d, "node", n->name);
	json_add_str(d, "by", req_user(c, rq));
	cluster_post(c, EV_NODE_REMOVED, d);
	peers_changed(c);
	lease_look_at(c, now_boot(c));
	c->peers.gen++;
	c->peers.retired_gen++;
	node_changed(c, n, 0);
	answer_node(c, rq, n);
}

/* Declares a node lost: an administrator knows that the machine is off. Its ranks are lost from now on. If
 * its agent returns, it gets no work before it has killed the rest of them (sync.c). */
void req_node_lost(struct core *c, struct request *rq)
{
	struct cnode *n = find_named(c, rq);
	const char *reason = NULL;
	struct err e;
	TEXT(why);

	if (!n)
		return;
	if (json_get_str(rq->body, "", "reason", &reason, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	if (n->r.state == NODE_UP && n->connected && node_silent_us(c, n) <= (uint64_t)c->cfg.lease_ms * 1000) {
		reply_fail(
		    c, rq, ERR_CONFLICT,
		    "node %s is not lost: its agent was heard %.1f s ago. To keep jobs from it: jobctl node drain",
		    n->name, (double)node_silent_us(c, n) / 1e6);
		return;
	}
	if (n->r.state != NODE_LOST) {
		text_add(&why, "declared lost by %.100s%s%.250s", req_user(c, rq), reason && *reason ? ": " : "",
		         reason ? reason : "");
		node_is_lost(c, n, why.at, req_user(c, rq));
	}
	answer_node(c, rq, n);
}
