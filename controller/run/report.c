/*
 * report: reports of agents about launches, processes and results.
 *
 * Reports are states: an agent may send one twice, late, and again after a reconnection. A known state
 * changes nothing. hearthd acknowledges each report when its effect is durable, even when it has none.
 */
#include "controller/run/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/park/park.h"
#include "controller/record/event.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/record/verdict.h"
#include "controller/run/attempt.h"
#include "controller/run/checkpoints.h"
#include "controller/run/rsh.h"
#include "controller/run/stale.h"
#include "controller/share/alloc.h"
#include "controller/share/node_health.h"
#include "controller/state/core_state.h"
#include "controller/state/health.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/quota.h"
#include "controller/state/turn.h"

#define TEXT_MAX     4096
#define RUN_INFO_MAX (1024 * 1024)
#define WARNINGS_MAX 32 /* events of an attempt */

struct cjob *report_current(struct core *c, const struct cnode *n, uint64_t job, uint32_t attempt,
                            uint64_t epoch, struct place_rec **place)
{
	struct cjob *j = job_find(c, job);
	const struct attempt_rec *a = j ? j->r.att : NULL;

	*place = NULL;
	if (!j || !j->act || !a || a->number != attempt || (a->state == ATT_ENDED && !j->looks_back))
		return NULL;
	/* Orders about an attempt that is being collected carry the job's present epoch. */
	if (a->epoch != epoch && !(j->looks_back && j->r.epoch == epoch))
		return NULL;
	*place = rec_place_of(j->r.att, n->r.id);
	return *place && (*place)->state != PLACE_LOST ? j : NULL;
}

char *report_clean_text(const char *s, size_t n)
{
	char *out;
	int valid;

	if (n > TEXT_MAX) { /* the end of the last lines counts */
		s += n - TEXT_MAX;
		n = TEXT_MAX;
		while (n && (*s & 0xc0) == 0x80) {
			s++;
			n--;
		}
	}
	out = xstrndup(s, n);
	n = strlen(out);
	valid = str_valid_utf8(out, n);
	for (size_t i = 0; i < n; i++) {
		unsigned char b = (unsigned char)out[i];

		if ((b < ' ' && b != '\n' && b != '\t') || b == 0x7f || (b >= 0x80 && !valid))
			out[i] = '?';
	}
	return out;
}

void report_add_text(cJSON *d, const char *key, const char *s, size_t n)
{
	char *text = report_clean_text(s ? s : "", n);

	if (*text)
		json_add_str(d, key, text);
	free(text);
}

/* Returns 1 when the node ended the launch by itself, because of a limit or of its lease. */
static int ended_by_node(const struct wm_launch_report *m)
{
	return (m->state == LAUNCH_STOPPING || m->state == LAUNCH_ENDED) &&
	       (m->cls == RC_OOM || m->cls == RC_DISK || m->cls == RC_NODE_LOST);
}

/* ---- launches -------------------------------------------------------------------------------- */

static enum event_type event_of(uint8_t state)
{
	static const enum event_type types[] = {
	    [LAUNCH_PREPARING] = EV_NODE_PREPARING, [LAUNCH_READY] = EV_NODE_READY,
	    [LAUNCH_RUNNING] = EV_NODE_RUNNING,     [LAUNCH_STOPPING] = EV_NODE_STOPPING,
	    [LAUNCH_ENDED] = EV_NODE_ENDED,         [LAUNCH_FAILED] = EV_NODE_FAILED,
	    [LAUNCH_CLEANED] = EV_NODE_CLEANED,
	};

	return types[state];
}

static enum place_state place_of_launch(uint8_t state)
{
	return (enum place_state)(PLACE_PREPARING + (state - LAUNCH_PREPARING));
}

static int is_infrastructure(uint8_t cls)
{
	return cls == RC_DISK || cls == RC_AGENT || cls == RC_STAGING || cls == RC_LAUNCH || cls == RC_UNKNOWN;
}

static void note_progress(struct core *c, struct place_rt *rt, const struct wm_launch_report *m)
{
	if (rt->done_bytes == m->done_bytes && strncmp(rt->phase, m->phase, sizeof(rt->phase) - 1) == 0)
		return;
	rt->progress_us = now_boot(c);
	rt->done_bytes = m->done_bytes;
	rt->total_bytes = m->total_bytes;
	snprintf(rt->phase, sizeof(rt->phase), "%s", m->phase);
}

static void upload_failed(struct core *c, struct cjob *j, const char *text)
{
	cJSON *d = cJSON_CreateObject();
	char *all = j->looks_back ? xasprintf("attempt %u, not uploaded: %.1000s", j->r.att->number, text)
	                          : xasprintf("not uploaded: %.1000s", text);

	free(j->act->upload_text);
	j->act->upload_text = xstrdup(text);
	j->act->upload_failed = 1;
	json_add_str(d, "text", all);
	free(all);
	job_post(c, j, EV_CLEANUP, d);
}

static void finish_cleaned(struct core *c, struct cjob *j, struct cnode *n, const struct wm_launch_report *m)
{
	place_cleaned(c, j, n);
	/* A launch that failed before it ran repeats its reason here. Only a run can lose output. */
	if (m->cls != RC_NONE && *m->text && rec_any_rank_started(j->r.att)) {
		char *text = xasprintf("node %s: %.900s", n->name, m->text);

		upload_failed(c, j, text);
		free(text);
	}
}

static void save_phases(struct core *c, struct cjob *j, const struct cnode *n,
                        const struct wm_launch_report *m)
{
	cJSON *list;
	char *text;

	if (!m->phases.n || m->phases.n > 1000 || (m->state != LAUNCH_CLEANED && m->state != LAUNCH_FAILED))
		return;
	list = cJSON_CreateArray();
	for (uint32_t i = 0; i < m->phases.n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(m->phases.v[i]));
	text = json_text(list);
	store_txn_run_info(turn_now(c)->txn, j->r.id, m->attempt, n->name, "phases", text);
	turn_now(c)->n++;
	free(text);
	cJSON_Delete(list);
}

static int not_restored(const struct cjob *j, const struct wm_launch_report *m)
{
	return j->act->begin.ckpt && strcmp(m->phase, LAUNCH_PHASE_RESTORE) == 0;
}

static void launch_state(struct core *c, struct cjob *j, struct cnode *n, const struct place_rec *p,
                         const struct wm_launch_report *m)
{
	cJSON *d = cJSON_CreateObject();
	TEXT(line);

	json_add_u64(d, "node_rank", place_index(j, p));
	json_add_str(d, "node", n->name);
	if (m->state == LAUNCH_FAILED) {
		json_add_str(d, "class", state_name(STATE_CLASS, m->cls == RC_NONE ? RC_UNKNOWN : m->cls));
		/* Neither a damaged checkpoint nor a launch that waited blames the node. */
		if ((is_infrastructure(m->cls) || m->cls == RC_NONE) && !not_restored(j, m) && !takes_over(j))
			cJSON_AddTrueToObject(d, "culprit");
	}
	if (ended_by_node(m))
		json_add_str(d, "class", state_name(STATE_CLASS, m->cls));
	if (*m->text)
		report_add_text(d, "text", m->text, strlen(m->text));
	text_add(&line, "event=%s job=%" PRIu64 " attempt=%u node=%s", event_name(event_of(m->state)), m->job,
	         m->attempt, n->name);
	if (job_post(c, j, event_of(m->state), d) < 0)
		return;
	log_info("%s", line.at);
	if (m->state == LAUNCH_FAILED && not_restored(j, m))
		checkpoint_not_restored(c, j, n->name, m->text);
	if (p->culprit && m->state == LAUNCH_FAILED)
		node_health_note(c, n, HEALTH_LAUNCH, m->text);
	place_rt(j, p)->progress_us = now_boot(c);
	if (m->state == LAUNCH_CLEANED)
		finish_cleaned(c, j, n, m);
	save_phases(c, j, n, m);
}

static void post_saved(struct core *c, struct cjob *j, const struct cnode *n, const struct place_rec *p)
{
	cJSON *d;

	if (p->saved || p->state != PLACE_ENDED || j->r.att->outcome == OUT_NONE)
		return;
	d = cJSON_CreateObject();
	json_add_u64(d, "node_rank", place_index(j, p));
	json_add_str(d, "node", n->name);
	job_post(c, j, EV_NODE_SAVED, d);
}

void place_vanished(struct core *c, struct cjob *j, const struct place_rec *p, const char *text)
{
	struct verdict v;

	place_rt(j, p)->vanished = text;
	verdict_set(&v, RC_NODE_LOST, "node %s was lost: %s", p->node, text);
	if (j->r.att->state != ATT_ENDING)
		attempt_end(c, j, &v);
	if (j->r.att->state == ATT_ENDING && !j->act->kill_us)
		j->act->kill_us = now_boot(c);
	job_touch(c, j); /* send_orders will send KILL */
}

/* Returns 1 when the launch had vanished and its agent reports that nothing of it is left. */
static int vanished_is_over(struct core *c, struct cjob *j, struct cnode *n, const struct place_rec *p,
                            const struct wm_launch_report *m)
{
	const char *vanished = place_rt(j, p)->vanished;
	char *said, *text;

	if (!vanished || m->state < LAUNCH_ENDED)
		return 0;
	said = report_clean_text(m->text, strnlen(m->text, 600));
	text = *said ? xasprintf("%s (%s)", vanished, said) : xstrdup(vanished);
	place_lost(c, j, place_index(j, p), 0, 0, text);
	free(said);
	free(text);
	stale_report(c, n, m); /* the agent also removes its files */
	return 1;
}

/* Returns 1 when the agent lost the state of a running launch and prepares it. It must not start twice. */
static int is_undone(const struct cjob *j, const struct place_rec *p, const struct wm_launch_report *m)
{
	const struct attempt_rec *a = j->r.att;
	int began = p->state == PLACE_RUNNING;

	for (uint32_t i = 0; m->state == LAUNCH_PREPARING && i < a->n_ranks && !began; i++)
		began = &a->places[a->ranks[i].place] == p && a->ranks[i].state >= RANK_RUNNING;
	return began && (m->state == LAUNCH_PREPARING || m->state == LAUNCH_READY);
}

void on_launch_report(struct core *c, struct cnode *n, uint64_t id, const struct wm_launch_report *m)
{
	struct place_rec *p;
	struct place_rt *rt;
	struct cjob *j;

	hold_ack(c, n->name, n->session, id);
	if (m->state == LAUNCH_UNKNOWN || m->state > LAUNCH_PARKED)
		return;
	j = report_current(c, n, m->job, m->attempt, m->epoch, &p);
	if (!j) {
		if (!park_report(c, n, m) && !park_stray(c, n, m))
			stale_report(c, n, m);
		return;
	}
	rt = place_rt(j, p);
	if (rt->session != n->session) {
		rt->session = n->session;
		rt->sent = 0;
	}
	rt->reported = 1;
	rt->over = m->over;
	if (vanished_is_over(c, j, n, p, m))
		return;
	if (is_undone(j, p, m)) {
		place_vanished(c, j, p, "its agent prepares the launch again; what ran of it is lost");
		return;
	}
	/* An agent that still prepares gets the order once more after each connection: a hearthd that was started
	 * again must pass it on to know which blobs the node may read. */
	if (m->state != LAUNCH_PREPARING)
		rt->sent |= SENT_PREPARE;
	if (m->state == LAUNCH_READY) /* ready again: the order to go did not arrive */
		rt->sent &= (uint8_t)~SENT_GO;
	note_progress(c, rt, m);
	if (state_move_ok(STATE_PLACE, (int)p->state, (int)place_of_launch(m->state)))
		launch_state(c, j, n, p, m);
	if (m->state == LAUNCH_ENDED && strcmp(m->phase, LAUNCH_PHASE_SAVED) == 0)
		post_saved(c, j, n, p);
	job_touch(c, j);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void rank_exited(const struct wm_proc_report *m, cJSON *d)
{
	int bad = m->signal || m->exit_code || m->oom;

	if (m->signal)
		cJSON_AddNumberToObject(d, "signal", m->signal & 0x7f);
	else
		cJSON_AddNumberToObject(d, "exit_code", m->exit_code & 0xff);
	if (m->oom)
		cJSON_AddTrueToObject(d, "oom");
	if (m->ended_by == BY_ORDER || m->ended_by == BY_LAUNCHER)
		json_add_str(d, "ended_by", state_name(STATE_ENDED_BY, m->ended_by));
	if (bad)
		report_add_text(d, "text", (const char *)m->last_lines.data, m->last_lines.n);
}

static void rank_report(struct core *c, struct cjob *j, const struct cnode *n, const struct place_rec *p,
                        const struct wm_proc_report *m)
{
	const struct attempt_rec *a = j->r.att;
	static const struct {
		enum event_type event;
		enum rank_state state;
	} to[] = {[PS_RUNNING] = {EV_RANK_STARTED, RANK_RUNNING},
	          [PS_EXITED] = {EV_RANK_EXITED, RANK_EXITED},
	          [PS_LOST] = {EV_RANK_LOST, RANK_LOST},
	          [PS_FAILED] = {EV_RANK_FAILED, RANK_FAILED}};
	uint64_t started, ended;
	cJSON *d;

	if (m->state < PS_RUNNING || m->state > PS_FAILED || a->outcome != OUT_NONE)
		return;
	if (m->rank >= a->n_ranks || &a->places[a->ranks[m->rank].place] != p) {
		log_warn("event=foreign_rank job=%" PRIu64 " rank=%u node=%s", m->job, m->rank, n->name);
		return;
	}
	if (!state_move_ok(STATE_RANK, (int)a->ranks[m->rank].state, (int)to[m->state].state))
		return;
	d = cJSON_CreateObject();
	json_add_u64(d, "rank", m->rank);
	json_add_str(d, "node", n->name);
	json_add_u64(d, "pid", m->pid);
	/* In hearthd's time: the first failed rank of all nodes is found by these times. */
	started = node_time(n, m->started_us);
	ended = m->ended_us ? node_time(n, m->ended_us) : now_real(c);
	json_add_u64(d, "started_us", started);
	/* The two may use different measures of the node's clock. */
	if (m->state != PS_RUNNING)
		json_add_u64(d, "ended_us", ended > started ? ended : started);
	if (m->state == PS_EXITED)
		rank_exited(m, d);
	else if (*m->text)
		report_add_text(d, "text", m->text, strlen(m->text));
	job_post(c, j, to[m->state].event, d);
}

static int is_rule(const char *line, size_t n)
{
	while (n && (line[n - 1] == '-' || line[n - 1] == '\r'))
		n--;
	return n == 0;
}

/* Adds the launcher's last message, as one line. Open MPI frames messages by rules of '-': the first
 * paragraph of the last frame is the message, and the rest is advice. Text without a frame gives its last
 * line. */
static void launcher_words(const char *text, struct text *out)
{
	const char *from = text, *last = text;

	for (const char *at = text; *at;) {
		size_t n = strcspn(at, "\n");
		const char *next = at + n + (at[n] == '\n');

		if (n && is_rule(at, n))
			from = next;
		else if (n)
			last = at;
		/* The rule below the last frame is not the beginning of another. */
		if (!next[strspn(next, "-\n\r ")])
			break;
		at = next;
	}
	if (from == text || from > last)
		from = last;
	for (size_t n; *from && (n = strcspn(from, "\n")) && !is_rule(from, n); from += n + (from[n] == '\n'))
		text_join(out, " ", "%.*s", (int)n, from);
}

/* Returns 1 when the launcher's end can be the cause: while the attempt launches or runs, and in an ending
 * that only ranks have begun that the launcher ended. Their reports may arrive before the launcher's. */
static int launcher_matters(const struct attempt_rec *a)
{
	uint32_t failed = rec_first_failed(a);

	if (a->state == ATT_LAUNCHING || a->state == ATT_RUNNING)
		return 1;
	return a->state == ATT_ENDING && a->outcome == OUT_NONE && failed < a->n_ranks &&
	       a->ranks[failed].ended_by == BY_LAUNCHER && (a->cls == RC_UNKNOWN || a->cls == RC_SIGNAL);
}

static void launcher_report(struct core *c, struct cjob *j, const struct cnode *n,
                            const struct wm_proc_report *m)
{
	const struct launcher_proc *proc = launcher_proc(m->kind);
	const char *name = proc ? proc->name : "the launcher";
	const struct attempt_rec *a = j->r.att;
	struct verdict v;
	char *text;
	TEXT(line);

	if (m->state < PS_EXITED || !launcher_matters(a))
		return;
	if (m->state == PS_EXITED && !m->exit_code && !m->signal)
		return; /* the ranks' own reports decide */
	text = m->last_lines.n ? report_clean_text((const char *)m->last_lines.data, m->last_lines.n)
	                       : report_clean_text(m->text, strlen(m->text));
	launcher_words(text, &line);
	if (m->state == PS_EXITED && m->signal)
		verdict_set(&v, RC_LAUNCH, "%s on %s was ended by signal %u%s%.400s", name, n->name, m->signal,
		            text_is_empty(&line) ? "" : ": ", line.at);
	else if (m->state == PS_EXITED)
		verdict_set(&v, RC_LAUNCH, "%s on %s exited with code %u%s%.400s", name, n->name, m->exit_code,
		            text_is_empty(&line) ? "" : ": ", line.at);
	else
		verdict_set(&v, RC_LAUNCH, "%s on %s %s%s%.400s", name, n->name,
		            m->state == PS_LOST ? "is lost" : "could not start", text_is_empty(&line) ? "" : ": ",
		            line.at);
	free(text);
	if (a->state == ATT_ENDING) {
		cJSON *d = cJSON_CreateObject();

		json_add_str(d, "reason", v.reason);
		job_post(c, j, EV_LAUNCHER, d);
	} else {
		attempt_end(c, j, &v);
	}
}

void on_proc_report(struct core *c, struct cnode *n, uint64_t id, const struct wm_proc_report *m)
{
	struct place_rec *p;
	struct cjob *j;

	hold_ack(c, n->name, n->session, id);
	j = report_current(c, n, m->job, m->attempt, m->epoch, &p);
	if (!j) {
		park_proc(c, n, m);
		return;
	}
	if (m->kind == PROC_RANK)
		rank_report(c, j, n, p, m);
	else if (m->kind == PROC_ORTED)
		rsh_orted(c, j, place_index(j, p), m);
	else
		launcher_report(c, j, n, m);
	job_touch(c, j);
}

/* ---- what a run leaves ----------------------------------------------------------------------- */

void on_artifact(struct core *c, struct cnode *n, uint64_t id, const struct wm_artifact_report *m)
{
	struct place_rec *p;
	struct cjob *j;
	cJSON *d;

	hold_ack(c, n->name, n->session, id);
	j = report_current(c, n, m->job, m->attempt, m->epoch, &p);
	if (!j)
		return;
	place_rt(j, p)->progress_us = now_boot(c);
	if (strcmp(m->kind, "failure") == 0 && *m->text) {
		free(j->act->program_says);
		j->act->program_says = report_clean_text(m->text, strlen(m->text));
	}
	if (!*m->digest && !*m->uri) {
		if (strcmp(m->kind, "failure") != 0 && *m->text) {
			char *text = xasprintf("%.40s of node %s: %.900s", m->kind, n->name, m->text);

			upload_failed(c, j, text);
			free(text);
		}
		return;
	}
	if (*m->digest && quota_artifact(c, j, m, n->name) < 0) {
		upload_failed(c, j, "above the quota of outputs");
		return;
	}
	store_txn_artifact(turn_now(c)->txn, &(struct artifact_row){.job = m->job,
	                                                            .attempt = m->attempt,
	                                                            .kind = m->kind,
	                                                            .node = n->name,
	                                                            .digest = *m->digest ? m->digest : NULL,
	                                                            .uri = *m->uri ? m->uri : NULL,
	                                                            .size_bytes = m->size_bytes,
	                                                            .files = m->files,
	                                                            .at_us = now_real(c)});
	turn_now(c)->n++;
	d = cJSON_CreateObject();
	json_add_str(d, "kind", m->kind);
	json_add_str(d, "node", n->name);
	json_add_str(d, *m->digest ? "digest" : "uri", *m->digest ? m->digest : m->uri);
	json_add_u64(d, "size_bytes", m->size_bytes);
	json_add_u64(d, "files", m->files);
	job_post(c, j, EV_ARTIFACT, d);
}

/* An agent warns the job's owner. The report may come twice, and a node may send many. */
static void post_warning(struct core *c, struct cjob *j, const struct cnode *n, const char *text)
{
	struct strv *known = &j->act->warnings;
	cJSON *d;

	for (size_t i = 0; i < known->n; i++)
		if (strcmp(known->v[i], text) == 0)
			return;
	if (known->n >= WARNINGS_MAX)
		return;
	strv_add(known, text);
	d = cJSON_CreateObject();
	json_add_str(d, "node", n->name);
	report_add_text(d, "text", text, strlen(text));
	job_post(c, j, EV_WARNING, d);
}

void on_run_info(struct core *c, struct cnode *n, uint64_t id, const struct wm_run_info *m)
{
	struct place_rec *p;
	struct cjob *j;

	hold_ack(c, n->name, n->session, id);
	j = report_current(c, n, m->job, m->attempt, m->epoch, &p);
	if (!j || strlen(m->text) > RUN_INFO_MAX || !*m->kind || strlen(m->kind) > 64)
		return;
	if (strncmp(m->kind, WARNING_KIND, strlen(WARNING_KIND)) == 0) {
		post_warning(c, j, n, m->text);
		return;
	}
	store_txn_run_info(turn_now(c)->txn, m->job, m->attempt, n->name, m->kind, m->text);
	turn_now(c)->n++;
}
