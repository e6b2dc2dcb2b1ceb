/* recognise: a folder with more entries than the keeper remembers. */
#include <stdio.h>
#include <string.h>

#include "agent/keep/recognise.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

#define S       1000000u
#define FROM_US (1000u * (uint64_t)S)

struct crowd {
	struct listing l;
	struct keep_memory m;
	struct keep_moment at;
	struct keep_found found[16];
	size_t n;
	uint64_t look_us;
};

static void begin(struct crowd *c)
{
	*c = (struct crowd){.at = {.now_us = FROM_US, .from_us = FROM_US, .first_node = 1}};
}

static void end(struct crowd *c)
{
	listing_fini(&c->l);
	keep_memory_fini(&c->m);
}

/* Writes the next file of a program that removes none. */
static void put(struct crowd *c, const char *path, int open)
{
	struct listing_item *it = listing_add(&c->l, path);

	c->at.now_us += S;
	it->type = 'f';
	it->size = 10;
	it->inode = c->l.n;
	it->mtime_ns = it->ctime_ns = it->born_ns = c->at.now_us * 1000;
	it->flags = open ? LISTING_OPEN : 0;
}

static void put_many(struct crowd *c, const char *name, unsigned from, unsigned to, int open)
{
	for (unsigned i = from; i < to; i++) {
		cleanup_free char *path = xasprintf("%s-%06u.pt", name, i);

		put(c, path, open);
	}
}

static void look(struct crowd *c)
{
	c->l.at_us = c->at.now_us;
	c->n = recognise(&c->m, &c->l, &c->at, c->found, 16, &c->look_us);
}

/* Until nothing more is found by looks that follow at once. Returns how many were found. */
static size_t settle(struct crowd *c)
{
	size_t found = 0;

	for (int i = 0; i < 4; i++) {
		look(c);
		found += c->n;
		c->at.now_us += 3 * S;
	}
	return found;
}

static void test_more_than_names(void)
{
	struct crowd c;

	begin(&c);
	put_many(&c, "ckpt", 0, KEEP_NAMES + 100, 0);
	settle(&c);
	is_int((long)settle(&c), 0, "all of them were found, or are older than those that were");
	put(&c, "ckpt-990000.pt", 0);
	is_int((long)settle(&c), 1, "the next one is found, too");
	is_int(c.m.full, 0, "nothing is missed");
	c.l.items[0].size = 20;
	c.l.items[0].mtime_ns = c.l.items[0].ctime_ns = (c.at.now_us += S) * 1000;
	is_int((long)settle(&c), 1, "an old one that is written again is found");
	is_int((long)settle(&c), 0, "once");
	end(&c);
}

/* One by one, as a program that removes none writes them: each is found once. */
static void test_one_by_one(void)
{
	struct crowd c;
	size_t found = 0;

	begin(&c);
	for (unsigned i = 0; i < KEEP_NAMES + 200; i++) {
		put_many(&c, "ckpt", i, i + 1, 0);
		look(&c);
		found += c.n;
		c.at.now_us += 2 * S;
		look(&c);
		found += c.n;
	}
	is_int((long)found, KEEP_NAMES + 200, "each of many is found once");
	end(&c);
}

static void test_all_open(void)
{
	struct crowd c;

	begin(&c);
	put_many(&c, "part", 0, KEEP_NAMES + 10, 1);
	settle(&c);
	ok(c.m.full, "more than it remembers are being written: it says so");
	for (size_t i = 0; i < c.l.n; i++)
		c.l.items[i].flags = 0;
	settle(&c);
	put(&c, "part-990000.pt", 0);
	is_int((long)settle(&c), 1, "the next one is found when they are complete");
	end(&c);
}

/* The next agent knows what this one found, and up to when. */
static void test_next_agent(void)
{
	struct keep_memory *next = xcalloc(1, sizeof(*next));
	struct crowd c;

	begin(&c);
	for (unsigned i = 0; i < KEEP_DONE + 50; i++) {
		struct keep_done d;
		cleanup_free char *path = xasprintf("ckpt-%06u.pt", i);

		put(&c, path, 0);
		d = keep_done_of(path, listing_print(&c.l, i), c.at.now_us);
		keep_memory_done(next, &d);
	}
	c.m = *next;
	is_int((long)settle(&c), 0, "another agent finds none of them");
	put(&c, "ckpt-990000.pt", 0);
	is_int((long)settle(&c), 1, "but the next one");
	end(&c);
	free(next);
}

/* Each family of names has its own number of ranks. */
static void test_families(void)
{
	struct crowd c;
	size_t found = 0;

	begin(&c);
	for (unsigned family = 0; family < 40; family++)
		for (unsigned rank = 0; rank < (family % 2 ? 1 : 2); rank++) {
			cleanup_free char *path =
			    xasprintf("%c%c_rank%u.pt", 'a' + (char)(family / 20), 'a' + (char)(family % 20), rank);

			put(&c, path, 0);
		}
	found = settle(&c);
	is_int((long)found, 16, "of many families the newest are found");
	for (size_t i = 0; i < c.l.n; i++)
		c.l.items[i].mtime_ns = c.l.items[i].ctime_ns = (c.at.now_us += S) * 1000;
	is_int((long)settle(&c), 16, "and again");
	is_int((long)c.m.n, 40, "each is known");
	found = 0;
	for (size_t i = 0; i < c.m.n; i++)
		found += c.m.seen[i].times == 2;
	is_int((long)found, 40, "and was judged twice");
	end(&c);
}

int main(void)
{
	test_families();
	test_more_than_names();
	test_one_by_one();
	test_all_open();
	test_next_agent();
	return tap_done();
}
