/* loop: timers, descriptors, signals, order at the end of a turn, destruction inside callbacks. */
#include "common/os/loop.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/tap.h"

static struct loop *l;
static char order[64];

static void note(void *arg)
{
	size_t n = strlen(order);

	snprintf(order + n, sizeof(order) - n, "%s", (const char *)arg);
}

static void stop(void *arg)
{
	(void)arg;
	loop_stop(l);
}

/* A test that waits for ever is a failed test. */
static void too_late(void *arg)
{
	(void)arg;
	tap_bail("deadline");
}

static uint64_t now(void)
{
	return clock_boot_us(clock_real());
}

static void test_timers(void)
{
	struct loop_timer *a, *b, *c, *end;
	uint64_t start;
	int early = 0;

	l = loop_create();
	a = loop_timer_create(l, note, (void *)"a");
	b = loop_timer_create(l, note, (void *)"b");
	c = loop_timer_create(l, note, (void *)"c");
	end = loop_timer_create(l, stop, NULL);
	order[0] = '\0';
	loop_timer_arm(a, 5000000);
	loop_timer_arm(b, 400000);
	loop_timer_arm(c, 5000);
	ok(loop_timer_armed(c), "armed");
	loop_timer_cancel(c);
	ok(!loop_timer_armed(c), "cancelled");
	loop_timer_arm(a, 2000);
	start = now(); /* before it is armed: this thread may have to wait for its turn in between */
	loop_timer_arm(end, 450000);
	loop_run(l);
	ok(now() - start >= 450000, "runs until its end");
	is_str(order, "ab", "re-armed earlier, cancelled never, each once");
	ok(!loop_timer_armed(a), "one-shot");
	for (int i = 0; i < 50; i++) {
		start = now();
		loop_timer_arm(end, 1000 + (uint64_t)i * 37);
		loop_run(l);
		early += now() - start < 1000 + (uint64_t)i * 37;
	}
	is_int(early, 0, "never early");
	order[0] = '\0';
	loop_timer_arm(a, 0);
	loop_run_once(l, 5000);
	is_str(order, "a", "no delay");
	loop_timer_arm(a, UINT64_MAX);
	ok(loop_timer_armed(a), "the longest delay");
	loop_timer_destroy(a);
	loop_timer_destroy(b);
	loop_timer_destroy(c);
	loop_timer_destroy(end);
	loop_timer_destroy(NULL);
	start = now();
	loop_run_once(l, 15);
	ok(now() - start >= 15000, "waits as long as told");
	start = now();
	loop_run_once(l, 0);
	ok(now() - start < 5000000, "or not at all");
	loop_destroy(l);
	loop_destroy(NULL);
}

struct pipe_test {
	struct loop_fd *r, *w;
	int fds[2], reads, writes, what;
};

static void on_pipe(int fd, int what, void *arg)
{
	struct pipe_test *t = arg;
	char c;

	t->what = what;
	if (what & LOOP_READ) {
		t->reads += read(fd, &c, 1) == 1;
		return;
	}
	if (++t->writes == 3)
		loop_fd_set(t->w, 0);
}

static void test_fds(void)
{
	struct pipe_test t = {0};

	l = loop_create();
	if (pipe2(t.fds, O_CLOEXEC | O_NONBLOCK) < 0)
		tap_bail("pipe");
	t.r = loop_fd_create(l, t.fds[0], LOOP_READ, on_pipe, &t);
	t.w = loop_fd_create(l, t.fds[1], LOOP_WRITE, on_pipe, &t);
	for (int i = 0; i < 6; i++)
		loop_run_once(l, 1);
	is_int(t.writes, 3, "writable until it is paused");
	is_int(t.reads, 0, "nothing to read");
	is_int(write(t.fds[1], "xy", 2), 2, "two bytes");
	for (int i = 0; i < 4; i++)
		loop_run_once(l, 1);
	is_int(t.reads, 2, "level-triggered");
	loop_fd_set(t.r, 0);
	is_int(write(t.fds[1], "z", 1), 1, "one more");
	loop_run_once(l, 1);
	is_int(t.reads, 2, "paused");
	loop_fd_set(t.r, LOOP_READ);
	loop_run_once(l, 1000);
	is_int(t.reads, 3, "on again");
	loop_fd_destroy(t.w);
	close(t.fds[1]);
	loop_run_once(l, 1000);
	is_int(t.what, LOOP_READ, "end of file is readable");
	loop_fd_destroy(t.r);
	loop_fd_destroy(NULL);
	close(t.fds[0]);
	loop_destroy(l);
}

static int got_signals;

static void on_signal(int signo, void *arg)
{
	(void)arg;
	got_signals += signo == SIGUSR1;
}

static void test_signal(void)
{
	struct loop_signal *s;

	l = loop_create();
	s = loop_signal_create(l, SIGUSR1, on_signal, NULL);
	raise(SIGUSR1);
	for (int i = 0; i < 100 && !got_signals; i++)
		loop_run_once(l, 100);
	is_int(got_signals, 1, "a signal");
	raise(SIGUSR1);
	for (int i = 0; i < 100 && got_signals < 2; i++)
		loop_run_once(l, 100);
	is_int(got_signals, 2, "and again");
	loop_signal_destroy(s);
	loop_signal_destroy(NULL);
	loop_destroy(l);
}

static int rounds;

static void defer_again(void *arg)
{
	note(arg);
	if (++rounds < 3)
		loop_defer(l, defer_again, arg);
}

static void in_turn(void *arg)
{
	(void)arg;
	note((void *)"t");
	loop_defer(l, note, (void *)"1");
	loop_defer(l, note, (void *)"2");
}

static void test_turn(void)
{
	struct loop_timer *t;
	uint64_t start;

	l = loop_create();
	t = loop_timer_create(l, in_turn, NULL);
	loop_set_turn_hook(l, note, (void *)"h");
	order[0] = '\0';
	loop_timer_arm(t, 0);
	loop_run_once(l, 1000);
	is_str(order, "t12h", "callbacks, deferred in order, then the hook");
	order[0] = '\0';
	loop_defer(l, defer_again, (void *)"d");
	start = now();
	loop_run_once(l, 5000);
	loop_run_once(l, 5000);
	loop_run_once(l, 5000);
	is_str(order, "dhdhdh", "what is deferred while deferring comes a turn later");
	ok(now() - start < 4000000, "and that turn does not wait");
	loop_set_turn_hook(l, NULL, NULL);
	order[0] = '\0';
	loop_run_once(l, 0);
	is_str(order, "", "no hook");
	loop_defer(l, note, (void *)"never");
	loop_timer_destroy(t);
	loop_destroy(l);
	is_str(order, "", "what was deferred to a turn that never came is dropped");
}

static struct loop_timer *self, *other;
static struct loop_fd *self_fd;
static int fired, turns;

static void destroy_both(void *arg)
{
	(void)arg;
	fired++;
	loop_timer_destroy(self);
	loop_timer_destroy(other);
	loop_defer(l, stop, NULL);
}

static void destroy_self_fd(int fd, int what, void *arg)
{
	(void)what;
	(void)arg;
	fired++;
	loop_fd_destroy(self_fd);
	close(fd);
	loop_defer(l, stop, NULL);
}

/* The memory stays valid until the end of the turn (ASan watches), and the other one must not fire. */
static void test_destroy(void)
{
	struct loop_timer *deadline;
	int fds[2];

	l = loop_create();
	deadline = loop_timer_create(l, too_late, NULL);
	loop_timer_arm(deadline, 20000000);
	self = loop_timer_create(l, destroy_both, NULL);
	other = loop_timer_create(l, destroy_both, NULL);
	loop_timer_arm(self, 0);
	loop_timer_arm(other, 0);
	loop_run(l);
	is_int(fired, 1, "a timer destroys itself and one that is due in the same turn");

	if (pipe2(fds, O_CLOEXEC) < 0)
		tap_bail("pipe");
	self_fd = loop_fd_create(l, fds[0], LOOP_READ, destroy_self_fd, NULL);
	close(fds[1]);
	loop_run(l);
	is_int(fired, 2, "a descriptor destroys itself");
	loop_timer_destroy(deadline);
	loop_destroy(l);
}

static void slow(void *arg)
{
	uint64_t end = now() + 20000;

	(void)arg;
	turns++;
	while (now() < end)
		continue;
	loop_stop(l);
}

/* The longest turn is told for a span and the next one, whoever asks meanwhile, and then forgotten. */
static void test_spans(const struct loop_turns *before, struct loop_turns *after)
{
	struct loop_timer *t = loop_timer_create(l, stop, NULL);

	loop_turns(l, after);
	is_int(after->longest_us, before->longest_us, "asking takes nothing away");
	for (int i = 0; i < 4; i++) {
		loop_timer_arm(t, LOOP_SPAN_US / 2 + 100000);
		loop_run(l);
		loop_turns(l, after);
		if (i == 0)
			ok(after->longest_us >= before->longest_us, "later within the span it is told");
	}
	ok(after->longest_us != before->longest_us, "two spans later it is not (now %" PRIu64 " us)",
	   after->longest_us);
	is_int(after->turns, 5, "all turns are counted");
	ok(after->late >= 1, "and the late one stays on record");
	loop_timer_destroy(t);
}

static void test_longest(void)
{
	struct loop_timer *t;
	struct loop_turns before, after;

	l = loop_create();
	t = loop_timer_create(l, slow, NULL);
	loop_set_slow_warn(l, 1000000000);
	loop_timer_arm(t, 300000);
	loop_run(l);
	loop_turns(l, &before);
	ok(before.longest_us >= 20000 && before.longest_us < 300000,
	   "the work counts, the wait does not (%" PRIu64 " us)", before.longest_us);
	is_int(before.turns, 1, "a turn");
	is_int(before.late, 1, "that is late");
	test_spans(&before, &after);
	loop_timer_destroy(t);
	loop_destroy(l);
}

int main(void)
{
	test_timers();
	test_fds();
	test_signal();
	test_turn();
	test_destroy();
	test_longest();
	return tap_done();
}
