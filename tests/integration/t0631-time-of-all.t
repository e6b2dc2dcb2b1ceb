#!/bin/bash
# limits.max_runtime_s bounds all attempts together: a program that is killed again and again ends when their sum has reached it, also over a restart of
# hearthd.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 1 && cluster_hearth --slots 4 || bail "no cluster"
# Each attempt leaves a checkpoint, so the restarts have no back-off. The program ends itself by KILL after 3 s.
cat >"$CLUSTER/dies.sh" <<'X'
n=${HEARTH_ATTEMPT:?}
mkdir "$HEARTH_CHECKPOINT_DIR/.new" && echo "$n" >"$HEARTH_CHECKPOINT_DIR/.new/state" && mv "$HEARTH_CHECKPOINT_DIR/.new" "$HEARTH_CHECKPOINT_DIR/step-${n}00"
sleep 3
kill -KILL $$
X
printf '{"name": "dies", "command": ["/bin/bash", "dies.sh"], "source_dir": "%s/src", "launcher": "direct", "retry": {"max_attempts": 50}, "limits": {"max_runtime_s": 18, "grace_s": 1}}\n' "$CLUSTER" >"$CLUSTER/job.json"
mkdir -p "$CLUSTER/src" && mv "$CLUSTER/dies.sh" "$CLUSTER/src/"
show() { hearth show "$1" --json | jq -r "$2"; }
ended() { case $(show "$1" .status) in completed | failed | stopped) ;; *) return 1 ;; esac; }
attempts() { [ "$(show "$1" .attempt_count)" -ge "$2" ]; }

job=$(hearth submit "$CLUSTER/job.json")
ok "the program is killed, and a second attempt follows" wait_until 60 attempts "$job" 2
kill -KILL "$(cat "$CLUSTER/hearthd.pid")"
ok "hearthd is killed" wait_until 30 cluster_gone hearthd
ok "and starts again" cluster_hearthd
ok "the job ends" wait_until 90 ended "$job"
is "$(show "$job" .status)" failed "it has failed"
like "$(show "$job" .reason)" "time limit of 18s|limits.max_runtime_s is used up" "by its time limit, which the reason names"
ok "after several attempts" attempts "$job" 3
sum=$(show "$job" 'def us: sub("\\..*Z$"; "Z") | fromdateiso8601; [.attempts[] | (.phases[-1].started_at | us) - (.started_at | us)] | add')
ok "all attempts together had their places for 18 s, up to the last kill ($sum s)" test "$sum" -ge 16 -a "$sum" -le 23
cluster_clean
done_testing
