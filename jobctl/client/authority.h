/*
 * authority: the certificate of a cluster's authority, from the controller itself.
 */
#ifndef HEARTH_JOBCTL_CLIENT_AUTHORITY_H
#define HEARTH_JOBCTL_CLIENT_AUTHORITY_H

#include "common/base/err.h"

/* Asks the https url for its certificates, without trust and without any secret, and returns the one with
 * that fingerprint (PEM, malloc'ed). ERR_DENIED: it has none, so it is another cluster, or an impostor. */
char *authority_fetch(const char *url, const char *fingerprint, struct err *e);

#endif
