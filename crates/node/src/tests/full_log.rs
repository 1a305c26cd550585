//! Stop of a node whose log finds no space on the disk.

use base::{Ballot, Error, GroupId, Reason};
use replication::records;
use runtime::log_writer::{AppendCompletion, AppendSink, LogWriterHandle};
use std::io::ErrorKind;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Disk, DiskCall, Honesty, Log, LogSettings, MemoryDisk};

/// Number of writes that find no space: more than are tried while the test runs.
const TRIES: u64 = 100_000;
/// Longest wait, however much else the machine does.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sink that reports the error which ended the writes.
struct Failures(Mutex<Sender<Error>>);

impl AppendSink for Failures {
    fn on_completions(&self, _: &[AppendCompletion]) {
        panic!("nothing can be written");
    }

    fn on_log_failure(&self, error: Error) {
        self.0.lock().expect("one thread").send(error).expect("the test waits");
    }
}

#[test]
fn log_writer_without_disk_space_stops_and_reports_out_of_space() {
    let disk = MemoryDisk::new(Honesty::Honest);
    let files = Arc::new(disk.clone()) as Arc<dyn Disk>;
    let settings = LogSettings { segment_bytes: 16 << 10, log_id: 1, ..LogSettings::default() };
    let (log, _) = Log::open(files, settings).expect("an empty disk");
    (1..=TRIES).for_each(|nth| disk.fail_nth(DiskCall::Write, nth, ErrorKind::StorageFull));
    let (failed, failures) = channel();
    let log_writer = LogWriterHandle::new();
    let mailbox = Arc::new(Failures(Mutex::new(failed)));
    log_writer.start(log, Duration::from_secs(1), mailbox, Arc::default()).expect("a thread");
    log_writer.write([records::promise(GroupId::DEFAULT, Ballot::default(), None)]);
    while !log_writer.waits_for_space() {
        std::thread::yield_now();
    }
    let (ended, ends) = channel();
    let stopping = log_writer.clone();
    std::thread::spawn(move || {
        stopping.stop();
        let _ = ended.send(()); // The test may have given up.
    });
    ends.recv_timeout(PATIENCE).expect("the stop waits for room");
    let error = failures.recv_timeout(PATIENCE).expect("it says why");
    assert_eq!(error.reason, Reason::OutOfSpace);
}
