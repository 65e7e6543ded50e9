#!/bin/sh
# Prints what a sample costs, by stack, for prof and beside it for other profilers that are installed, in one run.
# docs/performance.md says what the columns mean. POSIX sh; root.
#
#   benches/walker.sh [PROF [HZ]]     target/release/prof and 4999 by default
set -eu
cd "$(dirname "$0")/.."

prof=${1:-target/release/prof}
hz=${2:-4999}
rounds=3
peer_rounds=5
work=$(mktemp -d)
target=
trap 'if [ -n "$target" ]; then kill "$target" 2>/dev/null || true; fi; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

[ "$(id -u)" = 0 ] || {
	echo "walker.sh: recording needs root" >&2
	exit 1
}
cc -O2 -fomit-frame-pointer -o "$work/walker" benches/walker.c
cc -O2 -o "$work/bare_event" benches/bare_event.c

# median: of the numbers on standard input.
median() {
	sort -n | awk '{ value[NR] = $1 } END { if (NR) print value[int((NR + 1) / 2)]; else print "nan" }'
}

# bpf NAME PROGRAM [ARG…]: BPF time per sample.
bpf() {
	name=$1
	shift
	"$@" >/dev/null 2>&1 </dev/null &
	target=$!
	sleep 1
	round=0
	while [ $round -lt $rounds ]; do
		"$prof" record -e cpu -F "$hz" -d 1s -q -f -o "$work/prof.data" -p $target 2>/dev/null
		"$prof" report --json -n 1 "$work/prof.data" >"$work/report.json"
		python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
print("%.2f %.2f" % (report["cost"]["bpf_ns"] / 1e3 / max(report["samples"], 1), report["quality"]["complete_pct"]))
' "$work/report.json"
		round=$((round + 1))
	done >"$work/runs"
	"$prof" export --format folded -o - "$work/prof.data" | awk '
		{ weight = $NF; sub(/ [0-9]+$/, ""); frames += weight * (split($0, unused, ";") - 1); all += weight }
		END { printf "%.0f\n", all ? frames / all : 0 }' >"$work/frames"
	kill "$target" 2>/dev/null || true
	wait "$target" 2>/dev/null || true
	target=
	printf '%-28s %8s %10s %12s\n' "$name" "$(cat "$work/frames")" \
		"$(cut -d ' ' -f 1 "$work/runs" | median)" "$(cut -d ' ' -f 2 "$work/runs" | median)"
}

# felt: time that the target misses, in us per second of its own: the median of two seconds.
felt() {
	: >"$work/gaps"
	sleep 2
	sed -n 's/^gap_us=//p' "$work/gaps" | median
}

# peer NAME COMMAND…: notes the time that a 34-frame target misses per sample while the command records it (PID for its
# number), and the command's CPU time.
peer() {
	name=$1
	shift
	file=$work/peer.$(printf '%s' "$name" | tr -c 'a-z\n' '_')
	if ! command -v "$1" >/dev/null 2>&1; then
		[ -e "$file" ] || printf '%-28s skipped: %s is not installed\n' "$name" "$1"
		: >"$file"
		return
	fi
	without=$(felt)
	command=$(printf '%s ' "$@" | sed "s/PID/$target/")
	# Unquoted on purpose: one word each.
	$command >/dev/null 2>"$work/messages" &
	tool=$!
	sleep 1
	before=$(awk '{ print $14 + $15 }' "/proc/$tool/stat" 2>/dev/null || echo 0)
	with=$(felt)
	after=$(awk '{ print $14 + $15 }' "/proc/$tool/stat" 2>/dev/null || echo 0)
	# A shell starts background jobs with SIGINT ignored, and some tools respect that.
	kill -INT $tool 2>/dev/null || true
	sleep 1
	kill -TERM $tool 2>/dev/null || true
	wait $tool 2>/dev/null || true
	awk -v without="$without" -v with="$with" -v hz="$hz" -v ticks=$((after - before)) '
		BEGIN { printf "%.2f %.2f\n", (with - without) / hz, ticks / 2 }' >>"$file"
}

# peer_row NAME: the medians of what `peer` has noted.
peer_row() {
	file=$work/peer.$(printf '%s' "$1" | tr -c 'a-z\n' '_')
	[ -s "$file" ] || return 0
	awk -v name="$1" -v felt="$(cut -d ' ' -f 1 "$file" | median)" -v cpu="$(cut -d ' ' -f 2 "$file" | median)" \
		-v bare="$(cut -d ' ' -f 1 "$work/peer.bare_event" | median)" '
		BEGIN { printf "%-28s %10.1f %10.2f %12.2f\n", name, felt, (bare > 0 ? felt / bare : 0), cpu }'
}

printf 'machine: %s, %s CPUs, Linux %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(uname -r)"
printf 'date:    %s, %s Hz, load %s\n\n' "$(date -u +%Y-%m-%d)" "$hz" "$(cut -d ' ' -f 1 /proc/loadavg)"
printf '%-28s %8s %10s %12s\n' 'BPF time per sample' frames us 'complete, %'
bpf 'recursion of 20' "$work/walker" 20 100
bpf 'recursion of 310' "$work/walker" 310 100
bpf 'python' /usr/bin/python3 -c 'import json
value = {str(i): {"a": list(range(20)), "b": "x" * 30} for i in range(200)}
while True:
    json.loads(json.dumps(value))'
if command -v clang >/dev/null 2>&1; then
	awk 'BEGIN { for (n = 0; n < 20000; n++) printf "int f%d(int *p, int n) { int s = %d; for (int i = 0; i < n; i++) { switch (p[i] %% 7) { case 0: s += p[i] * %d; break; case 1: s ^= p[i] << 3; break; default: s -= p[i] / (i + 3); } } return s; }\n", n, n, n }' >"$work/big.c"
	bpf 'clang' clang -O2 -S -o /dev/null "$work/big.c"
else
	printf '%-28s skipped: clang is not installed\n' clang
fi

printf '\n%-28s %10s %10s %12s\n' 'target, 34 frames' 'felt, us' 'to bare' 'tool, % CPU'
"$work/walker" 29 6000 >>"$work/gaps" &
target=$!
sleep 1
round=0
while [ $round -lt $peer_rounds ]; do
	peer 'bare event' "$work/bare_event" "$hz"
	peer 'perf, no stacks' perf record -e cpu-clock -F "$hz" -o "$work/perf.data" -p PID
	peer 'prof' "$prof" record -e cpu -F "$hz" -q -f -o "$work/prof.data" -p PID
	peer 'perf -g' perf record -g -e cpu-clock -F "$hz" -o "$work/perf.data" -p PID
	peer 'perf --call-graph dwarf' perf record --call-graph dwarf -e cpu-clock -F "$hz" -o "$work/perf.data" -p PID
	peer 'samply' samply record -s -r "$hz" -o "$work/samply.json" -p PID
	round=$((round + 1))
done
for name in 'bare event' 'perf, no stacks' 'prof' 'perf -g' 'perf --call-graph dwarf' 'samply'; do
	peer_row "$name"
done
kill "$target"
target=
