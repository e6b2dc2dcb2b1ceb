/*
 * shimlab: one real hearth-shim in a directory of its own, for tests.
 *
 * The binary is the one of the build tree (HEARTH_TOP_BUILDDIR), or HEARTH_TEST_SHIM (a wrapper that runs it
 * under valgrind). Whatever goes wrong in the helpers ends the test program: only what is under test is
 * counted.
 */
#ifndef HEARTH_TESTS_LIB_SHIMLAB_H
#define HEARTH_TESTS_LIB_SHIMLAB_H

#include "shim/shim.h"
#include <stddef.h>

#define LAB_MS 60000 /* every wait ends by then: much, because of valgrind on a busy machine */

#define LAB_WATCH_ID (1ull << 40) /* of frames: not the id of a shim_call's answer */

struct lab {
	char dir[128], logdir[160];
	struct shim_launch l;
	struct proc_id id;
	int fd; /* connection after hello, -1 none */
};

const char *lab_shim(void);   /* path of hearth-shim */
const char *lab_victim(void); /* path of the program with many faults, tests/unit/shim/shim_victim.c */
char *lab_built(const char *path_in_build_tree);

/* Fresh directories, and a launch that runs the victim with the arguments (NULL at the end). */
void lab_init(struct lab *x, ...);
void lab_argv(struct lab *x, ...); /* another command */
void lab_start(struct lab *x);     /* writes the launch, starts the shim, connects */
void lab_connect(struct lab *x);   /* once more; bails when that fails */
/* Waits for a state; the status is the caller's by wire_free(WM_SHIM_STATUS, ...). */
struct wm_shim_status *lab_wait(struct lab *x, enum proc_state state);
struct wm_shim_status *lab_wait_end(struct lab *x);    /* PS_EXITED or PS_FAILED, whichever comes */
void lab_wait_output(struct lab *x, const char *text); /* until the tail holds it */
/* Sends a verb that is answered by SHIM_OK: its code; *text (malloc'ed, may be NULL). */
int lab_ok(struct lab *x, uint16_t type, const void *msg, char **text);
int lab_go(struct lab *x);
int lab_quit(struct lab *x, uint32_t grace_ms);
int lab_signal(struct lab *x, int signo, int only_if_caught);
/* All bytes in the segments (stream 1, 2; 0 both), malloc'ed and terminated. *gap: bytes missing between and
 * before them. */
char *lab_output(struct lab *x, uint32_t stream, size_t *n, uint64_t *gap);
/* Processes that carry this launch's token; the victim passes it on to all that it starts. */
int lab_count(struct lab *x);
/* SIGKILL to the shim, and its zombie taken away. */
void lab_reap(struct lab *x);
/* Quit, release, reap; and the assertion that nothing of the launch is left. */
void lab_end(struct lab *x);
/* Waits until the condition holds, looking again every few milliseconds; 0 when the deadline passed. */
int lab_until(int (*holds)(void *arg), void *arg);

#endif
