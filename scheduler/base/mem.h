/*
 * mem: memory for the scheduler library. It links nothing but libc's memory, string, math and sorting
 * functions, so not even the rest of the project's allocator: running out of memory is an assertion.
 */
#ifndef HEARTH_SCHEDULER_BASE_MEM_H
#define HEARTH_SCHEDULER_BASE_MEM_H
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

__attribute__((unused)) static inline void *mem_alloc(size_t n, size_t size) /* zeroed */
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	assert(p);
	return p;
}

__attribute__((unused)) static inline void *mem_resize(void *p, size_t n, size_t size)
{
	void *q;

	assert(!size || n <= SIZE_MAX / size);
	q = realloc(p, n && size ? n * size : 1);
	assert(q);
	return q;
}

__attribute__((unused)) static inline char *mem_copy(const char *s) /* NULL stays NULL */
{
	size_t n = s ? strlen(s) + 1 : 0;
	char *out = s ? mem_alloc(n, 1) : NULL;

	if (s)
		memcpy(out, s, n);
	return out;
}

#endif
