/*
 * local: `jobctl local up|down|status`.
 *
 * All data is in $XDG_DATA_HOME/hearth/local (~/.local/share/hearth/local): data folders hearthd/ and
 * node-N/, logs in log/, running programs in run/ (local_proc), and the chosen port and settings
 * (local_settings). `up` may be called at any time: it starts what is missing, also a program that ran and
 * ends before it is up. `down` is in local_down.
 */
#include "jobctl/local/local.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "jobctl/client/interrupt.h"
#include "jobctl/local/local_down.h"
#include "jobctl/local/local_jobs.h"
#include "jobctl/local/local_proc.h"
#include "jobctl/local/local_settings.h"
#include "jobctl/show/print.h"

#define PORT_WAIT_MS  5000
#define PORT_FIRST    7070
#define PORT_TRIES    100
#define START_S       30
#define NOTICE_MS     2000
#define BEAT_MAX_MS   5000   /* a node that is silent for longer counts as not up */
#define MASTER_FIRST  10000u /* up to 29999: below the system's own range */
#define MASTER_SHARES 5u
#define MASTER_SHARE  4000u
#define CONFIG_MARK   "# Written by `jobctl local up`.\n"

struct program {
	char name[32];
	unsigned index;      /* number of a node, from 0 */
	uint64_t started_us; /* start by this call, on the boot clock; 0: it was running already */
};

struct local {
	char *dir;
	struct local_settings s;
	int port_chosen; /* the port is an option of this call */
	int grown;       /* the cluster had fewer nodes */
	cJSON *was;      /* nodes as hearthd knew them before agents were started */
	struct program hearthd, nodes[LOCAL_NODES_MAX];
};

char *local_url(void)
{
	char *dir = local_dir(), *sock = xasprintf("%s/hearthd/hearthd.sock", dir), *url = NULL;
	if (!access(sock, F_OK))
		url = xasprintf("unix://%s", sock);
	free(sock);
	free(dir);
	return url;
}

char *local_http_url(const char *unix_url)
{
	char *mine = local_url(), *dir = local_dir(), *url = NULL;
	if (mine && strcmp(mine, unix_url) == 0 && local_port(dir))
		url = xasprintf("http://127.0.0.1:%u", local_port(dir));
	free(mine);
	free(dir);
	return url;
}

/* ---- up ---- */

static int port_free(unsigned port)
{
	cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;
	struct sockaddr_in a = {
	    .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	/* SO_REUSEADDR lets two sockets bind while neither listens, so only listening proves that the port is
	 * free. */
	return fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) &&
	       !bind(fd, (struct sockaddr *)&a, sizeof(a)) && !listen(fd, 1);
}

static int any_agent_up(const struct local *l)
{
	int any = 0;
	for (unsigned i = 0; i < l->s.nodes; i++)
		any |= local_is_up(l->dir, l->nodes[i].name);
	return any;
}

/* Waits some seconds for the port: a killed hearthd holds it until its last thread has gone. */
static int port_free_soon(unsigned port)
{
	for (unsigned tries = PORT_WAIT_MS / 100; !port_free(port); tries--) {
		if (!tries || interrupt_sleep(100))
			return 0;
	}
	return 1;
}

/* Chooses the last port if it is free (agents know it), else the first free one. */
static int choose_port(struct local *l, struct err *e)
{
	unsigned old = l->s.port;
	int agents = any_agent_up(l);
	int is_free = old && (agents ? port_free_soon(old) : port_free(old));
	if (old && !is_free && l->port_chosen)
		return err_set(e, ERR_CONFLICT, "port %u is in use; choose another one with --port", old);
	if (old && !is_free && agents)
		return err_set(e, ERR_CONFLICT,
		               "another program uses port %u, and the running agents look for hearthd there; end "
		               "that program, or restart the cluster: jobctl local down, then jobctl local up",
		               old);
	unsigned port = is_free ? old : 0;
	for (unsigned p = PORT_FIRST; !port && p < PORT_FIRST + PORT_TRIES; p++) {
		if (port_free(p))
			port = p;
	}
	if (!port)
		return err_set(e, ERR_CONFLICT, "no port from %u to %u is free; choose one with --port", PORT_FIRST,
		               PORT_FIRST + PORT_TRIES - 1);
	if (old && port != old)
		fprintf(stderr,
		        "jobctl: another program uses port %u, hearthd's last port; hearthd uses port %u now\n", old,
		        port);
	l->s.port = port;
	return local_port_save(l->dir, port, e);
}

static int hearthd_answers(const struct local *l, const struct program *p)
{
	(void)p;
	cJSON *answer = local_nodes(l->dir);
	cJSON_Delete(answer);
	return answer != NULL;
}

/* Returns whether hearthd knows the node, even if it gets no new jobs. */
static int is_known_state(const char *state)
{
	return strcmp(state, "up") == 0 || strcmp(state, "drained") == 0 || strcmp(state, "maintenance") == 0;
}

/* Returns whether hearthd has heard this very agent lately, not its predecessor. */
static int node_is_up(const struct local *l, const struct program *p)
{
	cJSON *answer = local_nodes(l->dir);
	const cJSON *n;
	uint64_t now = clock_boot_us(clock_real());
	double limit = BEAT_MAX_MS;
	int up = 0;
	if (p->started_us && (double)(now - p->started_us) / 1000 < limit)
		limit = (double)(now - p->started_us) / 1000;
	cJSON_ArrayForEach (n, jget(answer, "nodes")) {
		up |= strcmp(print_member(n, "name"), p->name) == 0 && is_known_state(print_member(n, "state")) &&
		      cJSON_IsTrue(jget(n, "connected")) && print_number(n, "beat_age_ms") <= limit;
	}
	cJSON_Delete(answer);
	return up;
}

static int start_hearthd(struct local *l, struct err *e)
{
	char *path = local_program("controller/hearthd", "sbin/hearthd", e);
	if (!path)
		return -1;
	struct strv args = {0};
	int rc = choose_port(l, e);
	if (!rc) {
		strv_add(&args, path);
		strv_add(&args, "--data");
		strv_addf(&args, "%s/hearthd", l->dir);
		strv_add(&args, "--listen");
		strv_addf(&args, "127.0.0.1:%u", l->s.port);
		rc = local_spawn(l->dir, "hearthd", path, &args, 0, 1, e);
	}
	strv_fini(&args);
	free(path);
	return rc;
}

static int join_token(const struct local *l, char **token, struct err *e)
{
	struct client *c = local_client(l->dir, 1, e);
	cJSON *body = cJSON_CreateObject(), *answer = NULL;
	const char *t = NULL;
	cJSON_AddStringToObject(body, "kind", "join");
	int rc = c ? client_call(c, "POST", "/tokens", body, &answer, e) : -1;
	if (!rc) {
		json_get_str(answer, "", "token", &t, NULL);
		*token = xstrdup(t ? t : "");
	}
	cJSON_Delete(answer);
	cJSON_Delete(body);
	client_destroy(c);
	return rc;
}

static void agent_args(const struct local *l, const struct program *p, const char *path, struct strv *args)
{
	/* Each agent has a range of its own: both ends of MASTER_PORT are on this machine, perhaps with another
	 * local cluster. */
	unsigned share = MASTER_SHARE / LOCAL_NODES_MAX;
	unsigned lo = MASTER_FIRST + l->s.port % MASTER_SHARES * MASTER_SHARE + p->index * share;
	strv_add(args, path);
	strv_add(args, "--controller");
	strv_addf(args, "http://127.0.0.1:%u", l->s.port);
	strv_add(args, "--data");
	strv_addf(args, "%s/%s", l->dir, p->name);
	strv_add(args, "--name");
	strv_add(args, p->name);
	strv_add(args, "--address");
	strv_add(args, "127.0.0.1");
	strv_add(args, "--ports");
	strv_addf(args, "%u-%u", lo, lo + share - 1);
	/* The type has no facts, so users can try costs and lists of types by setting some. */
	strv_add(args, "--instance-type");
	strv_add(args, "local");
	if (l->s.fake_gpus) {
		strv_add(args, "--fake-gpus");
		strv_add(args, l->s.fake_gpus);
	}
	if (l->s.no_namespaces)
		strv_add(args, "--no-namespaces");
	/* The only user of root's own cluster is root: its folder is closed to others. */
	if (geteuid() == 0)
		strv_add(args, "--allow-root");
}

static const cJSON *node_named(const cJSON *nodes, const char *name)
{
	const cJSON *n;
	cJSON_ArrayForEach (n, jget(nodes, "nodes")) {
		if (strcmp(print_member(n, "name"), name) == 0)
			return n;
	}
	return NULL;
}

static int start_agent(const struct local *l, const struct program *p, struct err *e)
{
	char *path = local_program("agent/hearth-agent", "sbin/hearth-agent", e), *token = NULL;
	if (!path)
		return -1;
	char *cert = xasprintf("%s/%s/agent.pem", l->dir, p->name);
	struct strv args = {0};
	/* The certificate of a removed node is void, so it joins again. */
	int is_new = access(cert, F_OK) || (l->was && !node_named(l->was, p->name));
	int rc = is_new ? join_token(l, &token, e) : 0;
	if (!rc) {
		agent_args(l, p, path, &args);
		/* The token is not an argument, because every account can read arguments. */
		if (token)
			setenv("HEARTH_JOIN_TOKEN", token, 1);
		rc = local_spawn(l->dir, p->name, path, &args, p->index, l->s.nodes, e);
		unsetenv("HEARTH_JOIN_TOKEN");
	}
	strv_fini(&args);
	free(token);
	free(cert);
	free(path);
	return rc;
}

/* Starts a program that does not run, once: one that ended after its start here would do so again. 1:
 * started. */
static int start_if_down(struct local *l, struct program *p, struct err *e)
{
	if (local_is_up(l->dir, p->name))
		return 0;
	if (p->started_us) {
		local_show_log(l->dir, p->name);
		return err_set(e, ERR_INTERNAL, "%s ended right after its start; the end of its log is above",
		               p->name);
	}
	p->started_us = clock_boot_us(clock_real());
	return (p == &l->hearthd ? start_hearthd(l, e) : start_agent(l, p, e)) ? -1 : 1;
}

/* Waits until fn returns 1 for a running program. A program that ends meanwhile, also hearthd, is started
 * again. */
static int wait_for(struct local *l, struct program *p,
                    int (*fn)(const struct local *, const struct program *), const char *what, struct err *e)
{
	uint64_t begun = clock_boot_us(clock_real());
	int said = 0;
	for (;;) {
		int one = start_if_down(l, &l->hearthd, e),
		    two = one < 0 || p == &l->hearthd ? 0 : start_if_down(l, p, e);
		if (one < 0 || two < 0)
			return -1;
		uint64_t now = clock_boot_us(clock_real());
		if (one || two)
			begun = now;
		if (fn(l, p) == 1 && local_is_up(l->dir, p->name))
			return 0;
		uint64_t waited_ms = (clock_boot_us(clock_real()) - begun) / 1000;
		if (waited_ms > START_S * 1000) {
			local_show_log(l->dir, p->name);
			return err_set(e, ERR_TIMEOUT, "%s runs, but is not %s after %d s; the end of its log is above",
			               p->name, what, START_S);
		}
		if (waited_ms > NOTICE_MS && !said++)
			fprintf(stderr, "jobctl: waiting for %s, which runs but is not %s yet\n", p->name, what);
		poll(NULL, 0, 20);
	}
}

static int write_config(const struct local *l, struct err *e)
{
	char *path = client_config_path(), *old = NULL;
	size_t n;
	int rc = 0;
	if (!fs_read_file(path, 65536, &old, &n, NULL) && strncmp(old, CONFIG_MARK, strlen(CONFIG_MARK)) != 0) {
		fprintf(stderr,
		        "%s names another cluster and is left alone. To use this cluster: export "
		        "HEARTH_URL=unix://%s/hearthd/hearthd.sock\n",
		        path, l->dir);
	} else {
		char *copy = xstrdup(path),
		     *text = xasprintf("%surl = unix://%s/hearthd/hearthd.sock\n", CONFIG_MARK, l->dir);
		rc = fs_mkdir_p(dirname(copy), 0700, e);
		if (!rc)
			rc = fs_write_atomic(path, text, strlen(text), 0600, e);
		free(text);
		free(copy);
	}
	free(old);
	free(path);
	return rc;
}

/* Warns about an address in the environment: it wins over the file that was just written. */
static void warn_other_url(void)
{
	const char *env = getenv("HEARTH_URL");
	char *mine = local_url();
	if (env && *env && mine && strcmp(env, mine) != 0)
		fprintf(stderr, "jobctl: HEARTH_URL still names %s. To use this cluster: export HEARTH_URL=%s\n", env,
		        mine);
	free(mine);
}

static void remove_file(const struct local *l, const char *name, const char *file)
{
	char *path = xasprintf("%s/%s/%s", l->dir, name, file);
	unlink(path);
	free(path);
}

/* Returns the jobs on a node, "jobs 3, 5"; "": none. Malloc'ed. */
static char *jobs_on(const cJSON *node)
{
	const cJSON *j, *jobs = jget(node, "jobs");
	char *all = xstrdup("");
	cJSON_ArrayForEach (j, jobs) {
		const char *before = *all ? ", " : cJSON_GetArraySize(jobs) > 1 ? "jobs " : "job ";
		xappendf(&all, "%s%.0f", before, cJSON_IsNumber(j) ? j->valuedouble : 0.0);
	}
	return all;
}

static void report_stays(const cJSON *n, uint64_t number, const char *why)
{
	const char *name = print_member(n, "name");
	char *jobs = jobs_on(n);
	if (*jobs)
		fprintf(stderr,
		        "jobctl: %s of an earlier, larger cluster still has %s. To start it again: jobctl local up "
		        "--nodes %" PRIu64 "; to end these jobs there: jobctl node rm %s --yes\n",
		        name, jobs, number, name);
	else
		fprintf(stderr, "jobctl: %s of an earlier, larger cluster was not removed: %s\n", name, why);
	free(jobs);
}

/* Removes nodes of an earlier, larger cluster: their agents no longer start, so hearthd must not count on
 * them. A node that still has jobs stays. If such a node is wanted later, its agent joins again. */
static void forget_others(const struct local *l)
{
	struct client *c = local_client(l->dir, 1, NULL);
	const cJSON *n;
	cJSON_ArrayForEach (n, jget(l->was, "nodes")) {
		const char *name = print_member(n, "name");
		uint64_t number;
		struct err e;
		if (!c || strncmp(name, "node-", 5) != 0 || str_parse_u64(name + 5, &number) ||
		    number <= l->s.nodes || number > LOCAL_NODES_MAX || cJSON_IsTrue(jget(n, "connected")) ||
		    local_is_up(l->dir, name))
			continue;
		char *path = xasprintf("/nodes/%s", name);
		if (client_call(c, "DELETE", path, NULL, NULL, &e)) {
			report_stays(n, number, e.text);
		} else {
			remove_file(l, name, "agent.pem");
			remove_file(l, name, "agent.key");
		}
		free(path);
	}
	client_destroy(c);
}

/* Ends older agents without jobs, so that they start again with their share of the CPUs among more nodes. */
static void share_anew(const struct local *l)
{
	for (unsigned i = 0; i < l->s.nodes; i++) {
		const char *name = l->nodes[i].name;
		if (!local_share_differs(l->dir, name, i, l->s.nodes))
			continue;
		char *jobs = jobs_on(node_named(l->was, name));
		if (*jobs)
			fprintf(stderr,
			        "jobctl: %s has %s, so it keeps its present CPUs instead of its share among %u nodes\n",
			        name, jobs, l->s.nodes);
		else
			local_end(l->dir, name);
		free(jobs);
	}
}

/* Reports what may surprise: nodes that accept no jobs, and GPUs that have gone. */
static void report_nodes(const struct local *l)
{
	cJSON *now = local_nodes(l->dir);
	const cJSON *n;
	cJSON_ArrayForEach (n, jget(now, "nodes")) {
		const char *name = print_member(n, "name");
		double had = print_number(node_named(l->was, name), "gpus");
		char *reason = print_safe(print_member(n, "reason"));
		if (cJSON_IsTrue(jget(n, "drain")))
			fprintf(
			    stderr,
			    "jobctl: %s is drained%s%s%s and accepts no jobs; to change that: jobctl node resume %s\n",
			    name, *reason ? " (" : "", reason, *reason ? ")" : "", name);
		if (had > 0 && !l->s.fake_gpus && print_number(n, "gpus") < 1)
			fprintf(stderr,
			        "jobctl: %s had %.0f fake GPU%s and has none now; to get them back: jobctl local down, "
			        "then jobctl local up --fake-gpus %.0f\n",
			        name, had, had > 1 ? "s" : "", had);
		free(reason);
	}
	cJSON_Delete(now);
}

static int start_all(struct local *l, struct err *e)
{
	if (wait_for(l, &l->hearthd, hearthd_answers, "answering", e) || local_settings_save(l->dir, &l->s, e))
		return -1;
	local_stop_now(l->dir);
	l->was = local_nodes(l->dir);
	forget_others(l);
	if (l->grown)
		share_anew(l);
	/* All start together; then each one is awaited. */
	for (unsigned i = 0; i < l->s.nodes; i++) {
		if (start_if_down(l, &l->nodes[i], e) < 0)
			return -1;
	}
	for (unsigned i = 0; i < l->s.nodes; i++) {
		if (wait_for(l, &l->nodes[i], node_is_up, "up", e))
			return -1;
	}
	return write_config(l, e);
}

/* Counts and names the programs that this call has started. */
static unsigned count_started(const struct local *l, char **names)
{
	unsigned n = l->hearthd.started_us != 0;
	*names = xstrdup(n ? "hearthd" : "");
	for (unsigned i = 0; i < l->s.nodes; i++) {
		if (!l->nodes[i].started_us)
			continue;
		xappendf(names, "%s%s", n++ ? ", " : "", l->nodes[i].name);
	}
	return n;
}

static void report_up(struct ctx *c, const struct local *l)
{
	char *names, *text = local_settings_text(&l->s), *url = local_url();
	unsigned started = count_started(l, &names);
	if (c->json) {
		cJSON *j = cJSON_CreateObject();
		cJSON_AddStringToObject(j, "url", url ? url : "");
		cJSON_AddNumberToObject(j, "port", l->s.port);
		cJSON_AddNumberToObject(j, "nodes", l->s.nodes);
		cJSON_AddItemToObject(j, "fake_gpus",
		                      l->s.fake_gpus ? cJSON_CreateString(l->s.fake_gpus) : cJSON_CreateNull());
		cJSON_AddBoolToObject(j, "namespaces", !l->s.no_namespaces);
		cJSON_AddNumberToObject(j, "started", started);
		ctx_show_json(c, j);
		cJSON_Delete(j);
	} else {
		int some = started && started <= l->s.nodes;
		if (started && geteuid() == 0)
			fputs("jobctl: you are root, so the jobs of this cluster run as root; an ordinary user's own "
			      "cluster "
			      "runs them as that user\n",
			      stderr);
		printf("%s: hearthd on http://127.0.0.1:%u and %s; %s%s%sdata in %s\n", started ? "up" : "already up",
		       l->s.port, text, some ? "started: " : "", some ? names : "", some ? "; " : "", l->dir);
	}
	free(url);
	free(text);
	free(names);
}

static int exec_up(struct ctx *c)
{
	struct local l = {.dir = local_dir(), .port_chosen = args_has(&c->args, "port")};
	struct local_settings before;
	int rc = local_make_dirs(l.dir, &c->err);
	cleanup_close int lock = rc ? -1 : local_lock(l.dir, &c->err);
	if (!rc && lock < 0)
		rc = -1;
	int known = local_settings_load(l.dir, &before);
	local_settings_load(l.dir, &l.s);
	snprintf(l.hearthd.name, sizeof(l.hearthd.name), "hearthd");
	for (unsigned i = 0; i < LOCAL_NODES_MAX; i++) {
		l.nodes[i].index = i;
		snprintf(l.nodes[i].name, sizeof(l.nodes[i].name), "node-%u", i + 1);
	}
	if (!rc)
		rc = local_settings_options(l.dir, &c->args, &l.s, &c->err);
	l.grown = known && l.s.nodes > before.nodes;
	if (!rc) {
		rc = start_all(&l, &c->err);
		/* Settings with which no agent could start are not stored. */
		if (rc && !any_agent_up(&l) && (!known || local_settings_save(l.dir, &before, NULL)))
			local_settings_forget(l.dir);
	}
	if (!rc)
		report_up(c, &l);
	if (!rc)
		report_nodes(&l);
	if (!rc)
		warn_other_url();
	cJSON_Delete(l.was);
	local_settings_fini(&before);
	local_settings_fini(&l.s);
	free(l.dir);
	return rc;
}

struct status {
	const struct local *l;
	cJSON *out;
};

static int status_one(const char *name, void *arg)
{
	struct status *s = arg;
	cJSON_AddBoolToObject(s->out, name, local_is_up(s->l->dir, name));
	return 0;
}

static int exec_status(struct ctx *c)
{
	struct local l = {.dir = local_dir()};
	struct status s = {.l = &l, .out = cJSON_CreateObject()};
	char *run = xasprintf("%s/run", l.dir);
	if (!access(run, F_OK))
		fs_each(run, status_one, &s, NULL);
	int up = 0;
	const cJSON *m;
	cJSON_ArrayForEach (m, s.out) {
		up |= cJSON_IsTrue(m);
		if (!c->json)
			printf("%-10s %s\n", m->string, cJSON_IsTrue(m) ? "up" : "not running");
	}
	if (!ctx_show_json(c, s.out) && !s.out->child)
		puts("no local cluster runs; start one: jobctl local up");
	cJSON_Delete(s.out);
	free(run);
	free(l.dir);
	return up ? EXIT_OK : EXIT_JOB_FAILED;
}

static const struct arg_opt up_opts[] = {
    {"nodes", 'n', "N", "Start N agents (default 2)"},
    {"fake-gpus", 0, "N|FILE", "Let agents pretend to have GPUs: N each, or those in FILE"},
    {"no-namespaces", 0, NULL, "Give jobs this machine's /tmp and /dev/shm, and no /opt/ml"},
    {"port", 'p', "PORT", "Let hearthd listen on 127.0.0.1:PORT (default 7070 or the next free port)"},
    {NULL, 0, NULL, NULL}};
static const struct arg_opt down_opts[] = {{"yes", 'y', NULL, "Stop jobs without asking"},
                                           {NULL, 0, NULL, NULL}};

const struct verb verbs_local[] = {
    {"local up", "", "Start a cluster on this machine", up_opts, 0, 0, exec_up},
    {"local down", "", "Stop the local cluster and its jobs; keep its data", down_opts, 0, 0,
     local_exec_down},
    {"local status", "", "Show which programs of the local cluster run", NULL, 0, 0, exec_status},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
