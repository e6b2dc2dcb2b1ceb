/*
 * park_orders: orders about parkings. As for jobs, an order is a state, and is sent once in each session.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/park/park_int.h"
#include "controller/record/rec.h"
#include "controller/share/pools.h"
#include "controller/state/turn.h"

/* What PREPARE has besides the parking; gone once all nodes are ready. */
struct park_order {
	struct wire_shared *gang;
	char *account, *name, secret[33];
	uint64_t memory_bytes, disk_bytes;
	uint32_t grace_ms;
};

char *agent_spec(const struct job_spec *s)
{
	cJSON *json = spec_to_json(s);
	char *text;

	/* The order names the folder, and agents of the version before do not know the key. */
	cJSON_DeleteItemFromObjectCaseSensitive(json, "checkpoint");
	/* Restarts, watches and pools are hearthd's part, and agents of the version before do not know these
	 * keys. Interpreters that wait are the agents' part. */
	cJSON_DeleteItemFromObjectCaseSensitive(json, "retry");
	cJSON_DeleteItemFromObjectCaseSensitive(json, "watch");
	if (!s->preload.n)
		cJSON_DeleteItemFromObjectCaseSensitive(json, "warm_pool");
	if (!s->n_rules)
		cJSON_DeleteItemFromObjectCaseSensitive(json, "rules");
	text = json_text(json);
	cJSON_Delete(json);
	return text;
}

void launch_token(const char *secret, uint32_t place, char out[33])
{
	char text[128], hash[HASH_HEX_SIZE];

	snprintf(text, sizeof(text), "launch:%u:%s", place, secret ? secret : "");
	hash_hex(text, strlen(text), hash);
	snprintf(out, 33, "%.32s", hash);
}

/* ---- what all nodes get ------------------------------------------------------------------------------- */

static struct wire_shared *make_gang(struct core *c, const struct job_spec *s, const cJSON *launch,
                                     const struct parking *k, struct err *e)
{
	const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(launch, "ranks_per_node"),
	            *groups = cJSON_GetObjectItemCaseSensitive(launch, "groups");
	struct wm_gang g = {.spec = agent_spec(s)};
	struct wire_shared *gang;
	char name[24];

	for (uint32_t i = 0; i < k->n; i++) {
		const struct cnode *n = node_by_id(c, k->nodes[i].node_id);
		const cJSON *r = cJSON_GetArrayItem(ranks, (int)i), *group = cJSON_GetArrayItem(groups, (int)i);

		snprintf(name, sizeof(name), "algo-%u", i + 1);
		wire_strv_add(&g.nodes, name);
		wire_strv_add(&g.addresses, n->inv.address ? n->inv.address : "");
		wire_u32v_add(&g.ranks_per_node, cJSON_IsNumber(r) ? (uint32_t)r->valuedouble : 0);
		wire_strv_add(&g.groups, cJSON_IsString(group) ? group->valuestring : "");
	}
	for (size_t i = 0; i < s->n_inputs; i++)
		wire_strv_add(&g.input_digests, "");
	gang = wire_share(WM_GANG, &g, e);
	wire_fini(WM_GANG, &g);
	return gang;
}

static void random_secret(struct core *c, char out[33])
{
	uint8_t raw[16];

	c->io.random(raw, sizeof(raw), c->io.arg);
	for (size_t i = 0; i < sizeof(raw); i++)
		snprintf(out + 2 * i, 3, "%02x", raw[i]);
}

struct park_order *park_order_make(struct core *c, const struct pool_rec *p, struct parking *k)
{
	struct err e;
	struct cjob *j = job_get(c, p->last_job, &e);
	struct job_spec *s = j ? job_parse_spec(c, j, &e) : NULL;
	cJSON *launch = p->launch ? cJSON_Parse(p->launch) : NULL;
	struct park_order *o = s ? xcalloc(1, sizeof(*o)) : NULL;

	if (o) {
		o->gang = make_gang(c, s, launch, k, &e);
		o->account = xstrdup(rec_account(&j->r));
		o->name = xstrdup(j->r.name ? j->r.name : "");
		o->memory_bytes = s->memory_bytes;
		o->disk_bytes = s->disk_bytes;
		o->grace_ms = (uint32_t)((s->grace_s ? s->grace_s : c->cfg.default_grace_s) * 1000);
		random_secret(c, o->secret);
	}
	if (!o || !o->gang) {
		log_error("event=not_parked pool=%" PRIu64 " text=\"%s\"", p->id, e.text);
		park_order_free(o);
		o = NULL;
	}
	cJSON_Delete(launch);
	spec_destroy(s);
	return o;
}

void park_order_free(struct park_order *o)
{
	if (!o)
		return;
	wire_unshare(o->gang);
	free(o->account);
	free(o->name);
	free(o);
}

/* ---- one node ----------------------------------------------------------------------------------------- */

static void copy_ids(struct wire_u32v *to, const struct wire_u32v *from)
{
	for (uint32_t i = 0; i < from->n; i++)
		wire_u32v_add(to, from->v[i]);
}

static void send_prepare(struct core *c, const struct parking *k, uint32_t i, const struct cnode *n)
{
	const struct pool_rec *p = cluster_pool(&c->records, k->key.pool);
	const struct pool_part *part = p ? pool_part_on(p, n->r.id) : NULL;
	const struct park_order *o = k->order;
	struct wm_prepare m = {.job = k->key.pool,
	                       .attempt = (uint32_t)k->key.number,
	                       .epoch = k->epoch,
	                       .node_rank = i,
	                       .memory_bytes = o->memory_bytes,
	                       .disk_bytes = o->disk_bytes,
	                       .master_port = k->port,
	                       .port_lo = n->inv.port_lo ? n->inv.port_lo : c->cfg.port_lo,
	                       .port_hi = n->inv.port_lo ? n->inv.port_hi : c->cfg.port_hi,
	                       .resume_step = -1,
	                       .grace_ms = o->grace_ms,
	                       .prepare_timeout_ms = c->cfg.prepare_timeout_s * 1000,
	                       .pool = k->key.pool,
	                       .pool_keep = 1,
	                       .park = 1};
	char token[33];

	if (!part)
		return;
	launch_token(o->secret, i, token);
	m.launch_id = xasprintf("%" PRIu64 ".%" PRIu64, k->key.pool, k->key.number);
	m.token = xstrdup(token);
	m.account = xstrdup(o->account);
	m.job_name = xstrdup(o->name);
	m.bundle_digest = xstrdup("");
	m.resume_from = xstrdup("");
	m.resume_name = xstrdup("");
	m.resume_local = xstrdup("");
	m.checkpoint_uri = xstrdup("");
	m.skip_steps = xstrdup("");
	m.url = xstrdup(c->cfg.url);
	m.job_token = xstrdup("");
	m.gang = wire_share_again(o->gang);
	copy_ids(&m.gpus, &part->gpus);
	copy_ids(&m.cpu_ids, &part->cpus);
	hold_send(c, n, WM_PREPARE, &m);
	wire_fini(WM_PREPARE, &m);
}

static void send_end(struct core *c, const struct parking *k, const struct cnode *n, int kill)
{
	const struct pool_rec *p = cluster_pool(&c->records, k->key.pool);
	/* An agent drops orders below the greatest epoch that it knows of the pool. */
	struct wm_kill m = {.job = k->key.pool,
	                    .attempt = (uint32_t)k->key.number,
	                    .epoch = p && p->park_epoch > k->epoch ? p->park_epoch : k->epoch,
	                    .reason = (char *)(uintptr_t) "no job has taken this launch"};
	struct wm_collect collect = {.job = m.job, .attempt = m.attempt, .epoch = m.epoch, .keep = 0};

	if (kill)
		hold_send(c, n, WM_KILL, &m);
	hold_send(c, n, WM_COLLECT, &collect);
}

static unsigned due_of(const struct parking *k, const struct park_node *x)
{
	if (x->gone)
		return 0;
	if (k->state == PARK_PREPARING && x->state < LAUNCH_READY)
		return SENT_PREPARE;
	if (k->state == PARK_STARTING && x->state == LAUNCH_READY)
		return SENT_GO;
	if (k->state == PARK_ENDING && x->state != LAUNCH_ENDED && x->state != LAUNCH_FAILED)
		return SENT_KILL;
	return k->state == PARK_ENDING ? SENT_COLLECT : 0;
}

void park_send(struct core *c, struct parking *k)
{
	for (uint32_t i = 0; i < k->n; i++) {
		struct park_node *x = &k->nodes[i];
		const struct cnode *n = node_by_id(c, x->node_id);
		unsigned due = due_of(k, x);

		if (!n || !n->connected || !n->synced)
			continue;
		if (x->session != n->session)
			x->sent = 0;
		x->session = n->session;
		if (!due || x->sent & due)
			continue;
		x->sent |= (uint8_t)due;
		if (due == SENT_PREPARE) {
			x->ordered = 1;
			send_prepare(c, k, i, n);
		} else if (due == SENT_GO) {
			struct wm_launch_go m = {
			    .job = k->key.pool, .attempt = (uint32_t)k->key.number, .epoch = k->epoch};

			hold_send(c, n, WM_LAUNCH_GO, &m);
		} else {
			send_end(c, k, n, due == SENT_KILL);
		}
	}
}
