/* classify: the table of failure patterns against lines of real programs, an administrator's rules, causes.
 */
#include "common/classify/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "common/classify/cause.h"
#include "tests/lib/tap.h"

#define LINES "tests/unit/common/classify/lines.tsv" /* VERDICT, CLASS, LINE */
#define KEPT  "tests/unit/common/classify/kept.tsv"  /* the same; no rule was made for these */

static struct classify_table *make_table(const char *extra)
{
	struct err e;
	struct classify_table *t = classify_table_create(extra, "extra.conf", &e);

	if (!t)
		tap_bail("%s", e.text);
	return t;
}

/* ---- the built-in table ------------------------------------------------------------------------------ */

struct score {
	size_t lines, right, users,
	    invented; /* users: "user" for a failure of the machine; invented: of an ordinary line */
};

/* Judges each line of a file; `name_wrong`: names those with another verdict or class. */
static struct score judge_file(const char *name, int name_wrong)
{
	struct classify_table *t = make_table(NULL);
	struct classify_reader *r = classify_reader_create(t);
	cleanup_free char *path = xasprintf("%s/%s", getenv("HEARTH_TOP_SRCDIR"), name);
	FILE *f = fopen(path, "r");
	struct score all = {0};
	size_t cap = 0;
	char *line = NULL;
	ssize_t n;

	if (!f)
		tap_bail("%s is missing", path);
	while ((n = getline(&line, &cap, f)) > 0) {
		char *cls = strchr(line, '\t'), *text = cls ? strchr(cls + 1, '\t') : NULL;
		struct line_finding got;
		int right;

		if (!text)
			tap_bail("%s: a line without two tabs", path);
		line[n - 1] = *cls++ = *text++ = '\0';
		got = classify_line(r, text, strlen(text));
		right = strcmp(verdict_name(got.verdict), line) == 0;
		if (name_wrong && (!right || strcmp(got.cls, cls) != 0))
			ok(0, "%s %s, not %s %s: %.120s", verdict_name(got.verdict), got.cls, line, cls, text);
		all.users += got.verdict == VERDICT_USER && !right && strcmp(line, "unknown") != 0;
		all.invented += !right && strcmp(line, "unknown") == 0;
		all.right += (size_t)right;
		all.lines++;
	}
	free(line);
	fclose(f);
	classify_reader_destroy(r);
	classify_table_destroy(t);
	return all;
}

static void test_lines(void)
{
	struct score s = judge_file(LINES, 1);

	ok(s.lines > 690, "every line of " LINES " has its verdict and class");
	is_int(s.users, 0, "no failure of hardware is called the user's");
	is_int(s.invented, 0, "no ordinary line is called a failure");
}

/* Nobody tunes a rule to these lines, so the test names none of them: a wrong one says what unseen logs meet.
 */
static void test_kept_lines(void)
{
	struct score s = judge_file(KEPT, 0);

	tap_diag("%zu of %zu lines of " KEPT " are right", s.right, s.lines);
	ok(s.lines > 150 && s.right * 100 >= s.lines * 95,
	   "95 %% of the lines that no rule was made for are right");
	is_int(s.users, 0, "no failure of hardware among them is called the user's");
	ok(s.invented <= 1, "of the ordinary lines among them, %zu are called failures", s.invented);
}

static enum line_verdict judge(const struct classify_table *t, const char *line)
{
	struct classify_reader *r = classify_reader_create(t);
	enum line_verdict v = classify_line(r, line, strlen(line)).verdict;

	classify_reader_destroy(r);
	return v;
}

static void test_xids(void)
{
	static const char *const forms[] = {
	    "NVRM: Xid (PCI:0000:44:00): %d, text",
	    "NVRM: Xid (PCI:0019:01:00): %d, pid=12, name=python3, text",
	    "NVRM: Xid (PCI:0000:44:00): %d, pid='<unknown>', name=<unknown>, text",
	    "[Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:0000:9b:00): %d, text",
	    "[12345.678901] NVRM: Xid (PCI:0000:9b:00.0): %d, text",
	    "Jun  3 11:20:08 gpu14 kernel: [  12.3] NVRM: Xid (PCI:0000:9b:00): %d, text",
	    "kern  :err   : 2025-05-27T04:18:56,089671+00:00 NVRM: Xid (PCI:0000:04:00): %d, text",
	};
	static const struct {
		int xid;
		enum line_verdict v;
	} xids[] = {{79, VERDICT_DRAIN}, {95, VERDICT_DRAIN},  {48, VERDICT_DRAIN},   {94, VERDICT_MOVE},
	            {31, VERDICT_USER},  {63, VERDICT_RECORD}, {45, VERDICT_SYMPTOM}, {999, VERDICT_MOVE}};
	struct classify_table *t = make_table(NULL);

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
		for (size_t k = 0; k < sizeof(xids) / sizeof(*xids); k++) {
			cleanup_free char *line = xasprintf(forms[i], xids[k].xid);

			ok(judge(t, line) == xids[k].v, "%s: %s", verdict_name(xids[k].v), line);
		}
	classify_table_destroy(t);
}

static void test_odd_lines(void)
{
	struct classify_table *t = make_table(NULL);
	struct classify_reader *r = classify_reader_create(t);
	char *big = xmalloc(1 << 20);

	is_str(classify_line(r, "", 0).cls, "unknown", "an empty line says nothing");
	is_str(classify_line(r, "a\0GPU is lost", 13).cls, "gpu", "a zero byte does not end a line");
	is_str(classify_line(r, "\033[31mRuntimeError\033[0m: CUDA\033[1m out of memory", 45).cls, "oom",
	       "colours of a terminal do not hide a failure");
	memset(big, 'x', 1 << 20);
	memcpy(big + 4000, " GPU is lost ", 13);
	is_str(classify_line(r, big, 1 << 20).cls, "gpu", "the first 4 KiB of a long line count");
	memcpy(big + 4000, "xxxxxxxxxxxxx", 13);
	memcpy(big + 5000, " GPU is lost ", 13);
	is_str(classify_line(r, big, 1 << 20).cls, "unknown", "the rest of a long line does not count");
	free(big);
	classify_reader_destroy(r);
	classify_table_destroy(t);
}

/* ---- an administrator's file ------------------------------------------------------------------------- */

static void test_extra(void)
{
	struct classify_table *t =
	    make_table("# ours\n\n"
	               "drain gpu \"our monitor found a bad GPU\" gpu-monitor: verdict=BAD\r\n"
	               "move gpu \"an Xid that we know better\" XID 31 13\n"
	               "record user_error \"harmless here\" KeyError: 'optional'\n");

	is_str(verdict_name(judge(t, "x gpu-monitor: verdict=bad 3")), "drain", "a rule of the file, any case");
	is_str(verdict_name(judge(t, "NVRM: Xid (PCI:0000:44:00): 31, pid=1")), "move", "the file comes first");
	is_str(verdict_name(judge(t, "KeyError: 'optional'")), "record", "an exception before a general rule");
	is_str(verdict_name(judge(t, "KeyError: 'other'")), "user", "the built-in table follows");
	classify_table_destroy(t);
}

static void expect_refused(const char *text, const char *part)
{
	struct err e;
	struct classify_table *t = classify_table_create(text, "extra.conf", &e);

	ok(!t, "refused: %.60s", text);
	like(t ? "" : e.text, part, "the error names it");
	classify_table_destroy(t);
}

static void test_refused(void)
{
	char *many = xstrdup(""), *longer;

	expect_refused("\nkill gpu \"r\" x\n", "extra.conf: line 2: unknown verdict 'kill'");
	expect_refused("drain gpus \"r\" x\n", "line 1: unknown class 'gpus'");
	expect_refused("drain gpu r x\n", "line 1: expected a reason");
	expect_refused("drain gpu \"\" x\n", "line 1: expected a reason");
	expect_refused("drain gpu \"r\"\n", "line 1: expected a pattern");
	expect_refused("drain gpu \"r\" a(b\n", "line 1: the pattern is wrong at byte");
	expect_refused("drain gpu \"r\" abc|\n", "empty alternative");
	expect_refused("drain gpu \"r\" XID 7x\n", "line 1: '7x': expected numbers");
	expect_refused("drain gpu \"r\" XID \n", "expected numbers");
	for (int i = 0; i < 17; i++) {
		longer = xasprintf("%sdrain gpu \"r\" [0-9]+%d\n", many, i);
		free(many);
		many = longer;
	}
	expect_refused(many, "17 patterns without three letters of fixed text; at most 16");
	free(many);
	many = xmalloc(CLASSIFY_FILE_MAX + 2);
	memset(many, '\n', CLASSIFY_FILE_MAX + 1);
	many[CLASSIFY_FILE_MAX + 1] = '\0';
	expect_refused(many, "262145 bytes; at most 262144");
	free(many);
}

/* ---- causes ------------------------------------------------------------------------------------------ */

/* Returns the number of the line that is the cause, counted from 1. */
static uint64_t find_cause(const char *const *lines)
{
	struct classify_table *t = make_table(NULL);
	struct classify_reader *r = classify_reader_create(t);
	struct cause *c = xcalloc(1, sizeof(*c));
	uint64_t number;

	for (uint64_t i = 0; lines[i]; i++) {
		struct line_finding f = classify_line(r, lines[i], strlen(lines[i]));

		cause_consider(c, &f, lines[i], strlen(lines[i]), i + 1);
	}
	number = c->number;
	free(c);
	classify_reader_destroy(r);
	classify_table_destroy(t);
	return number;
}
#define CAUSE(...) find_cause((const char *const[]){__VA_ARGS__, NULL})

static void test_causes(void)
{
	const char *hang = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)";
	const char *oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.22 GiB";
	const char *ecc = "RuntimeError: CUDA error: uncorrectable ECC error encountered";
	const char *killed = "failed (exitcode: -9) local_rank: 0 (pid: 10398) of binary: python";

	is_int(CAUSE("step 1", "step 2"), 0, "lines that say nothing have no cause");
	is_int(CAUSE(hang), 1, "a symptom alone is reported");
	is_int(CAUSE(hang, oom, "KeyError: 'x'"), 2, "the first cause after symptoms counts");
	is_int(CAUSE("KeyError: 'x'", "During handling of the above exception", ecc), 3,
	       "hardware beats a program's error that came first");
	is_int(CAUSE(killed, "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0."), 2,
	       "out of memory explains a killed process");
	is_int(CAUSE("NVRM: Xid (PCI:0000:10:1c): 63, Row Remapper: New row marked", oom), 2,
	       "a record is weaker than an error");
	is_int(CAUSE("2026 WARNING: ImportError: no fast kernel, using the slow one", oom), 2,
	       "a warning is weaker than an error");
	is_int(CAUSE("2026 WARNING: ImportError: no fast kernel, using the slow one", hang), 1,
	       "a warning is stronger than a symptom");
}

/* The source line below a frame of a traceback is code; the exception is what was said. */
static void test_echo(void)
{
	static const char *const lines[] = {
	    "Traceback (most recent call last):",
	    "  File \"<frozen importlib._bootstrap>\", line 1176, in _find_and_load",
	    "  File \"train.py\", line 12, in <module>",
	    "    raise ValueError(\"x\")  # CUDA out of memory",
	    "ConnectionResetError: [Errno 104] Connection reset by peer",
	    "[rank3]:   File \"train.py\", line 12, in <module>",
	    "[rank3]:     raise ValueError(\"x\")",
	    "[rank3]: ConnectionResetError: [Errno 104]",
	    "  File \"<frozen importlib._bootstrap>\", line 1140, in _find_and_load_unlocked",
	    "ModuleNotFoundError: No module named 'x'",
	};
	char got[sizeof(lines) / sizeof(*lines) + 1] = "";
	size_t frame = 0;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		got[i] = cause_is_echo(&frame, lines[i], strlen(lines[i])) ? 'e' : '.';
	is_str(got, "...e..e...", "echoes of source lines in tracebacks");
}

int main(void)
{
	test_lines();
	test_kept_lines();
	test_xids();
	test_odd_lines();
	test_extra();
	test_refused();
	test_causes();
	test_echo();
	return tap_done();
}
