//! Which series of a request an answer says have failed.
//!
//! Pyroscope stores the series of a request one by one, each against the limits, and answers with the failures of some although it
//! has the others. As OTLP it names those that failed, by their index in the request and an id. What it says has words of others in
//! it, such as names of services, and may be cut: it is believed only if it is whole and fits the request.

use super::request::PlacedSeries;

/// What stands before the index of a series that failed.
const MARK: &str = "push series with index ";
/// What the OTLP door of Pyroscope says first.
const DOOR: &str = "failed to make a GRPC request: ";
/// Most series that are looked for: more than a request has.
const MOST: usize = 4_096;
/// Codes of failures that may not come again, whatever the status of the answer, which is that of one of them.
const BUSY: [&str; 7] =
    ["resource_exhausted", "unavailable", "internal", "unknown", "deadline_exceeded", "aborted", "canceled"];

/// A series that an answer names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedSeries {
    /// Its place in the request.
    index: usize,
    /// Its id as the server has it.
    id: String,
    /// Whether it may be taken another time.
    is_busy: bool,
}

/// What became of a part of a request. Of a part that is several series, the last of these that is true of one is true of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// The server has it.
    Stored,
    /// It failed as the status of the answer says.
    Failed,
    /// It failed, and may be taken another time.
    Busy,
}

/// The series that a text names; empty if it names none, or not clearly all.
pub(super) fn named_in(text: &str) -> Vec<NamedSeries> {
    clearly_named(text).unwrap_or_default()
}

fn clearly_named(text: &str) -> Option<Vec<NamedSeries>> {
    let text = text.trim();
    let text = text.strip_prefix(DOOR).unwrap_or(text);
    let (announced, list) = match text.split_once(" errors: ") {
        Some((count, list)) if list.starts_with(MARK) => (Some(number(count)?), list),
        _ => (None, text),
    };
    let mut entries = list.strip_prefix(MARK)?.split(MARK).take(MOST + 1).peekable();
    let mut named = Vec::new();
    while let Some(entry) = entries.next() {
        let is_last = entries.peek().is_none();
        // A name of something else may have the mark in it. Without a count of errors, only lines are sure to be errors: names are
        // quoted, and have none.
        let is_whole = is_last || entry.ends_with('\n') || (announced.is_some() && entry.ends_with("; "));
        let (place, words) = entry.split_once(" failed: ").filter(|_| is_whole)?;
        let (index, id) = place.split_once(" and id ")?;
        let has_id = id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let index = number(index).filter(|_| has_id)?;
        let is_busy = words.split_once(':').is_some_and(|(code, _)| BUSY.contains(&code));
        named.push(NamedSeries { index, id: id.to_owned(), is_busy });
    }
    let is_all = announced.is_none_or(|count| count == named.len());
    (is_all && named.len() <= MOST).then_some(named)
}

/// A number as servers write it.
fn number(text: &str) -> Option<usize> {
    let is_number = text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// What became of each of the `parts` of a request whose series are these; `None` if none is named, or one that there is not.
pub(super) fn fates(named: &[NamedSeries], series: &[PlacedSeries], parts: usize) -> Option<Vec<Fate>> {
    let mut fates = vec![Fate::Stored; parts];
    let mut seen = vec![false; series.len()];
    for one in named {
        let place = series.get(one.index)?;
        let is_its_id = place.id.as_ref().is_none_or(|id| *id == one.id);
        if std::mem::replace(&mut seen[one.index], true) || !is_its_id {
            return None;
        }
        let fate = fates.get_mut(place.part)?;
        *fate = (*fate).max(if one.is_busy { Fate::Busy } else { Fate::Failed });
    }
    (!named.is_empty()).then_some(fates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(index: usize, words: &str) -> String {
        format!("push series with index {index} and id id-{index} failed: {words}")
    }

    fn series(count: usize) -> Vec<PlacedSeries> {
        (0..count).map(|part| PlacedSeries { part, id: Some(format!("id-{part}")) }).collect()
    }

    /// What became of four series; empty for nothing that is clear.
    fn fates_of(text: &str) -> Vec<Fate> {
        fates(&named_in(text), &series(4), 4).unwrap_or_default()
    }

    #[test]
    fn series_that_are_named_have_failed_and_no_others() {
        use Fate::{Busy, Failed, Stored};
        let rate = "resource_exhausted: push rate limit (4.0 MiB) exceeded while adding 90 KiB";
        let old =
            "invalid_argument: profile with labels '{service_name=\"a; b\"}' is outside of ingestion window";
        assert_eq!(fates_of(&failed(2, rate)), [Stored, Stored, Busy, Stored]);
        let two = format!("2 errors: {}; {}", failed(3, rate), failed(0, old));
        assert_eq!(fates_of(&two), [Failed, Stored, Stored, Busy]);
        assert_eq!(fates_of(&format!("{DOOR}{two}\n")), [Failed, Stored, Stored, Busy]);
        assert_eq!(
            fates_of(&format!("{}\n{}", failed(1, old), failed(0, old))),
            [Failed, Failed, Stored, Stored]
        );
        // Words that were cut are those of a series whose name is there.
        assert_eq!(fates_of(&two[..two.len() - 40]), [Failed, Stored, Stored, Busy]);
    }

    #[test]
    fn what_is_cut_or_does_not_fit_names_nothing() {
        let one = failed(1, "no");
        let hidden = failed(0, &format!("labels '{{service_name=\"{one}\"}}'"));
        let unclear = [
            String::new(),
            "push rate limit (4.0 MiB) exceeded while adding 90 KiB".to_owned(),
            "push series with index ".to_owned(),
            "push series with index 1 and id id-1 fail".to_owned(),
            // Fewer or more than it says, another error among them, and one twice.
            format!("3 errors: {one}; {}", failed(2, "no")),
            format!("1 errors: {one}; {}", failed(2, "no")),
            format!("2 errors: bad profile; {one}"),
            format!("2 errors: {one}; {one}"),
            // The mark in a name of something else.
            hidden.clone(),
            format!("2 errors: {hidden}; {}", failed(2, "no")),
            format!("{one}; {}", failed(2, "no")),
            // A series that there is not, and one with the id of another.
            failed(4, "no"),
            failed(1, "no").replace("id-1", "id-2"),
            failed(1, "no").replace("index 1", "index +1"),
            failed(1, "no").replace("index 1", "index 99999999999999999999"),
            failed(1, "no").replace("id-1", "a b"),
        ];
        for text in unclear {
            assert_eq!(fates_of(&text), [], "{text}");
        }
        let many: Vec<String> = (0..MOST + 2).map(|index| failed(index, "no")).collect();
        assert_eq!(named_in(&format!("{} errors: {}", many.len(), many.join("; "))), []);
    }

    #[test]
    fn a_part_that_is_several_series_has_failed_with_one_of_them() {
        let series: Vec<PlacedSeries> =
            [0, 0, 1, 1].map(|part| PlacedSeries { part, id: None }).into_iter().collect();
        let named = named_in(&format!("2 errors: {}; {}", failed(0, "no"), failed(1, "unavailable: no")));
        assert_eq!(fates(&named, &series, 2), Some(vec![Fate::Busy, Fate::Stored]));
        assert_eq!(fates(&[], &series, 2), None);
        assert_eq!(fates(&named, &[], 2), None);
    }
}
