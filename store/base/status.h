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

/* A part p of a checkpoint is in hearthd's store, and no removal of the job's artifacts has freed it. */
#define SQL_PART_STORED                                                                                      \
	"p.uri = 'blob:' AND p.digest <> '' AND p.state IN ('copying', 'verified') AND NOT EXISTS (SELECT 1 "    \
	"FROM dropped d WHERE d.job = p.job AND d.what & 8)"

#endif
