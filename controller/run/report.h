/*
 * report: reports of agents about launches, processes and results.
 */
#ifndef HEARTH_CONTROLLER_RUN_REPORT_H
#define HEARTH_CONTROLLER_RUN_REPORT_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* Handles a started launch that its agent has lost: sends KILL, and keeps the GPUs until the agent confirms
 * that nothing is left. text: static. */
void place_vanished(struct core *c, struct cjob *j, const struct place_rec *p, const char *text);
/* Returns the job if a report is about its present attempt and a launch on this node that is not lost; else
 * NULL. */
struct cjob *report_current(struct core *c, const struct cnode *n, uint64_t job, uint32_t attempt,
                            uint64_t epoch, struct place_rec **place);
/* Adds outside text, unless it is empty: invalid bytes become '?'. */
void report_add_text(cJSON *d, const char *key, const char *s, size_t n);
/* Returns outside text for a record: invalid UTF-8 and control bytes become '?'. Malloc'ed. */
char *report_clean_text(const char *s, size_t n);
void on_launch_report(struct core *c, struct cnode *n, uint64_t id, const struct wm_launch_report *m);
void on_proc_report(struct core *c, struct cnode *n, uint64_t id, const struct wm_proc_report *m);
void on_artifact(struct core *c, struct cnode *n, uint64_t id, const struct wm_artifact_report *m);
void on_run_info(struct core *c, struct cnode *n, uint64_t id, const struct wm_run_info *m);
/* Returns 1 when the points belong to the newest attempt of their job. */
int on_metrics(struct core *c, const char *node, const struct wm_metrics *m);

#endif
