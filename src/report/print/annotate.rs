//! `prof annotate`: one function of a recording, line by line, on standard output.

use super::terminal::Screen;
use super::text::annotation::AnnotationSheet;
use super::text::page::Page;
use super::{annotation_json, text};
use crate::report::analysis::Analysis;
use crate::report::code::annotate_options::AnnotateOptions;
use crate::report::code::{source_files, target};
use crate::report::options::{CommonOptions, Format, Grouping, SortKey};
use crate::report::query::selection::Selection;
use crate::report::views::annotation::Annotation;
use crate::report::views::function_table::FunctionTable;

/// `prof annotate`: reads, renders and prints.
///
/// # Errors
///
/// When the profile cannot be read, no or several functions match, or the output cannot be written.
pub(crate) fn annotate(options: &AnnotateOptions) -> anyhow::Result<()> {
    let recording = Analysis::load(&options.common.input)?;
    let screen = Screen::new(options.color, options.pager && options.format == Format::Text);
    let page = match options.format {
        Format::Text => screen.page(options.common.names),
        Format::Json | Format::Tsv => Page::PLAIN,
    };
    let rendered = render_annotation(&recording, options, &page)?;
    match options.format {
        Format::Text => screen.print(&rendered),
        Format::Json | Format::Tsv => screen.print_document(&rendered),
    }
}

/// Renders the function for `page`.
///
/// # Errors
///
/// A usage failure for a bad pattern; status 3 when no sample or no function matches, or several do.
pub(crate) fn render_annotation(
    recording: &Analysis,
    options: &AnnotateOptions,
    page: &Page,
) -> anyhow::Result<String> {
    let by_function = recording.select(&options.common)?;
    let table = FunctionTable::new(&by_function, SortKey::TotalWeight);
    let label = by_function.labels.get(target::find(&by_function, &table, &options.function)?);
    let by_address = CommonOptions { grouping: Grouping::Address, ..options.common.clone() };
    let selection = Selection::new(recording, recording.shown(options.common.metric)?, &by_address)?;
    let annotation =
        Annotation::new(&selection, &label.name, &label.module, options.common.inline, options.syntax);
    let inner = annotation.lines.iter().flat_map(|line| &line.groups).flat_map(|group| &group.chain);
    let files = annotation.lines.iter().map(|line| line.file).chain(inner.map(|step| step.file));
    let sources = source_files::read(&recording.profile, files, &options.source_dirs);
    let sheet = AnnotationSheet {
        recording,
        selection: &selection,
        label,
        annotation: &annotation,
        sources: &sources,
        options,
    };
    Ok(match options.format {
        Format::Text => text::annotation::annotation(&sheet, page)?,
        Format::Json => annotation_json::json(&sheet)?,
        Format::Tsv => annotation_json::tsv(&sheet),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::code::source_text::SourceText;
    use crate::profile::{Event, EventInfo, EventKind};
    use crate::report::Metric;
    use crate::report::code::annotate_options::AnnotationView;
    use crate::report::views::annotation::tests::annotated;

    fn options() -> AnnotateOptions {
        AnnotateOptions {
            common: CommonOptions::default(),
            function: "work".to_owned(),
            source_dirs: Vec::new(),
            view: AnnotationView::Both,
            syntax: crate::report::code::disassembly::AsmSyntax::Intel,
            context: 1,
            all: false,
            format: Format::Text,
            color: crate::report::options::ColorWhen::Never,
            pager: false,
        }
    }

    fn rendered(change: impl FnOnce(&mut AnnotateOptions)) -> String {
        let text = (1..=14).map(|line| format!("\tline {line};")).collect::<Vec<_>>().join("\n");
        let recording = annotated().changed(|recording| {
            let file = recording.profile.tables.intern_string("/src/demo.c");
            recording.profile.sources.push(SourceText { file, first_line: 1, text });
        });
        let mut options = options();
        change(&mut options);
        let page =
            if options.format == Format::Text { Page { width: 80, ..Page::PLAIN } } else { Page::PLAIN };
        render_annotation(&recording, &options, &page).unwrap()
    }

    #[test]
    fn a_function_is_shown_in_every_way() {
        insta::assert_snapshot!("annotate_both", rendered(|_| {}));
        insta::assert_snapshot!("annotate_source", rendered(|options| options.view = AnnotationView::Source));
        insta::assert_snapshot!(
            "annotate_asm",
            rendered(|options| {
                options.view = AnnotationView::Asm;
                options.all = true;
            })
        );
        insta::assert_snapshot!("annotate_inlined", rendered(|options| options.function = "step".to_owned()));
        insta::assert_snapshot!("annotate_json", rendered(|options| options.format = Format::Json));
        insta::assert_snapshot!("annotate_tsv", rendered(|options| options.format = Format::Tsv));
    }

    /// A kernel event such as a page fault has the address of its cause.
    #[test]
    fn only_counters_of_the_processor_are_said_to_skid() {
        let skid_of = |skids: bool| {
            let kind = EventKind { skids, ..EventKind::counted("events", "events") };
            let recording = annotated().changed(|recording| {
                let mut event = Event::new(EventInfo { kind: kind.clone(), ..EventInfo::default() });
                recording.profile.events[0].samples().for_each(|sample| event.push(sample));
                recording.profile.events.push(event);
            });
            let common = CommonOptions { metric: Some(Metric::of_kind(&kind)), ..CommonOptions::default() };
            let options = AnnotateOptions { common, ..options() };
            render_annotation(&recording, &options, &Page::PLAIN).unwrap().contains("skid")
        };
        assert!(skid_of(true) && !skid_of(false));
    }

    #[test]
    fn lines_fit_eighty_columns_on_a_terminal() {
        let recording = annotated();
        let options = AnnotateOptions {
            common: CommonOptions::default(),
            function: "work".to_owned(),
            source_dirs: Vec::new(),
            view: AnnotationView::Both,
            syntax: crate::report::code::disassembly::AsmSyntax::Att,
            context: 2,
            all: true,
            format: Format::Text,
            color: crate::report::options::ColorWhen::Never,
            pager: false,
        };
        let page = Page { width: 80, cut_names: true, ..Page::PLAIN };
        let text = render_annotation(&recording, &options, &page).unwrap();
        assert!(text.lines().all(|line| crate::base::safe_text::width(line) <= 80), "{text}");
    }
}
