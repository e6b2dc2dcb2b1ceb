/*
 * main: hearthd's arguments, nothing else.
 */
#include "common/base/fault.h"
#include "controller/controller.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "Usage: hearthd --data DIR [--listen HOST:PORT] [--config FILE] [--set KEY=VALUE]...\n"
    "       hearthd --data DIR --verify | --backup FILE\n"
    "\n"
    "  --data DIR         where records, logs and keys are kept; made when missing\n"
    "  --listen HOST:PORT default 127.0.0.1:7070; off loopback always with TLS\n"
    "  --config FILE      settings, see hearth.conf(5)\n"
    "  --set KEY=VALUE    one setting; wins over the file\n"
    "  --verify           checks the records (also beside a running hearthd); exit code 1 when something is "
    "found\n"
    "  --backup FILE      writes a checked copy of the records, also beside a running hearthd\n"
    "  --show-config      prints all settings and where each comes from\n"
    "  --version, --help\n";

enum {
	OPT_DATA = 1,
	OPT_LISTEN,
	OPT_CONFIG,
	OPT_SET,
	OPT_VERIFY,
	OPT_BACKUP,
	OPT_SHOW,
	OPT_VERSION,
	OPT_HELP
};
static const struct option options[] = {
    {"data", required_argument, NULL, OPT_DATA},     {"listen", required_argument, NULL, OPT_LISTEN},
    {"config", required_argument, NULL, OPT_CONFIG}, {"set", required_argument, NULL, OPT_SET},
    {"verify", no_argument, NULL, OPT_VERIFY},       {"backup", required_argument, NULL, OPT_BACKUP},
    {"show-config", no_argument, NULL, OPT_SHOW},    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},           {NULL, 0, NULL, 0},
};

static int wrong(const char *text)
{
	fprintf(stderr, "hearthd: %s\n%s", text, usage);
	return 2;
}

static int failed(const struct err *e)
{
	fprintf(stderr, "hearthd: %s\n", e->text);
	return 1;
}

static int run(const struct controller_options *o, int verify, int show, const char *backup)
{
	struct err e = {.code = ERR_NONE};
	int n;

	if (show) {
		char *text = controller_config_text(o, &e);

		if (!text)
			return failed(&e);
		fputs(text, stdout);
		free(text);
		return 0;
	}
	if (backup)
		return controller_backup(o, backup, &e) < 0 ? failed(&e) : 0;
	if (verify) {
		n = controller_verify(o, &e);
		if (n < 0)
			return failed(&e);
		printf("%d finding%s\n", n, n == 1 ? "" : "s");
		return n != 0;
	}
	return controller_run(o, &e) < 0 ? failed(&e) : 0;
}

int main(int argc, char **argv)
{
	struct controller_options o = {0};
	int c, verify = 0, show = 0, rc;
	const char *backup = NULL;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case OPT_DATA:
			o.data_dir = optarg;
			break;
		case OPT_LISTEN:
			o.listen = optarg;
			break;
		case OPT_CONFIG:
			o.config_file = optarg;
			break;
		case OPT_SET:
			strv_add(&o.sets, optarg);
			break;
		case OPT_VERIFY:
			verify = 1;
			break;
		case OPT_BACKUP:
			backup = optarg;
			break;
		case OPT_SHOW:
			show = 1;
			break;
		case OPT_VERSION:
			printf("hearthd %s\n", PACKAGE_VERSION);
			return 0;
		case OPT_HELP:
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (optind < argc)
		return wrong("unexpected argument");
	if (!o.data_dir && !show)
		return wrong("--data DIR is missing");
#ifdef HEARTH_FAULTS
	if (getenv("HEARTH_FAULTS") && fault_arm_env(getenv("HEARTH_FAULTS")) < 0)
		return wrong("HEARTH_FAULTS: unknown failpoint");
#endif
	rc = run(&o, verify, show, backup);
	strv_fini(&o.sets);
	return rc;
}
