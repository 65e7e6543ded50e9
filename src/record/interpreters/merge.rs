//! One stack of two: the native frames of a thread and those that its interpreter keeps. A pure function.
//!
//! Each call of the interpreter's loop is one native frame, and runs a group of frames: the function that C code
//! entered, and those that were called from it without leaving the loop. The two lists are matched from the root on: at
//! the leaf a loop may have been entered that has no function yet.

/// A native frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NativeFrame<T> {
    pub(super) frame: T,
    /// Whether it is a call of the interpreter's loop.
    pub(super) is_loop: bool,
}

/// Part of the code of an interpreter's loop that a native frame is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopPart {
    /// A function by which C code enters the interpreter.
    Entry,
    /// A function that such a one calls to run functions.
    Inner,
}

/// Native frames with the calls of the interpreter's loop: of an entry and what it has called of the loop, the frame next to
/// the leaf stands for the call.
pub(super) fn with_calls<T>(
    frames: impl Iterator<Item = (T, Option<LoopPart>)>,
    native: &mut Vec<NativeFrame<T>>,
) {
    native.clear();
    let mut inner = None;
    for (frame, part) in frames {
        let at = native.len();
        native.push(NativeFrame { frame, is_loop: false });
        match part {
            None => inner = None,
            Some(LoopPart::Inner) => inner = inner.or(Some(at)),
            Some(LoopPart::Entry) => {
                if let Some(call) = native.get_mut(inner.take().unwrap_or(at)) {
                    call.is_loop = true;
                }
            }
        }
    }
}

/// A frame of the interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunFrame<T> {
    pub(super) frame: T,
    /// Whether C code entered it: it is the outermost of its group.
    pub(super) is_entry: bool,
}

/// How two lists fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// Each loop has its group.
    Exact,
    /// So it is, but for the loop next to the leaf, which has just begun or is about to return.
    LeafStarts,
    /// The native stack lacks its root: groups next to the root have no loop.
    RootMissing,
    /// So it is, but for the function next to the leaf, whose loop has not begun yet or has just returned.
    LoopMissing,
    /// There is no telling which group is whose.
    Mismatch,
}

/// How the frames that an interpreter keeps may differ from the calls of its loop that are on the native stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ListHabits {
    /// The frame at the leaf may be in the list before its loop is entered, and after it is left.
    pub(super) links_early: bool,
    /// Functions written in C have frames, too. C code may call one where no loop has been entered.
    pub(super) has_native_functions: bool,
    /// C code keeps a frame for calls that it makes again and again, as for the comparisons of a sort, and the interpreter
    /// may go on with a frame in a new call of itself: `fit_c_blocks`.
    pub(super) enters_by_c_blocks: bool,
}

/// Whether both lists reach to the root of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WholeParts {
    pub(super) native: bool,
    pub(super) run: bool,
}

/// Number of frames at the root that no loop runs, in a whole list: functions in C that the interpreter keeps frames of, too.
/// Where C code calls such a one, there is no group that it belongs to.
fn frames_outside<T>(run: &[RunFrame<T>]) -> usize {
    run.iter().rev().take_while(|frame| !frame.is_entry).count()
}

/// Makes lists fit of which the native one may have several calls of the loop for one group, next to each other: to catch
/// errors, the interpreter goes on with a frame in a new call. The innermost of them counts.
///
/// The group next to the leaf may have no loop, and is taken out of `run`. If it is one frame, that of something which C code
/// calls again and again, between two calls, it is not running. Several ones are about to run, or are being left by an error:
/// they are returned, and have been called by all native frames.
pub(super) fn fit_c_blocks<T: Copy>(
    native: &mut [NativeFrame<T>],
    run: &mut Vec<RunFrame<T>>,
) -> Vec<RunFrame<T>> {
    let mut is_in_loop = false;
    for frame in native.iter_mut() {
        let is_loop = frame.is_loop;
        frame.is_loop &= !is_in_loop;
        is_in_loop = is_loop;
    }
    let loops = native.iter().filter(|frame| frame.is_loop).count();
    let sizes: Vec<usize> = run.split_inclusive(|frame| frame.is_entry).map(<[_]>::len).collect();
    let is_whole = run.last().is_some_and(|root| root.is_entry);
    match sizes.split_first() {
        Some((1, others)) if is_whole && others.len() == loops => {
            run.remove(0);
            Vec::new()
        }
        // Any other group of one frame might be the one that has no loop.
        Some((&size, others)) if is_whole && others.len() == loops && !others.contains(&1) => {
            run.drain(..size).collect()
        }
        _ => Vec::new(),
    }
}

/// Puts the merged stack into `out`, leaf first as both lists are. Each group comes in front of (nearer to the leaf than)
/// its loop; functions in C that no loop runs come after all loops. Nothing is put there if the lists do not fit.
pub(super) fn merge<T: Copy>(
    native: &[NativeFrame<T>],
    run: &[RunFrame<T>],
    whole: WholeParts,
    habits: ListHabits,
    out: &mut Vec<T>,
) -> Fit {
    let outside = if habits.has_native_functions && whole.run { frames_outside(run) } else { 0 };
    let (run, outside) = run.split_at(run.len().saturating_sub(outside));
    let groups: Vec<&[RunFrame<T>]> = run.split_inclusive(|frame| frame.is_entry).collect();
    let loops = native.iter().filter(|frame| frame.is_loop).count();
    // The outermost function was entered from C, too: without that mark the list was cut.
    let whole = WholeParts { run: whole.run && run.last().is_none_or(|last| last.is_entry), ..whole };
    let is_early = habits.links_early && groups.len() == loops + 1 && groups[0].len() == 1;
    let fit = match (whole.native, whole.run, loops.checked_sub(groups.len())) {
        (true, true, Some(0)) => Fit::Exact,
        (true, true, Some(1)) => Fit::LeafStarts,
        (false, true, None) => Fit::RootMissing,
        (true, true, None) if is_early => Fit::LoopMissing,
        _ => return Fit::Mismatch,
    };
    // The time of a function whose loop is missing is that of the function that calls it.
    let mut next = groups.iter().skip(usize::from(fit == Fit::LoopMissing));
    let mut is_first_loop = true;
    let last_loop = native.iter().rposition(|frame| frame.is_loop);
    for (index, frame) in native.iter().enumerate() {
        if frame.is_loop && !(is_first_loop && fit == Fit::LeafStarts) {
            out.extend(next.next().into_iter().copied().flatten().map(|run| run.frame));
        }
        is_first_loop &= !frame.is_loop;
        out.push(frame.frame);
        if Some(index) == last_loop && fit != Fit::RootMissing {
            out.extend(outside.iter().map(|run| run.frame));
        }
    }
    out.extend(next.copied().flatten().map(|run| run.frame));
    if last_loop.is_none() || fit == Fit::RootMissing {
        out.extend(outside.iter().map(|run| run.frame));
    }
    fit
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: WholeParts = WholeParts { native: true, run: true };

    /// Native frames in small letters, loops as `E`; frames of the interpreter in capitals, each entry followed by `|`.
    fn merged(native: &str, run: &str, whole: WholeParts) -> (String, Fit) {
        merged_with(native, run, whole, ListHabits::default())
    }

    fn merged_with(native: &str, run: &str, whole: WholeParts, habits: ListHabits) -> (String, Fit) {
        let native: Vec<NativeFrame<char>> =
            native.chars().map(|frame| NativeFrame { frame, is_loop: frame == 'E' }).collect();
        let letters: Vec<char> = run.chars().collect();
        let run: Vec<RunFrame<char>> = (letters.iter().enumerate())
            .filter(|(_, letter)| **letter != '|')
            .map(|(index, &frame)| RunFrame { frame, is_entry: letters.get(index + 1) == Some(&'|') })
            .collect();
        let mut out = Vec::new();
        let fit = merge(&native, &run, whole, habits, &mut out);
        (out.into_iter().collect(), fit)
    }

    #[test]
    fn functions_in_c_that_no_loop_runs_come_after_all_loops() {
        let habits = ListHabits { has_native_functions: true, ..ListHabits::default() };
        let in_c = |native, run, whole| merged_with(native, run, whole, habits);
        assert_eq!(in_c("aEbEs", "P|Q|cc", WHOLE), ("aPEbQEccs".to_owned(), Fit::Exact));
        assert_eq!(in_c("aEs", "cc", WHOLE), ("aEccs".to_owned(), Fit::LeafStarts));
        assert_eq!(in_c("as", "c", WHOLE), ("asc".to_owned(), Fit::Exact));
        let cut = WholeParts { native: false, run: true };
        assert_eq!(in_c("aEb", "P|Q|c", cut), ("aPEbQc".to_owned(), Fit::RootMissing));
        let entry = |is_entry| RunFrame { frame: 'x', is_entry };
        assert_eq!(frames_outside(&[entry(false), entry(true), entry(false), entry(false)]), 2);
        assert_eq!(frames_outside::<char>(&[]), 0);
    }

    #[test]
    fn an_entry_and_what_it_calls_of_the_loop_are_one_call() {
        let calls = |native: &str| {
            let parts = native.chars().map(|frame| match frame {
                'E' => (frame, Some(LoopPart::Entry)),
                'I' => (frame, Some(LoopPart::Inner)),
                _ => (frame, None),
            });
            let mut frames = Vec::new();
            with_calls(parts, &mut frames);
            frames.into_iter().map(|native| if native.is_loop { '1' } else { '0' }).collect::<String>()
        };
        assert_eq!(calls("aIEbIIEcEd"), "0100100010");
        assert_eq!(calls("IEIE"), "1010");
        assert_eq!(calls("aIbE"), "0001", "one that no entry has called is none");
        assert_eq!(calls(""), "");
    }

    #[test]
    fn each_loop_has_the_functions_that_it_runs() {
        assert_eq!(merged("abEcEds", "PQ|R|", WHOLE), ("abPQEcREds".to_owned(), Fit::Exact));
        assert_eq!(merged("abc", "", WHOLE), ("abc".to_owned(), Fit::Exact));
    }

    /// A generator between two yields: its loop has begun, its frame is not linked yet. Matched from the leaf, every group
    /// would be a callee's.
    #[test]
    fn a_loop_that_begins_has_no_function() {
        assert_eq!(merged("EgEcEs", "P|Q|", WHOLE), ("EgPEcQEs".to_owned(), Fit::LeafStarts));
        assert_eq!(merged("xEs", "", WHOLE), ("xEs".to_owned(), Fit::LeafStarts));
    }

    #[test]
    fn a_loop_that_goes_on_in_another_is_one_and_a_frame_between_two_calls_is_none() {
        let fit = |native: &str, run: &str| {
            let native = native.chars().map(|frame| NativeFrame { frame, is_loop: frame == 'E' });
            let run = run.chars().map(|frame| RunFrame { frame, is_entry: frame.is_uppercase() });
            let (mut native, mut run): (Vec<_>, Vec<_>) = (native.collect(), run.collect());
            let apart = fit_c_blocks(&mut native, &mut run);
            let apart: String = apart.into_iter().map(|frame| frame.frame).collect();
            let loops: String = native.iter().map(|frame| if frame.is_loop { 'E' } else { '.' }).collect();
            (loops, run.into_iter().map(|frame| frame.frame).collect::<String>(), apart)
        };
        let case = |loops: &str, run: &str, apart: &str| (loops.to_owned(), run.to_owned(), apart.to_owned());
        assert_eq!(fit("aEEEbEc", "pQR"), case(".E...E.", "pQR", ""));
        assert_eq!(fit("aEb", "PQ"), case(".E.", "Q", ""));
        assert_eq!(fit("aEb", "pQrS"), case(".E.", "rS", "pQ"), "they are being left");
        assert_eq!(fit("ab", "pqR"), case("..", "", "pqR"));
        assert_eq!(fit("aEb", "pQR"), case(".E.", "pQR", ""), "either may have no loop");
        assert_eq!(fit("aEb", "Pq"), case(".E.", "Pq", ""), "the root is not there");
    }

    #[test]
    fn groups_without_a_loop_are_kept_where_the_native_stack_was_cut() {
        let cut = WholeParts { native: false, run: true };
        assert_eq!(merged("abEc", "P|Q|R|", cut), ("abPEcQR".to_owned(), Fit::RootMissing));
        // As many loops as groups, or more: the loop at the leaf may have none, or may be whose root was cut.
        assert_eq!(merged("abEcE", "P|Q|", cut).1, Fit::Mismatch);
    }

    /// A generator that has yielded: it is in the list until its caller has taken it out.
    #[test]
    fn a_function_whose_loop_has_not_begun_is_left_out_where_that_may_be() {
        let habits = ListHabits { links_early: true, ..ListHabits::default() };
        let early = |native, run| merged_with(native, run, WHOLE, habits);
        assert_eq!(early("gEs", "P|Q|"), ("gQEs".to_owned(), Fit::LoopMissing));
        assert_eq!(early("gEcEs", "P|QR|S|"), ("gQREcSEs".to_owned(), Fit::LoopMissing));
        assert_eq!(merged("gEs", "P|Q|", WHOLE).1, Fit::Mismatch);
        // It calls another function: it runs.
        assert_eq!(early("gEs", "PQ|R|").1, Fit::Mismatch);
        assert_eq!(early("gEs", "P|Q|R|").1, Fit::Mismatch);
    }

    #[test]
    fn what_does_not_fit_is_not_guessed() {
        for (native, run, whole) in [
            ("EEE", "P|", WHOLE),
            ("E", "P|Q|", WHOLE),
            ("EE", "P|Q|", WholeParts { native: true, run: false }),
            ("EE", "P|Q|", WholeParts { native: false, run: false }),
            ("Es", "PQ", WHOLE),
        ] {
            assert_eq!(merged(native, run, whole), (String::new(), Fit::Mismatch), "{native} {run}");
        }
    }
}
