/*
 * join: see join.h. Off loopback hearthd speaks TLS with a certificate of the cluster's own authority,
 * which this node does not know yet. The token carries the fingerprint of that authority. The node first
 * takes the authority's certificate from a handshake that trusts nobody and sends nothing, and compares the
 * fingerprint. Only then it sends the token, over a connection that trusts this authority alone.
 */
#include "agent/control/join.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/net/tls.h"
#include "common/os/fsutil.h"

#define ANSWER_MAX     (256 * 1024)
#define PEM_MAX        (64 * 1024)
#define TOKEN_FILE_MAX 1024
#define WAIT_MAX_S     86400u

struct files {
	char *key, *cert, *ca, *node;
};

static void files_of(const char *data_dir, struct files *f)
{
	f->key = xasprintf("%s/agent.key", data_dir);
	f->cert = xasprintf("%s/agent.pem", data_dir);
	f->ca = xasprintf("%s/ca.pem", data_dir);
	f->node = xasprintf("%s/node", data_dir);
}

static void files_fini(struct files *f)
{
	free(f->key);
	free(f->cert);
	free(f->ca);
	free(f->node);
}

char *join_stored_name(const char *data_dir)
{
	cleanup_free char *path = xasprintf("%s/node", data_dir);
	char *text;

	if (fs_read_file(path, 256, &text, NULL, NULL) < 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text;
}

/* ---- files in DATA -------------------------------------------------------------------------------- */

static int file_exists(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_size > 0;
}

/* 1 joined and of the token's cluster (if there is a token); 0 not. */
static int has_joined(const struct files *f, const char *fingerprint)
{
	cleanup_free char *pem = NULL;
	char own[33];

	if (!file_exists(f->key) || !file_exists(f->cert) || !file_exists(f->node) ||
	    fs_read_file(f->ca, PEM_MAX, &pem, NULL, NULL) < 0)
		return 0;
	return !fingerprint || (tls_fingerprint(pem, own, NULL) == 0 && strcmp(own, fingerprint) == 0);
}

int join_is_member(const char *data_dir)
{
	struct files f;
	int member;

	files_of(data_dir, &f);
	member = has_joined(&f, NULL);
	files_fini(&f);
	return member;
}

/* ---- the token ----------------------------------------------------------------------------------- */

static char *first_line(const char *text)
{
	const char *from = text + strspn(text, " \t\r\n");

	return xstrndup(from, strcspn(from, " \t\r\n"));
}

static int read_line(int fd, const char *what, uint32_t wait_s, char **line, struct err *e)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char text[TOKEN_FILE_MAX + 1];
	ssize_t n;

	if (poll(&p, 1, (int)(wait_s < WAIT_MAX_S ? wait_s : WAIT_MAX_S) * 1000) != 1)
		return err_set(e, ERR_TIMEOUT, "%s: no join token came within %u s", what, wait_s);
	n = read(fd, text, TOKEN_FILE_MAX);
	if (n < 0)
		return err_sys(e, errno, "%s", what);
	text[n] = '\0';
	*line = first_line(text);
	return 0;
}

static int token_of_file(const char *path, int has_joined_once, uint32_t wait_s, char **token, struct err *e)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 && errno == ENOENT && has_joined_once)
		return 0; /* it is needed once */
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND,
		               "%s does not exist; write a token of `jobctl token create --join` to it", path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s", path);
	if (S_ISREG(st.st_mode) && (st.st_mode & 077))
		return err_set(e, ERR_DENIED, "other users may open %s, which holds a join token: chmod 600 %s", path,
		               path);
	return read_line(fd, path, wait_s, token, e);
}

int join_read_token(const struct join_source *s, char **token, struct err *e)
{
	cleanup_free char *stored = join_stored_name(s->data_dir);
	const char *env = getenv("HEARTH_JOIN_TOKEN");

	if (s->file)
		return token_of_file(s->file, stored != NULL, s->wait_s, token, e);
	if (env && *env) {
		*token = first_line(env);
		unsetenv("HEARTH_JOIN_TOKEN"); /* programs that the agent starts do not need it */
		return 0;
	}
	return s->from_stdin ? read_line(STDIN_FILENO, "standard input", s->wait_s, token, e) : 0;
}

/* ---- HTTP ------------------------------------------------------------------------------------------- */

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct buf *b = arg;

	return buf_put(b, data, size * n) == 0 ? size * n : 0;
}

static CURL *curl_for(const char *base, const char *path, struct buf *answer, char **url)
{
	CURL *c = curl_easy_init();

	if (!c)
		abort();
	*url = xasprintf("%s%s%s", base, base[0] && base[strlen(base) - 1] == '/' ? "" : "/", path);
	curl_easy_setopt(c, CURLOPT_URL, *url);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_NOPROXY,
	                 "*"); /* a controller is never behind the proxy for the rest of the world */
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, 30000L);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, answer);
	return c;
}

/* The certificate of the handshake whose fingerprint is the token's; malloc'ed PEM. */
static char *matching_cert(CURL *c, const char *fingerprint)
{
	struct curl_certinfo *info = NULL;
	char own[33];

	if (curl_easy_getinfo(c, CURLINFO_CERTINFO, &info) != CURLE_OK || !info)
		return NULL;
	for (int i = 0; i < info->num_of_certs; i++)
		for (struct curl_slist *s = info->certinfo[i]; s; s = s->next)
			if (strncmp(s->data, "Cert:", 5) == 0 && tls_fingerprint(s->data + 5, own, NULL) == 0 &&
			    strcmp(own, fingerprint) == 0)
				return xstrdup(s->data + 5);
	return NULL;
}

/* Does the same place speak the other of http and https? Asked when the given one gets nowhere: then waiting
 * does not help, and the text names what does. */
static int other_scheme(const char *url, char **other)
{
	int https = strncmp(url, "https:", 6) == 0;
	cleanup_free char *full = NULL;
	struct buf answer;
	CURLcode rc;
	CURL *c;

	*other = xasprintf("%s%s", https ? "http" : "https", url + (https ? 5 : 4));
	buf_init(&answer, ANSWER_MAX);
	c = curl_for(*other, "healthz", &answer, &full);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, 5000L);
	rc = curl_easy_perform(c);
	curl_easy_cleanup(c);
	buf_fini(&answer);
	return rc == CURLE_OK;
}

/* Explains a failed request. Another try helps only when hearthd is unreachable. */
static int no_answer(const char *url, CURLcode rc, struct err *e)
{
	cleanup_free char *other = NULL;

	if (rc != CURLE_COULDNT_CONNECT && rc != CURLE_COULDNT_RESOLVE_HOST && other_scheme(url, &other))
		return err_set(e, ERR_DENIED, "%s: the controller answers %.*s, not %.*s: give --controller %s", url,
		               (int)strcspn(other, ":"), other, (int)strcspn(url, ":"), url, other);
	if (rc == CURLE_PEER_FAILED_VERIFICATION)
		return err_set(
		    e, ERR_DENIED,
		    "%s: %s (the name or address in --controller must be one of those in hearthd's certificate)", url,
		    curl_easy_strerror(rc));
	return err_set(
	    e, ERR_UNAVAILABLE,
	    "%s: %s (is hearthd running there, does it listen on that address, is a firewall between?)", url,
	    curl_easy_strerror(rc));
}

/* 0; -1 with ERR_UNAVAILABLE when nobody answers. */
static int fetch_ca(const char *url, const char *fingerprint, char **ca, struct err *e)
{
	cleanup_free char *full = NULL;
	struct buf answer;
	CURL *c;
	CURLcode rc;

	buf_init(&answer, ANSWER_MAX);
	c = curl_for(url, "healthz", &answer, &full);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
	curl_easy_setopt(c, CURLOPT_CERTINFO, 1L);
	rc = curl_easy_perform(c);
	*ca = rc == CURLE_OK ? matching_cert(c, fingerprint) : NULL;
	curl_easy_cleanup(c);
	buf_fini(&answer);
	if (rc != CURLE_OK)
		return no_answer(url, rc, e);
	if (!*ca)
		return err_set(
		    e, ERR_DENIED,
		    "%s is not the cluster that this token is for (its authority has another fingerprint): get one "
		    "there by `jobctl token create`",
		    url);
	return 0;
}

static char *request_body(const char *token, const char *node, const char *csr)
{
	cJSON *o = cJSON_CreateObject();
	char *text;

	cJSON_AddStringToObject(o, "token", token);
	cJSON_AddStringToObject(o, "node", node);
	cJSON_AddStringToObject(o, "csr", csr);
	text = json_text(o);
	cJSON_Delete(o);
	return text;
}

static int explain_refusal(long status, const cJSON *o, struct err *e)
{
	const char *detail = NULL;

	if (o && json_get_str(o, "", "detail", &detail, NULL) < 0)
		detail = NULL;
	return err_set(e, status >= 500 ? ERR_UNAVAILABLE : ERR_DENIED, "the controller refused (%ld): %s",
	               status, detail ? detail : "no reason given");
}

static int take_answer(long status, const struct buf *answer, char **cert, char **ca, struct err *e)
{
	cJSON *o = json_parse((const char *)buf_head(answer), buf_left(answer), e);
	const char *c = NULL, *a = NULL;
	int rc = 0;

	if (status != 200 && status != 201)
		rc = explain_refusal(status, o, e);
	else if (!o || json_get_str(o, "", "cert", &c, e) < 0 || json_get_str(o, "", "ca", &a, e) < 0 || !c || !a)
		rc = err_set(e, ERR_PROTOCOL, "the controller's answer to join is invalid");
	if (rc == 0) {
		*cert = xstrdup(c);
		*ca = xstrdup(a);
	}
	cJSON_Delete(o);
	return rc;
}

static int post_join(const struct join_params *p, const char *csr, const char *ca_path, char **cert,
                     char **ca, struct err *e)
{
	cleanup_free char *body = request_body(p->token, p->node, csr);
	cleanup_free char *full = NULL;
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	struct buf answer;
	long status = 0;
	CURLcode rc;
	CURL *c;

	buf_init(&answer, ANSWER_MAX);
	c = curl_for(p->url, "api/v1/agents/join", &answer, &full);
	if (ca_path)
		curl_easy_setopt(c, CURLOPT_CAINFO, ca_path);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
	rc = curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(c);
	curl_slist_free_all(headers);
	if (rc == CURLE_OK)
		rc = take_answer(status, &answer, cert, ca, e) < 0 ? CURLE_HTTP_RETURNED_ERROR : CURLE_OK;
	else
		no_answer(p->url, rc, e);
	buf_fini(&answer);
	return rc == CURLE_OK ? 0 : -1;
}

/* ---- one try ----------------------------------------------------------------------------------------------
 */

static int write_files(const struct join_params *p, const struct files *f, const char *cert, const char *ca,
                       struct err *e)
{
	cleanup_free char *name = xasprintf("%s\n", p->node);

	/* The name last: has_joined wants all of them. */
	if (fs_write_atomic(f->ca, ca, strlen(ca), 0644, e) < 0 ||
	    fs_write_atomic(f->cert, cert, strlen(cert), 0644, e) < 0)
		return -1;
	return fs_write_atomic(f->node, name, strlen(name), 0644, e);
}

static int join_once(const struct join_params *p, const struct files *f, const char *fingerprint,
                     struct err *e)
{
	cleanup_free char *trusted = NULL;
	cleanup_free char *csr = NULL;
	cleanup_free char *cert = NULL;
	cleanup_free char *ca = NULL;
	cleanup_free char *ca_path = NULL;
	char own[33];
	int https = strncmp(p->url, "https:", 6) == 0;

	if (https && fetch_ca(p->url, fingerprint, &trusted, e) < 0)
		return -1;
	if (https) {
		ca_path = xasprintf("%s.new", f->ca);
		if (fs_write_atomic(ca_path, trusted, strlen(trusted), 0644, e) < 0)
			return -1;
	}
	if (tls_make_key_csr(f->key, p->node, &csr, e) < 0 || post_join(p, csr, ca_path, &cert, &ca, e) < 0)
		return -1;
	if (ca_path)
		unlink(ca_path);
	if (tls_fingerprint(ca, own, e) < 0)
		return -1;
	if (strcmp(own, fingerprint) != 0)
		return err_set(
		    e, ERR_DENIED,
		    "%s is not the cluster that this token is for (its authority has another fingerprint): get one "
		    "there by `jobctl token create`",
		    p->url);
	return write_files(p, f, cert, ca, e);
}

static int join_with_retry(const struct join_params *p, const struct files *f, const char *fingerprint,
                           struct err *e)
{
	uint64_t end = clock_boot_us(clock_real()) + (uint64_t)p->retry_s * 1000000;
	struct timespec gap = {0, 200000000};
	unsigned tries = 0;

	for (;;) {
		if (join_once(p, f, fingerprint, e) == 0)
			return 0;
		if (e->code != ERR_UNAVAILABLE || clock_boot_us(clock_real()) >= end)
			return -1;
		if (!tries++)
			log_warn("event=join_waits for_s=%u reason=\"%s\"", p->retry_s, e->text);
		nanosleep(&gap, NULL); /* before the loop exists: nothing else waits */
		if (gap.tv_sec == 0 && gap.tv_nsec < 800000000)
			gap.tv_nsec += 200000000;
	}
}

/* The certificate first: without it the folder has not joined. A key that stayed would let a repeated request
 * use the old token once more. */
void join_leave(const char *data_dir)
{
	struct files f;

	files_of(data_dir, &f);
	if ((unlink(f.cert) < 0 && errno != ENOENT) || (unlink(f.key) < 0 && errno != ENOENT))
		log_error("event=not_left data=%s reason=\"%s\"", data_dir, strerror(errno));
	files_fini(&f);
}

int join_cluster(const struct join_params *p, struct err *e)
{
	char secret[33], fingerprint[33] = "";
	cleanup_free char *stored = join_stored_name(p->data_dir);
	struct files f;
	int rc = 0;

	if (p->token && tls_join_parse(p->token, secret, fingerprint, e) < 0)
		return -1;
	files_of(p->data_dir, &f);
	if (has_joined(&f, p->token ? fingerprint : NULL)) {
		if (strcmp(stored, p->node) != 0)
			rc =
			    err_set(e, ERR_CONFLICT, "%s belongs to node '%s', not '%s'; use another --data or remove it",
			            p->data_dir, stored, p->node);
	} else if (!p->token) {
		rc = err_set(e, ERR_UNAUTHORIZED,
		             "this node has not joined a cluster yet; get a token by `jobctl token create` and give "
		             "it by --join-file FILE");
	} else {
		rc = join_with_retry(p, &f, fingerprint, e);
		if (rc == 0)
			log_info("event=joined node=%s url=%s", p->node, p->url);
	}
	files_fini(&f);
	return rc;
}
