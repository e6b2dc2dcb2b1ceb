/*
 * world: see the header.
 */
#include "tests/lib/world.h"
#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "store/read/find.h"
#include "store/read/reader.h"
#include "store/read/retain.h"
#include "store/store.h"
#include "tests/lib/tap.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct world_commit {
	struct store_txn *t;
	store_done_fn done;
	void *arg;
	struct world_commit *next, *prev;
};

/* ---- the core's outside ---------------------------------------------------------------------- */

static void io_random(void *p, size_t n, void *arg)
{
	uint8_t *b = p;

	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)world_rnd(arg, 256);
}

void sent_free(struct sent *s)
{
	if (!s)
		return;
	wire_free(s->type, s->msg);
	free(s->node);
	free(s);
}

static void io_send(const char *node, uint64_t session, uint16_t type, const void *msg, uint64_t id,
                    void *arg)
{
	struct world *w = arg;
	struct sent *s = xcalloc(1, sizeof *s);

	s->node = xstrdup(node);
	s->session = session;
	s->type = type;
	s->msg = wire_copy(type, msg);
	s->id = id;
	if (w->on_send)
		w->on_send(w, s, w->arg);
	else
		DL_APPEND(w->sent, s);
}

static void io_close(const char *node, uint64_t session, const char *why, void *arg)
{
	struct world *w = arg;

	w->n_closed++;
	snprintf(w->closed_why, sizeof w->closed_why, "%s", why);
	if (w->on_close)
		w->on_close(w, node, session, w->arg);
}

static int io_commit(struct store_txn *t, store_done_fn done, void *done_arg, void *arg, struct err *e)
{
	struct world *w = arg;
	struct world_commit *k;

	if (w->store_busy > 0) {
		w->store_busy--;
		return err_set(e, ERR_BUSY, "the queue is full");
	}
	k = xcalloc(1, sizeof *k);
	k->t = t;
	k->done = done;
	k->arg = done_arg;
	DL_APPEND(w->commits, k);
	return 0;
}

static void io_notice(const struct event_row *ev, void *arg)
{
	struct world *w = arg;

	w->n_events++;
	if (w->on_event)
		w->on_event(w, ev, w->arg);
}

static char *io_sign(const char *csr, const char *node, void *arg, struct err *e)
{
	(void)arg;
	if (strcmp(csr, "bad") == 0) {
		err_set(e, ERR_INVALID, "not a request");
		return NULL;
	}
	return xasprintf("cert of %s for %s", node, csr);
}

static const char *io_text(void *arg)
{
	(void)arg;
	return "0123456789abcdef0123456789abcdef";
}

static int io_artifact(uint64_t job, const char *kind, char *out, size_t out_size, void *arg, struct err *e)
{
	struct world *w = arg;
	struct artifact_row row = {0};

	if (store_artifact_get(w->reader, job, kind, &row, e) < 0)
		return -1;
	snprintf(out, out_size, "%s", row.digest ? row.digest : row.uri);
	artifact_row_fini(&row);
	return 0;
}

static int io_left(uint64_t job, const char *kind, uint32_t below, struct left *out, void *arg, struct err *e)
{
	return store_left(((struct world *)arg)->reader, job, kind, below, out, e);
}

/* Of a test's own: those that it says any folder holds. */
static int io_steps(const char *digest, struct steps *out, void *arg, struct err *e)
{
	const struct world *w = arg;

	return w->steps ? w->steps(digest, out, e) : 0;
}

static int io_code_kept(uint64_t job, void *arg, struct err *e)
{
	return store_check_kept(((struct world *)arg)->reader, job, STORE_BUNDLE, NULL, e);
}

static int io_checkpoints(uint64_t job, const struct store_checkpoints *to, void *arg, struct err *e)
{
	return store_checkpoints(((struct world *)arg)->reader, job, to, e);
}

static int io_stored(const char *digest, void *arg)
{
	(void)digest;
	return !((struct world *)arg)->store_lacks;
}

static int io_job_row(uint64_t job, struct job_row *out, void *arg, struct err *e)
{
	return store_job_get(((struct world *)arg)->reader, job, out, e);
}

static int io_print(const char *pem, char out[33], void *arg, struct err *e)
{
	char hex[HASH_HEX_SIZE];

	(void)arg;
	(void)e;
	hash_hex(pem, strlen(pem), hex);
	snprintf(out, 33, "%.32s", hex);
	return 0;
}

static void quiet(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	if (getenv("HEARTH_TEST_LOG") || level == LOG_LVL_ERROR)
		tap_diag("%s", line);
}

static void make_core(struct world *w)
{
	struct core_config cfg = {.cluster = "test",
	                          .url = "http://127.0.0.1:1",
	                          .owner_of_admin = "ada",
	                          .lease_ms = w->lease_ms,
	                          .warm_parked = (uint8_t)w->warm_parked,
	                          .prepare_timeout_s = 60};
	struct core_io io = {.clock = &w->clock,
	                     .random = io_random,
	                     .send = io_send,
	                     .close_agent = io_close,
	                     .commit = io_commit,
	                     .notice = io_notice,
	                     .sign_csr = io_sign,
	                     .ca_pem = io_text,
	                     .ca_fingerprint = io_text,
	                     .artifact = io_artifact,
	                     .left = io_left,
	                     .checkpoint_steps = io_steps,
	                     .code_kept = io_code_kept,
	                     .stored = io_stored,
	                     .job_row = io_job_row,
	                     .checkpoints = io_checkpoints,
	                     .fingerprint = io_print,
	                     .arg = w};
	struct err e;

	w->core = core_create(&cfg, &io);
	if (core_load(w->core, w->store, &e) < 0)
		tap_bail("core_load: %s", e.text);
}

struct world *world_create_lease(uint64_t seed, uint32_t lease_ms)
{
	static unsigned n;
	struct world *w = xcalloc(1, sizeof *w);
	struct store_config sc;
	struct err e;

	log_set_sink(quiet, NULL);
	w->lease_ms = lease_ms;
	w->rng = seed * 0x9e3779b97f4a7c15u + 0x1234567;
	clock_fake_init(&w->clock, 1800000000000000u, 5000000000u);
	w->path = xasprintf("%s/%d-%u.db", tap_tmpdir(), (int)getpid(), n++);
	w->loop = loop_create();
	sc = (struct store_config){.path = w->path, .clock = clock_real()};
	w->store = store_open(&sc, w->loop, &e);
	w->reader = w->store ? store_reader_open(w->path, &e) : NULL;
	if (!w->reader)
		tap_bail("store: %s", e.text);
	make_core(w);
	return w;
}

static void commits_forget(struct world *w)
{
	struct world_commit *k, *t;

	DL_FOREACH_SAFE (w->commits, k, t) {
		store_txn_free(k->t);
		free(k);
	}
	w->commits = NULL;
}

void world_start(struct world *w)
{
	make_core(w);
}

void world_restart(struct world *w)
{
	world_stop(w, 0);
	world_start(w);
}

/* Thousands of worlds in one process would fill a small tmpfs. */
static void forget_files(const struct world *w)
{
	static const char *const ends[] = {"", "-wal", "-shm"};

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		char *path = xasprintf("%s%s", w->path, ends[i]);

		unlink(path);
		free(path);
	}
}

void world_destroy(struct world *w)
{
	commits_forget(w);
	store_reader_close(w->reader);
	store_close(w->store);
	core_destroy(w->core);
	loop_destroy(w->loop);
	world_forget(w);
	forget_files(w);
	cJSON_Delete(w->body);
	free(w->path);
	free(w);
}

void world_end_well(struct world *w)
{
	const char *bad = world_check(w);

	ok(!bad, "memory is consistent");
	if (bad)
		tap_diag("%s", bad);
	is_int(world_verify(w), 0, "the store is consistent, replay gives the rows");
	world_destroy(w);
}

uint32_t world_rnd(struct world *w, uint32_t n)
{
	w->rng ^= w->rng << 13;
	w->rng ^= w->rng >> 7;
	w->rng ^= w->rng << 17;
	return (uint32_t)(w->rng >> 20) % n;
}

/* ---- commits and time ------------------------------------------------------------------------ */

struct waiting {
	int done, rc;
	struct err e;
};

static void on_stored(int rc, const struct err *e, void *arg)
{
	struct waiting *x = arg;

	x->done = 1;
	x->rc = rc;
	if (e)
		x->e = *e;
}

static void store_it(struct world *w, struct world_commit *k, struct waiting *x)
{
	struct err e;

	if (store_commit(w->store, k->t, on_stored, x, &e) < 0)
		tap_bail("store_commit: %s", e.text);
	for (int i = 0; i < 1000 && !x->done; i++)
		loop_run_once(w->loop, 20);
	if (!x->done)
		tap_bail("the store does not answer");
}

unsigned world_pending(const struct world *w)
{
	const struct world_commit *k;
	unsigned n = 0;

	DL_COUNT(w->commits, k, n);
	return n;
}

void world_stop(struct world *w, unsigned durable)
{
	for (; w->commits && durable; durable--) {
		struct world_commit *k = w->commits;
		struct waiting x = {0};

		DL_DELETE(w->commits, k);
		store_it(w, k, &x);
		free(k);
	}
	commits_forget(w);
	core_destroy(w->core);
	w->core = NULL;
	world_forget(w);
}

int world_commit_now(struct world *w)
{
	struct world_commit *k = w->commits;
	struct waiting x = {0};
	struct err e;

	if (!k)
		return 0;
	DL_DELETE(w->commits, k);
	w->n_commits++;
	if (w->fail_next > 0) {
		w->fail_next--;
		store_txn_free(k->t);
		err_set(&e, ERR_NOSPACE, "no space left on device");
		k->done(-1, &e, k->arg);
		free(k);
		return 1;
	}
	store_it(w, k, &x);
	k->done(x.rc, x.rc ? &x.e : NULL, k->arg);
	free(k);
	return 1;
}

void world_turn(struct world *w)
{
	for (int i = 0; i < 1000; i++) {
		core_end_turn(w->core);
		if (w->hold_commits || !world_commit_now(w))
			break;
	}
}

void world_advance(struct world *w, uint64_t us)
{
	uint64_t end = w->clock.fake_boot_us + us;

	while (w->clock.fake_boot_us < end) {
		uint64_t next = core_next_us(w->core), now = w->clock.fake_boot_us;
		uint64_t to = next > now && next < end ? next : next <= now ? now + 1000 : end;

		clock_fake_advance(&w->clock, (to > end ? end : to) - now);
		core_tick(w->core);
		world_turn(w);
	}
}

/* ---- requests -------------------------------------------------------------------------------- */

static void on_reply(struct request *rq, int status, cJSON *body, const struct err *e)
{
	struct world *w = rq->io;

	w->n_replies++;
	w->status = status;
	cJSON_Delete(w->body);
	w->body = body;
	w->err = e ? *e : (struct err){.code = ERR_NONE};
	request_free(rq);
}

struct request *world_rq(struct world *w, enum request_op op, uint64_t job)
{
	struct request *rq = request_new(op);

	rq->user = xstrdup("ada");
	rq->role = ROLE_ADMIN;
	rq->job = job;
	rq->reply = on_reply;
	rq->io = w;
	w->status = 0;
	w->n_requests++;
	return rq;
}

int world_request(struct world *w, enum request_op op, uint64_t job, const char *node, const char *body)
{
	struct request *rq = world_rq(w, op, job);

	rq->node = xstrdup(node);
	rq->body = body ? cJSON_Parse(body) : NULL;
	core_request(w->core, rq);
	world_turn(w);
	return w->status;
}

uint64_t world_submit_full(struct world *w, const char *spec, const char *body, const char *key,
                           const char *digest)
{
	struct request *rq = world_rq(w, REQ_SUBMIT, 0);
	const cJSON *id;
	struct err e;

	rq->text = xstrdup(spec);
	rq->spec = spec_parse(spec, strlen(spec), &e);
	if (!rq->spec)
		tap_bail("test spec: %s", e.text);
	rq->body = cJSON_Parse(body ? body : "{}");
	if (key) {
		rq->idem_key = xstrdup(key);
		snprintf(rq->idem_digest, sizeof rq->idem_digest, "%s", digest);
	}
	core_request(w->core, rq);
	world_turn(w);
	id = cJSON_GetObjectItemCaseSensitive(w->body, "id");
	return w->status == 201 && cJSON_IsNumber(id) ? (uint64_t)id->valuedouble : 0;
}

uint64_t world_submit(struct world *w, const char *spec)
{
	return world_submit_full(w, spec, NULL, NULL, NULL);
}

const char *world_status(const struct world *w, uint64_t job)
{
	static char status[32];
	const struct cjob *j = job_find(w->core, job);
	struct job_row row = {0};

	if (j)
		return state_name(STATE_JOB, (int)j->r.status);
	if (store_job_get(w->reader, job, &row, NULL) < 0)
		return "";
	snprintf(status, sizeof status, "%s", row.status);
	job_row_fini(&row);
	return status;
}

const char *world_reason(const struct world *w, uint64_t job)
{
	static char text[1024];
	struct job_row row = {0};

	if (store_job_get(w->reader, job, &row, NULL) < 0)
		return "";
	snprintf(text, sizeof text, "%s", row.reason ? row.reason : "");
	job_row_fini(&row);
	return text;
}

const char *world_text(const struct world *w, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(w->body, key));

	return s ? s : "";
}

/* ---- agents by hand -------------------------------------------------------------------------- */

void world_msg(struct world *w, const char *node, uint64_t session, uint16_t type, void *msg)
{
	const struct cnode *n = node_find(w->core, node);

	core_agent_msg(w->core, node,
	               session ? session
	               : n     ? n->session
	                       : 0,
	               type, ++w->next_frame, wire_copy(type, msg));
}

int world_join(struct world *w, const char *node)
{
	char body[400];

	world_request(w, REQ_TOKEN, 0, NULL, "{\"kind\": \"join\", \"ttl_s\": 60}");
	snprintf(body, sizeof body, "{\"token\": \"%s\", \"node\": \"%s\", \"csr\": \"csr\"}",
	         world_text(w, "token"), node);
	return world_request(w, REQ_JOIN, 0, node, body);
}

uint64_t world_agent_connect(struct world *w, const char *node)
{
	struct wm_hello h = {.version = w->version ? w->version : WIRE_VERSION,
	                     .role = ROLE_CONTROL,
	                     .node = (char *)(uintptr_t)node,
	                     .cert_pem = (char *)(uintptr_t) "cert",
	                     .boot_id = (char *)(uintptr_t)(w->boot_id ? w->boot_id : "b"),
	                     .instance = w->instance ? w->instance : 1,
	                     .software = (char *)(uintptr_t) "t"};
	uint64_t session = ++w->next_session;

	core_agent_up(w->core, node, session, &h);
	return session;
}

void world_agent_inventory(struct world *w, const char *node, uint64_t session, uint32_t gpus, uint32_t slots)
{
	char address[80], line[64];
	char empty[] = "", box[] = "box", topo[] = "{}";
	struct wm_inventory m = {.address = address,
	                         .peer_port = 7071,
	                         .port_lo = 21000,
	                         .port_hi = 21999,
	                         .interface_name = empty,
	                         .fabric_interface = empty,
	                         .cpus = slots,
	                         .slots = slots,
	                         .memory_bytes = (uint64_t)64 << 30,
	                         .disk_bytes = (uint64_t)500 << 30,
	                         .instance_type = w->type ? (char *)(uintptr_t)w->type : box,
	                         .price_per_hour = w->price,
	                         .topology = topo,
	                         .os_user = empty,
	                         .hostname = empty};

	snprintf(address, sizeof address, "10.77.0.%u",
	         (unsigned)strlen(node) + (unsigned char)node[strlen(node) - 1]);
	for (uint32_t i = 0; i < gpus; i++) {
		snprintf(line, sizeof line, "%u|GPU-%u|A100|85899345920|0|0|%u", i, i, i);
		wire_strv_add(&m.gpus, line);
	}
	for (const char *const *l = w->labels; l && *l; l++)
		wire_strv_add(&m.labels, *l);
	world_msg(w, node, session, WM_INVENTORY, &m);
	for (uint32_t i = 0; i < m.labels.n; i++)
		free(m.labels.v[i]);
	free(m.labels.v);
	for (uint32_t i = 0; i < m.gpus.n; i++)
		free(m.gpus.v[i]);
	free(m.gpus.v);
}

uint64_t world_agent_up(struct world *w, const char *node, uint32_t gpus, uint32_t slots)
{
	uint64_t session = world_agent_connect(w, node);
	struct wm_sync_begin b = {.instance = 1};
	struct wm_sync_end end = {.instance = 1};

	world_agent_inventory(w, node, session, gpus, slots);
	world_msg(w, node, session, WM_SYNC_BEGIN, &b);
	world_msg(w, node, session, WM_SYNC_END, &end);
	world_turn(w);
	return session;
}

static uint64_t epoch_of(const struct world *w, uint64_t job, uint32_t attempt)
{
	const struct cjob *j = job_find(w->core, job);

	const struct attempt_rec *a = j ? rec_attempt(&j->r, attempt) : NULL;

	return a ? a->epoch : attempt;
}

void world_launch(struct world *w, const char *node, uint64_t job, uint32_t attempt, uint8_t state,
                  uint8_t cls, const char *text)
{
	char phase[] = "x";
	struct wm_launch_report m = {.job = job,
	                             .attempt = attempt,
	                             .epoch = epoch_of(w, job, attempt),
	                             .state = state,
	                             .phase = phase,
	                             .cls = cls,
	                             .text = (char *)(uintptr_t)(text ? text : ""),
	                             .over = state == LAUNCH_ENDED || state == LAUNCH_FAILED ? w->over : 0};

	world_msg(w, node, 0, WM_LAUNCH_REPORT, &m);
	world_turn(w);
}

static void proc(struct world *w, const char *node, struct wm_proc_report *m, const char *last_lines)
{
	m->epoch = epoch_of(w, m->job, m->attempt);
	m->started_us = w->clock.fake_real_us - 1000;
	m->ended_us = m->state > PS_RUNNING ? w->clock.fake_real_us : 0;
	m->token = (char *)(uintptr_t) "t";
	if (!m->text)
		m->text = (char *)(uintptr_t) "";
	m->last_lines =
	    (struct wire_bytes){(uint8_t *)(uintptr_t)last_lines, last_lines ? (uint32_t)strlen(last_lines) : 0};
	world_msg(w, node, 0, WM_PROC_REPORT, m);
	world_turn(w);
}

void world_rank(struct world *w, const char *node, uint64_t job, uint32_t attempt, uint32_t rank,
                uint8_t state, uint32_t exit_code, uint32_t signo, const char *last_lines)
{
	struct wm_proc_report m = {.job = job,
	                           .attempt = attempt,
	                           .kind = PROC_RANK,
	                           .rank = rank,
	                           .state = state,
	                           .pid = 100 + rank,
	                           .exit_code = exit_code,
	                           .signal = signo};

	if (state == PS_FAILED)
		m.text = (char *)(uintptr_t)last_lines;
	proc(w, node, &m, state == PS_FAILED ? NULL : last_lines);
}

void world_begin(struct world *w, uint64_t job)
{
	world_launch(w, "a", job, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", job, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_turn(w);
}

void world_end_with(struct world *w, uint64_t job, uint32_t code)
{
	world_rank(w, "a", job, 1, 0, PS_EXITED, code, 0, NULL);
	world_launch(w, "a", job, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", job, 1, LAUNCH_CLEANED, 0, NULL);
	world_turn(w);
}

void world_proc(struct world *w, const char *node, uint64_t job, uint32_t attempt, uint8_t kind,
                uint8_t state, uint32_t exit_code, const char *text)
{
	struct wm_proc_report m = {.job = job,
	                           .attempt = attempt,
	                           .kind = kind,
	                           .rank = NO_RANK,
	                           .state = state,
	                           .exit_code = exit_code};

	proc(w, node, &m, text);
}

void world_beat(struct world *w, const char *node)
{
	const struct cnode *n = node_find(w->core, node);
	/* An agent that goes by the list that it was told last. */
	struct wm_beat m = {.seq = 1, .load1 = 0.5, .peers_gen = n ? n->sent.gen ? n->sent.gen : n->held.gen : 0};

	world_msg(w, node, 0, WM_BEAT, &m);
}

/* ---- what was sent --------------------------------------------------------------------------- */

struct sent *world_sent(struct world *w, const char *node, uint16_t type)
{
	struct sent *s;

	DL_FOREACH (w->sent, s) {
		if (s->type != type || strcmp(s->node, node) != 0)
			continue;
		DL_DELETE(w->sent, s);
		return s;
	}
	return NULL;
}

unsigned world_count(const struct world *w, const char *node, uint16_t type)
{
	const struct sent *s;
	unsigned n = 0;

	DL_FOREACH (w->sent, s)
		n += s->type == type && (!node || strcmp(s->node, node) == 0);
	return n;
}

void world_forget(struct world *w)
{
	struct sent *s, *t;

	DL_FOREACH_SAFE (w->sent, s, t)
		sent_free(s);
	w->sent = NULL;
}
