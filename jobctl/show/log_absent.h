/*
 * log_absent: what is shown and reported if the requested stream is empty or missing.
 */
#ifndef HEARTH_JOBCTL_SHOW_LOG_ABSENT_H
#define HEARTH_JOBCTL_SHOW_LOG_ABSENT_H

struct log_stream;

/* Shows the output of the launcher or of the preparation when rank 0 wrote nothing. ran: rank 0 ran, so its
 * preparation succeeded and only the launcher may have something to say. 0: shown; -1: nothing, and ctx->err
 * is as it was. */
int log_absent_fallback(struct log_stream *l, int ran);
/* Reports the state of a job whose rank 0 wrote nothing, and which stream has more. */
void log_absent_report_silence(struct log_stream *l);
/* Replaces "no such stream" in ctx->err by the reason, and adds the names of the streams that exist. */
void log_absent_explain(struct log_stream *l, int by_default);

#endif
