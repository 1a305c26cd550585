//! Log records of consensus: encodes its durable state.
//!
//! A truncate's `decided` field holds the number of staged entries that follow the kept ones: 0 if
//! nothing was staged, as in every log older than staging. A promise's `decided` field holds the
//! position of the last torn tail that is not made good: 0 if there is none.

use base::{Ballot, Error, GroupId, LogIndex, NodeId, Reason, Result};
use bytes::Bytes;
use logic::consensus::{Replay, ReplayError, Replica, Tear};
use runtime::log_writer::Append;
use std::sync::mpsc::SyncSender;
use store::{OwnedRecord, RecordKind};

/// Consensus state that exists only in the log.
#[derive(Default)]
pub struct LogHead {
    promised: Ballot,
    accepted: Ballot,
    last: LogIndex,
    decided: LogIndex,
    tear: Option<Tear>,
}

/// Reasons for the log to write its head again.
pub struct LogHeadRequest {
    /// Sender that is dropped once the log writer has the head: a collapse may then drop the
    /// earlier copy. `None`: there is no waiter.
    pub(super) head_copied: Option<SyncSender<()>>,
    /// True if the head is to be written in the next turn.
    pub is_requested: bool,
    /// True if another record was written since maintenance last checked.
    pub(super) has_new_records: bool,
}

impl LogHeadRequest {
    /// A statement that is due, as at the beginning of a run.
    pub fn due() -> LogHeadRequest {
        LogHeadRequest { head_copied: None, is_requested: false, has_new_records: true }
    }
}

impl LogHead {
    /// Creates the head from the current state of a replica.
    pub fn from_replica(replica: &Replica) -> LogHead {
        LogHead {
            promised: replica.promised(),
            accepted: replica.accepted_ballot(),
            last: replica.last(),
            decided: replica.decided(),
            tear: replica.tear(),
        }
    }

    /// Records that repeat the head: if a hole lies before them in the log, only entries can be
    /// missing there. They are synced only if the caller requires it: the state is already logged,
    /// as durably as required.
    pub fn records(&self, group: GroupId, sync: bool) -> [Append; 3] {
        let records = [
            promise(group, self.promised, self.tear),
            adopt(group, self.accepted, self.last, self.last),
            decided(group, self.decided, sync),
        ];
        records.map(|record| Append { sync, ..record })
    }
}

/// Record of a promise, and of the tear of the log that is not repaired yet.
pub fn promise(group: GroupId, ballot: Ballot, tear: Option<Tear>) -> Append {
    let decided = LogIndex(tear.map_or(0, |tear| tear.0));
    Append { ballot, decided, ..empty(group, RecordKind::Promise, true) }
}

/// Record that the staged entries behind `from`, up to `last`, are accepted under a ballot.
pub fn adopt(group: GroupId, ballot: Ballot, from: LogIndex, last: LogIndex) -> Append {
    let staged = LogIndex(last.0 - from.0);
    Append { ballot, index: last, decided: staged, ..empty(group, RecordKind::Truncate, true) }
}

/// Record that all entries up to `index` are decided.
pub fn decided(group: GroupId, index: LogIndex, sync: bool) -> Append {
    Append { decided: index, ..empty(group, RecordKind::Decided, sync) }
}

/// Record that precedes a snapshot of all entries up to `index`. The snapshot is installed once
/// this record is written, because the log before it is on disk then. Its index (not 0)
/// distinguishes it from other records: at the next start, entries up to the index belong to the
/// snapshot.
pub fn before_install(group: GroupId, decided_index: LogIndex, index: LogIndex) -> Append {
    Append { index, ..decided(group, decided_index, true) }
}

/// Record that follows such a snapshot.
pub fn after_install(group: GroupId, index: LogIndex) -> Append {
    Append { index, ..decided(group, LogIndex(0), false) }
}

/// Record of a staged entry. It is not synced itself: the sync of the `adopt` behind it covers it.
pub fn stage(group: GroupId, ballot: Ballot, index: LogIndex, payload: Bytes) -> Append {
    Append { ballot, index, payload, ..empty(group, RecordKind::Stage, false) }
}

/// Record of an accepted entry.
pub fn accept(
    group: GroupId,
    ballot: Ballot,
    index: LogIndex,
    decided: LogIndex,
    payload: Bytes,
    sync: bool,
) -> Append {
    Append { kind: RecordKind::Accept, group, ballot, index, decided, payload, sync }
}

fn empty(group: GroupId, kind: RecordKind, sync: bool) -> Append {
    let (ballot, index, decided) = (Ballot::default(), LogIndex(0), LogIndex(0));
    Append { kind, group, ballot, index, decided, payload: Bytes::new(), sync }
}

/// Passes a record to the replay of its group.
pub fn add_to_replay(record: OwnedRecord, replay: &mut Replay<Bytes>) -> Result<()> {
    let (round, node) = record.ballot;
    let ballot = Ballot { round, node: NodeId(node) };
    let (index, decided) = (LogIndex(record.index), LogIndex(record.decided));
    match record.kind {
        RecordKind::Accept => {
            replay.replay_accepted(index, ballot, decided, record.payload).map_err(replay_error)
        }
        RecordKind::Stage => {
            replay.replay_staged(index, ballot, record.payload);
            Ok(())
        }
        RecordKind::Promise => {
            replay.replay_promise(ballot);
            replay.replay_open_tear((decided.0 > 0).then_some(Tear(decided.0)));
            Ok(())
        }
        RecordKind::Truncate => {
            let from = index.0.checked_sub(decided.0).ok_or_else(|| {
                let text = "the log contradicts itself: more values were staged than adopted";
                Error::new(Reason::Corrupt, text)
            })?;
            replay.replay_adoption(ballot, LogIndex(from), index).map_err(replay_error)
        }
        RecordKind::Decided => {
            replay.replay_decided(decided);
            Ok(())
        }
        RecordKind::Vnode | RecordKind::Reset | RecordKind::Checkpoint => Err(Error::new(
            Reason::NotSupported,
            "the log holds a record of a kind this version does not write",
        )),
    }
}

/// Converts an error of the replay into `Corrupt`, with the remedy.
pub fn replay_error(error: ReplayError) -> Error {
    let text = format!("the log contradicts itself: {error}; restore from a checkpoint or a peer");
    Error::new(Reason::Corrupt, text)
}
