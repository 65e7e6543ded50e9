#!/bin/sh
# The demonstration: build, record the bundled workload for five seconds, show what was found. POSIX sh.
# Writes prof.data and flamegraph.svg into the top folder. `make demo` runs scripts/setup.sh first.
set -eu
cd "$(dirname "$0")/.."

seconds=5
prof=target/release/prof

echo "building prof (release) ..."
cargo build --release --locked
mkdir -p target/demo
cc -O2 -g -fomit-frame-pointer -pthread -o target/demo/workload examples/workload.c

as_root=
if [ "$(id -u)" != 0 ]; then
	as_root='sudo'
	command -v sudo >/dev/null 2>&1 || {
		echo "recording needs root; run \`make demo\` as root" >&2
		exit 1
	}
fi

echo
echo "\$ prof record -o prof.data -- target/demo/workload $seconds"
# `-f` replaces the file of an earlier demonstration. sudo is a word of its own or nothing.
$as_root $prof record -f -o prof.data -- target/demo/workload $seconds

echo
echo "\$ prof report"
$prof report -n 16 prof.data

rm -f flamegraph.svg
$prof export -o flamegraph.svg prof.data

cat <<TEXT

The shares that the workload printed are its own measurement: compare them with TOTAL% above.
flamegraph.svg  is the same as a picture: open it in a browser, click to zoom, Ctrl-F to search.

What to try next:
  $prof report --tree                 who called whom
  $prof report --peek hash_word       one function's callers and callees
  $prof report --threads              each thread's share
  sudo $prof record -p PID -d 10s     a program that is already running
  sudo $prof record -a -d 10s         the whole machine
  $prof doctor                        whether this machine lets prof see everything
TEXT
