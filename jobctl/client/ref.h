/*
 * ref: job references as people write them: 17, last, NAME, NAME~1, 17.3, and lists and ranges of them.
 */
#ifndef HEARTH_JOBCTL_CLIENT_REF_H
#define HEARTH_JOBCTL_CLIENT_REF_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct ctx;

/* Resolves one reference to an id. 0 or -1. */
int ref_resolve(struct ctx *c, const char *ref, uint64_t *job);

/* One of the jobs that operands name. */
struct job_ref {
	uint64_t id;   /* 0: unknown job; why has the reason */
	char *why;     /* NULL unless id is 0 */
	unsigned part; /* number of the list part that named it, from 1 */
	char *range;   /* "17-20" if that part is a range, else NULL */
};
/* Resolves operands that may be lists and ranges (17-20,23,last). Unknown jobs are in the list, too; any
 * other failure gives -1. */
int ref_resolve_list(struct ctx *c, const char *const *refs, size_t n, struct job_ref **list, size_t *count);
void ref_list_free(struct job_ref *list, size_t count);
/* Splits "17-20,23" and calls fn for each single reference; part is the piece that holds it. Pure, for tests.
 */
typedef int (*ref_fn)(const char *ref, const char *part, void *arg);
int ref_expand(const char *text, ref_fn fn, void *arg, struct err *e);

#define AFTER_KIND_SIZE 16
/* Splits "afterany:JOB" into "afterany" and JOB; "JOB" alone means "afterok". A job's name has no colon. */
int ref_after_kind(const char *text, char kind[AFTER_KIND_SIZE], const char **ref, struct err *e);

#endif
