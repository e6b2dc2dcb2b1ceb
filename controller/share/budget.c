/*
 * budget: what queues and users may spend in a day, a week or a month (UTC), and what they have spent.
 *
 * An account's spending grows evenly while attempts run. For each account hearthd has the sum of the prices
 * of its running attempts, and the amount of the present day, week and month up to the last count. A budget
 * that is set later therefore includes what was spent before.
 *
 * When a budget is used up, the scheduler library starts nothing more of that account and the accounts below
 * it, and `why` says so. Running attempts continue, or end when the budget's action says so. The account
 * opens again when the next period begins or the budget is raised. Closing and opening are events of the
 * cluster. Only budgets are stored; at load the spending is summed up from attempts.
 */
#include "controller/share/budget.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/cluster.h"
#include "controller/record/cluster_rows.h"
#include "controller/record/rec.h"
#include "controller/record/verdict.h"
#include "controller/share/pools.h"
#include "controller/share/queues.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/request.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"
#include "store/read/load.h"

#define LOOK_US 60000000 /* longest time between two reviews, because the wall clock may be set */
#define DAY_US  86400000000ull

struct payer {
	char *path;
	uint64_t rate_uusd; /* an hour, of what runs now */
	uint64_t at_us;     /* real time up to which spent counts */
	uint64_t start_us[N_BUDGET_PERIOD];
	double spent[N_BUDGET_PERIOD];   /* millionths of a US dollar */
	const struct budget_rec *budget; /* its record; NULL none */
	int closed, ends;                /* used up: closed starts nothing; ends also ends running attempts */
	struct payer *next;              /* of those with a budget */
	UT_hash_handle hh;
};

/* ---- periods --------------------------------------------------------------------------------- */

/* Returns the first days of the month of `day` and of the next month, in days since 1970. Computes with years
 * that begin in March. */
static void month_of(int64_t day, int64_t *first, int64_t *next)
{
	int64_t z = day + 719468, era = z / 146097, doe = z - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
	int64_t from = (153 * mp + 2) / 5, to = (153 * (mp + 1) + 2) / 5;
	/* February is the last month of such a year: the year's length ends it. */
	int64_t y1 = yoe + 1, len = 365 + (y1 % 4 == 0 && (y1 % 100 != 0 || y1 % 400 == 0));

	*first = day - (doy - from);
	*next = *first + (mp == 11 ? len - from : to - from);
}

static uint64_t period_start(enum budget_period p, uint64_t us, uint64_t *end_us)
{
	int64_t day = (int64_t)(us / DAY_US), first = day, next = day + 1;

	if (p == BUDGET_WEEK) { /* 1970-01-01 was a Thursday; weeks begin on Monday */
		first = day - (day + 3) % 7;
		if (first < 0)
			first = 0;
		next = day - (day + 3) % 7 + 7;
	} else if (p == BUDGET_MONTH) {
		month_of(day, &first, &next);
	}
	if (end_us)
		*end_us = (uint64_t)next * DAY_US;
	return (uint64_t)first * DAY_US;
}

void budget_periods(uint64_t now_us, uint64_t start_us[3])
{
	for (int k = 0; k < N_BUDGET_PERIOD; k++)
		start_us[k] = period_start((enum budget_period)k, now_us, NULL);
}

/* ---- accounts -------------------------------------------------------------------------------- */

static struct payer *find_payer(const struct core *c, const char *path)
{
	struct payer *p;

	HASH_FIND_STR(c->budgets.payers, path, p);
	return p;
}

static struct payer *make_payer(struct core *c, const char *path)
{
	struct payer *p = find_payer(c, path);

	if (p)
		return p;
	p = xcalloc(1, sizeof(*p));
	p->path = xstrdup(path);
	p->at_us = now_real(c);
	budget_periods(p->at_us, p->start_us);
	HASH_ADD_KEYPTR(hh, c->budgets.payers, p->path, strlen(p->path), p);
	return p;
}

void budgets_clear(struct core *c)
{
	struct payer *p, *tmp;

	HASH_ITER (hh, c->budgets.payers, p, tmp) {
		HASH_DELETE(hh, c->budgets.payers, p);
		free(p->path);
		free(p);
	}
	c->budgets.all = NULL;
	c->budgets.n = 0;
	c->budgets.at_us = UINT64_MAX;
	c->budgets.dirty = 0;
}

/* Counts the spending up to now. After the clock was set back nothing counts until it has caught up. */
static void settle_payer(const struct core *c, struct payer *p)
{
	uint64_t now = now_real(c), start[N_BUDGET_PERIOD];
	uint64_t from = p->at_us < now ? p->at_us : now;

	budget_periods(now, start);
	for (int k = 0; k < N_BUDGET_PERIOD; k++) {
		uint64_t since = from;

		if (start[k] > p->start_us[k]) {
			p->start_us[k] = start[k];
			p->spent[k] = 0;
			since = from > start[k] ? from : start[k];
		}
		p->spent[k] += (double)p->rate_uusd * (double)(now - since) / 3.6e9;
	}
	if (now > p->at_us)
		p->at_us = now;
}

/* Calls fn for "queue/@owner", then for each account above it. */
static void each_up(struct core *c, const char *account,
                    void (*fn)(struct core *, struct payer *, const void *), const void *arg)
{
	char path[ACCOUNT_PATH];

	snprintf(path, sizeof(path), "%s", account);
	for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
		*end = '\0';
		fn(c, make_payer(c, path), arg);
	}
	c->budgets.dirty = 1;
}

struct begun {
	uint64_t price_uusd, started_us;
};

static void add_rate(struct core *c, struct payer *p, const void *arg)
{
	const struct begun *b = arg;

	settle_payer(c, p);
	/* An attempt that ran before this hearthd started: adds its part of each period. */
	for (int k = 0; k < N_BUDGET_PERIOD; k++) {
		uint64_t from = b->started_us > p->start_us[k] ? b->started_us : p->start_us[k];

		if (p->at_us > from)
			p->spent[k] += (double)b->price_uusd * (double)(p->at_us - from) / 3.6e9;
	}
	p->rate_uusd += b->price_uusd;
}

static void subtract_rate(struct core *c, struct payer *p, const void *arg)
{
	uint64_t price = *(const uint64_t *)arg;

	settle_payer(c, p);
	p->rate_uusd -= price < p->rate_uusd ? price : p->rate_uusd;
}

void budget_begins(struct core *c, const char *account, uint64_t price_uusd, uint64_t started_us)
{
	struct begun b = {price_uusd, started_us};

	each_up(c, account, add_rate, &b);
}

void budget_ends(struct core *c, const char *account, uint64_t price_uusd)
{
	each_up(c, account, subtract_rate, &price_uusd);
}

static void add_spent(struct core *c, struct payer *p, const void *arg)
{
	const struct spent_row *r = arg;

	(void)c;
	p->spent[BUDGET_DAY] += (double)r->day_uusd;
	p->spent[BUDGET_WEEK] += (double)r->week_uusd;
	p->spent[BUDGET_MONTH] += (double)r->month_uusd;
}

void spent_load(struct core *c, const struct spent_row *r)
{
	each_up(c, r->account, add_spent, r);
}

/* Sets the account's budget; b NULL: none. */
static void set_budget(struct core *c, struct payer *p, const struct budget_rec *b)
{
	if (b && b->uusd == 0)
		b = NULL;
	if (!p->budget && b) {
		LL_PREPEND(c->budgets.all, p);
		c->budgets.n++;
	} else if (p->budget && !b) {
		LL_DELETE(c->budgets.all, p);
		c->budgets.n--;
	}
	p->budget = b;
	c->budgets.dirty = 1;
}

void budget_load(struct core *c, const struct budget_row *r)
{
	if (cluster_load(&c->records, &(struct store_cluster_row){.budget = r}))
		set_budget(c, make_payer(c, r->path), cluster_budget(&c->records, r->path));
}

/* ---- closing and opening --------------------------------------------------------------------- */

static void post_closed(struct core *c, const struct payer *p, int quiet)
{
	cJSON *d;

	sched_queue_close(c->sched, p->path, p->closed);
	c->alloc.dirty = 1;
	if (quiet)
		return;
	d = cJSON_CreateObject();
	json_add_str(d, "queue", p->path);
	cJSON_AddNumberToObject(d, "usd", (double)p->budget->uusd / 1e6);
	cJSON_AddNumberToObject(d, "spent_usd", round(p->spent[p->budget->period]) / 1e6);
	json_add_str(d, "period", budget_period_names[p->budget->period]);
	json_add_str(d, "action", budget_action_names[p->budget->action]);
	cluster_post(c, p->closed ? EV_BUDGET_USED_UP : EV_BUDGET_OPEN, d);
	log_info("event=%s queue=%s", p->closed ? "budget_used_up" : "budget_open", p->path);
}

/* Returns 1 when the account is that path or below it. */
int account_pays_by(const char *account, const char *path)
{
	size_t n = strlen(path);

	return strncmp(account, path, n) == 0 && (account[n] == '/' || account[n] == '\0');
}

/* Marks the account's running jobs for review, which ends them. What exceeds the bound of this turn follows
 * in the next ones. */
static void touch_what_runs(struct core *c, const char *path)
{
	for (const struct cnode *n = node_first(c); n; n = node_next(n)) {
		for (uint32_t i = 0; i < n->n_jobs; i++) {
			const struct attempt_rec *a = n->jobs[i]->r.att;

			if (a && a->account && account_pays_by(a->account, path))
				job_touch(c, n->jobs[i]);
		}
	}
}

/* Returns the real time of the account's next change by itself; UINT64_MAX never. */
static uint64_t next_change(const struct payer *p, uint64_t now)
{
	uint64_t end;
	double us;

	period_start(p->budget->period, now, &end);
	if (p->closed)
		return end;
	us = p->rate_uusd ? ((double)p->budget->uusd - p->spent[p->budget->period]) / (double)p->rate_uusd * 3.6e9
	                  : 1e18;
	return us < 1e17 ? now + (uint64_t)(us > 0 ? us : 0) + 1 : end;
}

void budgets_review(struct core *c, int quiet)
{
	uint64_t now = now_real(c), next = LOOK_US;
	struct payer *p;

	if ((!c->budgets.dirty && now_boot(c) < c->budgets.at_us) || (c->life.failing && !quiet))
		return;
	c->budgets.dirty = 0;
	c->budgets.at_us = UINT64_MAX;
	LL_FOREACH (c->budgets.all, p) {
		uint64_t at;
		int closed;

		settle_payer(c, p);
		closed = p->spent[p->budget->period] >= (double)p->budget->uusd;
		if (closed != p->closed) {
			p->closed = closed;
			post_closed(c, p, quiet);
			if (closed && !quiet)
				pools_used_up(c, p->path);
		}
		if ((closed && p->budget->action == BUDGET_END) != p->ends) {
			p->ends = !p->ends;
			if (p->ends)
				touch_what_runs(c, p->path);
		}
		at = next_change(p, now);
		if (at - now < next)
			next = at > now ? at - now : 0;
	}
	if (c->budgets.all)
		c->budgets.at_us = now_boot(c) + next;
}

/* Returns the lowest account, from this one upwards, whose budget is used up; NULL none. ends: only budgets
 * that end running attempts. */
static struct payer *used_up(const struct core *c, const char *account, int ends)
{
	char path[ACCOUNT_PATH];

	if (!c->budgets.all)
		return NULL;
	snprintf(path, sizeof(path), "%s", account);
	for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
		struct payer *p;

		*end = '\0';
		p = find_payer(c, path);
		if (p && (ends ? p->ends : p->closed)) {
			settle_payer(c, p);
			return p;
		}
	}
	return NULL;
}

int budget_used_up(const struct core *c, const char *account)
{
	return used_up(c, account, 0) != NULL;
}

static void used_up_words(const struct payer *p, struct text *t)
{
	text_add(t, "the budget of %s is used up: $%.2f of $%.2f this %s", p->path,
	         p->spent[p->budget->period] / 1e6, (double)p->budget->uusd / 1e6,
	         budget_period_names[p->budget->period]);
}

void budget_explain(const struct core *c, const char *queue, const char *owner, struct sched_reason *r)
{
	char account[ACCOUNT_PATH], until[CLOCK_RFC3339_SIZE];
	const struct payer *p;
	struct text t;
	uint64_t at;

	if (r->why != SCHED_CLOSED)
		return;
	account_path(account, sizeof(account), queue, owner);
	p = used_up(c, account, 0);
	if (!p)
		return;
	t = text_on(r->text, sizeof(r->text));
	used_up_words(p, &t);
	period_start(p->budget->period, now_real(c), &at);
	clock_words(at, until);
	text_add(&t, "; it starts after %s, or when the budget is raised (jobctl budget set %s usd=N)", until,
	         p->path);
}

int budget_is_up(struct core *c, const struct cjob *j, struct verdict *v)
{
	const struct attempt_rec *a = j->r.att;
	/* The end of an attempt without a price would save nothing. */
	const struct payer *p = a->account && a->price_uusd ? used_up(c, a->account, 1) : NULL;
	TEXT(words);

	if (!p)
		return 0;
	used_up_words(p, &words);
	return verdict_set(v, RC_COST, "%s, and ends what runs (action=end)", words.at);
}

/* ---- what users ask and change ----------------------------------------------------------------- */

static cJSON *payer_json(const struct core *c, struct payer *p)
{
	cJSON *o = cJSON_CreateObject();
	uint64_t end;

	settle_payer(c, p);
	period_start(p->budget->period, now_real(c), &end);
	json_add_str(o, "name", p->path);
	cJSON_AddNumberToObject(o, "usd", (double)p->budget->uusd / 1e6);
	json_add_str(o, "period", budget_period_names[p->budget->period]);
	cJSON_AddNumberToObject(o, "spent_usd", round(p->spent[p->budget->period]) / 1e6);
	cJSON_AddNumberToObject(o, "usd_per_hour", (double)p->rate_uusd / 1e6);
	json_add_str(o, "action", budget_action_names[p->budget->action]);
	cJSON_AddBoolToObject(o, "used_up", p->closed);
	json_add_time(o, "resets_at", end);
	return o;
}

cJSON *budget_json(const struct core *c, const char *path)
{
	struct payer *p = find_payer(c, path);

	return p && p->budget ? payer_json(c, p) : NULL;
}

void budgets_json(const struct core *c, cJSON *list)
{
	struct payer *p;

	LL_FOREACH (c->budgets.all, p)
		cJSON_AddItemToArray(list, payer_json(c, p));
}

void budget_set(struct core *c, const char *path, cJSON *d)
{
	struct payer *p = make_payer(c, path);

	cluster_post(c, EV_BUDGET_SET, d);
	set_budget(c, p, cluster_budget(&c->records, p->path));
	budgets_review(c, 0);
}

void budget_drop(struct core *c, const char *path, const char *by)
{
	struct payer *p = find_payer(c, path);
	cJSON *d;

	if (!p || !p->budget)
		return;
	set_budget(c, p, NULL);
	d = cJSON_CreateObject();
	json_add_str(d, "queue", p->path);
	json_add_str(d, "by", by);
	cluster_post(c, EV_BUDGET_REMOVED, d);
	if (p->closed) {
		p->closed = p->ends = 0;
		sched_queue_close(c->sched, p->path, 0);
		c->alloc.dirty = 1;
	}
}

/* A user may have a budget in a queue without a weight or quota there. */
void budgets_drop_users(struct core *c, const char *queue, const char *by)
{
	size_t n = strlen(queue);
	struct payer *p, *tmp;

	LL_FOREACH_SAFE (c->budgets.all, p, tmp)
		if (strncmp(p->path, queue, n) == 0 && p->path[n] == '/' && p->path[n + 1] == '@')
			budget_drop(c, p->path, by);
}
