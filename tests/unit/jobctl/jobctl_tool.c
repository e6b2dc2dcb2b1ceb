/*
 * jobctl_tool: for tests in other languages.
 *   jobctl_tool scan DIR        the manifest that jobctl makes of a folder, then "digest: HEX"
 *   jobctl_tool match PATTERN PATH DIR(0|1)   ignore_match
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tree/tree.h"
#include "jobctl/client/ignore.h"

int main(int argc, char **argv)
{
	struct ignore ig = {{0}};
	struct err e;
	char *manifest, digest[HASH_HEX_SIZE];
	size_t n;
	if (argc == 5 && !strcmp(argv[1], "match")) {
		puts(ignore_match(argv[2], argv[3], atoi(argv[4])) ? "1" : "0");
		return 0;
	}
	if (argc != 3 || strcmp(argv[1], "scan") != 0)
		return 2;
	if (ignore_read(&ig, argv[2], &e) ||
	    tree_scan(argv[2], ignore_skip, &ig, NULL, NULL, &manifest, &n, digest, NULL, NULL, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	fwrite(manifest, 1, n, stdout);
	printf("digest: %s\n", digest);
	free(manifest);
	ignore_fini(&ig);
	return 0;
}
