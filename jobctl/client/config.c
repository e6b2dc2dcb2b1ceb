/*
 * config: the controller's address and the token. The first address found wins: flag, environment, the
 * user's file, the local cluster.
 *
 * A token belongs to the address that was given with it. If --url names another controller than HEARTH_URL
 * or the file, it gets the token of neither: a secret never goes to another place than it was meant for.
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "jobctl/client/client.h"

#define CONFIG_MAX 65536

char *client_home(void)
{
	const char *home = getenv("HOME");
	if (home && home[0] == '/')
		return xstrdup(home);
	const struct passwd *pw = getpwuid(geteuid());
	return xstrdup(pw && pw->pw_dir && pw->pw_dir[0] == '/' ? pw->pw_dir : "/");
}

char *client_config_path(void)
{
	const char *xdg = getenv("XDG_CONFIG_HOME");
	if (xdg && xdg[0] == '/')
		return xasprintf("%s/hearth/config", xdg);
	char *home = client_home(), *path = xasprintf("%s/.config/hearth/config", home);
	free(home);
	return path;
}

/* Returns whether both name the same controller; slashes at the end do not count. */
static int same_url(const char *a, const char *b)
{
	size_t n = strlen(a), k = strlen(b);
	while (n && a[n - 1] == '/')
		n--;
	while (k && b[k - 1] == '/')
		k--;
	return n == k && strncmp(a, b, n) == 0;
}

static char *trim_blanks(char *s)
{
	while (*s == ' ' || *s == '\t')
		s++;
	size_t n = strlen(s);
	while (n && (s[n - 1] == ' ' || s[n - 1] == '\t' || s[n - 1] == '\r'))
		s[--n] = 0;
	return s;
}

struct file {
	char *url, *token, *ca;
};

static int take_line(struct file *f, char *line, const char *path, int line_no, struct err *e)
{
	static const char *const known[] = {"url", "token", "ca", NULL};
	char *key = trim_blanks(line), *eq = strchr(key, '=');
	if (!*key || *key == '#')
		return 0;
	if (!eq)
		return err_set(e, ERR_INVALID, "%s:%d: expected 'key = value'", path, line_no);
	*eq = 0;
	const char *value = trim_blanks(eq + 1);
	key = trim_blanks(key);
	char **field = strcmp(key, "url") == 0     ? &f->url
	               : strcmp(key, "token") == 0 ? &f->token
	               : strcmp(key, "ca") == 0    ? &f->ca
	                                           : NULL;
	if (!field) {
		const char *near = str_nearest(key, known);
		return err_set(e, ERR_INVALID, "%s:%d: unknown key '%s'%s%s%s", path, line_no, key,
		               near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
	}
	if (*field)
		return err_set(e, ERR_INVALID, "%s:%d: the key '%s' appears twice", path, line_no, key);
	*field = xstrdup(value);
	return 0;
}

/* Reads `key = value` lines; # begins a comment. A missing file counts as empty. */
static int read_file(struct file *f, const char *path, struct err *e)
{
	char *text = NULL, *next;
	size_t n;
	struct err le;
	if (fs_read_file(path, CONFIG_MAX, &text, &n, &le))
		return le.code == ERR_NOT_FOUND ? 0 : err_set(e, le.code, "%s", le.text);
	int rc = 0, line_no = 0;
	for (char *line = text; !rc && line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		rc = take_line(f, line, path, ++line_no, e);
	}
	free(text);
	return rc;
}

static void set_once(char **field, const char *value)
{
	if (!*field && value && *value)
		*field = xstrdup(value);
}

/* Applies url and token of one source. The token counts only if the source's url is the one in use. */
static void use_source(struct client_config *c, const char *url, const char *token, const char *source)
{
	int has_url = url && *url;
	if (!c->url && has_url) {
		c->url = xstrdup(url);
		c->source = xstrdup(source);
	}
	if (has_url && !same_url(c->url, url))
		return;
	set_once(&c->token, token);
}

int client_config_load(struct client_config *c, const char *url_flag, client_url_fn find_local, struct err *e)
{
	struct file f = {0};
	char *path = client_config_path();
	int rc = read_file(&f, path, e);
	memset(c, 0, sizeof(*c));
	if (!rc) {
		const char *patience = getenv("HEARTH_PATIENCE");
		uint64_t n;
		c->patience_s =
		    patience && !str_parse_u64(patience, &n) && n <= 86400 ? (unsigned)n : CLIENT_PATIENCE_S;
		use_source(c, url_flag, NULL, "--url");
		use_source(c, getenv("HEARTH_URL"), getenv("HEARTH_TOKEN"), "HEARTH_URL");
		/* A token in a file without url is for the local default only. */
		if ((f.url && *f.url) || !c->url)
			use_source(c, f.url, f.token, path);
		set_once(&c->ca_file, getenv("HEARTH_CA"));
		set_once(&c->ca_file, f.ca);
	}
	free(f.url);
	free(f.token);
	free(f.ca);
	free(path);
	if (rc)
		return -1;
	if (!c->url && find_local) {
		c->url = find_local();
		if (c->url)
			c->source = xstrdup("the local cluster");
	}
	if (!c->url) {
		c->url = xstrdup("http://127.0.0.1:7070");
		c->source = xstrdup("the default");
	}
	return 0;
}

void client_config_fini(struct client_config *c)
{
	free(c->url);
	free(c->token);
	free(c->ca_file);
	free(c->source);
	memset(c, 0, sizeof(*c));
}
