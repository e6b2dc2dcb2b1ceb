/* The catalogue of instance types: the file that is shipped, names, what is set over it, stand-ins. */
#include "common/base/json.h"
#include "controller/share/catalogue.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include <stdio.h>
#include <string.h>

static const cJSON *member(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

static struct cluster records;

static struct catalogue *catalogue_open(void)
{
	cluster_clear(&records);
	cluster_init(&records);
	return catalogue_create(&records);
}

/* What a request does: it asks, and its event sets. */
static int set(struct catalogue *c, const char *name, const char *json, struct err *e)
{
	cJSON *o = cJSON_Parse(json), *d = cJSON_CreateObject();
	int rc = catalogue_check(c, name, o, e);

	cJSON_AddStringToObject(d, "instance", catalogue_plain(name));
	cJSON_AddItemToObject(d, "set", o);
	if (rc == 0)
		rc = cluster_apply(&records, EV_INSTANCE_SET, 1, d, e);
	cJSON_Delete(d);
	return rc;
}

static int take_back(struct catalogue *c, const char *name, struct err *e)
{
	cJSON *d = cJSON_CreateObject();
	int rc = catalogue_check_remove(c, name, e);

	cJSON_AddStringToObject(d, "instance", name);
	if (rc == 0)
		rc = cluster_apply(&records, EV_INSTANCE_REMOVED, 1, d, e);
	cJSON_Delete(d);
	return rc;
}

static void test_shipped(void)
{
	struct catalogue *c = catalogue_open();
	char family[CATALOGUE_NAME_MAX + 1], size[CATALOGUE_NAME_MAX + 1];
	const char **names;
	size_t n, split = 0, sane = 0, priced = 0;
	cJSON *p4;

	names = catalogue_names(c, &n);
	ok(n >= 40, "%zu types are shipped", n);
	for (size_t i = 0; i < n; i++) {
		cJSON *o = catalogue_json(c, names[i]);
		double gpus = member(o, "gpus")->valuedouble;

		split += catalogue_split(names[i], family, size) == 0;
		/* A machine has CPUs and memory; GPUs have a model, a memory and formats, no GPUs have none. */
		sane += member(o, "vcpus")->valuedouble >= 1 && member(o, "memory_gib")->valuedouble >= 1 &&
		        cJSON_IsString(member(o, "gpu_model")) == (gpus > 0) &&
		        cJSON_IsNumber(member(o, "gpu_memory_gb")) == (gpus > 0) &&
		        (cJSON_GetArraySize(member(o, "formats")) > 0) == (gpus > 0) &&
		        cJSON_IsBool(member(o, "nvlink"));
		priced += member(o, "price_per_hour")->type == cJSON_Number;
		cJSON_Delete(o);
	}
	is_int(split, n, "each name has a family and a size");
	is_int(sane, n, "each line is whole");
	is_int(priced, 0, "none has a price: that is the administrator's");
	p4 = catalogue_json(c, "ml.p4d.24xlarge");
	is_str(cJSON_GetStringValue(member(p4, "family")), "p4d", "the family");
	is_str(cJSON_GetStringValue(member(p4, "size")), "24xlarge", "the size");
	is_int(member(p4, "gpus")->valuedouble, 8, "its GPUs");
	is_int(member(p4, "gpu_memory_gb")->valuedouble, 40, "their memory");
	is_int(cJSON_GetArraySize(member(p4, "formats")), 6, "formats are a list");
	ok(cJSON_IsTrue(member(p4, "nvlink")), "NVLink");
	cJSON_Delete(p4);
	free(names);
	catalogue_destroy(c);
}

static void test_names(void)
{
	static const char *const bad[] = {"", "ml.", "p4d", ".24xlarge", "p4d.", "a.b.c"};
	static const char *const refused[] = {"", "ml.", "-a", "a b", "a/b", "any", "auto", "ml.any"};
	char family[CATALOGUE_NAME_MAX + 1], size[CATALOGUE_NAME_MAX + 1];
	char longest[CATALOGUE_NAME_MAX + 2];
	struct err e;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		is_int(catalogue_split(bad[i], family, size), -1, bad[i]);
	is_int(catalogue_split("g5.xlarge", family, size), 0, "without the prefix");
	is_str(family, "g5", "family");
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		is_int(catalogue_check_name(refused[i], &e), -1, refused[i]);
	memset(longest, 'a', sizeof longest);
	longest[CATALOGUE_NAME_MAX + 1] = '\0';
	is_int(catalogue_check_name(longest, &e), -1, "one letter too many");
	longest[CATALOGUE_NAME_MAX] = '\0';
	is_int(catalogue_check_name(longest, &e), 0, "as many as may be");
	is_str(catalogue_plain("ml.x"), "x", "the prefix is left off");
}

static void test_set(void)
{
	struct catalogue *c = catalogue_open();
	struct catalogue_type t;
	struct err e;
	cJSON *o;
	char *text;

	is_int(set(c, "ml.g5.xlarge", "{\"price_per_hour\": 1.5, \"vcpus\": 3}", &e), 0, "over what is shipped");
	ok(catalogue_get(c, "g5.xlarge", &t) && t.price == 1.5 && t.shipped, "the price counts");
	o = catalogue_json(c, "g5.xlarge");
	is_int(member(o, "vcpus")->valuedouble, 3, "so does another fact");
	is_str(cJSON_GetStringValue(member(o, "gpu_model")), "A10G", "the others stay");
	cJSON_Delete(o);
	is_int(set(c, "g5.xlarge", "{\"vcpus\": null}", &e), 0, "one is taken back");
	o = catalogue_json(c, "g5.xlarge");
	is_int(member(o, "vcpus")->valuedouble, 4, "the shipped one is there again");
	cJSON_Delete(o);
	is_int(
	    set(c, "lab", "{\"gpus\": 2, \"memory_gib\": 64.5, \"formats\": [\"bf16\"], \"nvlink\": false}", &e),
	    0, "a type of one's own");
	is_int(set(c, "lab", "{\"gpu\": 2}", &e), -1, "a key that there is not");
	like(e.text, "gpus", "the nearest is named");
	is_int(set(c, "lab", "{\"gpus\": 2.5}", &e), -1, "half a GPU");
	is_int(set(c, "lab", "{\"gpus\": -1}", &e), -1, "fewer than none");
	is_int(set(c, "lab", "{\"price_per_hour\": \"1\"}", &e), -1, "a price that is a text");
	is_int(set(c, "lab", "{\"as\": [\"a b\"]}", &e), -1, "a stand-in for what is no name");
	is_int(set(c, "lab", "{\"as\": \"x\"}", &e), -1, "or for no list");
	is_int(set(c, "lab", "{\"gpus\": 4, \"nvlink\": 1}", &e), -1, "all or nothing");
	o = catalogue_json(c, "lab");
	is_int(member(o, "gpus")->valuedouble, 2, "nothing");
	cJSON_Delete(o);
	ok(catalogue_get(c, "lab", &t) && !t.shipped, "it is not shipped");
	text = json_text(t.own);
	is_int(take_back(c, "lab", &e), 0, "it goes");
	ok(!catalogue_get(c, "lab", &t), "altogether");
	catalogue_load(c, "lab", text);
	ok(catalogue_get(c, "lab", &t), "and comes back from its row");
	catalogue_load(c, "broken", "{\"gpus\": \"x\"}");
	ok(!catalogue_get(c, "broken", &t), "a row that is wrong is left out");
	is_int(take_back(c, "g5.xlarge", &e), 0, "what was set for a shipped one goes");
	ok(catalogue_get(c, "g5.xlarge", &t) && t.price == 0, "it has no price any more");
	is_int(take_back(c, "g5.xlarge", &e), -1, "there is nothing more to take back");
	golden("hearthd/catalogue-one-of-those-that-are-shipped", e.text, "\"g5.xlarge\"");
	free(text);
	catalogue_destroy(c);
}

static void test_limit(void)
{
	struct catalogue *c = catalogue_open();
	char name[32];
	struct err e;
	int rc = 0;

	for (int i = 0; i < CATALOGUE_MAX && rc == 0; i++) {
		snprintf(name, sizeof name, "t%d", i);
		rc = set(c, name, "{}", &e);
	}
	is_int(rc, 0, "as many as may be");
	is_int(set(c, "more", "{}", &e), -1, "no more");
	is_int(e.code, ERR_LIMIT, "it is the limit");
	is_int(set(c, "t7", "{\"gpus\": 1}", &e), 0, "those that are there change");
	catalogue_destroy(c);
}

static void expands(struct catalogue *c, const char *const *wanted, const char *want, const char *what)
{
	struct strv in = {0}, out = {0};
	char text[500] = "";

	for (; *wanted; wanted++)
		strv_add(&in, *wanted);
	catalogue_expand(c, &in, &out);
	for (size_t i = 0; i < out.n; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", out.v[i]);
	is_str(text, want, what);
	strv_fini(&in);
	strv_fini(&out);
}

static void test_expand(void)
{
	struct catalogue *c = catalogue_open();
	struct err e;

	set(c, "dgx-2", "{\"as\": [\"ml.p4d.24xlarge\", \"p5.48xlarge\"]}", &e);
	set(c, "dgx-10", "{\"as\": [\"p4d.24xlarge\"]}", &e);
	set(c, "p5.48xlarge", "{\"as\": [\"p4d.24xlarge\"]}", &e);
	expands(c, (const char *const[]){NULL}, "", "any stays any");
	expands(c, (const char *const[]){"own", NULL}, "own", "a name that nobody knows is itself");
	expands(c, (const char *const[]){"ml.p4d.24xlarge", NULL}, "p4d.24xlarge dgx-2 dgx-10 p5.48xlarge",
	        "first itself, then by name what stands in for it");
	expands(c, (const char *const[]){"ml.p5.48xlarge", "ml.p4d.24xlarge", NULL},
	        "p5.48xlarge dgx-2 p4d.24xlarge dgx-10", "the order of preference stays, each comes once");
	expands(c, (const char *const[]){"dgx-2", NULL}, "dgx-2", "it does not go the other way");
	catalogue_destroy(c);
}

int main(void)
{
	test_shipped();
	test_names();
	test_set();
	test_limit();
	test_expand();
	cluster_clear(&records);
	return tap_done();
}
