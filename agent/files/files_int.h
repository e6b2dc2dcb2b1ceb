/*
 * files_int: what the parts of the agent's side share.
 */
#ifndef HEARTH_AGENT_FILES_FILES_INT_H
#define HEARTH_AGENT_FILES_FILES_INT_H

#include "agent/files/channel.h"
#include "agent/files/files.h"

/* A message of the helper that is neither progress nor the end. */
typedef int (*files_more_fn)(struct files *f, const struct files_msg *m, void *arg, struct err *e);

/* Sends the request, starting a helper where none runs, and waits for its end. more NULL: no other messages
 * are expected. end: the last message, valid until the next request; NULL: nobody asks. After a failure that
 * is not the helper's answer the helper is gone. */
int files_ask(struct files *f, const struct files_msg *m, files_more_fn more, void *arg,
              struct files_msg *end, struct err *e);
/* Sends a message in the middle of a request. */
int files_tell(struct files *f, const struct files_msg *m, struct err *e);

#endif
