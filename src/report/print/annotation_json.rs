//! `prof.annotate/1`: an annotated function for programs, as JSON and as a table. Fields are only ever added.

use super::json::unit_word;
use super::text::annotation::{AnnotationSheet, notes};
use crate::base::safe_text;
use crate::profile::StringId;
use crate::report::model::amount::Amount;
use crate::report::views::annotation::{AnnotatedInstruction, InlineStep};
use serde::Serialize;
use std::fmt::Write as _;

const SCHEMA: &str = "prof.annotate/1";

#[derive(Debug, Serialize)]
struct AnnotationJson<'a> {
    schema: &'static str,
    event: String,
    unit: &'static str,
    target: &'a str,
    function: &'a str,
    raw_name: &'a str,
    module: &'a str,
    /// Samples that end in the function, and what they are weighted as.
    #[serde(flatten)]
    cost: CostJson,
    /// Weight of the whole selection.
    recorded_total: u64,
    /// Parts of its code that are in the recording.
    code: Vec<CodeJson>,
    lines: Vec<LineJson<'a>>,
    instructions: Vec<InstructionJson<'a>>,
    notes: Vec<String>,
}

/// Costs of a function or a line.
#[derive(Debug, Serialize)]
struct CostJson {
    #[serde(rename = "self")]
    own: u64,
    inlined: u64,
    total: u64,
    self_samples: u64,
    inlined_samples: u64,
    total_samples: u64,
}

impl CostJson {
    fn of(own: Amount, inlined: Amount, total: Amount) -> Self {
        CostJson {
            own: own.weight,
            inlined: inlined.weight,
            total: total.weight,
            self_samples: own.samples,
            inlined_samples: inlined.samples,
            total_samples: total.samples,
        }
    }
}

#[derive(Debug, Serialize)]
struct CodeJson {
    address: u64,
    length: u64,
    function_bytes: u64,
}

#[derive(Debug, Serialize)]
struct LineJson<'a> {
    file: Option<&'a str>,
    line: Option<u32>,
    source: Option<&'a str>,
    #[serde(flatten)]
    cost: CostJson,
    inlined_code: Vec<InlinedJson<'a>>,
}

/// Code of one line of an inlined function.
#[derive(Debug, Serialize)]
struct InlinedJson<'a> {
    /// The outermost call first.
    chain: Vec<InlineStepJson<'a>>,
    #[serde(rename = "self")]
    own: u64,
    samples: u64,
}

#[derive(Debug, Serialize)]
struct InlineStepJson<'a> {
    function: &'a str,
    file: Option<&'a str>,
    line: Option<u32>,
}

#[derive(Debug, Serialize)]
struct InstructionJson<'a> {
    address: u64,
    offset: Option<u64>,
    bytes: String,
    text: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    /// The outermost call first.
    inlined: Vec<InlineStepJson<'a>>,
    #[serde(rename = "self")]
    own: u64,
    total: u64,
    samples: u64,
    total_samples: u64,
}

/// The function as JSON.
///
/// # Errors
///
/// When it cannot be written, which no value in it can cause.
pub(crate) fn json(sheet: &AnnotationSheet<'_>) -> anyhow::Result<String> {
    let AnnotationSheet { selection, label, annotation, sources, .. } = *sheet;
    let profile = selection.profile;
    let lines = annotation.lines.iter().map(|line| LineJson {
        file: file_of(sheet, line.file),
        line: Some(line.line).filter(|line| *line > 0),
        source: sources.get(&line.file).and_then(|source| source.line(line.line)),
        cost: CostJson::of(line.own, line.inlined, line.total),
        inlined_code: (line.groups.iter())
            .filter(|group| !group.chain.is_empty())
            .map(|group| InlinedJson {
                chain: chain(sheet, &group.chain),
                own: group.own.weight,
                samples: group.own.samples,
            })
            .collect(),
    });
    let code = annotation.parts.iter().map(|part| CodeJson {
        address: part.address,
        length: part.length,
        function_bytes: part.function_bytes,
    });
    let document = AnnotationJson {
        schema: SCHEMA,
        event: selection.shown.title.to_string(),
        unit: unit_word(selection.shown.unit),
        target: &profile.meta.target,
        function: &label.name,
        raw_name: &label.raw_name,
        module: &label.module,
        cost: CostJson::of(annotation.own, annotation.inlined, annotation.total),
        recorded_total: selection.total.weight,
        code: code.collect(),
        lines: lines.collect(),
        instructions: annotation.instructions.iter().map(|at| instruction(sheet, at)).collect(),
        notes: notes(sheet),
    };
    let mut text = safe_text::json(&serde_json::to_string_pretty(&document)?).into_owned();
    text.push('\n');
    Ok(text)
}

fn file_of<'a>(sheet: &AnnotationSheet<'a>, file: StringId) -> Option<&'a str> {
    Some(sheet.selection.profile.tables.string(file)).filter(|path| !path.is_empty())
}

fn chain<'a>(sheet: &AnnotationSheet<'a>, chain: &'a [InlineStep]) -> Vec<InlineStepJson<'a>> {
    let step = |step: &'a InlineStep| InlineStepJson {
        function: &step.name,
        file: file_of(sheet, step.file),
        line: Some(step.line).filter(|line| *line > 0),
    };
    chain.iter().map(step).collect()
}

fn instruction<'a>(sheet: &AnnotationSheet<'a>, at: &'a AnnotatedInstruction) -> InstructionJson<'a> {
    let line = &sheet.annotation.lines[at.line];
    let calls = line.groups.get(at.group).map_or(&[][..], |group| &group.chain);
    InstructionJson {
        address: at.at.address,
        offset: at.at.start.map(|start| at.at.address.wrapping_sub(start)),
        bytes: hex(&at.bytes),
        text: at.text.as_deref(),
        file: file_of(sheet, line.file),
        line: Some(line.line).filter(|line| *line > 0),
        inlined: chain(sheet, calls),
        own: at.own.weight,
        total: at.total.weight,
        samples: at.own.samples,
        total_samples: at.total.samples,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The function as a table: a row for each line, then one for each instruction.
pub(crate) fn tsv(sheet: &AnnotationSheet<'_>) -> String {
    let AnnotationSheet { selection, annotation, sources, .. } = *sheet;
    let unit = unit_word(selection.shown.unit);
    let mut out = format!(
        "what\tself_{unit}\tinlined_{unit}\ttotal_{unit}\tself_samples\ttotal_samples\tfile\tline\taddress\ttext\n"
    );
    let mut row = |cells: [&str; 10]| {
        let _ = writeln!(out, "{}", cells.join("\t"));
    };
    let number = |line: u32| if line > 0 { line.to_string() } else { String::new() };
    for line in &annotation.lines {
        let source = sources.get(&line.file).and_then(|source| source.line(line.line)).unwrap_or("");
        row([
            "line",
            &line.own.weight.to_string(),
            &line.inlined.weight.to_string(),
            &line.total.weight.to_string(),
            &line.own.samples.to_string(),
            &line.total.samples.to_string(),
            &safe_text::tsv(selection.profile.tables.string(line.file)),
            &number(line.line),
            "",
            &safe_text::tsv(source),
        ]);
    }
    for at in &annotation.instructions {
        let line = &annotation.lines[at.line];
        let calls = line.groups.get(at.group).map_or(&[][..], |group| &group.chain);
        let (file, number_of_line) =
            calls.last().map_or((line.file, line.line), |step| (step.file, step.line));
        row([
            "instruction",
            &at.own.weight.to_string(),
            "0",
            &at.total.weight.to_string(),
            &at.own.samples.to_string(),
            &at.total.samples.to_string(),
            &safe_text::tsv(selection.profile.tables.string(file)),
            &number(number_of_line),
            &format!("{:#x}", at.at.address),
            &safe_text::tsv(at.text.as_deref().unwrap_or("")),
        ]);
    }
    out
}
