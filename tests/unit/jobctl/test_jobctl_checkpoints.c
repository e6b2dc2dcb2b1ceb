/*
 * test_jobctl_checkpoints: jobctl get JOB checkpoint --step N fetches all files of the step, or none.
 */
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"
#include "tests/lib/tap.h"
#include "tests/unit/jobctl/jobctl_run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A copy that a node made: a folder with one file. Returns its digest; to be freed. */
static char *put_copy(const char *folder, const char *file, const char *data)
{
	char *dir = jr_path(folder), *path = xasprintf("%s/%s", folder, file), *manifest = NULL;
	char digest[HASH_HEX_SIZE];
	struct tree_stats st;
	uint64_t special;
	size_t n;
	struct err e;

	fs_mkdir_p(dir, 0755, &e);
	jr_put_file(path, data);
	if (tree_scan(dir, NULL, NULL, NULL, NULL, &manifest, &n, digest, &st, &special, &e) < 0)
		tap_bail("tree_scan: %s", e.text);
	free(manifest);
	free(path);
	free(dir);
	return xstrdup(digest);
}

static void add_place(struct text *list, const char *name, unsigned rank, const char *folder,
                      const char *digest)
{
	if (folder)
		text_join(list, ",",
		          "{\"uri\":\"file://%s/%s\",\"state\":\"verified\",\"node_rank\":%u,\"name\":\"%s\","
		          "\"digest\":\"%s\"}",
		          tap_tmpdir(), folder, rank, name, digest);
	else
		text_join(list, ",", "{\"node\":\"n%u\",\"state\":\"%s\",\"node_rank\":%u,\"name\":\"%s\"}", rank,
		          digest, rank, name);
}

static void add_entry(struct text *list, int step, int attempt, int complete, const struct text *places)
{
	text_join(list, ",", "{\"step\":%d,\"attempt\":%d,\"complete\":%s,\"places\":[%s]}", step, attempt,
	          complete ? "true" : "false", places->at);
}

static char *body;
static const char *folders = ""; /* that the attempts left */

static void gives_list(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	const struct text *list = arg;

	(void)nth;
	if (strstr(q->uri, "/checkpoints")) {
		free(body);
		body = xasprintf("{\"checkpoints\":[%s]}", list->at);
		a->body = body;
	} else if (strstr(q->uri, "/artifacts")) {
		free(body);
		body = xasprintf("{\"artifacts\":[%s]}", folders);
		a->body = body;
	} else {
		a->body = "{\"id\":7,\"status\":\"running\"}";
	}
}

static void has_file(const char *name, const char *text, const char *what)
{
	char *got = jr_read_text(name);

	is_str(got, text, what);
	free(got);
}

static void has_nothing(const char *folder, const char *what)
{
	char *dir = jr_path(folder);

	ok(access(dir, F_OK) < 0 || rmdir(dir) == 0, "%s", what);
	free(dir);
}

/* One file on rank 0 of one node for each name; folder NULL: it is in that state on its node. */
static void add_file(struct text *list, int step, int attempt, const char *name, const char *folder,
                     const char *digest)
{
	TEXT(places);

	add_place(&places, name, 0, folder, digest);
	add_entry(list, step, attempt, folder || strcmp(digest, "copying") == 0, &places);
}

static void test_gone(struct js *s, struct text *list, const char *model)
{
	static const char left[] = "{\"kind\":\"checkpoint\",\"attempt\":2,\"digest\":\"x\"}",
	                  removed[] =
	                      "{\"kind\":\"checkpoint\",\"attempt\":2,\"removed_at\":\"2026-01-01T00:00:00Z\"}",
	                  other[] = "{\"kind\":\"checkpoint\",\"attempt\":1},{\"kind\":\"output\",\"attempt\":2}";

	text_clear(list);
	add_file(list, 10, 2, "model_10.pt", "c1", model);
	add_file(list, 10, 2, "optim_10.pt", NULL, "gone");
	folders = left;
	jr_expect(
	    s, "get 7 checkpoint --step 10 $T/gone", 4, "",
	    "optim_10.pt of node n0 is gone; see jobctl checkpoints 7; the folder of checkpoints that attempt 2 "
	    "left may still have it: jobctl get 7 checkpoint -a 2 fetches all of it");
	folders = removed;
	jr_expect(s, "get 7 checkpoint --step 10 $T/gone", 4, "", "see jobctl checkpoints 7\n");
	folders = other;
	jr_expect(s, "get 7 checkpoint --step 10 $T/gone", 4, "", "see jobctl checkpoints 7\n");
	text_clear(list);
	add_file(list, 10, 2, "optim_10.pt", NULL, "gone");
	folders = left;
	jr_expect(s, "get 7 checkpoint --step 10 $T/gone", 3, "",
	          "jobctl get 7 checkpoint -a 2 fetches all of it");
	folders = "";
}

static void test_files(void)
{
	char bytes[8192];
	struct text list = text_on(bytes, sizeof(bytes));
	char *model = put_copy("c1", "model_10.pt", "model"), *optim = put_copy("c2", "optim_10.pt", "optim");
	char *older = put_copy("c0", "model_10.pt", "older");
	struct js *s = js_start(gives_list, &list, NULL);
	char *want = xasprintf("%s/all\n", tap_tmpdir());

	add_file(&list, 10, 1, "model_10.pt", "c0", older);
	add_file(&list, 10, 2, "model_10.pt", "c0", older);
	add_file(&list, 10, 2, "model_10.pt", "c1", model);
	add_file(&list, 10, 2, "optim_10.pt", "c2", optim);
	jr_expect(s, "get 7 checkpoint --step 10 $T/all", 0, want, "");
	has_file("all/model_10.pt", "model", "the newest model of the newest attempt");
	has_file("all/optim_10.pt", "optim", "the other file of the step is fetched, too");
	jr_expect(s, "get 7 checkpoint --step 11 $T/none", 3, "", "no complete checkpoint of step 11; it has 10");
	text_clear(&list);
	add_file(&list, 10, 2, "model_10.pt", "c1", model);
	add_file(&list, 10, 2, "optim_10.pt", NULL, "copying");
	jr_expect(s, "get 7 checkpoint --step 10 $T/part", 4, "", "optim_10.pt");
	has_nothing("part",
	            "nothing of a step is fetched while one of its files has no copy outside of its node");
	text_clear(&list);
	add_file(&list, 10, 2, "model_10.pt", "c1", model);
	add_file(&list, 10, 2, "optim_10.pt", NULL, "torn");
	jr_expect(s, "get 7 checkpoint --step 10 $T/torn", 4, "", "optim_10.pt of node n0 is torn");
	has_nothing("torn", "nor while one of its files is torn");
	test_gone(s, &list, model);
	js_stop(s);
	free(want);
	free(model);
	free(optim);
	free(older);
}

static void test_parts(void)
{
	char bytes[8192];
	struct text list = text_on(bytes, sizeof(bytes));
	TEXT(places);
	TEXT(some);
	char *one = put_copy("p1", "shard", "one"), *three = put_copy("p3", "shard", "three");
	struct js *s = js_start(gives_list, &list, NULL);
	char *want = xasprintf("%s/parts\n", tap_tmpdir());

	add_place(&places, "shard", 2, "p3", three);
	add_place(&places, "shard", 0, "p1", one);
	add_entry(&list, 20, 1, 1, &places);
	jr_expect(s, "get 7 checkpoint --step 20 $T/parts", 0, want, "");
	has_file("parts/algo-1/shard", "one", "a part's folder has the number of its node");
	has_file("parts/algo-3/shard", "three", "whatever the order of the parts");
	text_clear(&list);
	add_place(&some, "shard", 0, "p1", one);
	add_place(&some, "shard", 1, NULL, "copying");
	add_entry(&list, 20, 1, 1, &some);
	jr_expect(s, "get 7 checkpoint --step 20 $T/half", 4, "", "only node n1 has its part of shard");
	has_nothing("half", "half of a checkpoint is not fetched");
	js_stop(s);
	free(want);
	free(one);
	free(three);
}

static void test_damage(void)
{
	char bytes[8192];
	struct text list = text_on(bytes, sizeof(bytes));
	char *good = put_copy("d", "model.pt", "weights");
	struct js *s = js_start(gives_list, &list, NULL);

	jr_put_file("d/model.pt", "weighty");
	add_file(&list, 30, 1, "model.pt", "d", good);
	jr_expect(s, "get 7 checkpoint --step 30 $T/bad", 4, "", "does not match the digest");
	has_nothing("bad", "a damaged copy leaves nothing");
	js_stop(s);
	free(good);
}

/* What is gone is listed only on request, and a loss that is not finite is shown as such. */
static void test_list(void)
{
	char bytes[8192];
	struct text list = text_on(bytes, sizeof(bytes));
	struct js *s = js_start(gives_list, &list, NULL);

	add_file(&list, 10, 1, "model.pt", NULL, "gone");
	text_join(&list, ",",
	          "{\"step\":20,\"attempt\":1,\"complete\":true,\"loss\":null,\"loss_finite\":false,"
	          "\"places\":[{\"node\":\"n1\",\"state\":\"copying\"}]}");
	jr_expect_lines(s, "checkpoints 7",
	                (const char *const[]){" nan ", "1 that is gone is not listed; --all lists all.", NULL});
	jr_expect_lines(s, "checkpoints 7 --all", (const char *const[]){" gone ", " copying ", NULL});
	text_clear(&list);
	add_file(&list, 10, 1, "model.pt", NULL, "gone");
	jr_expect(s, "checkpoints 7", 0,
	          "No checkpoint is left. 1 that is gone is not listed; --all lists all.\n", "");
	js_stop(s);
}

int main(void)
{
	jr_init();
	test_files();
	test_parts();
	test_damage();
	test_list();
	free(body);
	return tap_done();
}
