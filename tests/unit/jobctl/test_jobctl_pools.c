/* jobctl and warm pools, against a scripted controller: what the verbs send and what people see. */
#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/unit/jobctl/jobctl_run.h"

#include <stdlib.h>
#include <string.h>

#define SOURCE "5bf8aa57fcf4eb3f6d5d5f5fbe5a86ed7b2f7f0ee29a1c1ab2b9de31bfa3aa11"

static char soon[CLOCK_RFC3339_SIZE]; /* in 27 minutes and a half */
static char *pool, *used, *ended, *kept, *parked, *bad, *torchrun, *list, *nodes;
static const char *empty = "{\"pools\":[]}";

static void make_answers(void)
{
	clock_rfc3339(clock_real_us(clock_real()) + 1650 * UINT64_C(1000000), soon);
	pool = xasprintf(
	    "{\"id\":12,\"name\":\"train\\u001b\",\"owner\":\"ada\",\"queue\":\"default\",\"exclusive\":true,"
	    "\"state\":\"available\",\"made_by\":11,\"used_by\":null,\"keep_alive_s\":1800,\"made_at\":"
	    "\"2026-01-02T03:04:05Z\",\"idle_since\":\"2026-01-02T03:04:05Z\",\"expires_at\":\"%s\","
	    "\"ended_at\":null,\"cause\":null,\"parked\":{\"number\":3,\"state\":\"failed\",\"since\":null,"
	    "\"level\":null,"
	    "\"text\":\"node n1: mpirun is "
	    "missing\"},\"launcher\":\"mpirun\",\"preload\":[\"torch\",\"numpy\"],\"idle_usd\":0.12,\"gpus\":3,"
	    "\"environment\":{\"requirements\":"
	    "null,"
	    "\"source\":\"" SOURCE "\",\"inputs\":[{\"name\":\"train\",\"digest\":\"d1\"}]},\"nodes\":[{\"node\":"
	    "\"n1\",\"gpus\":[0,1],\"cpus\":4,\"memory_bytes\":1073741824,\"state\":\"available\"},{\"node\":"
	    "\"n2\",\"gpus\":[3],\"cpus\":2,\"memory_bytes\":0,\"state\":\"available\"}]}",
	    soon);
	used =
	    xstrdup("{\"id\":13,\"name\":\"b\",\"owner\":\"bob\",\"state\":\"in_use\",\"made_by\":9,\"used_by\":"
	            "14,\"launcher\":\"torchrun\",\"preload\":[],\"parked\":null,\"keep_alive_s\":7200,\"expires_"
	            "at\":null,\"gpus\":0,\"nodes\":[{\"node\":\"n3\"}]}");
	ended =
	    xstrdup("{\"id\":8,\"name\":\"c\",\"owner\":\"bob\",\"state\":\"terminated\",\"made_by\":7,\"used_"
	            "by\":null,\"cause\":\"gave way\",\"cause_text\":\"job 9 could not start without "
	            "it\",\"gpus\":0,\"nodes\":[],\"ended_nodes\":[{\"node\":\"n3\",\"cause\":\"node\","
	            "\"cause_text\":\"the node is drained\",\"at\":\"2026-01-02T03:04:05Z\"}]}");
	parked = xstrdup(
	    "{\"id\":16,\"name\":\"p\",\"owner\":\"bob\",\"state\":\"available\",\"parked\":{\"number\":1,"
	    "\"state\":\"parked\",\"since\":null,\"level\":\"interpreter\",\"text\":null},\"nodes\":[]}");
	bad = xstrdup(
	    "{\"id\":17,\"name\":\"p\",\"owner\":\"bob\",\"state\":\"available\",\"parked\":{\"number\":1,"
	    "\"state\":\"parked\",\"since\":null,\"level\":\"launch\",\"text\":\"preload failed: no module "
	    "named x\"},\"nodes\":[]}");
	torchrun = xstrdup("{\"id\":18,\"name\":\"t\",\"owner\":\"bob\",\"state\":\"available\",\"parked\":null,"
	                   "\"launcher\":\"torchrun\",\"preload\":[],\"nodes\":[]}");
	kept = xasprintf("{\"id\":15,\"name\":\"k\",\"owner\":\"bob\",\"state\":\"available\",\"kept_by\":"
	                 "\"ada\",\"keep_alive_s\":3600,\"expires_at\":\"%s\",\"nodes\":[]}",
	                 soon);
	list = xasprintf("{\"pools\":[%s,%s,%s,%s]}", pool, used, ended, parked);
	nodes = xasprintf("{\"nodes\":[{\"name\":\"n1\",\"state\":\"up\",\"gpus\":2,\"gpus_used\":0,\"slots\":8,"
	                  "\"slots_used\":0,\"pools\":[{\"pool\":12,\"owner\":\"ada\",\"state\":\"available\","
	                  "\"parked\":true,\"expires_at\":\"%s\"},{\"pool\":13,\"owner\":\"bob\",\"state\":\"in_"
	                  "use\"}]},{\"name\":"
	                  "\"n2\",\"state\":\"up\",\"gpus\":2,\"gpus_used\":0,\"slots\":8,\"slots_used\":0,"
	                  "\"pools\":[]}]}",
	                  soon);
}

#define JOB(text) "{\"id\":7,\"name\":\"a\",\"status\":\"completed\",\"attempt_count\":1," text "}"

static const char *job_of(const char *uri)
{
	static const char *const jobs[] = {
	    JOB("\"warm_pool\":{\"pool\":null,\"status\":\"in_use\",\"retained_s\":null,\"reused_by\":null}"),
	    JOB("\"warm_pool\":{\"pool\":12,\"status\":\"in_use\",\"retained_s\":null,\"reused_by\":null},"
	        "\"attempts\""
	        ":[{\"number\":1,\"nodes\":[\"n1\"],\"pool\":{\"id\":12,\"level\":\"environment\",\"missed\":"
	        "null}}]"),
	    JOB("\"warm_pool\":{\"pool\":12,\"status\":\"available\",\"retained_s\":31,\"reused_by\":null},"
	        "\"attempts\":[{\"number\":1,\"nodes\":[\"n1\"],\"pool\":{\"id\":12,\"level\":\"node\","
	        "\"missed\":"
	        "{\"level\":\"environment\",\"field\":\"source\",\"had\":\"" SOURCE "\",\"wants\":null}}}]"),
	    JOB("\"warm_pool\":{\"pool\":12,\"status\":\"reused\",\"retained_s\":92,\"reused_by\":14}"),
	    JOB("\"warm_pool\":{\"pool\":12,\"status\":\"terminated\",\"retained_s\":1800,\"reused_by\":null,"
	        "\"cause\":\"owner\",\"cause_text\":\"the budget of a is used up\"}"),
	    JOB("\"warm_pool\":null,\"attempts\":[{\"number\":1,\"nodes\":[\"n1\",\"n2\",\"n3\",\"n4\"],\"pool\":"
	        "{"
	        "\"id\":12,\"level\":\"environment\",\"missed\":null,\"nodes\":[\"n1\",\"n2\",\"n3\"],\"others\":"
	        "[{"
	        "\"id\":13,\"nodes\":[\"n3\"]}]}}]"),
	    JOB("\"warm_pool\":null,\"attempts\":[{\"number\":1,\"nodes\":[\"n1\"],\"pool\":{\"id\":12,\"level\":"
	        "\"environment\",\"missed\":{\"level\":\"launch\",\"field\":\"launcher\",\"had\":\"torchrun\","
	        "\"wants\":\"torchrun\",\"text\":\"not parked under torchrun\"}}}]")};
	const char *id = strstr(uri, "/jobs/") + 6;

	return jobs[atoi(id) - 20];
}

static void answer(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	(void)nth;
	(void)arg;
	if (strstr(q->uri, "/pools?owner=nobody"))
		a->body = empty;
	else if (strstr(q->uri, "/pools/15") && strcmp(q->method, "PATCH") == 0) {
		a->status = 400;
		a->body = "{\"detail\":\"keep_alive_s: expected 1 to 9 seconds\"}";
	} else if (strstr(q->uri, "/pools/15"))
		a->body = kept;
	else if (strstr(q->uri, "/pools/16"))
		a->body = parked;
	else if (strstr(q->uri, "/pools/17"))
		a->body = bad;
	else if (strstr(q->uri, "/pools/18"))
		a->body = torchrun;
	else if (strstr(q->uri, "/pools/8"))
		a->body = ended;
	else if (strstr(q->uri, "/pools/13"))
		a->body = used;
	else if (strstr(q->uri, "/pools/12?node="))
		a->body = used;
	else if (strcmp(q->method, "DELETE") == 0)
		a->body = ended;
	else if (strstr(q->uri, "/pools/"))
		a->body = pool;
	else if (strstr(q->uri, "/pools"))
		a->body = list;
	else if (strstr(q->uri, "/nodes"))
		a->body = nodes;
	else if (strstr(q->uri, "/top"))
		a->body = "{\"nodes\":{\"up\":2,\"total\":2,\"warm_nodes\":1,\"warm_gpus\":2,\"parked_nodes\":1},"
		          "\"jobs\":{}}";
	else if (strstr(q->uri, "/cost"))
		a->body = "{\"by\":\"queue\",\"rows\":[{\"name\":\"default\",\"usd\":2,\"jobs\":1,\"attempts\":1,"
		          "\"running\":0,\"hours\":1,\"idle_usd\":0.5}],\"total_usd\":2,\"total_idle_usd\":0.5}";
	else if (strstr(q->uri, "/jobs/"))
		a->body = job_of(q->uri);
	else
		a->status = 404;
}

static void test_lists(struct js *s)
{
	static const char *const rows[] = {
	    "POOL  NAME    OWNER  STATE       NODES  GPUS  MADE BY  USED BY  IDLE USD  PARKED       ENDS "
	    "IN, OR WHY IT ENDED",
	    "  12  train?  ada    available       2     3       11        -      0.12  failed       27m",
	    "  13  b       bob    in_use          1     0        9       14         -  -            -",
	    "   8  c       bob    terminated      0     0        7        -         -  -            job 9 could "
	    "not "
	    "start without it",
	    "  16  p       bob    available       0     -        -        -         -  interpreter  -",
	    NULL};
	jr_expect_lines(s, "pool ls", rows);
	jr_expect_lines(s, "pools --state all", rows);
	like(js_last_of(s, "GET")->uri, "/pools?state=all", "pools --state asks for that state");
	jr_expect(s, "pool ls --all", 0, NULL, "");
	like(js_last_of(s, "GET")->uri, "/pools?state=all", "pool ls --all asks for all");
	jr_expect(s, "pool ls -a --state available", 2, "", "--all means --state all");
	jr_expect(s, "pools --owner nobody", 0, "No such pool. To see all pools: jobctl pool ls\n", "");
	jr_expect(s, "pool ls --stat all", 2, "", "did you mean --state?");
}

static void test_one(struct js *s)
{
	static const char *const lines[] = {"Pool 12  train?  available",
	                                    "owner        ada",
	                                    "made by      11",
	                                    "split        never: its job was exclusive",
	                                    "keep-alive   30m after the end of the job that used it last",
	                                    "idle cost    $0.12",
	                                    "launcher     mpirun",
	                                    "preload      torch, numpy",
	                                    "parked       no: node n1: mpirun is missing",
	                                    "source       " SOURCE,
	                                    "input        train: d1",
	                                    "NODE  STATE      GPUS  CPUS  MEMORY",
	                                    "n1    available  0,1      4  1.0GiB",
	                                    "n2    available  3        2       -",
	                                    NULL};
	static const char *const gone[] = {"cause        job 9 could not start without it", "ENDED NODE  WHEN",
	                                   "the node is drained", NULL};
	jr_expect_lines(s, "pool show 12", lines);
	jr_expect_lines(s, "pool show 8", gone);
	jr_expect_lines(s, "pool show 15", (const char *const[]){"(kept by ada)", NULL});
	jr_expect_lines(s, "pool show 16",
	                (const char *const[]){"the next job of this kind starts at level interpreter\n", NULL});
	jr_expect_lines(
	    s, "pool show 17",
	    (const char *const[]){"starts at level launch; preload failed: no module named x\n", NULL});
	jr_expect_lines(s, "pool show 18",
	                (const char *const[]){"launcher     torchrun\n"
	                                      "parked       never: launches of torchrun do not wait\n",
	                                      NULL});
	jr_expect(s, "pool show", 2, "", "pool show: expected POOL");
}

static void test_changes(struct js *s)
{
	jr_expect(s, "pool keep 12 --for 30m", 0, NULL, "");
	like(js_last_of(s, "PATCH")->body, "\"keep_alive_s\":1800", "keep sends seconds");
	jr_expect(s, "pool keep 15 --for 100h", 2, "", "--for 100h: expected 1 to 9 seconds");
	jr_expect(s, "pool keep 12", 2, "", "missing --for DURATION");
	jr_expect(s, "pool keep 12 --for long", 2, "", "--for");
	jr_expect(s, "pool keep 12 --for 0", 2, "", "jobctl pool drop 12");
	jr_expect(s, "pool drop 12", 0, "pool 8 has ended\n", "");
	jr_expect(s, "pool drop 12 n1 n/2", 0, "pool 13 has 1 node left\n", "");
	like(js_last_of(s, "DELETE")->uri, "/pools/12?node=n1,n%2F2", "drop names the nodes");
}

static void test_elsewhere(struct js *s)
{
	static const char *const warm[] = {
	    "Warm 1 idle node, 2 GPUs in pools; 1 of the nodes parked: jobctl pool ls", NULL};
	static const char *const cost[] = {"QUEUE     USD  JOBS  ATTEMPTS  RUNNING  HOURS  IDLE USD",
	                                   "default  2.00     1         1        0   1.00      0.50",
	                                   "total $2.50: $2.00 of jobs and $0.50 of idle warm pools", NULL};
	static const char *const level[] = {
	    "    warm: pool 12, level node; source differs (pool: 5bf8aa57fcf4, job: none)",
	    "warm pool    pool 12 waits for the next job: jobctl pool show 12", NULL};
	static const char *const joined[] = {
	    "    warm: pool 12, level environment, on n1, n2; pool 13 on n3; 1 node is cold", NULL};
	static const char *const whole[] = {"    warm: pool 12, level environment",
	                                    "warm pool    uses pool 12, and gives it back at its end", NULL};
	static const char *const others[][2] = {
	    {"warm pool    the job leaves one at its end", NULL},
	    {"warm pool    job 14 took pool 12 after 1m32s", NULL},
	    {"warm pool    pool 12 ended after 30m: the budget of a is used up", NULL}};
	jr_expect_lines(s, "top --once", warm);
	jr_expect_lines(s, "cost", cost);
	jr_expect_lines(s, "show 22", level);
	jr_expect_lines(s, "show 21", whole);
	jr_expect_lines(s, "show 25", joined);
	jr_expect_lines(
	    s, "show 26",
	    (const char *const[]){"warm: pool 12, level environment; not parked under torchrun\n", NULL});
	jr_expect_lines(s, "show 20", others[0]);
	jr_expect_lines(s, "show 23", others[1]);
	jr_expect_lines(s, "show 24", others[2]);
	jr_expect(
	    s, "nodes", 0,
	    "NODE  STATE  ADDRESS  TYPE  GPUS  GPU  SLOTS  MEMORY  LOAD  JOBS  WARM POOL                         "
	    "REASON\n"
	    "n1    up     -        -      0/2  -      0/8       -     -  -     12 ada 27m parked, 13 bob in use  "
	    "-\n"
	    "n2    up     -        -      0/2  -      0/8       -     -  -     -                                 "
	    "-\n",
	    "");
}

int main(void)
{
	jr_init();
	make_answers();
	struct js *s = js_start(answer, NULL, NULL);
	test_lists(s);
	test_one(s);
	test_changes(s);
	test_elsewhere(s);
	js_stop(s);
	s = js_start(answer, NULL, NULL);
	free(list);
	list = xstrdup(empty);
	jr_expect(s, "pools", 0,
	          "No pool is warm. A job leaves one if its file has \"warm_pool\": {\"keep_alive_s\": 1800}\n",
	          "");
	js_stop(s);
	return tap_done();
}
