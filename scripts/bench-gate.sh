#!/bin/sh
# Runs the benches of this tree and of another revision by turns, each recorded, and fails if one became slower by more than noise.
#
#   scripts/bench-gate.sh REVISION        (or `make bench-gate BASE=REVISION`)
#
# RUNS is how often each is run (10), BENCHES which of them (report unwind_table symbols exports diff), LIMIT the growth that counts (5%). Each bench runs every
# case once (`--test`), which is the same work in every run. Needs what recording needs: root.
set -eu
cd "$(dirname "$0")/.."

revision=${1:?usage: bench-gate.sh REVISION}
runs=${RUNS:-10}
benches=${BENCHES:-report unwind_table symbols exports diff}
limit=${LIMIT:-5%}
prof=${PROF:-$PWD/target/release/prof}
target=$PWD/target
place=$target/bench-gate
tree=$place/tree

[ -x "$prof" ] || { echo "bench-gate: $prof is missing: make build" >&2; exit 1; }
commit=$(git rev-parse --verify "$revision^{commit}")

cleanup() {
	git worktree remove --force "$tree" >/dev/null 2>&1 || true
}
trap cleanup EXIT
cleanup
rm -rf "$place"
mkdir -p "$place/base" "$place/new"
git worktree add --detach "$tree" "$commit" >/dev/null

# Builds the bench $2 of the tree in $1 and copies its executable to $3. Both trees share what they depend on.
build() {
	echo "bench-gate: building $2 of ${3##*/}" >&2
	executable=$(cd "$1" && CARGO_TARGET_DIR=$target cargo bench --locked --no-run --bench "$2" 2>&1 |
		sed -n 's/.*Executable .*(\(.*\))$/\1/p' | tail -n 1)
	[ -n "$executable" ] || { echo "bench-gate: bench $2 of ${3##*/} does not build" >&2; exit 1; }
	case $executable in
	/*) ;;
	*) executable=$1/$executable ;;
	esac
	cp "$executable" "$3/$2"
}

status=0
for bench in $benches; do
	build "$tree" "$bench" "$place/base"
	build "$PWD" "$bench" "$place/new"
	echo "bench-gate: $bench, base $revision" >&2
	result=0
	"$prof" bench -n "$runs" --discard-output --fail-on "total>+$limit" \
		--base "'$place/base/$bench' --bench --test" --new "'$place/new/$bench' --bench --test" || result=$?
	# A regression counts for more than too little data.
	if [ "$result" -eq 4 ] || [ "$status" -eq 0 ]; then
		status=$result
	fi
done
exit "$status"
