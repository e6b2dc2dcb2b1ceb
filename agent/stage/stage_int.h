/*
 * stage_int: what the files of staging share. Everything runs on the stage's thread, except the callbacks
 * of stage.c.
 *
 * Files: stage.c (order of steps, reports), stage_check.c (checks before the start), stage_tree.c (bundle
 * and trees), layer.c (trees without a copy), derive.c (a tree out of an
 * earlier one), prefetch.c (trees for a launch that may come), input.c (channels), venv.c and venv_build.c
 * (requirements).
 */
#ifndef HEARTH_AGENT_STAGE_STAGE_INT_H
#define HEARTH_AGENT_STAGE_STAGE_INT_H

#include "agent/files/files.h"
#include "agent/stage/cache.h"
#include "agent/stage/inside.h"
#include "agent/stage/stage.h"

struct stage_input {
	char *name, *uri, *sha256; /* sha256 NULL none */
	char *digest;              /* of job: inputs: digest or file:// uri; "" none */
	int link, unpack;
};

struct stage_restoring { /* stage_restore.c */
	char *name, *local;  /* NULL: no entry; no held copy */
	struct strv digests, uris;
};

struct stage {
	struct agent_env *env;
	struct data_link *b;
	struct worker *handle; /* loop's */
	uint64_t waited;       /* loop's: reports while it waits for a thread */
	struct worker *w;      /* the thread's own */
	struct stage_ops ops;
	void *arg;
	struct nodelog *setup; /* loop only */
	/* copies: the caller's may go when it cancels */
	uint64_t job;
	uint32_t attempt;
	char *work, *ml, *data_dir;
	char *ml_seen; /* of ml, by the job's processes */
	int ml_fd;     /* thread */
	struct launch_user user;
	int as_user;         /* the agent is root, the account is not: what root makes is given to it */
	struct files *files; /* thread: for all paths that the job's owner named or may change */
	char *bundle, *resume, *requirements;
	char *output; /* folder of output_uri; NULL none */
	int64_t resume_step;
	struct stage_restoring restore;
	int not_restored; /* thread */
	uint64_t later;   /* thread: entries of later steps than that, which were left out */
	struct stage_input *inputs;
	size_t n_inputs;
	struct inside *inside; /* of a build; NULL: not one */
	char *tmpdir;          /* of a build: TMPDIR inside */
	struct strv pip_env;   /* NAME=VALUE of the job that pip is to see */
	uint64_t limit, bytes; /* disk_bytes, 0 none; staged so far */
	int ahead;             /* no launch: it fills the caches for one that may come (prefetch.c) */
	uint64_t fetched;      /* thread: bytes that came from hearthd */
	char *pool_dir;        /* of its warm pool; NULL none */
	struct strv uses;      /* thread: entries of the caches, for uses.h */
	uint32_t holder_pid;   /* of a container that runs already; 0 none */
	uint64_t holder_start;
	char *base;        /* thread: digest of the pool's last source; NULL: none to make the next one of */
	char *code_layer;  /* thread: the tree that is shown as ml/code; NULL: its files are copied */
	struct strv trees; /* of one that is ahead */
	/* thread */
	char phase[96];
	uint64_t done, total, told_us;
	struct strv links; /* targets of linked inputs */
	/* result */
	int rc;
	enum reason_class cls;
	char text[1024];
	char *venv_bin;
	char *build_key; /* the environment is missing */
};

void stage_say(struct stage *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));                  /* lines of the setup stream */
void stage_bytes(struct stage *s, const void *p, size_t n); /* raw output of a child */
void stage_phase(struct stage *s, const char *phase, uint64_t total);
int stage_step(struct stage *s, uint64_t more); /* progress; -1 cancelled */
/* Sets the reason (the first one stays); returns -1. The class follows the code when cls is RC_NONE. */
int stage_fail(struct stage *s, enum reason_class cls, const struct err *e);
/* ERR_LIMIT when the job's disk limit leaves less. */
int stage_check_room(struct stage *s, uint64_t need, const char *what, struct err *e);
int stage_left(const struct stage *s, uint64_t *left); /* bytes that the disk limit leaves; 0: no limit */
int stage_pause(void *arg);                            /* arg: struct stage; a moment, -1 cancelled */

/* ---- evict.c ---- */
int stage_env_used(const char *jobs, const char *entry_dir); /* by a job that is on this node */
void stage_evict(struct stage *s);                           /* keeps the caches within their bounds */
/* Evicts, oldest first, until so many bytes are free, as far as that goes. */
void stage_make_room(const struct stage *s, uint64_t need);

/* ---- stage.c, for prefetch.c ---- */
void stage_free(void *arg);
/* The I/O priority of the calling thread, and of what it starts: jobs of this node go before it. */
void stage_modest(int on);

/* ---- stage_tree.c ---- */
/* skip: what is left out, as in copy.h, of arg s; NULL nothing. */
/* A tree of hearthd (digest) into the folder `to` below ml, owned by the job. */
int stage_tree(struct stage *s, const char *digest, const char *to,
               int (*skip)(const char *relpath, void *arg), struct err *e);
/* file:// path, read by the job's account, into `to` below ml: contents of a folder, or the file under its
 * name. Entries of steps after `last` stay behind; -1: none does. */
int stage_files(struct stage *s, const char *path, const char *to, int64_t last, struct err *e);
/* The same tree into the cache alone. */
int stage_tree_ahead(struct stage *s, const char *digest, struct err *e);
/* Bytes that something ahead of a launch may still fill. */
int stage_room_ahead(const struct stage *s, uint64_t *left, struct err *e);
/* Descriptor of a folder below ml, made when missing. A new one is the agent's until it is given. */
int stage_open_below(struct stage *s, const char *to, struct err *e);
int stage_give(struct stage *s, int fd, struct err *e); /* to the job's account */

/* ---- layer.c ---- */
/* 1: the launch sees the tree of that entry as the folder `to` below ml, which exists (base/layers.h); 0: it
 * is to be copied. */
int stage_layer(struct stage *s, struct cache_entry *c, const char *tree, const char *to, struct err *e);
/* Mounts the layers in the container that runs already, if there is one. Before ml is handed over. */
int stage_mount_layers(struct stage *s, struct err *e);
int stage_can_share(
    const struct stage *s); /* 1: files of the caches can come without a copy of their bytes */
/* 1: the files of the tree belong to the job's account; 0: to another one. */
int stage_own_tree(struct stage *s, struct cache_entry *c, const char *tree, struct err *e);
/* All files of a tree, to the job's account. The top is last, so a tree that is given half is the agent's
 * still. */
int stage_give_tree(const struct stage *s, char *tree, struct err *e);

/* ---- derive.c ---- */
/* Makes `tree` of the manifest out of the pool's last source, of which it shares the files that are equal.
 * get: fetches the chunks of a manifest. 1 made, 0 it cannot be made so, -1. */
int stage_derive(struct stage *s, const char *blobs, const char *manifest, size_t n, const char *tree,
                 int (*get)(struct stage *s, const char *blobs, const char *manifest, size_t n,
                            struct err *e),
                 struct err *e);

/* ---- input.c ---- */
int stage_one_input(struct stage *s, const struct stage_input *in);
/* Downloads it into the cache when it is http(s) with a digest; other inputs wait for the launch. */
int stage_input_ahead(struct stage *s, const struct stage_input *in);

/* ---- stage_check.c ---- */
/* Checks before the first copy: the outputs have a place, and the step to resume from exists. */
int stage_output(struct stage *s);
int stage_resume_step(struct stage *s, struct err *e);
/* copy.skip: an entry of a later step than the one that is resumed from; arg: struct stage. */
int stage_later(const char *relpath, void *arg);

/* ---- stage_restore.c ---- */
int stage_restore(struct stage *s);

/* ---- venv.c ---- */
int stage_requirements(struct stage *s);
char *venv_cache(const struct stage *s); /* the folder of all environments; malloc'ed */
int venv_use(struct stage *s, const char *entry_dir, struct err *e);
int venv_fail(struct stage *s, const struct err *e); /* -1 */

/* ---- venv_build.c ---- */
int stage_build_venv(struct stage *s); /* of s->build_key, in the container */
#define STAGE_PYTHON "/usr/bin/python3"

#endif
