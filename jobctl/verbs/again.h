/*
 * again: `submit --again`, and the memory that it needs.
 *
 * The memory is a private file, $XDG_STATE_HOME/hearth/submitted (~/.local/state/hearth/submitted): JSON, the
 * newest submit first, at most AGAIN_MAX. A submit of a file in a folder to a controller is one entry.
 *
 * Order: again_begin finds the file and adds the remembered options to the arguments; again_look asks for the
 * last job; again_compare prepares the comparison with its source; after the upload again_list_changes fills
 * the report; again_remember stores the new job.
 */
#ifndef HEARTH_JOBCTL_VERBS_AGAIN_H
#define HEARTH_JOBCTL_VERBS_AGAIN_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/xalloc.h"
#include "jobctl/client/args.h"
#include "jobctl/client/bundle.h"
#include "jobctl/client/ctx.h"

#define AGAIN_MAX       100
#define AGAIN_ENTRY_MAX (32 * 1024) /* bytes of one entry; a submit with longer options is not remembered */

struct changed;

struct again {
	char *url, *folder; /* the controller, and the folder in which the user is */
	char *file;         /* absolute; NULL: standard input, which is not remembered */
	uint64_t job;       /* the last job; 0: none is remembered */
	char *source;       /* digest of its source; NULL: none */
	char *name;         /* its --name; NULL: none */
	struct strv set;    /* its --set, in order */
	cJSON *report;      /* of --again: {job, file, set, name, pool, files, bytes, changed, not_compared,
	                     * sent_bytes; of a dry run would_send_bytes} */
	char *pool_text;    /* the pool that the new job uses, for people; NULL: nothing to say */
	uint64_t pool;      /* the one that the last job uses or left; 0 none */
	int same;           /* hearthd still has the last job */
	struct changed *changed;
};

/* Fills a for the submit of the arguments. opts: those of submit. With --again the arguments get the
 * remembered options, before those that were given. */
int again_begin(struct ctx *c, const struct arg_opt *opts, struct again *a);
/* Asks hearthd for the last job. */
void again_look(struct ctx *c, struct again *a);
/* Makes an upload compare its blocks with the last job's source, if hearthd still has it. */
void again_compare(struct ctx *c, struct again *a, struct bundle_report *r);
int again_list_changes(struct ctx *c, struct again *a, const struct bundle_report *r);
/* Notes the pool that the new job uses, or in a dry run would use. */
void again_note_pool(struct ctx *c, struct again *a, const cJSON *answer, int dry);
void again_print(const struct again *a); /* on standard error */
/* Stores the new job. A memory that cannot be written is not an error, because the job was submitted. */
void again_remember(const struct ctx *c, struct again *a, uint64_t job, const char *source);
void again_fini(struct again *a);

#endif
