#!/bin/bash
# chaos: real faults on real processes, over hosts in network namespaces (tests/lib/cluster.sh). To be sourced by a test, or called:
#
#   chaos.sh up [N]                      a cluster of N hosts (default 4); prints its folder. CHAOS=FOLDER names it to the other verbs
#   chaos.sh submit NAME LAUNCHER NODES [STEPS-ARGUMENTS]    a job of tests/programs/steps.c that can be checked afterwards
#   chaos.sh inject FAULT [ARGUMENTS]    chaos.sh heal FAULT [ARGUMENTS]    chaos.sh heal-all    chaos.sh list
#   chaos.sh look                        asks for jobs and their logs as a user would: what was shown before a fault has to stay
#   chaos.sh finish                      heals, waits for every job's end, collects, and runs the verifier
#   chaos.sh down
#   chaos.sh random --seed N --minutes M [--hosts N]         all of that, with jobs and faults by chance; the seed gives their order
#   chaos.sh plan --seed N [--steps N] [--hosts N]           what random does with that seed, without doing it
#
# What is asked, answered and injected stands in CLUSTER/hist; tests/chaos/verify.py says what is looked for in it.
CHAOS_DIR=${BASH_SOURCE[0]%/*}
if [ -z "${HEARTH_TOP_SRCDIR:-}" ]; then
	HEARTH_TOP_SRCDIR=$(cd "$CHAOS_DIR/../.." && pwd)
	export HEARTH_TOP_SRCDIR
fi
if [ -z "${HEARTH_TOP_BUILDDIR:-}" ]; then
	HEARTH_TOP_BUILDDIR=$HEARTH_TOP_SRCDIR
	[ -x "$HEARTH_TOP_SRCDIR/controller/hearthd" ] || HEARTH_TOP_BUILDDIR=$HEARTH_TOP_SRCDIR/build-check/gcc
	export HEARTH_TOP_BUILDDIR
fi
declare -F wait_until >/dev/null || . "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
PYTHON=/usr/bin/python3
CHAOS_STEPS=$HEARTH_TOP_BUILDDIR/tests/programs/steps
CHAOS_AGENT_ARGS=(--fake-gpus 2 --slots 8)
CHAOS_SIDE=/mnt # where the hosts see CLUSTER/hist/side; not below /tmp, which is private to a launch
HIST=''

chaos_can() { # nothing, or why not
	local why
	why=$(cluster_can)
	[ -z "$why" ] || { echo "$why"; return; }
	command -v nft >/dev/null || { echo "needs the program nft (nftables)"; return; }
	[ -x "$CHAOS_STEPS" ] || echo "needs $CHAOS_STEPS (make -C tests programs/steps)"
}

# As ok of tap.sh, in this shell: faults that last are remembered here, and what is started is a child of it.
does() { # DESCRIPTION COMMAND...
	local what=$1 rc
	shift
	"$@" >"$CLUSTER/does.out" 2>&1
	rc=$?
	tap_result $rc "$what"
	[ $rc -eq 0 ] || diag "command: $*" "$(cat "$CLUSTER/does.out")"
}

# ---- a cluster ----------------------------------------------------------------------------------------------
chaos_folders() { # called by cluster_up when the folder is there and no host is
	local host entry
	HIST=$CLUSTER/hist
	mkdir -p "$HIST/side" "$HIST/left" "$HIST/daemons" "$CLUSTER/src"
	chmod 777 "$HIST/side"
	: >"$HIST/client.jsonl"
	: >"$HIST/faults.jsonl"
	cp "$CHAOS_STEPS" "$CLUSTER/src/steps" || return 1
	# Small disks, for faults that fill them: CHAOS_DISKS="head=64m host2=32m".
	for entry in ${CHAOS_DISKS:-}; do
		host=${entry%%=*}
		mkdir -p "$CLUSTER/$host/data"
		mount -t tmpfs -o "mode=711,size=${entry#*=}" tmpfs "$CLUSTER/$host/data" || return 1
	done
}
# shellcheck disable=SC2034 # for cluster.sh
CLUSTER_FOLDERS_HOOK=chaos_folders

chaos_up() { # N
	local host
	cluster_up "$1" || return 1
	trap chaos_down EXIT
	for host in $CLUSTER_HOSTS; do chaos_side "$host" || return 1; done
	cluster_hearth "${CHAOS_AGENT_ARGS[@]}"
}
chaos_side() { # HOST: sees the folder of the programs' own records; which is not one of the mounts that jobs left
	cluster_in "$1" mount --bind "$HIST/side" "$CHAOS_SIDE" && cluster_mounts "$1" >"$CLUSTER/$1/mounts"
}
chaos_down() {
	local entry mounted=$CLUSTER
	[ -n "$CLUSTER" ] || return 0
	[ -z "${CHAOS_KEEP_HIST:-}" ] || cp -r "$HIST" "$CHAOS_KEEP_HIST"
	trap - EXIT
	chaos_background_end
	if [ -n "${CHAOS_DISKS:-}" ]; then
		chaos_power_off_all
		for entry in $CHAOS_DISKS; do umount "$mounted/${entry%%=*}/data" 2>/dev/null; done
	fi
	cluster_down
}
chaos_power_off_all() {
	local host
	for host in $CLUSTER_HOSTS head; do [ -s "$CLUSTER/$host/pid1" ] && kill -KILL "$(cat "$CLUSTER/$host/pid1")" 2>/dev/null; done
	wait 2>/dev/null
}
CHAOS_BACKGROUND=''
chaos_background_end() {
	local pid
	for pid in $CHAOS_BACKGROUND; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done
	CHAOS_BACKGROUND=''
}

# ---- requests, written down ------------------------------------------------------------------------------------
now_us() { echo "${EPOCHREALTIME/./}"; }
chaos_record() { # FILE JQ-ARGUMENTS...: one line; the lock keeps the lines of several writers whole
	local file=$1
	shift
	flock "$HIST/lock" jq -cn "$@" >>"$file"
}
# chaos_ask OP ARGS-AS-ONE-WORD-EACH -- COMMAND...: runs it, writes question and answer down, prints the answer.
chaos_ask() {
	local op=$1 args=() t0 t1 out rc
	shift
	while [ "$1" != -- ]; do
		args+=("$1")
		shift
	done
	shift
	t0=$(now_us)
	out=$("$@" 2>>"$HIST/client.err")
	rc=$?
	t1=$(now_us)
	chaos_record "$HIST/client.jsonl" --argjson t0 "$t0" --argjson t1 "$t1" --arg op "$op" --rawfile out <(printf %s "$out") --argjson rc "$rc" \
		'{t0: $t0, t1: $t1, op: $op, args: $ARGS.positional, rc: $rc, out: $out}' --args -- "${args[@]}"
	[ -z "$out" ] || printf '%s\n' "$out"
	return "$rc"
}
# The first end of an attempt is the end of the job, as the tests of parts want it, unless CHAOS_RETRY has members of `retry`.
chaos_submit_json() { # NAME MEMBERS...: prints the id
	local name=$1
	shift
	printf '{"name": "%s", "source_dir": "%s/src", "retry": {%s}, %s}\n' "$name" "$CLUSTER" "${CHAOS_RETRY-\"max_attempts\": 0, \"capacity\": 0}" "$*" >"$CLUSTER/$name.json"
	chaos_ask submit "$name" -- chaos_hearth submit "$CLUSTER/$name.json"
}
# As hearth, for requests that may meet a controller that does not answer.
chaos_hearth() {
	cluster_in head timeout 30 env -u HEARTH_URL -u HEARTH_TOKEN -u XDG_CONFIG_HOME HOME="$CLUSTER/home" "$JOBCTL" "$@"
}
# chaos_submit NAME LAUNCHER NODES STEPS-ARGUMENT...: steps' own options first, then STEPS MS [CODE].
chaos_submit() {
	local name=$1 launcher=$2 nodes=$3 words='"./steps"'
	shift 3
	while [ $# -gt 0 ] && [ "${1#-}" != "$1" ]; do
		words="$words, \"$1\", \"$2\""
		shift 2
	done
	words="$words, \"$CHAOS_SIDE\""
	for word; do words="$words, \"$word\""; done
	chaos_submit_json "$name" "\"command\": [$words], \"launcher\": \"$launcher\", \"limits\": {\"grace_s\": 2}," \
		"\"resources\": {\"instances\": $nodes, \"cpus_per_rank\": ${CHAOS_CPUS:-1}, \"gpus_per_instance\": ${CHAOS_GPUS:-0}}"
}
chaos_show() { # JOB JQ-EXPRESSION: asked and written down, so that an end that was shown counts as shown
	local out
	out=$(chaos_hearth show "$1" --json) || return
	chaos_ask show "$1" -- jq -c '{id, status, exit_code, reason}' <<<"$out" >/dev/null
	jq -r "$2" <<<"$out"
}
chaos_logs() { # JOB RANK [ATTEMPT]
	chaos_ask logs "$1" "$2" "${3:-1}" -- chaos_hearth logs "$1" --rank "$2" --attempt "${3:-1}"
}
# What a user sees at this moment, of some of the newest jobs that have begun: how they stand, and the lines of a rank.
chaos_look() {
	local id attempt
	while read -r id attempt; do
		chaos_show "$id" empty && chaos_logs "$id" 0 "$attempt" >/dev/null
	done < <(chaos_hearth ls --all --limit 20 --json | jq -r '[.jobs[] | select(.attempt_count > 0)][:4][] | "\(.id) \(.attempt_count)"')
	return 0 # a job that has no lines yet is no failure
}
chaos_stop() { chaos_ask stop "$1" -- chaos_hearth stop "$1" --grace 1; }
chaos_requeue() { chaos_ask requeue "$1" -- chaos_hearth requeue "$1"; }
chaos_wait() { # JOB SECONDS: until it has ended, well or not
	hearth wait "$1" --timeout "$2" >/dev/null
	[ $? -le 1 ]
}
chaos_status_is() { [ "$(hearth show "$1" --json | jq -r .status)" = "$2" ]; }
# chaos_step JOB ATTEMPT RANK N: that rank came to step N, by its own account
chaos_step() { grep -qs "^step $4 " "$HIST/side/$1.$2.$3"; }

# ---- processes ---------------------------------------------------------------------------------------------------
chaos_procs() { "$PYTHON" "$CHAOS_DIR/procs.py" "$CLUSTER" "$@"; }
# chaos_find KIND JOB [RANK]: "HOST PID" of the first one of that job's present attempt
chaos_find() {
	chaos_procs | awk -v kind="$1" -v job="$2" -v rank="${3:-}" \
		'$3 == kind && index($4, job ".") == 1 && (rank == "" || $5 == rank) {print $1, $2; found = 1; exit} END {exit !found}'
}
chaos_host_of() { hearth show "$1" --json | jq -r ".attempts[-1].nodes[$2]"; } # JOB NODE-RANK

# ---- faults ------------------------------------------------------------------------------------------------------
# inject_NAME ARGUMENTS... and, for what lasts, heal_NAME with the same arguments. Each says what it may do to a job by calling
# chaos_fault DO NAME ARGS [HOST] [JOB] [LAUNCHER] before it acts (LAUNCHER: only jobs of that kind): the verifier holds all others to what
# their programs do.
CHAOS_OPEN=() # faults that last, "NAME ARGS"
chaos_fault() {
	local lasting=false
	declare -F "heal_$2" >/dev/null && lasting=true
	chaos_record "$HIST/faults.jsonl" --argjson t "$(now_us)" --arg "do" "$1" --arg fault "$2" --arg args "$3" --arg host "${4:-}" \
		--argjson job "${5:-null}" --argjson lasting $lasting \
		--arg launcher "${6:-}" '{t: $t, do: $do, fault: $fault, args: $args, lasting: $lasting}
		 + (if $host != "" then {host: $host} else {} end) + (if $job then {job: $job} else {} end)
		 + (if $launcher != "" then {launcher: $launcher} else {} end)'
}
chaos_inject() { # FAULT ARGS...
	local name=${1//-/_}
	shift
	declare -F "inject_$name" >/dev/null || { echo "no fault $name (chaos.sh list)" >&2; return 2; }
	"inject_$name" "$@" || return
	if declare -F "heal_$name" >/dev/null; then CHAOS_OPEN+=("$name $*"); fi
}
chaos_heal() { # FAULT ARGS...
	local name=${1//-/_} i
	shift
	for i in "${!CHAOS_OPEN[@]}"; do
		if [ "${CHAOS_OPEN[$i]}" = "$name $*" ]; then unset "CHAOS_OPEN[$i]"; fi
	done
	declare -F "heal_$name" >/dev/null || return 0
	"heal_$name" "$@" || return
	chaos_fault heal "$name" "$*"
}
chaos_heal_all() {
	local entry
	# Words are split on purpose: FAULT and its arguments.
	# shellcheck disable=SC2086
	for entry in "${CHAOS_OPEN[@]}"; do chaos_heal $entry || return; done
	CHAOS_OPEN=()
}

chaos_kill_daemon() { # NAME: dead, reaped by its host, its lock free
	cluster_signal "$1" KILL && wait_until 10 cluster_gone "$1"
}
inject_kill_agent() { chaos_fault inject kill_agent "$*" && chaos_kill_daemon "agent-$1"; }
heal_kill_agent() { cluster_agent "$1" "${CHAOS_AGENT_ARGS[@]}"; }
inject_kill_hearthd() { chaos_fault inject kill_hearthd "$*" && chaos_kill_daemon hearthd; }
heal_kill_hearthd() { cluster_hearthd; }
inject_kill_both() { chaos_fault inject kill_both "$*" && chaos_kill_daemon hearthd && chaos_kill_daemon "agent-$1"; }
heal_kill_both() { cluster_hearthd && cluster_agent "$1" "${CHAOS_AGENT_ARGS[@]}"; }

inject_stop_agent() { chaos_fault inject stop_agent "$*" ${2:+"$1"} && cluster_signal "agent-$1" STOP; } # HOST [long]
heal_stop_agent() { cluster_continue "agent-$1"; }
inject_stop_hearthd() { chaos_fault inject stop_hearthd "$*" && cluster_signal hearthd STOP; }
heal_stop_hearthd() { cluster_continue hearthd; }

# kill_part KIND JOB [RANK]: a process of a launch. Kinds: see procs.py.
inject_kill_part() {
	local found
	found=$(chaos_find "$@") || { echo "no $1 of job $2 ${3:-}" >&2; return 1; }
	chaos_fault inject kill_part "$*" '' "$2" && kill -KILL "${found#* }"
}
inject_stop_part() {
	local found
	found=$(chaos_find "$@") || { echo "no $1 of job $2 ${3:-}" >&2; return 1; }
	chaos_fault inject stop_part "$*" && kill -STOP "${found#* }"
}
heal_stop_part() {
	local found
	if found=$(chaos_find "$@"); then kill -CONT "${found#* }" 2>/dev/null; fi
	return 0
}

chaos_signal_all() { # HOST SIGNAL: to every process there but the first, until nothing new appears
	local before='' now
	for _ in 1 2 3 4 5; do
		now=$(chaos_procs "$1" | awk '$3 != "init" {print $2}')
		# shellcheck disable=SC2086 # a list
		[ -z "$now" ] || kill "-$2" $now 2>/dev/null
		[ "$now" != "$before" ] || return 0
		before=$now
	done
}
# A frozen node: nothing there runs any more, while its kernel still answers.
# Open MPI gives up when a daemon that it has just started does not answer for some seconds: also a short one may cost an mpirun job.
inject_freeze() { # HOST [long]
	local only=mpirun
	[ -z "${2:-}" ] || only=''
	chaos_fault inject freeze "$*" "$1" '' "$only" && chaos_signal_all "$1" STOP
}
heal_freeze() { chaos_signal_all "$1" CONT && cluster_continue "agent-$1"; }

# No link: nothing gets in or out; the host's own interface stays up, so nobody there is told.
inject_cut() { chaos_fault inject cut "$*" ${2:+"$1"} && cluster_cut "$1"; } # HOST [long]
heal_cut() { cluster_heal "$1"; }
# Packets between the controller and one host vanish, both ways; the hosts reach each other.
inject_cut_controller() { # HOST [long]
	local ip=10.77.0.${1#host} ns
	ns=$(cluster_ns head)
	chaos_fault inject cut_controller "$*" ${2:+"$1"} &&
		nft_in "$ns" add table ip "cut_$1" &&
		nft_in "$ns" add chain ip "cut_$1" in '{ type filter hook input priority 0; }' &&
		nft_in "$ns" add chain ip "cut_$1" out '{ type filter hook output priority 0; }' &&
		nft_in "$ns" add rule ip "cut_$1" in ip saddr "$ip" drop &&
		nft_in "$ns" add rule ip "cut_$1" out ip daddr "$ip" drop
}
heal_cut_controller() { nft_in "$(cluster_ns head)" delete table ip "cut_$1"; }
# Nothing gets in or out of a host, and its link stays up.
inject_drop() { # HOST [long]
	local ns
	ns=$(cluster_ns "$1")
	chaos_fault inject drop "$*" ${2:+"$1"} &&
		nft_in "$ns" add table inet dropped &&
		nft_in "$ns" add chain inet dropped in '{ type filter hook input priority 0; }' &&
		nft_in "$ns" add chain inet dropped out '{ type filter hook output priority 0; }' &&
		nft_in "$ns" add rule inet dropped in iifname eth0 drop &&
		nft_in "$ns" add rule inet dropped out oifname eth0 drop
}
heal_drop() { nft_in "$(cluster_ns "$1")" delete table inet dropped; }
nft_in() {
	local ns=$1
	shift
	nsenter --net="/run/netns/$ns" -- nft "$@"
}
# A narrow link. Kernels with netem get delay and loss as well.
inject_slow() { # HOST [RATE]
	local br
	br=$(cluster_ns br)
	chaos_fault inject slow "$*" || return
	tc -n "$br" qdisc add dev "p-$1" root netem rate "${2:-256kbit}" delay 50ms 20ms loss 2% 2>/dev/null ||
		tc -n "$br" qdisc add dev "p-$1" root tbf rate "${2:-256kbit}" burst 8k latency 400ms
}
heal_slow() { tc -n "$(cluster_ns br)" qdisc del dev "p-$1" root; }

# The disk of a host's data (CHAOS_DISKS) has no byte left.
inject_fill() { # HOST
	chaos_fault inject fill "$*" "$1"
	dd if=/dev/zero of="$CLUSTER/$1/data/.fill" bs=64k 2>/dev/null
	dd if=/dev/zero of="$CLUSTER/$1/data/.fill2" bs=1 count=65536 2>/dev/null
	[ "$(df --output=avail "$CLUSTER/$1/data" | tail -n 1)" -eq 0 ]
}
# It has a MiB left: less than what hearthd keeps for the work that is there. That is no reason for any job to end otherwise.
inject_fill_nearly() { # HOST
	local kib
	chaos_fault inject fill_nearly "$*"
	kib=$(df --output=avail -k "$CLUSTER/$1/data" | tail -n 1)
	dd if=/dev/zero of="$CLUSTER/$1/data/.fill" bs=1k count=$((kib - 1024)) 2>/dev/null
}
heal_fill_nearly() { rm -f "$CLUSTER/$1/data/.fill"; }
heal_fill() { rm -f "$CLUSTER/$1/data/.fill" "$CLUSTER/$1/data/.fill2"; }

inject_power_off() { # HOST
	chaos_fault inject power_off "$*" "$1"
	cluster_power_off "$1"
	wait_until 10 cluster_gone "agent-$1"
}
heal_power_off() {
	rm -f "$CLUSTER/$1/up"
	# A machine that starts has no control groups.
	find /sys/fs/cgroup/ -depth -mindepth 1 -type d -path "*/hearth/$1-$(cluster_digest "$1")/*" -exec rmdir {} + 2>/dev/null
	cluster_host_start "$1" && chaos_side "$1" && cluster_agent "$1" "${CHAOS_AGENT_ARGS[@]}"
}

chaos_list() {
	declare -F | awk '$3 ~ /^inject_/ {sub(/^inject_/, "", $3); gsub(/_/, "-", $3); print $3}'
}

# ---- the end ------------------------------------------------------------------------------------------------------
chaos_all_ended() {
	local out
	out=$(hearth ls --all --limit 1000 --json) && jq -e '[.jobs[] | select(.status as $s | ["completed", "failed", "stopped"] | index($s) | not)] | length == 0' <<<"$out" >/dev/null
}
# chaos_finish [SECONDS]: everything healed, every job at its end, histories read. Prints what the verifier says.
chaos_finish() {
	local host name
	chaos_heal_all || { echo "# cannot heal"; return 1; }
	wait_until "${1:-90}" chaos_all_ended || echo "# not every job has ended"
	: >"$HIST/dead.txt"
	for name in hearthd $(for host in $CLUSTER_HOSTS; do echo "agent-$host"; done); do
		if cluster_gone "$name"; then echo "$name" >>"$HIST/dead.txt"; fi
	done
	for host in $CLUSTER_HOSTS; do
		wait_until 40 cluster_is_clean "$host"
		cluster_left "$host" >"$HIST/left/$host"
	done
	cluster_in head "$PYTHON" "$CHAOS_DIR/verify.py" collect "$CLUSTER/head/data/hearthd.sock" "$HIST" || return 1
	cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify >"$HIST/store.txt" 2>&1
	echo $? >>"$HIST/store.txt"
	cp "$CLUSTER"/*.log "$HIST/daemons/"
	"$PYTHON" "$CHAOS_DIR/verify.py" check "$HIST"
}

# ---- by chance --------------------------------------------------------------------------------------------------
# A run is a row of steps: a job, then something that happens to the cluster. RANDOM is bash's own generator. All of a step is drawn at once, and
# in this shell (a subshell has a generator of its own, seeded anew), before any of it is done: so the same seed gives the same jobs and faults in the
# same order. When each of them comes, and what a fault meets there, is the machine's.
chaos_pick() { # WORD...: one of them, in PICKED (not printed: that would take a subshell)
	local -i i=$((RANDOM % $# + 1))
	PICKED=${!i}
}
chaos_pause() { read -rt "$1" <> <(:) || :; } # not to wait for something: to let time pass between faults
DRAWN_GPUS=0 DRAWN_JOB=() # of chaos_submit, but its name
DRAWN_RETRY='' # members of retry; every other job whose program ends with 0 begins again after a fault
DRAWN_ACT=() # FAULT ARGUMENTS..., part N, stop, requeue, or nothing
DRAWN_LAST=0 # seconds that the fault lasts, or nothing happens
chaos_draw() { # the next step
	local launcher nodes act host chance=() i
	chaos_pick mpirun direct direct
	launcher=$PICKED
	chaos_pick 1 1 2 2 3
	nodes=$PICKED
	# Each step takes the same draws, whatever comes of them.
	for i in 0 1 2 3 4 5 6 7 8 9; do chance[i]=$RANDOM; done
	DRAWN_GPUS=$((chance[0] % 3)) DRAWN_JOB=("$launcher" "$nodes")
	[ $((chance[1] % 2)) -eq 0 ] || DRAWN_JOB+=(-r $((chance[1] / 2 % nodes)))
	DRAWN_JOB+=($((chance[2] % 150 + 1)) 20 $((chance[3] % 4 ? 0 : chance[3] / 4 % 255 + 1)))
	DRAWN_RETRY='"max_attempts": 0, "capacity": 0'
	[ $((chance[3] % 4)) -eq 0 ] || [ $((chance[9] % 2)) -eq 0 ] || DRAWN_RETRY=''
	# shellcheck disable=SC2086 # a list
	chaos_pick $CLUSTER_HOSTS
	host=$PICKED
	chaos_pick kill-agent kill-hearthd kill-both stop-agent stop-hearthd part part part cut cut-controller drop freeze slow cut-long
	act=$PICKED
	DRAWN_LAST=$((chance[4] % 3)).$((chance[5] % 10))
	case $((chance[6] % 10)) in
	0 | 1 | 2 | 3) ;;
	4) act=stop ;;
	5) act=requeue ;;
	*) act='' DRAWN_LAST=0.$((chance[5] % 10)) ;;
	esac
	case $act in
	'') DRAWN_ACT=() ;;
	stop | requeue) DRAWN_ACT=("$act") DRAWN_LAST=0 ;;
	part) DRAWN_ACT=(part $((chance[7] % 12 + 1))) DRAWN_LAST=0 ;;
	kill-hearthd | stop-hearthd) DRAWN_ACT=("$act") ;;
	cut-long) DRAWN_ACT=(cut "$host" long) DRAWN_LAST=$((chance[8] % 5 + 14)) ;;
	*) DRAWN_ACT=("$act" "$host") ;;
	esac
}
chaos_drawn() { # N
	echo "# step $1: ${DRAWN_JOB[*]} with $DRAWN_GPUS GPUs; ${DRAWN_ACT[*]:-nothing} for $DRAWN_LAST s"
}
chaos_plan() { # SEED STEPS
	local n
	RANDOM=$1
	for n in $(seq "$2"); do
		chaos_draw
		chaos_drawn "$n"
	done
}
chaos_random_part() { # N: kills the n-th process of launches
	local line host pid kind launch rank
	line=$(chaos_procs | awk '$4 != "-" && $3 != "hold" && $3 != "other"' | sed -n "$1p")
	[ -n "$line" ] || return 0
	read -r host pid kind launch rank _ <<<"$line"
	echo "# kill $kind of $launch rank $rank on $host"
	chaos_fault inject kill_part "$kind ${launch%.*} $rank" '' "${launch%.*}" && kill -KILL "$pid" 2>/dev/null
	return 0
}
chaos_newest() { hearth ls --limit 1 --json 2>/dev/null | jq -e '.jobs[0].id // empty'; }
chaos_random_act() { # what was drawn
	local id
	case ${DRAWN_ACT[0]:-} in
	'') chaos_pause "$DRAWN_LAST" ;;
	stop | requeue) id=$(chaos_newest) && "chaos_${DRAWN_ACT[0]}" "$id" >/dev/null ;;
	part) chaos_look && chaos_random_part "${DRAWN_ACT[1]}" ;;
	*) chaos_look && chaos_inject "${DRAWN_ACT[@]}" && chaos_pause "$DRAWN_LAST" && chaos_heal_all || return 2 ;;
	esac
	return 0
}
chaos_random() { # SEED SECONDS
	local end=$((SECONDS + $2)) n=0 id
	RANDOM=$1
	while [ $SECONDS -lt "$end" ]; do
		n=$((n + 1))
		chaos_draw
		chaos_drawn "$n"
		CHAOS_RETRY=$DRAWN_RETRY CHAOS_GPUS=$DRAWN_GPUS chaos_submit "random-$n" "${DRAWN_JOB[@]}" >/dev/null &
		CHAOS_BACKGROUND="$CHAOS_BACKGROUND $!"
		chaos_random_act || return
		wait_until 60 chaos_few_wait || { echo "# jobs do not end any more"; return 1; }
	done
	for id in $CHAOS_BACKGROUND; do wait "$id" || :; done
	CHAOS_BACKGROUND=''
	# However few faults there was time for: the ends that are shown now have one more to outlive.
	wait_until 120 chaos_all_ended || { echo "# not every job has ended"; return 1; }
	chaos_look
	chaos_inject kill-hearthd && chaos_heal kill-hearthd
}
chaos_few_wait() { hearth ls --all status:queued --json | jq -e '.jobs | length < 6' >/dev/null; }

# ---- as a program ------------------------------------------------------------------------------------------------
chaos_save() {
	# -g: they are read inside of a function.
	declare -p CLUSTER CLUSTER_ID CLUSTER_HOSTS HIST CHAOS_OPEN CHAOS_DISKS 2>/dev/null | sed 's/^declare /declare -g /' >"$CLUSTER/chaos.env"
}
chaos_load() {
	[ -n "${CHAOS:-}" ] && [ -e "$CHAOS/chaos.env" ] || { echo "chaos.sh: CHAOS must name the folder that 'up' printed" >&2; exit 2; }
	. "$CHAOS/chaos.env"
}
chaos_main_random() {
	local seed=1 minutes=1 hosts=4 rc
	while [ $# -gt 1 ]; do
		case $1 in
		--seed) seed=$2 ;;
		--minutes) minutes=$2 ;;
		--hosts) hosts=$2 ;;
		*) echo "chaos.sh random: unknown option $1" >&2; return 2 ;;
		esac
		shift 2
	done
	echo "# seed $seed"
	chaos_up "$hosts" || return
	chaos_random "$seed" $((minutes * 60)) && chaos_finish 120
	rc=$?
	[ $rc -eq 0 ] || echo "# failed with seed $seed"
	chaos_down
	return $rc
}
chaos_main_plan() {
	local seed=1 steps=20 hosts=4
	while [ $# -gt 1 ]; do
		case $1 in
		--seed) seed=$2 ;;
		--steps) steps=$2 ;;
		--hosts) hosts=$2 ;;
		*) break ;;
		esac
		shift 2
	done
	[ $# -eq 0 ] || { echo "chaos.sh plan: unknown option $1" >&2; return 2; }
	CLUSTER_HOSTS=$(seq -f 'host%g' "$hosts")
	chaos_plan "$seed" "$steps"
}
chaos_main() {
	local verb=${1:-} why rc
	[ $# -eq 0 ] || shift
	case $verb in
	list) chaos_list ;;
	random) chaos_main_random "$@" ;;
	up)
		why=$(chaos_can)
		[ -z "$why" ] || { echo "chaos.sh: $why" >&2; return 1; }
		chaos_up "${1:-4}" >/dev/null || return
		trap - EXIT
		chaos_save
		echo "$CLUSTER"
		;;
	plan) chaos_main_plan "$@" ;;
	submit | inject | heal | look | finish | down)
		chaos_load
		"chaos_$verb" "$@"
		rc=$?
		[ "$verb" = down ] || chaos_save
		return $rc
		;;
	heal-all) chaos_load && chaos_heal_all && chaos_save ;;
	*)
		sed -n '2,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
		[ "$verb" = help ]
		;;
	esac
}
if [ "${BASH_SOURCE[0]}" = "$0" ]; then chaos_main "$@"; fi
