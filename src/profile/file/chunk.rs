//! Chunks: the framing of everything after the header.
//!
//! ```text
//! 0      1       2        4             8            12       16
//! │ type │ flags │ number │ stored_size │ raw_size   │ crc32c │ stored_size bytes …
//! ```
//! Little-endian. `number` counts chunks from 0 modulo 2¹⁶, so that a lost chunk is noticed. The CRC
//! covers the first twelve bytes and the stored bytes. Sizes are checked against a limit, and bytes are
//! taken as they come, so that a false size costs no memory.

use std::io::{self, Read};

/// Content of a chunk. Numbers are stored: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkKind {
    Meta = 1,
    Strings = 2,
    Modules = 3,
    Tasks = 4,
    Frames = 5,
    Stacks = 6,
    Events = 7,
    Functions = 8,
    Symbols = 9,
    Samples = 10,
    Counters = 11,
    End = 12,
    Code = 13,
    ThreadTimes = 14,
    Sources = 15,
    ModuleNotes = 16,
    LabelSets = 17,
}

impl ChunkKind {
    const ALL: [ChunkKind; 17] = [
        ChunkKind::Meta,
        ChunkKind::Strings,
        ChunkKind::Modules,
        ChunkKind::Tasks,
        ChunkKind::Frames,
        ChunkKind::Stacks,
        ChunkKind::Events,
        ChunkKind::Functions,
        ChunkKind::Symbols,
        ChunkKind::Samples,
        ChunkKind::Counters,
        ChunkKind::End,
        ChunkKind::Code,
        ChunkKind::ThreadTimes,
        ChunkKind::Sources,
        ChunkKind::ModuleNotes,
        ChunkKind::LabelSets,
    ];

    /// The kind of a stored number, if this version knows it.
    fn from_code(code: u8) -> Option<ChunkKind> {
        ChunkKind::ALL.into_iter().find(|&kind| kind as u8 == code)
    }

    /// Name of the kind in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            ChunkKind::Meta => "meta",
            ChunkKind::Strings => "strings",
            ChunkKind::Modules => "modules",
            ChunkKind::Tasks => "tasks",
            ChunkKind::Frames => "frames",
            ChunkKind::Stacks => "stacks",
            ChunkKind::Events => "events",
            ChunkKind::Functions => "functions",
            ChunkKind::Symbols => "symbols",
            ChunkKind::Samples => "samples",
            ChunkKind::Counters => "counters",
            ChunkKind::End => "end",
            ChunkKind::Code => "code",
            ChunkKind::ThreadTimes => "thread times",
            ChunkKind::Sources => "source lines",
            ChunkKind::ModuleNotes => "module notes",
            ChunkKind::LabelSets => "sets of labels",
        }
    }
}

/// Bytes of a chunk's header.
pub(super) const HEADER: usize = 16;
/// Largest payload of a chunk, packed and unpacked: bounds what a reader holds at once.
pub(super) const MAX_SIZE: usize = 8 << 20;
/// Flag: the payload is one zstd frame. All other flags are unknown to this version.
pub(super) const FLAG_ZSTD: u8 = 1;

/// Puts payloads into chunks.
pub(super) struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    number: u16,
}

impl Packer {
    pub(super) fn new() -> io::Result<Self> {
        Packer::from_number(0)
    }

    /// Creates a packer whose first chunk has this number.
    pub(super) fn from_number(number: u16) -> io::Result<Self> {
        Ok(Packer { compressor: zstd::bulk::Compressor::new(COMPRESSION_LEVEL)?, number })
    }

    /// The next chunk, complete. `payload` must not be longer than [`MAX_SIZE`].
    pub(super) fn pack(&mut self, kind: ChunkKind, payload: &[u8]) -> io::Result<Vec<u8>> {
        let packed = self.compressor.compress(payload)?;
        let (flags, stored) =
            if packed.len() < payload.len() { (FLAG_ZSTD, packed.as_slice()) } else { (0, payload) };
        let chunk = frame(kind as u8, flags, self.number, payload.len() as u32, stored);
        self.number = self.number.wrapping_add(1);
        Ok(chunk)
    }
}

/// zstd's level. 9 makes the files of the synthetic recordings 4 % smaller, for more of the recorder's time.
const COMPRESSION_LEVEL: i32 = 3;

/// A chunk of the given parts.
pub(super) fn frame(kind: u8, flags: u8, number: u16, raw_size: u32, stored: &[u8]) -> Vec<u8> {
    let mut chunk = Vec::with_capacity(HEADER + stored.len());
    chunk.extend([kind, flags]);
    chunk.extend(number.to_le_bytes());
    chunk.extend((stored.len() as u32).to_le_bytes());
    chunk.extend(raw_size.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&chunk), stored);
    chunk.extend(crc.to_le_bytes());
    chunk.extend(stored);
    chunk
}

/// A chunk whose payload is not packed, with the right checksum.
#[cfg(feature = "testing")]
pub(crate) fn chunk_of(kind: u8, number: u16, payload: &[u8]) -> Vec<u8> {
    frame(kind, 0, number, payload.len() as u32, payload)
}

/// Takes chunks from an input, checking each before anything of it is used.
pub(super) struct Unpacker<R> {
    input: R,
    decompressor: zstd::bulk::Decompressor<'static>,
    number: u16,
    stored: Vec<u8>,
    raw: Vec<u8>,
}

/// Outcome of reading the next bytes of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    /// A chunk of a known kind, unpacked, that took `size` bytes of the file.
    Chunk { kind: ChunkKind, payload: &'a [u8], size: u64 },
    /// A sound chunk of a type, or with a flag, that this version does not know.
    Unknown { size: u64 },
    /// The input ends here, between chunks.
    End,
    /// No further chunk can be read, for this reason, after `consumed` bytes.
    Broken { reason: String, consumed: u64 },
    /// The input ends inside a chunk, after `consumed` bytes of it.
    Cut { consumed: u64 },
}

impl<R: Read> Unpacker<R> {
    pub(super) fn new(input: R) -> io::Result<Self> {
        let decompressor = zstd::bulk::Decompressor::new()?;
        Ok(Unpacker { input, decompressor, number: 0, stored: Vec::new(), raw: Vec::new() })
    }

    /// The input, positioned after what was consumed.
    pub(super) fn into_inner(self) -> R {
        self.input
    }

    /// The next chunk. Not to be called again after [`Next::End`], [`Next::Broken`] or [`Next::Cut`].
    pub(super) fn next(&mut self) -> Next<'_> {
        self.stored.clear();
        let broken = |reason: String, consumed: usize| Next::Broken { reason, consumed: consumed as u64 };
        if let Err(error) = self.fill(HEADER) {
            return broken(format!("it cannot be read: {error}"), self.stored.len());
        }
        if self.stored.is_empty() {
            return Next::End;
        }
        let Some(header) = self.stored.first_chunk::<HEADER>().copied() else {
            return Next::Cut { consumed: self.stored.len() as u64 };
        };
        let [kind, flags, n0, n1, rest @ ..] = header;
        let number = u16::from_le_bytes([n0, n1]);
        let [stored_size, raw_size, crc] = three_u32(rest);
        if stored_size as usize > MAX_SIZE || raw_size as usize > MAX_SIZE {
            return broken(format!("a chunk claims {} bytes", stored_size.max(raw_size)), HEADER);
        }
        let size = HEADER + stored_size as usize;
        if let Err(error) = self.fill(size) {
            return broken(format!("it cannot be read: {error}"), self.stored.len());
        }
        if self.stored.len() < size {
            return Next::Cut { consumed: self.stored.len() as u64 };
        }
        let stored = &self.stored[HEADER..];
        if crc32c::crc32c_append(crc32c::crc32c(&header[..12]), stored) != crc && !cfg!(fuzzing) {
            return broken("a chunk is damaged (its checksum does not match)".into(), size);
        }
        if number != self.number {
            return broken(format!("chunk {} is missing, chunk {number} follows", self.number), size);
        }
        self.number = self.number.wrapping_add(1);
        let known = ChunkKind::from_code(kind).filter(|_| flags & !FLAG_ZSTD == 0);
        let Some(kind) = known else {
            return Next::Unknown { size: size as u64 };
        };
        let payload = if flags & FLAG_ZSTD == 0 {
            stored
        } else {
            self.raw.clear();
            self.raw.reserve_exact(raw_size as usize);
            if let Err(error) = self.decompressor.decompress_to_buffer(stored, &mut self.raw) {
                return broken(format!("a chunk of {} cannot be unpacked: {error}", kind.name()), size);
            }
            self.raw.as_slice()
        };
        if payload.len() != raw_size as usize {
            return broken(format!("a chunk of {} is not of the size that it claims", kind.name()), size);
        }
        Next::Chunk { kind, payload, size: size as u64 }
    }

    /// Reads until `stored` holds `size` bytes or the input ends.
    fn fill(&mut self, size: usize) -> io::Result<()> {
        let missing = (size - self.stored.len()) as u64;
        self.input.by_ref().take(missing).read_to_end(&mut self.stored)?;
        Ok(())
    }
}

/// Three little-endian numbers.
fn three_u32(bytes: [u8; 12]) -> [u32; 3] {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
    [[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(bytes: &[u8]) -> String {
        match Unpacker::new(bytes).unwrap().next() {
            Next::Broken { reason, .. } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn chunks_come_back_in_order() {
        let mut packer = Packer::new().unwrap();
        let long = vec![7; 5000];
        let bytes =
            [packer.pack(ChunkKind::Meta, b"abc").unwrap(), packer.pack(ChunkKind::Samples, &long).unwrap()]
                .concat();
        assert!(bytes.len() < 100, "{}", bytes.len());
        let mut unpacker = Unpacker::new(bytes.as_slice()).unwrap();
        assert_eq!(unpacker.next(), Next::Chunk { kind: ChunkKind::Meta, payload: b"abc", size: 19 });
        assert!(
            matches!(unpacker.next(), Next::Chunk { kind: ChunkKind::Samples, payload, .. } if payload == long)
        );
        assert_eq!(unpacker.next(), Next::End);
    }

    #[test]
    fn an_unknown_kind_or_flag_is_passed_over() {
        for (kind, flags) in [(99, 0), (200, FLAG_ZSTD), (ChunkKind::Meta as u8, 2)] {
            let bytes = frame(kind, flags, 0, 999, b"whatever");
            assert_eq!(Unpacker::new(bytes.as_slice()).unwrap().next(), Next::Unknown { size: 24 });
        }
    }

    #[test]
    fn a_size_past_the_limit_is_refused_before_it_is_read() {
        for at in [4, 8] {
            let mut bytes = frame(ChunkKind::Meta as u8, 0, 0, 3, b"abc");
            bytes[at..at + 4].copy_from_slice(&(MAX_SIZE as u32 + 1).to_le_bytes());
            assert_eq!(reason(&bytes), "a chunk claims 8388609 bytes");
        }
    }

    #[test]
    fn a_bomb_stops_at_the_size_it_declared() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 3).unwrap();
        let bytes = frame(ChunkKind::Meta as u8, FLAG_ZSTD, 0, 1000, &bomb);
        assert!(reason(&bytes).contains("cannot be unpacked"), "{}", reason(&bytes));
        let small = zstd::bulk::compress(&[0; 10], 3).unwrap();
        let bytes = frame(ChunkKind::Meta as u8, FLAG_ZSTD, 0, 1000, &small);
        assert!(reason(&bytes).contains("not of the size"), "{}", reason(&bytes));
    }

    #[test]
    fn a_missing_chunk_is_noticed() {
        let bytes = frame(ChunkKind::Meta as u8, 0, 1, 3, b"abc");
        assert_eq!(reason(&bytes), "chunk 0 is missing, chunk 1 follows");
    }

    #[test]
    fn numbers_of_kinds_are_as_documented() {
        assert!(ChunkKind::ALL.into_iter().map(|kind| kind as u8).eq(1..=17));
        for kind in ChunkKind::ALL {
            assert_eq!(ChunkKind::from_code(kind as u8), Some(kind));
        }
    }
}
