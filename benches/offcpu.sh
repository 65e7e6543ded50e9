#!/bin/sh
# Prints what recording waits costs: rounds of two threads that only wake each other, beside bcc's offcputime and
# perf sched in one run; a switch that is not recorded; PostgreSQL's transactions. docs/performance.md says what the
# columns mean. POSIX sh; root.
#
#   benches/offcpu.sh [PROF [ROUNDS [SECONDS [pipe|futex|database]]]]     target/release/prof, 3, windows of 3 s and all
#                                                                         three of them by default
set -eu
cd "$(dirname "$0")/.."

prof=${1:-target/release/prof}
rounds=${2:-3}
window=${3:-3}
only=${4:-}
work=$(mktemp -d)
target=
other=
tool=
server=
trap 'for pid in $target $other $tool $server; do kill "$pid" 2>/dev/null || true; done; sleep 1; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

[ "$(id -u)" = 0 ] || {
	echo "offcpu.sh: recording needs root" >&2
	exit 1
}
command=$(sed -n 's/^[ *\/]*build: //p' tests/fixtures/pingpong.c | head -n 1)
(cd tests/fixtures && OUT=$work/pingpong sh -ec "$command")

# median: of the numbers on standard input.
median() {
	sort -n | awk '{ value[NR] = $1 } END { if (NR) print value[int((NR + 1) / 2)]; else print "nan" }'
}

# rate: rounds a second of $target, from now on for the window: the median of its quarters of a second.
rate() {
	before=$(wc -l <"$work/rounds")
	sleep $window
	tail -n +$((before + 2)) "$work/rounds" | awk 'NF == 3 { print $2 }' | median
}

# cpu PID: its CPU time and that of its children, in ticks of 10 ms.
cpu() {
	awk '{ print $14 + $15 + $16 + $17 }' "/proc/$1/stat" 2>/dev/null || echo 0
}

# with NAME COMMAND…: notes the rounds while the command records ($target's number for PID) to those before and after it,
# and the command's CPU time.
with() {
	file=$work/row.$(printf '%s' "$1" | tr -c 'a-z0-9\n' '_')
	shift
	if ! command -v "$1" >/dev/null 2>&1; then
		echo "skipped: $1 is not installed" >"$file.skipped"
		return
	fi
	alone=$(rate)
	command=$(printf '%s ' "$@" | sed "s/PID/$measured/")
	# Unquoted on purpose: one word each.
	$command >/dev/null 2>"$work/messages" &
	tool=$!
	# offcputime compiles its program first.
	sleep 2.5
	if ! kill -0 $tool 2>/dev/null; then
		echo "skipped: it ended: $(tail -n 1 "$work/messages")" >"$file.skipped"
		tool=
		return
	fi
	ticks=$(cpu $tool)
	recorded=$(rate)
	if ! kill -0 $tool 2>/dev/null; then
		echo "skipped: it ended: $(tail -n 1 "$work/messages")" >"$file.skipped"
		tool=
		return
	fi
	ticks=$(($(cpu $tool) - ticks))
	# A shell starts background jobs with SIGINT ignored, and some tools respect that.
	kill -INT $tool 2>/dev/null || true
	sleep 1
	kill -TERM $tool 2>/dev/null || true
	wait $tool 2>/dev/null || true
	tool=
	after=$(rate)
	awk -v a="$alone" -v b="$after" -v r="$recorded" -v t="$ticks" -v w=$window 'BEGIN {
		o = (a + b) / 2
		printf "%.2f %.0f %.1f\n", (1 - r / o) * 100, (1e9 / r - 1e9 / o) / 2, t / w }' >>"$file"
}

# row NAME: the medians of what `with` has noted.
row() {
	file=$work/row.$(printf '%s' "$1" | tr -c 'a-z0-9\n' '_')
	if [ -e "$file" ]; then
		printf '%-34s %10s %14s %10s\n' "$1" "$(cut -d ' ' -f 1 "$file" | median)" \
			"$(cut -d ' ' -f 2 "$file" | median)" "$(cut -d ' ' -f 3 "$file" | median)"
	elif [ -e "$file.skipped" ]; then
		printf '%-34s %s\n' "$1" "$(cat "$file.skipped")"
	fi
}

offcputime=offcputime-bpfcc
command -v $offcputime >/dev/null 2>&1 || offcputime=offcputime

printf 'machine: %s, %s CPUs, Linux %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(uname -r)"
printf 'date:    %s, %s rounds, load %s\n' "$(date -u +%Y-%m-%d)" "$rounds" "$(cut -d ' ' -f 1 /proc/loadavg)"

for how in pipe futex; do
	[ "${only:-$how}" = $how ] || continue
	"$work/pingpong" $how one 590 >"$work/rounds" &
	target=$!
	sleep 590 &
	other=$!
	sleep 1
	round=0
	while [ $round -lt "$rounds" ]; do
		measured=$target
		with "prof -e cpu,off" "$prof" record -q -f -e cpu,off -o "$work/prof.data" -p PID
		with "prof -e off" "$prof" record -q -f -e off -o "$work/prof.data" -p PID
		with "prof -e cpu" "$prof" record -q -f -e cpu -o "$work/prof.data" -p PID
		with "offcputime" $offcputime -p PID
		with "perf sched record" perf sched record -o "$work/perf.data"
		measured=$other
		with "prof -e off of another process" "$prof" record -q -f -e off -o "$work/prof.data" -p PID
		round=$((round + 1))
	done
	kill $target $other 2>/dev/null || true
	wait $target $other 2>/dev/null || true
	target=
	other=
	printf '\n%-34s %10s %14s %10s\n' "ping-pong by $how, one CPU" 'slower, %' 'ns a switch' 'tool, % CPU'
	for name in 'prof -e cpu,off' 'prof -e off' 'prof -e cpu' 'offcputime' 'perf sched record' 'prof -e off of another process'; do
		row "$name"
	done
	rm -f "$work"/row.*
done

[ "${only:-database}" = database ] || exit 0
binaries=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
if [ -z "$binaries" ] || ! id postgres >/dev/null 2>&1; then
	printf '\npgbench skipped: PostgreSQL is not installed\n'
	exit 0
fi
as_postgres() {
	setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"
}
mkdir "$work/db"
chmod 755 "$work"
chown postgres "$work/db"
cd "$work/db"
as_postgres "$binaries/initdb" -D data -A trust --no-sync -U postgres >/dev/null
as_postgres "$binaries/postgres" -D data -k "$work/db" -c listen_addresses= >/dev/null 2>&1 &
server=$!
until as_postgres "$binaries/pg_isready" -q -h "$work/db"; do sleep 0.2; done
as_postgres "$binaries/pgbench" -i -q -s 5 -h "$work/db" -U postgres postgres >/dev/null 2>&1
as_postgres "$binaries/pgbench" -S -n -c 2 -P 1 -T 590 -h "$work/db" -U postgres postgres 2>"$work/progress" >/dev/null &
target=$!
sleep 2
cd - >/dev/null
case $prof in /*) ;; *) prof=$PWD/$prof ;; esac
measured=$(pgrep -f '^postgres: postgres postgres .local.' | tr '\n' ',')
measured=${measured%,}
# Transactions a second, once a second.
rate() {
	before=$(wc -l <"$work/progress")
	sleep 5
	tail -n +$((before + 2)) "$work/progress" | sed -n 's/.* \([0-9.]*\) tps.*/\1/p' | median
}
window=5
round=0
while [ $round -lt "$rounds" ]; do
	with "prof -e cpu,off" "$prof" record -q -f -F 999 -e cpu,off -o "$work/prof.data" -p PID
	with "prof -e cpu" "$prof" record -q -f -F 999 -e cpu -o "$work/prof.data" -p PID
	with "offcputime" $offcputime -p "${measured%%,*}"
	round=$((round + 1))
done
printf '\n%-34s %10s %14s %10s\n' "pgbench -S, 2 clients, $(rate)/s" 'slower, %' 'ns/2 a transaction' 'tool, % CPU'
for name in 'prof -e cpu,off' 'prof -e cpu' 'offcputime'; do
	row "$name"
done
