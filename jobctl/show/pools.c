/*
 * pools: see pools.h.
 */
#include "jobctl/show/pools.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/client/ctx.h"
#include "jobctl/show/print.h"

#define DIGEST_SHOWN 12 /* digits, as in "git 1a2b..." */
#define NODES_SHOWN  8  /* of a pool */

const char *pools_left(const cJSON *pool, char *out, size_t size)
{
	uint64_t end = print_time_us(jtext(pool, "expires_at")), now = clock_real_us(clock_real());
	if (!end)
		return "-";
	uint64_t left = end > now ? (end - now) / 1000000 : 0;
	/* Seconds of a long time are only noise. */
	return str_duration(left >= 600 ? left / 60 * 60 : left, out, size);
}

/* Returns "; it waited for 32s". */
static char *retained_text(const cJSON *w)
{
	char span[40];
	const cJSON *s = jget(w, "retained_s");
	if (!cJSON_IsNumber(s) || s->valuedouble < 0)
		return xstrdup("");
	return xasprintf(" after %s", str_duration((uint64_t)s->valuedouble, span, sizeof(span)));
}

void pools_show_job(const cJSON *job)
{
	const cJSON *w = jget(job, "warm_pool");
	const char *status = jtext(w, "status"), *id = print_member(w, "pool");
	int has = cJSON_IsNumber(jget(w, "pool"));
	if (!status)
		return;
	char *after = retained_text(w), *text;
	if (strcmp(status, "in_use") == 0)
		text = has ? xasprintf("uses pool %s, and gives it back at its end", id)
		           : xstrdup("the job leaves one at its end");
	else if (strcmp(status, "available") == 0)
		text = xasprintf("pool %s waits for the next job: jobctl pool show %s", id, id);
	else if (strcmp(status, "reused") == 0)
		text = xasprintf("job %s took pool %s%s", print_member(w, "reused_by"), id, after);
	else
		text = xasprintf("pool %s ended%s%s%s", id, after, jtext(w, "cause_text") ? ": " : "",
		                 jtext(w, "cause_text") ? jtext(w, "cause_text") : "");
	print_line("warm pool", text);
	free(text);
	free(after);
}

/* Digests are cut, because people only see whether they are equal. */
static char *short_value(const cJSON *v)
{
	if (!cJSON_IsString(v) || !*v->valuestring)
		return xstrdup("none");
	return hash_is_hex(v->valuestring) ? xstrndup(v->valuestring, DIGEST_SHOWN) : print_safe(v->valuestring);
}

char *pools_missed_short(const cJSON *missed)
{
	const char *text = jtext(missed, "text");
	if (!cJSON_IsObject(missed))
		return NULL;
	if (text)
		return print_safe(text);
	char *field = print_safe(print_member(missed, "field")), *all = xasprintf("%s differs", field);
	free(field);
	return all;
}

char *pools_missed(const cJSON *missed)
{
	if (jtext(missed, "text"))
		return pools_missed_short(missed);
	char *field = print_safe(print_member(missed, "field")), *had = short_value(jget(missed, "had")),
	     *wants = short_value(jget(missed, "wants"));
	char *text = xasprintf("%s differs (pool: %s, job: %s)", field, had, wants);
	free(field);
	free(had);
	free(wants);
	return text;
}

static int is_in_other(const cJSON *others, const char *node)
{
	const cJSON *o, *v;
	cJSON_ArrayForEach (o, others) {
		cJSON_ArrayForEach (v, jget(o, "nodes")) {
			if (cJSON_IsString(v) && strcmp(v->valuestring, node) == 0)
				return 1;
		}
	}
	return 0;
}

static void print_nodes(const cJSON *nodes, const cJSON *others)
{
	const cJSON *v;
	int named = 0, more = 0;
	cJSON_ArrayForEach (v, nodes) {
		if (!cJSON_IsString(v) || is_in_other(others, v->valuestring))
			continue;
		if (named == NODES_SHOWN) {
			more++;
			continue;
		}
		char *name = print_safe(v->valuestring);
		printf("%s%s", named++ ? ", " : "", name);
		free(name);
	}
	if (more)
		printf(" and %d more", more);
}

/* Prints which nodes are warm, unless all are in the pool. */
static void show_warm_nodes(const cJSON *attempt, const cJSON *pool)
{
	const cJSON *o, *nodes = jget(pool, "nodes"), *others = jget(pool, "others");
	int warm = cJSON_GetArraySize(nodes), cold = cJSON_GetArraySize(jget(attempt, "nodes")) - warm;
	if (!warm || (cold <= 0 && !cJSON_GetArraySize(others)))
		return;
	fputs(", on ", stdout);
	print_nodes(nodes, others);
	cJSON_ArrayForEach (o, others) {
		printf("; pool %s on ", print_member(o, "id"));
		print_nodes(jget(o, "nodes"), NULL);
	}
	if (cold > 0)
		printf("; %d node%s cold", cold, cold == 1 ? " is" : "s are");
}

void pools_show_attempt(const cJSON *attempt)
{
	const cJSON *p = jget(attempt, "pool"), *missed = jget(p, "missed");
	if (!cJSON_IsObject(p))
		return;
	char *level = print_safe(print_member(p, "level"));
	printf("    warm: pool %s, level %s", print_member(p, "id"), level);
	show_warm_nodes(attempt, p);
	if (cJSON_IsObject(missed)) {
		char *why = pools_missed(missed);
		printf("; %s", why);
		free(why);
	}
	putchar('\n');
	free(level);
}
