/*
 * log: one line = one fact, as key=value fields.
 *
 *   log_info("event=lost job=%" PRIu64 " rank=%u", job, rank);
 *   -> 2026-01-02T03:04:05.678901Z info hearthd event=lost job=17 rank=5
 *
 * error: someone must act. warn: odd, handled. info: state changed. debug: off by default.
 * Thread-safe: each line is one write(2). Control characters in a line are escaped. So are quotes and
 * backslashes in the text of a %s between quotes, key=\"%s\". A value key=%s that ends at a blank gets quotes
 * when it needs some.
 */
#ifndef HEARTH_COMMON_BASE_LOG_H
#define HEARTH_COMMON_BASE_LOG_H

enum log_level { LOG_LVL_DEBUG, LOG_LVL_INFO, LOG_LVL_WARN, LOG_LVL_ERROR };

/* Replaces the sink (default: stderr). Called with a complete line without newline. */
typedef void (*log_sink_fn)(enum log_level level, const char *line, void *arg);

void log_init(const char *program, enum log_level min); /* program is copied */
void log_set_sink(log_sink_fn fn, void *arg);
int log_level_parse(const char *s, enum log_level *out); /* "debug".. -> 0, unknown -1 */
void log_at(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_debug(...) log_at(LOG_LVL_DEBUG, __VA_ARGS__)
#define log_info(...)  log_at(LOG_LVL_INFO, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_LVL_WARN, __VA_ARGS__)
#define log_error(...) log_at(LOG_LVL_ERROR, __VA_ARGS__)

/* Writes v as a field value: quoted and escaped when it holds spaces, quotes or control bytes.
 * Returns out. */
const char *log_quote(char *out, unsigned long out_size, const char *v);

/* Rate limit for a repeated line: true at most `per_minute` times a minute for this struct;
 * *suppressed is set to the number held back since the last true. */
struct log_limit {
	unsigned per_minute;
	unsigned long long window_start_us;
	unsigned in_window;
	unsigned suppressed;
};
int log_limit_ok(struct log_limit *l, unsigned long long now_us, unsigned *suppressed);

#endif
