/*
 * golden: tests/golden/FILE.txt holds the full sentences of the programs, one a line: ID, tab, sentence. A
 * test asserts that a sentence is the one on file, and asserts its facts by themselves: key, number, offered
 * command. build-aux/golden.sh --renew writes the files after a change of words; the facts stay asserted.
 */
#ifndef HEARTH_TESTS_LIB_GOLDEN_H
#define HEARTH_TESTS_LIB_GOLDEN_H

#include "tests/lib/tap.h"

/* One line of TAP. id is "FILE/ID". NULL for got fails. Each string after got must be a part of it. The file
 * has \n, \t and \\ for newline, tab and backslash, and TMPDIR for the folder of tap_tmpdir. */
#define golden(id, got, ...)                                                                                 \
	tap_golden(id, got, __func__, __FILE__, __LINE__, (const char *const[]){"", ##__VA_ARGS__, NULL})
int tap_golden(const char *id, const char *got, const char *func, const char *file, int line,
               const char *const *facts);

#endif
