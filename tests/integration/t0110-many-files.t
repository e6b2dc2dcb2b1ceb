#!/bin/bash
# A source tree and a model of so many files that their manifests are far larger than one message: submit, staging, upload, get.
# 8,000 files far down (a manifest of some 6 MiB); with HEARTH_SOAK=1 100,000 more.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"

local_home

local_up --nodes 1 || bail "no local cluster: $ERR"

part=$(printf 'p%.0s' {1..240})
deep=src/$part/$part/$part
mkdir -p "$deep" src/wide
(cd "$deep" && seq -f 'f%06g' 1 8000 | xargs touch)
if [ "${HEARTH_SOAK:-0}" = 1 ]; then
	for d in $(seq 1 100); do
		mkdir "src/wide/$d"
		(cd "src/wide/$d" && for f in $(seq 1 1000); do echo "$d/$f" >"file-$f"; done)
	done
fi
echo 'echo in the tree' >src/run.sh
files=$(find src -type f | wc -l)
sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum); }

jq -n '{name: "many", command: ["/bin/sh", "-c",
	". ./run.sh; find . -type f | wc -l; cp -r . \"$SM_MODEL_DIR/tree\""],
	source_dir: "src", launcher: "direct", resources: {instances: 1}, limits: {max_runtime_s: 500}}' >job.json
ok "submitted" "$jobctl" submit job.json
ok "it ends well" timeout 500 "$jobctl" wait last
is "$("$jobctl" logs last 2>/dev/null | tr -d ' ' | tail -n 2 | paste -sd' ')" "inthetree $files" "the job sees all $files files"
ok "the model comes back" "$jobctl" get last model got
is "$(find got/tree -type f | wc -l)" "$files" "with all files"
is "$(sums got/tree)" "$(sums src)" "and their content"
ok "so does the source" "$jobctl" get last code back
is "$(sums back)" "$(sums src)" "as it was"
manifest=$(find "$home" -path '*/blobs/*' -type f -size +4096k -exec sh -c 'head -c 11 "$1" | grep -q "^hearth-tree" && echo "$1"' _ {} \; | wc -l)
ok "by manifests of more than 4 MiB ($manifest)" [ "$manifest" -ge 2 ]
done_testing
