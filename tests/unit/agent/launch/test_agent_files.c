/*
 * The agent's own files on a disk that fails: every n-th write and change of a name, n = 1, 2, ... until none
 * is left. What was there before stays whole or the new one is there whole, the cause is named, nothing is
 * left beside it or open, and the next try works. And files that are spoilt: all or nothing of them is taken.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/command/env.h"
#include "agent/control/guard.h"
#include "agent/launch/launch_steps.h"
#include "agent/logs/points.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/os/fsutil.h"
#include "tests/lib/faultlibc.h"
#include "tests/lib/powerrun.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agentkit.h"

static struct agent *agent;
static const char *run;
static char *dir;       /* RUN/17.2 */
static char said[2000]; /* the last complaint in the log */

static void on_log(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	if (level >= LOG_LVL_WARN)
		snprintf(said, sizeof(said), "%s", line);
}

static char *content(const char *in, const char *name)
{
	char *path = xasprintf("%s/%s", in, name), *text;
	struct err e;

	if (fs_read_file(path, 1 << 20, &text, NULL, &e) < 0)
		text = xstrdup("");
	free(path);
	return text;
}

static int add_name(const char *name, void *arg)
{
	char **all = arg, *longer = xasprintf("%s%s ", *all, name);

	free(*all);
	*all = longer;
	return 0;
}

/* All that lies in RUN and in the launch's folders, as one text of names in no order: its length tells. */
static size_t names(void)
{
	char *all = xstrdup("");
	size_t n;

	fs_each(run, add_name, &all, NULL);
	fs_each(dir, add_name, &all, NULL);
	n = strlen(all);
	free(all);
	return n;
}

/* ---- what is written, by versions ---------------------------------------------------------------------- */

struct subject {
	const char *name;
	int (*write)(uint64_t v, struct err *e);
	uint64_t (*read)(void); /* the version that a new agent would find; 0 none that is whole */
	int logs;               /* the agent goes on without the file, and the log says why */
};

static int write_plan(uint64_t v, struct err *e)
{
	struct plan *p = agentkit_plan();
	int rc;

	p->m->epoch = v;
	rc = plan_save(p, dir, e);
	plan_destroy(p);
	return rc;
}

static uint64_t read_plan(void)
{
	struct plan *p = plan_load(dir, NULL);
	uint64_t v = p ? p->m->epoch : 0;

	plan_destroy(p);
	return v;
}

static int write_life(uint64_t v, struct err *e)
{
	struct launch *l = launch_new(&agent->host, agentkit_plan());

	(void)e;
	l->epoch = v;
	l->going = 1;
	l->state = LAUNCH_RUNNING;
	launch_save(l, NULL);
	launch_free(l);
	return 0;
}

static uint64_t read_life(void)
{
	struct launch *l = launch_new(&agent->host, agentkit_plan());
	int same = 0;
	uint64_t v = launch_load(l, &same, NULL) == 0 && same && l->going ? l->epoch : 0;

	launch_free(l);
	return v;
}

static int write_lease(uint64_t v, struct err *e)
{
	struct guard *g = agentkit_guard(agent);

	(void)e;
	guard_ack(g, clock_boot_us(clock_real()), (uint32_t)(10000 + v));
	guard_destroy(g);
	return 0;
}

static uint64_t read_lease(void)
{
	cleanup_free char *text = content(run, "lease");
	unsigned long long at, ms;
	char boot[PROC_BOOT_ID_SIZE];

	return sscanf(text, "%llu %llu %39s", &at, &ms, boot) == 3 && strcmp(boot, "b0") == 0 ? ms - 10000 : 0;
}

static int write_peers(uint64_t v, struct err *e)
{
	struct guard *g = agentkit_guard(agent);
	struct wire_strv peers = {0};
	char line[60];

	(void)e;
	for (unsigned i = 0; i < 3; i++) {
		snprintf(line, sizeof(line), "peer-%u 10.0.0.%u:%u", i, i, (unsigned)(7000 + v));
		wire_strv_add(&peers, line);
	}
	guard_peers(g, &peers, v);
	for (unsigned i = 0; i < peers.n; i++)
		free(peers.v[i]);
	free(peers.v);
	guard_destroy(g);
	return 0;
}

static uint64_t read_peers(void)
{
	cleanup_free char *text = content(run, "peers");
	unsigned a, b, c;

	return sscanf(text, "peer-0 10.0.0.0:%u peer-1 10.0.0.1:%u peer-2 10.0.0.2:%u", &a, &b, &c) == 3 &&
	               a == b && b == c
	           ? a - 7000
	           : 0;
}

static void no_room(void *arg)
{
	(void)arg;
}

#define FAR (1u << 30) /* so far from the last place that it is written down */

static int write_metrics(uint64_t v, struct err *e)
{
	struct points *p = points_open(&agent->env, agent->host.link, 17, 2, dir);
	struct points_src *s = points_source(p, "rank-0", 0, no_room, NULL);

	(void)e;
	points_mark(s, v * FAR, (int64_t)v);
	points_source_close(s);
	points_close(p);
	return 0;
}

static uint64_t read_metrics(void)
{
	struct points *p = points_open(&agent->env, agent->host.link, 17, 2, dir);
	struct points_src *s = points_source(p, "rank-0", 0, no_room, NULL);
	uint64_t offset;
	int64_t step;

	points_where(s, &offset, &step);
	points_source_close(s);
	points_close(p);
	return offset == (uint64_t)step * FAR ? (uint64_t)step : 0;
}

static int write_config(uint64_t v, struct err *e)
{
	struct plan *p = agentkit_plan();
	struct launch *l = launch_new(&agent->host, p);
	char ifname[20];
	struct env_in in = {.plan = p, .paths = &l->paths, .user = &l->user, .cpus = 1, .node_cpus = 1};
	int rc;

	snprintf(ifname, sizeof(ifname), "eth%llu", (unsigned long long)v);
	in.ifname = ifname;
	rc = env_files(&in, dir, e);
	launch_free(l);
	return rc;
}

static uint64_t read_config(void)
{
	cleanup_free char *text = content(dir, "resourceconfig.json");
	const char *at = strstr(text, "\"eth");
	uint64_t v = 0;
	cleanup_free char *digits = at ? xstrndup(at + 4, strcspn(at + 4, "\"")) : NULL;

	return digits && str_parse_u64(digits, &v) == 0 && text[strlen(text) - 1] == '}' ? v : 0;
}

static const struct subject subjects[] = {
    {"the order of a launch", write_plan, read_plan, 0},
    {"the life of a launch", write_life, read_life, 1},
    {"the lease", write_lease, read_lease, 1},
    {"the peers", write_peers, read_peers, 1},
    {"how far metrics were read", write_metrics, read_metrics, 1},
    {"the configuration of a launch", write_config, read_config, 0},
};

/* ---- the n-th call ------------------------------------------------------------------------------------- */

struct tally {
	unsigned n, unnamed, torn, left, lost, leaks;
};

/* One failing call; 0: there was no n-th. */
static int fail_one(const struct subject *s, const struct lie_plan *plan, uint64_t *v, struct tally *t)
{
	size_t before = names();
	int rc, fds = faultlibc_descriptors();
	unsigned failed;
	uint64_t found;
	struct err e = {0};

	said[0] = '\0';
	liedisk_start(run, plan);
	rc = s->write(++*v, &e);
	failed = liedisk_failed();
	liedisk_stop();
	if (!failed)
		return 0;
	found = s->read();
	t->n++;
	t->torn += found != *v && found != *v - 1;
	/* What was called a failure may be there; what was not called one must be. */
	if (found != *v || rc < 0)
		t->unnamed += !strstr(s->logs ? said : e.text, strerror(plan->fail_errno));
	t->lost += rc == 0 && !said[0] && found != *v;
	t->left += names() != before;
	t->leaks += faultlibc_descriptors() != fds;
	if (s->write(*v, &e) < 0 || s->read() != *v)
		t->torn++;
	return 1;
}

static void each_call(const struct subject *s)
{
	static const int errnos[] = {EIO, ENOSPC, EMFILE};
	struct tally t = {0};
	uint64_t v = 1;
	struct err e;

	ok(s->write(v, &e) == 0 && s->read() == v, "%s: is written and read", s->name);
	for (size_t k = 0; k < sizeof(errnos) / sizeof(*errnos); k++)
		for (unsigned op = LIE_WRITE; op < LIE_OPS; op++)
			for (unsigned n = 1;; n++) {
				struct lie_plan plan = {
				    .fail_op = (enum lie_op)op, .fail_nth = n, .fail_repeat = 1, .fail_errno = errnos[k]};

				if (!fail_one(s, &plan, &v, &t))
					break;
			}
	ok(t.n >= 6, "%s: %u calls failed", s->name, t.n);
	is_int(t.torn, 0, "it is the old or the new one, and the next try works");
	is_int(t.lost, 0, "no failure is called a success");
	is_int(t.unnamed, 0, "the cause is named");
	is_int(t.left, 0, "nothing is left beside it");
	is_int(t.leaks, 0, "nothing is left open");
}

/* ---- spoilt files -------------------------------------------------------------------------------------- */

static void put_life(const char *text)
{
	char *path = xasprintf("%s/life", dir);
	struct err e;

	if (fs_replace(path, text, strlen(text), 0600, &e) < 0)
		tap_bail("%s", e.text);
	free(path);
}

#define GOOD                                                                                                 \
	"\"boot\": \"b0\", \"state\": 3, \"epoch\": 9, \"going\": true, \"collecting\": true, \"text\": \"x\", " \
	"\"user\": {\"uid\": 1, \"gid\": 1, \"name\": \"u\", \"home\": \"/\", \"shell\": \"/s\", \"groups\": "   \
	"[1]}"

static void test_spoilt_life(void)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
	    {"{" GOOD ", \"phases\": [{\"name\": \"a\"}, {\"name\": 3}]}", "phases"},
	    {"{" GOOD ", \"phases\": [{\"name\": \"a\"}, 7]}", "phases"},
	    {"{" GOOD ", \"phases\": [], \"cls\": 4000}", "class 4000"},
	    {"{" GOOD ", \"phases\": [], \"cls\": -1}", "cls"},
	    {"{" GOOD ", \"phases\": [], \"grace_ms\": 5000000000}", "grace"},
	    {"{" GOOD ", \"phases\": [], \"keep\": 1}", "keep"},
	    {"{\"state\": 77}", "state 77"},
	    {"{" GOOD, "line 1"},
	    {"", "life"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct launch *l = launch_new(&agent->host, agentkit_plan());
		uint64_t epoch = l->epoch;
		struct err e = {0};
		int same = 7;

		put_life(cases[i].text);
		ok(launch_load(l, &same, &e) < 0, "refused: %.80s", cases[i].text);
		like(e.text, cases[i].why, "with the reason");
		ok(l->state == LAUNCH_PREPARING && l->epoch == epoch && !l->going && !l->collecting &&
		       l->n_phases == 0 && !l->user.name && !*l->text && same == 7,
		   "and nothing of it is taken");
		launch_free(l);
	}
}

static void test_whole_life(void)
{
	struct launch *l = launch_new(&agent->host, agentkit_plan());
	struct err e = {0};
	int same = 0;

	put_life("{" GOOD ", \"phases\": [{\"name\": \"a\", \"started_us\": 5}], \"cls\": 3, \"grace_ms\": 7}");
	ok(launch_load(l, &same, &e) == 0 && same, "a whole one is taken");
	ok(l->state == LAUNCH_RUNNING && l->epoch == 9 && l->going && l->collecting && l->n_phases == 1 &&
	       l->cls == RC_OOM && l->grace_ms == 7,
	   "with all that it says");
	ok(l->user.name && strcmp(l->user.name, "u") == 0 && l->user.n_groups == 1, "and the account");
	ok(launch_load(l, &same, &e) == 0 && l->n_phases == 1 && l->user.n_groups == 1, "twice is as once");
	launch_free(l);
}

int main(void)
{
	power_in_memory();
	log_set_sink(on_log, NULL);
	agent = agentkit_open(tap_tmpdir());
	run = agent->env.cfg.run_dir;
	dir = xasprintf("%s/17.2", run);
	for (size_t i = 0; i < sizeof(subjects) / sizeof(*subjects); i++)
		each_call(&subjects[i]);
	test_spoilt_life();
	test_whole_life();
	free(dir);
	agentkit_close(agent);
	return tap_done();
}
