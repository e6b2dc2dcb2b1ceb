/* launch, key and state files of a shim: round trips, torn and spoilt files, full file systems. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/fault.h"
#include "common/os/fsutil.h"
#include "shim/sealed.h"
#include "shim/shim.h"
#include "shim/state.h"
#include "tests/lib/tap.h"

static char *path_of(const char *dir, const char *name)
{
	return xasprintf("%s/%s", dir, name);
}

static char *fresh_dir(void)
{
	static int n;
	char *dir = xasprintf("%s/f%d", tap_tmpdir(), ++n);

	if (mkdir(dir, 0700) < 0)
		tap_bail("%s: %s", dir, strerror(errno));
	return dir;
}

static void fill_launch(struct shim_launch *l)
{
	*l = (struct shim_launch){.token = xstrdup("launch token"),
	                          .shim_token = xstrdup("shim token"),
	                          .kind = PROC_MPIRUN,
	                          .job = 1ull << 40,
	                          .attempt = 3,
	                          .rank = 0xffffffff,
	                          .cwd = xstrdup("/tmp"),
	                          .logdir = xstrdup("/var/log/x"),
	                          .wait_go = 1,
	                          .metrics = 1,
	                          .uid = getuid(),
	                          .gid = getgid(),
	                          .user = xstrdup("somebody"),
	                          .container_pid = 12,
	                          .container_start = 1ull << 50,
	                          .segment_bytes = 1,
	                          .max_bytes = 2,
	                          .limit_nofile = 3,
	                          .memlock_unlimited = 1,
	                          .limit_as = 4,
	                          .grace_ms = 5,
	                          .oom_score_adj = 6,
	                          .cgroup_kill = xstrdup("/k")};
	strv_add(&l->argv, "/bin/echo");
	strv_add(&l->argv, "two words \xff\x01\n");
	strv_add(&l->argv, "");
	strv_add(&l->env, "A=1");
	strv_add(&l->cgroup_procs, "/c/1");
	strv_add(&l->cgroup_procs, "/c/2");
	strv_add(&l->oom_files, "/c/events");
	wire_u32v_add(&l->cpus, 0);
	wire_u32v_add(&l->cpus, 63);
}

static void test_launch(void)
{
	cleanup_free char *dir = fresh_dir(), *path = path_of(dir, "launch"), *key_path = path_of(dir, "key");
	cleanup_free char *key = NULL;
	struct shim_launch a, b;
	struct stat st;
	struct err e;

	fill_launch(&a);
	is_int(shim_launch_write(dir, &a, &e), 0, "launch written");
	is_int(shim_launch_read(dir, &b, &e), 0, "launch read");
	is_str(b.token, a.token, "token");
	is_str(b.shim_token, a.shim_token, "shim token");
	is_int(b.kind, a.kind, "kind");
	is_int((int64_t)b.job, (int64_t)a.job, "job");
	is_int(b.rank, a.rank, "rank");
	is_int((int64_t)b.argv.n, 3, "three arguments");
	is_str(b.argv.v[1], a.argv.v[1], "an argument with odd bytes");
	is_str(b.argv.v[2], "", "an empty argument");
	ok(b.argv.v[3] == NULL, "argv ends in NULL");
	is_str(b.cgroup_procs.v[1], "/c/2", "second cgroup");
	is_int((int64_t)b.container_start, (int64_t)a.container_start, "start of the container");
	is_int(b.cpus.n, 2, "two CPUs");
	is_int(b.cpus.v[1], 63, "the second CPU");
	is_str(b.cgroup_kill, "/k", "last field");
	is_int(stat(path, &st) == 0 ? st.st_mode & 07777 : 0, 0600, "launch is private");
	is_int(stat(key_path, &st) == 0 ? st.st_mode & 07777 : 0, 0400, "key is private");
	key = shim_key_read(dir, &e);
	is_str(key, "shim token", "key");
	free(b.shim_token);
	b.shim_token = xstrdup("");
	ok(shim_launch_write(dir, &b, &e) < 0 && e.code == ERR_INVALID, "a shim without a token is refused");
	shim_launch_fini(&a);
	shim_launch_fini(&b);
	shim_launch_fini(&b);
}

static void test_launch_nulls(void)
{
	cleanup_free char *dir = fresh_dir();
	char token[] = "t";
	struct shim_launch a = {.shim_token = token}, b;
	struct err e;

	is_int(shim_launch_write(dir, &a, &e), 0, "a launch of NULLs is written");
	is_int(shim_launch_read(dir, &b, &e), 0, "and read");
	is_str(b.cwd, "", "NULL comes back as empty");
	shim_launch_fini(&b);
}

/* Every single cut and every single flipped byte must be noticed. */
static void test_launch_torn(void)
{
	cleanup_free char *dir = fresh_dir(), *path = path_of(dir, "launch");
	cleanup_free char *data = NULL;
	struct shim_launch l;
	struct err e;
	size_t n, cuts = 0, flips = 0;

	fill_launch(&l);
	if (shim_launch_write(dir, &l, &e) < 0 || fs_read_file(path, 1 << 20, &data, &n, &e) < 0)
		tap_bail("%s", e.text);
	shim_launch_fini(&l);
	for (size_t i = 0; i < n; i++) {
		fs_replace(path, data, i, 0600, NULL);
		cuts += shim_launch_read(dir, &l, &e) < 0 && e.code == ERR_PROTOCOL;
		data[i] ^= 0x10;
		fs_replace(path, data, n, 0600, NULL);
		flips += shim_launch_read(dir, &l, &e) < 0 && e.code == ERR_PROTOCOL;
		data[i] ^= 0x10;
	}
	is_int((int64_t)cuts, (int64_t)n, "every cut of a launch is noticed");
	is_int((int64_t)flips, (int64_t)n, "every flipped bit of a launch is noticed");
	unlink(path);
	ok(shim_launch_read(dir, &l, &e) < 0 && e.code == ERR_NOT_FOUND, "no launch file");
}

/* As an agent of an earlier version writes it: the programs may be replaced while it runs. */
static void test_launch_before(void)
{
	static const size_t added[] = {6 + 6,
	                               6}; /* bytes since version 1: two U8, "" | two U8, no words; since 2 */
	cleanup_free char *dir = fresh_dir(), *path = path_of(dir, "launch"), *data = NULL;
	struct shim_launch a, b;
	struct buf body, file;
	struct err e;
	size_t n;

	fill_launch(&a);
	a.allow_setuid = a.core_files = a.park = a.await_launcher = 1;
	if (shim_launch_write(dir, &a, &e) < 0 || fs_read_file(path, 1 << 20, &data, &n, &e) < 0)
		tap_bail("%s", e.text);
	buf_init(&file, 1 << 20);
	for (uint32_t version = 1; version <= 2; version++) {
		buf_view(&body, data + SEALED_HEADER_SIZE, n - SEALED_HEADER_SIZE - added[version - 1]);
		buf_reset(&file);
		sealed_put(&file, LAUNCH_MAGIC, version, &body);
		if (fs_replace(path, buf_head(&file), buf_left(&file), 0600, &e) < 0)
			tap_bail("%s", e.text);
		is_int(shim_launch_read(dir, &b, &e), 0, "a launch of an earlier version is read");
		is_str(b.cgroup_kill, "/k", "with all of its fields");
		is_int(b.allow_setuid + b.core_files, version == 1 ? 0 : 2, "its own switches");
		is_int(b.park + b.await_launcher, 0, "the new ones are off");
		shim_launch_fini(&b);
	}
	shim_launch_fini(&a);
	buf_reset(&file);
	sealed_put(&file, LAUNCH_MAGIC, LAUNCH_VERSION + 1, &body);
	if (fs_replace(path, buf_head(&file), buf_left(&file), 0600, &e) < 0)
		tap_bail("%s", e.text);
	ok(shim_launch_read(dir, &b, &e) < 0 && e.code == ERR_PROTOCOL, "a newer one is refused");
	buf_fini(&file);
}

static void test_launch_too_large(void)
{
	cleanup_free char *dir = fresh_dir();
	char token[] = "t";
	struct shim_launch l = {.shim_token = token};
	char *big = xmalloc(1 << 20);
	struct err e;

	memset(big, 'x', (1 << 20) - 1);
	big[(1 << 20) - 1] = '\0';
	for (int i = 0; i < 5; i++)
		strv_add(&l.env, big);
	ok(shim_launch_write(dir, &l, &e) < 0 && e.code == ERR_LIMIT, "an environment of 5 MB is refused");
	strv_fini(&l.env);
	free(big);
}

static void fill_state(struct shim_state *s, char *token, char *text)
{
	*s = (struct shim_state){.version = 1,
	                         .shim = {.pid = 100, .start_ticks = 5, .boot_id = "boot"},
	                         .child = {.pid = 101, .start_ticks = 6, .boot_id = "boot"},
	                         .st = {.version = 1,
	                                .token = token,
	                                .kind = PROC_RANK,
	                                .state = PS_EXITED,
	                                .pid = 101,
	                                .exit_code = 137,
	                                .signal = 9,
	                                .oom = 1,
	                                .started_us = 7,
	                                .ended_us = 8,
	                                .out_bytes = 9,
	                                .dropped_bytes = 10,
	                                .text = text}};
}

static void test_state(void)
{
	cleanup_free char *dir = fresh_dir(), *path = path_of(dir, "state");
	char token[] = "tok", text[] = "killed";
	struct shim_state a, b;
	struct stat st;
	struct err e;

	ok(shim_state_read(dir, &b, &e) < 0 && e.code == ERR_NOT_FOUND, "no state");
	fill_state(&a, token, text);
	for (int i = 0; i < 4; i++) {
		a.st.exit_code = (uint32_t)i;
		is_int(shim_state_write(dir, &a, &e), 0, "state written");
		is_int(shim_state_read(dir, &b, &e), 0, "state read");
		is_int(b.st.exit_code, i, "the newest record");
		if (i < 3)
			shim_state_fini(&b);
	}
	is_int(b.shim.pid, 100, "shim");
	is_int((int64_t)b.child.start_ticks, 6, "child");
	is_str(b.child.boot_id, "boot", "boot id");
	is_str(b.st.token, "tok", "token");
	is_str(b.st.text, "killed", "text");
	is_int((int64_t)b.st.dropped_bytes, 10, "dropped");
	is_int(stat(path, &st) == 0 ? st.st_mode & 07777 : 0, 0600, "state is private");
	shim_state_fini(&b);
}

static void test_state_torn(void)
{
	cleanup_free char *dir = fresh_dir(), *path = path_of(dir, "state");
	cleanup_free char *data = NULL;
	char token[] = "tok", text[] = "";
	struct shim_state s;
	struct err e;
	size_t n, cuts = 0, flips = 0, used = 200;

	fill_state(&s, token, text);
	if (shim_state_write(dir, &s, &e) < 0 || fs_read_file(path, 1 << 20, &data, &n, &e) < 0)
		tap_bail("%s", e.text);
	is_int((int64_t)n, 4096, "one page");
	while (used < n && data[used])
		used++;
	for (size_t i = 0; i < 16 + (size_t)((unsigned char)data[10] << 8 | (unsigned char)data[11]); i++) {
		fs_replace(path, data, i, 0600, NULL);
		cuts += shim_state_read(dir, &s, &e) < 0 && e.code == ERR_PROTOCOL;
		data[i] ^= 1;
		fs_replace(path, data, n, 0600, NULL);
		flips += shim_state_read(dir, &s, &e) < 0 && e.code == ERR_PROTOCOL;
		data[i] ^= 1;
		used = i + 1;
	}
	is_int((int64_t)cuts, (int64_t)used, "every cut of a state is noticed");
	is_int((int64_t)flips, (int64_t)used, "every flipped bit of a state is noticed");
	like(e.text, "checksum", "the error says why");
}

static void test_state_too_large(void)
{
	cleanup_free char *dir = fresh_dir();
	char token[] = "tok", text[5000];
	struct shim_state s;
	struct err e;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	fill_state(&s, token, text);
	ok(shim_state_write(dir, &s, &e) < 0, "a text that does not fit is refused");
}

#ifdef HEARTH_FAULTS
static void test_state_fault(void)
{
	cleanup_free char *dir = fresh_dir();
	char token[] = "tok", text[] = "";
	struct shim_state s, got;
	struct err e;

	fill_state(&s, token, text);
	s.st.exit_code = 1;
	shim_state_write(dir, &s, &e);
	s.st.exit_code = 2;
	fault_arm("shim.state", 1, 1);
	ok(shim_state_write(dir, &s, &e) < 0, "a failed write says so");
	fault_clear();
	is_int(shim_state_read(dir, &got, &e), 0, "and leaves the old record");
	is_int(got.st.exit_code, 1, "as it was");
	shim_state_fini(&got);
}
#endif

static void test_crc(void)
{
	is_int(sealed_crc("123456789", 9), 0xcbf43926, "the check value of CRC-32");
	is_int(sealed_crc("", 0), 0, "of nothing");
}

int main(void)
{
	test_crc();
	test_launch();
	test_launch_nulls();
	test_launch_torn();
	test_launch_before();
	test_launch_too_large();
	test_state();
	test_state_torn();
	test_state_too_large();
#ifdef HEARTH_FAULTS
	test_state_fault();
#endif
	return tap_done();
}
