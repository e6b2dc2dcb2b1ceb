/*
 * stats: how busy the writer is, and how far its projections are.
 */
#ifndef HEARTH_STORE_WRITE_STATS_H
#define HEARTH_STORE_WRITE_STATS_H

#include <stdint.h>

struct store_stats { /* since store_open */
	uint64_t transactions, groups, failed, bytes;
	uint64_t largest_group;
	uint64_t commit_us_sum, commit_us_max; /* of one group: statements and fsync */
	uint64_t projected_event, last_event;  /* how far behind the projections are */
};

#endif
