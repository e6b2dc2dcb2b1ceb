/*
 * api_jobs: the handlers of jobs and their records, logs, artifacts and blobs. Each handler answers its call
 * once, now or later on the same I/O thread.
 */
#ifndef HEARTH_CONTROLLER_API_API_JOBS_H
#define HEARTH_CONTROLLER_API_API_JOBS_H

struct call;
struct io;

/* api_jobs.c */
void api_jobs_list(struct call *c, struct io *io);
void api_jobs_submit(struct call *c, struct io *io);
void api_jobs_resolve(struct call *c, struct io *io);
void api_job_get(struct call *c, struct io *io);
void api_job_members(struct call *c, struct io *io);
void api_job_set(struct call *c, struct io *io);
void api_job_rm(struct call *c, struct io *io);
void api_job_stop(struct call *c, struct io *io);
void api_job_hold(struct call *c, struct io *io);
void api_job_release(struct call *c, struct io *io);
void api_job_requeue(struct call *c, struct io *io);
void api_job_clone(struct call *c, struct io *io);
void api_job_retry(struct call *c, struct io *io);
void api_job_why(struct call *c, struct io *io);
/* api_records.c */
void api_job_events(struct call *c, struct io *io);
void api_job_attempts(struct call *c, struct io *io);
void api_job_ranks(struct call *c, struct io *io);
void api_job_metrics(struct call *c, struct io *io);
void api_job_metric(struct call *c, struct io *io);
void api_job_run(struct call *c, struct io *io);
void api_job_spec(struct call *c, struct io *io);
void api_job_checkpoints(struct call *c, struct io *io);
void api_job_checkpoint(struct call *c, struct io *io);
void api_job_artifacts(struct call *c, struct io *io);
/* api_logs.c */
void api_logs_list(struct call *c, struct io *io);
void api_logs_read(struct call *c, struct io *io);
/* api_data.c */
void api_artifact(struct call *c, struct io *io);
void api_artifact_file(struct call *c, struct io *io);
void api_blob_get(struct call *c, struct io *io);
void api_blob_head(struct call *c, struct io *io);
void api_blob_put(struct call *c, struct io *io);
void api_blobs_missing(struct call *c, struct io *io);

#endif
