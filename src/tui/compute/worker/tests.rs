//! How the worker handles a recording that grows and one that is frozen.

use crate::report::tests::fixture::{Build, ingest};
use crate::report::{
    Analysis, CommonOptions, Direction, ExportFormat, ExportJob, ExportShape, LabelKey, ReportView, Seen,
    SortKey, StackFilter,
};
use crate::tui::app::query::Query;
use crate::tui::compute::export::{ExportOf, ScreenExport};
use crate::tui::compute::picture::Picture;
use crate::tui::compute::worker::{Done, Exported, Job, Worker};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Longer than computing any test picture takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn next(worker: &Worker) -> Arc<Picture> {
    match worker.done().recv_timeout(LONG).unwrap() {
        Done::Picture(picture) => picture,
        other => panic!("no picture: {other:?}"),
    }
}

fn turned() -> Query {
    Query { direction: Direction::BottomUp, ..Query::new(CommonOptions::default()) }
}

#[test]
fn what_is_held_is_asked_and_nothing_newer() {
    let (first, newer): (Arc<Analysis>, Arc<Analysis>) = (Arc::new(ingest()), Arc::new(ingest()));
    let worker = Worker::start().unwrap();
    worker.ask(Job::Query(Box::new(Query::new(CommonOptions::default()))));
    worker.ask(Job::Recording(Arc::clone(&first)));
    assert!(Arc::ptr_eq(&next(&worker).recording, &first));
    // The worker is pausing for its CPU budget; the newer snapshot has arrived when the screen is frozen.
    worker.ask(Job::Recording(Arc::clone(&newer)));
    worker.ask(Job::Hold(Arc::clone(&first)));
    worker.ask(Job::Query(Box::new(turned())));
    loop {
        let picture = next(&worker);
        if picture.query == turned() {
            assert!(Arc::ptr_eq(&picture.recording, &first));
            break;
        }
    }
    worker.ask(Job::Recording(Arc::clone(&newer)));
    assert!(Arc::ptr_eq(&next(&worker).recording, &newer));
}

#[test]
fn what_is_asked_for_by_its_address_is_there_in_the_first_picture_that_has_its_name() {
    let recording = |has_names: bool| {
        let mut build = Build::new();
        if has_names {
            build.name("/l.so:+0x10", "call");
        }
        let task = build.task(1, 1, "t", "t");
        build.add(task, 9, &["/x:main", "/l.so:+0x10"]);
        build.add(task, 5, &["/x:main", "/x:beside"]);
        Arc::new(build.finish())
    };
    let key = LabelKey::Address { module: "/l.so".into(), address: 0x10 };
    let mut query = Query { pivot: Some(key.clone()), ..Query::new(CommonOptions::default()) };
    query.common.filter.stacks.push(StackFilter::Focus(key));
    let worker = Worker::start().unwrap();
    worker.ask(Job::Query(Box::new(query)));
    worker.ask(Job::Recording(recording(false)));
    assert_eq!(next(&worker).total.samples, 9);
    for _ in 0..2 {
        worker.ask(Job::Recording(recording(true)));
        let named = next(&worker);
        assert_eq!(named.total.samples, 9);
        let pivot = named.pivot.as_ref().expect("it is in the middle");
        assert_eq!(named.labels.get(pivot.sandwich.label).name, "call");
    }
}

#[test]
fn an_export_is_of_the_recording_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let long = ingest().changed(|recording| {
        recording.profile.meta.target_name = "the one that is shown".into();
    });
    let worker = Worker::start().unwrap();
    worker.ask(Job::Query(Box::new(Query::new(CommonOptions::default()))));
    worker.ask(Job::Recording(Arc::new(ingest())));
    next(&worker);
    let job = ExportJob {
        common: CommonOptions::default(),
        shape: ExportShape::Format(ExportFormat::SVG),
        view: ReportView::Flat,
        sort: SortKey::default(),
    };
    let of = ExportOf::Recording(Box::new(job), Seen(Arc::new(long)));
    let job = ScreenExport { of, stem: folder.path().join("prof") };
    worker.ask(Job::Export(Box::new(job), "all".into()));
    let Done::Exported(Ok(Exported { path, .. })) = worker.done().recv_timeout(LONG).unwrap() else {
        panic!("no file")
    };
    assert!(std::fs::read_to_string(path).unwrap().contains("the one that is shown"));
}

#[test]
fn the_worker_ends_with_its_handle() {
    let worker = Worker::start().unwrap();
    let done = worker.done().clone();
    drop(worker);
    assert!(matches!(done.recv_timeout(LONG).unwrap(), Done::Ended));
}

#[test]
fn what_a_file_lacks_is_said_with_its_name() {
    let exported = Exported {
        path: PathBuf::from("/tmp/prof-1.svg"),
        what: "all stacks".into(),
        notes: vec!["stacks are cut at 3 frames".into(), "2 names cut".into()],
    };
    let words = "wrote /tmp/prof-1.svg: all stacks; note: stacks are cut at 3 frames; note: 2 names cut";
    assert_eq!(exported.words(), words);
}
