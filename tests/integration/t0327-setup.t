#!/bin/bash
# requirements.txt runs code of the job's owner: a setup.py is inside the job's control group, container and memory limit, carries its mark, gains no rights, and what it
# leaves running is gone before the job starts.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
/usr/bin/python3 -c 'import setuptools, pip, venv' 2>/dev/null || skip_all "no pip and setuptools for /usr/bin/python3"
cluster_up 1 && cluster_hearth --slots 4 || bail "no cluster"
seen=$(mktemp -d /srv/hcXXXXXX)
trap 'cluster_down; rm -rf "$seen"' EXIT
chmod 1777 "$seen"

as_nobody() {
	cluster_as nobody "$@"
}
package() { # NAME PYTHON: the source tree of a job whose requirement is a package with that in its setup.py
	mkdir -p "$CLUSTER/$1/pkg"
	printf '%s\n' --no-index ./pkg >"$CLUSTER/$1/requirements.txt"
	printf 'VALUE = 7\n' >"$CLUSTER/$1/pkg/of_$1.py"
	{ printf '%s\n' "$2"; printf 'from setuptools import setup\nsetup(name="of_%s", version="1.0", py_modules=["of_%s"])\n' "$1" "$1"; } >"$CLUSTER/$1/pkg/setup.py"
	chmod -R a+rX "$CLUSTER/$1"
}
submit() { # NAME SCRIPT RESOURCES
	jq -n --arg n "$1" --arg d "$CLUSTER/$1" --arg c "$2" --argjson r "${3:-{\}}" '{name: $n, source_dir: $d, requirements: "requirements.txt", launcher: "direct",
		environment: {PIP_NO_BUILD_ISOLATION: "0", PIP_CACHE_DIR: "/tmp/pip"}, command: ["/bin/sh", "-c", $c], limits: {max_runtime_s: 120, grace_s: 1}, resources: $r}' >"$CLUSTER/$1.json"
	chmod 644 "$CLUSTER/$1.json"
	as_nobody submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
setup_log() { hearth logs "$1" --stream setup --node 1 2>&1; }
completes() { # JOB DESCRIPTION
	hearth wait "$1" --timeout 120 >/dev/null
	is "$(show "$1" .status)" completed "$2"
	[ "$(show "$1" .status)" = completed ] || diag "$(show "$1" .reason)" "$(setup_log "$1" | tail -20)"
}

grouped=0
# --- a daemon -----------------------------------------------------------------------------------------------
package stays '
import os, time
report = "\n".join(["uid %d" % os.getuid(), "mark " + os.environ.get("HEARTH_TOKEN_LAUNCH", "none"), "tmp " + " ".join(sorted(os.listdir("/opt/ml"))), "cwd " + os.getcwd()]
	+ [l.rstrip() for f in ("cgroup", "status") for l in open("/proc/self/" + f) if f == "cgroup" or l.startswith("NoNewPrivs")])
if os.fork() == 0:
	os.setsid()
	if os.fork() == 0:
		for fd in range(256):
			try: os.close(fd)
			except OSError: pass
		f = os.open("'"$seen"'/report", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
		os.write(f, report.encode() + b"\n")
		os.close(f)
		os.execv("/bin/sleep", ["daemon-of-setup", "6000"])
	os._exit(0)
while not os.path.exists("'"$seen"'/report"): time.sleep(0.05)
import sysconfig
# Every python of the environment says where it runs; the one that lists the packages has neither variable.
with open(sysconfig.get_paths()["purelib"] + "/ours.pth", "w") as f:
	f.write("import os; open(\"'"$seen"'/pythons\", \"a\").write(\"%s mark=%d %s\\n\" % (\"other\" if {\"SM_MODEL_DIR\", \"VIRTUAL_ENV\"} & set(os.environ) else \"list\", \"HEARTH_TOKEN_LAUNCH\" in os.environ, open(\"/proc/self/cgroup\").read().replace(\"\\n\", \" \") + str(os.path.isdir(\"/opt/ml/model\"))))\n")
'
# shellcheck disable=SC2016 # the job's shell expands
id=$(submit stays 'pgrep -a -f daemon-of-setup | grep -v pgrep | sed s/^/left:/; id -u; python3 -c "import of_stays; print(of_stays.VALUE)"; touch $(dirname $(command -v python3))/changed 2>&1 | tr -d "\n" | tail -c 17; head -c 100 /proc/self/cgroup >/dev/null')
completes "$id" "a job whose setup.py leaves a daemon completes"
is "$(hearth logs "$id" | head -2 | paste -sd' ')" "$(id -u nobody) 7" "it finds its package, and the daemon is gone before it starts"
like "$(hearth logs "$id")" "Permission denied" "it cannot change the environment, which other jobs share"
report=$(cat "$seen/report")
like "$report" "^uid $(id -u nobody)\$" "setup.py runs as the job's account"
like "$report" "^mark [0-9a-f]{16}" "with the launch's mark"
like "$report" "^tmp checkpoints code input model" "in the job's container"
like "$report" "^NoNewPrivs:	1" "without new privileges"
if cluster_in host1 grep -q . /proc/self/cgroup && [ -n "$(find /sys/fs/cgroup -maxdepth 3 -type d -name hearth 2>/dev/null | head -n 1)" ]; then
	grouped=1
	like "$report" "/hearth/host1-[0-9a-f]{8}/$id\\.1\$" "in the job's control group"
else
	skip "the control group of setup.py" "no control groups that can be written to"
fi
like "$(setup_log "$id")" "Successfully (built|installed) of_stays|Successfully installed of-stays" "pip's output is in the setup stream"
is "$(pgrep -f daemon-of-setup)" "" "nothing of it is left on the machine"
like "$(grep ^list "$seen/pythons")" "^list mark=1 .*True\$" "the list of packages is made in the container, with the mark"
if [ "$grouped" = 1 ]; then like "$(grep ^list "$seen/pythons")" "/hearth/host1-[0-9a-f]{8}/$id\.1 " "and in the control group"; fi
listed() {
	/usr/bin/python3 -c 'import sqlite3, sys
for row in sqlite3.connect("file:%s?mode=ro" % sys.argv[1], uri=True).execute("SELECT text FROM run_info WHERE job = ? AND kind = ?", (sys.argv[2], "pip")): print(*row)' "$CLUSTER/head/data/hearth.db" "$id"
}
like "$(listed)" "of.stays==1.0" "the record of the run has it, although the run was short"
rm -f "$seen/report"
id=$(submit stays 'true')
completes "$id" "a second job uses the environment"
nok "which is not made again" test -e "$seen/report"
like "$(setup_log "$id")" "is here already" "the setup stream says so"

# --- the agent dies while it lists packages -----------------------------------------------------------------
package lists '
import sysconfig
with open(sysconfig.get_paths()["purelib"] + "/slow.pth", "w") as f:
	f.write("import os, time; {\"SM_MODEL_DIR\", \"VIRTUAL_ENV\"} & set(os.environ) or (open(\"'"$seen"'/listing\", \"w\"), time.sleep(600))\n")
'
# shellcheck disable=SC2016
id=$(submit lists 'python -c "import of_lists"; for i in $(seq 600); do [ -e '"$seen"'/enough ] && break; sleep 0.1; done')
wait_until 60 test -e "$seen/listing"
cluster_signal agent-host1 KILL
wait_until 10 cluster_gone agent-host1
cluster_agent host1 --slots 4
wait_until 20 cluster_node_up host1
touch "$seen/enough"
completes "$id" "a job goes on when its agent dies while it lists the packages"
is "$(show "$id" '.attempts | length')" 1 "in its first attempt"
rm "$seen/listing" "$seen/enough"
began=$EPOCHSECONDS
id=$(submit lists 'python -c "import of_lists"; while [ ! -e '"$seen"'/listing ]; do sleep 0.1; done')
completes "$id" "a list that does not end does not keep its job"
[ $((EPOCHSECONDS - began)) -lt 60 ]
tap_result $? "for more than a moment"

# --- memory, beside a neighbour ------------------------------------------------------------------------------
package eats '
x = []
for i in range(1024): x.append(bytearray(b"x" * (1 << 20)))
'
mkdir -p "$CLUSTER/neighbour" && : >"$CLUSTER/neighbour/requirements.txt"
chmod -R a+rX "$CLUSTER/neighbour"
beside=$(submit neighbour 'for i in $(seq 100); do [ -e '"$seen"'/over ] && break; sleep 0.3; done; echo well')
id=$(submit eats 'true' '{"memory": "200MiB"}')
hearth wait "$id" --timeout 120 >/dev/null
like "$(show "$id" '.status + " " + .reason')" "^failed .*pip install -r requirements.txt: .*lack of memory" "a setup.py that takes too much memory fails its job"
is "$(show "$id" '.attempts[0].class')" oom "with that class"
is "$(show "$id" '.attempts | length')" 1 "once"
touch "$seen/over"
completes "$beside" "the neighbour's job is unharmed"
is "$(hearth logs "$beside")" well "and ends by itself"

# --- stopped while it builds ---------------------------------------------------------------------------------
package waits '
import os, time
open("'"$seen"'/began", "w").close()
if os.fork() == 0:
	os.setsid()
	os.execv("/bin/sleep", ["daemon-of-setup", "6000"])
time.sleep(600)
'
id=$(submit waits 'true')
wait_until 60 test -e "$seen/began"
hearth stop "$id" >/dev/null
hearth wait "$id" --timeout 30 >/dev/null
is "$(show "$id" .status)" stopped "a job is stopped while its environment is made"
is "$(pgrep -f daemon-of-setup)" "" "and nothing of it is left"

# --- the agent dies while it builds ----------------------------------------------------------------------------
rm "$seen/began"
id=$(submit waits 'true')
wait_until 60 test -e "$seen/began"
rm "$seen/began"
cluster_signal agent-host1 KILL
wait_until 10 cluster_gone agent-host1
wait_until 10 eval '! pgrep -f daemon-of-setup >/dev/null'
is "$(pgrep -f daemon-of-setup)" "" "what builds ends with its agent"
cluster_agent host1 --slots 4
wait_until 20 cluster_node_up host1
wait_until 60 test -e "$seen/began"
ok "the next agent begins again" test -e "$seen/began"
hearth stop "$id" >/dev/null
hearth wait "$id" --timeout 30 >/dev/null
is "$(show "$id" .status)" stopped "that job can be stopped, too"
cluster_clean
cluster_down
rm -rf "$seen"
done_testing
