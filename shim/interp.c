/*
 * interp: see interp.h.
 *
 * The process's user controls all that it says: one line of at most SAID_MAX bytes, before a deadline. What
 * it prints while it is parked would reach the next job's log, or show that a preload started something: such
 * an interpreter is not used.
 */
#include "shim/interp.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "shim/core.h"
#include "shim/ctl.h"
#include "shim/start.h"
#include "shim/tree.h"

#define SAID_MAX  (4096 + 16)        /* "bad TEXT\n" */
#define FRAME_MAX (8u * 1024 * 1024) /* more than a frame of the socket can carry */
#define WARM_US   600000000ull       /* imports from a slow file system */
#define SILENT_US 1000000            /* for the end of one that has closed its socket */
#define KILLED_US 10000000           /* after so long SIGKILL does not help: asleep in the kernel */

static uint64_t now_us(const struct shim *s)
{
	return clock_boot_us(s->clock);
}

void interp_init(struct interp *t)
{
	*t = (struct interp){.fd = -1};
	buf_init(&t->in, SAID_MAX);
	buf_init(&t->out, FRAME_MAX);
}

static void close_socket(struct interp *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

void interp_fini(struct interp *t)
{
	close_socket(t);
	buf_fini(&t->in);
	buf_fini(&t->out);
}

/* ---- its end ------------------------------------------------------------------------------------ */

static void read_words(struct shim *s);

static void after_end(struct shim *s)
{
	struct interp *t = &s->interp;
	enum interp_next next;

	t->state = INTERP_DYING;
	read_words(s);
	interp_fini(t);
	next = t->next;
	t->state = INTERP_NONE;
	t->until_us = 0;
	s->killed = 0;
	s->round_at_us = s->round_gap_us = 0;
	child_fini(&s->child);
	child_init(&s->child);
	out_close_pipes(s->out);
	if (next == INTERP_THEN_FAIL)
		shim_fail(s, "");
	else if (next == INTERP_THEN_START)
		start_process(s);
	else
		start_park(s);
}

void interp_drop(struct shim *s, enum interp_next next)
{
	struct interp *t = &s->interp;

	if (t->state == INTERP_DYING) {
		t->next = next > t->next ? next : t->next;
		return;
	}
	if (t->state != INTERP_TAKING) /* it may say until its end that it has begun */
		interp_fini(t);
	t->next = next;
	if (t->state == INTERP_NONE || (!s->child.running && s->childless)) {
		after_end(s);
		return;
	}
	t->state = INTERP_DYING;
	t->until_us = now_us(s) + KILLED_US;
	s->round_gap_us = 0;
	shim_kill_round(s);
	child_fini(&s->child); /* of one that has not executed yet */
}

/* Its own words may hold anything. */
static void clean_text(char *p)
{
	for (; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
}

static void be_bad(struct shim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Before it was given the program: the process stays parked without it. */
static void be_bad(struct shim *s, const char *fmt, ...)
{
	struct interp *t = &s->interp;
	int n = snprintf(t->text, sizeof(t->text), SHIM_TEXT_BAD);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->text + n, sizeof(t->text) - (size_t)n, fmt, ap);
	va_end(ap);
	clean_text(t->text);
	log_info("event=interpreter_bad reason=\"%s\"", t->text);
	interp_drop(s, INTERP_THEN_PARK);
}

static void read_output(struct shim *s)
{
	struct interp *t = &s->interp;

	if (out_discard(s->out, t->last, sizeof(t->last)))
		t->printed = 1;
}

/* The last line that it printed, "" none. */
static const char *last_line(struct interp *t)
{
	size_t n = strlen(t->last);
	char *nl;

	while (n && t->last[n - 1] == '\n')
		t->last[--n] = '\0';
	nl = strrchr(t->last, '\n');
	return nl ? nl + 1 : t->last;
}

static void fail_take(struct shim *s, const char *text)
{
	shim_set_text(s, "%s", text);
	interp_drop(s, INTERP_THEN_FAIL);
}

static void note_afresh(struct interp *t, const char *why)
{
	t->afresh = 1;
	snprintf(t->text, sizeof(t->text), SHIM_TEXT_AFRESH "%s", why);
	clean_text(t->text);
	log_info("event=interpreter_afresh reason=\"%s\"", t->text + strlen(SHIM_TEXT_AFRESH));
}

/* It has not begun the program, so that it can still start as without an interpreter; unless it is to end. */
static void take_afresh(struct shim *s, const char *why)
{
	if (s->ladder != LADDER_NONE) {
		fail_take(s, why);
		return;
	}
	note_afresh(&s->interp, why);
	s->phase = SP_PARKED;
	interp_drop(s, INTERP_THEN_START);
}

static void ended_by_itself(struct shim *s)
{
	int raw = s->child.raw_status, taking = s->interp.state == INTERP_TAKING;
	const char *line;
	char how[32], text[128 + INTERP_LAST_MAX];

	read_output(s);
	line = last_line(&s->interp);
	if (WIFSIGNALED(raw))
		snprintf(how, sizeof(how), "%s", proc_signal_name(WTERMSIG(raw)));
	else
		snprintf(how, sizeof(how), "exit %d", WEXITSTATUS(raw));
	snprintf(text, sizeof(text), "the interpreter ended%s: %s%s%s",
	         taking ? " before it ran the program" : "", how, line[0] ? ": " : "", line);
	if (taking)
		take_afresh(s, text);
	else
		be_bad(s, "%s", text);
}

/* ---- what it prints ------------------------------------------------------------------------------ */

int interp_owns_output(const struct interp *t)
{
	return t->state != INTERP_NONE;
}

static int has_printed(struct shim *s)
{
	read_output(s);
	if (s->interp.printed)
		be_bad(s, "printed while it was parked: %s", last_line(&s->interp));
	return s->interp.state == INTERP_DYING || s->interp.state == INTERP_NONE;
}

/* A daemon has left the interpreter's session and is not its child: it is still below the shim. */
static int other_process(pid_t pid, int pidfd, void *arg)
{
	struct pollfd ended = {.fd = pidfd, .events = POLLIN};
	pid_t *other = arg;

	if (pid == other[0] || (pidfd >= 0 && poll(&ended, 1, 0) > 0))
		return 0;
	other[1] = pid;
	return 1;
}

static int has_family(struct shim *s)
{
	pid_t other[2] = {s->child.id.pid, 0};

	if (tree_walk(other_process, other) == 0)
		return 0;
	be_bad(s, "started process %d", (int)other[1]);
	return 1;
}

void interp_output(struct shim *s)
{
	if (s->interp.state == INTERP_READY)
		has_printed(s);
	else
		read_output(s); /* before it is ready this may be the reason why it ends */
}

/* ---- what it says -------------------------------------------------------------------------------- */

static void on_line(struct shim *s, char *line)
{
	struct interp *t = &s->interp;

	if (strncmp(line, "bad ", 4) == 0) {
		be_bad(s, "%s", line + 4);
		return;
	}
	if (strncmp(line, "ready", 5) != 0 || (line[5] && line[5] != ' ')) {
		be_bad(s, "said '%.80s' where 'ready' was expected", line);
		return;
	}
	if (has_printed(s) || has_family(s))
		return;
	snprintf(t->text, sizeof(t->text), SHIM_TEXT_READY "%s", line + 5);
	clean_text(t->text);
	t->state = INTERP_READY;
	t->until_us = 0;
	buf_fini(&t->in);
	log_info("event=interpreter_ready");
	start_park(s);
}

static void find_line(struct shim *s)
{
	struct buf *in = &s->interp.in;
	const char *head = (const char *)buf_head(in);
	const char *nl = buf_left(in) ? memchr(head, '\n', buf_left(in)) : NULL;
	cleanup_free char *line = nl ? xstrndup(head, (size_t)(nl - head)) : NULL;

	if (line && nl + 1 != head + buf_left(in))
		be_bad(s, "said more than one line");
	else if (line)
		on_line(s, line);
	else if (buf_left(in) >= SAID_MAX)
		be_bad(s, "said a line of more than %d bytes", SAID_MAX);
}

/* Without 'g' it executes the command itself, because the program does not fit what it has loaded: a start
 * like any other, only slower. */
static void hear_afresh(struct interp *t, const char *words, size_t n)
{
	cleanup_free char *why = xstrndup(words + 1, n - 1);

	why[strcspn(why, "\n")] = '\0';
	note_afresh(t, why + strspn(why, " "));
}

static void begun(struct shim *s)
{
	struct interp *t = &s->interp;

	interp_fini(t);
	t->state = INTERP_NONE;
	t->until_us = 0;
	start_executed(s);
}

static void on_words(struct shim *s, const char *words, size_t n)
{
	struct interp *t = &s->interp;

	if (t->state == INTERP_STARTING)
		interp_reported(s); /* it executed, or it could not speak */
	if (t->state == INTERP_WARMING) {
		if (buf_put(&t->in, words, n) < 0)
			be_bad(s, "said a line of more than %d bytes", SAID_MAX);
		else
			find_line(s);
	} else if (t->state == INTERP_READY) {
		be_bad(s, "spoke after 'ready'");
	} else if (t->state == INTERP_TAKING) {
		if (words[0] != 'g' && words[0] != 'c') {
			take_afresh(s, "the interpreter did not answer the program with 'g' or 'c'");
			return;
		}
		if (words[0] == 'c')
			hear_afresh(t, words, n);
		begun(s);
	} else if (t->state == INTERP_DYING && t->next == INTERP_THEN_START &&
	           (words[0] == 'g' || words[0] == 'c')) {
		fail_take(s, "the interpreter was killed when it began the program"); /* not a second time */
	}
}

static void read_words(struct shim *s)
{
	struct interp *t = &s->interp;
	char words[1024];
	ssize_t n;

	if (t->state == INTERP_TAKING && FAULT("shim.deaf"))
		return;
	while (t->fd >= 0) {
		n = recv(t->fd, words, sizeof(words), MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			/* Most likely it ends, and how it ended says more. */
			close_socket(t);
			if (t->state != INTERP_DYING)
				t->until_us = now_us(s) + SILENT_US;
			return;
		}
		on_words(s, words, (size_t)n);
	}
}

/* ---- the program --------------------------------------------------------------------------------- */

int interp_check(struct shim *s, struct err *e)
{
	struct interp *t = &s->interp;

	if (t->state == INTERP_READY) {
		read_words(s);
		if (t->state == INTERP_READY && t->fd < 0)
			be_bad(s, "closed its socket while it was parked");
		else if (t->state == INTERP_READY && !has_printed(s) && !has_family(s))
			return 0;
	}
	return err_set(e, ERR_UNSUPPORTED, "%s", t->text[0] ? t->text : "no interpreter waits here");
}

static int put_words(struct buf *b, const struct strv *words)
{
	int rc = buf_put_u32(b, (uint32_t)words->n);

	for (size_t i = 0; i < words->n; i++)
		rc |= buf_put_str(b, words->v[i]);
	return rc;
}

static int put_frame(struct buf *b, const struct shim_launch *l)
{
	char *dir = l->cwd && l->cwd[0] ? l->cwd : (char *)(uintptr_t) "/";
	struct strv cwd = {.v = &dir, .n = 1};
	int rc = buf_put_u32(b, 0);
	uint32_t n;

	rc |= put_words(b, &l->argv) | put_words(b, &l->env) | put_words(b, &cwd);
	if (rc < 0)
		return -1;
	n = (uint32_t)(buf_left(b) - 4);
	for (int i = 0; i < 4; i++)
		b->data[b->pos + (size_t)i] = (uint8_t)(n >> (24 - 8 * i));
	return 0;
}

static void send_frame(struct shim *s)
{
	struct interp *t = &s->interp;
	ssize_t n;

	while (t->fd >= 0 && buf_left(&t->out)) {
		n = send(t->fd, buf_head(&t->out), buf_left(&t->out), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return; /* full; or it is gone, which its end tells */
		buf_skip(&t->out, (size_t)n);
	}
	if (t->fd >= 0)
		shutdown(t->fd, SHUT_WR);
}

void interp_take(struct shim *s)
{
	struct interp *t = &s->interp;
	struct err why;

	s->oom_before = start_oom_kills(s);
	s->phase = SP_STARTING;
	t->state = INTERP_TAKING;
	t->until_us = now_us(s) + SHIM_BEGIN_MS * 1000ull;
	t->last[0] = '\0';
	if (put_frame(&t->out, &s->l) < 0) {
		take_afresh(s, "arguments and environment are larger than the interpreter can be given");
	} else if (shim_record(s, &why) < 0) {
		err_wrap(&why, "the start cannot be recorded");
		fail_take(s, why.text);
	} else {
		send_frame(s);
	}
}

/* ---- its beginning ------------------------------------------------------------------------------- */

static int fork_interp(struct shim *s, int in_fd, struct err *e)
{
	struct shim_launch l = s->l;
	struct strv env = {0};
	char number[16];
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, errno, "socketpair");
	for (size_t i = 0; i < s->l.env.n; i++)
		strv_add(&env, s->l.env.v[i]);
	snprintf(number, sizeof(number), "%d", SHIM_PARK_FD);
	strv_setenv(&env, "HEARTH_PARK_FD", number);
	l.argv = s->l.park_argv;
	l.env = env;
	rc = start_fork(s, &l, in_fd, pair[1], e);
	strv_fini(&env);
	close(pair[1]);
	if (rc < 0)
		close(pair[0]);
	else
		s->interp.fd = pair[0];
	return rc;
}

void interp_begin(struct shim *s, int in_fd)
{
	struct interp *t = &s->interp;
	struct err why;

	t->state = INTERP_STARTING;
	t->until_us = now_us(s) + WARM_US;
	s->childless = 1;
	if (fork_interp(s, in_fd, &why) < 0) {
		be_bad(s, "%s", why.text);
	} else if (shim_record(s, &why) < 0) {
		/* Not released: it has executed nothing. */
		child_await(&s->child);
		s->childless = 1;
		be_bad(s, "the start cannot be recorded: %s", why.text);
	} else {
		child_release(&s->child);
	}
}

void interp_reported(struct shim *s)
{
	char text[CHILD_TEXT_MAX];
	int rc = child_report(&s->child, text);

	if (rc == 0)
		return;
	if (rc > 0) {
		s->interp.state = INTERP_WARMING;
		log_info("event=interpreter_started pid=%d", (int)s->child.id.pid);
		return;
	}
	child_await(&s->child);
	s->childless = 1;
	be_bad(s, "%s", text[0] ? text : "ended before it was executed");
}

/* ---- for the loop -------------------------------------------------------------------------------- */

struct pollfd interp_poll(const struct interp *t)
{
	short out = t->state == INTERP_TAKING && buf_left(&t->out) ? POLLOUT : 0;

	return (struct pollfd){.fd = t->fd, .events = (short)(POLLIN | out)};
}

void interp_handle(struct shim *s, short revents)
{
	if ((revents & POLLOUT) && s->interp.state == INTERP_TAKING)
		send_frame(s);
	if (revents & (POLLIN | POLLHUP | POLLERR))
		read_words(s);
}

void interp_child(struct shim *s)
{
	struct interp *t = &s->interp;

	if (t->state == INTERP_DYING) {
		if (s->childless && !s->child.running)
			after_end(s);
		return;
	}
	if (s->child.running)
		return;
	if (t->state == INTERP_STARTING)
		interp_reported(s);
	read_words(s); /* its word was written before it ended */
	if (t->state != INTERP_NONE && t->state != INTERP_DYING)
		ended_by_itself(s);
}

uint64_t interp_due(const struct shim *s)
{
	const struct interp *t = &s->interp;

	if (t->state == INTERP_DYING && s->round_at_us < t->until_us)
		return s->round_at_us;
	return t->state == INTERP_NONE ? 0 : t->until_us;
}

static void give_up_killing(struct shim *s)
{
	char pids[200];
	int n = child_list(pids, sizeof(pids));

	shim_set_text(s, "%d processes of the interpreter do not end although killed: %s", n, pids);
	s->interp.state = INTERP_NONE;
	shim_fail(s, "");
}

void interp_step(struct shim *s)
{
	struct interp *t = &s->interp;
	uint64_t now = now_us(s);

	if (t->state == INTERP_DYING && now >= t->until_us)
		give_up_killing(s);
	else if (t->state == INTERP_DYING && now >= s->round_at_us)
		shim_kill_round(s);
	else if (t->state == INTERP_NONE || t->state == INTERP_DYING || !t->until_us || now < t->until_us)
		return;
	else if (t->state == INTERP_TAKING)
		take_afresh(s, t->fd < 0 ? "the interpreter closed its socket before it ran the program"
		                         : "the interpreter did not begin the program within 5 s");
	else if (t->fd < 0)
		be_bad(s, "closed its socket while it was parked");
	else
		be_bad(s, "was not ready after %d s", (int)(WARM_US / 1000000));
}
