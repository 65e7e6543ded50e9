//! How many system calls there were of each name, and how long they took: all of them, whatever the budget left of their stacks.

use crate::base::units;
use crate::bpf::{ProfSkel, SYSTEM_CALLS, prof_call_total};
use libbpf_rs::{MapCore, MapFlags};
use std::mem::offset_of;
use syscalls::Sysno;

/// Most names in the words for people: of most of the time.
const MOST_NAMES: usize = 12;

/// All calls of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CallTotal {
    name: String,
    count: u64,
    time_ns: u64,
}

/// The calls of a recording in words; `None` if there were none.
pub(super) fn said(skeleton: &ProfSkel<'_>) -> Option<String> {
    in_words((0..SYSTEM_CALLS).filter_map(|number| of_number(skeleton, number)).collect())
}

fn of_number(skeleton: &ProfSkel<'_>, number: u32) -> Option<CallTotal> {
    let per_cpu = skeleton.maps.call_totals.lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY).ok()??;
    let sum = |at: usize| -> u64 {
        let word = |cpu: &Vec<u8>| cpu.get(at..).and_then(|rest| rest.first_chunk()).copied();
        per_cpu.iter().filter_map(word).map(u64::from_ne_bytes).sum()
    };
    let count = sum(offset_of!(prof_call_total, count));
    let time_ns = sum(offset_of!(prof_call_total, time_ns));
    (count > 0).then(|| CallTotal { name: total_name(number), count, time_ns })
}

/// The name of a system call by its number, which may be a later kernel's.
pub(crate) fn call_name(number: u32) -> String {
    let call = Sysno::new(number as usize);
    call.map_or_else(|| format!("system call {number}"), |call| call.name().to_owned())
}

/// The name of a sum: the last one is of all numbers that have none.
fn total_name(number: u32) -> String {
    if number + 1 == SYSTEM_CALLS { "others".to_owned() } else { call_name(number) }
}

fn in_words(mut totals: Vec<CallTotal>) -> Option<String> {
    totals.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| a.name.cmp(&b.name)));
    let left = totals.len().saturating_sub(MOST_NAMES);
    let of_name = |total: &CallTotal| {
        format!("{} {} in {}", units::count(total.count), total.name, units::duration(total.time_ns))
    };
    let mut words: Vec<String> = totals.iter().take(MOST_NAMES).map(of_name).collect();
    if left > 0 {
        words.push(format!("and {}", units::counted(left as u64, "other")));
    }
    (!words.is_empty()).then(|| format!("syscalls, all of them: {}", words.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_most_time_come_first_and_the_rest_is_counted() {
        let total = |number: u64| CallTotal {
            name: format!("call{number}"),
            count: number,
            time_ns: number * 1_000_000,
        };
        assert_eq!(in_words(Vec::new()), None);
        let said = in_words(vec![total(1), total(2000)]).expect("words");
        assert_eq!(said, "syscalls, all of them: 2,000 call2000 in 2.00 s, 1 call1 in 1.00 ms");
        let said = in_words((1..=20).map(total).collect()).expect("words");
        assert!(
            said.contains("20 call20 in ") && said.ends_with("9 call9 in 9.00 ms, and 8 others"),
            "{said}"
        );
        assert_eq!((total_name(0), total_name(SYSTEM_CALLS - 1)), ("read".to_owned(), "others".to_owned()));
        assert_eq!(call_name(65_000), "system call 65000");
    }
}
