/*
 * main: arguments of hearth-agent, defaults, signals. Everything else is in the parts.
 */
#include <curl/curl.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <net/if.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "agent/agent_core.h"
#include "agent/base/priority.h"
#include "agent/base/user.h"
#include "agent/control/join.h"
#include "agent/control/peerport.h"
#include "agent/control/retire.h"
#include "agent/endall.h"
#include "agent/machine/net.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/os/fsutil.h"

#define NAME_SHOWN      24 /* characters of the node's name in RUN: paths of sockets are short */
#define JOIN_RETRY_S    60
#define SLOW_TURN_US    20000
#define CHECKPOINT_RATE (500u * 1024 * 1024)
#define STORE_LIMIT     (64ull * 1024 * 1024 * 1024)
#define MIN_UID         1000 /* where accounts of people begin */

enum {
	OPT_FIRST = 1000,
	OPT_CONTROLLER,
	OPT_DATA,
	OPT_JOIN,
	OPT_JOIN_FILE,
	OPT_JOIN_WAIT,
	OPT_NAME,
	OPT_ADDRESS,
	OPT_INTERFACE,
	OPT_FABRIC,
	OPT_PEER_PORT,
	OPT_PORTS,
	OPT_TYPE,
	OPT_PRICE,
	OPT_LABELS,
	OPT_SLOTS,
	OPT_KMSG,
	OPT_FAKE_GPUS,
	OPT_RUN,
	OPT_LOG_LEVEL,
	OPT_LOG_MAX,
	OPT_CKPT_RATE,
	OPT_CKPT_STORE,
	OPT_HELD_LIMIT,
	OPT_WARM_CACHE,
	OPT_LIBEXEC,
	OPT_NO_NAMESPACES,
	OPT_ALLOW_SETUID,
	OPT_CORE_FILES,
	OPT_MIN_UID,
	OPT_ALLOW_ROOT,
	OPT_END,
	OPT_VERSION,
	OPT_HELP
};

static const struct {
	const char *name, *arg, *help;
	int id;
} options[] = {
    {"controller", "URL", "address of hearthd, http(s)://HOST:PORT", OPT_CONTROLLER},
    {"data", "DIR", "folder for the agent's files", OPT_DATA},
    {"join-file", "FILE", "file with the one-time token for the first start (or HEARTH_JOIN_TOKEN=...)",
     OPT_JOIN_FILE},
    {"join", "-", "read that token from standard input", OPT_JOIN},
    {"join-wait", "S", "seconds that the first start waits for hearthd (default: 60)", OPT_JOIN_WAIT},
    {"name", "NAME", "name of this node (default: the host name)", OPT_NAME},
    {"address", "IP", "address at which other nodes reach this one (default: the one towards hearthd)",
     OPT_ADDRESS},
    {"interface", "IF", "network interface for ranks (default: the one with that address)", OPT_INTERFACE},
    {"fabric-interface", "IF", "interface of a faster network", OPT_FABRIC},
    {"peer-port", "P", "port for other agents (default: the last one, or any)", OPT_PEER_PORT},
    {"ports", "LO-HI", "ports for jobs (default: those that hearthd names)", OPT_PORTS},
    {"instance-type", "T", "kind of machine, for resources.instance_type", OPT_TYPE},
    {"price", "USD", "price of this node per hour", OPT_PRICE},
    {"labels", "K=V,...", "labels; switch=NAME and rack=NAME give the node's place", OPT_LABELS},
    {"slots", "N", "number of CPU slots (default: the CPUs that this process may use)", OPT_SLOTS},
    {"kmsg", "PATH", "kernel log (default: /dev/kmsg)", OPT_KMSG},
    {"fake-gpus", "N|FILE", "invent GPUs, for tests", OPT_FAKE_GPUS},
    {"run", "DIR", "folder for volatile files (default: /run/hearth/NAME, or below XDG_RUNTIME_DIR)",
     OPT_RUN},
    {"log-max", "SIZE", "greatest log of one stream that waits on this node (default: 1GiB)", OPT_LOG_MAX},
    {"checkpoint-rate", "SIZE", "bytes a second of each copy of a checkpoint; 0: no limit (default: 500MiB)",
     OPT_CKPT_RATE},
    {"checkpoint-store", "SIZE",
     "greatest checkpoint that is copied to hearthd's store; 0: none is (default: 64GiB)", OPT_CKPT_STORE},
    {"held-limit", "SIZE", "greatest size of held checkpoints on this node (default: a quarter of the disk)",
     OPT_HELD_LIMIT},
    {"warm-cache", "SIZE", "greatest cache folder of one warm pool (default: a tenth of the disk)",
     OPT_WARM_CACHE},
    {"libexec", "DIR", "folder of hearth-shim, hearth-files and the other small programs", OPT_LIBEXEC},
    {"no-namespaces", NULL, "give jobs the host's /tmp and /dev/shm, and no /opt/ml", OPT_NO_NAMESPACES},
    {"allow-setuid", NULL, "let set-uid programs give rights to processes of jobs", OPT_ALLOW_SETUID},
    {"core-files", NULL, "let processes of jobs write core files, which hold their tokens", OPT_CORE_FILES},
    {"min-uid", "N", "as root: refuse jobs of accounts below this uid (default: 1000)", OPT_MIN_UID},
    {"allow-root", NULL, "as root: run jobs as root, too", OPT_ALLOW_ROOT},
    {"end-launches", NULL, "end this node's launches, list them, and exit (no agent may run)", OPT_END},
    {"log-level", "L", "debug, info, warn or error", OPT_LOG_LEVEL},
    {"version", NULL, "print the version", OPT_VERSION},
    {"help", NULL, "print this help", OPT_HELP},
};
#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

struct arguments {
	struct agent_config c;
	char *join; /* the token */
	char *join_file;
	int join_stdin;
	int join_word; /* --join has a token as its argument, as units of older agents do */
	uint32_t join_wait_s;
};

static void print_usage(FILE *to)
{
	fputs("usage: hearth-agent --controller URL --data DIR [OPTION...]\n\n", to);
	for (size_t i = 0; i < N_OPTIONS; i++)
		fprintf(to, "  --%s%s%-*s %s\n", options[i].name, options[i].arg ? " " : "",
		        (int)(26 - strlen(options[i].name) - (options[i].arg ? 1 : 0)),
		        options[i].arg ? options[i].arg : "", options[i].help);
}

static int bad_value(const char *option, const char *value, const char *want)
{
	fprintf(stderr, "hearth-agent: --%s %s: %s\n", option, value, want);
	return -1;
}

/* ---- values ----------------------------------------------------------------------------------------------
 */

static int parse_u32(const char *s, uint32_t max, uint32_t *out)
{
	uint64_t v;

	if (str_parse_u64(s, &v) < 0 || v > max)
		return -1;
	*out = (uint32_t)v;
	return 0;
}

static int parse_ports(const char *s, struct agent_config *c)
{
	const char *dash = strchr(s, '-');
	cleanup_free char *lo = dash ? xstrndup(s, (size_t)(dash - s)) : NULL;

	if (!dash || parse_u32(lo, 65535, &c->port_lo) < 0 || parse_u32(dash + 1, 65535, &c->port_hi) < 0 ||
	    c->port_lo == 0 || c->port_lo > c->port_hi)
		return -1;
	return 0;
}

static int parse_labels(const char *s, struct strv *out)
{
	cleanup_free char *copy = xstrdup(s);
	char *save = NULL;

	for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		if (word[0] == '=' || str_has_control(word))
			return -1;
		strv_add(out, word);
	}
	return 0;
}

static int parse_price(const char *s, double *out)
{
	char *end;

	*out = strtod(s, &end);
	return *s && !*end && *out >= 0 && *out < 1e9 ? 0 : -1;
}

static void set_str(char **to, const char *value)
{
	free(*to);
	*to = xstrdup(value);
}

/* Every account can read the arguments of every program. The text does not repeat the token. A node that has
 * joined needs no token, and its start line may be older than this rule: an upgrade must not end its ranks.
 */
static int check_join_word(const struct arguments *a)
{
	if (!a->join_word)
		return 0;
	if (a->c.alone || join_is_member(a->c.data_dir)) {
		log_warn("event=join_word_ignored text=\"--join takes no token; this node has joined, so remove "
		         "--join and the token from the agent's start line\"");
		return 0;
	}
	fputs("hearth-agent: --join takes no token, because all users of this machine can read arguments; write "
	      "the token to a file that only you can read and give --join-file FILE, or pipe it to --join -\n",
	      stderr);
	return -1;
}

/* 0, -1 said why, 1 done (help, version). */
static int set_option(struct arguments *a, int id, const char *name, const char *v)
{
	struct agent_config *c = &a->c;
	enum log_level level;
	struct err e;

	switch (id) {
	case OPT_CONTROLLER:
		set_str(&c->controller, v);
		return strncmp(v, "http://", 7) != 0 && strncmp(v, "https://", 8) != 0
		           ? bad_value(name, v, "must be http://HOST:PORT or https://HOST:PORT")
		           : 0;
	case OPT_DATA:
		set_str(&c->data_dir, v);
		return 0;
	case OPT_JOIN:
		a->join_stdin = strcmp(v, "-") == 0;
		a->join_word = !a->join_stdin;
		return 0;
	case OPT_JOIN_FILE:
		set_str(&a->join_file, v);
		return 0;
	case OPT_JOIN_WAIT:
		return parse_u32(v, 86400, &a->join_wait_s) < 0 ? bad_value(name, v, "must be a number of seconds")
		                                                : 0;
	case OPT_NAME:
		set_str(&c->node, v);
		return str_check_name(v, 63, "node name", &e) < 0 ? bad_value(name, v, e.text) : 0;
	case OPT_ADDRESS:
		set_str(&c->address, v);
		return 0;
	case OPT_INTERFACE:
		set_str(&c->interface_name, v);
		return 0;
	case OPT_FABRIC:
		set_str(&c->fabric_interface, v);
		return 0;
	case OPT_PEER_PORT:
		return parse_u32(v, 65535, &c->peer_port) < 0 ? bad_value(name, v, "a port is 0 to 65535") : 0;
	case OPT_PORTS:
		return parse_ports(v, c) < 0 ? bad_value(name, v, "must be LO-HI, for example 20000-29999") : 0;
	case OPT_TYPE:
		set_str(&c->instance_type, v);
		return str_check_name(v, 63, "instance type", &e) < 0 ? bad_value(name, v, e.text) : 0;
	case OPT_PRICE:
		return parse_price(v, &c->price_per_hour) < 0 ? bad_value(name, v, "must be a number") : 0;
	case OPT_LABELS:
		return parse_labels(v, &c->labels) < 0 ? bad_value(name, v, "must be NAME=VALUE,...") : 0;
	case OPT_SLOTS:
		return parse_u32(v, 65536, &c->slots) < 0 ? bad_value(name, v, "must be a number up to 65536") : 0;
	case OPT_KMSG:
		set_str(&c->kmsg, v);
		return 0;
	case OPT_FAKE_GPUS:
		set_str(&c->fake_gpus, v);
		return 0;
	case OPT_RUN:
		set_str(&c->run_dir, v);
		return v[0] == '/' ? 0 : bad_value(name, v, "must be an absolute path");
	case OPT_LOG_MAX:
		return str_parse_size(v, &c->log_max_bytes, &e) < 0 ? bad_value(name, v, e.text) : 0;
	case OPT_CKPT_RATE:
		return str_parse_size(v, &c->checkpoint_rate, &e) < 0 ? bad_value(name, v, e.text) : 0;
	case OPT_CKPT_STORE:
		return str_parse_size(v, &c->store_limit, &e) < 0 ? bad_value(name, v, e.text) : 0;
	case OPT_HELD_LIMIT:
		return str_parse_size(v, &c->held_limit, &e) < 0 ? bad_value(name, v, e.text) : 0;
	case OPT_WARM_CACHE:
		return str_parse_size(v, &c->warm_cache_limit, &e) < 0 ? bad_value(name, v, e.text) : 0;
	case OPT_LIBEXEC:
		set_str(&c->libexec_dir, v);
		return 0;
	case OPT_NO_NAMESPACES:
		c->no_namespaces = 1;
		return 0;
	case OPT_ALLOW_SETUID:
		c->allow_setuid = 1;
		return 0;
	case OPT_CORE_FILES:
		c->core_files = 1;
		return 0;
	case OPT_MIN_UID:
		return parse_u32(v, UINT32_MAX - 1, &c->min_uid) < 0 ? bad_value(name, v, "must be a uid") : 0;
	case OPT_ALLOW_ROOT:
		c->allow_root = 1;
		return 0;
	case OPT_END:
		c->alone = 1;
		return 0;
	case OPT_LOG_LEVEL:
		if (log_level_parse(v, &level) < 0)
			return bad_value(name, v, "must be debug, info, warn or error");
		log_init("hearth-agent", level);
		return 0;
	case OPT_VERSION:
		puts("hearth-agent " PACKAGE_VERSION);
		return 1;
	default:
		print_usage(stdout);
		return 1;
	}
}

static int parse_arguments(struct arguments *a, int argc, char **argv)
{
	struct option longs[N_OPTIONS + 1] = {0};
	int at = 0, id, rc;

	for (size_t i = 0; i < N_OPTIONS; i++)
		longs[i] = (struct option){options[i].name, options[i].arg ? required_argument : no_argument, NULL,
		                           options[i].id};
	while ((id = getopt_long(argc, argv, "", longs, &at)) != -1) {
		if (id < OPT_FIRST)
			return -1;
		rc = set_option(a, id, longs[at].name, optarg);
		if (rc)
			return rc;
	}
	if (optind < argc)
		return bad_value("", argv[optind], "an argument without an option is not expected");
	if ((a->c.controller || a->c.alone) && a->c.data_dir)
		return 0;
	fprintf(stderr,
	        "hearth-agent: %s%s%s missing: hearth-agent --controller http(s)://HOST:PORT --data DIR\n"
	        "The first start also needs --join-file FILE with a token of `jobctl token create --join`. All "
	        "options: --help\n",
	        a->c.controller ? "" : "--controller", a->c.controller || a->c.data_dir ? "" : " and ",
	        a->c.data_dir     ? " is"
	        : a->c.controller ? "--data is"
	                          : "--data are");
	return -1;
}

/* ---- defaults --------------------------------------------------------------------------------------- */

static char *host_of(const char *url)
{
	const char *at = strstr(url, "://") + 3;
	size_t n = strcspn(at, ":/");

	return xstrndup(at, n);
}

static int default_name(struct agent_config *c)
{
	char host[HOST_NAME_MAX + 1] = "";
	struct err e;

	if (!c->node)
		c->node = join_stored_name(c->data_dir);
	if (c->node)
		return 0;
	gethostname(host, sizeof(host) - 1);
	c->node = xstrdup(host);
	return str_check_name(host, 63, "node name", &e) < 0
	           ? bad_value("name", host, "the host name cannot be a node name; give one")
	           : 0;
}

static void default_address(struct agent_config *c)
{
	cleanup_free char *host = c->controller ? host_of(c->controller) : NULL;

	if (c->address || !host)
		return;
	if (c->interface_name)
		c->address = net_address_of(c->interface_name);
	if (!c->address)
		c->address = net_address_towards(host);
}

/* Returns the RUN of the last agent of this folder; NULL: unknown. */
static char *stored_run(const char *data_dir)
{
	cleanup_free char *path = xasprintf("%s/run_dir", data_dir), *text = NULL;

	if (fs_read_file(path, PATH_MAX, &text, NULL, NULL) < 0 || text[0] != '/')
		return NULL;
	return xstrndup(text, strcspn(text, "\n"));
}

static void default_run(struct agent_config *c)
{
	cleanup_free char *who = xasprintf("%s\n%s", c->node, c->data_dir);
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	char digest[HASH_HEX_SIZE];

	if (c->run_dir || (c->alone && (c->run_dir = stored_run(c->data_dir))))
		return;
	hash_hex(who, strlen(who), digest);
	if (geteuid() == 0)
		c->run_dir = xasprintf("/run/hearth/%.*s-%.6s", NAME_SHOWN, c->node, digest);
	else if (xdg && xdg[0] == '/' && strlen(xdg) < 40 && access(xdg, W_OK) == 0)
		c->run_dir = xasprintf("%s/hearth/%.*s-%.6s", xdg, NAME_SHOWN, c->node, digest);
	else
		c->run_dir = xasprintf("/tmp/hearth-%u/%.*s-%.6s", (unsigned)geteuid(), NAME_SHOWN, c->node, digest);
}

/* Beside the agent in a build tree; else relative to where it is installed, so that a tree made with DESTDIR
 * or moved as a whole works; else where it was configured to be. */
static void default_libexec(struct agent_config *c)
{
	static const char *const from_self[] = {"", "/../libexec/hearth"};
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (c->libexec_dir)
		return;
	self[n > 0 ? n : 0] = '\0';
	if (strrchr(self, '/'))
		*strrchr(self, '/') = '\0';
	for (size_t i = 0; self[0] && i < sizeof(from_self) / sizeof(from_self[0]); i++) {
		cleanup_free char *dir = xasprintf("%s%s", self, from_self[i]);
		cleanup_free char *rank = xasprintf("%s/hearth-rank", dir);

		if (access(rank, X_OK) == 0 && (c->libexec_dir = realpath(dir, NULL)))
			return;
	}
	c->libexec_dir = xstrdup(HEARTH_LIBEXEC);
}

static int absolute_data(struct agent_config *c)
{
	struct err e;
	char *real;

	if (!c->alone && fs_mkdir_p(c->data_dir, 0711, &e) < 0)
		return bad_value("data", c->data_dir, e.text);
	real = realpath(c->data_dir, NULL);
	if (!real)
		return bad_value("data", c->data_dir, strerror(errno));
	free(c->data_dir);
	c->data_dir = real;
	return 0;
}

static int fill_defaults(struct agent_config *c)
{
	if (absolute_data(c) < 0 || default_name(c) < 0)
		return -1;
	/* Every launch would fail on it, much later and with words of NCCL's. */
	if (c->interface_name && !if_nametoindex(c->interface_name))
		return bad_value("interface", c->interface_name, "there is no such network interface");
	if (c->fabric_interface && !if_nametoindex(c->fabric_interface))
		return bad_value("fabric-interface", c->fabric_interface, "there is no such network interface");
	default_address(c);
	default_run(c);
	default_libexec(c);
	return 0;
}

/* ---- running ----------------------------------------------------------------------------------------------
 */

static void on_stop(int signo, void *arg)
{
	log_info("event=stopping signal=%s text=\"jobs go on\"", proc_signal_name(signo));
	loop_stop(arg);
}

enum outcome { RUN_STOPPED, RUN_FAILED, RUN_REMOVED };

static enum outcome run_agent(struct agent_config *c)
{
	struct loop *loop = loop_create();
	struct loop_signal *term = loop_signal_create(loop, SIGTERM, on_stop, loop);
	struct loop_signal *intr = loop_signal_create(loop, SIGINT, on_stop, loop);
	struct agent *a;
	enum outcome out = RUN_STOPPED;
	struct err e = {0};

	signal(SIGPIPE, SIG_IGN);
	priority_raise();
	a = agent_create(loop, c, &e);
	if (a) {
		log_info("event=started node=%s address=%s peer_port=%u run=%s data=%s root=%d", a->env.cfg.node,
		         a->env.cfg.address, peerport_number(a->peerport), a->env.cfg.run_dir, a->env.cfg.data_dir,
		         a->env.is_root);
		loop_set_slow_warn(loop, SLOW_TURN_US);
		loop_run(loop);
		if (retire_is_done(a->retire)) {
			join_leave(a->env.cfg.data_dir);
			out = RUN_REMOVED;
		} else if (a->retire) {
			out = RUN_FAILED;
		}
	} else {
		fprintf(stderr, "hearth-agent: %s\n", e.text);
		out = RUN_FAILED;
	}
	agent_destroy(a);
	loop_signal_destroy(term);
	loop_signal_destroy(intr);
	loop_destroy(loop);
	return out;
}

/* With a token it starts again as a node that never joined; hearthd refuses a token that was used before. */
static int handle_removal(char **argv, const char *token)
{
	if (token) {
		setenv("HEARTH_JOIN_TOKEN", token, 1); /* standard input was read already */
		log_info(
		    "event=join_again text=\"the node was removed; trying the token that this agent was given\"");
		execv("/proc/self/exe", argv);
		log_error("event=join_again reason=\"%s\"", strerror(errno));
	}
	fprintf(stderr,
	        "hearth-agent: this node was removed from its cluster, and the rest of its launches is gone; to "
	        "join again, get a token by `jobctl token create --join` and give it by --join-file FILE\n");
	return 1;
}

static void more_files(void)
{
	struct rlimit lim;

	/* Two descriptors a shim, some for logs. */
	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < lim.rlim_max) {
		lim.rlim_cur = lim.rlim_max < 65536 ? lim.rlim_max : 65536;
		setrlimit(RLIMIT_NOFILE, &lim);
	}
}

int main(int argc, char **argv)
{
	static struct arguments a = {.join_wait_s = JOIN_RETRY_S,
	                             .c.min_uid = MIN_UID,
	                             .c.store_limit = STORE_LIMIT,
	                             .c.checkpoint_rate =
	                                 CHECKPOINT_RATE}; /* the words in it are kept to the end */
	struct join_params j;
	struct join_source source;
	struct err e = {0};
	enum outcome out;
	int rc;

	log_init("hearth-agent", LOG_LVL_INFO);
	rc = parse_arguments(&a, argc, argv);
	if (rc)
		return rc < 0 ? 2 : 0;
	if (fill_defaults(&a.c) < 0 || check_join_word(&a) < 0)
		return 2;
	umask(022);
	more_files();
	if (a.c.alone)
		return endall_run(&a.c, stdout);
	source = (struct join_source){
	    .data_dir = a.c.data_dir, .file = a.join_file, .from_stdin = a.join_stdin, .wait_s = a.join_wait_s};
	if (join_read_token(&source, &a.join, &e) < 0) {
		fprintf(stderr, "hearth-agent: %s\n", e.text);
		return 1;
	}
	curl_global_init(CURL_GLOBAL_DEFAULT);
	j = (struct join_params){.url = a.c.controller,
	                         .data_dir = a.c.data_dir,
	                         .node = a.c.node,
	                         .token = a.join,
	                         .retry_s = a.join_wait_s};
	if (join_cluster(&j, &e) < 0) {
		fprintf(stderr, "hearth-agent: %s\n", e.text);
		return 1;
	}
	out = run_agent(&a.c);
	rc = out == RUN_REMOVED ? handle_removal(argv, a.join) : out == RUN_FAILED;
	free(a.join);
	free(a.join_file);
	curl_global_cleanup();
	return rc;
}
