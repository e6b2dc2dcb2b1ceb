/*
 * secret: see secret.h. Users choose the names, so the rule hides in doubt. Names that many training scripts
 * use for other things (max_tokens, tokenizer) stay readable.
 */
#include "common/base/secret.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"

#define NAME_SIZE 128

static int is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static int is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int is_in(const char *word, const char *const *list)
{
	for (; *list; list++)
		if (strcasecmp(word, *list) == 0)
			return 1;
	return 0;
}

static int ends_with(const char *word, const char *end)
{
	size_t n = strlen(word), k = strlen(end);

	return n >= k && strcasecmp(word + n - k, end) == 0;
}

/* ---- names ------------------------------------------------------------------------------------------ */

static int secret_word(const char *word)
{
	static const char *const ends[] = {"key",   "keys", "token", "tokens", "pass", "pwd",
	                                   "creds", "cred", "auth",  "apikey", NULL};
	static const char *const whole[] = {"authorization", "authentication", NULL};
	static const char *const plain[] = {"monkey",   "monkeys",   "donkey",   "turkey",    "hockey",
	                                    "jockey",   "whiskey",   "bypass",   "compass",   "surpass",
	                                    "trespass", "encompass", "overpass", "underpass", "sacred",
	                                    "hundred",  "multipass", NULL};

	if (is_in(word, plain))
		return 0;
	for (size_t i = 0; ends[i]; i++)
		if (ends_with(word, ends[i]))
			return 1;
	return is_in(word, whole);
}

/* The next word of a name: letters and digits up to another sign or a change from lower to upper case;
 * without the digits at its end. NULL: no more. */
static const char *next_word(const char *p, char *word, size_t size)
{
	size_t n = 0;

	while (*p && !is_lower(*p) && !is_upper(*p) && !is_digit(*p))
		p++;
	if (!*p)
		return NULL;
	while (is_lower(*p) || is_upper(*p) || is_digit(*p)) {
		if (n + 1 < size)
			word[n++] = *p;
		p++;
		if (is_upper(*p) && is_lower(p[-1]))
			break;
	}
	while (n > 1 && is_digit(word[n - 1]))
		n--;
	word[n] = '\0';
	return p;
}

/* Every word that the rules of secret_name look for has one of these in it ("secret" and "credential" share
 * theirs). Most names of hyperparameters have none of them, and each submit asks about all of its own. */
static int may_be_secret(const char *name)
{
	static const char cores[][3] = {"cre", "pas", "key", "tok", "pwd", "aut", "api"};
	uint32_t last3 = 0;

	for (; *name; name++) {
		last3 = (last3 << 8 | (uint8_t)(is_upper(*name) ? *name - 'A' + 'a' : *name)) & 0xffffff;
		for (size_t i = 0; i < sizeof(cores) / sizeof(cores[0]); i++)
			if (last3 == ((uint32_t)cores[i][0] << 16 | (uint32_t)cores[i][1] << 8 | (uint32_t)cores[i][2]))
				return 1;
	}
	return 0;
}

int secret_name(const char *name)
{
	static const char *const parts[] = {"SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL", NULL};
	static const char *const measures[] = {"max", "min", "num", "n",    "total", "count",
	                                       "per", "dim", "len", "size", "heads", NULL};
	char word[NAME_SIZE];
	int secret = 0, measure = 0;

	if (!may_be_secret(name))
		return 0;
	for (size_t i = 0; parts[i]; i++)
		if (strcasestr(name, parts[i]))
			return 1;
	/* Where the shell is; every process has it. */
	if (strcasecmp(name, "PWD") == 0 || strcasecmp(name, "OLDPWD") == 0)
		return 0;
	for (const char *p = name; (p = next_word(p, word, sizeof(word)));) {
		secret |= secret_word(word);
		measure |= is_in(word, measures);
	}
	return secret && !measure;
}

/* ---- texts ------------------------------------------------------------------------------------------ */

static int is_name_byte(char c)
{
	return is_lower(c) || is_upper(c) || is_digit(c) || c == '_';
}

/* NAME=value with a secret name ends at p, the '='. "NAME==1.2" is a package's version. */
static int secret_before(const char *text, const char *p)
{
	char name[NAME_SIZE];
	const char *start = p;
	size_t n;

	while (start > text && is_name_byte(start[-1]))
		start--;
	n = (size_t)(p - start);
	if (n == 0 || n >= sizeof(name) || p[1] == '=' || !p[1])
		return 0;
	memcpy(name, start, n);
	name[n] = '\0';
	return secret_name(name);
}

/* p: after "://". Returns the end of the user-info ('@'), or NULL. The last '@' counts, because a password
 * may have an unescaped one. */
static const char *user_info(const char *p)
{
	size_t n = strcspn(p, "/?# \t\r\n\"'<>");

	return memrchr(p, '@', n);
}

static const char *skip_value(const char *p)
{
	size_t n;

	if (*p == '"' || *p == '\'') {
		const char *end = strchr(p + 1, *p);

		return end ? end + 1 : p + strlen(p);
	}
	n = strcspn(p, " \t\r\n\"'&;");
	return p + n;
}

char *secret_text(const char *text)
{
	char *out = NULL;
	size_t n = 0;
	const char *p = text, *at;
	FILE *f;

	if (!strchr(text, '=') && !strstr(text, "://")) /* as nearly all are */
		return xstrdup(text);
	f = open_memstream(&out, &n);
	if (!f)
		abort();
	while (*p) {
		if (*p == '=' && secret_before(text, p)) {
			fputs("=" SECRET_MASK, f);
			p = skip_value(p + 1);
		} else if (strncmp(p, "://", 3) == 0 && (at = user_info(p + 3))) {
			const char *colon = memchr(p + 3, ':', (size_t)(at - p - 3));

			/* Without a colon it may be a bare token. */
			fprintf(f, "://%.*s" SECRET_MASK, colon ? (int)(colon + 1 - p - 3) : 0, p + 3);
			p = at;
		} else {
			fputc(*p++, f);
		}
	}
	if (fclose(f) != 0)
		abort();
	return out;
}

/* ---- JSON ------------------------------------------------------------------------------------------- */

static void put_string(cJSON *v, const char *text)
{
	cJSON *s = cJSON_CreateString(text);

	/* The node stays where it is; only what it holds changes places. */
	cJSON_Delete(v->child);
	v->child = NULL;
	if (v->valuestring)
		cJSON_free(v->valuestring);
	v->valuestring = s->valuestring;
	v->type = (v->type & cJSON_StringIsConst) | cJSON_String;
	v->valuedouble = 0;
	s->valuestring = NULL;
	cJSON_Delete(s);
}

static int hide_value(cJSON *v)
{
	if (cJSON_IsNull(v) ||
	    (cJSON_IsString(v) && (!*v->valuestring || strcmp(v->valuestring, SECRET_MASK) == 0)))
		return 0;
	put_string(v, SECRET_MASK);
	return 1;
}

static int hide_in_text(cJSON *v)
{
	char *text = secret_text(v->valuestring);
	int changed = strcmp(text, v->valuestring) != 0;

	if (changed)
		put_string(v, text);
	free(text);
	return changed;
}

/* "--hf-token" alone: its value is the next word. */
static int secret_option(const cJSON *v)
{
	return cJSON_IsString(v) && v->valuestring[0] == '-' && !strchr(v->valuestring, '=') &&
	       !strchr(v->valuestring, ' ') && secret_name(v->valuestring);
}

static int secret_list(cJSON *list, int all)
{
	const cJSON *before = NULL;
	cJSON *v;
	int n = 0;

	cJSON_ArrayForEach (v, list) {
		if (before && secret_option(before) && (!cJSON_IsString(v) || v->valuestring[0] != '-'))
			n += hide_value(v);
		else if (cJSON_IsString(v) && v->valuestring[0] == '-' && strchr(v->valuestring, '=')) {
			const char *eq = strchr(v->valuestring, '=');
			cleanup_free char *name = xstrndup(v->valuestring, (size_t)(eq - v->valuestring));
			cleanup_free char *masked = xasprintf("%s=" SECRET_MASK, name);

			if (!strchr(name, ' ') && secret_name(name) && strcmp(masked, v->valuestring) != 0) {
				put_string(v, masked);
				n++;
			} else {
				n += hide_in_text(v);
			}
		} else
			n += secret_json(v, all);
		before = v;
	}
	return n;
}

int secret_json(cJSON *v, int all)
{
	cJSON *child;
	int n = 0;

	if (cJSON_IsString(v))
		return hide_in_text(v);
	if (cJSON_IsArray(v))
		return secret_list(v, all);
	/* The parser has bounded the depth. */
	cJSON_ArrayForEach (child, v) {
		if (all && child->string && secret_name(child->string))
			n += hide_value(child);
		else
			n +=
			    secret_json(child, all || (child->string && (strcmp(child->string, "environment") == 0 ||
			                                                 strcmp(child->string, "hyperparameters") == 0)));
	}
	return n;
}

char *secret_value(const char *name, const char *value)
{
	cJSON *v;
	char *text = NULL;

	if (secret_name(name))
		return xstrdup(*value ? SECRET_MASK : "");
	v = *value == '{' || *value == '[' ? json_parse(value, strlen(value), NULL) : NULL;
	if (!v)
		return secret_text(value);
	/* Nothing hidden: as it is, to the digit. */
	text = secret_json(v, 1) ? json_text(v) : xstrdup(value);
	cJSON_Delete(v);
	return text;
}
