/*
 * fault: the table of every place where a test may make the program fail. Counters are atomic: points
 * are hit from several threads. HEARTH_FAULTS in the environment is read once, at the first point hit.
 */
#include "common/base/fault.h"

#ifdef HEARTH_FAULTS

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

struct point {
	const char *name;
	unsigned calls;  /* since clear */
	unsigned nth;    /* first call to fail, 0: not armed */
	unsigned repeat; /* how many calls fail from there */
};

static struct point points[] = {
    /* common */
    {.name = "fs.write"},
    {.name = "fs.fsync"},
    {.name = "fs.rename"},
    {.name = "proc.spawn"},
    {.name = "proc.fork"},
    {.name = "proc.pidfd"},
    {.name = "chan.send"},
    {.name = "wire.send"},
    {.name = "wire.raised"},
    {.name = "wire.raised_twice"},
    {.name = "clock.forward"},
    {.name = "clock.back"},
    {.name = "clock.suspend"},
    /* store */
    {.name = "store.open"},
    {.name = "store.commit"},
    {.name = "store.write"},
    {.name = "store.marks"},
    /* shim */
    {.name = "shim.state"},
    {.name = "shim.write"},
    {.name = "shim.spawn"},
    {.name = "shim.reply"},
    {.name = "shim.deaf"},
    /* agent */
    {.name = "agent.stage"},
    {.name = "agent.launch"},
    {.name = "agent.fence"},
    {.name = "agent.namespaces"},
    {.name = "agent.rsh_accept"},
    {.name = "agent.send"},
    {.name = "agent.state"},
    {.name = "agent.account"},
    {.name = "agent.slow_spawn"},
    {.name = "agent.holder"},
    {.name = "agent.gpus"},
    {.name = "agent.layers"},
    {.name = "agent.pool_disk"},
    {.name = "agent.account_groups"},
    {.name = "agent.start_dropped"},
    {.name = "agent.start_large"},
    {.name = "agent.take"},
    /* controller */
    {.name = "controller.commit"},
    {.name = "work.large"},
    {.name = "work.slow"},
    {.name = "http.hold"},
    {.name = "auth.slow_name"},
    {.name = "data.nfs"},
    {.name = "data.low"},
    {.name = "log.write"},
    {.name = "log.sync"},
    {.name = "log.sync_names"},
    {.name = "log.compress"},
    {.name = "log.end"},
    /* known mistakes, which the tests of the world must find (tests/world/test_mistakes.c) */
    {.name = "mistake.old_epoch"},
    {.name = "mistake.early_reply"},
    {.name = "mistake.early_ack"},
    {.name = "mistake.event_twice"},
    {.name = "mistake.lost_is_success"},
    {.name = "mistake.early_release"},
    {.name = "mistake.no_fence"},
    {.name = "mistake.no_switch"},
    {.name = "mistake.short_lease"},
    {.name = "mistake.any_answer"},
    {.name = "mistake.no_resend"},
    {.name = "mistake.no_idempotency"},
    {.name = "mistake.no_wait"},
    {.name = "mistake.no_choice"},
    {.name = "mistake.no_hold"},
    {.name = "mistake.one_part"},
    {.name = "mistake.no_sweep"},
    {.name = "mistake.no_quota"},
    {.name = "mistake.no_reservation"},
    {.name = "mistake.all_members"},
    {.name = "mistake.two_takers"},
};
#define N_POINTS (sizeof(points) / sizeof(points[0]))

static pthread_once_t env_once = PTHREAD_ONCE_INIT;

static struct point *find_point(const char *name, size_t len)
{
	for (size_t i = 0; i < N_POINTS; i++)
		if (strlen(points[i].name) == len && memcmp(points[i].name, name, len) == 0)
			return &points[i];
	return NULL;
}

static void arm_point(struct point *p, unsigned nth, unsigned repeat)
{
	__atomic_store_n(&p->calls, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&p->repeat, repeat, __ATOMIC_RELAXED);
	__atomic_store_n(&p->nth, nth, __ATOMIC_RELEASE);
}

int fault_arm(const char *name, unsigned nth, unsigned repeat)
{
	struct point *p = find_point(name, strlen(name));

	if (!p)
		return -1;
	arm_point(p, nth, repeat);
	return 0;
}

/* One "name=NTH" or "name=NTHxREPEAT" of len bytes. */
static int arm_one(const char *s, size_t len)
{
	const char *eq = memchr(s, '=', len);
	struct point *p = eq ? find_point(s, (size_t)(eq - s)) : NULL;
	unsigned long nth, repeat = 1;
	char *end;

	if (!p || eq[1] < '0' || eq[1] > '9')
		return -1;
	nth = strtoul(eq + 1, &end, 10);
	if (*end == 'x' && end[1] >= '0' && end[1] <= '9')
		repeat = strtoul(end + 1, &end, 10);
	if (end != s + len || nth == 0 || nth > 1000000000 || repeat == 0 || repeat > 1000000000)
		return -1;
	arm_point(p, (unsigned)nth, (unsigned)repeat);
	return 0;
}

int fault_arm_env(const char *value)
{
	size_t len;

	for (; value && *value; value += len + (value[len] == ',')) {
		len = strcspn(value, ",");
		if (arm_one(value, len) < 0)
			return -1;
	}
	return 0;
}

static void arm_from_environment(void)
{
	const char *value = getenv("HEARTH_FAULTS");

	/* A test that asks for a fault that is not there would pass without having tested anything. */
	if (fault_arm_env(value) < 0) {
		/* Not by log: it asks the clock for the time, and the clock has failpoints. */
		fprintf(stderr, "event=fault_unknown HEARTH_FAULTS=%s\n", value);
		abort();
	}
}

int fault_hit(const char *name)
{
	struct point *p = find_point(name, strlen(name));
	unsigned call, nth;

	pthread_once(&env_once, arm_from_environment);
	if (!p) {
		log_error("event=fault_unknown name=%s", name);
		abort();
	}
	nth = __atomic_load_n(&p->nth, __ATOMIC_ACQUIRE);
	call = __atomic_add_fetch(&p->calls, 1, __ATOMIC_RELAXED);
	if (nth == 0 || call < nth || call - nth >= __atomic_load_n(&p->repeat, __ATOMIC_RELAXED))
		return 0;
	log_warn("event=fault_injected name=%s call=%u", name, call);
	return 1;
}

void fault_clear(void)
{
	for (size_t i = 0; i < N_POINTS; i++)
		arm_point(&points[i], 0, 0);
}

unsigned fault_count(const char *name)
{
	struct point *p = find_point(name, strlen(name));

	return p ? __atomic_load_n(&p->calls, __ATOMIC_RELAXED) : 0;
}

#endif
