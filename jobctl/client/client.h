/*
 * client: calls of the HTTP API (libcurl). One handle, one call at a time.
 *
 * All calls are safe to repeat: reads; PUT, PATCH and DELETE name the wanted state; POST carries an
 * Idempotency-Key, the same in every try. If the connection fails or hearthd is busy, the client retries for
 * at most `patience_s`, with back-off or after Retry-After. Errors have hearthd's own sentence and hint.
 *
 * After interrupt_catch, Ctrl-C ends the present call with an error; interrupted() tells.
 */
#ifndef HEARTH_JOBCTL_CLIENT_CLIENT_H
#define HEARTH_JOBCTL_CLIENT_CLIENT_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct client;

struct client_config {
	char *url;     /* http://H:P, https://H:P or unix:///path/hearthd.sock */
	char *token;   /* NULL: none */
	char *ca_file; /* PEM of the cluster's authority; NULL: the system's */
	char *source;  /* where the url came from, for messages */
	unsigned patience_s;
};

#define CLIENT_PATIENCE_S 10

/* A controller that is away while something is followed or waited for has this long to come back. */
#define LOST_PATIENCE_S 300

/* Returns the url of the local cluster, malloc'ed; NULL: no local cluster. */
typedef char *(*client_url_fn)(void);

/* Loads flags, then HEARTH_URL/HEARTH_TOKEN/HEARTH_CA, then ~/.config/hearth/config, then what find_local
 * (NULL: nothing) finds. A token is used only with the url that was given with it. HEARTH_PATIENCE: seconds
 * instead of CLIENT_PATIENCE_S. */
int client_config_load(struct client_config *c, const char *url_flag, client_url_fn find_local,
                       struct err *e);
void client_config_fini(struct client_config *c);
char *client_config_path(void); /* path of the user's file, malloc'ed */
char *client_home(void);        /* HOME, else the account's home; malloc'ed */

struct client *client_create(const struct client_config *c, struct err *e);
void client_destroy(struct client *c);
const char *client_url(const struct client *c);
unsigned client_patience(struct client *c, unsigned seconds); /* sets it and returns the old one */
void client_timeout(struct client *c,
                    unsigned ms); /* limit of one try of a client_call; two minutes by default */

/* Makes a call. path: "/jobs/17" (below /api/v1), or absolute with a leading "//" ("//healthz"). body NULL:
 * none. *out (may be NULL): the parsed answer, NULL if it was empty. */
int client_call(struct client *c, const char *method, const char *path, const cJSON *body, cJSON **out,
                struct err *e);
/* Sends (PUT) or fetches (GET, at most max) raw bytes. */
int client_put(struct client *c, const char *path, const void *data, size_t n, struct err *e);
int client_get(struct client *c, const char *path, size_t max, char **data, size_t *n, struct err *e);

/* Streams a GET. fn gets pieces as they arrive and returns -1 to end the transfer. header, unless NULL, gets
 * each response header line. Returns 0 at the end of the body, 1 if fn ended it, -1 on error
 * (ERR_UNAVAILABLE: connection lost, may be resumed). */
typedef int (*client_data_fn)(const char *data, size_t n, void *arg);
int client_stream(struct client *c, const char *path, const char *accept, const char *last_event_id,
                  client_data_fn fn, client_data_fn header, void *arg, struct err *e);

/* Calls fn about once a second while a call of this client waits for bytes; NULL: never. */
void client_on_idle(struct client *c, void (*fn)(void *arg), void *arg);

char *client_escape(const char *s); /* for a path segment or query value, malloc'ed */
/* Returns jobctl's exit code for an error. */
int client_exit_code(const struct err *e);

#endif
