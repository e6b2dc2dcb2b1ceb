/*
 * cause: see cause.h.
 */
#include "common/classify/cause.h"

#include <ctype.h>
#include <string.h>

#define LEVEL_WITHIN 160u /* bytes at the beginning of a line that may name its level */

enum strength { NOTHING, SYMPTOM, REMARK, SILENT_END, PROGRAM, HARDWARE };

static int has_word(const char *line, size_t n, const char *word)
{
	size_t len = strlen(word);
	const char *at;

	for (const char *from = line; (at = memmem(from, n - (size_t)(from - line), word, len)); from = at + 1)
		if ((at == line || !isalnum((unsigned char)at[-1])) &&
		    (at + len == line + n || !isalnum((unsigned char)at[len])))
			return 1;
	return 0;
}

/* NCCL calls its errors WARN, so that word does not count. */
static int is_remark(const char *line, size_t n)
{
	static const char *const levels[] = {"INFO",        "DEBUG",         "WARNING",           "warning",
	                                     "UserWarning", "FutureWarning", "DeprecationWarning"};

	if (n > LEVEL_WITHIN)
		n = LEVEL_WITHIN;
	for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++)
		if (has_word(line, n, levels[i]))
			return 1;
	return 0;
}

int cause_strength(enum line_verdict v, const char *cls)
{
	switch (v) {
	case VERDICT_DRAIN:
		return HARDWARE;
	case VERDICT_MOVE:
	case VERDICT_ROLLBACK:
	case VERDICT_USER:
	case VERDICT_REQUEUE:
		return strcmp(cls, "signal") == 0 ? SILENT_END : PROGRAM;
	case VERDICT_RECORD:
		return REMARK;
	case VERDICT_SYMPTOM:
		return SYMPTOM;
	case VERDICT_UNKNOWN:
	case N_VERDICT:
		break;
	}
	return NOTHING;
}

int cause_consider(struct cause *c, const struct line_finding *f, const char *line, size_t n, uint64_t number)
{
	int s = cause_strength(f->verdict, f->cls);

	if (n > sizeof(c->line))
		n = sizeof(c->line);
	if (s > REMARK && s < HARDWARE && is_remark(line, n))
		s = REMARK;
	if (s <= c->strength)
		return 0;
	c->finding = *f;
	c->strength = s;
	c->number = number;
	c->n = n;
	memcpy(c->line, line, n);
	return 1;
}

int cause_is_echo(size_t *frame, const char *line, size_t n)
{
	static const char file[] = "File \"", number[] = "\", line ";
	const char *at = memmem(line, n, file, sizeof(file) - 1);
	size_t column = *frame; /* the echo is indented further than its frame */
	int echo = column && n > column && line[column - 1] == ' ' && line[column] == ' ';

	*frame =
	    at && memmem(at, n - (size_t)(at - line), number, sizeof(number) - 1) ? (size_t)(at - line) + 1 : 0;
	return echo && !*frame;
}

int cause_is_certain(const struct cause *c)
{
	return c->strength > REMARK;
}

const char *verdict_meaning(enum line_verdict v)
{
	static const char *const meanings[N_VERDICT] = {
	    [VERDICT_UNKNOWN] = "unknown",
	    [VERDICT_SYMPTOM] = "the cause is elsewhere",
	    [VERDICT_RECORD] = "no restart for this alone",
	    [VERDICT_REQUEUE] = "not a failure; the job may run again",
	    [VERDICT_USER] = "a restart would not help",
	    [VERDICT_ROLLBACK] = "restart from an earlier checkpoint",
	    [VERDICT_MOVE] = "restart elsewhere",
	    [VERDICT_DRAIN] = "restart elsewhere; the node needs repair"};

	return meanings[v];
}
