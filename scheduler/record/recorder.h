/* recorder: what the library's own files say to record.c when something is told to it. Nothing happens where
 * nobody records. */
#ifndef HEARTH_SCHEDULER_RECORDER_H
#define HEARTH_SCHEDULER_RECORDER_H

#include "scheduler/record/record.h"

void record_quiet(struct sched *s, int on); /* what one call makes of another is not on record */
void record_id(struct sched *s, const char *verb, uint64_t id);
void record_pair(struct sched *s, const char *verb, uint64_t a, uint64_t b);
void record_queue(struct sched *s, const struct sched_queue *q);
void record_close(struct sched *s, const char *path, int closed);
void record_used(struct sched *s, const char *path, double gpu_s, uint64_t at_s);
void record_node(struct sched *s, const struct sched_node *n);
void record_reservation(struct sched *s, const struct sched_reservation *b);
void record_job(struct sched *s, const struct sched_job *j);
void record_restore(struct sched *s, const struct sched_job *j, const struct sched_decision *d,
                    uint64_t start_s);
void record_holds(struct sched *s, uint64_t id, const struct sched_decision *d, uint64_t memory_bytes,
                  uint64_t disk_bytes, int exclusive);
void record_step(struct sched *s, const struct sched_decision *d);
void record_fini(struct sched *s);

#endif
