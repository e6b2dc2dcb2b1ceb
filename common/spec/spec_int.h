/*
 * spec_int: what the files of the spec parser share (spec.c, spec_keys.c, spec_value.c, spec_part.c). Not for
 * others.
 *
 * One table (spec_keys.c) has a line for each key of job.json. The engine (spec.c) walks the document, finds
 * the line of each key and calls the line's function with the value and the struct that the key's object is
 * read into.
 */
#ifndef HEARTH_COMMON_SPEC_SPEC_INT_H
#define HEARTH_COMMON_SPEC_SPEC_INT_H

#include "common/spec/spec.h"

#define SPEC_MAX_PROBLEMS 20
#define SPEC_WHERE_SIZE   256
#define SPEC_NOT_GIVEN    UINT32_MAX
#define SPEC_MAX_HPS_BYTES                                                                                   \
	(48 * 1024) /* all of them also stand together in one variable (SM_TRAINING_ENV holds them twice) */

/* State of one parse. Keys of the document and of its plain sub-objects (resources, limits ...) are read into
 * it. */
struct spec_parse {
	struct job_spec s;
	struct spec_group base; /* resources.instances ...; SPEC_NOT_GIVEN where the text does not say */
	struct strv problems;   /* "path: what is wrong" */
	size_t more;            /* problems beyond SPEC_MAX_PROBLEMS */
	int search_given, member_given;
	int invalid; /* some problem is not merely "not built yet" */
};

struct spec_axis { /* of a sweep, as an object says it; NaN not given */
	double from, to, step, linear[2], log[2];
	uint32_t count;
};

struct spec_rule;
/* Reads v (never NULL or JSON null) into out. where: path as shown, "groups[1].name". Problems are added to
 * p. */
typedef void (*spec_value_fn)(struct spec_parse *p, const struct spec_rule *r, const char *where,
                              const cJSON *v, void *out);

struct spec_rule {
	const struct spec_key *key;
	spec_value_fn fn;
	size_t offset; /* of the member in the struct that the key's object is read into */
	int64_t min, max;
};

/* Line of the key in the object with that prefix ("" root, "resources", "groups[]"); NULL unknown. */
const struct spec_rule *spec_rule_find(const char *prefix, const char *key, struct spec_rule *out);
/* Adds `where: unknown key ...` with the nearest known one. */
void spec_unknown_key(struct spec_parse *p, const char *prefix, const char *where, const char *key);

void spec_problem(struct spec_parse *p, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void spec_unsupported(struct spec_parse *p, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void spec_wrong_type(struct spec_parse *p, const char *where, const char *wanted, const cJSON *v);
/* base.key into out (SPEC_WHERE_SIZE); control bytes and over-long keys are made harmless. Returns out. */
const char *spec_where(char *out, const char *base, const char *key);
const char *spec_where_index(char *out, const char *base, size_t index);
/* Reads an object's keys into out by the lines with that prefix. */
void spec_object(struct spec_parse *p, const char *prefix, const char *where, const cJSON *v, void *out);

/* The string of v, or NULL with a problem added: type, length, control bytes (newline and tab pass when text
 * != 0). */
const char *spec_string(struct spec_parse *p, const char *where, const cJSON *v, size_t max, int text);

/* Puts a copy of s into the char * at offset of out, in place of what is there. */
void spec_set_text(void *out, size_t offset, const char *s);
/* 1 when list is empty yet, else 0 with a problem: a key given twice, which only a document made by hand can
 * have. */
int spec_once(struct spec_parse *p, const char *where, const void *list);

/* spec_value.c */
void spec_v_name(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out);
void spec_v_pool(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out);
void spec_v_text(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out);
void spec_v_tags(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out);
void spec_v_argv(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out);
void spec_v_path(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out);
void spec_v_relpath(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                    void *out);
void spec_v_hps(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                void *out);
void spec_v_preload(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                    void *out);
void spec_v_env(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                void *out);
void spec_v_u32(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                void *out);
void spec_v_i64(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                void *out);
void spec_v_money(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out);
void spec_v_size(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out);
void spec_v_bool(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out);

/* Names of hyperparameters, metrics: [A-Za-z0-9_] then also . : / @ -, no "..". 0 or -1 with a problem added.
 */
int spec_token(struct spec_parse *p, const char *where, const char *name, size_t max);
/* May v be the value of a hyperparameter? 0, or -1 with a problem added. */
int spec_hp_value(struct spec_parse *p, const char *where, const cJSON *v);

/* spec_sweep.c */
void spec_v_sweep(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out);
void spec_v_search(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out);
void spec_v_halving(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                    void *out);
void spec_v_method(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out);
void spec_v_goal(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out);
void spec_v_array(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out);
void spec_v_real(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out);
void spec_v_ends(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out);
void spec_check_sweep(struct spec_parse *p); /* when all keys have been read */
void spec_sweep_json(cJSON *obj, const struct job_spec *s);

/* spec_after.c */
/* The job that s begins with, "17" or "17.3" (of which a note is made): its bytes, 0 when it begins with
 * none. */
size_t spec_take_job(struct spec_parse *p, const char *where, const char *s, uint64_t *job);

/* spec_part.c */
void spec_v_types(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out);
void spec_v_model(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out);
void spec_v_requires(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                     void *out);
void spec_v_visibility(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                       void *out);
void spec_v_span(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                 void *out);
void spec_v_launcher(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                     void *out);
void spec_v_mpi(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                void *out);
void spec_v_groups(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out);
void spec_v_inputs(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out);
void spec_v_input_uri(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                      void *out);
void spec_v_input_mode(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                       void *out);
void spec_v_sha256(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out);
void spec_v_output(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out);
void spec_v_resume(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out);
void spec_v_watch(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out);
void spec_v_metrics(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                    void *out);
void spec_v_queue(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out);
void spec_v_after(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out);
void spec_v_regex(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out);

/* spec.c */
void spec_v_object(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                   void *out);
void spec_v_reserved(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                     void *out);

#endif
