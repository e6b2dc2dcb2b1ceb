/*
 * fuzz_tree: bytes as a manifest. Every path and link that is accepted must stay inside, and the other
 * readers must agree.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "common/tree/tree.h"

static int check(const struct tree_entry *en, void *arg, struct err *e)
{
	char digest[HASH_HEX_SIZE];
	const char *list = en->chunks;
	uint64_t off, len;
	int rc;

	(void)arg;
	(void)e;
	if (!*en->path || *en->path == '/' || strstr(en->path, "//") || !strcmp(en->path, "..") ||
	    !strncmp(en->path, "../", 3) || strstr(en->path, "/../") || *en->target == '/')
		abort();
	while ((rc = tree_next_part(&list, digest, &off, &len)) == 1)
		if (off + len > TREE_CHUNK_MAX)
			abort();
	if (rc < 0)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct tree_stats st = {0};
	int good = tree_each(text, size, check, NULL, NULL) == 0;
	char **v = NULL;
	size_t n = 0;

	if ((tree_measure(text, size, &st, NULL) == 0) != good ||
	    (tree_chunks(text, size, &v, &n, NULL) == 0) != good)
		abort();
	if (n != st.chunks)
		abort();
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
	return 0;
}
