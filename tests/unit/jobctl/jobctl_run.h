/*
 * jobctl_run: runs the program jobctl against a scripted controller, and compares what it does.
 */
#ifndef HEARTH_TESTS_UNIT_JOBCTL_JOBCTL_RUN_H
#define HEARTH_TESTS_UNIT_JOBCTL_JOBCTL_RUN_H

#include <sys/types.h>

#include "tests/unit/jobctl/jobctl_server.h"

struct run {
	int code; /* exit status, 128 + signal */
	char *out, *err;
};

/* Sets up home, time zone and environment of the programs that are started. */
void jr_init(void);

char *jr_path(const char *name);                      /* in the test's private folder, malloc'ed */
void jr_put_file(const char *name, const char *text); /* into that folder */
char *jr_read_text(const char *name);                 /* from it, malloc'ed; "" if it is missing */

/* Starts jobctl with the words of a line (no quotes); $T at the beginning of a word is the private folder.
 * out_fd -1: standard output goes into a file. */
pid_t jr_start(const char *url, const char *line, int out_fd);
/* Waits for its end. */
void jr_finish(struct run *r, pid_t pid);
void run_fini(struct run *r);

/* Runs it; compares the exit status and, unless NULL, the output and a part of the errors. s NULL: without a
 * controller. */
void jr_expect(struct js *s, const char *line, int code, const char *out, const char *err);
/* Runs it; its output has each of these lines. */
void jr_expect_lines(struct js *s, const char *line, const char *const *lines);

/* Returns the last request with this method that the controller has seen. */
const struct js_seen *js_last_of(struct js *s, const char *method);
/* Counts its requests with this method whose address has that part. */
int js_count_of(struct js *s, const char *method, const char *uri);

#endif
