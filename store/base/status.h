/*
 * status: which jobs have ended, in C and in SQL.
 */
#ifndef HEARTH_STORE_BASE_STATUS_H
#define HEARTH_STORE_BASE_STATUS_H

int status_ended(const char *status);

/* Word for word the condition of the index job_active. */
#define SQL_ACTIVE_IN(t) t ".status <> 'completed' AND " t ".status <> 'failed' AND " t ".status <> 'stopped'"
#define SQL_JOB_ACTIVE   SQL_ACTIVE_IN("job")
/* Word for word the condition of the index job_ended. */
#define SQL_JOB_ENDED "status = 'completed' OR status = 'failed' OR status = 'stopped'"

#endif
