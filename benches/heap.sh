#!/bin/sh
# Prints what a recording of the heap costs its target, next to other heap profilers as far as they are installed: heaptrack,
# jemalloc's and tcmalloc's own, memray, and memleak of bcc; all in one run. The time of a malloc and its free is that of the
# thread's CPU. What attaches is compared with the same process before; what has to start the program, with one that was started
# without it. docs/performance.md has results. POSIX sh; as root.
#
#   benches/heap.sh [PROF [ROUNDS]]     target/release/prof and 3 by default
set -eu
cd "$(dirname "$0")/.."
prof=$(realpath "${1:-target/release/prof}")
rounds=${2:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cc -O2 -o "$work/allocate" benches/allocate.c
cat >"$work/allocate.py" <<'PYTHON'
# Nothing but allocations, of blocks that Python asks malloc for.
import sys, time
end = time.monotonic() + float(sys.argv[1])
kept = [None] * 1000
while time.monotonic() < end:
    begun, n = time.thread_time(), 0
    while time.thread_time() - begun < 0.1:
        for n in range(n, n + 1000):
            kept[n % 1000] = bytes(600 + n % 64)
        n += 1
    print(f"{time.monotonic():.3f} {(time.thread_time() - begun) * 1e9 / n:.3f}", flush=True)
PYTHON
python3 - "$work" "$prof" "$rounds" <<'PYTHON'
import glob, os, shutil, signal, statistics, subprocess, sys, time

work, prof, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
# One that has memray, if any has.
has_memray = lambda python: subprocess.run([python, "-c", "import memray"], stderr=subprocess.DEVNULL).returncode == 0
pythons = ["/usr/bin/python3", shutil.which("python3")]
python = next(filter(has_memray, pythons), pythons[0])
PROGRAMS = {
    "pair": [f"{work}/allocate", "pair"],
    "mixed": [f"{work}/allocate", "mixed"],
    "python": [python, f"{work}/allocate.py"],
}


def library(pattern):
    found = sorted(glob.glob(f"/usr/lib/*/{pattern}"))
    return found[0] if found else None


def lines(text):
    return [tuple(map(float, line.split())) for line in text.splitlines() if line.count(" ") == 1 and line[0].isdigit()]


def median(values):
    return statistics.median(values) if values else None


def attached(program, recorder, settle):
    """Nanoseconds a pair before a recorder attaches, while it records, and after it has gone; none if it does not run here."""
    target = subprocess.Popen(PROGRAMS[program] + ["9"], stdout=subprocess.PIPE, text=True)
    time.sleep(2)
    begun = time.monotonic()
    tool = subprocess.Popen([word.replace("PID", str(target.pid)) for word in recorder],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=work)
    time.sleep(settle + 2.5)
    ended = time.monotonic()
    runs = tool.poll() is None
    tool.send_signal(signal.SIGINT)
    try:
        tool.wait(60)
    except subprocess.TimeoutExpired:
        tool.kill()
    gone = time.monotonic()
    seen = lines(target.communicate()[0])
    if not runs:
        return None, None, None
    part = lambda since, until: median([ns for at, ns in seen if since + 0.15 <= at < until])
    return part(0, begun), part(begun + settle, ended), part(gone, float("inf"))


def started(program, command, environment):
    out = subprocess.run(command + program + ["3"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         env=dict(os.environ, **environment), cwd=work, text=True).stdout
    # Its start is not meant.
    return median([ns for _, ns in lines(out)[5:]])


jemalloc, tcmalloc = library("libjemalloc.so.2"), library("libtcmalloc.so.4")
TOOLS = [
    ("prof -p", "attach", [prof, "record", "-f", "-q", "-e", "heap", "-o", "heap.data", "-p", "PID"], {}),
    ("prof CMD", "start", [prof, "record", "-f", "-q", "-e", "heap", "-o", "heap.data", "--"], {}),
    ("heaptrack", "start", ["heaptrack", "-o", f"{work}/heaptrack"], {}),
    ("jemalloc", "start", ["env"], {"LD_PRELOAD": jemalloc}),
    ("jemalloc prof", "start", ["env"], {"LD_PRELOAD": jemalloc, "MALLOC_CONF": "prof:true,prof_active:true,lg_prof_sample:19"}),
    ("tcmalloc", "start", ["env"], {"LD_PRELOAD": tcmalloc}),
    ("tcmalloc prof", "start", ["env"], {"LD_PRELOAD": tcmalloc, "HEAPPROFILE": f"{work}/tcmalloc"}),
    ("memray", "start", [python, "-m", "memray", "run", "--native", "-f", "-q", "-o", f"{work}/memray.bin"], {}),
    ("memleak (bcc)", "attach", ["memleak-bpfcc", "-p", "PID", "60"], {}),
]


def is_there(name, command, environment):
    if "LD_PRELOAD" in environment and environment["LD_PRELOAD"] is None:
        return False
    if name == "memray":
        return has_memray(python)
    return shutil.which(command[0]) is not None


def show(program, results):
    for name, rows in results.items():
        rows = [row for row in rows if row[0] and row[1]]
        if not rows:
            print(f"{program:8} {name:14} does not run here")
            continue
        # Medians of rounds: the ratio is within a round.
        before, during = (statistics.median(row[k] for row in rows) for k in (0, 1))
        after = [row[2] for row in rows if row[2]]
        more = statistics.median(row[1] / row[0] for row in rows) * 100 - 100
        words = f"{statistics.median(after):9.1f}" if after else " " * 9
        print(f"{program:8} {name:14} {before:9.1f} {during:9.1f} {words} {more:8.1f}")


def redis():
    """CPU time of a redis-server for a command, ns: before a recording, and during it."""
    socket = f"{work}/redis.sock"
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--daemonize", "no"],
                              stdout=subprocess.DEVNULL, cwd=work)
    while not os.path.exists(socket):
        time.sleep(0.05)

    def load(requests=1_000_000):
        used = lambda: int(open(f"/proc/{server.pid}/schedstat").read().split()[0])
        before = used()
        subprocess.run(["redis-benchmark", "-s", socket, "-q", "-c", "20", "-P", "16", "-n", str(requests), "-r", "10000",
                        "-d", "300", "-t", "set"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return (used() - before) / requests

    rows = []
    load()
    for _ in range(rounds * 2):
        plain = load()
        tool = subprocess.Popen([prof, "record", "-f", "-e", "heap", "-o", "heap.data", "-p", str(server.pid)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=work, text=True)
        # Until it has said that the functions are patched.
        for line in tool.stderr:
            if "patched" in line:
                break
        rows.append((plain, load(), None))
        tool.send_signal(signal.SIGINT)
        tool.communicate()
    server.terminate()
    server.wait()
    return rows


print(f"{'program':8} {'tool':14} {'plain ns':>9} {'tool ns':>9} {'after ns':>9} {'more %':>8}")
for program in PROGRAMS:
    plain, results = [], {}
    for _ in range(rounds):
        plain.append(started(PROGRAMS[program], ["env"], {}))
        for name, kind, command, environment in TOOLS:
            if not is_there(name, command, environment) or (name == "memray") > (program == "python"):
                continue
            if kind == "attach":
                settle = 3.5 if name.startswith("memleak") else 1.5
                results.setdefault(name, []).append(attached(program, command, settle))
            else:
                # memray starts the script, the others the interpreter.
                words = PROGRAMS[program][1:] if name == "memray" else PROGRAMS[program]
                results.setdefault(name, []).append((plain[-1], started(words, command, environment), None))
    show(program, results)
if shutil.which("redis-server"):
    show("redis", {"prof -p": redis()})
PYTHON
