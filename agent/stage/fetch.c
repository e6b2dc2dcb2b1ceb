/*
 * fetch: see fetch.h.
 *
 * Range and If-Range continue a part. A server that has another version by now answers with the whole of it,
 * and the part starts again. A part without a validator (ETag or Last-Modified) is never continued: its
 * version is unknown.
 */
#include "agent/stage/fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/base/hash.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define TRIES       6
#define TRIES_TOTAL 100
#define BACKOFF_MS  500
#define BACKOFF_MAX 10000
#define REDIRECTS   10L
#define CONNECT_S   15L
#define STALL_S     60L
#define PIECE       (4u * 1024 * 1024)

struct load {
	struct fetch *f;
	CURL *curl;
	int fd;
	uint64_t from;  /* asked to go on there */
	uint64_t size;  /* of the part now */
	long status;    /* of the answer whose body comes */
	uint64_t total; /* 0 unknown */
	uint64_t range_from;
	int has_range, body_begun, stopped;
	struct err why; /* of a callback that broke off */
};

void fetch_global_init(void)
{
	static int done; /* loop's thread only */

	if (!done)
		curl_global_init(CURL_GLOBAL_DEFAULT);
	done = 1;
}

char *fetch_shown(const char *url)
{
	const char *host = strstr(url, "://"), *at, *colon, *end;

	host = host ? host + 3 : url;
	end = host + strcspn(host, "/?#");
	at = memchr(host, '@', (size_t)(end - host));
	colon = at ? memchr(host, ':', (size_t)(at - host)) : NULL;
	if (!colon)
		return xstrdup(url);
	return xasprintf("%.*s:***%s", (int)(colon - url), url, at);
}

char *fetch_name(const char *url)
{
	const char *path = strstr(url, "://"), *end, *slash;
	char *name;

	path = path ? path + 3 : url;
	end = path + strcspn(path, "?#");
	slash = path + strcspn(path, "/?#");
	for (const char *p = slash; p < end; p++)
		if (*p == '/')
			slash = p;
	name = slash < end ? xstrndup(slash + 1, (size_t)(end - slash - 1)) : xstrdup("");
	if (!*name || !str_safe_relpath(name) || name[0] == '.') {
		free(name);
		return xstrdup("download");
	}
	return name;
}

/* ---- answers --------------------------------------------------------------------------------------------
 */

static int header_is(const char *line, size_t n, const char *name, char *out, size_t out_size)
{
	size_t len = strlen(name);

	if (n <= len || strncasecmp(line, name, len) != 0 || line[len] != ':')
		return 0;
	line += len + 1;
	n -= len + 1;
	while (n && (*line == ' ' || *line == '\t')) {
		line++;
		n--;
	}
	while (n && (line[n - 1] == '\r' || line[n - 1] == '\n' || line[n - 1] == ' '))
		n--;
	snprintf(out, out_size, "%.*s", n < out_size ? (int)n : 0, line); /* too long: none */
	return 1;
}

static size_t on_header(char *line, size_t size, size_t count, void *arg)
{
	struct load *l = arg;
	size_t n = size * count;
	char value[128];

	if (n > 5 && strncmp(line, "HTTP/", 5) == 0) { /* a redirect, 100-continue: only the last answer counts */
		l->f->etag[0] = l->f->modified[0] = '\0';
		l->has_range = 0;
		l->total = 0;
		return n;
	}
	if (header_is(line, n, "ETag", l->f->etag, sizeof(l->f->etag)) ||
	    header_is(line, n, "Last-Modified", l->f->modified, sizeof(l->f->modified)))
		return n;
	if (header_is(line, n, "Content-Range", value, sizeof(value)))
		l->has_range = sscanf(value, "bytes %" SCNu64 "-%*u/%" SCNu64, &l->range_from, &l->total) >= 1;
	else if (header_is(line, n, "Content-Length", value, sizeof(value)) && !l->has_range)
		str_parse_u64(value, &l->total);
	return n;
}

static int break_off(struct load *l, enum err_code code, const char *text)
{
	err_set(&l->why, code, "%s", text);
	return -1;
}

/* Once, when the first byte of the body is there. */
static int begin_body(struct load *l)
{
	char limit[32];

	l->body_begun = 1;
	curl_easy_getinfo(l->curl, CURLINFO_RESPONSE_CODE, &l->status);
	if (l->status != 200 && l->status != 206)
		return 0;
	if (l->status == 200) {
		if (l->from && ftruncate(l->fd, 0) < 0)
			return err_sys(&l->why, errno, "%s", l->f->part);
		l->size = 0;
	} else if (!l->has_range || l->range_from != l->from) {
		return break_off(l, ERR_PROTOCOL, "the server sent another range than was asked for");
	}
	if (l->f->limit && l->total > l->f->limit) {
		err_set(&l->why, ERR_LIMIT, "is %" PRIu64 " bytes, %s are allowed", l->total,
		        str_size(l->f->limit, limit, sizeof(limit)));
		return -1;
	}
	/* Before the bytes: what a part is of must be known, or it is worth nothing. */
	if (l->f->etag[0] || l->f->modified[0]) {
		cleanup_free char *path = xasprintf("%s.meta", l->f->part);
		cleanup_free char *text = xasprintf("%s\n%s\n", l->f->etag, l->f->modified);

		fs_replace(path, text, strlen(text), 0600, NULL);
	}
	return 0;
}

static size_t on_body(char *p, size_t size, size_t count, void *arg)
{
	struct load *l = arg;
	size_t n = size * count;

	if (!l->body_begun && begin_body(l) < 0)
		return 0;
	if (l->status != 200 && l->status != 206)
		return n; /* an error page */
	if (l->f->limit && l->size + n > l->f->limit) {
		break_off(l, ERR_LIMIT, "is larger than allowed");
		return 0;
	}
	if (fs_write_all(l->fd, p, n, &l->why) < 0)
		return 0;
	l->size += n;
	return n;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct load *l = arg;

	(void)a;
	(void)b;
	(void)c;
	(void)d;
	if (l->f->step && l->f->step(l->size, l->total, l->f->arg) < 0) {
		l->stopped = 1;
		return 1;
	}
	return 0;
}

/* ---- one try
 * ----------------------------------------------------------------------------------------------- */

static void read_meta(const char *part, char validator[256])
{
	cleanup_free char *path = xasprintf("%s.meta", part);
	char *text, *nl;
	size_t n;

	validator[0] = '\0';
	if (fs_read_file(path, 1024, &text, &n, NULL) < 0)
		return;
	nl = strchr(text, '\n');
	/* A weak tag does not promise the same bytes. */
	if (nl && nl != text && strncmp(text, "W/", 2) != 0)
		snprintf(validator, 256, "%.*s", (int)(nl - text), text);
	else if (nl && nl[1] != '\n')
		snprintf(validator, 256, "%.*s", (int)strcspn(nl + 1, "\n"), nl + 1);
	free(text);
}

static struct curl_slist *add_header(struct curl_slist *list, const char *name, const char *value)
{
	cleanup_free char *line = xasprintf("%s: %s", name, value);
	struct curl_slist *longer = curl_slist_append(list, line);

	if (!longer)
		abort();
	return longer;
}

static void set_protocols(CURL *c)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
	curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
	curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

/* The same would come of it again. */
static int is_final(CURLcode rc)
{
	return rc == CURLE_UNSUPPORTED_PROTOCOL || rc == CURLE_URL_MALFORMAT || rc == CURLE_TOO_MANY_REDIRECTS ||
	       rc == CURLE_PEER_FAILED_VERIFICATION;
}

static CURLcode perform_load(struct load *l, const char *validator)
{
	char range[32], curl_text[CURL_ERROR_SIZE] = "";
	struct curl_slist *headers = NULL;
	CURL *c = curl_easy_init();
	CURLcode rc;

	if (!c)
		abort();
	l->curl = c;
	curl_easy_setopt(c, CURLOPT_URL, l->f->url);
	set_protocols(c);
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(c, CURLOPT_MAXREDIRS, REDIRECTS);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, STALL_S);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "hearth/" PACKAGE_VERSION);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, curl_text);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, l);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, l);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, l);
	if (l->from) {
		snprintf(range, sizeof(range), "%" PRIu64 "-", l->from);
		curl_easy_setopt(c, CURLOPT_RANGE, range);
		headers = add_header(headers, "If-Range", validator);
	} else if (l->f->if_etag && l->f->if_etag[0]) {
		headers = add_header(headers, "If-None-Match", l->f->if_etag);
	} else if (l->f->if_modified && l->f->if_modified[0]) {
		headers = add_header(headers, "If-Modified-Since", l->f->if_modified);
	}
	if (headers)
		curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	rc = curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &l->status);
	if (rc != CURLE_OK && !l->why.code)
		err_set(&l->why, is_final(rc) ? ERR_INVALID : ERR_UNAVAILABLE, "%s",
		        curl_text[0] ? curl_text : curl_easy_strerror(rc));
	curl_slist_free_all(headers);
	curl_easy_cleanup(c);
	l->curl = NULL;
	return rc;
}

static int judge_status(struct load *l, struct err *e)
{
	switch (l->status) {
	case 200:
	case 206:
		return 0;
	case 304:
		if (l->f->if_etag || l->f->if_modified) {
			l->f->unchanged = 1;
			return 0;
		}
		break;
	case 401:
	case 403:
	case 407:
		return err_set(e, ERR_DENIED, "the server answers %ld (not allowed)", l->status);
	case 404:
	case 410:
		return err_set(e, ERR_NOT_FOUND, "the server answers %ld (not found)", l->status);
	case 408:
	case 425:
	case 429:
		return err_set(e, ERR_UNAVAILABLE, "the server answers %ld", l->status);
	case 416: /* the part is longer than the file is now */
		unlink(l->f->part);
		return err_set(e, ERR_UNAVAILABLE, "the server answers 416 (the file has changed)");
	default:
		break;
	}
	return err_set(e, l->status >= 500 ? ERR_UNAVAILABLE : ERR_INVALID, "the server answers %ld", l->status);
}

/* *before, *after: size of the part, to see progress. */
static int one_try(struct fetch *f, uint64_t *before, uint64_t *after, struct err *e)
{
	struct load l = {.f = f};
	char validator[256];
	struct stat st;
	int rc;

	read_meta(f->part, validator);
	l.fd = open(f->part, O_WRONLY | O_CREAT | O_NOFOLLOW | O_APPEND | O_CLOEXEC, 0600);
	if (l.fd < 0 || fstat(l.fd, &st) < 0) {
		err_sys(e, errno, "%s", f->part);
		if (l.fd >= 0)
			close(l.fd);
		return -1;
	}
	if (st.st_size > 0 && validator[0])
		l.from = (uint64_t)st.st_size;
	else if (st.st_size > 0 && ftruncate(l.fd, 0) < 0)
		l.why = (struct err){.code = ERR_IO};
	*before = l.size = l.from;
	rc = perform_load(&l, validator) == CURLE_OK ? 0 : -1;
	*after = l.size;
	close(l.fd);
	if (l.stopped)
		return err_set(e, ERR_UNAVAILABLE, "cancelled");
	if (rc < 0)
		return err_set(e, l.why.code, "%s", l.why.text);
	if (judge_status(&l, e) < 0)
		return -1;
	f->bytes = l.size;
	if (!f->unchanged && l.total && l.size != l.total)
		return err_set(e, ERR_UNAVAILABLE, "ended after %" PRIu64 " of %" PRIu64 " bytes", l.size, l.total);
	return 0;
}

/* In pieces: a large file takes minutes, and somebody may want to stop. */
static int digest_part(const struct fetch *f, char out[HASH_HEX_SIZE], struct err *e)
{
	cleanup_close int fd = open(f->part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_free char *buf = xmalloc(PIECE);
	struct hash_ctx *h = hash_start();
	uint64_t done = 0;
	ssize_t n = -1;
	int rc = 0;

	while (rc == 0 && fd >= 0 && (n = read(fd, buf, PIECE)) > 0) {
		hash_add(h, buf, (size_t)n);
		done += (uint64_t)n;
		if (f->step && f->step(done, f->bytes, f->arg) < 0)
			rc = err_set(e, ERR_UNAVAILABLE, "cancelled");
	}
	hash_end_hex(h, out);
	if (rc == 0 && n < 0)
		rc = err_sys(e, errno, "%s", f->part);
	return rc;
}

static int verify_digest(const struct fetch *f, struct err *e)
{
	char real[HASH_HEX_SIZE];
	cleanup_free char *meta = xasprintf("%s.meta", f->part);

	if (!f->sha256 || f->unchanged)
		return 0;
	if (digest_part(f, real, e) < 0)
		return -1;
	if (strcmp(real, f->sha256) == 0)
		return 0;
	unlink(f->part);
	unlink(meta);
	return err_set(e, ERR_INVALID, "its SHA-256 is %s, expected %s", real, f->sha256);
}

static int helps_again(enum err_code code)
{
	return code == ERR_UNAVAILABLE || code == ERR_TIMEOUT || code == ERR_PROTOCOL;
}

int fetch_run(struct fetch *f, struct err *e)
{
	cleanup_free char *shown = fetch_shown(f->url);
	unsigned tries = f->tries ? f->tries : TRIES, failed = 0;
	uint32_t pause_ms = f->backoff_ms ? f->backoff_ms : BACKOFF_MS;
	uint64_t before = 0, after = 0;
	struct err why = {0};

	for (unsigned total = 0; total < TRIES_TOTAL; total++) {
		f->unchanged = 0;
		if (one_try(f, &before, &after, &why) == 0) {
			if (verify_digest(f, &why) == 0)
				return 0;
			break;
		}
		if (!helps_again(why.code) || strcmp(why.text, "cancelled") == 0)
			break;
		if (after > before) { /* it made progress: all tries are back */
			failed = 0;
			pause_ms = f->backoff_ms ? f->backoff_ms : BACKOFF_MS;
		}
		if (++failed >= tries)
			break;
		if (f->say) {
			cleanup_free char *line =
			    xasprintf("%s: %s; try %u of %u in %u ms", shown, why.text, failed + 1, tries, pause_ms);

			f->say(line, f->arg);
		}
		if (f->pause && f->pause(pause_ms, f->arg) < 0) {
			err_set(&why, ERR_UNAVAILABLE, "cancelled");
			break;
		}
		pause_ms = pause_ms * 2 > BACKOFF_MAX ? BACKOFF_MAX : pause_ms * 2;
	}
	return err_set(e, why.code, "%s: %s", shown, why.text);
}
