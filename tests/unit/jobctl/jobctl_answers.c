/*
 * jobctl_answers: see jobctl_answers.h.
 */
#include "tests/unit/jobctl/jobctl_answers.h"

#include "common/base/xalloc.h"
#include <stdlib.h>
#include <string.h>

static const char *const answers[] = {
    /* method and beginning of the path (the longest that fits counts), answer */
    "GET /api/v1/jobs?",
    "{\"jobs\":[{\"id\":7,\"name\":\"a\",\"owner\":\"me\",\"status\":\"running\",\"nodes\":2,\"gpus\":0,"
    "\"created_at\":"
    "\"2026-01-02T03:04:05.000000Z\",\"started_at\":null,\"reason\":\"\"}],\"next\":null}",
    "GET /api/v1/jobs/resolve",
    "{\"id\":7}",
    "GET /api/v1/jobs/7",
    "{\"id\":7,\"name\":\"a\\u001b[1m\",\"owner\":\"me\",\"status\":\"completed\",\"exit_code\":0,\"created_"
    "at\":"
    "\"2026-01-02T03:04:05.000000Z\",\"attempt_count\":1,\"tags\":{\"team\":\"x\"},\"attempts\":[{\"number\":"
    "1,"
    "\"outcome\":\"succeeded\",\"nodes\":[\"n1\",\"n2\"],\"phases\":[]}],\"metrics\":{\"loss\":{\"last\":0.5,"
    "\"min\":0.5,"
    "\"max\":2,\"step\":40,\"count\":9}},\"artifacts\":[{\"kind\":\"model\",\"size_bytes\":10,\"files\":1},"
    "{\"kind\":\"checkpoint\",\"size_bytes\":10,\"files\":1,\"removed_at\":\"2026-01-02T03:04:05Z\"}],"
    "\"spec\":{\"after\":[\"after:3\"]}}",
    "GET /api/v1/jobs/8",
    "{\"id\":8,\"name\":\"b\",\"status\":\"failed\",\"reason\":\"rank 3 exited with "
    "1\",\"attempt_count\":1,\"metrics\":{}}",
    "GET /api/v1/jobs/9",
    "{\"id\":9,\"name\":\"c\",\"status\":\"running\",\"attempt_count\":1,\"metrics\":{\"loss\":{\"step\":40,"
    "\"last\":1}},\"attempts\":[{\"number\":1,\"outcome\":\"failed\",\"class\":\"unknown\",\"nodes\":[\"n1\"]"
    ","
    "\"phases\":[],\"evidence\":{\"watch\":{\"kind\":\"oops\"}}}]}",
    "GET /api/v1/jobs/7/why",
    "{\"status\":\"completed\",\"text\":\"it is done\"}",
    "GET /api/v1/jobs/7/ranks",
    "{\"ranks\":[{\"rank\":0,\"node\":\"n1\",\"state\":\"exited\",\"exit_code\":0,\"signal\":null,\"oom\":"
    "false,"
    "\"pid\":5}]}",
    "GET /api/v1/jobs/7/run",
    "{\"facts\":[{\"kind\":\"pip\",\"text\":\"torch==2.1\\nnumpy==1\"},{\"kind\":\"phases\",\"text\":\"1\"}]"
    "}",
    "GET /api/v1/jobs/17",
    "{\"id\":17,\"ref\":\"17\",\"name\":\"s\",\"status\":\"running\",\"attempt_count\":0,\"metrics\":{},"
    "\"members\":{\"count\":3,\"waiting\":1,\"running\":1,\"completed\":1,\"failed\":0,\"stopped\":0}}",
    "GET /api/v1/jobs/17/metrics",
    "{}",
    "GET /api/v1/jobs/17/members",
    "{\"metric\":\"loss\",\"goal\":\"min\",\"made\":3,\"members\":[{\"id\":19,\"ref\":\"17.1\",\"status\":"
    "\"completed\",\"values\":{\"lr\":0.01,\"opt\":\"sgd\"},\"metric\":{\"best\":0.25,\"last\":0.5,\"step\":"
    "40},"
    "\"reason\":\"\"},{\"id\":18,\"ref\":\"17.0\",\"status\":\"queued\",\"values\":{\"lr\":0.1,\"opt\":"
    "\"a\\u001bb\"},\"metric\":null,\"reason\":\"\"}]}",
    "GET /api/v1/jobs/17/members?limit=0&metric=nope",
    "{\"metric\":\"nope\",\"goal\":\"min\",\"made\":1,\"members\":[{\"id\":18,\"ref\":\"17.0\",\"values\":{},"
    "\"metric\":null}]}",
    "GET /api/v1/jobs/27",
    "{\"id\":27,\"ref\":\"27\",\"name\":\"t\",\"status\":\"completed\",\"members\":{\"count\":1}}",
    "GET /api/v1/jobs/27/members?limit=0&metric=nope",
    "{\"metric\":\"nope\",\"goal\":\"min\",\"made\":1,\"members\":[{\"id\":28,\"ref\":\"27.0\",\"values\":{},"
    "\"metric\":null}]}",
    "GET /api/v1/jobs/8/run",
    "{\"facts\":[{\"kind\":\"pip\",\"text\":\"torch==2.2\\nnumpy==1\"},{\"kind\":\"phases\",\"text\":\"2\"}]"
    "}",
    "GET /api/v1/jobs/7/events",
    "{\"events\":[{\"id\":1,\"at\":\"2026-01-02T03:04:05.000000Z\",\"type\":\"submitted\",\"data\":{\"text\":"
    "\"hello\",\"n\":3}},{\"id\":2,\"at\":null,\"type\":\"ended\",\"data\":{}}]}",
    "GET /api/v1/jobs/7/metrics",
    "{\"loss\":{\"last\":0.5,\"min\":0.5,\"max\":2,\"step\":40,\"count\":9,\"attempt\":1,\"rank\":0,"
    "\"ranks\":4}}",
    "GET /api/v1/jobs/7/metrics?attempt=3&rank=2",
    "{}",
    "GET /api/v1/jobs/7/metrics/big",
    "{\"name\":\"big\",\"attempt\":2,\"rank\":1,\"count\":7,\"last\":3,\"min\":1,\"max\":6,\"step\":70,"
    "\"raw\":false,"
    "\"ranks\":[1,2],\"attempts\":[1,2],\"points\":[[10,1.5,2,1,3,4,1],[50,2.5,4,2,6,3,0]]}",
    "GET /api/v1/jobs/7/metrics/one",
    "{\"name\":\"one\",\"attempt\":1,\"rank\":0,\"count\":1,\"last\":\"nan\",\"min\":null,\"max\":null,"
    "\"step\":null,"
    "\"raw\":true,\"ranks\":[0],\"attempts\":[1],\"points\":[[null,1.5,\"nan\"]]}",
    "GET /api/v1/jobs/7/metrics/loss",
    "{\"points\":[[1,1.5,2],[null,2.5,\"nan\"],[3,3.5,0.5]]}",
    "GET /api/v1/jobs/7/logs?",
    "{\"streams\":[]}",
    "GET /api/v1/jobs/7/logs",
    "{\"streams\":[{\"attempt\":1,\"stream\":\"rank-0\",\"size\":10,\"complete\":true},{\"attempt\":1,"
    "\"stream\":"
    "\"mpirun\",\"size\":3,\"complete\":true}]}",
    "GET /api/v1/nodes",
    "{\"nodes\":[{\"name\":\"n1\",\"state\":\"up\",\"address\":\"10.0.0.1\",\"gpus\":4,\"gpus_used\":1,"
    "\"slots\":8,"
    "\"gpu_list\":[{\"model\":\"A1\",\"memory_bytes\":2147483648},{\"model\":\"A1\",\"memory_bytes\":"
    "2147483648},"
    "{\"model\":\"A1\",\"memory_bytes\":2147483648},{\"model\":\"T4\"}],"
    "\"slots_used\":2,\"memory_bytes\":1073741824,\"jobs\":[7]}]}",
    "GET /api/v1/top",
    "{\"nodes\":{\"up\":1},\"jobs\":{\"running\":1},\"running\":[]}",
    "POST /api/v1/jobs",
    "{\"id\":17,\"max_runtime_s\":86400,\"max_runtime_from\":\"default\"}",
    "POST /api/v1/jobs/7/stop",
    "{\"id\":7,\"status\":\"stopping\"}",
    "POST /api/v1/jobs/8/stop",
    "!409 {\"detail\":\"job 8 has ended\"}",
    "POST /api/v1/jobs/9/stop",
    "{\"id\":9,\"status\":\"stopping\"}",
    "POST /api/v1/jobs/7/clone",
    "{\"id\":18,\"warnings\":[\"nobody reads loss\"]}",
    "POST /api/v1/jobs/7/retry",
    "{\"id\":19,\"resume_from_job\":7,\"resume_from_step\":1200}",
    "POST /api/v1/nodes/n1/drain",
    "{\"name\":\"n1\"}",
    "POST /api/v1/tokens",
    "{\"token\":\"hj_abc\",\"expires_at\":\"2026-01-02T03:04:05.000000Z\"}",
    "POST /api/v1/login-links",
    "{\"path\":\"/login?code=c\",\"expires_at\":null}",
    "POST /api/v1/blobs/missing",
    "{\"missing\":[]}",
    "PATCH /api/v1/jobs/7",
    "{\"id\":7}",
    "DELETE /api/v1/jobs/7",
    "",
    "DELETE /api/v1/nodes/n1",
    "!409 {\"detail\":\"node n1 has 1 job\"}",
    "DELETE /api/v1/nodes/n1?force=1",
    "{\"name\":\"n1\"}",
    NULL};

void jobctl_answers(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	size_t best = 0;
	const char *found = NULL;
	char *line = xasprintf("%s %s", q->method, q->uri);
	(void)nth;
	(void)arg;
	for (size_t i = 0; answers[i]; i += 2) {
		size_t n = strlen(answers[i]);
		char next = strncmp(line, answers[i], n) ? 'x' : line[n];
		if (n > best && !strncmp(line, answers[i], n) && (!next || next == '?' || answers[i][n - 1] == '?')) {
			best = n;
			found = answers[i + 1];
		}
	}
	free(line);
	if (!found) {
		a->status = 404;
		a->body = "{\"detail\":\"there is no such thing\"}";
	} else if (*found == '!') {
		a->status = atoi(found + 1);
		a->body = strchr(found, ' ') + 1;
	} else {
		a->body = *found ? found : NULL;
	}
}
