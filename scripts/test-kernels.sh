#!/bin/sh
# Boots Debian's kernels in qemu and has prof do everything in them, again and again. POSIX sh; needs no root.
#
#   scripts/test-kernels.sh [KERNEL…]      those of this processor in the list below, or some (5.10, 6.1, 6.1-arm64, …)
#
#   RECORDINGS=N   recordings on each kernel (20); each boot makes a hundred at most
#   PROF=FILE      another binary than target/release/prof; kernels of arm64 take the static program that
#                  `make dist ARCH=aarch64` makes
#   KERNELS=DIR    where the kernels are, or are put (target/kernels)
#
# For each kernel: doctor, a recording of running time, one with waits, one of a command, reports, Perl, its heap, the live view on a
# terminal that nobody sees, then the recordings, 200 ms each, of a program that starts and ends threads and processes all
# the time. On 5.10, which cannot run the BPF programs, all of this has to work by perf events; elsewhere a step that took
# that way has failed. Ends with a table, and with status 1 if a step failed, a recording failed, or a guest hung or
# panicked. A kernel that cannot be had is skipped, and named.
set -u
cd "$(dirname "$0")/.." || exit 1

# Name, suite, what the package is called, and Debian's name of the processor if it is another than this machine's.
list='
5.10 bullseye ^linux-image-5\.10\..*-cloud-amd64(-unsigned)?$
6.1 bookworm ^linux-image-6\.1\..*-cloud-amd64(-unsigned)?$
6.12 bookworm-security ^linux-image-6\.12\..*-cloud-amd64(-unsigned)?$
6.18 trixie-backports ^linux-image-6\.18\..*-cloud-amd64(-unsigned)?$
7 trixie-backports ^linux-image-7\..*-cloud-amd64(-unsigned)?$
6.1-arm64 bookworm ^linux-image-6\.1\..*-cloud-arm64(-unsigned)?$ arm64
6.12-arm64 bookworm-security ^linux-image-6\.12\..*-cloud-arm64(-unsigned)?$ arm64
'
recordings=${RECORDINGS:-20}
per_boot=100
prof=${PROF:-target/release/prof}
kernels=${KERNELS:-target/kernels}
[ "$(uname -m)" = x86_64 ] || {
	echo "skipped: the kernels are of x86-64, this machine is not"
	exit 0
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
failed=0

# Puts prof and the program that it records into $work/ARCHITECTURE; for another processor than this machine's they are static.
prepare() {
	[ ! -x "$work/$1/restless" ] || return 0
	mkdir -p "$work/$1"
	if [ "$1" = amd64 ]; then
		[ -x "$prof" ] || {
			echo "there is no $prof: make build"
			return 1
		}
		# Without line tables the program is a fifth as large: guests are slow.
		cp "$prof" "$work/$1/prof" && strip -g "$work/$1/prof" || return 1
		compiler=cc
	else
		made=target/packages/aarch64
		[ -x $made/prof ] || {
			echo "there is no $made/prof: make dist ARCH=aarch64"
			return 1
		}
		cp $made/prof "$work/$1/prof" || return 1
		compiler="$made/tools/cc -static"
		box=$(scripts/kernels/get.sh bookworm '^busybox-static$' "$kernels" "$1")/bin/busybox || return 1
	fi
	# Unquoted on purpose: a compiler and its options.
	$compiler -O2 -g -fomit-frame-pointer -pthread -o "$work/$1/restless" tests/fixtures/restless.c
}

printf '%-8s %-28s %-44s %12s %6s %5s %6s\n' kernel version steps recordings failed hangs boots >"$work/table"

# Says what a kernel did: NAME VERSION STEPS RECORDINGS FAILED HANGS BOOTS.
row() {
	printf '%-8s %-28s %-44s %12s %6s %5s %6s\n' "$@" >>"$work/table"
}

# try NAME FOLDER ARCHITECTURE: boots the kernel as often as its recordings need.
try() {
	name=$1
	guest=
	script=$(command -v script) || script=
	case $3 in
	amd64)
		guest=${script:+-f "$script"}
		[ ! -x /usr/bin/perl ] || guest="$guest -f /usr/bin/perl"
		;;
	arm64) guest="-A aarch64 -b $box" ;;
	esac
	case $1 in
	5.10) way=perf ;;
	*) way=bpf ;;
	esac
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
			# Unquoted on purpose: options, in which no path has blanks.
			nice -n 19 scripts/kernels/boot.sh $guest -f "$work/$3/prof" -f "$work/$3/restless" \
				-f scripts/kernels/guest.sh "$2" "sh guest.sh $left $way"
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

for name in ${*:-5.10 6.1 6.12 6.18 7}; do
	entry=$(printf '%s\n' "$list" | grep "^$name ") || {
		echo "test-kernels.sh: no kernel $name in the list" >&2
		exit 2
	}
	# Unquoted on purpose: words, of which none has blanks or is a pattern of files here.
	set -f
	set -- $entry
	set +f
	architecture=${4:-amd64}
	prepare "$architecture" >"$work/why" 2>&1 || {
		tail -n 3 "$work/why"
		echo "kernel $name cannot be tried: $(tail -n 1 "$work/why")"
		row "$name" "NOT TRIED: no program" "-" "0 of $recordings" 0 0 0
		failed=1
		continue
	}
	if folder=$(scripts/kernels/get.sh "$2" "$3" "$kernels" "$architecture" 2>"$work/why"); then
		try "$name" "$folder" "$architecture"
	else
		tail -n 3 "$work/why"
		echo "skipped: kernel $name cannot be had from $2"
		row "$name" "SKIPPED: not to be had" "-" "0 of $recordings" 0 0 0
	fi
done

echo
cat "$work/table"
exit $failed
