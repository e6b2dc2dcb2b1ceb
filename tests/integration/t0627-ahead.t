#!/bin/bash
# A spare makes the environment of a running job and downloads its inputs ahead, once, as the job's account and at low priority: the next attempt builds and downloads nothing.
# What is built ahead ends with its job and with its agent.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
/usr/bin/python3 -c 'import setuptools, pip, venv' 2>/dev/null || skip_all "no pip and setuptools for /usr/bin/python3"
# shellcheck disable=SC2034 # for cluster.sh
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 3 && cluster_hearth --slots 2 --fake-gpus 1 || bail "no cluster"
seen=$(mktemp -d /srv/hcXXXXXX)
trap 'cluster_down; rm -rf "$seen"' EXIT
chmod 1777 "$seen"
show() { hearth show "$1" --json | jq -r "$2"; }
ended() { case $(show "$1" .status) in completed | failed | stopped) ;; *) return 1 ;; esac; }
running() { [ "$(show "$1" .status)" = running ]; }
saved() { [ "$(hearth checkpoints "$1" --json | jq '[.checkpoints[] | select(.complete and all(.places[]; .state == "verified")) | .step] | max // 0')" -ge "$2" ]; }
ahead() { grep "event=env_ahead job=$1 " "$CLUSTER/agent-host3.log"; }
setup_log() { hearth logs "$1" --stream "setup-algo-$3" --attempt "$2" 2>/dev/null; } # JOB ATTEMPT NODE-OF-JOB
gets() { grep -c "^10.77.0.3 " "$CLUSTER/gets"; }
package() { # NAME PYTHON: a source tree whose requirement is a package with that in its setup.py
	mkdir -p "$CLUSTER/$1/pkg"
	cp "$HEARTH_TOP_SRCDIR/tests/programs/train.py" "$CLUSTER/$1/"
	printf '%s\n' --no-index ./pkg >"$CLUSTER/$1/requirements.txt"
	printf 'VALUE = 7\n' >"$CLUSTER/$1/pkg/of_$1.py"
	{ printf '%s\n' "$2"; printf 'from setuptools import setup\nsetup(name="of_%s", version="1.0", py_modules=["of_%s"])\n' "$1" "$1"; } >"$CLUSTER/$1/pkg/setup.py"
	chmod -R a+rX "$CLUSTER/$1"
}
submit() { # NAME COMMAND(JSON) MORE(JSON)
	jq -n --arg n "$1" --arg d "$CLUSTER/$1" --argjson c "$2" --argjson m "$3" '{name: $n, source_dir: $d, requirements: "requirements.txt", launcher: "direct", command: $c,
		environment: {PIP_NO_BUILD_ISOLATION: "0", PIP_CACHE_DIR: "/tmp/pip", TRAIN_LATER: "0.05"}, resources: {instances: 2, gpus_per_instance: 1}} + $m' >"$CLUSTER/$1.json"
	chmod 644 "$CLUSTER/$1.json"
	cluster_as nobody submit "$CLUSTER/$1.json"
}

# --- an exchange ---------------------------------------------------------------------------------------------------
ok "a node is a spare" hearth node spare host3
mkdir "$CLUSTER/web"
head -c 3000000 /dev/urandom >"$CLUSTER/web/rows"
digest=$(sha256sum "$CLUSTER/web/rows" | cut -d' ' -f1)
cat >"$CLUSTER/web.py" <<'P'
import functools, http.server, sys
class H(http.server.SimpleHTTPRequestHandler):
    def log_request(self, code=0, size=0):
        print(self.client_address[0], self.path, code, file=open(sys.argv[2], "a"), flush=True)
http.server.ThreadingHTTPServer(("10.77.0.200", 8000), functools.partial(H, directory=sys.argv[1])).serve_forever()
P
: >"$CLUSTER/gets"
cluster_spawn head web /usr/bin/python3 "$CLUSTER/web.py" "$CLUSTER/web" "$CLUSTER/gets"
package lost '
import os, sys
if "bdist_wheel" in sys.argv or "install" in sys.argv:
	with open("'"$seen"'/built", "a") as f:
		print(os.uname().nodename, os.getuid(), os.nice(0), len(os.environ["HEARTH_TOKEN_LAUNCH"]) > 8, os.getcwd(), open("/proc/self/oom_score_adj").read().strip(), file=f)
'
job=$(submit lost '["python", "train.py", "30", "20", "0.5"]' '{"inputs": {"rows": {"uri": "http://10.77.0.200:8000/rows", "sha256": "'"$digest"'"}}, "metrics": [{"name": "step", "regex": "step=([0-9]+)"}]}')
ok "the spare works ahead for the running job" wait_until 60 ahead "$job"
like "$(ahead "$job")" 'code=0 .*environment [0-9a-f]{12} is ready' "it makes the environment"
like "$(grep -c "^host3 " "$seen/built")" "^[1-9]" "by the code of the requirement"
is "$(grep "^host3 " "$seen/built" | sort -u)" "host3 $(id -u nobody) 19 True /opt/ml/code/pkg 1000" "as the job's account, in a container, marked, after all other jobs"
is "$(grep "^host[12] " "$seen/built" | cut -d' ' -f3,6 | sort -u)" "0 0" "which launches do not do"
is "$(gets)" 1 "it downloads the input"
ok "a checkpoint has a verified copy" wait_until 60 saved "$job" 20
builds=$(grep -c "^host3 " "$seen/built")
victim=$(show "$job" '.attempts[0].nodes[1]')
cluster_power_off "$victim"
ok "the job ends" wait_until 120 ended "$job"
is "$(show "$job" '"\(.status) \(.attempt_count)"')" "completed 2" "it has completed in two attempts"
place=$(show "$job" '.attempts[1].nodes | index("host3") + 1')
like "$(setup_log "$job" 2 "$place")" "requirements: the environment [0-9a-f]{12} is here already" "the second finds the environment on the spare"
like "$(setup_log "$job" 2 "$place")" "the copy on this node has the right checksum" "and the input"
is "$(grep -c "^host3 " "$seen/built") $(gets)" "$builds 1" "nothing is built or downloaded again"
is "$(ahead "$job" | wc -l)" 1 "the spare worked ahead once"
cluster_clean "after a host has died"

# --- a build that does not end -------------------------------------------------------------------------------------
package waits '
import os, time
if os.uname().nodename == "host3":
	open("'"$seen"'/began", "a").close()
	if os.fork() == 0:
		os.setsid()
		os.execv("/bin/sleep", ["daemon-of-ahead", "6000"])
	time.sleep(600)
'
job=$(submit waits '["/bin/sleep", "600"]' '{"resources": {"gpus_per_instance": 1}}')
ok "the spare begins a build" wait_until 60 test -e "$seen/began"
cluster_signal agent-host3 KILL
wait_until 10 cluster_gone agent-host3
ok "which ends with its agent" wait_until 10 eval '! pgrep -f daemon-of-ahead >/dev/null'
rm "$seen/began"
cluster_agent host3 --slots 2 --fake-gpus 1
ok "the next agent begins again" wait_until 60 test -e "$seen/began"
hearth stop "$job" >/dev/null
ok "the job is stopped" wait_until 30 ended "$job"
cluster_clean "after a job whose environment was being made"
cluster_down
rm -rf "$seen"
done_testing
