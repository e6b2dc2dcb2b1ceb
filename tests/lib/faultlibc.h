/*
 * faultlibc: the C library's file calls over liedisk, for code that does not go through SQLite. A test links
 * with libhlie and the flags of LIE_WRAP in tests/unit-store.am: each of these calls in Hearth's own code
 * then comes here first.
 *
 * The first write that fails is a short one: half of the bytes are taken, the next call has the errno. Not
 * covered: mmap, sendfile, copy_file_range, streams of stdio.
 */
#ifndef HEARTH_TESTS_LIB_FAULTLIBC_H
#define HEARTH_TESTS_LIB_FAULTLIBC_H

/* Descriptors open in this process: for tests that look for leaks. */
int faultlibc_descriptors(void);

#endif
