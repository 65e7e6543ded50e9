#!/bin/sh
# Boots Debian's kernels in qemu and has prof do everything in them, again and again. POSIX sh; needs no root.
#
#   scripts/test-kernels.sh [KERNEL…]      all of the list below, or some (6.1, 6.12, …)
#
#   RECORDINGS=N   recordings on each kernel (20); each boot makes a hundred at most
#   PROF=FILE      another binary than target/release/prof
#   KERNELS=DIR    where the kernels are, or are put (target/kernels)
#
# For each kernel: doctor, a recording of running time, one with waits, one of a command, reports, the live view on a
# terminal that nobody sees, then the recordings, 200 ms each, of a program that starts and ends threads and processes all
# the time. Ends with a table, and with status 1 if a step failed, a recording failed, or a guest hung or panicked. A kernel
# that cannot be had is skipped, and named.
set -u
cd "$(dirname "$0")/.." || exit 1

# Name, suite, and what the package is called.
list='
6.1 bookworm ^linux-image-6\.1\..*-cloud-amd64(-unsigned)?$
6.12 bookworm-security ^linux-image-6\.12\..*-cloud-amd64(-unsigned)?$
6.18 trixie-backports ^linux-image-6\.18\..*-cloud-amd64(-unsigned)?$
7 trixie-backports ^linux-image-7\..*-cloud-amd64(-unsigned)?$
'
recordings=${RECORDINGS:-20}
per_boot=100
prof=${PROF:-target/release/prof}
kernels=${KERNELS:-target/kernels}
[ "$(uname -m)" = x86_64 ] || {
	echo "skipped: the kernels are of x86-64, this machine is not"
	exit 0
}
[ -x "$prof" ] || {
	echo "test-kernels.sh: there is no $prof: make build" >&2
	exit 1
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
failed=0

# Without line tables the program is a fifth as large: guests are slow.
cp "$prof" "$work/prof" && strip -g "$work/prof" || exit 1
cc -O2 -g -fomit-frame-pointer -pthread -o "$work/restless" tests/fixtures/restless.c || exit 1
script=$(command -v script) || script=

printf '%-8s %-28s %-44s %12s %6s %5s %6s\n' kernel version steps recordings failed hangs boots >"$work/table"

# Says what a kernel did: NAME VERSION STEPS RECORDINGS FAILED HANGS BOOTS.
row() {
	printf '%-8s %-28s %-44s %12s %6s %5s %6s\n' "$@" >>"$work/table"
}

# try NAME FOLDER: boots the kernel as often as its recordings need.
try() {
	name=$1
	done=0
	bad=0
	hangs=0
	boots=0
	steps=
	while [ $boots = 0 ] || [ $done -lt "$recordings" ]; do
		left=$((recordings - done))
		[ $left -le $per_boot ] || left=$per_boot
		boots=$((boots + 1))
		log=$work/$name.$boots
		echo "==> $name, boot $boots: $left recordings"
		# Guests use all that they are given: they come last.
		{
			nice -n 19 scripts/kernels/boot.sh -f "$work/prof" -f "$work/restless" -f scripts/kernels/guest.sh \
				${script:+-f "$script"} "$2" "sh guest.sh $left"
			echo $? >"$work/status"
		} 2>&1 | tee "$log" | while IFS= read -r line; do
			printf '    %s\n' "$line"
		done
		status=$(cat "$work/status")
		made=$(sed -n 's/^@@ recordings \([0-9]*\) of.*/\1/p' "$log" | tail -n 1)
		done=$((done + ${made:-0}))
		bad=$((bad + $(grep -c '^@@ recording [0-9]* failed' "$log")))
		steps=$(sed -n 's/^@@ step \([^ ]*\) \([a-zA-Z]*\).*/\1 \2/p' "$log" | awk '
			$2 == "ok" { good = good " " $1 } $2 == "skipped" { skipped = skipped " " $1 } $2 == "FAILED" { wrong = wrong " " $1 }
			END { printf "ok:%s%s%s", good, wrong == "" ? "" : " FAILED:" wrong, skipped == "" ? "" : " skipped:" skipped }')
		[ $status = 0 ] || failed=1
		case $status in
		124 | 125 | 126) hangs=$((hangs + 1)) ;;
		esac
		# A guest that does not come to the loop never will.
		[ -n "$made" ] || break
		[ $hangs -lt 3 ] || break
	done
	row "$name" "$(basename "$2")" "$steps" "$done of $recordings" $bad $hangs $boots
}

for name in ${*:-6.1 6.12 6.18 7}; do
	entry=$(printf '%s\n' "$list" | grep "^$name ") || {
		echo "test-kernels.sh: no kernel $name in the list" >&2
		exit 2
	}
	# Unquoted on purpose: three words, of which the last has no blanks and is no pattern of files here.
	set -f
	set -- $entry
	set +f
	if folder=$(scripts/kernels/get.sh "$2" "$3" "$kernels" 2>"$work/why"); then
		try "$name" "$folder"
	else
		tail -n 3 "$work/why"
		echo "skipped: kernel $name cannot be had from $2"
		row "$name" "SKIPPED: not to be had" "-" "0 of $recordings" 0 0 0
	fi
done

echo
cat "$work/table"
exit $failed
