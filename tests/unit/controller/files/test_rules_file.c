/* rules_file: an administrator's rules are read at the start and after each change, and wrong ones are named.
 */
#include "controller/files/rules_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "tests/lib/tap.h"

static struct loop *loop;
static char news[1000]; /* of the last look */
static unsigned looks;

static void on_news(const struct rules_news *n, void *arg)
{
	(void)arg;
	looks++;
	if (n->text)
		snprintf(news, sizeof(news), "%u rules, first %d: %s", n->rules, n->first, n->text);
	else
		snprintf(news, sizeof(news), "wrong: %s", n->why.text);
}

static const char *next_news(void)
{
	unsigned was = looks;
	uint64_t end_us = clock_boot_us(clock_real()) + 20000000;

	while (looks == was && clock_boot_us(clock_real()) < end_us)
		loop_run_once(loop, 10);
	return looks == was ? "nothing" : news;
}

static void write_file(const char *path, const char *text)
{
	struct err e;

	if (fs_replace(path, text, strlen(text), 0644, &e) < 0)
		tap_bail("%s", e.text);
}

int main(void)
{
	cleanup_free char *path = xasprintf("%s/rules", tap_tmpdir());
	struct rules_file *f;
	struct err e;

	loop = loop_create();
	write_file(path, "drain gpu \"ours\" zebra\n");
	f = rules_file_watch(path, loop, on_news, NULL, &e);
	is_str(next_news(), "1 rules, first 1: drain gpu \"ours\" zebra\n", "the rules at the start");
	write_file(path, "drain gpu \"ours\" zebra\nnonsense\n");
	like(next_news(), "rules: line 2: unknown verdict 'nonsense'", "a wrong line is named");
	write_file(path, "move gpu \"other\" zebra\n");
	is_str(next_news(), "1 rules, first 0: move gpu \"other\" zebra\n", "a change");
	unlink(path);
	like(next_news(), "No such file", "a missing file is named");
	rules_file_destroy(f);
	loop_destroy(loop);
	return tap_done();
}
