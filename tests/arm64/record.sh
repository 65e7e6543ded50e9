#!/bin/sh
# Records the cases again: builds the programs for arm64, runs them in an emulator, and takes registers, stack
# memory and gdb's backtraces. POSIX sh.
#
#   tests/arm64/record.sh
#
# Needs aarch64-linux-gnu-gcc with its C library, qemu-aarch64, gdb-multiarch and zstd. The replay in
# tests/arm64 needs none of them.
set -eu
cd "$(dirname "$0")"
here=$PWD
work=$(mktemp -d)
emulator=
trap 'kill $emulator 2>/dev/null || :; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir -p cases modules
sysroot=/usr/aarch64-linux-gnu
port=12391

# build NAME SOURCE FLAGS…
build() {
	name=$1
	source=$2
	shift 2
	aarch64-linux-gnu-gcc -O2 -no-pie "$@" "programs/$source.c" -o "$work/$name"
	add_module "$work/$name"
}

# add_module FILE: only what unwinding reads of it.
add_module() {
	python3 sparse.py "$1" "$work/sparse"
	zstd -q -19 -f "$work/sparse" -o "modules/${1##*/}.zst"
}

# run NAME CPU OUT STOPS [FRAMES-FROM]
run() {
	# The same addresses in every run.
	setarch -R qemu-aarch64 -cpu "$2" -L $sysroot -g $port "$work/$1" >/dev/null 2>&1 &
	emulator=$!
	sleep 1
	(
		cd "$work"
		RECORD_OUT=$3 RECORD_STOPS=$4 RECORD_NAME=$1 RECORD_PROGRAM=$work/$1 RECORD_PORT=$port \
			RECORD_FRAMES_FROM=${5:-} gdb-multiarch -q -nx -batch -x "$here/record.py" >"$work/log" 2>&1
	) || {
		tail -n 20 "$work/log" >&2
		exit 1
	}
	kill $emulator 2>/dev/null || :
	wait $emulator 2>/dev/null || :
	[ -s "$3" ] || {
		tail -n 20 "$work/log" >&2
		exit 1
	}
}

calls="begin:1000 finish:12"
build calls calls -static
run calls cortex-a72 "$here/cases/calls.txt" "$calls"
build nofp calls -static -fomit-frame-pointer
run nofp cortex-a72 "$here/cases/nofp.txt" "$calls"
# gdb cannot read signed return addresses here: the frames are those of a processor that does not sign.
build signed calls -static -mbranch-protection=standard
run signed cortex-a72 "$work/unsigned.txt" "$calls"
run signed max "$here/cases/signed.txt" "$calls" "$work/unsigned.txt.frames"
build signals signals -static
run signals cortex-a72 "$here/cases/signals.txt" \
	'raise_twice:3 handler:12 inside_handler:8 handler:12 inside_handler:8 over_first_instruction:2 handler:12 inside_handler:8'
build library library -Wl,-z,lazy
run library cortex-a72 "$here/cases/library.txt" 'main:900 compare:8'
for name in libc.so.6 ld-linux-aarch64.so.1; do
	add_module $sysroot/lib/$name
done
rm -f cases/*.frames
