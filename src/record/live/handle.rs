//! A handle to a live recording, for those that watch it.

use super::events::{INTERVALS, LiveEvent};
use super::recorder::{self, LiveStart};
use crate::base::mailbox::{MailReceiver, mailbox};
use crate::base::privilege;
use crate::record::kernel::load::failure::read_loader_messages;
use crate::record::live::archive::Archive;
use crate::record::live::control::Control;
use crate::record::live::keeper::Keeper;
use crate::record::live::message::{LiveRequest, Message};
use crate::record::live::names_for::names_for;
use crate::record::options::{RecordOptions, Target};
use crate::record::services;
use crate::record::target::search;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A running recording. Dropping it ends it.
#[derive(Debug)]
pub struct Live {
    pub(super) events: MailReceiver<LiveEvent>,
    pub(super) control: Arc<Control>,
    pub(super) sender: Sender<Message>,
    threads: Vec<JoinHandle<()>>,
}

impl Live {
    /// Attaches to the target and begins to record. A launched command neither reads from the terminal nor writes to
    /// it.
    ///
    /// # Errors
    ///
    /// The same as for `prof record`; nothing was started then.
    pub(crate) fn start(options: RecordOptions, command_line: Vec<String>) -> anyhow::Result<Live> {
        read_loader_messages(false);
        let found = search::find(&options)?;
        let launches = matches!(options.target, Target::Launch(_));
        let control = Arc::new(Control::default());
        let (sender, receiver) = channel();
        let (attached_sender, attached_receiver) = channel();
        let cache = services::start_opener(&options.output, &options, &found.pids, None)?;
        let recorder = {
            let (control, sender) = (Arc::clone(&control), sender.clone());
            std::thread::Builder::new().name("prof-recorder".to_owned()).spawn(move || {
                let start = LiveStart { options: &options, found: &found, cache, command_line };
                recorder::run(start, &control, &attached_sender, &sender);
            })?
        };
        let attached = match attached_receiver.recv() {
            Ok(attached) => attached,
            Err(_) => Err(anyhow::anyhow!("the recording thread has failed")),
        };
        let attached = match attached {
            Ok(attached) => attached,
            Err(error) => {
                // The recorder ends by itself.
                let _ = recorder.join();
                return Err(if launches { crate::record::failures::before_start(error) } else { error });
            }
        };
        let (event_sender, events) = mailbox();
        for notice in &attached.notices {
            event_sender.send(LiveEvent::Notice(notice.clone()));
        }
        let names = names_for(&sender);
        let archive = Archive::new(attached.meta.clone(), attached.events.clone(), names);
        let keeper = Keeper::new(
            archive,
            event_sender,
            Arc::clone(&control),
            sender.clone(),
            attached.meta.effective_hz,
        );
        let keeper = std::thread::Builder::new().name("prof-keeper".to_owned()).spawn(move || {
            crate::base::privilege::keep_watching_or_end();
            keeper.run(&receiver);
        });
        let mut live = Live { events, control, sender, threads: vec![recorder] };
        // Without a keeper, dropping `live` ends the recorder.
        live.threads.push(keeper?);
        // The viewer has no need to look into processes.
        privilege::keep_own_files()?;
        Ok(live)
    }

    /// The events of the recording.
    pub fn events(&self) -> MailReceiver<LiveEvent> {
        self.events.clone()
    }

    /// Sets the interval between snapshots, limited to `INTERVALS`.
    pub fn set_interval(&self, interval: Duration) {
        self.ask(LiveRequest::Interval(interval.clamp(INTERVALS.0, INTERVALS.1)));
    }

    /// Forgets everything seen so far; times count from now on.
    pub fn clear(&self) {
        self.ask(LiveRequest::Clear);
    }

    /// Ends the recording as the end of its target would. What was seen stays, and can be saved.
    pub fn stop(&self) {
        self.control.stop.store(true, Ordering::Relaxed);
    }

    fn ask(&self, request: LiveRequest) {
        // The keeper only ends with `self`, or by a panic that its thread has reported.
        let _ = self.sender.send(Message::Ask(request));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.control.abandon.store(true, Ordering::Relaxed);
        self.ask(LiveRequest::Quit);
        for thread in self.threads.drain(..) {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}
