/*
 * fetch: one file by http(s) into one path, with resume, retries and a bound (libcurl). Blocks: for threads.
 */
#ifndef HEARTH_AGENT_STAGE_FETCH_H
#define HEARTH_AGENT_STAGE_FETCH_H

#include "common/base/err.h"
#include <stdint.h>

struct fetch {
	const char *url;
	const char *sha256; /* expected, 64 lower-case digits; NULL none */
	const char *part; /* file that grows; PART.meta beside it knows which version it is of; both are left for
	                     the next try */
	const char *if_etag, *if_modified;                     /* ask only whether it changed; NULL none */
	uint64_t limit;                                        /* bytes at most, 0 none */
	unsigned tries;                                        /* 0 = 6, without progress in between */
	uint32_t backoff_ms;                                   /* first pause, doubled each time; 0 = 500 */
	int (*step)(uint64_t done, uint64_t total, void *arg); /* total 0: unknown; -1 stops */
	int (*pause)(uint32_t ms, void *arg);                  /* -1 stops */
	void (*say)(const char *line, void *arg);              /* what was retried and why */
	void *arg;
	/* results */
	int unchanged; /* the copy that if_etag, if_modified are of is still good: nothing was loaded */
	char etag[256], modified[64]; /* "" none */
	uint64_t bytes;
};
void fetch_global_init(void); /* once, before the first thread */
/* ERR_NOT_FOUND, ERR_DENIED, ERR_INVALID (checksum, answer): trying again does not help; ERR_LIMIT: larger
 * than allowed; ERR_NOSPACE; ERR_UNAVAILABLE: the network or the server, after all tries, or stopped. */
int fetch_run(struct fetch *f, struct err *e);
/* The address without its password, malloc'ed. */
char *fetch_shown(const char *url);
/* Returns the last part of the path, or "download"; malloc'ed, safe as a file's name. */
char *fetch_name(const char *url);

#endif
