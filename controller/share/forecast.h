/*
 * forecast: when and where a waiting job is believed to start, how long jobs take, and what that costs.
 */
#ifndef HEARTH_CONTROLLER_SHARE_FORECAST_H
#define HEARTH_CONTROLLER_SHARE_FORECAST_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* Forecasts a start. owner and name: of a job that only the library knows. The caller frees out->places. */
void forecast_job(struct core *c, uint64_t job, const char *owner, const char *name,
                  struct sched_forecast *out);
void forecast_json(struct core *c, const struct sched_forecast *f, cJSON *body);
int forecast_text(struct core *c, const struct sched_forecast *f, char *out, size_t n); /* 0: unknown */
void learn_time(struct core *c, const struct cjob *j); /* learns from an ended attempt */
void forecast_learn(struct core *c, const char *owner, const char *name, double took_s);
void learned_clear(struct core *c);
/* Prices in USD an hour. */
double decision_price(const struct core *c, const struct job_spec *s, const struct sched_decision *d);
double places_price(const struct core *c, const struct job_spec *s, const struct sched_place *p, uint32_t n);
double part_price(const struct core *c, const struct cnode *n, uint32_t gpus, uint32_t slots,
                  int exclusive); /* of a part of the node */
double attempt_price(const struct core *c, const struct job_spec *s, const struct attempt_rec *a);
double expected_s(const struct core *c, const char *owner, const char *name); /* 0 unknown */
/* Returns the time in seconds that a job without a time limit of its own is believed to take, with caution;
 * 0: too little is known. */
uint64_t believed_s(const struct core *c, const char *owner, const char *name);
/* Returns v rounded up to that many significant binary digits. */
uint64_t round_up_bits(uint64_t v, unsigned bits);

#endif
