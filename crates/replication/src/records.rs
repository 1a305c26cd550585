//! Log records of consensus: encodes what it wants saved.
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
pub struct Statement {
    /// Sender that is dropped once the head is with the log writer: a collapse may then drop the
    /// earlier copy. `None`: nobody waits for it.
    pub(super) copy: Option<SyncSender<()>>,
    /// True if the head is to be written in the next turn.
    pub asked: bool,
    /// True if another record was written since maintenance last checked.
    pub(super) wrote: bool,
}

impl Statement {
    /// A statement that is due, as at the beginning of a run.
    pub fn due() -> Statement {
        Statement { copy: None, asked: false, wrote: true }
    }
}

impl LogHead {
    /// Takes it from a replica as it is now.
    pub fn of(replica: &Replica) -> LogHead {
        LogHead {
            promised: replica.promised(),
            accepted: replica.accepted_ballot(),
            last: replica.last(),
            decided: replica.decided(),
            tear: replica.tear(),
        }
    }

    /// Records that repeat the head: if a hole lies before them in the log, only entries can be
    /// missing there. Their sync is not awaited unless the caller does: all of it is logged
    /// already, as durably as it required.
    pub fn records(&self, group: GroupId, sync: bool) -> [Append; 3] {
        let again = [
            promise(group, self.promised, self.tear),
            adopt(group, self.accepted, self.last, self.last),
            decided(group, self.decided, sync),
        ];
        again.map(|job| Append { sync, ..job })
    }
}

/// A promise, and which tear of the log is not made good yet.
pub fn promise(group: GroupId, ballot: Ballot, tear: Option<Tear>) -> Append {
    let decided = LogIndex(tear.map_or(0, |tear| tear.0));
    Append { ballot, decided, ..empty(group, RecordKind::Promise, true) }
}

/// Record that staged entries `from`..=`upto` are accepted under a ballot.
pub fn adopt(group: GroupId, ballot: Ballot, from: LogIndex, upto: LogIndex) -> Append {
    let staged = LogIndex(upto.0 - from.0);
    Append { ballot, index: upto, decided: staged, ..empty(group, RecordKind::Truncate, true) }
}

/// Record that all entries up to `upto` are decided.
pub fn decided(group: GroupId, upto: LogIndex, sync: bool) -> Append {
    Append { decided: upto, ..empty(group, RecordKind::Decided, sync) }
}

/// Stands before a snapshot of everything up to `index`, which is installed once this is written:
/// everything before it is on disk then. Its index (not 0) distinguishes it from others. It tells
/// the next start that entries up to there are the snapshot's.
pub fn firm(group: GroupId, upto: LogIndex, index: LogIndex) -> Append {
    Append { index, ..decided(group, upto, true) }
}

/// Stands behind such a snapshot.
pub fn superseded(group: GroupId, index: LogIndex) -> Append {
    Append { index, ..decided(group, LogIndex(0), false) }
}

/// Record of a staged entry. It is not synced itself: the `adopt` behind it is, and covers it.
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

/// Shows a record to the replay of its group.
pub fn show(record: OwnedRecord, replay: &mut Replay<Bytes>) -> Result<()> {
    let (round, node) = record.ballot;
    let ballot = Ballot { round, node: NodeId(node) };
    let (index, decided) = (LogIndex(record.index), LogIndex(record.decided));
    match record.kind {
        RecordKind::Accept => {
            replay.accepted(index, ballot, decided, record.payload).map_err(contradiction)
        }
        RecordKind::Stage => {
            replay.staged(index, ballot, record.payload);
            Ok(())
        }
        RecordKind::Promise => {
            replay.promised(ballot);
            replay.states((decided.0 > 0).then_some(Tear(decided.0)));
            Ok(())
        }
        RecordKind::Truncate => {
            let from = index.0.checked_sub(decided.0).ok_or_else(|| {
                let text = "the log contradicts itself: more values were staged than adopted";
                Error::new(Reason::Corrupt, text)
            })?;
            replay.adopted(ballot, LogIndex(from), index).map_err(contradiction)
        }
        RecordKind::Decided => {
            replay.decided(decided);
            Ok(())
        }
        RecordKind::Vnode | RecordKind::Reset | RecordKind::Checkpoint => Err(Error::new(
            Reason::NotSupported,
            "the log holds a record of a kind this version does not write",
        )),
    }
}

/// Converts a replay's refusal into `Corrupt`, with what to do about it.
pub fn contradiction(error: ReplayError) -> Error {
    let text = format!("the log contradicts itself: {error}; restore from a checkpoint or a peer");
    Error::new(Reason::Corrupt, text)
}
