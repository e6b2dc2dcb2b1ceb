/* flat: see flat.h. */
#include "scheduler/sim/flat.h"

#include "scheduler/base/mem.h"

static void set_add(struct flat_set *s, uint32_t i)
{
	s->bits[i >> 6] |= 1ull << (i & 63);
	s->words[i >> 12] |= 1ull << (i >> 6 & 63);
	s->top |= 1ull << (i >> 12);
}

static void set_del(struct flat_set *s, uint32_t i)
{
	if (s->bits[i >> 6] &= ~(1ull << (i & 63)))
		return;
	if (s->words[i >> 12] &= ~(1ull << (i >> 6 & 63)))
		return;
	s->top &= ~(1ull << (i >> 12));
}

static uint32_t set_first(const struct flat_set *s)
{
	uint32_t a = (uint32_t)__builtin_ctzll(s->top), b = a << 6 | (uint32_t)__builtin_ctzll(s->words[a]);

	return b << 6 | (uint32_t)__builtin_ctzll(s->bits[b]);
}

/* Follows S-406 and S-437. */
void flat_init(struct flat *f, uint32_t nodes, uint32_t per_node)
{
	assert(nodes && nodes <= FLAT_MAX_NODES && per_node && per_node <= FLAT_MAX_GPUS);
	memset(f, 0, sizeof(*f));
	f->nodes = nodes;
	f->per_node = per_node;
	f->free = mem_alloc(nodes, 1);
	memset(f->free, (int)per_node, nodes);
	for (uint32_t i = 0; i <= per_node; i++) {
		f->set[i].bits = mem_alloc(nodes / 64 + 1, sizeof(uint64_t));
		f->set[i].words = mem_alloc(nodes / 4096 + 1, sizeof(uint64_t));
	}
	for (uint32_t i = 0; i < nodes; i++)
		set_add(&f->set[per_node], i);
	f->count[per_node] = nodes;
	f->some = 1ull << (per_node - 1);
}

void flat_fini(struct flat *f)
{
	for (uint32_t i = 0; i <= f->per_node; i++) {
		free(f->set[i].bits);
		free(f->set[i].words);
	}
	free(f->free);
	memset(f, 0, sizeof(*f));
}

uint32_t flat_spots(uint32_t per_node, uint32_t gpus)
{
	return gpus ? (gpus - 1) / per_node + 1 : 1;
}

/* Whole nodes, and for the remainder one node more, be it a whole one. */
static int counts_fit(const uint32_t *count, uint32_t per_node, uint32_t gpus)
{
	uint32_t whole = gpus / per_node, rest = gpus % per_node;

	if (count[per_node] < whole)
		return 0;
	if (!rest || count[per_node] > whole)
		return 1;
	for (uint32_t i = rest; i < per_node; i++)
		if (count[i])
			return 1;
	return 0;
}

int flat_fits(const struct flat *f, uint32_t gpus)
{
	if (!gpus)
		return 1;
	if (gpus <= f->per_node)
		return f->some >> (gpus - 1) != 0;
	return counts_fit(f->count, f->per_node, gpus);
}

static void move_node(struct flat *f, uint32_t node, uint32_t to)
{
	uint32_t from = f->free[node];

	set_del(&f->set[from], node);
	if (!--f->count[from] && from)
		f->some &= ~(1ull << (from - 1));
	f->free[node] = (uint8_t)to;
	set_add(&f->set[to], node);
	if (!f->count[to]++ && to)
		f->some |= 1ull << (to - 1);
}

/* The first n of a set. */
static void set_firsts(const struct flat_set *s, uint32_t n, uint32_t *out)
{
	for (uint32_t w = 0; n; w++)
		for (uint64_t bits = s->bits[w]; bits && n; bits &= bits - 1, n--)
			*out++ = w << 6 | (uint32_t)__builtin_ctzll(bits);
}

/* Follows S-407 and S-408. */
void flat_find(const struct flat *f, uint32_t gpus, uint32_t *nodes)
{
	uint32_t whole = gpus / f->per_node, rest = gpus % f->per_node, fit;

	if (!gpus && f->count[0]) { /* needs nothing, and so the fullest node will do */
		nodes[0] = set_first(&f->set[0]);
		return;
	}
	if (!gpus)
		gpus = 1;
	if (gpus <= f->per_node) {
		nodes[0] = set_first(&f->set[gpus + (uint32_t)__builtin_ctzll(f->some >> (gpus - 1))]);
		return;
	}
	if (!rest) {
		set_firsts(&f->set[f->per_node], whole, nodes);
		return;
	}
	fit = rest + (uint32_t)__builtin_ctzll(f->some >> (rest - 1));
	if (fit < f->per_node) {
		set_firsts(&f->set[f->per_node], whole, nodes);
		nodes[whole] = set_first(&f->set[fit]);
	} else {
		set_firsts(&f->set[f->per_node], whole + 1, nodes);
	}
}

void flat_take(struct flat *f, uint32_t gpus, const uint32_t *nodes)
{
	for (uint32_t n; gpus; gpus -= n, nodes++) {
		n = gpus < f->per_node ? gpus : f->per_node;
		assert(f->free[*nodes] >= n);
		move_node(f, *nodes, f->free[*nodes] - n);
	}
}

void flat_give(struct flat *f, uint32_t gpus, const uint32_t *nodes)
{
	for (uint32_t n; gpus; gpus -= n, nodes++) {
		n = gpus < f->per_node ? gpus : f->per_node;
		assert(f->free[*nodes] + n <= f->per_node);
		move_node(f, *nodes, f->free[*nodes] + n);
	}
}

/* ---- looking ahead --------------------------------------------------------------------------- */

void flat_view_copy(struct flat_view *v, const struct flat *f)
{
	v->nodes = f->nodes;
	v->per_node = f->per_node;
	memcpy(v->free, f->free, f->nodes);
	memcpy(v->count, f->count, (f->per_node + 1) * sizeof(*v->count));
}

int flat_view_fits(const struct flat_view *v, uint32_t gpus)
{
	if (!gpus)
		return 1;
	if (gpus > v->per_node)
		return counts_fit(v->count, v->per_node, gpus);
	for (uint32_t i = gpus; i <= v->per_node; i++)
		if (v->count[i])
			return 1;
	return 0;
}

void flat_view_change(struct flat_view *v, uint32_t gpus, const uint32_t *nodes, int sign)
{
	for (uint32_t n; gpus; gpus -= n, nodes++) {
		uint32_t was = v->free[*nodes], now;

		n = gpus < v->per_node ? gpus : v->per_node;
		now = sign > 0 ? was + n : was - n;
		assert(now <= v->per_node);
		v->count[was]--;
		v->count[now]++;
		v->free[*nodes] = (uint8_t)now;
	}
}
