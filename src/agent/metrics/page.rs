//! Values in the text format of Prometheus, version 0.0.4.

use super::registry::{AgentMetrics, MetricInfo, MetricKind, MetricName, MetricValue, MetricValues};
use crate::base::safe_text;
use std::fmt::Write;

impl AgentMetrics {
    /// The page of all values, in the text format 0.0.4.
    pub(crate) fn text(&self) -> String {
        text(&self.values())
    }
}

/// All metrics. Those without a value that have no label are 0, so that a rate begins with the first.
fn text(values: &MetricValues) -> String {
    let mut out = String::with_capacity(8192);
    for &metric in MetricName::ALL {
        let MetricInfo { name, kind, label, help } = metric.info();
        let kind_name = if kind == MetricKind::Counter { "counter" } else { "gauge" };
        let mut line = |text: std::fmt::Arguments<'_>| {
            let written = out.write_fmt(text);
            debug_assert!(written.is_ok(), "a String takes any text");
        };
        line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind_name}\n"));
        let own = values.range((metric, String::new())..).take_while(|((other, _), _)| *other == metric);
        match label {
            Some(label) => {
                for ((_, value), number) in own {
                    line(format_args!("{name}{{{label}=\"{}\"}} {}\n", escaped(value), shown(*number)));
                }
            }
            None => {
                let number = own.map(|(_, number)| *number).next().unwrap_or(MetricValue::Whole(0));
                line(format_args!("{name} {}\n", shown(number)));
            }
        }
    }
    out
}

fn shown(value: MetricValue) -> String {
    match value {
        MetricValue::Whole(number) => number.to_string(),
        MetricValue::Real(number) if number.is_nan() => "NaN".to_owned(),
        MetricValue::Real(f64::INFINITY) => "+Inf".to_owned(),
        MetricValue::Real(f64::NEG_INFINITY) => "-Inf".to_owned(),
        // Sums of parts have digits that mean nothing.
        MetricValue::Real(number) if number.abs() < 1e6 => ((number * 1e9).round() / 1e9).to_string(),
        MetricValue::Real(number) => number.to_string(),
    }
}

/// The value of a label, without what drives a terminal.
fn escaped(value: &str) -> String {
    safe_text::terminal(value).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    fn page() -> String {
        let metrics = AgentMetrics::new("0.1.0", Duration::from_secs(60));
        metrics.add(MetricName::Samples, "cpu", 41);
        metrics.add(MetricName::Samples, "cpu", 1);
        metrics.add(MetricName::PushRequests, "a\\b\"c\nd\x1b é", u64::MAX);
        metrics.set_real(MetricName::CpuSeconds, "user", 0.25);
        metrics.set_real(MetricName::LastPush, "main", f64::NAN);
        metrics.set(MetricName::Windows, "ignored", 3);
        metrics.text()
    }

    #[test]
    fn values_are_lines_of_the_format() {
        let text = page();
        for line in [
            "# HELP prof_samples_total Samples that were recorded.",
            "# TYPE prof_samples_total counter",
            "prof_samples_total{event=\"cpu\"} 42",
            "prof_build_info{version=\"0.1.0\"} 1",
            "prof_windows_total 3",
            "prof_processes 0",
            "prof_cpu_seconds_total{part=\"user\"} 0.25",
            "prof_last_push_timestamp_seconds{destination=\"main\"} NaN",
            "prof_push_requests_total{code=\"a\\\\b\\\"c\\\\x0ad\\\\x1b é\"} 18446744073709551615",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is not in\n{text}");
        }
    }

    /// The parser of Prometheus's own client for Python reads the page. It is skipped, with a line, where that is not installed:
    /// `PROF_TEST_PYTHON` names a Python that has it.
    #[test]
    fn the_parser_of_another_client_reads_the_page() {
        let python = std::env::var("PROF_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let has_client = Command::new(&python).args(["-c", "import prometheus_client"]).output();
        if !has_client.is_ok_and(|output| output.status.success()) {
            println!(
                "skipped: {python} has no prometheus_client (pip install prometheus_client, PROF_TEST_PYTHON)"
            );
            return;
        }
        let script = "import sys\nfrom prometheus_client.parser import text_string_to_metric_families as parse\n\
            for family in parse(sys.stdin.read()):\n  for s in family.samples:\n    \
            print(family.type, s.name, sorted(s.labels.items()), float(s.value))\n";
        let mut child = Command::new(&python)
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it ran before");
        child.stdin.take().unwrap().write_all(page().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let read = String::from_utf8(output.stdout).unwrap();
        for line in [
            "counter prof_samples_total [('event', 'cpu')] 42.0",
            "gauge prof_build_info [('version', '0.1.0')] 1.0",
            "counter prof_windows_total [] 3.0",
            "counter prof_cpu_seconds_total [('part', 'user')] 0.25",
            "counter prof_push_requests_total [('code', 'a\\\\b\"c\\\\x0ad\\\\x1b é')] 1.8446744073709552e+19",
        ] {
            assert!(read.lines().any(|own| own == line), "{line} is not in\n{read}");
        }
    }
}
