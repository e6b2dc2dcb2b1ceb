/* The verbs of jobctl against a scripted controller: what they send, what they print, how they end. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"
#include "tests/lib/golden.h"
#include "tests/unit/jobctl/jobctl_answers.h"
#include "tests/unit/jobctl/jobctl_run.h"
#include "tests/unit/jobctl/jobctl_server.h"

static void test_members(struct js *s)
{
	static const char *const shown[] = {
	    "3 members: 1 running, 1 waiting, 1 completed", "ID  STATUS       lr  opt  loss",
	    "17.1  completed  0.01  sgd  0.25   0.5    40", "17.0  queued      0.1  a?b",
	    "1 more member: jobctl show 17 --members 0",    NULL};
	jr_expect_lines(s, "show 17", shown);
	jr_expect_lines(s, "metrics 17", shown + 1);
	jr_expect_lines(s, "show 17 --members 2", shown + 1);
}

/* A token goes out in the clear to this machine only, and a prefix of its names is not one of them. */
static void test_login_url(void)
{
	static const char *const far[] = {"http://localhost.evil.org", "http://127.evil.org:7070",
	                                  "http://127.0.0.1.evil.org", "http://localhost@evil.org",
	                                  "http://evil.org",           "https://127.0.0.1@evil.org",
	                                  "ftp://localhost",           "localhost:7070"};
	static const char *const near[] = {"http://localhost:7070", "http://127.0.0.1:7070", "http://127.1.2.3",
	                                   "http://[::1]:7070", "https://evil.org"};

	for (unsigned i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
		cleanup_free char *line = xasprintf("login %s", far[i]);

		jr_expect(NULL, line, 2, "", "expected https://HOST:PORT without a user name");
	}
	for (unsigned i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
		cleanup_free char *line = xasprintf("login %s", near[i]);

		jr_expect(NULL, line, 2, "", "no token came on standard input");
	}
}

static void test_usage(void)
{
	jr_expect(NULL, "", 2, "", "usage: jobctl");
	jr_expect(NULL, "frobnicate", 2, "", "unknown verb 'frobnicate'");
	jr_expect(NULL, "sumbit", 2, "", "did you mean 'submit'?");
	jr_expect(NULL, "node", 2, "", "jobctl node drain NODE...");
	jr_expect(NULL, "node drian", 2, "", "unknown verb 'node drian'; did you mean 'node drain'?");
	jr_expect(NULL, "node frobnicate", 2, "",
	          "unknown verb 'node frobnicate'; the verbs are:\n  jobctl node drain NODE...");
	jr_expect(
	    NULL, "reserve add x", 2, "",
	    "missing --nodes A,B or --count N; --to TIME or --for DURATION; --queue QUEUE or --maintenance");
	jr_expect(NULL, "reserve add x --count 1 -m", 2, "",
	          "reserve add: missing --to TIME or --for DURATION\n");
	jr_expect(NULL, "checkpoint 3", 2, "", "not built yet");
	jr_expect(NULL, "--bogus ls", 2, "", "unknown option --bogus before the verb");
	jr_expect(NULL, "ls --lmit 3", 2, "", "ls: unknown option --lmit (did you mean --limit?)");
	jr_expect(NULL, "show", 2, "", "show: expected JOB");
	jr_expect(NULL, "show 1 2", 2, "", "show: got 2 jobs, expected one JOB");
	jr_expect(NULL, "help", 0, NULL, "");
	jr_expect(NULL, "help show", 0, NULL, "");
	jr_expect(NULL, "help node drain", 0, NULL, "");
	jr_expect(NULL, "help queue", 0, NULL, "");
	jr_expect(NULL, "local --help", 0, NULL, "");
	jr_expect(NULL, "queue -h", 0, NULL, "");
	jr_expect(NULL, "help frobnicate", 2, "", "unknown verb 'frobnicate'");
	jr_expect(NULL, "ls --limit 5000", 2, "", "--limit '5000': expected a whole number from 1 to 1000");
	jr_expect(NULL, "logs 3 --rank x", 2, "", "--rank 'x': expected a number, a list (0,2), a range (0-3)");
	jr_expect(NULL, "logs 3 --list --tail 3", 2, "", "--tail is only for the lines of one stream");
	jr_expect(NULL, "logs 3 --rank 1 --stream mpirun", 2, "", "--rank or --stream, not both");
	jr_expect(NULL, "logs 3 --grep a(b", 2, "", "at character 4");
	jr_expect(NULL, "logs 3 --offset --5", 2, "", "--offset '--5'");
	jr_expect(NULL, "wait 3 --for ever", 2, "", "expected running, step>N or end");
	jr_expect(NULL, "wait 3 --timeout soon", 2, "", "--timeout");
	jr_expect(NULL, "set 3 prioriti=4", 2, "", "did you mean 'priority'?");
	jr_expect(NULL, "set 3 priority=4.5", 2, "", "from -1000 to 1000");
	jr_expect(NULL, "set 3 priority=1 priority=2", 2, "", "the key 'priority' appears twice");
	jr_expect(NULL, "set 3 time=long", 2, "", "time: ");
	jr_expect(NULL, "tag 3 x", 2, "", "expected KEY=VALUE");
	jr_expect(NULL, "get 3 weights", 2, "", "expected model, output, checkpoint or code");
	jr_expect(NULL, "show 0", 2, "", "ids start at 1");
	jr_expect(NULL, "stop 5-3", 2, "", "range '5-3'");
	jr_expect(NULL, "ls hp.lr>=1", 4, "", "not built yet");
	jr_expect(NULL, "--version", 0, "jobctl " PACKAGE_VERSION "\n", NULL);
	jr_expect(NULL, "show --help", 0, NULL, "");
	jr_expect(NULL, "--url ftp://x ls", 2, "", "expected http://HOST:PORT");
	jr_expect(NULL, "--url http://127.0.0.1:1 ls", 5, "", "no controller at http://127.0.0.1:1 (from --url)");
	jr_expect(NULL, "ls --url http://127.0.0.1:1", 5, "", "jobctl local up");
}

static void test_reading(struct js *s)
{
	jr_expect(
	    s, "show 7 --ranks", 0,
	    "RANK  NODE  STATE   EXIT  SIGNAL  OOM  PID  RAN  TEXT\n   0  n1    exited     0       -  -      "
	    "5    -  -\n",
	    "");
	jr_expect(s, "why last", 0, "Job 7 has completed: it is done\n", "");
	jr_expect(s, "metrics 7", 0,
	          "METRIC  LAST  MIN  MAX  STEP  POINTS  OF\nloss     0.5  0.5    2    40       9  rank 0 of 4, "
	          "attempt 1\n",
	          "");
	jr_expect(s, "metrics 7 --attempt 3 --rank 2", 0,
	          "No metrics of rank 2 in that attempt. To see all metrics of the job: jobctl metrics 7\n", "");
	jr_expect(s, "metrics 7 --csv", 2, "", "--csv needs the name of a metric: jobctl metrics 7 NAME");
	jr_expect(s, "metrics 7 big", 0,
	          "big  ▁█\n"
	          "rank 1 of 2, attempt 2: 7 points, last 3 at step 70, min 1, max 6; 1 is not a number (NaN)\n"
	          "Each line has the mean, min and max of about 4 points; to see all points: --points 0\n"
	          "FROM STEP  MEAN  MIN  MAX  NAN\n"
	          "       10     2    1    3    1\n"
	          "       50     4    2    6    0\n",
	          "");
	jr_expect(s, "metrics 7 big --csv", 0,
	          "step,time,mean,min,max,points,nan\n10,1.500000,2,1,3,4,1\n50,2.500000,4,2,6,3,0\n",
	          "7 points are condensed to 2");
	jr_expect(s, "metrics 7 one", 0,
	          "one   \n"
	          "rank 0, attempt 1: 1 point, last nan, min -, max -; 1 is not a number (NaN)\n"
	          "POINT  VALUE\n"
	          "    1    nan\n",
	          "");
	jr_expect(s, "metrics 7 loss --csv", 0, "step,time,value\n1,1.500000,2\n,2.500000,nan\n3,3.500000,0.5\n",
	          "");
	jr_expect(s, "metrics 27 nope", 3, "", "no member of job 27 reported the metric \"nope\"");
	jr_expect(s, "metrics 17 nope", 0,
	          "  ID  STATUS  nope  LAST  STEP  RAN  REASON\n17.0  -          -     -     -    -  -\n",
	          "Note: no member of job 17 has reported the metric \"nope\" yet");
	jr_expect(s, "nodes", 0,
	          "NODE  STATE  ADDRESS   TYPE  GPUS  GPU                  SLOTS  MEMORY  LOAD  JOBS  REASON\n"
	          "n1    up     10.0.0.1  -      1/4  3x A1 2.0GiB, 1x T4    2/8  1.0GiB     -  7     -\n",
	          "");
	jr_expect(s, "metrics 7 lo/ss", 3, "", "no such thing");
	jr_expect(s, "events 7", 0,
	          "TIME (UTC)          EVENT            WHAT\n2026-01-02 03:04:05 submitted        hello n=3\n- "
	          "ended         "
	          "   \n",
	          "");
	jr_expect(NULL, "simulate $T/nothing.csv --nodes 1 --gpus-per-node 1", 2, "",
	          "nothing.csv: No such file");
	jr_expect(s, "logs 7 --list", 0, NULL, "");
	jr_expect(s, "show 404", 3, "", "there is no such thing");
	jr_expect(s, "diff 7 7", 0, "No difference.\n", "");
	jr_expect(s, "completion bash", 0, NULL, "");
	jr_expect(s, "completion words 2 -- jobctl stop 7", 0, "7\n", "");
	jr_expect(s, "completion words 3 -- jobctl node drain n", 0, "n1\n", "");
	struct run r;
	jr_finish(&r, jr_start(js_url(s), "show 7", -1));
	like(r.out, "a?[1m", "control characters of a name do not reach the terminal");
	like(r.out, "jobctl get 7 model", "what it left, and how to get it");
	ok(!strstr(r.out, "get 7 checkpoint") && strstr(r.out, "1 file, removed\n"), "and what is gone");
	run_fini(&r);
	jr_finish(&r, jr_start(js_url(s), "show 9", -1));
	like(r.out, "failed (rule oops) on n1",
	     "an attempt that a rule ended names the rule, not an unknown class");
	run_fini(&r);
	jr_finish(&r, jr_start(js_url(s), "diff 7 8", -1));
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
	                                    "retry 7",
	                                    "node drain n1",
	                                    "local status",
	                                    "set 7 priority=1",
	                                    NULL};
	for (size_t i = 0; lines[i]; i++) {
		char *line = xasprintf("%s --json", lines[i]);
		struct run r;
		struct err e = {0};
		jr_finish(&r, jr_start(js_url(s), line, -1));
		cJSON *j = json_parse(r.out, strlen(r.out), &e);
		ok(j, "jobctl %s gives JSON (%s)", line, j ? "good" : e.text);
		cJSON_Delete(j);
		run_fini(&r);
		free(line);
	}
}

static void test_changing(struct js *s)
{
	jr_expect(s, "stop 7 8 9 --grace 1m", 4, "job 7 is being stopped\njob 9 is being stopped\n",
	          "jobctl: job 8 has ended\n");
	is_str(js_last_of(s, "POST")->body, "{\"grace_s\":60}", "the grace time in seconds");
	jr_expect(s, "stop 8", 4, "", "jobctl: job 8 has ended");
	jr_expect(s, "set 7 priority=-5 time=1h30m queue=q", 0, "job 7 is changed\n", "");
	is_str(js_last_of(s, "PATCH")->body, "{\"priority\":-5,\"time\":5400,\"queue\":\"q\"}",
	       "all in one call");
	jr_expect(s, "tag 7 a=b c=d=e f-", 0, "job 7 is tagged\n", "");
	is_str(js_last_of(s, "PATCH")->body, "{\"tags\":{\"a\":\"b\",\"c\":\"d=e\",\"f\":null}}",
	       "tags set and removed");
	jr_expect(s, "note 7 looks good", 0, "job 7 has a new note\n", "");
	is_str(js_last_of(s, "PATCH")->body, "{\"notes\":\"looks good\"}", "words become one text");
	jr_expect(s, "pin 7", 0, NULL, "");
	is_str(js_last_of(s, "PATCH")->body, "{\"pinned\":true}", "pinned");
	jr_expect(s, "rm 7", 0, "job 7 is removed\n", "");
	jr_expect(s, "clone 7 --set hyperparameters.lr=0.1 --set environment.N=3 --name x", 0, "18\n", "");
	is_str(js_last_of(s, "POST")->body,
	       "{\"set\":{\"hyperparameters.lr\":0.1,\"environment.N\":\"3\",\"name\":\"x\"}}",
	       "changes go to the controller");
	jr_expect(s, "retry 7 --from 1200 --hold", 0, "19\n", "it begins with step 1200 of job 7\n");
	is_str(js_last_of(s, "POST")->body, "{\"from_step\":1200,\"hold\":true}", "a retry names the step");
	jr_expect(s, "retry 7 --json", 0, NULL, "");
	is_str(js_last_of(s, "POST")->body, "{}", "without a step the controller chooses");
	jr_expect(s, "retry 7 --from x", 2, "", "--from 'x': expected a whole number");
	jr_expect(s, "clone 7 --set x", 2, "", "expected KEY=VALUE");
	jr_expect(s, "clone 7 --dry-run --after last", 0, NULL, "Note: nobody reads loss");
	is_str(js_last_of(s, "POST")->body, "{\"set\":{\"after\":[\"after:3\",\"afterok:7\"]},\"dry_run\":true}",
	       "a dry run, and one more to wait for");
	jr_expect(s, "clone 7 --after what:7", 2, "", "--after 'what:7': expected JOB");
	jr_expect(s, "node drain n1 nope --reason r", 3,
	          "node n1 accepts no new jobs; its running jobs continue\n", "no such thing");
	jr_expect(s, "node rm n1", 4, "", "node n1 has 1 job");
	is_str(js_last_of(s, "DELETE")->uri, "/api/v1/nodes/n1", "nothing is forced without a word");
	jr_expect(s, "node rm n1 --yes", 0, "node n1 is removed; its certificate is no longer accepted\n", "");
	is_str(js_last_of(s, "DELETE")->uri, "/api/v1/nodes/n1?force=1", "--yes says that it is certain");
	jr_expect(s, "token create --ttl 2h", 0, "hj_abc\n", "");
	is_str(js_last_of(s, "POST")->body, "{\"kind\":\"join\",\"ttl_s\":7200}", "its life in seconds");
	char *want = xasprintf("%s/login?code=c\n", js_url(s));
	jr_expect(s, "dash", 0, want, "");
	free(want);
	jr_expect(s, "ls tag.a=b my status:failed text", 0, NULL, "");
	like(js_last_of(s, "GET")->uri, "&mine=1&tag=a%3Ab&status=failed&text=my%20text", "the query");
	jr_expect(s, "ls status:failed status:stopped", 2, "", "'status:stopped': expected only one status");
	jr_expect(s, "ls tag.a tag.b=c", 2, "", "'tag.b=c': expected only one tag");
	jr_expect(s, "ls owner:bob", 0, NULL, "");
	like(js_last_of(s, "GET")->uri, "limit=50&owner=bob", "a named owner's, not mine");
}

static void test_waiting(struct js *s)
{
	jr_expect(s, "wait 7", 0, "7 completed\n", "");
	jr_expect(s, "wait 7 8 --exit-code", 1, "7 completed\n8 failed\n", "");
	jr_expect(s, "wait 9 --for running", 0, "9 running\n", "");
	jr_expect(s, "wait 9 --for step>39", 0, "9 running\n", "");
	jr_expect(s, "wait 8 --for step>9", 1, "8 failed\n", "ended before it passed step 9");
	jr_expect(s, "wait 9 --timeout 1", 124, "", "job 9 is still running");
	jr_expect(s, "wait 404", 3, "", NULL);
	jr_expect(s, "wait 7 404 8", 3, "7 completed\n8 failed\n", "jobctl: there is no such thing\n");
	jr_expect(s, "wait 7,40-45", 3, "7 completed\n", "jobctl: 6 of the jobs 40-45 do not exist\n");
	is_int(js_count_of(s, "GET", "/jobs/41"), 0, "a range is asked for by one list");
}

/* ---- submit ---- */

static void test_submit(struct js *s)
{
	char *dir = jr_path("src");
	mkdir(dir, 0755);
	free(dir);
	jr_put_file("src/train.py", "print(1)\n");
	jr_put_file("job.json", "{\"command\": [\"true\"], \"source_dir\": \"src\"}\n");
	jr_expect(s, "submit $T/job.json", 0, "17\n", "");
	const struct js_seen *q = js_last_of(s, "POST");
	cJSON *body = json_parse(q->body, q->body_n, NULL);
	is_str(cJSON_GetStringValue(cJSON_GetObjectItem(body, "spec")),
	       "{\"command\": [\"true\"], \"source_dir\": \"src\"}\n", "the text as written");
	ok(hash_is_hex(cJSON_GetStringValue(cJSON_GetObjectItem(body, "bundle"))),
	   "with the digest of the folder");
	ok(q->idempotency_key, "and a key");
	cJSON_Delete(body);
	jr_expect(s, "submit $T/job.json --set priority=3 --name n --hold", 0, "17\n", "");
	like(js_last_of(s, "POST")->body, "\\\"priority\\\":", "changed");
	like(js_last_of(s, "POST")->body, "\"hold\":true", "and held");
	unsigned before = js_count(s);
	jr_expect(s, "submit $T/nothing.json", 2, "", "nothing.json: No such file");
	jr_expect(s, "submit $T", 2, "", NULL);
	jr_put_file("bad.json", "{\"command\": [\"true\"],}");
	jr_expect(s, "submit $T/bad.json", 2, "", "bad.json: line 1 column 22");
	jr_put_file("bad.json", "{\"comand\": [\"true\"], \"name\": 5, \"resources\": {\"instances\": \"two\"}}");
	jr_expect(s, "submit $T/bad.json", 2, "", "bad.json: comand: unknown key; did you mean \"command\"?");
	jr_expect(s, "submit $T/bad.json", 2, "", "bad.json: resources.instances: expected");
	jr_put_file("bad.json", "{\"command\": [\"true\"], \"source_dir\": \"../nowhere\"}");
	jr_expect(s, "submit $T/bad.json", 2, "", "nowhere: No such file or directory");
	jr_put_file("bad.json", "{\"command\": [\"true\"], \"source_dir\": \"job.json\"}");
	jr_expect(s, "submit $T/bad.json", 2, "", "job.json is not a directory");
	jr_put_file("bad.json", "{\"command\": [\"true\"], \"name\": \"../x\"}");
	jr_expect(s, "submit $T/bad.json", 2, "", "bad.json: name '../x' must begin");
	jr_expect(s, "submit -", 2, "", "standard input: line 1");
	is_int(js_count(s), before, "none of that reached the controller");
	jr_put_file("src/.hearthignore", "*.py\n");
	int before_put = js_count_of(s, "PUT", "/blobs/");
	jr_expect(s, "submit $T/job.json --dry-run", 0,
	          "Hearth would accept this job.\nTime limit: 1d, the cluster's default. To change it: --set "
	          "limits.max_runtime_s=SECONDS, or later jobctl set JOB time=DURATION\n",
	          "");
	like(js_last_of(s, "POST")->body, "\"dry_run\":true", "a dry run says so");
	like(js_last_of(s, "POST")->body, "\"bundle\":\"", "with the digest of the source, for warm pools");
	is_int(js_count_of(s, "PUT", "/blobs/"), before_put, "and sends no source");
}

static void closed_reader(struct js *s)
{
	int fds[2];
	struct run r;
	if (pipe2(fds, O_CLOEXEC))
		tap_bail("pipe");
	close(fds[0]);
	pid_t pid = jr_start(js_url(s), "ls", fds[1]);
	close(fds[1]);
	jr_finish(&r, pid);
	is_int(r.code, 141, "nobody reads its output");
	is_str(r.err, "", "which is no error to speak of");
	run_fini(&r);
	int full = open("/dev/full", O_WRONLY);
	pid = jr_start(js_url(s), "ls", full);
	close(full);
	jr_finish(&r, pid);
	is_int(r.code, 4, "a full disk");
	golden("jobctl/verbs-standard-output-no-space-left-on-device", r.err);
	run_fini(&r);
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
	jr_put_file("codes.json", "{\"command\": [\"x\"]}");
	for (size_t k = 0; codes[k][0]; k++) {
		struct js *s = js_start(one_status, codes[k], NULL);
		char *copy = xstrdup(lines), *save = NULL;
		for (char *l = strtok_r(copy, "|", &save); l; l = strtok_r(NULL, "|", &save))
			jr_expect(s, l, codes[k][1], NULL, "jobctl: ");
		free(copy);
		js_stop(s);
	}
}

int main(void)
{
	jr_init();
	test_usage();
	test_login_url();
	struct js *s = js_start(jobctl_answers, NULL, NULL);
	test_reading(s);
	test_members(s);
	test_json(s);
	test_changing(s);
	test_waiting(s);
	test_submit(s);
	closed_reader(s);
	js_stop(s);
	test_codes();
	return tap_done();
}
