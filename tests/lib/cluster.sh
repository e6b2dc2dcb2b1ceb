# shellcheck shell=bash
# cluster: several hosts on one machine, each with its own network, name, mounts and processes, and Hearth on them.
#
#   . cluster.sh
#   cluster_up 4                 hosts host1..host4 (10.77.0.1..4) and head (10.77.0.200) on one bridge; needs root
#   cluster_hearth [AGENT-ARGS]  hearthd on head (TLS), one joined agent a host, a user's configuration
#   cluster_in HOST COMMAND...   runs it there;  cluster_spawn HOST NAME COMMAND...  in the background, pid in $CLUSTER/NAME.pid
#   cluster_cut|heal HOST        takes its network away and back;  cluster_power_off HOST  kills all of it at once
#   hearth COMMAND...            jobctl on head
#   cluster_left HOST            what jobs have left there, one thing a line; cluster_clean [AFTER-WHAT]: a test for each host that it is nothing
#   cluster_down                 also at exit
#
# Before cluster_up a test may set CLUSTER_FOLDERS_HOOK (a function called when the cluster's folder is there and no host is) and
# CLUSTER_HEARTHD_ARGS (further arguments of hearthd), and CLUSTER_RUN_AS (hearthd's run_as). Jobs run as root unless it is changed:
# most tests look at what only root may see.
#
# Every cluster has its own namespaces and folder, so that tests run side by side. CLUSTER is a short path: sockets live there.
TOP_BUILD=${HEARTH_TOP_BUILDDIR:?}
JOBCTL=$TOP_BUILD/jobctl/jobctl
HEARTHD=$TOP_BUILD/controller/hearthd
AGENT=$TOP_BUILD/agent/hearth-agent
CLUSTER='' CLUSTER_ID='' CLUSTER_HOSTS=''
CLUSTER_FOLDERS_HOOK='' CLUSTER_HEARTHD_ARGS=() CLUSTER_RUN_AS=root

cluster_can() { # nothing, or why not
	[ "$(id -u)" -eq 0 ] || { echo "needs root for network namespaces"; return; }
	command -v ip >/dev/null || { echo "needs the program ip (iproute2)"; return; }
	local probe=hp$$
	ip netns add "$probe" 2>/dev/null || { echo "needs network namespaces"; return; }
	ip netns del "$probe"
}

cluster_can_as() { # nothing, or why cluster_as cannot work
	local why
	why=$(cluster_can)
	[ -z "$why" ] || { echo "$why"; return; }
	command -v setpriv >/dev/null && setpriv --reuid daemon --regid daemon --clear-groups test -x "$TOP_BUILD/shim/hearth-shim" || echo "needs programs that other accounts can reach"
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
			# A /tmp of its own, so that what is left in it can be told from the work of others; with what the test needs of the old one: sources before what may be built inside of them.
			mkdir /run/old && mount --rbind /tmp /run/old && mount -t tmpfs -o mode=1777 tmpfs /tmp
			for keep in "$3" "$4" "$5"; do
				case $keep in /tmp/*) [ -e "$keep" ] || { mkdir -p "$keep" && mount --rbind "/run/old${keep#/tmp}" "$keep"; } ;; esac
			done
			umount -l /run/old && rmdir /run/old
			: >"$2/up"
			while :; do sleep 3600 & wait $!; done' _ "$host" "$dir" "$CLUSTER" "$(readlink -f "$HEARTH_TOP_SRCDIR")" "$(readlink -f "$TOP_BUILD")" </dev/null >"$dir/init.log" 2>&1 &
	local outer=$! pid
	wait_until 10 test -e "$dir/up" || { echo "host $host did not start: $(cat "$dir/init.log")" >&2; return 1; }
	pid=$(tr -d ' \n' <"/proc/$outer/task/$outer/children")
	echo "$pid" >"$dir/pid1"
	cluster_mounts "$host" >"$dir/mounts"
	cluster_in "$host" find /dev/shm /tmp -xdev -mindepth 1 >"$dir/files" 2>/dev/null
}

cluster_up() { # N
	local n=$1 i host br
	CLUSTER=$(mktemp -d /tmp/hcXXXXXX) || return 1
	chmod 755 "$CLUSTER"
	CLUSTER_ID=${CLUSTER##*/}
	br=$(cluster_ns br)
	trap cluster_down EXIT
	{ echo "127.0.0.1 localhost"; echo "10.77.0.200 head"; for i in $(seq "$n"); do echo "10.77.0.$i host$i"; done; } >"$CLUSTER/hosts"
	[ -z "$CLUSTER_FOLDERS_HOOK" ] || "$CLUSTER_FOLDERS_HOOK" || return 1
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
cluster_as() { # ACCOUNT WORDS...: jobctl on the head as that account, which hearthd knows by the socket
	local account=$1
	shift
	if [ ! -e "$CLUSTER/jobctl" ]; then # whole or absent: calls may be made side by side
		cp "$JOBCTL" "$CLUSTER/jobctl.$BASHPID" && chmod 755 "$CLUSTER/jobctl.$BASHPID" && chmod 711 "$CLUSTER/head/data" && mv -f "$CLUSTER/jobctl.$BASHPID" "$CLUSTER/jobctl" || return 1
	fi
	cluster_in head setpriv --reuid "$account" --regid "$(id -g "$account")" --clear-groups env -u HEARTH_TOKEN HOME=/ "$CLUSTER/jobctl" --url "unix://$CLUSTER/head/data/hearthd.sock" "$@"
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
	# bash remembers ended jobs by their number; a later child that gets the same number would be waited for without end.
	disown "$outer"
}
cluster_spawned() { # PID-OF-NSENTER PROGRAM: its child has become the program
	local child
	child=$(tr -d ' \n' <"/proc/$1/task/$1/children") && [ -n "$child" ] && [ "$(readlink "/proc/$child/exe")" = "$(readlink -f "$(command -v "$2")")" ]
}
cluster_signal() { # NAME SIGNAL: to a program started by cluster_spawn
	kill "-$2" "$(cat "$CLUSTER/$1.pid")"
}
# A stopped program has stopped its nsenter, too, which then would not see it end.
cluster_continue() {
	local pid
	pid=$(cat "$CLUSTER/$1.pid")
	kill -CONT "$pid" "$(awk '/^PPid:/ {print $2}' "/proc/$pid/status")"
}
cluster_gone() { ! kill -0 "$(cat "$CLUSTER/$1.pid")" 2>/dev/null; }
cluster_cut() { ip -n "$(cluster_ns br)" link set "p-$1" down; }
cluster_heal() { ip -n "$(cluster_ns br)" link set "p-$1" up; }
cluster_power_off() { kill -KILL "$(cat "$CLUSTER/$1/pid1")"; }
# ---- what is left ---------------------------------------------------------------------------------------------
cluster_pids() { # HOST: every process there, by the numbers of the test's own namespace; dead ones that nobody has reaped, too
	local ns
	ns=$(readlink "/proc/$(cat "$CLUSTER/$1/pid1")/ns/pid") && ns=${ns//[/\\[} || return
	# One process for all: on a busy machine a readlink for each of its processes takes seconds.
	find /proc/[0-9]*/ns/pid -maxdepth 0 -lname "${ns//]/\\]}" 2>/dev/null | cut -d/ -f3
}
cluster_left_processes() { # HOST: but those that the test started itself
	local pid line known
	known=" $(awk 1 "$CLUSTER/$1/pid1" "$CLUSTER"/*.pid 2>/dev/null | tr "\n" " ") "
	for pid in $(cluster_pids "$1"); do
		line=$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)
		[[ $known = *" $pid "* ]] || [ "$line" = "sleep 3600 " ] || [ ! -e "/proc/$pid/stat" ] ||
			echo "process $pid $(cut -d' ' -f2,3 "/proc/$pid/stat" 2>/dev/null) ${line:0:200}"
	done
}
cluster_mounts() { # HOST: a namespace that something keeps alive by its file is a mount, too
	cut -d' ' -f4- "/proc/$(cat "$CLUSTER/$1/pid1")/mountinfo" | sort
}
cluster_on() { kill -0 "$(cat "$CLUSTER/$1/pid1")" 2>/dev/null; }
# HOST: processes, control groups, mounts, shared memory, temporary files, folders of launches: what jobs left of them. Of a host that is off, or goes
# off meanwhile, nobody knows.
cluster_left() {
	cluster_on "$1" && cluster_left_there "$1" && cluster_on "$1" || echo "unknown: $1 is off"
}
cluster_digest() { printf %s "$(readlink -f "$CLUSTER/$1/data")" | sha256sum | cut -c1-8; } # HOST: in the names of its control groups
cluster_left_there() {
	local host=$1 data=$CLUSTER/$1/data
	cluster_left_processes "$host"
	find /sys/fs/cgroup/ -mindepth 1 -type d -path "*/hearth/$host-$(cluster_digest "$host")/*" 2>/dev/null | sed 's/^/cgroup /'
	cluster_mounts "$host" | diff "$CLUSTER/$host/mounts" - | sed -n 's/^> /mount /p'
	cluster_in "$host" sh -c 'ipcs -m -q -s | sed -n "s/^0x/ipc 0x/p"; find /run/hearth -mindepth 2 -maxdepth 2 -type d -name "[0-9]*.[0-9]*" 2>/dev/null | sed "s/^/launch /"'
	cluster_in "$host" find /dev/shm /tmp -xdev -mindepth 1 2>/dev/null | diff "$CLUSTER/$host/files" - | sed -n 's/^> /file /p'
	find "$data/jobs" -mindepth 1 -maxdepth 1 2>/dev/null | sed 's/^/folder /'
	return 0
}
cluster_is_clean() { [ -z "$(cluster_left "$1")" ]; }
cluster_clean() { # a test for each host that is on; DESCRIPTION says after what
	local host left end
	for host in $CLUSTER_HOSTS head; do
		cluster_on "$host" || continue
		end=$((SECONDS + 15))
		until left=$(cluster_left "$host") && [ -z "$left" ] || [ $SECONDS -ge $end ]; do read -rt 0.1 <> <(:) || :; done
		is "$left" "" "nothing is left on $host${1:+ }${1:-}"
	done
}

hearth() { cluster_in head env -u HEARTH_URL -u HEARTH_TOKEN -u XDG_CONFIG_HOME HOME="$CLUSTER/home" "$JOBCTL" "$@"; }

cluster_hearthd() {
	cluster_spawn head hearthd "$HEARTHD" --data "$CLUSTER/head/data" --listen 10.77.0.200:7070 ${CLUSTER_RUN_AS:+--set "run_as=$CLUSTER_RUN_AS"} "${CLUSTER_HEARTHD_ARGS[@]}"
	wait_until 20 test -s "$CLUSTER/head/data/admin.token" -a -S "$CLUSTER/head/data/hearthd.sock" || { cat "$CLUSTER/hearthd.log" >&2; return 1; }
	mkdir -p "$CLUSTER/home/.config/hearth"
	printf 'url = unix://%s/head/data/hearthd.sock\n' "$CLUSTER" >"$CLUSTER/home/.config/hearth/config"
	wait_until 20 hearth nodes --json
}
cluster_agent() { # HOST ARGS...
	local host=$1 token='' root=''
	shift
	[ "$CLUSTER_RUN_AS" != root ] || root=--allow-root
	[ -e "$CLUSTER/$host/data/agent.pem" ] || token=$(hearth token create --join) || return 1
	HEARTH_JOIN_TOKEN=$token cluster_spawn "$host" "agent-$host" "$AGENT" --controller https://10.77.0.200:7070 --data "$CLUSTER/$host/data" \
		--name "$host" --address "10.77.0.${host#host}" --interface eth0 ${root:+"$root"} "$@"
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
	# nsenter stops itself when its child is stopped, and then does not see that it has ended.
	# shellcheck disable=SC2046 # a list
	kill -CONT $(cat "/proc/$$/task/$$/children") 2>/dev/null
	wait 2>/dev/null
	for host in $CLUSTER_HOSTS head br; do ip netns del "$(cluster_ns "$host")" 2>/dev/null; done
	if [ -n "${KEEP_CLUSTER:-}" ]; then echo "# kept: $CLUSTER"; else rm -rf --one-file-system "$CLUSTER"; fi
	return 0
}
