/*
 * query: answers for the API as JSON. Each function returns a malloc tree that the caller frees
 * (cJSON_Delete), or NULL with an error. Secrets are masked (common/base/secret.h).
 */
#ifndef HEARTH_STORE_READ_QUERY_H
#define HEARTH_STORE_READ_QUERY_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "store/read/reader.h"

struct job_filter {
	const char *owner;      /* NULL any */
	const char *status;     /* NULL any; "active" = not ended */
	const char *name;       /* NULL any; exact, or a prefix with a trailing '*' */
	const char *text;       /* substring of name, notes, experiment; NULL none */
	const char *experiment; /* NULL any */
	const char *tag_key, *tag_value;
	uint64_t before_id; /* keyset page: ids below; 0 newest first page */
	uint32_t limit;     /* at most 1,000; 0 = 100 */
	int with_deleted;
	int with_members; /* list members of arrays and sweeps, too; 0: one line for each array */
	uint64_t array;   /* members of that job only; 0 any */
};
cJSON *store_jobs_json(struct store_reader *r, const struct job_filter *f,
                       struct err *e);                                      /* {"jobs":[..],"next":id|null} */
cJSON *store_job_json(struct store_reader *r, uint64_t job, struct err *e); /* `jobctl show --json` */
/* {"metric","goal","made","members":[..]}: jobs as in lists, with values {name: value} and metric {best,
 * last, min, max, step}. Sorted by the metric, best first (NULL: the metric that the sweep names), or by
 * index without a metric. limit 0: all. */
cJSON *store_members_json(struct store_reader *r, uint64_t job, const char *metric, uint32_t limit,
                          struct err *e);
cJSON *store_attempts_json(struct store_reader *r, uint64_t job, struct err *e);
/* 1: the two questions about the attempts of that job may take long; -1: error. Reads a bounded number of
 * index entries. */
int store_job_is_large(struct store_reader *r, uint64_t job, struct err *e);
/* Placement of an attempt: [{node, ranks, ...}] in node-rank order. ERR_NOT_FOUND: unknown attempt. */
cJSON *store_placement_json(struct store_reader *r, uint64_t job, uint32_t attempt, struct err *e);
cJSON *store_ranks_json(struct store_reader *r, uint64_t job, uint32_t attempt, struct err *e);
/* {"events":[{id,job,attempt,at,type,data}],"next":id|null}, ids above after_id; job 0: all; limit 0 = 1,000,
 * at most 10,000 */
cJSON *store_events_json(struct store_reader *r, uint64_t job, uint64_t after_id, uint32_t limit,
                         struct err *e);

/* {NAME:{last,min,max,step,count,attempt,rank,ranks}}: each of one rank in one attempt, in which `ranks`
 * reported it. attempt 0: the newest that has it (and the rank); rank -1: the lowest that has it there. This
 * and the next function fail as store_check_kept does when the metrics were removed; store_job_json shows
 * what stays of them. */
cJSON *store_metrics_json(struct store_reader *r, uint64_t job, int32_t rank, uint32_t attempt,
                          struct err *e);
/* One series: {"name","rank","attempt","node","count","last","min","max","step","raw","ranks":[..],
 * "attempts":[..],"points":[..]}. rank -1: the lowest that has it; attempt 0: the newest that has it. Raw
 * points are [step,time,value]. Above max_points (0 = 100,000) they become buckets of neighbours
 * [step,time,mean,min,max,points,nan]: step and time of the first point; mean, min and max of the numbers
 * ("nan" without any); the points and how many of them are NaN. step null: none; time in seconds since 1970;
 * NaN and infinities are the strings "nan", "inf", "-inf". */
cJSON *store_metric_json(struct store_reader *r, uint64_t job, const char *name, int32_t rank,
                         uint32_t attempt, uint32_t max_points, struct err *e);

cJSON *store_artifacts_json(struct store_reader *r, uint64_t job, struct err *e);
/* [{step,at,attempt,save_s,loss,size_bytes,digest,shards,places:[{node|uri,state}],complete,pinned,set_aside,
 * step_by}], the oldest first. */
cJSON *store_checkpoints_json(struct store_reader *r, uint64_t job, struct err *e);
/* Members of an array or a sweep that left artifacts, [{id, ref, kinds}], at most 1,000; empty for other
 * jobs. */
cJSON *store_members_left_json(struct store_reader *r, uint64_t job, struct err *e);
cJSON *store_run_info_json(struct store_reader *r, uint64_t job, struct err *e);

enum cost_by { COST_BY_QUEUE, COST_BY_USER, COST_BY_JOB };
struct cost_filter {
	enum cost_by by;
	const char *queue, *owner; /* NULL any; queue: with those below it */
	uint64_t job;              /* 0 any */
	uint64_t from_us, to_us;   /* 0: since the beginning; until now */
	uint64_t now_us;
	uint32_t limit; /* rows; 0 = 100, at most 1,000 */
};
/* Cost of attempts in a span of time: {"by","from","to","total_usd","rows":[{"name","usd","jobs","attempts",
 * "running","hours"}]}, the most expensive first. Attempts on nodes without a price do not count. */
cJSON *store_cost_json(struct store_reader *r, const struct cost_filter *f, struct err *e);

/* Parts of the scheduler's record, oldest first. */
cJSON *store_history_parts(struct store_reader *r, struct err *e);
/* {"part","texts","next"}: lines of one part behind the row `after`, about `most` bytes; next null: no more
 * lines so far. */
cJSON *store_history_lines(struct store_reader *r, uint64_t part, uint64_t after, size_t most, struct err *e);

#endif
