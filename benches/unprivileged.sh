#!/bin/sh
# Prints what a sample costs that prof takes without BPF programs, next to samply, in alternating rounds of the same command, a
# short and a long one: CPU time of the recorder in all and for each further sample, time that the command loses to a sample,
# and how many stacks are whole. docs/performance.md says what the columns mean. POSIX sh; as an ordinary user for prof alone, as root for both: without hardware counters samply
# wants kernel.perf_event_paranoid below 2. Root's prof has the kernel's types hidden from it, samply another number to read.
#
#   benches/unprivileged.sh [PROF [SAMPLY [ROUNDS]]]     target/release/prof, samply and 3 by default
set -eu
cd "$(dirname "$0")/.."
if [ "$(id -u)" = 0 ] && [ -n "$(ls -A /sys/kernel/btf)" ]; then
	setting=$(mktemp)
	echo 1 >"$setting"
	exec unshare --mount --propagation private sh -c 'mount -t tmpfs none /sys/kernel/btf && mount --bind "$1" \
		/proc/sys/kernel/perf_event_paranoid && rm "$1" && shift && exec "$0" "$@"' "benches/unprivileged.sh" "$setting" "$@"
fi

prof=${1:-target/release/prof}
samply=${2:-samply}
rounds=${3:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

cc -O2 -fomit-frame-pointer -o "$work/walker" benches/walker.c
printf '%-9s %-14s %8s %8s %9s %9s %8s\n' frames tool 'own us' 'next us' 'start ms' 'target us' 'whole %'
python3 - "$work" "$prof" "$samply" "$rounds" <<'PYTHON'
import gzip, json, os, shutil, statistics, subprocess, sys

work, prof, samply, rounds = *sys.argv[1:4], int(sys.argv[4])
# Length of the short and the long recording.
SHORT, LONG = 3, 12
# Frames of the recursion, and whether each is wide: the last is a stack of 46 kB.
STACKS = [(30, ""), (300, ""), (300, "wide")]


def record(recorder, stack, seconds):
    """Samples the recursion. Returns the recorder's CPU time in us and the command's gaps in us per second of CPU."""
    # The shell says what the command has used; the rest is the recorder's.
    script = f"'{work}/walker' {stack[0]} {seconds} {stack[1]} >'{work}/gaps'; times >'{work}/times'"
    command = recorder + ["bash", "-c", script]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(f"{work}/said", "w"))
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command} failed:\n{open(f'{work}/said').read()}")
    of_command = 0
    for time in open(f"{work}/times").read().split():
        minutes, seconds = time.rstrip("s").split("m")
        of_command += 60 * float(minutes) + float(seconds)
    gaps = [float(line.split("=")[1]) for line in open(f"{work}/gaps")]
    return (usage.ru_utime + usage.ru_stime - of_command) * 1e6, statistics.median(gaps[1:])


def of_prof():
    text = subprocess.run([prof, "report", "--json", f"{work}/prof.data"], capture_output=True, check=True).stdout
    report = json.loads(text)
    return report["samples"], report["quality"]["complete_pct"]


def of_samply(depth):
    profile = json.load(gzip.open(f"{work}/samply.json.gz"))
    samples = whole = 0
    for thread in profile["threads"]:
        prefixes = thread["stackTable"]["prefix"]
        depths = []
        for prefix in prefixes:
            depths.append(1 if prefix is None else depths[prefix] + 1)
        for stack in thread["samples"]["stack"]:
            if stack is not None:
                samples += 1
                # Those that call the recursion are three at least.
                whole += depths[stack] >= depth + 3
    return samples, 100 * whole / max(samples, 1)


def prof_round(stack, seconds):
    command = [prof, "record", "-e", "cpu", "-F", "999", "-q", "-f", "-o", f"{work}/prof.data", "--"]
    return *record(command, stack, seconds), *of_prof()


def samply_round(stack, seconds, options=()):
    command = [samply, "record", "-r", "999", "-s", "-o", f"{work}/samply.json.gz", *options, "--"]
    return *record(command, stack, seconds), *of_samply(stack[0])


def with_names(stack, seconds):
    return samply_round(stack, seconds, ["--unstable-presymbolicate"])


TOOLS = {"prof": prof_round}
if not os.geteuid() and shutil.which(samply):
    TOOLS |= {"samply": samply_round, "samply, names": with_names}


def row(stack, tool, bare, short, long):
    """Prints the medians of rounds: CPU time in us, gaps, samples, whole stacks."""
    short, long = ([statistics.median(column) for column in zip(*rounds)] for rounds in (short, long))
    next_us = (long[0] - short[0]) / max(long[2] - short[2], 1)
    start_ms = (short[0] - next_us * short[2]) / 1e3
    lost_us = (long[1] - statistics.median(bare)) / 999
    name = " ".join(map(str, stack)).strip()
    own_us = long[0] / max(long[2], 1)
    print(f"{name:<9} {tool:<14} {own_us:>8.1f} {next_us:>8.1f} {start_ms:>9.0f} {lost_us:>9.1f} {long[3]:>8.2f}", flush=True)


for stack in STACKS:
    found = {tool: ([], []) for tool in TOOLS}
    bare = []
    for _ in range(rounds):
        bare.append(record([], stack, SHORT)[1])
        for tool, measure in TOOLS.items():
            for values, seconds in zip(found[tool], (SHORT, LONG)):
                values.append(measure(stack, seconds))
    for tool, values in found.items():
        row(stack, tool, bare, *values)
PYTHON
