#!/bin/sh
# Pictures of the screens for README.md and docs/tui.md: records the bundled workload, opens each view in tmux, and turns what is on
# the screen into docs/pictures/*.svg. POSIX sh; needs root and tmux. `make screenshots` runs it.
set -eu
cd "$(dirname "$0")/.."

top=$PWD
prof=${PROF:-$top/target/release/prof}
pictures=$top/docs/pictures
columns=100
rows=30
# Larger pictures do not belong into the repository, bytes.
most=100000
# Its path is in the pictures.
work=/tmp/prof-screenshots

command -v tmux >/dev/null 2>&1 || { echo "screenshots: tmux is not installed" >&2; exit 1; }
cargo build --quiet --locked --example ansi_to_svg
rm -rf "$work"
# Fails if another user was faster.
mkdir -m 700 "$work"
mkdir -p "$pictures"
cp examples/workload.c "$work/"
cd "$work"
name=none
trap 'tmux -S "$work/$name" kill-server >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

for level in 2 0; do
	cc -O$level -g -pthread -o workload workload.c
	"$prof" record -q -f --embed-source -o O$level.data -- ./workload 5 >/dev/null
done

# svg NAME: the screen on standard input becomes a picture.
svg() {
	"$top/target/debug/examples/ansi_to_svg" >"$pictures/$1.svg"
	bytes=$(wc -c <"$pictures/$1.svg")
	[ "$bytes" -le $most ] || { echo "screenshots: $1.svg has $bytes bytes" >&2; exit 1; }
	echo "docs/pictures/$1.svg  $bytes bytes"
}

# A terminal of its own for each picture.
in_tmux() { tmux -S "$work/$name" -f /dev/null "$@"; }

# shot NAME FILES WORDS KEY…: opens the files, presses the keys, waits until the words are on the screen, and takes the picture.
shot() {
	name=$1
	files=$2
	words=$3
	shift 3
	in_tmux new-session -d -x $columns -y $rows \
		"env LC_ALL=C.UTF-8 TERM=xterm-256color COLORTERM=truecolor 'COLORFGBG=15;0' '$prof' tui $files"
	tries=0
	for key in '' "$@"; do
		[ -z "$key" ] || in_tmux send-keys "$key"
		sleep 0.5
	done
	until in_tmux capture-pane -p | grep -q -e "$words"; do
		tries=$((tries + 1))
		[ $tries -lt 40 ] || { echo "screenshots: '$words' did not come for $name" >&2; exit 1; }
		sleep 0.5
	done
	in_tmux capture-pane -e -p -N | svg "$name"
	in_tmux kill-server
}

shot flame O2.data 'indexer-#' Down Down Down Down Down
shot time O2.data 'running' 4
shot source O2.data '+0x' 2 /generate_lines Enter a Enter
shot diff 'O2.data O0.data' 'vs base' Down Down Down Down Down Down
