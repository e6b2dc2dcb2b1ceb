/*
 * cmd_checkpoints: lists the checkpoints of a job, and pins them.
 */
#include "jobctl/verbs/checkpoints.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "jobctl/client/job.h"
#include "jobctl/client/ref.h"
#include "jobctl/show/print.h"
#include "jobctl/verbs/verbs.h"

static int is_true(const cJSON *o, const char *key)
{
	return cJSON_IsTrue(jget(o, key)) != 0;
}

/* "complete", "pinned, torn": what decides whether an attempt can begin with it. */
static void add_state(const cJSON *k, struct text *out)
{
	const cJSON *p;
	int torn = 0, gone = 0, copying = 0;

	cJSON_ArrayForEach (p, jget(k, "places")) {
		const char *state = print_member(p, "state");

		torn |= strcmp(state, "torn") == 0;
		gone |= strcmp(state, "gone") == 0;
		copying |= strcmp(state, "copying") == 0;
	}
	text_add(out, "%s",
	         torn                      ? "torn"
	         : gone                    ? "gone"
	         : !is_true(k, "complete") ? "incomplete"
	         : copying                 ? "copying"
	                                   : "verified");
	if (is_true(k, "pinned"))
		text_join(out, ", ", "pinned");
	if (is_true(k, "set_aside"))
		text_join(out, ", ", "set aside");
}

static void add_places(const cJSON *k, struct text *out)
{
	const cJSON *p;

	cJSON_ArrayForEach (p, jget(k, "places")) {
		const char *uri = jtext(p, "uri");

		if (uri && strncmp(uri, CHECKPOINT_STORED, strlen(CHECKPOINT_STORED)) == 0)
			uri = "hearthd";
		text_join(out, ", ", "%.200s", uri ? uri : print_member(p, "node"));
	}
}

/* 1: nothing of it is left, and nobody has pinned it. */
static int is_gone(const cJSON *k)
{
	const cJSON *p;
	int gone = 0, other = 0;

	cJSON_ArrayForEach (p, jget(k, "places")) {
		if (strcmp(print_member(p, "state"), "gone") == 0)
			gone++;
		else
			other++;
	}
	return gone && !other && !is_true(k, "pinned");
}

/* "nan": the program reported a loss that is not finite. */
static const char *loss_text(const cJSON *k)
{
	return cJSON_IsFalse(jget(k, "loss_finite")) ? "nan" : print_member(k, "loss");
}

static void print_hidden(size_t hidden, int listed)
{
	if (hidden)
		printf("%s%zu that %s gone %s not listed; --all lists all.\n",
		       listed ? "" : "No checkpoint is left. ", hidden, hidden == 1 ? "is" : "are",
		       hidden == 1 ? "is" : "are");
	else if (!listed)
		puts("No checkpoint is registered: hearthd lists them while a job runs.");
}

static void print_list(const cJSON *list, int all)
{
	const char *const heads[] = {
	    ">STEP", print_zone_head("COMPLETE"), ">ATTEMPT", ">SAVE", ">LOSS", ">SIZE", "STATE", "PLACES"};
	struct table *t = table_create(heads, 8);
	const cJSON *k;
	size_t hidden = 0;
	char size[32];

	cJSON_ArrayForEach (k, list) {
		TEXT(state);
		TEXT(places);

		if (!all && is_gone(k)) {
			hidden++;
			continue;
		}
		add_state(k, &state);
		add_places(k, &places);
		table_cell(t, print_member(k, "step"));
		table_cell(t, print_time(jtext(k, "at")));
		table_cell(t, print_member(k, "attempt"));
		table_cellf(t, "%.1fs", print_number(k, "save_s"));
		table_cell(t, loss_text(k));
		table_cell(t, str_size((uint64_t)print_number(k, "size_bytes"), size, sizeof(size)));
		table_cell(t, state.at);
		table_cell(t, places.at);
	}
	if (table_rows(t))
		table_print(t);
	print_hidden(hidden, table_rows(t) > 0);
	table_destroy(t);
}

cJSON *checkpoint_list(struct ctx *c, uint64_t job)
{
	char *path = xasprintf("/jobs/%" PRIu64 "/checkpoints", job);
	cJSON *answer = NULL;
	int rc = ctx_get(c, "GET", path, NULL, &answer);

	free(path);
	return rc ? NULL : answer;
}

static int set_pin(struct ctx *c, uint64_t job, uint64_t step, int pinned)
{
	char *path = xasprintf("/jobs/%" PRIu64 "/checkpoints", job);
	cJSON *body = cJSON_CreateObject(), *answer = NULL;
	int rc;

	cJSON_AddNumberToObject(body, "step", (double)step);
	cJSON_AddBoolToObject(body, "pinned", pinned);
	rc = ctx_get(c, "PATCH", path, body, &answer);
	if (!rc && !ctx_show_json(c, answer))
		printf("%s: %s\n", print_member(answer, "ref"), print_member(answer, "text"));
	cJSON_Delete(answer);
	cJSON_Delete(body);
	free(path);
	return rc ? -1 : 0;
}

static int exec_checkpoints(struct ctx *c)
{
	int pin = args_has(&c->args, "pin"), unpin = args_has(&c->args, "unpin");
	uint64_t job, step = 0;
	cJSON *answer;

	if (pin && unpin)
		return ctx_fail(c, ERR_INVALID, "--pin and --unpin: give one of them");
	if (ref_resolve(c, c->args.operand[0], &job))
		return -1;
	if (pin || unpin) {
		if (args_u64(&c->args, pin ? "pin" : "unpin", 0, UINT64_C(1) << 53, &step, &c->err))
			return -1;
		return set_pin(c, job, step, pin);
	}
	answer = checkpoint_list(c, job);
	if (!answer)
		return -1;
	if (!ctx_show_json(c, answer))
		print_list(jget(answer, "checkpoints"), args_has(&c->args, "all"));
	cJSON_Delete(answer);
	return 0;
}

static const struct arg_opt checkpoints_opts[] = {
    {"all", 'a', NULL, "List those that are gone, too"},
    {"pin", 0, "STEP", "Pin the checkpoint of that step: retention does not remove it"},
    {"unpin", 0, "STEP", "End the pin of the checkpoint of that step"},
    {NULL, 0, NULL, NULL}};
const struct verb verbs_checkpoints[] = {
    {"checkpoints", "JOB", "List the checkpoints of a job", checkpoints_opts, 1, 1, exec_checkpoints},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
