//! Who let go of a lock, or signalled: the program's functions on the stack of the thread that ended the wait.

use crate::profile::{FrameSpace, ModuleKind, Profile, StackId, Waker, WakerKind};
use crate::report::model::label::{code_kind, module_text};
use crate::report::naming::code::Code;
use crate::report::naming::name::{self, module_file};
use crate::report::naming::style::NameStyle;
use crate::report::waits::own_code::OwnCode;

/// Who ended a wait. Foreign text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Releaser {
    /// Innermost function of the program itself, and its caller there.
    Function { name: String, called_by: Option<String> },
    /// Thread of this name, whose stack is not known.
    Thread(String),
    /// An interrupt.
    Interrupt,
    /// The wait was not over when the recording ended, or it is not known.
    Unknown,
}

impl Releaser {
    /// Finds who `waker` was.
    pub(crate) fn of(profile: &Profile, waker: &Waker) -> Self {
        match waker.kind {
            WakerKind::None | WakerKind::Unknown(_) => Releaser::Unknown,
            WakerKind::SoftInterrupt | WakerKind::Interrupt => Releaser::Interrupt,
            WakerKind::Thread => {
                let comm = |task| profile.tables.string(profile.tables.task(task).comm).to_owned();
                let thread = || waker.task.map_or(Releaser::Unknown, |task| Releaser::Thread(comm(task)));
                let [first, called_by] = waker.stack.map_or([None, None], |stack| functions(profile, stack));
                first.map_or_else(thread, |name| Releaser::Function { name, called_by })
            }
        }
    }

    /// Returns the name of the function, thread or interrupt, in this style. Foreign text.
    pub(crate) fn name_in(&self, style: NameStyle) -> String {
        match self {
            Releaser::Function { name, .. } => name::in_style(name, style).into_owned(),
            Releaser::Thread(comm) => format!("[thread {comm}]"),
            Releaser::Interrupt => "[irq]".to_owned(),
            Releaser::Unknown => "-".to_owned(),
        }
    }

    /// Returns the caller of the function in this style. Foreign text.
    pub(crate) fn caller_in(&self, style: NameStyle) -> Option<String> {
        match self {
            Releaser::Function { called_by, .. } => {
                called_by.as_ref().map(|caller| name::in_style(caller, style).into_owned())
            }
            _ => None,
        }
    }
}

/// The innermost function of the program itself on a stack, and the next one; of a stack without any the innermost function
/// outside of the kernel. Code of which nothing is known has no name here.
fn functions(profile: &Profile, stack: StackId) -> [Option<String>; 2] {
    let own_code = OwnCode::of(profile, stack);
    let mut own: Vec<String> = Vec::new();
    let (mut innermost, mut says_more): (Option<String>, Option<String>) = (None, None);
    for frame in profile.tables.stack_frames(stack) {
        let row = profile.tables.frame(frame);
        let module = profile.tables.module(row.module);
        if row.flags.space == FrameSpace::Kernel || module.kind == ModuleKind::Unknown {
            continue;
        }
        let path = module_text(profile, module.path, module.kind);
        let kind = code_kind(module.kind, &path, row.flags.space);
        let locations = profile.symbols.locations(frame);
        for location in locations {
            let name = profile.tables.string(profile.symbols.function(location.function).name);
            let file = profile.tables.string(location.file);
            innermost.get_or_insert_with(|| name.to_owned());
            if own_code.says_more(kind) {
                says_more.get_or_insert_with(|| name.to_owned());
            }
            if own_code.has(Code { kind, module: &path, name, file, is_inlined: location.is_inlined })
                && own.last().is_none_or(|last| last != name)
            {
                own.push(name.to_owned());
            }
        }
        let unnamed = Code { kind, module: &path, name: "", file: "", is_inlined: false };
        if locations.is_empty() && own_code.has(unnamed) {
            own.push(format!("{}+{:#x}", module_file(&path), row.lookup_address()));
        }
        if own.len() > 1 {
            break;
        }
    }
    let mut own = own.into_iter();
    [own.next().or(says_more).or(innermost), own.next()]
}
