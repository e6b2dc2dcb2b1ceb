/*
 * ckpt: the checkpoints of a job, as the nodes report them while it runs: which are complete, which one an
 * attempt begins with, which are no longer needed. Pure; only events change the list (event.h).
 *
 * A checkpoint has a part for each node that wrote some of it. It is complete when it has as many whole parts
 * as its program names (shards), else as many as those before it. The first one of a format that all nodes
 * share needs a part of each node, until the next one has begun. A part is usable where it was verified
 * outside of its node, or on its own node.
 *
 * Candidates of an attempt are those that the attempt before it left, the newest first, then the one that
 * attempt had begun with, and older ones in the same way. What another line of attempts left never counts.
 */
#ifndef HEARTH_CONTROLLER_RECORD_CKPT_H
#define HEARTH_CONTROLLER_RECORD_CKPT_H

#include <cjson/cJSON.h>

#include "common/base/err.h"
#include "common/net/wire_msg.h"
#include "store/base/rows.h"

#define CKPT_MAX        128 /* of a job; the oldest that nothing needs goes first */
#define CKPT_LEFT_MAX   112 /* of a job, of which something is left: the others are removed in their time */
#define CKPT_PIN_MAX    32  /* pinned ones of a job */
#define CKPT_STEP_FILES 32  /* of one step: its beginning, the newest one and a new one have room */

struct job_rec;
struct text;

struct ckpt_part {
	char *node, *digest, *uri, *text;
	uint32_t node_rank, attempt, files;
	uint64_t seq, size_bytes; /* (attempt, seq): the agent's name for it */
	enum ckpt_state state;
	uint8_t held;  /* its node has a copy */
	uint8_t dirty; /* its row is to be written */
};

struct ckpt {
	uint32_t number, attempt;
	int64_t step; /* -1 unknown */
	char *name, *format, *step_by, *loss;
	uint64_t at_us, save_ms;
	uint32_t shards, expected, nodes, parent; /* store/base/columns.h */
	uint8_t pinned, set_aside, dirty;         /* dirty: its own row is to be written */
	struct ckpt_part *parts;
	uint32_t n_parts;
};

struct ckpt_list {
	struct ckpt *v; /* by number */
	uint32_t n;
	uint32_t *removed; /* numbers whose rows are to be removed */
	uint32_t n_removed;
	uint64_t stored; /* bytes of the parts in hearthd's store */
};

/* Nodes of an attempt by rank. NULL: a node that is not known yet, which has no copy. */
struct ckpt_nodes {
	const char *const *names;
	uint32_t n;
};

void ckpt_list_free(struct ckpt_list *l);
struct ckpt *ckpt_copy(const struct ckpt *c);
void ckpt_free(struct ckpt *c);                                   /* a copy; NULL fine */
struct ckpt *ckpt_find(const struct job_rec *r, uint32_t number); /* NULL unknown */
const char *ckpt_state_name(enum ckpt_state s);
enum ckpt_state ckpt_state_find(const char *name); /* 0 unknown */
int ckpt_is_complete(const struct ckpt *c);
/* All parts that are there are verified. */
int ckpt_is_verified(const struct ckpt *c);

/* ---- what an attempt begins with ------------------------------------------------------------- */

/* Reads job_rec.begins: "attempt:2@1200", or "attempt:2" (step -1). -1: the specification decides. */
int begins_parse(const char *text, uint32_t *attempt, int64_t *step);
/* The newest checkpoint of that attempt and step (-1: any); NULL none. One that is whole is preferred. */
const struct ckpt *ckpt_of(const struct job_rec *r, uint32_t attempt, int64_t step);
/* The first candidate after the present attempt; NULL none. */
const struct ckpt *ckpt_first(const struct job_rec *r);
/* The next candidate after c; NULL none. */
const struct ckpt *ckpt_before(const struct job_rec *r, const struct ckpt *c);
/* 1: rank `rank` of n nodes gets that part. */
int ckpt_gives(const struct ckpt *c, uint32_t part, uint32_t rank, uint32_t n);
/* 1: it is complete, and each of these nodes can get what it needs of it; 0: why not. */
int ckpt_has_copies(const struct ckpt *c, const struct ckpt_nodes *on, struct text *why);
/* 1: an attempt on these nodes can begin with it: it has copies, and was not set aside; 0: why not. */
int ckpt_usable(const struct ckpt *c, const struct ckpt_nodes *on, struct text *why);
/* Files of one step (ckpt_files.c): an attempt that begins with one of them gets the others, too. */
int ckpt_is_sibling(const struct ckpt *a, const struct ckpt *b);
/* It is pinned, or another file of its step is. */
int ckpt_step_is_pinned(const struct job_rec *r, const struct ckpt *c);
/* Counts the other names in its step (c may be no entry of the list). again: 1 when its own name is there. */
uint32_t ckpt_siblings(const struct job_rec *r, const struct ckpt *c, int *again);
/* Its step has more than CKPT_STEP_FILES files: hearthd did not register all. */
int ckpt_step_is_over(const struct job_rec *r, const struct ckpt *c);
/* ckpt_usable, all files of its step, too, and no file is missing that the steps before it had; 0: why not.
 */
int ckpt_fits(const struct job_rec *r, const struct ckpt *c, const struct ckpt_nodes *on, struct text *why);
/* The same of a step that a user names: what was set aside counts, too. */
int ckpt_fits_asked(const struct job_rec *r, const struct ckpt *c, const struct ckpt_nodes *on,
                    struct text *why);
/* The newest candidate that fits, with a step of at most max_step (INT64_MAX: any, also an unknown one).
 * on NULL: the nodes of the present attempt, other nodes for those that are lost. */
const struct ckpt *ckpt_newest(const struct job_rec *r, int64_t max_step, const struct ckpt_nodes *on);

/* Adds `begins`: what the job would go on with now, in the event that ends it. Nothing where that is not
 * known. */
void ckpt_add_line(const struct job_rec *r, cJSON *d);

/* 1: a return to target (NULL: to the beginning) leaves it behind, and it is not set aside yet. */
int ckpt_is_behind(const struct ckpt *c, const struct ckpt *target);

/* ---- events ---------------------------------------------------------------------------------- */

/* Bytes in hearthd's store: of a part, and of all of a job. */
uint64_t ckpt_part_stored(const struct ckpt_part *p);
uint64_t ckpt_stored(const struct job_rec *r);
/* The number of the checkpoint that a report belongs to; 0: it is a new one. */
uint32_t ckpt_match(const struct job_rec *r, const struct wm_checkpoint_report *m, const char *node);
uint32_t ckpt_next_number(const struct job_rec *r);
int ckpt_apply_part(struct job_rec *r, uint32_t attempt, const cJSON *d, struct err *e);
int ckpt_apply_change(struct job_rec *r, const cJSON *d, struct err *e);
/* The node is lost: what only it held is gone. */
void ckpt_node_lost(struct job_rec *r, const char *node);

/* ---- retention ------------------------------------------------------------------------------- */

struct ckpt_keeps {
	uint32_t last;      /* newest ones; at least one stays */
	uint64_t margin;    /* steps that the first rollback goes back; each later one twice as far */
	uint32_t rollbacks; /* at most; 0: none is made */
	int ends;           /* the job ends */
};

/* Returns how many are no longer needed; out has their numbers. */
uint32_t ckpt_surplus(const struct job_rec *r, const struct ckpt_keeps *keeps, uint32_t out[CKPT_MAX]);

/* Numbers of those that have to go so that the list has room for new ones: the oldest that nothing needs,
 * with the other files of their steps. */
uint32_t ckpt_crowd(const struct job_rec *r, uint32_t out[CKPT_MAX]);

/* ---- rows ------------------------------------------------------------------------------------ */

void ckpt_row(const struct job_rec *r, const struct ckpt *c, struct checkpoint_row *out); /* borrows */
void ckpt_part_row(const struct job_rec *r, const struct ckpt *c, uint32_t part,
                   struct checkpoint_part_row *out); /* borrows */
int ckpt_from_row(struct job_rec *r, const struct checkpoint_row *row);
int ckpt_part_from_row(struct job_rec *r, const struct checkpoint_part_row *row);

#endif
