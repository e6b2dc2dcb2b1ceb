/*
 * Programs that write in the order of one framework are killed at many random instants, also while they save,
 * and the keeper looks at random instants. Whatever it finds must be whole, of one step, and of the step that
 * it names; and it must find what was complete for long enough.
 *
 * The folder is a model: a list of writes with their times, which a kill cuts off. It knows what each file
 * holds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/keep/simfolder.h"

#define BEGIN_US (1000ull * S)
#define TRIALS   250
#define LATE_US  (200u * MS) /* the end of a rank reaches the keeper so much later, at most */

/* ---- the keeper --------------------------------------------------------------------------------------- */

static int belongs(const char *path, const struct keep_found *k)
{
	cleanup_free char *name = k->ranks ? listing_rank_name(path) : NULL;

	return k->ranks ? name && strcmp(name, k->name) == 0 : sim_is_below(path, k->name);
}

static void judge(struct sim *s, const struct keep_found *k, uint64_t now)
{
	unsigned files = 0, need = 0;

	if (k->torn || s->wrong)
		return;
	if (strncmp(k->name, "checkpoint-", 11) == 0 && strchr(k->name, '/'))
		s->wrong = xasprintf("%s is a part of a checkpoint", k->name);
	for (size_t i = 0; i < s->n_files; i++) {
		const struct file *f = &s->files[i];

		if (!belongs(f->path, k) || f->text || f->target)
			continue;
		files++;
		if (f->writer || f->written < f->pieces || f->step != k->step)
			s->wrong = xasprintf("%.3f s: %s as %s %lld by %s: %s has %u of %u pieces of step %lld",
			                     (double)(now - BEGIN_US) / 1e6, k->name, k->format, (long long)k->step,
			                     k->step_by, f->path, f->written, f->pieces, (long long)f->step);
		if (s->wrong)
			return;
	}
	for (unsigned i = 0; i < s->n_saved; i++)
		if (s->saved[i].step == k->step)
			need = s->saved[i].files;
	if (files < need)
		s->wrong = xasprintf("%.3f s: %s as %s %lld has %u of %u files", (double)(now - BEGIN_US) / 1e6,
		                     k->name, k->format, (long long)k->step, files, need);
	s->found++;
	s->newest = k->step > s->newest ? k->step : s->newest;
}

static uint64_t look(struct sim *s, uint64_t now)
{
	struct keep_found found[16];
	uint64_t look_us = 0;
	struct listing l;
	size_t n;

	sim_list(s, &l, now);
	s->at.now_us = now;
	n = recognise(&s->m, &l, &s->at, found, 16, &look_us);
	for (size_t i = 0; i < n; i++)
		judge(s, &found[i], now);
	listing_fini(&l);
	return look_us;
}

/* ---- one life ----------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	return x->at_us < y->at_us ? -1 : x->at_us > y->at_us ? 1 : x->order < y->order ? -1 : 1;
}

static void end_ranks(struct sim *s, uint64_t now)
{
	for (unsigned r = 0; r < RANKS; r++)
		for (size_t i = 0; i < s->n_files && s->kill_us[r] <= now; i++)
			if (s->files[i].writer == r + 1)
				s->files[i].writer = 0;
}

/* Runs the writes up to `now`. Returns 1 when something changed. */
static int run_until(struct sim *s, size_t *next, uint64_t now)
{
	int changed = 0;

	for (; *next < s->n_ops && s->ops[*next].at_us <= now; (*next)++)
		if (s->ops[*next].at_us < s->kill_us[s->ops[*next].rank]) {
			sim_perform(s, &s->ops[*next]);
			changed |= s->ops[*next].what != STEP;
		}
	end_ranks(s, now);
	return changed;
}

static void live(struct sim *s, uint64_t kill_us)
{
	uint64_t now = BEGIN_US, look_us = 0, due = 0, over_us = kill_us, told_us;
	size_t next = 0;

	qsort(s->ops, s->n_ops, sizeof(*s->ops), by_time);
	for (unsigned r = 0; r < RANKS; r++) { /* one is killed, the others by their launcher a little later */
		s->kill_us[r] = kill_us + (r ? sim_random(s, 300 * MS) : 0);
		over_us = s->kill_us[r] > over_us ? s->kill_us[r] : over_us;
	}
	told_us = kill_us + sim_random(s, LATE_US);
	for (; now < over_us + LATE_US; now += 1 + sim_random(s, 15 * MS)) {
		if (run_until(s, &next, now) && !due)
			due = now + 30 * MS;
		if (now >= told_us)
			s->at.bad_end_us = kill_us;
		if ((!due || now < due) && (!look_us || now < look_us))
			continue;
		look_us = look(s, now);
		due = 0;
	}
	run_until(s, &next, now);
	s->at.bad_end_us = kill_us;
	s->at.over = 1;
	look(s, now);
}

/* The newest step that was complete long enough before the end must be found. */
static void judge_recall(struct sim *s, uint64_t kill_us)
{
	int64_t due = -1;

	for (unsigned i = 0; i < s->n_saved; i++)
		if (s->saved[i].done_us + KEEP_QUIET_US + 300 * MS < kill_us)
			due = s->saved[i].step;
	if (!s->wrong && due > s->newest)
		s->wrong = xasprintf("killed at %.3f s: step %lld was complete, the newest that was found is %lld",
		                     (double)(kill_us - BEGIN_US) / 1e6, (long long)due, (long long)s->newest);
}

static void free_sim(struct sim *s)
{
	for (size_t i = 0; i < s->n_ops; i++) {
		free(s->ops[i].path);
		free(s->ops[i].other);
	}
	while (s->n_files)
		sim_remove(s, s->files[0].path);
	free(s->ops);
	free(s->files);
	free(s->wrong);
	keep_memory_fini(&s->m);
}

/* Writes one save; returns when its last write is done. *files: how many it has at least. */
typedef uint64_t (*save_fn)(struct sim *s, uint64_t t, int64_t step, unsigned *files);

struct kind {
	const char *name;
	save_fn save;
	int other_node; /* not the first one: markers are elsewhere */
	void (*before)(struct sim *s);
};

static void write_program(struct sim *s, save_fn save)
{
	uint64_t t = BEGIN_US + 100 * MS;

	for (int64_t step = 1; step <= 24; step++) {
		t += 300 * MS + sim_random(s, 300 * MS);
		sim_op(s, t, 0, STEP, xstrdup(""))->step = step;
		t += 300 * MS;
		if (step % 6 == 0) {
			struct saved *v = &s->saved[s->n_saved++];

			t = save(s, t, step, &v->files);
			v->step = step;
			v->done_us = t;
		}
	}
}

static void run_kind(const struct kind *kind, uint64_t seed)
{
	unsigned found = 0, lives = 0;
	char *wrong = NULL, *what;

	for (unsigned i = 0; i < TRIALS && !wrong; i++, lives++) {
		struct sim s = {.rng = (seed + i) * 0x9e3779b97f4a7c15u | 1, .newest = -1};
		uint64_t kill_us;

		s.at = (struct keep_moment){.from_us = BEGIN_US, .first_node = !kind->other_node};
		if (kind->before)
			kind->before(&s);
		write_program(&s, kind->save);
		kill_us = BEGIN_US + 2 * S + sim_random(&s, s.saved[s.n_saved - 1].done_us - BEGIN_US);
		live(&s, kill_us);
		judge_recall(&s, kill_us);
		if (s.wrong)
			wrong = xasprintf("seed %llu: %s", (unsigned long long)(seed + i), s.wrong);
		found += s.found;
		free_sim(&s);
	}
	what = xasprintf("%s: killed at %u instants, %u checkpoints are whole", kind->name, lives, found);
	is_str(wrong ? wrong : "", "", what);
	free(what);
	free(wrong);
}

/* ---- the orders of writing ---------------------------------------------------------------------------- */

static uint64_t pause_for(struct sim *s, uint64_t most)
{
	return 1 + sim_random(s, most);
}

static uint64_t save_overwrite(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	return sim_put(s, t, 0, step, xstrdup("ckpt.pt"));
}

static uint64_t save_rename(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	t = sim_put(s, t, 0, step, xstrdup("model.pt.tmp"));
	return sim_move(s, t, 0, xstrdup("model.pt.tmp"), xstrdup("model.pt"));
}

/* The previous one stays as a second file. */
static uint64_t save_rotate(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	if (step > 6)
		t = sim_move(s, t, 0, xstrdup("model.pt"), xstrdup("model_prev.pt"));
	return sim_put(s, t, 0, step, xstrdup("model.pt"));
}

static uint64_t save_rename_folder(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	cleanup_free char *tmp = xasprintf("tmp-step-%lld", (long long)step);

	*files = 2;
	t = sim_put(s, t, 0, step, xasprintf("%s/model.bin", tmp)) + pause_for(s, 3 * S);
	t = sim_put(s, t, 0, step, xasprintf("%s/optim.bin", tmp));
	return sim_move(s, t, 0, xstrdup(tmp), xasprintf("step-%lld", (long long)step));
}

static uint64_t save_named(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	return sim_put(s, t, 0, step, xasprintf("model_%lld.pt", (long long)step));
}

/* A folder of one file for each rank. */
static uint64_t save_ranks(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	uint64_t last = t;

	*files = RANKS;
	for (unsigned r = 0; r < RANKS; r++) {
		uint64_t end = sim_put(s, t + sim_random(s, 500 * MS), r, step,
		                       xasprintf("step_%lld/rank%u.pt", (long long)step, r));

		last = end > last ? end : last;
	}
	return last;
}

/* The same without a folder, and under the same names each time. */
static uint64_t save_ranks_as(struct sim *s, uint64_t t, int64_t step, unsigned *files, const char *form)
{
	uint64_t last = t;

	*files = RANKS;
	for (unsigned r = 0; r < RANKS; r++) {
		char *name = strstr(form, "%lld") ? xasprintf("ckpt_%lld_rank%u.pt", (long long)step, r)
		                                  : xasprintf("state-rank%u.pt", r);
		uint64_t end = sim_put(s, t + sim_random(s, 1500 * MS), r, step, name);

		last = end > last ? end : last;
	}
	return last;
}

static uint64_t save_ranks_flat(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	return save_ranks_as(s, t, step, files, "%lld");
}

static uint64_t save_ranks_over(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	return save_ranks_as(s, t, step, files, "");
}

/* A rename of each rank. */
static uint64_t save_ranks_rename(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	uint64_t last = t;

	*files = RANKS;
	for (unsigned r = 0; r < RANKS; r++) {
		uint64_t end = sim_put(s, t + sim_random(s, 1500 * MS), r, step,
		                       xasprintf("ep0-ba%lld-rank%u.pt.tmp", (long long)step, r));

		end = sim_move(s, end, r, xasprintf("ep0-ba%lld-rank%u.pt.tmp", (long long)step, r),
		               xasprintf("ep0-ba%lld-rank%u.pt", (long long)step, r));
		last = end > last ? end : last;
	}
	return last;
}

static uint64_t save_trainer(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	static const char *const names[] = {"model.safetensors", "training_args.bin", "optimizer.pt",
	                                    "scheduler.pt", "rng_state_0.pth"};
	uint64_t last = t;

	*files = 5 + RANKS - 1;
	for (unsigned i = 0; i < 5; i++) /* training_args.bin follows the model at once */
		t = sim_put(s, t + pause_for(s, i == 1 ? 300 * MS : 3 * S), 0, step,
		            xasprintf("checkpoint-%lld/%s", (long long)step, names[i]));
	t = sim_mark(s, t, 0, xasprintf("checkpoint-%lld/trainer_state.json", (long long)step),
	             xasprintf("{\"global_step\": %lld}", (long long)step));
	for (unsigned r = 1; r < RANKS; r++) {
		uint64_t end = sim_put(s, t + sim_random(s, 1500 * MS), r, step,
		                       xasprintf("checkpoint-%lld/rng_state_%u.pth", (long long)step, r));

		last = end > last ? end : last;
	}
	if (step > 12)
		sim_op(s, t, 0, REMOVE, xasprintf("checkpoint-%lld", (long long)step - 12));
	return t > last ? t : last;
}

static uint64_t save_deepspeed_at(struct sim *s, uint64_t t, int64_t step, const char *top)
{
	uint64_t last = 0;

	t = sim_put(s, t, 0, step,
	            xasprintf("%sglobal_step%lld/mp_rank_00_model_states.pt", top, (long long)step));
	for (unsigned r = 0; r < RANKS; r++) {
		/* Rank 0 writes `latest` after its own part. */
		uint64_t end = sim_put(s, t + sim_random(s, 800 * MS), r, step,
		                       xasprintf("%sglobal_step%lld/zero_pp_rank_%u_mp_rank_00_optim_states.pt", top,
		                                 (long long)step, r));

		if (r == 0)
			end = sim_mark(s, end, 0, xasprintf("%slatest", top),
			               xasprintf("global_step%lld", (long long)step));
		last = end > last ? end : last;
	}
	return last;
}

static uint64_t save_deepspeed(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = RANKS + 1;
	return save_deepspeed_at(s, t, step, "");
}

/* Another node of DeepSpeed: its parts, no `latest`. */
static uint64_t save_deepspeed_other(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	uint64_t last = 0;

	*files = RANKS;
	for (unsigned r = 0; r < RANKS; r++) {
		uint64_t end = sim_put(
		    s, t + sim_random(s, 800 * MS), r, step,
		    xasprintf("global_step%lld/zero_pp_rank_%u_mp_rank_00_optim_states.pt", (long long)step, r + 4));

		last = end > last ? end : last;
	}
	return last;
}

/* `latest` as the agent restored it before the start. */
static void restored_latest(struct sim *s)
{
	struct file *f = sim_make(s, "latest", BEGIN_US - 5 * S);

	f->text = xstrdup("global_step3");
	f->size = 12;
}

static uint64_t save_megatron(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	uint64_t last = 0;

	*files = RANKS;
	for (unsigned r = 0; r < RANKS; r++) {
		uint64_t end = sim_put(s, t + sim_random(s, 3 * S), r, step,
		                       xasprintf("iter_%07lld/mp_rank_%02u/model_optim_rng.pt", (long long)step, r));

		last = end > last ? end : last;
	}
	return sim_mark(s, last, 0, xstrdup("latest_checkpointed_iteration.txt"),
	                xasprintf("%lld", (long long)step));
}

static uint64_t save_megatron_other(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	return sim_put(s, t, 0, step, xasprintf("iter_%07lld/mp_rank_08/model_optim_rng.pt", (long long)step));
}

static void restored_tracker(struct sim *s)
{
	struct file *f = sim_make(s, "latest_checkpointed_iteration.txt", BEGIN_US - 5 * S);

	f->text = xstrdup("3");
	f->size = 1;
}

static uint64_t save_dcp_at(struct sim *s, uint64_t t, int64_t step, const char *dir)
{
	uint64_t last = 0;

	for (unsigned r = 0; r < RANKS; r++) {
		uint64_t end = sim_put(s, t + sim_random(s, 3 * S), r, step, xasprintf("%s/__%u_0.distcp", dir, r));

		last = end > last ? end : last;
	}
	t = sim_put(s, last, 0, step, xasprintf("%s/.metadata.tmp", dir));
	return sim_move(s, t, 0, xasprintf("%s/.metadata.tmp", dir), xasprintf("%s/.metadata", dir));
}

static uint64_t save_dcp(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	cleanup_free char *dir = xasprintf("step_%lld", (long long)step);

	*files = RANKS + 1;
	return save_dcp_at(s, t, step, dir);
}

/* The same folder each time. */
static uint64_t save_dcp_again(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = RANKS + 1;
	return save_dcp_at(s, t, step, "state");
}

/* Without a reduce each rank writes its own metadata. */
static uint64_t save_dcp_ranks(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	uint64_t last = 0;

	*files = 2 * RANKS;
	for (unsigned r = 0; r < RANKS; r++) {
		uint64_t end = sim_put(s, t + sim_random(s, 1500 * MS), r, step,
		                       xasprintf("step_%lld/__%u_0.distcp", (long long)step, r));

		end = sim_put(s, end, r, step, xasprintf("step_%lld/__%u.metadata.tmp", (long long)step, r));
		end = sim_move(s, end, r, xasprintf("step_%lld/__%u.metadata.tmp", (long long)step, r),
		               xasprintf("step_%lld/__%u.metadata", (long long)step, r));
		last = end > last ? end : last;
	}
	return last;
}

static uint64_t save_lightning(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	t = sim_put(s, t, 0, step, xasprintf("epoch=%lld-step=%lld.ckpt", (long long)step / 10, (long long)step));
	return sim_put(s, t + pause_for(s, 300 * MS), 0, step, xstrdup("last.ckpt"));
}

static uint64_t save_lightning_link(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	char *name = xasprintf("epoch=%lld-step=%lld-v1.ckpt", (long long)step / 10, (long long)step);

	*files = 1;
	t = sim_put(s, t, 0, step, name);
	sim_op(s, t + 1, 0, LINK, xstrdup("last.ckpt"))->other = xstrdup(name);
	return t + 1;
}

static uint64_t save_lightning_last(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	*files = 1;
	return sim_put(s, t, 0, step, xstrdup("last.ckpt"));
}

/* A strategy with shards makes folders. */
static uint64_t save_lightning_folder(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	cleanup_free char *dir = xasprintf("epoch=0-step=%lld.ckpt", (long long)step);

	*files = RANKS + 2;
	t = save_dcp_at(s, t, step, dir);
	return sim_put(s, t + pause_for(s, 300 * MS), 0, step, xasprintf("%s/meta.pt", dir));
}

static uint64_t save_hearth(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	/* Before its first manifest nobody knows that the program writes one. */
	uint64_t most = step == 6 ? S : 3 * S;

	*files = 2;
	t = sim_put(s, t, 0, step, xasprintf("at-%lld/model.pt", (long long)step));
	for (size_t i = s->n_ops; i-- > 0;) /* the manifest has the size of the whole file */
		if (s->ops[i].what == CREATE) {
			unsigned pieces = s->ops[i].pieces, more;

			t = sim_put(s, t + pause_for(s, most), 0, step, xasprintf("at-%lld/optim.pt", (long long)step));
			for (i = s->n_ops; s->ops[--i].what != CREATE;)
				;
			more = s->ops[i].pieces;
			return sim_mark(
			    s, t + pause_for(s, most), 0, xasprintf("at-%lld/hearth.json", (long long)step),
			    xasprintf("{\"step\": %lld, \"files\": {\"model.pt\": {\"size\": %u}, \"optim.pt\": "
			              "{\"size\": %u}}}",
			              (long long)step, 1000 * pieces, 1000 * more));
		}
	return t;
}

/* DeepSpeed and torch's format below the Trainer's folder. */
static uint64_t save_nested_deepspeed(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	cleanup_free char *top = xasprintf("checkpoint-%lld/", (long long)step);

	*files = RANKS + 2;
	t = save_deepspeed_at(s, t, step, top);
	t = sim_put(s, t + pause_for(s, 3 * S), 0, step, xasprintf("%sscheduler.pt", top));
	return sim_mark(s, t + pause_for(s, 3 * S), 0, xasprintf("%strainer_state.json", top), xstrdup("{}"));
}

static uint64_t save_nested_dcp(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	cleanup_free char *dir = xasprintf("checkpoint-%lld/pytorch_model_fsdp_0", (long long)step);

	*files = RANKS + 1;
	t = save_dcp_at(s, t, step, dir);
	return sim_mark(s, t + pause_for(s, 3 * S), 0,
	                xasprintf("checkpoint-%lld/trainer_state.json", (long long)step), xstrdup("{}"));
}

/* Megatron's iteration in torch's format. */
static uint64_t save_megatron_dcp(struct sim *s, uint64_t t, int64_t step, unsigned *files)
{
	cleanup_free char *dir = xasprintf("iter_%07lld", (long long)step);

	*files = RANKS + 2;
	t = sim_put(s, t, 0, step, xasprintf("%s/common.pt", dir));
	t = save_dcp_at(s, t, step, dir);
	return sim_mark(s, t, 0, xstrdup("latest_checkpointed_iteration.txt"),
	                xasprintf("%lld", (long long)step));
}

int main(void)
{
	static const struct kind kinds[] = {
	    {"a file written over", save_overwrite, 0, NULL},
	    {"a rename", save_rename, 0, NULL},
	    {"the old file renamed, the new one in place", save_rotate, 0, NULL},
	    {"a folder renamed", save_rename_folder, 0, NULL},
	    {"a number in the name", save_named, 0, NULL},
	    {"a file of each rank", save_ranks, 0, NULL},
	    {"files with a number and the rank", save_ranks_flat, 0, NULL},
	    {"a file of each rank written over", save_ranks_over, 0, NULL},
	    {"a file of each rank renamed", save_ranks_rename, 0, NULL},
	    {"Trainer", save_trainer, 0, NULL},
	    {"Trainer, DeepSpeed in it", save_nested_deepspeed, 0, NULL},
	    {"Trainer, torch's format in it", save_nested_dcp, 0, NULL},
	    {"DeepSpeed", save_deepspeed, 0, NULL},
	    {"DeepSpeed, another node", save_deepspeed_other, 1, NULL},
	    {"DeepSpeed, another node with a restored `latest`", save_deepspeed_other, 1, restored_latest},
	    {"Megatron", save_megatron, 0, NULL},
	    {"Megatron, torch's format", save_megatron_dcp, 0, NULL},
	    {"Megatron, another node with a restored tracker", save_megatron_other, 1, restored_tracker},
	    {"torch's format", save_dcp, 0, NULL},
	    {"torch's format, the same folder", save_dcp_again, 0, NULL},
	    {"torch's format, metadata of each rank", save_dcp_ranks, 0, NULL},
	    {"Lightning, last.ckpt a copy", save_lightning, 0, NULL},
	    {"Lightning, last.ckpt a link", save_lightning_link, 0, NULL},
	    {"Lightning, last.ckpt alone", save_lightning_last, 0, NULL},
	    {"Lightning, a folder", save_lightning_folder, 0, NULL},
	    {"hearth.json", save_hearth, 0, NULL},
	};
	const char *text = getenv("HEARTH_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 10) : 1;

	tap_diag("HEARTH_SEED=%llu", (unsigned long long)seed);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		run_kind(&kinds[i], seed);
	return tap_done();
}
