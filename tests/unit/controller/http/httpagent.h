/*
 * httpagent: an agent's connections for tests of the server: a node that has joined, and real peers on a loop
 * of their own thread.
 */
#ifndef HEARTH_TESTS_UNIT_CONTROLLER_HTTP_HTTPAGENT_H
#define HEARTH_TESTS_UNIT_CONTROLLER_HTTP_HTTPAGENT_H

#include "common/net/wire_msg.h"
#include "tests/unit/controller/http/httpkit.h"

struct hagent; /* one connection */

/* Key, certificate and node row of that name. id of the row. */
void hagent_join(struct hkit *k, const char *node, uint64_t id);
void hagent_join_as(struct hkit *k, const char *node, uint64_t id, const char *state);
void hagent_row(struct hkit *k, const char *node, uint64_t id, const char *state, const char *fingerprint);
/* Dials; returns at once. role: enum wire_role. */
struct hagent *hagent_dial(struct hkit *k, const char *node, uint8_t role);
/* 1 open, -1 closed (why in hagent_why), 0 timed out. */
int hagent_wait_open(struct hagent *a, unsigned timeout_ms);
int hagent_wait_closed(struct hagent *a, unsigned timeout_ms);
const char *hagent_why(struct hagent *a);
enum err_code hagent_code(struct hagent *a);
uint64_t hagent_session(struct hagent *a);
/* Copies msg and sends it; waits while the output is full. */
void hagent_send(struct hagent *a, uint16_t type, const void *msg, uint64_t id);
/* Log data, text with its own offset; one time mark. */
void hagent_log(struct hagent *a, uint64_t job, const char *stream, uint64_t offset, const char *text,
                int eof);
/* Next message of that type (owned by the caller), or NULL after timeout. Others are dropped. */
void *hagent_expect(struct hagent *a, uint16_t type, uint64_t *id, unsigned timeout_ms);
/* Stops reading what the server sends, and begins again. */
void hagent_hold(struct hagent *a, int hold);
void hagent_close(struct hagent *a); /* and frees */

#endif
