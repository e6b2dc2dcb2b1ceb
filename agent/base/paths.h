/*
 * paths: where things of one launch are.
 *
 * Directories of one launch (job J, attempt A; paths are short because of unix sockets):
 * - RUN/J.A/ on tmpfs, 0700: plan (what was ordered), and a folder for each process with launch, state, ctl:
 *   rank-L/ (L: local rank), orted/, mpirun/, and build/, packages/ for the agent's own (launch_inside.c)
 * - DATA/jobs/J.A/: ml/{code,input/config,input/data/CHANNEL,model,output/data,output,checkpoints},
 *   private/tmp/ (/tmp inside the container), tmp/ and shm/ (in place of it without one), logs/STREAM/
 * - DATA/cache/{blobs,trees,inputs,venvs}
 *
 * RUN is /run/hearth/NAME as root, else $XDG_RUNTIME_DIR/hearth/NAME, else /tmp/hearth-UID/NAME, or --run;
 * NAME = node name, cut short, and a digest of node name and DATA, so that two agents of one name on one
 * machine do not meet. Where there are namespaces the container shows DATA/jobs/J.A/ml as /opt/ml; else ranks
 * get the real path in SM_* and HEARTH_* variables.
 */
#ifndef HEARTH_AGENT_BASE_PATHS_H
#define HEARTH_AGENT_BASE_PATHS_H

struct launch_paths {
	char *run;     /* RUN/J.A */
	char *work;    /* DATA/jobs/J.A */
	char *ml;      /* DATA/jobs/J.A/ml: real path */
	char *ml_seen; /* what the ranks see: /opt/ml in a container, else ml */
};

#endif
