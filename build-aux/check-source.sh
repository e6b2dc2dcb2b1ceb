#!/bin/sh
# Checks what neither the compiler nor clang-format does: sizes, banned functions, blanks at line ends.
# Usage: check-source.sh [FILE...]   (default: every tracked or new source file of the tree)
# Prints one file:line: message per finding; ends with 1 when there was any.
set -eu

cd "$(dirname "$0")/.."

list_files() {
	if [ -d .git ] || [ -f .git ]; then
		git ls-files --cached --others --exclude-standard
	else
		find . -type f ! -path './build*' | sed 's|^\./||'
	fi
}

# Folders whose C files have the one style of CONTRIBUTING.md ("Names"): sizeof(x), strcmp(a, b) == 0.
# A folder joins when it is clean; none leaves.
styled='^(common|shim|scheduler|store|agent|controller/(record|state|share|run|cluster|requests)|tests/unit/(common|store))/'

# One pass of awk a file. C functions are found by the house style: '{' and '}' alone in column 1.
check_file() {
	case $1 in
	*.c | *.h) kind=c ;;
	*.js | *.css | *.html) kind=web ;;
	*.sh | *.t | *.py | *.am | *.ac | *.md) kind=text ;;
	*) return 0 ;;
	esac
	awk -v file="$1" -v kind="$kind" -v styled="$styled" '
	function report(line, text) {
		printf "%s:%d: %s\n", file, line, text
		bad = 1
	}
	# Returns the code of a line, without comments and quoted text: names in those are not calls.
	function code_of(line,    out, i) {
		out = ""
		while (line != "") {
			if (in_comment) {
				i = index(line, "*/")
				if (!i)
					return out
				line = substr(line, i + 2)
				in_comment = 0
				continue
			}
			if (!match(line, /"([^"\\]|\\.)*"|\047([^\047\\]|\\.)*\047|\/\*|\/\//))
				return out line
			out = out substr(line, 1, RSTART - 1)
			if (substr(line, RSTART, 2) == "//")
				return out
			if (substr(line, RSTART, 2) == "/*")
				in_comment = 1
			line = substr(line, RSTART + RLENGTH)
		}
		return out
	}
	function banned(code, name, instead) {
		if (match(code, "(^|[^A-Za-z0-9_.>])" name "[ \t]*\\("))
			report(FNR, name "() is not used here; " instead)
	}
	/[ \t\r]$/ { report(FNR, "blank at the end of the line") }
	kind == "c" {
		code = code_of($0)
		if (file != "common/base/clock.c") {
			banned(code, "time", "see common/base/clock.h")
			banned(code, "gettimeofday", "see common/base/clock.h")
			banned(code, "clock_gettime", "see common/base/clock.h")
		}
		if (file != "common/base/hash.c") {
			banned(code, "rand", "see random_bytes in common/base/hash.h")
			banned(code, "srand", "see random_bytes in common/base/hash.h")
			banned(code, "random", "see random_bytes in common/base/hash.h")
			banned(code, "rand_r", "see random_bytes in common/base/hash.h")
		}
		banned(code, "strcpy", "it has no bound")
		banned(code, "strcat", "it has no bound")
		banned(code, "sprintf", "it has no bound")
		banned(code, "vsprintf", "it has no bound")
		banned(code, "gets", "it has no bound")
		if (file ~ styled) {
			if (match(code, /(^|[^A-Za-z0-9_])sizeof[ \t]+[^ \t(]/))
				report(FNR, "sizeof without parentheses; write sizeof(x)")
			if (match(code, /![ \t]*strn?(case)?cmp\(/))
				report(FNR, "!strcmp() reads as its opposite; write strcmp(a, b) == 0")
		}
		if ($0 == "{")
			start = FNR
		else if ($0 ~ /^}/ && start) {
			if (FNR - start - 1 > 100)
				report(start, "function of " (FNR - start - 1) " lines, at most 100")
			start = 0
		}
	}
	END {
		if (FNR > 800 && (kind == "c" || file ~ /\.js$/))
			report(FNR, "file of " FNR " lines, at most 800")
		exit bad
	}' "$1"
}

failed=0
list=$(mktemp)
trap 'rm -f "$list"' EXIT
if [ $# -gt 0 ]; then
	printf '%s\n' "$@" >"$list"
else
	list_files >"$list"
fi
while IFS= read -r file; do
	[ -f "$file" ] || continue
	check_file "$file" || failed=1
done <"$list"

# The phrases that CONTRIBUTING.md asks us to avoid may only become fewer. Paths that pages name exist. Rules
# of the scheduler and the code that cites them agree.
if [ $# -eq 0 ]; then
	build-aux/check-words.sh || failed=1
	build-aux/check-paths.sh || failed=1
	build-aux/check-rooms.sh || failed=1
	build-aux/check-rules.sh || failed=1
fi

# A failpoint that nobody calls would let a test pass that has made nothing fail.
if [ $# -eq 0 ]; then
	for point in $(sed -n 's/^ *{.name = "\([a-z.]*\)".*/\1/p' common/base/fault.c); do
		grep -rqF --include='*.c' "FAULT(\"$point\")" common shim scheduler store agent controller jobctl || {
			echo "common/base/fault.c: nobody calls the failpoint $point"
			failed=1
		}
	done
fi
exit $failed
