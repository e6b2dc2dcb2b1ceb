/*
 * replay: main of a fuzz target in a plain build: hands each file (or each file of a folder) that is named to
 * LLVMFuzzerTestOneInput, then as many changed copies of it as HEARTH_FUZZ_ROUNDS says (default 200), always
 * the same ones. Prints TAP.
 *
 * With clang -fsanitize=fuzzer the target is linked without this file.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fsutil.h"
#include "common/xalloc.h"

static unsigned n_files;
static uint64_t seed = 1;

static uint32_t rnd(size_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return below ? (uint32_t)((seed >> 33) % below) : 0;
}

/* Flips, cuts, repeats and inserts a few bytes. data has room for n + 64. */
static size_t change(uint8_t *data, size_t n)
{
	for (unsigned k = 1 + rnd(4); k > 0; k--) {
		size_t at = rnd(n), len;

		switch (rnd(5)) {
		case 0:
			if (n)
				data[at] = (uint8_t)(data[at] ^ 1u << rnd(8));
			break;
		case 1:
			if (n)
				data[at] = (uint8_t)rnd(256);
			break;
		case 2:
			n = at;
			break;
		case 3:
			len = 1 + rnd(16);
			memmove(data + at + len, data + at, n - at);
			memset(data + at, rnd(2) ? 0 : (int)rnd(256), len);
			n += len;
			break;
		default:
			len = n - at < 8 ? n - at : 8;
			memmove(data + at, data + rnd(n - len + 1), len);
		}
	}
	return n;
}

static void run_file(const char *path)
{
	const char *value = getenv("HEARTH_FUZZ_ROUNDS");
	long rounds = value ? atol(value) : 200;
	char *data;
	size_t n;
	struct err e;

	if (fs_read_file(path, 1 << 20, &data, &n, &e) < 0) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	LLVMFuzzerTestOneInput((const uint8_t *)data, n);
	for (long i = 0; i < rounds; i++) {
		/* Four changes add 64 bytes at most. A copy of exactly the right size shows reads beyond it. */
		uint8_t *work = xmalloc(n + 64), *exact;
		size_t m;

		memcpy(work, data, n);
		m = change(work, n);
		exact = xmemdup(work, m ? m : 1);
		LLVMFuzzerTestOneInput(exact, m);
		free(exact);
		free(work);
	}
	free(data);
	printf("ok %u - %s and %ld changed copies\n", ++n_files,
	       strrchr(path, '/') ? strrchr(path, '/') + 1 : path, rounds);
}

static int run_entry(const char *name, void *dir)
{
	char *path = xasprintf("%s/%s", (const char *)dir, name);

	run_file(path);
	free(path);
	return 0;
}

int main(int argc, char **argv)
{
	const char *top = getenv("HEARTH_TOP_SRCDIR");
	const char *program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	char *seeds = NULL;
	struct stat st;
	struct err e;

	if (!strncmp(program, "lt-", 3))
		program += 3;
	/* fuzz_wire -> seeds/wire, when no file is named */
	if (argc < 2 && top && !strncmp(program, "fuzz_", 5))
		seeds = xasprintf("%s/tests/fuzz/seeds/%s", top, program + 5);
	for (int i = seeds ? 0 : 1; i < argc; i++) {
		char *path = seeds ? seeds : argv[i];

		if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
			if (fs_each(path, run_entry, path, &e) < 0) {
				printf("Bail out! %s\n", e.text);
				return 1;
			}
		} else {
			run_file(path);
		}
	}
	free(seeds);
	if (!n_files)
		printf("1..0 # SKIP no seeds\n");
	else
		printf("1..%u\n", n_files);
	return 0;
}
