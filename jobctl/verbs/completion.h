/*
 * completion: the words that fit at the cursor of a command line.
 */
#ifndef HEARTH_JOBCTL_VERBS_COMPLETION_H
#define HEARTH_JOBCTL_VERBS_COMPLETION_H

#include <stddef.h>

struct ctx;
struct verb;

/* Called for each word that fits; ":files" means that names of files fit. */
typedef void (*complete_fn)(const char *word, void *arg);
/* Finds the words that fit. words: the whole line, words[0] is jobctl; at: index of the word at the cursor
 * (n: a new word); verbs: as in struct ctx. c NULL: the controller is not asked for jobs and nodes. */
void complete_line(struct ctx *c, const struct verb *const *verbs, const char *const *words, size_t n,
                   size_t at, complete_fn put, void *arg);

#endif
