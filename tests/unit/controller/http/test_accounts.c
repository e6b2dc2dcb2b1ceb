/*
 * Which account runs whose jobs: the setting run_as, by the way in which a user comes.
 */
#include <string.h>

#include "controller/http/accounts.h"
#include "tests/lib/tap.h"

static struct accounts *rules(const char *run_as)
{
	struct err e;
	struct accounts *a = accounts_parse(run_as, &e);

	if (!a)
		tap_bail("%s: %s", run_as, e.text);
	return a;
}

static void test_rules(void)
{
	static const struct {
		const char *run_as, *user;
		enum account_source from;
		const char *account, *what;
	} cases[] = {
	    {"", "ada", FROM_SOCKET, "ada", "without a setting: a user's own account"},
	    {"", "ada", FROM_TCP, "ada", "without a setting: by token, too"},
	    {"hearth", "ada", FROM_TCP, "hearth", "one account for everybody who comes by token"},
	    {"hearth", "root", FROM_TCP, "hearth", "the administrator's token as well"},
	    {"hearth", "ada", FROM_SOCKET, "ada", "the kernel's word counts more"},
	    {"hearth", "root", FROM_ROOT, "hearth", "but root is nobody's account for jobs"},
	    {"hearth ada=alice", "ada", FROM_TCP, "alice", "a pair"},
	    {"hearth ada=alice", "ada", FROM_SOCKET, "alice", "a pair counts everywhere"},
	    {"hearth, ada=alice, bob=%u", "bob", FROM_TCP, "bob", "commas; %u is the user's name"},
	    {"%u", "ada", FROM_TCP, "ada", "%u for everybody"},
	    {"ada=alice", "bob", FROM_TCP, "", "pairs alone: others have no account"},
	    {"ada=alice", "root", FROM_ROOT, "", "nor has root"},
	    {"ada=alice", "bob", FROM_SOCKET, "bob", "but who comes over the socket has"},
	    {"root=root", "root", FROM_ROOT, "root", "root runs as root only where a pair says so"},
	};
	char out[ACCOUNT_NAME_SIZE];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct accounts *a = rules(cases[i].run_as);

		account_of_user(a, cases[i].user, cases[i].from, out);
		is_str(out, cases[i].account, cases[i].what);
		accounts_destroy(a);
	}
	account_of_user(NULL, "ada", FROM_TCP, out);
	is_str(out, "ada", "no rules at all");
}

static void test_long_user(void)
{
	struct accounts *a = rules("%u");
	char user[ACCOUNT_NAME_SIZE + 8], out[ACCOUNT_NAME_SIZE];

	memset(user, 'a', sizeof(user) - 1);
	user[sizeof(user) - 1] = '\0';
	account_of_user(a, user, FROM_TCP, out);
	is_str(out, "", "a name that is too long for an account is not cut short to another one");
	accounts_destroy(a);
}

static void test_refused(void)
{
	static const struct {
		const char *run_as, *says;
	} cases[] = {
	    {"hearth other", "only one account"},
	    {"ada=", "account is empty"},
	    {"=hearth", "user is empty"},
	    {"ada=../x", "must begin with"},
	    {"a/b", "may only hold"},
	    {"ada=alice ada=bob", "appears twice"},
	};
	struct err e;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct accounts *a = accounts_parse(cases[i].run_as, &e);

		ok(!a && e.code == ERR_INVALID && strstr(e.text, "run_as") && strstr(e.text, cases[i].says), "%s: %s",
		   cases[i].run_as, a ? "accepted" : e.text);
		accounts_destroy(a);
	}
}

static void test_start(void)
{
	struct err e;

	ok(accounts_check_start("", 1, 0, "10.0.0.1:7070", &e) < 0, "root, open to other machines, no account");
	ok(strstr(e.text, "10.0.0.1:7070") && strstr(e.text, "useradd -m hearth") &&
	       strstr(e.text, "--set run_as=hearth"),
	   "the next steps are named: %s", e.text);
	ok(accounts_check_start("  ", 1, 0, "10.0.0.1:7070", &e) < 0, "blanks are no account");
	ok(accounts_check_start("hearth", 1, 0, "10.0.0.1:7070", &e) == 0, "with an account it starts");
	ok(accounts_check_start("", 1, 1, "127.0.0.1:7070", &e) == 0,
	   "on loopback it starts: agents refuse root");
	ok(accounts_check_start("", 0, 0, "10.0.0.1:7070", &e) == 0, "so does an ordinary user's hearthd");
}

int main(void)
{
	test_rules();
	test_long_user();
	test_refused();
	test_start();
	return tap_done();
}
