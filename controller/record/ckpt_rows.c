/*
 * ckpt_rows: the way of checkpoints to their rows in the store, and back.
 */
#include "common/base/xalloc.h"
#include "controller/record/ckpt.h"
#include "controller/record/rec.h"

static char *text_or_empty(const char *s)
{
	return (char *)(uintptr_t)(s ? s : ""); /* rows borrow texts */
}

void ckpt_row(const struct job_rec *r, const struct ckpt *c, struct checkpoint_row *out)
{
	*out = (struct checkpoint_row){.job = r->id,
	                               .number = c->number,
	                               .attempt = c->attempt,
	                               .step = c->step,
	                               .name = text_or_empty(c->name),
	                               .format = text_or_empty(c->format),
	                               .step_by = text_or_empty(c->step_by),
	                               .at_us = c->at_us,
	                               .save_ms = c->save_ms,
	                               .loss = c->loss,
	                               .shards = c->shards,
	                               .expected = c->expected,
	                               .nodes = c->nodes,
	                               .parent = c->parent,
	                               .complete = (uint8_t)ckpt_is_complete(c),
	                               .pinned = c->pinned,
	                               .set_aside = c->set_aside};
}

void ckpt_part_row(const struct job_rec *r, const struct ckpt *c, uint32_t part,
                   struct checkpoint_part_row *out)
{
	const struct ckpt_part *p = &c->parts[part];

	*out = (struct checkpoint_part_row){.job = r->id,
	                                    .number = c->number,
	                                    .part = part,
	                                    .node = text_or_empty(p->node),
	                                    .node_rank = p->node_rank,
	                                    .attempt = p->attempt,
	                                    .seq = p->seq,
	                                    .state = text_or_empty(ckpt_state_name(p->state)),
	                                    .held = p->held,
	                                    .digest = text_or_empty(p->digest),
	                                    .uri = text_or_empty(p->uri),
	                                    .size_bytes = p->size_bytes,
	                                    .files = p->files,
	                                    .text = p->text};
}

int ckpt_from_row(struct job_rec *r, const struct checkpoint_row *row)
{
	struct ckpt *c;

	if (row->number < ckpt_next_number(r))
		return -1;
	if (!r->ckpts)
		r->ckpts = xcalloc(1, sizeof(*r->ckpts));
	r->ckpts->v = xreallocarray(r->ckpts->v, r->ckpts->n + 1, sizeof(*r->ckpts->v));
	c = &r->ckpts->v[r->ckpts->n++];
	*c = (struct ckpt){.number = row->number,
	                   .attempt = row->attempt,
	                   .step = row->step,
	                   .name = xstrdup(row->name ? row->name : ""),
	                   .format = xstrdup(row->format ? row->format : ""),
	                   .step_by = xstrdup(row->step_by ? row->step_by : ""),
	                   .loss = row->loss ? xstrdup(row->loss) : NULL,
	                   .at_us = row->at_us,
	                   .save_ms = row->save_ms,
	                   .shards = row->shards,
	                   .expected = row->expected,
	                   .nodes = row->nodes,
	                   .parent = row->parent,
	                   .pinned = row->pinned,
	                   .set_aside = row->set_aside};
	return 0;
}

int ckpt_part_from_row(struct job_rec *r, const struct checkpoint_part_row *row)
{
	struct ckpt *c = ckpt_find(r, row->number);
	enum ckpt_state state = ckpt_state_find(row->state);
	struct ckpt_part *p;

	if (!c || !state || row->part != c->n_parts)
		return -1;
	c->parts = xreallocarray(c->parts, c->n_parts + 1, sizeof(*c->parts));
	p = &c->parts[c->n_parts++];
	*p = (struct ckpt_part){.node = xstrdup(row->node ? row->node : ""),
	                        .node_rank = row->node_rank,
	                        .attempt = row->attempt,
	                        .seq = row->seq,
	                        .state = state,
	                        .held = row->held,
	                        .size_bytes = row->size_bytes,
	                        .files = row->files};
	rec_set(&p->digest, row->digest);
	rec_set(&p->uri, row->uri);
	rec_set(&p->text, row->text);
	r->ckpts->stored += ckpt_part_stored(p);
	return 0;
}
