/*
 * shim: the loop, the phases and the kill ladder. start.c has the way to the program.
 *
 * The order that makes the record trustworthy: DIR/state names the child before the child may execute
 * anything, so a shim that dies at any point leaves either "not started" or the name of what it started. How
 * the process ended is recorded and reported as soon as it has been reaped. The state follows when its output
 * has been read to the end and nothing below the shim lives any more.
 *
 * Kill ladder: SIGTERM and SIGCONT to the group, the grace time, then SIGKILL to the group and to every
 * descendant, again and again with growing gaps until waitid knows of no child. Descendants that outlive the
 * process share what is left of the grace time: a shell that dies at once does not take the time from the
 * program that it ran.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "common/base/log.h"
#include "shim/core.h"
#include "shim/ctl.h"
#include "shim/start.h"

#define PIPES_HELD_US  500000 /* how long strays may hold the pipes after the process has ended */
#define ROUND_FIRST_US 5000
#define ROUND_MAX_US   1000000
#define ROUND_SHARE    8        /* a round waits so many times the length of the one before */
#define GIVE_UP_US     10000000 /* after so long SIGKILL does not help: asleep in the kernel */
#define LOOP_FDS       5        /* signals, report, stdout, stderr, interpreter */
#define STATE_RETRY_US 1000000
#define TERM_AGAIN_US  2000000 /* a SIGTERM that was passed on so recently counts for the ladder */

static uint64_t now_us(const struct shim *s)
{
	return clock_boot_us(s->clock);
}

void shim_set_text(struct shim *s, const char *fmt, ...)
{
	size_t used = strlen(s->text);
	va_list ap;

	if (used && used < sizeof(s->text) - 3)
		used += (size_t)snprintf(s->text + used, sizeof(s->text) - used, "; ");
	va_start(ap, fmt);
	vsnprintf(s->text + used, sizeof(s->text) - used, fmt, ap);
	va_end(ap);
}

/* ---- the record --------------------------------------------------------------------------------- */

/* States only move forward: a process that was parked stays so until it runs. */
static enum proc_state public_state(const struct shim *s)
{
	switch (s->phase) {
	case SP_WAITING:
		return PS_WAITING;
	case SP_PARKED:
		return PS_PARKED;
	case SP_STARTING:
		return s->l.park ? PS_PARKED : PS_WAITING;
	case SP_RUNNING:
	case SP_ENDING:
		return PS_RUNNING;
	case SP_ENDED:
		return PS_EXITED;
	case SP_FAILED:
		return PS_FAILED;
	}
	return PS_UNKNOWN;
}

static char *public_text(struct shim *s)
{
	struct interp *t = &s->interp;
	int parked = s->phase == SP_PARKED && t->text[0], afresh = s->phase == SP_RUNNING && t->afresh;

	return parked || (afresh && !s->text[0]) ? t->text : s->text;
}

void shim_status(struct shim *s, struct wm_shim_status *st)
{
	*st = (struct wm_shim_status){.version = SHIM_VERSION,
	                              .token = s->l.shim_token,
	                              .kind = s->l.kind,
	                              .state = (uint8_t)public_state(s),
	                              .pid = (uint32_t)s->child.id.pid,
	                              .start_ticks = s->child.id.start_ticks,
	                              .exit_code = s->exit_code,
	                              .signal = s->signal,
	                              .oom = s->oom,
	                              .ended_by = s->ended_by,
	                              .started_us = s->started_us,
	                              .ended_us = s->ended_us,
	                              .out_bytes = s->out ? out_bytes(s->out) : 0,
	                              .dropped_bytes = s->out ? out_dropped(s->out) : 0,
	                              .text = public_text(s)};
}

int shim_record(struct shim *s, struct err *e)
{
	struct shim_state st = {.version = 1, .shim = s->self, .child = s->child.id};
	struct err why;

	shim_status(s, &st.st);
	s->state_retry_us = 0;
	if (state_write_at(s->dir_fd, &st, &why) == 0)
		return 0;
	log_error("event=state_not_written reason=\"%s\"", why.text);
	s->state_retry_us = now_us(s) + STATE_RETRY_US;
	if (e)
		*e = why;
	return -1;
}

/* Record first, then tell: nobody learns what a restart could not find again. */
void shim_enter(struct shim *s, enum shim_phase p)
{
	s->phase = p;
	shim_record(s, NULL);
	ctl_changed(s->ctl);
}

void shim_fail(struct shim *s, const char *text)
{
	if (text[0])
		shim_set_text(s, "%s", text);
	log_info("event=failed reason=\"%s\"", s->text);
	s->ended_us = clock_real_us(s->clock);
	if (s->out)
		out_close(s->out);
	child_fini(&s->child);
	start_fini(s);
	shim_enter(s, SP_FAILED);
	ctl_started(s->ctl, ERR_INVALID, s->text);
}

/* ---- the kill ladder ---------------------------------------------------------------------------- */

/* A walk over thousands of dying processes keeps them from the CPU: the next one waits in proportion. */
static uint64_t next_gap(uint64_t gap_us, uint64_t walk_us)
{
	gap_us = gap_us ? gap_us * 2 : ROUND_FIRST_US;
	if (gap_us < walk_us * ROUND_SHARE)
		gap_us = walk_us * ROUND_SHARE;
	return gap_us < ROUND_MAX_US ? gap_us : ROUND_MAX_US;
}

void shim_kill_round(struct shim *s)
{
	uint64_t begin = now_us(s), end;

	if (s->child.running) {
		s->killed = 1;
		child_signal_group(&s->child, SIGKILL);
	}
	if (s->l.cgroup_kill && s->l.cgroup_kill[0]) {
		cleanup_close int fd = open(s->l.cgroup_kill, O_WRONLY | O_CLOEXEC);

		if (fd < 0 || write(fd, "1", 1) < 0)
			log_warn("event=cgroup_kill_failed path=%s reason=\"%s\"", s->l.cgroup_kill, strerror(errno));
	}
	child_signal_all(SIGKILL, 0);
	end = now_us(s);
	s->round_gap_us = next_gap(s->round_gap_us, end - begin);
	s->round_at_us = end + s->round_gap_us;
}

static void ladder_kill(struct shim *s)
{
	log_info("event=kill grace_ms=%u", s->grace_ms);
	s->ladder = LADDER_KILL;
	s->round_gap_us = 0;
	shim_kill_round(s);
}

static void ladder_begin(struct shim *s, uint32_t grace_ms)
{
	uint64_t now = now_us(s);

	log_info("event=quit grace_ms=%u", grace_ms);
	s->grace_ms = grace_ms;
	if (grace_ms == 0) {
		ladder_kill(s);
		return;
	}
	s->ladder = LADDER_TERM;
	s->kill_at_us = now + grace_ms * 1000ull;
	/* Many programs take the second SIGTERM as "at once". */
	if (!s->term_at_us || now - s->term_at_us > TERM_AGAIN_US)
		child_signal_group(&s->child, SIGTERM);
	/* A stopped process would not see it. */
	child_signal_group(&s->child, SIGCONT);
}

void shim_quit(struct shim *s, uint32_t grace_ms, enum ended_by by)
{
	uint64_t until = now_us(s) + grace_ms * 1000ull;

	switch (s->phase) {
	case SP_WAITING:
	case SP_PARKED:
		start_abandon(s, "stopped before it was started");
		break;
	case SP_STARTING:
	case SP_RUNNING:
		if (s->ladder == LADDER_NONE) {
			s->ladder_by = by;
			ladder_begin(s, grace_ms);
		} else if (s->ladder == LADDER_TERM && until < s->kill_at_us) {
			s->kill_at_us = until;
			s->grace_ms = grace_ms;
		}
		break;
	case SP_ENDING:
		if (until < s->strays_until_us)
			s->strays_until_us = until;
		break;
	case SP_ENDED:
	case SP_FAILED:
		break;
	}
}

int shim_signal(struct shim *s, int signo, int only_if_caught, struct err *e)
{
	if (signo < 1 || signo > 64)
		return err_set(e, ERR_INVALID, "%d is not a signal", signo);
	if (s->phase != SP_RUNNING || !s->child.running)
		return err_set(e, ERR_CONFLICT, "the process does not run");
	if (only_if_caught) {
		if (child_signal_all(signo, 1) == 0)
			return err_set(e, ERR_UNSUPPORTED, "%s is caught by no process of the rank",
			               proc_signal_name(signo));
		return 0;
	}
	if (child_signal_group(&s->child, signo) < 0)
		return err_sys(e, errno, "%s", proc_signal_name(signo));
	if (signo == SIGTERM)
		s->term_at_us = now_us(s);
	if (signo == SIGKILL)
		s->killed = 1;
	return 0;
}

/* ---- the end ------------------------------------------------------------------------------------ */

/* A program that catches SIGTERM, saves and leaves: it did not come to its end by itself. */
static int ended_after_term(const struct shim *s)
{
	return s->passed_on == SIGTERM && s->term_at_us && now_us(s) - s->term_at_us < TERM_AGAIN_US;
}

static void read_exit(struct shim *s)
{
	int raw = s->child.raw_status;
	uint64_t killed_by_kernel = start_oom_kills(s) - s->oom_before;

	s->signal = WIFSIGNALED(raw) ? (uint32_t)WTERMSIG(raw) : 0;
	/* As shells say it; never 0 for a process that a signal ended, even to a reader that looks at nothing
	 * else. */
	s->exit_code = s->signal ? 128 + s->signal : (uint32_t)WEXITSTATUS(raw);
	/* 137 is what a shell says whose last command was killed. */
	s->oom = killed_by_kernel > 0 && killed_by_kernel < UINT64_MAX / 2 && !s->killed &&
	         s->exit_code == 128 + SIGKILL;
	if (s->oom)
		shim_set_text(s, "killed by the kernel: out of memory");
	else if (killed_by_kernel > 0 && killed_by_kernel < UINT64_MAX / 2)
		shim_set_text(s, "meanwhile the kernel killed %" PRIu64 " processes of the launch for lack of memory",
		              killed_by_kernel);
	if (s->ladder != LADDER_NONE)
		s->ended_by = (uint8_t)s->ladder_by;
	else if (s->passed_on && ((int)s->signal == s->passed_on || ended_after_term(s)))
		s->ended_by = BY_LAUNCHER;
	if (s->ladder == LADDER_TERM)
		shim_set_text(s, "ended after SIGTERM");
	else if (s->ladder == LADDER_KILL)
		shim_set_text(s, "ended by SIGKILL after %u ms of grace", s->grace_ms);
}

static void begin_ending(struct shim *s)
{
	s->ended_us = clock_real_us(s->clock);
	s->ended_boot_us = now_us(s);
	read_exit(s);
	log_info("event=ended exit_code=%u signal=%u oom=%u", s->exit_code, s->signal, s->oom);
	s->round_at_us = 0;
	s->round_gap_us = 0;
	if (s->ladder == LADDER_TERM)
		s->strays_until_us = s->kill_at_us;
	else if (s->ladder == LADDER_KILL)
		s->strays_until_us = s->ended_boot_us;
	else
		s->strays_until_us = s->ended_boot_us + PIPES_HELD_US;
	/* All that the process itself wrote is in its pipes: it goes into the files before its end is reported.
	 */
	out_drain(s->out);
	if (s->childless && out_eof(s->out))
		s->phase = SP_ENDING; /* the whole end follows at once */
	else
		shim_enter(s, SP_ENDING);
}

static void finish_shim(struct shim *s)
{
	out_drain(s->out);
	out_close(s->out);
	child_fini(&s->child);
	shim_enter(s, SP_ENDED);
	log_info("event=recorded out_bytes=%" PRIu64 " dropped_bytes=%" PRIu64, out_bytes(s->out),
	         out_dropped(s->out));
}

/* Strays may still write, or hold the pipes: they get their time, then SIGKILL until none is left. */
static void step_ending(struct shim *s)
{
	uint64_t now = now_us(s);
	char pids[200];
	int n;

	if (s->childless) {
		out_drain(s->out);
		/* Open all the same: held by somebody outside our tree. */
		if (out_eof(s->out) || now >= s->ended_boot_us + PIPES_HELD_US)
			finish_shim(s);
		return;
	}
	if (now < s->strays_until_us && (s->ladder == LADDER_TERM || !out_eof(s->out)))
		return;
	if (now < s->round_at_us)
		return;
	if (!s->give_up_us) {
		s->give_up_us = now + GIVE_UP_US;
		log_info("event=kill_strays");
	} else if (now >= s->give_up_us) {
		n = child_list(pids, sizeof(pids));
		shim_set_text(s, "%d processes do not end although killed: %s", n, pids);
		finish_shim(s);
		return;
	}
	shim_kill_round(s);
}

static void on_child(struct shim *s)
{
	struct signalfd_siginfo info[8];

	while (read(s->signal_fd, info, sizeof(info)) > 0)
		continue;
	s->childless = child_reap(&s->child);
	if (s->interp.state != INTERP_NONE)
		interp_child(s);
	if (s->phase == SP_STARTING && s->interp.state == INTERP_NONE && !s->child.running)
		start_reported(s); /* its word was written before it ended */
	if (s->phase == SP_RUNNING && !s->child.running)
		begin_ending(s);
}

int shim_release(struct shim *s, struct err *e)
{
	if (s->phase != SP_ENDED && s->phase != SP_FAILED)
		return err_set(e, ERR_CONFLICT, "the process has not ended; quit first");
	s->released = 1;
	return 0;
}

/* ---- the lease ---------------------------------------------------------------------------------- */

/* No agent has renewed it: the node's ranks may be started elsewhere soon. */
static void look_at_lease(struct shim *s)
{
	struct lease_record r;
	int known = lease_file_read(s->l.lease, &r, NULL) == 0 && strcmp(r.boot_id, s->self.boot_id) == 0;

	s->lease_at_us = lease_switch_look(&s->lease, known ? &r : NULL, now_us(s), clock_slept_us());
	if (s->lease_at_us)
		return;
	log_warn("event=lease_over");
	if (s->phase != SP_ENDING)
		shim_set_text(s, "the lease of this node was over and no agent ran");
	shim_quit(s, 0, BY_LEASE);
}

/* ---- the loop ----------------------------------------------------------------------------------- */

static void take_sooner(uint64_t *at, uint64_t other)
{
	if (other && (!*at || other < *at))
		*at = other;
}

/* A waiting interpreter that is killed has rounds of its own. */
static int ladder_counts(const struct shim *s)
{
	return (s->phase == SP_STARTING || s->phase == SP_RUNNING) && s->interp.state != INTERP_DYING;
}

/* Boot time at which something is due without an event, 0 none: an ended shim sleeps for good. */
static uint64_t next_due(const struct shim *s)
{
	uint64_t at = s->state_retry_us;

	take_sooner(&at, interp_due(s));
	if (ladder_counts(s)) {
		if (s->ladder == LADDER_TERM)
			take_sooner(&at, s->kill_at_us);
		else if (s->ladder == LADDER_KILL)
			take_sooner(&at, s->round_at_us);
	} else if (s->phase == SP_ENDING) {
		if (s->childless)
			take_sooner(&at, s->ended_boot_us + PIPES_HELD_US);
		else
			take_sooner(&at, s->round_at_us ? s->round_at_us : s->strays_until_us);
	}
	if (s->phase != SP_ENDED && s->phase != SP_FAILED)
		take_sooner(&at, s->lease_at_us);
	return at;
}

static void loop_step(struct shim *s)
{
	uint64_t now = now_us(s);

	if (s->lease_at_us && now >= s->lease_at_us && s->phase != SP_ENDED && s->phase != SP_FAILED)
		look_at_lease(s);
	interp_step(s);
	if (ladder_counts(s)) {
		if (s->ladder == LADDER_TERM && now >= s->kill_at_us)
			ladder_kill(s);
		else if (s->ladder == LADDER_KILL && now >= s->round_at_us)
			shim_kill_round(s);
	} else if (s->phase == SP_ENDING) {
		step_ending(s);
	}
	if (s->state_retry_us && now >= s->state_retry_us)
		shim_record(s, NULL);
}

static void wait_for(const struct shim *s, struct pollfd *fds, nfds_t n, uint64_t due)
{
	uint64_t now = now_us(s), left = due > now ? due - now : 0;
	struct timespec ts = {.tv_sec = (time_t)(left / 1000000), .tv_nsec = (long)(left % 1000000) * 1000};

	if (ppoll(fds, n, due ? &ts : NULL, NULL) >= 0)
		return;
	/* Interrupted: nothing is known about any descriptor. */
	for (nfds_t i = 0; i < n; i++)
		fds[i].revents = 0;
}

static void handle_output(struct shim *s, const struct pollfd fds[2])
{
	if (!interp_owns_output(&s->interp) && s->out)
		out_handle(s->out, fds);
	else if (fds[0].revents || fds[1].revents)
		interp_output(s);
}

void shim_run(struct shim *s)
{
	struct pollfd fds[LOOP_FDS + CTL_POLL_MAX];
	uint64_t due, at;
	unsigned n;

	while (!s->released) {
		due = next_due(s);
		fds[0] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
		fds[1] = (struct pollfd){.fd = s->child.report_fd, .events = POLLIN};
		fds[2] = fds[3] = (struct pollfd){.fd = -1};
		if (s->out && s->interp.state != INTERP_TAKING)
			take_sooner(&due, out_poll(s->out, fds + 2));
		fds[4] = interp_poll(&s->interp);
		n = ctl_poll(s->ctl, fds + LOOP_FDS, &at);
		take_sooner(&due, at);
		wait_for(s, fds, LOOP_FDS + n, due);
		handle_output(s, fds + 2);
		if (fds[1].revents)
			start_reported(s);
		if (fds[4].revents)
			interp_handle(s, fds[4].revents);
		if (fds[0].revents)
			on_child(s);
		ctl_handle(s->ctl, fds + LOOP_FDS, n);
		loop_step(s);
	}
	log_info("event=released");
}

/* ---- life --------------------------------------------------------------------------------------- */

int shim_init(struct shim *s, const char *dir, int dir_fd, struct shim_launch *l, struct err *e)
{
	struct err why;
	sigset_t chld;

	*s = (struct shim){.clock = clock_real(), .dir_fd = dir_fd, .signal_fd = -1, .in_fd = -1, .l = *l};
	*l = (struct shim_launch){0};
	child_init(&s->child);
	interp_init(&s->interp);
	if (proc_identify(getpid(), &s->self, e) < 0)
		return -1;
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	s->signal_fd = signalfd(-1, &chld, SFD_NONBLOCK | SFD_CLOEXEC);
	if (s->signal_fd < 0)
		return err_sys(e, errno, "signalfd");
	s->out = out_create(s->l.logdir, s->l.segment_bytes, s->l.max_bytes, s->clock, &why);
	if (!s->out) {
		s->phase = SP_FAILED;
		shim_set_text(s, "%s", why.text);
	}
	if (shim_record(s, e) < 0)
		return err_wrap(e, "%s", dir);
	s->ctl = ctl_create(s, e);
	return s->ctl ? 0 : -1;
}

void shim_fini(struct shim *s)
{
	ctl_destroy(s->ctl);
	if (s->released) {
		unlinkat(s->dir_fd, "state", 0);
		unlinkat(s->dir_fd, "state.alt", 0);
	}
	out_destroy(s->out);
	child_fini(&s->child);
	start_fini(s);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	shim_launch_fini(&s->l);
}
