use super::*;
use crate::profile::code::function_code::{CodeRun, InlinedCall};
use crate::profile::{FoundBy, Frame, FrameFlags, Function, StackId};
use crate::report::analysis::Analysis;
use crate::report::options::{CommonOptions, Grouping, SortKey};
use crate::report::tests::fixture::Build;
use crate::report::views::function_table::FunctionTable;

/// `work` at 0x1000: push, call at +1, an inlined `step` at +6 and +7, ret at +8; called by `main`.
pub(crate) fn annotated() -> Analysis {
    let mut build = Build::new();
    build.meta().arch = "x86_64".to_owned();
    build.meta().clock = "cpu-clock".to_owned();
    build.meta().clock_is_timer = true;
    build.meta().target = "demo (pid 7)".to_owned();
    let task = build.task(7, 7, "demo", "demo");
    build.add(task, 1, &["/usr/bin/demo:main"]);
    build.finish().changed(|recording| add_work(&mut recording.profile))
}

fn add_work(profile: &mut Profile) {
    let module = profile.tables.frames()[0].module;
    let [work, step, helper] = ["work", "step", "helper"].map(|name| {
        let name = profile.tables.intern_string(name);
        profile.symbols.intern_function(Function { name, raw_name: name })
    });
    let [source, header] = ["/src/demo.c", "/src/step.h"].map(|file| profile.tables.intern_string(file));
    let own = |line| Location { function: work, file: source, line, is_inlined: false };
    let inner = |line| Location { function: step, file: header, line, is_inlined: true };
    let called = Location { function: helper, file: source, line: 3, is_inlined: false };
    let mut stack = |parent: Option<StackId>, address, is_return_address, locations: Vec<Location>| {
        let flags = FrameFlags { is_return_address, found_by: FoundBy::Cfi, ..FrameFlags::default() };
        let frame = profile.tables.intern_frame(Frame { module, address, flags });
        profile.symbols.set_locations(frame, locations);
        profile.tables.intern_stack(parent, frame)
    };
    let main = Some(StackId(0));
    let at_push = stack(main, 0x1000, false, vec![own(10)]);
    let at_step = stack(main, 0x1006, false, vec![inner(33), own(12)]);
    let in_call = stack(main, 0x1006, true, vec![own(11)]);
    let in_helper = stack(Some(in_call), 0x2000, false, vec![called]);
    // A recursive call at its call instruction.
    let again = stack(Some(in_call), 0x1008, false, vec![own(13)]);
    let sample = profile.events[0].sample(0);
    for (stack, times) in [(at_push, 4), (at_step, 3), (in_helper, 2), (again, 1)] {
        for _ in 0..times {
            profile.events[0].push(crate::profile::Sample { stack: Some(stack), ..sample });
        }
    }
    let run = |offset, call, file, line| CodeRun { offset, call, file, line };
    profile.code.push(FunctionCode {
        module,
        function: work,
        start: 0x1000,
        size: 9,
        address: 0x1000,
        bytes: vec![0x55, 0xe8, 0xfa, 0x0f, 0, 0, 0x90, 0x90, 0xc3],
        runs: vec![
            run(0, 0, source, 10),
            run(1, 0, source, 11),
            run(6, 1, header, 33),
            run(7, 1, header, 34),
            run(8, 0, source, 13),
        ],
        inlined: vec![InlinedCall { function: step, parent: 0, file: source, line: 12 }],
        targets: Vec::new(),
    });
}

fn annotation(recording: &Analysis, name: &str, inline: bool) -> Annotation {
    let options = CommonOptions { grouping: Grouping::Address, inline, ..CommonOptions::default() };
    let selection = recording.select(&options).unwrap();
    Annotation::new(&selection, name, "/usr/bin/demo", inline, AsmSyntax::Intel)
}

fn rows(recording: &Analysis, annotation: &Annotation) -> Vec<(String, u32, [u64; 3])> {
    let file = |line: &AnnotatedLine| recording.profile.tables.string(line.file).to_owned();
    let samples = |line: &AnnotatedLine| [line.own.samples, line.inlined.samples, line.total.samples];
    annotation.lines.iter().map(|line| (file(line), line.line, samples(line))).collect()
}

#[test]
fn lines_have_what_happens_in_them_and_below() {
    let recording = annotated();
    let work = annotation(&recording, "work", true);
    let file = "/src/demo.c".to_owned();
    assert_eq!(
        rows(&recording, &work),
        [
            (file.clone(), 10, [4, 0, 4]),
            (file.clone(), 11, [0, 0, 2]),
            (file.clone(), 12, [0, 3, 3]),
            (file, 13, [1, 0, 1])
        ]
    );
    let instructions: Vec<_> = (work.instructions.iter())
        .map(|at| (at.at.address, at.own.samples, at.total.samples, at.text.as_deref().unwrap_or("")))
        .collect();
    assert_eq!(
        instructions,
        [
            (0x1000, 4, 4, "push rbp"),
            (0x1001, 0, 2, "call 0x2000"),
            (0x1006, 3, 3, "nop"),
            (0x1007, 0, 0, "nop"),
            (0x1008, 1, 1, "ret")
        ]
    );
    let groups = &work.lines[2].groups;
    let lines: Vec<_> = groups.iter().map(|group| (group.chain[0].line, group.own.samples)).collect();
    assert_eq!(lines, [(33, 3), (34, 0)]);
}

#[test]
fn an_inlined_function_has_its_own_lines() {
    let recording = annotated();
    let step = annotation(&recording, "step", true);
    let file = "/src/step.h".to_owned();
    assert_eq!(rows(&recording, &step), [(file.clone(), 33, [3, 0, 3]), (file, 34, [0, 0, 0])]);
    assert_eq!(step.instructions.len(), 2);
}

#[test]
fn without_inlining_all_is_the_owners() {
    let recording = annotated();
    let work = annotation(&recording, "work", false);
    assert_eq!((work.own.samples, work.inlined.samples, work.total.samples), (8, 0, 10));
    assert!(annotation(&recording, "step", false).lines.is_empty());
}

#[test]
fn sums_are_those_of_the_flat_table() {
    let recording = annotated();
    for inline in [true, false] {
        let options = CommonOptions { inline, ..CommonOptions::default() };
        let selection = recording.select(&options).unwrap();
        for row in FunctionTable::new(&selection, SortKey::default()).rows {
            let label = selection.labels.get(row.label);
            let annotation = annotation(&recording, &label.name, inline);
            assert_eq!((annotation.own, annotation.total), (row.own, row.total), "{}", label.name);
            let (mut own, mut total) = (Amount::default(), Amount::default());
            for line in &annotation.lines {
                own.add(line.own);
                total.add(line.total);
            }
            assert_eq!((own, total), (row.own, row.total), "{}", label.name);
        }
    }
}

#[test]
fn rows_of_addresses_are_instructions() {
    let recording = annotated();
    let options = CommonOptions { grouping: Grouping::Address, ..CommonOptions::default() };
    let selection = recording.select(&options).unwrap();
    let table = FunctionTable::new(&selection, SortKey::default());
    let text = |row: &crate::report::views::function_table::FunctionRow| {
        selection.labels.get(row.label).text(crate::report::NameStyle::Full)
    };
    let own: Vec<_> = (table.rows.iter())
        .filter(|row| row.own.samples > 0)
        .map(|row| (text(row), row.own.samples))
        .collect();
    let expected = [("work+0x0", 4), ("step at 0x1006", 3), ("helper at 0x2000", 2)];
    assert_eq!(own[..3], expected.map(|(name, samples)| (name.to_owned(), samples)));
    assert!(own.contains(&("work+0x8".to_owned(), 1)), "{own:?}");
}

#[test]
fn callers_and_callees_are_functions_and_an_interrupt_is_none() {
    let mut build = Build::new();
    let task = build.task(7, 7, "demo", "demo");
    let [main, work, helper] = ["main", "work", "helper"].map(|name| format!("/usr/bin/demo:{name}"));
    build.add(task, 9, &[&main, &work, "[kernel]:asm_sysvec_apic_timer_interrupt"]);
    build.add(task, 1, &[&main, &work, &work, &helper]);
    let recording = build.finish();
    let name = |key: &Option<LabelKey>| key.as_ref().map(|key| key.name().into_owned());
    let work = annotation(&recording, "work", true);
    assert_eq!(name(&work.caller).as_deref(), Some("main"), "not itself");
    let callees: Vec<_> = work.lines.iter().map(|line| name(&line.callee)).collect();
    assert!(callees.contains(&Some("helper".to_owned())), "{callees:?}");
    assert!(callees.iter().flatten().all(|callee| callee == "helper"), "{callees:?}");
}
