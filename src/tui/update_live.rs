//! What actions do to a live recording and to what is seen of it. Draws nothing, reads nothing, writes nothing.

use super::action::{Action, Effect, LiveCommand, Seen};
use super::app::{App, Live};
use std::sync::Arc;

impl App {
    pub(super) fn live_action(&mut self, action: &Action) {
        if self.live.is_some() && *action == Action::Save {
            let Some(picture) = &self.picture else { return self.tell("there is no picture yet") };
            let seen = Seen(Arc::clone(&picture.recording));
            self.effects.push(Effect::Live(LiveCommand::Save(seen)));
            let is_frozen = self.live.as_ref().is_some_and(|live| live.is_frozen);
            return self.tell(if is_frozen { "saving what is frozen…" } else { "saving…" });
        }
        if self.live.is_some() && *action == Action::NextWindow {
            return self.next_window();
        }
        if !self.is_live() {
            return;
        }
        match action {
            Action::Clear => {
                self.effects.push(Effect::Live(LiveCommand::Clear));
                let is_frozen = self.live.as_ref().is_some_and(|live| live.is_frozen);
                return self.tell(if is_frozen {
                    "cleared: Space shows what comes from now on"
                } else {
                    "cleared: what comes from now on counts"
                });
            }
            _ => {}
        }
        let Some(live) = &mut self.live else { return };
        if *action == Action::Freeze {
            live.is_frozen = !live.is_frozen;
            return;
        }
        let at = Live::REFRESHES.iter().position(|refresh| *refresh == live.refresh).unwrap_or(0);
        let next = if *action == Action::Faster { at.checked_sub(1) } else { Some(at + 1) };
        let Some(refresh) = next.and_then(|next| Live::REFRESHES.get(next)).copied() else {
            let seconds = live.refresh.as_secs_f64();
            let end = if *action == Action::Faster { "more" } else { "less" };
            return self.tell(format!("a new picture every {seconds:.2} s: not {end} often"));
        };
        live.refresh = refresh;
        self.effects.push(Effect::Live(LiveCommand::Refresh(refresh)));
        self.tell(format!("a new picture every {:.2} s", refresh.as_secs_f64()));
    }

    fn next_window(&mut self) {
        if !self.query.common.filter.time.is_everything() {
            return self.tell("a range of time is chosen: 0 in Time clears it, then w has a meaning");
        }
        self.ask(|query| query.window = query.window.next());
        self.tell(format!("window: {}", self.query.window.words()));
    }
}
