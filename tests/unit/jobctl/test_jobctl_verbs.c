/* The program jobctl against a scripted controller: what it sends, what it prints, how it ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"
#include "tests/lib/tap.h"
#include "tests/unit/jobctl/jobctl_answers.h"
#include "tests/unit/jobctl/jobctl_server.h"

/* ---- running it ---- */

struct run {
	int code; /* exit status, 128 + signal */
	char *out, *err;
};

static char *path_in(const char *name)
{
	return xasprintf("%s/%s", tap_tmpdir(), name);
}

static void put_file(const char *name, const char *text)
{
	char *path = path_in(name);
	FILE *f = fopen(path, "w");
	fputs(text, f);
	fclose(f);
	free(path);
}

static char *read_text(const char *name)
{
	char *path = path_in(name), *text = NULL;
	size_t n;
	fs_read_file(path, 1 << 20, &text, &n, NULL);
	free(path);
	return text ? text : xstrdup("");
}

/* Starts it with the words of a line (no quotes); $T in a word is the private folder. out_fd -1: into a file.
 */
static pid_t start(const char *url, const char *line, int out_fd)
{
	char *program = xasprintf("%s/jobctl/jobctl", getenv("HEARTH_TOP_BUILDDIR")), *copy = xstrdup(line),
	     *save = NULL;
	char *out = path_in("stdout"), *err = path_in("stderr");
	struct strv argv = {0};
	strv_add(&argv, "jobctl");
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		if (!strncmp(w, "$T", 2))
			strv_addf(&argv, "%s%s", tap_tmpdir(), w + 2);
		else
			strv_add(&argv, w);
	}
	pid_t pid = fork();
	if (pid == 0) {
		int o = out_fd >= 0 ? out_fd : open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		dup2(open("/dev/null", O_RDONLY), 0);
		dup2(o, 1);
		dup2(open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
		if (url)
			setenv("HEARTH_URL", url, 1);
		else
			unsetenv("HEARTH_URL");
		alarm(120); /* one that hangs fails its test */
		execv(program, argv.v);
		_exit(99);
	}
	strv_fini(&argv);
	free(program);
	free(copy);
	free(out);
	free(err);
	return pid;
}

static void finish(struct run *r, pid_t pid)
{
	int status = -1;
	/* A jobctl that hangs is ended by the test driver's own limit; waiting needs none here. */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	r->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	r->out = read_text("stdout");
	r->err = read_text("stderr");
}

static void run_fini(struct run *r)
{
	free(r->out);
	free(r->err);
}

/* Runs it; compares exit status and, unless NULL, output and a part of the errors. */
static void expect(struct js *s, const char *line, int code, const char *out, const char *err)
{
	struct run r;
	finish(&r, start(s ? js_url(s) : NULL, line, -1));
	int right = r.code == code && (!out || !strcmp(r.out, out)) && (!err || strstr(r.err, err));
	ok(right, "jobctl %s", line);
	if (!right)
		tap_diag("exit %d (want %d)\nout: %s\nwant: %s\nerr: %s\nwant: %s", r.code, code, r.out,
		         out ? out : "-", r.err, err ? err : "-");
	run_fini(&r);
}

/* Runs it; its output holds each of these lines. */
static void expect_lines(struct js *s, const char *line, const char *const *lines)
{
	struct run r;
	finish(&r, start(js_url(s), line, -1));
	is_int(r.code, 0, line);
	for (; *lines; lines++)
		like(r.out, *lines, *lines);
	run_fini(&r);
}

static void test_members(struct js *s)
{
	static const char *const shown[] = {
	    "3 members: 1 running, 1 waiting, 1 completed", "ID  STATUS       lr  opt  loss",
	    "17.1  completed  0.01  sgd  0.25   0.5    40", "17.0  queued      0.1  a?b",
	    "1 more member: jobctl show 17 --members 0",    NULL};
	expect_lines(s, "show 17", shown);
	expect_lines(s, "metrics 17", shown + 1);
	expect_lines(s, "show 17 --members 2", shown + 1);
}

static const struct js_seen *last_of(struct js *s, const char *method)
{
	for (unsigned i = js_count(s); i-- > 0;) {
		if (!strcmp(js_seen(s, i)->method, method))
			return js_seen(s, i);
	}
	tap_bail("there was no %s", method);
}

static int count_of(struct js *s, const char *method, const char *uri)
{
	int n = 0;
	for (unsigned i = 0; i < js_count(s); i++)
		n += !strcmp(js_seen(s, i)->method, method) && strstr(js_seen(s, i)->uri, uri);
	return n;
}

static void test_usage(void)
{
	expect(NULL, "", 2, "", "usage: jobctl");
	expect(NULL, "frobnicate", 2, "", "unknown verb 'frobnicate'");
	expect(NULL, "sumbit", 2, "", "did you mean 'submit'?");
	expect(NULL, "node", 2, "", "jobctl node drain NODE...");
	expect(NULL, "node drian", 2, "", "unknown verb 'node drian'; did you mean 'node drain'?");
	expect(NULL, "node frobnicate", 2, "",
	       "unknown verb 'node frobnicate'; the verbs are:\n  jobctl node drain NODE...");
	expect(NULL, "reserve add x", 2, "",
	       "missing --nodes A,B or --count N; --to TIME or --for DURATION; --queue QUEUE or --maintenance");
	expect(NULL, "reserve add x --count 1 -m", 2, "", "reserve add: missing --to TIME or --for DURATION\n");
	expect(NULL, "checkpoints 3", 2, "", "not built yet");
	expect(NULL, "--bogus ls", 2, "", "unknown option --bogus before the verb");
	expect(NULL, "ls --lmit 3", 2, "", "ls: unknown option --lmit (did you mean --limit?)");
	expect(NULL, "show", 2, "", "show: expected JOB");
	expect(NULL, "show 1 2", 2, "", "show: got 2 jobs, expected one JOB");
	expect(NULL, "help", 0, NULL, "");
	expect(NULL, "help show", 0, NULL, "");
	expect(NULL, "help node drain", 0, NULL, "");
	expect(NULL, "help queue", 0, NULL, "");
	expect(NULL, "local --help", 0, NULL, "");
	expect(NULL, "queue -h", 0, NULL, "");
	expect(NULL, "help frobnicate", 2, "", "unknown verb 'frobnicate'");
	expect(NULL, "ls --limit 5000", 2, "", "--limit '5000': expected a whole number from 1 to 1000");
	expect(NULL, "logs 3 --rank x", 2, "", "--rank 'x': expected a number, a list (0,2), a range (0-3)");
	expect(NULL, "logs 3 --list --tail 3", 2, "", "--tail is only for the lines of one stream");
	expect(NULL, "logs 3 --rank 1 --stream mpirun", 2, "", "--rank or --stream, not both");
	expect(NULL, "logs 3 --grep a(b", 2, "", "at character 4");
	expect(NULL, "logs 3 --offset --5", 2, "", "--offset '--5'");
	expect(NULL, "wait 3 --for ever", 2, "", "expected running, step>N or end");
	expect(NULL, "wait 3 --timeout soon", 2, "", "--timeout");
	expect(NULL, "set 3 prioriti=4", 2, "", "did you mean 'priority'?");
	expect(NULL, "set 3 priority=4.5", 2, "", "from -1000 to 1000");
	expect(NULL, "set 3 priority=1 priority=2", 2, "", "the key 'priority' appears twice");
	expect(NULL, "set 3 time=long", 2, "", "time: ");
	expect(NULL, "tag 3 x", 2, "", "expected KEY=VALUE");
	expect(NULL, "get 3 weights", 2, "", "expected model, output, checkpoint or code");
	expect(NULL, "show 0", 2, "", "ids start at 1");
	expect(NULL, "stop 5-3", 2, "", "range '5-3'");
	expect(NULL, "ls hp.lr>=1", 4, "", "not built yet");
	expect(NULL, "--version", 0, "jobctl " PACKAGE_VERSION "\n", NULL);
	expect(NULL, "show --help", 0, NULL, "");
	expect(NULL, "--url ftp://x ls", 2, "", "expected http://HOST:PORT");
	expect(NULL, "--url http://127.0.0.1:1 ls", 5, "", "no controller at http://127.0.0.1:1 (from --url)");
	expect(NULL, "ls --url http://127.0.0.1:1", 5, "", "jobctl local up");
}

static void test_reading(struct js *s)
{
	expect(s, "show 7 --ranks", 0,
	       "RANK  NODE  STATE   EXIT  SIGNAL  OOM  PID  RAN  TEXT\n   0  n1    exited     0       -  -      "
	       "5    -  -\n",
	       "");
	expect(s, "why last", 0, "Job 7 is completed: it is done\n", "");
	expect(s, "metrics 7", 0,
	       "METRIC  LAST  MIN  MAX  STEP  POINTS  OF\nloss     0.5  0.5    2    40       9  rank 0 of 4, "
	       "attempt 1\n",
	       "");
	expect(s, "metrics 7 --attempt 3 --rank 2", 0,
	       "No metrics of rank 2 in that attempt. To see all metrics of the job: jobctl metrics 7\n", "");
	expect(s, "metrics 7 --csv", 2, "", "--csv needs the name of a metric: jobctl metrics 7 NAME");
	expect(s, "metrics 7 big", 0,
	       "big  ▁█\n"
	       "rank 1 of 2, attempt 2: 7 points, last 3 at step 70, min 1, max 6; 1 is not a number (NaN)\n"
	       "Each line has the mean, min and max of about 4 points; to see all points: --points 0\n"
	       "FROM STEP  MEAN  MIN  MAX  NAN\n"
	       "       10     2    1    3    1\n"
	       "       50     4    2    6    0\n",
	       "");
	expect(s, "metrics 7 big --csv", 0,
	       "step,time,mean,min,max,points,nan\n10,1.500000,2,1,3,4,1\n50,2.500000,4,2,6,3,0\n",
	       "7 points are condensed to 2");
	expect(s, "metrics 7 one", 0,
	       "one   \n"
	       "rank 0, attempt 1: 1 point, last nan, min -, max -; 1 is not a number (NaN)\n"
	       "POINT  VALUE\n"
	       "    1    nan\n",
	       "");
	expect(s, "metrics 7 loss --csv", 0, "step,time,value\n1,1.500000,2\n,2.500000,nan\n3,3.500000,0.5\n",
	       "");
	expect(s, "metrics 27 nope", 3, "", "no member of job 27 reported the metric \"nope\"");
	expect(s, "metrics 17 nope", 0,
	       "  ID  STATUS  nope  LAST  STEP  RAN  REASON\n17.0  -          -     -     -    -  -\n",
	       "Note: no member of job 17 has reported the metric \"nope\" yet");
	expect(s, "nodes", 0,
	       "NODE  STATE  ADDRESS   TYPE  GPUS  GPU                  SLOTS  MEMORY  LOAD  JOBS  REASON\n"
	       "n1    up     10.0.0.1  -      1/4  3x A1 2.0GiB, 1x T4    2/8  1.0GiB     -  7     -\n",
	       "");
	expect(s, "metrics 7 lo/ss", 3, "", "no such thing");
	expect(s, "events 7", 0,
	       "TIME (UTC)          EVENT            WHAT\n2026-01-02 03:04:05 submitted        hello n=3\n- "
	       "ended         "
	       "   \n",
	       "");
	expect(NULL, "simulate $T/nothing.csv --nodes 1 --gpus-per-node 1", 2, "", "nothing.csv: No such file");
	expect(s, "logs 7 --list", 0, NULL, "");
	expect(s, "show 404", 3, "", "there is no such thing");
	expect(s, "diff 7 7", 0, "No difference.\n", "");
	expect(s, "completion bash", 0, NULL, "");
	expect(s, "completion words 2 -- jobctl stop 7", 0, "7\n", "");
	expect(s, "completion words 3 -- jobctl node drain n", 0, "n1\n", "");
	struct run r;
	finish(&r, start(js_url(s), "show 7", -1));
	like(r.out, "a?[1m", "control characters of a name do not reach the terminal");
	like(r.out, "jobctl get 7 model", "what it left, and how to get it");
	ok(!strstr(r.out, "get 7 checkpoint") && strstr(r.out, "1 file, removed\n"), "and what is gone");
	run_fini(&r);
	finish(&r, start(js_url(s), "diff 7 8", -1));
	like(r.out, "rank 3 exited with 1", "differences are shown");
	like(r.out, "run.pip.torch", "also in how they were run");
	ok(!strstr(r.out, "numpy") && !strstr(r.out, "phases"), "and nothing else");
	run_fini(&r);
}

/* Every listing gives JSON that parses. */
static void test_json(struct js *s)
{
	static const char *const lines[] = {"ls",
	                                    "show 7",
	                                    "show 7 --ranks",
	                                    "why 7",
	                                    "top",
	                                    "events 7",
	                                    "metrics 7",
	                                    "metrics 7 loss",
	                                    "logs 7 --list",
	                                    "nodes",
	                                    "diff 7 8",
	                                    "wait 7",
	                                    "stop 7",
	                                    "stop 7 9",
	                                    "rm 7",
	                                    "tag 7 a=b",
	                                    "dash",
	                                    "token create",
	                                    "clone 7",
	                                    "node drain n1",
	                                    "local status",
	                                    "set 7 priority=1",
	                                    NULL};
	for (size_t i = 0; lines[i]; i++) {
		char *line = xasprintf("%s --json", lines[i]);
		struct run r;
		struct err e = {0};
		finish(&r, start(js_url(s), line, -1));
		cJSON *j = json_parse(r.out, strlen(r.out), &e);
		ok(j, "jobctl %s gives JSON (%s)", line, j ? "good" : e.text);
		cJSON_Delete(j);
		run_fini(&r);
		free(line);
	}
}

static void test_changing(struct js *s)
{
	expect(s, "stop 7 8 9 --grace 1m", 4, "job 7 is being stopped\njob 9 is being stopped\n",
	       "jobctl: job 8 has ended\n");
	is_str(last_of(s, "POST")->body, "{\"grace_s\":60}", "the grace time in seconds");
	expect(s, "stop 8", 4, "", "jobctl: job 8 has ended");
	expect(s, "set 7 priority=-5 time=1h30m queue=q", 0, "job 7 is changed\n", "");
	is_str(last_of(s, "PATCH")->body, "{\"priority\":-5,\"time\":5400,\"queue\":\"q\"}", "all in one call");
	expect(s, "tag 7 a=b c=d=e f-", 0, "job 7 is tagged\n", "");
	is_str(last_of(s, "PATCH")->body, "{\"tags\":{\"a\":\"b\",\"c\":\"d=e\",\"f\":null}}",
	       "tags set and removed");
	expect(s, "note 7 looks good", 0, "job 7 has a new note\n", "");
	is_str(last_of(s, "PATCH")->body, "{\"notes\":\"looks good\"}", "words become one text");
	expect(s, "pin 7", 0, NULL, "");
	is_str(last_of(s, "PATCH")->body, "{\"pinned\":true}", "pinned");
	expect(s, "rm 7", 0, "job 7 is removed\n", "");
	expect(s, "clone 7 --set hyperparameters.lr=0.1 --set environment.N=3 --name x", 0, "18\n", "");
	is_str(last_of(s, "POST")->body,
	       "{\"set\":{\"hyperparameters.lr\":0.1,\"environment.N\":\"3\",\"name\":\"x\"}}",
	       "changes go to the controller");
	expect(s, "clone 7 --set x", 2, "", "expected KEY=VALUE");
	expect(s, "clone 7 --dry-run --after last", 0, NULL, "Note: nobody reads loss");
	is_str(last_of(s, "POST")->body, "{\"set\":{\"after\":[\"after:3\",\"afterok:7\"]},\"dry_run\":true}",
	       "a dry run, and one more to wait for");
	expect(s, "clone 7 --after what:7", 2, "", "--after 'what:7': expected JOB");
	expect(s, "node drain n1 nope --reason r", 3, "node n1 accepts no new jobs; its running jobs continue\n",
	       "no such thing");
	expect(s, "node rm n1", 4, "", "node n1 has 1 job");
	is_str(last_of(s, "DELETE")->uri, "/api/v1/nodes/n1", "nothing is forced without a word");
	expect(s, "node rm n1 --yes", 0, "node n1 is removed; its certificate is no longer accepted\n", "");
	is_str(last_of(s, "DELETE")->uri, "/api/v1/nodes/n1?force=1", "--yes says that it is certain");
	expect(s, "token create --ttl 2h", 0, "hj_abc\n", "");
	is_str(last_of(s, "POST")->body, "{\"kind\":\"join\",\"ttl_s\":7200}", "its life in seconds");
	char *want = xasprintf("%s/login?code=c\n", js_url(s));
	expect(s, "dash", 0, want, "");
	free(want);
	expect(s, "ls tag.a=b my status:failed text", 0, NULL, "");
	like(last_of(s, "GET")->uri, "&mine=1&tag=a%3Ab&status=failed&text=my%20text", "the query");
	expect(s, "ls status:failed status:stopped", 2, "", "'status:stopped': expected only one status");
	expect(s, "ls tag.a tag.b=c", 2, "", "'tag.b=c': expected only one tag");
	expect(s, "ls owner:bob", 0, NULL, "");
	like(last_of(s, "GET")->uri, "limit=50&owner=bob", "a named owner's, not mine");
}

static void test_waiting(struct js *s)
{
	expect(s, "wait 7", 0, "7 completed\n", "");
	expect(s, "wait 7 8 --exit-code", 1, "7 completed\n8 failed\n", "");
	expect(s, "wait 9 --for running", 0, "9 running\n", "");
	expect(s, "wait 9 --for step>39", 0, "9 running\n", "");
	expect(s, "wait 8 --for step>9", 1, "8 failed\n", "ended before it passed step 9");
	expect(s, "wait 9 --timeout 1", 124, "", "job 9 is still running");
	expect(s, "wait 404", 3, "", NULL);
	expect(s, "wait 7 404 8", 3, "7 completed\n8 failed\n", "jobctl: there is no such thing\n");
	expect(s, "wait 7,40-45", 3, "7 completed\n", "jobctl: 6 of the jobs 40-45 do not exist\n");
	is_int(count_of(s, "GET", "/jobs/41"), 0, "a range is asked for by one list");
}

/* ---- submit ---- */

static void test_submit(struct js *s)
{
	char *dir = path_in("src");
	mkdir(dir, 0755);
	free(dir);
	put_file("src/train.py", "print(1)\n");
	put_file("job.json", "{\"command\": [\"true\"], \"source_dir\": \"src\"}\n");
	expect(s, "submit $T/job.json", 0, "17\n", "");
	const struct js_seen *q = last_of(s, "POST");
	cJSON *body = json_parse(q->body, q->body_n, NULL);
	is_str(cJSON_GetStringValue(cJSON_GetObjectItem(body, "spec")),
	       "{\"command\": [\"true\"], \"source_dir\": \"src\"}\n", "the text as written");
	ok(hash_is_hex(cJSON_GetStringValue(cJSON_GetObjectItem(body, "bundle"))),
	   "with the digest of the folder");
	ok(q->idempotency_key, "and a key");
	cJSON_Delete(body);
	expect(s, "submit $T/job.json --set priority=3 --name n --hold", 0, "17\n", "");
	like(last_of(s, "POST")->body, "\\\"priority\\\":", "changed");
	like(last_of(s, "POST")->body, "\"hold\":true", "and held");
	unsigned before = js_count(s);
	expect(s, "submit $T/nothing.json", 2, "", "nothing.json: No such file");
	expect(s, "submit $T", 2, "", NULL);
	put_file("bad.json", "{\"command\": [\"true\"],}");
	expect(s, "submit $T/bad.json", 2, "", "bad.json: line 1 column 22");
	put_file("bad.json", "{\"comand\": [\"true\"], \"name\": 5, \"resources\": {\"instances\": \"two\"}}");
	expect(s, "submit $T/bad.json", 2, "", "bad.json: comand: unknown key; did you mean \"command\"?");
	expect(s, "submit $T/bad.json", 2, "", "bad.json: resources.instances: expected");
	put_file("bad.json", "{\"command\": [\"true\"], \"source_dir\": \"../nowhere\"}");
	expect(s, "submit $T/bad.json", 2, "", "nowhere: No such file or directory");
	put_file("bad.json", "{\"command\": [\"true\"], \"source_dir\": \"job.json\"}");
	expect(s, "submit $T/bad.json", 2, "", "job.json is not a directory");
	put_file("bad.json", "{\"command\": [\"true\"], \"name\": \"../x\"}");
	expect(s, "submit $T/bad.json", 2, "", "bad.json: name '../x' must begin");
	expect(s, "submit -", 2, "", "standard input: line 1");
	is_int(js_count(s), before, "none of that reached the controller");
	put_file("src/.hearthignore", "*.py\n");
	expect(s, "submit $T/job.json --dry-run", 0,
	       "Hearth would accept this job.\nTime limit: 1d, the cluster's default. To change it: --set "
	       "limits.max_runtime_s=SECONDS, or later jobctl set JOB time=DURATION\n",
	       "");
	like(last_of(s, "POST")->body, "\"dry_run\":true", "a dry run says so");
	ok(!strstr(last_of(s, "POST")->body, "bundle"), "and sends no source");
}

/* Chunks that are missing are sent, the manifest last; the rest is not. */
static void wants_blobs(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	static char missing[1 << 20];
	(void)nth;
	if (!strcmp(q->method, "POST") && strstr(q->uri, "/blobs/missing")) {
		const char *list = strchr(q->body, '[');
		snprintf(missing, sizeof(missing), "{\"missing\":%s", *(int *)arg ? list : "[]}");
		a->body = missing;
	} else {
		a->body = "{\"id\":3}";
	}
}

static void test_upload(void)
{
	int all = 1;
	struct js *s = js_start(wants_blobs, &all, NULL);
	char *big = path_in("src/big");
	FILE *f = fopen(big, "w");
	for (int i = 0; i < 5000000; i++)
		putc(i % 251, f);
	fclose(f);
	expect(s, "submit $T/job.json", 0, "3\n", "");
	is_int(count_of(s, "POST", "/blobs/missing"), 1, "asked once");
	is_int(count_of(s, "PUT", "/blobs/"), 4,
	       "two chunks of the large file, one of the small ones, the manifest");
	const struct js_seen *manifest = last_of(s, "PUT");
	ok(!strncmp(manifest->body, "hearth-tree 1\n", 14), "the manifest comes last");
	char hex[HASH_HEX_SIZE];
	hash_hex(manifest->body, manifest->body_n, hex);
	like(manifest->uri, hex, "under its digest");
	like(last_of(s, "POST")->body, hex, "which the job names");
	is_str(manifest->content_type, "application/octet-stream", "as bytes");
	all = 0;
	expect(s, "submit $T/job.json", 0, "3\n", "");
	is_int(count_of(s, "PUT", "/blobs/"), 4, "what is there is not sent again");
	unlink(big);
	free(big);
	js_stop(s);
}

/* ---- get ---- */

struct artifact {
	char *manifest, digest[HASH_HEX_SIZE], chunk[HASH_HEX_SIZE];
	const char *data;
	char list[512];
};

static void gives_blobs(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	const struct artifact *t = arg;
	(void)nth;
	a->type = "application/octet-stream";
	if (strstr(q->uri, "/jobs/7"))
		a->body = t->list;
	else if (strstr(q->uri, t->digest))
		a->body = t->manifest;
	else if (strstr(q->uri, t->chunk))
		a->body = t->data;
	else
		a->status = 404;
}

static void test_get(void)
{
	struct artifact t = {.data = "weights"};
	hash_hex("weights", 7, t.chunk);
	t.manifest = xasprintf("hearth-tree 1\nf 640 7 model.bin %s:0:7\n", t.chunk);
	hash_hex(t.manifest, strlen(t.manifest), t.digest);
	snprintf(t.list, sizeof(t.list),
	         "{\"artifacts\":[{\"kind\":\"model\",\"attempt\":1,\"node\":\"n1\",\"digest\":\"%064d\"},{"
	         "\"kind\":\"model\",\"attempt\":2,\"node\":"
	         "\"n1\",\"digest\":\"%s\"},{\"kind\":\"output\",\"attempt\":2,\"digest\":\"no\"}],\"id\":7}",
	         0, t.digest);
	struct js *s = js_start(gives_blobs, &t, NULL);
	char *want = xasprintf("%s/got\n", tap_tmpdir());
	expect(s, "get 7 model $T/got", 0, want, "");
	char *text = read_text("got/model.bin");
	is_str(text, "weights", "the newest attempt's file is there");
	free(text);
	like(last_of(s, "GET")->uri, "?job=7&kind=model", "asked for as part of the job");
	expect(s, "get 7 model $T/got", 4, "", "is not empty");
	expect(s, "get 7 model $T/got --force", 0, want, "");
	expect(s, "get 7 checkpoint $T/none", 3, "", "job 7 left no checkpoint");
	expect(s, "get 7 output $T/bad", 4, "", "which is not a digest");
	t.data = "weighty";
	expect(s, "get 7 model $T/torn", 4, "", "bytes that do not match the digest");
	char *torn = path_in("torn");
	ok(rmdir(torn) == 0, "and nothing is left of the attempt");
	free(torn);
	free(want);
	js_stop(s);
	free(t.manifest);
}

/* ---- logs ---- */

struct story {
	_Atomic int logs, shows;
	int kind;
};

/* The stream breaks in the middle, answers 503, goes on; then attempt 2; then the job has ended. */
static void two_attempts(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	static const char *const first = "one\ntwo\nthree\n";
	struct story *st = arg;
	const char *offset = strstr(q->uri, "offset=");
	(void)nth;
	a->body = "{\"id\":5}";
	if (!strcmp(q->method, "POST"))
		return;
	if (!strstr(q->uri, "/logs/")) {
		int n = ++st->shows;
		a->body = n < 3   ? "{\"status\":\"running\",\"attempt_count\":1}"
		          : n < 5 ? "{\"status\":\"starting\",\"attempt_count\":2}"
		                  : "{\"status\":\"completed\",\"attempt_count\":2}";
		return;
	}
	int n = ++st->logs;
	a->chunked = 1;
	a->headers[0] = "X-Hearth-Attempt";
	a->headers[1] = strstr(q->uri, "attempt=2") ? "2" : "1";
	a->headers[2] = "X-Hearth-Offset";
	if (n == 1) {
		a->headers[3] = "0";
		a->body = first;
		a->body_n = 6;
		a->cut = 1;
	} else if (n == 2) {
		a->chunked = 0;
		a->status = 503;
		a->body = "{}";
	} else if (!strstr(q->uri, "attempt=2")) {
		a->headers[3] = "6";
		a->body = first + (offset ? atoi(offset + 7) : 0);
	} else {
		a->headers[3] = "0";
		a->body = "four\n";
	}
}

static void test_follow(void)
{
	struct story st = {0};
	struct js *s = js_start(two_attempts, &st, NULL);
	expect(s, "logs 5 -f", 0, "one\ntwo\nthree\nfour\n", "[hearth: attempt 2]\njob 5 completed\n");
	like(js_seen(s, 0)->uri, "/logs/rank-0?offset=0&skip=0&follow=1&attempt=0",
	     "from the start, of the newest attempt");
	like(js_seen(s, 1)->uri, "offset=6&skip=0&follow=1&attempt=1",
	     "then from the next byte of the same attempt");
	js_stop(s);
	struct story third = {0};
	s = js_start(two_attempts, &third, NULL);
	expect(s, "logs 5 -f --json --grep [rw]", 0,
	       "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":4,\"text\":\"two\"}\n"
	       "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":8,\"text\":\"three\"}\n"
	       "{\"attempt\":2,\"stream\":\"rank-0\",\"offset\":0,\"text\":\"four\"}\n",
	       "[hearth: attempt 2]\njob 5 completed\n");
	js_stop(s);
	struct story sent = {0};
	s = js_start(two_attempts, &sent, NULL);
	put_file("plain.json", "{\"command\": [\"true\"]}\n");
	expect(s, "submit $T/plain.json -f --json", 0,
	       "{\n  \"id\": 5\n}\n{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":0,\"text\":\"one\"}\n"
	       "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":4,\"text\":\"two\"}\n"
	       "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":8,\"text\":\"three\"}\n"
	       "{\"attempt\":2,\"stream\":\"rank-0\",\"offset\":0,\"text\":\"four\"}\n",
	       "job 5 completed\n");
	js_stop(s);
	struct story again = {0};
	s = js_start(two_attempts, &again, NULL);
	expect(s, "logs 5 -f --grep [ne]e$", 0, "one\nthree\n", NULL);
	js_stop(s);
}

static void simple_logs(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	struct story *st = arg;
	(void)nth;
	if (strstr(q->uri, "/logs?") || !strcmp(q->uri, "/api/v1/jobs/5/logs")) {
		a->body = "{\"streams\":[{\"stream\":\"setup-algo-1\",\"size\":5,\"attempt\":1},{\"stream\":"
		          "\"mpirun\",\"size\":0,\"attempt\":1}]}";
	} else if (strstr(q->uri, "/logs/setup-algo-1")) {
		a->chunked = 1;
		a->body = "pip!\n";
	} else if (strstr(q->uri, "/logs/rank-1?")) {
		a->chunked = 1;
		a->body = "later\n";
		a->headers[0] = "X-Hearth-Offset";
		a->headers[1] = "100";
		a->hang = strstr(q->uri, "follow=1") != NULL;
	} else if (strstr(q->uri, "/logs/") || strstr(q->uri, "/why")) {
		a->status = 404;
		a->body = "{\"detail\":\"no such stream\"}";
	} else {
		a->body = st->kind ? "{\"status\":\"running\",\"attempt_count\":1}"
		                   : "{\"status\":\"failed\",\"reason\":\"it broke\",\"attempt_count\":1}";
	}
}

static void test_logs(void)
{
	struct story st = {0};
	struct js *s = js_start(simple_logs, &st, NULL);
	expect(s, "logs 5", 0, "pip!\n", "rank 0 wrote nothing; showing stream setup-algo-1");
	expect(s, "logs 5 -f", 1, "pip!\n", "rank 0 wrote nothing");
	expect(s, "logs 5 -f", 1, "pip!\n", "job 5 failed: it broke\nMore: jobctl show 5");
	expect(s, "logs 5 -s mpirun -a 1 -f", 3, "", "no such stream");
	expect(s, "logs 5 --rank 7", 3, "", "The streams are: setup-algo-1, mpirun");
	expect(s, "logs 5 -a 1", 0, "pip!\n", "rank 0 wrote nothing");
	struct run r;
	finish(&r, start(js_url(s), "logs 5 -a 9", -1));
	like(r.err, "jobctl: job 5 has only 1 attempt; attempt 9 does not exist\n",
	     "no stream of another attempt");
	run_fini(&r);
	expect(s, "logs 5 --rank 1", 0, "[hearth: 100 earlier bytes are no longer stored]\nlater\n", "");
	expect(s, "logs 5 --rank 1 --offset -50 --attempt 3", 0, "later\n", "");
	like(last_of(s, "GET")->uri, "/logs/rank-1?offset=-50&skip=0&follow=0&attempt=3",
	     "a place before the end, an attempt");
	expect(s, "logs 5 --stream setup --node 2", 3, "", "no such stream");
	is_int(count_of(s, "GET", "/logs/setup?offset=0&skip=0&follow=0&attempt=0&node=algo-2"), 1,
	       "a node by number");
	expect(s, "logs 5 --node big-1", 3, "", NULL);
	is_int(count_of(s, "GET", "/logs/rank?offset=0&skip=0&follow=0&attempt=0&node=big-1"), 1,
	       "a node by name");
	js_stop(s);
}

/* Ctrl-C while nothing comes: it ends at once, the job is left alone. */
static void interrupt_one(const char *line, unsigned after, const char *err)
{
	struct story st = {.kind = 1};
	struct js *s = js_start(simple_logs, &st, NULL);
	struct run r;
	pid_t pid = start(js_url(s), line, -1);
	is_int(js_wait(s, after, 20000), 0, "it runs");
	/* Until it has shown what there is, so that it waits now. */
	for (int i = 0; i < 2000 && after == 1; i++) {
		char *text = read_text("stdout");
		int there = strstr(text, "later") != NULL;
		free(text);
		if (there)
			break;
		poll(NULL, 0, 10);
	}
	kill(pid, SIGINT);
	finish(&r, pid);
	is_int(r.code, 130, line);
	like(r.err, err, "says what it says");
	is_int(count_of(s, "POST", "/stop"), 0, "and stops no job");
	run_fini(&r);
	js_stop(s);
}

static void closed_reader(struct js *s)
{
	int fds[2];
	struct run r;
	if (pipe2(fds, O_CLOEXEC))
		tap_bail("pipe");
	close(fds[0]);
	pid_t pid = start(js_url(s), "ls", fds[1]);
	close(fds[1]);
	finish(&r, pid);
	is_int(r.code, 141, "nobody reads its output");
	is_str(r.err, "", "which is no error to speak of");
	run_fini(&r);
	int full = open("/dev/full", O_WRONLY);
	pid = start(js_url(s), "ls", full);
	close(full);
	finish(&r, pid);
	is_int(r.code, 4, "a full disk");
	like(r.err, "standard output: No space left on device", "is one");
	run_fini(&r);
}

/* ---- events ---- */

static void event_story(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	struct story *st = arg;
	(void)nth;
	if (strstr(q->uri, "/events?")) {
		a->body = "{\"events\":[{\"id\":4,\"type\":\"placed\",\"data\":{}}]}";
		return;
	}
	a->chunked = 1;
	a->type = "text/event-stream";
	if (++st->logs == 1) {
		a->cut = 1;
		a->body = ": beat\n\nid: 5\nevent: launching\ndata: "
		          "{\"id\":5,\"type\":\"launching\",\"data\":{}}\n\nid: 6\ndata: {\"id\":6,";
	} else {
		a->hang = 1;
		a->body = "id: 6\r\ndata: "
		          "{\"id\":6,\"type\":\"outcome\",\"data\":{}}\r\n\r\ndata:{\"id\":7,\"type\":\"ended\","
		          "\"data\":{}}\n\n";
	}
}

static void test_events(void)
{
	struct story st = {0};
	struct js *s = js_start(event_story, &st, NULL);
	struct run r;
	finish(&r, start(js_url(s), "events 5 -f --json", -1));
	is_int(r.code, 0, "events until the job has ended");
	is_str(r.out,
	       "{\"id\":4,\"type\":\"placed\",\"data\":{}}\n{\"id\":5,\"type\":\"launching\",\"data\":{}}\n"
	       "{\"id\":6,\"type\":\"outcome\",\"data\":{}}\n{\"id\":7,\"type\":\"ended\",\"data\":{}}\n",
	       "each once, over a broken connection");
	is_str(js_seen(s, 1)->last_event_id, "4", "behind what was read");
	is_str(js_seen(s, 2)->last_event_id, "5", "and behind what was seen");
	run_fini(&r);
	js_stop(s);
}

/* ---- the exit codes, every verb ---- */

static void one_status(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	(void)q;
	(void)nth;
	a->status = *(const int *)arg;
	a->body = "{\"detail\":\"no\"}";
}

/* Whatever is asked for: what the controller says decides, not which verb it was. (Following and waiting give
 * a controller that is away five minutes: they have tests of their own.) */
static void test_codes(void)
{
	static const char *const lines =
	    "ls|show 7|show 7 --ranks|why 7|top|stop 7|hold 7|release 7|requeue 7|set 7 time=1h|tag 7 a=b|note 7 "
	    "x|pin 7|unpin 7|rm 7 --yes|logs 7|logs 7 -l|get 7 model|metrics 7|metrics 7 a|events 7|diff 7 "
	    "8|clone 7|nodes|node drain a|node resume a|node rm a|node rm a --yes|show name|dash|token "
	    "create|submit "
	    "$T/codes.json";
	static int codes[][2] = {{400, 2}, {403, 4}, {404, 3}, {409, 4}, {422, 4}, {503, 5}, {504, 124}, {0}};
	put_file("codes.json", "{\"command\": [\"x\"]}");
	for (size_t k = 0; codes[k][0]; k++) {
		struct js *s = js_start(one_status, codes[k], NULL);
		char *copy = xstrdup(lines), *save = NULL;
		for (char *l = strtok_r(copy, "|", &save); l; l = strtok_r(NULL, "|", &save))
			expect(s, l, codes[k][1], NULL, "jobctl: ");
		free(copy);
		js_stop(s);
	}
}

int main(void)
{
	setenv("HOME", tap_tmpdir(), 1);
	setenv("TZ", "UTC", 1);
	signal(SIGINT, SIG_DFL); /* ignored where a shell runs this in the background */
	setenv("HEARTH_PATIENCE", "0", 1);
	static const char *const unset[] = {"HEARTH_TOKEN", "HEARTH_CA", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
	                                    "NO_COLOR"};
	for (size_t i = 0; i < 5; i++)
		unsetenv(unset[i]);
	if (!getenv("HEARTH_TOP_BUILDDIR"))
		tap_bail("HEARTH_TOP_BUILDDIR is not set");
	test_usage();
	struct js *s = js_start(jobctl_answers, NULL, NULL);
	test_reading(s);
	test_members(s);
	test_json(s);
	test_changing(s);
	test_waiting(s);
	test_submit(s);
	closed_reader(s);
	js_stop(s);
	test_upload();
	test_get();
	test_follow();
	test_logs();
	interrupt_one("logs 5 --rank 1 -f", 1, "");
	interrupt_one("wait 9", 2, "");
	test_events();
	test_codes();
	return tap_done();
}
