/*
 * test_cluster: what each event of the cluster does to the records, and which rows it changes. Events that
 * are refused leave the records as they were; an event that comes twice gives what it gave once. Records give
 * the rows that were written, and rows give the records that they were made of.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/record/cluster.h"
#include "controller/record/cluster_rows.h"
#include "store/read/verify.h"
#include "tests/lib/tap.h"

#define TEXT(s) ((char *)(uintptr_t)(s))

static struct cluster c;
static struct err err;
static char said[400]; /* what changed: "node a, -queue q" */

static void add_change(enum cluster_kind kind, const char *name, const struct cluster_rec *r, void *arg)
{
	static const char *const kinds[] = {"node", "token", "queue", "budget", "instance", "reservation"};
	size_t n = strlen(said);

	(void)arg;
	if (r && (r->kind != kind || strcmp(r->name, name) != 0))
		tap_bail("a change of %s comes with another record", name);
	snprintf(said + n, sizeof(said) - n, "%s%s%s %s", n ? ", " : "", r ? "" : "-", kinds[kind], name);
}

static int apply_at(const char *type, const char *data, uint64_t at_us)
{
	cJSON *d = cJSON_Parse(data);
	int t = event_find(type), rc;

	if (t < 0 || !d)
		tap_bail("%s %s", type, data);
	err.text[0] = '\0';
	rc = cluster_apply(&c, (enum event_type)t, at_us, d, &err);
	cJSON_Delete(d);
	said[0] = '\0';
	cluster_changes(&c, add_change, NULL);
	return rc;
}

static int apply(const char *type, const char *data)
{
	return apply_at(type, data, 1000000000);
}

/* All records as text, in the order of their names. */
static char *records_text(const struct cluster *of)
{
	cJSON *all = cJSON_CreateObject();
	char *text;

	for (int k = 0; k < N_CLUSTER_KIND; k++) {
		for (const struct cluster_rec *r = of->all[k]; r; r = r->hh.next) {
			cJSON *o = cJSON_AddObjectToObject(all, r->name);
			struct cluster_row row;

			cluster_row_make(r, &row);
			json_add_u64(o, "kind", (uint64_t)k);
			json_add_u64(o, "stored", (uint64_t)cluster_is_stored(r));
			if (row.row.node) {
				json_add_str(o, "state", row.node.state);
				json_add_str(o, "reason", row.node.reason);
				json_add_str(o, "certificate", row.node.cert_fingerprint);
				json_add_str(o, "address", row.node.address);
				json_add_str(o, "inventory", row.node.inventory);
				json_add_u64(o, "slots", ((const struct node_rec *)r)->slots);
				json_add_u64(o, "gpus", ((const struct node_rec *)r)->gpus);
				json_add_u64(o, "memory", ((const struct node_rec *)r)->memory_bytes);
				json_add_u64(o, "id", row.node.id);
				json_add_u64(o, "joined", row.node.joined_us);
				json_add_u64(o, "seen", row.node.seen_us);
				json_add_u64(o, "drain", row.node.drain);
			} else if (row.row.token) {
				json_add_str(o, "hash", row.token.secret_hash);
				json_add_str(o, "owner", row.token.owner);
				json_add_str(o, "used_by", row.token.used_by);
				json_add_u64(o, "created", row.token.created_us);
				json_add_u64(o, "expires", row.token.expires_us);
				json_add_u64(o, "used", row.token.used_us);
			} else if (row.row.queue) {
				json_add_u64(o, "is_queue", row.queue.is_queue);
				json_add_u64(o, "borrow", row.queue.borrow);
				json_add_u64(o, "weight", row.queue.weight_milli);
				json_add_u64(o, "quota", row.queue.quota_gpus);
			} else if (row.row.budget) {
				json_add_u64(o, "uusd", row.budget.uusd);
				json_add_str(o, "period", row.budget.period);
				json_add_str(o, "action", row.budget.action);
			} else if (row.row.reservation) {
				json_add_str(o, "state", row.reservation.state);
				json_add_str(o, "queue", row.reservation.queue);
				json_add_str(o, "nodes", row.reservation.nodes);
				json_add_str(o, "reason", row.reservation.reason);
				json_add_str(o, "owner", row.reservation.owner);
				json_add_u64(o, "from", row.reservation.from_us);
				json_add_u64(o, "to", row.reservation.to_us);
				json_add_u64(o, "created", row.reservation.created_us);
			} else {
				json_add_str(o, "own", row.row.own);
			}
			cluster_row_fini(&row);
		}
	}
	text = json_text(all);
	cJSON_Delete(all);
	return text;
}

/* The event is taken and changes these rows. */
#define CHANGES(type, data, rows)                                                                            \
	do {                                                                                                     \
		is_int(apply(type, data), 0, type " is applied");                                                    \
		is_str(said, rows, type " changes " rows);                                                           \
	} while (0)

/* The same event again gives the same records. */
static void same_again(const char *type, const char *data)
{
	char *before = records_text(&c), *after;

	ok(apply(type, data) == 0, "%s is applied a second time", type);
	after = records_text(&c);
	is_str(after, before, "twice gives what it gave once");
	free(before);
	free(after);
}

static void test_nodes(void)
{
	const struct node_rec *n;
	const struct token_rec *t;

	CHANGES("token_made", "{\"id\": \"t\", \"kind\": \"join\", \"by\": \"ada\", \"ttl_s\": 60}", "token t");
	t = cluster_token(&c, "t");
	ok(strcmp(t->owner, "ada") == 0 && t->created_us == 1000000000 && t->expires_us == 1060000000,
	   "a token has an owner and a time");
	CHANGES("joined", "{\"node\": \"a\", \"certificate\": \"ff\", \"token\": \"t\"}", "token t, node a");
	n = cluster_node(&c, "a");
	ok(n->state == NODE_JOINING && n->joined_us == 1000000000 && strcmp(n->fingerprint, "ff") == 0,
	   "a node that joined has a certificate and a time");
	ok(t->used_us == 1000000000 && strcmp(t->node, "a") == 0, "its token is used");
	same_again("joined", "{\"node\": \"a\", \"certificate\": \"ff\", \"token\": \"t\"}");
	CHANGES("node_gone", "{\"node\": \"a\", \"text\": \"silent\"}", "node a");
	ok(n->state == NODE_JOINING && !n->reason, "a node that never was up is not lost");
	CHANGES("inventory",
	        "{\"node\": \"a\", \"address\": \"10.0.0.1\", \"slots\": 8, \"gpus\": 2, \"memory_bytes\": 9}",
	        "node a");
	ok(n->has_inventory && n->slots == 8 && n->gpus == 2 && n->memory_bytes == 9 &&
	       strcmp(n->address, "10.0.0.1") == 0,
	   "an inventory's figures are on record");
	CHANGES("connected", "{\"node\": \"a\"}", "node a");
	ok(n->state == NODE_UP && !n->reason, "a node that reported everything is up");
	CHANGES("node_silent", "{\"node\": \"a\", \"text\": \"x\"}", "");
	CHANGES("drained", "{\"node\": \"a\", \"text\": \"fan\"}", "node a");
	ok(n->drain && strcmp(n->reason, "fan") == 0, "a drained node has a reason");
	same_again("drained", "{\"node\": \"a\", \"text\": \"fan\"}");
	CHANGES("connected", "{\"node\": \"a\"}", "node a");
	is_str(n->reason, "fan", "a drained node that connects keeps its reason");
	CHANGES("node_gone", "{\"node\": \"a\", \"text\": \"silent\"}", "node a");
	ok(n->state == NODE_LOST && n->drain && strcmp(n->reason, "silent") == 0, "a lost node says why");
	same_again("node_gone", "{\"node\": \"a\", \"text\": \"silent\"}");
	CHANGES("resumed", "{\"node\": \"a\", \"text\": \"\"}", "node a");
	ok(!n->drain && !n->reason, "a resumed node has no reason");
	CHANGES("node_removed", "{\"node\": \"a\"}", "node a");
	ok(n->state == NODE_REMOVED && strcmp(n->reason, "removed") == 0, "a removed node stays on record");
	CHANGES("node_gone", "{\"node\": \"a\", \"text\": \"late\"}", "node a");
	ok(n->state == NODE_REMOVED && strcmp(n->reason, "removed") == 0, "its late end changes nothing");
	CHANGES("joined", "{\"node\": \"a\"}", "node a");
	ok(n->state == NODE_JOINING && !n->reason && strcmp(n->fingerprint, "ff") == 0,
	   "a node may join again, without another certificate");
	CHANGES("joined", "{\"node\": \"b\", \"token\": \"unknown\"}", "node b");
}

static void test_queues(void)
{
	const struct queue_rec *q = cluster_queue(&c, "default");

	ok(q && q->is_queue && !q->stored && q->weight == 1, "the queue default is there without a row");
	is_int(apply("quota_removed", "{\"queue\": \"default\"}"), -1, "no event needs its row");
	CHANGES("queue_set", "{\"queue\": \"default\", \"weight\": 3}", "queue default");
	CHANGES("queue_removed", "{\"queue\": \"default\"}", "queue default");
	ok(cluster_queue(&c, "default") == q && !q->stored && q->weight == 1, "the queue default stays");
	CHANGES("queue_set", "{\"queue\": \"q\", \"weight\": 2.5}", "queue q");
	q = cluster_queue(&c, "q");
	ok(q->is_queue && q->weight == 2.5 && !q->quota_gpus, "a queue has a weight");
	CHANGES("quota_set", "{\"queue\": \"q\", \"gpus\": 8, \"borrow\": true}", "queue q");
	ok(q->is_queue && q->weight == 2.5 && q->quota_gpus == 8 && q->borrow, "a quota is added to it");
	same_again("quota_set", "{\"queue\": \"q\", \"gpus\": 8, \"borrow\": true}");
	CHANGES("queue_set", "{\"queue\": \"q\"}", "queue q");
	ok(q->weight == 2.5 && q->quota_gpus == 8, "a change of nothing leaves weight and quota");
	CHANGES("quota_removed", "{\"queue\": \"q\"}", "queue q");
	ok(cluster_queue(&c, "q") == q && !q->quota_gpus && !q->borrow, "the queue stays without its quota");
	CHANGES("quota_set", "{\"queue\": \"q/@ada\", \"gpus\": 1}", "queue q/@ada");
	ok(!cluster_queue(&c, "q/@ada")->is_queue, "a quota does not make a queue of a user");
	CHANGES("quota_removed", "{\"queue\": \"q/@ada\"}", "-queue q/@ada");
	CHANGES("queue_removed", "{\"queue\": \"q\"}", "-queue q");
	ok(!cluster_queue(&c, "q"), "a removed queue is not on record");
}

static void test_budgets(void)
{
	const struct budget_rec *b;

	CHANGES("budget_set", "{\"queue\": \"q\", \"usd\": 10.5, \"period\": \"week\", \"action\": \"end\"}",
	        "budget q");
	b = cluster_budget(&c, "q");
	ok(b->uusd == 10500000 && b->period == BUDGET_WEEK && b->action == BUDGET_END,
	   "a budget has three facts");
	same_again("budget_set", "{\"queue\": \"q\", \"usd\": 10.5, \"period\": \"week\", \"action\": \"end\"}");
	CHANGES("budget_used_up", "{\"queue\": \"q\"}", "");
	CHANGES("budget_open", "{\"queue\": \"q\"}", "");
	CHANGES("budget_set", "{\"queue\": \"q\", \"usd\": 0.01, \"period\": \"day\"}", "budget q");
	ok(b->uusd == 10000 && b->period == BUDGET_DAY && b->action == BUDGET_HOLD,
	   "an event of an older version only holds");
	CHANGES("budget_set", "{\"queue\": \"q\", \"usd\": 1e300}", "budget q");
	is_int((long long)b->uusd, 0, "an amount beyond all bounds counts as 0");
	CHANGES("budget_removed", "{\"queue\": \"q\"}", "-budget q");
	ok(!cluster_budget(&c, "q"), "a removed budget is not on record");
}

static void test_instances(void)
{
	cleanup_free char *own = NULL;

	CHANGES("instance_set", "{\"instance\": \"i\", \"set\": {\"gpus\": 8, \"gpu_model\": \"X\"}}",
	        "instance i");
	CHANGES("instance_set", "{\"instance\": \"i\", \"set\": {\"gpus\": 4, \"gpu_model\": null}}",
	        "instance i");
	own = json_text(cluster_instance(&c, "i")->own);
	is_str(own, "{\"gpus\":4}", "facts are merged by key, and null takes one back");
	same_again("instance_set", "{\"instance\": \"i\", \"set\": {\"gpus\": 4, \"gpu_model\": null}}");
	CHANGES("instance_removed", "{\"instance\": \"i\"}", "-instance i");
	ok(!cluster_instance(&c, "i"), "nothing is set for the type");
}

#define RESERVATION                                                                                          \
	"{\"reservation\": \"r\", \"queue\": \"q\", \"nodes\": [\"a\", \"b\"], \"owner\": \"ada\", "             \
	"\"reason\": \"x\", \"from_us\": 5, \"to_us\": 9, \"created_us\": 3}"

static void test_reservations(void)
{
	const struct reservation_rec *r;

	CHANGES("reservation_set", RESERVATION, "reservation r");
	r = cluster_reservation(&c, "r");
	ok(r->state == RESERVE_PLANNED && r->nodes.n == 2 && strcmp(r->nodes.v[1], "b") == 0 &&
	       strcmp(r->queue, "q") == 0 && strcmp(r->owner, "ada") == 0 && strcmp(r->reason, "x") == 0 &&
	       r->from_us == 5 && r->to_us == 9 && r->created_us == 3,
	   "a reservation is planned, with all that its event says");
	same_again("reservation_set", RESERVATION);
	CHANGES("reservation_began", "{\"reservation\": \"r\"}", "reservation r");
	is_int(r->state, RESERVE_ACTIVE, "it begins");
	CHANGES("reservation_set", "{\"reservation\": \"r\", \"nodes\": [\"c\"]}", "reservation r");
	ok(r->state == RESERVE_ACTIVE && r->nodes.n == 1 && strcmp(r->queue, "") == 0,
	   "a change of an active one leaves it active");
	CHANGES("reservation_ended", "{\"reservation\": \"r\"}", "reservation r");
	is_int(r->state, RESERVE_ENDED, "it ends");
	same_again("reservation_ended", "{\"reservation\": \"r\"}");
	CHANGES("reservation_set", RESERVATION, "reservation r");
	is_int(r->state, RESERVE_PLANNED, "another one of that name is planned");
	CHANGES("reservation_removed", "{\"reservation\": \"r\"}", "-reservation r");
	ok(!cluster_reservation(&c, "r"), "a removed one is not on record");
}

/* Each event that needs a record is refused without one; an event of a job and one without a name always. */
static void test_refused(void)
{
	cleanup_free char *before = records_text(&c), *after = NULL;
	static const char *const keys[] = {"node", "id", "queue", "instance", "reservation"};
	static const struct {
		enum event_type type;
		const char *what;
	} needs[] = {
	    {EV_INVENTORY, "node"},
	    {EV_CONNECTED, "node"},
	    {EV_GONE, "node"},
	    {EV_SILENT, "node"},
	    {EV_SUSPECT, "node"},
	    {EV_DRAINED, "node"},
	    {EV_RESUMED, "node"},
	    {EV_SPARE, "node"},
	    {EV_SPARE_OFF, "node"},
	    {EV_NODE_REMOVED, "node"},
	    {EV_QUEUE_REMOVED, "queue"},
	    {EV_QUOTA_REMOVED, "queue"},
	    {EV_INSTANCE_REMOVED, "instance type"},
	    {EV_RESERVATION_BEGAN, "reservation"},
	    {EV_RESERVATION_ENDED, "reservation"},
	    {EV_RESERVATION_REMOVED, "reservation"},
	    {EV_BUDGET_REMOVED, "budget"},
	    {EV_BUDGET_USED_UP, "budget"},
	    {EV_BUDGET_OPEN, "budget"},
	};
	cJSON *named = cJSON_CreateObject(), *none = cJSON_CreateObject();

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		cJSON_AddStringToObject(named, keys[i], "nobody");
	for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++) {
		cleanup_free char *says = xasprintf("there is no %s \"nobody\"", needs[i].what);

		is_int(cluster_apply(&c, needs[i].type, 5, named, &err), -1, event_name(needs[i].type));
		is_str(err.text, says, "is refused with the reason");
	}
	for (int t = EV_JOINED; t < N_EVENT_TYPE; t++) {
		if (t == EV_INCARNATION || t == EV_FAILURE_PATTERNS)
			continue;
		is_int(cluster_apply(&c, (enum event_type)t, 5, none, &err), -1, event_name((enum event_type)t));
		is_str(err.text, "it has no name", "is refused without a name");
	}
	is_int(cluster_apply(&c, EV_INCARNATION, 5, none, &err), 0, "an event without a record needs no name");
	is_int(cluster_apply(&c, EV_FAILURE_PATTERNS, 5, none, &err), 0, "nor does this one");
	is_int(cluster_apply(&c, EV_SUBMITTED, 5, named, &err), -1, "an event of a job is refused");
	cluster_changes(&c, add_change, said);
	after = records_text(&c);
	is_str(after, before, "refused events leave the records as they were");
	said[0] = '\0';
	cluster_changes(&c, add_change, NULL);
	is_str(said, "", "refused events change no row");
	cJSON_Delete(named);
	cJSON_Delete(none);
}

/* Several events before one look: each row once, as it is at last. */
static void test_changes(void)
{
	cJSON *d = cJSON_Parse("{\"queue\": \"q\", \"reservation\": \"r\"}");

	cluster_apply(&c, EV_QUEUE_SET, 5, d, &err);
	cluster_apply(&c, EV_QUOTA_SET, 5, d, &err);
	cluster_apply(&c, EV_RESERVATION_SET, 5, d, &err);
	cluster_apply(&c, EV_QUEUE_SET, 5, d, &err);
	cluster_apply(&c, EV_RESERVATION_REMOVED, 5, d, &err);
	said[0] = '\0';
	cluster_changes(&c, add_change, NULL);
	is_str(said, "queue q, -reservation r", "rows of many events change once, as they are at last");
	cluster_apply(&c, EV_QUEUE_REMOVED, 5, d, &err);
	cJSON_Delete(d);
}

/* Rows of the records, loaded into empty ones, give the same. */
static void test_rows(void)
{
	cleanup_free char *before = NULL, *after = NULL;
	struct cluster other = {.size = {0}};
	struct node_rec *n;
	struct token_rec *t;

	apply("joined", "{\"node\": \"a\", \"certificate\": \"ff\", \"token\": \"t\"}");
	apply("inventory",
	      "{\"node\": \"a\", \"address\": \"10.0.0.1\", \"slots\": 8, \"gpus\": 0, \"memory_bytes\": 9}");
	apply("drained", "{\"node\": \"a\", \"text\": \"fan\"}");
	apply("queue_set", "{\"queue\": \"q\", \"weight\": 2.5}");
	apply("quota_set", "{\"queue\": \"default\", \"gpus\": 3, \"borrow\": true}");
	apply("budget_set", "{\"queue\": \"q2\", \"usd\": 10.5, \"period\": \"week\", \"action\": \"end\"}");
	apply("instance_set", "{\"instance\": \"i\", \"set\": {\"gpus\": 4}}");
	apply("reservation_set", RESERVATION);
	apply("reservation_began", "{\"reservation\": \"r\"}");
	n = cluster_node(&c, "a");
	n->id = 7; /* what no event says */
	n->seen_us = 8;
	n->inventory = xstrdup("{\"slots\": 8, \"memory_bytes\": 9, \"gpus\": []}");
	t = cluster_token(&c, "t");
	t->secret_hash = xstrdup("5e");
	t->request = xstrdup("d1");
	before = records_text(&c);
	cluster_init(&other);
	for (int k = 0; k < N_CLUSTER_KIND; k++) {
		for (const struct cluster_rec *r = c.all[k]; r; r = r->hh.next) {
			struct cluster_row row;
			struct cluster_rec *made;

			cluster_row_make(r, &row);
			made = cluster_load(&other, &row.row);
			ok(made && strcmp(made->name, r->name) == 0, "%s is loaded", r->name);
			ok(!cluster_load(&other, &row.row), "once");
			cluster_row_fini(&row);
		}
	}
	after = records_text(&other);
	is_str(after, before, "rows give the records that they were made of");
	said[0] = '\0';
	cluster_changes(&other, add_change, NULL);
	is_str(said, "", "a record that was loaded changes no row");
	cluster_forget(&other, &cluster_node(&other, "a")->head);
	ok(!cluster_node(&other, "a"), "a record may be forgotten");
	cluster_changes(&other, add_change, NULL);
	is_str(said, "", "its row stays");
	cluster_clear(&other);
}

static void test_rows_left_out(void)
{
	struct node_row n = {.name = NULL, .state = TEXT("up")};
	struct token_row t = {.id = TEXT("x"), .kind = TEXT("admin"), .secret_hash = TEXT("aa")};
	struct budget_row b = {.path = "x", .uusd = 5, .period = "year", .action = "hold"};
	struct store_cluster_row i = {.instance = "x", .own = "{"};

	ok(!cluster_load(&c, &(struct store_cluster_row){.node = &n}), "a node without a name");
	n = (struct node_row){.name = TEXT("x"), .state = TEXT("asleep"), .inventory = TEXT("{")};
	ok(cluster_load(&c, &(struct store_cluster_row){.node = &n}), "a node in an unknown state");
	ok(cluster_node(&c, "x")->state == NODE_LOST && !cluster_node(&c, "x")->has_inventory,
	   "counts as lost, and has no inventory that could not be read");
	ok(!cluster_load(&c, &(struct store_cluster_row){.token = &t}), "a token of a person");
	ok(!cluster_load(&c, &(struct store_cluster_row){.budget = &b}), "a budget of an unknown period");
	ok(!cluster_load(&c, &i), "facts that cannot be read");
}

/* A record can be the beginning of a greater struct. */
static void test_size(void)
{
	struct greater {
		struct queue_rec rec;
		uint64_t jobs;
	};
	struct cluster other = {.size = {[CLUSTER_QUEUE] = sizeof(struct greater)}};
	struct greater *g;

	cluster_init(&other);
	g = (struct greater *)cluster_queue(&other, "default");
	is_int((long long)g->jobs, 0, "what is behind a record begins with 0");
	g->jobs = 5;
	cluster_clear(&other);
}

int main(void)
{
	cluster_init(&c);
	test_nodes();
	test_queues();
	test_budgets();
	test_instances();
	test_reservations();
	test_refused();
	test_changes();
	test_rows();
	test_rows_left_out();
	test_size();
	cluster_clear(&c);
	return tap_done();
}
