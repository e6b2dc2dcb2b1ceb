/* Rights of agents to blobs: manifest, chunks, inputs and checkpoint of an order; other nodes; the end of the
 * attempt; questions before the order; trees that share the memory. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"
#include "controller/files/blobs/blob_rights.h"
#include "controller/files/blobs/blobstore.h"
#include "controller/files/data_threads.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

#define BIG (300u * 1024) /* a file with a chunk of its own */

static struct kit k;
static struct data_threads *d;
static struct blobstore *store;

/* ---- answers of the blob thread ----------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wm_blob_data *answers[512]; /* by id */

static void on_send(uint64_t session, uint16_t type, void *msg, uint64_t id, void *arg)
{
	(void)session;
	(void)arg;
	if (type != WM_BLOB_DATA || id >= 512) {
		wire_free(type, msg);
		return;
	}
	pthread_mutex_lock(&lock);
	answers[id] = msg;
	pthread_mutex_unlock(&lock);
}

static void on_hang_up(uint64_t session, const char *why, void *arg)
{
	(void)session;
	(void)why;
	(void)arg;
}

static void on_growth(unsigned watcher, struct log_grown *g, void *arg)
{
	(void)watcher;
	(void)arg;
	free(g);
}

static void ask(const char *node, const char *digest, uint64_t id)
{
	struct wm_blob_get *m = xcalloc(1, sizeof(*m));

	m->digest = xstrdup(digest);
	while (data_agent_msg(d, 7, node, WM_BLOB_GET, id, m) < 0)
		poll(NULL, 0, 1); /* as an I/O thread: it pauses the connection */
}

static struct wm_blob_data *wait_answer(uint64_t id, unsigned ms)
{
	struct wm_blob_data *r = NULL;

	for (unsigned i = 0; i <= ms && !r; i++) {
		pthread_mutex_lock(&lock);
		r = answers[id];
		answers[id] = NULL;
		pthread_mutex_unlock(&lock);
		if (!r)
			poll(NULL, 0, 1);
	}
	return r;
}

/* The code of the answer; -1: none came. */
static int code_of(const char *node, const char *digest)
{
	struct wm_blob_data *r;
	int code;

	ask(node, digest, 1);
	r = wait_answer(1, 10000);
	code = r ? (int)r->code : -1;
	wire_free(WM_BLOB_DATA, r);
	return code;
}

/* ---- trees -------------------------------------------------------------------------------------- */

static int put_chunk(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	struct blob_piece p = {.digest = digest, .total = n, .data = data, .n = n};
	uint64_t present;
	int complete;

	if (arg)
		memcpy(arg, digest, HASH_HEX_SIZE);
	return blobstore_put(store, &p, &present, &complete, e);
}

/* A tree with one file of its own content. */
static void make_tree(char fill, char digest[HASH_HEX_SIZE], char chunk[HASH_HEX_SIZE])
{
	cleanup_free char *dir = xasprintf("%s/src-%c", tap_tmpdir(), fill), *file = xasprintf("%s/file", dir),
	                  *data = xcalloc(1, BIG), *manifest = NULL;
	struct tree_stats st;
	uint64_t special;
	struct err e;
	size_t n;

	memset(data, fill, BIG);
	if (fs_mkdir_p(dir, 0700, &e) < 0 || fs_write_atomic(file, data, BIG, 0600, &e) < 0 ||
	    tree_scan(dir, NULL, NULL, put_chunk, chunk, &manifest, &n, digest, &st, &special, &e) < 0 ||
	    put_chunk(digest, manifest, n, NULL, &e) < 0)
		tap_bail("%s", e.text);
}

struct names {
	char tree[HASH_HEX_SIZE], chunk[HASH_HEX_SIZE];
};

static struct names bundle, input, resume, parts, foreign;

/* One order of hearthd; input "" none. */
static void order(const char *node, uint64_t job, const char *code, const char *in, const char *from)
{
	struct wm_gang g = {0};
	struct wm_prepare m = {.job = job,
	                       .attempt = 1,
	                       .bundle_digest = (char *)(uintptr_t)code,
	                       .resume_from = (char *)(uintptr_t)from};
	struct err e;

	wire_strv_add(&m.resume_digests, *from ? parts.tree : "");
	wire_strv_add(&g.input_digests, "");
	wire_strv_add(&g.input_digests, "file:///data/here");
	wire_strv_add(&g.input_digests, in);
	m.gang = wire_share(WM_GANG, &g, &e);
	data_order(d, node, &m);
	wire_unshare(m.gang);
	free(m.resume_digests.v[0]);
	free(m.resume_digests.v);
	wire_fini(WM_GANG, &g);
}

static void test_own(void)
{
	order("alpha", 1, bundle.tree, input.tree, "");
	order("beta", 1, bundle.tree, input.tree, resume.tree);
	is_int(code_of("alpha", bundle.tree), 0, "alpha reads the manifest of its bundle");
	is_int(code_of("alpha", bundle.chunk), 0, "alpha reads a chunk of its bundle");
	is_int(code_of("alpha", input.tree), 0, "alpha reads the manifest of its input");
	is_int(code_of("alpha", input.chunk), 0, "alpha reads a chunk of its input");
	is_int(code_of("beta", resume.chunk), 0, "beta reads a chunk of its checkpoint");
	is_int(code_of("beta", resume.tree), 0, "beta reads the manifest of its checkpoint");
	is_int(code_of("beta", parts.chunk), 0, "beta reads a chunk of another part of its checkpoint");
}

static void test_foreign(void)
{
	struct wm_blob_data *r;

	order("gamma", 2, foreign.tree, "", "");
	is_int(code_of("gamma", foreign.chunk), 0, "gamma reads a chunk of its bundle");
	is_int(code_of("alpha", foreign.tree), ERR_DENIED, "alpha does not read another job's manifest");
	is_int(code_of("alpha", foreign.chunk), ERR_DENIED, "alpha does not read a chunk of another job");
	is_int(code_of("alpha", resume.chunk), ERR_DENIED, "alpha does not read beta's checkpoint");
	is_int(code_of("alpha", parts.tree), ERR_DENIED, "alpha does not read a part of beta's checkpoint");
	is_int(code_of("delta", bundle.tree), ERR_DENIED, "a node without launches reads nothing");
	is_int(code_of("alpha", "../../hearth.db"), ERR_INVALID, "a text that is no digest is refused");
	ask("alpha", foreign.tree, 2);
	r = wait_answer(2, 10000);
	like(r ? r->text : "-", "no launch on node alpha needs this blob", "the refusal names the node");
	ok(r && r->data.n == 0, "a refusal carries no bytes");
	wire_free(WM_BLOB_DATA, r);
}

/* An order ahead of a launch gives the same right to its node, for the same time, whichever comes first. */
static void test_ahead(void)
{
	struct wm_prefetch m = {.job = 40, .attempt = 1};

	wire_strv_add(&m.trees, resume.tree);
	wire_strv_add(&m.trees, resume.tree);
	data_order_ahead(d, "zeta", &m);
	is_int(code_of("zeta", resume.chunk), 0, "zeta reads a tree that it may need soon");
	is_int(code_of("zeta", bundle.tree), ERR_DENIED, "and no other one");
	order("eta", 40, bundle.tree, input.tree, "");
	order("zeta", 40, bundle.tree, input.tree, "");
	is_int(code_of("zeta", bundle.chunk), 0, "the order of the launch gives the rest");
	is_int(code_of("zeta", resume.chunk), 0, "and ends nothing");
	is_int(code_of("eta", resume.chunk), ERR_DENIED, "another node of the launch does not have its trees");
	wire_fini(WM_PREFETCH, &m);
}

/* Questions that wait are bounded for each connection: the others are refused at once. */
static void test_waiting(void)
{
	struct wm_blob_data *r;
	unsigned refused = 0;

	for (uint64_t id = 10; id < 310; id++)
		ask("epsilon", bundle.tree, id);
	r = wait_answer(309, 5000);
	pthread_mutex_lock(&lock);
	ok(r && r->code == ERR_DENIED && !answers[10],
	   "the 300th question is refused while the first still waits");
	pthread_mutex_unlock(&lock);
	wire_free(WM_BLOB_DATA, r);
	for (uint64_t id = 10; id < 309; id++) {
		r = wait_answer(id, 5000);
		refused += r && r->code == ERR_DENIED;
		wire_free(WM_BLOB_DATA, r);
	}
	is_int(refused, 299, "questions without an order are refused in the end");
	ask("epsilon", bundle.chunk, 3);
	poll(NULL, 0, 60);
	order("epsilon", 3, bundle.tree, "", "");
	r = wait_answer(3, 5000);
	ok(r && r->code == 0 && r->data.n == BIG, "a question before its order is answered after the order: %s",
	   r ? r->text : "-");
	wire_free(WM_BLOB_DATA, r);
	ask("zeta", bundle.chunk, 4); /* waits when the threads end */
}

/* Orders come twice. The rights end with the attempt, and other launches of the tree keep theirs. */
static void test_end(void)
{
	struct event_row ev = kit_event(1, 1, C("attempt_ended"));
	uint64_t end;

	order("alpha", 1, bundle.tree, input.tree, "");
	ev.attempt = 1;
	data_notice(d, &ev);
	end = clock_boot_us(clock_real()) + 20000000;
	while (code_of("alpha", input.chunk) != ERR_DENIED && clock_boot_us(clock_real()) < end)
		poll(NULL, 0, 50);
	is_int(code_of("alpha", bundle.tree), ERR_DENIED,
	       "after the end of the attempt alpha reads nothing of it");
	is_int(code_of("beta", resume.tree), ERR_DENIED, "beta reads nothing of it either");
	is_int(code_of("epsilon", bundle.chunk), 0, "another launch with the same bundle still reads it");
}

int main(void)
{
	const struct data_ops ops = {
	    .send = on_send, .hang_up = on_hang_up, .grown = on_growth, .blob_wait_ms = 300};
	struct err e;

	kit_open(&k, "hearth");
	d = data_threads_create(tap_tmpdir(), &ops, &e);
	if (!d)
		tap_bail("%s", e.text);
	store = data_blobs(d);
	make_tree('b', bundle.tree, bundle.chunk);
	make_tree('i', input.tree, input.chunk);
	make_tree('r', resume.tree, resume.chunk);
	make_tree('p', parts.tree, parts.chunk);
	make_tree('f', foreign.tree, foreign.chunk);
	test_own();
	test_foreign();
	test_ahead();
	test_waiting();
	test_end();
	data_threads_destroy(d);
	kit_close(&k);
	return tap_done();
}
