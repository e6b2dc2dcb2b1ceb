/*
 * verdict: see verdict.h.
 */
#include "controller/record/verdict.h"

int verdict_set(struct verdict *v, enum reason_class cls, const char *fmt, ...)
{
	struct text t = text_on(v->reason, sizeof(v->reason));
	va_list ap;

	v->cls = cls;
	va_start(ap, fmt);
	text_vadd(&t, fmt, ap);
	va_end(ap);
	return 1;
}
