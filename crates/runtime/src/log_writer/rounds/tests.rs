//! Tests of rounds: which records share a commit, and their order.

use super::*;
use crate::log_writer::LARGE_RECORD_BYTES;
use base::{Ballot, Error, GroupId, LogIndex};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Mutex;
use store::{Disk, DiskCall, Honesty, LogSettings, MemoryDisk, RecordKind, SpareWorker};

const SMALL: usize = 100;
const LARGE: usize = LARGE_RECORD_BYTES;

/// Group and index of a record.
type RecordId = (u32, u64);

/// Sink that keeps the records of each commit.
#[derive(Default)]
struct Commits(Mutex<Vec<Vec<RecordId>>>);

impl Commits {
    fn take(&self) -> Vec<Vec<RecordId>> {
        std::mem::take(&mut *self.0.lock().expect("one thread"))
    }
}

impl AppendSink for Commits {
    fn on_completions(&self, completions: &[AppendCompletion]) {
        let ids = completions.iter().map(|done| (done.group.0, done.index.0)).collect();
        self.0.lock().expect("one thread").push(ids);
    }

    fn on_log_failure(&self, error: Error) {
        panic!("{error}");
    }
}

fn append((group, index): RecordId, bytes: usize) -> Append {
    Append {
        kind: RecordKind::Accept,
        group: GroupId(group),
        ballot: Ballot::default(),
        index: LogIndex(index),
        decided: LogIndex(0),
        payload: Bytes::from(vec![0; bytes]),
        sync: true,
    }
}

fn writer() -> (MemoryDisk, Arc<LogWriterHandle>, LogWriter) {
    let disk = MemoryDisk::new(Honesty::Honest);
    let settings =
        LogSettings { segment_bytes: 8 << 20, log_id: 1, spare_worker: SpareWorker::Inline };
    let files = Arc::new(disk.clone()) as Arc<dyn Disk>;
    let (log, _) = Log::open(files, settings).expect("an empty disk");
    let handle = LogWriterHandle::new();
    let metrics = Arc::new(Metrics::default());
    let writer = LogWriter::new(log, handle.clone(), metrics, Duration::from_secs(1));
    (disk, handle, writer)
}

fn submit(handle: &LogWriterHandle, records: &[(RecordId, usize)]) {
    handle.write(records.iter().map(|(id, bytes)| append(*id, *bytes)));
}

/// Takes steps until no work is left.
fn settle(writer: &mut LogWriter, commits: &Commits) {
    while !matches!(writer.step(commits).expect("a disk without faults"), WriterStep::Idle(_)) {}
}

/// Takes steps until the next commit is reported. Returns its records.
fn next_commit(writer: &mut LogWriter, commits: &Commits) -> Vec<RecordId> {
    loop {
        writer.step(commits).expect("a disk without faults");
        if let Some(commit) = commits.take().pop() {
            return commit;
        }
    }
}

#[test]
fn small_records_of_other_groups_commit_before_a_large_one() {
    let (_, handle, mut writer) = writer();
    let commits = Commits::default();
    let records = [
        ((1, 1), SMALL),
        ((1, 2), LARGE),
        ((2, 1), SMALL),
        ((1, 3), SMALL),
        ((3, 1), LARGE - 1),
        ((2, 2), LARGE),
        ((2, 3), SMALL),
    ];
    submit(&handle, &records);
    settle(&mut writer, &commits);
    let expected = vec![vec![(1, 1), (2, 1), (3, 1)], vec![(1, 2), (1, 3)], vec![(2, 2), (2, 3)]];
    assert_eq!(commits.take(), expected);
}

#[test]
fn records_of_one_size_share_a_commit() {
    for bytes in [SMALL, LARGE] {
        let (_, handle, mut writer) = writer();
        let commits = Commits::default();
        let ids = [(1, 1), (2, 1), (1, 2), (3, 1)];
        submit(&handle, &ids.map(|id| (id, bytes)));
        settle(&mut writer, &commits);
        assert_eq!(commits.take(), [ids.to_vec()]);
    }
}

#[test]
fn large_record_waits_for_one_commit_of_small_ones_under_a_stream() {
    let (_, handle, mut writer) = writer();
    let commits = Commits::default();
    let mut number = 0;
    let mut stream = || {
        number += 1;
        submit(&handle, &[((9, number), SMALL)]);
        (9, number)
    };
    submit(&handle, &[((1, 1), LARGE), ((2, 1), LARGE)]);
    let first = stream();
    assert_eq!(next_commit(&mut writer, &commits), [first]);
    let second = stream();
    // The small one shares the commit of the large one, which is next anyway.
    assert_eq!(next_commit(&mut writer, &commits)[0], (1, 1));
    let third = stream();
    let commit = next_commit(&mut writer, &commits);
    assert!(commit.ends_with(&[third]) && !commit.contains(&(2, 1)), "{commit:?} of {second:?}");
    stream();
    assert!(next_commit(&mut writer, &commits).contains(&(2, 1)));
}

#[test]
fn truncation_and_stop_wait_for_all_records_before_them() {
    let (_, handle, mut writer) = writer();
    let commits = Commits::default();
    submit(&handle, &[((1, 1), LARGE), ((2, 1), SMALL), ((3, 1), LARGE), ((2, 2), SMALL)]);
    handle.collapse(Position(0));
    let mut late = 0;
    while writer.phase != WriterPhase::Collapse {
        // Records that are submitted later do not join: the truncation would wait for ever.
        late += 1;
        submit(&handle, &[((4, late), SMALL)]);
        writer.step(&commits).expect("a disk without faults");
        assert!(late < 100, "the truncation never comes");
    }
    let mut written = commits.take().concat();
    written.retain(|(group, _)| *group != 4);
    written.sort_unstable();
    assert_eq!(written, [(1, 1), (2, 1), (2, 2), (3, 1)]);
    assert!(writer.unwritten().is_empty());
    submit(&handle, &[((1, 2), LARGE), ((2, 3), SMALL)]);
    handle.queue().stopping = true;
    while writer.step(&commits).expect("a disk without faults") != WriterStep::Stopped {}
    let written = commits.take().concat();
    assert!(written.contains(&(1, 2)) && written.contains(&(2, 3)));
}

#[test]
fn full_disk_keeps_the_choice_of_records() {
    let (disk, handle, mut writer) = writer();
    let commits = Commits::default();
    let records = [((1, 1), LARGE), ((2, 1), SMALL), ((1, 2), SMALL), ((2, 2), SMALL)];
    submit(&handle, &records);
    let mut fulls = 0;
    disk.fail_nth(DiskCall::Write, 1, ErrorKind::StorageFull);
    loop {
        match writer.step(&commits).expect("only a full disk") {
            WriterStep::Full => {
                fulls += 1;
                // Those that come meanwhile do not change the choice.
                submit(&handle, &[((3, 1), LARGE)]);
                assert!(commits.take().is_empty());
            }
            WriterStep::Idle(_) => break,
            WriterStep::Progress | WriterStep::Stopped => {}
        }
    }
    assert_eq!(fulls, 1);
    assert_eq!(commits.take(), [vec![(2, 1), (2, 2)], vec![(1, 1), (1, 2)], vec![(3, 1)]]);
}

/// Random records of a few groups, submitted at any step.
#[test]
fn records_of_each_group_are_written_in_order_of_submission() {
    let mut random = 7_u64;
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (random >> 33) % limit
    };
    for round in 0..40 {
        let (_, handle, mut writer) = writer();
        let commits = Commits::default();
        let mut submitted: BTreeMap<u32, u64> = BTreeMap::new();
        for _ in 0..30 {
            for _ in 0..below(4) {
                let group = below(4) as u32;
                let index = submitted.entry(group).or_default();
                *index += 1;
                let bytes = if below(4) == 0 { LARGE } else { SMALL };
                submit(&handle, &[((group, *index), bytes)]);
            }
            (0..below(6)).for_each(|_| drop(writer.step(&commits)));
        }
        settle(&mut writer, &commits);
        let mut written: BTreeMap<u32, u64> = BTreeMap::new();
        for (group, index) in commits.take().concat() {
            let last = written.entry(group).or_default();
            assert_eq!(index, *last + 1, "round {round}: group {group}");
            *last = index;
        }
        assert_eq!(written, submitted, "round {round}");
    }
}
