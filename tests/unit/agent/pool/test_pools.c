/*
 * pools: cache folders go from the job that leaves a pool to the pool, to its next jobs, and away with it;
 * what a pool's last job used of the caches is not evicted.
 */
#include "agent/pool/pools.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pool/uses.h"
#include "agent/stage/cache.h"
#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"
#include "tests/lib/tap.h"

static struct agent_env env;
static struct trash *trash;
static struct pools *p;
static struct launch_user user;

static char *cache_of(uint64_t id)
{
	return xasprintf("%s/pools/%llu/cache", env.cfg.data_dir, (unsigned long long)id);
}

static int exists(uint64_t id)
{
	cleanup_free char *cache = cache_of(id);

	return access(cache, F_OK) == 0;
}

static int holds(uint64_t id, const char *name)
{
	cleanup_free char *cache = cache_of(id), *path = xasprintf("%s/%s", cache, name);

	return access(path, F_OK) == 0;
}

static void put(uint64_t id, const char *name)
{
	cleanup_free char *cache = cache_of(id), *path = xasprintf("%s/%s", cache, name);

	if (fs_replace(path, name, strlen(name), 0600, NULL) < 0)
		tap_bail("%s", path);
}

static struct pool_folder *begin(uint64_t job, uint64_t pool, int keep)
{
	const struct wm_prepare m = {.job = job, .attempt = 1, .pool = pool, .pool_keep = (uint8_t)keep};
	struct err e = {0};
	struct pool_folder *f = pools_take(p, &m, &user, &e);

	if (e.code)
		tap_diag("%s", e.text);
	return f;
}

static void list(uint64_t pool, uint64_t job, uint64_t more)
{
	struct wm_pools m = {0};

	for (int i = 0; i < 2; i++) {
		uint64_t id = i ? more : pool;

		if (!id)
			continue;
		wire_u64v_add(&m.pools, id);
		wire_u64v_add(&m.jobs, i ? 0 : job);
		wire_u64v_add(&m.until_us, 0);
	}
	pools_order(p, &m);
	wire_fini(WM_POOLS, &m);
}

static void restart(void)
{
	pools_destroy(p);
	p = pools_create(&env, trash);
}

static void test_chain(void)
{
	struct pool_folder *f;

	ok(!begin(1, 0, 0) && !exists(1), "a job that leaves no pool has no folder");
	f = begin(10, 0, 1);
	ok(f && exists(10), "a job that may leave a pool has a folder from its start");
	put(10, "compiled");
	list(0, 0, 0);
	ok(holds(10, "compiled"), "a list from before its end does not remove it");
	list(11, 10, 0);
	ok(exists(10) && !exists(11), "the name stays while it has processes");
	pools_quiet(f);
	ok(holds(11, "compiled"), "then the folder is that of the pool");
	pools_leave(f);
	f = begin(12, 11, 0);
	ok(f && holds(11, "compiled"), "a job of the pool has what the one before left");
	put(11, "more");
	pools_leave(f);
	list(0, 0, 0);
	ok(!exists(11), "the folder goes with the pool");
}

/* A job that takes a part of a pool makes a pool of its own; and a job that came from two. */
static void test_parts(void)
{
	struct pool_folder *f = begin(20, 0, 1), *g;

	put(20, "a");
	pools_leave(f);
	list(21, 20, 0);
	f = begin(22, 21, 1);
	list(0, 0, 0);
	ok(holds(21, "a"), "the part that a job took out of a pool keeps its folder while the job runs");
	pools_leave(f);
	list(23, 22, 0);
	ok(holds(23, "a"), "and the pool that the job leaves has it");
	f = begin(24, 23, 1);
	list(23, 24, 0);
	g = begin(25, 0, 1);
	put(25, "cold");
	pools_leave(g);
	list(23, 24, 0);
	ok(!exists(25) && holds(23, "a"), "a folder that no pool gets is removed");
	pools_leave(f);
	list(23, 24, 0);
	f = begin(26, 23, 1);
	g = begin(27, 23, 1);
	pools_leave(f);
	list(28, 26, 23);
	ok(holds(23, "a") && !exists(28), "a folder that another job uses is not handed on");
	pools_leave(g);
	list(0, 0, 0);
	ok(!exists(23), "all of it ends");
}

static void test_restart(void)
{
	struct pool_folder *f = begin(30, 0, 1);
	const struct wm_prepare m = {.job = 30, .attempt = 1, .pool_keep = 1};
	struct err e = {0};

	put(30, "x");
	pools_leave(f);
	restart();
	ok(holds(30, "x"), "the next agent keeps folders until hearthd has sent its list");
	f = pools_take(p, &m, NULL, &e);
	ok(f != NULL, "an adopted launch finds its folder");
	list(0, 0, 0);
	ok(holds(30, "x"), "which stays while the launch is here");
	pools_leave(f);
	list(31, 30, 0);
	ok(holds(31, "x"), "and becomes the pool's");
	restart();
	list(0, 0, 0);
	ok(!exists(31), "a pool that ended meanwhile has no folder after the first list");
}

static void test_bounds(void)
{
	cleanup_free char *cache = cache_of(40);
	struct pool_folder *f = begin(40, 0, 1);
	struct stat st;

	ok(stat(cache, &st) == 0 && (st.st_mode & 0777) == 0700, "the folder is closed to others");
	chmod(cache, 0777);
	pools_leave(f);
	list(40, 0, 0);
	f = begin(41, 40, 0);
	ok(stat(cache, &st) == 0 && (st.st_mode & 0777) == 0700, "also after a job has opened it");
	put(40, "big");
	pools_spoil(f);
	pools_leave(f);
	ok(!exists(40), "a folder above its limit goes with the launch");
	if (geteuid() != 0) {
		tap_skip("not root: no other account");
		return;
	}
	list(50, 0, 0);
	f = begin(51, 50, 0);
	put(50, "secret");
	pools_leave(f);
	user.uid = user.gid = 65533;
	f = begin(52, 50, 0);
	ok(f && exists(50) && !holds(50, "secret"), "another account never gets the files");
	pools_leave(f);
	user.uid = user.gid = 65534;
	list(0, 0, 0);
}

static int is_used(const char *path, void *arg)
{
	return uses_hold(arg, path);
}

static void make_entry(const char *kind, const char *key)
{
	cleanup_free char *dir = xasprintf("%s/cache/%s", env.cfg.data_dir, kind);
	struct cache_entry c;
	struct err e;

	if (cache_open(&c, dir, key, 0700, NULL, NULL, &e) < 0 || cache_commit(&c, &e) < 0)
		tap_bail("%s", e.text);
	cache_close(&c);
}

static int has_entry(const char *kind, const char *key)
{
	cleanup_free char *dir = xasprintf("%s/cache/%s/%s", env.cfg.data_dir, kind, key);

	return access(dir, F_OK) == 0;
}

static unsigned evict_all(void)
{
	cleanup_free char *inputs = xasprintf("%s/cache/inputs", env.cfg.data_dir),
	                  *venvs = xasprintf("%s/cache/venvs", env.cfg.data_dir);
	struct uses *u = uses_load(env.cfg.data_dir);
	unsigned n = cache_evict(inputs, 0, is_used, u) + cache_evict(venvs, 0, is_used, u);

	uses_free(u);
	return n;
}

static void test_uses(void)
{
	struct pool_folder *f = begin(60, 0, 1);
	cleanup_free char *dir = pools_path(f);
	struct strv v = {0};
	struct err e = {0};

	make_entry("inputs", "aa");
	make_entry("inputs", "bb");
	make_entry("venvs", "aa");
	strv_add(&v, "inputs/aa");
	ok(uses_save(dir, &v, &e) == 0 && uses_add(dir, "venvs/aa", &e) == 0, "what the job used is recorded");
	is_int(evict_all(), 1, "an entry that no pool uses is evicted");
	ok(has_entry("inputs", "aa") && has_entry("venvs", "aa"), "those of the pool stay");
	pools_leave(f);
	list(61, 60, 0);
	is_int(evict_all(), 0, "also when the pool has the folder");
	list(0, 0, 0);
	is_int(evict_all(), 2, "and go when the pool has ended");
	strv_fini(&v);
}

static void test_chunks(void)
{
	static const char chunk[] = "content of a file";
	cleanup_free char *blobs = xasprintf("%s/cache/blobs", env.cfg.data_dir);
	struct pool_folder *f = begin(70, 0, 1);
	cleanup_free char *dir = pools_path(f), *manifest = NULL, *entry = NULL;
	char digest[HASH_HEX_SIZE], tree[HASH_HEX_SIZE], other[HASH_HEX_SIZE];
	struct strv v = {0};
	struct uses *u;
	struct err e = {0};

	hash_hex(chunk, sizeof(chunk) - 1, digest);
	hash_hex("other", 5, other);
	manifest =
	    xasprintf("hearth-tree 1\nf 644 %zu a %s:0:%zu\n", sizeof(chunk) - 1, digest, sizeof(chunk) - 1);
	hash_hex(manifest, strlen(manifest), tree);
	entry = xasprintf("trees/%s", tree);
	if (fs_mkdir_p(blobs, 0700, &e) < 0 || blob_cache(blobs, digest, chunk, sizeof(chunk) - 1, &e) < 0 ||
	    blob_cache(blobs, tree, manifest, strlen(manifest), &e) < 0 ||
	    blob_cache(blobs, other, "other", 5, &e) < 0)
		tap_bail("%s", e.text);
	strv_add(&v, entry);
	uses_save(dir, &v, &e);
	u = uses_load(env.cfg.data_dir);
	uses_add_chunks(u, blobs);
	is_int(cache_evict_blobs(blobs, 0, is_used, u), 1, "a chunk of no pool is evicted");
	ok(blob_has(blobs, digest) && blob_has(blobs, tree),
	   "those of the pool's source tree stay: the next tree needs only what differs");
	uses_free(u);
	strv_fini(&v);
	pools_leave(f);
	list(0, 0, 0);
}

static void put_bytes(uint64_t id, size_t n)
{
	cleanup_free char *cache = cache_of(id), *path = xasprintf("%s/big", cache), *text = xcalloc(1, n);

	if (fs_replace(path, text, n, 0600, NULL) < 0)
		tap_bail("%s", path);
}

static char ended[512];

static void note_end(uint64_t pool, uint64_t job, const char *text, void *arg)
{
	size_t n = strlen(ended);

	(void)arg;
	snprintf(ended + n, sizeof(ended) - n, "%llu %llu %s;", (unsigned long long)pool, (unsigned long long)job,
	         text);
}

/* A pool that is idle, with so many KiB. */
static void leave_pool(uint64_t id, size_t kib)
{
	struct pool_folder *f = begin(id, 0, 1);

	put_bytes(id, kib * 1024);
	pools_leave(f);
	usleep(2000); /* the next one is younger */
}

static void list_all(uint64_t from, uint64_t to)
{
	struct wm_pools m = {0};

	for (uint64_t id = from; id <= to; id++) {
		wire_u64v_add(&m.pools, id);
		wire_u64v_add(&m.jobs, id);
		wire_u64v_add(&m.until_us, 0);
	}
	pools_order(p, &m);
	wire_fini(WM_POOLS, &m);
}

static void turn_until_gone(uint64_t id)
{
	for (int i = 0; i < 500 && exists(id); i++)
		loop_run_once(env.loop, 10);
	for (int i = 0; i < 5; i++)
		loop_run_once(env.loop, 10);
}

static void test_room(void)
{
	uid_t other = 65533, owner = user.uid;
	struct pool_folder *f;

	pools_on_end(p, note_end, NULL);
	env.cfg.warm_cache_limit = 1024 * 1024;
	f = begin(80, 0, 1);
	put_bytes(80, 900 * 1024);
	leave_pool(81, 900);
	leave_pool(82, 900);
	list_all(80, 82);
	turn_until_gone(81);
	ok(!exists(81), "above the bound of an account its oldest idle pool has no folder any more");
	ok(exists(80) && exists(82), "the one in use and the younger one stay");
	is_str(ended, "81 81 cache folders of the account's pools are above their limit on this node;",
	       "hearthd hears of it");
	ended[0] = '\0';
	pools_leave(f);
	if (env.is_root) {
		user.uid = user.gid = other;
		leave_pool(83, 900);
		leave_pool(84, 900);
		list_all(80, 84);
		turn_until_gone(82);
		ok(!exists(82) && exists(80) && exists(83) && exists(84),
		   "above the bound of the node the one that was idle longest goes, whose ever it is");
		is_str(ended, "82 82 cache folders of pools are above their limit on this node;", "likewise");
		user.uid = user.gid = owner;
	} else {
		tap_skip("not root: no other account");
	}
	list(0, 0, 0);
	env.cfg.warm_cache_limit = 0;
	ended[0] = '\0';
#ifdef HEARTH_FAULTS
	fault_arm("agent.pool_disk", 1, 1000);
	leave_pool(84, 1);
	leave_pool(85, 1100);
	leave_pool(86, 1100);
	list_all(84, 86);
	turn_until_gone(85);
	ok(!exists(85) && exists(86) && exists(84),
	   "on a full disk the oldest idle pool of some size goes, one at a time");
	is_str(ended, "85 85 the disk of this node is nearly full;", "and hearthd hears of it");
	fault_clear();
#else
	tap_skip("needs --enable-faults");
#endif
	list(0, 0, 0);
}

/* A fault that hearthd has not on record outlives the agent. */
static void test_suspects(void)
{
	ended[0] = '\0';
	pools_on_end(p, note_end, NULL);
	is_str(ended, "", "no report waits");
	pools_suspect(p, 7, 70, "memory of GPU 0 is in use");
	is_str(ended, "7 70 memory of GPU 0 is in use;", "the agent reports a fault at once");
	restart();
	ended[0] = '\0';
	pools_on_end(p, note_end, NULL);
	is_str(ended, "7 70 memory of GPU 0 is in use;", "the next agent reports it again");
	pools_told(p, 7, 70);
	restart();
	ended[0] = '\0';
	pools_on_end(p, note_end, NULL);
	is_str(ended, "", "until hearthd has it on record");
}

int main(void)
{
	char none[] = "nobody";

	env.loop = loop_create();
	env.clock = clock_real();
	env.is_root = geteuid() == 0;
	env.cfg.data_dir = xasprintf("%s/data", tap_tmpdir());
	env.cfg.run_dir = xasprintf("%s/run", tap_tmpdir());
	fs_mkdir_p(env.cfg.data_dir, 0755, NULL);
	fs_mkdir_p(env.cfg.run_dir, 0755, NULL);
	user = (struct launch_user){.uid = geteuid(), .gid = getegid(), .name = none};
	if (env.is_root)
		user.uid = user.gid = 65534;
	trash = trash_create(&env);
	p = pools_create(&env, trash);
	test_suspects();
	test_chain();
	test_parts();
	test_restart();
	test_bounds();
	test_uses();
	test_chunks();
	test_room();
	pools_destroy(p);
	trash_destroy(trash);
	loop_destroy(env.loop);
	free(env.cfg.data_dir);
	free(env.cfg.run_dir);
	return tap_done();
}
