//! The first line of an event: `comm pid/tid [cpu] time: period event:`, where every part but the first is optional.

/// Contents of a head line. Texts are foreign.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct HeadLine<'a> {
    pub(super) comm: &'a [u8],
    pub(super) pid: Option<u32>,
    pub(super) tid: Option<u32>,
    pub(super) cpu: Option<u16>,
    pub(super) time_ns: Option<u64>,
    pub(super) period: Option<u64>,
    pub(super) event: Option<&'a [u8]>,
    /// Text after the event.
    pub(super) rest: &'a [u8],
}

/// A word of a line, with its position.
#[derive(Debug, Clone, Copy)]
struct HeadWord<'a> {
    text: &'a [u8],
    start: usize,
    end: usize,
}

/// Most words of a line that are considered, since names have few.
const MAX_WORDS: usize = 32;

impl<'a> HeadLine<'a> {
    /// Parses a head line; `None` if it is not one.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let words = words(line);
        // The name may contain blanks and even numbers, so its end is found by what follows.
        let is_before_time =
            |words: &[HeadWord<'_>]| words.first().is_some_and(|word| is_cpu_or_time(word.text));
        let ids = |follows: &dyn Fn(&[HeadWord<'_>]) -> bool| {
            (1..words.len()).find(|&at| is_ids(words[at].text) && follows(&words[at + 1..]))
        };
        let first = ids(&is_before_time).or_else(|| ids(&|words| follows_ids(words)));
        let first = first.or_else(|| (1..words.len()).find(|&at| is_cpu_or_time(words[at].text)));
        let first = first.or_else(|| (1..words.len()).find(|&at| is_event(words[at].text)))?;
        let comm = line[words[0].start..words[first - 1].end].trim_ascii();
        let mut rest = &words[first..];
        if rest.len() == 1 && is_ids(rest[0].text) && comm.contains(&b';') {
            // A folded stack with its weight.
            return None;
        }
        let mut head = HeadLine { comm, ..HeadLine::default() };
        head.take_ids(&mut rest);
        if let Some(cpu) = rest.first().and_then(|word| cpu(word.text)) {
            head.cpu = Some(cpu);
            rest = &rest[1..];
        }
        let is_time = |word: &HeadWord<'_>| time_ns(word.text).is_some();
        // Interrupt flags and the like come before the time.
        let at = rest.iter().take(3).position(is_time);
        if let Some(at) = at {
            head.time_ns = time_ns(rest[at].text);
            rest = &rest[at + 1..];
        }
        if let Some(period) = rest.first().and_then(|word| number(word.text)) {
            head.period = Some(period);
            rest = &rest[1..];
        }
        if let Some(word) = rest.first().filter(|word| is_event(word.text)) {
            head.event = Some(word.text.strip_suffix(b":").unwrap_or(word.text));
            rest = &rest[1..];
        }
        head.rest = rest.first().map_or(&[], |word| &line[word.start..]);
        let is_any = head.pid.is_some() || head.time_ns.is_some() || head.event.is_some();
        is_any.then_some(head)
    }

    fn take_ids(&mut self, rest: &mut &[HeadWord<'a>]) {
        let Some(word) = rest.first().filter(|word| is_ids(word.text)) else { return };
        let mut numbers = word.text.split(|&byte| byte == b'/').map(id);
        self.pid = numbers.next().flatten();
        self.tid = numbers.next().flatten();
        *rest = &rest[1..];
    }
}

fn words(line: &[u8]) -> Vec<HeadWord<'_>> {
    let mut words = Vec::new();
    let mut at = 0;
    while words.len() < MAX_WORDS {
        let Some(skip) = line[at..].iter().position(|byte| !byte.is_ascii_whitespace()) else { break };
        let start = at + skip;
        let length = line[start..].iter().position(u8::is_ascii_whitespace).unwrap_or(line.len() - start);
        at = start + length;
        words.push(HeadWord { text: &line[start..at], start, end: at });
    }
    words
}

fn number(text: &[u8]) -> Option<u64> {
    text.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

/// A process or thread id; perf writes -1 if there is none.
fn id(text: &[u8]) -> Option<u32> {
    match text {
        b"-1" => Some(0),
        text => number(text)?.try_into().ok(),
    }
}

/// Whether the text is `12` or `12/34`.
fn is_ids(text: &[u8]) -> bool {
    let mut parts = text.split(|&byte| byte == b'/');
    let are_ids = parts.by_ref().take(2).all(|part| id(part).is_some());
    are_ids && parts.next().is_none()
}

/// Whether these words can follow the ids of a thread.
fn follows_ids(words: &[HeadWord<'_>]) -> bool {
    let starts_facts = |word: &HeadWord<'_>| is_cpu_or_time(word.text) || is_event(word.text);
    match words {
        [] => true,
        [first, ..] if starts_facts(first) => true,
        // A period, or interrupt flags.
        [_, second, ..] => starts_facts(second),
        [_] => false,
    }
}

fn is_cpu_or_time(text: &[u8]) -> bool {
    cpu(text).is_some() || time_ns(text).is_some()
}

/// Whether the text is an event: `cycles:`, `cycles:u:`, `sched:sched_switch:`.
fn is_event(text: &[u8]) -> bool {
    text.len() > 1 && text.ends_with(b":") && text.iter().any(u8::is_ascii_alphabetic)
}

/// The CPU in `[003]`.
fn cpu(text: &[u8]) -> Option<u16> {
    number(text.strip_prefix(b"[")?.strip_suffix(b"]")?).filter(|_| text.len() > 2)?.try_into().ok()
}

/// The time in `12.345678:`, ns.
fn time_ns(text: &[u8]) -> Option<u64> {
    let text = text.strip_suffix(b":")?;
    let dot = text.iter().position(|&byte| byte == b'.')?;
    let (seconds, fraction) = (&text[..dot], &text[dot + 1..]);
    if seconds.is_empty() || fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let unit_ns = 10u64.pow(9 - fraction.len() as u32);
    number(seconds)?.checked_mul(1_000_000_000)?.checked_add(number(fraction)? * unit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> HeadLine<'_> {
        HeadLine::parse(line.as_bytes()).expect(line)
    }

    #[test]
    fn lines_have_the_fields_that_they_have() {
        let head = parse("perf 7124/7125 [003] 12.345678:     250000 cpu-clock:pppH: ");
        assert_eq!((head.comm, head.pid, head.tid), (&b"perf"[..], Some(7124), Some(7125)));
        assert_eq!((head.cpu, head.time_ns, head.period), (Some(3), Some(12_345_678_000), Some(250_000)));
        assert_eq!((head.event, head.rest), (Some(&b"cpu-clock:pppH"[..]), &b""[..]));

        let head = parse("my app 2 17 1.5:  cycles:      55d0 main+0x1 (/bin/a)");
        assert_eq!((head.comm, head.pid, head.tid, head.cpu), (&b"my app 2"[..], Some(17), None, None));
        assert_eq!((head.time_ns, head.period), (Some(1_500_000_000), None));
        assert_eq!(head.rest, b"55d0 main+0x1 (/bin/a)");

        let head = parse("swapper     0 [000] 1.000000: sched:sched_switch: prev_comm=x");
        assert_eq!(
            (head.comm, head.pid, head.event),
            (&b"swapper"[..], Some(0), Some(&b"sched:sched_switch"[..]))
        );
        let head = parse("a  cycles:");
        assert_eq!((head.comm, head.event, head.pid), (&b"a"[..], Some(&b"cycles"[..]), None));
        let head = parse("a 12 9.000000001:");
        assert_eq!((head.pid, head.time_ns), (Some(12), Some(9_000_000_001)));
    }

    #[test]
    fn other_lines_are_none() {
        for line in ["", "main;work 12", "hello world", "12", "x 1.2.3:", "{\"a\": 1}"] {
            assert_eq!(HeadLine::parse(line.as_bytes()), None, "{line}");
        }
    }
}
