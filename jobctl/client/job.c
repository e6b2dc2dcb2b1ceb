/*
 * job: see job.h.
 */
#include "jobctl/client/job.h"

#include <string.h>

#include "jobctl/client/ctx.h"

int job_ended(const char *status)
{
	return strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0 ||
	       strcmp(status, "stopped") == 0;
}

int job_exit_code(const char *status)
{
	return status && strcmp(status, "completed") == 0 ? EXIT_OK : EXIT_JOB_FAILED;
}
