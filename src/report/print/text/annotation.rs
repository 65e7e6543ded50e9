//! One function as text: its lines, the instructions under each, and what each cost.

use super::header;
use super::page::{FAINT, HEADING, NOTE, Page, push_line};
use crate::base::failure::Failure;
use crate::base::safe_text;
use crate::base::units::{count, counted, percent, percent_text, weight};
use crate::profile::{EventKind, ModuleKind, StringId, counter};
use crate::report::analysis::Analysis;
use crate::report::code::annotate_options::{AnnotateOptions, AnnotationView};
use crate::report::code::code_map::is_x86;
use crate::report::code::source_files::SourceTexts;
use crate::report::model::amount::Amount;
use crate::report::model::label::Label;
use crate::report::model::label_kind::LabelKind;
use crate::report::model::totals::Totals;
use crate::report::naming::name;
use crate::report::query::selection::Selection;
use crate::report::views::annotation::{AnnotatedInstruction, AnnotatedLine, Annotation, InlineGroup};
use anstyle::{AnsiColor, Style};
use std::collections::{BTreeMap, BTreeSet};

/// Data from which the page of one function is printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnnotationSheet<'a> {
    pub(crate) recording: &'a Analysis,
    /// The samples, by address.
    pub(crate) selection: &'a Selection<'a>,
    /// The function.
    pub(crate) label: &'a Label,
    pub(crate) annotation: &'a Annotation,
    pub(crate) sources: &'a SourceTexts,
    pub(crate) options: &'a AnnotateOptions,
}

/// A line or instruction with this share of the function is marked, percent.
const WARM_PERCENT: f64 = 1.0;
const HOT_PERCENT: f64 = 10.0;
const WARM: Style = AnsiColor::Yellow.on_default();
const HOT: Style = AnsiColor::Red.on_default().bold();
/// Columns of a tab in a source.
const TAB: &str = "    ";
/// Functions of an inline chain that are named, the innermost ones; all are in JSON.
const MOST_CHAIN: usize = 3;
/// With fewer samples in its code, the cost of one instruction says little.
const FEW_SAMPLES: u64 = 100;

/// The function as text.
///
/// # Errors
///
/// As for a report.
pub(crate) fn annotation(sheet: &AnnotationSheet<'_>, page: &Page) -> Result<String, Failure> {
    let AnnotationSheet { recording, selection, options, .. } = *sheet;
    let totals = if selection.shown.waits.is_some() { Totals::of(recording, &options.common)? } else { None };
    let mut out = header::header(recording, selection, totals.as_ref(), &options.common.filter, page);
    let printer = SheetPrinter { sheet, page, has_self: sheet.annotation.in_code().weight > 0 };
    printer.push_title(&mut out);
    push_line(&mut out, &page.styled(HEADING, &printer.heading()));
    match options.view {
        AnnotationView::Asm => printer.push_asm(&mut out),
        AnnotationView::Both | AnnotationView::Source => printer.push_lines(&mut out),
    }
    printer.push_notes(&mut out);
    Ok(out)
}

/// The page with what is on it.
struct SheetPrinter<'s, 'a> {
    sheet: &'s AnnotationSheet<'a>,
    page: &'s Page,
    /// Some samples end in its code; else only totals say something.
    has_self: bool,
}

impl SheetPrinter<'_, '_> {
    fn text(&self, id: StringId) -> &str {
        self.sheet.selection.profile.tables.string(id)
    }

    fn weight(&self, amount: Amount) -> String {
        weight(self.sheet.selection.shown.unit, amount.weight, self.sheet.annotation.total.weight)
    }

    fn push_title(&self, out: &mut String) {
        let AnnotationSheet { label, annotation, selection, .. } = self.sheet;
        let module = self.page.module(label, 24);
        let name =
            self.page.name(label, self.page.width.saturating_sub(safe_text::width(&module) + 2).max(16));
        push_line(
            out,
            &format!("{}  {}", self.page.styled(HEADING, &name), self.page.styled(FAINT, &module)),
        );
        let share = |amount: Amount| percent_text(percent(amount.weight, selection.base().weight));
        let part = |what: &str, amount: Amount| format!("{what} {} {}", share(amount), self.weight(amount));
        let mut parts = vec![part("self", annotation.own)];
        if !annotation.inlined.is_empty() {
            parts.push(part("inlined into it", annotation.inlined));
        }
        parts.push(part("total", annotation.total));
        parts.push(counted(annotation.total.count(), &selection.shown.noun));
        header::push_joined(out, &parts, self.page);
        let of = match self.has_self {
            true => format!(
                "SELF% is of the {} in its code, TOTAL% of the {} with what it calls",
                self.weight(annotation.in_code()),
                self.weight(annotation.total)
            ),
            false => format!("TOTAL% is of the {} in what it calls", self.weight(annotation.total)),
        };
        push_line(out, &self.page.styled(FAINT, &of));
        out.push('\n');
    }

    fn heading(&self) -> String {
        let numbers = match self.has_self {
            true => "  SELF%      SELF  TOTAL%",
            false => " TOTAL%     TOTAL",
        };
        let samples =
            if self.page.is_wide() { format!("  {:>8}", self.noun_heading()) } else { String::new() };
        let (place, what) = match self.sheet.options.view {
            AnnotationView::Asm => ("ADDRESS", "INSTRUCTION"),
            _ => ("LINE", "SOURCE"),
        };
        format!("{numbers}{samples}  {place:>7}  {what}")
    }

    fn noun_heading(&self) -> String {
        format!("{}s", self.sheet.selection.shown.noun).to_uppercase()
    }

    /// The numbers of a row, and how it is marked.
    fn cells(&self, own: Amount, total: Amount) -> (String, Style) {
        let annotation = self.sheet.annotation;
        let of_self = percent(own.weight, annotation.in_code().weight);
        let of_total = percent(total.weight, annotation.total.weight);
        let shown = |amount: Amount, text: String| if amount.is_empty() { String::new() } else { text };
        let share = |amount: Amount, share: f64| shown(amount, percent_text(share));
        let time = |amount: Amount| shown(amount, self.weight(amount));
        let (numbers, heat, counted) = match self.has_self {
            true => {
                let total_share = share(total, of_total);
                let numbers = format!("{:>7} {:>9} {total_share:>7}", share(own, of_self), time(own));
                (numbers, of_self, own)
            }
            false => (format!("{:>7} {:>9}", share(total, of_total), time(total)), of_total, total),
        };
        let samples = match self.page.is_wide() {
            true => format!("  {:>8}", shown(counted, count(counted.count()))),
            false => String::new(),
        };
        let style = match heat {
            heat if heat >= HOT_PERCENT => HOT,
            heat if heat >= WARM_PERCENT => WARM,
            _ => Style::new(),
        };
        (format!("{numbers}{samples}"), style)
    }

    /// A row: its numbers, its place, and a text that is cut on a terminal. `text` must be safe.
    fn push_row(&self, out: &mut String, cost: (Amount, Amount), place: &str, text: &str, style: Style) {
        let (cells, heat) = self.cells(cost.0, cost.1);
        let room = self.page.width.saturating_sub(safe_text::width(&cells) + 11);
        let text = if self.page.cut_names { safe_text::fit_end(text, room) } else { text.into() };
        push_line(
            out,
            &format!("{}  {place:>7}  {}", self.page.styled(heat, &cells), self.page.styled(style, &text)),
        );
    }

    fn push_gap(&self, out: &mut String, text: &str) {
        self.push_row(out, (Amount::default(), Amount::default()), "", text, FAINT);
    }

    /// The source text of a line, safe.
    fn source(&self, file: StringId, line: u32) -> String {
        let text = self.sheet.sources.get(&file).and_then(|source| source.line(line)).unwrap_or("");
        self.page.safe(&text.trim_end().replace('\t', TAB)).into_owned()
    }

    fn push_lines(&self, out: &mut String) {
        for lines in self.sheet.annotation.lines.chunk_by(|a, b| a.file == b.file) {
            let file = lines[0].file;
            let path = match self.text(file) {
                "" => "no source line is known".to_owned(),
                path => self.page.safe(path).into_owned(),
            };
            self.push_gap(out, &path);
            let by_line: BTreeMap<u32, &AnnotatedLine> = lines.iter().map(|line| (line.line, line)).collect();
            let mut last = None;
            for number in self.shown_lines(file, &by_line) {
                if last.is_some_and(|last| last + 1 < number) {
                    self.push_gap(out, "…");
                }
                last = Some(number);
                let line = by_line.get(&number).copied();
                let cost = line.map_or_else(Default::default, |line| (line.own, line.total));
                let place = if number == 0 { String::new() } else { number.to_string() };
                self.push_row(out, cost, &place, &self.source(file, number), Style::new());
                if let Some(line) = line {
                    self.push_groups(out, line);
                }
            }
        }
    }

    /// The lines of a file that are shown: those with samples and some around as far as their text is known, or all.
    fn shown_lines(&self, file: StringId, lines: &BTreeMap<u32, &AnnotatedLine>) -> BTreeSet<u32> {
        let options = self.sheet.options;
        let has_text =
            |line: u32| self.sheet.sources.get(&file).is_some_and(|source| source.line(line).is_some());
        let mut shown = BTreeSet::new();
        for (&number, line) in lines {
            if options.all || !line.total.is_empty() {
                shown.insert(number);
            }
            if line.total.is_empty() || number == 0 {
                continue;
            }
            let context = u32::try_from(options.context).unwrap_or(u32::MAX).min(1000);
            let around = number.saturating_sub(context).max(1)..=number.saturating_add(context);
            shown.extend(around.filter(|line| has_text(*line)));
        }
        let named = lines.keys().filter(|line| **line > 0);
        if options.all
            && let (Some(&first), Some(&last)) = (named.clone().min(), named.max())
        {
            // A function that is spread over its file does not bring all of that.
            let all = (first..=last).filter(|line| has_text(*line));
            shown.extend(all.take(10_000));
        }
        shown
    }

    fn push_groups(&self, out: &mut String, line: &AnnotatedLine) {
        let has_code = self.sheet.options.view == AnnotationView::Both;
        for group in &line.groups {
            let is_sampled = |at: &usize| !self.sheet.annotation.instructions[*at].total.is_empty();
            let is_shown = group.instructions.iter().any(is_sampled) || !group.own.is_empty();
            if !is_shown && !self.sheet.options.all {
                continue;
            }
            if !group.chain.is_empty() {
                let own = if has_code { Amount::default() } else { group.own };
                self.push_row(out, (own, own), "", &self.chain_text(group), FAINT);
            }
            if has_code {
                self.push_instructions(out, &group.instructions);
            }
        }
    }

    /// `inlined step.h:33 step < outer  source text`.
    fn chain_text(&self, group: &InlineGroup) -> String {
        let mut names: Vec<String> = (group.chain.iter().rev().take(MOST_CHAIN))
            .map(|step| self.page.safe(&name::short(&step.name)).into_owned())
            .collect();
        if let Some(more) = group.chain.len().checked_sub(MOST_CHAIN).filter(|more| *more > 0) {
            names.push(format!("… {more} more"));
        }
        let Some(last) = group.chain.last() else { return String::new() };
        let file = self.page.safe(name::module_file(self.text(last.file))).into_owned();
        let place = if last.line > 0 { format!("{file}:{}", last.line) } else { file };
        let source = self.source(last.file, last.line);
        format!("inlined {place} {}  {}", names.join(" < "), source.trim_start())
    }

    /// Instructions by their numbers; those far from samples are left out.
    fn push_instructions(&self, out: &mut String, numbers: &[usize]) {
        let all = &self.sheet.annotation.instructions;
        let shown = self.near_samples(numbers.iter().map(|&at| &all[at]));
        let mut left_out = 0;
        for (&at, is_shown) in numbers.iter().zip(shown) {
            if !is_shown {
                left_out += 1;
                continue;
            }
            self.push_left_out(out, &mut left_out);
            self.push_instruction(out, &all[at], true);
        }
        self.push_left_out(out, &mut left_out);
    }

    fn push_left_out(&self, out: &mut String, left_out: &mut u64) {
        if *left_out > 0 {
            self.push_gap(out, &format!("    … {}", counted(*left_out, "instruction")));
            *left_out = 0;
        }
    }

    /// Which instructions are shown: those with samples, and some around.
    fn near_samples<'i>(&self, instructions: impl Iterator<Item = &'i AnnotatedInstruction>) -> Vec<bool> {
        let context = self.sheet.options.context;
        let sampled: Vec<bool> = instructions.map(|at| !at.total.is_empty()).collect();
        (0..sampled.len())
            .map(|at| {
                let from = at.saturating_sub(context);
                let to = at.saturating_add(context).saturating_add(1).min(sampled.len());
                self.sheet.options.all || sampled[from..to].contains(&true)
            })
            .collect()
    }

    fn push_instruction(&self, out: &mut String, at: &AnnotatedInstruction, is_nested: bool) {
        let place = match at.at.start {
            Some(start) => format!("+{:#x}", at.at.address.wrapping_sub(start)),
            None => format!("{:#x}", at.at.address),
        };
        let text = at.text.as_deref().unwrap_or("[its code is not in the recording]");
        let text = self.page.safe(text);
        match is_nested {
            true => {
                self.push_row(out, (at.own, at.total), "", &format!("  {place:>7}  {text}"), Style::new())
            }
            false => self.push_row(out, (at.own, at.total), &place, &text, Style::new()),
        }
    }

    fn push_asm(&self, out: &mut String) {
        let annotation = self.sheet.annotation;
        let shown = self.near_samples(annotation.instructions.iter());
        let mut left_out = 0;
        let mut last = None;
        for (at, is_shown) in annotation.instructions.iter().zip(shown) {
            if !is_shown {
                left_out += 1;
                continue;
            }
            if left_out > 0 {
                last = None;
            }
            self.push_left_out(out, &mut left_out);
            let line = &annotation.lines[at.line];
            if last != Some((at.line, at.group)) && line.line > 0 {
                let place = format!("{}:{}", name::module_file(self.text(line.file)), line.line);
                let source = self.source(line.file, line.line);
                let text = match line.groups.get(at.group).filter(|group| !group.chain.is_empty()) {
                    Some(group) => format!("; {}", self.chain_text(group)),
                    None => format!("; {}  {}", self.page.safe(&place), source.trim_start()),
                };
                self.push_gap(out, &text);
            }
            last = Some((at.line, at.group));
            self.push_instruction(out, at, false);
        }
        self.push_left_out(out, &mut left_out);
    }

    fn push_notes(&self, out: &mut String) {
        out.push('\n');
        for note in notes(self.sheet) {
            let note = self.page.message(&note);
            let width = self.page.width.saturating_sub(6).max(20);
            for (index, line) in safe_text::wrapped_note(&note, width).iter().enumerate() {
                let start = if index == 0 { self.page.styled(NOTE, "NOTE") } else { "    ".to_owned() };
                push_line(out, &format!("{start}  {line}"));
            }
        }
    }
}

/// Notes that a reader of the costs should know. Quotes foreign names.
pub(crate) fn notes(sheet: &AnnotationSheet<'_>) -> Vec<String> {
    let AnnotationSheet { selection, annotation, sources, options, .. } = *sheet;
    let profile = selection.profile;
    let mut notes = Vec::new();
    notes.extend(no_code_note(sheet));
    if !annotation.parts.is_empty() && !is_x86(profile) {
        notes.push(format!(
            "no disassembler for {} in prof: instructions are shown as words; `llvm-objdump -d` of {} reads them",
            profile.meta.arch, sheet.label.module
        ));
    }
    let cut = annotation.parts.iter().find(|part| part.length < part.function_bytes);
    notes.extend(cut.map(|part| {
        format!(
            "only {} of the {} bytes of the function are in the recording",
            part.length, part.function_bytes
        )
    }));
    if options.view != AnnotationView::Asm {
        let mut remarks: Vec<&String> =
            (annotation.lines.iter()).filter_map(|line| sources.get(&line.file)?.remark.as_ref()).collect();
        remarks.dedup();
        notes.extend(remarks.into_iter().cloned());
    }
    notes.extend(skid_note(sheet).filter(|_| !annotation.instructions.is_empty()));
    let samples = annotation.in_code().samples;
    if (1..FEW_SAMPLES).contains(&samples) {
        notes.push(format!("{} in its code: costs of single lines are rough", counted(samples, "sample")));
    }
    notes
}

/// Why instructions have no code.
fn no_code_note(sheet: &AnnotationSheet<'_>) -> Option<String> {
    let AnnotationSheet { selection, annotation, label, .. } = *sheet;
    let profile = selection.profile;
    let missing = annotation.instructions.iter().any(|at| at.text.is_none());
    if !missing {
        return None;
    }
    let module = annotation.instructions.first().map(|at| profile.tables.module(at.at.module).kind);
    let why = match (label.kind, module) {
        (LabelKind::Kernel, _) => "code of the kernel is not kept, because it is changed while it runs: objdump -d of the \
             vmlinux of that build has the instructions at these addresses"
            .to_owned(),
        (_, Some(ModuleKind::Jit)) => "of generated code only that is kept which a jitdump has and which was sampled often; a \
             perf map has names only: start the runtime with its option for a jitdump (docs/generated-code.md)"
            .to_owned(),
        // It cannot be told which file it was.
        _ if profile.meta.is_imported() && has_no_build(sheet) => "the recording has no build ID of its module, so no file is known to have it".to_owned(),
        _ if profile.end.is_none() => "the recording was cut short, and code is kept at its end; prof symbolize FILE adds it \
             where the programs are as they were recorded"
            .to_owned(),
        _ => match profile.counter(counter::CODE_LEFT_OUT) {
            0 => "its file could not be read at the end of the recording; prof symbolize FILE adds it where the programs are as \
                 they were recorded"
                .to_owned(),
            left_out => format!(
                "that of {} was left out, which have few samples, so that the file stays small; prof symbolize FILE adds it \
                 where the programs are as they were recorded",
                counted(left_out, "function")
            ),
        },
    };
    Some(match annotation.parts.is_empty() {
        true => format!("the code of the function is not in the recording: {why}"),
        false => format!("a part of the code of the function is not in the recording: {why}"),
    })
}

/// Whether the module of the function has no build ID, as in most imported recordings.
fn has_no_build(sheet: &AnnotationSheet<'_>) -> bool {
    let first = sheet.annotation.instructions.first();
    first.is_none_or(|at| sheet.selection.profile.tables.module(at.at.module).build_id.is_empty())
}

/// How far addresses of samples can be trusted.
fn skid_note(sheet: &AnnotationSheet<'_>) -> Option<String> {
    let shown = &sheet.selection.shown;
    if sheet.annotation.in_code().is_empty() {
        return None;
    }
    let meta = &sheet.selection.profile.meta;
    let clock = &meta.clock;
    let event = shown.sampled?;
    Some(match event.kind().is(&EventKind::ON_CPU) {
        false if !event.kind().skids => return None,
        false => "the address of a sample is where the event was noticed: events of a processor's counters skid some \
                  instructions past their cause"
            .to_owned(),
        true if meta.clock_is_timer => format!(
            "{clock} is a timer: the address of a sample is the instruction that was to run next, so that the time of a \
             slow one may stand at the one after it"
        ),
        true => format!("samples of {clock} skid: the time of an instruction may stand some instructions after it"),
    })
}
