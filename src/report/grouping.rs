//! What rows, boxes and nodes of trees are.

/// Kind of thing that one row, box or tree node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grouping {
    /// A function of a module.
    #[default]
    Function,
    /// A source line of a function.
    Line,
    /// An instruction: its address.
    Address,
    /// A module.
    Module,
    /// A thread.
    Thread,
    /// A process.
    Process,
    /// Of waits for locks: the place that waited.
    Waiter,
    /// Of waits for locks: the one that let go of the lock.
    Holder,
    /// A value of the labels of samples that have this key. It is typed once and kept as long as the program runs.
    Label(&'static str),
}

impl Grouping {
    /// The word for one row.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Grouping::Function => "function",
            Grouping::Line => "line",
            Grouping::Address => "address",
            Grouping::Module => "module",
            Grouping::Thread => "thread",
            Grouping::Process => "process",
            Grouping::Waiter => "waiter",
            Grouping::Holder => "holder",
            Grouping::Label(key) => key,
        }
    }

    /// Whether it is of waits for locks alone.
    pub(crate) fn is_of_locks(self) -> bool {
        matches!(self, Grouping::Waiter | Grouping::Holder)
    }

    /// The key of the labels that rows are.
    pub(crate) fn label(self) -> Option<&'static str> {
        match self {
            Grouping::Label(key) => Some(key),
            _ => None,
        }
    }

    /// Whether rows are functions or parts of them.
    pub(crate) fn is_of_code(self) -> bool {
        matches!(self, Grouping::Function | Grouping::Line | Grouping::Address)
    }

    /// Whether a reason for waiting is a row like the others: it is no thread, no process and no module.
    pub(crate) fn has_reasons(self) -> bool {
        self.is_of_code()
    }
}
