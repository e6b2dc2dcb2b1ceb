# shellcheck shell=bash
# cluster: several hosts on one machine, each with its own network, name, mounts and processes, and Hearth on them.
#
#   . cluster.sh
#   cluster_up 4                 hosts host1..host4 (10.77.0.1..4) and head (10.77.0.200) on one bridge; needs root
#   cluster_hearth [AGENT-ARGS]  hearthd on head (TLS), one joined agent a host, a user's configuration
#   cluster_in HOST COMMAND...   runs it there;  cluster_spawn HOST NAME COMMAND...  in the background, pid in $CLUSTER/NAME.pid
#   cluster_cut|heal HOST        takes its network away and back;  cluster_power_off HOST  kills all of it at once
#   hearth COMMAND...            jobctl on head
#   cluster_down                 also at exit
#
# Every cluster has its own namespaces and folder, so that tests run side by side. CLUSTER is a short path: sockets live there.
TOP_BUILD=${HEARTH_TOP_BUILDDIR:?}
JOBCTL=$TOP_BUILD/jobctl/jobctl
HEARTHD=$TOP_BUILD/controller/hearthd
AGENT=$TOP_BUILD/agent/hearth-agent
CLUSTER='' CLUSTER_ID='' CLUSTER_HOSTS=''

cluster_can() { # nothing, or why not
	[ "$(id -u)" -eq 0 ] || { echo "needs root for network namespaces"; return; }
	command -v ip >/dev/null || { echo "needs the program ip (iproute2)"; return; }
	local probe=hp$$
	ip netns add "$probe" 2>/dev/null || { echo "needs network namespaces"; return; }
	ip netns del "$probe"
}

cluster_ns() { echo "$CLUSTER_ID-$1"; }

cluster_host_start() { # HOST: namespaces with a first process that reaps
	local host=$1 dir=$CLUSTER/$1
	mkdir -p "$dir/data"
	# shellcheck disable=SC2016 # the inner shell expands
	nsenter --net="/run/netns/$(cluster_ns "$host")" unshare --uts --mount --pid --ipc --fork --propagation private \
		bash -c '
			hostname "$1"
			mount --bind "$3/hosts" /etc/hosts
			mount -t tmpfs -o mode=755 tmpfs /run
			mount -t tmpfs tmpfs /dev/shm
			mount -t proc proc /proc
			: >"$2/up"
			while :; do sleep 3600 & wait $!; done' _ "$host" "$dir" "$CLUSTER" </dev/null >"$dir/init.log" 2>&1 &
	local outer=$! pid
	wait_until 10 test -e "$dir/up" || { echo "host $host did not start: $(cat "$dir/init.log")" >&2; return 1; }
	pid=$(tr -d ' \n' <"/proc/$outer/task/$outer/children")
	echo "$pid" >"$dir/pid1"
}

cluster_up() { # N
	local n=$1 i host br
	CLUSTER=$(mktemp -d /tmp/hcXXXXXX) || return 1
	chmod 755 "$CLUSTER"
	CLUSTER_ID=${CLUSTER##*/}
	br=$(cluster_ns br)
	trap cluster_down EXIT
	{ echo "127.0.0.1 localhost"; echo "10.77.0.200 head"; for i in $(seq "$n"); do echo "10.77.0.$i host$i"; done; } >"$CLUSTER/hosts"
	ip netns add "$br" && ip -n "$br" link add br0 type bridge && ip -n "$br" link set br0 up || return 1
	CLUSTER_HOSTS=$(for i in $(seq "$n"); do echo "host$i"; done)
	for host in $CLUSTER_HOSTS head; do
		if [ "$host" = head ]; then i=200; else i=${host#host}; fi
		ip netns add "$(cluster_ns "$host")" &&
			ip -n "$(cluster_ns "$host")" link set lo up &&
			ip -n "$br" link add "p-$host" type veth peer name eth0 netns "$(cluster_ns "$host")" &&
			ip -n "$br" link set "p-$host" master br0 up &&
			ip -n "$(cluster_ns "$host")" addr add "10.77.0.$i/16" dev eth0 &&
			ip -n "$(cluster_ns "$host")" link set eth0 up &&
			cluster_host_start "$host" || return 1
	done
}

cluster_in() { # HOST COMMAND...
	local host=$1
	shift
	nsenter -t "$(cat "$CLUSTER/$host/pid1")" -n -u -m -p -i --wd="$PWD" -- "$@"
}
cluster_spawn() { # HOST NAME COMMAND...
	local host=$1 name=$2 pid1
	shift 2
	pid1=$(cat "$CLUSTER/$host/pid1")
	# In its own process by exec: $! is nsenter itself, which forks into the host's pid namespace; the program is its only child.
	(exec nsenter -t "$pid1" -n -u -m -p -i --wd="$PWD" -- "$@") </dev/null >>"$CLUSTER/$name.log" 2>&1 &
	local outer=$!
	wait_until 5 cluster_spawned "$outer" "$1" || { echo "$name did not start" >&2; return 1; }
	tr -d ' \n' <"/proc/$outer/task/$outer/children" >"$CLUSTER/$name.pid"
}
cluster_spawned() { # PID-OF-NSENTER PROGRAM: its child has become the program
	local child
	child=$(tr -d ' \n' <"/proc/$1/task/$1/children") && [ -n "$child" ] && [ "$(readlink "/proc/$child/exe")" = "$(readlink -f "$(command -v "$2")")" ]
}
cluster_signal() { # NAME SIGNAL: to a program started by cluster_spawn
	kill "-$2" "$(cat "$CLUSTER/$1.pid")"
}
cluster_gone() { ! kill -0 "$(cat "$CLUSTER/$1.pid")" 2>/dev/null; }
cluster_cut() { ip -n "$(cluster_ns br)" link set "p-$1" down; }
cluster_heal() { ip -n "$(cluster_ns br)" link set "p-$1" up; }
cluster_power_off() { kill -KILL "$(cat "$CLUSTER/$1/pid1")"; }
cluster_processes() { # HOST NAME...: the processes of these names that run there, "PID NAME" lines
	local host=$1 names
	shift
	names=$(printf '%s\n' "$@")
	cluster_in "$host" ps -eo pid=,comm= | awk -v names="$names" 'BEGIN {n = split(names, a, "\n"); for (i = 1; i <= n; i++) want[substr(a[i], 1, 15)] = 1} $2 in want'
}

# What a launch may consist of, to see that nothing of it is left.
# shellcheck disable=SC2034 # for the tests
CLUSTER_JOB_PROGRAMS='hearth-shim hearth-rank hearth-rsh hearth-hold orted mpirun'

hearth() { cluster_in head env -u HEARTH_URL -u HEARTH_TOKEN -u XDG_CONFIG_HOME HOME="$CLUSTER/home" "$JOBCTL" "$@"; }

cluster_hearthd() {
	cluster_spawn head hearthd "$HEARTHD" --data "$CLUSTER/head/data" --listen 10.77.0.200:7070
	wait_until 20 test -s "$CLUSTER/head/data/admin.token" -a -S "$CLUSTER/head/data/hearthd.sock" || { cat "$CLUSTER/hearthd.log" >&2; return 1; }
	mkdir -p "$CLUSTER/home/.config/hearth"
	printf 'url = unix://%s/head/data/hearthd.sock\n' "$CLUSTER" >"$CLUSTER/home/.config/hearth/config"
	wait_until 20 hearth nodes --json
}
cluster_agent() { # HOST ARGS...
	local host=$1 token=
	shift
	[ -e "$CLUSTER/$host/data/agent.pem" ] || token=$(hearth token create --join) || return 1
	cluster_spawn "$host" "agent-$host" "$AGENT" --controller https://10.77.0.200:7070 --data "$CLUSTER/$host/data" --name "$host" \
		--address "10.77.0.${host#host}" --interface eth0 ${token:+--join "$token"} "$@"
}
cluster_node_up() { hearth nodes --json | jq -e --arg n "$1" '.nodes[] | select(.name == $n and .state == "up")' >/dev/null; }
cluster_hearth() { # AGENT-ARGS...
	local host
	cluster_hearthd || return 1
	for host in $CLUSTER_HOSTS; do cluster_agent "$host" "$@" || return 1; done
	for host in $CLUSTER_HOSTS; do
		wait_until 20 cluster_node_up "$host" || { echo "agent on $host did not come up" >&2; tail -5 "$CLUSTER/agent-$host.log" >&2; return 1; }
	done
}

cluster_down() {
	trap - EXIT
	[ -n "$CLUSTER" ] || return 0
	local host
	for host in $CLUSTER_HOSTS head; do
		[ -s "$CLUSTER/$host/pid1" ] && kill -KILL "$(cat "$CLUSTER/$host/pid1")" 2>/dev/null
	done
	wait 2>/dev/null
	for host in $CLUSTER_HOSTS head br; do ip netns del "$(cluster_ns "$host")" 2>/dev/null; done
	if [ -n "${KEEP_CLUSTER:-}" ]; then echo "# kept: $CLUSTER"; else rm -rf --one-file-system "$CLUSTER"; fi
	return 0
}
