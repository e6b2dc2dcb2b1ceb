/*
 * domain: switches and racks. Nodes with the same name of one are together in it. A switch may reach over
 * several racks, and a rack may hold several switches. A domain that its last node has left is removed.
 */
#include "scheduler/model/node.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/base/uthash.h"
#include "scheduler/model/model.h"

static struct domain *domain_get(struct sched *s, enum level level, const char *name)
{
	struct domain *d;

	HASH_FIND_STR(s->domains[level], name, d);
	if (d)
		return d;
	d = mem_alloc(1, sizeof(*d));
	d->name = mem_copy(name);
	HASH_ADD_KEYPTR(hh, s->domains[level], d->name, strlen(d->name), d);
	return d;
}

static void join_domain(struct sched *s, struct node *n, enum level level, const char *name)
{
	struct domain *d = domain_get(s, level, name);
	uint32_t at = d->n;

	if (d->n == d->cap) {
		d->cap = d->cap ? d->cap * 2 : 8;
		d->nodes = mem_resize(d->nodes, d->cap, sizeof(*d->nodes));
	}
	for (; at && d->nodes[at - 1]->id > n->id; at--)
		d->nodes[at] = d->nodes[at - 1];
	d->nodes[at] = n;
	d->n++;
	n->domain[level] = d;
	if (d->n > s->largest[level])
		s->largest[level] = d->n;
}

static void domain_free(struct sched *s, enum level level, struct domain *d)
{
	HASH_DELETE(hh, s->domains[level], d);
	free(d->nodes);
	free(d->name);
	free(d);
}

void domains_fini(struct sched *s)
{
	for (int level = 0; level < LEVELS; level++)
		while (s->domains[level])
			domain_free(s, (enum level)level, s->domains[level]);
}

static void leave_domain(struct sched *s, struct node *n, enum level level)
{
	struct domain *d = n->domain[level];
	uint32_t at = 0;
	int was_largest;

	while (d->nodes[at] != n)
		at++;
	memmove(d->nodes + at, d->nodes + at + 1, (d->n - at - 1) * sizeof(d->nodes[0]));
	n->domain[level] = NULL;
	was_largest = d->n-- == s->largest[level];
	if (!d->n)
		domain_free(s, level, d);
	if (!was_largest)
		return;
	s->largest[level] = 0;
	for (d = s->domains[level]; d; d = d->hh.next)
		s->largest[level] = d->n > s->largest[level] ? d->n : s->largest[level];
}

/* Follows S-118. */
void domain_set(struct sched *s, struct node *n, enum level level, const char *name)
{
	const struct domain *was = n->domain[level];

	if (name && !*name)
		name = NULL;
	if (was && name && strcmp(was->name, name) == 0)
		return;
	if (was)
		leave_domain(s, n, level);
	if (name)
		join_domain(s, n, level, name);
}

enum level domain_needed(enum sched_span span)
{
	return span == SCHED_SPAN_SWITCH ? LEVEL_SWITCH : span == SCHED_SPAN_RACK ? LEVEL_RACK : LEVELS;
}

const char *domain_check(const struct sched *s)
{
	for (int level = 0; level < LEVELS; level++) {
		uint32_t largest = 0;
		size_t in = 0;

		for (const struct domain *d = s->domains[level]; d; d = d->hh.next) {
			for (uint32_t i = 0; i < d->n; i++)
				if (d->nodes[i]->domain[level] != d || !d->nodes[i]->known ||
				    (i && d->nodes[i - 1]->id >= d->nodes[i]->id))
					return "domain: a node at a wrong place";
			if (!d->n)
				return "domain: an empty one is kept";
			largest = d->n > largest ? d->n : largest;
			in += d->n;
		}
		for (size_t i = 0; i < s->n_sorted; i++)
			in -= s->sorted[i]->domain[level] != NULL;
		if (in || largest != s->largest[level])
			return "domain: counted wrongly";
	}
	return NULL;
}
