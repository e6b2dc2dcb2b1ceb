/*
 * places: see places.h. Handshakes are counted by two buckets, one of the source and one of all. Lower ranks
 * leave a part of the bucket of all to higher ones.
 */
#include "agent/control/places.h"

#include <netinet/in.h>
#include <string.h>
#include <utlist.h>

#include "common/base/hashtable.h"
#include "common/base/xalloc.h"

#define SOURCES_MAX   2048u /* more strangers than that share one source */
#define SOURCE_RATE   20u   /* handshakes a second */
#define SOURCE_BURST  32u
#define ALL_RATE      400u /* some 0.3 ms of computing each */
#define ALL_BURST     512u
#define PRIVILEGED    1024
#define US_PER_SECOND 1000000u

/* Handshakes that stay for higher ranks. */
static const uint64_t spared[] = {[PLACE_STRANGER] = 256, [PLACE_NEIGHBOUR] = 128, [PLACE_AGENT] = 0};

struct bucket {
	uint64_t millionths; /* handshakes left, times 1,000,000 */
	uint64_t at_us;
};

struct key {
	uint8_t family, privileged, address[8];
};

struct known {
	struct key key;
	UT_hash_handle hh;
};

struct source {
	struct key key;
	unsigned used; /* places */
	struct bucket bucket;
	UT_hash_handle hh;
};

struct place {
	struct source *source;
	void *owner;
	struct place *prev, *next; /* oldest first */
};

struct places {
	struct source *sources;
	struct source others; /* sources without room in the table */
	struct known *known;
	struct place *all;
	struct bucket bucket;
	unsigned used;
};

static struct key key_of(const struct sockaddr *sa)
{
	const struct sockaddr_in *v4 = (const void *)sa;
	const struct sockaddr_in6 *v6 = (const void *)sa;
	struct key k = {.family = 4};

	if (sa->sa_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		k.family = 6;
		memcpy(k.address, &v6->sin6_addr, sizeof(k.address));
		k.privileged = ntohs(v6->sin6_port) < PRIVILEGED;
		return k;
	}
	if (sa->sa_family == AF_INET6)
		memcpy(k.address, &v6->sin6_addr.s6_addr[12], 4);
	else if (sa->sa_family == AF_INET)
		memcpy(k.address, &v4->sin_addr, 4);
	k.privileged = ntohs(sa->sa_family == AF_INET6 ? v6->sin6_port : v4->sin_port) < PRIVILEGED;
	return k;
}

static enum place_rank rank_of(const struct places *s, const struct source *source)
{
	struct key k = source->key;
	const struct known *known;

	k.privileged = 0;
	HASH_FIND(hh, s->known, &k, sizeof(k), known);
	if (!known || source == &s->others)
		return PLACE_STRANGER;
	return source->key.privileged ? PLACE_AGENT : PLACE_NEIGHBOUR;
}

/* ---- handshakes ----------------------------------------------------------------------------------- */

static void fill_bucket(struct bucket *b, uint64_t rate, uint64_t burst, uint64_t now_us)
{
	uint64_t passed = now_us > b->at_us ? now_us - b->at_us : 0;

	if (passed > burst * US_PER_SECOND / rate)
		b->millionths = burst * US_PER_SECOND;
	else
		b->millionths += passed * rate;
	if (b->millionths > burst * US_PER_SECOND)
		b->millionths = burst * US_PER_SECOND;
	b->at_us = now_us;
}

int places_may_start(struct places *s, const struct place *p, uint64_t now_us)
{
	struct bucket *own = &p->source->bucket;
	uint64_t kept = spared[rank_of(s, p->source)] * US_PER_SECOND;

	fill_bucket(own, SOURCE_RATE, SOURCE_BURST, now_us);
	fill_bucket(&s->bucket, ALL_RATE, ALL_BURST, now_us);
	if (own->millionths < US_PER_SECOND || s->bucket.millionths < kept + US_PER_SECOND)
		return 0;
	own->millionths -= US_PER_SECOND;
	s->bucket.millionths -= US_PER_SECOND;
	return 1;
}

/* ---- sources -------------------------------------------------------------------------------------- */

/* Frees the sources that have no connection and all their handshakes. */
static void forget_sources(struct places *s, uint64_t now_us)
{
	struct source *source, *next;

	HASH_ITER (hh, s->sources, source, next) {
		fill_bucket(&source->bucket, SOURCE_RATE, SOURCE_BURST, now_us);
		if (source->used || source->bucket.millionths < (uint64_t)SOURCE_BURST * US_PER_SECOND)
			continue;
		HASH_DEL(s->sources, source);
		free(source);
	}
}

static struct source *source_of(struct places *s, const struct sockaddr *from, uint64_t now_us)
{
	struct key k = key_of(from);
	struct source *source;

	HASH_FIND(hh, s->sources, &k, sizeof(k), source);
	if (source)
		return source;
	if (HASH_COUNT(s->sources) >= SOURCES_MAX)
		forget_sources(s, now_us);
	if (HASH_COUNT(s->sources) >= SOURCES_MAX)
		return &s->others;
	source = xcalloc(1, sizeof(*source));
	source->key = k;
	source->bucket = (struct bucket){(uint64_t)SOURCE_BURST * US_PER_SECOND, now_us};
	HASH_ADD(hh, s->sources, key, sizeof(source->key), source);
	return source;
}

/* ---- places --------------------------------------------------------------------------------------- */

static struct place *oldest_of(const struct places *s, const struct source *source)
{
	struct place *p;

	DL_FOREACH (s->all, p)
		if (p->source == source)
			return p;
	return NULL;
}

/* Returns the connection that costs least: of the lowest rank, there of the source with most connections, and
 * of that the oldest one. */
static struct place *worst_place(const struct places *s)
{
	struct place *p, *worst = NULL;
	enum place_rank least = PLACE_AGENT;

	DL_FOREACH (s->all, p) {
		enum place_rank rank = rank_of(s, p->source);

		if (worst && (rank > least || (rank == least && p->source->used <= worst->source->used)))
			continue;
		worst = p;
		least = rank;
	}
	return worst;
}

struct place *places_enter(struct places *s, const struct sockaddr *from, void *owner, uint64_t now_us,
                           void **leaves)
{
	struct source *source = source_of(s, from, now_us);
	struct place *p = NULL;

	if (source->used >= PLACES_SOURCE)
		p = oldest_of(s, source);
	else if (s->used >= PLACES_ALL)
		p = worst_place(s);
	*leaves = p ? p->owner : NULL;
	p = xcalloc(1, sizeof(*p));
	p->source = source;
	p->owner = owner;
	source->used++;
	s->used++;
	DL_APPEND(s->all, p);
	return p;
}

void places_leave(struct places *s, struct place *p)
{
	p->source->used--;
	s->used--;
	DL_DELETE(s->all, p);
	free(p);
}

unsigned places_used(const struct places *s)
{
	return s->used;
}

/* ---- life ----------------------------------------------------------------------------------------- */

static void forget_known(struct places *s)
{
	struct known *k, *next;

	HASH_ITER (hh, s->known, k, next) {
		HASH_DEL(s->known, k);
		free(k);
	}
}

void places_know(struct places *s, const struct sockaddr_storage *agents, size_t n)
{
	forget_known(s);
	for (size_t i = 0; i < n; i++) {
		struct key key = key_of((const void *)&agents[i]);
		struct known *k;

		key.privileged = 0;
		HASH_FIND(hh, s->known, &key, sizeof(key), k);
		if (k)
			continue;
		k = xcalloc(1, sizeof(*k));
		k->key = key;
		HASH_ADD(hh, s->known, key, sizeof(k->key), k);
	}
}

struct places *places_create(void)
{
	return xcalloc(1, sizeof(struct places));
}

void places_destroy(struct places *s)
{
	struct source *source, *next;

	if (!s)
		return;
	forget_known(s);
	HASH_ITER (hh, s->sources, source, next) {
		HASH_DEL(s->sources, source);
		free(source);
	}
	free(s);
}
