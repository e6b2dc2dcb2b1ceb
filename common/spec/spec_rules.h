/* spec_rules: reads the list `rules` of a job specification. Only for files of the spec parser. */
#ifndef HEARTH_COMMON_SPEC_SPEC_RULES_H
#define HEARTH_COMMON_SPEC_SPEC_RULES_H

#include "common/spec/spec_int.h"

void spec_v_rules(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                  void *out);
void spec_v_rule_pattern(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                         void *out);
void spec_v_rule_action(struct spec_parse *p, const struct spec_rule *r, const char *where, const cJSON *v,
                        void *out);
cJSON *spec_rules_json(const struct job_spec *s);

#endif
