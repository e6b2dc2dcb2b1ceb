/*
 * data_link_ctl: the controller's end of data links, for tests: keeps streams, points and blobs as
 * hearthd would, acknowledges (or not), can be cut off. Uses peer_ends for authority, certificates and loop.
 */
#ifndef HEARTH_TESTS_UNIT_AGENT_LOGS_DATA_LINK_CTL_H
#define HEARTH_TESTS_UNIT_AGENT_LOGS_DATA_LINK_CTL_H

#include "agent/base/agent_env.h"
#include "tests/unit/common/net/peer_ends.h"

#define DATA_LINK_CTL_STREAMS 32

struct data_link_ctl_stream {
	char *name;                /* "job.attempt/stream" */
	char *data;                /* terminated; lost bytes as '#' */
	size_t n;                  /* stream offset of the end */
	uint64_t lost, sent_again; /* bytes */
	char *recs;                /* "offset@fd " of each record */
	int eof, frames;
};

struct data_link_ctl {
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
	struct data_link_ctl_stream streams[DATA_LINK_CTL_STREAMS];
	uint64_t last_seq;
	unsigned batches, repeated; /* metrics; repeated: dropped by number */
	char *points;               /* "rank:name=value@step " */
	size_t points_n, n_points;
	unsigned gets, puts, haves;
	char *part; /* of a blob that comes in pieces */
	size_t part_n;
};

void data_link_ctl_start(struct data_link_ctl *c);
void data_link_ctl_stop(struct data_link_ctl *c);
void data_link_ctl_drop(struct data_link_ctl *c); /* the connection, now */
void data_link_ctl_ack_all(struct data_link_ctl *c);
struct data_link_ctl_stream *data_link_ctl_stream(struct data_link_ctl *c,
                                                  const char *name); /* made when new */
/* An agent's surroundings: data and run folders below the test's, not root unless the test is and wants to
 * be. */
void data_link_ctl_env(struct data_link_ctl *c, struct agent_env *env, const char *name);
void data_link_ctl_env_fini(struct agent_env *env);

#endif
