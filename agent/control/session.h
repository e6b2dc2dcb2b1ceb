/*
 * session: the control connection to hearthd: dialled again for ever with back-off, state reported at each
 * connection, beats.
 *
 * After WELCOME: INVENTORY, SYNC_BEGIN, everything that launches_report_all reports, what is left in the
 * outbox, SYNC_END; then a BEAT each beat_ms. Nothing heard for half a lease (or three beats) closes the
 * connection: a cut cable tells nobody.
 */
#ifndef HEARTH_AGENT_SESSION_H
#define HEARTH_AGENT_SESSION_H

#include <stdint.h>

struct agent;
struct session;

struct session *session_create(struct agent *a);
void session_destroy(struct session *s);
/* Not kept when there is no connection: -1. id 0 for messages that nobody acknowledges. */
int session_send(struct session *s, uint16_t type, const void *msg, uint64_t id);
void session_dial_now(struct session *s); /* does not wait for its turn, when there is no connection */
/* Ends the connection, if there is one: orders come again on the next. */
void session_renew(struct session *s);

#endif
