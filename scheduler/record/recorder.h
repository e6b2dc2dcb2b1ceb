/* recorder: writes one line for each input of the library and for each decision. */
#ifndef HEARTH_SCHEDULER_RECORD_RECORDER_H
#define HEARTH_SCHEDULER_RECORD_RECORDER_H
#include "scheduler/sched.h"

struct recorder; /* NULL: nobody records, and nothing happens */

struct recorder *recorder_create(sched_record_fn fn, void *arg);
void recorder_free(struct recorder *r);

void record_quiet(struct recorder *r, int on); /* what one call makes of another is not on record */
void record_id(struct recorder *r, const char *verb, uint64_t id);
void record_pair(struct recorder *r, const char *verb, uint64_t a, uint64_t b);
void record_queue(struct recorder *r, const struct sched_queue *q);
void record_close(struct recorder *r, const char *path, int closed);
void record_used(struct recorder *r, const char *path, double gpu_s, uint64_t at_s);
void record_node(struct recorder *r, const struct sched_node *n);
void record_reservation(struct recorder *r, const struct sched_reservation *b);
void record_pool(struct recorder *r, const struct sched_pool *p);
void record_job(struct recorder *r, const struct sched_job *j);
void record_exchange(struct recorder *r, const struct sched_job *j, const uint64_t *drop, uint32_t n_drop);
void record_restore(struct recorder *r, const struct sched_job *j, const struct sched_decision *d,
                    uint64_t start_s);
void record_holds(struct recorder *r, uint64_t id, const struct sched_decision *d, uint64_t memory_bytes,
                  uint64_t disk_bytes, int exclusive);
void record_step(struct recorder *r, const struct sched_decision *d);
void record_policy(struct recorder *r, const struct sched_policy *p);

#endif
