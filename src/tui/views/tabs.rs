//! The table of the views: one line each, in the order of the tabs. What is known of all views is made of it: [`Tab`] here, the
//! state of the views (`all.rs`), and the digits that open them (`tui/app/key.rs`).

/// Hands the table of the views to the macro `$then`: of each view the tab with its doc comment, the digit that opens it, and the
/// name and type of its state. The name on the tab is that of the tab here.
macro_rules! with_views {
    ($then:ident) => {
        $then! {
            /// Boxes of the call tree.
            Flame '1' flame: crate::tui::views::flame::FlameState,
            /// A table of functions.
            Top '2' top: crate::tui::views::top::TopState,
            /// Callers and callees of one function.
            Callers '3' callers: crate::tui::views::callers::CallersState,
            /// Time on an axis.
            Time '4' time: crate::tui::views::time::state::TimeState,
            /// A table of threads.
            Threads '5' threads: crate::tui::views::threads::ThreadsState,
            /// Source and machine code of one function.
            Source '6' source: crate::tui::views::source::SourceState,
            /// A table of locks.
            Locks '7' locks: crate::tui::views::locks::LocksState,
        }
    };
}

macro_rules! tabs {
    ($($(#[$doc:meta])+ $tab:ident $digit:literal $field:ident: $state:ty,)+) => {
        /// The views, in the order of their tabs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Tab {
            $($(#[$doc])+ $tab,)+
        }

        impl Tab {
            /// All tabs.
            pub(crate) const ALL: &'static [Tab] = &[$(Tab::$tab,)+];

            /// Name on the tab.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Tab::$tab => stringify!($tab),)+
                }
            }

            /// Digit key that opens the view.
            pub(crate) fn digit(self) -> char {
                match self {
                    $(Tab::$tab => $digit,)+
                }
            }
        }
    };
}

with_views!(tabs);

impl Default for Tab {
    fn default() -> Self {
        Tab::ALL[0]
    }
}

pub(crate) use with_views;
