/*
 * status: see status.h.
 */
#include "store/base/status.h"

#include <stddef.h>
#include <string.h>

int status_ended(const char *status)
{
	return status && (strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0 ||
	                  strcmp(status, "stopped") == 0);
}
