/* jobctl's client and configuration against a scripted server: errors, retries, idempotency keys, streams,
 * tokens. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "jobctl/client/client.h"
#include "jobctl/local/local.h"
#include "tests/lib/tap.h"
#include "tests/unit/jobctl/jobctl_server.h"

static struct client *client_of(const char *url, const char *token, unsigned patience_s)
{
	struct client_config c = {.url = xstrdup(url),
	                          .token = xstrdup(token),
	                          .source = xstrdup("the test"),
	                          .patience_s = patience_s};
	struct err e;
	struct client *cl = client_create(&c, &e);
	client_config_fini(&c);
	if (!cl)
		tap_bail("client of %s: %s", url, e.text);
	return cl;
}

/* ---- answers and errors ---- */

static void by_path(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	static const struct {
		const char *path;
		int status;
		const char *body;
	} t[] = {{"/api/v1/ok", 200, "{\"x\":1}"},
	         {"/healthz", 200, "{\"status\":\"ok\"}"},
	         {"/api/v1/empty", 204, NULL},
	         {"/api/v1/bad", 400, "{\"title\":\"Bad\",\"detail\":\"a: wrong\\nb: wrong\",\"hint\":\"look\"}"},
	         {"/api/v1/missing", 404, "{\"detail\":\"there is no job 9\"}"},
	         {"/api/v1/denied", 403, "{\"detail\":\"not yours\"}"},
	         {"/api/v1/login", 401, "{\"detail\":\"log in first\",\"hint\":\"bring a token\"}"},
	         {"/api/v1/conflict", 409, "{\"detail\":\"it runs\"}"},
	         {"/api/v1/later", 501, "{\"detail\":\"not built yet\"}"},
	         {"/api/v1/html", 500, "<html>oops</html>"},
	         {"/api/v1/title", 422, "{\"title\":\"Not supported\"}"},
	         {"/api/v1/broken", 200, "{\"x\":"}};
	(void)nth;
	(void)arg;
	a->status = 404;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		if (!strcmp(q->uri, t[i].path)) {
			a->status = t[i].status;
			a->body = t[i].body;
		}
	}
}

static void test_errors(void)
{
	static const struct {
		const char *path, *text;
		enum err_code code;
		int exit_code;
	} t[] = {{"/bad", "a: wrong\nb: wrong\nlook", ERR_INVALID, 2},
	         {"/missing", "there is no job 9", ERR_NOT_FOUND, 3},
	         {"/denied", "not yours", ERR_DENIED, 4},
	         {"/login",
	          "log in first\nAsk an administrator for a token, then: jobctl login URL (or set it in "
	          "HEARTH_TOKEN). On the "
	          "controller's machine DATA/hearthd.sock needs no token",
	          ERR_UNAUTHORIZED, 4},
	         {"/conflict", "it runs", ERR_CONFLICT, 4},
	         {"/later", "not built yet (HTTP 501)", ERR_UNSUPPORTED, 4},
	         {"/html", "the controller gave no reason (HTTP 500)", ERR_INTERNAL, 4},
	         {"/title", "Not supported", ERR_UNSUPPORTED, 4}};
	struct js *s = js_start(by_path, NULL, NULL);
	struct client *c = client_of(js_url(s), "secret", 2);
	struct err e;
	cJSON *out = NULL;
	is_int(client_call(c, "GET", "/ok", NULL, &out, &e), 0, "an answer");
	is_int((int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(out, "x")), 1, "is parsed");
	cJSON_Delete(out);
	is_str(js_seen(s, 0)->authorization, "Bearer secret", "with the token");
	is_str(js_seen(s, 0)->idempotency_key, NULL, "a GET has no key");
	is_int(client_call(c, "GET", "/empty", NULL, &out, &e), 0, "no body");
	ok(!out, "gives nothing");
	is_int(client_call(c, "GET", "//healthz", NULL, NULL, &e), 0, "a path outside of /api/v1");
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		is_int(client_call(c, "GET", t[i].path, NULL, NULL, &e), -1, t[i].path);
		is_str(e.text, t[i].text, "its text");
		is_int(e.code, t[i].code, "its code");
		is_int(client_exit_code(&e), t[i].exit_code, "its exit code");
	}
	is_int(client_call(c, "GET", "/broken", NULL, &out, &e), -1, "an answer that is no JSON");
	like(e.text, "the answer of GET /broken", "says whose");
	is_int(client_call(c, "DELETE", "/ok", NULL, NULL, &e), 0, "DELETE");
	is_str(js_seen(s, js_count(s) - 1)->content_type, NULL, "without a body no content type");
	client_destroy(c);
	js_stop(s);
}

static void test_limits(void)
{
	struct js *s = js_start(by_path, NULL, NULL);
	struct client *c = client_of(js_url(s), NULL, 2);
	struct err e;
	char *data = NULL;
	size_t n = 0;
	is_int(client_get(c, "/ok", 7, &data, &n, &e), 0, "raw bytes, as many as allowed");
	is_str(data, "{\"x\":1}", "they are there");
	is_int(n, 7, "all");
	free(data);
	is_int(client_get(c, "/ok", 6, &data, &n, &e), -1, "one too many");
	is_int(e.code, ERR_LIMIT, "is a limit");
	is_int(js_count(s), 2, "and is not tried again");
	is_str(js_seen(s, 0)->authorization, NULL, "no token, no header");
	client_destroy(c);
	js_stop(s);
	struct client_config bad = {.url = xstrdup("ftp://x"), .source = xstrdup("--url")};
	ok(!client_create(&bad, &e), "another scheme");
	like(e.text, "url 'ftp://x' (from --url)", "is named with its source");
	client_config_fini(&bad);
	c = client_of("http://a b/", NULL, 5);
	is_int(client_call(c, "GET", "/x", NULL, NULL, &e), -1, "no address");
	is_int(client_exit_code(&e), 2, "is a fault of usage, found at once");
	client_destroy(c);
}

static void test_escape(void)
{
	char *s = client_escape("a b/ü?&=~-._");
	is_str(s, "a%20b%2F%C3%BC%3F%26%3D~-._", "escaped");
	free(s);
}

/* ---- again ---- */

static void busy(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	(void)q;
	(void)arg;
	a->body = "{\"detail\":\"busy\",\"id\":7}";
	if (nth == 0)
		a->status = 0; /* the connection breaks before the answer */
	else if (nth == 1)
		a->status = 503;
	else if (nth == 2) {
		a->status = 429;
		a->headers[0] = "Retry-After";
		a->headers[1] = "1";
	}
}

static void test_again(void)
{
	struct js *s = js_start(busy, NULL, NULL);
	struct client *c = client_of(js_url(s), NULL, 20);
	struct err e;
	cJSON *body = cJSON_CreateObject(), *out = NULL;
	cJSON_AddNumberToObject(body, "a", 1);
	is_int(client_call(c, "POST", "/jobs", body, &out, &e), 0, "a POST succeeds in the end");
	is_int(js_count(s), 4, "at the fourth try");
	const char *key = js_seen(s, 0)->idempotency_key;
	ok(key && strlen(key) == 32, "it has a key");
	for (unsigned i = 1; i < 4; i++) {
		is_str(js_seen(s, i)->idempotency_key, key, "the same in every try");
		is_str(js_seen(s, i)->body, "{\"a\":1}", "and the same body");
	}
	is_str(js_seen(s, 3)->content_type, "application/json", "as JSON");
	cJSON_Delete(out);
	is_int(client_call(c, "POST", "/jobs", body, NULL, &e), 0, "another POST");
	ok(strcmp(js_seen(s, 4)->idempotency_key, key) != 0, "has another key");
	cJSON_Delete(body);
	client_destroy(c);
	js_stop(s);
}

static void always_503(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	(void)q;
	(void)nth;
	(void)arg;
	a->status = 503;
	a->body = "{\"detail\":\"hearthd is starting\"}";
}

static void test_patience(void)
{
	struct js *s = js_start(always_503, NULL, NULL);
	struct client *c = client_of(js_url(s), NULL, 1);
	struct err e;
	uint64_t before = clock_boot_us(clock_real());
	is_int(client_call(c, "GET", "/x", NULL, NULL, &e), -1, "a controller that stays away");
	uint64_t took = clock_boot_us(clock_real()) - before;
	ok(took > 300000 && took < 1500000, "is given up after the patience (%llu us)", (unsigned long long)took);
	ok(js_count(s) > 2 && js_count(s) < 8, "with growing pauses (%u tries)", js_count(s));
	is_int(client_exit_code(&e), 5, "no controller");
	is_int(client_patience(c, 0), 1, "patience can be changed");
	unsigned n = js_count(s);
	client_call(c, "GET", "/x", NULL, NULL, &e);
	is_int(js_count(s), n + 1, "to one try");
	client_destroy(c);
	js_stop(s);
}

static void test_refused(void)
{
	struct js *s = js_start(by_path, NULL, NULL);
	char *url = xstrdup(js_url(s));
	js_stop(s);
	struct client *c = client_of(url, NULL, 0);
	struct err e;
	is_int(client_call(c, "GET", "/ok", NULL, NULL, &e), -1, "nobody listens");
	like(e.text, "no controller at http://127.0.0.1:", "is said");
	like(e.text, "(from the test)", "with where the address came from");
	is_int(client_exit_code(&e), 5, "and has its exit code");
	client_destroy(c);
	free(url);
}

/* The server comes up while the client tries: on a unix socket, whose address is known before. */
static void test_late_start(void)
{
	char *path = xasprintf("%s/late.sock", tap_tmpdir()), *url = xasprintf("unix://%s", path);
	pid_t pid = fork();
	if (pid == 0) {
		struct client *c = client_of(url, NULL, 20);
		_exit(client_call(c, "GET", "/ok", NULL, NULL, NULL) ? 1 : 0);
	}
	struct js *s = js_start(by_path, NULL, path);
	is_int(js_wait(s, 1, 20000), 0, "the client comes when the controller is there");
	int status = -1;
	waitpid(pid, &status, 0);
	is_int(status, 0, "and has its answer");
	is_str(js_seen(s, 0)->uri, "/api/v1/ok", "over the unix socket");
	js_stop(s);
	free(path);
	free(url);
}

/* ---- streams ---- */

struct text {
	char got[512], headers[2048];
	size_t stop_after;
};

static int take(const char *p, size_t n, void *arg)
{
	struct text *t = arg;
	size_t k = strlen(t->got);
	snprintf(t->got + k, sizeof(t->got) - k, "%.*s", (int)n, p);
	return t->stop_after && strlen(t->got) >= t->stop_after ? -1 : 0;
}

static int take_header(const char *p, size_t n, void *arg)
{
	struct text *t = arg;
	size_t k = strlen(t->headers);
	snprintf(t->headers + k, sizeof(t->headers) - k, "%.*s", (int)n, p);
	return 0;
}

static void stream(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	(void)nth;
	(void)arg;
	a->chunked = 1;
	a->body = "hello\n";
	a->headers[0] = "X-Hearth-Offset";
	a->headers[1] = "12";
	if (strstr(q->uri, "cut"))
		a->cut = 1;
	if (strstr(q->uri, "hang"))
		a->hang = 1;
	if (strstr(q->uri, "none")) {
		a->chunked = 0;
		a->status = 404;
		a->body = "{\"detail\":\"no such stream\"}";
	}
}

static void test_streams(void)
{
	struct js *s = js_start(stream, NULL, NULL);
	struct client *c = client_of(js_url(s), "t", 2);
	struct err e;
	struct text t = {{0}, {0}, 0};
	is_int(client_stream(c, "/s", "text/event-stream", "41", take, take_header, &t, &e), 0,
	       "a stream to its end");
	is_str(t.got, "hello\n", "its bytes");
	like(t.headers, "X-Hearth-Offset: 12", "its headers");
	is_str(js_seen(s, 0)->last_event_id, "41", "where to go on is sent");
	memset(&t, 0, sizeof(t));
	is_int(client_stream(c, "/cut", "x", NULL, take, NULL, &t, &e), -1,
	       "a connection that breaks in the middle");
	is_int(e.code, ERR_UNAVAILABLE, "is an error that may be mended");
	is_str(t.got, "hello\n", "what came before is there");
	is_str(js_seen(s, 1)->last_event_id, NULL, "no id, no header");
	memset(&t, 0, sizeof(t));
	t.stop_after = 3;
	is_int(client_stream(c, "/hang", "x", NULL, take, NULL, &t, &e), 1, "an end on request");
	memset(&t, 0, sizeof(t));
	is_int(client_stream(c, "/none", "x", NULL, take, NULL, &t, &e), -1, "a stream that is not there");
	is_str(e.text, "no such stream", "says so");
	is_str(t.got, "", "the error is no data");
	client_destroy(c);
	js_stop(s);
}

/* ---- configuration ---- */

static void write_config(const char *home, const char *text)
{
	char *dir = xasprintf("%s/.config/hearth", home), *path = xasprintf("%s/config", dir);
	char *parent = xasprintf("%s/.config", home);
	mkdir(parent, 0700);
	mkdir(dir, 0700);
	FILE *f = fopen(path, "w");
	fputs(text, f);
	fclose(f);
	free(dir);
	free(path);
	free(parent);
}

static void config_is(const char *flag, const char *url, const char *token, const char *what)
{
	struct client_config c;
	struct err e;
	if (client_config_load(&c, flag, local_url, &e)) {
		ok(0, "%s: %s", what, e.text);
		return;
	}
	is_str(c.url, url, what);
	is_str(c.token, token, "its token");
	client_config_fini(&c);
}

static void config_fails(const char *home, const char *text, const char *message)
{
	struct client_config c;
	struct err e = {0};
	write_config(home, text);
	is_int(client_config_load(&c, NULL, local_url, &e), -1, "a faulty file");
	like(e.text, message, "is named with line and fault");
	is_int(client_exit_code(&e), 2, "as a fault of usage");
}

static void test_config(void)
{
	const char *home = tap_tmpdir();
	static const char *const unset[] = {"HEARTH_URL",      "HEARTH_TOKEN",    "HEARTH_CA",
	                                    "HEARTH_PATIENCE", "XDG_CONFIG_HOME", "XDG_DATA_HOME"};
	for (size_t i = 0; i < 6; i++)
		unsetenv(unset[i]);
	setenv("HOME", home, 1);
	config_is(NULL, "http://127.0.0.1:7070", NULL, "nothing said");
	write_config(home, "# c\n\nurl = https://a:1/\r\n token= file-token \nca=/x.pem\n");
	config_is(NULL, "https://a:1/", "file-token", "the file");
	config_is("https://a:1", "https://a:1", "file-token", "the same controller by flag");
	config_is("https://b:1", "https://b:1", NULL, "another one by flag never gets the file's token");
	setenv("HEARTH_URL", "https://c:1", 1);
	config_is(NULL, "https://c:1", NULL, "another one by environment neither");
	setenv("HEARTH_TOKEN", "env-token", 1);
	config_is(NULL, "https://c:1", "env-token", "the environment's own token");
	config_is("https://b:1", "https://b:1", NULL, "a flag does not get the environment's token");
	config_is("https://a:1", "https://a:1", "file-token", "but the one that belongs to it");
	unsetenv("HEARTH_URL");
	config_is("https://b:1", "https://b:1", "env-token",
	          "a token alone in the environment was meant for the flag");
	config_is(NULL, "https://a:1/", "env-token", "or for the file's address");
	unsetenv("HEARTH_TOKEN");
	write_config(home, "token = lone\n");
	config_is(NULL, "http://127.0.0.1:7070", "lone", "a token alone in the file is for the default");
	config_is("https://b:1", "https://b:1", NULL, "and for nobody else");
	struct client_config c;
	setenv("HEARTH_CA", "/env.pem", 1);
	setenv("HEARTH_PATIENCE", "3", 1);
	is_int(client_config_load(&c, NULL, local_url, NULL), 0, "the environment again");
	is_str(c.ca_file, "/env.pem", "its authority wins");
	is_int(c.patience_s, 3, "and its patience");
	client_config_fini(&c);
	config_fails(home, "url = x\nurll = y\n", "config:2: unknown key 'urll' (did you mean 'url'?)");
	config_fails(home, "url\n", "config:1: expected 'key = value'");
	config_fails(home, "url = a\nurl = b\n", "config:2: the key 'url' appears twice");
	char *other = xasprintf("%s/xdg", home);
	setenv("XDG_CONFIG_HOME", other, 1);
	setenv("XDG_DATA_HOME", other, 1);
	char *sock = xasprintf("%s/hearth/local/hearthd/hearthd.sock", other),
	     *url = xasprintf("unix://%s", sock);
	for (char *p = strchr(sock + strlen(home), '/'); p; p = strchr(p + 1, '/')) {
		*p = 0;
		mkdir(sock, 0700);
		*p = '/';
	}
	fclose(fopen(sock, "w"));
	config_is(NULL, url, NULL, "the local cluster's socket");
	free(sock);
	free(url);
	free(other);
}

int main(void)
{
	test_errors();
	test_limits();
	test_escape();
	test_again();
	test_patience();
	test_refused();
	test_late_start();
	test_streams();
	test_config();
	return tap_done();
}
