/*
 * auth: tokens, peer credentials, cookies. All I/O threads share it: after auth_create only the table of
 * used login codes changes, and that is atomic.
 *
 * A signed text is  KIND.ROLE.USERHEX.EXPIRES.NONCE.MAC  with MAC = HMAC-SHA-256 of all before its dot, by a
 * key made at start. A code counts as used by its nonce in a table of slots. A later nonce may replace it in
 * its slot; the code then works again for the rest of its minute, but only for a caller who already has it.
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
#include "store/read/find.h"

#define TOKEN_MAX  256
#define CODE_SLOTS 4096
#define NAMES      256

struct auth {
	char admin_hash[HASH_HEX_SIZE];
	char admin_user[AUTH_USER_SIZE];
	const struct accounts *accounts;
	char *token_path;
	char *hint;
	uint8_t key[32];
	uint32_t own_uid;
	_Atomic uint64_t used[CODE_SLOTS]; /* nonces of codes that were turned in */
};

struct auth_names { /* direct-mapped by uid */
	struct {
		uint32_t uid;
		int set;
		char name[AUTH_USER_SIZE];
	} slot[NAMES];
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
	return xcalloc(1, sizeof(struct auth_names));
}

void auth_names_destroy(struct auth_names *n)
{
	free(n);
}

/* NULL: no such account. */
static const char *name_of(struct auth_names *names, uint32_t uid)
{
	unsigned i = uid % NAMES;
	char text[4096];
	struct passwd pw, *found = NULL;

	if (names->slot[i].set && names->slot[i].uid == uid)
		return names->slot[i].name;
	if (getpwuid_r((uid_t)uid, &pw, text, sizeof(text), &found) != 0 || !found ||
	    strlen(pw.pw_name) >= AUTH_USER_SIZE)
		return NULL;
	names->slot[i].uid = uid;
	names->slot[i].set = 1;
	snprintf(names->slot[i].name, AUTH_USER_SIZE, "%s", pw.pw_name);
	return names->slot[i].name;
}

static int by_uid(struct auth *a, struct auth_names *names, uint32_t uid, struct identity *out, struct err *e)
{
	const char *name = name_of(names, uid);

	if (!name)
		return err_set(e, ERR_UNAUTHORIZED, "user id %u has no account on the machine of hearthd", uid);
	snprintf(out->user, sizeof(out->user), "%s", name);
	out->role = uid == 0 || uid == a->own_uid ? ROLE_ADMIN : ROLE_USER;
	account_of_user(a->accounts, out->user, uid == 0 ? FROM_ROOT : FROM_SOCKET, out->account);
	return 0;
}

/* ---- tokens ----------------------------------------------------------------------------------- */

static int by_stored(const struct auth_call *c, const char *hash, struct identity *out, struct err *e)
{
	struct token_row row;

	memset(&row, 0, sizeof(row));
	if (!c->reader || store_token_get(c->reader, hash, &row, NULL) < 0)
		return err_set(e, ERR_UNAUTHORIZED, "unknown token");
	if (row.expires_us && row.expires_us <= c->now_real_us)
		err_set(e, ERR_UNAUTHORIZED, "this token has expired");
	else if (row.kind && strcmp(row.kind, "job") == 0 && row.job) {
		out->role = ROLE_JOB;
		out->token_job = row.job;
	} else if (row.kind && strcmp(row.kind, "admin") == 0)
		out->role = ROLE_ADMIN;
	else if (row.kind && strcmp(row.kind, "user") == 0)
		out->role = ROLE_USER;
	else
		err_set(e, ERR_UNAUTHORIZED, "this token only joins a node; the API needs another one");
	if (out->role != ROLE_NONE)
		snprintf(out->user, sizeof(out->user), "%s", row.owner ? row.owner : "");
	token_row_fini(&row);
	return out->role == ROLE_NONE ? -1 : 0;
}

static int by_token(struct auth *a, const struct auth_call *c, struct identity *out, struct err *e)
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
	if (const_time_equal(hash, a->admin_hash, HASH_HEX_SIZE)) {
		snprintf(out->user, sizeof(out->user), "%s", a->admin_user);
		out->role = ROLE_ADMIN;
		return 0;
	}
	return by_stored(c, hash, out, e);
}

static int by_bearer(struct auth *a, const struct auth_call *c, struct identity *out, struct err *e)
{
	if (by_token(a, c, out, e) < 0)
		return -1;
	account_of_user(a->accounts, out->user, FROM_TCP, out->account);
	return 0;
}

/* ---- signed texts ----------------------------------------------------------------------------- */

static void mac_of(const struct auth *a, const char *text, size_t n, char out[HASH_HEX_SIZE])
{
	uint8_t mac[EVP_MAX_MD_SIZE];
	unsigned mac_n = 0;

	HMAC(EVP_sha256(), a->key, (int)sizeof(a->key), (const unsigned char *)text, n, mac, &mac_n);
	str_hex(mac, HASH_BYTES, out);
}

char *auth_sign(struct auth *a, char kind, const struct identity *who, uint64_t expires_real_us)
{
	char user[2 * AUTH_USER_SIZE + 1], nonce[17], mac[HASH_HEX_SIZE];
	cleanup_free char *text = NULL;

	str_hex((const uint8_t *)who->user, strlen(who->user), user);
	random_hex(nonce, 16);
	text = xasprintf("%c.%d.%s.%" PRIu64 ".%s", kind, (int)who->role, user, expires_real_us, nonce);
	mac_of(a, text, strlen(text), mac);
	return xasprintf("%s.%s", text, mac);
}

static int use_up(struct auth *a, const char *nonce)
{
	uint64_t v = strtoull(nonce, NULL, 16);

	return v == 0 || atomic_exchange(&a->used[v % CODE_SLOTS], v) == v ? -1 : 0;
}

int auth_verify(struct auth *a, char kind, const char *text, uint64_t now_real_us, struct identity *out,
                struct err *e)
{
	const char *dot = strrchr(text, '.');
	char mac[HASH_HEX_SIZE], user[2 * AUTH_USER_SIZE + 1], nonce[17], k;
	uint64_t expires;
	size_t n;
	int role, end = 0;

	if (!dot || strlen(dot + 1) != HASH_HEX_SIZE - 1 || strlen(text) > 512)
		return err_set(e, ERR_UNAUTHORIZED, "invalid session; log in again");
	mac_of(a, text, (size_t)(dot - text), mac);
	if (!const_time_equal(mac, dot + 1, HASH_HEX_SIZE - 1) ||
	    sscanf(text, "%c.%d.%256[0-9a-f].%" SCNu64 ".%16[0-9a-f].%n", &k, &role, user, &expires, nonce,
	           &end) != 5 ||
	    k != kind || (role != ROLE_USER && role != ROLE_ADMIN))
		return err_set(e, ERR_UNAUTHORIZED,
		               "invalid session; log in again (a restart of hearthd ends every session)");
	if (expires <= now_real_us)
		return err_set(e, ERR_UNAUTHORIZED, "this session has expired; log in again");
	if (kind == 'c' && use_up(a, nonce) < 0)
		return err_set(e, ERR_UNAUTHORIZED, "this login link was already used");
	n = strlen(user) / 2;
	if (n >= AUTH_USER_SIZE || str_unhex(user, (uint8_t *)out->user, n) < 0)
		return err_set(e, ERR_UNAUTHORIZED, "invalid session; log in again");
	out->user[n] = '\0';
	out->role = (enum user_role)role;
	return 0;
}

/* Value of our cookie in a Cookie header, malloc'ed; NULL none. */
static char *cookie_value(const char *header)
{
	size_t n = strlen(AUTH_COOKIE);

	while (header && *header) {
		header += strspn(header, " ;");
		if (strncmp(header, AUTH_COOKIE "=", n + 1) == 0)
			return xstrndup(header + n + 1, strcspn(header + n + 1, "; "));
		header = strchr(header, ';');
	}
	return NULL;
}

int auth_identify(struct auth *a, struct auth_names *names, const struct auth_call *c, struct identity *out,
                  struct err *e)
{
	cleanup_free char *cookie = NULL;

	memset(out, 0, sizeof(*out));
	if (c->authorization)
		return by_bearer(a, c, out,
		                 e); /* a token wins over the socket: a rank of root's job is not an administrator */
	if (c->is_unix)
		return by_uid(a, names, c->uid, out, e);
	cookie = cookie_value(c->cookie);
	if (!cookie)
		return 0;
	/* A stale cookie must not lock its owner out of the login page: it counts as nothing. */
	if (auth_verify(a, 's', cookie, c->now_real_us, out, NULL) < 0)
		memset(out, 0, sizeof(*out));
	else
		account_of_user(a->accounts, out->user, FROM_TCP, out->account);
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
