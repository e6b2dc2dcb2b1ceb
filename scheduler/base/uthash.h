/* uthash: the hash tables of uthash, with the library's own memory. */
#ifndef HEARTH_SCHEDULER_BASE_UTHASH_H
#define HEARTH_SCHEDULER_BASE_UTHASH_H
#include <assert.h>

#include "scheduler/base/mem.h"

#define uthash_malloc(sz) mem_alloc(1, sz)
#define uthash_fatal(msg) assert(0)
#include <uthash.h>
#include <utlist.h>

#endif
