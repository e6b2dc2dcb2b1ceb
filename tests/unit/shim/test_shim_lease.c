/*
 * A real shim and the lease of its node: it ends its process, and all that the process started, when the
 * lease is over and nobody has renewed it; a renewal or a verdict to carry on keeps it alive.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/lease_file.h"
#include "tests/lib/shimlab.h"
#include "tests/lib/tap.h"

#define LEASE_MS 1500u

static uint64_t now_us(void)
{
	return clock_boot_us(clock_real());
}

/* Returns when ranks end by it. */
static uint64_t write_lease(const struct lab *x, int carry_on)
{
	struct lease_record r = {.last_ack_us = now_us(), .lease_ms = LEASE_MS, .carry_on = carry_on};
	struct err e = {0};

	r.until_us = lease_until_us(r.last_ack_us, LEASE_MS);
	proc_boot_id(r.boot_id, &e);
	if (lease_file_write(x->l.lease, &r, &e) < 0)
		tap_bail("%s", e.text);
	return r.until_us;
}

static void start(struct lab *x, const char *script)
{
	lab_init(x, "x", NULL);
	lab_argv(x, "/bin/sh", "-c", script, NULL);
	free(x->l.lease);
	x->l.lease = xasprintf("%s/lease", x->dir);
}

static int is_past(void *at)
{
	return now_us() >= *(uint64_t *)at;
}

static void check_end(struct lab *x, uint64_t until, const char *what)
{
	struct wm_shim_status *st = lab_wait(x, PS_EXITED);
	uint64_t now = now_us();

	ok(st->signal == SIGKILL, "%s: the process was killed", what);
	ok(st->ended_by == BY_LEASE, "%s: because of the lease", what);
	like(st->text, "lease of this node was over", "the text says so");
	ok(now >= until && now < until + 1500000, "%s: %d ms after its end", what,
	   (int)((int64_t)(now - until) / 1000));
	ok(lab_count(x) == 0, "%s: nothing of it is left", what);
	wire_free(WM_SHIM_STATUS, st);
}

static void test_over(void)
{
	struct lab x;
	uint64_t until;

	start(&x,
	      "trap '' TERM; (trap '' TERM; setsid sleep 600 &); setsid sleep 600 & echo ready; wait; sleep 600");
	until = write_lease(&x, 0);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	check_end(&x, until, "over");
	lab_end(&x);
}

static void test_renewed(void)
{
	struct lab x;
	uint64_t until;

	start(&x, "echo ready; sleep 600");
	until = write_lease(&x, 0);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	for (int i = 0; i < 3; i++) {
		uint64_t soon = until - 300000, read = until + 100000;

		lab_until(is_past, &soon);
		until = write_lease(&x, i == 1); /* hearthd answers, then it is down, then it is back */
		lab_until(is_past, &read);
	}
	ok(lab_count(&x) > 0, "renewed: after three leases it runs");
	unlink(x.l.lease);
	check_end(&x, until, "removed");
	lab_end(&x);
}

static void test_none(void)
{
	struct lease_record r = {.last_ack_us = 1, .lease_ms = LEASE_MS, .until_us = 2, .boot_id = "another"};
	uint64_t later = now_us() + 1000000;
	struct err e = {0};
	struct lab x;

	start(&x, "echo ready; sleep 600");
	lease_file_write(x.l.lease, &r, &e);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	lab_until(is_past, &later);
	ok(lab_count(&x) > 0, "a record of an earlier boot ends nothing");
	lab_end(&x);
}

int main(void)
{
	test_over();
	test_renewed();
	test_none();
	return tap_done();
}
