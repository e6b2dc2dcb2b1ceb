/*
 * replay_queues: what the administrator has set (queues and quotas, budgets, instance types) as the cluster's
 * events give it, against its rows. Rows of use are not compared: they are sums that fade with time, at the
 * times when jobs gave GPUs back, and no event tells them.
 */
#ifndef HEARTH_CONTROLLER_REPLAY_QUEUES_H
#define HEARTH_CONTROLLER_REPLAY_QUEUES_H

#include "controller/record/replay_seen.h"

/* EV_QUEUE_SET to EV_INSTANCE_REMOVED, EV_BUDGET_SET to EV_BUDGET_OPEN. -1: it cannot be, why says so. */
int set_event(struct seen **all, enum event_type type, const cJSON *data, char *why, size_t size);
/* A row of queue, budget or instance. -1: it differs. */
int set_row(struct seen **all, const struct store_cluster_row *row, char *why, size_t size);

#endif
