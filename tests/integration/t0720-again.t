#!/bin/bash
# submit --again: the file that was last submitted here, with the files of its source that changed.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"

local_home
local_up --nodes 1 || bail "no local cluster: $ERR"

mkdir -p work/src other
cd work || bail "no folder"
for ((i = 0; i < 40; i++)); do echo "part $i" >"src/part$i.txt"; done
head -c 700000 /dev/zero | tr '\0' x >src/large.bin
echo 'cat part0.txt; echo "$1 $2"' >src/main.sh
cat >job.json <<'JSON'
{"name": "again", "command": ["/bin/sh", "main.sh"], "launcher": "direct", "source_dir": "src", "hyperparameters": {"lr": 1},
 "retry": {"max_attempts": 0}}
JSON

rc 2 "no submit from $home/work to unix://.* is remembered.*jobctl submit --again FILE" "again before any submit: exit code 2, and what to type" submit --again
rc 2 "submit: expected FILE" "submit without a file and without --again: exit code 2" submit
run submit job.json --set hyperparameters.lr=7 --name first --wait
first=$OUT
is "$("$jobctl" logs "$first")" "part 0
--lr 7" "the first job ran"
is "$(stat -c %a "$home/.local/state/hearth/submitted")" 600 "the memory of submits is private"

# --- which files differ -----------------------------------------------------------------------------------------
run submit --again --dry-run
is "$RC" 0 "again --dry-run"
like "$ERR" "Again: $home/work/job.json, last submitted as job $first, with --set hyperparameters.lr=7 --name first\$" "again names the file, the job and the options"
like "$ERR" "; the controller has all [0-9.]+KiB" "again without a change has nothing to send"
like "$ERR" "No warm pool matches" "and says that no pool matches"
like "$ERR" "No file of the source differs from that of job $first" "again without a change says so"
echo 'part zero' >src/part0.txt # of another size
echo 'part Z' >src/part9.txt    # of the same size, in a block with others
echo more >src/new.txt
rm src/part39.txt
chmod +x src/main.sh
run submit --again --dry-run --json
is "$(jq -c '.again | [.job, .files, [.changed[] | [.how, .path, .size]]]' <<<"$OUT")" \
	"[$first,42,[[\"changed\",\"main.sh\",28],[\"added\",\"new.txt\",5],[\"changed\",\"part0.txt\",10],[\"removed\",\"part39.txt\",null],[\"changed\",\"part9.txt\",7]]]" \
	"again --dry-run --json lists what differs"
is "$(jq -c '.again | [.sent_bytes, (.would_send_bytes > 0), .set, .name]' <<<"$OUT")" '[0,true,["hyperparameters.lr=7"],"first"]' "again --dry-run sends nothing, and says how much it would send"
run submit --again --dry-run
like "$ERR" "; it would send [0-9]+B of" "in a sentence, too"
run submit --again --wait
second=$OUT
like "$second" '^[1-9][0-9]*$' "again prints the id alone on standard output"
for line in 'changed +main.sh' 'added +new.txt +5B' 'changed +part0.txt +10B' 'removed +part39.txt' 'changed +part9.txt'; do
	like "$ERR" "  $line" "again prints: $line"
done
like "$ERR" "No warm pool matches: job $second starts on cold nodes" "again says that the job starts cold"
unlike "$ERR" 'part1.txt|large.bin' "again prints no file that is equal"
like "$ERR" '5 of 43 files differ' "again counts them"
is "$("$jobctl" logs "$second")" "part zero
--lr 7" "the second job has the changed file, and --set and --name of the first"
is "$("$jobctl" show "$second" --json | jq -r .name)" first "the name of the first, too"

# --- options, files, folders --------------------------------------------------------------------------------------
echo 'xx' >>src/large.bin
run submit --again --set hyperparameters.lr=8 --json
third=$(jq .id <<<"$OUT")
is "$(jq -c '[.again.changed[].path]' <<<"$OUT")" '["large.bin"]' "a large file that grew differs alone"
is "$(jq -c .again.set <<<"$OUT")" '[]' "an option that is given now is not repeated"
is "$(jq '.again.sent_bytes < 1000000' <<<"$OUT")" true "again sends the blocks that changed only"
"$jobctl" wait "$third" --timeout 60 >/dev/null
is "$("$jobctl" show "$third" --json | jq .hyperparameters.lr)" 8 "--set after --again wins over the remembered one"
cd ../other || bail "no folder"
rc 2 "no submit from $home/other .* is remembered.*last submitted on this machine: $home/work/job.json" "again in another folder: exit code 2, and the last file" submit --again
run submit --again ../work/job.json --json
is "$(jq -c '[.again.job, (.again.changed | length)]' <<<"$OUT")" "[$third,0]" "again FILE finds it from another folder"
run submit --again --dry-run --json
is "$(jq -r .again.file <<<"$OUT")" "$home/work/job.json" "a submit from this folder is remembered for this folder"
newest=$(jq .again.job <<<"$OUT")
cd ../work || bail "no folder"
run submit --again --dry-run --json
is "$(jq .again.job <<<"$OUT")" "$newest" "again compares with the newest submit of the file, also from another folder"
cd ../other || bail "no folder"
sed s/again/fresh/ ../work/job.json | jq 'del(.source_dir) | .command = ["true"]' >fresh.json
run submit --again fresh.json
is "$RC" 0 "again FILE of a file that was never submitted submits it"
like "$ERR" "$home/other/fresh.json was not submitted from this machine yet" "again FILE says that it was never submitted"
run submit --again --dry-run
like "$ERR" "The job has no source" "again of a job without a source says so"
rc 2 "needs a file" "again of standard input: exit code 2" submit --again -

# --- bounds and damage --------------------------------------------------------------------------------------------
for ((i = 0; i < 105; i++)); do
	jq -n --argjson i "$i" '{url: "http://127.0.0.1:1", folder: "/x\($i)", file: "/x", job: 1, set: []}'
done | jq -s '{submits: .}' >"$home/.local/state/hearth/submitted"
"$jobctl" submit fresh.json >/dev/null
is "$(jq '.submits | length' "$home/.local/state/hearth/submitted")" 100 "at most 100 submits are remembered"
is "$(jq -r '.submits[0].file' "$home/.local/state/hearth/submitted")" "$home/other/fresh.json" "the newest is the first"
echo '{' >"$home/.local/state/hearth/submitted"
rc 2 "$home/.local/state/hearth/submitted: .*remove" "again with a damaged memory: exit code 2, and what to do" submit --again
rc 0 '^[1-9]' "a submit replaces a damaged memory" submit fresh.json
rc 0 '^[1-9]' "again works after it" submit --again

done_testing
