/*
 * launch_life: RUN/J.A/life, as JSON: what the next agent must know of a launch. It is replaced atomically,
 * on tmpfs, at each change of state. Processes are not in it, because their shims know them.
 */
#include <inttypes.h>
#include <string.h>

#include "agent/base/user.h"
#include "agent/launch/launch_steps.h"
#include "common/base/fault.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"

#define LIFE_MAX     (2 * 1024 * 1024)
#define LIFE_VERSION 1 /* raise it where an older agent must not go on with such a launch */

static void add_user(cJSON *o, const struct launch_user *u)
{
	cJSON *to, *groups;

	if (!u->name)
		return;
	to = cJSON_AddObjectToObject(o, "user");
	json_add_u64(to, "uid", u->uid);
	json_add_u64(to, "gid", u->gid);
	json_add_str(to, "name", u->name);
	json_add_str(to, "home", u->home);
	json_add_str(to, "shell", u->shell);
	groups = cJSON_AddArrayToObject(to, "groups");
	for (uint32_t i = 0; i < u->n_groups; i++)
		cJSON_AddItemToArray(groups, cJSON_CreateNumber(u->groups[i]));
}

int launch_save(struct launch *l, struct err *why)
{
	cleanup_free char *path = xasprintf("%s/life", l->paths.run);
	cJSON *o = cJSON_CreateObject(), *phases;
	struct err e = {0};
	char *text;

	json_add_u64(o, "version", LIFE_VERSION);
	json_add_str(o, "launch", l->key);
	json_add_str(o, "boot", l->host->boot_id);
	json_add_u64(o, "state", l->state);
	json_add_u64(o, "epoch", l->epoch);
	json_add_u64(o, "cls", l->cls);
	json_add_str(o, "text", l->text);
	json_add_str(o, "venv_bin", l->venv_bin);
	cJSON_AddBoolToObject(o, "going", l->going);
	cJSON_AddBoolToObject(o, "stopping", l->stopping);
	json_add_u64(o, "grace_ms", l->grace_ms);
	json_add_u64(o, "kill_deadline_us", l->kill_deadline_us);
	json_add_str(o, "kill_reason", l->kill_reason);
	cJSON_AddBoolToObject(o, "collecting", l->collecting);
	cJSON_AddBoolToObject(o, "keep", l->keep);
	cJSON_AddBoolToObject(o, "releasing", l->releases_open != 0);
	cJSON_AddBoolToObject(o, "removing", l->removing && !l->kept_outputs);
	add_user(o, &l->user);
	phases = cJSON_AddArrayToObject(o, "phases");
	for (unsigned i = 0; i < l->n_phases; i++) {
		cJSON *p = cJSON_CreateObject();

		json_add_str(p, "name", l->phases[i].name);
		json_add_u64(p, "started_us", l->phases[i].started_us);
		json_add_u64(p, "ended_us", l->phases[i].ended_us);
		cJSON_AddItemToArray(phases, p);
	}
	text = json_text(o);
	cJSON_Delete(o);
	if (FAULT("agent.state"))
		err_set(&e, ERR_NOSPACE, "injected");
	else
		fs_replace(path, text, strlen(text), 0600, &e);
	free(text);
	if (!e.code)
		return 0;
	/* A later agent would know an older state. Where that would spoil a good run the caller does not go on;
	 * else it does: the shims are found all the same. */
	log_error("event=life_not_saved job=%" PRIu64 " attempt=%u reason=\"%s\"", l->job, l->attempt, e.text);
	return err_set(why, e.code, "the state of the launch could not be saved: %s", e.text);
}

static int get_u64(const cJSON *o, const char *key, uint64_t *out, struct err *e)
{
	int64_t v = (int64_t)*out;

	if (json_get_i64(o, "", key, 0, INT64_MAX, &v, e) < 0)
		return -1;
	*out = (uint64_t)v;
	return 0;
}

static int load_phases(struct launch *l, const cJSON *o, struct err *e)
{
	const cJSON *list = NULL, *p;

	if (json_get_arr(o, "", "phases", &list, e) < 0)
		return -1;
	cJSON_ArrayForEach (p, list) {
		struct lphase ph = {0};
		const char *name = NULL;

		if (l->n_phases == LAUNCH_PHASES_MAX || !cJSON_IsObject(p) ||
		    json_get_str(p, "phases", "name", &name, e) < 0 || !name ||
		    get_u64(p, "started_us", &ph.started_us, e) < 0 || get_u64(p, "ended_us", &ph.ended_us, e) < 0)
			return err_set(e, ERR_PROTOCOL, "phases are damaged");
		ph.name = xstrdup(name);
		l->phases[l->n_phases++] = ph;
	}
	return 0;
}

static int load_groups(struct launch_user *u, const cJSON *list, struct err *e)
{
	int n = cJSON_GetArraySize(list);
	const cJSON *g;

	u->groups = xcalloc((size_t)n + 1, sizeof(*u->groups));
	cJSON_ArrayForEach (g, list) {
		if (!cJSON_IsNumber(g) || g->valuedouble < 0 || g->valuedouble > UINT32_MAX)
			return err_set(e, ERR_PROTOCOL, "the account's groups are damaged");
		u->groups[u->n_groups++] = (gid_t)g->valuedouble;
	}
	return 0;
}

/* The file lacks it until the account is known. */
static int load_user(struct launch *l, const cJSON *o, struct err *e)
{
	const char *name = NULL, *home = NULL, *shell = NULL;
	const cJSON *from = NULL, *groups = NULL;
	uint64_t uid = 0, gid = 0;

	if (json_get_obj(o, "", "user", &from, e) < 0)
		return -1;
	if (!from)
		return 0;
	if (get_u64(from, "uid", &uid, e) < 0 || get_u64(from, "gid", &gid, e) < 0 ||
	    json_get_str(from, "user", "name", &name, e) < 0 ||
	    json_get_str(from, "user", "home", &home, e) < 0 ||
	    json_get_str(from, "user", "shell", &shell, e) < 0 ||
	    json_get_arr(from, "user", "groups", &groups, e) < 0)
		return -1;
	if (!name || !home || !shell || uid > UINT32_MAX || gid > UINT32_MAX)
		return err_set(e, ERR_PROTOCOL, "the account is damaged");
	l->user = (struct launch_user){.uid = (uid_t)uid,
	                               .gid = (gid_t)gid,
	                               .name = xstrdup(name),
	                               .home = xstrdup(home),
	                               .shell = xstrdup(shell)};
	return load_groups(&l->user, groups, e);
}

static int load_from(struct launch *l, const cJSON *o, int *same_boot, struct err *e)
{
	const char *boot = "", *text = NULL, *venv = NULL, *reason = NULL, *of = l->key;
	uint64_t state = 0, cls = 0, grace = 0, version = LIFE_VERSION;
	int releasing = 0;

	if (get_u64(o, "version", &version, e) < 0)
		return -1;
	if (version > LIFE_VERSION)
		return err_set(e, ERR_UNSUPPORTED,
		               "a newer agent wrote its state (version %" PRIu64 ", this one reads %d)", version,
		               LIFE_VERSION);
	if (json_get_str(o, "", "launch", &of, e) < 0 || json_get_str(o, "", "boot", &boot, e) < 0 ||
	    get_u64(o, "state", &state, e) < 0 || get_u64(o, "epoch", &l->epoch, e) < 0 ||
	    get_u64(o, "cls", &cls, e) < 0 || json_get_str(o, "", "text", &text, e) < 0 ||
	    json_get_str(o, "", "venv_bin", &venv, e) < 0 || json_get_bool(o, "", "going", &l->going, e) < 0 ||
	    json_get_bool(o, "", "stopping", &l->stopping, e) < 0 || get_u64(o, "grace_ms", &grace, e) < 0 ||
	    get_u64(o, "kill_deadline_us", &l->kill_deadline_us, e) < 0 ||
	    json_get_str(o, "", "kill_reason", &reason, e) < 0 ||
	    json_get_bool(o, "", "collecting", &l->collecting, e) < 0 ||
	    json_get_bool(o, "", "keep", &l->keep, e) < 0 ||
	    json_get_bool(o, "", "releasing", &releasing, e) < 0 ||
	    json_get_bool(o, "", "removing", &l->removing, e) < 0 || load_phases(l, o, e) < 0 ||
	    load_user(l, o, e) < 0)
		return -1;
	if (state < LAUNCH_PREPARING || state > LAUNCH_PARKED || cls >= N_REASON_CLASS || grace > UINT32_MAX)
		return err_set(e, ERR_PROTOCOL, "state %" PRIu64 ", class %" PRIu64 " or grace is damaged", state,
		               cls);
	l->state = (enum launch_state)state;
	l->cls = (enum reason_class)cls;
	l->grace_ms = (uint32_t)grace;
	l->releases_open = releasing ? 1 : 0;
	l->text = xstrdup(text ? text : "");
	l->venv_bin = xstrdup(venv);
	l->kill_reason = xstrdup(reason);
	*same_boot = strcmp(boot, l->host->boot_id) == 0;
	if (strcmp(of, l->key) != 0) { /* of the parking: the agent died when the job had just taken it over */
		l->state = LAUNCH_PREPARING;
		l->text[0] = '\0';
		l->going = 0;
		l->epoch = l->plan->m->epoch;
	}
	return 0;
}

static void loaded_fini(struct launch *l)
{
	for (unsigned i = 0; i < l->n_phases; i++)
		free(l->phases[i].name);
	user_fini(&l->user);
	free(l->text);
	free(l->venv_bin);
	free(l->kill_reason);
}

/* Moves the loaded fields into the launch. */
static void take_loaded(struct launch *l, const struct launch *from)
{
	loaded_fini(l);
	memcpy(l->phases, from->phases, sizeof(l->phases));
	l->n_phases = from->n_phases;
	l->user = from->user;
	l->text = from->text;
	l->venv_bin = from->venv_bin;
	l->kill_reason = from->kill_reason;
	l->state = from->state;
	l->cls = from->cls;
	l->epoch = from->epoch;
	l->going = from->going;
	l->stopping = from->stopping;
	l->grace_ms = from->grace_ms;
	l->kill_deadline_us = from->kill_deadline_us;
	l->collecting = from->collecting;
	l->keep = from->keep;
	l->releases_open = from->releases_open;
	l->removing = from->removing;
}

int launch_load(struct launch *l, int *same_boot, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/life", l->paths.run);
	cleanup_free char *text = NULL;
	struct launch new = {.host = l->host, .plan = l->plan, .key = l->key, .epoch = l->epoch};
	cJSON *o;
	size_t n;
	int rc;

	if (fs_read_file(path, LIFE_MAX, &text, &n, e) < 0)
		return -1;
	o = json_parse(text, n, e);
	rc = o ? load_from(&new, o, same_boot, e) : -1;
	cJSON_Delete(o);
	if (rc == 0)
		take_loaded(l, &new);
	else
		loaded_fini(&new);
	return rc < 0 ? err_wrap(e, "%s", path) : 0;
}
