/* recognise: which entries of a folder are whole checkpoints, by the conventions of the frameworks, in right
 * and wrong orders of writing, with writers that are killed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/keep/recognise.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

#define S 1000000u

/* A folder of a program, its clock, and what the keeper remembers. */
struct folder {
	struct listing l;
	struct keep_memory m;
	struct keep_moment at;
	struct keep_found found[8];
	size_t n;
	uint64_t look_us, inode;
};

static void begin(struct folder *f)
{
	*f = (struct folder){.at = {.now_us = 1000 * S, .from_us = 999 * S, .first_node = 1}};
}

static void end(struct folder *f)
{
	listing_fini(&f->l);
	keep_memory_fini(&f->m);
}

static struct listing_item *item_of(struct folder *f, const char *path)
{
	for (size_t i = 0; i < f->l.n; i++)
		if (strcmp(f->l.items[i].path, path) == 0)
			return &f->l.items[i];
	return NULL;
}

static int by_path(const void *a, const void *b)
{
	const unsigned char *x = (const void *)((const struct listing_item *)a)->path;
	const unsigned char *y = (const void *)((const struct listing_item *)b)->path;

	for (; *x && *x == *y; x++, y++)
		;
	/* What is in a folder comes before what begins like its name. */
	return (*x == '/' ? 1 : *x ? *x + 1 : 0) - (*y == '/' ? 1 : *y ? *y + 1 : 0);
}

static void add(struct folder *f, const char *path, char type)
{
	struct listing_item *it;

	if (item_of(f, path))
		return;
	it = listing_add(&f->l, path);
	it->type = type;
	it->inode = ++f->inode;
	it->born_ns = f->at.now_us * 1000;
	qsort(f->l.items, f->l.n, sizeof(*f->l.items), by_path);
}

static void add_parents(struct folder *f, const char *path)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		cleanup_free char *above = xstrndup(path, (size_t)(slash - path));

		add(f, above, 'd');
	}
}

/* Writes a file now; open: and does not close it. */
static struct listing_item *put(struct folder *f, const char *path, uint64_t size, int open)
{
	struct listing_item *it;

	add_parents(f, path);
	add(f, path, 'f');
	it = item_of(f, path);
	it->size = size;
	it->mtime_ns = it->ctime_ns = f->at.now_us * 1000;
	it->flags = open ? LISTING_OPEN : 0;
	return it;
}

static void put_text(struct folder *f, const char *path, const char *text)
{
	struct listing_item *it = put(f, path, strlen(text), 0);

	free(it->text);
	it->text = xstrdup(text);
	it->n_text = strlen(text);
}

static void take_away(struct folder *f, const char *path)
{
	struct listing_item *it = item_of(f, path);
	size_t i = (size_t)(it - f->l.items);

	free(it->path);
	free(it->text);
	memmove(it, it + 1, (f->l.n - i - 1) * sizeof(*it));
	f->l.n--;
}

static void rename_to(struct folder *f, const char *from, const char *to)
{
	struct listing_item *it;

	if (item_of(f, to))
		take_away(f, to);
	it = item_of(f, from);
	free(it->path);
	it->path = xstrdup(to);
	it->flags |= LISTING_MOVED;
	it->ctime_ns = f->at.now_us * 1000;
	qsort(f->l.items, f->l.n, sizeof(*f->l.items), by_path);
}

static void look(struct folder *f)
{
	f->l.at_us = f->at.now_us;
	f->n = recognise(&f->m, &f->l, &f->at, f->found, 8, &f->look_us);
	for (size_t i = 0; i < f->l.n; i++)
		f->l.items[i].flags &= (uint8_t)~LISTING_MOVED;
}

static void wait_s(struct folder *f, unsigned s)
{
	f->at.now_us += (uint64_t)s * S;
}

static void report_step(struct folder *f, int64_t step)
{
	f->at.steps[f->at.n_steps++] = (struct keep_step){.at_us = f->at.now_us, .step = step};
}

/* "NAME FORMAT STEP BY", "NAME torn" or "none", of the newest. */
static const char *first(const struct folder *f)
{
	static char text[300];
	const struct keep_found *k = &f->found[0];

	if (f->n == 0)
		return "none";
	if (k->torn)
		snprintf(text, sizeof(text), "%s torn", k->name);
	else
		snprintf(text, sizeof(text), "%s %s %lld %s", k->name, k->format, (long long)k->step, k->step_by);
	return text;
}

static void quiet(struct folder *f)
{
	look(f);
	wait_s(f, 2);
	look(f);
}

/* ---- one file ---------------------------------------------------------------------------------------- */

static void test_overwritten(void)
{
	struct folder f;

	begin(&f);
	report_step(&f, 250);
	wait_s(&f, 1);
	put(&f, "ckpt.pt", 100, 1);
	look(&f);
	is_str(first(&f), "none", "the keeper ignores a file that is open");
	ok(f.look_us == 0, "its close is an event: no look is due before");
	put(&f, "ckpt.pt", 500, 0);
	look(&f);
	is_str(first(&f), "none", "a file that was just closed is not quiet");
	ok(f.look_us == f.at.now_us + KEEP_QUIET_US, "the next look is due at the end of the quiet time");
	wait_s(&f, 1);
	report_step(&f, 251);
	wait_s(&f, 1);
	look(&f);
	is_str(first(&f), "ckpt.pt overwrite 250 metric", "quiet: its step is the newest one at the close");
	is_int(f.found[0].linkable, 0, "a file that will be overwritten is never linked");
	look(&f);
	is_str(first(&f), "none", "it is found once");
	wait_s(&f, 5);
	report_step(&f, 500);
	wait_s(&f, 1);
	put(&f, "ckpt.pt", 500, 0);
	quiet(&f);
	is_str(first(&f), "ckpt.pt overwrite 500 metric", "an overwrite is a new checkpoint");
	put(&f, "gpt2.pt", 10, 0);
	quiet(&f);
	is_str(first(&f), "gpt2.pt plain 2 name", "the last number in a name is its step");
	put(&f, "gpt2.pt", 12, 0);
	quiet(&f);
	is_str(first(&f), "gpt2.pt overwrite 500 metric", "a name that is written again has no step in it");
	end(&f);
}

/* A number in a name that is written again and again has no step in it, and no file of it may be linked: the
 * next save empties the held one. */
static void test_numbers(void)
{
	struct folder f;

	begin(&f);
	put(&f, "gpt2.pt", 10, 0);
	quiet(&f);
	is_int(f.found[0].linkable, 0, "one name with a number: nobody knows that it counts up");
	put(&f, "ckpt-10.pt", 10, 0);
	quiet(&f);
	is_int(f.found[0].linkable, 0, "nor of another kind of name");
	put(&f, "ckpt-20.pt", 10, 0);
	quiet(&f);
	is_int(f.found[0].linkable, 1, "the second number shows it");
	put(&f, "ckpt-20.pt", 11, 0);
	quiet(&f);
	put(&f, "ckpt-30.pt", 10, 0);
	quiet(&f);
	is_int(f.found[0].linkable, 0, "a program that writes one of them again may do so with the next");
	end(&f);

	begin(&f);
	f.at.now_us = 900 * S;
	put(&f, "gpt2.pt", 10, 0);
	put(&f, "ckpt-10.pt", 10, 0);
	f.at.now_us = 1000 * S;
	quiet(&f);
	is_str(first(&f), "none", "what the launch began with is not found");
	report_step(&f, 520);
	wait_s(&f, 1);
	take_away(&f, "gpt2.pt");
	look(&f);
	put(&f, "gpt2.pt", 12, 0);
	quiet(&f);
	is_str(first(&f), "gpt2.pt overwrite 520 metric", "its first save again has the step of that time");
	is_int(f.found[0].linkable, 0, "and is not linked");
	put(&f, "ckpt-20.pt", 10, 0);
	quiet(&f);
	is_str(first(&f), "ckpt-20.pt plain 20 name", "a new name has its step");
	is_int(f.found[0].linkable, 1, "and counts up from the one that was restored");
	take_away(&f, "gpt2.pt");
	look(&f);
	put(&f, "gpt2.pt", 13, 0);
	quiet(&f);
	is_str(first(&f), "gpt2.pt overwrite 520 metric", "one that was removed before it was written again");
	end(&f);
}

static void test_killed(void)
{
	struct folder f;

	begin(&f);
	put(&f, "ckpt.pt", 100, 1);
	look(&f);
	f.at.bad_end_us = f.at.now_us + 10;
	put(&f, "ckpt.pt", 100, 0);
	wait_s(&f, 3);
	look(&f);
	is_str(first(&f), "none", "killed while it wrote: the close does not count");
	f.at.over = 1;
	look(&f);
	is_str(first(&f), "ckpt.pt torn", "it is torn when the launch is over");
	end(&f);

	begin(&f);
	put(&f, "ckpt.pt", 100, 0);
	look(&f);
	wait_s(&f, 1);
	f.at.bad_end_us = f.at.now_us;
	wait_s(&f, 2);
	f.at.over = 1;
	look(&f);
	is_str(first(&f), "ckpt.pt torn", "killed within the quiet time: nobody knows that it was complete");
	end(&f);

	begin(&f);
	put(&f, "model-7.pt", 100, 0);
	look(&f);
	wait_s(&f, 3);
	f.at.bad_end_us = f.at.now_us;
	f.at.over = 1;
	look(&f);
	is_str(first(&f), "model-7.pt plain 7 name", "killed after the quiet time: it was complete");
	end(&f);

	begin(&f);
	put(&f, "model-7.pt", 100, 0);
	f.at.over = 1;
	look(&f);
	is_str(first(&f), "model-7.pt plain 7 name", "all ranks ended with 0: it is complete at once");
	end(&f);
}

static void test_renamed(void)
{
	struct folder f;

	begin(&f);
	report_step(&f, 40);
	wait_s(&f, 1);
	put(&f, "ckpt.pt.tmp", 100, 1);
	look(&f);
	is_str(first(&f), "none", "the keeper ignores an unfinished name");
	put(&f, "ckpt.pt.tmp", 300, 0);
	quiet(&f);
	is_str(first(&f), "none", "nor when it is closed and quiet");
	rename_to(&f, "ckpt.pt.tmp", "ckpt.pt");
	look(&f);
	is_str(first(&f), "ckpt.pt rename 40 metric", "the rename completes it at once");
	ok(f.found[0].linkable, "it may be linked");
	wait_s(&f, 1);
	rename_to(&f, "ckpt.pt", "ckpt_prev.pt");
	look(&f);
	is_str(first(&f), "none", "a rotation of names makes no new checkpoint");
	put(&f, "tmp-9", 5, 0);
	f.at.bad_end_us = f.at.now_us;
	rename_to(&f, "tmp-9", "model_9.pt");
	look(&f);
	is_str(first(&f), "model_9.pt rename 9 name", "a rename counts whenever its writer ends");
	end(&f);
}

static void test_others(void)
{
	struct folder f;
	static const char *const none[] = {"train.log",  "config.json",     "metrics.csv",
	                                   "latest",     "zero_to_fp32.py", "latest_checkpointed_iteration.txt",
	                                   ".hidden.pt", "model.pt.part",   "events.out.tfevents.17.host.3"};

	begin(&f);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		put(&f, none[i], 10, 0);
	put(&f, "empty.pt", 0, 0);
	put(&f, "denied.pt", 10, 0)->flags = LISTING_DENIED;
	quiet(&f);
	is_str(first(&f), "none", "the keeper ignores logs, markers, hidden, empty and unreadable files");
	put(&f, "old-3.pt", 10, 0);
	item_of(&f, "old-3.pt")->mtime_ns = item_of(&f, "old-3.pt")->ctime_ns = 998ull * S * 1000;
	quiet(&f);
	is_str(first(&f), "none", "the keeper ignores what was there before the start");
	put(&f, "weights-12/a.bin", 10, 0);
	put(&f, "weights-12/b.bin", 10, 1);
	quiet(&f);
	is_str(first(&f), "none", "a folder with an open file is not complete");
	put(&f, "weights-12/b.bin", 20, 0);
	quiet(&f);
	is_str(first(&f), "weights-12 plain 12 name", "any other folder: closed and quiet");
	is_int((long)f.found[0].files, 2, "with its files");
	is_int((long)f.found[0].bytes, 30, "and bytes");
	put(&f, ".new/a.bin", 10, 0);
	rename_to(&f, ".new", "weights-14");
	rename_to(&f, ".new/a.bin", "weights-14/a.bin");
	look(&f);
	is_str(first(&f), "weights-14 rename 14 name", "a folder that came by a rename is complete at once");
	put(&f, "weights-13/a.bin", 10, 0);
	put(&f, "weights-13/b.bin.tmp", 10, 0);
	quiet(&f);
	is_str(first(&f), "none", "a folder with an unfinished name in it is not complete");
	end(&f);
}

/* ---- manifests and frameworks -------------------------------------------------------------------------- */

static void test_hearth(void)
{
	struct folder f;

	begin(&f);
	put(&f, "step-8/model.pt", 100, 0);
	put_text(&f, "step-8/hearth.json", "{\"step\": 12, \"shards\": 2, \"files\": {\"model.pt\": {\"si");
	look(&f);
	is_str(first(&f), "none", "the keeper ignores half a manifest");
	put_text(&f, "step-8/hearth.json",
	         "{\"step\": 12, \"shards\": 2, \"files\": {\"model.pt\": {\"size\": 200}}}");
	quiet(&f);
	is_str(first(&f), "none", "a size that differs: not complete");
	put(&f, "step-8/model.pt", 200, 0);
	look(&f);
	is_str(first(&f), "step-8 hearth 12 hearth.json",
	       "its step comes before the name, and it needs no quiet time");
	is_int(f.found[0].shards, 2, "and its shards");
	put_text(&f, "deep/er/x/hearth.json", "{\"step\": 3, \"files\": {}}");
	look(&f);
	is_str(first(&f), "deep/er/x hearth 3 hearth.json", "also in a folder of a folder");
	put_text(&f, "bad/hearth.json", "{\"step\": -1, \"files\": {}}");
	f.at.over = 1;
	look(&f);
	is_str(first(&f), "bad torn", "a manifest with an invalid step is torn");
	end(&f);

	begin(&f);
	put(&f, "ckpt/model.pt", 200, 0);
	put(&f, "ckpt/optim.pt", 100, 0);
	put_text(&f, "ckpt/hearth.json",
	         "{\"step\": 100, \"files\": {\"model.pt\": {\"size\": 200}, \"optim.pt\": {\"size\": 100}}}");
	look(&f);
	is_str(first(&f), "ckpt hearth 100 hearth.json", "a folder that will be written again");
	is_int(f.found[0].linkable, 0, "is not linked");
	wait_s(&f, 9);
	put(&f, "ckpt/model.pt", 200, 0);
	quiet(&f);
	is_str(first(&f), "none", "half of the next save is in it, of the same size: the manifest is older");
	put(&f, "ckpt/optim.pt", 100, 0);
	put_text(&f, "ckpt/hearth.json",
	         "{\"step\": 200, \"files\": {\"model.pt\": {\"size\": 200}, \"optim.pt\": {\"size\": 100}}}");
	look(&f);
	is_str(first(&f), "ckpt hearth 200 hearth.json", "with its own manifest it is whole");
	is_int(f.found[0].linkable, 0, "and is not linked either");
	end(&f);
}

static void test_trainer(void)
{
	struct folder f;

	begin(&f);
	put(&f, "checkpoint-500/model.safetensors", 100, 0);
	put(&f, "checkpoint-500/optimizer.pt", 100, 0);
	quiet(&f);
	is_str(first(&f), "none", "Trainer: without trainer_state.json it is not complete, however quiet");
	put_text(&f, "checkpoint-500/trainer_state.json", "{\"global_step\": 500");
	quiet(&f);
	is_str(first(&f), "none", "nor with half of it");
	put_text(&f, "checkpoint-500/trainer_state.json", "{\"global_step\": 500}");
	look(&f);
	is_str(first(&f), "none", "nor before it is quiet");
	wait_s(&f, 1);
	put(&f, "checkpoint-500/rng_state_1.pth", 10, 0);
	look(&f);
	wait_s(&f, 1);
	look(&f);
	is_str(first(&f), "none", "rng_state of another rank begins the quiet time again");
	wait_s(&f, 1);
	look(&f);
	is_str(first(&f), "checkpoint-500 hf_trainer 500 table", "then it is");
	put(&f, "checkpoint-600/trainer_state.json", 10, 0);
	put(&f, "checkpoint-600/global_step600/mp_rank_00_model_states.pt", 100, 0);
	quiet(&f);
	is_str(first(&f), "none", "a DeepSpeed folder in it needs its `latest`");
	put_text(&f, "checkpoint-600/latest", "global_step600");
	quiet(&f);
	is_str(first(&f), "checkpoint-600 hf_trainer 600 table", "then both are");
	put(&f, "checkpoint-700/trainer_state.json", 10, 0);
	put(&f, "checkpoint-700/pytorch_model_fsdp_0/__0_0.distcp", 10, 0);
	quiet(&f);
	is_str(first(&f), "none", "a folder of torch in it needs its .metadata");
	put(&f, "checkpoint-700/pytorch_model_fsdp_0/.metadata", 10, 0);
	quiet(&f);
	is_str(first(&f), "checkpoint-700 hf_trainer 700 table", "then both are, too");
	f.at.first_node = 0;
	put(&f, "checkpoint-800/rng_state_9.pth", 10, 0);
	quiet(&f);
	is_str(first(&f), "checkpoint-800 hf_trainer 800 table", "another node has no trainer_state.json");
	put(&f, "checkpoint-12/anything.bin", 10, 0);
	quiet(&f);
	is_str(first(&f), "checkpoint-12 plain 12 name", "a program's own folder of that name");
	end(&f);
}

static void test_lightning(void)
{
	struct folder f;

	begin(&f);
	put(&f, "epoch=2-step=300.ckpt", 100, 0);
	quiet(&f);
	is_str(first(&f), "epoch=2-step=300.ckpt lightning 300 table", "Lightning: step=N");
	put(&f, "epoch=2-step=320.ckpt", 100, 0);
	wait_s(&f, 1);
	put(&f, "last.ckpt", 100, 0);
	quiet(&f);
	is_str(first(&f), "last.ckpt lightning 320 table",
	       "last.ckpt has the step of its equal file, just before");
	put(&f, "epoch=2-step=400-v1.ckpt", 100, 0);
	quiet(&f);
	is_str(first(&f), "epoch=2-step=400-v1.ckpt lightning 400 table",
	       "a version at the end does not change the step");
	put(&f, "epoch=2-step=500-val_loss=0.25.ckpt", 100, 0);
	quiet(&f);
	is_str(first(&f), "epoch=2-step=500-val_loss=0.25.ckpt lightning 500 table", "nor is a metric");
	wait_s(&f, 10);
	report_step(&f, 555);
	wait_s(&f, 1);
	put(&f, "last.ckpt", 100, 0);
	quiet(&f);
	is_str(first(&f), "last.ckpt lightning 555 metric", "without an equal file: by the metric");
	put(&f, "epoch=3.ckpt", 100, 0);
	quiet(&f);
	is_str(first(&f), "epoch=3.ckpt lightning 555 metric", "the keeper does not take an epoch for a step");
	put(&f, "run/version_0/epoch=1-step=60.ckpt/checkpoint/mp_rank_00_model_states.pt", 9, 0);
	put_text(&f, "run/version_0/epoch=1-step=60.ckpt/latest", "checkpoint");
	quiet(&f);
	is_str(first(&f), "run/version_0/epoch=1-step=60.ckpt lightning 60 table", "a folder, in folders");
	put(&f, "epoch=1-step=70.ckpt/__0_0.distcp", 9, 0);
	quiet(&f);
	is_str(first(&f), "none", "one of torch's format needs its .metadata");
	put(&f, "epoch=1-step=70.ckpt/.metadata", 9, 0);
	quiet(&f);
	is_str(first(&f), "epoch=1-step=70.ckpt lightning 70 table", "then it is complete");
	end(&f);
}

static void test_deepspeed(void)
{
	struct folder f;

	begin(&f);
	put(&f, "global_step10/mp_rank_00_model_states.pt", 10, 0);
	quiet(&f);
	is_str(first(&f), "none", "DeepSpeed: without `latest` it is not complete");
	put_text(&f, "latest", "global_step10\n");
	put(&f, "global_step10/zero_pp_rank_1_mp_rank_00_optim_states.pt", 10, 1);
	quiet(&f);
	is_str(first(&f), "none", "`latest` may precede a part that is open");
	put(&f, "global_step10/zero_pp_rank_1_mp_rank_00_optim_states.pt", 20, 0);
	put(&f, "zero_to_fp32.py", 20, 0);
	quiet(&f);
	is_str(first(&f), "global_step10 deepspeed 10 table", "then it is");
	is_int((long)f.n, 1, "zero_to_fp32.py does not count");
	put(&f, "global_step20/mp_rank_00_model_states.pt", 10, 0);
	put_text(&f, "latest", "global_step30");
	quiet(&f);
	is_str(first(&f), "global_step20 deepspeed 20 table", "`latest` may name a later one by now");
	report_step(&f, 33);
	wait_s(&f, 1);
	put(&f, "best/mp_rank_00_model_states.pt", 10, 0);
	put_text(&f, "latest", "best");
	quiet(&f);
	is_str(first(&f), "best deepspeed 33 metric", "another tag: by the metric");
	f.at.first_node = 0;
	take_away(&f, "latest");
	put(&f, "global_step40/mp_rank_00_model_states.pt", 10, 0);
	quiet(&f);
	is_str(first(&f), "global_step40 deepspeed 40 table", "another node has no `latest`");
	end(&f);
}

static void test_megatron(void)
{
	struct folder f;
	const char *tracker = "latest_checkpointed_iteration.txt";

	begin(&f);
	put(&f, "iter_0000100/mp_rank_00/model_optim_rng.pt", 10, 0);
	quiet(&f);
	is_str(first(&f), "none", "Megatron: without its file it is not complete");
	put_text(&f, tracker, "");
	quiet(&f);
	is_str(first(&f), "none", "nor while that is empty");
	put_text(&f, tracker, "100");
	look(&f);
	is_str(first(&f), "iter_0000100 megatron 100 table", "the file names it: complete at once");
	put(&f, "iter_0000200/mp_rank_00/model_optim_rng.pt", 10, 0);
	quiet(&f);
	is_str(first(&f), "none", "a file that names an earlier one");
	put_text(&f, tracker, "300\n");
	look(&f);
	is_str(first(&f), "iter_0000200 megatron 200 table", "or a later one");
	put_text(&f, tracker, "release");
	put(&f, "release/mp_rank_00/model_optim_rng.pt", 10, 0);
	put(&f, "iter_0000400/common.pt", 10, 0);
	f.at.over = 1;
	look(&f);
	is_str(first(&f), "iter_0000400 torn", "`release` names no iteration");
	is_int((long)f.n, 1, "and does not count itself");
	f.at.first_node = f.at.over = 0;
	take_away(&f, tracker);
	put(&f, "iter_0000500/mp_rank_08/model_optim_rng.pt", 10, 0);
	quiet(&f);
	is_str(first(&f), "iter_0000500 megatron 500 table", "another node has no such file");
	end(&f);
}

static void test_dcp(void)
{
	struct folder f;

	begin(&f);
	put(&f, "step_40/__0_0.distcp", 10, 0);
	put(&f, "step_40/__1_0.distcp", 10, 0);
	quiet(&f);
	is_str(first(&f), "none", "torch: without .metadata it is not complete");
	put(&f, "step_40/.metadata.tmp", 10, 0);
	quiet(&f);
	is_str(first(&f), "none", "nor while that is being written");
	rename_to(&f, "step_40/.metadata.tmp", "step_40/.metadata");
	look(&f);
	is_str(first(&f), "step_40 dcp 40 name", "then it is, at once");
	put(&f, "step_40/__1_0.distcp", 10, 0);
	wait_s(&f, 5);
	quiet(&f);
	is_str(first(&f), "none", "a part that is newer than .metadata: it is being written again");
	put(&f, "step_40/.metadata", 10, 0);
	look(&f);
	is_str(first(&f), "step_40 dcp -1 metric", "complete again, and its name has no step any more");
	put(&f, "s-50/__0_0.distcp", 10, 0);
	put(&f, "s-50/__1_0.distcp", 10, 0);
	put(&f, "s-50/__0.metadata", 10, 0);
	quiet(&f);
	is_str(first(&f), "none", "metadata of each rank: one is missing");
	put(&f, "s-50/__1.metadata", 10, 0);
	look(&f);
	is_str(first(&f), "none", "another rank may not have begun yet");
	wait_s(&f, 2);
	look(&f);
	is_str(first(&f), "s-50 dcp 50 name", "then it is complete");
	f.at.first_node = 0;
	put(&f, "s-60/__8_0.distcp", 10, 0);
	quiet(&f);
	is_str(first(&f), "s-60 dcp 60 name", "another node has no .metadata");
	end(&f);
}

static void is_rank_name(const char *name, const char *want)
{
	cleanup_free char *got = listing_rank_name(name);

	is_str(got, want, name);
}

static void test_ranks(void)
{
	struct folder f;

	is_rank_name("ckpt-7_rank3.pt", "ckpt-7_rank*.pt");
	is_rank_name("rank_12", "rank_*");
	is_rank_name("Node0-GPU1-step5.bin", "Node*-GPU*-step5.bin");
	is_rank_name("frank3.pt", NULL);
	is_rank_name("ranking.pt", NULL);
	is_rank_name("rank", NULL);
	begin(&f);
	put(&f, "ckpt-7_rank0.pt", 10, 0);
	put(&f, "ckpt-7_rank1.pt", 20, 1);
	put(&f, "log_rank0.txt", 20, 0);
	quiet(&f);
	is_str(first(&f), "none", "files of two ranks: one is open");
	put(&f, "ckpt-7_rank1.pt", 30, 0);
	quiet(&f);
	is_str(first(&f), "ckpt-7_rank*.pt plain 7 name",
	       "then they are one checkpoint; the rank does not count");
	is_int((long)f.n, 1, "and nothing else is");
	is_int(f.found[0].ranks, 1, "its name stands for several");
	is_int((long)f.found[0].bytes, 40, "with the bytes of both");
	put(&f, "ckpt-8_rank1.pt", 30, 0);
	quiet(&f);
	is_str(first(&f), "none", "one file, where there were two before");
	put(&f, "ckpt-8_rank0.pt", 30, 0);
	quiet(&f);
	is_str(first(&f), "ckpt-8_rank*.pt plain 8 name", "both");
	report_step(&f, 9);
	wait_s(&f, 1);
	put(&f, "rank0/model.pt", 30, 0);
	put(&f, "rank1/model.pt", 30, 0);
	quiet(&f);
	is_str(first(&f), "rank* overwrite 9 metric", "folders of two ranks");
	put(&f, "rank1/model.pt", 31, 0);
	quiet(&f);
	is_str(first(&f), "rank* overwrite 9 metric", "one of them written again is another checkpoint");
	end(&f);
}

static void test_many(void)
{
	struct keep_done d;
	struct folder f;
	uint64_t print;

	begin(&f);
	for (int i = 1; i <= 6; i++) {
		cleanup_free char *name = xasprintf("step-%d.pt", i);

		put(&f, name, 10, 0);
		wait_s(&f, 1);
	}
	look(&f);
	wait_s(&f, 2);
	look(&f);
	is_int((long)f.n, 6, "several at once");
	is_str(first(&f), "step-6.pt plain 6 name", "the newest comes first");
	is_str(f.found[5].name, "step-1.pt", "the oldest last");
	print = f.found[0].print;
	keep_memory_again(&f.m, "step-6.pt", print);
	look(&f);
	is_str(first(&f), "step-6.pt plain 6 name", "one that could not be held is found again");
	keep_memory_fini(&f.m);
	d = keep_done_of("step-6.pt", print, f.at.now_us);
	keep_memory_done(&f.m, &d);
	quiet(&f);
	is_int((long)f.n, 5, "what an earlier agent held is not found again");
	put(&f, "step-6.pt", 11, 0);
	quiet(&f);
	is_str(first(&f), "step-6.pt overwrite -1 metric", "its name has no step when it is written again");
	end(&f);
}

int main(void)
{
	test_overwritten();
	test_numbers();
	test_killed();
	test_renamed();
	test_others();
	test_hearth();
	test_trainer();
	test_lightning();
	test_deepspeed();
	test_megatron();
	test_dcp();
	test_ranks();
	test_many();
	return tap_done();
}
