/*
 * tap: one thread counts; a test with threads collects its results and reports them from main.
 */
#include "tests/lib/tap.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int n_run, n_failed;
static char tmpdir[4096];
static pid_t tmpdir_owner;

/* Prints the function's name, unless it is main: its name says nothing. */
static void print_func(const char *func)
{
	if (strcmp(func, "main") != 0)
		printf("%s: ", func);
}

/* A name with a newline or '#' in it would be read as something else. */
static void print_name(const char *func, const char *fmt, va_list ap)
{
	char name[512];

	vsnprintf(name, sizeof(name), fmt, ap);
	for (char *p = name; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == '#')
			*p = ' ';
	printf("%d - ", n_run);
	print_func(func);
	puts(name);
	fflush(stdout);
}

int tap_ok(int pass, const char *func, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	n_run++;
	fputs(pass ? "ok " : "not ok ", stdout);
	va_start(ap, fmt);
	print_name(func, fmt, ap);
	va_end(ap);
	if (!pass) {
		n_failed++;
		fprintf(stderr, "# failed at %s:%d\n", file, line);
	}
	return pass;
}

int tap_is_int(int64_t got, int64_t want, const char *func, const char *file, int line, const char *what)
{
	int pass = got == want;

	tap_ok(pass, func, file, line, "%s", what);
	if (!pass)
		fprintf(stderr, "#   got  %lld\n#   want %lld\n", (long long)got, (long long)want);
	return pass;
}

static const char *shown(const char *s)
{
	return s ? s : "(NULL)";
}

int tap_is_str(const char *got, const char *want, const char *func, const char *file, int line,
               const char *what)
{
	int pass = got && want ? strcmp(got, want) == 0 : got == want;

	tap_ok(pass, func, file, line, "%s", what);
	if (!pass)
		fprintf(stderr, "#   got  %s\n#   want %s\n", shown(got), shown(want));
	return pass;
}

int tap_like(const char *got, const char *substring, const char *func, const char *file, int line,
             const char *what)
{
	int pass = got && strstr(got, substring);

	tap_ok(pass, func, file, line, "%s", what);
	if (!pass)
		fprintf(stderr, "#   got  %s\n#   want something with %s\n", shown(got), substring);
	return pass;
}

void tap_skip_in(const char *func, const char *why)
{
	n_run++;
	printf("ok %d - %s # SKIP %s\n", n_run, func, why);
	fflush(stdout);
}

void tap_skip_all(const char *why)
{
	printf("1..0 # SKIP %s\n", why);
	exit(0);
}

void tap_bail(const char *fmt, ...)
{
	va_list ap;

	fputs("Bail out! ", stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	exit(1);
}

void tap_diag(const char *fmt, ...)
{
	va_list ap;

	fputs("# ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

int tap_done(void)
{
	printf("1..%d\n", n_run);
	fflush(stdout);
	return n_failed ? 1 : 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	remove(path);
	return 0;
}

static void remove_tmpdir(void)
{
	/* A child that a test has forked ends by exit too; the folder is its parent's. */
	if (getpid() == tmpdir_owner)
		nftw(tmpdir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

const char *tap_tmpdir(void)
{
	const char *base = getenv("TMPDIR");

	if (tmpdir[0])
		return tmpdir;
	snprintf(tmpdir, sizeof(tmpdir), "%s/hearth-test-XXXXXX", base && *base ? base : "/tmp");
	if (!mkdtemp(tmpdir)) {
		tmpdir[0] = '\0';
		tap_bail("no temporary folder under %s", base ? base : "/tmp");
	}
	tmpdir_owner = getpid();
	atexit(remove_tmpdir);
	return tmpdir;
}
