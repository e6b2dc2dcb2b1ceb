/*
 * token_cache: see token_cache.h.
 */
#include "controller/http/token_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/xalloc.h"

struct token_cache {
	struct token_entry slot[TOKEN_CACHE_SLOTS];
};

struct token_cache *token_cache_create(void)
{
	return xcalloc(1, sizeof(struct token_cache));
}

void token_cache_destroy(struct token_cache *c)
{
	free(c);
}

struct token_entry *token_cache_slot(struct token_cache *c, const char *hash)
{
	char head[9] = "";

	memcpy(head, hash, 8);
	return &c->slot[strtoul(head, NULL, 16) % TOKEN_CACHE_SLOTS];
}
