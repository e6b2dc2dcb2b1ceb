/* worker: posts in order, calls with answers from the loop, cancel at every point, a thread that hangs. */
#include "agent/base/worker.h"

#include <glob.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

#define TURNS_MS 10000

static struct loop *loop;

static int run_until(const int *flag)
{
	uint64_t end = clock_boot_us(clock_real()) + TURNS_MS * 1000;

	while (!*flag && clock_boot_us(clock_real()) < end)
		loop_run_once(loop, 50);
	return *flag;
}

struct job {
	int posts, in_order, done, released;
	int call_rc, answer;
	struct err e;
	int asking;  /* the thread is about to call */
	int started; /* calls that reached the loop */
	struct worker_call *held;
	int hold; /* the loop keeps the call */
	int loops;
};

static int drops;

static void drop(void *p)
{
	__atomic_add_fetch(&drops, 1, __ATOMIC_RELAXED);
	free(p);
}

static void on_post(void *arg, void *data)
{
	struct job *j = arg;

	if (*(int *)data == j->posts)
		j->in_order++;
	j->posts++;
}

static void run_posts(struct worker *w, void *arg)
{
	(void)arg;
	for (int i = 0; i < 1000; i++)
		worker_post(w, on_post, xmemdup(&i, sizeof(i)), drop);
}

static void done(void *arg)
{
	((struct job *)arg)->done = 1;
}
static void release(void *arg)
{
	((struct job *)arg)->released = 1;
}

static void test_posts(void)
{
	struct workers *ws = workers_create(loop);
	struct job j = {0};

	drops = 0;
	ok(worker_start(ws, &(struct worker_task){.run = run_posts, .done = done, .release = release}, &j,
	                NULL) != NULL,
	   "started");
	ok(run_until(&j.released), "released");
	is_int(j.done, 1, "done");
	is_int(j.in_order, 1000, "all posts in order");
	is_int(drops, 1000, "data dropped once each");
	workers_destroy(ws, 1000);
}

struct ask {
	struct job *j;
	int question, answer;
};

static void start_call(struct worker_call *c, void *data)
{
	struct ask *a = data;

	a->j->started++;
	if (a->j->hold) {
		a->j->held = c;
		return;
	}
	a->answer = a->question * 2;
	worker_call_end(c);
}
static void take(void *data, void *out)
{
	*(int *)out = ((struct ask *)data)->answer;
}

static void run_call(struct worker *w, void *arg)
{
	struct job *j = arg;
	struct ask a = {.j = j, .question = 21};

	__atomic_store_n(&j->asking, 1, __ATOMIC_RELEASE);
	j->call_rc = worker_call(w, start_call, xmemdup(&a, sizeof(a)), drop, take, &j->answer,
	                         j->hold == 2 ? 20 : 60000, &j->e);
}

/* The loop hears of the call after the cancel: what it would ask may be gone. */
static void test_late_calls(void)
{
	struct workers *ws = workers_create(loop);
	struct job jobs[200] = {0};
	int started = 0, failed = 0;

	for (int i = 0; i < 200; i++) {
		struct job *j = &jobs[i];
		struct worker *w = worker_start(
		    ws, &(struct worker_task){.run = run_call, .done = done, .release = release}, j, NULL);

		while (!__atomic_load_n(&j->asking, __ATOMIC_ACQUIRE))
			sched_yield();
		worker_cancel(w);
		run_until(&j->released);
		started += j->started;
		failed += j->call_rc < 0;
	}
	is_int(started, 0, "a call of a task that was cancelled is not answered");
	is_int(failed, 200, "and fails");
	workers_destroy(ws, 1000);
}

static void test_calls(void)
{
	struct workers *ws = workers_create(loop);
	struct job j = {0}, held = {.hold = 1}, late = {.hold = 2};
	struct worker *w;

	drops = 0;
	worker_start(ws, &(struct worker_task){.run = run_call, .done = done, .release = release}, &j, NULL);
	ok(run_until(&j.released), "released");
	is_int(j.call_rc, 0, "answered");
	is_int(j.answer, 42, "the answer");
	is_int(drops, 1, "dropped");

	w = worker_start(ws, &(struct worker_task){.run = run_call, .done = done, .release = release}, &held,
	                 NULL);
	ok(run_until(&held.started), "call reached the loop");
	worker_cancel(w);
	ok(run_until(&held.released), "a cancel ends the wait");
	is_int(held.done, 0, "no done after a cancel");
	is_int(held.call_rc, -1, "the call failed");
	is_int(held.e.code, ERR_UNAVAILABLE, "as cancelled");
	is_int(drops, 1, "the loop still holds its data");
	worker_call_end(held.held);
	is_int(drops, 2, "and lets it go");

	worker_start(ws, &(struct worker_task){.run = run_call, .done = done, .release = release}, &late, NULL);
	ok(run_until(&late.released), "a deadline ends the wait");
	is_int(late.done, 1, "done after a time-out");
	is_int(late.e.code, ERR_TIMEOUT, "as timed out");
	worker_call_end(late.held);
	is_int(drops, 3, "data dropped by the late end");
	workers_destroy(ws, 1000);
}

static void run_pause(struct worker *w, void *arg)
{
	struct job *j = arg;

	while (worker_pause(w, 60000) == 0)
		j->loops++;
	j->answer = worker_cancelled(w);
}

static void test_cancel(void)
{
	struct workers *ws = workers_create(loop);
	struct job j = {0}, many[40], flood = {0};
	struct worker *w =
	    worker_start(ws, &(struct worker_task){.run = run_pause, .done = done, .release = release}, &j, NULL);

	worker_cancel(w);
	ok(run_until(&j.released), "a pause ends by a cancel");
	is_int(j.answer, 1, "the thread saw it");
	is_int(j.done, 0, "no done");

	memset(many, 0, sizeof(many));
	for (int i = 0; i < 40; i++)
		worker_start(ws, &(struct worker_task){.run = run_pause, .done = done, .release = release}, &many[i],
		             NULL);
	worker_start(ws, &(struct worker_task){.run = run_posts, .done = done, .release = release}, &flood, NULL);
	drops = 0;
	workers_destroy(ws, 10000); /* without a turn of the loop */
	for (int i = 0; i < 40; i++)
		if (!many[i].released || many[i].done)
			j.loops++;
	is_int(j.loops, 0, "destroy ends and releases all");
	is_int(flood.released, 1, "also one in the middle of its posts");
	is_int(drops, 1000, "whose data is dropped");
}

static void test_bound(void)
{
	struct workers *ws = workers_create(loop);
	struct job *j = xcalloc(WORKERS_MAX, sizeof(*j));
	struct err e = {0};
	unsigned n = 0;

	for (int i = 0; i < WORKERS_MAX; i++)
		n += worker_start(ws, &(struct worker_task){.run = run_pause, .done = done, .release = release},
		                  &j[i], &e) != NULL;
	is_int(n, WORKERS_MAX, "as many as allowed");
	ok(worker_start(ws, &(struct worker_task){.run = run_pause, .done = done, .release = release}, &j[0],
	                &e) == NULL,
	   "one more is refused");
	is_int(e.code, ERR_BUSY, "as busy");
	workers_destroy(ws, 10000);
	free(j);
}

/* ---- a pool ------------------------------------------------------------------------------------- */

static int ended[16], n_ended, n_late;

static void run_short(struct worker *w, void *arg)
{
	(void)arg;
	worker_pause(w, 20);
}

static void note_end(void *arg)
{
	ended[n_ended++] = ((struct job *)arg)->hold;
}

static void note_late(void *arg)
{
	((struct job *)arg)->loops = 1;
	n_late++;
}

/* More tasks than threads wait, the oldest first; more than the queue holds are refused. */
static void test_pool_queue(void)
{
	static const struct workers_limits limits = {.threads = 2, .queue = 6};
	static const struct worker_task task = {.run = run_short, .done = note_end, .release = release};
	struct workers *ws = workers_create_pool(loop, &limits);
	struct job j[9];
	struct worker *w[9];
	struct err e = {0};

	memset(j, 0, sizeof(j));
	n_ended = 0;
	for (int i = 0; i < 9; i++) {
		j[i].hold = i;
		w[i] = worker_start(ws, &task, &j[i], &e);
	}
	ok(w[7] != NULL, "two at work and six that wait");
	ok(w[8] == NULL && e.code == ERR_BUSY, "one more is refused: %s", e.text);
	worker_cancel(w[4]);
	ok(run_until(&j[7].released), "those that wait have their turn");
	is_int(n_ended, 7, "but for one that was cancelled");
	is_int(j[4].released && !j[4].done, 1, "which is released");
	ok(ended[6] == 7 || ended[5] == 7, "the newest is among the last two");
	workers_destroy(ws, 1000);
}

/* A pool whose threads hang: its tasks are late, and another pool goes on. */
static void test_pool_late(void)
{
	static const struct workers_limits limits = {.threads = 2, .queue = 6, .wait_ms = 100};
	static const struct worker_task hangs = {.run = run_pause, .done = done, .release = release},
	                                waits = {.run = run_short,
	                                         .done = done,
	                                         .release = release,
	                                         .late = note_late};
	struct workers *slow = workers_create_pool(loop, &limits), *other = workers_create_pool(loop, &limits);
	struct job h[2], j[3], mine = {0};

	memset(h, 0, sizeof(h));
	memset(j, 0, sizeof(j));
	n_late = 0;
	for (int i = 0; i < 2; i++)
		worker_start(slow, &hangs, &h[i], NULL);
	for (int i = 0; i < 3; i++)
		worker_start(slow, &waits, &j[i], NULL);
	worker_start(other, &waits, &mine, NULL);
	ok(run_until(&mine.released) && mine.done, "another pool is not held up");
	ok(run_until(&j[2].released), "tasks that waited for too long end");
	is_int(n_late, 3, "as late");
	is_int(j[0].done + j[1].done + j[2].done, 0, "without having run");
	workers_destroy(other, 1000);
	workers_destroy(slow, 1000);
	is_int(h[0].released + h[1].released, 2, "the others are released");
}

/* All tasks of one owner hang: they do not get all threads, and others go on. */
static void test_pool_owners(void)
{
	static const struct workers_limits limits = {.threads = 4, .queue = 64, .per_owner = 3};
	static const struct worker_task hangs = {.run = run_pause, .done = done, .release = release, .owner = 1},
	                                other = {.run = run_short, .done = done, .release = release, .owner = 2};
	struct workers *ws = workers_create_pool(loop, &limits);
	struct job h[10], j[5];
	int n = 0;

	memset(h, 0, sizeof(h));
	memset(j, 0, sizeof(j));
	for (int i = 0; i < 10; i++)
		worker_start(ws, &hangs, &h[i], NULL);
	for (int i = 0; i < 5; i++)
		worker_start(ws, &other, &j[i], NULL);
	ok(run_until(&j[4].released), "tasks of another owner are not held up");
	for (int i = 0; i < 5; i++)
		n += j[i].done;
	is_int(n, 5, "and all have run");
	workers_destroy(ws, 10000);
	for (int i = 0; i < 10; i++)
		n += h[i].released && !h[i].done;
	is_int(n, 15, "those that hang, and those that wait for them, are released");
}

/* Nor all places in the queue. */
static void test_owner_queue(void)
{
	static const struct workers_limits limits = {.threads = 4, .queue = 8, .per_owner = 2, .owner_queue = 4};
	static const struct worker_task hangs = {.run = run_pause, .done = done, .release = release, .owner = 1},
	                                other = {.run = run_pause, .done = done, .release = release, .owner = 2};
	struct workers *ws = workers_create_pool(loop, &limits);
	struct job h[10], j[6];
	struct err e = {0};
	unsigned took = 0;

	memset(h, 0, sizeof(h));
	memset(j, 0, sizeof(j));
	for (int i = 0; i < 10; i++)
		took += worker_start(ws, &hangs, &h[i], &e) != NULL;
	is_int(took, 6, "an owner gets its part of the threads and of the queue");
	is_int(e.code, ERR_BUSY, "what is more is refused");
	for (int i = 0; i < 6; i++)
		took += worker_start(ws, &other, &j[i], &e) != NULL;
	is_int(took, 12, "and leaves the rest of it to others");
	workers_destroy(ws, 10000);
}

/* One owner has both threads and many tasks in the queue: the next turn belongs to the other one. */
static void test_pool_turns(void)
{
	static const struct workers_limits limits = {.threads = 2, .queue = 16, .per_owner = 2};
	static const struct worker_task many = {.run = run_short,
	                                        .done = note_end,
	                                        .release = release,
	                                        .owner = 1},
	                                one = {
	                                    .run = run_short, .done = note_end, .release = release, .owner = 2};
	struct workers *ws = workers_create_pool(loop, &limits);
	struct job j[9];
	int at = 0;

	memset(j, 0, sizeof(j));
	n_ended = 0;
	for (int i = 0; i < 9; i++) {
		j[i].hold = i;
		worker_start(ws, i == 8 ? &one : &many, &j[i], NULL);
	}
	for (int i = 0; i < 9; i++)
		run_until(&j[i].released);
	while (at < 8 && ended[at] != 8)
		at++;
	ok(at < 5, "the task of the other owner has an early turn: place %d of 9", at + 1);
	is_int(n_ended, 9, "and all have theirs");
	workers_destroy(ws, 1000);
}

static void run_nothing(struct worker *w, void *arg)
{
	(void)w;
	((struct job *)arg)->answer = (int)syscall(SYS_gettid);
}

static int one_after_the_other(struct workers *ws, void (*run)(struct worker *, void *))
{
	struct job j = {0};

	worker_start(ws, &(struct worker_task){.run = run, .done = done, .release = release}, &j, NULL);
	if (!run_until(&j.released))
		tap_bail("a task did not end");
	return j.answer;
}

static int count_threads(void)
{
	glob_t g = {0};
	int n = glob("/proc/self/task/*", GLOB_NOSORT, NULL, &g) == 0 ? (int)g.gl_pathc : -1;

	globfree(&g);
	return n;
}

/* A thread takes the next task; of many at once few stay. */
static void test_threads(void)
{
	struct workers *ws = workers_create(loop);
	struct job many[30];
	int before = count_threads(), seen[50], others = 0;

	for (int i = 0; i < 50; i++) {
		int again = 0;

		seen[i] = one_after_the_other(ws, run_nothing);
		for (int k = 0; k < i; k++)
			again |= seen[k] == seen[i];
		others += !again;
	}
	/* One that is not idle yet is passed over, and that is no fault. */
	ok(others <= 25, "tasks one after the other share threads (%d for 50)", others);
	ok(count_threads() < before + 12, "of which there are few");
	memset(many, 0, sizeof(many));
	for (int i = 0; i < 30; i++)
		worker_start(ws, &(struct worker_task){.run = run_posts, .done = done, .release = release}, &many[i],
		             NULL);
	for (int i = 0; i < 30; i++)
		run_until(&many[i].released);
	for (int i = 0; i < TURNS_MS && count_threads() > before + 16; i++)
		poll(NULL, 0, 1);
	ok(count_threads() <= before + 16, "after a rush most threads end");
	is_int(workers_destroy(ws, 10000), 0, "idle threads end with the rest");
}

int main(void)
{
	loop = loop_create();
	test_posts();
	test_calls();
	test_late_calls();
	test_cancel();
	test_bound();
	test_pool_queue();
	test_pool_late();
	test_pool_owners();
	test_owner_queue();
	test_pool_turns();
	test_threads();
	loop_destroy(loop);
	return tap_done();
}
