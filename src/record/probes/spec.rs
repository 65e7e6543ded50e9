//! What a user writes of a probe: `uprobe:MODULE:FUNCTION[+OFFSET]`, `usdt:MODULE:PROVIDER:NAME`, `tracepoint:NAME`, and
//! perhaps `/argN`.

use crate::profile::EventKind;

/// Forms of probes, for people.
pub(crate) const FORMS: &str =
    "uprobe:MODULE:FUNCTION[+OFFSET], usdt:MODULE:PROVIDER:NAME, tracepoint:NAME; with /argN for its weight";
/// Most arguments that can be weights.
const MOST_ARGUMENTS: u32 = 12;

/// A probe, as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeSpec {
    /// Kind of its samples; the name is the text that was written.
    pub(crate) kind: EventKind,
    /// Where it is.
    pub(super) place: ProbePlace,
    /// What a hit is weighted as; `None`: each as one.
    pub(super) weight: Option<WeightSpec>,
}

/// What is probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProbePlace {
    /// An instruction of a file: the first of a function, or one so many bytes after it.
    Function { module: String, function: String, offset: Option<u64> },
    /// A probe that a program declares itself (USDT).
    Declared { module: String, provider: String, name: String },
    /// A tracepoint of the kernel.
    Tracepoint { name: String },
    /// The beginning and the end of each system call.
    SystemCalls,
}

/// An argument as weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WeightSpec {
    /// Number of the argument, from 1.
    pub(super) argument: u32,
    /// Only the lower 32 bits count, as of an `int`.
    pub(super) is_half: bool,
}

impl ProbeSpec {
    /// Whether a text is meant to be a probe.
    pub(crate) fn is_meant(text: &str) -> bool {
        ["uprobe", "usdt", "tracepoint", "uretprobe", "kprobe"]
            .iter()
            .any(|word| text.split_once(':').is_some_and(|(first, _)| first == *word))
    }

    /// System calls: which ones, how long they take, and from where.
    pub(crate) fn system_calls() -> Self {
        ProbeSpec { kind: EventKind::SYSTEM_CALLS, place: ProbePlace::SystemCalls, weight: None }
    }

    /// The probe that `text` names.
    ///
    /// # Errors
    ///
    /// Fails with what is wrong with `text`, in words.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (place_text, weight) = split_weight(text)?;
        let (form, rest) = place_text.split_once(':').ok_or_else(|| format!("write {FORMS}"))?;
        let (place, what) = match form {
            "uprobe" => function(rest)?,
            "usdt" => declared(rest)?,
            "tracepoint" => tracepoint(rest)?,
            "uretprobe" => {
                return Err("returns of functions are not probed: the probes for that replace return addresses, which breaks \
                            programs that look at their own stack (Go, exceptions); write uprobe:"
                    .to_owned());
            }
            _ => return Err("functions of the kernel are not probed: tracepoint:NAME is".to_owned()),
        };
        let title = match weight {
            Some(weight) => format!("arg{} of {what}", weight.argument),
            None => format!("hits of {what}"),
        };
        let kind = EventKind { noun: "hit".into(), ..EventKind::counted(text.to_owned(), title) };
        Ok(ProbeSpec { kind, place, weight })
    }

    /// The name of the file that is probed, as it was written; `None` of the kernel's own.
    pub(super) fn module(&self) -> Option<&str> {
        match &self.place {
            ProbePlace::Function { module, .. } | ProbePlace::Declared { module, .. } => Some(module),
            ProbePlace::Tracepoint { .. } | ProbePlace::SystemCalls => None,
        }
    }

    /// Whether it is a probe that the program declares.
    pub(super) fn is_declared(&self) -> bool {
        matches!(self.place, ProbePlace::Declared { .. })
    }
}

/// The text without `/argN` at its end, and the weight that this is. Names of functions may have slashes.
fn split_weight(text: &str) -> Result<(&str, Option<WeightSpec>), String> {
    let Some((place, argument)) = text.rsplit_once("/arg") else { return Ok((text, None)) };
    let (number, is_half) = match argument.strip_suffix(":32") {
        Some(number) => (number, true),
        None => (argument, false),
    };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok((text, None));
    }
    match number.parse() {
        Ok(argument) if (1..=MOST_ARGUMENTS).contains(&argument) => {
            Ok((place, Some(WeightSpec { argument, is_half })))
        }
        _ => Err(format!(
            "arguments are counted from 1: /arg1 to /arg{MOST_ARGUMENTS}, and /arg1:32 for an `int`"
        )),
    }
}

fn function(rest: &str) -> Result<(ProbePlace, String), String> {
    let form = || "write uprobe:MODULE:FUNCTION, such as uprobe:libc.so.6:malloc".to_owned();
    let (module, function) = rest.split_once(':').ok_or_else(form)?;
    let (name, offset) = match function.rsplit_once('+') {
        Some((name, number)) if number.starts_with(|letter: char| letter.is_ascii_digit()) => {
            let offset = match number.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => number.parse().ok(),
            };
            let offset =
                offset.ok_or_else(|| format!("`+{number}` is no number of bytes: write +8 or +0x8"))?;
            (name, Some(offset))
        }
        _ => (function, None),
    };
    if module.is_empty() || name.is_empty() {
        return Err(form());
    }
    let place = ProbePlace::Function { module: module.to_owned(), function: name.to_owned(), offset };
    Ok((place, function.to_owned()))
}

fn declared(rest: &str) -> Result<(ProbePlace, String), String> {
    let form = || "write usdt:MODULE:PROVIDER:NAME, such as usdt:python3:python:gc__start".to_owned();
    let mut parts = rest.splitn(3, ':');
    let mut part = || parts.next().filter(|part| !part.is_empty()).map(str::to_owned).ok_or_else(form);
    let (module, provider, name) = (part()?, part()?, part()?);
    let what = format!("{provider}:{name}");
    Ok((ProbePlace::Declared { module, provider, name }, what))
}

fn tracepoint(rest: &str) -> Result<(ProbePlace, String), String> {
    // perf writes the subsystem before the name.
    let name = rest.rsplit(':').next().unwrap_or_default();
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if name.is_empty() || !is_name(name) {
        return Err("write tracepoint:NAME, such as tracepoint:sched_process_fork".to_owned());
    }
    Ok((ProbePlace::Tracepoint { name: name.to_owned() }, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function_of(text: &str) -> (String, String, Option<u64>, Option<u32>) {
        let spec = ProbeSpec::parse(text).expect(text);
        let ProbePlace::Function { module, function, offset } = spec.place else { panic!("{text}") };
        (module, function, offset, spec.weight.map(|weight| weight.argument))
    }

    #[test]
    fn functions_have_a_module_and_perhaps_an_offset_and_a_weight() {
        let (libc, malloc) = ("libc.so.6".to_owned(), "malloc".to_owned());
        assert_eq!(function_of("uprobe:libc.so.6:malloc"), (libc.clone(), malloc.clone(), None, None));
        assert_eq!(function_of("uprobe:libc.so.6:malloc+4"), (libc.clone(), malloc.clone(), Some(4), None));
        assert_eq!(function_of("uprobe:libc.so.6:malloc+0x1c/arg1"), (libc, malloc, Some(0x1c), Some(1)));
        let go = function_of("uprobe:./server:net/http.(*conn).serve/arg2");
        assert_eq!((&*go.0, &*go.1, go.3), ("./server", "net/http.(*conn).serve", Some(2)));
        assert_eq!(function_of("uprobe:a:net/arguments").1, "net/arguments");
        assert_eq!(function_of("uprobe:a:ns::f").1, "ns::f");
        assert_eq!(function_of("uprobe:a:operator+").1, "operator+");
    }

    #[test]
    fn tracepoints_have_perfs_names_too() {
        for text in ["tracepoint:sched_process_fork", "tracepoint:sched:sched_process_fork"] {
            let place = ProbeSpec::parse(text).expect(text).place;
            assert_eq!(place, ProbePlace::Tracepoint { name: "sched_process_fork".to_owned() });
        }
        let usdt = ProbeSpec::parse("usdt:python3:python:gc__start/arg1:32").expect("it is one");
        assert_eq!(usdt.kind.title, "arg1 of python:gc__start");
        assert_eq!(usdt.weight, Some(WeightSpec { argument: 1, is_half: true }));
        assert_eq!(usdt.kind.noun, "hit");
    }

    #[test]
    fn what_is_no_probe_is_said() {
        let no = |text| ProbeSpec::parse(text).unwrap_err();
        assert!(no("uprobe:malloc").contains("uprobe:MODULE:FUNCTION"));
        assert!(no("uprobe::malloc").contains("uprobe:MODULE:FUNCTION"));
        assert!(no("usdt:a:b").contains("PROVIDER"));
        assert!(no("tracepoint:").contains("NAME") && no("tracepoint:a b").contains("NAME"));
        assert!(no("uretprobe:a:b").contains("returns") && no("kprobe:a").contains("tracepoint"));
        assert!(no("uprobe:a:b/arg0").contains("from 1") && no("uprobe:a:b+9x").contains("bytes"));
        assert!(ProbeSpec::is_meant("usdt:") && !ProbeSpec::is_meant("faults:u"));
    }
}
