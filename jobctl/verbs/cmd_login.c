/*
 * cmd_login: from a token and an address to a configuration. The token carries the fingerprint of the
 * cluster's authority, so nothing else is needed: jobctl fetches the authority's certificate without trust,
 * compares, and only then sends the token. It writes the files when the controller has accepted the token.
 */
#include "jobctl/verbs/verbs.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <termios.h>
#include <unistd.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/net/token.h"
#include "common/os/fsutil.h"
#include "jobctl/client/authority.h"
#include "jobctl/show/print.h"

#define TOKEN_LINE_MAX 1024

struct login {
	const char *url;
	char token[TOKEN_LINE_MAX];
	char *config, *ca, *ca_new; /* paths */
	int https;
};

/* ---- the token ---- */

/* Reads a line without showing it. */
static int ask_token(char *out, size_t size)
{
	struct termios old, quiet;
	int hidden = tcgetattr(STDIN_FILENO, &old) == 0;
	char *line;

	fputs("Token: ", stderr);
	if (hidden) {
		quiet = old;
		quiet.c_lflag &= ~(tcflag_t)ECHO;
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
	}
	line = fgets(out, (int)size, stdin);
	if (hidden)
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &old);
	fputc('\n', stderr);
	return line ? 0 : -1;
}

static int read_token(struct ctx *c, struct login *l)
{
	const char *path = args_get(&c->args, "token-file");
	cleanup_free char *text = NULL;
	size_t n;

	if (path && fs_read_file(path, TOKEN_LINE_MAX - 1, &text, &n, &c->err) < 0)
		return -1;
	if (path)
		snprintf(l->token, sizeof(l->token), "%s", text);
	else if (isatty(STDIN_FILENO) ? ask_token(l->token, sizeof(l->token)) < 0
	                              : !fgets(l->token, sizeof(l->token), stdin))
		return ctx_fail(c, ERR_INVALID,
		                "no token came on standard input; give it there, or by --token-file FILE");
	n = strcspn(l->token, "\r\n");
	while (n && (l->token[n - 1] == ' ' || l->token[n - 1] == '\t'))
		n--;
	l->token[n] = '\0';
	if (!n || str_has_control(l->token) || strchr(l->token, ' '))
		return ctx_fail(c, ERR_INVALID,
		                "the text is not a token; an administrator makes one by: jobctl token create --user "
		                "NAME");
	return 0;
}

/* ---- the controller ---- */

/* Returns 1 for a host, as curl reads it, of this machine. The prefix "localhost" begins other names, too. */
static int is_loopback(const char *host)
{
	struct in_addr v4;

	if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
		return 1;
	return inet_pton(AF_INET, host, &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

/* The same parser as that of the requests, so both see one host. Returns 1 for https, and for http to this
 * machine. */
static int is_safe_url(const char *url, int *https)
{
	CURLU *u = curl_url();
	char *scheme = NULL, *host = NULL, *user = NULL;
	int safe = 0;

	if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_NO_USER) {
		*https = strcmp(scheme, "https") == 0;
		safe = *https || (strcmp(scheme, "http") == 0 && is_loopback(host));
	}
	curl_free(scheme);
	curl_free(host);
	curl_free(user);
	curl_url_cleanup(u);
	return safe;
}

static int check_url(struct ctx *c, struct login *l)
{
	if (is_safe_url(l->url, &l->https))
		return 0;
	return ctx_fail(c, ERR_INVALID,
	                "url '%s': expected https://HOST:PORT without a user name (http:// only for a controller "
	                "on this machine: localhost, 127.0.0.1 or [::1])",
	                l->url);
}

/* Fetches and compares the authority's certificate, and stores it next to its final place. */
static int fetch_authority(struct ctx *c, struct login *l)
{
	char print[33];
	cleanup_free char *pem = NULL;
	cleanup_free char *dir = xstrdup(l->config);

	if (fs_mkdir_p(dirname(dir), 0700, &c->err))
		return -1;
	if (!l->https)
		return 0;
	if (!user_token_is(l->token))
		return ctx_fail(
		    c, ERR_INVALID,
		    "this token does not carry the fingerprint of its cluster, so jobctl cannot know whom it "
		    "would send it to; log in with one made by: jobctl token create --user NAME");
	if (user_token_parse(l->token, print, &c->err))
		return -1;
	pem = authority_fetch(l->url, print, &c->err);
	return pem ? fs_write_atomic(l->ca_new, pem, strlen(pem), 0600, &c->err) : -1;
}

static int ask_whoami(struct ctx *c, const struct login *l, cJSON **me)
{
	struct client_config cfg = {.url = (char *)(uintptr_t)l->url,
	                            .token = (char *)(uintptr_t)l->token,
	                            .ca_file = l->https ? l->ca_new : NULL,
	                            .source = (char *)(uintptr_t) "the command line",
	                            .patience_s = CLIENT_PATIENCE_S};
	struct client *client = client_create(&cfg, &c->err);
	int rc = client ? client_call(client, "GET", "/whoami", NULL, me, &c->err) : -1;

	client_destroy(client);
	return rc;
}

/* ---- the files ---- */

/* An older configuration is kept beside the new one: its token may be the only copy. */
static int write_files(struct ctx *c, const struct login *l)
{
	cleanup_free char *old = xasprintf("%s.old", l->config);
	cleanup_free char *ca = l->https ? xasprintf("ca = %s\n", l->ca) : xstrdup("");
	cleanup_free char *text =
	    xasprintf("# Written by `jobctl login`.\nurl = %s\n%stoken = %s\n", l->url, ca, l->token);

	if (l->https && rename(l->ca_new, l->ca) < 0)
		return ctx_fail(c, ERR_INTERNAL, "%s: it cannot be written", l->ca);
	if (access(l->config, F_OK) == 0) {
		if (rename(l->config, old) < 0)
			return ctx_fail(c, ERR_INTERNAL, "%s: it cannot be replaced", l->config);
		fprintf(stderr, "jobctl: the configuration of before is in %s\n", old);
	}
	return fs_write_atomic(l->config, text, strlen(text), 0600, &c->err);
}

static int exec_login(struct ctx *c)
{
	struct login l = {.url = c->args.operand[0]};
	cJSON *me = NULL;
	int rc;

	l.config = client_config_path();
	l.ca = xasprintf("%.*s/ca.pem", (int)(strrchr(l.config, '/') - l.config), l.config);
	l.ca_new = xasprintf("%s.new", l.ca);
	rc = check_url(c, &l) || read_token(c, &l) || fetch_authority(c, &l) || ask_whoami(c, &l, &me) ||
	             write_files(c, &l)
	         ? -1
	         : 0;
	if (rc)
		unlink(l.ca_new);
	else if (!ctx_show_json(c, me))
		printf("logged in to %s as %s (%s); the configuration is in %s\n", l.url, print_member(me, "user"),
		       print_member(me, "role"), l.config);
	explicit_bzero(l.token, sizeof(l.token));
	cJSON_Delete(me);
	free(l.config);
	free(l.ca);
	free(l.ca_new);
	return rc;
}

static const struct arg_opt login_opts[] = {
    {"token-file", 'f', "FILE", "Read the token from FILE instead of standard input"}, {NULL, 0, NULL, NULL}};

const struct verb verbs_login[] = {{"login", "URL",
                                    "Log in to a controller with a token, and write the configuration",
                                    login_opts, 1, 1, exec_login},
                                   {NULL, NULL, NULL, NULL, 0, 0, NULL}};
