/*
 * budget: what queues and users may spend in a day, a week or a month (UTC), and what they have spent.
 */
#ifndef HEARTH_CONTROLLER_SHARE_BUDGET_H
#define HEARTH_CONTROLLER_SHARE_BUDGET_H

#include "controller/record/verdict.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

struct spent_row;

/* account: QUEUE/@OWNER; started_us: real */
void budgets_clear(struct core *c);
void budget_periods(uint64_t now_us, uint64_t start_us[3]); /* beginning of this day, week, month */
void budget_load(struct core *c, const struct budget_row *r);
void spent_load(struct core *c, const struct spent_row *r);
void budget_begins(struct core *c, const char *account, uint64_t price_uusd, uint64_t started_us);
void budget_ends(struct core *c, const char *account, uint64_t price_uusd);
/* Closes and opens accounts that are due; quiet: without an event, as at load. */
void budgets_review(struct core *c, int quiet);
cJSON *budget_json(const struct core *c, const char *path); /* NULL: no budget */
void budgets_json(const struct core *c, cJSON *list);
/* Posts the event (takes d) and applies the budget from now on. */
void budget_set(struct core *c, const char *path, cJSON *d);
void budget_drop(struct core *c, const char *path, const char *by);
void budgets_drop_users(struct core *c, const char *queue, const char *by); /* of all users in it */
/* Names the budget that makes a job wait. */
void budget_explain(const struct core *c, const char *queue, const char *owner, struct sched_reason *r);
/* 1: a budget that the attempt draws on is used up and ends what runs; v says which. */
int budget_used_up(const struct core *c, const char *account); /* 1: nothing more of it starts */
int account_pays_by(const char *account, const char *path);    /* 1: it is that path, or below it */
int budget_is_up(struct core *c, const struct cjob *j, struct verdict *v);

#endif
