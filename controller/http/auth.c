/*
 * auth: tokens, peer credentials, cookies. All I/O threads share it: after auth_create only the table of
 * used login codes changes, and that is atomic.
 *
 * The code of a login link is  c.ROLE.SCOPE.OWN.USERHEX.xACCOUNTHEX.tTOKENHEX.UNTIL.EXPIRES.NONCE.MAC  with
 * MAC = HMAC-SHA-256 of all before its dot, by a key made at start. TOKEN is the id of the token that asked
 * for the link and UNTIL its expiry, because the session ends with that token. A code counts as used by its
 * nonce in a table of slots. A later nonce may replace it in its slot; the code then works again for the rest
 * of its minute, but only for a caller who already has it.
 */
#include "controller/http/auth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "controller/http/token_cache.h"
#include "store/read/find.h"

#define TOKEN_MAX    256
#define CODE_SLOTS   4096
#define NAMES        256
#define UNKNOWN_US   10000000u /* an unknown account is asked for again */
#define USE_EVERY_US 60000000u /* the use of a token is reported once in that time */

struct auth {
	char admin_hash[HASH_HEX_SIZE];
	char admin_user[AUTH_USER_SIZE];
	const struct accounts *accounts;
	char cookie[32]; /* its name */
	char *token_path;
	char *hint;
	uint8_t key[32];
	uint32_t own_uid;
	_Atomic uint64_t generation;       /* of tokens; from 1 */
	_Atomic uint64_t used[CODE_SLOTS]; /* nonces of codes that were turned in */
};

struct name_slot {
	uint32_t uid;
	int set;
	uint64_t until_us;
	char name[AUTH_USER_SIZE]; /* "": unknown */
};

struct auth_names {
	struct token_cache *tokens;
	struct name_slot slot[NAMES]; /* direct-mapped by uid */
};

/* ---- admin.token ------------------------------------------------------------------------------ */

static int make_token(const char *path, struct err *e)
{
	char text[HASH_HEX_SIZE + 1];

	random_hex(text, 64);
	memcpy(text + 64, "\n", 2);
	return fs_write_atomic(path, text, 65, 0600, e);
}

static int load_token(struct auth *a, struct err *e)
{
	cleanup_free char *text = NULL;
	struct stat st;
	size_t n;

	if (access(a->token_path, F_OK) < 0 && errno == ENOENT && make_token(a->token_path, e) < 0)
		return -1;
	if (fs_read_file(a->token_path, 4096, &text, &n, e) < 0)
		return -1;
	while (n && strchr(" \t\r\n", text[n - 1]))
		text[--n] = '\0';
	if (n < 32 || n > TOKEN_MAX || str_has_control(text))
		return err_set(e, ERR_INVALID, "%s: not a token; expected 32 to %d characters on one line",
		               a->token_path, TOKEN_MAX);
	if (stat(a->token_path, &st) == 0 && (st.st_mode & 077))
		return err_set(e, ERR_INVALID,
		               "%s: other users can read it; run chmod 600 on it, or delete it to get a new token",
		               a->token_path);
	hash_hex(text, n, a->admin_hash);
	return 0;
}

struct auth *auth_create(const char *data_dir, const char *admin_user, const struct accounts *accounts,
                         struct err *e)
{
	struct auth *a = xcalloc(1, sizeof(*a));

	a->token_path = xasprintf("%s/admin.token", data_dir);
	/* No path, since the caller may be anybody. jobctl tells people where tokens are. */
	a->hint = xstrdup("send \"Authorization: Bearer TOKEN\"");
	snprintf(a->admin_user, sizeof(a->admin_user), "%s", admin_user ? admin_user : "root");
	a->accounts = accounts;
	a->own_uid = (uint32_t)geteuid();
	random_bytes(a->key, sizeof(a->key));
	atomic_init(&a->generation, 1);
	auth_set_port(a, 0);
	if (load_token(a, e) < 0) {
		auth_destroy(a);
		return NULL;
	}
	return a;
}

void auth_destroy(struct auth *a)
{
	if (!a)
		return;
	free(a->token_path);
	free(a->hint);
	OPENSSL_cleanse(a->key, sizeof(a->key));
	free(a);
}

const char *auth_hint(const struct auth *a)
{
	return a->hint;
}

/* ---- accounts --------------------------------------------------------------------------------- */

struct auth_names *auth_names_create(void)
{
	struct auth_names *n = xcalloc(1, sizeof(*n));

	n->tokens = token_cache_create();
	return n;
}

void auth_names_destroy(struct auth_names *n)
{
	if (n)
		token_cache_destroy(n->tokens);
	free(n);
}

void auth_look_up(uint32_t uid, char name[AUTH_USER_SIZE])
{
	char text[4096];
	struct passwd pw, *found = NULL;

	name[0] = '\0';
	if (getpwuid_r((uid_t)uid, &pw, text, sizeof(text), &found) == 0 && found &&
	    strlen(pw.pw_name) < AUTH_USER_SIZE)
		snprintf(name, AUTH_USER_SIZE, "%s", pw.pw_name);
}

void auth_names_put(struct auth_names *n, uint32_t uid, const char *name, uint64_t now_real_us)
{
	struct name_slot *s = &n->slot[uid % NAMES];

	s->set = 1;
	s->uid = uid;
	s->until_us = *name ? UINT64_MAX : now_real_us + UNKNOWN_US;
	snprintf(s->name, AUTH_USER_SIZE, "%s", name);
}

int auth_names_has(const struct auth_names *n, uint32_t uid, uint64_t now_real_us)
{
	const struct name_slot *s = &n->slot[uid % NAMES];

	return s->set && s->uid == uid && now_real_us < s->until_us;
}

/* "": unknown. */
static const char *name_of(const struct auth_names *names, uint32_t uid)
{
	const struct name_slot *s = &names->slot[uid % NAMES];

	return s->set && s->uid == uid ? s->name : "";
}

static int by_uid(struct auth *a, struct auth_names *names, uint32_t uid, struct identity *out, struct err *e)
{
	const char *name = name_of(names, uid);

	if (!*name)
		return err_set(e, ERR_UNAUTHORIZED, "user id %u has no account on the machine of hearthd", uid);
	snprintf(out->user, sizeof(out->user), "%s", name);
	out->role = uid == 0 || uid == a->own_uid ? ROLE_ADMIN : ROLE_USER;
	account_of_user(a->accounts, out->user, uid == 0 ? FROM_ROOT : FROM_SOCKET, out->account);
	out->account_own = uid != 0;
	return 0;
}

/* ---- tokens ----------------------------------------------------------------------------------- */

/* "read", "submit", "job:17", "admin"; NULL: all that a user may. */
static int take_scope(const struct token_row *row, struct identity *out)
{
	const char *scope = row->scope ? row->scope : "";

	out->role = ROLE_USER;
	if (strcmp(scope, "read") == 0)
		out->scope = SCOPE_READ;
	else if (strcmp(scope, "submit") == 0)
		out->scope = SCOPE_SUBMIT;
	else if (strcmp(scope, "admin") == 0)
		out->role = ROLE_ADMIN;
	else if (strncmp(scope, "job:", 4) == 0 && row->job)
		out->role = ROLE_JOB;
	else if (*scope)
		return -1;
	out->token_job = out->role == ROLE_JOB ? row->job : 0;
	return 0;
}

static int take_row(const struct token_row *row, int session, struct identity *out, struct err *e)
{
	const char *kind = row->kind ? row->kind : "";
	int rc = 0;

	memset(out, 0, sizeof(*out));
	if (strcmp(kind, "job") == 0 && row->job && !session) {
		out->role = ROLE_JOB;
		out->token_job = row->job;
	} else if (strcmp(kind, "admin") == 0 && !session) {
		out->role = ROLE_ADMIN;
	} else if (strcmp(kind, session ? "session" : "user") == 0) {
		rc = take_scope(row, out);
	} else {
		rc = -1;
	}
	if (rc < 0)
		return err_set(e, ERR_UNAUTHORIZED,
		               strcmp(kind, "join") == 0 ? "this token only joins a node; the API needs another one"
		                                         : "unknown token");
	snprintf(out->user, sizeof(out->user), "%s", row->owner ? row->owner : "");
	snprintf(out->token_id, sizeof(out->token_id), "%s", row->id ? row->id : "");
	snprintf(out->account, sizeof(out->account), "%s", row->account ? row->account : "");
	out->account_own = row->account != NULL;
	out->expires_us = row->expires_us;
	return 0;
}

/* Reads the token into the thread's memory; those of jobs come and go, and are not remembered. */
static int read_token(const struct auth_call *c, struct token_entry *t, const char *hash, uint64_t generation,
                      int session, struct err *e)
{
	struct token_row row;
	struct identity who;
	int rc;

	memset(&row, 0, sizeof(row));
	if (!c->reader || store_token_get(c->reader, hash, &row, NULL) < 0)
		return err_set(e, ERR_UNAUTHORIZED, "unknown token");
	rc = take_row(&row, session, &who, e);
	if (rc == 0) {
		if (strcmp(t->hash, hash) != 0)
			t->told_us = row.seen_us;
		memcpy(t->hash, hash, HASH_HEX_SIZE);
		t->generation = strcmp(row.kind, "job") == 0 ? 0 : generation;
		t->session = session;
		t->who = who;
	}
	token_row_fini(&row);
	return rc;
}

static int by_hash(struct auth *a, struct auth_names *names, const struct auth_call *c, const char *hash,
                   int session, struct identity *out, struct err *e)
{
	uint64_t generation = atomic_load(&a->generation); /* before the store is read */
	struct token_entry *t = token_cache_slot(names->tokens, hash);

	if ((strcmp(t->hash, hash) != 0 || t->generation != generation || t->session != session) &&
	    read_token(c, t, hash, generation, session, e) < 0)
		return -1;
	if (t->who.expires_us && t->who.expires_us <= c->now_real_us)
		return err_set(e, ERR_UNAUTHORIZED, "this token has expired");
	*out = t->who;
	if (t->generation && t->told_us + USE_EVERY_US <= c->now_real_us) {
		t->told_us = c->now_real_us;
		out->use_due = 1;
	}
	if (!out->account_own)
		account_of_user(a->accounts, out->user, FROM_TCP, out->account);
	return 0;
}

static int by_bearer(struct auth *a, struct auth_names *names, const struct auth_call *c,
                     struct identity *out, struct err *e)
{
	const char *t = c->authorization;
	char hash[HASH_HEX_SIZE];
	size_t n;

	if (strncasecmp(t, "Bearer ", 7) != 0)
		return err_set(e, ERR_UNAUTHORIZED, "Authorization must be \"Bearer TOKEN\"");
	t += 7;
	t += strspn(t, " ");
	n = strlen(t);
	if (n == 0 || n > TOKEN_MAX)
		return err_set(e, ERR_UNAUTHORIZED, "unknown token");
	hash_hex(t, n, hash);
	if (!const_time_equal(hash, a->admin_hash, HASH_HEX_SIZE))
		return by_hash(a, names, c, hash, 0, out, e);
	snprintf(out->user, sizeof(out->user), "%s", a->admin_user);
	out->role = ROLE_ADMIN;
	account_of_user(a->accounts, out->user, FROM_TCP, out->account);
	return 0;
}

void auth_set_port(struct auth *a, unsigned port)
{
	snprintf(a->cookie, sizeof(a->cookie), AUTH_COOKIE "_%u", port);
}

const char *auth_cookie_name(const struct auth *a)
{
	return a->cookie;
}

void auth_tokens_changed(struct auth *a)
{
	atomic_fetch_add(&a->generation, 1);
}

/* ---- signed texts ----------------------------------------------------------------------------- */

static void mac_of(const struct auth *a, const char *text, size_t n, char out[HASH_HEX_SIZE])
{
	uint8_t mac[EVP_MAX_MD_SIZE];
	unsigned mac_n = 0;

	HMAC(EVP_sha256(), a->key, (int)sizeof(a->key), (const unsigned char *)text, n, mac, &mac_n);
	str_hex(mac, HASH_BYTES, out);
}

char *auth_sign(struct auth *a, const struct identity *who, uint64_t expires_real_us)
{
	char user[2 * AUTH_USER_SIZE + 1], account[2 * ACCOUNT_NAME_SIZE + 1], token[2 * TOKEN_ID_SIZE + 1];
	char nonce[17], mac[HASH_HEX_SIZE];
	cleanup_free char *text = NULL;

	str_hex((const uint8_t *)who->user, strlen(who->user), user);
	str_hex((const uint8_t *)who->account, strlen(who->account), account);
	str_hex((const uint8_t *)who->token_id, strlen(who->token_id), token);
	random_hex(nonce, 16);
	text = xasprintf("c.%d.%d.%d.%s.x%s.t%s.%" PRIu64 ".%" PRIu64 ".%s", (int)who->role, (int)who->scope,
	                 who->account_own, user, account, token, who->expires_us, expires_real_us, nonce);
	mac_of(a, text, strlen(text), mac);
	return xasprintf("%s.%s", text, mac);
}

static int use_up(struct auth *a, const char *nonce)
{
	uint64_t v = strtoull(nonce, NULL, 16);

	return v == 0 || atomic_exchange(&a->used[v % CODE_SLOTS], v) == v ? -1 : 0;
}

static int hex_text(const char *hex, char *out, size_t out_size)
{
	size_t n = strlen(hex) / 2;

	if (n >= out_size || str_unhex(hex, (uint8_t *)out, n) < 0)
		return -1;
	out[n] = '\0';
	return 0;
}

/* Reads hex digits, perhaps none: %[ of scanf needs at least one. Moves *text behind them. */
static int take_hex(const char **text, char *out, size_t out_size)
{
	size_t n = strspn(*text, "0123456789abcdef");
	cleanup_free char *hex = xstrndup(*text, n);

	*text += n;
	return n % 2 ? -1 : hex_text(hex, out, out_size);
}

static int take_mark(const char **text, const char *mark)
{
	size_t n = strlen(mark);

	if (strncmp(*text, mark, n) != 0)
		return -1;
	*text += n;
	return 0;
}

static int take_code(const char *text, struct identity *out, uint64_t *expires, char nonce[17])
{
	int role, scope, own, end = 0;

	memset(out, 0, sizeof(*out));
	if (sscanf(text, "c.%d.%d.%d.%n", &role, &scope, &own, &end) != 3 || !end)
		return -1;
	text += end;
	if (take_hex(&text, out->user, sizeof(out->user)) < 0 || take_mark(&text, ".x") < 0 ||
	    take_hex(&text, out->account, sizeof(out->account)) < 0 || take_mark(&text, ".t") < 0 ||
	    take_hex(&text, out->token_id, sizeof(out->token_id)) < 0)
		return -1;
	if (sscanf(text, ".%" SCNu64 ".%" SCNu64 ".%16[0-9a-f].", &out->expires_us, expires, nonce) != 3 ||
	    (role != ROLE_USER && role != ROLE_ADMIN) || scope < SCOPE_ALL || scope > SCOPE_SUBMIT)
		return -1;
	out->role = (enum user_role)role;
	out->scope = (enum token_scope)scope;
	out->account_own = own != 0;
	return 0;
}

int auth_verify(struct auth *a, const char *text, uint64_t now_real_us, struct identity *out, struct err *e)
{
	const char *dot = strrchr(text, '.');
	char mac[HASH_HEX_SIZE], nonce[17];
	uint64_t expires;

	if (!dot || strlen(dot + 1) != HASH_HEX_SIZE - 1 || strlen(text) > 1024)
		return err_set(e, ERR_UNAUTHORIZED, "invalid login link");
	mac_of(a, text, (size_t)(dot - text), mac);
	if (!const_time_equal(mac, dot + 1, HASH_HEX_SIZE - 1) || take_code(text, out, &expires, nonce) < 0)
		return err_set(e, ERR_UNAUTHORIZED, "invalid login link (a restart of hearthd ends every link)");
	if (expires <= now_real_us)
		return err_set(e, ERR_UNAUTHORIZED, "this login link has expired");
	if (use_up(a, nonce) < 0)
		return err_set(e, ERR_UNAUTHORIZED, "this login link was already used");
	return 0;
}

/* Value of that cookie in a Cookie header, malloc'ed; NULL none. */
static char *cookie_value(const char *name, const char *header)
{
	size_t n = strlen(name);

	while (header && *header) {
		header += strspn(header, " ;");
		if (strncmp(header, name, n) == 0 && header[n] == '=')
			return xstrndup(header + n + 1, strcspn(header + n + 1, "; "));
		header = strchr(header, ';');
	}
	return NULL;
}

/* A stale session must not lock its owner out of the login page: it counts as nothing. */
static void by_session(struct auth *a, struct auth_names *names, const struct auth_call *c,
                       struct identity *out)
{
	cleanup_free char *cookie = cookie_value(a->cookie, c->cookie), *both = NULL;
	char hash[HASH_HEX_SIZE];

	if (!cookie || !c->session_key || strlen(cookie) > TOKEN_MAX || strlen(c->session_key) > TOKEN_MAX)
		return;
	both = xasprintf("%s.%s", cookie, c->session_key);
	hash_hex(both, strlen(both), hash);
	if (by_hash(a, names, c, hash, 1, out, NULL) < 0)
		memset(out, 0, sizeof(*out));
}

int auth_identify(struct auth *a, struct auth_names *names, const struct auth_call *c, struct identity *out,
                  struct err *e)
{
	memset(out, 0, sizeof(*out));
	/* A token wins over the socket: a rank of root's job is not an administrator. */
	if (c->authorization)
		return by_bearer(a, names, c, out, e);
	if (c->is_unix)
		return by_uid(a, names, c->uid, out, e);
	by_session(a, names, c, out);
	return 0;
}

/* ---- Host and Origin -------------------------------------------------------------------------- */

static int is_loopback_name(const char *host)
{
	char name[64];
	size_t n = strcspn(host, ":");
	struct in_addr v4;

	if (host[0] == '[') {
		const char *end = strchr(host, ']');

		return end && strncmp(host, "[::1]", 5) == 0 && (end[1] == '\0' || end[1] == ':');
	}
	if (n == 0 || n >= sizeof(name))
		return 0;
	memcpy(name, host, n);
	name[n] = '\0';
	if (strcasecmp(name, "localhost") == 0)
		return 1;
	return inet_pton(AF_INET, name, &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

int auth_check_origin(const struct auth_call *c, struct err *e)
{
	const char *p;

	if (c->is_unix)
		return 0; /* no browser speaks to a unix socket */
	if (c->loopback && c->host && !is_loopback_name(c->host))
		return err_set(e, ERR_DENIED,
		               "Host is \"%.100s\", but this hearthd listens on loopback only: use localhost or "
		               "127.0.0.1 (this guards against "
		               "DNS rebinding)",
		               c->host);
	if (!c->origin)
		return 0;
	p = strstr(c->origin, "://");
	if (!p || !c->host || strcasecmp(p + 3, c->host) != 0)
		return err_set(e, ERR_DENIED, "Origin is \"%.100s\": pages of other sites must not use this API",
		               c->origin);
	return 0;
}
