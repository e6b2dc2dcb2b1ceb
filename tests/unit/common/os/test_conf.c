/* conf: defaults, files, overrides, bounds, every kind of mistake with its place. */
#include "common/os/conf.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

static const struct conf_item items[] = {
    {"listen_port", CONF_INT, "8080", "1", "65535", "port of the API"},
    {"nice", CONF_INT, "0", "-20", "19", "niceness"},
    {"log_limit", CONF_SIZE, "64MiB", "1KiB", "1TiB", "greatest log"},
    {"lease", CONF_DURATION, "3s", "100ms", "1h", "length of a lease"},
    {"data_dir", CONF_STRING, "/var/lib/hearth", NULL, NULL, "where state is kept"},
    {"title", CONF_STRING, "", NULL, NULL, "shown on the page"},
    {"tls", CONF_BOOL, "true", NULL, NULL, "serve by TLS"},
    {0},
};

static void test_values(void)
{
	struct conf *c = conf_create(items);
	struct err e;

	is_int(conf_get_int(c, "listen_port"), 8080, "default int");
	is_int(conf_get_size(c, "log_limit"), 64 << 20, "default size");
	is_int(conf_get_duration_us(c, "lease"), 3000000, "default duration");
	is_str(conf_get_str(c, "data_dir"), "/var/lib/hearth", "default string");
	is_int(conf_get_bool(c, "tls"), 1, "default bool");
	is_str(conf_source(c, "tls"), "default", "source");
	is_int(
	    conf_load_text(c,
	                   "# comment\n\n  listen_port = 99 # why\nnice=-5\r\nlog_limit = 1GiB\nlease = 250ms\n"
	                   "data_dir = \"/srv/a #1 b \" # c\ntitle = a \"b\" c#d\ntls = no",
	                   "etc/h.conf", &e),
	    0, "a file");
	is_int(conf_get_int(c, "listen_port"), 99, "int");
	is_int(conf_get_int(c, "nice"), -5, "negative int");
	is_int(conf_get_size(c, "log_limit"), 1 << 30, "size");
	is_int(conf_get_duration_us(c, "lease"), 250000, "duration");
	is_str(conf_get_str(c, "data_dir"), "/srv/a #1 b ", "quoted string");
	is_str(conf_get_str(c, "title"), "a \"b\" c#d", "quotes and '#' inside");
	is_int(conf_get_bool(c, "tls"), 0, "bool");
	is_str(conf_source(c, "listen_port"), "etc/h.conf:3", "source names the line");
	is_int(conf_set(c, "listen_port=100", &e), 0, "override");
	is_int(conf_get_int(c, "listen_port"), 100, "its value");
	is_str(conf_source(c, "listen_port"), "command line", "its source");
	is_int(conf_set(c, "title=", &e), 0, "an empty value");
	is_str(conf_get_str(c, "title"), "", "is empty");
	conf_destroy(c);
	conf_destroy(NULL);
}

static void test_mistakes(void)
{
	static const struct {
		const char *text, *message;
	} bad[] = {
	    {"listen_prot = 1", "h.conf:1: unknown setting 'listen_prot', did you mean 'listen_port'?"},
	    {"\n\nzzzzzzzz = 1", "h.conf:3: unknown setting 'zzzzzzzz'"},
	    {"listen_port 1", "h.conf:1: expected 'key = value'"},
	    {"listen_port = x", "h.conf:1: listen_port: 'x' is not a whole number"},
	    {"listen_port = 0", "h.conf:1: listen_port: 0 is less than 1"},
	    {"listen_port = 65536", "h.conf:1: listen_port: 65536 is more than 65535"},
	    {"listen_port =", "h.conf:1: listen_port: '' is not a whole number"},
	    {"listen_port = 99999999999999999999", "listen_port: '99999999999999999999' is not a whole number"},
	    {"log_limit = 2TiB", "log_limit: 2TiB is more than 1TiB"},
	    {"log_limit = big", "log_limit: 'big' is not a size"},
	    {"log_limit = 16383P", "log_limit: '16383P' is too large a size"},
	    {"lease = 99ms", "lease: 99ms is less than 100ms"},
	    {"lease = xms", "lease: 'xms' is not a duration"},
	    {"lease = 9999999999999999999", "lease: '9999999999999999999' is too long a duration"},
	    {"tls = maybe", "tls: 'maybe' is neither true nor false"},
	    {"tls = no\ntls = yes", "h.conf:2: 'tls' was set on line 1 already"},
	    {"title = \"a", "h.conf:1: a value that begins with '\"' must end with it"},
	    {"title = \"a\"b\"", "must end with it and hold no other"},
	    {"title = a\x01", "h.conf:1: control character"},
	    {"= 5", "unknown setting ''"},
	};
	struct conf *c = conf_create(items);
	struct err e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[200];

		snprintf(text, sizeof(text), "%s", bad[i].text);
		is_int(conf_load_text(c, text, "h.conf", &e), -1, bad[i].message);
		like(e.text, bad[i].message, "message");
	}
	is_int(conf_load_text(c, "nice = 3\nnice2 = 4\n", "h.conf", &e), -1, "bad in the second line");
	is_int(conf_get_int(c, "nice"), 0, "nothing was taken from it");
	is_int(conf_set(c, "nice", &e), -1, "--set without value");
	is_int(conf_set(c, "nic=5", &e), -1, "--set of an unknown name");
	like(e.text, "did you mean 'nice'?", "names the nearest");
	is_int(conf_set(c, "nice=500", &e), -1, "--set out of bounds");
	is_int(conf_get_int(c, "nice"), 0, "still the default");
	conf_destroy(c);
}

static void test_file(void)
{
	struct conf *c = conf_create(items), *d = conf_create(items);
	char path[4200], *text, *again;
	struct err e;

	snprintf(path, sizeof(path), "%s/h.conf", tap_tmpdir());
	is_int(conf_load(c, path, &e), -1, "no file");
	is_int(e.code, ERR_NOT_FOUND, "not found");
	fs_replace(path, "nice = 7\0x", 10, 0600, &e);
	is_int(conf_load(c, path, &e), -1, "a NUL in the file");
	conf_set(c, "title= a #b ", &e);
	conf_set(c, "nice=7", &e);
	text = conf_text(c);
	like(text, "# niceness\n# default: 0; set by: command line\nnice = 7\n", "text of all settings");
	fs_replace(path, text, strlen(text), 0600, &e);
	if (!is_int(conf_load(d, path, &e), 0, "can be loaded"))
		tap_diag("%s", e.text);
	is_str(conf_get_str(d, "title"), " a #b ", "with the same values");
	again = conf_text(d);
	like(again, "nice = 7\n", "and printed again");
	free(text);
	free(again);
	conf_destroy(c);
	conf_destroy(d);
}

int main(void)
{
	test_values();
	test_mistakes();
	test_file();
	return tap_done();
}
