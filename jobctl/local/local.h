/*
 * local: a cluster of this machine alone, run by this user: hearthd and a few agents in the background.
 */
#ifndef HEARTH_JOBCTL_LOCAL_H
#define HEARTH_JOBCTL_LOCAL_H

/* unix:// address of the local cluster's hearthd when there is one, malloc'ed, else NULL. */
char *local_url(void);
/* http:// address behind that very unix:// address when it is the local cluster's, malloc'ed, else NULL. */
char *local_http_url(const char *unix_url);

#endif
