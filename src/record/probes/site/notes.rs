//! Probes that a program declares itself (USDT), by the notes that `sys/sdt.h` of SystemTap leaves in it, and where their
//! arguments are. Format: SystemTap's "UserSpaceProbeImplementation".

use crate::elf::fields::{Fields, c_string};
use crate::elf::{ElfError, ElfImage};
use crate::record::probes::weight::WeightPlace;

/// Bytes of notes that are looked at.
const MAX_NOTE_BYTES: u64 = 16 << 20;
/// Type of the notes.
const NT_STAPSDT: u32 = 3;

/// A declared probe, at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::record::probes) struct DeclaredProbe {
    pub(in crate::record::probes) provider: String,
    pub(in crate::record::probes) name: String,
    /// The module's own address of its instruction.
    pub(in crate::record::probes) address: u64,
    /// That of the counter that switches it; 0: it is always on.
    pub(in crate::record::probes) semaphore: u64,
    /// Its arguments, as the assembler wrote them.
    pub(in crate::record::probes) arguments: String,
}

/// All declared probes of a file.
///
/// # Errors
///
/// The notes cannot be read.
pub(in crate::record::probes) fn declared(image: &ElfImage) -> Result<Vec<DeclaredProbe>, ElfError> {
    let Some(section) = image.section(b".note.stapsdt") else { return Ok(Vec::new()) };
    if section.size > MAX_NOTE_BYTES {
        return Err(ElfError::TooLarge { what: "notes", size: section.size, limit: MAX_NOTE_BYTES });
    }
    // prelink moves addresses, and not those in the notes.
    let base = image.section(b".stapsdt.base").map(|base| base.address);
    Ok(parse(&image.section_bytes(section)?, base))
}

fn parse(notes: &[u8], base: Option<u64>) -> Vec<DeclaredProbe> {
    let mut probes = Vec::new();
    let mut rest = notes;
    while let Some((probe, next)) = take(rest, base) {
        probes.extend(probe);
        rest = next;
    }
    probes
}

/// One note, and what comes after it; a note of another kind is no probe.
fn take(notes: &[u8], base: Option<u64>) -> Option<(Option<DeclaredProbe>, &[u8])> {
    let fields = Fields(notes);
    let (name_size, size, kind) = (fields.u32(0)? as usize, fields.u32(4)? as usize, fields.u32(8)?);
    let name = notes.get(12..12_usize.checked_add(name_size)?)?;
    let start = 12_usize.checked_add(name_size.checked_next_multiple_of(4)?)?;
    let end = start.checked_add(size)?;
    let content = notes.get(start..end)?;
    let next = notes.get(end.checked_next_multiple_of(4)?..).unwrap_or_default();
    let is_probe = kind == NT_STAPSDT && name == b"stapsdt\0";
    Some((is_probe.then(|| probe(content, base)).flatten(), next))
}

fn probe(content: &[u8], base: Option<u64>) -> Option<DeclaredProbe> {
    let fields = Fields(content);
    let (address, noted_base, semaphore) = (fields.u64(0)?, fields.u64(8)?, fields.u64(16)?);
    let moved = base.map_or(0, |base| base.wrapping_sub(noted_base));
    let mut at = 24;
    let mut text = || {
        let text = c_string(content, at)?;
        at += text.len() + 1;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let (provider, name) = (text()?, text()?);
    let arguments = text().unwrap_or_default();
    let semaphore = if semaphore == 0 { 0 } else { semaphore.wrapping_add(moved) };
    Some(DeclaredProbe { provider, name, address: address.wrapping_add(moved), semaphore, arguments })
}

impl DeclaredProbe {
    /// The place of an argument, from 1.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, in words.
    pub(in crate::record::probes) fn argument(&self, number: u32) -> Result<WeightPlace, String> {
        let all: Vec<&str> = self.arguments.split_whitespace().collect();
        let text = all.get(number as usize - 1).ok_or_else(|| {
            format!(
                "it has {} here, and no arg{number}",
                crate::base::units::counted(all.len() as u64, "argument")
            )
        })?;
        operand(text).ok_or_else(|| format!("arg{number} is `{text}` here, which prof cannot read"))
    }
}

/// `SIZE@OPERAND` in the words of the assembler: `-4@%eax`, `8@-24(%rbp)`, `8@(%rax,%rbx,4)`, `4@$7`.
fn operand(text: &str) -> Option<WeightPlace> {
    let (size, operand) = text.split_once('@')?;
    let size: i32 = size.parse().ok()?;
    let bytes = size.unsigned_abs();
    if ![1, 2, 4, 8].contains(&bytes) {
        return None;
    }
    let place = WeightPlace { bytes, is_signed: size < 0, ..WeightPlace::default() };
    if let Some(number) = operand.strip_prefix('$') {
        return Some(WeightPlace { offset: number.parse().ok()?, ..place.constant() });
    }
    if operand.starts_with('%') {
        return Some(place.register(register(operand)?));
    }
    let (offset, inside) = operand.strip_suffix(')')?.split_once('(')?;
    let offset = if offset.is_empty() { 0 } else { offset.parse().ok()? };
    let mut parts = inside.split(',');
    let base = register(parts.next()?)?;
    let index = parts.next().map(|name| register(name).ok_or(())).transpose().ok()?;
    let scale = match (index, parts.next()) {
        (None, _) => 0,
        (Some(_), None) => 1,
        (Some(_), Some(scale)) => scale.parse().ok()?,
    };
    Some(WeightPlace { offset, index: index.unwrap_or(0), scale, ..place.memory(base) })
}

/// The DWARF number of a register of x86-64, by the assembler's name for any part of it.
fn register(name: &str) -> Option<u32> {
    const NAMES: [[&str; 4]; 8] = [
        ["rax", "eax", "ax", "al"],
        ["rdx", "edx", "dx", "dl"],
        ["rcx", "ecx", "cx", "cl"],
        ["rbx", "ebx", "bx", "bl"],
        ["rsi", "esi", "si", "sil"],
        ["rdi", "edi", "di", "dil"],
        ["rbp", "ebp", "bp", "bpl"],
        ["rsp", "esp", "sp", "spl"],
    ];
    let name = name.trim().strip_prefix('%')?;
    if cfg!(target_arch = "aarch64") {
        return None;
    }
    if let Some(number) = NAMES.iter().position(|names| names.contains(&name)) {
        return Some(number as u32);
    }
    let number: u32 = name.strip_prefix('r')?.trim_end_matches(['d', 'w', 'b']).parse().ok()?;
    (8..16).contains(&number).then_some(number)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn note(provider: &str, name: &str, arguments: &str) -> Vec<u8> {
        let mut content: Vec<u8> =
            [0x1000u64, 0x2000, 0x3000].iter().flat_map(|word| word.to_le_bytes()).collect();
        for text in [provider, name, arguments] {
            content.extend(text.bytes().chain([0]));
        }
        let sizes = [8, content.len() as u32, NT_STAPSDT];
        let mut note: Vec<u8> = sizes.iter().flat_map(|word| word.to_le_bytes()).collect();
        note.extend(b"stapsdt\0");
        note.extend(content);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    #[test]
    fn notes_are_probes() {
        let notes = [note("app", "begin", "8@%rdi -4@$3"), note("app", "end", "")].concat();
        let probes = parse(&notes, Some(0x2100));
        assert_eq!(probes.len(), 2);
        assert_eq!((probes[0].address, probes[0].semaphore), (0x1100, 0x3100), "moved as its base was");
        assert_eq!((&*probes[0].provider, &*probes[1].name), ("app", "end"));
        assert!(probes[1].argument(1).unwrap_err().contains("0 arguments"));
        for cut in 0..notes.len() {
            assert!(parse(&notes[..cut], None).len() < 2 || cut + 4 > notes.len());
        }
    }

    #[test]
    fn operands_are_places() {
        let plain = WeightPlace { bytes: 8, ..WeightPlace::default() };
        assert_eq!(operand("8@%rdi"), Some(plain.register(5)));
        assert_eq!(
            operand("-4@%r12d"),
            Some(WeightPlace { bytes: 4, is_signed: true, ..plain }.register(12))
        );
        assert_eq!(operand("4@$7"), Some(WeightPlace { bytes: 4, offset: 7, ..plain }.constant()));
        assert_eq!(operand("8@-24(%rbp)"), Some(WeightPlace { offset: -24, ..plain.memory(6) }));
        let indexed = WeightPlace { offset: 8, index: 3, scale: 4, ..plain.memory(0) };
        assert_eq!(operand("8@8(%rax,%rbx,4)"), Some(indexed));
        for odd in ["8@counter(%rip)", "8f@%xmm0", "3@%rdi", "8@%st0", "8", "", "8@(%rax", "8@(%rax,%foo,4)"]
        {
            assert_eq!(operand(odd), None, "{odd}");
        }
    }
}
