/*
 * keeper: see keeper.h.
 */
#include "agent/keep/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/keep/held.h"
#include "agent/keep/keep_copy.h"
#include "agent/keep/keep_index.h"
#include "agent/keep/keep_report.h"
#include "agent/keep/keep_watch.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/os/fsutil.h"

#define LOOK_US    500000u
#define RETRY_US   5000000u
#define END_US     10000000u /* after the end of the launch: so long further tries begin soon, and it waits */
#define END_TRY_US 1000000u
#define COPY_TRIES 5         /* of one that is not the newest */
#define SAVE_US    60000000u /* between two savings of the reported steps alone */
#define BACKOFF    7         /* doublings of RETRY_US at most */

struct keeper {
	struct keeper_params p;
	struct keeper *next; /* of the agent's */
	char *key, *ml, *uri, *cpus, *dir, *files_dir;
	struct launch_user user;
	struct keep_index index;
	struct keep_moment moment;
	unsigned bad, well; /* ranks that ended so */
	struct loop_timer *timer;
	uint64_t saved_us;   /* boot; the index */
	uint64_t hurries_us; /* boot; after the end of the launch: END_US are over then */
	int ml_fd;
	struct keep_watch *watch;
	struct keep_copy *copy;
	uint64_t copying; /* its seq */
	int watched;      /* the watch has ended for good */
	int stopped;
	enum launch_over said; /* the last answer */
	void (*flushed)(void *arg);
	void *flush_arg;
};

static void start_copy(struct keeper *k);
static void stop_copy(struct keeper *k);
static void check_flush(struct keeper *k);

/* ---- reports ---------------------------------------------------------------------------------------- */

static void report_entry(struct keeper *k, const struct keep_entry *en, const char *text)
{
	const struct keep_launch l = {.job = k->p.job, .epoch = k->p.epoch, .attempt = k->p.attempt};

	if (!k->stopped)
		keep_report(k->p.outbox, &l, en, text);
}

static void save_index(struct keeper *k)
{
	struct err e;

	keep_index_set_steps(&k->index, &k->moment);
	k->saved_us = clock_boot_us(k->p.env->clock);
	if (keep_index_save(&k->index, k->dir, &e) < 0)
		log_warn("event=keeper_not_saved launch=%s reason=\"%s\"", k->key, e.text);
}

static void warn(struct keeper *k, const char *key, const char *text)
{
	k->p.warn(key, text, k->p.arg);
}

/* ---- the table -------------------------------------------------------------------------------------- */

/* Where its copy is, or what there is of it, if that is a folder; malloc'ed, NULL none. */
static char *copy_path(const struct keeper *k, uint64_t seq)
{
	cleanup_free char *place = NULL;

	if (!k->uri || strncmp(k->uri, "file:///", 8) != 0)
		return NULL;
	place = keep_copy_place(k->p.env, k->p.job, k->p.attempt, seq, k->p.node_rank);
	return xasprintf("%s/%s", k->uri + strlen("file://"), place);
}

/* why: it is reported, because no copy is left. copy: path of one that goes, too; NULL none. */
static void drop_entry(struct keeper *k, uint64_t seq, uint8_t state, const char *why, const char *copy)
{
	struct keep_entry *en = keep_index_find(&k->index, seq);
	cleanup_free char *rest = NULL;

	if (!en)
		return;
	if (en->state == CKPT_COPYING)
		rest = copy_path(k, seq);
	copy = copy ? copy : rest;
	if (k->copy && k->copying == seq) {
		keep_copy_cancel(k->copy);
		k->copy = NULL;
	}
	if (why) {
		en->state = state;
		report_entry(k, en, why);
	}
	keep_index_drop(&k->index, seq, copy);
	removals_add(k->p.removals,
	             &(struct removal){.launch = k->key, .user = &k->user, .seq = seq, .copy = copy});
}

static uint64_t bytes_of(const struct keeper *k)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < k->index.n; i++)
		bytes += k->index.v[i].bytes;
	return bytes;
}

/* What is being removed takes room, too; nothing else has to go for it. */
static uint64_t bytes_with_removals(const struct keeper *k)
{
	uint64_t bytes = bytes_of(k);

	for (size_t i = 0; i < k->index.n_removing; i++)
		bytes += k->index.removing[i].bytes;
	return bytes;
}

/* A launch without checkpoints takes nothing from the others. */
static int needs_room(const struct keeper *k, const struct keeper *asks)
{
	return k == asks || k->index.n || k->index.n_removing;
}

static int is_first_of_account(const struct keeper *k, const struct keeper *asks)
{
	const struct keeper *o = k->p.env->keepers;

	while (o != k && !(needs_room(o, asks) && o->user.uid == k->user.uid))
		o = o->next;
	return o == k;
}

static uint64_t share_of(const struct keeper *k)
{
	struct held_use use = {0};

	for (const struct keeper *o = k->p.env->keepers; o; o = o->next) {
		if (!needs_room(o, k))
			continue;
		use.accounts += is_first_of_account(o, k) ? 1 : 0;
		use.own += o->user.uid == k->user.uid ? 1 : 0;
		use.others += o == k ? 0 : bytes_with_removals(o);
	}
	return held_part(held_limit(k->p.env), &use);
}

static int is_over_bound(const struct keeper *k)
{
	uint64_t bytes = bytes_of(k), share = share_of(k);

	return k->index.n > KEEPER_HELD || (share && bytes > share && k->index.n > 1);
}

static void bound_held(struct keeper *k)
{
	while (is_over_bound(k)) {
		const struct keep_entry *oldest = &k->index.v[0];
		TEXT(t);

		for (size_t i = 1; i < k->index.n; i++)
			if (keep_entry_newer(oldest, &k->index.v[i]))
				oldest = &k->index.v[i];
		if (oldest->state == CKPT_VERIFIED) { /* it only loses the copy on this node */
			drop_entry(k, oldest->seq, CKPT_GONE, NULL, NULL);
			continue;
		}
		text_add(&t,
		         "checkpoint %s has no copy any more: this node holds newer ones, at most %d and what "
		         "hearth-agent "
		         "--held-limit allows",
		         oldest->name, KEEPER_HELD);
		warn(k, "held limit", t.at);
		drop_entry(k, oldest->seq, CKPT_GONE, "the node holds newer ones in its place", NULL);
	}
}

static void on_held(struct keep_entry *en, void *arg)
{
	const struct keep_done d = keep_done_of(en->name, en->print, en->at_us);
	struct keeper *k = arg;

	if (en->seq >= k->index.next_seq)
		k->index.next_seq = en->seq + 1;
	keep_done_add(k->index.done, &k->index.n_done, &d);
	*keep_index_add(&k->index) = *en;
	log_info("event=checkpoint launch=%s seq=%" PRIu64 " step=%" PRId64 " name=%s format=%s", k->key, en->seq,
	         en->step, en->name, en->format);
	report_entry(k, en, NULL);
	bound_held(k);
	save_index(k);
	if (k->moment.over)
		stop_copy(k); /* the newest comes first */
	start_copy(k);
}

static void on_torn(struct keep_entry *en, const char *why, void *arg)
{
	struct keeper *k = arg;

	if (en->seq >= k->index.next_seq)
		k->index.next_seq = en->seq + 1;
	report_entry(k, en, why);
	keep_entry_fini(en);
	save_index(k);
}

/* ---- copies ----------------------------------------------------------------------------------------- */

static void on_timer(void *arg);

static struct keep_entry *newest_of(const struct keeper *k)
{
	struct keep_entry *best = NULL;

	for (size_t i = 0; i < k->index.n; i++)
		if (!best || keep_entry_newer(&k->index.v[i], best))
			best = &k->index.v[i];
	return best;
}

/* The newest one is tried for ever, in longer and longer intervals: the place of copies may come back. */
static struct keep_entry *newest_uncopied(struct keeper *k, int waiting_too)
{
	uint64_t now = clock_boot_us(k->p.env->clock);
	struct keep_entry *best = NULL, *newest = newest_of(k);

	for (size_t i = 0; i < k->index.n; i++) {
		struct keep_entry *en = &k->index.v[i];

		if (en->state == CKPT_COPYING && (en->tries < COPY_TRIES || en == newest) &&
		    (waiting_too || en->retry_us <= now) && (!best || keep_entry_newer(en, best)))
			best = en;
	}
	return best;
}

static int hurries(const struct keeper *k)
{
	return clock_boot_us(k->p.env->clock) < k->hurries_us;
}

static void copy_failed(struct keeper *k, struct keep_entry *en, const char *why)
{
	cleanup_free char *key = xasprintf("checkpoint copies");
	uint64_t first_us = hurries(k) ? END_TRY_US : RETRY_US;
	TEXT(t);

	en->retry_us = clock_boot_us(k->p.env->clock) + (first_us << (en->tries < BACKOFF ? en->tries : BACKOFF));
	en->tries++;
	loop_timer_arm(k->timer, LOOK_US); /* it rests while nothing waits for a copy */
	log_warn("event=checkpoint_not_copied launch=%s seq=%" PRIu64 " try=%u reason=\"%s\"", k->key, en->seq,
	         en->tries, why);
	text_add(&t, "checkpoint %s has no copy outside of this node: %s. The run goes on", en->name, why);
	warn(k, key, t.at);
}

static void on_copied(const struct keep_copied *r, void *arg)
{
	struct keeper *k = arg;
	struct keep_entry *en = keep_index_find(&k->index, r->seq);

	k->copy = NULL;
	if (en && r->digest[0])
		memcpy(en->digest, r->digest, sizeof(en->digest));
	if (en && r->changed) {
		cleanup_free char *key = xasprintf("checkpoint %s", en->name);
		TEXT(t);

		text_add(&t, "checkpoint %s is not secured: %s", en->name, r->text);
		warn(k, key, t.at);
		drop_entry(k, r->seq, CKPT_TORN, r->text, NULL);
	} else if (en && r->rc < 0) {
		copy_failed(k, en, r->text);
		report_entry(k, en, NULL);
	} else if (en) {
		en->state = CKPT_VERIFIED;
		free(en->uri);
		en->uri = xstrdup(r->uri);
		report_entry(k, en, NULL);
	}
	save_index(k);
	start_copy(k);
	check_flush(k);
}

static void start_copy(struct keeper *k)
{
	const struct keep_entry *en = k->copy || k->stopped ? NULL : newest_uncopied(k, 0);
	struct keep_copy_params p = {.env = k->p.env,
	                             .link = k->p.link,
	                             .user = &k->user,
	                             .held = k->files_dir,
	                             .cpus = k->cpus,
	                             .rate = k->moment.over ? 0 : k->p.env->cfg.checkpoint_rate,
	                             .idle = !k->moment.over, /* then the next attempt waits for it */
	                             .entry = en,
	                             .uri = k->uri,
	                             .job = k->p.job,
	                             .epoch = k->p.epoch,
	                             .attempt = k->p.attempt,
	                             .node_rank = k->p.node_rank};
	struct err e = {0};

	if (!en)
		return;
	k->copying = en->seq;
	k->copy = keep_copy_start(&p, on_copied, k, &e);
	if (!k->copy)
		copy_failed(k, keep_index_find(&k->index, en->seq), e.text);
}

/* What it did is not lost: a copy goes on where another one stopped. */
static void stop_copy(struct keeper *k)
{
	keep_copy_cancel(k->copy);
	k->copy = NULL;
}

/* ---- the watch -------------------------------------------------------------------------------------- */

static void give_moment(struct keep_moment *out, void *arg)
{
	struct keeper *k = arg;

	*out = k->moment;
	out->now_us = clock_real_us(k->p.env->clock);
	out->from_us = k->p.from_us;
	out->first_node = k->p.node_rank == 0;
	out->room_bytes = share_of(k);
}

static void on_watch_warning(const char *key, const char *text, void *arg)
{
	warn(arg, key, text);
}

static void on_watch_done(void *arg)
{
	struct keeper *k = arg;

	k->watch = NULL;
	k->watched = 1;
	check_flush(k);
}

static const struct keep_watch_ops watch_ops = {
    .moment = give_moment, .held = on_held, .torn = on_torn, .warn = on_watch_warning, .done = on_watch_done};

static void start_watch(struct keeper *k)
{
	struct keep_watch_params p = {.env = k->p.env,
	                              .workers = data_link_workers(k->p.link, POOL_KEEPERS),
	                              .user = &k->user,
	                              .ml = k->ml,
	                              .held = k->files_dir,
	                              .cpus = k->cpus,
	                              .next_seq = k->index.next_seq,
	                              .known = &k->index};
	struct err e = {0};

	if (k->watch || k->watched || k->stopped)
		return;
	if (held_make(k->p.env, k->key, &k->user, &e) == 0)
		k->watch = keep_watch_start(&p, &watch_ops, k, &e);
	if (k->watch)
		return;
	k->watched = 1;
	warn(k, "checkpoints", e.text);
}

/* Something was made, renamed or removed in the folder of checkpoints since the start. The agent opens no
 * path: the folder itself is below its own open folder. */
static int has_sign(struct keeper *k)
{
	cleanup_close int fd = fs_open_below(k->ml_fd, "checkpoints", O_PATH | O_DIRECTORY, 0);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return errno != ENOENT;
	return (uint64_t)st.st_ctim.tv_sec * 1000000 + (uint64_t)st.st_ctim.tv_nsec / 1000 >= k->p.from_us;
}

static void on_timer(void *arg)
{
	struct keeper *k = arg;

	if (k->stopped)
		return;
	if (!k->watch && !k->watched && has_sign(k))
		start_watch(k);
	start_copy(k);
	check_flush(k);
	if ((!k->watch && !k->watched) || newest_uncopied(k, 1))
		loop_timer_arm(k->timer, LOOK_US);
}

/* ---- what the launch says ---------------------------------------------------------------------------- */

void keeper_step(struct keeper *k, int64_t step, uint64_t at_us)
{
	struct keep_moment *m = &k->moment;

	if (m->n_steps && m->steps[m->n_steps - 1].step >= step)
		return; /* another rank said so first */
	if (m->n_steps == KEEP_STEPS) {
		memmove(m->steps, m->steps + KEEP_STEPS / 4, (KEEP_STEPS - KEEP_STEPS / 4) * sizeof(*m->steps));
		m->n_steps -= KEEP_STEPS / 4;
	}
	m->steps[m->n_steps++] = (struct keep_step){.at_us = at_us, .step = step};
	/* The next agent reads these lines no more. */
	if (k->watch && clock_boot_us(k->p.env->clock) >= k->saved_us + SAVE_US)
		save_index(k);
}

void keeper_rank_ended(struct keeper *k, uint64_t at_us, int well)
{
	if (well) {
		k->well++;
		return;
	}
	k->bad++;
	if (!k->moment.bad_end_us || at_us < k->moment.bad_end_us)
		k->moment.bad_end_us = at_us;
}

int keeper_ended_well(const struct keeper *k)
{
	return k->well && !k->bad;
}

int keeper_all_copied(const struct keeper *k)
{
	for (size_t i = 0; i < k->index.n; i++)
		if (k->index.v[i].state != CKPT_VERIFIED)
			return 0;
	return 1;
}

void keeper_over(struct keeper *k)
{
	if (k->moment.over)
		return;
	k->moment.over = 1;
	k->hurries_us = clock_boot_us(k->p.env->clock) + END_US;
	stop_copy(k); /* the next one has no limit of its rate */
	if (newest_of(k))
		newest_of(k)->tries = 0, newest_of(k)->retry_us = 0;
	if (k->watch)
		keep_watch_hurry(k->watch);
	else if (has_sign(k))
		start_watch(k);
	else
		k->watched = 1;
	loop_timer_arm(k->timer, 0);
}

/* A first try may fail because the helper before it has not ended yet, or a file server is busy. Where all
 * fail, later ones follow while the rest is uploaded. */
static int awaits_copy(const struct keeper *k)
{
	const struct keep_entry *newest = newest_of(k);

	if (k->stopped || !newest || newest->state != CKPT_COPYING)
		return 0;
	return newest->tries == 0 || hurries(k) || (k->copy && k->copying == newest->seq);
}

enum launch_over keeper_how_over(const struct keeper *k)
{
	if (!k->moment.over || k->watch || !k->watched)
		return OVER_UNKNOWN;
	return k->said != OVER_COPIED && awaits_copy(k) ? OVER_STOPPED : OVER_COPIED;
}

static void check_flush(struct keeper *k)
{
	enum launch_over over = keeper_how_over(k);
	void (*done)(void *arg) = k->flushed;

	if (over > k->said && !k->stopped) {
		k->said = over;
		k->p.over(k->p.arg);
	}
	if (!done || over != OVER_COPIED)
		return;
	k->flushed = NULL;
	done(k->flush_arg);
}

void keeper_flush(struct keeper *k, void (*done)(void *arg), void *arg)
{
	k->flushed = done;
	k->flush_arg = arg;
	keeper_over(k);
	loop_timer_arm(k->timer, 0); /* not here: the caller is in the middle of its step */
}

int keeper_forget(struct keeper *k, uint64_t seq, const char *copy)
{
	if (!keep_index_find(&k->index, seq))
		return 0;
	drop_entry(k, seq, CKPT_GONE, NULL, copy);
	save_index(k);
	return 1;
}

void keeper_removed(struct keeper *k, uint64_t seq)
{
	if (keep_index_removed(&k->index, seq))
		save_index(k);
}

struct keeper *keeper_find(const struct agent_env *env, const char *launch)
{
	struct keeper *k = env->keepers;

	while (k && strcmp(k->key, launch) != 0)
		k = k->next;
	return k;
}

/* An ended launch, which no keeper has. */
static void forget_copy(const struct agent_env *env, const char *launch, uint64_t seq)
{
	cleanup_free char *dir = held_dir(env, launch);
	struct keep_index x = {0};
	struct err e = {0};

	if (keep_index_load(&x, dir, &e) < 0 || (keep_index_again(&x, seq) && keep_index_save(&x, dir, &e) < 0))
		log_warn("event=keeper_not_saved launch=%s reason=\"%s\"", launch, e.text);
	keep_index_fini(&x);
}

void keeper_copy_again(struct agent_env *env, const char *launch, uint64_t seq, const char *why)
{
	struct keeper *k = keeper_find(env, launch);
	struct keep_entry *en = k ? keep_index_again(&k->index, seq) : NULL;

	if (!k)
		forget_copy(env, launch, seq);
	if (!en)
		return;
	copy_failed(k, en, why);
	save_index(k);
}

void keeper_set_epoch(struct keeper *k, uint64_t epoch)
{
	k->p.epoch = epoch;
}

/* ---- life ------------------------------------------------------------------------------------------- */

/* The CPUs of this process that are not the job's; "": no other ones. */
static char *other_cpus(const struct keeper_params *p)
{
	char *text = xstrdup("");
	cpu_set_t set;

	if (!p->n_cpus || sched_getaffinity(0, sizeof(set), &set) < 0)
		return text;
	for (uint32_t i = 0; i < p->n_cpus; i++)
		if (p->cpus[i] < CPU_SETSIZE)
			CPU_CLR(p->cpus[i], &set);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			xappendf(&text, "%s%u", *text ? "," : "", cpu);
	return text;
}

/* What an earlier agent held is reported again: it may have died before hearthd knew. */
static void load_index(struct keeper *k)
{
	struct err e = {0};

	if (keep_index_load(&k->index, k->dir, &e) < 0)
		log_warn("event=keeper_index_lost launch=%s reason=\"%s\"", k->key, e.text);
	if (k->index.next_seq == 0)
		k->index.next_seq = 1;
	for (k->moment.n_steps = 0; k->moment.n_steps < k->index.n_steps; k->moment.n_steps++)
		k->moment.steps[k->moment.n_steps] = k->index.steps[k->moment.n_steps];
	for (size_t i = 0; i < k->index.n; i++)
		report_entry(k, &k->index.v[i], NULL);
	for (size_t i = 0; i < k->index.n_removing; i++)
		removals_add(k->p.removals, &(struct removal){.launch = k->key,
		                                              .user = &k->user,
		                                              .seq = k->index.removing[i].seq,
		                                              .copy = k->index.removing[i].copy});
}

struct keeper *keeper_create(const struct keeper_params *p)
{
	struct keeper *k = xcalloc(1, sizeof(*k));

	k->p = *p;
	k->key = xstrdup(p->key);
	k->ml = xstrdup(p->ml);
	k->uri = xstrdup(p->uri);
	k->cpus = other_cpus(p);
	k->dir = held_dir(p->env, p->key);
	k->files_dir = xasprintf("%s/files", k->dir);
	user_copy(&k->user, p->user);
	k->ml_fd = open(k->ml, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	k->timer = loop_timer_create(p->env->loop, on_timer, k);
	k->next = p->env->keepers;
	p->env->keepers = k;
	load_index(k);
	if (p->restored || k->index.n)
		start_watch(k);
	loop_timer_arm(k->timer, LOOK_US);
	return k;
}

void keeper_stop(struct keeper *k)
{
	k->stopped = 1;
	keep_watch_cancel(k->watch);
	stop_copy(k);
	k->watch = NULL;
	k->watched = 1;
	k->flushed = NULL;
	loop_timer_cancel(k->timer);
}

void keeper_end(struct keeper *k)
{
	keeper_stop(k);
	for (size_t i = 0; i < k->index.n; i++) {
		const struct keep_entry *en = &k->index.v[i];
		cleanup_free char *rest = en->state == CKPT_COPYING ? copy_path(k, en->seq) : NULL;

		if (rest)
			removals_add(k->p.removals, &(struct removal){.launch = k->key, .user = &k->user, .copy = rest});
	}
}

void keeper_destroy(struct keeper *k)
{
	struct keeper **at;

	if (!k)
		return;
	keeper_stop(k);
	for (at = &k->p.env->keepers; *at != k; at = &(*at)->next)
		;
	*at = k->next;
	loop_timer_destroy(k->timer);
	if (k->ml_fd >= 0)
		close(k->ml_fd);
	keep_index_fini(&k->index);
	user_fini(&k->user);
	free(k->key);
	free(k->ml);
	free(k->uri);
	free(k->cpus);
	free(k->dir);
	free(k->files_dir);
	free(k);
}
