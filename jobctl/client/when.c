/*
 * when: see when.h. Times are local, except RFC 3339, which names its zone.
 */
#define _XOPEN_SOURCE 700
#include "jobctl/client/when.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/strutil.h"

/* Reads "2026-01-31", "2026-01-31 14:00" or "2026-01-31T14:00:30" as local time. */
static int parse_date(const char *text, struct tm *tm)
{
	static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
	                                    "%Y-%m-%d %H:%M", "%Y-%m-%d"};
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		memset(tm, 0, sizeof(*tm));
		const char *end = strptime(text, forms[i], tm);
		if (end && !*end)
			return 0;
	}
	return -1;
}

/* Reads "14:00" as the next such time after after_us. */
static int parse_clock_time(const char *text, uint64_t after_us, uint64_t *us)
{
	struct tm want = {0}, tm;
	time_t t = (time_t)(after_us / 1000000);
	const char *end = strptime(text, "%H:%M:%S", &want);
	if (!end || *end) {
		memset(&want, 0, sizeof(want));
		end = strptime(text, "%H:%M", &want);
	}
	if (!end || *end)
		return -1;
	localtime_r(&t, &tm);
	for (int day = 0; day < 3;
	     day++) { /* an hour may be missing or come twice on a day when the clock changes */
		struct tm at = tm;
		at.tm_mday += day;
		at.tm_hour = want.tm_hour;
		at.tm_min = want.tm_min;
		at.tm_sec = want.tm_sec;
		at.tm_isdst = -1;
		time_t then = mktime(&at);
		if (then > t) {
			*us = (uint64_t)then * 1000000;
			return 0;
		}
	}
	return -1;
}

int when_parse(const char *text, uint64_t now_us, uint64_t after_us, uint64_t *us, struct err *e)
{
	struct tm tm;
	uint64_t span;
	const char *plus = strncmp(text, "now", 3) == 0 ? text + 3 : text;
	if (plus == text + 3 && !*plus) {
		*us = now_us;
		return 0;
	}
	if (*plus == '+' && str_parse_duration(plus + 1, &span, e) == 0) {
		*us = now_us + span * 1000000;
		return 0;
	}
	if (clock_parse_rfc3339(text, us) == 0 || parse_clock_time(text, after_us, us) == 0)
		return 0;
	if (parse_date(text, &tm) == 0) {
		tm.tm_isdst = -1;
		time_t t = mktime(&tm);
		if (t > 0) {
			*us = (uint64_t)t * 1000000;
			return 0;
		}
	}
	return err_set(
	    e, ERR_INVALID,
	    "invalid time '%.60s': expected now, +2h, 14:00, \"2026-01-31 14:00\" or 2026-01-31T14:00:00Z", text);
}
