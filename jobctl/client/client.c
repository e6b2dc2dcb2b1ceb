/*
 * client: see client.h.
 */
#include "jobctl/client/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/client/interrupt.h"

#define ANSWER_MAX      (256u * 1024 * 1024)
#define RETRY_AFTER_MAX 5 /* seconds; a longer Retry-After counts as this */
#define NOTICE_AFTER_US 1500000
#define CALL_MS         120000

struct client {
	struct client_config cfg;
	CURL *curl;
	CURLM *multi;
	char *base; /* http://host:port; for a unix socket http://localhost */
	char *socket_path;
	char errbuf[CURL_ERROR_SIZE];
	unsigned timeout_ms; /* of one try; 0: CALL_MS */
	void (*idle)(void *arg);
	void *idle_arg;
};

struct call {
	struct client *c;
	struct buf in;
	int too_large;
	client_data_fn fn, header;
	void *arg;
	int ended;
	long status;
	unsigned retry_after_s; /* 0: hearthd sent none */
};

static char *dup_or_null(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

struct client *client_create(const struct client_config *cfg, struct err *e)
{
	struct client *c = xcalloc(1, sizeof(*c));
	c->cfg.url = dup_or_null(cfg->url);
	c->cfg.token = dup_or_null(cfg->token);
	c->cfg.ca_file = dup_or_null(cfg->ca_file);
	c->cfg.source = dup_or_null(cfg->source);
	c->cfg.patience_s = cfg->patience_s;
	if (strncmp(cfg->url, "unix://", 7) == 0) {
		c->socket_path = xstrdup(cfg->url + 7);
		c->base = xstrdup("http://localhost");
	} else if (strncmp(cfg->url, "http://", 7) == 0 || strncmp(cfg->url, "https://", 8) == 0) {
		c->base = xstrdup(cfg->url);
		size_t n = strlen(c->base);
		while (n && c->base[n - 1] == '/')
			c->base[--n] = 0;
	} else {
		err_set(e, ERR_INVALID,
		        "url '%s' (from %s): expected http://HOST:PORT, https://HOST:PORT or unix:///PATH", cfg->url,
		        cfg->source);
		client_destroy(c);
		return NULL;
	}
	c->curl = curl_easy_init();
	c->multi = curl_multi_init();
	if (!c->curl || !c->multi) {
		err_set(e, ERR_INTERNAL, "libcurl failed to start");
		client_destroy(c);
		return NULL;
	}
	return c;
}

void client_destroy(struct client *c)
{
	if (!c)
		return;
	if (c->curl)
		curl_easy_cleanup(c->curl);
	if (c->multi)
		curl_multi_cleanup(c->multi);
	client_config_fini(&c->cfg);
	free(c->base);
	free(c->socket_path);
	free(c);
}

const char *client_url(const struct client *c)
{
	return c->cfg.url;
}

void client_on_idle(struct client *c, void (*fn)(void *arg), void *arg)
{
	c->idle = fn;
	c->idle_arg = arg;
}

void client_timeout(struct client *c, unsigned ms)
{
	c->timeout_ms = ms;
}

unsigned client_patience(struct client *c, unsigned seconds)
{
	unsigned old = c->cfg.patience_s;
	c->cfg.patience_s = seconds;
	return old;
}

static size_t on_data(char *p, size_t size, size_t n, void *arg)
{
	struct call *k = arg;
	size *= n;
	if (k->fn && k->status == 0)
		curl_easy_getinfo(k->c->curl, CURLINFO_RESPONSE_CODE, &k->status);
	if (k->fn && k->status >= 200 && k->status < 300) {
		if (k->fn(p, size, k->arg)) {
			k->ended = 1;
			return 0;
		}
		return size;
	}
	if (buf_put(&k->in, p, size)) {
		k->too_large = 1;
		return 0;
	}
	return size;
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
	static const char retry[] = "retry-after:";
	struct call *k = arg;
	size *= n;
	if (size > sizeof(retry) && strncasecmp(p, retry, sizeof(retry) - 1) == 0) {
		char number[16] = "";
		size_t len = 0;
		uint64_t s;
		for (size_t i = sizeof(retry) - 1; i < size && len < sizeof(number) - 1; i++) {
			if (p[i] >= '0' && p[i] <= '9')
				number[len++] = p[i];
		}
		number[len] = 0;
		if (!str_parse_u64(number, &s))
			k->retry_after_s = s < RETRY_AFTER_MAX ? (unsigned)s : RETRY_AFTER_MAX;
	}
	if (k->header)
		k->header(p, size, k->arg);
	return size;
}

static void set_common(struct client *c, const char *url, struct call *k)
{
	curl_easy_reset(c->curl);
	curl_easy_setopt(c->curl, CURLOPT_URL, url);
	curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, c->errbuf);
	curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c->curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
	curl_easy_setopt(c->curl, CURLOPT_USERAGENT, "jobctl/" PACKAGE_VERSION);
	curl_easy_setopt(c->curl, CURLOPT_TCP_NODELAY, 1L);
	if (c->socket_path)
		curl_easy_setopt(c->curl, CURLOPT_UNIX_SOCKET_PATH, c->socket_path);
	if (c->cfg.ca_file)
		curl_easy_setopt(c->curl, CURLOPT_CAINFO, c->cfg.ca_file);
	curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, k);
	curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, k);
	c->errbuf[0] = 0;
}

static struct curl_slist *add_header(struct curl_slist *l, const char *name, const char *value)
{
	char *h = xasprintf("%s: %s", name, value);
	l = curl_slist_append(l, h);
	free(h);
	return l;
}

static char *full_url(const struct client *c, const char *path)
{
	if (strncmp(path, "//", 2) == 0)
		return xasprintf("%s%s", c->base, path + 1);
	return xasprintf("%s/api/v1%s", c->base, path);
}

/* Runs the transfer like curl_easy_perform, but ends after Ctrl-C (CURLE_ABORTED_BY_CALLBACK). */
static CURLcode run_transfer(struct client *c)
{
	CURLcode rc = CURLE_OK;
	int running = 1;
	uint64_t quiet_us = clock_boot_us(clock_real());
	if (curl_multi_add_handle(c->multi, c->curl) != CURLM_OK)
		return CURLE_FAILED_INIT;
	while (running && rc == CURLE_OK) {
		struct curl_waitfd stop = {.fd = interrupt_fd(), .events = CURL_WAIT_POLLIN};
		if (curl_multi_perform(c->multi, &running) != CURLM_OK)
			rc = CURLE_FAILED_INIT;
		else if (interrupted())
			rc = CURLE_ABORTED_BY_CALLBACK;
		else if (running &&
		         curl_multi_poll(c->multi, &stop, interrupt_fd() >= 0 ? 1 : 0, 1000, NULL) != CURLM_OK)
			rc = CURLE_FAILED_INIT;
		if (c->idle && clock_boot_us(clock_real()) - quiet_us > 1000000) {
			c->idle(c->idle_arg);
			quiet_us = clock_boot_us(clock_real());
		}
	}
	CURLMsg *m;
	int left;
	while ((m = curl_multi_info_read(c->multi, &left))) {
		if (m->msg == CURLMSG_DONE && rc == CURLE_OK)
			rc = m->data.result;
	}
	curl_multi_remove_handle(c->multi, c->curl);
	return rc;
}

/* Turns libcurl's result into an error: no controller, or a broken exchange. */
static int curl_failed(const struct client *c, CURLcode rc, struct err *e)
{
	const char *why = c->errbuf[0] ? c->errbuf : curl_easy_strerror(rc);
	switch (rc) {
	case CURLE_ABORTED_BY_CALLBACK:
		return err_set(e, ERR_TIMEOUT, "interrupted");
	case CURLE_URL_MALFORMAT:
	case CURLE_UNSUPPORTED_PROTOCOL:
		return err_set(e, ERR_INVALID, "url '%s' (from %s): %s", c->cfg.url, c->cfg.source, why);
	case CURLE_GOT_NOTHING:
	case CURLE_WEIRD_SERVER_REPLY:
		return err_set(e, ERR_UNAVAILABLE, "the controller at %s sent no answer: %s%s", c->cfg.url, why,
		               strncmp(c->cfg.url, "http:", 5) != 0
		                   ? ""
		                   : ". Except on loopback, hearthd uses TLS; try https://");
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
		/* curl would report localhost, port 80 */
		if (strncmp(c->cfg.url, "unix://", 7) == 0)
			why = access(c->cfg.url + 7, W_OK) ? strerror(errno) : "no process listens there";
		return err_set(e, ERR_UNAVAILABLE,
		               "no controller at %s (from %s): %s. Is hearthd running? To start one on this machine: "
		               "jobctl local up",
		               c->cfg.url, c->cfg.source, why);
	case CURLE_OPERATION_TIMEDOUT:
		return err_set(e, ERR_UNAVAILABLE, "the controller at %s does not answer: %s", c->cfg.url, why);
	case CURLE_SSL_CONNECT_ERROR:
		return err_set(
		    e, ERR_UNAVAILABLE,
		    "no TLS with the controller at %s: %s. On loopback, hearthd uses plain HTTP; try http://",
		    c->cfg.url, why);
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
		return err_set(
		    e, ERR_DENIED,
		    "the certificate of %s is not trusted: %s. Log in with a token, which brings the "
		    "cluster's authority along: jobctl login %s (or name a copy of DATA/ca.pem in HEARTH_CA)",
		    c->cfg.url, why, c->cfg.url);
	default:
		return err_set(e, ERR_UNAVAILABLE, "the call to the controller at %s failed: %s", c->cfg.url, why);
	}
}

static enum err_code code_of_status(long status)
{
	switch (status) {
	case 400:
		return ERR_INVALID;
	case 401:
		return ERR_UNAUTHORIZED;
	case 403:
		return ERR_DENIED;
	case 404:
		return ERR_NOT_FOUND;
	case 409:
		return ERR_CONFLICT;
	case 413:
		return ERR_LIMIT;
	case 415:
	case 422:
	case 501:
		return ERR_UNSUPPORTED;
	case 429:
		return ERR_BUSY;
	case 502:
	case 503:
		return ERR_UNAVAILABLE;
	case 504:
		return ERR_TIMEOUT;
	case 507:
		return ERR_NOSPACE;
	default:
		return ERR_INTERNAL;
	}
}

/* Turns problem+json into one text: the detail (one line per finding), then the hint. */
static int status_failed(long status, const char *body, size_t n, struct err *e)
{
	cJSON *j = n ? json_parse(body, n, NULL) : NULL;
	const char *detail = NULL, *title = NULL, *hint = NULL;
	json_get_str(j, "", "detail", &detail, NULL);
	json_get_str(j, "", "title", &title, NULL);
	json_get_str(j, "", "hint", &hint, NULL);
	if (!detail)
		detail = title ? title : "the controller gave no reason";
	if (status == 401)
		err_set(e, ERR_UNAUTHORIZED,
		        "%s\nAsk an administrator for a token, then: jobctl login URL (or set it in HEARTH_TOKEN). "
		        "On the "
		        "controller's machine DATA/hearthd.sock needs no token",
		        detail);
	else if (hint)
		err_set(e, code_of_status(status), "%s\n%s", detail, hint);
	else if (status >= 500)
		err_set(e, code_of_status(status), "%s (HTTP %ld)", detail, status);
	else
		err_set(e, code_of_status(status), "%s", detail);
	cJSON_Delete(j);
	return -1;
}

struct attempt {
	const char *method, *path, *ctype;
	const void *body;
	size_t body_n;
	const char *idem;
};

static int try_once(struct client *c, const struct attempt *t, struct call *k, struct err *e)
{
	char *url = full_url(c, t->path);
	buf_reset(&k->in);
	k->status = 0;
	k->retry_after_s = 0;
	set_common(c, url, k);
	struct curl_slist *h = add_header(NULL, "Accept", "application/json");
	h = curl_slist_append(h, "Expect:");
	if (c->cfg.token) {
		char *bearer = xasprintf("Bearer %s", c->cfg.token);
		h = add_header(h, "Authorization", bearer);
		free(bearer);
	}
	/* Without a body libcurl would send the content type of a form. */
	if (t->ctype)
		h = add_header(h, "Content-Type", t->ctype);
	else
		h = curl_slist_append(h, "Content-Type:");
	if (t->idem)
		h = add_header(h, "Idempotency-Key", t->idem);
	curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, h);
	curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, (long)(c->timeout_ms ? c->timeout_ms : CALL_MS));
	curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, t->method);
	if (t->body || strcmp(t->method, "GET") != 0) {
		curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, t->body ? t->body : "");
		curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body_n);
	}
	CURLcode rc = run_transfer(c);
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &k->status);
	curl_slist_free_all(h);
	free(url);
	if (k->too_large)
		return err_set(e, ERR_LIMIT, "the answer to %s %s is larger than %zu KiB", t->method, t->path,
		               k->in.limit / 1024);
	if (rc != CURLE_OK)
		return curl_failed(c, rc, e);
	if (k->status < 200 || k->status > 299)
		return status_failed(k->status, (const char *)buf_head(&k->in), buf_left(&k->in), e);
	return 0;
}

static int is_retryable(const struct err *e)
{
	return e->code == ERR_UNAVAILABLE || e->code == ERR_BUSY;
}

/* Reports once, on a terminal, that the call is retried. */
static void notice_wait(const struct client *c, const struct err *why, uint64_t waited_us, int *said)
{
	if (*said || waited_us < NOTICE_AFTER_US || !isatty(STDERR_FILENO))
		return;
	*said = 1;
	fprintf(stderr, "jobctl: %.200s\njobctl: retrying for %u s; Ctrl-C cancels\n", why->text,
	        c->cfg.patience_s);
}

static int perform_call(struct client *c, const struct attempt *t, struct call *k, struct err *e)
{
	struct err local = {0};
	uint64_t start = clock_boot_us(clock_real()), end = start + (uint64_t)c->cfg.patience_s * 1000000;
	int pause_ms = 50, said = 0;
	for (;;) {
		if (!try_once(c, t, k, &local))
			return 0;
		int wait_ms = k->retry_after_s ? (int)k->retry_after_s * 1000 : pause_ms;
		uint64_t now = clock_boot_us(clock_real());
		if (interrupted() || !is_retryable(&local) || now + (uint64_t)wait_ms * 1000 >= end)
			break;
		notice_wait(c, &local, now - start, &said);
		if (interrupt_sleep(wait_ms))
			break;
		pause_ms = pause_ms < 1000 ? pause_ms * 2 : 1000;
	}
	if (e)
		*e = local;
	return -1;
}

int client_call(struct client *c, const char *method, const char *path, const cJSON *body, cJSON **out,
                struct err *e)
{
	struct call k = {.c = c};
	char idem[33];
	char *text = body ? json_text(body) : NULL;
	struct attempt t = {.method = method, .path = path, .body = text, .body_n = text ? strlen(text) : 0};
	if (text)
		t.ctype = "application/json";
	if (strcmp(method, "POST") == 0) {
		random_hex(idem, 32);
		t.idem = idem;
	}
	buf_init(&k.in, ANSWER_MAX);
	int rc = perform_call(c, &t, &k, e);
	if (!rc && out) {
		*out = NULL;
		if (buf_left(&k.in)) {
			*out = json_parse((const char *)buf_head(&k.in), buf_left(&k.in), e);
			if (!*out)
				rc = err_wrap(e, "the answer of %s %s", method, path);
		}
	}
	buf_fini(&k.in);
	free(text);
	return rc;
}

int client_put(struct client *c, const char *path, const void *data, size_t n, struct err *e)
{
	struct call k = {.c = c};
	struct attempt t = {
	    .method = "PUT", .path = path, .body = data, .body_n = n, .ctype = "application/octet-stream"};
	buf_init(&k.in, ANSWER_MAX);
	int rc = perform_call(c, &t, &k, e);
	buf_fini(&k.in);
	return rc;
}

int client_get(struct client *c, const char *path, size_t max, char **data, size_t *n, struct err *e)
{
	struct call k = {.c = c};
	struct attempt t = {.method = "GET", .path = path};
	buf_init(&k.in, max);
	int rc = perform_call(c, &t, &k, e);
	if (!rc) {
		*n = buf_left(&k.in);
		*data = xmalloc(*n + 1);
		if (*n)
			memcpy(*data, buf_head(&k.in), *n);
		(*data)[*n] = 0;
	}
	buf_fini(&k.in);
	return rc;
}

int client_stream(struct client *c, const char *path, const char *accept, const char *last_event_id,
                  client_data_fn fn, client_data_fn header, void *arg, struct err *e)
{
	struct call k = {.c = c, .fn = fn, .header = header, .arg = arg};
	char *url = full_url(c, path);
	buf_init(&k.in, 1024 * 1024);
	set_common(c, url, &k);
	struct curl_slist *h = add_header(NULL, "Accept", accept);
	if (c->cfg.token) {
		char *bearer = xasprintf("Bearer %s", c->cfg.token);
		h = add_header(h, "Authorization", bearer);
		free(bearer);
	}
	if (last_event_id)
		h = add_header(h, "Last-Event-ID", last_event_id);
	curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, h);
	/* A stream has no time limit, but keepalives find a dead connection. */
	curl_easy_setopt(c->curl, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(c->curl, CURLOPT_TCP_KEEPIDLE, 10L);
	curl_easy_setopt(c->curl, CURLOPT_TCP_KEEPINTVL, 5L);
	CURLcode rc = run_transfer(c);
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &k.status);
	curl_slist_free_all(h);
	free(url);
	int result = 0;
	if (k.ended)
		result = 1;
	else if (rc != CURLE_OK)
		result = curl_failed(c, rc, e);
	else if (k.status < 200 || k.status > 299)
		result = status_failed(k.status, (const char *)buf_head(&k.in), buf_left(&k.in), e);
	buf_fini(&k.in);
	return result;
}

char *client_escape(const char *s)
{
	static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	char *out = xmalloc(strlen(s) * 3 + 1), *o = out;
	for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
		if (strchr(safe, *p))
			*o++ = (char)*p;
		else
			o += snprintf(o, 4, "%%%02X", *p);
	}
	*o = 0;
	return out;
}

int client_exit_code(const struct err *e)
{
	switch (e->code) {
	case ERR_NONE:
		return 0;
	case ERR_INVALID:
		return 2;
	case ERR_NOT_FOUND:
		return 3;
	case ERR_UNAVAILABLE:
		return 5;
	case ERR_TIMEOUT:
		return 124;
	default:
		return 4;
	}
}
