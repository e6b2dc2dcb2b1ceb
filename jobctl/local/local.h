/*
 * local: a cluster on this machine alone, run by this user: hearthd and a few agents in the background.
 */
#ifndef HEARTH_JOBCTL_LOCAL_LOCAL_H
#define HEARTH_JOBCTL_LOCAL_LOCAL_H

#include "jobctl/client/ctx.h"

extern const struct verb verbs_local[]; /* ends with a NULL name */

/* Returns the unix:// url of the local cluster's hearthd, malloc'ed; NULL: no local cluster. */
char *local_url(void);
/* Returns the http:// url behind that unix:// url if it is the local cluster's, malloc'ed, else NULL. */
char *local_http_url(const char *unix_url);

#endif
