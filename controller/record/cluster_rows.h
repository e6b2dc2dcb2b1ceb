/*
 * cluster_rows: records of the cluster from stored rows, and rows from records.
 */
#ifndef HEARTH_CONTROLLER_RECORD_CLUSTER_ROWS_H
#define HEARTH_CONTROLLER_RECORD_CLUSTER_ROWS_H

#include "controller/record/cluster.h"
#include "store/read/verify.h"

/* Makes the record of a stored row. NULL: the row is left out. Its name is missing or known already, its
 * period or action is unknown, its facts cannot be read, or its token is not for joining. */
struct cluster_rec *cluster_load(struct cluster *c, const struct store_cluster_row *row);

struct cluster_row { /* a row made of a record; strings belong to the record or to own */
	struct store_cluster_row row;
	union {
		struct node_row node;
		struct token_row token;
		struct queue_row queue;
		struct budget_row budget;
		struct reservation_row reservation;
		struct pool_row pool;
		struct pool_job_row pool_job;
	};
	char *own;
};
void cluster_row_make(const struct cluster_rec *r, struct cluster_row *out);
void cluster_row_fini(struct cluster_row *r);

#endif
