/*
 * serve_int: what the parts of the server share. A handler answers by filling `reply` (an END): numbers from
 * v[1] on, texts[1], a descriptor (which is then closed here).
 */
#ifndef HEARTH_AGENT_FILES_SERVE_INT_H
#define HEARTH_AGENT_FILES_SERVE_INT_H

#include "agent/files/channel.h"
#include "agent/files/listing.h"

struct server {
	struct files_channel channel;
	uint64_t unsent, looked_us; /* bytes done that the agent does not know yet; last look at the channel */
	int stopped;                /* the agent wants no more of this request */
	char digest[65];            /* of a reply */
	int held;                   /* folder of held checkpoints; -1 none */
	struct watching *watching;  /* serve_watch.c; NULL none */
	uint64_t rate;              /* bytes a second, 0 no limit */
	uint64_t paid_us;           /* time up to which the rate is used up */
};

/* More bytes are done: tells the agent now and then; -1: stop. arg: struct server (copy.h). */
int server_step(uint64_t bytes, void *arg);
int server_is_stopped(struct server *s); /* asks the channel */
int server_send_data(struct server *s, const void *p, size_t n, struct err *e);
/* The folder `dir` below the request's descriptor. */
int server_open_below(const struct files_msg *m, const char *dir, struct err *e);

/* serve_paths.c */
int serve_look(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
int serve_open(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
int serve_read(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
int serve_output(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
int serve_steps(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
/* Opens the folder of results, which a user names; a missing one is made. */
int server_open_output(const char *dir, struct err *e);

/* serve_trees.c */
int serve_copy(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
int serve_measure(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
int serve_store(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
/* 1: the entry `failure` of the folder of outputs, which is not a result. flag: of the request. */
int server_is_failure(const char *relpath, uint64_t flag);

/* serve_watch.c */
int serve_watch(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
void server_unwatch(struct server *s);
/* Lists the entry `name` of the open folder `at` and what is below it. -1: none, or too much. */
int server_list_entry(struct server *s, int at, const char *name, struct listing *out);

/* serve_hold.c */
int serve_hold(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
int serve_check(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
int server_is_name(const char *name); /* without "/", ".", ".." */
int server_drop_held(struct server *s, const char *place, struct err *e);
struct server_size {
	uint64_t bytes;
	char *odd; /* why a copy would lack a part of it: a link to another place, a FIFO; malloc'ed, NULL no
	              reason */
};
/* The print of an entry of the open folder `at`, and what is in it (NULL: not asked). ranks: `entry` is a
 * rank name. 1: it has too many files; -1: it has gone. */
int server_print(struct server *s, int at, const char *entry, int ranks, uint64_t *print,
                 struct server_size *size);

/* serve_keep.c */
int serve_keep(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
int serve_calm(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
int serve_digest(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
int serve_kept(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);
int serve_drop(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);

/* serve_put.c */
int serve_put(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);

#endif
