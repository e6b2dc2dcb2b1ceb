/* jobctl's pure parts: arguments, references, assignments, tables, ignore patterns, grep, progress,
 * completion. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "jobctl/client/args.h"
#include "jobctl/client/assign.h"
#include "jobctl/client/ignore.h"
#include "jobctl/client/progress.h"
#include "jobctl/client/ref.h"
#include "jobctl/client/when.h"
#include "jobctl/show/grep.h"
#include "jobctl/show/loglines.h"
#include "jobctl/show/manylogs.h"
#include "jobctl/show/members.h"
#include "jobctl/show/print.h"
#include "jobctl/show/waiting.h"
#include "jobctl/verb_table.h"
#include "jobctl/verbs/completion.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"

/* ---- arguments ---- */

static const struct arg_opt opts[] = {
    {"follow", 'f', NULL, ""}, {"rank", 'r', "N", ""}, {"set", 's', "K=V", ""}, {NULL, 0, NULL, NULL}};

static int parse(struct args *a, struct err *e, const char *line)
{
	static char copy[512], *argv[64];
	char *save = NULL;
	int n = 0;
	snprintf(copy, sizeof(copy), "verb %s", line);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[n++] = w;
	return args_parse(opts, n, argv, a, e);
}

static void test_args(void)
{
	static struct args a;
	struct err e;
	uint64_t v = 7;
	is_int(parse(&a, &e, "17 --rank 3 -f --set a=1 --set=b=2 x"), 0, "options and operands in any order");
	is_int(a.n, 2, "two operands");
	is_str(a.operand[1], "x", "the second");
	is_str(args_get(&a, "rank"), "3", "a value");
	ok(args_has(&a, "follow"), "a switch");
	is_str(args_nth(&a, "set", 0), "a=1", "repeated, the first");
	is_str(args_nth(&a, "set", 1), "b=2", "repeated, the second, with =");
	ok(!args_nth(&a, "set", 2), "no third");
	is_str(args_get(&a, "set"), "b=2", "the last one counts");
	is_int(args_prepend(&a, opts, "set", "c=0", &e), 0, "an option from elsewhere");
	is_str(args_nth(&a, "set", 0), "c=0", "it is the first");
	is_str(args_nth(&a, "set", 2), "b=2", "those that were given follow");
	is_str(args_get(&a, "rank"), "3", "other options stay as they are");
	is_int(parse(&a, &e, "-fr3 --rank=5"), 0, "letters together, the last with its value");
	is_str(args_get(&a, "rank"), "5", "the later value");
	is_int(parse(&a, &e, "-- --rank -f"), 0, "-- ends options");
	is_int(a.n, 2, "what follows is operands");
	is_int(parse(&a, &e, "-"), 0, "a lone dash");
	is_str(a.operand[0], "-", "is an operand");
	is_int(parse(&a, &e, "--rnak 3"), -1, "unknown option");
	like(e.text, "did you mean --rank?", "names the nearest");
	is_int(parse(&a, &e, "--follow=yes"), -1, "a switch with a value");
	is_int(parse(&a, &e, "--rank"), -1, "a value that is missing");
	like(e.text, "needs a value: N", "says so");
	is_int(parse(&a, &e, "-r"), -1, "the same by letter");
	is_int(parse(&a, &e, "-x"), -1, "unknown letter");
	is_int(parse(&a, &e, "--rank 12"), 0, "a number");
	is_int(args_u64(&a, "rank", 0, 20, &v, &e), 0, "within bounds");
	is_int(v, 12, "is taken");
	is_int(args_u64(&a, "rank", 0, 11, &v, &e), -1, "above the bound");
	like(e.text, "from 0 to 11", "says the bounds");
	is_int(args_u64(&a, "set", 0, 9, &v, &e), 0, "an absent one");
	is_int(v, 12, "leaves the value");
	is_int(parse(&a, &e, "--rank 1x"), 0, "no number");
	is_int(args_u64(&a, "rank", 0, 9, &v, &e), -1, "is refused");
}

static void test_many_args(void)
{
	static struct args a;
	static char *argv[ARGS_MAX + 3];
	static char verb[] = "verb", flag[] = "-f", word[] = "x";
	struct err e;
	argv[0] = verb;
	for (int i = 1; i < ARGS_MAX + 3; i++)
		argv[i] = word;
	is_int(args_parse(opts, ARGS_MAX + 1, argv, &a, &e), 0, "as many operands as fit");
	is_int(args_parse(opts, ARGS_MAX + 2, argv, &a, &e), -1, "one more");
	is_int(e.code, ERR_LIMIT, "is a limit");
	for (int i = 1; i < ARGS_MAX + 3; i++)
		argv[i] = flag;
	is_int(args_parse(opts, ARGS_MAX + 2, argv, &a, &e), -1, "too many options");
}

/* ---- references ---- */

static int join(const char *ref, const char *part, void *arg)
{
	(void)part;
	char *s = arg;
	snprintf(s + strlen(s), 512 - strlen(s), "%s ", ref);
	return 0;
}

static void test_refs(void)
{
	static const struct {
		const char *text, *want;
	} good[] = {{"17", "17 "},
	            {"17-20,23", "17 18 19 20 23 "},
	            {"last", "last "},
	            {"a-b", "a-b "},
	            {"digits~1", "digits~1 "},
	            {"7-7", "7 "},
	            {"3,last,x-1", "3 last x-1 "},
	            {"17.3", "17.3 "},
	            {"17.3-5", "17.3 17.4 17.5 "},
	            {"17.3-17.4,9", "17.3 17.4 9 "},
	            {"17.3-18.4", "17.3-18.4 "}};
	struct err e;
	char got[512];
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		got[0] = 0;
		is_int(ref_expand(good[i].text, join, got, &e), 0, good[i].text);
		is_str(got, good[i].want, "expands to that");
	}
	got[0] = 0;
	is_int(ref_expand("20-17", join, got, &e), -1, "backwards");
	is_int(ref_expand("1,,2", join, got, &e), -1, "an empty one inside");
	is_int(ref_expand("", join, got, &e), -1, "nothing");
	is_int(ref_expand("1-99999999", join, got, &e), -1, "a range too long");
	is_int(e.code, ERR_LIMIT, "is a limit");
	is_int(ref_expand("18446744073709551615-18446744073709551615", join, got, &e), 0, "the greatest number");
}

/* ---- assignments ---- */

static void set_is(const char *spec, const char *assignment, const char *want)
{
	struct err e = {0};
	cJSON *j = json_parse(spec, strlen(spec), NULL);
	int rc = assign_apply(j, assignment, &e);
	char *text = json_text(j);
	if (want)
		is_str(rc ? e.text : text, want, assignment);
	else
		ok(rc == -1 && e.code == ERR_INVALID, "%s is refused", assignment);
	free(text);
	cJSON_Delete(j);
}

static void test_set(void)
{
	set_is("{}", "hyperparameters.lr=0.1", "{\"hyperparameters\":{\"lr\":0.1}}");
	set_is("{\"hyperparameters\":{\"a\":1}}", "hyperparameters.opt.name=adam",
	       "{\"hyperparameters\":{\"a\":1,\"opt.name\":\"adam\"}}");
	set_is("{}", "resources.placement.span=node", "{\"resources\":{\"placement\":{\"span\":\"node\"}}}");
	set_is("{\"name\":\"a\"}", "name=007", "{\"name\":\"007\"}");
	set_is("{\"name\":\"a\"}", "name=7", "{\"name\":\"7\"}");
	set_is("{}", "environment.N=1", "{\"environment\":{\"N\":\"1\"}}");
	set_is("{}", "environment.A.B=true", "{\"environment\":{\"A.B\":\"true\"}}");
	set_is("{}", "tags.team=\"v\"", "{\"tags\":{\"team\":\"v\"}}");
	set_is("{}", "command=[\"a\",\"b\"]", "{\"command\":[\"a\",\"b\"]}");
	set_is("{}", "hyperparameters.x=", "{\"hyperparameters\":{\"x\":\"\"}}");
	set_is("{}", "hyperparameters.x=a=b", "{\"hyperparameters\":{\"x\":\"a=b\"}}");
	set_is("{\"source_dir\":\".\",\"priority\":1}", "source_dir=null", "{\"priority\":1}");
	set_is("{\"priority\":1}", "priority=5", "{\"priority\":5}");
	set_is("{}", "novalue", NULL);
	set_is("{}", "=x", NULL);
	set_is("{}", "resources.=1", NULL);
	set_is("[]", "a=1", NULL);
}

static void key_is(const char *assignment, const char *hps, const char *said)
{
	struct err e = {0};
	cJSON *j = hps ? json_parse(hps, strlen(hps), NULL) : NULL;
	int rc = assign_check_key(assignment, j, &e);
	ok(said ? rc < 0 && strstr(e.text, said) : !rc, "%s: %s", assignment, said ? said : "is one");
	if (rc)
		tap_diag("said: %s", e.text);
	cJSON_Delete(j);
}

static void test_keys(void)
{
	key_is("priority=3", NULL, NULL);
	key_is("array=3", NULL, NULL);
	key_is("warm_pool.keep_alive_s=3", NULL, NULL);
	key_is("resources.gpus=2", NULL,
	       NULL); /* the object is there: what is wrong in it the whole check says */
	key_is("gpus_per_instance=2", NULL, "did you mean \"resources.gpus_per_instance\"?");
	key_is("gpus=2", NULL, "did you mean \"resources.gpus_per_instance\"?");
	key_is("nodes=2", NULL, "did you mean \"resources.instances\"?");
	key_is("prioriti=2", NULL, "did you mean \"priority\"?");
	key_is("lr=2", NULL, ": --set hyperparameters.lr=2");
	key_is("seed=2", NULL, "--set hyperparameters.seed=2");
	key_is("nodes=2", "{\"nodes\": 1}", "--set hyperparameters.nodes=2");
}

static void after_is(const char *text, const char *kind, const char *ref)
{
	char got[AFTER_KIND_SIZE] = "";
	const char *rest = "";
	struct err e = {0};
	int rc = ref_after_kind(text, got, &rest, &e);
	ok(kind ? !rc && !strcmp(got, kind) && !strcmp(rest, ref) : rc < 0 && strstr(e.text, ref), "--after %s",
	   text);
}

static void test_after(void)
{
	after_is("17", "afterok", "17");
	after_is("grid.3", "afterok", "grid.3");
	after_is("afterany:last~1", "afterany", "last~1");
	after_is("after:17.3", "after", "17.3");
	after_is("what:2", NULL, "--after 'what:2': expected JOB or afterok:JOB");
	after_is("afterall:2", NULL, "did you mean afterany:JOB?");
	after_is("after:", NULL, "expected JOB");
}

/* ---- a log as JSON ---- */

static void test_loglines(void)
{
	char *text = NULL;
	size_t n;
	struct err e;
	FILE *f = open_memstream(&text, &n);
	struct loglines *l = loglines_create(f, NULL);
	loglines_feed(l, 1, "rank-0", 0, "on", 2);
	loglines_feed(l, 1, "rank-0", 2, "e\n\ntwo \xff\nha", 11);
	loglines_lost(l, 1, "rank-0", 40, 28);
	loglines_feed(l, 1, "rank-0", 40, "end", 3);
	loglines_end(l);
	loglines_end(l);
	loglines_feed(l, 2, "mpirun", 0, "x\n", 2);
	loglines_destroy(l);
	fflush(f);
	is_str(text,
	       "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":0,\"text\":\"one\"}\n"
	       "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":4,\"text\":\"\"}\n"
	       "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":5,\"text\":\"two \xef\xbf\xbd\"}\n"
	       "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":11,\"text\":\"ha\"}\n"
	       "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":40,\"lost\":28}\n"
	       "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":40,\"text\":\"end\"}\n"
	       "{\"attempt\":2,\"stream\":\"mpirun\",\"offset\":0,\"text\":\"x\"}\n",
	       "an object a line, each with its place");
	fclose(f);
	free(text);

	f = open_memstream(&text, &n);
	struct grep *g = grep_create("^b", f, &e);
	l = loglines_create(f, g);
	char *longer = xmalloc(LOGLINES_MAX + 10);
	memset(longer, 'b', LOGLINES_MAX + 10);
	longer[LOGLINES_MAX + 9] = '\n';
	loglines_feed(l, 1, "rank-0", 0, "a\nb\n", 4);
	loglines_feed(l, 1, "rank-0", 4, longer, LOGLINES_MAX + 10);
	loglines_feed(l, 1, "rank-0", LOGLINES_MAX + 14, "b2\n", 3);
	loglines_destroy(l);
	grep_destroy(g);
	fflush(f);
	ok(strstr(text, "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":2,\"text\":\"b\"}\n") == text,
	   "only lines that match");
	like(text, "bb\",\"cut\":true}\n", "what is left out of a long line is said");
	like(text, "\"offset\":1048590,\"text\":\"b2\"}\n", "and the next one stands where it stands");
	fclose(f);
	free(longer);
	free(text);
}

/* ---- ignore ---- */

static void test_ignore(void)
{
	static const struct {
		const char *pattern, *path;
		int dir, want;
	} t[] = {
	    {"*.pt", "a.pt", 0, 1},
	    {"*.pt", "x/y/a.pt", 0, 1},
	    {"*.pt", "a.ptx", 0, 0},
	    {"data/", "data", 1, 1},
	    {"data/", "data", 0, 0},
	    {"data/", "x/data", 1, 1},
	    {"/build", "build", 1, 1},
	    {"/build", "x/build", 1, 0},
	    {"a/b", "a/b", 0, 1},
	    {"a/b", "x/a/b", 0, 0},
	    {"a/*.c", "a/x.c", 0, 1},
	    {"a/*.c", "a/b/x.c", 0, 0},
	    {"a/**", "a/b", 0, 1},
	    {"a/**", "a/b/c", 0, 0},
	    {"[ab].txt", "b.txt", 0, 1},
	    {"[!ab].txt", "b.txt", 0, 0},
	    {"?.txt", "é.txt", 0, 0},
	    {"\\*.txt", "*.txt", 0, 1},
	    {"\\*.txt", "a.txt", 0, 0},
	    {"a/[!x]c", "a/bc", 0, 1},
	    {"a[/]b", "a/b", 0, 0},
	    {".git", "x/.git", 1, 1},
	    {"", "x", 0, 0},
	    {"[", "[", 0, 1},
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		is_int(ignore_match(t[i].pattern, t[i].path, t[i].dir), t[i].want, t[i].pattern);
	char longer[700];
	memset(longer, '*', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	is_int(ignore_match(longer, "x", 0), 0, "a pattern beyond the bound fits nothing");
}

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	fputs(text, f);
	fclose(f);
}

static void test_ignore_file(void)
{
	char path[512], longer[600];
	struct ignore ig = {{0}};
	struct err e;
	snprintf(path, sizeof(path), "%s/.hearthignore", tap_tmpdir());
	is_int(ignore_read(&ig, tap_tmpdir(), &e), 0, "no file");
	ok(ignore_skip(".git", 1, &ig) && ignore_skip("a/.git", 0, &ig) && ignore_skip("b/c.pyc", 0, &ig),
	   "what is always left out");
	ignore_fini(&ig);
	write_text(path, "# comment\r\n\n*.log  \n!keep.log\n!\n/\ndata/\r\n");
	memset(&ig, 0, sizeof(ig));
	is_int(ignore_read(&ig, tap_tmpdir(), &e), 0, "a file");
	ok(ignore_skip("a.log", 0, &ig), "a pattern with blanks behind");
	ok(!ignore_skip("keep.log", 0, &ig), "taken back");
	ok(ignore_skip("x/data", 1, &ig), "a folder, with CR");
	ok(!ignore_skip("x", 1, &ig), "lone signs say nothing");
	ignore_fini(&ig);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	write_text(path, longer);
	memset(&ig, 0, sizeof(ig));
	is_int(ignore_read(&ig, tap_tmpdir(), &e), -1, "a pattern too long");
	golden("jobctl/words-hearthignore-a-pattern-has-at-most-bytes", e.text, "511");
	ignore_fini(&ig);
	unlink(path);
}

/* ---- print ---- */

static char *captured(void (*fn)(void))
{
	static char text[8192];
	char path[512];
	snprintf(path, sizeof(path), "%s/out", tap_tmpdir());
	fflush(stdout);
	int saved = dup(1);
	if (!freopen(path, "w", stdout))
		tap_bail("freopen");
	fn();
	fflush(stdout);
	dup2(saved, 1);
	close(saved);
	FILE *f = fopen(path, "r");
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	fclose(f);
	return text;
}

static void some_table(void)
{
	static const char *const heads[] = {">ID", "NAME", "REASON"};
	struct table *t = table_create(heads, 3);
	table_cell(t, "7");
	table_cell(t, "café");
	table_cell(t, "a\nb\033[31m");
	table_cellf(t, "%d", 1234);
	table_cell(t, "x");
	table_cell_cut(t, "äöüäöüäöü", 6);
	table_cell(t, "");
	table_cell(t, NULL);
	table_cell_cut(t, NULL, 5);
	table_print(t);
	table_destroy(t);
}

static void test_table(void)
{
	is_str(captured(some_table),
	       "  ID  NAME  REASON\n"
	       "   7  café  a b?[31m\n"
	       "1234  x     äöü...\n"
	       "   -  -     -\n",
	       "columns, right and left, by characters, without control bytes or colours");
}

static const struct {
	const char *job, *text;
} rans[] = {
    {"{\"ran_s\": 1.5, \"started_at\": \"2026-01-02T03:04:05Z\"}", "1.5s"},
    {"{\"ran_s\": 125.9, \"started_at\": \"2026-01-02T03:04:05Z\"}", "2m5s"},
    {"{\"ran_s\": 0}", "0.0s"},
    {"{\"ran_s\": null, \"started_at\": null}", "-"},
    {"{\"ran_s\": -1}", "-"},
    {"{\"ran_s\": 1e300}", "-"},
    {"{\"started_at\": \"2026-01-02T03:04:05.000000Z\", \"ended_at\": \"2026-01-02T03:06:05.000000Z\"}",
     "2m"},
    {"{}", "-"},
};

static void test_print(void)
{
	static const char text[] =
	    "{\"a\":1,\"b\":0.25,\"c\":true,\"d\":null,\"e\":\"x\",\"f\":1234567890123,\"g\":\"\"}";
	cJSON *o = json_parse(text, sizeof(text) - 1, NULL);
	is_str(print_member(o, "a"), "1", "whole number");
	is_str(print_member(o, "b"), "0.25", "fraction");
	is_str(print_member(o, "c"), "yes", "boolean");
	is_str(print_member(o, "d"), "-", "null");
	is_str(print_member(o, "f"), "1234567890123", "a large one stays whole");
	is_str(print_member(o, "g"), "-", "empty");
	is_str(print_member(NULL, "g"), "-", "no object");
	ok(print_number(o, "b") == 0.25 && print_number(o, "e") == 0, "numbers");
	cJSON_Delete(o);
	char *safe = print_safe("a\tb\nc\033d\x7f"
	                        "é\xc2\x9b"
	                        "31m");
	is_str(safe, "a\tb\nc?d?é??31m", "control characters are shown as ?");
	free(safe);
	is_int(print_time_us("2026-01-02T03:04:05.678901Z"), 1767323045678901, "a time");
	is_int(print_time_us("yesterday"), 0, "no time");
	is_int(print_time_us(NULL), 0, "none");
	is_str(print_span("2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:06.500000Z"), "1.5s", "a short span");
	is_str(print_span("2026-01-02T03:04:05.000000Z", "2026-01-02T03:06:05.000000Z"), "2m", "a longer one");
	is_str(print_span("2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:04.000000Z"), "-", "backwards");
	for (size_t i = 0; i < sizeof rans / sizeof *rans; i++) {
		cJSON *job = cJSON_Parse(rans[i].job);
		is_str(print_ran(job), rans[i].text, rans[i].job);
		cJSON_Delete(job);
	}
	double v[] = {0, 1, (double)NAN, 7};
	char *spark = print_spark(v, 4, 60);
	is_str(spark, "▁▂ █", "a sparkline with a gap");
	free(spark);
	spark = print_spark(v, 0, 60);
	is_str(spark, "", "of nothing");
	free(spark);
}

/* ---- progress, grep ---- */

static const char *line_of(const struct progress *p, uint64_t done, uint64_t elapsed_us, size_t width)
{
	static char bytes[TEXT_SIZE];
	struct text line = text_on(bytes, sizeof(bytes));
	progress_line(p, done, elapsed_us, width, &line);
	return bytes;
}

static void test_progress(void)
{
	struct progress p = {.what = "uploading", .total = 100 * 1024 * 1024};
	is_str(line_of(&p, 50 * 1024 * 1024, 5000000, 80),
	       "uploading  50 % [#####.....] 50.0MiB of 100.0MiB, 10.0MiB/s, 5s", "half way");
	is_str(line_of(&p, 200 * 1024 * 1024, 5000000, 40), "uploading 100 % 100.0MiB of 100.0MiB, 40.0MiB/s, 0s",
	       "more than was measured; a narrow terminal");
	is_str(line_of(&p, 0, 0, 40), "uploading   0 % 0B of 100.0MiB, 0B/s", "at the start");
	p.total = 0;
	is_str(line_of(&p, 1024, 1000000, 80), "uploading 1.0KiB, 1.0KiB/s", "nothing known");
}

static void test_grep(void)
{
	struct err e;
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	struct grep *g = grep_create("loss=\\d+|^$", f, &e);
	grep_feed(g, "step 1 lo", 9);
	grep_feed(g, "ss=5\nnothing\n\nx loss=", 21);
	grep_feed(g, "7", 1);
	grep_end_line(g);
	grep_end_line(g);
	grep_destroy(g);
	g = grep_create("end", f, &e);
	static char longer[3 * 1024 * 1024];
	memset(longer, 'a', sizeof(longer));
	grep_feed(g, longer, sizeof(longer));
	grep_feed(g, "end\nend \xff\n", 10);
	grep_destroy(g);
	fclose(f);
	is_str(text, "step 1 loss=5\n\nx loss=7\nend \xff\n",
	       "matching lines over pieces; endless lines and bad UTF-8 do no harm");
	free(text);
	ok(!grep_create("a(b", stdout, &e), "a broken pattern");
	like(e.text, "at character 4", "names the place");
	is_int(e.code, ERR_INVALID, "as a fault of usage");
}

/* ---- completion ---- */

static void put_word(const char *word, void *arg)
{
	join(word, word, arg);
}

static void complete(const char *line, const char *want)
{
	static char copy[512], got[4096];
	const char *words[32];
	char *save = NULL;
	size_t n = 0, len = strlen(line);
	snprintf(copy, sizeof(copy), "%s", line);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		words[n++] = w;
	if (line[len - 1] == ' ')
		words[n++] = "";
	got[0] = 0;
	complete_line(NULL, verb_table, words, n, n - 1, put_word, got);
	is_str(got, want, line);
}

static void test_completion(void)
{
	complete("jobctl su", "submit ");
	complete("jobctl no", "note nodes node ");
	complete("jobctl --json ev", "events ");
	complete("jobctl --url http://x ev", "events ");
	complete("jobctl --u", "--url ");
	complete("jobctl node ", "drain resume spare lost rm ");
	complete("jobctl node d", "drain ");
	complete("jobctl submit ", ":files ");
	complete("jobctl submit --d", "--dry-run ");
	complete("jobctl submit x.json --f", "--follow ");
	complete("jobctl wait 3 --for ", "running end ");
	complete("jobctl wait 3 --for r", "running ");
	complete("jobctl wait 3 --timeout 5 la", "last ");
	complete("jobctl get 3 ", "model output checkpoint code ");
	complete("jobctl get 3 model ", ":files ");
	complete("jobctl get 3 model x ", "");
	complete("jobctl stop 1 2 l", "last ");
	complete("jobctl diff l", "last ");
	complete("jobctl set 3 p", "priority ");
	complete("jobctl completion ", "bash words ");
	complete("jobctl nonsense ", "");
	complete("jobctl ls status:f", "status:failed ");
	complete("jobctl ls -- --x", "");
}

/* ---- times ---- */

static void test_when(void)
{
	static const char *const bad[] = {
	    "", "soon", "25:00", "12:60", "+", "+1x", "2026-02-30T00:00:00Z", "now-1h", "2026-1", "14:00x"};
	const uint64_t s = 1000000, now = 1767323045ull * s; /* 2026-01-02 03:04:05 UTC */
	struct err e;
	uint64_t at = 7;
	setenv("TZ", "UTC-2", 1); /* two hours ahead of UTC */
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(when_parse(bad[i], now, now, &at, &e) < 0 && at == 7, "no time: %s", bad[i]);
	golden("jobctl/words-invalid-time", e.text, "'14:00x'");
	ok(when_parse("now", now, now, &at, &e) == 0 && at == now, "now");
	ok(when_parse("+90m", now, now, &at, &e) == 0 && at == now + 5400 * s, "in ninety minutes");
	ok(when_parse("now+2h", now, now, &at, &e) == 0 && at == now + 7200 * s, "the same with now");
	ok(when_parse("2026-01-02T03:04:05Z", now, now, &at, &e) == 0 && at == now, "RFC 3339 has its own zone");
	ok(when_parse("2026-01-02 05:04:05", now, now, &at, &e) == 0 && at == now, "a date is local");
	ok(when_parse("2026-01-02T05:04", now, now, &at, &e) == 0 && at == now - 5 * s, "without seconds");
	ok(when_parse("2026-01-03", now, now, &at, &e) == 0 && at == now - 5 * s - 18240 * s + 86400 * s,
	   "the beginning of a day");
	ok(when_parse("06:00", now, now, &at, &e) == 0 && at == now + 3355 * s, "a time of day that comes today");
	ok(when_parse("05:00", now, now, &at, &e) == 0 && at == now - 245 * s + 86400 * s,
	   "one that comes tomorrow");
	ok(when_parse("05:00", now, now + 86400 * s, &at, &e) == 0 && at == now - 245 * s + 2 * 86400 * s,
	   "or after another time");
	setenv("TZ", "UTC", 1);
}

static void test_members_rest(void)
{
	is_str(members_rest("2 of 6 members failed: 17.3, 17.5"), "17.3, 17.5", "counted already: which");
	is_str(members_rest("1 of 5 members were stopped"), "", "nothing more");
	is_str(members_rest("stopped by ada"), "stopped by ada", "another reason");
	is_str(members_rest("2 of 6 GPUs"), "2 of 6 GPUs", "of something else");
	is_str(members_rest(NULL), "", "none");
}

static void local_is(const char *text, const char *want)
{
	char *got = print_local(text);
	is_str(got, want, want);
	free(got);
}

static void zone(const char *tz)
{
	setenv("TZ", tz, 1);
	tzset();
}

/* People read local time, with its zone. */
static void test_local(void)
{
	zone("XYZ-2"); /* two hours ahead of UTC */
	is_str(print_time("2026-01-02T23:04:05.250000Z"), "2026-01-03 01:04:05", "local time");
	is_str(print_time_zone("2026-01-02T03:04:05Z"), "2026-01-02 05:04:05 XYZ", "with its zone");
	is_str(print_time_zone(NULL), "-", "no time");
	is_str(print_zone_head("CREATED"), "CREATED (XYZ)", "the head of a column");
	local_is("kept from 2026-01-02 03:04:05 UTC to 2026-01-02T04:04:05Z.",
	         "kept from 2026-01-02 05:04:05 XYZ to 2026-01-02 06:04:05 XYZ.");
	local_is("2026-01-02T03:04:05.123456Z", "2026-01-02 05:04:05 XYZ");
	local_is("no time: 2026-01-02 03:04:05, 2026-01-02, 12:30:00Z, 2026-01-02T03:04:05",
	         "no time: 2026-01-02 03:04:05, 2026-01-02, 12:30:00Z, 2026-01-02T03:04:05");
	local_is("", "");
	local_is(NULL, "");
	zone("ABCDEFGHIJKL-1");
	local_is("2026-01-02T03:04:05Z|2026-01-02T03:04:05Z",
	         "2026-01-02 04:04:05 ABCDEFGHIJKL|2026-01-02 04:04:05 ABCDEFGHIJKL");
	zone("UTC");
	local_is("at 2026-01-02T03:04:05Z", "at 2026-01-02 03:04:05 UTC");
}

/* ---- several ranks ---- */

static void test_ranks(void)
{
	static const char *const bad[] = {"3-1", "1-",    "-2",      "0,,2",
	                                  ",",   "1-2-3", "0,70000", "99999999999999999999,1"};
	struct rank_set s;
	struct err e;

	ok(rank_set_is("all") && rank_set_is("0-3") && rank_set_is("0,2"), "several ranks");
	ok(!rank_set_is("7") && !rank_set_is("x") && !rank_set_is("") && !rank_set_is("a,b"), "one, or none");
	is_int(rank_set_parse("0,2-4,9", &s, &e), 0, "a list with a range");
	ok(rank_set_has(&s, 0) && rank_set_has(&s, 2) && rank_set_has(&s, 4) && rank_set_has(&s, 9),
	   "what is in it");
	ok(!rank_set_has(&s, 1) && !rank_set_has(&s, 5) && !rank_set_has(&s, 10), "what is not");
	rank_set_fini(&s);
	is_int(rank_set_parse("all", &s, &e), 0, "all");
	ok(rank_set_has(&s, 0) && rank_set_has(&s, 65535), "have it all");
	rank_set_fini(&s);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(rank_set_parse(bad[i], &s, &e) == -1, "'%s' is refused", bad[i]);
	golden("jobctl/words-expected-a-number-a-list-a-range", e.text, "0,2", "0-3");
}

static void test_alike(void)
{
	ok(waiting_alike("queued: 3 jobs ahead, in 2m", "queued: 12 jobs ahead, in 1m"), "only numbers differ");
	ok(waiting_alike("", "") && waiting_alike("7", ""), "nothing else");
	ok(!waiting_alike("queued: held", "queued: no nodes"), "another reason");
	ok(!waiting_alike("3 jobs", "3 jobs and more"), "more of it");
}

int main(void)
{
	setenv("TZ", "UTC", 1);
	test_args();
	test_many_args();
	test_refs();
	test_set();
	test_keys();
	test_after();
	test_loglines();
	test_ignore();
	test_ignore_file();
	test_table();
	test_print();
	test_progress();
	test_grep();
	test_completion();
	test_when();
	test_local();
	test_members_rest();
	test_ranks();
	test_alike();
	return tap_done();
}
