//! A self-contained page: facts on the recording, a flame graph per event, and a table of functions. All data is a JSON
//! document inside the page; a table of the largest rows is there for readers without scripts. What is added up comes from
//! `report/views`.

mod data;
mod labels;
mod markup;
#[cfg(test)]
mod tests;
mod tree;

use super::exporter::{Exporter, Render, Rendered};
use crate::base::failure::{Failure, status};
use crate::report::analysis::Analysis;
use crate::report::options::ExportOptions;
use crate::report::query::selection::Selection;
use data::PageData;
use std::io::{self, Write};
use tree::Weighing;

/// Largest sum of weights that a page can add up; as nanoseconds, 146 years.
const MOST_WEIGHT: u64 = u64::MAX / 4;

/// Template of the page, with placeholders in double braces.
const PAGE: &str = include_str!("page.html");

/// Style sheet.
const STYLE: &str = include_str!("page.css");

/// Parts of the script, in order.
const SCRIPTS: [&str; 5] = [
    include_str!("model.js"),
    include_str!("graph.js"),
    include_str!("names.js"),
    include_str!("table.js"),
    include_str!("page.js"),
];

/// The export format.
pub(in crate::report::export) const EXPORTER: Exporter = Exporter {
    name: "html",
    endings: &[".html", ".htm"],
    key: Some(('h', "HTML")),
    render: Render::Any(render),
    ..Exporter::NONE
};

fn render<'r>(
    _recording: &'r Analysis,
    selection: Selection<'r>,
    options: &ExportOptions,
) -> anyhow::Result<Box<dyn Rendered + 'r>> {
    if (Weighing { count: options.count }).of(selection.total) == 0 {
        return Err(Failure::new(status::NO_MATCH, "the samples that match carry no weight").into());
    }
    if selection.total.weight > MOST_WEIGHT {
        return Err(Failure::new(status::FAILED, "the weights in the file are too large to be real").into());
    }
    let data = PageData::new(&selection, options)?;
    let json = markup::inert_json(&serde_json::to_string(&data)?);
    Ok(Box::new(HtmlPage { data, json }))
}

/// A page that is ready to be written.
#[derive(Debug)]
struct HtmlPage {
    data: PageData,
    json: String,
}

impl Rendered for HtmlPage {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut rest = PAGE;
        while let Some((before, after)) = rest.split_once("{{") {
            out.write_all(before.as_bytes())?;
            let (place, after) = after.split_once("}}").unwrap_or((after, ""));
            match place {
                "title" => out.write_all(markup::text(self.data.first_title()).as_bytes())?,
                "subtitle" => {
                    let subtitle = self.data.subtitle.as_deref().unwrap_or_default();
                    out.write_all(markup::text(subtitle).as_bytes())?;
                }
                "style" => out.write_all(STYLE.as_bytes())?,
                "facts" => out.write_all(markup::facts(&self.data).as_bytes())?,
                "table" => out.write_all(markup::table(&self.data).as_bytes())?,
                "data" => out.write_all(self.json.as_bytes())?,
                "script" => SCRIPTS.iter().try_for_each(|part| out.write_all(part.as_bytes()))?,
                _ => debug_assert!(false, "the page has no such place: {place}"),
            }
            rest = after;
        }
        out.write_all(rest.as_bytes())
    }

    fn notes(&self) -> Vec<String> {
        self.data.left_out()
    }
}
