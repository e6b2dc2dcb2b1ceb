/*
 * fuzz: the entry that every fuzz target has. Build one for libFuzzer with
 *     clang -fsanitize=fuzzer,address,undefined -I. ... tests/fuzz/fuzz_wire.c LIBS
 * In a plain build tests/fuzz/replay.c is its main.
 */
#ifndef HEARTH_TESTS_FUZZ_FUZZ_H
#define HEARTH_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Of a slow target: how many changed copies of a seed replay.c tries. */
extern const long fuzz_rounds __attribute__((weak));

#endif
