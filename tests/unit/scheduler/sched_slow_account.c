/* sched_slow_account: what accounts hold and may hold, for sched_slow.c. */
#include "tests/unit/scheduler/sched_slow.h"

void slow_accounts(struct slow *w)
{
	static const char *const paths[] = {"",     "a",      "a/x",    "b",    "a/@u",
	                                    "a/@v", "a/x/@u", "a/x/@v", "b/@u", "b/@v"};
	static const int parents[] = {-1, 0, 1, 0, 1, 1, 2, 2, 3, 3};

	for (int i = 0; i < SLOW_ACCOUNTS; i++)
		w->accounts[i] = (struct slow_account){.path = paths[i], .parent = parents[i], .weight = 1};
}

int slow_below(const struct slow *w, int account, int top)
{
	while (account >= 0 && account != top)
		account = w->accounts[account].parent;
	return account == top;
}

unsigned slow_held(const struct slow *w, int account)
{
	unsigned gpus = 0;

	for (unsigned id = 1; id <= w->n_jobs; id++)
		for (unsigned k = 0; k < w->jobs[id].n_holds && slow_below(w, w->jobs[id].account, account); k++)
			gpus += (unsigned)__builtin_popcount(w->jobs[id].holds[k].gpu_mask);
	return gpus;
}

unsigned slow_owed(const struct slow *w, int account)
{
	unsigned gpus = 0;

	for (unsigned id = 1; id <= w->n_jobs; id++) {
		const struct slow_job *j = &w->jobs[id];

		if (j->state != SLOW_REPLACES || !slow_below(w, j->account, account))
			continue;
		gpus += w->shapes[j->shape].gpus;
		for (unsigned k = 0; k < j->n_holds; k++)
			gpus -= (unsigned)__builtin_popcount(j->holds[k].gpu_mask);
	}
	return gpus;
}

int slow_full(const struct slow *w, int account, unsigned gpus)
{
	int full = 0;

	for (; account >= 0; account = w->accounts[account].parent) {
		const struct slow_account *a = &w->accounts[account];

		if (a->closed)
			return 2;
		if (!a->quota || !gpus || slow_held(w, account) + slow_owed(w, account) + gpus <= a->quota)
			continue;
		if (!a->borrow)
			return 2;
		full = 1;
	}
	return full;
}
