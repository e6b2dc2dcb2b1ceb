/*
 * ckpt_files: several files of one step, such as model_10.pt and optim_10.pt. Each is a checkpoint of its
 * own, for a program may also write best_10.pt now and then. An attempt begins with all of one step, and a
 * pin of one protects all.
 *
 * A program may be killed between two of them. So a step lacks a file when the two steps before it had one of
 * that form: its name without digits.
 *
 * A step may have CKPT_STEP_FILES files. hearthd registers one more, by which every later reader knows that
 * the step has too many: no attempt begins with it.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/ckpt.h"
#include "controller/record/rec.h"

#define STEPS_BEFORE 2

static int is_file(const struct ckpt *c)
{
	return c->step >= 0 && (strcmp(c->format, "plain") == 0 || strcmp(c->format, "rename") == 0 ||
	                        strcmp(c->format, "overwrite") == 0);
}

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Two names that differ in their digits alone. */
static int same_form(const char *a, const char *b)
{
	for (;; a++, b++) {
		while (is_digit(*a))
			a++;
		while (is_digit(*b))
			b++;
		if (*a != *b)
			return 0;
		if (!*a)
			return 1;
	}
}

int ckpt_is_sibling(const struct ckpt *a, const struct ckpt *b)
{
	return a != b && is_file(a) && is_file(b) && a->attempt == b->attempt && a->step == b->step &&
	       strcmp(a->name, b->name) != 0;
}

/* A later entry has the same attempt, step and name. */
static int is_saved_again(const struct job_rec *r, uint32_t at)
{
	const struct ckpt *c = &r->ckpts->v[at];

	for (uint32_t i = at + 1; i < r->ckpts->n; i++) {
		const struct ckpt *k = &r->ckpts->v[i];

		if (k->attempt == c->attempt && k->step == c->step && strcmp(k->name, c->name) == 0)
			return 1;
	}
	return 0;
}

uint32_t ckpt_siblings(const struct job_rec *r, const struct ckpt *c, int *again)
{
	uint32_t n = 0;

	*again = 0;
	for (uint32_t i = 0; r->ckpts && i < r->ckpts->n; i++) {
		const struct ckpt *k = &r->ckpts->v[i];

		if (k->attempt == c->attempt && k->step == c->step && strcmp(k->name, c->name) == 0)
			*again = 1;
		n += ckpt_is_sibling(k, c) && !is_saved_again(r, i) ? 1 : 0;
	}
	return n;
}

int ckpt_step_is_over(const struct job_rec *r, const struct ckpt *c)
{
	int again;

	return ckpt_siblings(r, c, &again) >= CKPT_STEP_FILES;
}

int ckpt_step_is_pinned(const struct job_rec *r, const struct ckpt *c)
{
	for (uint32_t i = 0; !c->pinned && i < r->ckpts->n; i++)
		if (r->ckpts->v[i].pinned && ckpt_is_sibling(&r->ckpts->v[i], c))
			return 1;
	return c->pinned;
}

/* The step of c has a file of that form. whole: a complete one. */
static int has_form(const struct job_rec *r, const struct ckpt *c, const char *name, int whole)
{
	for (uint32_t i = 0; i < r->ckpts->n; i++) {
		const struct ckpt *k = &r->ckpts->v[i];

		if (ckpt_is_sibling(k, c) && same_form(k->name, name) && (!whole || ckpt_is_complete(k)))
			return 1;
	}
	return same_form(c->name, name);
}

/* The newest one of an earlier step than c's, in its form; NULL none. */
static const struct ckpt *step_before(const struct job_rec *r, const struct ckpt *c)
{
	for (uint32_t i = (uint32_t)(c - r->ckpts->v); i-- > 0;) {
		const struct ckpt *k = &r->ckpts->v[i];

		if (k->attempt == c->attempt && is_file(k) && k->step < c->step && same_form(k->name, c->name))
			return k;
	}
	return NULL;
}

static const struct ckpt *lacking(const struct job_rec *r, const struct ckpt *c)
{
	const struct ckpt *before[STEPS_BEFORE];
	size_t n = 0;

	for (const struct ckpt *k = c; n < STEPS_BEFORE && (k = step_before(r, k));)
		before[n++] = k;
	for (uint32_t i = 0; n && i < r->ckpts->n; i++) {
		const struct ckpt *k = &r->ckpts->v[i];

		if (ckpt_is_sibling(k, before[0]) && !has_form(r, c, k->name, 1) &&
		    (n == 1 || has_form(r, before[1], k->name, 0)))
			return k;
	}
	return NULL;
}

/* ckpt_usable or ckpt_has_copies */
typedef int usable_fn(const struct ckpt *c, const struct ckpt_nodes *on, struct text *why);

/* The others that are whole have to be usable, too; 0: why not. What is damaged or incomplete is missing only
 * if the steps before had it. */
static int siblings_fit(const struct job_rec *r, const struct ckpt *c, const struct ckpt_nodes *on,
                        usable_fn *usable, struct text *why)
{
	TEXT(own);

	for (uint32_t i = 0; i < r->ckpts->n; i++) {
		const struct ckpt *k = &r->ckpts->v[i];

		if (!ckpt_is_sibling(k, c) || !ckpt_is_complete(k) || is_saved_again(r, i) || usable(k, on, &own))
			continue;
		text_add(why, "its file %.200s: %s", k->name, own.at);
		return 0;
	}
	return 1;
}

static int fits(const struct job_rec *r, const struct ckpt *c, const struct ckpt_nodes *on, usable_fn *usable,
                struct text *why)
{
	const struct ckpt *lacks;

	if (!usable(c, on, why))
		return 0;
	if (ckpt_step_is_over(r, c)) {
		text_add(why, "its step has more than %d files; save them in one folder", CKPT_STEP_FILES);
		return 0;
	}
	lacks = is_file(c) ? lacking(r, c) : NULL;
	if (lacks)
		text_add(why, "it lacks a file such as %.200s, which the steps before it had", lacks->name);
	return !lacks && siblings_fit(r, c, on, usable, why);
}

int ckpt_fits(const struct job_rec *r, const struct ckpt *c, const struct ckpt_nodes *on, struct text *why)
{
	return fits(r, c, on, ckpt_usable, why);
}

int ckpt_fits_asked(const struct job_rec *r, const struct ckpt *c, const struct ckpt_nodes *on,
                    struct text *why)
{
	return fits(r, c, on, ckpt_has_copies, why);
}
