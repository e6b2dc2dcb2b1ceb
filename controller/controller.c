/*
 * controller: the parts of hearthd and how they are joined.
 *
 * They are made in this order and ended in the reverse: lock on DATA, loop, store, certificate authority,
 * core with the content of the store, server (from then on inputs come), then the loop. The end begins with
 * the server (no more inputs; open requests get 503), then the store (writes what waits), then the core.
 */
#include "controller/controller.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/lease_times.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/net/tls.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "common/tree/steps.h"
#include "controller/core.h"
#include "controller/files/blobs/blobstore.h"
#include "controller/files/datafs.h"
#include "controller/files/disk_space.h"
#include "controller/files/rules_file.h"
#include "controller/http/accounts.h"
#include "controller/incarnation.h"
#include "controller/maintain.h"
#include "controller/record/event.h"
#include "controller/server.h"
#include "controller/settings.h"
#include "store/read/find.h"
#include "store/read/load.h"
#include "store/read/retain.h"
#include "store/read/verify.h"
#include "store/write/backup.h"

#define CERT_DAYS               3650
#define SLOW_TURN_US            50000
#define STOP_WAIT_US            10000000ull /* for the store's open transactions when hearthd stops */
#define CHECKPOINT_MANIFEST_MAX (1024u * 1024)

struct controller {
	struct conf *conf;
	char *data_dir, *db_path, *listen, *url, *cluster, *owner;
	uint8_t backfill; /* enum core_backfill */
	struct accounts *accounts;
	int lock_fd;
	struct loop *loop;
	struct loop_timer *timer;
	struct loop_signal *term, *intr;
	struct store *store;
	struct store_reader *reader;
	struct tls_ca *ca;
	struct blobstore *blobs;
	struct core *core;
	struct server *server;
	struct maintain *maintain;
	struct disk_space *disk;
	struct rules_file *rules; /* NULL: no such file is set */
	struct incarnation incarnation;
	int stopping;
};

/* ---- what the core may do -------------------------------------------------------------------- */

static void io_random(void *p, size_t n, void *arg)
{
	(void)arg;
	random_bytes(p, n);
}

static void io_send(const char *node, uint64_t session, uint16_t type, const void *msg, uint64_t id,
                    void *arg)
{
	struct controller *c = arg;

	server_send_agent(c->server, node, session, type, msg, id);
}

static void io_close_agent(const char *node, uint64_t session, const char *why, void *arg)
{
	struct controller *c = arg;

	server_close_agent(c->server, node, session, why);
}

static int io_commit(struct store_txn *t, store_done_fn done, void *done_arg, void *arg, struct err *e)
{
	struct controller *c = arg;

	if (FAULT("controller.commit"))
		return err_set(e, ERR_BUSY, "the store's queue is full: injected");
	return store_commit(c->store, t, done, done_arg, e);
}

static void io_notice(const struct event_row *ev, void *arg)
{
	struct controller *c = arg;

	server_notice(c->server, ev);
}

static char *io_sign_csr(const char *csr, const char *node, void *arg, struct err *e)
{
	struct controller *c = arg;

	return tls_ca_sign_csr(c->ca, csr, node, CERT_DAYS, e);
}

static const char *io_ca_pem(void *arg)
{
	struct controller *c = arg;

	return tls_ca_pem(c->ca);
}

static const char *io_ca_fingerprint(void *arg)
{
	struct controller *c = arg;

	return tls_ca_fingerprint(c->ca);
}

static void io_remove_data(uint64_t job, void *arg)
{
	struct controller *c = arg;

	server_remove_data(c->server, job);
}

static int io_artifact(uint64_t job, const char *kind, char *out, size_t out_size, void *arg, struct err *e)
{
	struct controller *c = arg;
	struct artifact_row row = {0};
	const char *what;
	int rc = 0;

	if (store_artifact_get(c->reader, job, kind, &row, e) < 0)
		return -1;
	what = row.digest ? row.digest : row.uri;
	if (!what || strlen(what) >= out_size)
		rc = err_set(e, ERR_NOT_FOUND, "job %" PRIu64 ": its %s has neither digest nor address", job, kind);
	else
		snprintf(out, out_size, "%s", what);
	artifact_row_fini(&row);
	return rc;
}

static int io_code_kept(uint64_t job, void *arg, struct err *e)
{
	return store_check_kept(((struct controller *)arg)->reader, job, STORE_BUNDLE, NULL, e);
}

static int io_left(uint64_t job, const char *kind, uint32_t below, struct left *out, void *arg, struct err *e)
{
	return store_left(((struct controller *)arg)->reader, job, kind, below, out, e);
}

/* A checkpoint's manifest has a line for each file, so it is short; a larger one is not read.
 */
static int io_checkpoint_steps(const char *digest, struct steps *out, void *arg, struct err *e)
{
	struct controller *c = arg;
	char *manifest = NULL;
	size_t n;
	int rc;

	if (blob_get(blobstore_dir(c->blobs), digest, CHECKPOINT_MANIFEST_MAX, &manifest, &n, e) < 0)
		return -1;
	rc = steps_of_tree(manifest, n, out, e);
	free(manifest);
	return rc;
}

static int io_stored(const char *digest, void *arg)
{
	return blobstore_is_fresh(((struct controller *)arg)->blobs, digest);
}

static void io_metrics_ack(const char *node, uint64_t job, uint32_t attempt, uint64_t seq, void *arg)
{
	struct controller *c = arg;

	server_metrics_ack(c->server, node, job, attempt, seq);
}

static int io_checkpoints(uint64_t job, const struct store_checkpoints *to, void *arg, struct err *e)
{
	return store_checkpoints(((struct controller *)arg)->reader, job, to, e);
}

static int io_job_row(uint64_t job, struct job_row *out, void *arg, struct err *e)
{
	struct controller *c = arg;

	return store_job_get(c->reader, job, out, e);
}

static int io_fingerprint(const char *pem, char out[33], void *arg, struct err *e)
{
	(void)arg;
	return tls_fingerprint(pem, out, e);
}

/* ---- inputs: straight to the core ------------------------------------------------------------ */

static void on_agent_up(const char *node, uint64_t session, const struct wm_hello *hello, void *arg)
{
	core_agent_up(((struct controller *)arg)->core, node, session, hello);
}

static void on_agent_msg(const char *node, uint64_t session, uint16_t type, uint64_t id, void *msg, void *arg)
{
	core_agent_msg(((struct controller *)arg)->core, node, session, type, id, msg);
}

static void on_agent_down(const char *node, uint64_t session, const char *why, void *arg)
{
	core_agent_down(((struct controller *)arg)->core, node, session, why);
}

static void on_request(struct request *rq, void *arg)
{
	core_request(((struct controller *)arg)->core, rq);
}

static void on_over_quota(uint64_t job, uint32_t attempt, const char *text, void *arg)
{
	core_over_quota(((struct controller *)arg)->core, job, attempt, text);
}

static void on_turn_end(void *arg)
{
	struct controller *c = arg;
	struct loop_turns turns;
	uint64_t now, next;

	if (c->stopping) {
		if (core_stopped(c->core))
			loop_stop(c->loop);
		return;
	}
	loop_turns(c->loop, &turns);
	core_turns(c->core, &turns);
	core_end_turn(c->core);
	next = core_next_us(c->core);
	if (next == UINT64_MAX) {
		loop_timer_cancel(c->timer);
		return;
	}
	now = clock_boot_us(clock_real());
	loop_timer_arm(c->timer, next > now ? next - now : 0);
}

static void on_timer(void *arg)
{
	struct controller *c = arg;

	if (c->stopping) { /* the store did not come back in time */
		log_warn("event=stopping text=\"the store is still at work\"");
		loop_stop(c->loop);
		return;
	}
	core_tick(c->core);
}

/* Requests that gathered are refused now; those that the store has are answered when they are durable. */
static void on_signal(int signo, void *arg)
{
	struct controller *c = arg;

	log_info("event=stopping signal=%d", signo);
	if (c->stopping) {
		loop_stop(c->loop);
		return;
	}
	c->stopping = 1;
	core_stop(c->core);
	loop_timer_arm(c->timer, STOP_WAIT_US);
}

/* ---- making ---------------------------------------------------------------------------------- */

static int open_data(struct controller *c, const char *dir, struct err *e)
{
	char pid[32], *lock;

	c->data_dir = xstrdup(dir);
	if (fs_mkdir_p(dir, 0700, e) < 0 || datafs_check(dir, conf_get_bool(c->conf, "network_data"), e) < 0)
		return -1;
	lock = xasprintf("%s/lock", dir);
	c->lock_fd = fs_lock(lock, e);
	free(lock);
	if (c->lock_fd < 0)
		return err_wrap(e, "%s is in use", dir);
	snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(c->lock_fd, 0) < 0 || pwrite(c->lock_fd, pid, strlen(pid), 0) < 0)
		return err_sys(e, errno, "%s/lock", dir);
	c->db_path = xasprintf("%s/hearth.db", dir);
	return 0;
}

static int open_store(struct controller *c, struct err *e)
{
	cleanup_free char *marks = xasprintf("%s/high-water", c->data_dir);
	struct store_config sc = {.path = c->db_path, .clock = clock_real(), .marks = marks};
	struct incarnation_facts facts;

	incarnation_read(c->data_dir, &facts);
	c->store = store_open(&sc, c->loop, e);
	if (!c->store)
		return -1;
	c->reader = store_reader_open(c->db_path, e);
	c->blobs = c->reader ? blobstore_open(c->data_dir, clock_real(), e) : NULL;
	c->ca = c->blobs ? tls_ca_open(c->data_dir, clock_real_us(clock_real()), e) : NULL;
	if (!c->ca || incarnation_begin(c->data_dir, &facts, c->store, c->reader, &c->incarnation, e) < 0)
		return -1;
	c->cluster = store_setting(c->store, "cluster");
	if (!c->cluster) {
		char id[33];
		struct store_txn *t = store_txn_new();

		random_hex(id, 32);
		store_txn_setting(t, "cluster", id);
		if (store_commit(c->store, t, NULL, NULL, e) < 0) {
			store_txn_free(t);
			return -1;
		}
		c->cluster = xstrdup(id);
	}
	return 0;
}

/* "HOST:PORT" -> host without brackets. */
static char *host_of(const char *listen)
{
	const char *colon = strrchr(listen, ':');
	size_t n = colon ? (size_t)(colon - listen) : strlen(listen);

	if (n >= 2 && listen[0] == '[' && listen[n - 1] == ']')
		return xstrndup(listen + 1, n - 2);
	return xstrndup(listen, n);
}

static int is_loopback_host(const char *host)
{
	return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

/* An address that a rank on another machine can reach. Off loopback it is always TLS. */
static char *url_of(const char *listen, unsigned port)
{
	cleanup_free char *host = host_of(listen);
	char name[256];

	if (is_loopback_host(host))
		return xasprintf(strchr(host, ':') ? "http://[%s]:%u" : "http://%s:%u", host, port);
	if (*host && strcmp(host, "0.0.0.0") != 0 && strcmp(host, "::") != 0 && strcmp(host, "*") != 0)
		return xasprintf(strchr(host, ':') ? "https://[%s]:%u" : "https://%s:%u", host, port);
	if (gethostname(name, sizeof(name)) < 0)
		snprintf(name, sizeof(name), "localhost");
	name[sizeof(name) - 1] = '\0';
	return xasprintf("https://%s:%u", name, port);
}

static char *owner_account(const struct conf *conf)
{
	const char *given = conf_get_str(conf, "owner");
	const struct passwd *pw = *given ? NULL : getpwuid(geteuid());

	if (*given)
		return xstrdup(given);
	return pw ? xstrdup(pw->pw_name) : xasprintf("%u", (unsigned)geteuid());
}

/* Reads run_as, before anything is made: a hearthd that must not start leaves nothing behind. */
static int read_accounts(struct controller *c, struct err *e)
{
	cleanup_free char *host = host_of(c->listen);
	const char *run_as = conf_get_str(c->conf, "run_as");

	c->accounts = accounts_parse(run_as, e);
	if (!c->accounts)
		return -1;
	return accounts_check_start(run_as, geteuid() == 0, is_loopback_host(host), c->listen, e);
}

static uint32_t seconds_of(const struct conf *conf, const char *name)
{
	return (uint32_t)(conf_get_duration_us(conf, name) / 1000000);
}

static uint32_t lease_ms_of(const struct conf *conf)
{
	return (uint32_t)(conf_get_duration_us(conf, "lease") / 1000);
}

static uint32_t beat_ms_of(const struct conf *conf)
{
	return lease_beat_ms(lease_ms_of(conf), (uint32_t)(conf_get_duration_us(conf, "beat") / 1000));
}

static uint64_t mib_of(const struct conf *conf, const char *name)
{
	return (uint64_t)conf_get_int(conf, name) << 20;
}

static int start_server(struct controller *c, struct err *e)
{
	struct server_ops ops = {on_agent_up, on_agent_msg, on_agent_down, on_request, c, on_over_quota};
	const char *web = conf_get_str(c->conf, "web_dir"), *names = conf_get_str(c->conf, "server_names");
	struct server_config sc = {
	    .data_dir = c->data_dir,
	    .listen = c->listen,
	    .io_threads = (unsigned)conf_get_int(c->conf, "io_threads"),
	    .ca = c->ca,
	    .cluster = c->cluster,
	    .admin_user = c->owner,
	    .accounts = c->accounts,
	    .lease_ms = lease_ms_of(c->conf),
	    .beat_ms = beat_ms_of(c->conf),
	    .max_runtime_default_s = seconds_of(c->conf, "max_runtime_default"),
	    .max_runtime_limit_s = seconds_of(c->conf, "max_runtime_limit"),
	    .web_dir = *web ? web : NULL,
	    .server_names = *names ? names : NULL,
	    .logs = {.stream = mib_of(c->conf, "max_log_stream_mb"),
	             .job = mib_of(c->conf, "max_log_job_mb"),
	             .user = mib_of(c->conf, "max_log_user_mb"),
	             .min_free_mb = conf_get_int(c->conf, "min_free_mb")},
	    .disk = c->disk,
	};

	c->server = server_start(&sc, c->loop, &ops, e);
	if (!c->server)
		return -1;
	c->url = *conf_get_str(c->conf, "url") ? xstrdup(conf_get_str(c->conf, "url"))
	                                       : url_of(c->listen, server_port(c->server));
	return 0;
}

/* The server's threads run already, but its messages wait in the loop's channel: the core is there before the
 * first is read. */
static int make_core(struct controller *c, struct err *e)
{
	struct core_config cc = {
	    .cluster = c->cluster,
	    .incarnation = c->incarnation.number,
	    .first_job = c->incarnation.first_job,
	    .first_event = c->incarnation.first_event,
	    .url = c->url,
	    .beat_ms = (uint32_t)(conf_get_duration_us(c->conf, "beat") / 1000),
	    .lease_ms = (uint32_t)(conf_get_duration_us(c->conf, "lease") / 1000),
	    .max_runtime_default_s = seconds_of(c->conf, "max_runtime_default"),
	    .max_runtime_limit_s = seconds_of(c->conf, "max_runtime_limit"),
	    .prepare_timeout_s = seconds_of(c->conf, "prepare_timeout"),
	    .prepare_limit_s = seconds_of(c->conf, "prepare_limit"),
	    .ready_timeout_s = seconds_of(c->conf, "ready_timeout"),
	    .rendezvous_timeout_s = seconds_of(c->conf, "rendezvous_timeout"),
	    .default_grace_s = seconds_of(c->conf, "grace"),
	    .quota = {.series_job = (uint64_t)conf_get_int(c->conf, "max_series_job"),
	              .series_user = (uint64_t)conf_get_int(c->conf, "max_series_user"),
	              .artifact_job = mib_of(c->conf, "max_artifacts_job_mb"),
	              .artifact_user = mib_of(c->conf, "max_artifacts_user_mb")},
	    .warm_keep_alive_max_s = seconds_of(c->conf, "warm_keep_alive_max"),
	    .warm_chain_max_s = seconds_of(c->conf, "warm_chain_max"),
	    .warm_parked = (uint8_t)conf_get_bool(c->conf, "warm_parked"),
	    .queue_limit = (uint32_t)conf_get_int(c->conf, "queue_limit"),
	    .backfill = c->backfill,
	    .starve_s = seconds_of(c->conf, "starve_after"),
	    .port_lo = (uint32_t)conf_get_int(c->conf, "port_lo"),
	    .port_hi = (uint32_t)conf_get_int(c->conf, "port_hi"),
	    .owner_of_admin = c->owner,
	};
	struct core_io io = {
	    .clock = clock_real(),
	    .random = io_random,
	    .send = io_send,
	    .close_agent = io_close_agent,
	    .commit = io_commit,
	    .notice = io_notice,
	    .sign_csr = io_sign_csr,
	    .ca_pem = io_ca_pem,
	    .ca_fingerprint = io_ca_fingerprint,
	    .remove_data = io_remove_data,
	    .artifact = io_artifact,
	    .code_kept = io_code_kept,
	    .stored = io_stored,
	    .left = io_left,
	    .checkpoint_steps = io_checkpoint_steps,
	    .metrics_ack = io_metrics_ack,
	    .job_row = io_job_row,
	    .checkpoints = io_checkpoints,
	    .fingerprint = io_fingerprint,
	    .arg = c,
	};

	c->core = core_create(&cc, &io);
	if (core_load(c->core, c->store, e) < 0)
		return -1;
	if (c->incarnation.unrecorded)
		core_record_incarnation(c->core, c->incarnation.is_new ? c->incarnation.why : NULL,
		                        c->incarnation.logs_set_aside);
	return 0;
}

static uint64_t oldest_attempt(void *arg)
{
	return core_oldest_attempt_us(((struct controller *)arg)->core);
}

static void remove_logs(uint64_t job, void *arg)
{
	server_remove_data(((struct controller *)arg)->server, job);
}

static void make_maintain(struct controller *c)
{
	struct maintain_config mc = {
	    .loop = c->loop,
	    .store = c->store,
	    .reader = c->reader,
	    .data_dir = c->data_dir,
	    .db_path = c->db_path,
	    .keep = {.logs_s = conf_get_duration_us(c->conf, "keep_logs") / 1000000,
	             .bundles_s = conf_get_duration_us(c->conf, "keep_bundles") / 1000000,
	             .metrics_s = conf_get_duration_us(c->conf, "keep_metrics") / 1000000,
	             .artifacts_s = conf_get_duration_us(c->conf, "keep_artifacts") / 1000000},
	    .remove_logs = remove_logs,
	    .oldest = oldest_attempt,
	    .arg = c,
	};

	c->maintain = maintain_create(&mc);
}

static int backfill_of(const char *text, uint8_t *out, struct err *e)
{
	static const char *const names[] = {
	    [BACKFILL_EASY] = "easy", [BACKFILL_NONE] = "none", [BACKFILL_CONSERVATIVE] = "conservative"};

	for (uint8_t i = 0; i < 3; i++) {
		if (strcmp(names[i], text) == 0) {
			*out = i;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "backfill: unknown value \"%.40s\"; expected none, easy or conservative",
	               text);
}

static void on_disk_state(const struct disk_state *s, void *arg)
{
	struct controller *c = arg;
	TEXT(why);

	disk_space_text(s, &why);
	core_no_room(c->core, s->low ? why.at : NULL);
}

static void on_rules(const struct rules_news *n, void *arg)
{
	struct controller *c = arg;

	core_set_rules(c->core, conf_get_str(c->conf, "failure_patterns"), n->text, n->rules, n->first,
	               n->why.text);
}

static int watch_rules(struct controller *c, struct err *e)
{
	const char *path = conf_get_str(c->conf, "failure_patterns");

	if (!*path)
		return 0;
	c->rules = rules_file_watch(path, c->loop, on_rules, c, e);
	return c->rules ? 0 : -1;
}

/* Like the server's threads: its messages wait in the loop's channel until the core exists. */
static int watch_disk(struct controller *c, struct err *e)
{
	c->disk =
	    disk_space_create(c->data_dir, conf_get_int(c->conf, "min_free_mb"), c->loop, on_disk_state, c, e);
	return c->disk ? 0 : -1;
}

static int make_parts(struct controller *c, const struct controller_options *o, struct err *e)
{
	enum log_level level;

	c->conf = settings_load(o, e);
	if (!c->conf)
		return -1;
	if (log_level_parse(conf_get_str(c->conf, "log_level"), &level) < 0)
		return err_set(e, ERR_INVALID, "log_level: unknown value \"%s\"; expected debug, info, warn or error",
		               conf_get_str(c->conf, "log_level"));
	if (backfill_of(conf_get_str(c->conf, "backfill"), &c->backfill, e) < 0)
		return -1;
	log_init("hearthd", level);
	c->listen = xstrdup(o->listen ? o->listen : conf_get_str(c->conf, "listen"));
	c->owner = owner_account(c->conf);
	if (read_accounts(c, e) < 0)
		return -1;
	if (open_data(c, o->data_dir, e) < 0)
		return -1;
	c->loop = loop_create();
	loop_set_slow_warn(c->loop, SLOW_TURN_US);
	if (open_store(c, e) < 0 || watch_disk(c, e) < 0 || watch_rules(c, e) < 0 || start_server(c, e) < 0 ||
	    make_core(c, e) < 0)
		return -1;
	make_maintain(c);
	c->timer = loop_timer_create(c->loop, on_timer, c);
	c->term = loop_signal_create(c->loop, SIGTERM, on_signal, c);
	c->intr = loop_signal_create(c->loop, SIGINT, on_signal, c);
	loop_set_turn_hook(c->loop, on_turn_end, c);
	loop_timer_arm(c->timer, 0);
	return 0;
}

static void unmake_parts(struct controller *c)
{
	if (c->loop)
		loop_set_turn_hook(c->loop, NULL, NULL);
	maintain_destroy(c->maintain);
	if (c->server)
		server_stop(c->server);
	disk_space_destroy(c->disk);
	rules_file_destroy(c->rules);
	if (c->reader)
		store_reader_close(c->reader);
	c->reader = NULL;
	if (c->store)
		store_close(c->store);
	core_destroy(c->core);
	if (c->blobs)
		blobstore_close(c->blobs);
	if (c->ca)
		tls_ca_close(c->ca);
	loop_timer_destroy(c->timer);
	loop_signal_destroy(c->term);
	loop_signal_destroy(c->intr);
	if (c->loop)
		loop_destroy(c->loop);
	conf_destroy(c->conf);
	if (c->lock_fd >= 0)
		close(c->lock_fd);
	free(c->data_dir);
	free(c->db_path);
	free(c->listen);
	free(c->url);
	free(c->cluster);
	free(c->owner);
	accounts_destroy(c->accounts);
}

int controller_run(const struct controller_options *o, struct err *e)
{
	struct controller c = {.lock_fd = -1};
	int rc;

	signal(SIGPIPE, SIG_IGN);
	rc = make_parts(&c, o, e);
	if (rc == 0) {
		log_info("event=listening address=%s port=%u url=%s data=%s", c.listen, server_port(c.server), c.url,
		         c.data_dir);
		loop_run(c.loop);
	}
	unmake_parts(&c);
	if (rc == 0)
		log_info("event=stopped");
	return rc;
}

/* ---- tools ----------------------------------------------------------------------------------- */

static void print_line(const char *line, void *arg)
{
	(void)arg;
	puts(line);
}

int controller_verify(const struct controller_options *o, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/hearth.db", o->data_dir);

	store_verify_set_reducer(event_reducer, NULL);
	store_verify_set_cluster(event_cluster_reducer);
	return store_verify(path, print_line, NULL, e);
}

int controller_backup(const struct controller_options *o, const char *to, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/hearth.db", o->data_dir);

	return store_backup(path, to, e);
}

char *controller_config_text(const struct controller_options *o, struct err *e)
{
	struct conf *c = settings_load(o, e);
	char *text = c ? conf_text(c) : NULL;

	if (c)
		conf_destroy(c);
	return text;
}
