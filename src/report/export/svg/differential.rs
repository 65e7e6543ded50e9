//! Two recordings in one flame graph: widths are those of the new one, red is what grew and blue what shrank.

use super::super::text_tree::{Order, StackOrder, TextTree};
use super::{LEAST_PERCENT, MOST_BOXES, MOST_WEIGHT, cut_to_fit, drawn, dress, xml_line};
use crate::base::failure::{Failure, status};
use crate::base::units;
use crate::profile::Unit;
use crate::report::export::caption;
use crate::report::naming::style::NameStyle;
use crate::report::query::selection::Selection;
use inferno::flamegraph::Options;

/// What stands on the picture, and how it is counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct DifferentialOptions {
    /// The title, which names both sides.
    pub(crate) title: String,
    /// The line below it.
    pub(crate) subtitle: Option<String>,
    /// How names are written; `None` for short ones.
    pub(crate) names: Option<NameStyle>,
    /// Numbers of samples or waits instead of weights.
    pub(crate) count: bool,
    /// The base is scaled to the sum of the new side: shares are compared, not sums.
    pub(crate) shares: bool,
}

/// Draws how `new` differs from `base`, which show the same kind of event.
///
/// # Errors
///
/// Status 3 when one of them carries no weight; a failure when one carries more than can be real.
#[cfg_attr(not(test), allow(dead_code, reason = "for a comparison that is written to a file"))]
pub(crate) fn differential_svg(
    base: &Selection<'_>,
    new: &Selection<'_>,
    options: &DifferentialOptions,
) -> anyhow::Result<Vec<u8>> {
    let [base_lines, new_lines] = [folded(base, options)?, folded(new, options)?];
    let lines = two_columns(&base_lines, &new_lines, options.shares)?;
    let gone = gone_percent(&lines);
    let mut drawing = Options::default();
    let title = xml_line(&options.title);
    drawing.title.clone_from(&title);
    let gone = (gone > 0.0)
        .then(|| format!("{} of the base is in stacks that are gone", units::honest_percent_text(gone)));
    let subtitle: Vec<String> = options.subtitle.iter().cloned().chain(gone).collect();
    drawing.subtitle = (!subtitle.is_empty()).then(|| xml_line(&subtitle.join("  ")));
    drawing.min_width = LEAST_PERCENT;
    drawing.count_name = caption::count_name(new, options.count);
    let drawn = drawn(&mut drawing, &lines)?;
    let has_durations = new.shown.unit == Unit::Nanoseconds && !options.count;
    Ok(dress::dressed(&drawn, &title, has_durations).into_bytes())
}

/// The folded lines of one side, as many as a picture has room for.
fn folded(side: &Selection<'_>, options: &DifferentialOptions) -> anyhow::Result<String> {
    let whole = if options.count { side.total.count() } else { side.total.weight };
    if whole == 0 {
        return Err(Failure::new(status::NO_MATCH, "the samples that match carry no weight").into());
    }
    if side.total.weight > MOST_WEIGHT {
        return Err(Failure::new(status::FAILED, "the weights in the file are too large to be real").into());
    }
    let mut tree = TextTree::new(side, options.names.unwrap_or(NameStyle::Short), StackOrder::RootFirst);
    tree.without_less_than(whole as f64 * LEAST_PERCENT / 100.0, options.count);
    if let Some(least) = tree.least_of_largest(MOST_BOXES / 2, options.count) {
        tree.without_less_than(least as f64, options.count);
    }
    cut_to_fit(&mut tree);
    let mut text = String::new();
    tree.lines(Order::Frames, options.count, |stack, value| {
        text.push_str(&format!("{stack} {value}\n"));
        anyhow::Ok(())
    })?;
    Ok(text)
}

/// `STACK BASE NEW` for every stack of either side, frame by frame in order.
fn two_columns(base: &str, new: &str, shares: bool) -> anyhow::Result<Vec<String>> {
    let options = inferno::differential::Options { normalize: shares, strip_hex: false };
    let mut joined = Vec::new();
    inferno::differential::from_readers(options, base.as_bytes(), new.as_bytes(), &mut joined)?;
    let joined = String::from_utf8(joined)?;
    let mut lines: Vec<String> = joined.lines().map(str::to_owned).collect();
    lines.sort_by(|a, b| stack_of(a).split(';').cmp(stack_of(b).split(';')));
    Ok(lines)
}

fn stack_of(line: &str) -> &str {
    line.rsplitn(3, ' ').nth(2).unwrap_or(line)
}

/// How much of the base is in stacks that the new side does not have, percent: boxes without a width.
fn gone_percent(lines: &[String]) -> f64 {
    let (mut gone, mut whole) = (0u64, 0u64);
    for line in lines {
        let mut numbers = line.rsplitn(3, ' ').map(|number| number.parse::<u64>().unwrap_or(0));
        let (new, base) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        whole = whole.saturating_add(base);
        gone = gone.saturating_add(if new == 0 { base } else { 0 });
    }
    units::percent(gone, whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::CommonOptions;
    use crate::report::analysis::Analysis;
    use crate::report::tests::fixture::Build;
    use crate::report::tests::hostile::xml_texts;

    fn side(stacks: &[(u64, &[&str])]) -> Analysis {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        stacks.iter().for_each(|(samples, stack)| build.add(task, *samples, stack));
        build.finish()
    }

    fn differential(base: &Analysis, new: &Analysis, options: &DifferentialOptions) -> String {
        let common = CommonOptions::default();
        let drawn = differential_svg(&base.select(&common).unwrap(), &new.select(&common).unwrap(), options);
        String::from_utf8(drawn.unwrap()).unwrap()
    }

    /// Red, green and blue of the box whose tip begins with `name`.
    fn fill(svg: &str, name: &str) -> [u32; 3] {
        let tip = svg.find(&format!("<title>{name} (")).unwrap();
        let fill = svg[tip..].split_once("fill=\"rgb(").unwrap().1.split_once(')').unwrap().0;
        let parts: Vec<u32> = fill.split(',').map(|part| part.parse().unwrap()).collect();
        parts.try_into().unwrap()
    }

    #[test]
    fn what_grew_is_red_and_what_shrank_is_blue() {
        let base = side(&[
            (50, &["/x:main", "/x:up"]),
            (50, &["/x:main", "/x:down"]),
            (20, &["/x:main", "/x:gone"]),
        ]);
        let new = side(&[(90, &["/x:main", "/x:up"]), (10, &["/x:main", "/x:down"])]);
        let options = DifferentialOptions { title: "a <b> & c".into(), ..DifferentialOptions::default() };
        let svg = differential(&base, &new, &options);
        let tips = xml_texts(&svg, "title");
        assert!(tips.iter().any(|tip| tip == "up (90.0 ms, 90.00%; +40.00%)"), "{tips:?}");
        assert!(tips.iter().any(|tip| tip == "down (10.0 ms, 10.00%; -40.00%)"), "{tips:?}");
        let ([red, _, blue], [cold, _, ice]) = (fill(&svg, "up"), fill(&svg, "down"));
        assert!(red > blue && ice > cold, "{red},{blue} {cold},{ice}");
        assert!(svg.contains("16.7% of the base is in stacks that are gone"), "{svg}");
        assert_eq!(svg, differential(&base, &new, &options), "equal input gives equal bytes");
    }

    #[test]
    fn shares_of_a_longer_recording_are_compared() {
        let base = side(&[(10, &["/x:main", "/x:a"]), (10, &["/x:main", "/x:b"])]);
        let new = side(&[(100, &["/x:main", "/x:a"]), (100, &["/x:main", "/x:b"])]);
        let options = DifferentialOptions { shares: true, ..DifferentialOptions::default() };
        let tips = xml_texts(&differential(&base, &new, &options), "title");
        assert!(tips.iter().any(|tip| tip == "a (100 ms, 50.00%; 0.00%)"), "{tips:?}");
    }

    #[test]
    fn a_name_that_continues_another_does_not_split_its_box() {
        let stacks: [(u64, &[&str]); 3] = [
            (1, &["/x:main", "/x:operator"]),
            (1, &["/x:main", "/x:operator new", "/x:b"]),
            (1, &["/x:main", "/x:operator", "/x:a"]),
        ];
        let recording = side(&stacks);
        let svg = differential(&recording, &recording, &DifferentialOptions::default());
        assert_eq!(svg.matches("<title>operator (").count(), 1);
    }
}
