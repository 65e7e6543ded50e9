#!/usr/bin/env python3
"""What the agent costs the programs of a host: PostgreSQL under pgbench and queries of DuckDB, with the agent and without it in turn.

    benches/agent_felt.py PROF [PAIRS [SECONDS]]

Each pair is SECONDS (15) of work with the agent, which has begun five seconds before, and as many without it, in the order that chance
gives. Printed are the difference of what was done with its 95 % interval, over PAIRS (8) pairs, and, since a shared machine differs by
more from one moment to the next, the floor: the CPU time that all processes of the agent used, and its samples at the price of one
(PRICE_US), of what the processors have. As root; a program that is not installed is skipped, and said to be.
"""

import glob
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# What a sample costs the thread that it interrupts, us: the column "target" of docs/performance.md.
PRICE_US = 25
# Two-sided 95 % quantiles of Student's t, by degrees of freedom.
T = {1: 12.7, 2: 4.3, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23, 11: 2.2, 12: 2.18, 15: 2.13, 20: 2.09}

DUCKDB = """
import sys, time
import duckdb
seconds = float(sys.argv[1])
base = duckdb.connect()
base.execute("set threads = 2")
base.execute("create table t as select range as id, range % 1000 as k, hash(range) % 100000 as h from range(2000000)")
queries = [
    "select k, sum(id), count(distinct h) from t group by k",
    "select count(*) from t a join t b on a.id = b.h where a.k < 300",
    "select sum(r) from (select row_number() over (partition by k order by h) as r from t)",
]
end, done = time.monotonic() + seconds, 0.0
while True:
    for query in queries:
        begun = time.monotonic()
        base.execute(query).fetchall()
        now = time.monotonic()
        if now >= end:
            # The part of the last query that was done in time.
            print(done + (end - begun) / (now - begun))
            sys.exit()
        done += 1
"""


def ticks_of(agent):
    """CPU time of a process and of all below it, with those that have ended, s."""
    parents, ticks = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()
        except OSError:
            continue
        parents[int(pid)], ticks[int(pid)] = int(text[1]), sum(map(int, text[11:15]))
    family, more = set(), {agent}
    while more:
        family |= more
        more = {pid for pid, parent in parents.items() if parent in family} - family
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


class Agent:
    """The agent, recording into a folder."""

    def __init__(self, prof, work):
        self.folder = tempfile.mkdtemp(dir=work)
        config = f"{self.folder}/agent.toml"
        with open(config, "w") as file:
            file.write(f'[buffer]\nfolder = "{self.folder}/buffer"\n[keep]\nfolder = "{self.folder}/kept"\n')
        self.process = subprocess.Popen([prof, "agent", "--config", config], stderr=subprocess.DEVNULL)
        time.sleep(5)
        self.begun, self.used = time.monotonic(), ticks_of(self.process.pid)

    def end(self):
        """Ends it; returns the CPU time that it used in a second, s."""
        used = (ticks_of(self.process.pid) - self.used) / (time.monotonic() - self.begun)
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder)
        return used


def compare(name, work_done, prof, work, pairs, seconds):
    differences, used = [], []
    for _ in range(pairs):
        done = {}
        for is_on in random.sample([True, False], 2):
            agent = Agent(prof, work) if is_on else None
            done[is_on] = work_done(seconds)
            if agent:
                used.append(agent.end())
        differences.append((done[False] / done[True] - 1) * 100)
    mean = statistics.mean(differences)
    freedom = max(key for key in T if key <= max(pairs - 1, 1))
    half = T[freedom] * statistics.stdev(differences) / math.sqrt(pairs) if pairs > 1 else math.nan
    cpus = os.cpu_count()
    floor = (statistics.median(used) / cpus + 19 * PRICE_US / 1e6) * 100
    print(
        f"{name:24} {mean:+8.2f} % [{mean - half:+.2f}..{mean + half:+.2f}]   median {statistics.median(differences):+.2f} %"
        f"   agent {statistics.median(used) * 100:.2f} % of one CPU   floor {floor:.2f} %",
        flush=True,
    )


def database(work):
    """Starts PostgreSQL; returns what does pgbench's transactions, and the server."""
    binaries = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not binaries or not os.path.exists(f"{binaries[-1]}/pgbench"):
        return None, None
    binaries, folder = binaries[-1], f"{work}/db"
    os.mkdir(folder)
    shutil.chown(folder, "postgres", "postgres")
    os.chmod(work, 0o755)
    common = {"user": "postgres", "group": "postgres", "extra_groups": [], "cwd": folder, "env": {"PATH": "/usr/bin:/bin"}}

    def run(program, *arguments):
        return subprocess.run(
            [f"{binaries}/{program}", *arguments], check=True, capture_output=True, text=True, **common
        ).stdout

    run("initdb", "-D", "data", "-A", "trust", "--no-sync", "-U", "postgres")
    server = subprocess.Popen(
        [f"{binaries}/postgres", "-D", "data", "-k", folder, "-c", "listen_addresses="],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **common,
    )
    place = ["-h", folder, "-U", "postgres", "postgres"]
    while subprocess.run([f"{binaries}/pg_isready", "-q", "-h", folder], **common).returncode:
        time.sleep(0.2)
    run("pgbench", "-i", "-q", "-s", "5", *place)

    def transactions(seconds):
        text = run("pgbench", "-S", "-n", "-c", "2", "-T", str(seconds), *place)
        return float(next(line for line in text.splitlines() if line.startswith("tps")).split()[2])

    return transactions, server


def main():
    prof = os.path.realpath(sys.argv[1])
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 15
    work = tempfile.mkdtemp(prefix="prof-agent-felt-")
    server = None
    python = os.environ.get("DUCKDB_PYTHON", sys.executable)
    try:
        print(f"{pairs} pairs of {seconds} s, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}", flush=True)
        if subprocess.run([python, "-c", "import duckdb"], stderr=subprocess.DEVNULL).returncode:
            print("DuckDB skipped: its module for Python is not installed")
        else:
            queries = lambda seconds: float(subprocess.check_output([python, "-c", DUCKDB, str(seconds)]))
            compare("DuckDB, 3 queries", queries, prof, work, pairs, seconds)
        transactions, server = database(work)
        if transactions is None:
            print("pgbench skipped: PostgreSQL is not installed")
        else:
            transactions(2)
            compare("pgbench -S, 2 clients", transactions, prof, work, pairs, seconds)
    finally:
        if server:
            server.terminate()
            server.wait()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
