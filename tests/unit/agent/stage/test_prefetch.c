/*
 * prefetch: trees come into the cache ahead of a launch, which then fetches nothing; orders are bounded, the
 * urgent ones go first, and one that nobody needs any more ends.
 */
#include "agent/stage/prefetch.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/tap.h"
#include "tests/unit/agent/stage/stagekit.h"

static struct stagekit k;
static struct prefetch *p;
static struct {
	unsigned n;
	uint64_t job[32], bytes;
	uint32_t code;
	char text[256];
} said;

static void note(uint16_t type, const void *msg, void *arg)
{
	const struct wm_prefetched *m = msg;

	(void)arg;
	is_int(type, WM_PREFETCHED, "hearthd gets an answer");
	said.job[said.n++ % 32] = m->job;
	said.code = m->code;
	said.bytes = m->bytes;
	snprintf(said.text, sizeof(said.text), "%s", m->text);
}

static void order(uint64_t job, int urgent, const char *digest)
{
	struct wm_prefetch m = {.job = job, .attempt = 1, .urgent = (uint8_t)urgent};

	if (digest)
		wire_strv_add(&m.trees, digest);
	prefetch_order(p, &m);
	wire_fini(WM_PREFETCH, &m);
}

static void wait_said(unsigned n)
{
	for (uint64_t end = clock_boot_us(clock_real()) + 60000000;
	     said.n < n && clock_boot_us(clock_real()) < end;)
		loop_run_once(loop, 50);
	if (said.n < n)
		tap_bail("no answer");
}

static void begin(void)
{
	static const struct prefetch_ops ops = {.send = note};

	memset(&said, 0, sizeof(said));
	p = prefetch_create(&k.env, k.link, &ops, NULL);
}

static char *make_tree(const char *name)
{
	cleanup_free char *src = xasprintf("%s/%s", top, name), *file = xasprintf("%s/f", src);

	stagekit_put(file, name);
	return stagekit_tree(&k, src);
}

static void test_cache(void)
{
	cleanup_free char *digest = make_tree("one");
	unsigned gets;

	begin();
	order(7, 0, digest);
	wait_said(1);
	ok(said.code == 0 && said.job[0] == 7 && said.bytes > 0, "the tree came from hearthd");
	gets = k.ctl.gets;
	stagekit_run(&k, "", digest, NULL, NULL);
	is_int(k.rc, 0, "a launch of the job is staged");
	is_int(k.ctl.gets, gets, "and asks hearthd for nothing");
	like(k.log, "nothing of source tree, inputs and checkpoint came from hearthd", "its log says so");
	order(7, 0, digest);
	wait_said(2);
	ok(said.code == 0 && said.bytes == 0, "the same order again fetches nothing");
	order(8, 0, "0000000000000000000000000000000000000000000000000000000000000000");
	wait_said(3);
	ok(said.code != 0 && *said.text, "a tree that hearthd does not have fails with a reason");
	order(8, 0, "../../etc");
	wait_said(4);
	like(said.text, "is not a digest", "an invalid digest is refused");
	prefetch_destroy(p);
}

static void test_bounds(void)
{
	cleanup_free char *digest = make_tree("two");

	begin();
	k.ctl.deaf = 1;
	for (uint64_t job = 1; job <= 12; job++)
		order(job, 0, digest);
	is_int(prefetch_waiting(p), PREFETCH_QUEUE, "one order is carried out, and eight wait");
	order(20, 1, digest);
	order(2, 0, digest);
	is_int(prefetch_waiting(p), PREFETCH_QUEUE,
	       "a further one takes the place of the last, or of its own job's");
	order(1, 0, NULL);
	is_int(prefetch_waiting(p), PREFETCH_QUEUE - 1,
	       "an order without trees ends the one that is carried out");
	for (uint64_t job = 2; job <= 12; job++)
		prefetch_cancel(p, job);
	is_int(prefetch_waiting(p), 0, "the urgent one went first, and the others are cancelled");
	k.ctl.deaf = 0;
	data_link_ctl_drop(&k.ctl); /* questions are asked again on a new connection */
	wait_said(1);
	ok(said.job[0] == 20 && said.code == 0, "the urgent one is carried out");
	prefetch_destroy(p);
}

/* The launch of the job comes while its order is carried out. */
static void test_cancel(void)
{
	cleanup_free char *digest = make_tree("three");

	begin();
	k.ctl.deaf = 1;
	order(5, 0, digest);
	for (int i = 0; i < 10; i++)
		loop_run_once(loop, 20);
	prefetch_cancel(p, 5);
	k.ctl.deaf = 0;
	data_link_ctl_drop(&k.ctl);
	stagekit_run(&k, "", digest, NULL, NULL);
	is_int(k.rc, 0, "a launch does not wait for an order that was cancelled");
	like(k.log, "of source tree, inputs and checkpoint came from hearthd", "and fetches by itself");
	is_int(said.n, 0, "a cancelled order has no answer");
	order(6, 0, NULL);
	prefetch_destroy(p);
}

int main(void)
{
	stagekit_start(&k);
	test_cache();
	test_bounds();
	test_cancel();
	stagekit_stop(&k);
	return tap_done();
}
