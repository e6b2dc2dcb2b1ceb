/*
 * local: `jobctl local up|down|status`.
 *
 * Everything lives in $XDG_DATA_HOME/hearth/local (~/.local/share/hearth/local): hearthd/ and node-N/ are
 * data folders, log/ holds what the programs say, run/NAME the identity (boot id, pid, start time) of each.
 * Nothing is signalled but a process with that very identity. `up` may be called at any time: it starts what
 * is missing. `down` ends jobs first, then agents, then hearthd; data stays.
 */
#include "jobctl/local.h"

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/json.h"
#include "common/proc.h"
#include "common/strutil.h"
#include "common/xalloc.h"
#include "jobctl/jobctl.h"
#include "jobctl/print.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PORT_FIRST    7070
#define PORT_TRIES    100
#define START_S       30
#define NODES_MAX     16
#define MASTER_FIRST  10000u /* up to 29999: below the ports that the system gives out */
#define MASTER_SHARES 5u
#define MASTER_SHARE  4000u
#define CONFIG_MARK   "# Written by `jobctl local up`.\n"
#define DOWN_GRACE_S  10
#define STOP_S        60

struct local {
	char *dir;
	unsigned port;
	unsigned nodes;
	const char *fake_gpus;
	int no_namespaces;
};

static char *local_dir(void)
{
	const char *xdg = getenv("XDG_DATA_HOME");
	if (xdg && xdg[0] == '/')
		return xasprintf("%s/hearth/local", xdg);
	char *home = client_home(), *dir = xasprintf("%s/.local/share/hearth/local", home);
	free(home);
	return dir;
}

char *local_url(void)
{
	char *dir = local_dir(), *sock = xasprintf("%s/hearthd/hearthd.sock", dir), *url = NULL;
	if (!access(sock, F_OK))
		url = xasprintf("unix://%s", sock);
	free(sock);
	free(dir);
	return url;
}

static unsigned port_in(const char *dir)
{
	char *path = xasprintf("%s/port", dir), *text = NULL;
	size_t n;
	unsigned port = 0;
	if (!fs_read_file(path, 16, &text, &n, NULL))
		port = (unsigned)strtoul(text, NULL, 10);
	free(text);
	free(path);
	return port < 65536 ? port : 0;
}

char *local_http_url(const char *unix_url)
{
	char *mine = local_url(), *dir = local_dir(), *url = NULL;
	if (mine && !strcmp(mine, unix_url) && port_in(dir))
		url = xasprintf("http://127.0.0.1:%u", port_in(dir));
	free(mine);
	free(dir);
	return url;
}

/* ---- who runs ---- */

static int id_write(const struct local *l, const char *name, const struct proc_id *id, struct err *e)
{
	char *path = xasprintf("%s/run/%s", l->dir, name);
	char *text = xasprintf("%s %d %llu\n", id->boot_id, (int)id->pid, (unsigned long long)id->start_ticks);
	int rc = fs_replace(path, text, strlen(text), 0600, e);
	free(text);
	free(path);
	return rc;
}

static int id_read(const struct local *l, const char *name, struct proc_id *id)
{
	char *path = xasprintf("%s/run/%s", l->dir, name), *text = NULL;
	size_t n;
	int pid, rc = -1;
	unsigned long long ticks;
	memset(id, 0, sizeof(*id));
	if (!fs_read_file(path, 256, &text, &n, NULL) &&
	    sscanf(text, "%39s %d %llu", id->boot_id, &pid, &ticks) == 3) {
		id->pid = pid;
		id->start_ticks = ticks;
		rc = 0;
	}
	free(text);
	free(path);
	return rc;
}

static int is_up(const struct local *l, const char *name)
{
	struct proc_id id;
	return !id_read(l, name, &id) && proc_alive(&id, NULL) == 1;
}

/* ---- finding programs ---- */

static char *program(const char *build_path, const char *installed_path, struct err *e)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0) {
		err_sys(e, errno, "/proc/self/exe");
		return NULL;
	}
	self[n] = 0;
	char *dir = dirname(self);
	char *a = xasprintf("%s/../%s", dir, build_path), *b = xasprintf("%s/../%s", dir, installed_path);
	if (!access(a, X_OK)) {
		free(b);
		return a;
	}
	if (access(b, X_OK)) {
		err_set(e, ERR_NOT_FOUND, "neither %s nor %s is there; build or install Hearth first", a, b);
		free(b);
		b = NULL;
	}
	free(a);
	return b;
}

/* ---- starting ---- */

struct cpus {
	cpu_set_t set;
};

static int use_cpus(void *arg)
{
	const struct cpus *c = arg;
	return CPU_COUNT(&c->set) ? sched_setaffinity(0, sizeof(c->set), &c->set) : 0;
}

/* Agents of one machine share its CPUs fairly: each gets its own when there are enough. */
static void share_cpus(unsigned index, unsigned of, struct cpus *out)
{
	cpu_set_t all;
	CPU_ZERO(&out->set);
	if (sched_getaffinity(0, sizeof(all), &all) || (unsigned)CPU_COUNT(&all) < of)
		return;
	unsigned k = 0;
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &all) && k++ % of == index)
			CPU_SET(cpu, &out->set);
	}
}

static int start(const struct local *l, const char *name, const char *path, const struct strv *args,
                 struct cpus *cpus, struct err *e)
{
	extern char **environ;
	char *log = xasprintf("%s/log/%s.log", l->dir, name);
	cleanup_close int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0) {
		err_sys(e, errno, "%s", log);
		free(log);
		return -1;
	}
	free(log);
	struct proc_spawn s = {.path = path,
	                       .argv = args->v,
	                       .envp = environ,
	                       .cwd = "/",
	                       .stdin_fd = -1,
	                       .stdout_fd = fd,
	                       .stderr_fd = fd,
	                       .new_session = 1,
	                       .pre_exec = cpus ? use_cpus : NULL,
	                       .pre_exec_arg = cpus};
	pid_t pid;
	struct proc_id id;
	if (proc_spawn(&s, &pid, NULL, e) || proc_identify(pid, &id, e))
		return -1;
	return id_write(l, name, &id, e);
}

/* Last lines of a program's log, for the error when it does not start. */
static void show_log(const struct local *l, const char *name)
{
	char *path = xasprintf("%s/log/%s.log", l->dir, name), *text = NULL;
	size_t n;
	if (!fs_read_file(path, 64 * 1024 * 1024, &text, &n, NULL)) {
		size_t at = n > 1500 ? n - 1500 : 0;
		const char *nl = at ? strchr(text + at, '\n') : NULL;
		char *safe = print_safe(nl ? nl + 1 : text + at);
		fprintf(stderr, "%s", safe);
		free(safe);
	}
	fprintf(stderr, "(%s)\n", path);
	free(text);
	free(path);
}

static int port_free(unsigned port)
{
	cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;
	struct sockaddr_in a = {
	    .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	/* Listening tells what binding does not: SO_REUSEADDR lets two bind as long as none listens. */
	return fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) &&
	       !bind(fd, (struct sockaddr *)&a, sizeof(a)) && !listen(fd, 1);
}

/* The port of last time when it is free (agents know it), else the first free one. */
static int choose_port(struct local *l, unsigned wanted, struct err *e)
{
	unsigned old = port_in(l->dir);
	if (wanted && !port_free(wanted))
		return err_set(e, ERR_CONFLICT, "port %u is in use", wanted);
	l->port = wanted ? wanted : old && port_free(old) ? old : 0;
	for (unsigned p = PORT_FIRST; !l->port && p < PORT_FIRST + PORT_TRIES; p++) {
		if (port_free(p))
			l->port = p;
	}
	if (!l->port)
		return err_set(e, ERR_CONFLICT, "no free port from %u to %u; choose one: --port", PORT_FIRST,
		               PORT_FIRST + PORT_TRIES - 1);
	char number[16], *path = xasprintf("%s/port", l->dir);
	snprintf(number, sizeof(number), "%u\n", l->port);
	int rc = fs_write_atomic(path, number, strlen(number), 0600, e);
	free(path);
	return rc;
}

static struct client *local_client(const struct local *l, struct err *e)
{
	struct client_config cfg = {.url = xasprintf("unix://%s/hearthd/hearthd.sock", l->dir),
	                            .source = xstrdup("the local cluster"),
	                            .patience_s = 1};
	struct client *c = client_create(&cfg, e);
	client_config_fini(&cfg);
	return c;
}

/* fn until it says 1; -1 ends at once. Fails when the program ends or the deadline passes. */
static int wait_for(const struct local *l, const char *name, int (*fn)(const struct local *, const char *),
                    const char *what, struct err *e)
{
	uint64_t end = clock_boot_us(clock_real()) + (uint64_t)START_S * 1000000;
	for (;;) {
		if (fn(l, name) == 1)
			return 0;
		if (!is_up(l, name)) {
			show_log(l, name);
			return err_set(e, ERR_INTERNAL, "%s ended at its start; its last lines are above", name);
		}
		if (clock_boot_us(clock_real()) > end) {
			show_log(l, name);
			return err_set(e, ERR_TIMEOUT, "%s is not %s after %d s; its last lines are above", name, what,
			               START_S);
		}
		poll(NULL, 0, 20);
	}
}

static int hearthd_answers(const struct local *l, const char *name)
{
	(void)name;
	struct client *c = local_client(l, NULL);
	int rc = c && !client_call(c, "GET", "/nodes", NULL, NULL, NULL);
	client_destroy(c);
	return rc;
}

static int node_is_up(const struct local *l, const char *name)
{
	struct client *c = local_client(l, NULL);
	cJSON *answer = NULL;
	int up = 0;
	const cJSON *n;
	if (c && !client_call(c, "GET", "/nodes", NULL, &answer, NULL)) {
		cJSON_ArrayForEach (n, cJSON_GetObjectItemCaseSensitive(answer, "nodes"))
			up |= !strcmp(print_member(n, "name"), name) && !strcmp(print_member(n, "state"), "up");
	}
	cJSON_Delete(answer);
	client_destroy(c);
	return up;
}

static int start_hearthd(struct local *l, unsigned port, struct err *e)
{
	if (is_up(l, "hearthd")) {
		l->port = port_in(l->dir);
		if (port && port != l->port)
			return err_set(e, ERR_CONFLICT,
			               "hearthd is up already, on port %u; end it first: jobctl local down", l->port);
		return wait_for(l, "hearthd", hearthd_answers, "answering", e);
	}
	char *path = program("controller/hearthd", "sbin/hearthd", e);
	if (!path)
		return -1;
	struct strv args = {0};
	int rc = choose_port(l, port, e);
	if (!rc) {
		strv_add(&args, path);
		strv_add(&args, "--data");
		strv_addf(&args, "%s/hearthd", l->dir);
		strv_add(&args, "--listen");
		strv_addf(&args, "127.0.0.1:%u", l->port);
		rc = start(l, "hearthd", path, &args, NULL, e);
	}
	strv_fini(&args);
	free(path);
	return rc ? -1 : wait_for(l, "hearthd", hearthd_answers, "answering", e);
}

static int join_token(const struct local *l, char **token, struct err *e)
{
	struct client *c = local_client(l, e);
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

static int start_agent(const struct local *l, unsigned index, struct err *e)
{
	char name[32], *token = NULL;
	snprintf(name, sizeof(name), "node-%u", index + 1);
	if (is_up(l, name))
		return 0;
	char *path = program("agent/hearth-agent", "sbin/hearth-agent", e);
	if (!path)
		return -1;
	char *cert = xasprintf("%s/%s/agent.pem", l->dir, name);
	struct strv args = {0};
	struct cpus cpus;
	int rc = access(cert, F_OK) ? join_token(l, &token, e) : 0;
	if (!rc) {
		strv_add(&args, path);
		strv_add(&args, "--controller");
		strv_addf(&args, "http://127.0.0.1:%u", l->port);
		strv_add(&args, "--data");
		strv_addf(&args, "%s/%s", l->dir, name);
		strv_add(&args, "--name");
		strv_add(&args, name);
		strv_add(&args, "--address");
		strv_add(&args, "127.0.0.1");
		/* Ranges of their own: both ends of MASTER_PORT are on this machine, perhaps also another local
		 * cluster. */
		unsigned lo =
		    MASTER_FIRST + l->port % MASTER_SHARES * MASTER_SHARE + index * (MASTER_SHARE / NODES_MAX);
		strv_add(&args, "--ports");
		strv_addf(&args, "%u-%u", lo, lo + MASTER_SHARE / NODES_MAX - 1);
		if (l->fake_gpus) {
			strv_add(&args, "--fake-gpus");
			strv_add(&args, l->fake_gpus);
		}
		if (l->no_namespaces)
			strv_add(&args, "--no-namespaces");
		share_cpus(index, l->nodes, &cpus);
		/* Not as an argument: those can be read by every account of the machine. */
		if (token)
			setenv("HEARTH_JOIN_TOKEN", token, 1);
		rc = start(l, name, path, &args, &cpus, e);
		unsetenv("HEARTH_JOIN_TOKEN");
	}
	strv_fini(&args);
	free(token);
	free(cert);
	free(path);
	return rc;
}

static int write_config(const struct local *l, struct err *e)
{
	char *path = client_config_path(), *old = NULL;
	size_t n;
	int rc = 0;
	if (!fs_read_file(path, 65536, &old, &n, NULL) && strncmp(old, CONFIG_MARK, strlen(CONFIG_MARK)) != 0) {
		fprintf(stderr,
		        "%s is another cluster's and stays. For this one: export "
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

static int make_dirs(const struct local *l, struct err *e)
{
	static const char *const subs[] = {"run", "log", "hearthd", NULL};
	for (const char *const *s = subs; *s; s++) {
		char *path = xasprintf("%s/%s", l->dir, *s);
		int rc = fs_mkdir_p(path, 0700, e);
		free(path);
		if (rc)
			return -1;
	}
	return 0;
}

static int lock_local(const struct local *l, struct err *e)
{
	char *path = xasprintf("%s/lock", l->dir);
	int fd = fs_lock(path, e);
	free(path);
	return fd;
}

static int number_opt(struct ctx *c, const char *name, unsigned max, unsigned *out)
{
	const char *s = args_get(&c->args, name);
	uint64_t n;
	if (!s)
		return 0;
	if (str_parse_u64(s, &n) || n < 1 || n > max)
		return ctx_fail(c, ERR_INVALID, "--%s '%s': expected a number from 1 to %u", name, s, max);
	*out = (unsigned)n;
	return 0;
}

/* Another address in the environment would win over what was just written. */
static void warn_other_url(void)
{
	const char *env = getenv("HEARTH_URL");
	char *mine = local_url();
	if (env && *env && mine && strcmp(env, mine) != 0)
		fprintf(stderr,
		        "jobctl: HEARTH_URL is %s and stays in force; for this cluster: export HEARTH_URL=%s\n", env,
		        mine);
	free(mine);
}

static int exec_up(struct ctx *c)
{
	struct local l = {.dir = local_dir(),
	                  .nodes = 2,
	                  .fake_gpus = args_get(&c->args, "fake-gpus"),
	                  .no_namespaces = args_has(&c->args, "no-namespaces")};
	unsigned port = 0, started = 0;
	char name[32];
	int rc = number_opt(c, "nodes", NODES_MAX, &l.nodes) || number_opt(c, "port", 65535, &port)
	             ? -1
	             : make_dirs(&l, &c->err);
	cleanup_close int lock = rc ? -1 : lock_local(&l, &c->err);
	if (!rc && lock < 0)
		rc = err_wrap(&c->err, "another `jobctl local` is at work");
	if (!rc) {
		started += !is_up(&l, "hearthd");
		rc = start_hearthd(&l, port, &c->err);
	}
	for (unsigned i = 0; !rc && i < l.nodes; i++) {
		snprintf(name, sizeof(name), "node-%u", i + 1);
		started += !is_up(&l, name);
		rc = start_agent(&l, i, &c->err);
	}
	for (unsigned i = 0; !rc && i < l.nodes; i++) {
		snprintf(name, sizeof(name), "node-%u", i + 1);
		rc = wait_for(&l, name, node_is_up, "up", &c->err);
	}
	if (!rc)
		rc = write_config(&l, &c->err);
	if (!rc && c->json) {
		cJSON *j = cJSON_CreateObject();
		char *url = local_url();
		cJSON_AddStringToObject(j, "url", url ? url : "");
		cJSON_AddNumberToObject(j, "port", l.port);
		cJSON_AddNumberToObject(j, "nodes", l.nodes);
		cJSON_AddNumberToObject(j, "started", started);
		ctx_show_json(c, j);
		free(url);
		cJSON_Delete(j);
	} else if (!rc) {
		printf("%s: hearthd on http://127.0.0.1:%u and %u agent%s; data in %s\n",
		       started ? "up" : "already up", l.port, l.nodes, l.nodes == 1 ? "" : "s", l.dir);
	}
	if (!rc)
		warn_other_url();
	free(l.dir);
	return rc;
}

/* ---- down ---- */

static void end_process(const struct local *l, const char *name)
{
	struct proc_id id;
	if (id_read(l, name, &id))
		return;
	cleanup_close int fd = proc_open(&id, NULL);
	if (fd >= 0) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		proc_signal(fd, SIGTERM, NULL);
		if (poll(&p, 1, DOWN_GRACE_S * 1000) == 0) {
			fprintf(stderr, "jobctl: %s does not end; it is killed\n", name);
			proc_signal(fd, SIGKILL, NULL);
			poll(&p, 1, 5000);
		}
	}
	char *path = xasprintf("%s/run/%s", l->dir, name);
	unlink(path);
	free(path);
}

static void stop_one(struct client *c, const cJSON *job)
{
	char *path = xasprintf("/jobs/%s/stop", print_member(job, "id"));
	cJSON *body = cJSON_CreateObject();
	cJSON_AddNumberToObject(body, "grace_s", 5);
	client_call(c, "POST", path, body, NULL, NULL);
	cJSON_Delete(body);
	free(path);
}

/* Every job that has not ended is stopped, and waited for. Returns how many are left, -1 unknown. */
static int stop_jobs(const struct local *l)
{
	uint64_t end = clock_boot_us(clock_real()) + STOP_S * 1000000ull;
	struct client *c = local_client(l, NULL);
	int n = -1, told = 0;
	while (c) {
		cJSON *answer = NULL;
		const cJSON *j, *jobs;
		if (client_call(c, "GET", "/jobs?status=active&limit=1000", NULL, &answer, NULL)) {
			n = -1;
			break;
		}
		jobs = jget(answer, "jobs");
		n = cJSON_GetArraySize(jobs);
		if (n && !told)
			fprintf(stderr, "stopping %d job%s\n", n, n == 1 ? "" : "s");
		cJSON_ArrayForEach (j, jobs) {
			if (!told && (!jtext(j, "wanted") || !*jtext(j, "wanted")))
				stop_one(c, j);
		}
		/* A page holds at most a thousand: those behind it get their turn. */
		told = n > 0 && n < 1000;
		cJSON_Delete(answer);
		if (!n || clock_boot_us(clock_real()) > end)
			break;
		poll(NULL, 0, 100);
	}
	client_destroy(c);
	return n;
}

static int end_agent(const char *name, void *arg)
{
	if (!strncmp(name, "node-", 5))
		end_process(arg, name);
	return 0;
}

static int exec_down(struct ctx *c)
{
	struct local l = {.dir = local_dir()};
	int rc = make_dirs(&l, &c->err);
	cleanup_close int lock = rc ? -1 : lock_local(&l, &c->err);
	if (!rc && lock < 0)
		rc = err_wrap(&c->err, "another `jobctl local` is at work");
	if (!rc) {
		int any = is_up(&l, "hearthd"), left = any ? stop_jobs(&l) : 0;
		if (left)
			fprintf(stderr, "jobctl: %s; what runs goes on, and `jobctl local up` takes it in again\n",
			        left < 0 ? "hearthd does not answer, so jobs could not be stopped"
			                 : "some jobs did not end");
		char *run = xasprintf("%s/run", l.dir);
		fs_each(run, end_agent, &l, NULL);
		end_process(&l, "hearthd");
		free(run);
		if (!c->json) {
			printf("%s; data stays in %s\n", any ? "down" : "it was not up", l.dir);
		} else {
			cJSON *j = cJSON_CreateObject();
			cJSON_AddBoolToObject(j, "was_up", any);
			cJSON_AddNumberToObject(j, "jobs_left", left);
			ctx_print_json(j);
			cJSON_Delete(j);
		}
	}
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
	cJSON_AddBoolToObject(s->out, name, is_up(s->l, name));
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
		puts("not up; start it: jobctl local up");
	cJSON_Delete(s.out);
	free(run);
	free(l.dir);
	return up ? EXIT_OK : EXIT_JOB_FAILED;
}

static const struct arg_opt up_opts[] = {
    {"nodes", 'n', "N", "so many agents (default 2)"},
    {"fake-gpus", 0, "N|FILE", "agents pretend to have GPUs; for trying things out"},
    {"no-namespaces", 0, NULL, "jobs get the /tmp and /dev/shm of this machine, and no /opt/ml"},
    {"port", 'p', "PORT", "of hearthd on 127.0.0.1 (default 7070 or the next free)"},
    {NULL, 0, NULL, NULL}};

const struct verb verbs_local[] = {
    {"local up", "", "start a cluster on this machine", up_opts, 0, 0, exec_up},
    {"local down", "", "end it; data stays", NULL, 0, 0, exec_down},
    {"local status", "", "what of it runs", NULL, 0, 0, exec_status},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
