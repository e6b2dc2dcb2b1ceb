/* Forced ends of logs that wait: against a slow obvious implementation, and very many of them. */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "controller/files/log_retry.h"
#include "tests/lib/tap.h"

#define MANY 300000u

static struct log_end *make_end(uint64_t job, unsigned tries)
{
	struct log_end *x = xcalloc(1, sizeof(*x));

	x->job = job;
	x->tries = tries;
	return x;
}

static void test_pauses(void)
{
	struct log_retry_queue q = {0};
	uint64_t total = 0, last = 0, us;
	int grows = 1;

	ok(log_retry_next_us(&q) == UINT64_MAX && !log_retry_due(&q, UINT64_MAX - 1), "nobody waits");
	for (unsigned tries = 0; tries < LOG_RETRY_TRIES; tries++) {
		struct log_end *x;

		log_retry_add(&q, make_end(1, tries), 1000);
		us = log_retry_next_us(&q) - 1000;
		ok(!log_retry_due(&q, 1000 + us - 1), "after %u tries nothing before its time", tries);
		x = log_retry_due(&q, 1000 + us);
		ok(x && x->tries == tries, "at its time it comes");
		free(x);
		grows &= us >= last;
		last = us;
		total += us;
	}
	ok(grows && last == LOG_RETRY_MOST_US, "pauses grow up to the greatest");
	ok(total < 3600000000u + LOG_RETRY_MOST_US, "all of them take about an hour");
	is_int(q.n, 0, "none is left");
}

/* ---- the same, slowly ---------------------------------------------------------------------------- */

#define SLOW_MAX 4000

struct slow {
	struct {
		uint64_t job, due_us;
	} v[SLOW_MAX];
	unsigned n;
};

/* Of those with the same time either may come first. */
static int slow_take(struct slow *s, uint64_t job, uint64_t now_us)
{
	uint64_t least = UINT64_MAX;
	unsigned at = SLOW_MAX;

	for (unsigned i = 0; i < s->n; i++) {
		if (s->v[i].due_us < least)
			least = s->v[i].due_us;
		if (s->v[i].job == job)
			at = i;
	}
	if (at == SLOW_MAX || s->v[at].due_us != least || least > now_us)
		return -1;
	s->v[at] = s->v[--s->n];
	return 0;
}

static int slow_none_due(const struct slow *s, uint64_t now_us)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->v[i].due_us <= now_us)
			return 0;
	return 1;
}

static unsigned random_below(uint64_t *seed, unsigned n)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(*seed >> 33) % n;
}

static void test_random(uint64_t seed)
{
	static struct slow s;
	struct log_retry_queue q = {0};
	uint64_t now = 1000000, next_job = 1;
	unsigned wrong = 0, came = 0;

	s.n = 0;
	for (unsigned step = 0; step < 3000; step++) {
		struct log_end *x;

		now += random_below(&seed, 2000000);
		if (s.n < SLOW_MAX / 2) {
			x = make_end(next_job++, random_below(&seed, 3) ? 0 : random_below(&seed, LOG_RETRY_TRIES));
			log_retry_add(&q, x, now);
			s.v[s.n].job = x->job;
			s.v[s.n++].due_us = x->due_us;
		}
		while ((x = log_retry_due(&q, now))) {
			came++;
			wrong += slow_take(&s, x->job, now) < 0;
			if (++x->tries < LOG_RETRY_TRIES && random_below(&seed, 2)) {
				log_retry_add(&q, x, now);
				s.v[s.n].job = x->job;
				s.v[s.n++].due_us = x->due_us;
			} else {
				free(x);
			}
		}
		wrong += !slow_none_due(&s, now) || q.n != s.n;
	}
	ok(!wrong && came > 1000, "%u ends in the order of their times", came);
	log_retry_fini(&q);
}

/* ---- many ---------------------------------------------------------------------------------------- */

/* The middle of each list cannot be read meanwhile: whoever walks along it ends here. */
static sigjmp_buf walked;

static void on_walk(int signo)
{
	(void)signo;
	siglongjmp(walked, 1);
}

/* One goes in at the end, one comes out at the front. 0: nothing else was looked at. */
static int touch_ends(struct log_retry_queue *q, struct log_end *one, struct log_end **due, char *middle,
                      size_t n)
{
	struct sigaction act = {.sa_handler = on_walk}, old[2];
	volatile int walks = 1;

	sigaction(SIGSEGV, &act, &old[0]);
	sigaction(SIGBUS, &act, &old[1]);
	if (mprotect(middle, n, PROT_NONE) != 0)
		tap_bail("mprotect");
	if (!sigsetjmp(walked, 1)) {
		log_retry_add(q, one, 1000000);
		*due = log_retry_next_us(q) < UINT64_MAX ? log_retry_due(q, UINT64_MAX - 1) : NULL;
		walks = 0;
	}
	mprotect(middle, n, PROT_READ | PROT_WRITE);
	sigaction(SIGSEGV, &old[0], NULL);
	sigaction(SIGBUS, &old[1], NULL);
	return walks;
}

static void test_no_walk(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), of_page = page / sizeof(struct log_end);
	char *at = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		tap_bail("no memory");
	for (unsigned tries = 0; tries < LOG_RETRY_TRIES; tries++) {
		struct log_end one = {.tries = tries}, *due = NULL;
		struct log_retry_queue q = {0};
		int walks;

		memset(at, 0, 3 * page);
		for (size_t i = 0; i < 3 * of_page; i++) {
			struct log_end *x = (struct log_end *)(void *)(at + i / of_page * page) + i % of_page;

			x->tries = tries;
			log_retry_add(&q, x, i);
		}
		walks = touch_ends(&q, &one, &due, at + page, page);
		ok(!walks && due == (void *)at, "after %u tries: nobody walks along those that wait", tries);
	}
	munmap(at, 3 * page);
}

/* A disk that stays full: all ends come at once, and each fails again and again. Walking along the others at
 * each insertion would take some 10^11 steps. */
static void test_many(void)
{
	struct log_retry_queue q = {0};
	uint64_t now = 0, tried = 0;

	for (uint64_t job = 1; job <= MANY; job++)
		log_retry_add(&q, make_end(job, 0), now += 10);
	while (q.n) {
		struct log_end *x = log_retry_due(&q, now);

		if (!x) {
			now = log_retry_next_us(&q);
			continue;
		}
		tried++;
		if (++x->tries < LOG_RETRY_TRIES)
			log_retry_add(&q, x, now);
		else
			free(x);
	}
	is_int(tried, (int64_t)MANY * LOG_RETRY_TRIES, "each end is tried as often as it may");
}

int main(void)
{
	test_pauses();
	for (uint64_t seed = 1; seed <= 20; seed++)
		test_random(seed);
	test_no_walk();
	test_many();
	return tap_done();
}
