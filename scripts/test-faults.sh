#!/bin/sh
# The rows of the fault suite that need a machine of their own, in guests with Debian's kernel 6.1: the clock is set, a CPU goes
# off and comes back, the machine is paused, perf_event_paranoid, lockdown. POSIX sh; needs no root.
#
#   scripts/test-faults.sh [STEP…]     clock, cpu, off, flap, events, pause, paranoid, lockdown (all)
#
#   PROF=FILE      another binary than target/release/prof
#   KERNELS=DIR    where the kernel is, or is put (target/kernels)
set -u
cd "$(dirname "$0")/.." || exit 1

prof=${PROF:-target/release/prof}
[ "$(uname -m)" = x86_64 ] || {
	echo "skipped: the kernels are of x86-64, this machine is not"
	exit 0
}
[ -x "$prof" ] || {
	echo "test-faults.sh: there is no $prof: make build" >&2
	exit 1
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cp "$prof" "$work/prof" && strip -g "$work/prof" || exit 1
cc -O2 -g -fomit-frame-pointer -pthread -o "$work/restless" tests/fixtures/restless.c || exit 1
kernel=$(scripts/kernels/get.sh bookworm '^linux-image-6\.1\..*-cloud-amd64(-unsigned)?$' "${KERNELS:-target/kernels}") || {
	echo "skipped: the kernel cannot be had"
	exit 0
}

# guest ARGUMENTS STEPS: boots it with more on its command line, and runs the steps.
failed=0
guest() {
	nice -n 19 scripts/kernels/boot.sh -a "$1" -f "$work/prof" -f "$work/restless" -f "$(command -v setpriv)" \
		-f scripts/kernels/faults.sh "$kernel" \
		"sh faults.sh $2" || failed=1
}

steps=${*:-clock cpu off flap events pause paranoid lockdown}
ordinary=$(for step in $steps; do [ "$step" = lockdown ] || printf '%s ' "$step"; done)
[ -z "$ordinary" ] || guest "" "$ordinary"
case " $steps " in
*" lockdown "*) guest lockdown=confidentiality lockdown ;;
esac
exit $failed
