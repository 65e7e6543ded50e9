use super::super::sideband::CodeMapping;
use super::*;

/// Rings that a test fills.
struct Filled {
    sideband: Arc<Mutex<Vec<(u64, Sideband)>>>,
    bell: Arc<OwnedFd>,
}

impl RingSource for Filled {
    fn watch(&self, add: &mut dyn FnMut(BorrowedFd<'_>, Wakes) -> io::Result<()>) -> io::Result<()> {
        add(self.bell.as_fd(), Wakes::Sideband)
    }

    fn take_sideband(&mut self, batch: &mut Batch) {
        silence(&self.bell);
        batch.sideband.append(&mut self.sideband.lock().expect("no test panics in it"));
    }

    fn exchange(&mut self, _cpu: u32, _new: Option<SidebandRing>, _batch: &mut Batch) {}

    fn take_all(&mut self, _batch: &mut Batch) -> io::Result<f64> {
        Ok(0.0)
    }
}

/// A thread that empties rings, and what fills them.
struct Filling {
    drain: Drain,
    sideband: Arc<Mutex<Vec<(u64, Sideband)>>>,
    bell: Arc<OwnedFd>,
}

impl Filling {
    fn start(settling: Duration) -> Self {
        let bell =
            Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("there is room"));
        let sideband = Arc::default();
        let rings = Filled { sideband: Arc::clone(&sideband), bell: Arc::clone(&bell) };
        let drain = Drain::start(Box::new(rings), Arc::new(Stopper::new(None)), settling).expect("it starts");
        Filling { drain, sideband, bell }
    }

    /// Has this happen. Returns the batch that it comes in.
    fn happens(&self, records: &[Sideband]) -> Batch {
        self.sideband
            .lock()
            .expect("no test panics in it")
            .extend(records.iter().cloned().map(|record| (7, record)));
        ring(&self.bell);
        loop {
            let wakeup = PollFd::from_borrowed_fd(self.drain.wakeup(), PollFlags::IN);
            wait_for(&mut [wakeup], Duration::from_secs(10)).expect("it can be waited for");
            let batches = self.drain.received().expect("the thread goes on");
            if let Some(batch) = batches.into_iter().find(|batch| !batch.sideband.is_empty()) {
                return batch;
            }
        }
    }
}

#[test]
fn what_needs_no_table_waits_for_the_samples_where_these_are_rare() {
    let filling = Filling::start(Duration::from_millis(5));
    let ended = Sideband::Exited { pid: 7 };
    let mapped = Sideband::Mapped { pid: 8, mapping: CodeMapping::default() };
    let mut is_prompt = [false; 2];
    for _ in 0..5 {
        let batch = filling.happens(std::slice::from_ref(&ended));
        assert!(batch.known_until_ns.is_some(), "it came for itself");
        assert_eq!(batch.sideband, [(7, ended.clone())]);
        let batch = filling.happens(&[ended.clone(), mapped.clone()]);
        assert_eq!(batch.sideband, [(7, ended.clone()), (7, mapped.clone())]);
        // Unless the rings were to be emptied just then.
        is_prompt[0] |= batch.known_until_ns.is_none();
        let batch = filling.happens(&[Sideband::Lost(3)]);
        is_prompt[1] |= batch.known_until_ns.is_none();
    }
    assert_eq!(is_prompt, [true; 2], "mappings, or what was lost, waited for the samples");
    let many = vec![ended; MOST_HELD];
    let batch = filling.happens(&many);
    assert_eq!(batch.sideband.len(), many.len());
}

#[test]
fn where_samples_are_many_nothing_waits() {
    let filling = Filling::start(Duration::ZERO);
    let is_prompt = |_| filling.happens(&[Sideband::Exited { pid: 7 }]).known_until_ns.is_none();
    assert!((0..10).any(is_prompt), "an end waited for the samples each time");
}
