/*
 * tree_int: what tree.c, tree_scan.c and tree_extract.c share. Not for others.
 */
#ifndef HEARTH_COMMON_TREE_TREE_INT_H
#define HEARTH_COMMON_TREE_TREE_INT_H

#include <stddef.h>

#define TREE_HEADER   "hearth-tree 1\n"
#define TREE_PATH_MAX 4095
#define TREE_DEPTH    128

/* A set of strings. */
struct tree_set;
struct tree_set *tree_set_create(void);
int tree_set_add(struct tree_set *s, const char *key, size_t n); /* 1 added, 0 was there */
int tree_set_has(const struct tree_set *s, const char *key, size_t n);
void tree_set_destroy(struct tree_set *s);

#endif
