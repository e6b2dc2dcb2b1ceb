/*
 * spec: a job specification (job.json), checked and as a struct. Pure: no files are touched.
 *
 * spec_parse is strict: unknown keys are errors that name the key and the nearest known one, wrong types name
 * the path, a key that the design reserves but that is not built yet is refused with a sentence that says so
 * (ERR_UNSUPPORTED). All errors found are collected up to 20, one per line. hearthd keeps the text verbatim;
 * the normalized form (spec_json) has every default filled in and is what agents get.
 */
#ifndef HEARTH_COMMON_SPEC_SPEC_H
#define HEARTH_COMMON_SPEC_SPEC_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/xalloc.h"
#include "common/spec/launcher.h"
#include "common/spec/spec_watch.h"
#include "common/spec/sweep.h"
#include "common/watch/rule.h"

#define SPEC_MAX_BYTES (1024 * 1024)
#define SPEC_MAX_HPS   1000
#define SPEC_MAX_NODES 4096
#define SPEC_MAX_RANKS 65536
#define SPEC_MAX_AFTER 100
#define SPEC_MAX_QUEUE 128

enum spec_value { SPEC_STR, SPEC_INT, SPEC_REAL, SPEC_BOOL, SPEC_JSON };

struct spec_hp { /* one hyperparameter, typed */
	char *name;
	enum spec_value type;
	char *text; /* as it goes on the command line and into SM_HP_*: strings plain, bool true/false,
	               lists/objects compact JSON */
	double num; /* of INT, REAL, BOOL */
};
struct spec_pair {
	char *name, *value;
};
struct spec_input {
	char *name;   /* channel */
	char *uri;    /* file:///..., http(s)://..., job:ID/model|output|checkpoint */
	int link;     /* mode "link" (file:// only) instead of "copy" */
	char *sha256; /* checksum of an http(s) file; NULL none */
	int unpack;   /* "unpack": true for .tar, .tar.gz, .zip? only tar forms */
};
struct spec_metric {
	char *name, *regex;
};
struct spec_member_ref { /* a member of an array that the specification names: job 17.3 */
	char *where;         /* "inputs.data.uri" */
	uint64_t array;
	uint32_t index;
};
enum spec_after_kind { SPEC_AFTER_ANY, SPEC_AFTER_OK, SPEC_AFTER_START };
struct spec_after { /* a job that this one waits for: until it has ended, ended well, started */
	uint64_t job;
	enum spec_after_kind kind;
};
struct spec_search {  /* what the members of a sweep are compared by */
	char *metric;     /* NULL none */
	int max;          /* the greatest value is the best; else the least */
	uint32_t eta;     /* of successive halving: one in so many goes on; 0: it is not used */
	int64_t min_step; /* the first comparison; the next ones at eta times the step before */
};
struct spec_member { /* of a sweep or an array */
	uint64_t job;
	uint32_t index, count; /* count 0: not a member */
};
struct spec_retry {        /* restarts after a failure */
	uint32_t max_attempts; /* after an unknown exit code or signal; 0 none */
	uint32_t capacity;     /* after faults of nodes, a day; 0 none */
	uint32_t wait_s;       /* search for other nodes while the rest is held */
	uint32_t no_progress;  /* restarts without a new checkpoint; 0: no limit */
};
struct spec_group { /* a gang is a list of groups; without "groups" there is one called "algo" */
	char *name;
	uint32_t instances;
	uint32_t gpus_per_instance;
	uint32_t ranks_per_instance; /* 0 in the text: 1, or gpus_per_instance when that is > 0 */
	uint32_t cpus_per_rank;
	struct strv command; /* empty: the job's */
};

struct job_spec {
	char *name, *experiment, *notes;
	struct spec_pair *tags;
	size_t n_tags;
	struct strv command;
	char *source_dir;   /* as given; NULL none. Only the client uses it; the bundle digest travels beside the
	                       spec */
	char *requirements; /* path inside the source tree; NULL none */
	struct spec_hp *hps;
	size_t n_hps;
	struct spec_pair *env;
	size_t n_env;
	struct spec_group *groups;
	size_t n_groups;
	int has_groups;        /* "groups" was given: TF_CONFIG is made */
	uint64_t memory_bytes; /* per instance; 0 = no limit */
	uint64_t disk_bytes;   /* per instance; 0 = no limit */
	int exclusive;
	struct strv instance_types; /* empty = any */
	char *gpu_model;            /* NULL any */
	uint64_t gpu_memory_bytes;
	struct strv requires; /* node labels or features */
	int gpu_visibility_one;
	char *span; /* placement.span: "node", "switch", "rack"; NULL none */
	int span_hard;
	enum spec_launcher launcher;
	struct strv mpi_options; /* passed the allow-list */
	struct spec_input *inputs;
	size_t n_inputs;
	char *output_uri;
	char *checkpoint_uri; /* "checkpoint.uri": file:///...; NULL: output_uri, else hearthd's store */
	uint32_t keep_last;   /* "checkpoint.keep_last": default 3 */
	char *resume_job;     /* of "resume_from": "job:17" or "file:///..."; NULL none */
	int64_t resume_step;  /* -1 latest */
	struct spec_metric *metrics;
	size_t n_metrics;
	uint64_t max_runtime_s; /* 0 = administrator's default */
	uint64_t max_wait_s;    /* in the queue; 0 none */
	double max_cost_usd;    /* of all attempts; 0 none */
	char *pool;             /* "warm_pool.pool": id or name of the one that it waits for; NULL none */
	int64_t keep_alive_s;   /* "warm_pool.keep_alive_s": of the pool that the job leaves; 0 none */
	struct strv preload;    /* "warm_pool.preload": Python modules imported ahead; empty none */
	int cuda_context;       /* "warm_pool.cuda_context": with them, a context on the rank's GPU */
	uint64_t grace_s;       /* "limits.grace_s": TERM to KILL at stop, default 30 */
	struct spec_retry retry;
	struct spec_watch watch;
	struct watch_rule *rules;
	size_t n_rules;
	int64_t priority; /* -1000..1000 */
	int preemptible;  /* 0: firm, see scheduler/sched.h */
	char *queue;      /* "default" */
	struct spec_after *after;
	size_t n_after;
	/* Members are called by the numbers behind their array's in all that is read here (17.3 is job 21). That
	 * there is such a member has to be looked up: each is listed here. */
	struct spec_member_ref *member_refs;
	size_t n_member_refs;
	struct sweep sweep;
	struct spec_search search;
	uint32_t array;            /* members that differ by their index only; 0 none */
	struct spec_member member; /* it is one of those */
	uint32_t max_parallel;     /* members that hold resources at once; 0: no limit */
};

/* Text -> spec. Errors: every problem found, one per line. */
struct job_spec *spec_parse(const char *text, size_t n, struct err *e);
struct job_spec *spec_from_json(const cJSON *root, struct err *e);
/* As spec_parse, but gives the problems one by one too: struct err has room for a few only. problems (may be
 * NULL) starts empty and is the caller's (strv_fini); it stays empty when the text is valid, and when it is
 * not JSON. */
struct job_spec *spec_parse_list(const char *text, size_t n, struct strv *problems, struct err *e);
void spec_destroy(struct job_spec *s);
/* Normalized JSON (all defaults in); parsing it again gives the same spec. */
cJSON *spec_to_json(const struct job_spec *s);

uint32_t spec_nodes(const struct job_spec *s); /* sum of instances */
uint32_t spec_ranks(const struct job_spec *s); /* world size */
const struct spec_group *spec_group_of(const struct job_spec *s, uint32_t node_rank);

/* What a new job may not ask for, although those that were accepted before stay readable: a name by which no
 * verb would find it, a sweep of nothing, a step that JSON cannot hold exactly. */
int spec_check_new(const struct job_spec *s, struct err *e);
int spec_check_job_name(const char *name, struct err *e); /* also of a new name */
#define SPEC_MAX_STEP ((int64_t)1 << 53)

/* What is accepted and yet will hardly do what was meant: a metric that a search, a watch or a rule needs,
 * and that no pattern reads from the output. One sentence each; added to notes. */
void spec_notes(const struct job_spec *s, struct strv *notes);

/* Members of a sweep or an array; 0: it is one job. */
uint32_t spec_members(const struct job_spec *s);
/* job.json of one member of job `job`: spec is the text that s was read from. Malloc'ed. */
char *spec_member_text(const cJSON *spec, const struct job_spec *s, uint64_t job, uint32_t index);

/* Tables for completion, documentation and the OpenAPI document. */
struct spec_key {
	const char *path; /* "resources.instances" */
	const char *type; /* "integer", "string", ... */
	const char *help;
	int built;        /* 0 = reserved, refused with a sentence */
	const char *dflt; /* as JSON or in words; "" = must be given */
};
const struct spec_key *spec_keys(size_t *n);
/* What an unknown key of the object with that prefix ("" the document, "resources") was meant to be: a key of
 * it, or the path of one elsewhere; NULL nothing is like it. */
const char *spec_key_meant(const char *prefix, const char *key);
/* "a", "a/b": names parted by slashes, at most 4; with_user: a last "@name" may follow, or stand alone never.
 */
int spec_check_queue(const char *path, int with_user, struct err *e);
const char *spec_after_name(enum spec_after_kind k); /* "afterany", "afterok", "after" */

#endif
