//! The state of all views, a field each, and the view of a tab.

use super::tabs::{Tab, with_views};
use crate::tui::views::view::View;

macro_rules! views {
    ($($(#[$doc:meta])+ $tab:ident $digit:literal $field:ident: $state:ty,)+) => {
        /// The state of all views.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct Views {
            $($(#[$doc])+ pub(crate) $field: $state,)+
        }

        impl Views {
            /// The view of a tab.
            pub(crate) fn of(&self, tab: Tab) -> &dyn View {
                match tab {
                    $(Tab::$tab => &self.$field,)+
                }
            }

            /// The view of a tab, to be changed.
            pub(crate) fn of_mut(&mut self, tab: Tab) -> &mut dyn View {
                match tab {
                    $(Tab::$tab => &mut self.$field,)+
                }
            }
        }
    };
}

with_views!(views);
