#!/bin/bash
# Checkpoints of two accounts on one node: neither can read or disturb what the node holds of the other, and neither gets more of its disk than its
# share. A large checkpoint is skipped and the oldest one goes, each with an event. Copies run at idle priority, on CPUs that the job does not have.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
cluster_up 1 && cluster_hearth --slots 20 --min-uid 1 --held-limit 2MB --checkpoint-rate 300k || bail "no cluster"
mkdir -m 0755 "$CLUSTER/src" && cp "$HEARTH_TOP_SRCDIR/tests/programs/saver.py" "$CLUSTER/src" && mkdir -m 1777 "$CLUSTER/copies"
held=$CLUSTER/host1/data/held
cat >"$CLUSTER/src/spy.sh" <<'END'
# Looks for what is held of others, disturbs every helper, and saves a checkpoint that is too large and one of an odd name.
held=$1
head -c 3000000 /dev/zero | tr '\0' x >$HEARTH_CHECKPOINT_DIR/large_1.pt
for i in $(seq 60); do
	echo "step=$i"
	ls $held && echo "SPY lists"
	cat $held/*/index $held/*/files/*/* 2>/dev/null | grep -q . && echo "SPY reads"
	mkdir -p $held/99.1/files 2>/dev/null && echo "SPY makes"
	for pid in $(pgrep hearth-files); do
		ls /proc/$pid/fd/ 2>/dev/null | grep -q . && echo "SPY sees descriptors of $pid"
		[ "$(stat -c %u /proc/$pid 2>/dev/null)" = "$(id -u)" ] || kill -STOP $pid 2>/dev/null && [ "$(stat -c %u /proc/$pid 2>/dev/null)" != "$(id -u)" ] && echo "SPY stops $pid"
		kill -KILL $pid 2>/dev/null
	done
	head -c 1000 /dev/urandom >"$HEARTH_CHECKPOINT_DIR/$(printf 'odd\377')_$i.pt"
	sleep 0.5
done
END
submit() { # ACCOUNT NAME COMMAND
	printf '{"name": "%s", "launcher": "direct", "command": ["/bin/sh", "-c", "%s"], "source_dir": "%s", "checkpoint": {"uri": "file://%s/copies/%s"}, "limits": {"grace_s": 1}, "retry": {"max_attempts": 0}, "metrics": [{"name": "step", "regex": "step=([0-9]+)"}]}\n' \
		"$2" "$3" "$CLUSTER/src" "$CLUSTER" "$2" >"$CLUSTER/$2.json"
	chmod 644 "$CLUSTER/$2.json"
	cluster_as "$1" submit "$CLUSTER/$2.json"
}
newest() { hearth checkpoints "$1" --json | jq "[.checkpoints[] | select(.complete and all(.places[]; .state == \"$2\")) | .step] | max // 0"; }
has() { [ "$(newest "$1" "$2")" -ge "$3" ]; }
warned() { hearth events "$1" --json | jq -r '.. | objects | select(.type? == "warning") | .data.text' | grep -q -- "$2"; }
ends() { hearth show "$1" --json | jq -e '.status == "failed" or .status == "completed" or .status == "stopped"' >/dev/null; }

good=$(submit daemon good "exec python3 saver.py hearth --steps 200 --every 4 --pause 0.4")
spy=$(submit nobody spy "exec sh spy.sh $held 2>/dev/null")
ok "the spy's large checkpoint is skipped, and an event says why" wait_until 40 warned "$spy" "large_1.pt is not secured.*--held-limit"
ok "a checkpoint of an odd name has an event, too" wait_until 40 warned "$spy" "not valid UTF-8"
copier() { # CPU class, I/O class and CPUs of a helper that copies
	cluster_in host1 sh -c 'for pid in $(pgrep -u daemon hearth-files); do
		echo "$(chrt -p $pid | sed -n "s/.*policy: //p") $(ionice -p $pid | cut -c1-4) $(taskset -cp $pid | sed "s/.*: //")"
	done' 2>/dev/null | grep -m 1 '^SCHED_IDLE idle [0-9]'
}
copies() { copier >"$CLUSTER/seen"; }
ok "a helper copies at idle CPU and I/O priority" wait_until 40 copies
seen=$(cat "$CLUSTER/seen")
job_cpus=$(cluster_in host1 sh -c 'taskset -cp $(pgrep -of "saver.py hearth")' | sed 's/.*: //')
if [ "$(nproc)" -gt 1 ] && [[ $job_cpus =~ ^[0-9]+$ ]]; then
	unlike " ${seen##* }," "[ ,]$job_cpus," "on CPUs that the job does not have ($seen; the job has $job_cpus)"
else
	skip "CPUs of copies" "needs two CPUs and a job with one of them"
fi
ok "the neighbour's checkpoints have copies" wait_until 60 has "$good" verified 8
is "$(hearth logs "$spy" | grep SPY | sort | uniq -c)" "" "the spy lists, reads and makes nothing there, and stops nobody's helper"
ok "what is held stays in its bound" test "$(du -sb --apparent-size "$held" | cut -f1)" -lt 2300000
ok "the neighbour's newest checkpoints are held" test "$(find "$held/$good.1/files" -name model.pt | wc -l)" -ge 2
ok "with the right to nobody else" test "$(stat -c '%a %u' "$held" "$held/$good.1" | sort -u)" = "700 0"
hearth stop "$spy" >/dev/null
hearth stop "$good" >/dev/null
ok "both end" wait_until 40 eval 'ends "$spy" && ends "$good"'
unlike "$(hearth events "$good" --json | jq -r '.. | objects | select(.type? == "warning") | .data.text')" "no longer secured|not secured" "the neighbour has no such event"
cluster_clean
done_testing
