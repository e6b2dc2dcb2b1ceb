/*
 * simfolder: a model of a folder that a program writes: a list of writes with their times, which a kill cuts
 * off. It knows what each file holds, and lists the folder as hearth-files does.
 */
#ifndef HEARTH_TESTS_SIMFOLDER_H
#define HEARTH_TESTS_SIMFOLDER_H

#include "agent/keep/recognise.h"

#define MS    1000u
#define S     1000000u
#define RANKS 4

enum what { CREATE, PIECE, CLOSE, RENAME, REMOVE, LINK, STEP };

struct op {
	uint64_t at_us;
	size_t order;
	enum what what;
	unsigned rank;
	char *path, *other; /* other: new name, target, or the text of a marker */
	int64_t step;
	unsigned pieces;
};

struct file {
	char *path, *text, *target;
	int64_t step;
	unsigned pieces, written, writer; /* writer: rank + 1 while it is open */
	uint64_t inode, size, mtime_us, ctime_us, born_us;
	int moved;
};

struct saved { /* one save of the program, from the keeper's view */
	int64_t step;
	uint64_t done_us; /* the last write of it */
	unsigned files;   /* that it has, at least */
};

struct sim {
	struct op *ops;
	size_t n_ops, cap;
	struct file *files;
	size_t n_files;
	struct saved saved[64];
	unsigned n_saved;
	uint64_t inode, rng, kill_us[RANKS];
	struct keep_memory m;
	struct keep_moment at;
	int64_t newest; /* that was found */
	unsigned found;
	char *wrong;
};

uint64_t sim_random(struct sim *s, uint64_t n);
struct op *sim_op(struct sim *s, uint64_t at_us, unsigned rank, enum what what, char *path);
/* A file in pieces; returns when it is closed. Takes path. */
uint64_t sim_put(struct sim *s, uint64_t t, unsigned rank, int64_t step, char *path);
/* A marker: opened, which empties it, then written. Takes both texts. */
uint64_t sim_mark(struct sim *s, uint64_t t, unsigned rank, char *path, char *text);
uint64_t sim_move(struct sim *s, uint64_t t, unsigned rank, char *from, char *to);
struct file *sim_find(struct sim *s, const char *path);
int sim_is_below(const char *path, const char *top);
void sim_remove(struct sim *s, const char *path);
struct file *sim_make(struct sim *s, const char *path, uint64_t now);
void sim_perform(struct sim *s, const struct op *op);
void sim_list(struct sim *s, struct listing *l, uint64_t now);

#endif
