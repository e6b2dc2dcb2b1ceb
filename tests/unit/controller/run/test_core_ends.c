/* Who is to blame when several ranks end at once: victims of a launcher's end, of a kill, and those whose
 * fate is unknown. */
#include "controller/record/rec.h"
#include "store/read/find.h"
#include "store/read/query.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define TWO                                                                                                  \
	"{\"name\": \"two\", \"command\": [\"/bin/x\"], \"resources\": {\"instances\": 2}, \"retry\": "          \
	"{\"max_attempts\": 0, \"capacity\": 0}}"
/* As Open MPI 4.1 says it. */
#define BOX                                                                                                  \
	"something before\n"                                                                                     \
	"--------------------------------------------------------------------------\n"                           \
	"ORTE has lost communication with a remote daemon.\n\n"                                                  \
	"  HNP daemon   : [[1,0],0] on node a\n\n"                                                               \
	"This is usually due to either a failure of the TCP network\n"                                           \
	"connection to the node.\n"                                                                              \
	"--------------------------------------------------------------------------\n"

static struct world *w;
static uint64_t id;

static void both(uint8_t state)
{
	world_launch(w, "a", id, 1, state, 0, NULL);
	world_launch(w, "b", id, 1, state, 0, NULL);
}

static void begin(uint64_t seed)
{
	w = world_create(seed);
	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = world_submit(w, TWO);
	both(LAUNCH_READY);
	both(LAUNCH_RUNNING);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "b", id, 1, 1, PS_RUNNING, 0, 0, NULL);
}

static void rank_ends(uint32_t rank, uint32_t signo, enum ended_by by, uint64_t later_us)
{
	struct wm_proc_report m = {.job = id,
	                           .attempt = 1,
	                           .epoch = 1,
	                           .kind = PROC_RANK,
	                           .rank = rank,
	                           .token = (char *)(uintptr_t) "t",
	                           .text = (char *)(uintptr_t) "",
	                           .state = PS_EXITED,
	                           .exit_code = signo ? 128 + signo : 7,
	                           .signal = signo,
	                           .ended_by = (uint8_t)by,
	                           .started_us = w->clock.fake_real_us - 1000,
	                           .ended_us = w->clock.fake_real_us + later_us};

	world_msg(w, rank ? "b" : "a", 0, WM_PROC_REPORT, &m);
	world_turn(w);
}

static void ends(const char *outcome, const char *cls, const char *reason, const char *what)
{
	struct job_row row = {0};
	cJSON *list;
	const cJSON *last;
	const char *bad;

	both(LAUNCH_ENDED);
	both(LAUNCH_CLEANED);
	store_job_get(w->reader, id, &row, NULL);
	is_str(row.status, "failed", what);
	is_str(row.reason, reason, what);
	job_row_fini(&row);
	list = store_attempts_json(w->reader, id, NULL);
	last = cJSON_GetArrayItem(cJSON_IsArray(list) ? list : cJSON_GetObjectItem(list, "attempts"), 0);
	is_str(cJSON_GetStringValue(cJSON_GetObjectItem(last, "outcome")), outcome, what);
	is_str(cJSON_GetStringValue(cJSON_GetObjectItem(last, "class")), cls, what);
	cJSON_Delete(list);
	bad = world_check(w);
	ok(!bad, "%s: memory is consistent", what);
	is_int(world_verify(w), 0, what);
	world_destroy(w);
}

static void test_lost(void)
{
	begin(1);
	world_rank(w, "b", id, 1, 1, PS_LOST, 0, 0, NULL);
	rank_ends(0, SIGTERM, BY_ORDER, 0);
	ends("lost", "unknown", "the fate of 1 rank is unknown, first rank 1 ()", "a shim is gone");

	begin(2);
	rank_ends(0, SIGTERM, BY_LAUNCHER, 0);
	world_rank(w, "b", id, 1, 1, PS_LOST, 0, 0, NULL);
	ends("lost", "unknown", "the fate of 1 rank is unknown, first rank 1 ()",
	     "a shim is gone, and its victim is heard of first");

	begin(3);
	world_rank(w, "b", id, 1, 1, PS_LOST, 0, 0, NULL);
	rank_ends(0, SIGTERM, BY_ITSELF, 0);
	ends("lost", "unknown", "the fate of 1 rank is unknown, first rank 1 ()",
	     "a shim is gone, and nobody knows who ended the other");

	begin(4);
	rank_ends(0, 0, BY_ITSELF, 0);
	world_rank(w, "b", id, 1, 1, PS_LOST, 0, 0, NULL);
	ends("failed", "unknown", "rank 0 (algo-1, a) exited with code 7", "a rank failed by itself before that");
}

static void test_launcher(void)
{
	begin(5);
	rank_ends(1, SIGTERM, BY_LAUNCHER, 0);
	rank_ends(0, SIGTERM, BY_ORDER, 0);
	world_proc(w, "a", id, 1, PROC_MPIRUN, PS_EXITED, 205, BOX);
	ends("failed", "launch",
	     "mpirun on a exited with code 205: ORTE has lost communication with a remote daemon.",
	     "orted was killed");

	begin(6);
	world_proc(w, "a", id, 1, PROC_MPIRUN, PS_EXITED, 205, BOX);
	rank_ends(1, SIGTERM, BY_LAUNCHER, 0);
	rank_ends(0, SIGTERM, BY_ORDER, 0);
	ends("failed", "launch",
	     "mpirun on a exited with code 205: ORTE has lost communication with a remote daemon.",
	     "orted was killed, and mpirun is heard of first");

	begin(7);
	rank_ends(1, SIGTERM, BY_LAUNCHER, 0);
	rank_ends(0, SIGTERM, BY_LAUNCHER, 1000);
	ends("failed", "launch",
	     "rank 1 (algo-2, b) was ended because its launcher lost it: mpirun, orted or hearth-rank was killed",
	     "mpirun says nothing");
}

static void test_own(void)
{
	begin(8);
	rank_ends(0, SIGTERM, BY_LAUNCHER, 0);
	rank_ends(1, 0, BY_ITSELF, 900000);
	world_proc(w, "a", id, 1, PROC_MPIRUN, PS_EXITED, 7, BOX);
	ends("failed", "unknown", "rank 1 (algo-2, b) exited with code 7",
	     "a rank failed by itself, its victim is heard of first and has an earlier clock");

	begin(9);
	rank_ends(0, SIGTERM, BY_LAUNCHER, 0);
	rank_ends(1, SIGTERM, BY_ITSELF, 5000);
	world_proc(w, "a", id, 1, PROC_MPIRUN, PS_EXITED, 143, BOX);
	ends("failed", "signal", "rank 1 (algo-2, b) was ended by signal 15 (SIGTERM)",
	     "somebody else ended a rank, and mpirun the other");
}

int main(void)
{
	test_lost();
	test_launcher();
	test_own();
	return tap_done();
}
