/*
 * keep_report: see keep_report.h.
 */
#include "agent/keep/keep_report.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"

void keep_report(struct outbox *o, const struct keep_launch *l, const struct keep_entry *en, const char *text)
{
	cleanup_free char *key = xasprintf("%" PRIu64 ".%u checkpoint %" PRIu64, l->job, l->attempt, en->seq);
	/* The tree of its copy holds one entry of the folder: where it is deeper, that is the folder above. */
	cleanup_free char *name = xstrndup(en->name, strcspn(en->name, "/"));
	struct wm_checkpoint_report m = {.job = l->job,
	                                 .attempt = l->attempt,
	                                 .epoch = l->epoch,
	                                 .seq = en->seq,
	                                 .step = en->step,
	                                 .name = name,
	                                 .format = en->format,
	                                 .step_by = en->step_by,
	                                 .state = en->state,
	                                 .shards = en->shards,
	                                 .size_bytes = en->bytes,
	                                 .files = en->files,
	                                 .digest = (char *)(uintptr_t)en->digest,
	                                 .uri = en->uri,
	                                 .at_us = en->at_us,
	                                 .save_ms = en->save_ms,
	                                 .text = (char *)(uintptr_t)(text ? text : "")};

	outbox_put(o, WM_CHECKPOINT_REPORT, key, &m);
}
