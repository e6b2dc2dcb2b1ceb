/*
 * client: starting a shim, and a blocking client of its socket for tests, hearth-rank and tools.
 *
 * Readiness comes through a pipe that the shim inherits (--ready-fd): a zero byte when its state file and its
 * socket are there, else the text of what went wrong. So nobody polls for files.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "shim/shim.h"

#define FDS_MAX   3
#define CHUNK_MAX 65536

/* ---- starting ---------------------------------------------------------------------------------- */

/* Nothing of the caller's environment reaches a shim but what test builds look at. */
static void shim_environment(struct strv *env)
{
	static const char *const passed[] = {"HEARTH_FAULTS", "HEARTH_TEST_BOOT_ID", "ASAN_OPTIONS",
	                                     "UBSAN_OPTIONS", "LSAN_OPTIONS"};
	const char *value;

	strv_add(env, "PATH=/usr/local/bin:/usr/bin:/bin");
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
		value = getenv(passed[i]);
		if (value)
			strv_setenv(env, passed[i], value);
	}
}

static int spawn_shim(const char *shim_path, const char *dir, int ready, pid_t *pid, struct err *e)
{
	char number[16];
	char *argv[] = {(char *)(uintptr_t) "hearth-shim",
	                (char *)(uintptr_t) "--dir",
	                (char *)(uintptr_t)dir,
	                (char *)(uintptr_t) "--ready-fd",
	                number,
	                NULL};
	struct strv env = {0};
	struct proc_spawn s = {.path = shim_path,
	                       .argv = argv,
	                       .cwd = "/",
	                       .stdin_fd = -1,
	                       .stdout_fd = -1,
	                       .stderr_fd = -1,
	                       .extra_fds = &ready,
	                       .n_extra_fds = 1,
	                       .new_session = 1,
	                       .quick = 1};
	int rc;

	snprintf(number, sizeof(number), "%d", ready);
	shim_environment(&env);
	s.envp = env.v;
	rc = proc_spawn(&s, pid, NULL, e);
	strv_fini(&env);
	return rc;
}

int shim_spawn(const char *shim_path, const char *dir, pid_t *pid, int *ready_fd, struct err *e)
{
	cleanup_close int write_end = -1;
	int fds[2];

	if (dir[0] != '/')
		return err_set(e, ERR_INVALID, "'%s' is not an absolute path", dir);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	write_end = fds[1];
	if (spawn_shim(shim_path, dir, write_end, pid, e) < 0) {
		close(fds[0]);
		return -1;
	}
	*ready_fd = fds[0];
	return 0;
}

int shim_ready(int ready_fd, const char *dir, struct proc_id *id, struct err *e)
{
	cleanup_close int fd = ready_fd;
	struct shim_state s;
	char text[400];
	size_t have = 0;
	ssize_t n = 0;

	while (have < sizeof(text) - 1) {
		n = read(fd, text + have, sizeof(text) - 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	text[have] = '\0';
	if (n < 0)
		return err_sys(e, errno, "readiness of the shim in %s", dir);
	if (have == 0)
		return err_set(e, ERR_UNAVAILABLE, "the shim in %s ended before it was ready", dir);
	if (text[0] != '\0')
		return err_set(e, ERR_IO, "%s", text);
	if (shim_state_read(dir, &s, e) < 0)
		return -1;
	*id = s.shim;
	shim_state_fini(&s);
	return 0;
}

static uint64_t now_us(void)
{
	return clock_boot_us(clock_real());
}

/* 1 ready, 0 deadline passed. */
static int wait_fd(int fd, short events, uint64_t deadline_us)
{
	struct pollfd p = {.fd = fd, .events = events};
	uint64_t now;
	int rc;

	do {
		now = now_us();
		rc = poll(&p, 1, now >= deadline_us ? 0 : (int)((deadline_us - now + 999) / 1000));
	} while ((rc < 0 && errno == EINTR) || (rc == 0 && now_us() < deadline_us));
	return rc > 0;
}

static uint64_t deadline_in(uint32_t timeout_ms)
{
	/* poll takes an int of milliseconds; a day is for ever here. */
	return now_us() + (timeout_ms > 86400000u ? 86400000u : timeout_ms) * 1000ull;
}

int shim_start(const char *shim_path, const char *dir, uint32_t timeout_ms, struct proc_id *id, struct err *e)
{
	uint64_t deadline = deadline_in(timeout_ms);
	int fd, rc;
	pid_t pid;

	if (shim_spawn(shim_path, dir, &pid, &fd, e) < 0)
		return -1;
	if (wait_fd(fd, POLLIN, deadline)) {
		rc = shim_ready(fd, dir, id, e);
	} else {
		close(fd);
		rc = err_set(e, ERR_TIMEOUT, "the shim in %s was not ready after %u ms", dir, timeout_ms);
	}
	/* Our own child, not yet reaped: the number cannot be another's. */
	if (rc < 0 && kill(pid, SIGKILL) == 0)
		waitpid(pid, NULL, 0);
	return rc;
}

/* ---- the socket -------------------------------------------------------------------------------- */

int shim_dial(const char *dir, struct err *e)
{
	cleanup_close int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd;

	if (dir_fd < 0)
		return err_sys(e, errno, "%s", dir);
	/* Through the open directory: a path may be longer than a socket address. */
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/ctl", dir_fd);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(e, errno, "socket");
	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	if (errno == ECONNREFUSED)
		err_set(e, ERR_UNAVAILABLE, "%s/ctl: no shim is listening", dir);
	else if (errno == EAGAIN)
		err_set(e, ERR_BUSY, "%s/ctl: too many connections at once", dir);
	else
		err_sys(e, errno, "%s/ctl", dir);
	close(fd);
	return -1;
}

int shim_identify(const char *dir, struct proc_id *id, struct err *e)
{
	cleanup_close int fd = shim_dial(dir, e);
	struct ucred who;
	socklen_t n = sizeof(who);

	if (fd < 0)
		return -1;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0)
		return err_sys(e, errno, "%s/ctl", dir);
	if (who.pid <= 0 || who.uid != geteuid())
		return err_set(e, ERR_DENIED, "%s/ctl: served by somebody else", dir);
	return proc_identify(who.pid, id, e);
}

/* Descriptors go with the first byte. */
static ssize_t send_some(int fd, const void *p, size_t n, const int *fds, unsigned n_fds)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)p, .iov_len = n};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (n_fds) {
		m.msg_control = control.space;
		m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	return sendmsg(fd, &m, MSG_NOSIGNAL);
}

int shim_send(int fd, uint16_t type, const void *msg, uint64_t id, const int *fds, unsigned n_fds,
              uint32_t timeout_ms, struct err *e)
{
	uint64_t deadline = deadline_in(timeout_ms);
	struct buf out;
	ssize_t n;
	int rc = -1;

	if (n_fds > FDS_MAX)
		return err_set(e, ERR_INVALID, "%u descriptors; at most %d can be sent", n_fds, FDS_MAX);
	buf_init(&out, WIRE_HEADER_SIZE + WIRE_MAX_BODY);
	if (wire_encode(type, msg, id, &out, e) < 0)
		goto out;
	while (buf_left(&out)) {
		n = send_some(fd, buf_head(&out), buf_left(&out), fds, n_fds);
		if (n > 0) {
			buf_skip(&out, (size_t)n);
			n_fds = 0;
		} else if (n < 0 && errno == EAGAIN) {
			if (wait_fd(fd, POLLOUT, deadline))
				continue;
			err_set(e, ERR_TIMEOUT, "the shim takes nothing");
			goto out;
		} else if (n < 0 && errno != EINTR) {
			err_set(e, ERR_UNAVAILABLE, "the shim is gone: %s", strerror(errno));
			goto out;
		}
	}
	rc = 0;
out:
	buf_fini(&out);
	return rc;
}

/* n more bytes into b; 0 when the deadline passed before the first one of a frame. */
static int fill_buffer(int fd, struct buf *b, size_t want, uint64_t deadline, struct err *e)
{
	uint8_t *room;
	ssize_t n;

	while (buf_left(b) < want) {
		size_t ask = want - buf_left(b);

		ask = ask < CHUNK_MAX ? ask : CHUNK_MAX; /* memory follows what has come, not what was announced */
		if (buf_reserve(b, ask, &room) < 0)
			return err_set(e, ERR_LIMIT, "frame is too large");
		n = recv(fd, room, ask, 0);
		if (n > 0) {
			b->len += (size_t)n;
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			return err_set(e, ERR_UNAVAILABLE, "the shim closed the connection");
		} else if (errno == EAGAIN && !wait_fd(fd, POLLIN, deadline)) {
			if (buf_left(b) == 0)
				return 0;
			return err_set(e, ERR_TIMEOUT, "the shim sent only a part of a frame");
		}
	}
	return 1;
}

int shim_recv(int fd, uint16_t *type, uint64_t *id, void **msg, uint32_t timeout_ms, struct err *e)
{
	uint64_t deadline = deadline_in(timeout_ms);
	struct wire_frame f = {0};
	struct buf in;
	int rc;

	buf_init(&in, WIRE_HEADER_SIZE + WIRE_MAX_BODY);
	rc = fill_buffer(fd, &in, WIRE_HEADER_SIZE, deadline, e);
	if (rc > 0)
		rc = wire_header(buf_head(&in), &f, e) < 0 ? -1 : 1;
	if (rc > 0)
		rc = fill_buffer(fd, &in, WIRE_HEADER_SIZE + (size_t)f.n, deadline, e);
	if (rc > 0)
		rc = wire_decode(f.type, buf_head(&in) + WIRE_HEADER_SIZE, f.n, msg, e) < 0 ? -1 : 1;
	if (rc > 0) {
		*type = f.type;
		*id = f.id;
	}
	buf_fini(&in);
	return rc;
}

int shim_call(int fd, uint16_t type, const void *msg, uint16_t *reply_type, void **reply, uint32_t timeout_ms,
              struct err *e)
{
	static uint64_t last_id;
	uint64_t deadline = deadline_in(timeout_ms), want = ++last_id, id, now;
	uint16_t got_type;
	void *got;
	int rc;

	if (shim_send(fd, type, msg, want, NULL, 0, timeout_ms, e) < 0)
		return -1;
	do {
		now = now_us();
		rc =
		    shim_recv(fd, &got_type, &id, &got, now >= deadline ? 0 : (uint32_t)((deadline - now) / 1000), e);
		if (rc > 0 && id == want) {
			*reply_type = got_type;
			*reply = got;
			return 0;
		}
		if (rc > 0)
			wire_free(got_type, got);
	} while (rc > 0);
	if (rc < 0)
		return -1;
	return err_set(e, ERR_TIMEOUT, "no answer to %s after %u ms", wire_name(type), timeout_ms);
}

int shim_connect(const char *dir, const char *shim_token, uint32_t timeout_ms, struct err *e)
{
	struct wm_shim_hello hello = {.version = SHIM_VERSION, .token = (char *)(uintptr_t)shim_token};
	int fd = shim_dial(dir, e);
	uint16_t type = 0;
	uint64_t id;
	void *reply = NULL;
	int rc;

	if (fd < 0)
		return -1;
	/* A failed send does not end the question: the refusal of a full shim may be there to be read. The first
	 * frame is the answer whatever its id, because that refusal comes before hello was read. */
	shim_send(fd, WM_SHIM_HELLO, &hello, 1, NULL, 0, timeout_ms, NULL);
	rc = shim_recv(fd, &type, &id, &reply, timeout_ms, e);
	if (rc == 0)
		err_set(e, ERR_TIMEOUT, "%s/ctl: no answer to hello after %u ms", dir, timeout_ms);
	if (rc > 0 && type == WM_SHIM_OK) {
		const struct wm_shim_ok *no = reply;

		rc = err_set(e, (enum err_code)no->code, "%s", no->text);
	} else if (rc > 0 && type != WM_SHIM_STATUS) {
		rc = err_set(e, ERR_PROTOCOL, "%s/ctl answered hello with %s", dir, wire_name(type));
	}
	wire_free(type, reply);
	if (rc > 0)
		return fd;
	close(fd);
	return -1;
}
