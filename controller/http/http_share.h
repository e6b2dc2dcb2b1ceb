/*
 * http_share: connections of a thread, counted by their owner: a Unix account or a user.
 *
 * An owner with too many connections loses his oldest idle one to the new one. He harms nobody else. When all
 * owners together have too many, the one with the most loses his oldest idle one.
 */
#ifndef HEARTH_CONTROLLER_HTTP_HTTP_SHARE_H
#define HEARTH_CONTROLLER_HTTP_HTTP_SHARE_H

struct http_conn;
struct share_owner;

struct http_share {
	unsigned most, each; /* connections: of all owners, of one */
	unsigned n;
	struct share_owner *owners;
};

enum share_rc { SHARE_OK, SHARE_OWNER_FULL, SHARE_FULL };

/* Sets the limits: of all owners together, and of one. */
void http_share_init(struct http_share *s, unsigned most);
/* Counts conn. SHARE_OWNER_FULL and SHARE_FULL: no connection was idle, and conn is not counted. */
enum share_rc http_share_add(struct http_share *s, struct http_conn *conn, const char *owner);
void http_share_leave(struct http_conn *conn); /* does nothing when conn is not counted */

#endif
