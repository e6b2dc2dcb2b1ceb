/* chan: order, bound, batches, many senders, back pressure, destruction. TSan runs this one. */
#include "common/os/chan.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/os/loop.h"
#include "tests/lib/tap.h"

static struct loop *l;
static struct chan *c;

static char got[64];

static void keep(void *msg, void *arg)
{
	size_t n = strlen(got);

	(void)arg;
	snprintf(got + n, sizeof(got) - n, "%s", (const char *)msg);
}

static void test_bound(void)
{
	l = loop_create();
	c = chan_create(l, 3, 2, keep, NULL);
	is_int(chan_send(c, (void *)"a"), 0, "one");
	is_int(chan_send(c, (void *)"b"), 0, "two");
	is_int(chan_send(c, (void *)"c"), 0, "three");
	is_int(chan_send(c, (void *)"d"), -1, "full");
	is_int(chan_length(c), 3, "three waiting");
	loop_run_once(l, 1000);
	is_str(got, "ab", "at most a batch a turn");
	is_int(chan_send(c, (void *)"e"), 0, "room again");
	loop_run_once(l, 1000);
	is_str(got, "abce", "the rest in the next turn, in order");
	is_int(chan_length(c), 0, "empty");
	loop_run_once(l, 1);
	is_str(got, "abce", "once each");
	chan_destroy(c, NULL);
	chan_destroy(NULL, NULL);
	loop_destroy(l);
}

#define SENDERS 4
#define EACH    20000

struct message {
	int sender, number;
};

static int next_of[SENDERS], in_order = 1, total;

static void check(void *msg, void *arg)
{
	struct message *m = msg;

	(void)arg;
	in_order &= m->number == next_of[m->sender]++;
	free(m);
	if (++total == SENDERS * EACH)
		loop_stop(l);
}

static void *send_waiting(void *arg)
{
	int sender = (int)(intptr_t)arg;

	for (int i = 0; i < EACH; i++) {
		struct message *m = malloc(sizeof(*m));

		*m = (struct message){.sender = sender, .number = i};
		chan_send_wait(c, m);
	}
	return NULL;
}

static void *send_trying(void *arg)
{
	int sender = (int)(intptr_t)arg;

	for (int i = 0; i < EACH; i++) {
		struct message *m = malloc(sizeof(*m));

		*m = (struct message){.sender = sender, .number = i};
		while (chan_send(c, m) < 0)
			sched_yield();
	}
	return NULL;
}

static void too_late(void *arg)
{
	(void)arg;
	tap_bail("only %d messages came", total);
}

static void test_threads(size_t capacity, size_t batch)
{
	pthread_t threads[SENDERS];
	struct loop_timer *deadline;

	l = loop_create();
	deadline = loop_timer_create(l, too_late, NULL);
	loop_timer_arm(deadline, 60000000);
	c = chan_create(l, capacity, batch, check, NULL);
	total = 0;
	in_order = 1;
	memset(next_of, 0, sizeof(next_of));
	for (intptr_t i = 0; i < SENDERS; i++)
		pthread_create(&threads[i], NULL, i % 2 ? send_waiting : send_trying, (void *)i);
	loop_run(l);
	for (int i = 0; i < SENDERS; i++)
		pthread_join(threads[i], NULL);
	is_int(total, SENDERS * EACH, "all messages came");
	ok(in_order, "in the order of each sender (capacity %zu, batch %zu)", capacity, batch);
	is_int(chan_length(c), 0, "none is left");
	chan_destroy(c, NULL);
	loop_timer_destroy(deadline);
	loop_destroy(l);
}

static int dropped;

static void drop(void *msg)
{
	dropped++;
	free(msg);
}

static void destroy_inside(void *msg, void *arg)
{
	(void)arg;
	free(msg);
	chan_destroy(c, drop);
}

static void test_destroy(void)
{
	l = loop_create();
	c = chan_create(l, 10, 0, check, NULL);
	for (int i = 0; i < 4; i++)
		chan_send(c, malloc(1));
	chan_destroy(c, drop);
	is_int(dropped, 4, "what was waiting is handed back");
	loop_run_once(l, 1);

	dropped = 0;
	c = chan_create(l, 10, 0, destroy_inside, NULL);
	for (int i = 0; i < 4; i++)
		chan_send(c, malloc(1));
	loop_run_once(l, 1000);
	is_int(dropped, 3, "also when it is destroyed in its own callback");
	loop_run_once(l, 1);
	loop_destroy(l);
}

static void *send_one(void *arg)
{
	chan_send_wait(c, arg);
	return NULL;
}

/* A loop asleep in its wait must be woken by a message from another thread. */
static void test_wake(void)
{
	pthread_t thread;

	l = loop_create();
	c = chan_create(l, 10, 0, keep, NULL);
	got[0] = '\0';
	pthread_create(&thread, NULL, send_one, (void *)"x");
	for (int i = 0; i < 20 && !got[0]; i++)
		loop_run_once(l, 1000);
	is_str(got, "x", "a sleeping loop is woken");
	pthread_join(thread, NULL);
	chan_destroy(c, NULL);
	loop_destroy(l);
}

int main(void)
{
	test_bound();
	test_threads(1, 1);
	test_threads(7, 3);
	test_threads(1024, 0);
	test_destroy();
	test_wake();
	return tap_done();
}
