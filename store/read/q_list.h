/*
 * q_list: lists of jobs: what tests ask of them.
 */
#ifndef HEARTH_STORE_READ_Q_LIST_H
#define HEARTH_STORE_READ_Q_LIST_H

struct job_filter;

/* Returns the statement that finds the jobs of a filter; the caller frees it. */
char *list_statement(const struct job_filter *f);

#endif
