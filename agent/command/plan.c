/*
 * plan: see plan.h. PREPARE comes from an authenticated hearthd. The indexes that later code uses without a
 * check are checked here once: one entry per node in each list, this node inside, at least one rank.
 */
#include "agent/command/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/net/wire.h"
#include "common/os/fsutil.h"

#define PLAN_MAX_RANKS SPEC_MAX_RANKS
#define TAIL_MAX       32u

static int check_lists(const struct wm_prepare *m, const struct wm_gang *g, struct err *e)
{
	uint32_t n = g->nodes.n;
	uint64_t ranks = 0;

	if (n == 0 || n > SPEC_MAX_NODES)
		return err_set(e, ERR_INVALID, "plan of job %" PRIu64 ": %u nodes", m->job, n);
	if (g->addresses.n != n || g->ranks_per_node.n != n || g->groups.n != n)
		return err_set(e, ERR_INVALID, "plan: %u nodes, but %u addresses, %u rank counts, %u groups", n,
		               g->addresses.n, g->ranks_per_node.n, g->groups.n);
	if (m->node_rank >= n)
		return err_set(e, ERR_INVALID, "plan: node rank %u of %u", m->node_rank, n);
	for (uint32_t i = 0; i < n; i++) {
		if (g->ranks_per_node.v[i] == 0)
			return err_set(e, ERR_INVALID, "plan: node %s has no rank", g->nodes.v[i]);
		ranks += g->ranks_per_node.v[i];
	}
	if (ranks > PLAN_MAX_RANKS)
		return err_set(e, ERR_LIMIT, "plan: %" PRIu64 " ranks, at most %u", ranks, PLAN_MAX_RANKS);
	if (!m->token[0])
		return err_set(e, ERR_INVALID, "plan: no launch token");
	if (m->parked && !m->pool)
		return err_set(e, ERR_INVALID, "plan: parking %u of no pool", m->parked);
	return 0;
}

/* First global rank of a node; ranks go to nodes in node-rank order. */
static uint32_t plan_first_rank(const struct plan *p, uint32_t node_rank)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < node_rank && i < p->g->ranks_per_node.n; i++)
		sum += p->g->ranks_per_node.v[i];
	return sum;
}

struct plan *plan_create(struct wm_prepare *m, struct err *e)
{
	struct plan *p = xcalloc(1, sizeof(*p));
	const struct wm_gang *g;
	void *gang = NULL;

	p->m = m;
	if (!m->gang || wire_decode(WM_GANG, m->gang->data, m->gang->n, &gang, e) < 0) {
		err_set(e, ERR_INVALID, "plan: the gang's table is missing or malformed");
		goto fail;
	}
	g = p->g = gang;
	if (check_lists(m, g, e) < 0)
		goto fail;
	p->spec = spec_parse(g->spec, strlen(g->spec), e);
	if (!p->spec) {
		err_wrap(e, "plan: spec");
		goto fail;
	}
	if (spec_nodes(p->spec) != g->nodes.n) {
		err_set(e, ERR_INVALID, "plan: the spec asks for %u nodes, the order has %u", spec_nodes(p->spec),
		        g->nodes.n);
		goto fail;
	}
	p->n_nodes = g->nodes.n;
	p->world = plan_first_rank(p, p->n_nodes);
	p->first_rank = plan_first_rank(p, m->node_rank);
	p->local_ranks = g->ranks_per_node.v[m->node_rank];
	return p;
fail:
	plan_destroy(p);
	return NULL;
}

void plan_destroy(struct plan *p)
{
	if (!p)
		return;
	wire_free(WM_PREPARE, p->m);
	wire_free(WM_GANG, p->g);
	spec_destroy(p->spec);
	free(p);
}

int plan_save(const struct plan *p, const char *dir, struct err *e)
{
	unsigned layout = wire_layout(WIRE_ALL, WM_PREPARE);
	cleanup_free char *path = xasprintf("%s/plan", dir),
	                  *tail = xasprintf("plan %u\n", layout == WIRE_OLDEST ? 1 : layout);
	struct buf b;
	int rc;

	buf_init(&b, WIRE_HEADER_SIZE + WIRE_MAX_BODY + TAIL_MAX);
	rc = wire_encode(WM_PREPARE, p->m, 0, &b, e);
	if (rc == 0 && buf_put(&b, tail, strlen(tail)) < 0)
		rc = err_set(e, ERR_LIMIT, "plan: too long");
	if (rc == 0)
		rc = fs_replace(path, buf_head(&b), buf_left(&b), 0600, e);
	buf_fini(&b);
	return rc;
}

/* Reads the version of the protocol that laid out the message, from behind it. Plans of version 2 say 1, or
 * nothing. */
static int read_version(struct buf *b, unsigned *layout, struct err *e)
{
	cleanup_free char *tail =
	    xstrndup((const char *)buf_head(b), buf_left(b) < TAIL_MAX ? buf_left(b) : TAIL_MAX);
	unsigned newest = wire_layout(WIRE_ALL, WM_PREPARE), version = 1;

	if (tail[0] && sscanf(tail, "plan %u\n", &version) != 1)
		return err_set(e, ERR_PROTOCOL, "the end of the plan is damaged");
	if (version > newest)
		return err_set(e, ERR_UNSUPPORTED, "a newer agent wrote the plan (version %u, this one reads %u)",
		               version, newest);
	*layout = version < WIRE_OLDEST ? WIRE_OLDEST : version;
	return 0;
}

struct plan *plan_load(const char *dir, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/plan", dir);
	cleanup_free char *data = NULL;
	struct wire_frame f;
	unsigned layout = 0;
	struct buf b;
	size_t n;
	void *m;

	if (fs_read_file(path, WIRE_HEADER_SIZE + WIRE_MAX_BODY + TAIL_MAX, &data, &n, e) < 0)
		return NULL;
	buf_view(&b, data, n);
	if (n < WIRE_HEADER_SIZE || wire_header_any(buf_head(&b), &f, e) < 0 || f.type != WM_PREPARE ||
	    n - WIRE_HEADER_SIZE < f.n) {
		err_set(e, ERR_PROTOCOL, "%s: not a whole plan", path);
		return NULL;
	}
	f.body = buf_head(&b) + WIRE_HEADER_SIZE;
	buf_skip(&b, WIRE_HEADER_SIZE + (size_t)f.n);
	if (read_version(&b, &layout, e) < 0 || wire_decode_at(layout, WM_PREPARE, f.body, f.n, &m, e) < 0)
		return NULL;
	return plan_create(m, e);
}

int plan_node_index(const struct plan *p, const char *name)
{
	for (uint32_t i = 0; i < p->n_nodes; i++)
		if (strcmp(p->g->nodes.v[i], name) == 0)
			return (int)i;
	return -1;
}

const char *plan_node_name(const struct plan *p)
{
	return p->g->nodes.v[p->m->node_rank];
}

char *plan_folder(const struct plan *p)
{
	const struct wm_prepare *m = p->m;

	return m->parked ? xasprintf("%" PRIu64 ".%u", m->pool, m->parked)
	                 : xasprintf("%" PRIu64 ".%u", m->job, m->attempt);
}

static int by_hp_name(const void *a, const void *b)
{
	const struct spec_hp *const *x = a;
	const struct spec_hp *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

void plan_hp_args(const struct job_spec *s, struct strv *out)
{
	const struct spec_hp **hps = xcalloc(s->n_hps + 1, sizeof(*hps));

	for (size_t i = 0; i < s->n_hps; i++)
		hps[i] = &s->hps[i];
	qsort(hps, s->n_hps, sizeof(*hps), by_hp_name);
	for (size_t i = 0; i < s->n_hps; i++) {
		strv_addf(out, "%s%s", hps[i]->name[1] ? "--" : "-", hps[i]->name);
		strv_add(out, hps[i]->text);
	}
	free(hps);
}

void plan_argv(const struct plan *p, struct strv *out)
{
	const struct spec_group *g = spec_group_of(p->spec, p->m->node_rank);
	const struct strv *command = g && g->command.n ? &g->command : &p->spec->command;

	for (size_t i = 0; i < command->n; i++)
		strv_add(out, command->v[i]);
	plan_hp_args(p->spec, out);
}
