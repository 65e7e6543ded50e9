//! Tracepoints of the kernel, by its type information.

use super::spec::WeightSpec;
use super::weight::WeightPlace;
use libbpf_rs::ReferencesType as _;
use libbpf_rs::btf::types::{FuncProto, Int, Ptr, Typedef};
use libbpf_rs::btf::{Btf, BtfKind, BtfType};

/// Prefix of the types of tracepoints.
const PREFIX: &str = "btf_trace_";
/// Names that are shown where one is not found.
const MOST_SUGGESTIONS: usize = 5;
/// Names that begin with so many bytes of another one are like it.
const LEAST_COMMON_BYTES: usize = 4;
/// Arguments that the programs can read.
const MOST_ARGUMENTS: u32 = 6;
/// Tracepoints that are inside of locks which the programs themselves take, or in interrupts that nothing masks.
const REFUSED: [(&str, &str); 3] = [
    ("contention_begin", "the program that takes its stacks uses locks itself"),
    ("contention_end", "the program that takes its stacks uses locks itself"),
    ("nmi_handler", "it is hit in interrupts that cannot be masked"),
];

/// Looks a tracepoint up. Returns where its weight is.
///
/// # Errors
///
/// Why it cannot be recorded, in words.
pub(super) fn look_up(name: &str, weight: Option<WeightSpec>) -> Result<WeightPlace, String> {
    if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(format!("it is not recorded: {why}"));
    }
    let types = Btf::from_vmlinux().map_err(|error| format!("the kernel's types cannot be read: {error}"))?;
    let Some(arguments) = arguments_of(&types, name) else { return Err(lack(&types, name)) };
    let Some(weight) = weight else { return Ok(WeightPlace::default()) };
    let number = weight.argument;
    let kind = arguments.get(number as usize - 1).filter(|_| number <= MOST_ARGUMENTS).ok_or_else(|| {
        format!(
            "it has {}, and no arg{number} that can be a weight",
            crate::base::units::counted(arguments.len() as u64, "argument")
        )
    })?;
    match kind {
        ArgumentKind::Number { bytes, is_signed } => {
            let bytes = if weight.is_half { (*bytes).min(4) } else { *bytes };
            Ok(WeightPlace { bytes, is_signed: *is_signed, ..WeightPlace::default() }.argument(number - 1))
        }
        ArgumentKind::Other(what) => Err(format!("arg{number} is {what}, which is no weight")),
    }
}

/// What an argument is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ArgumentKind {
    Number { bytes: u32, is_signed: bool },
    Other(&'static str),
}

/// The arguments of a tracepoint; `None` if there is none of this name.
fn arguments_of(types: &Btf<'_>, name: &str) -> Option<Vec<ArgumentKind>> {
    let typedef: Typedef<'_> = types.type_by_name(&format!("{PREFIX}{name}"))?;
    let pointer = Ptr::try_from(typedef.referenced_type()).ok()?;
    let function = FuncProto::try_from(pointer.referenced_type()).ok()?;
    // The first is the kernel's own.
    let kinds = function.iter().skip(1).map(|parameter| {
        types.type_by_id::<BtfType<'_>>(parameter.ty).map_or(ArgumentKind::Other("unknown"), kind_of)
    });
    Some(kinds.collect())
}

fn kind_of(argument: BtfType<'_>) -> ArgumentKind {
    let argument = argument.skip_mods_and_typedefs();
    match argument.kind() {
        BtfKind::Int => match Int::try_from(argument) {
            Ok(int) if [8, 16, 32, 64].contains(&int.bits) => ArgumentKind::Number {
                bytes: u32::from(int.bits) / 8,
                is_signed: matches!(int.encoding, libbpf_rs::btf::types::IntEncoding::Signed),
            },
            _ => ArgumentKind::Other("a number of an odd size"),
        },
        BtfKind::Enum => ArgumentKind::Number { bytes: 4, is_signed: false },
        BtfKind::Ptr => ArgumentKind::Other("a pointer"),
        _ => ArgumentKind::Other("no number"),
    }
}

/// Message that there is no such tracepoint, with some whose names contain it, or the first word of it.
fn lack(types: &Btf<'_>, name: &str) -> String {
    let mut names: Vec<String> = types
        .type_by_kind::<Typedef<'_>>()
        .filter_map(|kind| Some(kind.name()?.to_str()?.strip_prefix(PREFIX)?.to_owned()))
        .collect();
    names.sort();
    names.dedup();
    let mut similar: Vec<String> = names.iter().filter(|known| known.contains(name)).cloned().collect();
    if similar.is_empty() {
        let common =
            |known: &str| known.bytes().zip(name.bytes()).take_while(|(known, own)| known == own).count();
        similar = names.iter().filter(|known| common(known) >= LEAST_COMMON_BYTES).cloned().collect();
        similar.sort_by_key(|known| std::cmp::Reverse(common(known)));
    }
    if name.starts_with("sys_enter_") || name.starts_with("sys_exit_") {
        similar = vec!["sys_enter".to_owned(), "sys_exit".to_owned()];
    }
    similar.truncate(MOST_SUGGESTIONS);
    match similar.is_empty() {
        true => format!(
            "this kernel has no tracepoint of this name; it has {}, such as sched_switch",
            names.len()
        ),
        false => format!("this kernel has no tracepoint of this name; it has {}", similar.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracepoints_are_in_the_types_of_this_kernel() {
        let Ok(types) = Btf::from_vmlinux() else { return };
        let arguments = arguments_of(&types, "sys_enter").expect("every kernel has it");
        assert_eq!(arguments.len(), 2);
        assert_eq!(arguments[0], ArgumentKind::Other("a pointer"));
        assert_eq!(arguments[1], ArgumentKind::Number { bytes: 8, is_signed: true });
        let weight = |argument| Some(WeightSpec { argument, is_half: false });
        assert!(look_up("sys_enter", weight(1)).unwrap_err().contains("a pointer"));
        assert!(look_up("sys_enter", weight(3)).unwrap_err().contains("2 arguments"));
        assert!(look_up("sys_enter", weight(2)).is_ok_and(|place| place.is_possible()));
        let refused = look_up("sched_process_forks", None).unwrap_err();
        assert!(refused.contains("no tracepoint") && refused.contains("sched_"), "{refused}");
        assert!(look_up("contention_begin", None).unwrap_err().contains("locks"));
    }
}
