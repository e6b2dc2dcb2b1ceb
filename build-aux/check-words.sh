#!/bin/sh
# Counts the worst phrases in texts that people read, and fails when a folder has more of them than
# build-aux/words-allowed.txt allows. CONTRIBUTING.md ("How we write English") says what to write instead.
#
# Usage: check-words.sh              compare every folder with the table; 1 when one has too many
#        check-words.sh --list PATH...   print file:line: phrase for these files or folders (default: all)
#        check-words.sh --renew      lower the table to the present counts; it never raises one (and solves a conflict in it)
#
# The table is kept by folder, not by file, so that moves and renames within a folder change nothing. A line
# is a top folder ("controller"), or a sub-folder of docs or tests ("docs/man"), or "." for the root.
# A folder without a line is allowed none. Code that moves to another top folder takes its count along, by hand. Lines are joined first, so wrapping a text does not change a count.
set -eu

cd "$(dirname "$0")/.."
table=build-aux/words-allowed.txt

list_files() {
	if [ -d .git ] || [ -f .git ]; then
		git ls-files --cached --others --exclude-standard
	else
		find . -type f ! -path './build*' | sed 's|^\./||'
	fi | grep -E '\.(c|h|md|[1-8]|t|sh|py|js|html)$|^(check|quickstart)$' |
		grep -v -e '^build-aux/check-words\.sh$' -e '^tests/fuzz/\(corpus\|seeds\)/' | sort
}

# Prints "file:line: phrase" for each phrase. Text in backquotes and quotes of a .md page is an example.
find_phrases() {
	# shellcheck disable=SC2016 # the dollars are those of awk
	tr '\n' '\0' | xargs -0 -r awk '
	BEGIN {
		# "Of" and "Who" in capitals begin a sentence. "there is no", "is no longer" and "is no more" are allowed.
		bad = "(go|goes|going|went) by|there (is|are) not|there (is|are) none|(is|are|be) none|anew|that there are not"
		bad = bad "|(is|are|was|were|be) told|told again|stands? (in|at|there|beside)|(lie|lies|lay) (in|at|on|below|beside|there)"
		bad = bad "|in the place of|one asks|since then|is no|Of|Who"
		start = "(^|[^A-Za-z0-9_`-])"
		any = start "(" bad ")[^A-Za-z0-9_`-]"
	}
	FNR == 1 { tail = "" }
	{
		line = $0
		if (FILENAME ~ /\.md$/)
			gsub(/`[^`]*`|"[^"]*"/, "x", line)
		# Drops the signs of comments, strings and man macros at both ends.
		gsub(/^[ \t]*(\/?\*+|\/\/|#+|"|\.[A-Z]+)?[ \t]*"?|[ \t]*("[;,)]*|\\|\*\/)?[ \t]*$/, "", line)
		text = tail " " line " "
		skip = length(tail)
		if (text ~ any) {
			at = 1
			while (match(substr(text, at), any)) {
				from = at + RSTART - 1
				phrase = substr(text, from, RLENGTH)
				end = from + RLENGTH - 1
				at = end
				sub("^[^A-Za-z0-9_`-]", "", phrase)
				sub("[^A-Za-z]$", "", phrase)
				before = substr(text, 1, end - 1)
				behind = substr(text, end - 5, 12)
				if (end - 1 <= skip || before ~ /[Tt]here is no$/ || behind ~ /^is no (longer|more)/)
					continue
				printf "%s:%d: %s\n", FILENAME, FNR, phrase
			}
		}
		n = split(line, words, " ")
		tail = ""
		for (i = n > 3 ? n - 2 : 1; i <= n; i++)
			tail = tail (tail == "" ? "" : " ") words[i]
	}'
}

count_by_folder() {
	list_files | find_phrases | awk -F: '
	{
		n = split($1, part, "/")
		key = n == 1 ? "." : part[1]
		if (n > 2 && (key == "docs" || key == "tests"))
			key = key "/" part[2]
		count[key]++
	}
	END { for (key in count) print key, count[key] }' | sort
}

case ${1-} in
--list)
	shift
	for path in "${@:-.}"; do
		path=${path%/}
		list_files | if [ "$path" = . ]; then cat; else awk -v p="$path" '$0 == p || index($0, p "/") == 1'; fi
	done | find_phrases
	exit 0
	;;
--renew | '') ;;
*)
	echo "usage: check-words.sh [--list PATH... | --renew]" >&2
	exit 2
	;;
esac

counts=$(mktemp)
trap 'rm -f "$counts" "$counts.new"' EXIT
count_by_folder >"$counts"

if [ "${1-}" = --renew ]; then
	awk 'FILENAME == ARGV[1] { now[$1] = $2; next }
	/^#/ { print; next }
	# The marks of a conflict of git go, and of two lines for a folder the first stays.
	/^(<<<<<<<|=======|>>>>>>>)/ || seen[$1]++ { next }
	now[$1] > 0 { print $1, (now[$1] < $2 ? now[$1] : $2) }' "$counts" "$table" >"$counts.new"
	cat "$counts.new" >"$table"
	exit 0
fi

awk 'FILENAME == ARGV[1] { if ($0 !~ /^#/) allowed[$1] = $2; next }
$2 > allowed[$1] + 0 {
	printf "%s: %d of the phrases that we avoid, %d allowed; see: build-aux/check-words.sh --list %s\n",
	       $1, $2, allowed[$1], $1
	bad = 1
}
END { exit bad }' "$table" "$counts"
