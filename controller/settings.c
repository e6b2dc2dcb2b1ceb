/*
 * settings: the table. Durations are written as 90s, 5m, 2h, 7d.
 */
#include "controller/settings.h"
#include <stddef.h>

static const struct conf_item items[] = {
    {"listen", CONF_STRING, "127.0.0.1:7070", NULL, NULL,
     "HOST:PORT; off loopback always TLS; port 0 takes any free one"},
    {"server_names", CONF_STRING, "", NULL, NULL,
     "further names and addresses for the server certificate, comma separated"},
    {"url", CONF_STRING, "", NULL, NULL, "what jobs get as HEARTH_URL; empty: made of listen"},
    {"io_threads", CONF_INT, "2", "1", "64", "threads for HTTP and agents' bulk connections"},
    {"owner", CONF_STRING, "", NULL, NULL,
     "user who owns jobs submitted with the admin token; empty: the account of hearthd"},
    {"run_as", CONF_STRING, "", NULL, NULL,
     "Unix account that runs jobs of users who come with a token, and pairs USER=ACCOUNT; %u is the user's "
     "name"},
    {"web_dir", CONF_STRING, "", NULL, NULL, "dashboard files from this folder instead of the built-in ones"},
    {"log_level", CONF_STRING, "info", NULL, NULL, "debug, info, warn or error"},
    {"beat", CONF_DURATION, "1s", "100ms", "60s",
     "how often agents give a sign of life; at most a sixth of the lease"},
    {"lease", CONF_DURATION, "10s", "1s", "10m",
     "how long an agent may go without an answer; a quarter later, 0.75 to 2 s, a silent node is lost"},
    {"max_runtime_default", CONF_DURATION, "1d", "1s", "365d", "time limit of jobs that ask for none"},
    {"max_runtime_limit", CONF_DURATION, "30d", "1s", "365d", "longest time limit a job may ask for"},
    {"prepare_timeout", CONF_DURATION, "10m", "1s", "1d",
     "a node that makes no progress in staging, or uploading, for so long is given up"},
    {"prepare_limit", CONF_DURATION, "4h", "1s", "30d",
     "how long an attempt may prepare at most, from its placement until all nodes are ready"},
    {"ready_timeout", CONF_DURATION, "30s", "1s", "1h",
     "from the order to start to the first rank that runs, and 100 ms more for each further node"},
    {"rendezvous_timeout", CONF_DURATION, "5m", "1s", "1h",
     "the same under torchrun, which imports torch before it starts a rank"},
    {"grace", CONF_DURATION, "30s", "1s", "1d",
     "from the request to end to the kill, where a job does not say"},
    {"warm_keep_alive_max", CONF_DURATION, "6h", "1s", "28d",
     "longest time that a warm pool waits for a job; a longer request is shortened"},
    {"warm_chain_max", CONF_DURATION, "28d", "1s", "365d",
     "longest life of a warm pool and of those that follow it, from the end of the first job"},
    {"warm_parked", CONF_BOOL, "yes", NULL, NULL, "idle warm pools hold a launch ready for the next job"},
    {"queue_limit", CONF_INT, "2000000", "1", "10000000", "unfinished jobs at most"},
    {"backfill", CONF_STRING, "easy", NULL, NULL,
     "who may pass a waiting job that does not fit: none, easy (who does not make it later), conservative "
     "(who makes "
     "no waiting job later)"},
    {"starve_after", CONF_DURATION, "7d", NULL, NULL,
     "a job that has waited so long goes before fair share, and has a place kept; 0 = never"},
    {"port_lo", CONF_INT, "20000", "1024", "65535",
     "first port for MASTER_PORT, for nodes that name no range"},
    {"port_hi", CONF_INT, "29999", "1024", "65535", "last one"},
    {"keep_logs", CONF_DURATION, "90d", NULL, NULL, "logs of ended jobs are removed after this; 0 = never"},
    {"keep_bundles", CONF_DURATION, "180d", NULL, NULL, "source bundles of ended jobs; 0 = never"},
    {"keep_metrics", CONF_DURATION, "365d", NULL, NULL, "metric points of ended jobs; 0 = never"},
    {"keep_artifacts", CONF_DURATION, "0", NULL, NULL,
     "models and outputs in hearthd's own store; 0 = never"},
    {"max_log_stream_mb", CONF_INT, "1024", "0", "1073741824",
     "MiB that a log stream may have; of a longer one the oldest middle is dropped; 0: any number"},
    {"max_log_job_mb", CONF_INT, "10240", "0", "1073741824",
     "MiB that all logs of a job may have; above, a stream may have 8 MiB; 0: any number"},
    {"max_log_user_mb", CONF_INT, "102400", "0", "1073741824",
     "the same for the logs of all running jobs of a user"},
    {"max_series_job", CONF_INT, "10000", "0", "1000000",
     "series of metrics (name and rank) that an attempt may report; 0: any number"},
    {"max_series_user", CONF_INT, "100000", "0", "10000000", "the same for all running jobs of a user"},
    {"max_artifacts_job_mb", CONF_INT, "1048576", "0", "1073741824",
     "MiB of outputs that an attempt may leave in hearthd's store; 0: any number"},
    {"max_artifacts_user_mb", CONF_INT, "4194304", "0", "1073741824",
     "the same for all running jobs of a user"},
    {"failure_patterns", CONF_STRING, "", NULL, NULL,
     "file with rules for lines of failures, which come before the built-in ones; read again when it "
     "changes"},
    {"min_free_mb", CONF_INT, "-1", "-1", "1048576",
     "MiB free on the data folder's disk below which no new work is accepted; 0: no such mark; -1: 64, or 5 "
     "% "
     "of "
     "the disk where that is less"},
    {"network_data", CONF_BOOL, "no", NULL, NULL,
     "start although the data folder lies on a network file system"},
    {NULL, CONF_STRING, NULL, NULL, NULL, NULL},
};

struct conf *settings_load(const struct controller_options *o, struct err *e)
{
	struct conf *c = conf_create(items);

	if (o->config_file && conf_load(c, o->config_file, e) < 0) {
		conf_destroy(c);
		return NULL;
	}
	for (size_t i = 0; i < o->sets.n; i++) {
		if (conf_set(c, o->sets.v[i], e) < 0) {
			conf_destroy(c);
			return NULL;
		}
	}
	return c;
}
