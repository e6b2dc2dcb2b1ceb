/*
 * files: the agent's side of hearth-files. One helper serves one staging or one upload, request after
 * request; it is started for the first request. Blocks: for threads; a helper belongs to the thread that
 * started it.
 *
 * A request ends by its answer, by `step`, or when the helper has said nothing for silent_ms: a file
 * server that does not answer holds the helper, not the agent. A helper that was given up is killed, and
 * reaped when the kernel lets go of it.
 */
#ifndef HEARTH_AGENT_FILES_FILES_H
#define HEARTH_AGENT_FILES_FILES_H

#include "agent/base/user.h"
#include "common/base/hash.h"
#include <stdint.h>

#define FILES_SILENT_MS 600000u

struct files_params {
	const struct agent_env *env;
	const struct launch_user *user; /* must live as long as the helper */
	/* More bytes are done (0: none, at least each 200 ms); -1 stops the request (ERR_UNAVAILABLE
	 * "cancelled"). */
	int (*step)(uint64_t bytes, void *arg);
	uint32_t silent_ms;                       /* 0: FILES_SILENT_MS */
	void (*total)(uint64_t bytes, void *arg); /* bytes that there are to do; NULL: nobody asks */
	void *arg;
};

struct files;
struct files *files_create(const struct files_params *p); /* starts nothing yet */
void files_destroy(struct files *f);                      /* NULL allowed; ends the helper */

struct files_info {
	int is_folder;
	uint64_t size_bytes;
};
/* Can the account read it? ERR_INVALID: neither file nor folder, or on procfs or by way of it. */
int files_look(struct files *f, const char *path, struct files_info *out, struct err *e);
/* A regular file, open for reading: the descriptor. */
int files_open(struct files *f, const char *path, struct err *e);
/* Text of a regular file below the open folder, malloc'ed, terminated; ERR_LIMIT when longer than max. */
int files_read(struct files *f, int folder, const char *path, size_t max, char **text, size_t *n,
               struct err *e);
/* Can the account make a folder in it? A missing one is made. ERR_CONFLICT: the path itself is wrong. */
int files_try_output(struct files *f, const char *path, struct err *e);
/* ERR_NOT_FOUND: the folder of checkpoints lacks that step. */
int files_check_step(struct files *f, const char *path, int64_t step, struct err *e);

struct files_copy {
	const char *path;
	int to; /* open folder, the account's: gets the contents of a folder, or the file under its name */
	uint64_t limit; /* bytes at most, 0 none: then ERR_LIMIT */
	int64_t last;   /* checkpoints of later steps are left out; -1: none are */
	/* results */
	uint64_t later, special; /* entries left out: of later steps; sockets, FIFOs, devices */
};
int files_copy(struct files *f, struct files_copy *c, struct err *e);

struct files_tree {
	int ml;          /* the job's folder */
	const char *dir; /* below it */
	int no_failure;  /* leave its entry `failure` out */
	/* results */
	uint64_t files, bytes;
	char digest[HASH_HEX_SIZE]; /* files_store */
};
int files_measure(struct files *f, struct files_tree *t, struct err *e); /* none is there: no files */

struct files_place { /* below the folder that a job's owner named */
	const char *output, *kind, *cluster;
	uint64_t job, epoch;
	uint32_t attempt, node_rank, n_nodes;
};
/* Copies to OUTPUT/JOB/KIND[/algo-K]. ERR_CONFLICT: an upload of a greater epoch was there. */
int files_put(struct files *f, struct files_tree *t, const struct files_place *p, struct err *e);

struct files_store_ops {
	/* Which of n digests are missing: sets missing[i]. */
	int (*missing)(char *const *digests, size_t n, uint8_t *missing, void *arg, struct err *e);
	/* A missing chunk, or at the end the manifest. Its digest is not checked here. */
	int (*put)(const char *digest, const void *data, size_t n, void *arg, struct err *e);
	void *arg;
};
int files_store(struct files *f, struct files_tree *t, const struct files_store_ops *ops, struct err *e);

#endif
