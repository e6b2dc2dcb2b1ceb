/*
 * config: where the controller is, and the token. First found wins for each: flag, environment, the user's
 * file, the local cluster.
 */
#include "common/fsutil.h"
#include "common/strutil.h"
#include "common/xalloc.h"
#include "jobctl/client.h"
#include "jobctl/local.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

char *client_config_path(void)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	if (xdg && xdg[0] == '/')
		return xasprintf("%s/hearth/config", xdg);
	return xasprintf("%s/.config/hearth/config", home && *home ? home : "/");
}

static void set_if_unset(char **field, const char *value)
{
	if (!*field && value && *value)
		*field = xstrdup(value);
}

static char *trim(char *s)
{
	while (*s == ' ' || *s == '\t')
		s++;
	size_t n = strlen(s);
	while (n && (s[n - 1] == ' ' || s[n - 1] == '\t' || s[n - 1] == '\r'))
		s[--n] = 0;
	return s;
}

/* `key = value` lines, # comments. The keys: url, token, ca. */
static int read_file(struct client_config *c, const char *path, struct err *e)
{
	static const char *const known[] = {"url", "token", "ca", NULL};
	char *text = NULL, *save = NULL;
	size_t n;
	struct err le;
	if (fs_read_file(path, 65536, &text, &n, &le)) {
		if (le.code == ERR_NOT_FOUND)
			return 0;
		return err_set(e, le.code, "%s", le.text);
	}
	int line_no = 0, had_url = c->url != NULL;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		line_no++;
		char *key = trim(line);
		if (!*key || *key == '#')
			continue;
		char *eq = strchr(key, '=');
		if (!eq) {
			free(text);
			return err_set(e, ERR_INVALID, "%s:%d: expected 'key = value'", path, line_no);
		}
		*eq = 0;
		char *value = trim(eq + 1);
		key = trim(key);
		if (!strcmp(key, "url")) {
			set_if_unset(&c->url, value);
		} else if (!strcmp(key, "token")) {
			if (!had_url) /* a token belongs to the file's own controller, never to one named elsewhere */
				set_if_unset(&c->token, value);
		} else if (!strcmp(key, "ca")) {
			set_if_unset(&c->ca_file, value);
		} else {
			const char *near = str_nearest(key, known);
			int rc = err_set(e, ERR_INVALID, "%s:%d: unknown key '%s'%s%s%s", path, line_no, key,
			                 near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
			free(text);
			return rc;
		}
	}
	free(text);
	if (!had_url && c->url)
		c->source = xstrdup(path);
	return 0;
}

int client_config_load(struct client_config *c, const char *url_flag, struct err *e)
{
	memset(c, 0, sizeof(*c));
	c->patience_s = 10;
	if (url_flag) {
		c->url = xstrdup(url_flag);
		c->source = xstrdup("--url");
	}
	const char *env = getenv("HEARTH_URL");
	if (!c->url && env && *env) {
		c->url = xstrdup(env);
		c->source = xstrdup("HEARTH_URL");
	}
	set_if_unset(&c->token, getenv("HEARTH_TOKEN"));
	set_if_unset(&c->ca_file, getenv("HEARTH_CA"));
	char *path = client_config_path();
	int rc = read_file(c, path, e);
	free(path);
	if (rc) {
		client_config_fini(c);
		return -1;
	}
	if (!c->url) {
		c->url = local_url();
		if (c->url)
			c->source = xstrdup("the local cluster");
	}
	if (!c->url) {
		c->url = xstrdup("http://127.0.0.1:7070");
		c->source = xstrdup("the default");
	}
	if (!c->source)
		c->source = xstrdup("the configuration");
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
