/*
 * core: the one shim of this program, its phases, and what the control socket may ask of it.
 *
 *   WAITING ------------> STARTING -> RUNNING -> ENDING -> ENDED
 *      |  \-> PARKED ->/    |
 *      |        |           |
 *      +--------+-----------+-> FAILED
 *
 * PARKED: has its launcher, waits for the job. STARTING: forked, not yet executed. ENDING: the process has
 * ended, its output and its strays have not.
 */
#ifndef HEARTH_SHIM_CORE_H
#define HEARTH_SHIM_CORE_H

#include "common/base/clock.h"
#include "common/os/lease_file.h"
#include "shim/child.h"
#include "shim/interp.h"
#include "shim/out.h"
#include "shim/state.h"

enum shim_phase { SP_WAITING, SP_PARKED, SP_STARTING, SP_RUNNING, SP_ENDING, SP_ENDED, SP_FAILED };
enum shim_ladder { LADDER_NONE, LADDER_TERM, LADDER_KILL };

struct ctl;

struct shim {
	const struct clock *clock;
	int dir_fd, signal_fd;
	struct shim_launch l;
	struct proc_id self;
	struct child child;
	struct out *out; /* NULL when the log could not be opened: then the phase is FAILED */
	struct ctl *ctl;
	enum shim_phase phase;
	uint64_t started_us, ended_us; /* real time */
	uint32_t exit_code, signal;
	uint8_t oom, ended_by; /* ended_by: enum ended_by */
	char text[STATE_TEXT_MAX];
	uint64_t oom_before; /* sum of the oom_kill counters at the start */
	/* of a process that is parked */
	int armed;           /* it has its launcher, or none is to come */
	int in_fd;           /* stdin from the launcher's go, -1 none */
	struct strv arm_env; /* variables from the launcher: they win */
	struct interp interp;
	/* the kill ladder; times are boot time, 0 = none */
	enum shim_ladder ladder;
	enum ended_by ladder_by;
	int passed_on; /* signal that the launcher's stub passed on last, 0 none */
	uint32_t grace_ms;
	uint64_t kill_at_us;  /* end of the grace time */
	uint64_t term_at_us;  /* when SIGTERM was last sent */
	uint64_t round_at_us; /* next round of SIGKILL */
	uint64_t round_gap_us;
	int killed; /* SIGKILL went out before the process had ended */
	/* after the end of the process */
	uint64_t ended_boot_us;
	uint64_t strays_until_us; /* until then others may end by themselves */
	uint64_t give_up_us;
	int childless;
	/* the lease of the node */
	struct lease_switch lease;
	uint64_t lease_at_us; /* next look at it; 0 none */
	/* the record */
	uint64_t state_retry_us; /* 0: what is in DIR/state is true */
	int released;
};

/* Takes l. Opens log and socket and writes the first state; a launch that cannot work (no log directory) is a
 * FAILED shim that serves all the same. -1: there is no shim. */
int shim_init(struct shim *s, const char *dir, int dir_fd, struct shim_launch *l, struct err *e);
void shim_begin(struct shim *s); /* starts the process now, unless it waits for go */
void shim_run(struct shim *s);   /* until released */
void shim_fini(struct shim *s);

/* For ctl. A failed call leaves all as it was. */
/* Strings are borrowed: no wire_fini. */
void shim_status(struct shim *s, struct wm_shim_status *st);
/* Starts the process: the answer comes by ctl_started. in_fd (-1 none) is taken when 0 is returned. */
int shim_go(struct shim *s, const struct wm_shim_go *go, int in_fd, struct err *e);
/* The agent's go for a parked process; answered like shim_go. */
int shim_unpark(struct shim *s, const struct wm_shim_start *m, struct err *e);
void shim_mirror_ended(struct shim *s); /* the launcher's stub is gone */
int shim_signal(struct shim *s, int signo, int only_if_caught, struct err *e);
void shim_quit(struct shim *s, uint32_t grace_ms, enum ended_by by);
int shim_release(struct shim *s, struct err *e);

/* For start and interp. */
/* Adds a sentence; cut when full. */
void shim_set_text(struct shim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int shim_record(struct shim *s, struct err *e);
void shim_enter(struct shim *s, enum shim_phase p);
/* FAILED; nothing of the process may be left. text is added to what was said before. */
void shim_fail(struct shim *s, const char *text);
void shim_kill_round(struct shim *s); /* SIGKILL to all below the shim; sets the time of the next round */

#endif
