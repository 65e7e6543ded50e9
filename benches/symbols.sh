#!/bin/sh
# How long it takes until a recording of perf has names, inlined functions and lines: by prof, by perf report, and by perf script
# (and inferno-collapse-perf, if it is there).
#
#   benches/symbols.sh [PERF_DATA]
#
# Without a file it records prof itself, built with debug information, while it imports folded stacks; with copied stacks, since
# perf looks only at the inlined functions of whole stacks. TIME_LIMIT is what each of the others may take (600 s). Needs perf; a
# line that cannot be measured says why.
set -eu
cd "$(dirname "$0")/.."

prof=$PWD/target/release/prof
program=$PWD/target/debug/prof
limit=${TIME_LIMIT:-600}
[ -x "$prof" ] || { echo "symbols.sh: $prof is missing: make build" >&2; exit 1; }
command -v perf >/dev/null || { echo "symbols.sh: perf is missing" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ $# -gt 0 ]; then
	data=$1
else
	[ -x "$program" ] || { echo "symbols.sh: $program is missing: cargo build" >&2; exit 1; }
	data=$work/perf.data
	awk 'BEGIN { for (i = 0; i < 1600000; i++) printf "main;a%d;b%d;c%d %d\n", i % 7, i % 1013, i, 1 + i % 5 }' >"$work/folded"
	perf record -q --call-graph dwarf,16384 -F "${FREQUENCY:-997}" -e cpu-clock -o "$data" -- "$program" import -q "$work/folded" -o "$work/x.data" >/dev/null
fi
echo "$(perf script -i "$data" -F ip -G 2>/dev/null | grep -c .) samples in $(du -k "$data" | cut -f 1) kB"

# Runs a command within the time limit and prints the seconds it took. What it writes goes to $work/out.
measure() {
	what=$1
	shift
	began=$(date +%s.%N)
	status=0
	timeout "$limit" "$@" >"$work/out" 2>"$work/said" || status=$?
	ended=$(date +%s.%N)
	case $status in
	0) note= ;;
	124) note='  (ended by the time limit)' ;;
	*) note="  (failed: $(tail -n 1 "$work/said"))" ;;
	esac
	awk -v began="$began" -v ended="$ended" -v what="$what" -v note="$note" \
		'BEGIN { printf "%9.2f s  %s%s\n", ended - began, what, note }'
}

measure 'prof import' "$prof" import -f "$data" -o "$work/prof.data"
measure 'prof report -n 0' "$prof" report -n 0 "$work/prof.data"
measure 'perf report --stdio --inline' perf report --stdio --inline -i "$data"
if command -v inferno-collapse-perf >/dev/null; then
	measure 'perf script --inline | inferno-collapse-perf' sh -c 'perf script --inline -i "$1" | inferno-collapse-perf' sh "$data"
else
	measure 'perf script --inline (inferno-collapse-perf is missing)' perf script --inline -i "$data"
fi
measure 'perf report --stdio --no-inline' perf report --stdio --no-inline -i "$data"
