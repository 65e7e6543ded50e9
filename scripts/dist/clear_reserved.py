"""Clears what llvm-objcopy leaves of its memory in a file of debug information, so that two builds are the same."""
import struct, sys

# llvm-objcopy leaves what was in memory in the reserved word of each header of a compressed section (Elf64_Chdr).
SHF_COMPRESSED = 0x800
with open(sys.argv[1], "r+b") as file:
    data = file.read()
    (headers,) = struct.unpack_from("<Q", data, 0x28)
    length, count = struct.unpack_from("<HH", data, 0x3A)
    for at in range(headers, headers + length * count, length):
        flags, _, offset = struct.unpack_from("<QQQ", data, at + 8)
        if flags & SHF_COMPRESSED:
            file.seek(offset + 4)
            file.write(bytes(4))
