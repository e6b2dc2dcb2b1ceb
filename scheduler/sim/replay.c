/* replay: see replay.h; reading with changes, and the comparison. */
#include "scheduler/sim/replay.h"

#include "scheduler/sim/apply.h"
#include "scheduler/sim/replay_int.h"

#define EXTRA_NODE (UINT64_C(1) << 40) /* ids of nodes that were not there: above all others */

/* ---- lines ------------------------------------------------------------------------------------- */

void replay_open(struct replay_lines *l, const struct replay_conf *c, const char *text, size_t n,
                 struct replay_mistake *m)
{
	*l = (struct replay_lines){.conf = c, .p = text, .end = text + n, .m = m};
	l->teller = record_reader_create();
}

void replay_close(struct replay_lines *l)
{
	struct node_name *n, *tmp;
	struct account_path *a, *atmp;

	record_reader_destroy(l->teller);
	HASH_ITER (hh, l->names, n, tmp) {
		HASH_DELETE(hh, l->names, n);
		free(n->name);
		free(n);
	}
	HASH_ITER (hh, l->paths, a, atmp) {
		HASH_DELETE(hh, l->paths, a);
		free(a->path);
		free(a);
	}
}

static void name_set(struct replay_lines *l, uint64_t id, const char *name)
{
	struct node_name *n;

	HASH_FIND(hh, l->names, &id, sizeof(id), n);
	if (!n) {
		n = mem_alloc(1, sizeof(*n));
		n->id = id;
		HASH_ADD(hh, l->names, id, sizeof(n->id), n);
	}
	free(n->name);
	n->name = mem_copy(name ? name : "?");
}

const char *replay_node_name(const struct replay_lines *l, uint64_t id)
{
	struct node_name *n;

	HASH_FIND(hh, l->names, &id, sizeof(id), n);
	return n ? n->name : "?";
}

char **replay_names(const struct replay_lines *l, const struct sched_decision *d)
{
	char **names = mem_alloc(d->n, sizeof(*names));

	for (uint32_t i = 0; i < d->n; i++)
		names[i] = mem_copy(replay_node_name(l, d->places[i].node));
	return names;
}

void replay_names_free(char **names, uint32_t n)
{
	for (uint32_t i = 0; names && i < n; i++)
		free(names[i]);
	free(names);
}

static void change_policy(const struct replay_conf *c, struct sched_policy *p)
{
	if (c->policy)
		*p = *c->policy;
	if (c->backfill)
		p->backfill = *c->backfill;
	if (c->estimate == REPLAY_LEARNED)
		p->by_limit = 0;
}

static void change_queue(const struct replay_conf *c, struct sched_queue *q)
{
	for (size_t i = 0; i < c->n_weights; i++)
		if (strcmp(c->weights[i].path, q->path) == 0)
			q->weight = c->weights[i].weight;
}

static void change_node(struct replay_lines *l, struct sched_node *n)
{
	l->was_usable = n->usable;
	l->left_out = 0;
	for (const char *const *w = l->conf->without; w && *w; w++)
		if (n->name && strcmp(*w, n->name) == 0)
			l->left_out = 1;
	if (l->left_out)
		n->usable = 0;
}

static void path_add(struct replay_lines *l, const char *path, size_t n)
{
	struct account_path *a;

	HASH_FIND(hh, l->paths, path, n, a);
	if (a || !n)
		return;
	a = mem_alloc(1, sizeof(*a));
	a->path = mem_alloc(n + 1, 1);
	memcpy(a->path, path, n);
	HASH_ADD_KEYPTR(hh, l->paths, a->path, n, a);
}

/* A queue with those above it, and the user in it, who is called "@name" there. */
static void paths_add(struct replay_lines *l, const char *queue, const char *owner)
{
	const char *of = queue && *queue ? queue : "default";
	size_t n = strlen(of), k = owner ? strlen(owner) : 0;

	for (size_t i = 0; i <= n; i++)
		if ((!of[i] || of[i] == '/') && of[i + (of[i] != 0)] != '@')
			path_add(l, of, i);
	path_add(l, of, n);
	if (k) {
		char *both = mem_alloc(n + k + 2, 1);

		memcpy(both, of, n);
		both[n] = '/';
		memcpy(both + n + 1, owner, k);
		path_add(l, both, n + 1 + k);
		free(both);
	}
}

static int report_mistake(struct replay_lines *l, const char *what)
{
	*l->m = (struct replay_mistake){l->line, what};
	return -1;
}

/* The first line says what this is; a part that ends with "hearth-full" has no more. */
static int check_head(struct replay_lines *l, const char *line, size_t n)
{
	static const char head[] = "hearth-history 1";

	if (n < sizeof(head) - 1 || memcmp(line, head, sizeof(head) - 1) != 0)
		return report_mistake(l, "the first line has to begin with \"hearth-history 1\"");
	return 0;
}

int replay_next(struct replay_lines *l, struct record_line *t)
{
	const char *line = l->p, *end, *what;

	if (l->p == l->end)
		return 0;
	end = memchr(line, '\n', (size_t)(l->end - line));
	l->p = end ? end + 1 : l->end;
	if (!l->line++ && check_head(l, line, (size_t)(l->p - line)) < 0)
		return -1;
	if (l->line > 1 && l->p - line > 14 && memcmp(line, "hearth-history", 14) == 0)
		return report_mistake(l, "a second record begins here: one file is one part");
	if (record_reader_next(l->teller, line, (size_t)(l->p - line), t, &what) < 0)
		return report_mistake(l, what);
	if (t->kind == LINE_AT) {
		if (t->id < l->at_ms)
			return report_mistake(l, "the time goes back");
		l->at_ms = t->id;
	} else if (t->kind == LINE_POLICY) {
		change_policy(l->conf, &t->policy);
	} else if (t->kind == LINE_QUEUE) {
		change_queue(l->conf, &t->queue);
		paths_add(l, t->queue.path, NULL);
	} else if (t->kind == LINE_JOB || t->kind == LINE_RESTORE) {
		paths_add(l, t->job.queue, t->job.owner);
	} else if (t->kind == LINE_NODE) {
		name_set(l, t->id, t->node.name);
		change_node(l, &t->node);
	}
	if (t->kind == LINE_TRY || t->kind == LINE_TRIED)
		l->trying = t->kind == LINE_TRY;
	return 1;
}

/* Weights of queues that were never set. */
static void add_weights(struct replay_lines *l, struct sched *s)
{
	for (size_t i = 0; i < l->conf->n_weights; i++)
		sched_queue_set(s, &(struct sched_queue){l->conf->weights[i].path, l->conf->weights[i].weight, 0, 0});
	l->weighed = 1;
}

static void add_nodes(struct replay_lines *l, struct sched *s, const struct sched_node *like)
{
	static const char digits[] = "0123456789";
	struct sched_node n = *like;

	n.spare = 0;
	for (uint32_t i = 0; i < l->conf->more_nodes; i++) {
		char name[24] = "more-", *p = name + strlen(name);
		uint32_t unit = 1;

		while ((i + 1) / unit >= 10)
			unit *= 10;
		for (; unit; unit /= 10)
			*p++ = digits[(i + 1) / unit % 10];
		n.id = EXTRA_NODE + i;
		n.name = name;
		name_set(l, n.id, name);
		sched_node_set(s, &n);
	}
	l->grown = 1;
}

void replay_tell(struct replay_lines *l, struct sched *s, const struct record_line *t)
{
	record_line_apply(s, t);
	if (t->kind == LINE_POLICY && !l->weighed)
		add_weights(l, s);
	if (t->kind == LINE_NODE && t->node.usable && !l->grown)
		add_nodes(l, s, &t->node);
}

/* ---- the comparison ---------------------------------------------------------------------------- */

static struct replay_start start_of(const struct replay_lines *l, const struct sched_decision *d)
{
	struct replay_start out = {0};

	if (!d || !d->job)
		return out;
	out.job = d->job;
	out.n = d->n;
	out.nodes = replay_names(l, d);
	return out;
}

static void one_step(struct replay_lines *l, struct sched *s, const struct record_line *t,
                     struct replay_compared *out)
{
	struct sched_decision *d = sched_step(s);

	if (record_line_matches(t, d)) {
		out->starts += d && !l->trying;
	} else {
		out->differs = 1;
		out->at_ms = l->at_ms;
		out->was = start_of(l, &t->places);
		out->is = start_of(l, d);
	}
	sched_decision_free(d);
}

int replay_compare(const struct replay_conf *c, const char *text, size_t n, struct replay_compared *out,
                   struct replay_mistake *m)
{
	struct sched *s = sched_create();
	struct replay_lines l;
	struct record_line t;
	int rc = 0;

	*out = (struct replay_compared){0};
	replay_open(&l, c, text, n, m);
	while (!out->differs && (rc = replay_next(&l, &t)) > 0) {
		if (t.kind == LINE_STEP)
			one_step(&l, s, &t, out);
		else
			replay_tell(&l, s, &t);
	}
	replay_close(&l);
	sched_destroy(s);
	if (rc < 0)
		replay_compared_fini(out);
	return rc < 0 ? -1 : 0;
}

void replay_compared_fini(struct replay_compared *r)
{
	replay_names_free(r->was.nodes, r->was.n);
	replay_names_free(r->is.nodes, r->is.n);
	*r = (struct replay_compared){0};
}
