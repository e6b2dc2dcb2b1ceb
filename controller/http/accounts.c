/*
 * accounts: see accounts.h. The pairs are few, so a look-up walks them.
 */
#include "controller/http/accounts.h"

#include <stdio.h>
#include <string.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"

struct pair {
	char *user, *account;
};

struct accounts {
	char *fallback; /* of users without a pair; NULL: none */
	struct pair *pairs;
	size_t n;
};

static int check_account(const char *name, const char *word, struct err *e)
{
	struct err why;

	if (strcmp(name, "%u") == 0 || str_check_name(name, ACCOUNT_NAME_SIZE - 1, "account", &why) == 0)
		return 0;
	return err_set(e, ERR_INVALID, "run_as: \"%.100s\": %s; expected ACCOUNT or USER=ACCOUNT", word,
	               why.text);
}

static int add_word(struct accounts *a, char *word, struct err *e)
{
	cleanup_free char *whole = xstrdup(word);
	char *eq = strchr(word, '=');

	if (!eq) {
		if (check_account(word, whole, e) < 0)
			return -1;
		if (a->fallback)
			return err_set(
			    e, ERR_INVALID,
			    "run_as: \"%.100s\": only one account may stand without a user; write USER=ACCOUNT", whole);
		a->fallback = xstrdup(word);
		return 0;
	}
	*eq = '\0';
	if (str_check_name(word, ACCOUNT_NAME_SIZE - 1, "user", e) < 0)
		return err_wrap(e, "run_as: \"%.100s\"", whole);
	if (check_account(eq + 1, whole, e) < 0)
		return -1;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->pairs[i].user, word) == 0)
			return err_set(e, ERR_INVALID, "run_as: the user \"%.100s\" appears twice", word);
	if (a->n == RUN_AS_MAX)
		return err_set(e, ERR_LIMIT, "run_as: more than %d users", RUN_AS_MAX);
	a->pairs = xreallocarray(a->pairs, a->n + 1, sizeof(*a->pairs));
	a->pairs[a->n++] = (struct pair){xstrdup(word), xstrdup(eq + 1)};
	return 0;
}

struct accounts *accounts_parse(const char *run_as, struct err *e)
{
	struct accounts *a = xcalloc(1, sizeof(*a));
	cleanup_free char *copy = xstrdup(run_as ? run_as : "");
	char *save = NULL;

	for (char *word = strtok_r(copy, " ,\t", &save); word; word = strtok_r(NULL, " ,\t", &save)) {
		if (add_word(a, word, e) < 0) {
			accounts_destroy(a);
			return NULL;
		}
	}
	return a;
}

void accounts_destroy(struct accounts *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++) {
		free(a->pairs[i].user);
		free(a->pairs[i].account);
	}
	free(a->pairs);
	free(a->fallback);
	free(a);
}

static const char *account_in_pair(const struct accounts *a, const char *user)
{
	for (size_t i = 0; a && i < a->n; i++)
		if (strcmp(a->pairs[i].user, user) == 0)
			return a->pairs[i].account;
	return NULL;
}

void account_of_user(const struct accounts *a, const char *user, enum account_source from,
                     char out[ACCOUNT_NAME_SIZE])
{
	const char *name = account_in_pair(a, user);

	if (!name && from == FROM_SOCKET)
		name = "%u";
	if (!name && a && a->fallback)
		name = a->fallback;
	if (!name && (!a || a->n == 0))
		name = "%u";
	if (!name)
		name = "";
	snprintf(out, ACCOUNT_NAME_SIZE, "%s", strcmp(name, "%u") == 0 ? user : name);
	if (strlen(user) >= ACCOUNT_NAME_SIZE && strcmp(name, "%u") == 0)
		out[0] = '\0'; /* cut short it would be somebody else's */
}

int accounts_check_start(const char *run_as, int is_root, int loopback, const char *listen, struct err *e)
{
	if (!is_root || loopback || run_as[strspn(run_as, " ,\t")])
		return 0;
	return err_set(
	    e, ERR_INVALID,
	    "hearthd runs as root and listens on %s, but no account is set that runs jobs of users on other "
	    "machines; create an ordinary account on all nodes (useradd -m hearth), then name it: "
	    "--set run_as=hearth (see run_as in hearth.conf(5))",
	    listen);
}
