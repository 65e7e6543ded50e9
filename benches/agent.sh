#!/bin/sh
# What the agent costs: CPU time and memory of all its processes, by the kernel's own books, on a host with busy processors and processes
# that come and go. POSIX sh.
#
#   benches/agent.sh PROF [MINUTES [WINDOW [PROTOCOL...]]]
#
# PROTOCOL is pyroscope or otlp: the windows are sent so, to a server on this host that takes all. None: they are only kept.
# MINUTES is 3 by default, and WINDOW 15s; what the first minute costs is printed apart: programs are loaded, tables made and names read then.
# With WINDOW 5s and 20 minutes it is what a week of a quiet host has in windows of an hour.
set -eu

prof=${1:?usage: benches/agent.sh PROF [MINUTES [WINDOW]]}
prof=$(realpath "$prof")
minutes=${2:-3}
window=${3:-15s}
shift "$(($# < 3 ? $# : 3))"
work=$(mktemp -d /tmp/prof-agent-bench-XXXXXX)
started=
trap 'kill $started 2>/dev/null || true; rm -rf "$work"' EXIT INT TERM

# 150 processes that are there, one that goes on for each processor, and short ones all the time.
number=0
while [ "$number" -lt 150 ]; do
	sleep 100000 &
	started="$started $!"
	number=$((number + 1))
done
for _ in $(seq "$(nproc)"); do
	python3 -c 'while True: sum(i * i for i in range(100000))' &
	started="$started $!"
done
(while :; do ls -R /usr/share/doc >/dev/null; sed -n 1p /etc/passwd >/dev/null; sleep 0.5; done) &
started="$started $!"

cat >"$work/agent.toml" <<EOF
window = "$window"
[buffer]
folder = "$work/buffer"
[keep]
folder = "$work/kept"
EOF
if [ $# -gt 0 ]; then
	python3 - "$work/port" <<'EOF' &
import http.server, os, sys
class Taker(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Taker)
open(sys.argv[1] + ".part", "w").write(str(server.server_port))
os.rename(sys.argv[1] + ".part", sys.argv[1])
server.serve_forever()
EOF
	started="$started $!"
	while [ ! -e "$work/port" ]; do sleep 0.1; done
fi
for protocol; do
	cat >>"$work/agent.toml" <<EOF
[[destinations]]
name = "$protocol"
url = "http://127.0.0.1:$(cat "$work/port")"
protocol = "$protocol"
EOF
done
destinations=${*:-none}
"$prof" agent --config "$work/agent.toml" 2>"$work/said" &
agent=$!
started="$started $agent"

# CPU time of a process and all below it, ticks, with what those had that have ended; and resident memory, kB.
family() {
	python3 - "$agent" <<'EOF'
import os, sys
def stat(pid):
    text = open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()
    return int(text[1]), sum(map(int, text[11:15]))
parents, ticks = {}, {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        parents[int(pid)], ticks[int(pid)] = stat(pid)
    except OSError:
        pass
family, grown = {int(sys.argv[1])}, True
while grown:
    more = {pid for pid, parent in parents.items() if parent in family} - family
    family |= more
    grown = bool(more)
def resident(pid):
    try:
        lines = open(f"/proc/{pid}/smaps_rollup").read().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    except OSError:
        return 0
print(sum(ticks.get(pid, 0) for pid in family), sum(map(resident, family)))
EOF
}

ticks=$(getconf CLK_TCK)
echo "agent: 19 Hz, windows of $window, $(nproc) busy processors, 150 processes, some that come and go; sent to: $destinations"
echo "  minute   CPU of one   memory"
before=0
for minute in $(seq "$minutes"); do
	sleep 60
	set -- $(family)
	awk -v minute="$minute" -v used="$(($1 - before))" -v ticks="$ticks" -v memory="$2" \
		'BEGIN { printf "  %6d   %8.2f %%   %6.1f MB\n", minute, used / ticks / 60 * 100, memory / 1000 }'
	before=$1
done
cat "$work/said"
echo "  $(find "$work/kept" -name '*.data' | wc -l) windows, $(du -sk "$work/kept" | cut -f1) kB"
