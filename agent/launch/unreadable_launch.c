/*
 * unreadable_launch: see unreadable_launch.h. Records of a launch besides its plan:
 *
 *   DIR/rank-0/state ...    shim and process, by pid, start time and boot id
 *   DIR/rank-0/launch ...   the mark that all its processes carry in their environment
 *   DIR/container           control groups, and the holder of the namespaces
 *   DIR/life                the boot id, and the epoch and state of a launch of a newer agent
 *
 * The mark comes from a shim's order or from the environment of a process that the shim started. It makes
 * certain that nothing is left. Without it that is certain only if no shim was ever there, the machine was
 * restarted, or somebody removed the folder.
 */
#include "agent/launch/unreadable_launch.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "agent/base/trash.h"
#include "agent/container/sweeper.h"
#include "agent/launch/launch_steps.h"
#include "agent/link/outbox.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/net/wire.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "shim/shim.h"

#define MARK        "HEARTH_TOKEN_LAUNCH"
#define STEP_US     200000u
#define SLOW_US     5000000u /* between looks at one of which nothing is known */
#define QUIET_LOOKS 2u       /* that find nothing before it is believed */
#define ENVIRON_MAX (4 * 1024 * 1024)
#define LIFE_MAX    (2 * 1024 * 1024)

struct unreadable_launch {
	uint64_t job, epoch; /* epoch 0: no order has named it */
	uint32_t attempt;
	char *key, *folder, *dir; /* a job that took a parked launch over has the folder of the parking */
	char *why;                /* the plan could not be read */
	char *token;              /* the mark; NULL unknown */
	char *text;
	struct unreadable_launches *owner;
	struct sweep_ask *sweep; /* NULL none under way */
	int known_left;          /* processes on record that ran when the sweep was asked for */
	struct container *container;
	struct proc_id *ids; /* shims and what they started */
	uint32_t n_ids;
	enum launch_state state;
	int newer;        /* a newer agent wrote it: it goes on until an order or the fence ends it */
	int unknown_said; /* the log says that it is not known what may run */
	unsigned quiet;
	struct unreadable_launch *prev, *next;
};

struct unreadable_launches {
	struct launch_host *host;
	struct unreadable_launch *list;
	struct loop_timer *timer;
};

/* ---- what is on record ------------------------------------------------------------------------------- */

static int is_shim_folder(const char *name)
{
	return strncmp(name, "rank-", 5) == 0 || launcher_proc_called(name) != NULL ||
	       launch_inside_is_folder(name);
}

static int count_shim(const char *name, void *arg)
{
	*(int *)arg += is_shim_folder(name);
	return 0;
}

static int is_gone(const char *path)
{
	struct stat st;

	return lstat(path, &st) < 0 && errno == ENOENT;
}

int unreadable_launch_has_shims(const char *dir)
{
	int n = 0;

	if (is_gone(dir))
		return 0;
	return fs_each(dir, count_shim, &n, NULL) < 0 || n > 0;
}

static void add_id(struct unreadable_launch *w, const struct proc_id *id)
{
	if (id->pid <= 0)
		return;
	w->ids = xrealloc(w->ids, (w->n_ids + 1) * sizeof(*w->ids));
	w->ids[w->n_ids++] = *id;
}

/* The mark as a process that a shim started has it. The number is checked before and after the look. */
static char *mark_of(const struct proc_id *id)
{
	cleanup_free char *path = xasprintf("/proc/%d/environ", (int)id->pid), *text = NULL;
	char *found = NULL;
	size_t n = 0;

	if (id->pid <= 0 || proc_alive(id, NULL) != 1 || fs_read_file(path, ENVIRON_MAX, &text, &n, NULL) < 0)
		return NULL;
	for (const char *p = text; !found && p < text + n; p += strlen(p) + 1)
		if (strncmp(p, MARK "=", sizeof(MARK)) == 0 && p[sizeof(MARK)])
			found = xstrdup(p + sizeof(MARK));
	if (found && proc_alive(id, NULL) != 1) {
		free(found);
		return NULL;
	}
	return found;
}

static void take_mark(struct unreadable_launch *w, char *mark)
{
	if (w->token || !mark || !mark[0]) {
		free(mark);
		return;
	}
	w->token = mark;
}

static int look_into(const char *name, void *arg)
{
	struct unreadable_launch *w = arg;
	cleanup_free char *dir = xasprintf("%s/%s", w->dir, name);
	struct shim_launch order = {0};
	struct shim_state s;
	struct proc_id shim;

	if (!is_shim_folder(name))
		return 0;
	if (shim_launch_read(dir, &order, NULL) == 0) {
		take_mark(w, xstrdup(order.token ? order.token : ""));
		shim_launch_fini(&order);
	}
	if (shim_state_read(dir, &s, NULL) == 0) {
		take_mark(w, mark_of(&s.child));
		add_id(w, &s.child); /* first: its shim would start nothing in its place, but tell its end */
		add_id(w, &s.shim);
		shim_state_fini(&s);
	} else if (shim_identify(dir, &shim, NULL) == 0) {
		add_id(w, &shim);
	}
	return 0;
}

static void find_container(struct unreadable_launch *w, struct launch_host *host)
{
	struct launch_paths paths = {.run = w->dir, .work = w->dir};
	struct container_params p = {.name = w->folder, .token = w->token ? w->token : "?", .paths = &paths};

	if (!w->container)
		w->container = container_adopt(host->env, &p, NULL, NULL, NULL);
}

/* Its processes run, or may run, as a newer agent wants it. */
static int goes_on(const struct unreadable_launch *w)
{
	return w->newer &&
	       ((w->state >= LAUNCH_PREPARING && w->state <= LAUNCH_RUNNING) || w->state == LAUNCH_PARKED);
}

static cJSON *read_life(const struct unreadable_launch *w)
{
	cleanup_free char *path = xasprintf("%s/life", w->dir), *text = NULL;
	size_t n = 0;

	return fs_read_file(path, LIFE_MAX, &text, &n, NULL) < 0 ? NULL : json_parse(text, n, NULL);
}

/* All that it can know of is of another boot: nothing of it can run. */
static int was_restarted(const struct unreadable_launch *w, const struct launch_host *host)
{
	const char *boot = NULL;
	cJSON *o;
	int other;

	for (uint32_t i = 0; i < w->n_ids; i++)
		if (strcmp(w->ids[i].boot_id, host->boot_id) == 0)
			return 0;
	if (w->n_ids)
		return 1;
	o = read_life(w);
	other = o && json_get_str(o, "", "boot", &boot, NULL) == 0 && boot && strcmp(boot, host->boot_id) != 0;
	cJSON_Delete(o);
	return other;
}

/* Does it say nothing that none of its processes is found? */
static int may_run_unknown(const struct unreadable_launch *w, const struct launch_host *host)
{
	return !w->token && unreadable_launch_has_shims(w->dir) && !was_restarted(w, host);
}

/* ---- killing ------------------------------------------------------------------------------------------ */

/* Kills shims and processes by their records. Returns how many were there. */
static int kill_known(struct unreadable_launch *w, struct launch_host *host)
{
	int left = 0;

	if (!w->token || !w->n_ids) {
		w->n_ids = 0;
		fs_each(w->dir, look_into, w, NULL);
	}
	find_container(w, host);
	for (uint32_t i = 0; i < w->n_ids; i++) {
		int fd = proc_open(&w->ids[i], NULL);

		if (fd >= 0) {
			proc_signal(fd, SIGKILL, NULL);
			close(fd);
		}
		left += proc_alive(&w->ids[i], NULL) != 0;
	}
	return left;
}

/* ---- telling ------------------------------------------------------------------------------------------ */

static void report_state(const struct unreadable_launches *ws, const struct unreadable_launch *w)
{
	char none[] = "";
	struct wm_launch_report m = {
	    .job = w->job,
	    .attempt = w->attempt,
	    .epoch = w->epoch,
	    .state = (uint8_t)w->state,
	    .phase = none,
	    .cls = (uint8_t)(w->state == LAUNCH_ENDED && !w->newer ? RC_NODE_LOST : RC_NONE),
	    .text = w->state == LAUNCH_CLEANED ? none : w->text};

	outbox_put(ws->host->outbox, WM_LAUNCH_REPORT, w->key, &m);
}

static void set_state(struct unreadable_launches *ws, struct unreadable_launch *w, enum launch_state state,
                      const char *what)
{
	free(w->text);
	w->text = xasprintf("its plan cannot be read (%s); %s", w->why, what);
	w->state = state;
	log_warn("event=wreck job=%" PRIu64 " attempt=%u state=%d text=\"%s\"", w->job, w->attempt, (int)state,
	         w->text);
	report_state(ws, w);
}

static void report_unknown(struct unreadable_launches *ws, struct unreadable_launch *w)
{
	cleanup_free char *what = xasprintf("nobody knows which of its processes run here: end them by hand, "
	                                    "then remove %s; until then this node gets no work",
	                                    w->dir);

	w->unknown_said = 1;
	log_error("event=wreck_unknown job=%" PRIu64 " attempt=%u folder=%s", w->job, w->attempt, w->dir);
	set_state(ws, w, LAUNCH_STOPPING, what);
}

/* ---- steps -------------------------------------------------------------------------------------------- */

static void set_over(struct unreadable_launches *ws, struct unreadable_launch *w)
{
	container_destroy(w->container);
	w->container = NULL;
	set_state(ws, w, LAUNCH_ENDED, "what ran of it was ended, nothing is left");
}

static void on_swept(int swept, void *arg)
{
	struct unreadable_launch *w = arg;
	struct unreadable_launches *ws = w->owner;
	int left = swept < 0 ? -1 : swept + w->known_left;

	w->sweep = NULL;
	if (left == 0 && may_run_unknown(w, ws->host)) {
		if (!w->unknown_said)
			report_unknown(ws, w);
		return;
	}
	w->quiet = left == 0 ? w->quiet + 1 : 0;
	if (w->quiet >= QUIET_LOOKS)
		set_over(ws, w);
}

static void kill_step(struct unreadable_launches *ws, struct unreadable_launch *w)
{
	struct sweep_params p = {.urgent = 1, .done = on_swept, .arg = w};

	w->known_left = kill_known(w, ws->host);
	p.token = w->token;
	p.container = w->container;
	sweep_cancel(w->sweep);
	w->sweep = sweeper_ask(ws->host->sweeper, &p);
}

static void on_timer(void *arg)
{
	struct unreadable_launches *ws = arg;
	uint64_t next = 0;
	struct unreadable_launch *w;

	DL_FOREACH (ws->list, w) {
		uint64_t delay;

		if (w->state != LAUNCH_STOPPING)
			continue;
		if (!w->sweep)
			kill_step(ws, w);
		delay = w->unknown_said && w->quiet == 0 ? SLOW_US : STEP_US;
		if (w->state == LAUNCH_STOPPING && (!next || delay < next))
			next = delay;
	}
	if (next)
		loop_timer_arm(ws->timer, next);
}

static void unreadable_free(struct unreadable_launch *w)
{
	sweep_cancel(w->sweep);
	if (w->container)
		container_forget(w->container);
	free(w->key);
	free(w->folder);
	free(w->dir);
	free(w->why);
	free(w->token);
	free(w->text);
	free(w->ids);
	free(w);
}

static struct unreadable_launch *find_unreadable(const struct unreadable_launches *ws, uint64_t job,
                                                 uint32_t attempt)
{
	struct unreadable_launch *w;

	DL_FOREACH (ws->list, w)
		if (w->job == job && w->attempt == attempt)
			return w;
	return NULL;
}

/* ---- launches of a newer agent ------------------------------------------------------------------------- */

/* Reports it in the state that its file names. One that was being ended is ended: its order is known. */
static void let_go_on(struct unreadable_launches *ws, struct unreadable_launch *w)
{
	int64_t state = LAUNCH_RUNNING, epoch = 0;
	cJSON *o = read_life(w);

	if (o) {
		json_get_i64(o, "", "state", LAUNCH_PREPARING, LAUNCH_PARKED, &state, NULL);
		json_get_i64(o, "", "epoch", 0, INT64_MAX, &epoch, NULL);
	}
	cJSON_Delete(o);
	w->epoch = (uint64_t)epoch;
	set_state(ws, w, state == LAUNCH_STOPPING ? LAUNCH_RUNNING : (enum launch_state)state,
	          "it goes on, but its logs and its end are not seen here: upgrade this agent");
}

/* An order or the fence ends it, by its marks and records. */
static void end_newer(struct unreadable_launches *ws, struct unreadable_launch *w)
{
	w->newer = 0;
	set_state(ws, w, LAUNCH_STOPPING, "it was ordered to end, and what runs of it is being ended");
	loop_timer_arm(ws->timer, 0);
}

/* ---- outside ------------------------------------------------------------------------------------------ */

/* A job that took a parked launch over has its folder; `life` says which one. */
static void find_name(struct unreadable_launch *w)
{
	unsigned long long job;
	unsigned attempt;
	const char *of = "";
	cJSON *o = read_life(w);
	int end = 0;

	if (o && json_get_str(o, "", "launch", &of, NULL) == 0 &&
	    sscanf(of, "%llu.%u%n", &job, &attempt, &end) == 2 && !of[end]) {
		w->job = job;
		w->attempt = attempt;
	}
	cJSON_Delete(o);
	w->key = xasprintf("%" PRIu64 ".%u", w->job, w->attempt);
}

void unreadable_launches_add(struct unreadable_launches *ws, const char *folder, uint64_t job,
                             uint32_t attempt, const struct err *why)
{
	struct unreadable_launch *w = xcalloc(1, sizeof(*w));

	w->owner = ws;
	w->job = job;
	w->attempt = attempt;
	w->folder = xstrdup(folder);
	w->dir = xasprintf("%s/%s", ws->host->env->cfg.run_dir, folder);
	find_name(w);
	w->why = xstrdup(why->text);
	w->newer = why->code == ERR_UNSUPPORTED && !was_restarted(w, ws->host);
	DL_APPEND(ws->list, w);
	if (w->newer) {
		let_go_on(ws, w);
		return;
	}
	set_state(ws, w, LAUNCH_STOPPING, "what runs of it is being ended");
	loop_timer_arm(ws->timer, 0);
}

static void collect_folder(struct unreadable_launches *ws, struct unreadable_launch *w)
{
	struct err e = {0};

	if (w->state == LAUNCH_ENDED) {
		if (trash_put(ws->host->trash, w->dir, w->folder, &e) < 0)
			log_warn("event=not_removed job=%" PRIu64 " attempt=%u reason=\"%s\"", w->job, w->attempt,
			         e.text);
		w->state = LAUNCH_CLEANED;
	}
	report_state(ws, w);
}

int unreadable_launches_order(struct unreadable_launches *ws, uint16_t type, uint64_t job, uint32_t attempt,
                              uint64_t epoch)
{
	struct unreadable_launch *w = find_unreadable(ws, job, attempt);

	if (!w)
		return 0;
	w->epoch = epoch;
	if (type == WM_KILL && goes_on(w))
		end_newer(ws, w);
	else if (type == WM_COLLECT && !w->newer)
		collect_folder(ws, w);
	else if (type != WM_NOTE)
		report_state(ws, w); /* it goes on or is being ended, whatever was ordered */
	return 1;
}

void unreadable_launches_report_all(struct unreadable_launches *ws)
{
	struct unreadable_launch *w;

	DL_FOREACH (ws->list, w)
		report_state(ws, w);
}

static void forget_unreadable(struct unreadable_launches *ws, struct unreadable_launch *w)
{
	DL_DELETE(ws->list, w);
	outbox_drop(ws->host->outbox, w->key);
	unreadable_free(w);
}

void unreadable_launches_cleaned(struct unreadable_launches *ws, uint64_t job, uint32_t attempt)
{
	struct unreadable_launch *w = find_unreadable(ws, job, attempt);

	if (w && w->state == LAUNCH_CLEANED)
		forget_unreadable(ws, w);
}

uint32_t unreadable_launches_count(const struct unreadable_launches *ws)
{
	const struct unreadable_launch *w;
	uint32_t n = 0;

	DL_FOREACH (ws->list, w)
		n++;
	return n;
}

int unreadable_launches_alive(const struct unreadable_launches *ws)
{
	const struct unreadable_launch *w;

	DL_FOREACH (ws->list, w)
		if (w->state == LAUNCH_STOPPING || goes_on(w))
			return 1;
	return 0;
}

void unreadable_launches_kill(struct unreadable_launches *ws)
{
	struct unreadable_launch *w;

	DL_FOREACH (ws->list, w) {
		if (goes_on(w))
			end_newer(ws, w);
		if (w->state == LAUNCH_STOPPING)
			kill_step(ws, w);
	}
}

void unreadable_launches_discard(struct unreadable_launches *ws)
{
	struct unreadable_launch *w, *next;

	DL_FOREACH_SAFE (ws->list, w, next)
		if (w->state != LAUNCH_STOPPING && !goes_on(w)) {
			trash_put(ws->host->trash, w->dir, w->folder, NULL);
			forget_unreadable(ws, w);
		}
}

struct unreadable_launches *unreadable_launches_create(struct launch_host *host)
{
	struct unreadable_launches *ws = xcalloc(1, sizeof(*ws));

	ws->host = host;
	ws->timer = loop_timer_create(host->env->loop, on_timer, ws);
	return ws;
}

void unreadable_launches_destroy(struct unreadable_launches *ws)
{
	struct unreadable_launch *w, *next;

	if (!ws)
		return;
	DL_FOREACH_SAFE (ws->list, w, next) {
		DL_DELETE(ws->list, w);
		unreadable_free(w);
	}
	loop_timer_destroy(ws->timer);
	free(ws);
}
