//! The names in snapshots.

use crate::record::live::message::Message;
use crate::record::names::lookup::Names;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// Makes a name lookup whose answers go to the keeper.
pub(super) fn names_for(keeper: &Sender<Message>) -> Names {
    let keeper = Mutex::new(keeper.clone());
    Names::to_be_shown(Arc::new(move |answer| {
        // The keeper may be gone, and with it the need for names.
        let _ = keeper.lock().unwrap_or_else(PoisonError::into_inner).send(Message::Named(answer));
    }))
}
