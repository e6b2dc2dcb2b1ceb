#!/bin/bash
# An agent of an ordinary user gives its jobs a /tmp, a /dev/shm and an /opt/ml of their own by a user namespace: MPI over shared memory, DDP, paths of the managed service,
# the kill of a stubborn job and adoption work in it; where it is turned off, the job is told.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
jobctl=${HEARTH_TOP_BUILDDIR:?}/jobctl/jobctl
as_nobody() { "$@"; }
[ "$(id -u)" -ne 0 ] || as_nobody() { setpriv --reuid nobody --regid nogroup --clear-groups -- "$@"; }
as_nobody unshare -Ur true 2>/dev/null || skip_all "an ordinary user may not make user namespaces here"
as_nobody test -x "$jobctl" || skip_all "the build folder is not readable for an ordinary user"
home=$(mktemp -d /tmp/hoXXXXXX)
[ "$(id -u)" -ne 0 ] || chown nobody "$home"
as_user() { as_nobody env -u HEARTH_URL -u HEARTH_TOKEN -u XDG_CONFIG_HOME -u XDG_DATA_HOME -u XDG_RUNTIME_DIR HOME="$home" "$@"; }
cd "$home" || bail "no home"
trap 'as_user "$jobctl" local down >/dev/null 2>&1; rm -rf "$home"' EXIT
port=$((20000 + $$ % 10000))
up() { as_user "$jobctl" local up --nodes 1 --port "$port" "$@"; }
ok "local cluster as an ordinary user" up
mkdir src
cp "$HEARTH_TOP_SRCDIR/tests/programs/ddp.py" src/
cat >src/where.sh <<'S'
touch /tmp/mine /dev/shm/mine /opt/ml/model/weights && echo "mine $(ls /dev/shm | tr '\n' ' ')$SM_MODEL_DIR $(id -u) $(pwd)"
S
cat >src/big.py <<'P'
# Messages far above the eager limit: between ranks of one node they go by shared memory and reads of each other's memory.
from mpi4py import MPI
c = MPI.COMM_WORLD
data = bytes([c.rank]) * (8 << 20)
got = c.sendrecv(data, dest=(c.rank + 1) % c.size, source=(c.rank - 1) % c.size)
print("got", len(got), got[0], flush=True)
P
cat >src/count.sh <<'S'
trap '' TERM
for i in $(seq "$1"); do echo "line $i"; read -rt 0.02 <> <(:) || :; done
S
submit() { # NAME MEMBERS...
	printf '{"name": "%s", "source_dir": "%s/src", %s}\n' "$1" "$home" "${*:2}" >"$1.json"
	as_user "$jobctl" submit "$1.json"
}
show() { as_user "$jobctl" show "$1" --json | jq -r "$2"; }
logs() { as_user "$jobctl" logs "$@"; }
ends_well() { # JOB DESCRIPTION
	as_user "$jobctl" wait "$1" --timeout 90 >/dev/null
	is "$(show "$1" .status)" completed "$2"
	[ "$(show "$1" .status)" = completed ] || diag "$(show "$1" .reason)" "$(logs "$1" 2>&1 | tail -8)" "$(logs "$1" --stream system --node 1 2>&1 | tail -20)"
}
two='"resources": {"instances": 1, "ranks_per_instance": 2}'

id=$(submit where '"command": ["/bin/sh", "where.sh"], "launcher": "direct", "output_uri": "file://'"$home"'/out/"')
ends_well "$id" "a job with paths of the managed service"
is "$(logs "$id")" "mine mine /opt/ml/model $(as_nobody id -u) /opt/ml/code" "they are the job's own, and it is the same user"
nok "nothing of it is in the host's /tmp and /dev/shm" eval 'ls /tmp/mine || ls /dev/shm/mine'
unlike "$(logs "$id" --stream system --node 1)" "no private /tmp" "no note says that it lacks them"
is "$(find out -name weights | wc -l)" 1 "its model was collected"
if /usr/bin/python3 -c 'import mpi4py' 2>/dev/null; then
	id=$(submit big '"command": ["/usr/bin/python3", "big.py"], "launcher": "mpirun", "mpi_options": ["--mca", "btl_vader_single_copy_mechanism", "cma"],' "$two")
	ends_well "$id" "two MPI ranks over shared memory"
	is "$(logs "$id" --rank 0)$(logs "$id" --rank 1)" "got 8388608 1got 8388608 0" "great messages arrive whole"
else
	skip "MPI over shared memory" "no mpi4py"
fi
if as_user /usr/bin/python3 -c 'import torch' 2>/dev/null; then
	for launcher in mpirun torchrun; do
		id=$(submit "ddp-$launcher" '"command": ["/usr/bin/python3", "ddp.py"], "launcher": "'$launcher'",' "$two")
		ends_well "$id" "PyTorch DDP under $launcher"
		like "$(logs "$id" --rank 0)" "rank 0 of 2 .*same=True" "all ranks have the same weights"
	done
else
	skip "PyTorch DDP" "no torch"
fi

# --- requirements: pip runs in the job's container, as the same user -----------------------------------------
seen=$home/.local/share/hearth/local/node-1/seen # of the agent's folder, which jobs see under its name
mkdir -p req/pkg
printf '%s\n' --no-index ./pkg >req/requirements.txt
echo 'VALUE = 7' >req/pkg/ofours.py
cat >req/pkg/setup.py <<P
import os
from setuptools import setup
if os.fork() == 0:
	os.setsid()
	for fd in range(1, 256): # pip waits for the end of its output
		try: os.close(fd)
		except OSError: pass
	os.execv("/bin/sleep", ["daemon-of-$home", "6000"])
with open("$seen", "w") as f: print(os.getuid(), os.getcwd(), os.environ["TMPDIR"], len(os.environ["HEARTH_TOKEN_LAUNCH"]) > 8, file=f)
setup(name="ofours", version="1.0", py_modules=["ofours"])
P
requirements() { # as the only rank prints it; what setup.py saw is in \$seen
	chmod -R a+rX req
	[ "$(id -u)" -ne 0 ] || chown -R nobody req
	rm -f "$seen"
	printf '{"name": "req", "source_dir": "%s/req", "requirements": "requirements.txt", "environment": {"PIP_NO_BUILD_ISOLATION": "0"}, "launcher": "direct", "command": ["python", "-c", "import ofours; print(ofours.VALUE)"]}\n' "$home" >req.json
	as_user "$jobctl" submit req.json
}
if /usr/bin/python3 -c 'import setuptools, pip, venv' 2>/dev/null; then
	id=$(requirements)
	ends_well "$id" "a job with requirements"
	is "$(logs "$id" --rank 0)" 7 "finds them"
	is "$(cat "$seen")" "$(as_nobody id -u) /opt/ml/code/pkg /tmp True" "setup.py ran in its container, marked"
	nok "what setup.py left is gone" pgrep -f "daemon-of-$home"
else
	skip "requirements" "no pip and setuptools"
fi

# --- the agent dies, its successor goes on; then a job that ignores TERM is stopped ---------------------
id=$(submit count '"command": ["/bin/bash", "count.sh", "300"], "launcher": "mpirun"')
wait_until 30 eval "logs $id | grep -q 'line 20\$'" || diag "job $id did not come to line 20"
run=$home/.local/share/hearth/local/run/node-1
kill -KILL "$(cut -d' ' -f2 "$run")"
ok "the agent is started again" up
ends_well "$id" "a job goes on though its agent was killed"
is "$(logs "$id" | grep -c '^line')" 300 "its log has neither gap nor doubles"
is "$(show "$id" '.attempts | length')" 1 "in its first attempt"
id=$(submit stubborn '"command": ["/bin/bash", "count.sh", "100000"], "launcher": "mpirun", "limits": {"grace_s": 1},' "$two")
wait_until 30 eval "logs $id --rank 1 | grep -q 'line 5\$'"
as_user "$jobctl" stop "$id" >/dev/null
as_user "$jobctl" wait "$id" --timeout 60 >/dev/null
is "$(show "$id" .status)" stopped "a job that ignores TERM is stopped"
ours() { pgrep -u "$(as_nobody id -u)" -a "$1" | grep -F -- "$home"; }
wait_until 20 eval "! ours hearth-hold" || :
is "$(ours hearth-hold; ours hearth-shim)" "" "no holder and no shim is left"

# --- turned off -----------------------------------------------------------------------------------------
as_user "$jobctl" local down >/dev/null
ok "a cluster without namespaces" up --no-namespaces
id=$(submit off '"command": ["/bin/sh", "-c", "echo $SM_MODEL_DIR"], "launcher": "direct"')
ends_well "$id" "its jobs run, too"
like "$(logs "$id")" "^$home/.*/ml/model" "with the real paths"
like "$(logs "$id" --stream system --node 1)" "no private /tmp.*--no-namespaces" "and are told"
if /usr/bin/python3 -c 'import setuptools, pip, venv' 2>/dev/null; then
	echo 'VALUE = 8' >req/pkg/ofours.py
	id=$(requirements)
	ends_well "$id" "a job with requirements, without a container"
	is "$(logs "$id" --rank 0)" 8 "finds them, too"
	like "$(cat "$seen")" "^$(as_nobody id -u) $home/.*/ml/code/pkg $home/.*/tmp True" "setup.py ran under the real paths, marked"
	nok "what it left is gone, too" pgrep -f "daemon-of-$home"
fi
done_testing
