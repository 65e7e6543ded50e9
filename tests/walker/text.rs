//! Recorded cases as text: what is under `cases/`, one line for each fact.
//!
//! ```text
//! about TEXT                    what it shows, and where the frames come from
//! state interrupted|system-call
//! registers HEX*                DWARF numbers, the program counter last
//! thread-pointer HEX            where the thread's own data lie; only where the walk needs it
//! image STATE NAME              numbered from 0; STATE is a number of `enum prof_image_state`
//! rule KIND RBP RA CFAREG AUXREG AUX CFAOFF RBPOFF    of the image before, numbered from 0
//! first-page HEX                of that image
//! page LOW:RULE*                of that image, in order; nothing where a page has no rows
//! mapping START END BIAS IMAGE
//! memory START BYTES            readable, and zero but for
//! word OFFSET HEX*              words from there on, in the memory before
//! outcome N                     `enum prof_outcome`
//! frame ADDRESS NAME [xN]       expected, leaf first; N times
//! ```
//!
//! Only words that a walk reads are kept, only rows around those that it finds, so that a case is small.

use std::fmt::Write;

use prof::internals::unwind::rule::{RaKind, RbpKind, RuleKind};
use prof::internals::unwind::{Page, Row, Rule};

use crate::case::{Case, Image, ImageState, Mapping, Piece};

/// A case and what an unwinder that is not ours makes of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded {
    pub(crate) about: String,
    pub(crate) case: Case,
    /// One for each image.
    pub(crate) image_names: Vec<String>,
    /// `enum prof_outcome`.
    pub(crate) outcome: u32,
    /// Program counters and names, leaf first.
    pub(crate) frames: Vec<(u64, String)>,
}

const STATES: [ImageState; 6] = [
    ImageState::NotLoaded,
    ImageState::Ready,
    ImageState::FramePointers,
    ImageState::NoTable,
    ImageState::Generated,
    ImageState::Unreadable,
];

impl Recorded {
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("about {}\n", self.about);
        let state = if self.case.is_return { "system-call" } else { "interrupted" };
        let registers = hex(self.case.registers.iter().copied());
        writeln!(text, "state {state}\nregisters{registers}").unwrap();
        if let Some(address) = self.case.thread_pointer {
            writeln!(text, "thread-pointer {address:x}").unwrap();
        }
        for (image, name) in self.case.images.iter().zip(&self.image_names) {
            writeln!(text, "image {} {name}", image.state as u32).unwrap();
            for rule in &image.table.rules {
                let (kind, rbp, ra) = (rule.kind as u8, rule.rbp_kind as u8, rule.ra_kind as u8);
                let Rule { cfa_reg, aux_reg, aux, cfa_off, rbp_off, .. } = rule;
                let kept = if rule.is_base_kept { " kept" } else { "" };
                writeln!(text, "rule {kind} {rbp} {ra} {cfa_reg} {aux_reg} {aux} {cfa_off} {rbp_off}{kept}")
                    .unwrap();
            }
            if !image.table.pages.is_empty() {
                writeln!(text, "first-page {:x}", image.table.first_page).unwrap();
            }
            for page in &image.table.pages {
                text.push_str("page");
                for row in &image.table.rows[page.first as usize..][..page.count as usize] {
                    write!(text, " {:x}:{}", row.pc_low, row.rule).unwrap();
                }
                text.push('\n');
            }
        }
        for Mapping { start, end, bias, image } in &self.case.mappings {
            writeln!(text, "mapping {start:x} {end:x} {bias:x} {image}").unwrap();
        }
        for piece in &self.case.memory {
            writeln!(text, "memory {:x} {:x}", piece.start, piece.bytes.len()).unwrap();
            let words: Vec<u64> =
                piece.bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            for run in words.iter().zip(0..).collect::<Vec<(&u64, u64)>>().split(|(word, _)| **word == 0) {
                if let Some((_, index)) = run.first() {
                    writeln!(text, "word {:x}{}", index * 8, hex(run.iter().map(|(word, _)| **word)))
                        .unwrap();
                }
            }
        }
        writeln!(text, "outcome {}", self.outcome).unwrap();
        for run in self.frames.chunk_by(|a, b| a == b) {
            let times = if run.len() > 1 { format!(" x{}", run.len()) } else { String::new() };
            writeln!(text, "frame {:x} {}{times}", run[0].0, run[0].1).unwrap();
        }
        text
    }

    pub(crate) fn from_text(text: &str) -> Self {
        let mut recorded = Self::default();
        for line in text.lines() {
            let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
            recorded.take_line(key, rest).unwrap_or_else(|| panic!("not a line of a case: `{line}`"));
        }
        recorded
    }

    fn take_line(&mut self, key: &str, rest: &str) -> Option<()> {
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let case = &mut self.case;
        match key {
            "about" => self.about = rest.to_owned(),
            "state" => case.is_return = rest == "system-call",
            "registers" => {
                let registers: Option<Vec<u64>> = fields.iter().map(|field| parse_hex(field)).collect();
                case.registers = registers?;
            }
            "thread-pointer" => case.thread_pointer = Some(parse_hex(rest)?),
            "image" => {
                let number: usize = fields.first()?.parse().ok()?;
                case.images.push(Image { state: *STATES.get(number)?, table: Default::default() });
                self.image_names.push(fields.get(1)?.to_string());
            }
            "rule" => {
                let (is_base_kept, fields) = match fields.split_last() {
                    Some((&"kept", numbers)) => (true, numbers),
                    _ => (false, &fields[..]),
                };
                let numbers: Option<Vec<i32>> = fields.iter().map(|field| field.parse().ok()).collect();
                let [kind, rbp, ra, cfa_reg, aux_reg, aux, cfa_off, rbp_off] = numbers?.try_into().ok()?;
                let mut rule = Rule::NONE;
                rule.kind = RuleKind::ALL.into_iter().find(|known| *known as i32 == kind)?;
                rule.rbp_kind = RbpKind::ALL.into_iter().find(|known| *known as i32 == rbp)?;
                rule.ra_kind = RaKind::ALL.into_iter().find(|known| *known as i32 == ra)?;
                (rule.cfa_reg, rule.aux_reg) = (cfa_reg.try_into().ok()?, aux_reg.try_into().ok()?);
                (rule.aux, rule.cfa_off, rule.rbp_off) = (aux.try_into().ok()?, cfa_off, rbp_off);
                rule.is_base_kept = is_base_kept;
                case.images.last_mut()?.table.rules.push(rule);
            }
            "first-page" => case.images.last_mut()?.table.first_page = parse_hex(rest)?,
            "page" => {
                let table = &mut case.images.last_mut()?.table;
                table.pages.push(Page { first: table.rows.len() as u32, count: fields.len() as u32 });
                for field in fields {
                    let (low, rule) = field.split_once(':')?;
                    table.rows.push(Row { pc_low: parse_hex(low)? as u16, rule: rule.parse().ok()? });
                }
            }
            "mapping" => case.mappings.push(Mapping {
                start: parse_hex(fields.first()?)?,
                end: parse_hex(fields.get(1)?)?,
                bias: parse_hex(fields.get(2)?)?,
                image: fields.get(3)?.parse().ok()?,
            }),
            "memory" => {
                let bytes = vec![0; parse_hex(fields.get(1)?)? as usize];
                case.memory.push(Piece { start: parse_hex(fields.first()?)?, bytes });
            }
            "word" => {
                let mut at = parse_hex(fields.first()?)? as usize;
                for field in &fields[1..] {
                    let place = case.memory.last_mut()?.bytes.get_mut(at..at + 8)?;
                    place.copy_from_slice(&parse_hex(field)?.to_le_bytes());
                    at += 8;
                }
            }
            "outcome" => self.outcome = rest.parse().ok()?,
            "frame" => {
                let times = fields.get(2).map_or(Some(1), |field| field.strip_prefix('x')?.parse().ok())?;
                let frame = (parse_hex(fields.first()?)?, fields.get(1)?.to_string());
                self.frames.extend(std::iter::repeat_n(frame, times));
            }
            _ => return None,
        }
        Some(())
    }
}

fn hex(numbers: impl IntoIterator<Item = u64>) -> String {
    numbers.into_iter().fold(String::new(), |mut text, number| {
        write!(text, " {number:x}").unwrap();
        text
    })
}

fn parse_hex(field: &str) -> Option<u64> {
    u64::from_str_radix(field, 16).ok()
}
