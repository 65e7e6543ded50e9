#!/usr/bin/env python3
"""Prints what it costs that files are read in processes of their own: the same program with workers and, by a switch of the tests,
without, by turns. As root; the program needs the feature "testing":

    cargo build --release --features testing && benches/workers.py [PROF [PAIRS]]

CPU time is that of all processes of prof, by wait4(2); the recorded command is a part of it, and the same on both sides.
docs/performance.md has the results.
"""

import ctypes, os, resource, statistics, subprocess, sys, tempfile, time

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


def compare(name, command):
    run(command, True)
    pairs = [(run(command, True), run(command, False)) for _ in range(PAIRS)]
    for what, index in (("CPU", 0), ("wall", 1)):
        with_ms = [1e3 * one[index] for one, _ in pairs]
        without_ms = [1e3 * one[index] for _, one in pairs]
        more = sorted(a - b for a, b in zip(with_ms, without_ms))
        low, high = more[len(more) // 4], more[-1 - len(more) // 4]
        print(
            f"{name:<28} {what:<5} with {statistics.median(with_ms):7.1f} ms  without {statistics.median(without_ms):7.1f} ms"
            f"  more {statistics.median(more):6.1f} ms (middle half {low:.1f} to {high:.1f})"
            f"  least {min(with_ms):.1f} and {min(without_ms):.1f} ms",
            flush=True,
        )


if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
    sys.exit("cannot wait for processes whose parents have ended")
with tempfile.TemporaryDirectory() as folder:
    record = [PROF, "record", "-q", "-f", "-o", f"{folder}/new.data", "--"]
    compare("/bin/true", record + ["/bin/true"])
    # Hundreds of functions of a program with 100 MB of debug information.
    subprocess.run([*record[:5], f"{folder}/prof.data"] + ["-e", "cpu", "--", "sh", "-c", f"{PROF} completions bash; {PROF} --help"], stdout=subprocess.DEVNULL, check=True)
    report = f"for n in 1 2 3 4; do {PROF} report {folder}/prof.data -n 0; {PROF} report {folder}/prof.data --tree -n 0; done"
    compare("names of prof itself", record + ["sh", "-c", report])
