# shellcheck shell=bash
# recover: jobs of tests/programs/train.py on a cluster of tests/chaos/chaos.sh, which meet a fault and have to end as if it had not been.
#
#   recover_up N               N hosts, hearthd with a lease of 3 s, and the undisturbed run: its last loss is in RECOVER_LOSS
#   recover_start FAULT        submits the job of a fault;  recover_saved FAULT  waits for its first checkpoint outside of the node
#   recover_matrix FAULT...    all at once: jobs, faults, ends, assertions
#   recover_rounds "FAULT..."...   recover_matrix of each list; with HEARTH_SOAK 20 times, each time in another order of lists and faults
#   recover_victim FAULT N     sets VICTIM to the N-th node of its job, for the fault and for what ends it (RECOVER_VICTIM[FAULT])
#   recover_finish             a test for each host that nothing is left, and hearthd --verify
#
# A fault is a function fault_NAME JOB. By its name, where the default does not do: recover_cause_NAME (of all: recover_cause) has the regular
# expression of its sentence, recover_attempts_NAME the number of attempts (2), recover_job_NAME sets launcher and members of the specification in
# `job`, recover_heal_NAME ends the fault when its job has ended; recover_before_heal_NAME tests before that.
. "${HEARTH_TOP_SRCDIR:?}/tests/chaos/chaos.sh"
# shellcheck disable=SC2034 # for cluster.sh
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
RECOVER_LOSS='' RECOVER_STEPS=80 RECOVER_EVERY=10 RECOVER_PACE=0.15
declare -A RECOVER_JOB RECOVER_VICTIM # by fault

recover_can() { chaos_can; }
recover_up() { # N
	chaos_up "$1" || return 1
	cp "$HEARTH_TOP_SRCDIR/tests/programs/train.py" "$CLUSTER/src/"
	local calm
	calm=$(recover_submit calm direct "$RECOVER_STEPS" 0.01) || return 1
	is "$(recover_wait "$calm" 60; recover_show "$calm" .status)" completed "an undisturbed job completes"
	RECOVER_LOSS=$(recover_loss "$calm")
	like "$RECOVER_LOSS" "^final loss=" "it has its last loss ($RECOVER_LOSS)"
}
recover_show() { hearth show "$1" --json | jq -r "$2"; }
recover_submit() { # NAME LAUNCHER STEPS PACE [MEMBERS [ENVIRONMENT]]: two nodes; prints the id
	printf '{"name": "%s", "command": ["/usr/bin/python3", "train.py", "%s", "%s", "%s"], "source_dir": "%s/src", "launcher": "%s", %s
		"environment": {"TRAIN_SIDE": "%s", "TRAIN_LATER": "0.03"%s}, "limits": {"grace_s": 2}, "resources": {"instances": 2, "ranks_per_instance": 1, "gpus_per_instance": %s%s},
		"metrics": [{"name": "step", "regex": "step=([0-9]+)"}, {"name": "loss", "regex": "loss=([0-9.]+)"}]}\n' \
		"$1" "$3" "$RECOVER_EVERY" "$4" "$CLUSTER" "$2" "${5:-}" "$CHAOS_SIDE" "${6:-}" "${RECOVER_GPUS:-2}" "${7:-}" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
recover_wait() { chaos_wait "$1" "$2"; } # JOB SECONDS
recover_loss() { sed -n 's/^\(final loss=.*\)$/\1/p' "$HIST/side/$1".*.0 2>/dev/null | tail -n 1; }
recover_newest() { hearth checkpoints "$1" --json | jq '[.checkpoints[] | select(.complete and all(.places[]; .state == "verified")) | .step] | max // 0'; }
recover_has() { [ "$(recover_newest "$1")" -ge "$2" ]; } # JOB STEP
recover_host() { hearth show "$1" --json | jq -r ".attempts[$2].nodes[$3]"; } # JOB ATTEMPT-FROM-0 NODE-RANK
# As wait_until, at a rate that leaves the cores to the cluster.
recover_until() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		chaos_pause 0.3
	done
}

# Prints what must not be, by the programs' own records: a step that an attempt trains again although it is not after the checkpoint with which it
# began, another first step than the one after it, and attempts that overlap.
recover_wrong() { # JOB
	local from
	from=$(recover_show "$1" '[.attempts[1:][] | .resumed_from_step // 0] | join(" ")')
	{
		cat "$HIST/side/$1".*.[01] 2>/dev/null
		for f in "$HIST/side/$1".*.alive; do
			n=${f#"$HIST/side/$1."}
			[ ! -s "$f" ] || echo "alive ${n%%.*} - - $(cat "$f")"
		done
	} | awk -v from="$from" '
		BEGIN { split(from, begin, " ") }
		$1 == "did" { attempt = $2; rank = $3; step = $4
		  if (attempt > 1 && step <= begin[attempt - 1]) print "attempt " attempt " of rank " rank " trains step " step " again"
		  if (!(attempt SUBSEP rank in first) && step != (attempt > 1 ? begin[attempt - 1] : 0) + 1) print "attempt " attempt " of rank " rank " begins at step " step
		  first[attempt, rank] = 1
		  if (!(attempt in began) || $5 < began[attempt]) began[attempt] = $5 }
		$1 == "did" || $1 == "alive" { if (!($2 in over) || $5 > over[$2]) over[$2] = $5 }
		END { for (a in began) if ((a + 1) in began && began[a + 1] < over[a]) print "attempts " a " and " a + 1 " overlap: " over[a] " " began[a + 1] }'
}

# ---- a fault ----------------------------------------------------------------------------------------------------------
recover_start() { # FAULT
	local job=(direct '' '' '') name=$1
	if declare -F "recover_job_$name" >/dev/null; then "recover_job_$name"; fi
	RECOVER_JOB[$name]=$(recover_submit "$name" "${job[0]}" "$RECOVER_STEPS" "$RECOVER_PACE" "${job[1]}" "${job[2]}" "${job[3]}")
}
recover_saved() { # FAULT
	recover_until 60 recover_has "${RECOVER_JOB[$1]}" "${RECOVER_SAVED:-$RECOVER_EVERY}"
}
recover_assert() { # FAULT: the job of it
	local name=$1 id=${RECOVER_JOB[$1]} cause=recover_cause_$1 attempts=recover_attempts_$1
	ok "$name: the job ends" recover_wait "$id" 50
	is "$(recover_show "$id" .status) $(recover_loss "$id")" "completed $RECOVER_LOSS" "$name: it completes with the undisturbed loss"
	is "$(recover_show "$id" .attempt_count)" "${!attempts:-2}" "$name: number of attempts"
	is "$(recover_show "$id" "[.attempts[1:][] | .resumed_from_step // 0 | select(. < $RECOVER_EVERY)] | length")" 0 "$name: each later attempt begins with a checkpoint"
	is "$(recover_wrong "$id")" "" "$name: no step is trained twice before it, and attempts do not overlap"
	[ "${!attempts:-2}" = 1 ] || like "$(recover_show "$id" '.attempts[1].cause')" "${!cause:-${recover_cause:?}}" "$name: one sentence explains it"
	diag "$(recover_show "$id" '.attempts[] | [.number, .outcome, .class, .placed_at, .ended_at, (.nodes | join(",")), .resumed_from_step, .cause] | map(tostring) | join(" ")')"
}
recover_matrix() { # FAULT...
	local name
	diag "$SECONDS s: $*"
	for name; do recover_start "$name"; done
	for name; do ok "$name: a checkpoint has a verified copy" recover_saved "$name"; done
	chaos_pause "${RECOVER_LATER:-0.1}"
	for name; do does "$name: the fault" "fault_$name" "${RECOVER_JOB[$name]}"; done
	for name; do recover_assert "$name"; done
	for name; do recover_end "$name"; done
}
recover_end() { # FAULT
	if declare -F "recover_before_heal_$1" >/dev/null; then "recover_before_heal_$1"; fi
	if declare -F "recover_heal_$1" >/dev/null; then does "$1: it is over" "recover_heal_$1"; fi
}
recover_rounds() { # "FAULT..."...
	local round list names
	if [ -z "${HEARTH_SOAK:-}" ]; then
		# shellcheck disable=SC2086 # a list
		for list; do recover_matrix $list; done
		return
	fi
	RANDOM=${CHAOS_SEED:=$$}
	for round in $(seq "${CHAOS_ROUNDS:-20}"); do
		diag "round $round of seed $CHAOS_SEED"
		while IFS= read -r list; do
			# shellcheck disable=SC2086
			mapfile -t names < <(shuf --random-source=<(recover_bytes "$RANDOM") -e $list)
			RECOVER_LATER=0.$((RANDOM % 90 + 10)) # the instant of the faults after the first checkpoint
			recover_matrix "${names[@]}"
			recover_settle
		done < <(shuf --random-source=<(recover_bytes "$RANDOM") -e "$@")
	done
}
recover_bytes() { # SEED: many bytes that follow from it
	local n=$1
	for _ in $(seq 200); do
		n=$(((n * 1103515245 + 12345) % 2147483648))
		printf '%d\n' "$n"
	done
}
recover_settle() { # every host is back, for the next round
	local host
	for host in $CLUSTER_HOSTS; do ok "$host is up" wait_until 30 cluster_node_up "$host"; done
}
recover_victim() { # FAULT NODE-RANK
	VICTIM=$(recover_host "${RECOVER_JOB[$1]}" 0 "$2")
	# shellcheck disable=SC2034 # for the test
	RECOVER_VICTIM[$1]=$VICTIM
	[ "$VICTIM" != null ]
}
recover_finish() {
	local host
	diag "$SECONDS s: the end"
	does "every fault is over" chaos_heal_all
	recover_settle
	cluster_clean
	for host in $CLUSTER_HOSTS; do is "$(recover_ports "$host")" "" "no port is open on $host"; done
	ok "hearthd --verify finds nothing" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify
}
recover_ports() { cluster_in "$1" ss -Hltnp | grep -v '"hearth-agent"'; } # HOST
