/*
 * hashtable: uthash and utlist with the allocator that aborts (common/base/xalloc.h).
 */
#ifndef HEARTH_COMMON_BASE_HASHTABLE_H
#define HEARTH_COMMON_BASE_HASHTABLE_H

#include "common/base/xalloc.h"

#define uthash_malloc(sz) xmalloc(sz)
#include <uthash.h>
#include <utlist.h>

#endif
