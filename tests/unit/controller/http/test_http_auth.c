/*
 * Who may do what: tokens, the unix socket, cookies and login links, Host and Origin, roles, ownership, a
 * job's token.
 */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "controller/http/auth.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/http/httpkit.h"

static struct hkit *k;

static int get_status(const char *path, const char *auth, const char *const *headers)
{
	struct answer *a = http(k, "GET", path, auth, NULL, headers);
	int status = a->status;

	answer_free(a);
	return status;
}

static int post_status(const char *path, const char *auth, const char *body)
{
	struct answer *a = http(k, "POST", path, auth, body, NULL);
	int status = a->status;

	if (status >= 500)
		tap_diag("%s", a->body);
	answer_free(a);
	return status;
}

static void token_row(const char *secret, const char *kind, const char *owner, uint64_t job,
                      uint64_t expires_us)
{
	struct store_txn *t = store_txn_new();
	char hash[HASH_HEX_SIZE];
	struct token_row row = {.kind = (char *)(uintptr_t)kind,
	                        .secret_hash = hash,
	                        .owner = (char *)(uintptr_t)owner,
	                        .job = job,
	                        .created_us = 1,
	                        .expires_us = expires_us};
	char id[16];

	hash_hex(secret, strlen(secret), hash);
	snprintf(id, sizeof(id), "%.8s", hash);
	row.id = id;
	store_txn_token(t, &row);
	hkit_commit(k, t);
}

static void test_tokens(void)
{
	struct answer *a;
	struct stat st;
	char *path = xasprintf("%s/admin.token", hkit_dir(k));

	ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600, "admin.token is the owner's alone");
	a = http(k, "GET", "/api/v1/jobs", NULL, NULL, NULL);
	is_int(a->status, 401, "without a token");
	like(answer_str(a, "hint"), "Authorization: Bearer TOKEN", "the hint says what to send");
	ok(!strstr(a->body, hkit_dir(k)), "but nothing of paths: whoever asks may be anybody");
	like(answer_header(a, "WWW-Authenticate"), "Bearer", "and which scheme");
	answer_free(a);
	is_int(get_status("/api/v1/jobs", "admin", NULL), 200, "with it");
	is_int(get_status("/api/v1/jobs", "Bearer wrong", NULL), 401, "a wrong one");
	is_int(get_status("/api/v1/jobs", "Bearer ", NULL), 401, "none at all");
	is_int(get_status("/api/v1/jobs", "Basic YWRtaW46", NULL), 401, "another scheme");
	is_int(get_status("/healthz", NULL, NULL), 200, "health needs none");
	is_int(get_status("/", NULL, NULL), 200, "nor the page");
	is_int(get_status("/metrics", NULL, NULL), 401, "numbers do");
	a = http(k, "GET", "/api/v1/whoami", "admin", NULL, NULL);
	is_str(answer_str(a, "role"), "admin", "the admin's role");
	answer_free(a);
	token_row("user-secret", "user", "ada", 0, 0);
	token_row("admin-secret", "admin", "ada", 0, 0);
	token_row("old-secret", "user", "ada", 0, 1000);
	token_row("join-secret", "join", NULL, 0, 0);
	a = http(k, "GET", "/api/v1/whoami", "Bearer user-secret", NULL, NULL);
	is_str(answer_str(a, "role"), "user", "a user's token from the store");
	is_str(answer_str(a, "user"), "ada", "and whose it is");
	answer_free(a);
	is_int(get_status("/api/v1/jobs", "Bearer admin-secret", NULL), 200, "an administrator's");
	is_int(get_status("/api/v1/jobs", "Bearer old-secret", NULL), 401, "an expired one");
	is_int(get_status("/api/v1/jobs", "Bearer join-secret", NULL), 401, "a join token opens nothing");
	free(path);
}

static void test_unix(void)
{
	struct answer *a = http(k, "GET", "/api/v1/whoami", "unix", NULL, NULL);
	struct passwd *pw = getpwuid(getuid());
	struct stat st;
	char *path = xasprintf("%s/hearthd.sock", hkit_dir(k));

	ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0666, "everybody may reach the socket");
	is_int(a->status, 200, "the unix socket needs no token");
	is_str(answer_str(a, "user"), pw ? pw->pw_name : "", "it knows the account");
	is_str(answer_str(a, "role"), "admin", "hearthd's own account is an administrator");
	answer_free(a);
	free(path);
}

static void test_origin(void)
{
	static const char *const rebind[] = {"Host: evil.example", NULL}, *const named[] = {"Host: localhost:99",
	                                                                                    NULL};
	static const char *const six[] = {"Host: [::1]:7070", NULL}, *const other[] = {
	                                                                 "Origin: http://evil.example", NULL};
	static const char *const null[] = {"Origin: null", NULL};
	char *own = xasprintf("Origin: http://127.0.0.1:%u", hkit_port(k));
	const char *const same[] = {own, NULL};

	is_int(get_status("/healthz", NULL, rebind), 403,
	       "a foreign Host on loopback is refused (DNS rebinding)");
	is_int(get_status("/healthz", NULL, named), 200, "localhost is fine, on any port");
	is_int(get_status("/healthz", NULL, six), 200, "and [::1]");
	is_int(get_status("/api/v1/jobs", "admin", other), 403, "another site's Origin is refused");
	is_int(get_status("/api/v1/jobs", "admin", null), 403, "and the null one");
	is_int(get_status("/api/v1/jobs", "admin", same), 200, "our own is fine");
	free(own);
}

static void test_roles(void)
{
	hkit_job(k, 1, "mine", "ada", "queued", 0);
	hkit_job(k, 2, "other", "bob", "queued", 0);
	is_int(get_status("/api/v1/jobs/2", "Bearer user-secret", NULL), 200, "a user sees others' jobs");
	is_int(post_status("/api/v1/jobs/1/stop", "Bearer user-secret", "{}"), 200, "stops his own");
	is_int(post_status("/api/v1/jobs/2/stop", "Bearer user-secret", "{}"), 403, "but not others'");
	is_int(post_status("/api/v1/jobs/2/clone", "Bearer user-secret", "{}"), 403,
	       "nor clones them: secrets would go along");
	is_int(post_status("/api/v1/jobs/2/stop", "Bearer admin-secret", "{}"), 200, "an administrator may");
	is_int(post_status("/api/v1/nodes/alpha/drain", "Bearer user-secret", "{}"), 403,
	       "a user drains no node");
	is_int(post_status("/api/v1/tokens", "Bearer user-secret", "{}"), 403, "and makes no token");
	is_int(post_status("/api/v1/tokens", "admin", "{}"), 200, "an administrator does");
	is_int(get_status("/metrics", "Bearer user-secret", NULL), 200, "numbers are for users");
}

static void test_job_token(void)
{
	static const char spec[] = "{\"spec\":{\"name\":\"child\",\"command\":[\"/bin/true\"]}}";
	unsigned before;
	struct answer *a;

	token_row("job-secret", "job", "ada", 1, 0);
	is_int(get_status("/api/v1/jobs/1", "Bearer job-secret", NULL), 200, "a job's token reads its job");
	is_int(get_status("/api/v1/jobs/1/events", "Bearer job-secret", NULL), 200, "and its events");
	is_int(get_status("/api/v1/jobs/2", "Bearer job-secret", NULL), 403, "no other job");
	is_int(get_status("/api/v1/jobs", "Bearer job-secret", NULL), 403, "no list");
	is_int(get_status("/api/v1/nodes", "Bearer job-secret", NULL), 403, "no nodes");
	is_int(post_status("/api/v1/jobs/1/stop", "Bearer job-secret", "{}"), 403, "stops nothing");
	is_int(get_status("/api/v1/stream?job=2", "Bearer job-secret", NULL), 403, "follows no other's events");
	is_int(get_status("/api/v1/stream", "Bearer job-secret", NULL), 403, "nor all of them");
	is_int(get_status("/api/v1/jobs/resolve?ref=2", "Bearer job-secret", NULL), 403,
	       "and resolves no other's id");
	before = hkit_requests(k);
	a = http(k, "POST", "/api/v1/jobs", "Bearer job-secret", spec, NULL);
	is_int(a->status, 200, "but submits children");
	is_int((int)answer_num(a, "role"), ROLE_JOB, "as a job");
	is_int(hkit_requests(k), before + 1, "which the state thread hears of");
	answer_free(a);
}

static void test_session(void)
{
	char *body = xasprintf("{\"token\":\"%s\"}", hkit_token(k)), *cookie, *path, *tampered;
	struct answer *a = http(k, "POST", "/api/v1/login", NULL, body, NULL);
	const char *set = answer_header(a, "Set-Cookie");
	const char *headers[] = {NULL, NULL};

	is_int(a->status, 200, "login by token");
	like(set, "HttpOnly", "the cookie is out of reach of scripts");
	like(set, "SameSite=Strict", "and of other sites");
	cookie = xasprintf("Cookie: a=b; %.*s", (int)strcspn(set ? set : "", ";"), set ? set : "");
	headers[0] = cookie;
	is_int(get_status("/api/v1/jobs", NULL, headers), 200, "the cookie opens the API");
	tampered = xstrdup(cookie);
	tampered[strlen(tampered) - 1] ^= 1;
	headers[0] = tampered;
	is_int(get_status("/api/v1/jobs", NULL, headers), 401, "a changed one does not");
	answer_free(a);
	a = http(k, "POST", "/api/v1/login", NULL, "{\"token\":\"wrong\"}", NULL);
	is_int(a->status, 401, "login by a wrong token");
	answer_free(a);
	a = http(k, "POST", "/api/v1/login", NULL, "{\"token\":\"job-secret\"}", NULL);
	is_int(a->status, 403, "a job's token opens no session");
	answer_free(a);
	a = http(k, "POST", "/api/v1/login-links", "admin", "{}", NULL);
	path = xstrdup(answer_str(a, "path"));
	ok(a->status == 200 && path && strncmp(path, "/login?code=", 12) == 0, "a login link");
	answer_free(a);
	a = http(k, "GET", path, NULL, NULL, NULL);
	is_int(a->status, 303, "it leads to the page");
	like(answer_header(a, "Set-Cookie"), AUTH_COOKIE "=s.", "with a session");
	answer_free(a);
	is_int(get_status(path, NULL, NULL), 401, "once only");
	is_int(get_status("/login?code=c.3.726f6f74.99999999999999999.0123456789abcdef.00", NULL, NULL), 401,
	       "not invented");
	a = http(k, "POST", "/api/v1/logout", NULL, "{}", NULL);
	like(answer_header(a, "Set-Cookie"), "Max-Age=0", "logging out forgets the cookie");
	answer_free(a);
	free(path);
	free(tampered);
	free(cookie);
	free(body);
}

static void test_signatures(void)
{
	struct err e;
	struct auth *a = auth_create(hkit_dir(k), "root", NULL, &e), *b = auth_create(hkit_dir(k), "root", NULL, &e);
	struct identity who = {.user = "ada", .role = ROLE_USER}, out;
	char *s = auth_sign(a, 's', &who, 2000);

	ok(auth_verify(a, 's', s, 1000, &out, &e) == 0 && strcmp(out.user, "ada") == 0 && out.role == ROLE_USER,
	   "a signed session");
	ok(auth_verify(a, 's', s, 2000, &out, &e) < 0, "ends in time");
	ok(auth_verify(a, 'c', s, 1000, &out, &e) < 0, "is no login code");
	ok(auth_verify(b, 's', s, 1000, &out, &e) < 0, "means nothing to another process");
	ok(auth_verify(a, 's', "", 1000, &out, &e) < 0 && auth_verify(a, 's', ".", 1000, &out, &e) < 0,
	   "nor does nothing");
	free(s);
	who.role = ROLE_JOB;
	s = auth_sign(a, 's', &who, 2000);
	ok(auth_verify(a, 's', s, 1000, &out, &e) < 0, "a job has no session");
	free(s);
	auth_destroy(a);
	auth_destroy(b);
}

static void test_files(void)
{
	char *dir = xasprintf("%s/x", tap_tmpdir()), *path = xasprintf("%s/admin.token", dir);
	struct auth *a;
	struct err e;

	fs_mkdir_p(dir, 0700, &e);
	fs_write_atomic(path, "short\n", 6, 0600, &e);
	ok(!auth_create(dir, "root", NULL, &e) && strstr(e.text, "not a token"),
	   "a token that is too short is refused: %s", e.text);
	fs_write_atomic(path, "0123456789012345678901234567890123456789\n", 41, 0644, &e);
	ok(!auth_create(dir, "root", NULL, &e) && strstr(e.text, "chmod 600"),
	   "a token that others can read is refused: %s", e.text);
	chmod(path, 0600);
	a = auth_create(dir, "root", NULL, &e);
	ok(a != NULL, "an administrator's own is taken");
	auth_destroy(a);
	free(path);
	free(dir);
}

static void test_join_rate(void)
{
	int limited = 0, i;

	for (i = 0; i < 120 && !limited; i++)
		limited = post_status("/api/v1/agents/join", NULL, "{}") == 429;
	ok(limited && i >= 50, "joins are limited in rate (after %d)", i);
}

int main(void)
{
	struct hkit_options o = {.io_threads = 1};

	k = hkit_start(&o);
	test_tokens();
	test_unix();
	test_origin();
	test_roles();
	test_job_token();
	test_session();
	test_signatures();
	test_files();
	test_join_rate();
	hkit_stop(k);
	return tap_done();
}
