"""Copies an ELF file with everything zeroed that unwinding does not read, so that it compresses well.

    sparse.py FILE OUT

Kept: headers, section names, unwind entries, linkage tables, 128 bytes at the entry point, and
glibc's _dl_runtime_resolve, known by its second instruction.
"""
import struct
import sys

data = open(sys.argv[1], "rb").read()
entry, phoff, shoff = struct.unpack_from("<QQQ", data, 24)
phnum, = struct.unpack_from("<H", data, 56)
shnum, names_index = struct.unpack_from("<HH", data, 60)
out = bytearray(len(data))


def keep(start, size):
    out[start:start + size] = data[start:start + size]


keep(0, 64)
keep(phoff, 56 * phnum)
keep(shoff, 64 * shnum)
sections = [struct.unpack_from("<IIQQQQ", data, shoff + 64 * i) for i in range(shnum)]
names = sections[names_index]
keep(names[4], names[5])
for name, kind, _, _, offset, size in sections:
    start = names[4] + name
    text = data[start:data.index(b"\0", start)]
    if text in (b".eh_frame", b".eh_frame_hdr", b".plt", b".iplt"):
        keep(offset, size)
for i in range(phnum):
    kind, _, offset, address, _, file_size = struct.unpack_from("<IIQQQQ", data, phoff + 56 * i)
    if kind == 1 and address <= entry < address + file_size:
        keep(offset + entry - address, 128)
resolver = data.find(bytes.fromhex("e827b3a9"))
if resolver > 0:
    keep(resolver - 4, 128)
open(sys.argv[2], "wb").write(out)
