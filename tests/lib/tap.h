/*
 * tap: a minimal Test Anything Protocol harness. A test program calls ok()/is_*(), then returns
 * tap_done() from main. Each line names the function of the check: "ok 3 - test_bound: one byte more is cut".
 * Failures print file, line and both values to stderr.
 */
#ifndef HEARTH_TESTS_LIB_TAP_H
#define HEARTH_TESTS_LIB_TAP_H

#include <stdint.h>
#include <string.h>

int tap_ok(int pass, const char *func, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
int tap_is_int(int64_t got, int64_t want, const char *func, const char *file, int line, const char *what);
int tap_is_str(const char *got, const char *want, const char *func, const char *file, int line,
               const char *what); /* NULL ok */
int tap_like(const char *got, const char *substring, const char *func, const char *file, int line,
             const char *what);
/* One skipped test; why names the missing device or privilege. */
void tap_skip_in(const char *func, const char *why);
void tap_skip_all(const char *why); /* prints 1..0 # SKIP and exits 0 */
void tap_bail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void tap_diag(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int tap_done(void); /* prints the plan; 0 when all passed */

#define ok(cond, ...) tap_ok(!!(cond), __func__, __FILE__, __LINE__, __VA_ARGS__)
#define is_int(got, want, what)                                                                              \
	tap_is_int((int64_t)(got), (int64_t)(want), __func__, __FILE__, __LINE__, what)
#define is_str(got, want, what) tap_is_str(got, want, __func__, __FILE__, __LINE__, what)
#define tap_skip(why)           tap_skip_in(__func__, why)
#define like(got, sub, what)    tap_like(got, sub, __func__, __FILE__, __LINE__, what)

/* A fresh directory under $TMPDIR, removed at exit. */
const char *tap_tmpdir(void);

#endif
