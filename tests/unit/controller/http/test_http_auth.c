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
	is_int(post_status("/api/v1/tokens", "admin", "{}"), 200, "an administrator makes a token");
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

static const char cookie_secret[] = "c0ffee", key_secret[] = "cafe";
static char session_scope[16], session_user[64], session_token[64];
static uint64_t session_until_us;

/* The state thread's part of a login, always with the secrets of the row that session_row made. */
static int make_session(struct hkit *kit, struct request *rq)
{
	const cJSON *kind = cJSON_GetObjectItem(rq->body, "kind"),
	            *scope = cJSON_GetObjectItem(rq->body, "scope");
	cJSON *body;

	(void)kit;
	if (rq->op != REQ_TOKEN || !cJSON_IsString(kind) || strcmp(kind->valuestring, "session") != 0)
		return -1;
	snprintf(session_scope, sizeof(session_scope), "%s", cJSON_IsString(scope) ? scope->valuestring : "");
	snprintf(session_user, sizeof(session_user), "%s", rq->user);
	snprintf(session_token, sizeof(session_token), "%s", rq->token_id ? rq->token_id : "");
	session_until_us = rq->token_expires_us;
	body = cJSON_CreateObject();
	cJSON_AddStringToObject(body, "id", "s1");
	cJSON_AddStringToObject(body, "user", rq->user);
	cJSON_AddStringToObject(body, "cookie", cookie_secret);
	cJSON_AddStringToObject(body, "key", key_secret);
	rq->reply(rq, 201, body, NULL);
	return 0;
}

static void session_row(void)
{
	struct store_txn *t = store_txn_new();
	char hash[HASH_HEX_SIZE];

	hash_hex("c0ffee.cafe", 11, hash);
	store_txn_token(t, &(struct token_row){.id = (char *)(uintptr_t) "s1",
	                                       .kind = (char *)(uintptr_t) "session",
	                                       .secret_hash = hash,
	                                       .owner = (char *)(uintptr_t) "ada",
	                                       .created_us = 1});
	hkit_commit(k, t);
}

static void test_session(void)
{
	char *body = xasprintf("{\"token\":\"%s\"}", hkit_token(k)), *cookie, *path, *other, *set;
	struct answer *a;
	static const char *const alone[] = {"X-Hearth-Key: cafe", NULL};
	const char *headers[] = {NULL, NULL, NULL};

	session_row();
	a = http(k, "POST", "/api/v1/login", NULL, body, NULL);
	set = xstrdup(answer_header(a, "Set-Cookie") ? answer_header(a, "Set-Cookie") : "");
	is_int(a->status, 200, "login by token");
	like(set, "HttpOnly", "the cookie is out of reach of scripts");
	like(set, "SameSite=Strict", "and of other sites");
	is_str(answer_str(a, "key"), key_secret, "the page gets the key");
	ok(!strstr(a->body, cookie_secret), "but not the cookie");
	is_str(session_scope, "admin", "the session may do what the token may");
	path = xasprintf("hearth_session_%u=c0ffee;", hkit_port(k));
	ok(strncmp(set, path, strlen(path)) == 0, "the cookie's name has the port: %s", set);
	cookie = xasprintf("Cookie: a=b; %.*s", (int)strcspn(set, ";"), set);
	headers[0] = cookie;
	is_int(get_status("/api/v1/jobs", NULL, headers), 401, "the cookie alone opens nothing");
	is_int(get_status("/api/v1/jobs", NULL, alone), 401, "nor does the key alone");
	headers[1] = "X-Hearth-Key: cafe";
	is_int(get_status("/api/v1/jobs", NULL, headers), 200, "both open the API");
	headers[1] = "X-Hearth-Key: caff";
	is_int(get_status("/api/v1/jobs", NULL, headers), 401, "a wrong key does not");
	headers[1] = "X-Hearth-Key: cafe";
	other = xasprintf("Cookie: hearth_session_%u=c0ffee", hkit_port(k) + 1);
	headers[0] = other;
	is_int(get_status("/api/v1/jobs", NULL, headers), 401, "nor does the cookie of another port's hearthd");
	is_int(get_status("/api/v1/jobs", "Bearer c0ffee.cafe", NULL), 401,
	       "a session does not count as a token");
	answer_free(a);
	free(path);
	a = http(k, "POST", "/api/v1/login", NULL, "{\"token\":\"wrong\"}", NULL);
	is_int(a->status, 401, "login by a wrong token");
	answer_free(a);
	a = http(k, "POST", "/api/v1/login", NULL, "{\"token\":\"job-secret\"}", NULL);
	is_int(a->status, 403, "a job's token opens no session");
	answer_free(a);
	a = http(k, "POST", "/api/v1/login-links", "Bearer user-secret", "{}", NULL);
	path = xstrdup(answer_str(a, "path"));
	ok(a->status == 200 && path && strncmp(path, "/login?code=", 12) == 0, "a login link");
	answer_free(a);
	a = http(k, "GET", path, NULL, NULL, NULL);
	is_int(a->status, 303, "it leads to the page");
	like(answer_header(a, "Set-Cookie"), "=c0ffee;", "with a cookie");
	is_str(answer_header(a, "Location"), "/#session=cafe",
	       "and with the key, in the part that is sent to nobody");
	answer_free(a);
	ok(strcmp(session_user, "ada") == 0 && !*session_scope,
	   "the session is the caller's, without other rights");
	is_int(get_status(path, NULL, NULL), 401, "once only");
	is_int(get_status("/login?code=c.3.0.0.726f6f74.x.t.0.99999999999999999.0123456789abcdef.00", NULL, NULL),
	       401, "not invented");
	a = http(k, "POST", "/api/v1/logout", NULL, "{}", NULL);
	like(answer_header(a, "Set-Cookie"), "Max-Age=0", "logging out forgets the cookie");
	answer_free(a);
	free(path);
	free(other);
	free(cookie);
	free(set);
	free(body);
}

/* A link that a token asked for. What it becomes ends with the token: by its id, and by its expiry. */
static void test_link_of_token(void)
{
	uint64_t until = clock_real_us(clock_real()) + 3600ull * 1000000;
	char hash[HASH_HEX_SIZE], *path;
	struct answer *a;

	token_row("hour-secret", "user", "ada", 0, until);
	hash_hex("hour-secret", 11, hash);
	a = http(k, "POST", "/api/v1/login-links", "Bearer hour-secret", "{}", NULL);
	path = xstrdup(answer_str(a, "path") ? answer_str(a, "path") : "/");
	answer_free(a);
	*session_token = '\0';
	session_until_us = 0;
	is_int(get_status(path, NULL, NULL), 303, "a token's login link opens a session");
	ok(strlen(session_token) == 8 && strncmp(session_token, hash, 8) == 0,
	   "the session is made with that token, so it ends when the token is removed");
	ok(session_until_us == until, "the session does not outlive the token's expiry");
	free(path);
	a = http(k, "POST", "/api/v1/login-links", "admin", "{}", NULL);
	path = xstrdup(answer_str(a, "path") ? answer_str(a, "path") : "/");
	answer_free(a);
	is_int(get_status(path, NULL, NULL), 303, "a login link of admin.token opens a session");
	ok(!*session_token && !session_until_us, "admin.token is no record, so the session has no parent");
	free(path);
}

static void test_links(void)
{
	struct err e;
	struct auth *a = auth_create(hkit_dir(k), "root", NULL, &e),
	            *b = auth_create(hkit_dir(k), "root", NULL, &e);
	struct identity who = {.user = "ada",
	                       .role = ROLE_USER,
	                       .scope = SCOPE_READ,
	                       .account = "al",
	                       .token_id = "u0123456789ab",
	                       .expires_us = 5000,
	                       .account_own = 1},
	                out;
	char *s = auth_sign(a, &who, 2000);

	ok(auth_verify(b, s, 1000, &out, &e) < 0, "a link means nothing to another process");
	ok(auth_verify(a, s, 2000, &out, &e) < 0, "it ends in time");
	ok(auth_verify(a, s, 1000, &out, &e) == 0 && strcmp(out.user, "ada") == 0 && out.role == ROLE_USER &&
	       out.scope == SCOPE_READ && strcmp(out.account, "al") == 0 && out.account_own,
	   "it has user, role, scope and account");
	ok(strcmp(out.token_id, "u0123456789ab") == 0 && out.expires_us == 5000,
	   "it has the token that asked for it, and its expiry");
	ok(auth_verify(a, "", 1000, &out, &e) < 0 && auth_verify(a, ".", 1000, &out, &e) < 0,
	   "an empty text is not a link");
	free(s);
	who = (struct identity){.user = "ada", .role = ROLE_ADMIN};
	s = auth_sign(a, &who, 2000);
	ok(auth_verify(a, s, 1000, &out, &e) == 0 && out.role == ROLE_ADMIN && !*out.account &&
	       !out.account_own && !*out.token_id && !out.expires_us,
	   "also without an account and a token");
	free(s);
	who.role = ROLE_JOB;
	s = auth_sign(a, &who, 2000);
	ok(auth_verify(a, s, 1000, &out, &e) < 0, "a job has no session");
	free(s);
	auth_destroy(a);
	auth_destroy(b);
}

static void scoped_row(const char *secret, const char *scope, uint64_t job)
{
	struct store_txn *t = store_txn_new();
	char hash[HASH_HEX_SIZE], id[16];

	hash_hex(secret, strlen(secret), hash);
	snprintf(id, sizeof(id), "%.8s", hash);
	store_txn_token(t, &(struct token_row){.id = id,
	                                       .kind = (char *)(uintptr_t) "user",
	                                       .secret_hash = hash,
	                                       .owner = (char *)(uintptr_t) "ada",
	                                       .scope = (char *)(uintptr_t)scope,
	                                       .account = (char *)(uintptr_t) "alice",
	                                       .job = job,
	                                       .created_us = 1});
	hkit_commit(k, t);
}

static void test_scopes(void)
{
	static const char spec[] = "{\"spec\":{\"name\":\"s\",\"command\":[\"/bin/true\"]}}";
	struct answer *a;

	scoped_row("read-secret", "read", 0);
	scoped_row("submit-secret", "submit", 0);
	scoped_row("only-secret", "job:1", 1);
	scoped_row("admin2-secret", "admin", 0);
	scoped_row("odd-secret", "later", 0);
	is_int(get_status("/api/v1/jobs", "Bearer read-secret", NULL), 200, "scope read: reads");
	is_int(post_status("/api/v1/jobs", "Bearer read-secret", spec), 403, "it submits nothing");
	is_int(post_status("/api/v1/jobs/1/stop", "Bearer read-secret", "{}"), 403, "it stops nothing");
	is_int(post_status("/api/v1/tokens", "Bearer read-secret", "{\"kind\":\"user\"}"), 403,
	       "it makes no token");
	is_int(post_status("/api/v1/login-links", "Bearer read-secret", "{}"), 403, "and no login link");
	is_int(post_status("/api/v1/jobs", "Bearer submit-secret", spec), 200, "scope submit: submits");
	is_int(post_status("/api/v1/blobs/missing", "Bearer submit-secret", "{\"digests\":[]}"), 200,
	       "it uploads what goes with it");
	is_int(get_status("/api/v1/jobs/1", "Bearer submit-secret", NULL), 200, "it reads");
	is_int(post_status("/api/v1/jobs/1/stop", "Bearer submit-secret", "{}"), 403, "it stops nothing");
	is_int(get_status("/api/v1/jobs/1", "Bearer only-secret", NULL), 200, "scope job:1: reads job 1");
	is_int(get_status("/api/v1/jobs/2", "Bearer only-secret", NULL), 403, "it reads no other job");
	is_int(post_status("/api/v1/nodes/alpha/drain", "Bearer admin2-secret", "{}"), 200,
	       "scope admin: drains");
	is_int(get_status("/api/v1/jobs", "Bearer odd-secret", NULL), 401, "an unknown scope opens nothing");
	a = http(k, "GET", "/api/v1/whoami", "Bearer read-secret", NULL, NULL);
	ok(strcmp(answer_str(a, "scope"), "read") == 0 && strcmp(answer_str(a, "account"), "alice") == 0,
	   "whoami says scope and account");
	answer_free(a);
}

static unsigned used;

/* On the state thread. */
static int count_use(struct hkit *kit, struct request *rq)
{
	if (rq->op == REQ_TOKEN_USED)
		used++;
	return make_session(kit, rq);
}

static int remember(const char *auth)
{
	return get_status("/api/v1/whoami", auth, NULL);
}

/* A thread remembers a token until some token has changed. */
static void test_memory(void)
{
	char hash[HASH_HEX_SIZE], id[16];
	struct store_txn *t;

	scoped_row("memory-secret", "", 0);
	used = 0;
	is_int(remember("Bearer memory-secret"), 200, "the first call reads the store");
	for (int i = 0; i < 20; i++)
		remember("Bearer memory-secret");
	ok(used <= 1, "twenty more report no further use (%u)", used);
	hash_hex("memory-secret", 13, hash);
	snprintf(id, sizeof(id), "%.8s", hash);
	t = store_txn_new();
	store_txn_token_del(t, id);
	hkit_commit(k, t);
	is_int(remember("Bearer memory-secret"), 200,
	       "without a notice the thread still knows it: no read of the store");
	hkit_event(k, 900, 0, "token_removed");
	is_int(remember("Bearer memory-secret"), 401, "after the notice it does not");
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
	struct hkit_options o = {.io_threads = 1, .on_request = count_use};

	k = hkit_start(&o);
	test_tokens();
	test_unix();
	test_origin();
	test_roles();
	test_job_token();
	test_scopes();
	test_memory();
	test_session();
	test_links();
	test_link_of_token();
	test_files();
	test_join_rate();
	hkit_stop(k);
	return tap_done();
}
