//! Readers of a log that is being written: they return the appended records, or an error with the
//! reason.

use super::*;
use crate::disk::DiskCall;
use proptest::prelude::*;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

/// Appended records, with the positions before and behind each.
type Written = Vec<(Position, Position, OwnedRecord)>;

fn append(log: &mut Log, written: &mut Written, bytes: usize) {
    let (before, record) = (log.end(), record(written.len() as u64 + 1, bytes));
    let after = log.append(&record.as_record()).expect("appends");
    written.push((before, after, record));
}

fn all(reader: &LogReader, from: Position) -> Result<Vec<(Position, OwnedRecord)>, ReadError> {
    reader.read_from(from).collect()
}

/// Returns the records that a reader must find from a position on, if the first `committed` are
/// committed.
fn expected(written: &Written, from: Position, committed: usize) -> Vec<(Position, OwnedRecord)> {
    let committed = written[..committed].iter();
    let later_records = committed.filter(|(_, after, _)| *after > from);
    later_records.map(|(_, after, record)| (*after, record.clone())).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Commit(bool),
    Collapse(usize),
    Read(usize),
    Open(usize),
    MarkDurable,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3000_usize).prop_map(Step::Append),
        1 => (30_000..40_000_usize).prop_map(Step::Append),
        4 => any::<bool>().prop_map(Step::Commit),
        1 => any::<usize>().prop_map(Step::Collapse),
        4 => any::<usize>().prop_map(Step::Read),
        2 => any::<usize>().prop_map(Step::Open),
        1 => Just(Step::MarkDurable),
        1 => Just(Step::Reopen),
    ]
}

/// A reader that stays open while the log grows. It must return all committed records, each once,
/// or `Collapsed` if it is too late.
struct OpenReader {
    records: LogRecords,
    next: usize,
}

impl OpenReader {
    /// Reads and checks the new records. Returns false after `Collapsed`.
    fn check_new(&mut self, written: &Written, committed: usize, start: Position) -> bool {
        for found in self.records.by_ref() {
            match found {
                Ok((position, record)) => {
                    let (_, after, expected_record) = &written[self.next];
                    assert_eq!((position, &record), (*after, expected_record));
                    self.next += 1;
                }
                Err(ReadError::Collapsed { start: reported }) => {
                    assert_eq!(reported, start);
                    assert!(written.get(self.next).is_none_or(|next| next.0 < start));
                    return false;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(self.next, committed, "all that was committed");
        true
    }
}

fn run(steps: Vec<Step>) {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    let (mut written, mut committed) = (Written::new(), 0);
    let mut open_readers: Vec<OpenReader> = Vec::new();
    for step in steps {
        match step {
            Step::Append(bytes) => append(&mut log, &mut written, bytes),
            Step::Commit(sync) => {
                log.commit(sync).expect("commits");
                committed = written.len();
            }
            Step::MarkDurable => {
                log.mark_durable().expect("settles");
                committed = written.len();
            }
            Step::Collapse(choice) if committed > 0 => {
                log.collapse(written[choice % committed].0).expect("collapses");
            }
            Step::Collapse(_) => {}
            Step::Read(choice) => {
                let place = written.get(choice % (written.len() + 1));
                let from = place.map_or(log.end(), |place| place.0);
                match all(&log.reader(), from) {
                    Ok(found) => assert_eq!(found, expected(&written, from, committed)),
                    Err(ReadError::Collapsed { start }) => {
                        assert!(from < log.start() && start == log.start());
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Open(choice) if !written.is_empty() => {
                let next = choice % written.len();
                let records = log.reader().read_from(written[next].0);
                if written[next].0 >= log.start() && next <= committed {
                    open_readers.push(OpenReader { records, next });
                }
            }
            Step::Open(_) => {}
            Step::Reopen => {
                log.close().expect("closes");
                committed = written.len();
                open_readers.clear();
                log = open(&disk, SMALL).expect("opens").0;
            }
        }
        let start = log.start();
        open_readers.retain_mut(|reader| reader.check_new(&written, committed, start));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn readers_find_all_committed_records_while_the_log_grows(
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        run(steps);
    }
}

#[test]
fn reader_on_another_thread_finds_every_record_or_a_collapse_error() {
    const RECORDS: u64 = 6_000;
    let disk = memory();
    let settings = LogSettings { spare_worker: SpareWorker::Thread, ..SMALL };
    let (mut log, ..) = open(&disk, settings).expect("begins");
    let done = AtomicBool::new(false);
    let readers: Vec<LogReader> = (0..2).map(|_| log.reader()).collect();
    std::thread::scope(|scope| {
        let follow = |reader: LogReader| {
            let (mut next, mut collapsed) = (1, 0);
            let mut records = reader.read_from(Position(0));
            while next <= RECORDS {
                let last = done.load(Ordering::Acquire);
                match records.next() {
                    Some(Ok((_, found))) => {
                        assert!(found.index == next || collapsed > 0 && found.index > next);
                        assert_eq!(found, record(found.index, (found.index % 700) as usize));
                        next = found.index + 1;
                    }
                    Some(Err(ReadError::Collapsed { start })) => {
                        collapsed += 1;
                        records = reader.read_from(start);
                    }
                    Some(Err(error)) => panic!("{error}"),
                    None => assert!(!last, "the last record was not found"),
                }
            }
        };
        let threads: Vec<_> =
            readers.into_iter().map(|reader| scope.spawn(move || follow(reader))).collect();
        let mut ends = Vec::new();
        for number in 1..=RECORDS {
            let bytes = (number % 700) as usize;
            ends.push(log.append(&record(number, bytes).as_record()).expect("appends"));
            if number % 7 == 0 {
                log.commit(number % 2 == 0).expect("commits");
            }
            if number % 100 == 0 {
                log.collapse(ends[number as usize - 60]).expect("collapses");
            }
        }
        log.commit(true).expect("commits");
        done.store(true, Ordering::Release);
        threads.into_iter().for_each(|thread| thread.join().expect("it found everything"));
    });
}

/// Returns a log of four segments with small records, all committed.
fn log_of_segments() -> (MemoryDisk, Log, Written) {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    let mut written = Written::new();
    while log.segments() < 4 {
        append(&mut log, &mut written, 500);
    }
    log.commit(true).expect("commits");
    (disk, log, written)
}

#[test]
fn reader_error_names_file_and_offset_of_damage() {
    let (disk, log, written) = log_of_segments();
    for (number, (before, after, _)) in written.iter().enumerate().step_by(5) {
        let segment = before.0 / SMALL.segment_bytes;
        if before.0 % SMALL.segment_bytes < 4096 || after.0 / SMALL.segment_bytes != segment {
            continue;
        }
        let (name, at) = (format!("{:016x}.log", segment + 1), before.0 % SMALL.segment_bytes);
        disk.damage(&name, at + 100, |byte| byte ^ 1);
        for from in [Position(0), written[number.saturating_sub(1)].0, *before] {
            let found: Vec<_> = log.reader().read_from(from).collect();
            let (last, good) = found.split_last().expect("an error at least");
            let expected_records = expected(&written, from, number);
            assert!(good.iter().map(|result| result.as_ref().expect("good")).eq(&expected_records));
            match last.as_ref().expect_err("damage") {
                ReadError::Store(StoreError::Corrupt { file, offset, .. }) => {
                    assert_eq!((file, *offset), (&name, at), "from {from:?}");
                }
                other => panic!("{other}"),
            }
        }
        disk.damage(&name, at + 100, |byte| byte ^ 1);
    }
    assert_eq!(all(&log.reader(), Position(0)).expect("mended").len(), written.len());
}

#[test]
fn reader_without_descriptors_fails_and_succeeds_on_retry() {
    let (disk, log, written) = log_of_segments();
    // Before the first segment, and between two.
    for (nth, before) in [(1, false), (2, true)] {
        disk.fail_nth(DiskCall::Open, nth, ErrorKind::WouldBlock);
        let found: Vec<_> = log.reader().read_from(Position(0)).collect();
        let (last, good) = found.split_last().expect("an error at least");
        assert!(matches!(last, Err(ReadError::NoDescriptors)), "{last:?}");
        assert_eq!(!good.is_empty(), before);
        let expected_records = expected(&written, Position(0), good.len());
        assert!(good.iter().map(|result| result.as_ref().expect("good")).eq(&expected_records));
        assert_eq!(all(&log.reader(), Position(0)).expect("reads").len(), written.len());
    }
    disk.fail_nth(DiskCall::Open, 1, ErrorKind::Other);
    let refused = all(&log.reader(), Position(0)).expect_err("another error is none of these");
    assert!(matches!(refused, ReadError::Store(StoreError::Io { .. })), "{refused}");
}

#[test]
fn reader_of_a_collapsed_log_fails_and_reads_no_recycled_file() {
    let (_, mut log, mut written) = log_of_segments();
    let mut at_start = log.reader().read_from(Position(0));
    let mut midway = log.reader().read_from(Position(0));
    assert_eq!(midway.next().expect("a record").expect("good").1, written[0].2);
    let start = Position(3 * SMALL.segment_bytes);
    log.collapse(start).expect("collapses");
    for _ in 0..40 {
        append(&mut log, &mut written, 500);
    }
    log.commit(true).expect("commits");
    for reader in [&mut at_start, &mut midway] {
        match reader.next() {
            Some(Err(ReadError::Collapsed { start: reported })) => assert_eq!(reported, start),
            other => panic!("{other:?}"),
        }
        assert!(reader.next().is_none(), "it has ended");
    }
    let rest = all(&log.reader(), start).expect("what is left");
    assert_eq!(rest, expected(&written, start, written.len()));
}

#[test]
fn position_behind_a_footer_reads_from_the_next_segment() {
    let (disk, mut log, _) = log_of_segments();
    let mut records = log.reader().read_from(log.end());
    disk.fail_nth(DiskCall::Rename, 1, ErrorKind::StorageFull);
    let full = loop {
        match log.append(&record(9, 700).as_record()) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(full, StoreError::Full), "{full}");
    let footer_end = log.end();
    log.commit(true).expect("all of it is durable");
    assert!(records.by_ref().all(|found| found.is_ok()));
    assert!(all(&log.reader(), footer_end).expect("nothing yet").is_empty());
    log.append(&record(10, 700).as_record()).expect("there is room again");
    log.commit(true).expect("commits");
    let found = all(&log.reader(), footer_end).expect("reads");
    assert_eq!(found.into_iter().map(|(_, result)| result.index).collect::<Vec<_>>(), [10]);
    assert_eq!(records.next().expect("goes on").expect("good").1.index, 10);
}

#[test]
fn position_inside_a_record_reads_from_the_next_record() {
    let (_, log, written) = log_of_segments();
    for (number, (before, after, _)) in written.iter().enumerate().take(60) {
        if before.0 / SMALL.segment_bytes < after.0 / SMALL.segment_bytes {
            continue;
        }
        for from in [before.0 + 1, before.0 + 8, after.0 - 8].map(Position) {
            let first = log.reader().read_from(from).next().expect("more").expect("good").1;
            assert_eq!(first, written[number + 1].2, "{from:?}");
        }
    }
}

#[test]
fn uncommitted_records_and_a_dropped_log_are_unreadable() {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    let mut written = Written::new();
    (0..100).for_each(|_| append(&mut log, &mut written, 400));
    let reader = log.reader();
    assert!(all(&reader, Position(0)).expect("reads").is_empty(), "nothing was committed");
    disk.fail_nth(DiskCall::Sync, 1, ErrorKind::Other);
    assert!(log.commit(true).is_err());
    assert!(all(&reader, Position(0)).expect("reads").is_empty(), "the sync failed");
    drop(log);
    let gone = all(&reader, Position(0)).expect_err("the log is gone");
    assert!(matches!(gone, ReadError::Store(StoreError::Closed)), "{gone}");
}
