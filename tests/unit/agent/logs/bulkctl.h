/*
 * bulkctl: the controller's end of bulk connections, for tests: keeps streams, points and blobs as hearthd
 * would, acknowledges (or not), can be cut off. Uses peer_ends for authority, certificates and loop.
 */
#ifndef HEARTH_TESTS_BULKCTL_H
#define HEARTH_TESTS_BULKCTL_H

#include "agent/agent.h"
#include "tests/unit/common/net/peer_ends.h"

#define BULKCTL_STREAMS 32

struct bulkctl_stream {
	char *name;                /* "job.attempt/stream" */
	char *data;                /* terminated; lost bytes as '#' */
	size_t n;                  /* stream offset of the end */
	uint64_t lost, sent_again; /* bytes */
	char *recs;                /* "offset@fd " of each record */
	int eof, frames;
};

struct bulkctl {
	struct evconnlistener *listener;
	char url[64];
	char blobdir[512];
	struct peer *peer;
	struct bufferevent *waiting;
	int opened, closed, refused; /* refused: by closed_port */
	int hold_acks;               /* logs are not acknowledged */
	int hold_metrics;            /* taken, not acknowledged */
	int deaf;                    /* requests for blobs are not answered */
	int closed_port;             /* connections are dropped at once */
	int full;                    /* the first log data cost the connection, as on a full disk */
	struct bulkctl_stream streams[BULKCTL_STREAMS];
	uint64_t last_seq;
	unsigned batches, repeated; /* metrics; repeated: dropped by number */
	char *points;               /* "rank:name=value@step " */
	size_t points_n, n_points;
	unsigned gets, puts, haves;
	char *part; /* of a blob that comes in pieces */
	size_t part_n;
};

void bulkctl_start(struct bulkctl *c);
void bulkctl_stop(struct bulkctl *c);
void bulkctl_drop(struct bulkctl *c); /* the connection, now */
void bulkctl_ack_all(struct bulkctl *c);
struct bulkctl_stream *bulkctl_stream(struct bulkctl *c, const char *name); /* made when new */
/* An agent's surroundings: data and run folders below the test's, not root unless the test is and wants to
 * be. */
void bulkctl_env(struct bulkctl *c, struct agent_env *env, const char *name);
void bulkctl_env_fini(struct agent_env *env);

#endif
