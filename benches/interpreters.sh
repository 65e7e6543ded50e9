#!/bin/sh
# What functions of a language cost: time of the BPF programs for each sample of a program of Python, or of JavaScript, that computes
# below many others, with its functions recorded and without, by turns.
#
#   benches/interpreters.sh [PYTHON | NODE]
#
# HZ is the rate (999), RUNS the number of recordings of each kind (5), SECONDS_EACH their length (6), DEPTHS the numbers of
# functions on the stack. As root.
set -eu
cd "$(dirname "$0")/.."

prof=${PROF:-$PWD/target/release/prof}
python=${1:-python3}
hz=${HZ:-999}
runs=${RUNS:-5}
length=${SECONDS_EACH:-6}
[ -x "$prof" ] || { echo "interpreters.sh: $prof is missing: make build" >&2; exit 1; }
command -v "$python" >/dev/null || { echo "interpreters.sh: $python is missing" >&2; exit 1; }

work=$(mktemp -d)
target=
trap '[ -z "$target" ] || kill "$target"; rm -rf "$work"' EXIT

cat >"$work/deep.py" <<'PYTHON'
import sys

def work():
    while True:
        sum = 0
        for i in range(1000):
            sum += i

# Each function is another one. The module and `work` are on the stack, too.
depth = int(sys.argv[1]) - 2
calls = {depth: "work"}
for number in range(depth):
    called = calls.get(number + 1, f"down_{number + 1}")
    exec(f"def down_{number}():\n    {called}()\n")
down_0()
PYTHON

cat >"$work/deep.js" <<'JAVASCRIPT'
function work() {
  for (;;) {
    let sum = 0;
    for (let i = 0; i < 1000; i++) sum += i;
  }
}

function down(depth) {
  return depth ? down(depth - 1) + 1 : work();
}

// The module, the innermost call of `down`, and `work` are functions on the stack, too; and those of Node.js that load it.
down(+process.argv[2] - 3);
JAVASCRIPT

case $(basename "$(readlink -f "$(command -v "$python")")") in
node*) program=deep.js ;;
*) program=deep.py ;;
esac

# Nanoseconds of BPF for each sample of one recording.
cost() {
	"$prof" record -q -f --runtime "$1" -e cpu -F "$hz" -p "$target" -d "${length}s" -o "$work/data" >/dev/null
	"$prof" info --json "$work/data" >"$work/json"
	samples=$(grep -o '"samples": *[0-9]*' "$work/json" | head -1 | tr -dc 0-9)
	spent=$(grep -o '"bpf_ns": *[0-9]*' "$work/json" | head -1 | tr -dc 0-9)
	echo $((spent / samples))
}

median() { sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

echo "functions  off  folded  more  (ns a sample at $hz Hz, medians of $runs; $("$python" --version))"
for depth in ${DEPTHS:-8 13 33 81}; do
	"$python" "$work/$program" "$depth" &
	target=$!
	sleep 1
	: >"$work/off"
	: >"$work/folded"
	run=0
	while [ "$run" -lt "$runs" ]; do
		cost off >>"$work/off"
		cost folded >>"$work/folded"
		run=$((run + 1))
	done
	kill "$target"
	target=
	off=$(median <"$work/off")
	folded=$(median <"$work/folded")
	printf '%9d %4d %7d %5d\n' "$depth" "$off" "$folded" $((folded - off))
done
