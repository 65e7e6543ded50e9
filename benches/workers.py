#!/usr/bin/env python3
"""Prints what it costs that files are read in processes of their own: the same program with workers and, by a switch of the tests,
without, by turns. As root; the program needs the feature "testing":

    cargo build --release --features testing && benches/workers.py [PROF [PAIRS]]

CPU time is that of all processes of prof, by wait4(2); the recorded command is a part of it, and the same on both sides.
docs/performance.md has the results.
"""

import ctypes, os, resource, signal, statistics, subprocess, sys, tempfile, time

PROF = sys.argv[1] if len(sys.argv) > 1 else "target/release/prof"
PAIRS = int(sys.argv[2]) if len(sys.argv) > 2 else 15
PR_SET_CHILD_SUBREAPER = 36


def run(command, workers):
    """Runs a command to the end of its last descendant. Returns its CPU and wall time, s."""
    environment = dict(os.environ, PROF_NO_CACHE="1", **({} if workers else {"PROF_TEST_WORKER": "none"}))
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status = os.waitpid(process.pid, 0)
    took = time.monotonic() - began
    if status:
        sys.exit(f"{command}: status {status}")
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took


def interval(values):
    """The median, and the interval that has that of all such values in it, 19 times of 20 (by order statistics)."""
    ordered, count = sorted(values), len(values)
    reach = round(0.98 * count**0.5)
    return statistics.median(ordered), ordered[max(count // 2 - reach, 0)], ordered[min(count // 2 + reach, count - 1)]


def compare(name, command, count):
    run(command, True)
    # Whoever is first finds a colder cache: they take turns in that, too.
    pairs = []
    for number in range(count):
        order = (True, False) if number % 2 else (False, True)
        both = {workers: run(command, workers) for workers in order}
        pairs.append((both[True], both[False]))
    for what, index in (("CPU", 0), ("wall", 1)):
        with_ms = [1e3 * one[index] for one, _ in pairs]
        without_ms = [1e3 * one[index] for _, one in pairs]
        more, low, high = interval([a - b for a, b in zip(with_ms, without_ms)])
        share, least, most = interval([100 * (a / b - 1) for a, b in zip(with_ms, without_ms)])
        print(
            f"{name:<28} {what:<5} with {statistics.median(with_ms):7.1f} ms  without {statistics.median(without_ms):7.1f} ms"
            f"  more {more:5.1f} ms ({low:.1f} to {high:.1f}), {share:.1f} % ({least:.1f} to {most:.1f})"
            f"  least {min(with_ms):.1f} and {min(without_ms):.1f} ms",
            flush=True,
        )


if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
    sys.exit("cannot wait for processes whose parents have ended")
with tempfile.TemporaryDirectory() as folder:
    record = [PROF, "record", "-q", "-f", "-o", f"{folder}/new.data", "--"]
    compare("/bin/true", record + ["/bin/true"], PAIRS)
    # Naming alone: a recording of a program with 100 MB of debug information, whose recorder was killed before it named anything.
    busy = f"while :; do {PROF} completions bash; {PROF} record --help; done"
    recorder = subprocess.Popen([*record[:5], f"{folder}/raw.data", "-F", "4999", "-e", "cpu", "-d", "60s", "--", "sh", "-c", busy], stdout=subprocess.DEVNULL, start_new_session=True)
    time.sleep(8)
    os.killpg(recorder.pid, signal.SIGKILL)
    recorder.wait()
    name = f"cp {folder}/raw.data {folder}/named.data && exec {PROF} symbolize {folder}/named.data"
    compare("names of prof itself", ["sh", "-c", name], PAIRS * 4)
