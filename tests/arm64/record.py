"""Records stacks of an arm64 program, as gdb sees them. Runs inside gdb: see record.sh.

Stops at the given functions, then steps, and writes at each stop what has changed: registers, stack memory
and gdb's backtrace. The format is described in README.md.
"""
import os
import struct

import gdb

OUT = os.environ["RECORD_OUT"]
# function:steps, in the order in which they are reached; steps end early at the next of these functions
STOPS = [part.split(":") for part in os.environ["RECORD_STOPS"].split()]
# Frames from another run of the same program, where signed return addresses confuse gdb.
FRAMES_FROM = os.environ.get("RECORD_FRAMES_FROM")
NAMES = ["x%d" % i for i in range(31)] + ["sp", "pc"]
MAX_GAP = 1 << 17
SIGNAL_FRAME_BYTES = 0x250

registers = {}
memory = {}
zones = []
frames = []
lines = []
plt_callers = None
resolver = {}


def number(value):
    return int(value) & (2**64 - 1)


def plt_ranges():
    """Where linkage tables are: gdb takes their first entry for one that pushes nothing."""
    found = []
    for line in gdb.execute("info files", to_string=True).splitlines():
        words = line.split()
        if " is .plt" in line:
            found.append((int(words[0], 16), int(words[2], 16)))
    return found


def note_zone(start, end):
    """Takes memory from `start` up to `end`; what was taken before and has not changed is left out."""
    inferior = gdb.selected_inferior()
    start &= ~7
    end = (end + 7) & ~7
    try:
        data = bytes(inferior.read_memory(start, end - start))
    except gdb.MemoryError:
        return
    if not any(low <= start and end <= high for low, high in zones):
        zones.append((start, end))
        lines.append("zone %x %x" % (start, end))
    for i, (word,) in enumerate(struct.iter_unpack("<Q", data)):
        address = start + 8 * i
        if memory.get(address, 0) != word:
            memory[address] = word
            lines.append("m %x %x" % (address, word))


def is_resolver(pc):
    """glibc's _dl_runtime_resolve, known by its second instruction: stp x8, x9, [sp, #-208]!"""
    start = resolver.get("start")
    if start is None:
        word = bytes(gdb.selected_inferior().read_memory(pc + 4, 4)).hex()
        if word != "e827b3a9":
            return False
        start = resolver["start"] = pc
    return start <= pc < start + 120


def is_first_party(pc):
    """Whether the resolver has been left."""
    return "start" in resolver and not "ld-linux" in (gdb.solib_name(pc) or "")


def backtrace():
    chain = []
    frame = gdb.newest_frame()
    while frame is not None and len(chain) < 200:
        chain.append((number(frame.pc()), number(frame.read_register("sp")), frame.type()))
        frame = frame.older()
    return chain


def note_stop(other_frames):
    global frames, plt_callers
    frame = gdb.newest_frame()
    for i, name in enumerate(NAMES):
        value = number(frame.read_register(name))
        if registers.get(i) != value:
            registers[i] = value
            lines.append("r %d %x" % (i, value))
    chain = backtrace()
    for (_, sp, kind), (_, older_sp, _) in zip(chain, chain[1:]):
        if kind == gdb.SIGTRAMP_FRAME:
            note_zone(sp, sp + SIGNAL_FRAME_BYTES)
        elif sp < older_sp < sp + MAX_GAP:
            note_zone(sp, older_sp)
    if chain:
        note_zone(chain[-1][1], chain[-1][1] + 256)
    if other_frames is not None:
        note_zone(chain[0][1], max(high for _, high in OTHER_ZONES))
    callers = [pc for pc, _, _ in chain[1:]]
    pc = chain[0][0]
    if any(low <= pc < high for low, high in PLT):
        if plt_callers is None:
            plt_callers = callers
        callers = plt_callers
    elif plt_callers is not None:
        # The resolver's entries are wrong: what called the linkage table is known from before.
        inside = [i for i, (at, _, _) in enumerate(chain) if is_resolver(at)]
        if inside:
            callers = [at for at, _, _ in chain[1:inside[-1] + 1]] + plt_callers
        elif is_first_party(pc):
            plt_callers = None
    if other_frames is not None:
        at, callers = other_frames
        if at != pc:
            raise gdb.GdbError("the two runs differ: %x, %x" % (at, pc))
    if callers != frames:
        frames = callers
        lines.append("callers " + " ".join("%x" % pc for pc in callers))
    lines.append("stop")
    return pc, callers


def program_counter():
    return number(gdb.newest_frame().pc())


def address_of(function):
    return number(gdb.parse_and_eval("(long)&" + function))


def module_lines():
    """The libraries' biases; the program itself is linked for a fixed address."""
    found = ["module 0 %s" % os.environ["RECORD_NAME"]]
    for line in gdb.execute("info sharedlibrary", to_string=True).splitlines()[1:]:
        words = line.split()
        if not words or not words[0].startswith("0x"):
            continue
        text = int(words[0], 16)
        for section in os.popen("aarch64-linux-gnu-readelf -SW '%s'" % words[-1]):
            parts = section.replace("[ ", "[").split()
            if len(parts) > 3 and parts[1] == ".text":
                bias = (text - int(parts[3], 16)) & (2**64 - 1)
                found.append("module %x %s" % (bias, os.path.basename(words[-1])))
    return found


def trampoline_lines(chains):
    """The code that returns from signals, which is in no file here."""
    return ["code %x %s" % (start, data) for start, data in sorted(chains.items())]


gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace past-entry on")
gdb.execute("set sysroot /usr/aarch64-linux-gnu")
gdb.execute("file " + os.environ["RECORD_PROGRAM"])
gdb.execute("target remote localhost:" + os.environ["RECORD_PORT"])
for name in ("SIGUSR1", "SIGUSR2", "SIGILL"):
    gdb.execute("handle %s nostop noprint pass" % name)
others = None
if FRAMES_FROM:
    others = []
    with open(FRAMES_FROM[: -len(".frames")]) as file:
        OTHER_ZONES = [tuple(int(word, 16) for word in line.split()[1:]) for line in file if line.startswith("zone")]
    with open(FRAMES_FROM) as file:
        for line in file:
            pcs = [int(word, 16) for word in line.split()]
            others.append((pcs[0], pcs[1:]))
trampolines = {}
seen = []
PLT = []
for index, (function, steps) in enumerate(STOPS):
    if not seen or program_counter() != address_of(function):
        gdb.Breakpoint("*" + function, temporary=True)
        gdb.execute("continue", to_string=True)
    PLT = plt_ranges()
    following = STOPS[index + 1][0] if index + 1 < len(STOPS) else None
    for step in range(int(steps) + 1):
        if following and program_counter() == address_of(following):
            break
        seen.append(note_stop(others[len(seen)] if others else None))
        frame = gdb.newest_frame()
        while frame is not None:
            if frame.type() == gdb.SIGTRAMP_FRAME:
                start = number(frame.pc())
                trampolines[start] = bytes(gdb.selected_inferior().read_memory(start, 8)).hex()
            frame = frame.older()
        if step < int(steps):
            gdb.execute("stepi", to_string=True)
with open(OUT, "w") as file:
    for line in module_lines() + trampoline_lines(trampolines) + lines:
        file.write(line + "\n")
with open(OUT + ".frames", "w") as file:
    for pc, callers in seen:
        file.write(" ".join("%x" % pc for pc in [pc] + callers) + "\n")
gdb.execute("kill")
