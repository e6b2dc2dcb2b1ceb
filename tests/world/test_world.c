/*
 * The whole cluster under random faults, one seed a run (sim.h says what is real in it, simcheck.c what must
 * hold). HEARTH_SEED replays one, HEARTH_SEEDS runs so many, HEARTH_SOAK=1 at least twenty million steps.
 * HEARTH_LEASE_MS sets the lease, which the seed chooses else (3 s or 10 s).
 */
#include "tests/lib/tap.h"
#include "tests/world/profile.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SEEDS           2000
#define SEEDS_SANITIZED 700 /* instrumented code takes several times as long */
#define DYING_SEEDS     1000
#define SOAK_STEPS      20000000u

static void faults_text(uint32_t bits, char *out, size_t size)
{
	size_t n = 0;

	out[0] = '\0';
	for (int i = 0; i < SIM_N_FAULT; i++)
		if (bits >> i & 1 && n < size)
			n += (size_t)snprintf(out + n, size - n, "%s%s", n ? "," : "", sim_fault_name((enum sim_fault)i));
}

/* Fewer kinds of faults, fewer faults: as long as it still goes wrong. */
static void shrink(struct sim_options *o)
{
	struct sim_options t;
	struct sim_result r;

	for (int i = 0; i < SIM_N_FAULT; i++) {
		t = *o;
		t.faults &= ~(1u << i);
		if (t.faults != o->faults && sim_run(&t, &r) < 0)
			*o = t;
	}
	t = *o;
	if (sim_run(&t, &r) < 0)
		t.max_faults = r.faults;
	for (uint32_t step = t.max_faults; step; step /= 2)
		while (t.max_faults >= step) {
			t.max_faults -= step;
			if (sim_run(&t, &r) < 0) {
				o->max_faults = t.max_faults;
				continue;
			}
			t.max_faults += step;
			break;
		}
}

static void failed(struct sim_options o, const struct sim_result *first)
{
	struct sim_result r;
	char text[300];

	tap_diag("seed %llu: %s", (unsigned long long)o.seed, first->bad);
	if (!getenv("HEARTH_WORLD_WHOLE"))
		shrink(&o);
	faults_text(o.faults, text, sizeof text);
	tap_diag("%u nodes, %u jobs, at most %u faults of: %s", o.nodes, o.jobs, o.max_faults, text);
	o.trace = 1;
	if (sim_run(&o, &r) == 0)
		tap_diag("it does not go wrong again: the run is not a function of its seed");
	else
		tap_diag("seed %llu, shrunk: %s", (unsigned long long)o.seed, r.bad);
	tap_diag("again: HEARTH_SEED=%llu tests/world/test_world", (unsigned long long)o.seed);
}

static uint64_t now_seed;

/* The program stopped itself: which seed did it? */
static void on_crash(int signo)
{
	static char text[] = "Bail out! stopped itself, seed 00000000000000000000\n";
	size_t at = sizeof text - 3;

	for (uint64_t s = now_seed; s; s /= 10)
		text[at--] = (char)('0' + s % 10);
	if (write(1, text, sizeof text - 1) < 0)
		_exit(2);
	signal(signo, SIG_DFL);
	raise(signo);
}

static void one(uint64_t seed, struct sim_result *out)
{
	struct sim_options o = profile_of(seed);
	struct sim_result r;

	now_seed = seed;
	o.trace = getenv("HEARTH_WORLD_LIVE") ? 2 : 0;
	if (getenv("HEARTH_LEASE_MS"))
		o.lease_ms = (uint32_t)strtoul(getenv("HEARTH_LEASE_MS"), NULL, 10);
	if (sim_run(&o, &r) < 0)
		failed(o, &r);
	*out = r;
}

/* The lease allows one overlap: a rank that got SIGKILL and sleeps in the kernel of a lost node. Some run has
 * to meet it, or the exemption of the check tests nothing. */
static void beside_dying(void)
{
	struct sim_result r = {0};
	uint64_t seed = 1;

	for (; seed <= DYING_SEEDS && !r.beside_dying; seed++) {
		struct sim_options o = profile_of(seed);

		o.faults |= 1u << SIM_F_AWAY | 1u << SIM_F_STUCK;
		o.lease_ms = 3000;
		now_seed = seed;
		if (sim_run(&o, &r) < 0)
			break;
	}
	ok(!r.bad[0] && r.beside_dying,
	   "a rank starts beside one that sleeps in the kernel of a lost node: seed %llu %s",
	   (unsigned long long)seed - 1, r.bad);
}

int main(void)
{
	const char *given = getenv("HEARTH_SEED"), *many = getenv("HEARTH_SEEDS"), *soak = getenv("HEARTH_SOAK");
	uint64_t from = given ? strtoull(given, NULL, 10) : 1;
	const char *instrumented = getenv("HEARTH_SANITIZED");
	uint64_t usual = instrumented && *instrumented ? SEEDS_SANITIZED : SEEDS;
	uint64_t to = given ? from : many ? strtoull(many, NULL, 10) : usual, seed;
	struct sim_result sum = {0};
	unsigned bad = 0;

	profile_tmpdir();
	signal(SIGABRT, on_crash);
	signal(SIGSEGV, on_crash);
	for (seed = from; seed <= to || (soak && !given && sum.steps < SOAK_STEPS); seed++) {
		struct sim_result r = {0};

		one(seed, &r);
		bad += r.bad[0] != 0;
		if (r.bad[0])
			ok(0, "seed %llu: %s", (unsigned long long)seed, r.bad);
		sum.steps += r.steps;
		sum.us += r.us;
		sum.jobs += r.jobs;
		sum.attempts += r.attempts;
		sum.commits += r.commits;
		sum.faults += r.faults;
		if (bad >= 5)
			break;
	}
	ok(!bad, "%llu seeds: %llu steps, %llu s, %llu jobs, %llu attempts, %u faults, %llu commits",
	   (unsigned long long)(seed - from), (unsigned long long)sum.steps,
	   (unsigned long long)(sum.us / 1000000), (unsigned long long)sum.jobs, (unsigned long long)sum.attempts,
	   sum.faults, (unsigned long long)sum.commits);
	if (!given && !many && !bad)
		beside_dying();
	return tap_done();
}
