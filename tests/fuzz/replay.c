/*
 * replay: main of a fuzz target in a plain build: hands each file (or each file of a folder) that is named to
 * LLVMFuzzerTestOneInput, then as many changed copies of it as HEARTH_FUZZ_ROUNDS says (default 200 for a
 * seed, or what the target says, and 10 for a file of the corpus), always the same ones. Prints TAP.
 *
 * With clang -fsanitize=fuzzer the target is linked without this file.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

static unsigned n_said, n_kept;
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

static void run_file(const char *path, long rounds)
{
	const char *value = getenv("HEARTH_FUZZ_ROUNDS");
	char *data;
	size_t n;
	struct err e;

	if (value)
		rounds = atol(value);
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
}

static void say(const char *path)
{
	printf("ok %u - %s and changed copies\n", ++n_said, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
}

static int run_seed(const char *name, void *dir)
{
	char *path = xasprintf("%s/%s", (const char *)dir, name);

	run_file(path, &fuzz_rounds ? fuzz_rounds : 200);
	say(path);
	free(path);
	return 0;
}

static int run_kept(const char *name, void *dir)
{
	char *path = xasprintf("%s/%s", (const char *)dir, name);

	run_file(path, 10);
	n_kept++;
	free(path);
	return 0;
}

static void run_folder(const char *dir, int (*fn)(const char *name, void *dir))
{
	char *path = xstrdup(dir);
	struct err e;

	if (access(dir, F_OK) == 0 && fs_each(dir, fn, path, &e) < 0) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	free(path);
}

/* Unpacks the archive into a folder of its own and runs each file of it. */
static void run_corpus(const char *archive)
{
	char *dir = xasprintf("%s/corpus", tap_tmpdir());
	char *argv[] = {"tar", "-xJf", (char *)archive, "-C", dir, NULL};
	pid_t pid;
	int status;

	if (mkdir(dir, 0700) < 0 || posix_spawnp(&pid, "tar", NULL, NULL, argv, environ) != 0 ||
	    waitpid(pid, &status, 0) != pid || status != 0)
		tap_bail("cannot unpack %s (packages tar, xz-utils)", archive);
	run_folder(dir, run_kept);
	free(dir);
}

int main(int argc, char **argv)
{
	const char *top = getenv("HEARTH_TOP_SRCDIR");
	const char *program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	struct stat st;

	if (!strncmp(program, "lt-", 3))
		program += 3;
	/* fuzz_wire -> seeds/wire and corpus/wire.tar.xz, when no file is named */
	if (argc < 2 && top && !strncmp(program, "fuzz_", 5)) {
		char *seeds = xasprintf("%s/tests/fuzz/seeds/%s", top, program + 5);
		char *corpus = xasprintf("%s/tests/fuzz/corpus/%s.tar.xz", top, program + 5);

		run_folder(seeds, run_seed);
		if (access(corpus, F_OK) == 0)
			run_corpus(corpus);
		free(seeds);
		free(corpus);
	}
	for (int i = 1; i < argc; i++) {
		if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
			run_folder(argv[i], run_seed);
		} else {
			run_file(argv[i], 200);
			say(argv[i]);
		}
	}
	if (n_kept)
		printf("ok %u - %u files of the corpus and changed copies\n", ++n_said, n_kept);
	if (!n_said)
		printf("1..0 # SKIP no seeds\n");
	else
		printf("1..%u\n", n_said);
	return 0;
}
