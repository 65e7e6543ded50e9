//! Sets of labels in files: what is written is read, and numbers that do not agree are refused.

use super::demo_profile::Demo;
use super::hostile::{File, label_sets, sample};
use super::written;
use crate::profile::file::chunk::ChunkKind;
use crate::profile::file::reader::read;
use crate::profile::file::rows::schema;

#[test]
fn labels_that_do_not_agree_with_their_sets_are_refused() {
    let problem = |labels, counts: &[u32]| {
        File::with_one_row_each().with(ChunkKind::LabelSets, &label_sets(1, labels, counts)).problem()
    };
    assert!(problem(1, &[2]).contains("a set of 2 labels"));
    assert!(problem(65, &[65]).contains("a set of 65 labels"), "more than a set may have");
    assert!(problem(64, &[u32::MAX]).contains("a set of 4294967295 labels"));
    assert!(problem(3, &[1, 1]).contains("1 labels are in no set"));
    assert!(problem(1 << 17, &[1]).contains("it claims 131072 rows"));
    let keys = schema::LabelSets { key: vec![0, 0], ..label_sets(1, 3, &[3]) };
    let problem = File::with_one_row_each().with(ChunkKind::LabelSets, &keys).problem();
    assert!(problem.contains("column `key` has 2 values for 3 rows"), "{problem}");
    let mut samples = sample();
    (samples.rows, samples.stack, samples.labels) = (3, vec![1], vec![0, 1]);
    let problem = File::with_one_row_each().with(ChunkKind::Samples, &samples).problem();
    assert!(problem.contains("column `labels` has 2 values for 3 rows"), "{problem}");
}

/// A set may have no labels at all, and the same set may be there twice.
#[test]
fn sets_of_any_number_of_labels_are_read() {
    let mut samples = sample();
    (samples.rows, samples.stack, samples.labels) = (3, vec![1], vec![0, 1, 3]);
    let file = File::with_one_row_each()
        .with(ChunkKind::LabelSets, &label_sets(1, 65, &[0, 64, 1]))
        .with(ChunkKind::Samples, &samples)
        .with(ChunkKind::End, &schema::End::default());
    let (profile, integrity) = file.read();
    assert!(integrity.is_complete, "{integrity:?}");
    let labels: Vec<usize> = profile.tables.label_sets().iter().map(|set| set.len()).collect();
    assert_eq!(labels, [1, 0, 64, 1]);
    let sets: Vec<_> = profile.events[0].samples().map(|sample| sample.labels.map(|set| set.0)).collect();
    assert_eq!(sets, [None, Some(0), Some(2)]);
}

/// All of `keys` with one value.
fn labels<'t>(keys: &'t [String], value: &'t str) -> Vec<(&'t str, &'t str)> {
    keys.iter().map(|key| (key.as_str(), value)).collect()
}

#[test]
fn sets_of_labels_past_the_size_of_one_chunk_round_trip_and_long_ones_are_cut() {
    let mut demo = Demo::new(4);
    let keys: Vec<String> = (0..70).map(|key| format!("key {key:02}")).collect();
    for value in 0..1_100 {
        demo.profile.tables.intern_labels(&labels(&keys[..64], &format!("value {value}")));
    }
    assert_eq!(read(written(&demo.profile).as_slice()).unwrap().0, demo.profile);
    let long = demo.profile.tables.intern_labels(&labels(&keys, "long"));
    let (back, _) = read(written(&demo.profile).as_slice()).unwrap();
    let kept: Vec<(&str, &str)> = back.tables.labels(long).collect();
    assert_eq!(kept, labels(&keys[..64], "long"));
}
