/*
 * cmd_token: tokens of nodes and users, and sessions of browsers.
 */
#include "jobctl/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/show/print.h"

/* ---- create ---- */

/* Adds the life in seconds; "never" is 0. */
static int add_life(struct ctx *c, const char *option, cJSON *body)
{
	const char *text = args_get(&c->args, option);
	uint64_t seconds = 0;

	if (!text)
		return 0;
	if (strcmp(text, "never") != 0 || strcmp(option, "expires") != 0) {
		if (str_parse_duration(text, &seconds, &c->err))
			return err_wrap(&c->err, "--%s", option);
		if (!seconds)
			return ctx_fail(c, ERR_INVALID, "--%s %s: expected a duration such as 90d", option, text);
	}
	cJSON_AddNumberToObject(body, "ttl_s", (double)seconds);
	return 0;
}

static int fill_body(struct ctx *c, cJSON *body)
{
	static const char *const of_user[] = {"user", "scope", "note", NULL};
	int user = args_has(&c->args, "expires");

	for (size_t i = 0; of_user[i]; i++) {
		const char *value = args_get(&c->args, of_user[i]);

		user |= value != NULL;
		if (value)
			cJSON_AddStringToObject(body, of_user[i], value);
	}
	if (user && (args_has(&c->args, "join") || args_has(&c->args, "ttl")))
		return ctx_fail(
		    c, ERR_INVALID,
		    "--join and --ttl are for tokens of nodes; a user's token has --user, --scope, --expires "
		    "and --note");
	cJSON_AddStringToObject(body, "kind", user ? "user" : "join");
	return add_life(c, user ? "expires" : "ttl", body);
}

static int exec_create(struct ctx *c)
{
	cJSON *body = cJSON_CreateObject(), *answer = NULL;
	int rc = fill_body(c, body) < 0 ? -1 : ctx_call(c, "POST", "/tokens", body, &answer);

	cJSON_Delete(body);
	if (rc)
		return rc < 0 ? -1 : 0;
	puts(print_member(answer, "token"));
	cJSON_Delete(answer);
	return 0;
}

/* ---- ls, rm ---- */

static int exec_ls(struct ctx *c)
{
	const char *const heads[] = {"ID",
	                             "KIND",
	                             "USER",
	                             "SCOPE",
	                             print_zone_head("CREATED"),
	                             print_zone_head("EXPIRES"),
	                             print_zone_head("LAST USE"),
	                             "FROM",
	                             "NOTE"};
	cJSON *answer = NULL;
	const cJSON *t;
	int rc = ctx_call(c, "GET", "/tokens", NULL, &answer);

	if (rc)
		return rc < 0 ? -1 : 0;
	struct table *table = table_create(heads, sizeof(heads) / sizeof(heads[0]));
	cJSON_ArrayForEach (t, jget(answer, "tokens")) {
		table_cell(table, print_member(t, "id"));
		table_cell(table, print_member(t, "kind"));
		table_cell(table, print_member(t, "user"));
		table_cell(table, print_member(t, "scope"));
		table_cell(table, print_time(jtext(t, "created_at")));
		table_cell(table, jtext(t, "expires_at") ? print_time(jtext(t, "expires_at")) : "never");
		table_cell(table, print_time(jtext(t, "used_at")));
		table_cell(table, print_member(t, "used_from"));
		table_cell(table, jtext(t, "note") ? jtext(t, "note") : "-");
	}
	if (table_rows(table))
		table_print(table);
	else
		puts("There are no tokens. To make one: jobctl token create --user NAME");
	table_destroy(table);
	cJSON_Delete(answer);
	return 0;
}

static int exec_rm(struct ctx *c)
{
	struct err first = {0};

	for (size_t i = 0; i < c->args.n && first.code != ERR_UNAVAILABLE; i++) {
		char *esc = client_escape(c->args.operand[i]), *path = xasprintf("/tokens/%s", esc);
		cJSON *answer = NULL;
		int rc = ctx_call(c, "DELETE", path, NULL, &answer);

		if (rc == 0)
			printf("%s %s of %s is removed\n", print_member(answer, "kind"), print_member(answer, "id"),
			       print_member(answer, "user"));
		else if (rc < 0 && first.code == ERR_NONE)
			first = c->err;
		cJSON_Delete(answer);
		free(path);
		free(esc);
	}
	c->err = first;
	return first.code == ERR_NONE ? 0 : -1;
}

static const struct arg_opt create_opts[] = {
    {"join", 0, NULL, "Make a token for one agent to join"},
    {"ttl", 't', "DURATION", "Let a token for an agent expire after DURATION (default 1h)"},
    {"user", 'u', "USER", "Make a token for USER; only administrators name other users"},
    {"scope", 0, "user|read|submit|job:ID|admin", "Limit what the token may do (default user)"},
    {"expires", 'e', "DURATION|never", "Let a user's token expire after DURATION (default 90d)"},
    {"note", 'n', "TEXT", "Say what the token is for"},
    {NULL, 0, NULL, NULL}};

const struct verb verbs_token[] = {
    {"token create", "", "Make a token for a node or for a user, and print it", create_opts, 0, 0,
     exec_create},
    {"token ls", "", "List tokens and browser sessions, with their last use", NULL, 0, 0, exec_ls},
    {"token rm", "ID...", "Remove tokens, or end sessions, and all that was made with them", NULL, 1, 256,
     exec_rm},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
