/* log: form of a line, escapes, levels, quoting, rate limit, lines of several threads. */
#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

static char last[8192];
static int n_lines;

static void keep(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	snprintf(last, sizeof(last), "%s", line);
	n_lines++;
}

static void test_line(void)
{
	static char big[10000];

	log_init("tester", LOG_LVL_INFO);
	log_set_sink(keep, NULL);
	log_info("event=%s n=%d", "x", 5);
	like(last, " info tester event=x n=5", "level, program and text");
	ok(last[10] == 'T' && last[26] == 'Z', "begins with the time");
	log_info("a\nb\tc\x01\x7f\x1b[31m");
	like(last, "a\\nb\\tc\\x01\\x7f\\x1b[31m", "control characters are escaped");
	log_info("caf\xc3\xa9");
	like(last, "caf\xc3\xa9", "UTF-8 stays");

	n_lines = 0;
	log_debug("no");
	is_int(n_lines, 0, "debug is off");
	log_error("yes");
	like(last, " error tester yes", "error is on");
	log_init("tester", LOG_LVL_ERROR);
	log_warn("no");
	is_int(n_lines, 1, "below the level nothing comes");
	log_init("tester", LOG_LVL_DEBUG);
	log_debug("now");
	is_int(n_lines, 2, "debug on request");

	memset(big, '\n', sizeof(big) - 1);
	log_info("%s", big);
	ok(strlen(last) < 4096, "a long line is cut");
	like(last + strlen(last) - 3, "...", "and marked");
	errno = 42;
	log_info("x");
	is_int(errno, 42, "errno is left alone");
	log_set_sink(NULL, NULL);
}

static void test_parse(void)
{
	enum log_level l = LOG_LVL_ERROR;

	ok(log_level_parse("debug", &l) == 0 && l == LOG_LVL_DEBUG, "debug");
	ok(log_level_parse("warn", &l) == 0 && l == LOG_LVL_WARN, "warn");
	is_int(log_level_parse("loud", &l), -1, "unknown");
	is_int(l, LOG_LVL_WARN, "and nothing written");
}

static void test_quote(void)
{
	char out[64], tiny[6];

	is_str(log_quote(out, sizeof(out), "plain-1.2/x"), "plain-1.2/x", "plain");
	is_str(log_quote(out, sizeof(out), "two words"), "\"two words\"", "blank");
	is_str(log_quote(out, sizeof(out), "say \"x\" \\"), "\"say \\\"x\\\" \\\\\"", "quotes and backslash");
	is_str(log_quote(out, sizeof(out), "a\nb"), "\"a\\nb\"", "newline");
	is_str(log_quote(out, sizeof(out), ""), "\"\"", "empty");
	is_str(log_quote(out, sizeof(out), NULL), "\"\"", "NULL");
	is_str(log_quote(out, sizeof(out), "a=b"), "\"a=b\"", "'='");
	is_str(log_quote(tiny, sizeof(tiny), "a b c d"), "\"a b\"", "cut, and still closed");
	is_str(log_quote(tiny, sizeof(tiny), "a \n\n\n"), "\"a \"", "no half escape");
	is_str(log_quote(tiny, 2, "a b"), "", "no room at all");
}

/* What a user writes stays inside its field. */
static void test_fields(void)
{
	log_init("tester", LOG_LVL_INFO);
	log_set_sink(keep, NULL);
	log_info("event=x reason=\"%s\" n=%d", "no file \"a\" in C:\\tmp\nevent=lost", 5);
	like(last, "event=x reason=\"no file \\\"a\\\" in C:\\\\tmp\\nevent=lost\" n=5",
	     "quotes, backslashes and newlines of a text are escaped");
	log_info("name=%s user=%s end=%d", "a event=lost", "bob", 1);
	like(last, "name=\"a event=lost\" user=bob end=1", "a value with blanks gets quotes");
	log_info("name=%s", "say \"x\"");
	like(last, "name=\"say \\\"x\\\"\"", "and one with quotes");
	log_info("a=%5d b=%-3s c=%.*s d=\"%.3s\" e=%zu%% f=%s", 42, "x", 3, "abcdef", "\"\"\"\"", (size_t)7, "");
	like(last, "a=   42 b=\"x  \" c=abc d=\"\\\"\\\"\\\"\" e=7% f=\"\"",
	     "width, precision, other kinds, nothing");
	log_info("state=%s%s%s", "a", "", " b");
	like(last, "state=a b", "a value of several parts is the caller's");
	log_info("at=%s:%u", "h", 7);
	like(last, "at=h:7", "so is one with more behind it");
	log_set_sink(NULL, NULL);
}

static void test_limit(void)
{
	struct log_limit l = {.per_minute = 2};
	unsigned held = 99;

	ok(log_limit_ok(&l, 1000, &held) && held == 0, "first");
	ok(log_limit_ok(&l, 2000, &held), "second");
	ok(!log_limit_ok(&l, 3000, &held), "third is held back");
	ok(!log_limit_ok(&l, 59000000, &held), "fourth too");
	ok(log_limit_ok(&l, 60001000, &held) && held == 2, "the next minute tells how many");
	ok(log_limit_ok(&l, 60002000, &held) && held == 0, "once");
}

static void *write_lines(void *arg)
{
	for (int i = 0; i < 500; i++)
		log_info("thread=%s i=%d end", (const char *)arg, i);
	return NULL;
}

/* To stderr, which is a file here: every line whole, none lost. */
static void test_threads(void)
{
	char path[4200], *text, *line, *rest;
	int saved = dup(2), fd, n = 0, whole = 1;
	pthread_t threads[4];
	struct err e;

	snprintf(path, sizeof(path), "%s/log", tap_tmpdir());
	fd = open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	dup2(fd, 2);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, write_lines, (void *)"t");
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	dup2(saved, 2);
	close(saved);
	close(fd);
	if (fs_read_file(path, 10000000, &text, NULL, &e) < 0)
		tap_bail("%s", e.text);
	rest = text;
	while ((line = strsep(&rest, "\n")) && rest) {
		n++;
		whole &=
		    strstr(line, " info tester thread=t i=") != NULL && strcmp(line + strlen(line) - 4, " end") == 0;
	}
	is_int(n, 2000, "2000 lines of four threads");
	ok(whole, "every one whole");
	free(text);
}

int main(void)
{
	test_line();
	test_parse();
	test_quote();
	test_fields();
	test_limit();
	test_threads();
	return tap_done();
}
