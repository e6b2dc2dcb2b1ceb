/*
 * queue: waiting jobs in order, a treap per lane with subtree sizes, so that "how many are ahead" costs
 * O(log n). The balance comes from a mix of the job's id: no randomness, equal input gives equal trees.
 */
#include "scheduler/model/lane.h"

#include "scheduler/model/model.h"

static uint64_t mix_bits(uint64_t x)
{
	/* splitmix64's finaliser (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014) */
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Follows S-202. */
int queue_before(const struct job *a, const struct job *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	if (a->is_first != b->is_first)
		return a->is_first;
	if (a->order != b->order)
		return a->order < b->order;
	return a->id < b->id;
}

static uint32_t size_of(const struct job *j)
{
	return j ? j->size : 0;
}

static void count_subtree(struct job *j)
{
	j->size = 1 + size_of(j->left) + size_of(j->right);
}

/* Splits t into those before key and the rest. */
static void split_tree(struct job *t, const struct job *key, struct job **before, struct job **rest)
{
	if (!t) {
		*before = *rest = NULL;
	} else if (queue_before(t, key)) {
		split_tree(t->right, key, &t->right, rest);
		count_subtree(t);
		*before = t;
	} else {
		split_tree(t->left, key, before, &t->left);
		count_subtree(t);
		*rest = t;
	}
}

static struct job *join_trees(struct job *a, struct job *b)
{
	if (!a)
		return b;
	if (!b)
		return a;
	if (a->mix > b->mix) {
		a->right = join_trees(a->right, b);
		count_subtree(a);
		return a;
	}
	b->left = join_trees(a, b->left);
	count_subtree(b);
	return b;
}

static void insert_at(struct job **t, struct job *j)
{
	if (!*t || j->mix > (*t)->mix) {
		split_tree(*t, j, &j->left, &j->right);
		count_subtree(j);
		*t = j;
		return;
	}
	insert_at(queue_before(j, *t) ? &(*t)->left : &(*t)->right, j);
	count_subtree(*t);
}

void queue_insert(struct lane *ln, struct job *j)
{
	j->mix = mix_bits(j->id);
	j->left = j->right = NULL;
	insert_at(&ln->waiting, j);
	j->is_waiting = 1;
}

static void remove_at(struct job **t, struct job *j)
{
	if (*t == j) {
		*t = join_trees(j->left, j->right);
		return;
	}
	remove_at(queue_before(j, *t) ? &(*t)->left : &(*t)->right, j);
	count_subtree(*t);
}

void queue_remove(struct lane *ln, struct job *j)
{
	remove_at(&ln->waiting, j);
	j->left = j->right = NULL;
	j->is_waiting = 0;
}

struct job *queue_first(const struct lane *ln)
{
	struct job *j = ln->waiting;

	while (j && j->left)
		j = j->left;
	return j;
}

uint32_t queue_count_before(const struct lane *ln, const struct job *j)
{
	uint32_t n = 0;

	for (const struct job *t = ln->waiting; t;) {
		if (t != j && queue_before(t, j)) {
			n += 1 + size_of(t->left);
			t = t->right;
		} else {
			t = t->left;
		}
	}
	return n;
}

struct job *queue_at(const struct lane *ln, uint32_t i)
{
	struct job *t = ln->waiting;

	while (t) {
		uint32_t left = size_of(t->left);

		if (i == left)
			return t;
		if (i < left) {
			t = t->left;
		} else {
			i -= left + 1;
			t = t->right;
		}
	}
	return NULL;
}

static const char *check_tree(const struct lane *ln, const struct job *t, const struct job **last, size_t *n)
{
	const char *bad;

	if (!t)
		return NULL;
	bad = check_tree(ln, t->left, last, n);
	if (bad)
		return bad;
	if (*last && !queue_before(*last, t))
		return "queue: out of order";
	*last = t;
	++*n;
	if (t->lane != ln || !t->is_waiting || t->n_holds)
		return "queue: holds a job that does not wait in this lane";
	if (t->size != 1 + size_of(t->left) + size_of(t->right))
		return "queue: wrong subtree size";
	if ((t->left && t->left->mix > t->mix) || (t->right && t->right->mix > t->mix))
		return "queue: out of balance";
	return check_tree(ln, t->right, last, n);
}

const char *queue_check(const struct lane *ln, size_t *n)
{
	const struct job *last = NULL;

	return check_tree(ln, ln->waiting, &last, n);
}
