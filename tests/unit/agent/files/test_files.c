/*
 * files: hearth-files does what its account may do, and nothing else: which paths it refuses, what it is as a
 * process, and what the agent makes of one that ends, hangs or talks nonsense.
 */
#include "agent/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/files/channel.h"
#include "agent/files/identity.h"
#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

#define ACCOUNT 65534
#define OTHER   54321
#define GROUP   54322
#define HELD    40 /* descriptor of this process */

static struct agent_env env;
static gid_t groups[] = {ACCOUNT, GROUP};
static struct launch_user user;
static int is_root, steps, stop_after;
static uint64_t total;
static void (*on_step)(void);

static char *in_tmp(const char *name)
{
	return xasprintf("%s/%s", tap_tmpdir(), name);
}

static char *put(const char *name, const char *text, uid_t owner, mode_t mode)
{
	char *path = in_tmp(name);
	cleanup_free char *dir = xstrndup(path, (size_t)(strrchr(path, '/') - path));
	struct err e;

	if (fs_mkdir_p(dir, 0755, &e) < 0 || fs_replace(path, text, strlen(text), mode, &e) < 0)
		tap_bail("%s", e.text);
	if (chmod(path, mode) < 0 || (is_root && chown(path, owner, owner) < 0))
		tap_bail("%s: %s", path, strerror(errno));
	return path;
}

static int count_step(uint64_t bytes, void *arg)
{
	(void)bytes;
	(void)arg;
	if (on_step)
		on_step();
	return stop_after && ++steps >= stop_after ? -1 : 0;
}

static void take_total(uint64_t bytes, void *arg)
{
	(void)arg;
	total = bytes;
}

static struct files *begin(void)
{
	const struct files_params p = {.env = &env, .user = &user, .step = count_step, .total = take_total};

	steps = stop_after = 0;
	on_step = NULL;
	return files_create(&p);
}

/* The helper, which is the only child of this process; 0 none. */
static pid_t helper_pid(void)
{
	cleanup_free char *path = xasprintf("/proc/self/task/%d/children", (int)getpid()), *text = NULL;
	size_t n;

	return fs_read_file(path, 4096, &text, &n, NULL) < 0 ? 0 : (pid_t)strtol(text, NULL, 10);
}

/* ---- paths ------------------------------------------------------------------------------------------ */

static void refused(struct files *f, const char *path, enum err_code code, const char *why)
{
	struct files_info info;
	struct err e = {0};

	is_int(files_look(f, path, &info, &e), -1, path);
	is_int(e.code, code, "  with the code");
	like(e.text, why, "  and why");
	is_int(files_open(f, path, NULL), -1, "  nor is it opened");
}

static void test_procfs(void)
{
	cleanup_free char *closed = in_tmp("closed"), *secret = put("closed/secret", "theirs\n", OTHER, 0644);
	cleanup_free char *way = in_tmp("way"), *around = in_tmp("around"), *stat_file = NULL, *path = NULL;
	struct files *f = begin();
	struct files_info info;
	struct err e;
	int fd = open(secret, O_RDONLY | O_CLOEXEC);

	if (chmod(closed, 0700) < 0 || fd < 0 || dup2(fd, HELD) < 0)
		tap_bail("%s", secret);
	close(fd);
	/* Numbers of this process and of the helper: what either holds open leads nowhere. */
	for (int i = 0; i < 64; i++) {
		cleanup_free char *self = xasprintf("/proc/self/fd/%d", i);
		cleanup_free char *agent = xasprintf("/proc/%d/fd/%d", (int)getpid(), i);

		is_int(files_look(f, self, &info, &e), -1, self);
		like(e.text, "leads through a link of procfs", "  is refused");
		is_int(files_look(f, agent, &info, &e), -1, agent);
		is_int(e.code, ERR_INVALID, "  is refused");
	}
	refused(f, "/proc/self/fd/0", ERR_INVALID, "leads through a link of procfs");
	refused(f, "/dev/stdin", ERR_INVALID, "leads through a link of procfs");
	refused(f, "/proc/self/root/etc/passwd", ERR_INVALID, "leads through a link of procfs");
	refused(f, "/proc/self/cwd", ERR_INVALID, "leads through a link of procfs");
	refused(f, "/proc/self/exe", ERR_INVALID, "leads through a link of procfs");
	refused(f, "/proc/self/status", ERR_INVALID, "is on procfs");
	refused(f, "/proc", ERR_INVALID, "is on procfs");
	refused(f, "/sys/kernel", ERR_INVALID, "is on sysfs");
	stat_file = xasprintf("/proc/%d/stat", (int)getpid());
	refused(f, stat_file, ERR_INVALID, "is on procfs");
	if (symlink("/proc/self/fd/0", way) < 0 || symlink("way", around) < 0)
		tap_bail("symlink");
	refused(f, around, ERR_INVALID, "leads through a link of procfs");
	path = in_tmp("nowhere");
	refused(f, path, ERR_NOT_FOUND, "No such file or directory");
	files_destroy(f);
	close(HELD);
}

static void test_kinds(void)
{
	cleanup_free char *file = put("open/file", "text\n", 0, 0644), *fifo = in_tmp("open/fifo"),
	                  *link = in_tmp("link");
	cleanup_free char *dir = in_tmp("open"), *text = NULL;
	struct files *f = begin();
	struct files_info info = {0};
	struct err e = {0};
	char byte;
	size_t n;
	int fd;

	if (mkfifo(fifo, 0666) < 0 || symlink("open/file", link) < 0)
		tap_bail("%s", fifo);
	is_int(files_look(f, link, &info, &e), 0, "a link to a file is followed");
	ok(!info.is_folder && info.size_bytes == 5, "  and its size is known");
	is_int(files_look(f, dir, &info, &e), 0, "a folder");
	ok(info.is_folder, "  is one");
	refused(f, fifo, ERR_INVALID, "is neither a file nor a folder");
	refused(f, "/dev/zero", ERR_INVALID, "is neither a file nor a folder");
	is_int(files_open(f, dir, &e), -1, "a folder is not opened as a file");
	fd = files_open(f, file, &e);
	ok(fd >= 0 && read(fd, &byte, 1) == 1 && byte == 't', "an open file comes back");
	close(fd);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is_int(files_read(f, fd, "file", 5, &text, &n, &e), 0, "a text below a folder");
	ok(n == 5 && strcmp(text, "text\n") == 0, "  comes whole");
	is_int(files_read(f, fd, "file", 4, &text, &n, &e), -1, "one that is longer than asked for");
	is_int(e.code, ERR_LIMIT, "  is refused");
	close(fd);
	files_destroy(f);
}

static void test_rights(void)
{
	cleanup_free char *mine = put("rights/mine", "1", ACCOUNT, 0600),
	                  *roots = put("rights/roots", "2", 0, 0600);
	cleanup_free char *theirs = put("rights/theirs", "3", OTHER, 0600),
	                  *groups_file = put("rights/group", "4", 0, 0640);
	struct files *f = begin();
	struct files_info info;
	struct err e;

	if (!is_root) {
		tap_skip("permissions of another account: not root");
		files_destroy(f);
		return;
	}
	if (chown(groups_file, 0, GROUP) < 0)
		tap_bail("%s", groups_file);
	is_int(files_look(f, mine, &info, &e), 0, "a file of the account's own");
	is_int(files_look(f, groups_file, &info, &e), 0, "one that a group of the account lets it read");
	refused(f, roots, ERR_DENIED, "Permission denied");
	refused(f, theirs, ERR_DENIED, "Permission denied");
	files_destroy(f);
}

/* ---- trees ------------------------------------------------------------------------------------------ */

static int new_folder(const char *name)
{
	cleanup_free char *path = in_tmp(name);
	int fd;

	if (mkdir(path, 0755) < 0 || (is_root && chown(path, ACCOUNT, ACCOUNT) < 0) ||
	    (fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		tap_bail("%s: %s", path, strerror(errno));
	return fd;
}

static void test_copy(void)
{
	cleanup_free char *a = put("tree/step-1", "12345", 0, 0644), *b = put("tree/sub/step-9", "123", 0, 0644);
	cleanup_free char *link = in_tmp("tree/link"), *copied = in_tmp("to/link"), *src = in_tmp("tree");
	cleanup_free char *later = put("tree/step-2", "9", 0, 0644), *gone = in_tmp("to/step-2"),
	                  *deep = in_tmp("to/sub/step-9");
	struct files_copy c = {.path = src, .to = new_folder("to"), .last = 1};
	struct files *f = begin();
	struct err e = {0};
	char target[64];
	struct stat st;
	ssize_t n;

	ok(a && b && later, "the files are there");
	if (symlink("/proc/self/fd/40", link) < 0)
		tap_bail("%s", link);
	total = 0;
	is_int(files_copy(f, &c, &e), 0, e.text);
	is_int((int64_t)total, 9, "its size came before it");
	is_int((int64_t)c.later, 1, "an entry of a later step is left out");
	ok(access(gone, F_OK) < 0 && access(deep, F_OK) == 0, "  and nothing else");
	n = readlink(copied, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	is_str(target, "/proc/self/fd/40", "a link into procfs is copied as a link: nobody follows it here");
	ok(!is_root || (stat(deep, &st) == 0 && st.st_uid == ACCOUNT), "the copy is the account's");
	c.limit = 3;
	is_int(files_copy(f, &c, &e), -1, "a bound");
	is_int(e.code, ERR_LIMIT, "  as such");
	if (is_root) {
		cleanup_free char *roots = in_tmp("roots");

		mkdir(roots, 0755);
		close(c.to);
		c.to = open(roots, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		c.limit = 0;
		is_int(files_copy(f, &c, &e), -1, "into a folder that the account may not write, be it open already");
		is_int(e.code, ERR_DENIED, "  it writes nothing");
	}
	c.path = "/proc/self";
	is_int(files_copy(f, &c, &e), -1, "procfs");
	like(e.text, "procfs", "  is not copied");
	close(c.to);
	files_destroy(f);
}

static void test_model_link(void)
{
	cleanup_free char *model = in_tmp("ml/model");
	struct files_tree t = {.ml = new_folder("ml"), .dir = "model"};
	struct files *f = begin();
	struct err e = {0};

	is_int(files_measure(f, &t, &e), 0, "a folder of results that is missing");
	is_int((int64_t)t.files, 0, "  has no files");
	if (symlink("/proc/self/root", model) < 0)
		tap_bail("%s", model);
	is_int(files_measure(f, &t, &e), -1, "one that leads through procfs");
	like(e.text, "leads through a link of procfs", "  is refused");
	unlink(model);
	if (symlink("/proc", model) < 0)
		tap_bail("%s", model);
	is_int(files_measure(f, &t, &e), -1, "one that is procfs");
	like(e.text, "is on procfs", "  is refused, too");
	close(t.ml);
	files_destroy(f);
}

/* ---- the process ------------------------------------------------------------------------------------ */

static void has_line(const char *status, const char *line)
{
	ok(strstr(status, line) != NULL, "%s", line);
}

static void check_descriptors(pid_t pid)
{
	cleanup_free char *dir = xasprintf("/proc/%d/fd", (int)pid);
	DIR *d = opendir(dir);
	const struct dirent *one;
	char target[128];
	int n = 0, nulls = 0;

	if (!d) { /* one that cannot be traced is closed to its own account, too */
		ok(!is_root && errno == EACCES, "descriptors are closed to others");
		return;
	}
	while ((one = readdir(d))) {
		ssize_t len = readlinkat(dirfd(d), one->d_name, target, sizeof(target) - 1);

		target[len > 0 ? len : 0] = '\0';
		n += len > 0;
		nulls += strcmp(target, "/dev/null") == 0;
	}
	closedir(d);
	is_int(n, 3, "three descriptors are open");
	is_int(nulls, 2, "two of them are /dev/null, and one is the channel");
}

static void test_process(void)
{
	cleanup_free char *path = put("process/file", "1", ACCOUNT, 0644), *status_path = NULL, *status = NULL,
	                  *dir = NULL;
	cleanup_free char *limits_path = NULL, *limits = NULL;
	struct files *f = begin();
	struct files_info info;
	struct stat st;
	struct err e;
	size_t n;
	pid_t pid;

	is_int(helper_pid(), 0, "nothing runs before the first request");
	is_int(files_look(f, path, &info, &e), 0, "a request");
	pid = helper_pid();
	status_path = xasprintf("/proc/%d/status", (int)pid);
	limits_path = xasprintf("/proc/%d/limits", (int)pid);
	dir = xasprintf("/proc/%d/fd", (int)pid);
	if (fs_read_file(status_path, 65536, &status, &n, &e) < 0 ||
	    fs_read_file(limits_path, 65536, &limits, &n, &e) < 0)
		tap_bail("%s", e.text);
	has_line(status, "Name:\thearth-files");
	if (is_root) {
		has_line(status, "Uid:\t65534\t65534\t65534\t65534");
		has_line(status, "Gid:\t65534\t65534\t65534\t65534");
		has_line(status, "Groups:\t54322 65534");
		has_line(status, "CapBnd:\t0000000000000000");
	}
	has_line(status, "CapInh:\t0000000000000000");
	has_line(status, "CapPrm:\t0000000000000000");
	has_line(status, "CapEff:\t0000000000000000");
	has_line(status, "CapAmb:\t0000000000000000");
	has_line(status, "NoNewPrivs:\t1");
	ok(stat(dir, &st) == 0 && st.st_uid == 0, "its account cannot trace it");
	has_line(limits, "Max core file size        0                    0");
	has_line(limits, "Max processes             0                    0");
	is_int(getsid(pid), pid, "it has a session of its own");
	check_descriptors(pid);
	is_int(files_look(f, path, &info, &e), 0, "another request");
	is_int(helper_pid(), pid, "  is the same helper's");
	files_destroy(f);
	is_int(helper_pid(), 0, "then it is gone");
}

/* The agent dies while a request is at work. */
static void test_orphan(void)
{
	cleanup_free char *path = put("process/file", "1", ACCOUNT, 0644), *proc = NULL;
	uint64_t end = clock_boot_us(clock_real()) + 20000000;
	struct files_info info;
	pid_t helper = 0, agent;
	int fds[2];

	if (pipe(fds) < 0)
		tap_bail("pipe");
	agent = fork();
	if (agent == 0) {
		struct files *f = begin();

		files_look(f, path, &info, NULL);
		helper = helper_pid();
		kill(helper, SIGSTOP); /* it cannot see the end of the channel */
		(void)!write(fds[1], &helper, sizeof(helper));
		for (;;)
			pause();
	}
	if (read(fds[0], &helper, sizeof(helper)) != (ssize_t)sizeof(helper))
		tap_bail("no helper");
	kill(agent, SIGKILL);
	waitpid(agent, NULL, 0);
	proc = xasprintf("/proc/%d/exe", (int)helper);
	while (access(proc, F_OK) == 0 && clock_boot_us(clock_real()) < end)
		usleep(10000);
	ok(access(proc, F_OK) < 0, "a helper ends with its agent");
	close(fds[0]);
	close(fds[1]);
}

static void kill_helper(void)
{
	pid_t pid = helper_pid();

	if (pid)
		kill(pid, SIGKILL);
}

static void test_killed(void)
{
	cleanup_free char *path = put("big/file", "", ACCOUNT, 0644), *dir = in_tmp("big");
	struct files_copy c = {.path = dir, .to = new_folder("big-to"), .last = -1};
	struct files *f = begin();
	struct files_info info;
	struct err e = {0};

	is_int(files_look(f, path, &info, &e), 0, "a request");
	kill_helper();
	is_int(files_look(f, path, &info, &e), -1, "its account ends the helper");
	is_int(e.code, ERR_UNAVAILABLE, "  which may be another's luck");
	like(e.text, "was ended by SIGKILL", "  and is said");
	is_int(files_look(f, path, &info, &e), 0, "the next request has another");
	stop_after = 1;
	if (truncate(path, 1 << 20) < 0)
		tap_bail("%s", path);
	is_int(files_copy(f, &c, &e), -1, "a request that is stopped");
	is_str(e.text, "cancelled", "  says so");
	is_int(helper_pid(), 0, "  and leaves no helper");
	close(c.to);
	files_destroy(f);
}

/* ---- others ----------------------------------------------------------------------------------------- */

static void starts_not(const char *script, const char *why)
{
	cleanup_free char *dir = in_tmp("libexec"), *program = NULL;
	char *before = env.cfg.libexec_dir;
	struct files *f = begin();
	struct files_info info;
	struct err e = {0};

	fs_rm_rf(dir, NULL);
	program = put("libexec/hearth-files", script, 0, 0755);
	if (!*script)
		unlink(program);
	env.cfg.libexec_dir = dir;
	is_int(files_look(f, dir, &info, &e), -1, why);
	like(e.text, why, "  is said");
	is_int(e.code, ERR_UNAVAILABLE, "  and is the node's fault");
	env.cfg.libexec_dir = before;
	files_destroy(f);
}

static void test_others(void)
{
	starts_not("", "install Hearth again");
	starts_not("#!/bin/sh\nprintf nonsense >&0\n", "restart the agent");
	starts_not("#!/bin/sh\nexit 0\n", "hearth-files");
}

static void test_accounts(void)
{
	static const char *const wrong[] = {"",     "1",     "1:",    ":1",          "-1:1",
	                                    "1:2:", "1:2:x", "1:2 3", "4294967295:1"};
	struct identity id;
	struct err e;

	is_int(identity_parse("7:8:9:10", &id, &e), 0, "an account with groups");
	ok(id.uid == 7 && id.gid == 8 && id.n_groups == 3 && id.groups[0] == 8 && id.groups[2] == 10,
	   "  is understood");
	free(id.groups);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ok(identity_parse(wrong[i], &id, &e) < 0, "\"%s\" is refused", wrong[i]);
}

static void test_channel(void)
{
	cleanup_free char *long_text = xmalloc(FILES_TEXT + 2);
	struct files_channel a, b;
	struct files_msg m = {
	    .type = FILES_LOOK, .texts = {"x", NULL, "z"}, .v = {1, 2, UINT64_MAX}, .bytes = "abc", .n_bytes = 3};
	struct files_msg got;
	struct err e;
	int ends[2];

	memset(long_text, 'l', FILES_TEXT + 1);
	long_text[FILES_TEXT + 1] = '\0';
	if (files_channel_pair(ends, &e) < 0)
		tap_bail("%s", e.text);
	files_channel_init(&a, ends[0]);
	files_channel_init(&b, ends[1]);
	m.fd = ends[0];
	is_int(files_send(&a, &m, &e), 0, "a message with a descriptor");
	is_int(files_recv(&b, 1000, &got, &e), 0, "  arrives");
	ok(got.type == FILES_LOOK && strcmp(got.texts[0], "x") == 0 && !got.texts[1][0] &&
	       got.v[2] == UINT64_MAX && got.n_bytes == 3 && got.fd >= 0,
	   "  whole");
	close(got.fd);
	is_int(files_recv(&b, 10, &got, &e), -1, "none comes");
	is_int(e.code, ERR_TIMEOUT, "  in time");
	m = (struct files_msg){.type = FILES_LOOK, .texts = {long_text}, .fd = -1};
	is_int(files_send(&a, &m, &e), -1, "a path of more than 8 KiB is not sent");
	is_int(e.code, ERR_LIMIT, "  as being too long");
	send(ends[0], "noise", 5, 0);
	is_int(files_recv(&b, 1000, &got, &e), -1, "noise");
	is_int(e.code, ERR_PROTOCOL, "  is not a message");
	close(ends[0]);
	is_int(files_recv(&b, 1000, &got, &e), -1, "a closed end");
	is_int(e.code, ERR_UNAVAILABLE, "  is known as such");
	files_channel_fini(&a);
	files_channel_fini(&b);
	close(ends[1]);
}

int main(void)
{
	cleanup_free char *libexec =
	    xasprintf("%s/agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : ".");

	signal(SIGPIPE, SIG_IGN);
	is_root = geteuid() == 0;
	user = (struct launch_user){.uid = is_root ? ACCOUNT : geteuid(),
	                            .gid = is_root ? ACCOUNT : getegid(),
	                            .name = (char *)(uintptr_t) "nobody",
	                            .groups = groups,
	                            .n_groups = 2};
	env = (struct agent_env){.is_root = is_root, .cfg = {.libexec_dir = libexec}};
	chmod(tap_tmpdir(), 0755);
	test_channel();
	test_accounts();
	test_procfs();
	test_kinds();
	test_rights();
	test_copy();
	test_model_link();
	test_process();
	test_orphan();
	test_killed();
	test_others();
	return tap_done();
}
