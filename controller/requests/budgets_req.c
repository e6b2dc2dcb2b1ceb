/*
 * budgets_req: budgets of queues and users: list, set, remove.
 */
#include "controller/requests/requests.h"

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/spec/spec.h"
#include "controller/record/cluster.h"
#include "controller/record/event.h"
#include "controller/share/budget.h"
#include "controller/share/queues.h"
#include "controller/state/core_state.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

#define BUDGETS_MAX 1000
#define USD_MAX     1e9

void req_budgets(struct core *c, struct request *rq)
{
	cJSON *body = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(body, "budgets");

	budgets_json(c, list);
	hold_reply(c, rq, 200, body);
}

struct change { /* usd 0, period -1, action -1: not in the request */
	double usd;
	int period, action;
};

static int read_name(const struct request *rq, const char *key, const char *const *names, int n, int *out,
                     struct err *e)
{
	const char *name = NULL;

	if (json_get_str(rq->body, "", key, &name, e) < 0)
		return -1;
	if (name)
		*out = name_find(names, n, name);
	return name && *out < 0 ? 1 : 0;
}

static int read_change(const struct request *rq, struct change *ch, struct err *e)
{
	double *usd = &ch->usd;
	int rc;

	if (json_get_f64(rq->body, "", "usd", usd, e) < 0)
		return -1;
	if (cJSON_HasObjectItem(rq->body, "usd") && *usd == 0)
		return err_set(e, ERR_INVALID,
		               "usd: expected at least 0.01 US dollars; jobctl budget rm removes a budget");
	if (*usd != 0 && (!(*usd >= 0.01) || *usd > USD_MAX))
		return err_set(e, ERR_INVALID, "usd: expected a number of US dollars from 0.01 to %.0f", USD_MAX);
	rc = read_name(rq, "period", budget_period_names, N_BUDGET_PERIOD, &ch->period, e);
	if (rc)
		return rc < 0 ? -1 : err_set(e, ERR_INVALID, "period: expected day, week or month");
	rc = read_name(rq, "action", budget_action_names, N_BUDGET_ACTION, &ch->action, e);
	if (rc)
		return rc < 0
		           ? -1
		           : err_set(e, ERR_INVALID,
		                     "action: expected hold (running jobs continue) or end (running jobs are ended)");
	return 0;
}

void req_budget_set(struct core *c, struct request *rq)
{
	const struct budget_rec *old = rq->node ? cluster_budget(&c->records, rq->node) : NULL;
	struct change ch = {.period = -1, .action = -1};
	uint64_t uusd;
	struct err e;
	cJSON *d;

	if (read_change(rq, &ch, &e) < 0 || spec_check_queue(rq->node ? rq->node : "", 1, &e) < 0 ||
	    queue_of_path(c, rq->node, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	if (!old && ch.usd == 0) {
		reply_fail(c, rq, ERR_INVALID, "usd: missing; %s has no budget yet", rq->node);
		return;
	}
	if (!old && c->budgets.n >= BUDGETS_MAX) {
		reply_fail(c, rq, ERR_LIMIT, "there are %d budgets, which is the limit; remove one: jobctl budget rm",
		           BUDGETS_MAX);
		return;
	}
	if (ch.period < 0)
		ch.period = (int)(!old ? BUDGET_MONTH : old->period);
	if (ch.action < 0)
		ch.action = (int)(!old ? BUDGET_HOLD : old->action);
	uusd = ch.usd != 0 ? (uint64_t)(ch.usd * 1e6 + 0.5) : old->uusd;
	d = cJSON_CreateObject();
	json_add_str(d, "queue", rq->node);
	json_add_str(d, "by", req_user(c, rq));
	cJSON_AddNumberToObject(d, "usd", (double)uusd / 1e6);
	json_add_str(d, "period", budget_period_names[ch.period]);
	json_add_str(d, "action", budget_action_names[ch.action]);
	budget_set(c, rq->node, d);
	hold_reply(c, rq, 200, budget_json(c, rq->node));
}

void req_budget_rm(struct core *c, struct request *rq)
{
	cJSON *body;

	if (!rq->node || !cluster_budget(&c->records, rq->node)) {
		reply_fail(c, rq, ERR_NOT_FOUND, "%.200s has no budget", rq->node ? rq->node : "");
		return;
	}
	budget_drop(c, rq->node, req_user(c, rq));
	body = cJSON_CreateObject();
	json_add_str(body, "name", rq->node);
	hold_reply(c, rq, 200, body);
}
