/*
 * hearth-rsh: mpirun calls it instead of ssh, as `hearth-rsh HOST orted ARGS...` or with the command as one
 * string.
 *
 * It asks the agent of this node over its local socket to start orted on HOST, and then stays, because
 * mpirun takes the end of this program as the loss of that node. So it outlives its agent. When the
 * connection ends without an answer, it comes back with the same rsh_id for RECONNECT_S seconds, and the
 * next agent recognises the request. Only a state of orted, that time or a signal ends it.
 *
 * Exit status: that of orted; 128 + N when a signal ended orted; 255 when orted could not be started or its
 * fate is unknown.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/stubs/rshwords.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "common/net/wire.h"
#include "common/net/wire_msg.h"

#define RECONNECT_S  60
#define RETRY_MIN_MS 20
#define RETRY_MAX_MS 1000
#define ID_BYTES     16
#define CHUNK        4096
#define IN_MAX       (64 * 1024)
#define EXIT_UNKNOWN 255
#define WELL_US      2000000 /* a connection that lasted so long was one to a living agent */

static uint64_t now_us(void)
{
	return clock_boot_us(clock_real());
}

static int print_failure(const char *host, const char *text)
{
	fprintf(stderr, "hearth-rsh: %s: %s\n", host, text);
	return EXIT_UNKNOWN;
}

/* getrandom and not hash.h's random_bytes: that brings libcrypto, whose loading every launch would wait for.
 */
static void random_id(char out[2 * ID_BYTES + 1])
{
	uint8_t id[ID_BYTES];

	if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
		abort();
	str_hex(id, sizeof(id), out);
}

static int dial_agent(const char *path, struct err *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(path) >= sizeof(a.sun_path))
		return err_set(e, ERR_LIMIT, "HEARTH_AGENT_SOCK is longer than %zu bytes", sizeof(a.sun_path) - 1);
	memcpy(a.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(e, errno, "socket");
	/* Blocking: a listening socket whose queue is full means an agent that will look at it. */
	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	err_sys(e, errno, "agent at %s", path);
	close(fd);
	return -1;
}

static int send_all(int fd, struct buf *out, struct err *e)
{
	ssize_t n;

	while (buf_left(out)) {
		n = send(fd, buf_head(out), buf_left(out), MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return err_sys(e, errno, "request to the agent");
		if (n > 0)
			buf_skip(out, (size_t)n);
	}
	return 0;
}

struct request {
	const char *host;
	struct wm_local_rsh msg;
	int answered; /* the agent has said something about this request */
};

/* -1: goes on; else the exit status. */
static int on_state(struct request *r, const struct wm_local_rsh_state *m)
{
	if (strcmp(m->rsh_id, r->msg.rsh_id) != 0)
		return -1;
	r->answered = 1;
	switch (m->state) {
	case PS_WAITING:
	case PS_RUNNING:
		return -1;
	case PS_EXITED:
		if (m->signal)
			return m->signal < 127 ? 128 + (int)m->signal : EXIT_UNKNOWN;
		return m->exit_code <= 255 ? (int)m->exit_code : EXIT_UNKNOWN;
	case PS_FAILED:
		return print_failure(r->host, m->text[0] ? m->text : "orted could not be started");
	default:
		return print_failure(r->host, m->text[0] ? m->text : "the fate of orted is unknown");
	}
}

/* All whole frames of in. -1 go on, -2 malformed, else the exit status. */
static int take_frames(struct request *r, struct buf *in, struct err *e)
{
	struct wire_frame f;
	int end = -1, rc;
	void *msg;

	while (end == -1 && (rc = wire_next(in, &f, e)) != 0) {
		if (rc < 0)
			return -2;
		if (f.type != WM_LOCAL_RSH_STATE) {
			err_set(e, ERR_PROTOCOL, "the agent answered with %s", wire_name(f.type));
			return -2;
		}
		if (wire_decode(f.type, f.body, f.n, &msg, e) < 0)
			return -2;
		end = on_state(r, msg);
		wire_free(f.type, msg);
	}
	return end;
}

/* Until the connection ends. -1: it did, e says how; else the exit status. Without deadline: orted runs as
 * long as its job, and the agent ends with the machine at the latest. */
static int follow_command(struct request *r, int fd, struct err *e)
{
	struct buf in;
	uint8_t *room;
	ssize_t n;
	int end = -1;

	buf_init(&in, IN_MAX);
	while (end == -1) {
		if (buf_reserve(&in, CHUNK, &room) < 0) {
			err_set(e, ERR_PROTOCOL, "the agent sent a frame that is too large");
			break;
		}
		n = recv(fd, room, CHUNK, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			err_set(e, ERR_UNAVAILABLE, "the agent closed the connection");
			break;
		}
		in.len += (size_t)n;
		end = take_frames(r, &in, e);
	}
	buf_fini(&in);
	return end < 0 ? -1 : end;
}

/* One connection: -1 when it could not be made or ended. */
static int try_once(struct request *r, const char *path, uint64_t *lost_us, struct err *e)
{
	cleanup_close int fd = dial_agent(path, e);
	uint64_t since_us = now_us();
	struct buf out;
	int end = -1;

	if (fd < 0)
		return -1;
	buf_init(&out, WIRE_HEADER_SIZE + WIRE_MAX_BODY);
	if (wire_encode(WM_LOCAL_RSH, &r->msg, 1, &out, e) < 0)
		end = print_failure(r->host, e->text);
	else if (send_all(fd, &out, e) == 0) {
		r->answered = 0;
		end = follow_command(r, fd, e);
		/* This agent was well: the time to find the next one begins now. One that takes the connection and
		 * falls over each time does not stretch it. */
		if (r->answered || now_us() - since_us >= WELL_US)
			*lost_us = now_us();
	}
	buf_fini(&out);
	return end;
}

static int run_request(struct request *r, const char *path)
{
	uint64_t lost_us = now_us();
	int gap_ms = RETRY_MIN_MS, end;
	TEXT(text);
	struct err why = {0};

	for (;;) {
		r->answered = 0;
		end = try_once(r, path, &lost_us, &why);
		if (end >= 0)
			return end;
		if (r->answered)
			gap_ms = RETRY_MIN_MS;
		if (now_us() - lost_us >= RECONNECT_S * 1000000ull)
			break;
		poll(NULL, 0, gap_ms);
		gap_ms = gap_ms * 2 < RETRY_MAX_MS ? gap_ms * 2 : RETRY_MAX_MS;
	}
	text_add(&text, "no agent for %d s: %s", RECONNECT_S, why.text);
	return print_failure(r->host, text.at);
}

int main(int argc, char **argv)
{
	const char *path = getenv("HEARTH_AGENT_SOCK"), *token = getenv("HEARTH_LAUNCH_TOKEN");
	char id[2 * ID_BYTES + 1];
	struct request r = {0};
	struct strv words = {0};
	struct err why;
	int rc;

	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("hearth-rsh " PACKAGE_VERSION);
		return 0;
	}
	if (argc < 3) {
		fputs("usage: hearth-rsh HOST COMMAND...\nCalled by mpirun (plm_rsh_agent) in a launch of "
		      "hearth-agent.\n",
		      stderr);
		return EXIT_UNKNOWN;
	}
	if (!path || !token)
		return print_failure(argv[1], "HEARTH_AGENT_SOCK and HEARTH_LAUNCH_TOKEN are not set");
	if (rshwords_split(argv + 2, (size_t)argc - 2, &words, &why) < 0)
		return print_failure(argv[1], why.text);
	random_id(id);
	r = (struct request){.host = argv[1],
	                     .msg = {.token = (char *)(uintptr_t)token,
	                             .rsh_id = id,
	                             .host = argv[1],
	                             .argv = {.v = words.v, .n = (uint32_t)words.n}}};
	rc = run_request(&r, path);
	strv_fini(&words);
	return rc;
}
