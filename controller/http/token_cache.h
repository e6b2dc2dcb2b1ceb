/*
 * token_cache: what an I/O thread remembers of tokens, so that a call with one costs no read of the store.
 *
 * Each thread has a cache of its own, without locks. An entry counts only for the generation of tokens in
 * which it was read; hearthd raises the generation whenever a token was made or removed
 * (auth_tokens_changed). An entry also says when its last use was reported, so that a busy token costs one
 * report a minute.
 */
#ifndef HEARTH_CONTROLLER_HTTP_TOKEN_CACHE_H
#define HEARTH_CONTROLLER_HTTP_TOKEN_CACHE_H

#include <stdint.h>

#include "common/base/hash.h"
#include "controller/http/identity.h"

#define TOKEN_CACHE_SLOTS 1024

struct token_entry {
	char hash[HASH_HEX_SIZE]; /* "" none */
	uint64_t generation;      /* 0: it counts for one call only */
	uint64_t told_us;         /* when its use was reported last; 0 never */
	int session;              /* its secrets are a cookie and a key */
	struct identity who;
};

struct token_cache; /* direct-mapped by the hash */
struct token_cache *token_cache_create(void);
void token_cache_destroy(struct token_cache *c);
/* The slot of a hash. The caller compares hash and generation, and fills it. */
struct token_entry *token_cache_slot(struct token_cache *c, const char *hash);

#endif
