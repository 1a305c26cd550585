//! Fuzzing: what must hold of entries, kept rows and comparisons, whatever their bytes are. Only
//! the crate `fuzz` builds this.

use super::outcome::{self, StoredOutcome};
use super::seals::Seal;
use super::{apply, inbox, witness_log};
use base::{GroupId, LogIndex, Reason};
use bytes::Bytes;
use replica_state::entry::{read_entry, read_stop_sign};
use replica_state::feed::AppliedFeeds;
use replica_state::index_row::EntryRow;
use replica_state::layout::{self, Mark};
use replica_state::replicated_index::ReplicatedIndex;
use store::{MemoryTrees, Trees};

const GROUP: GroupId = GroupId(7);

/// Decodes bytes as one of several kinds: messages of consensus with their entries, entries, and
/// rows.
pub fn entry(kind: u8, bytes: &Bytes) {
    match kind % 8 {
        0 => {
            let Ok((message, entries)) = inbox::read(bytes.clone()) else { return };
            let length = message.body.entry_range().map_or(0, |(after, last)| last.0 - after.0);
            assert_eq!(entries.len() as u64, length, "the message names its entries");
            entries.iter().for_each(|(_, entry)| {
                let _ = read_stop_sign(entry);
            });
        }
        1 => apply_entry(bytes),
        2 => {
            let Ok(stored) = StoredOutcome::read(bytes) else { return };
            let again = outcome::write(stored.index, &stored.outcome, stored.digest);
            // A large outcome is kept as its index.
            let kept = StoredOutcome::read(&again).expect("what was written can be read");
            assert_eq!((kept.index, kept.digest), (stored.index, stored.digest));
            let moved = StoredOutcome::read(&outcome::rebase(bytes, LogIndex(3)));
            assert_eq!(moved.expect("it can be moved").index, LogIndex(3));
        }
        3 => replica_state::fuzzing::row(bytes),
        4 => replica_state::fuzzing::session(bytes),
        5 => replica_state::fuzzing::configuration(bytes),
        6 => {
            replica_state::fuzzing::mark_and_keys(bytes);
            if let Ok(seal) = Seal::read(bytes) {
                assert_eq!(Seal::read(&seal.write().into()), Ok(seal));
            }
            if let Ok(record) = ReplicatedIndex::decode(bytes) {
                assert_eq!(record.encode(), bytes[..], "a record has one form");
            }
            for is_unique in [false, true] {
                let _ = EntryRow::decode(is_unique, bytes, bytes);
            }
        }
        _ => replica_state::fuzzing::comparison(bytes),
    }
}

/// Applies an entry, as a follower does with one that its master sent. It counts as applied only
/// if it is whole.
fn apply_entry(bytes: &Bytes) {
    let mut key = Vec::new();
    layout::mark_key(GROUP, &mut key);
    let applied = |trees: &MemoryTrees| trees.get(&key).expect("memory can be read");
    let trees = MemoryTrees::new(1 << 20);
    let feeds = AppliedFeeds::default();
    match apply::apply_entry_to(GROUP, &trees, LogIndex(5), bytes, (None, &feeds)) {
        Ok(mark) => {
            let (head, _) = read_entry(bytes).expect("it was read before");
            assert_eq!((mark.applied, mark.time), (5, head.time));
            assert_eq!(applied(&trees), Some(mark.write()));
        }
        Err(error) => {
            assert_eq!(error.reason, Reason::Corrupt);
            let mark = applied(&trees).and_then(|mark| Mark::read(&mark).ok());
            assert!(mark.is_none_or(|mark| mark.applied != 5), "half an entry counts as applied");
        }
    }
    let witness = MemoryTrees::new(1 << 20);
    let appended = witness_log::append_entry(GROUP, &witness, LogIndex(5), bytes, true);
    assert_eq!(appended.is_ok(), applied(&witness).is_some());
}
