/*
 * join: makes this node a member of the cluster, once, by a one-time token. Its key, its certificate and the
 * authority's certificate are then in DATA, and the token is not needed again.
 *
 *   DATA/agent.key (0600)  DATA/agent.pem  DATA/ca.pem  DATA/node (the name in the certificate)
 */
#ifndef HEARTH_AGENT_CONTROL_JOIN_H
#define HEARTH_AGENT_CONTROL_JOIN_H

#include "common/base/err.h"
#include <stdint.h>

struct join_params {
	const char *url, *data_dir;
	const char *node;
	const char *token; /* NULL: must have joined before */
	unsigned retry_s;  /* seconds to wait for an unreachable hearthd */
};
/* Where the token is: the first of file, HEARTH_JOIN_TOKEN and standard input. */
struct join_source {
	const char *data_dir;
	const char *file; /* NULL: none. Others must not be able to open it */
	int from_stdin;
	uint32_t wait_s; /* for a token that comes through a pipe */
};
/* Reads the token, malloc'ed; leaves *token alone when no source has one, or when the file is gone and this
 * folder has joined before. */
int join_read_token(const struct join_source *s, char **token, struct err *e);
/* Makes sure that DATA has certificate and key. ERR_UNAUTHORIZED with the next step when both certificate and
 * token are missing; ERR_CONFLICT when DATA belongs to a node of another name. A token of another cluster
 * than the stored one joins that cluster. */
int join_cluster(const struct join_params *p, struct err *e);
/* Removes certificate and key of a removed node, so that this folder needs a new token to join again. The
 * name stays, as the default of the next join. */
void join_leave(const char *data_dir);
/* Returns 1 when DATA has the key, the certificate and the name of a node that joined. */
int join_is_member(const char *data_dir);
/* Returns the name in DATA/node, malloc'ed; NULL when this folder never joined. */
char *join_stored_name(const char *data_dir);

#endif
