#!/usr/bin/env python3
"""What hosts may do to the agent: ten thousand processes, forks without end, a thousand mappings of files a second.

    benches/agent_storms.py PROF [SECONDS [STORM…]]

Each storm (`crowd`, `forks`, `maps`) goes on for SECONDS (60), with one processor busy. Printed are the CPU time of all processes of the
agent and the most memory that they had, before it, in it, in the 40 s after it and in the next 40 s, and what the agent's metrics say of it. As root, with a C compiler.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

BEFORE = 20
AFTER = 40
BUILD_ID = bytes(range(20))


def family_of(agent):
    """Ids of a process and of all below it."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(pid)] = int(open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()[1])
        except OSError:
            continue
    family, more = set(), {agent}
    while more:
        family |= more
        more = {pid for pid, parent in parents.items() if parent in family} - family
    return family


def used_by(family):
    """CPU time of processes and of their children that have ended, s, and memory, MB."""
    ticks = kilobytes = 0
    for pid in family:
        try:
            ticks += sum(map(int, open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()[11:15]))
            lines = open(f"/proc/{pid}/smaps_rollup").read().splitlines()
            kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK"), kilobytes / 1000


def metrics_of(path):
    """The numbers that the agent has, by name with labels."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(path)
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: prof\r\nConnection: close\r\n\r\n")
        text = b""
        while more := client.recv(1 << 16):
            text += more
    lines = (line.rsplit(" ", 1) for line in text.decode().splitlines() if line and not line.startswith("#"))
    return {line[0]: float(line[1]) for line in lines if len(line) == 2 and line[0].startswith("prof_")}


def watch(name, agent, seconds):
    """Prints what the agent uses in so many seconds. Its processes are looked for once: /proc may be large."""
    family = family_of(agent)
    begun, (before, most) = time.monotonic(), used_by(family)
    while (left := begun + seconds - time.monotonic()) > 0:
        time.sleep(min(left, 2))
        used, memory = used_by(family)
        most = max(most, memory)
    took = time.monotonic() - begun
    print(f"  {name:8} {(used - before) / took * 100:6.2f} % of one CPU   {most:6.1f} MB at the most", flush=True)


def command_of(storm, work, seconds):
    program = f"{work}/storms"
    if storm == "crowd":
        return [program, storm, "10000", str(seconds)]
    if storm == "forks":
        return [program, storm, "1000", str(seconds)]
    folder = pathlib.Path(work, "files")
    folder.mkdir(exist_ok=True)
    source, library = f"{work}/one.c", f"{work}/one.so"
    pathlib.Path(source).write_text("int one(int x) { return x + 1; }\nint two(int x) { return one(x) * one(x); }\n")
    build_id = f"-Wl,--build-id=0x{BUILD_ID.hex()}"
    subprocess.run(["cc", "-O1", "-g", "-shared", "-fPIC", build_id, "-o", library, source], check=True)
    text = pathlib.Path(library).read_bytes()
    assert BUILD_ID in text
    for number in range(2000):
        (folder / f"{number}.so").write_bytes(text.replace(BUILD_ID, number.to_bytes(20, "big")))
    return [program, storm, str(folder), str(seconds)]


def weather(storm, prof, work, seconds):
    print(f"{storm}, {seconds} s")
    folder = tempfile.mkdtemp(dir=work)
    config, metrics = f"{folder}/agent.toml", f"{folder}/metrics.sock"
    pathlib.Path(config).write_text(
        f'window = "15s"\n[buffer]\nfolder = "{folder}/buffer"\n[keep]\nfolder = "{folder}/kept"\n[metrics]\nlisten = "unix:{metrics}"\n'
    )
    command = command_of(storm, work, seconds)
    said = open(f"{folder}/said", "w+")
    agent = subprocess.Popen([prof, "agent", "--config", config], stderr=said)
    busy = subprocess.Popen([sys.executable, "-c", "while True: sum(i * i for i in range(100000))"])
    try:
        time.sleep(15)
        watch("before", agent.pid, BEFORE)
        before = metrics_of(metrics)
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        time.sleep(2)
        watch("in it", agent.pid, seconds - 3)
        print(f"           {running.communicate()[0].strip()}")
        watch("after", agent.pid, AFTER)
        watch("later", agent.pid, AFTER)
        after = metrics_of(metrics)
        shown = ("lost", "incomplete", "samples_total", "problem", "left_out", "merged", "skipped", "restarts", "dropped")
        for name in sorted(after):
            more = after[name] - before.get(name, 0)
            if more and any(word in name for word in shown):
                print(f"           {name} +{more:.0f}")
        if agent.poll() is not None:
            print(f"           the agent has ended with {agent.returncode}")
    finally:
        for process in (busy, agent):
            process.terminate()
            process.wait()
    said.seek(0)
    for line in said.read().splitlines():
        print(f"           said: {line[:160]}")


def main():
    prof = os.path.realpath(sys.argv[1])
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    work = tempfile.mkdtemp(prefix="prof-agent-storms-")
    source = os.path.join(os.path.dirname(os.path.realpath(__file__)), "storms.c")
    try:
        subprocess.run(["cc", "-O2", "-o", f"{work}/storms", source], check=True)
        for storm in sys.argv[3:] or ["crowd", "forks", "maps"]:
            weather(storm, prof, work, seconds)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
