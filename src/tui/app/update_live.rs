//! How actions change a live recording and what is shown of it. Does no drawing and no I/O.

use super::action::{Action, Effect, LiveCommand};
use super::context::{Context, LiveState, NO_PICTURE};
use crate::report::Seen;
use crate::tui::compute::picture::Picture;
use std::sync::Arc;

impl Context {
    pub(super) fn live_action(&mut self, action: &Action) {
        if self.live.is_some() && *action == Action::Save {
            return self.save();
        }
        if self.live.is_some() && *action == Action::NextWindow {
            return self.next_window();
        }
        if !self.is_live() {
            return;
        }
        if *action == Action::Clear {
            let start_ns = self.picture.as_ref().map(|picture| picture.recording.profile.meta.start_mono_ns);
            if let Some(live) = &mut self.live {
                live.cleared_start_ns = start_ns;
            }
            self.effects.push(Effect::Live(LiveCommand::Clear));
            let is_frozen = self.live.as_ref().is_some_and(|live| live.is_frozen);
            return self.show_message(if is_frozen {
                "cleared; Space shows what is recorded from now on"
            } else {
                "cleared; counting from now on"
            });
        }
        if *action == Action::Freeze {
            return self.freeze();
        }
        let Some(live) = &mut self.live else { return };
        let at = LiveState::REFRESHES.iter().position(|refresh| *refresh == live.refresh).unwrap_or(0);
        let next = if *action == Action::Faster { at.checked_sub(1) } else { Some(at + 1) };
        let Some(refresh) = next.and_then(|next| LiveState::REFRESHES.get(next)).copied() else {
            let seconds = live.refresh.as_secs_f64();
            let end = if *action == Action::Faster { "fastest" } else { "slowest" };
            return self.show_message(format!("a new picture every {seconds:.2} s is the {end}"));
        };
        live.refresh = refresh;
        self.effects.push(Effect::Live(LiveCommand::Refresh(refresh)));
        self.show_message(format!("a new picture every {:.2} s", refresh.as_secs_f64()));
    }

    /// Saves the recording of the picture. One without samples, as right after a clearing, is not saved: its file would
    /// take the place of one that has some.
    fn save(&mut self) {
        let Some(picture) = &self.picture else { return self.show_message(NO_PICTURE) };
        let is_frozen = self.live.as_ref().is_some_and(|live| live.is_frozen);
        if picture.whole_recording().profile.events.iter().all(|event| event.observations() == 0) {
            let yet = if self.is_live() && !is_frozen { " yet" } else { "" };
            return self.show_message(format!("not saved: there are no samples{yet}"));
        }
        let seen = Seen(Arc::clone(picture.whole_recording()));
        self.effects.push(Effect::Live(LiveCommand::Save(seen)));
        self.show_message(if is_frozen { "saving the frozen picture…" } else { "saving…" });
    }

    /// Freezes the picture, so that all further queries are answered from its recording; or resumes with the newest
    /// snapshot.
    fn freeze(&mut self) {
        let Some(live) = &mut self.live else { return };
        if std::mem::take(&mut live.is_frozen) {
            return self.effects.push(Effect::Resume);
        }
        let Some(picture) = &self.picture else { return self.show_message(NO_PICTURE) };
        live.is_frozen = true;
        self.effects.push(Effect::Hold(Seen(Arc::clone(picture.whole_recording()))));
        if picture.query != self.query {
            // The pending query may be answered from a newer snapshot.
            self.effects.push(Effect::Ask);
        }
    }

    /// Whether a picture is from a newer snapshot than the frozen one.
    pub(crate) fn holds_back(&self, picture: &Picture) -> bool {
        let is_frozen = self.live.as_ref().is_some_and(|live| live.is_frozen);
        let seen = self.picture.as_ref().map(|seen| seen.whole_recording());
        is_frozen && seen.is_some_and(|seen| !Arc::ptr_eq(seen, picture.whole_recording()))
    }

    fn next_window(&mut self) {
        if !self.query.common.filter.time.is_everything() {
            return self.show_message("a time range is chosen; clear it with 0 in Time to use w");
        }
        self.ask(|query| query.window = query.window.next());
        self.show_message(format!("window: {}", self.query.window.words()));
    }
}
