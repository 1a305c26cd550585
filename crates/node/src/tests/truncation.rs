//! The log is truncated no further than its groups have processed it: log writer, maintenance and
//! driver, one step at a time.

use crate::assembly::{RecoveredParts, assemble};
use crate::cluster::OwnIncarnations;
use crate::startup::LogCompletions;
use crate::{Node, NodeSettings};
use base::codec::Writer as _;
use base::mutants::MutantList as _;
use base::request::Expiry;
use base::{
    Ballot, Body, BucketId, ClusterDescription, ConfigurationId, GroupId, Key, LogIndex, NodeId,
    Properties, Read, Result, Update,
};
use bytes::Bytes;
use logic::consensus::{Body as Said, Message};
use replica_host::Groups;
use replica_host::flush::{self, Flush};
use replica_host::recovery::{RepairedEntries, ReplayContext, context, replay};
use replication::bucket::Bucket;
use replication::group::Group;
use replication::read;
use runtime::log_writer::{self, LogWriter};
use runtime::mutants::Mutant;
use runtime::submit::Ticket;
use runtime::world;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use store::{
    Disk, DiskCall, Honesty, Log, LogSettings, MemoryDisk, MemoryTrees, SpareWorker, Trees,
};

/// A sole node on a disk in memory, which does nothing by itself.
pub(crate) struct Sole {
    disk: MemoryDisk,
    trees: Arc<MemoryTrees>,
    pub node: Node,
    pub group: Arc<Group>,
    pub post: LogCompletions,
}

/// The bucket and key of a value.
pub(super) fn place(n: usize) -> (Bucket, Key) {
    let bucket = Bucket::new(BucketId(9), GroupId::DEFAULT, Properties::default());
    (bucket, Bytes::from(format!("k{n}")))
}

fn settings() -> LogSettings {
    LogSettings { segment_bytes: 16 << 10, log_id: 1, spare_worker: SpareWorker::Inline }
}

impl Sole {
    pub(crate) fn new() -> (Sole, LogWriter) {
        Sole::with_context(&context(NodeId(1), 600, None).expect("terms"))
    }

    /// Creates the node with other members of its groups, or another lease.
    pub(super) fn with_context(context: &ReplayContext) -> (Sole, LogWriter) {
        let disk = MemoryDisk::new(Honesty::Honest);
        let trees = Arc::new(MemoryTrees::new(256 << 20));
        let shared: Arc<dyn Trees> = trees.clone();
        let files = Arc::new(disk.clone()) as Arc<dyn Disk>;
        let (log, records) = Log::open(files, settings()).expect("an empty disk");
        let (groups, vnodes) =
            replay(&log, records, &*shared, context, &RepairedEntries::default())
                .expect("an empty log");
        let parts = RecoveredParts {
            started_ms: world::milliseconds(),
            node: NodeId(1),
            data: None,
            incarnations: OwnIncarnations { incarnation: 1, known: Vec::new() },
            description: ClusterDescription::default(),
            trees: shared,
            reader: log.reader(),
            groups,
            is_witness: false,
            vnodes,
        };
        let node = assemble(NodeSettings::default(), parts).expect("it begins");
        let (log_writer, metrics) =
            (node.housekeeper.disk.log_writer.clone(), node.router.metrics.clone());
        let writer = LogWriter::new(log, log_writer, metrics, Duration::from_secs(1));
        let group = node.router.locator.groups.find(GroupId::DEFAULT).expect("it is there");
        let sole = Sole { disk, trees, post: LogCompletions::of(&node), group, node };
        (sole, writer)
    }

    /// Makes the node master of its groups.
    pub(super) fn begin(&self, writer: &mut LogWriter) {
        self.node.router.locator.groups.all().iter().for_each(|group| group.begin());
        self.settle(writer);
        assert!(self.group.leadership.is_master(), "alone it is master");
    }

    pub(super) fn turn(&self) {
        for group in self.node.router.locator.groups.all() {
            group.turn(false).expect("a turn");
        }
    }

    /// Runs drivers and log writer until no work is left.
    pub(super) fn settle(&self, writer: &mut LogWriter) {
        loop {
            self.turn();
            if matches!(self.write(writer), log_writer::WriterStep::Idle(_)) {
                return;
            }
            while !matches!(self.write(writer), log_writer::WriterStep::Idle(_)) {}
        }
    }

    pub(super) fn write(&self, writer: &mut LogWriter) -> log_writer::WriterStep {
        writer.step(&self.post).expect("a disk without faults")
    }

    /// Hands in a value of about five thousand bytes.
    pub(super) fn submit(&self, n: usize) -> Ticket {
        let (bucket, key) = place(n);
        let value = Bytes::from(vec![n as u8; 5_000]);
        let update = Update::Set { key, value, expiry: Expiry::Default };
        let (ticket, _, outcome) = self.group.submit(&bucket, &update, None).expect("taken");
        outcome.expect("a set");
        ticket.expect("a set is a value")
    }

    /// Submits a value and proposes it: its record is with the log writer.
    fn put(&self, n: usize) -> Ticket {
        let ticket = self.submit(n);
        self.turn();
        ticket
    }

    /// Reads the row of a value: true if it is there, and the index that the answer names.
    pub(super) fn read(&self, n: usize) -> (bool, LogIndex) {
        let (bucket, key) = place(n);
        let reply = read::read(&self.group, &bucket, &Read::Get(key)).expect("memory");
        (matches!(reply.body, Body::Row(Some(_))), reply.index)
    }

    /// Returns the indexes of so many values that are decided with the next turn.
    pub(super) fn decided(&self, writer: &mut LogWriter, many: usize) -> Vec<LogIndex> {
        let tickets: Vec<_> = (0..many).map(|n| self.put(n)).collect();
        while !matches!(self.write(writer), log_writer::WriterStep::Idle(_)) {}
        assert!(!tickets.iter().any(|ticket| self.has(*ticket)), "none is applied");
        tickets.into_iter().map(|ticket| ticket.index).collect()
    }

    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.group.applied.is_applied(ticket.epoch, ticket.index)
    }

    pub(super) fn flush(&self) -> Flush {
        self.flush_of(self.node.router.locator.groups.clone())
    }

    fn flush_of(&self, groups: Arc<Groups>) -> Flush {
        let (trees, log_writer) =
            (self.node.status.trees.clone(), self.node.housekeeper.disk.log_writer.clone());
        let vnode_store = Some(self.node.router.available.vnode_store.clone());
        Flush::new(trees, log_writer, groups, vnode_store, 0)
    }

    /// A whole round of maintenance.
    fn flush_whole(&self) {
        let mut flush = self.flush();
        while flush.step().expect("memory") != flush::FlushStep::Finished {
            self.turn();
        }
    }

    /// The process is killed: what the store had in memory is gone. The last value of the group
    /// that the next start finds.
    pub(super) fn starts_again(&self) -> Result<LogIndex> {
        self.trees.crash().expect("memory");
        let context = context(NodeId(1), 600, None).expect("terms");
        let disk = Arc::new(self.disk.clone()) as Arc<dyn Disk>;
        let (log, records) = Log::open(disk, settings()).expect("it opens");
        let (found, _) =
            replay(&log, records, &*self.trees, &context, &RepairedEntries::default())?;
        let group = found.into_iter().find(|group| group.id == GroupId::DEFAULT).expect("there");
        let tail = group.tail.last_key_value().map(|(index, _)| *index);
        Ok(tail.unwrap_or(LogIndex(group.mark.applied)))
    }
}

/// One round of the log writer holds several values, and a new segment begins among them. They are
/// synced, and where the log ends is published; then the store is flushed, and only then their
/// group hears of them, applies them, and answers its clients.
fn flushed_between_publish_and_done() -> (Sole, LogWriter, LogIndex) {
    let (sole, mut writer) = Sole::new();
    sole.begin(&mut writer);
    let first = sole.put(0);
    sole.settle(&mut writer);
    assert!(sole.has(first));
    let tickets: Vec<_> = (1..=5).map(|n| sole.put(n)).collect();
    let before = writer.log().segments();
    let end = sole.node.housekeeper.disk.log_writer.end();
    while sole.node.housekeeper.disk.log_writer.end() == end {
        sole.write(&mut writer);
    }
    assert!(writer.log().segments() > before, "a segment ended in this round");
    let mut flush = sole.flush();
    while flush.step().expect("memory") != flush::FlushStep::Blocked {}
    sole.write(&mut writer); // Now the group is told.
    while flush.step().expect("memory") != flush::FlushStep::Finished {
        sole.turn();
    }
    assert!(tickets.iter().all(|ticket| sole.has(*ticket)), "all are acknowledged");
    sole.settle(&mut writer);
    (sole, writer, tickets[4].index)
}

#[test]
fn records_written_and_not_processed_survive_truncation() {
    let (sole, _, last) = flushed_between_publish_and_done();
    assert_eq!(sole.starts_again().expect("acknowledged writes are lost"), last);
}

/// A group begins, and logs its first records, while a round of maintenance still writes the tables
/// of an earlier one.
#[test]
fn records_of_a_group_that_begins_during_a_flush_survive_truncation() {
    let (sole, mut writer) = Sole::new();
    sole.begin(&mut writer);
    sole.put(0);
    sole.settle(&mut writer);
    let all = sole.node.router.locator.groups.all().into_iter();
    let others = all.filter(|group| !Arc::ptr_eq(group, &sole.group)).collect();
    let groups = Arc::new(Groups::new(others));
    let mut flush = sole.flush_of(groups.clone());
    assert_eq!(flush.step().expect("memory"), flush::FlushStep::Progressed);
    assert!(groups.add(sole.group.clone()), "the group begins");
    let tickets: Vec<_> = (1..=5).map(|n| sole.put(n)).collect();
    let end = sole.node.housekeeper.disk.log_writer.end();
    while sole.node.housekeeper.disk.log_writer.end() == end {
        sole.write(&mut writer);
    }
    while flush.step().expect("memory") != flush::FlushStep::Blocked {}
    sole.write(&mut writer); // Now the group is told.
    while flush.step().expect("memory") != flush::FlushStep::Finished {
        sole.turn();
    }
    assert!(tickets.iter().all(|ticket| sole.has(*ticket)), "all are acknowledged");
    sole.settle(&mut writer);
    assert_eq!(sole.starts_again().expect("acknowledged writes are lost"), tickets[4].index);
}

#[test]
fn processed_and_durable_records_are_truncated() {
    let (sole, mut writer, last) = flushed_between_publish_and_done();
    let begin = sole.node.housekeeper.disk.log_writer.start_position();
    sole.flush_whole();
    sole.settle(&mut writer);
    assert!(
        sole.node.housekeeper.disk.log_writer.start_position() > begin,
        "nothing is truncated any more"
    );
    assert_eq!(sole.starts_again().expect("all is durable"), last);
}

#[test]
fn truncation_past_unprocessed_records_is_detected() {
    let flushed = flushed_between_publish_and_done;
    let (sole, ..) = Mutant::TruncateUnprocessedRecords.while_active(flushed);
    let error = sole.starts_again().expect_err("the log lacks a value");
    assert!(error.text().contains("lacks entry"), "{error}");
}

#[test]
fn inbox_of_a_stalled_driver_is_bounded() {
    const VALUE_BYTES: usize = 1 << 20;
    let (sole, _writer) = Sole::new();
    let bytes_max = sole.group.driver.inbox().bytes_max();
    let body = Said::Accept { after: LogIndex(3), last: LogIndex(4), decided: LogIndex(2) };
    let ballot = Ballot { round: 7, node: NodeId(1) };
    let mut payload = Vec::new();
    Message { configuration: ConfigurationId(0), ballot, body }.write(&mut payload);
    payload.put_string(&vec![0; VALUE_BYTES]);
    let payload = Bytes::from(payload);
    let many = bytes_max / VALUE_BYTES;
    for _ in 0..2 * many {
        sole.group.on_message(NodeId(2), payload.clone());
    }
    let (messages, bytes) = sole.group.driver.inbox().size();
    assert!((many - 1..=many).contains(&messages), "{messages} of {many}");
    assert!(bytes <= bytes_max, "{bytes} bytes");
}

/// Entries of a long log that a new master adopted are read back when they are decided. A process
/// that is out of descriptors then waits, and does not take its log for damaged.
#[test]
fn evicted_decided_entries_apply_once_a_descriptor_is_free() {
    /// More than is kept in memory of a log that is being adopted.
    const STAGED_BYTES: usize = (64 << 20) + 1;
    let (sole, mut writer) = Sole::new();
    sole.begin(&mut writer);
    let indexes = sole.decided(&mut writer, 3);
    let (first, last) = (indexes[0], indexes[2]);
    {
        let mut state = sole.group.state();
        let ballot = Ballot::default();
        let entries = &mut state.entries;
        let values: Vec<_> =
            indexes.iter().map(|index| entries.get(*index).expect("here")).collect();
        entries.stage(ballot, last.next(), Bytes::from(vec![0; STAGED_BYTES]));
        for (index, (value, _)) in indexes.iter().zip(values) {
            entries.stage(ballot, *index, value);
        }
        entries.adopt(ballot, LogIndex(first.0 - 1), last);
        assert!(indexes.iter().all(|index| entries.get(*index).is_none()), "in the log only");
    }
    for nth in 1..=2 {
        sole.disk.fail_nth(DiskCall::Open, nth, ErrorKind::WouldBlock);
    }
    for _ in 0..2 {
        let sleep = sole.group.turn(false).expect("the log is sound");
        assert!(!sleep.is_zero() && sleep < Duration::from_millis(100), "{sleep:?}");
        assert!(!sole.read(0).0, "not yet");
    }
    assert!(sole.disk.has_failed());
    sole.settle(&mut writer);
    assert!((0..3).all(|n| sole.read(n).0), "all are applied");
}
