/* again_int: the lines of a record with what the caller wants changed, for again.c and whatif.c. */
#ifndef HEARTH_SCHEDULER_SIM_AGAIN_INT_H
#define HEARTH_SCHEDULER_SIM_AGAIN_INT_H

#include "scheduler/model/mem.h"
#include "scheduler/sim/replay.h"

#define uthash_malloc(sz) mem_alloc(1, sz)
#define uthash_fatal(msg) assert(0)
#include <uthash.h>

struct node_name {
	uint64_t id;
	char *name;
	UT_hash_handle hh;
};
struct account_path { /* "research", "research/@ada": what a weight may be given to */
	char *path;
	UT_hash_handle hh;
};
struct again_lines {
	const struct again_conf *conf;
	const char *p, *end;
	struct teller *teller;
	struct node_name *names;
	struct account_path *paths;
	size_t line;
	uint64_t at_ms;      /* of the line that was read last */
	int trying;          /* within try and tried */
	struct sched *sched; /* who is told what the caller adds: weights, nodes */
	int weighed, grown;
	int was_usable,
	    left_out; /* the node of the last line: as recorded; by the caller's wish it gets no work */
	struct again_mistake *m;
};

void again_open(struct again_lines *l, const struct again_conf *c, const char *text, size_t n,
                struct again_mistake *m);
void again_close(struct again_lines *l); /* names stay when taken: set l->names to NULL before */
/* The next line, changed as wished; 1, 0 at the end, -1. */
int again_next(struct again_lines *l, struct sched_told *t);
/* Tells the library a line and, behind it, what is added to it. */
void again_tell(struct again_lines *l, struct sched *s, const struct sched_told *t);
const char *again_node_name(const struct again_lines *l, uint64_t id);
/* Names of the nodes, in memory of its own; again_names_free. */
char **again_names(const struct again_lines *l, const struct sched_decision *d);
void again_names_free(char **names, uint32_t n);

#endif
