/*
 * authority: see authority.h. hearthd sends its authority's certificate within the handshake.
 */
#include "jobctl/client/authority.h"

#include <curl/curl.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "common/net/tls.h"

static size_t drop_body(char *data, size_t size, size_t n, void *arg)
{
	(void)data;
	(void)arg;
	return size * n;
}

static char *find_cert(CURL *c, const char *fingerprint)
{
	struct curl_certinfo *info = NULL;
	char print[33];

	if (curl_easy_getinfo(c, CURLINFO_CERTINFO, &info) != CURLE_OK || !info)
		return NULL;
	for (int i = 0; i < info->num_of_certs; i++)
		for (struct curl_slist *s = info->certinfo[i]; s; s = s->next)
			if (strncmp(s->data, "Cert:", 5) == 0 && tls_fingerprint(s->data + 5, print, NULL) == 0 &&
			    strcmp(print, fingerprint) == 0)
				return xstrdup(s->data + 5);
	return NULL;
}

char *authority_fetch(const char *url, const char *fingerprint, struct err *e)
{
	size_t n = strlen(url);
	cleanup_free char *full = xasprintf("%s%shealthz", url, n && url[n - 1] == '/' ? "" : "/");
	CURL *c = curl_easy_init();
	char *pem = NULL;
	CURLcode rc;

	if (!c) {
		err_set(e, ERR_INTERNAL, "libcurl failed to start");
		return NULL;
	}
	curl_easy_setopt(c, CURLOPT_URL, full);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, 10000L);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, drop_body);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
	curl_easy_setopt(c, CURLOPT_CERTINFO, 1L);
	rc = curl_easy_perform(c);
	pem = rc == CURLE_OK ? find_cert(c, fingerprint) : NULL;
	if (rc != CURLE_OK)
		err_set(e, ERR_UNAVAILABLE, "no controller at %s: %s", url, curl_easy_strerror(rc));
	else if (!pem)
		err_set(e, ERR_DENIED,
		        "%s is not the cluster that made this token: its authority has another fingerprint. The "
		        "token was "
		        "not sent; check the address",
		        url);
	curl_easy_cleanup(c);
	return pem;
}
