//! The internals that the tests and benches of this project use. Not an API: it changes with the program.
#![doc(hidden)]
#![allow(missing_docs)]

pub mod base {
    pub mod deadline {
        pub use crate::base::deadline::Deadline;
    }

    pub mod failure {
        pub use crate::base::failure::Failure;
    }

    pub mod memory_budget {
        pub use crate::base::memory_budget::MemoryBudget;
    }
}

pub mod bpf {
    pub use crate::bpf::{
        FRAME_ADDRESS, FRAME_BY_FP, FRAME_RETURN, LEAF_FRAMES, MAX_SEGMENTS, MAX_USER_FRAMES, outcome,
    };
}

pub mod cli {
    pub use crate::cli::command;
}

pub mod elf {
    pub use crate::elf::Section;
}

#[cfg(feature = "testing")]
pub mod fuzzing {
    pub use crate::fuzzing::{BODIES, run, unwind_elf};
}

pub mod profile {
    pub use crate::profile::{
        AddressSettings, End, Event, EventId, EventInfo, EventKind, FoundBy, Frame, FrameFlags, FrameId,
        FrameSpace, Function, FunctionId, Integrity, LabelSetId, Location, Merged, Meta, Module, ModuleId,
        ModuleKind, OUTSIDE, Outcome, Profile, ReadError, Reason, Sample, ShortWaits, StackId, StringId,
        Tables, Task, TaskId, ThreadTime, Wait, Waker, WakerKind, WriteError, Writer, read, read_path,
    };
}

pub mod record {
    pub use crate::record::{CAPABILITIES, Capability, Keep, Output};

    pub mod live {
        use crate::cli::{Request, Stop, parse};
        pub use crate::record::live::{Ended, Live, LiveEvent, Simulation, Snapshot, own_memory_kb};
        use std::ffi::OsString;

        /// Begins the recording that `prof ARGUMENTS` shows: `live -p 4312`.
        ///
        /// # Errors
        ///
        /// What keeps `prof` from it.
        pub fn watch<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> anyhow::Result<Live> {
            let arguments = arguments.into_iter().map(Into::into);
            match parse(std::iter::once(OsString::from("prof")).chain(arguments)) {
                Ok(Request::Live(options)) => Live::start(options.record, Vec::new()),
                Ok(_) => anyhow::bail!("these arguments name no live target"),
                Err(Stop::Failed(failure)) => Err(failure.into()),
                Err(Stop::Shown(error)) => Err(error.into()),
            }
        }
    }
}

pub mod report {
    pub use crate::report::{
        Analysis, CommonOptions, Direction, Metric, NameStyle, Page, ReportOptions, ReportView, SamplesAt,
        ThreadSplit, TimeRange, Timeline, folded, render,
    };
}

pub mod symbols {
    pub use crate::symbols::{ModuleNames, NamingLimits, find_debug_file};
}

pub mod tui {
    pub use crate::tui::{TuiOptions, show};

    pub mod app {
        pub mod action {
            pub use crate::tui::app::action::Action;
        }

        pub mod query {
            pub use crate::tui::app::query::Query;
        }

        pub mod state {
            pub use crate::tui::app::state::App;
        }
    }

    pub mod compute {
        pub mod picture {
            pub use crate::tui::compute::picture::Picture;
        }
    }

    pub mod screen {
        pub use crate::tui::screen::draw;
    }

    pub mod terminal {
        pub mod guard {
            pub use crate::tui::terminal::guard::TerminalGuard;
        }
    }

    pub mod widgets {
        pub mod theme {
            pub use crate::tui::widgets::theme::{ColorDepth, Glyphs, Theme};
        }
    }
}

pub mod unwind {
    pub use crate::unwind::{
        Architecture, CfiSections, ElfError, ElfImage, ElfLimits, End, FoundBy, FrameAddress, FrameState,
        Limits, MappedModule, Memory, MemoryError, ModuleCode, ModuleMap, Page, Registers, Row, Rule,
        RuleKind, Stack, Table, TableError, compile, walk,
    };

    pub mod arch {
        pub mod architecture {
            pub use crate::unwind::arch::architecture::SIGNATURE_MASK_48_BITS;
        }
    }

    pub mod rule {
        pub use crate::unwind::rule::{GoroutineOffsets, RBP, RSP, RaKind, RbpKind, RuleKind};
    }

    pub use crate::unwind::walk::registers::Aarch64Registers;
}
