#!/bin/sh
# Prints what recording costs on this machine: attach to first sample, BPF time and bytes per sample, stop, memory,
# verification. docs/performance.md says what the columns mean. POSIX sh; root.
#
#   benches/system.sh [SECONDS]     length of each recording, 5 by default
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-5}
prof=target/release/prof
work=$(mktemp -d)
target=
trap 'if [ -n "$target" ]; then kill "$target" 2>/dev/null || true; fi; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

[ "$(id -u)" = 0 ] || {
	echo "system.sh: recording needs root" >&2
	exit 1
}
cargo build --release --locked
cc -O2 -o "$work/stopwatch" benches/stopwatch.c

# build NAME: the fixture, with the command in its first comment.
build() {
	command=$(sed -n 's/^[ *\/]*build: //p' "tests/fixtures/$1".* | head -n 1)
	(cd tests/fixtures && OUT=$work/$1 sh -ec "$command")
}

# value NAME: of the `name=value` words in $measured.
value() {
	printf '%s\n' "$measured" | tr ' ' '\n' | sed -n "s/^$1=//p"
}

# measure NAME PROGRAM [ARG…]: starts the program, records it by its process number, prints a line.
measure() {
	name=$1
	shift
	"$@" >/dev/null 2>&1 </dev/null &
	target=$!
	sleep 1
	rm -f "$work/prof.data"
	measured=$("$work/stopwatch" "$seconds" "$prof" record -p "$target" -o "$work/prof.data")
	kill "$target" 2>/dev/null || true
	wait "$target" 2>/dev/null || true
	target=
	if [ ! -s "$work/prof.data" ]; then
		printf '%-24s  no recording: %s\n' "$name" "$measured"
		return
	fi
	"$prof" report --json "$work/prof.data" >"$work/report.json"
	bytes=$(stat -c %s "$work/prof.data")
	python3 - "$work/report.json" "$name" "$bytes" "$(value attach_ms)" "$(value stop_ms)" "$(value rss_kb)" "$(value cpu_ms)" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
name, size, attach, stop, rss, cpu = sys.argv[2], *map(float, sys.argv[3:])
samples = max(report["samples"], 1)
bpf_us = report["cost"]["bpf_ns"] / samples / 1e3
print(f"{name:<24} {report['samples']:>8} {attach:>8.0f} {bpf_us:>8.1f} {size / samples:>8.1f} {stop:>8.0f}"
      f" {rss / 1024:>7.0f} {cpu:>7.0f} {report['quality']['complete_pct']:>8.2f}")
PYTHON
}

for fixture in shares syscalls stripped; do
	build $fixture
done

printf 'machine: %s, %s CPUs, Linux %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(uname -r)"
printf 'date:    %s, %s s per recording at the default rate\n\n' "$(date -u +%Y-%m-%d)" "$seconds"
printf '%-24s %8s %8s %8s %8s %8s %7s %7s %8s\n' program samples attach BPF size stop memory CPU complete
printf '%-24s %8s %8s %8s %8s %8s %7s %7s %8s\n' '' '' ms us/smpl B/smpl ms MB ms %
length=$((seconds + 20))
measure 'small (shares.c)' "$work/shares" $length
measure 'kernel (syscalls.c)' "$work/syscalls" $length
measure '60 frames (stripped.cpp)' "$work/stripped" $length
if command -v node >/dev/null 2>&1; then
	measure 'node' node -e 'for (;;) JSON.parse(JSON.stringify(Array.from({ length: 999 }, (_, i) => ({ i }))));'
fi
if command -v clang >/dev/null 2>&1; then
	awk 'BEGIN { for (n = 0; n < 20000; n++) printf "int f%d(int *p, int n) { int s = %d; for (int i = 0; i < n; i++) { switch (p[i] %% 7) { case 0: s += p[i] * %d; break; case 1: s ^= p[i] << 3; break; default: s -= p[i] / (i + 3); } } return s; }\n", n, n, n }' >"$work/big.c"
	measure 'clang (libLLVM)' clang -O2 -S -o /dev/null "$work/big.c"
fi

printf '\nverification and load of the BPF programs:\n'
"$prof" doctor --json >"$work/doctor.json" || true
python3 -c '
import json, sys
try:
    print(json.dumps(json.load(open(sys.argv[1])), indent=2))
except ValueError as error:
    print("prof doctor --json printed no JSON:", error)
' "$work/doctor.json"
