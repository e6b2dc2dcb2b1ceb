/* steps: what counts as a checkpoint in a folder, in which order steps are told, what several folders have in
 * common. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/tree/steps.h"
#include "tests/lib/tap.h"

static void add_all(struct steps *s, const char *const *names)
{
	for (; *names; names++)
		steps_add(s, *names, strlen(*names));
}

static const char *text_of(struct steps *s)
{
	static char out[400];
	size_t used = 0;

	steps_sort(s);
	out[0] = '\0';
	for (size_t i = 0; i < s->n; i++)
		used += (size_t)snprintf(out + used, sizeof(out) - used, "%s%" PRId64, i ? " " : "", s->v[i]);
	return out;
}

static void test_names(void)
{
	static const char *const names[] = {"step-3",      "step-12",         "model_6.pt",  "step-3",
	                                    "hearth.json", ".step-99",        "step-20.tmp", "step-21.part",
	                                    "step-22~",    "step-23.partial", "rank0-12.pt", NULL};
	struct steps s = {.want = 12};

	add_all(&s, names);
	is_str(text_of(&s), "3 6 12",
	       "the last number of a name, each once; hidden and unfinished ones are none");
	ok(s.found, "what is looked for is there");
	is_int(steps_entry("step-7.tmp", 10), -1, "one that is still being written");
	is_int(steps_entry("~", 1), -1, "nothing but its mark");
	ok(steps_entry("step-9007199254740992", 21) == (int64_t)1 << 53, "2^53 can be asked for");
	is_int(steps_entry("step-9007199254740993", 21), -1, "what JSON cannot say is no step");
	is_int(steps_entry("at-1790000000000000000.pt", 25), -1, "nor is a time in nanoseconds");
	is_int(steps_entry("step-7.tmpl", 11), 7, "another end of a name");
	is_int(steps_entry("tmp-checkpoint-500", 18), -1, "one that says so in front");
	is_int(steps_entry("tmp_500", 7), -1, "or so");
	is_int(steps_entry("tmpl-500", 8), 500, "another beginning of one");
	steps_fini(&s);
}

static void test_told(void)
{
	struct steps s = {.want = 7};
	struct err e;
	char name[40];

	is_int(steps_check(&s, &e), -1, "of an empty folder");
	is_str(e.text, "it holds no step 7: no name in it has a number", "that is said");
	add_all(&s, (const char *const[]){"step-10", "step-100", "step-9", NULL});
	is_int(steps_check(&s, &e), -1, "a step that is not there");
	is_str(e.text, "it holds no step 7; there are 9, 10, 100", "in the order of numbers");
	for (int i = 200; i < 220; i++) {
		snprintf(name, sizeof(name), "step-%d", i);
		steps_add(&s, name, strlen(name));
	}
	steps_check(&s, &e);
	is_str(e.text,
	       "it holds no step 7; there are 208, 209, 210, 211, 212, 213, 214, 215, 216, 217, 218, 219 and 11 "
	       "before these",
	       "of many the newest");
	steps_fini(&s);
}

static void test_several(void)
{
	struct steps a = {.want = 6}, b = {.want = 6}, all = {.want = 6};

	add_all(&a, (const char *const[]){"step-9", "step-3", "step-6", NULL});
	add_all(&b, (const char *const[]){"step-12", "step-6", "step-3", NULL});
	steps_merge(&all, &a);
	steps_merge(&all, &b);
	is_str(text_of(&all), "3 6 9 12", "what either holds");
	steps_common(&a, &b);
	is_str(text_of(&a), "3 6", "what both hold");
	ok(a.found && all.found, "the one that was looked for is in both");
	steps_fini(&b);
	steps_common(&a, &b);
	is_int((int64_t)a.n, 0, "nothing is common with an empty one");
	steps_fini(&a);
	steps_fini(&all);
}

/* More names than are kept, in an order that is the worst: time is bounded, and the step is found. */
static void test_many(void)
{
	struct steps s = {.want = 3 * STEPS_MAX};
	char name[40];

	for (int i = 1; i <= 3 * STEPS_MAX; i++) {
		snprintf(name, sizeof(name), "step-%d", i);
		steps_add(&s, name, strlen(name));
	}
	ok(s.n <= STEPS_MAX && s.cap <= 2 * STEPS_MAX, "%zu are kept", s.n);
	ok(s.found, "one behind these is found");
	steps_fini(&s);
}

int main(void)
{
	test_names();
	test_told();
	test_several();
	test_many();
	return tap_done();
}
