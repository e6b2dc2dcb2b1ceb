/*
 * instances_req: instance types: list, set, remove.
 */
#include "controller/requests/requests.h"

#include "common/base/json.h"
#include "controller/record/event.h"
#include "controller/share/catalogue.h"
#include "controller/share/instances.h"
#include "controller/state/core_state.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

void req_instances(struct core *c, struct request *rq)
{
	cJSON *body;
	struct err e;

	if (!rq->node) {
		body = cJSON_CreateObject();
		instances_json(c, cJSON_AddArrayToObject(body, "instances"));
	} else {
		body = instance_json(c, rq->node, &e);
	}
	if (body)
		hold_reply(c, rq, 200, body);
	else
		reply_err(c, rq, &e);
}

void req_instance_set(struct core *c, struct request *rq)
{
	struct err e;
	cJSON *d;

	if (catalogue_check(c->catalogue, rq->node ? rq->node : "", rq->body, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	d = cJSON_CreateObject();
	json_add_str(d, "instance", catalogue_plain(rq->node));
	json_add_str(d, "by", req_user(c, rq));
	cJSON_AddItemToObject(d, "set", cJSON_Duplicate(rq->body, 1));
	cluster_post(c, EV_INSTANCE_SET, d);
	instance_changed(c, rq->node, cJSON_HasObjectItem(rq->body, "as"));
	hold_reply(c, rq, 200, instance_json(c, rq->node, &e)); /* it is known by now */
}

void req_instance_rm(struct core *c, struct request *rq)
{
	struct err e;
	cJSON *d;

	if (catalogue_check_remove(c->catalogue, rq->node ? rq->node : "", &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	d = cJSON_CreateObject();
	json_add_str(d, "instance", catalogue_plain(rq->node));
	json_add_str(d, "by", req_user(c, rq));
	cluster_post(c, EV_INSTANCE_REMOVED, d);
	instance_changed(c, rq->node, 1);
	d = cJSON_CreateObject();
	json_add_str(d, "name", catalogue_plain(rq->node));
	hold_reply(c, rq, 200, d);
}
