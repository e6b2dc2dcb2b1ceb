#!/bin/bash
# An unmodified script-mode training script of the managed service: argparse, SM_ variables, /opt/ml paths, requirements.txt.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 1 && cluster_hearth || bail "no cluster"
src=$CLUSTER/src
# Not below /tmp or /var/tmp: jobs have their own, and pip runs inside the job.
wheels=$(mktemp -d /srv/hcXXXXXX)
chmod 755 "$wheels"
trap 'cluster_down; rm -rf "$wheels"' EXIT
mkdir -p "$src" "$CLUSTER/train"
cp "$HEARTH_TOP_SRCDIR/tests/programs/script_mode/train.py" "$src/"
printf 'a,1\nb,2\nc,39\n' >"$CLUSTER/train/rows.csv"
# A package of our own, found without any network.
/usr/bin/python3 - "$wheels" <<'P'
import base64, hashlib, sys, zipfile
files = {"tinyreq/__init__.py": "ANSWER = 42\n",
         "tinyreq-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tinyreq\nVersion: 1.0\n",
         "tinyreq-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
record = "".join(f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b'=').decode()},{len(t)}\n" for n, t in files.items())
with zipfile.ZipFile(sys.argv[1] + "/tinyreq-1.0-py3-none-any.whl", "w") as z:
    for n, t in files.items():
        z.writestr(n, t)
    z.writestr("tinyreq-1.0.dist-info/RECORD", record + "tinyreq-1.0.dist-info/RECORD,,\n")
P
printf -- '--no-index\n--find-links %s\ntinyreq==1.0\n' "$wheels" >"$src/requirements.txt"
cat >"$CLUSTER/job.json" <<J
{"name": "script-mode", "command": ["python3", "train.py"], "source_dir": "src", "requirements": "requirements.txt", "launcher": "direct",
 "hyperparameters": {"epochs": 3, "learning-rate": 0.05, "optimizer": "adam"},
 "inputs": {"train": {"uri": "file://$CLUSTER/train"}}, "output_uri": "file://$CLUSTER/results/",
 "metrics": [{"name": "train_loss", "regex": "train_loss: ([0-9.]+);"}]}
J
id=$(hearth submit "$CLUSTER/job.json")
hearth wait "$id" --timeout 120 >/dev/null
is "$(hearth show "$id" --json | jq -r .status)" completed "it completes" || :
[ "$(hearth show "$id" --json | jq -r .status)" = completed ] || diag "$(hearth show "$id")" "$(hearth logs "$id" 2>&1 | tail -20)" "$(hearth logs "$id" --stream setup --node 1 2>&1 | tail)"
like "$(hearth logs "$id")" "total=42 answer=42" "it found its data and its requirement"
is "$(jq -c . "$CLUSTER"/results/*/model/model.json)" '{"total":42,"paths":["/opt/ml/model","/opt/ml/input/data/train"]}' "the model is where output_uri says, and the paths were the service's"
is "$(cat "$CLUSTER"/results/*/output/data/report.txt)" 42 "so is the output"
is "$(hearth metrics "$id" train_loss --json | jq -r '.points[-1][2]')" 0.3333 "the metric that it printed is kept"
again=$(hearth submit "$CLUSTER/job.json")
rm -r "$wheels"
hearth wait "$again" --timeout 120 >/dev/null
is "$(hearth show "$again" --json | jq -r .status)" completed "a second run takes the environment from the cache, offline"
cluster_clean
cluster_down
done_testing
