//! The heap as people ask for it: which of its blocks count (`heap_blocks`), the part of a recording that a screen is of
//! (`heap_part`), and the table of the places that allocated them (`table`). Nothing is printed here.

pub(crate) mod heap_blocks;
pub(crate) mod heap_part;
pub(crate) mod table;

/// Heading of what is live.
const LIVE: &str = "LIVE";

/// Which blocks count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeapView {
    /// Those that are live at the end.
    LiveAtEnd,
    /// Those that are live at this time, ns since the start.
    LiveAt(u64),
    /// Those that are live at this time, ns, to be compared with those at another one: what is live at both is the same blocks, and so
    /// has no error in the difference.
    LiveAtOneOf(u64, u64),
    /// Those that are live when most is.
    LiveAtPeak,
    /// All that were allocated.
    Allocated,
    /// Those that were allocated from one time on, ns, and are live at another one: at the start and the end where they are none.
    Grown(Option<u64>, Option<u64>),
    /// Those that were allocated in the first half and never freed, of places that go on allocating such blocks.
    Leaks,
    /// Those that were freed within this time, ns.
    Short(u64),
}

impl HeapView {
    /// What a key shows after this.
    #[must_use]
    pub(crate) fn next(self) -> Self {
        match self {
            HeapView::LiveAtEnd => HeapView::LiveAtPeak,
            HeapView::LiveAtPeak => HeapView::Allocated,
            HeapView::Allocated => HeapView::Leaks,
            _ => HeapView::LiveAtEnd,
        }
    }

    /// Title of the weights.
    pub(crate) fn title(self) -> &'static str {
        match self {
            HeapView::LiveAtEnd => "heap, live at the end",
            HeapView::LiveAt(_) | HeapView::LiveAtOneOf(..) => "heap, live at that time",
            HeapView::LiveAtPeak => "heap, live at its peak",
            HeapView::Allocated => "heap, allocated",
            HeapView::Grown(..) => "heap, grown",
            HeapView::Leaks => "heap, not freed",
            HeapView::Short(_) => "heap, short-lived",
        }
    }

    /// The word of such blocks in names of other tools' columns; `None` where all count.
    pub(crate) fn column(self) -> Option<&'static str> {
        match self {
            _ if self.heading() == LIVE => Some("inuse"),
            HeapView::Grown(..) => Some("grown"),
            HeapView::Leaks => Some("unfreed"),
            HeapView::Short(_) => Some("short"),
            _ => None,
        }
    }

    /// Heading of the column of the weights.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            HeapView::LiveAtEnd | HeapView::LiveAt(_) | HeapView::LiveAtOneOf(..) | HeapView::LiveAtPeak => {
                LIVE
            }
            HeapView::Allocated => "ALLOCATED",
            HeapView::Grown(..) => "GROWN",
            HeapView::Leaks => "NOT FREED",
            HeapView::Short(_) => "SHORT-LIVED",
        }
    }
}
