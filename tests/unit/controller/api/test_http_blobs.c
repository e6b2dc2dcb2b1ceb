/*
 * Blobs and artifacts: pieces, resuming, wrong content, whose is whose, reading by reference, files out of
 * trees, ranges, paths that try to leave.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"
#include "controller/api/download.h"
#include "controller/files/disk_space.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/http/httpkit.h"

static struct hkit *k;

static void job_token(const char *secret, const char *kind, const char *owner, uint64_t job)
{
	struct store_txn *t = store_txn_new();
	char hash[HASH_HEX_SIZE];
	struct token_row row = {.kind = (char *)(uintptr_t)kind,
	                        .secret_hash = hash,
	                        .owner = (char *)(uintptr_t)owner,
	                        .job = job,
	                        .created_us = 1};

	hash_hex(secret, strlen(secret), hash);
	row.id = hash;
	store_txn_token(t, &row);
	hkit_commit(k, t);
}

static struct answer *put_blob(const char *digest, const char *query, const char *auth, const void *data,
                               size_t n)
{
	char *path = xasprintf("/api/v1/blobs/%s%s", digest, query);
	struct answer *a = http_bytes(k, "PUT", path, auth, data, n);

	free(path);
	return a;
}

static int get_status(const char *auth, const char *fmt, const char *digest)
{
	char *path = xasprintf(fmt, digest);
	struct answer *a = http(k, "GET", path, auth, NULL, NULL);
	int status = a->status;

	answer_free(a);
	free(path);
	return status;
}

static void test_pieces(void)
{
	size_t n = 9u << 20, piece = 4u << 20, at;
	char *data = xmalloc(n), digest[HASH_HEX_SIZE], query[64], *path;
	struct answer *a;

	for (at = 0; at < n; at++)
		data[at] = (char)(at * 7 + at / 251);
	hash_hex(data, n, digest);
	path = xasprintf("/api/v1/blobs/%s", digest);
	a = http(k, "HEAD", path, "admin", NULL, NULL);
	ok(a->status == 404 && strcmp(answer_header(a, "X-Hearth-Offset"), "0") == 0, "nothing is there");
	answer_free(a);
	a = put_blob(digest, "?offset=0&size=9437184", "admin", data, piece);
	ok(a->status == 200 && answer_num(a, "offset") == (double)piece &&
	       cJSON_IsFalse(cJSON_GetObjectItem(a->json, "complete")),
	   "the first piece: %s", a->body);
	answer_free(a);
	a = put_blob(digest, "?offset=0&size=9437184", "admin", data, piece);
	ok(a->status == 200 && answer_num(a, "offset") == (double)piece, "again, as after a lost answer");
	answer_free(a);
	a = put_blob(digest, "?offset=8388608&size=9437184", "admin", data + 2 * piece, n - 2 * piece);
	ok(a->status == 409 && answer_num(a, "offset") == (double)piece, "a gap: 409 says where to go on: %s",
	   a->body);
	answer_free(a);
	a = http(k, "HEAD", path, "admin", NULL, NULL);
	ok(a->status == 404 && strcmp(answer_header(a, "X-Hearth-Offset"), "4194304") == 0, "so does HEAD");
	answer_free(a);
	for (at = piece; at < n; at += piece) {
		snprintf(query, sizeof(query), "?offset=%zu&size=%zu", at, n);
		a = put_blob(digest, query, "admin", data + at, n - at < piece ? n - at : piece);
		ok(a->status == 200 || a->status == 201, "piece at %zu: %d", at, a->status);
		if (at + piece >= n)
			ok(a->status == 201 && cJSON_IsTrue(cJSON_GetObjectItem(a->json, "complete")),
			   "the last one completes it: %s", a->body);
		answer_free(a);
	}
	a = http(k, "HEAD", path, "admin", NULL, NULL);
	is_int(a->status, 200, "now it is there");
	answer_free(a);
	a = http(k, "GET", path, "admin", NULL, NULL);
	ok(a->status == 200 && a->body_n == n && memcmp(a->body, data, n) == 0, "and comes back as it went");
	answer_free(a);
	a = put_blob(digest, "", "admin", data, piece + 1);
	is_int(a->status, 413, "a piece that is too large");
	answer_free(a);
	a = put_blob("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "?size=5", "admin",
	             "hello", 5);
	ok(a->status == 400 && strstr(a->body, "digest"), "content with another digest: %s", a->body);
	answer_free(a);
	a = put_blob("xyz", "", "admin", "hello", 5);
	is_int(a->status, 400, "a digest that is none");
	answer_free(a);
	free(path);
	free(data);
}

static void test_owners(void)
{
	char digest[HASH_HEX_SIZE], *body;
	struct answer *a;

	hash_hex("ada's", 5, digest);
	body = xasprintf("{\"digests\":[\"%s\"]}", digest);
	a = put_blob(digest, "", "Bearer ada-secret", "ada's", 5);
	is_int(a->status, 201, "a user's blob");
	answer_free(a);
	a = http(k, "POST", "/api/v1/blobs/missing", "Bearer ada-secret", body, NULL);
	is_int(cJSON_GetArraySize(cJSON_GetObjectItem(a->json, "missing")), 0, "is not missing for her");
	answer_free(a);
	a = http(k, "POST", "/api/v1/blobs/missing", "Bearer bob-secret", body, NULL);
	is_int(cJSON_GetArraySize(cJSON_GetObjectItem(a->json, "missing")), 1,
	       "but is for him: a digest tells nothing");
	answer_free(a);
	is_int(get_status("Bearer ada-secret", "/api/v1/blobs/%s", digest), 200, "she reads it");
	is_int(get_status("Bearer bob-secret", "/api/v1/blobs/%s", digest), 404, "he does not");
	is_int(get_status("Bearer job-secret", "/api/v1/blobs/%s", digest), 403,
	       "nor does her job without saying by what right");
	a = http(k, "POST", "/api/v1/blobs/missing", "admin", "{\"digests\":[\"x\"]}", NULL);
	ok(a->status == 400 && strstr(a->body, "digests[0]"), "a malformed digest in a list");
	answer_free(a);
	free(body);
}

/* ---- artifacts -------------------------------------------------------------------------------- */

static int upload_chunk(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	struct answer *a = put_blob(digest, "", arg, data, n);
	int good = a->status == 201;

	if (!good)
		err_set(e, ERR_INTERNAL, "put: %d %s", a->status, a->body);
	answer_free(a);
	return good ? 0 : -1;
}

static void write_file(const char *dir, const char *name, const void *data, size_t n)
{
	char *path = xasprintf("%s/%s", dir, name);
	struct err e;

	if (fs_write_atomic(path, data, n, 0644, &e) < 0)
		tap_bail("%s", e.text);
	free(path);
}

static void make_tree(char digest[HASH_HEX_SIZE], char *big, size_t big_n)
{
	char *dir = xasprintf("%s/tree", tap_tmpdir()), *sub = xasprintf("%s/sub", dir),
	     *link = xasprintf("%s/link", dir), *manifest = NULL, *body;
	struct tree_stats st;
	struct answer *a;
	uint64_t special;
	struct err e;
	size_t n;

	fs_mkdir_p(sub, 0755, &e);
	write_file(dir, "small.txt", "small\n", 6);
	write_file(sub, "a b.txt", "blank in its name\n", 18);
	write_file(dir, "empty", "", 0);
	write_file(dir, "big.bin", big, big_n);
	if (symlink("small.txt", link) < 0)
		tap_bail("symlink");
	if (tree_scan(dir, NULL, NULL, upload_chunk, (void *)(uintptr_t) "Bearer ada-secret", &manifest, &n,
	              digest, &st, &special, &e) < 0)
		tap_bail("%s", e.text);
	a = put_blob(digest, "", "Bearer ada-secret", manifest, n);
	is_int(a->status, 201, "a tree's manifest");
	answer_free(a);
	body = xasprintf("{\"spec\":{\"name\":\"a\",\"command\":[\"/bin/true\"]},\"bundle\":\"%s\"}", digest);
	a = http(k, "POST", "/api/v1/jobs", "Bearer ada-secret", body, NULL);
	is_int(a->status, 200, "a job with it goes to the state thread");
	answer_free(a);
	a = http(k, "POST", "/api/v1/jobs", "admin", body, NULL);
	is_int(a->status, 404, "but not for somebody who has not shown it");
	free(body);
	answer_free(a);
	free(manifest);
	free(link);
	free(sub);
	free(dir);
}

static void test_artifacts(void)
{
	size_t n = 5u << 20, i;
	char *big = xmalloc(n), digest[HASH_HEX_SIZE], *path;
	static const char *const range[] = {"Range: bytes=4194300-4194309", NULL}, *const tail[] = {
	                                                                               "Range: bytes=-3", NULL};
	static const char *const beyond[] = {"Range: bytes=99999999-", NULL}, *const two[] = {
	                                                                          "Range: bytes=0-1,3-4", NULL};
	struct store_txn *t = store_txn_new();
	struct artifact_row row = {.job = 1,
	                           .attempt = 1,
	                           .kind = (char *)"model",
	                           .node = (char *)"alpha",
	                           .digest = digest,
	                           .at_us = 1};
	struct artifact_row elsewhere = {.job = 1,
	                                 .attempt = 1,
	                                 .kind = (char *)"output",
	                                 .node = (char *)"alpha",
	                                 .uri = (char *)"file:///x",
	                                 .at_us = 1};
	struct answer *a;

	for (i = 0; i < n; i++)
		big[i] = (char)(i * 13 + i / 1021);
	make_tree(digest, big, n);
	store_txn_artifact(t, &row);
	store_txn_artifact(t, &elsewhere);
	hkit_commit(k, t);
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/model", "Bearer bob-secret", NULL, NULL);
	ok(a->status == 200 && strstr(a->body, "\"path\":\"small.txt\"") &&
	       strstr(a->body, "\"target\":\"small.txt\""),
	   "the files of an artifact");
	is_str(answer_header(a, "X-Hearth-Digest"), digest, "and its digest");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/model?manifest=1", "admin", NULL, NULL);
	like(a->body, "hearth-tree 1\n", "its manifest");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/model/small.txt", "Bearer bob-secret", NULL, NULL);
	ok(a->status == 200 && strcmp(a->body, "small\n") == 0, "a file; everybody may read every job");
	like(answer_header(a, "Content-Disposition"), "filename=\"small.txt\"", "under its name");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/model/sub/a%20b.txt", "admin", NULL, NULL);
	is_str(a->body, "blank in its name\n", "a file in a folder, with a blank");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/model/empty", "admin", NULL, NULL);
	ok(a->status == 200 && a->body_n == 0, "an empty file");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/model/big.bin", "admin", NULL, NULL);
	ok(a->status == 200 && a->body_n == n && memcmp(a->body, big, n) == 0, "a file of several chunks");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/model/big.bin", "admin", NULL, range);
	ok(a->status == 206 && a->body_n == 10 && memcmp(a->body, big + 4194300, 10) == 0,
	   "a range across chunks");
	is_str(answer_header(a, "Content-Range"), "bytes 4194300-4194309/5242880", "Content-Range");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/model/big.bin", "admin", NULL, tail);
	ok(a->status == 206 && a->body_n == 3 && memcmp(a->body, big + n - 3, 3) == 0, "its last bytes");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/model/big.bin", "admin", NULL, beyond);
	ok(a->status == 416 && strcmp(answer_header(a, "Content-Range"), "bytes */5242880") == 0,
	   "a range behind its end");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/model/small.txt", "admin", NULL, two);
	ok(a->status == 200 && strcmp(a->body, "small\n") == 0, "several ranges: the whole");
	answer_free(a);
	for (i = 0; i < 5; i++) {
		static const char *const bad[] = {"../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd",
		                                  "sub/../../x", "nothing"};

		path = xasprintf("/api/v1/jobs/1/artifacts/model/%s", bad[i]);
		a = http(k, "GET", path, "admin", NULL, NULL);
		ok(a->status == 400 || a->status == 404, "%s: %d", bad[i], a->status);
		answer_free(a);
		free(path);
	}
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/model/link", "admin", NULL, NULL);
	is_int(a->status, 409, "a link is not followed");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/output", "admin", NULL, NULL);
	ok(a->status == 409 && strstr(a->body, "output_uri"), "an artifact that lies elsewhere: %s", a->body);
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/nothing", "admin", NULL, NULL);
	is_int(a->status, 404, "a kind that there is not");
	answer_free(a);
	is_int(get_status("Bearer bob-secret", "/api/v1/blobs/%s?job=1&kind=model", digest), 200,
	       "a blob by reference: the manifest");
	is_int(get_status("Bearer job-secret", "/api/v1/blobs/%s?job=1&kind=model", digest), 200,
	       "by the job's token");
	is_int(get_status("Bearer job-secret", "/api/v1/blobs/%s?job=2&kind=model", digest), 403,
	       "of its own job only");
	is_int(get_status("Bearer bob-secret", "/api/v1/blobs/%s?job=2&kind=model", digest), 404,
	       "a job that has none");
	hash_hex("ada's", 5, digest);
	is_int(get_status("Bearer bob-secret", "/api/v1/blobs/%s?job=1&kind=model", digest), 404,
	       "a blob that is no part of it");
	is_int(get_status("Bearer bob-secret", "/api/v1/blobs/%s?job=1", digest), 400, "half a reference");
	free(big);
}

/* The blobs stay until the next collection; what retention has taken is not given any more. */
static void test_retired(void)
{
	char digest[HASH_HEX_SIZE];
	struct store_txn *t = store_txn_new();
	struct artifact_row row = {.job = 3,
	                           .attempt = 1,
	                           .kind = (char *)"model",
	                           .node = (char *)"alpha",
	                           .digest = digest,
	                           .at_us = 1};
	struct answer *a;

	hkit_job(k, 3, "old", NULL, "completed", 1);
	a = http(k, "GET", "/api/v1/jobs/1/artifacts/model", "admin", NULL, NULL);
	snprintf(digest, sizeof(digest), "%s", answer_header(a, "X-Hearth-Digest"));
	answer_free(a);
	store_txn_artifact(t, &row);
	hkit_commit(k, t);
	is_int(get_status("admin", "/api/v1/blobs/%s?job=3&kind=model", digest), 200, "a blob of an artifact");
	t = store_txn_new();
	store_txn_retire(t, 3, STORE_ARTIFACTS, 1790000000000000ull);
	hkit_commit(k, t);
	a = http(k, "GET", "/api/v1/jobs/3/artifacts/model", "admin", NULL, NULL);
	ok(a->status == 404 && strstr(a->body, "the model of job 3 was removed by retention on 2026-09-21"),
	   "after retention: %s", a->body);
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/3/artifacts/model/small.txt", "admin", NULL, NULL);
	is_int(a->status, 404, "nor a file of it");
	answer_free(a);
	is_int(get_status("admin", "/api/v1/blobs/%s?job=3&kind=model", digest), 404, "nor a blob by reference");
	a = http(k, "GET", "/api/v1/jobs/3/artifacts", "admin", NULL, NULL);
	ok(a->status == 200 && strstr(a->body, "\"removed_at\":\"2026-09-21"), "the list says so: %s", a->body);
	answer_free(a);
}

static void test_ranges(void)
{
	static const struct {
		const char *header;
		int rc;
		uint64_t first, count;
	} cases[] = {
	    {NULL, 0, 0, 0},
	    {"bytes=0-0", 1, 0, 1},
	    {"bytes=0-", 1, 0, 100},
	    {"bytes=99-", 1, 99, 1},
	    {"bytes=100-", -1, 0, 0},
	    {"bytes=50-1000", 1, 50, 50},
	    {"bytes=-10", 1, 90, 10},
	    {"bytes=-1000", 1, 0, 100},
	    {"bytes=-0", -1, 0, 0},
	    {"bytes=5-4", 0, 0, 0},
	    {"bytes=-", 0, 0, 0},
	    {"bytes=a-b", 0, 0, 0},
	    {"bits=0-1", 0, 0, 0},
	    {"bytes=0-1,2-3", 0, 0, 0},
	    {"bytes=18446744073709551615-", -1, 0, 0},
	    {"bytes=0-18446744073709551615", 1, 0, 100},
	    {"bytes=99999999999999999999999999-", 0, 0, 0},
	    {"bytes=1-99999999999999999999999999", 0, 0, 0},
	};
	unsigned i;
	uint64_t first = 0, count = 0;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int rc = download_range(cases[i].header, 100, &first, &count);

		ok(rc == cases[i].rc && (rc != 1 || (first == cases[i].first && count == cases[i].count)), "range %s",
		   cases[i].header ? cases[i].header : "-");
	}
	is_int(download_range("bytes=-5", 0, &first, &count), -1, "of nothing");
}

/* A disk that is low takes no uploads; what is there can be read. */
static void test_low(void)
{
#ifdef HEARTH_FAULTS
	char digest[HASH_HEX_SIZE];
	struct answer *a;

	hash_hex("low", 3, digest);
	fault_arm("data.low", 1, 1);
	a = put_blob(digest, "", "admin", "low", 3);
	is_int(a->status, 507, "a low disk takes no upload");
	like(a->body, "no new work is accepted: the disk of hearthd has", "and says why");
	answer_free(a);
	a = http(k, "GET", "/metrics", "admin", NULL, NULL);
	ok(strstr(a->body, "hearth_disk_low 1\n") && strstr(a->body, "hearth_disk_free_bytes "),
	   "the counters say so, too");
	answer_free(a);
	fault_clear();
	a = put_blob(digest, "", "admin", "low", 3);
	is_int(a->status, 201, "there is room again");
	answer_free(a);
#else
	tap_skip("a build without failpoints");
#endif
}

int main(void)
{
	struct disk_space *room = disk_space_create(tap_tmpdir(), DISK_SPACE_DEFAULT, NULL, NULL, NULL, NULL);
	struct hkit_options options = {.disk = room};

	k = hkit_start(&options);
	job_token("ada-secret", "user", "ada", 0);
	job_token("bob-secret", "user", "bob", 0);
	job_token("job-secret", "job", "ada", 1);
	hkit_job(k, 1, "digits", "ada", "completed", 1);
	hkit_job(k, 2, "other", "ada", "completed", 1);
	test_ranges();
	test_pieces();
	test_owners();
	test_artifacts();
	test_retired();
	test_low();
	hkit_stop(k);
	disk_space_destroy(room);
	return tap_done();
}
