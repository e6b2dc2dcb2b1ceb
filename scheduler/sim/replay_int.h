/* replay_int: the lines of a record with the changes that the caller wants, for replay.c and whatif.c. */
#ifndef HEARTH_SCHEDULER_SIM_REPLAY_INT_H
#define HEARTH_SCHEDULER_SIM_REPLAY_INT_H
#include "scheduler/base/uthash.h"
#include "scheduler/sim/replay.h"

struct node_name {
	uint64_t id;
	char *name;
	UT_hash_handle hh;
};
struct account_path { /* "research", "research/@ada": what a weight may be given to */
	char *path;
	UT_hash_handle hh;
};
struct replay_lines {
	const struct replay_conf *conf;
	const char *p, *end;
	struct record_reader *teller;
	struct node_name *names;
	struct account_path *paths;
	size_t line;
	uint64_t at_ms;      /* of the line that was read last */
	int trying;          /* within try and tried */
	struct sched *sched; /* who is told what the caller adds: weights, nodes */
	int weighed, grown;
	int was_usable,
	    left_out; /* the node of the last line: as recorded; by the caller's wish it gets no work */
	struct replay_mistake *m;
};

void replay_open(struct replay_lines *l, const struct replay_conf *c, const char *text, size_t n,
                 struct replay_mistake *m);
void replay_close(struct replay_lines *l); /* names stay when taken: set l->names to NULL before */
/* The next line, changed as wished; 1, 0 at the end, -1. */
int replay_next(struct replay_lines *l, struct record_line *t);
/* Tells the library a line and, behind it, what is added to it. */
void replay_tell(struct replay_lines *l, struct sched *s, const struct record_line *t);
const char *replay_node_name(const struct replay_lines *l, uint64_t id);
/* Names of the nodes, in memory of its own; replay_names_free. */
char **replay_names(const struct replay_lines *l, const struct sched_decision *d);
void replay_names_free(char **names, uint32_t n);

#endif
