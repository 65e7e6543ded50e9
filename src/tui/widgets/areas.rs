//! Layout of the screen.

use ratatui::layout::Rect;

/// The smallest screen that can be drawn on, columns and rows.
pub(crate) const SMALLEST: (u16, u16) = (40, 10);

/// Least number of rows for all areas, without the key hints, and without the second line of details.
const ROWS: [u16; 3] = [16, 14, 12];

/// The parts of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Areas {
    /// Line on what was recorded.
    pub(crate) header: Rect,
    /// The views.
    pub(crate) tabs: Option<Rect>,
    /// The open view.
    pub(crate) body: Rect,
    /// A line.
    pub(crate) rule: Rect,
    /// Details of what is selected.
    pub(crate) details: Rect,
    /// The keys.
    pub(crate) keys: Option<Rect>,
}

impl Areas {
    /// The parts of `screen`; `None` when it is too small. The line of keys goes first, then the second line of details,
    /// then the tabs.
    pub(crate) fn of(screen: Rect) -> Option<Self> {
        if screen.width < SMALLEST.0 || screen.height < SMALLEST.1 {
            return None;
        }
        let has = |limit: u16| u16::from(screen.height >= limit);
        let [keys, second, tabs] = ROWS.map(has);
        let row = |y: u16, height: u16| Rect { y: screen.y + y, height, ..screen };
        let below = 2 + second + keys;
        let body = screen.height - 1 - tabs - below;
        let rule = 1 + tabs + body;
        Some(Areas {
            header: row(0, 1),
            tabs: (tabs > 0).then(|| row(1, 1)),
            body: row(1 + tabs, body),
            rule: row(rule, 1),
            details: row(rule + 1, 1 + second),
            keys: (keys > 0).then(|| row(screen.height - 1, 1)),
        })
    }
}
