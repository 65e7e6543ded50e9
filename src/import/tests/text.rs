//! Folded stacks and the text of perf script.

use super::*;
use crate::profile::{FrameSpace, Outcome, Reason};

#[test]
fn folded_stacks_have_threads_inlined_functions_and_numbers() {
    let (profile, imported) = import_bytes(FOLDED.as_bytes(), &ImportOptions::default()).expect("imports");
    assert_eq!((imported.format, profile.meta.imported_from.as_str()), ("folded stacks", "folded stacks"));
    let (weight, samples, stacks) = event(&profile, "samples");
    assert_eq!((weight, samples), (6, 6));
    assert_eq!(stacks, ["read<inner<work<main", "work<main", "main"]);
    let tids: Vec<u32> = profile.tables.tasks().iter().map(|task| task.tid).collect();
    assert_eq!(tids, [7, 0]);
    let kernel = profile.tables.frames().iter().filter(|frame| frame.flags.space == FrameSpace::Kernel);
    assert_eq!(kernel.count(), 1);
    let outcomes: Vec<Outcome> = profile.events[0].samples().map(|sample| sample.outcome).collect();
    assert_eq!(outcomes, [Outcome::NotKnown; 3]);
    assert_eq!((profile.known_duration_ns(), profile.losses_known()), (None, false));
}

#[test]
fn weights_of_folded_stacks_are_what_the_user_says() {
    let unit = FoldedUnit::Time { unit_ns: 1_000 };
    let options = ImportOptions { unit, first: FirstElement::Function };
    let (profile, _) = import_bytes(b"main;work 5\nmain 1.6\n", &options).expect("imports");
    let (weight, rows, stacks) = event(&profile, "on-cpu");
    assert_eq!((weight, rows), (7_000, 2));
    assert_eq!(stacks, ["work<main", "main"]);
}

#[test]
fn lines_that_are_no_stacks_are_counted() {
    let (_, imported) = import_bytes(b"a;b 1\nnothing here\n", &ImportOptions::default())
        .or_else(|_| {
            let source = ImportSource::of_stream(Cursor::new(b"a;b 1\nnothing here\n".to_vec()));
            let folded = ImportFormat::ALL.into_iter().find(|format| format.name() == "folded");
            let mut out = Vec::new();
            let imported = import(source, folded, &ImportOptions::default(), &mut out, &mut |_| Vec::new())?;
            Ok::<_, ImportError>((Profile::default(), imported))
        })
        .expect("imports");
    assert!(imported.notes.iter().any(|note| note.starts_with("1 line no stack")), "{:?}", imported.notes);
}

#[test]
fn perf_script_has_events_threads_times_and_waits() {
    let (profile, _) = import_bytes(SCRIPT.as_bytes(), &ImportOptions::default()).expect("imports");
    let (weight, samples, stacks) = event(&profile, "on-cpu");
    assert_eq!((weight, samples), (500_000, 2));
    assert_eq!(stacks, ["do_read<inner<work<main", "inner<work<main"]);
    let times: Vec<u64> = profile.events[0].samples().map(|sample| sample.time_ns).collect();
    assert_eq!(times, [0, 250_000_000]);
    assert_eq!(event(&profile, "page-faults").0, 7);
    let (weight, _, stacks) = event(&profile, "off-cpu");
    assert_eq!((weight, stacks), (1_000, vec!["main".to_owned()]));
    let waits = profile.events.iter().find(|event| event.has_waits()).expect("there are waits");
    let wait = waits.sample(0).wait.expect("it is one");
    assert_eq!((wait.reason, wait.duration_ns), (Reason::Lock, 1_000));
    assert_eq!(profile.known_duration_ns(), Some(600_000_000));
    let ids: Vec<(u32, u32)> = profile.tables.tasks().iter().map(|task| (task.pid, task.tid)).collect();
    assert_eq!(ids, [(10, 11), (10, 12)]);
}

#[test]
fn text_without_periods_counts_samples() {
    let text = "my app 12 1.5: cycles: \n\t 55d0 main (/bin/a)\n\nmy app 12 1.6: cycles: \n\t 55d0 main (/bin/a)\n\n";
    let (profile, imported) = import_bytes(text.as_bytes(), &ImportOptions::default()).expect("imports");
    assert_eq!(event(&profile, "cycles").0, 2);
    assert!(imported.notes.iter().any(|note| note.contains("no periods")), "{:?}", imported.notes);
    assert_eq!(profile.tables.string(profile.tables.tasks()[0].comm), "my app");
}

#[test]
fn what_is_of_no_format_is_refused_with_what_it_is() {
    for (bytes, word) in [
        (&b"{\"a\": 1}"[..], "JSON"),
        (b"\x7fELF\x02", "program or library"),
        (b"\x89prof\r\n\x1a", "profile of prof"),
        (b"", "empty"),
        (b"\0\x01\x02\x03\x04", "not of a format"),
        (b"hello world, this is no recording\n", "not of a format"),
    ] {
        match import_bytes(bytes, &ImportOptions::default()) {
            Err(ImportError::Foreign(why)) => assert!(why.contains(word), "{why}"),
            other => panic!("{word}: {other:?}"),
        }
    }
}
