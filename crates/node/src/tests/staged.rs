//! A log that was being adopted, as a restart finds it.

use super::{Place, bytes};
use base::{Ballot, GroupId, LogIndex, NodeId, Reason, Result};
use bytes::Bytes;
use replica_host::recovery::recover;
use replication::records;
use replication::recovered::RecoveredGroup;
use runtime::log_writer::{Append, record};
use std::sync::Arc;
use store::{DataDir, FileDisk, Log, LogSettings};

fn ballot(round: u64) -> Ballot {
    Ballot { round, node: NodeId(1) }
}

fn stage(round: u64, index: u64, text: &str) -> Append {
    records::stage(GroupId::DEFAULT, ballot(round), LogIndex(index), bytes(text))
}

fn accept(round: u64, index: u64, text: &str) -> Append {
    let (index, none) = (LogIndex(index), LogIndex(0));
    records::accept(GroupId::DEFAULT, ballot(round), index, none, bytes(text), true)
}

fn adopt(round: u64, from: u64, end: u64) -> Append {
    records::adopt(GroupId::DEFAULT, ballot(round), LogIndex(from), LogIndex(end))
}

/// The group as a start finds it behind these records.
fn found(jobs: Vec<Append>) -> Result<RecoveredGroup> {
    let place = Place::new();
    let directory = DataDir::open(place.path()).expect("a fresh directory");
    let disk = Arc::new(FileDisk::open(&directory.path.join("log")).expect("a disk"));
    let settings =
        LogSettings { segment_bytes: 1 << 20, log_id: directory.node, ..LogSettings::default() };
    let (mut log, _) = Log::open(disk, settings).expect("a log");
    for job in jobs {
        log.append(&record(&job)).expect("room");
    }
    log.close().expect("it closes");
    drop(directory);
    let recovered = recover(&place.settings().host(), None)?;
    Ok(recovered.groups.into_iter().find(|group| group.id == GroupId::DEFAULT).expect("there"))
}

fn tail(jobs: Vec<Append>) -> Vec<(u64, Bytes)> {
    let group = found(jobs).expect("it starts");
    group.tail.into_iter().map(|(index, value)| (index.0, value)).collect()
}

#[test]
fn staged_entries_count_only_after_adoption() {
    let started = || vec![accept(1, 1, "a"), accept(1, 2, "b"), stage(2, 2, "B"), stage(2, 3, "C")];
    assert_eq!(tail(started()), [(1, bytes("a")), (2, bytes("b"))], "nothing was adopted");
    let adopted = started().into_iter().chain([adopt(2, 1, 3)]).collect();
    assert_eq!(tail(adopted), [(1, bytes("a")), (2, bytes("B")), (3, bytes("C"))]);
    let retained = started().into_iter().chain([adopt(2, 2, 2)]).collect();
    assert_eq!(tail(retained), [(1, bytes("a")), (2, bytes("b"))], "nothing staged was needed");
}

#[test]
fn log_staged_from_its_first_entry_is_adopted_whole() {
    let jobs = vec![stage(3, 1, "a"), stage(3, 2, "b"), adopt(3, 0, 2)];
    assert_eq!(tail(jobs), [(1, bytes("a")), (2, bytes("b"))]);
}

#[test]
fn adoption_beyond_staged_entries_is_corruption() {
    let jobs = vec![stage(3, 1, "a"), adopt(3, 0, 2), accept(3, 3, "c")];
    let lacks = found(jobs).err().expect("2 is missing");
    assert_eq!(lacks.reason, Reason::Corrupt);
    let mut odd = adopt(3, 0, 2);
    odd.decided = LogIndex(3);
    assert_eq!(found(vec![odd]).err().expect("3 of 2").reason, Reason::Corrupt);
}
