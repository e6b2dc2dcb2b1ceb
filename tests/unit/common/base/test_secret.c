/* secret: which names are, what texts, lists and JSON show. */
#include "common/base/secret.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

static void test_names(void)
{
	static const char *const secret[] = {"AWS_SECRET_ACCESS_KEY",
	                                     "api_key",
	                                     "GitToken",
	                                     "DB_PASSWORD",
	                                     "DB_PASS",
	                                     "PGPASSWORD",
	                                     "hf_token",
	                                     "SM_HP_HF_TOKEN",
	                                     "--hf-token",
	                                     "KEY",
	                                     "apikey",
	                                     "accessKeyId",
	                                     "MYSQL_PWD",
	                                     "passwd",
	                                     "OAUTH",
	                                     "auth",
	                                     "AUTH_HEADER",
	                                     "Authorization",
	                                     "aws_credentials",
	                                     "GCP_CREDS",
	                                     "passphrase",
	                                     "token2",
	                                     "TOKENS",
	                                     "APIKEYS",
	                                     "secret_size"};
	static const char *const open[] = {"monkey",
	                                   "tokenizer",
	                                   "TOKENIZERS_PARALLELISM",
	                                   "author",
	                                   "PATH",
	                                   "PWD",
	                                   "OLDPWD",
	                                   "keyring",
	                                   "keyboard",
	                                   "max_tokens",
	                                   "n_tokens",
	                                   "key_dim",
	                                   "tokens_per_batch",
	                                   "compass",
	                                   "bypass",
	                                   "passes",
	                                   "pass_through_rate_n",
	                                   "keep",
	                                   "hundred",
	                                   "lr",
	                                   ""};

	for (size_t i = 0; i < sizeof(secret) / sizeof(secret[0]); i++)
		ok(secret_name(secret[i]), "secret: %s", secret[i]);
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
		ok(!secret_name(open[i]), "not secret: '%s'", open[i]);
}

/* Each word of the rules, wherever it stands in a name, however it is written: the quick look that most names
 * are done with must let all of them through. */
static void test_anywhere(void)
{
	static const char *const words[] = {"secret", "passw",  "passphrase",    "credential",    "key",   "keys",
	                                    "token",  "tokens", "pass",          "pwd",           "creds", "cred",
	                                    "auth",   "apikey", "authorization", "authentication"};
	static const char *const around[][2] = {{"", "_x"},    {"a-", ""},   {"sekeypato_", "_"},
	                                        {"x1.", "22"}, {"k_", "=="}, {"\xc3\xa9_", "_\xc3\xa9"}};
	int missed = 0;

	for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)
		for (size_t a = 0; a < sizeof(around) / sizeof(around[0]); a++)
			for (int how = 0; how < 3; how++) {
				cleanup_free char *word = xstrdup(words[w]), *name = NULL;

				for (char *p = word; *p; p++)
					if (how == 2 || (how == 1 && p == word))
						*p = (char)(*p - 'a' + 'A');
				name = xasprintf("%s%s%s", around[a][0], word, around[a][1]);
				if (!secret_name(name)) {
					tap_diag("missed: %s", name);
					missed++;
				}
			}
	is_int(missed, 0, "every word of the rules is found in any place and case");
}

static void test_texts(void)
{
	static const char *const t[][2] = {
	    {"mpirun -x MY_TOKEN=abc -x A=b prog", "mpirun -x MY_TOKEN=*** -x A=b prog"},
	    {"export DB_PASS='a b'; run", "export DB_PASS=***; run"},
	    {"postgres://u:pw@host/db", "postgres://u:***@host/db"},
	    {"postgres://u:p@w@host/db", "postgres://u:***@host/db"},
	    {"clone https://ghp_abc@git.example/x now", "clone https://***@git.example/x now"},
	    {"https://host/a@b", "https://host/a@b"},
	    {"https://h/x?access_token=abc&y=1", "https://h/x?access_token=***&y=1"},
	    {"foo-token==1.2", "foo-token==1.2"},
	    {"max_tokens=5 lr=0.1", "max_tokens=5 lr=0.1"},
	    {"", ""},
	    {"key=", "key="}};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cleanup_free char *shown = secret_text(t[i][0]), *again = secret_text(shown);

		is_str(shown, t[i][1], t[i][0]);
		is_str(again, t[i][1], "masking twice is masking once");
	}
}

static void json_is(const char *in, int all, int hidden, const char *want)
{
	struct err e;
	cJSON *v = json_parse(in, strlen(in), &e);
	int n = secret_json(v, all);
	cleanup_free char *text = json_text(v);

	is_str(text, want, in);
	is_int(n, hidden, "counted");
	cJSON_Delete(v);
}

static void test_json(void)
{
	json_is(
	    "{\"name\":\"a\",\"secrets\":[\"WANDB_API_KEY\"],\"environment\":{\"API_KEY\":\"x\",\"A\":\"b\","
	    "\"DATABASE_URL\":\"postgres://u:pw@h\"}}",
	    0, 2,
	    "{\"name\":\"a\",\"secrets\":[\"WANDB_API_KEY\"],\"environment\":{\"API_KEY\":\"***\",\"A\":\"b\","
	    "\"DATABASE_URL\":\"postgres://u:***@h\"}}");
	json_is(
	    "{\"spec\":{\"hyperparameters\":{\"hf_token\":\"x\",\"pin_password\":123,\"max_tokens\":5,\"opts\":{"
	    "\"api_key\":[1]}}}}",
	    0, 3,
	    "{\"spec\":{\"hyperparameters\":{\"hf_token\":\"***\",\"pin_password\":\"***\",\"max_tokens\":5,"
	    "\"opts\":{\"api_key\":\"***\"}}}}");
	json_is("{\"command\":[\"python\",\"t.py\",\"--hf_token\",\"x\",\"--api-key=y\",\"--verbose-auth\",\"--"
	        "lr\",\"1\"]}",
	        0, 2,
	        "{\"command\":[\"python\",\"t.py\",\"--hf_token\",\"***\",\"--api-key=***\",\"--verbose-auth\","
	        "\"--lr\","
	        "\"1\"]}");
	json_is("{\"key\":\"kept\",\"token\":null}", 0, 0, "{\"key\":\"kept\",\"token\":null}");
}

static void value_is(const char *name, const char *value, const char *want)
{
	cleanup_free char *shown = secret_value(name, value);

	is_str(shown, want, name);
}

static void test_values(void)
{
	value_is("SM_HPS", "{\"lr\":1e-04,\"hf_token\":\"x\"}", "{\"lr\":0.0001,\"hf_token\":\"***\"}");
	value_is("SM_HPS", "{\"lr\":1e-04}", "{\"lr\":1e-04}");
	value_is("SM_USER_ARGS", "[\"--hf_token\",\"x\"]", "[\"--hf_token\",\"***\"]");
	value_is("SM_TRAINING_ENV", "{\"hyperparameters\":{\"hf_token\":\"x\"}}",
	         "{\"hyperparameters\":{\"hf_token\":\"***\"}}");
	value_is("SM_HP_HF_TOKEN", "x", "***");
	value_is("DATABASE_URL", "postgres://u:pw@host", "postgres://u:***@host");
	value_is("ODD", "{not json: API_KEY=x", "{not json: API_KEY=***");
	value_is("RANK", "3", "3");
}

int main(void)
{
	test_names();
	test_anywhere();
	test_texts();
	test_json();
	test_values();
	return tap_done();
}
