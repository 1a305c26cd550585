//! Payloads by index, examples.

use super::*;
use crate::records::adopt;
use base::NodeId;

fn ballot(round: u64) -> Ballot {
    Ballot { round, node: NodeId(1) }
}

fn payload(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn text_at(entries: &Entries, index: u64) -> Option<String> {
    let (payload, _) = entries.get(LogIndex(index))?;
    Some(String::from_utf8_lossy(&payload).into_owned())
}

/// Entries 1 to `count`, accepted under ballot 1 and written a mebibyte apart.
fn written_entries(count: u64) -> Entries {
    let mut entries = Entries::restore(LogIndex(0), [], LogPositions::default());
    for index in 1..=count {
        entries.accept(LogIndex(index), payload(&format!("v{index}")), true);
        record(&mut entries, RecordKind::Accept, 1, index, 0, index << 20);
    }
    entries
}

fn record(
    entries: &mut Entries,
    kind: RecordKind,
    round: u64,
    index: u64,
    staged: u64,
    position: u64,
) {
    let (index, staged) = (LogIndex(index), LogIndex(staged));
    entries.positions.record(kind, ballot(round), index, staged, Position(position));
}

#[test]
fn adopted_log_replaces_only_entries_behind_its_start() {
    let mut entries = written_entries(5);
    entries.stage(ballot(2), LogIndex(4), payload("lost"));
    entries.stage(ballot(3), LogIndex(4), payload("w4"));
    entries.adopt(ballot(3), LogIndex(3), LogIndex(4));
    let all: Vec<_> = (1..=6).map(|index| text_at(&entries, index)).collect();
    let some = |text: &str| Some(text.to_string());
    assert_eq!(all, [some("v1"), some("v2"), some("v3"), some("w4"), None, None]);
    entries.accept(LogIndex(5), payload("w5"), true);
    assert_eq!(text_at(&entries, 5), some("w5"));
}

#[test]
fn applied_entry_of_sole_replica_leaves_memory_once_written() {
    let mut entries = written_entries(3);
    entries.accept(LogIndex(4), payload("v4"), true);
    entries.release_applied(LogIndex(2), true);
    assert_eq!(text_at(&entries, 2), None);
    assert_eq!(text_at(&entries, 3), Some("v3".into()));
    entries.release_applied(LogIndex(4), true);
    assert_eq!(text_at(&entries, 4), Some("v4".into()), "not written yet");
    record(&mut entries, RecordKind::Accept, 1, 4, 0, 4 << 20);
    entries.release_applied(LogIndex(4), true);
    assert_eq!(text_at(&entries, 4), None);
}

#[test]
fn applied_entries_kept_for_lagging_followers_are_bounded() {
    let mut entries = Entries::restore(LogIndex(0), [], LogPositions::default());
    for index in 1..=10_000_u64 {
        entries.accept(LogIndex(index), payload("v"), true);
        record(&mut entries, RecordKind::Accept, 1, index, 0, index * 100);
        entries.release_applied(LogIndex(index), false);
    }
    assert_eq!(text_at(&entries, 10_000 - APPLIED_ENTRIES_MAX as u64), None);
    assert!(text_at(&entries, 10_001 - APPLIED_ENTRIES_MAX as u64).is_some());
    let large = Bytes::from(vec![0; APPLIED_BYTES_MAX]);
    entries.accept(LogIndex(10_001), large, true);
    record(&mut entries, RecordKind::Accept, 1, 10_001, 0, 10_001 * 100);
    entries.release_applied(LogIndex(10_001), false);
    assert_eq!(text_at(&entries, 10_000), None);
}

#[test]
fn evicted_entry_is_found_at_its_latest_run_in_the_log() {
    let mut entries = written_entries(5);
    record(&mut entries, RecordKind::Stage, 2, 4, 0, 10 << 20);
    record(&mut entries, RecordKind::Stage, 3, 4, 0, 11 << 20);
    record(&mut entries, RecordKind::Stage, 3, 5, 0, (11 << 20) + 100);
    record(&mut entries, RecordKind::Truncate, 3, 5, 2, (11 << 20) + 200);
    record(&mut entries, RecordKind::Accept, 3, 6, 0, (11 << 20) + 300);
    let at = |entries: &Entries, index| entries.positions.find(LogIndex(index)).map(|at| at.0);
    assert_eq!(at(&entries, 3), Some(3 << 20));
    assert_eq!(at(&entries, 4), Some(11 << 20));
    assert_eq!(at(&entries, 6), Some(11 << 20), "near enough to be read from there");
    assert_eq!(entries.positions.last, LogIndex(6));
    // Behind entry 3 stands, in the log, the entry 4 that was replaced.
    assert_eq!(entries.positions.end(LogIndex(3)), LogIndex(3));
    assert_eq!(entries.positions.end(LogIndex(4)), LogIndex(u64::MAX));
    // The copy of the mark at the head of the log changes nothing.
    record(&mut entries, RecordKind::Truncate, 3, 6, 0, 20 << 20);
    assert_eq!(at(&entries, 4), Some(11 << 20));
    assert_eq!(entries.positions.last, LogIndex(6));
}

#[test]
fn log_is_needed_from_first_unapplied_or_validly_staged_entry() {
    let mut entries = written_entries(5);
    let needed = |entries: &Entries, applied: u64, round: u64| {
        let ballots = [Some(ballot(round)), None];
        entries.positions.needed(LogIndex(applied), ballots, false).map(|at| at.0)
    };
    assert_eq!(needed(&entries, 5, 1), None);
    assert_eq!(needed(&entries, 3, 1), Some(4 << 20));
    record(&mut entries, RecordKind::Stage, 2, 6, 0, 9 << 20);
    assert_eq!(needed(&entries, 5, 2), Some(9 << 20));
    assert_eq!(needed(&entries, 3, 2), Some(4 << 20));
    assert_eq!(needed(&entries, 5, 3), None, "a higher promise made it void");
    // Entries learned after a stop-sign are staged under a ballot that is promised once all are
    // there.
    let learning = |staging| {
        let ballots = [Some(ballot(1)), staging];
        entries.positions.needed(LogIndex(5), ballots, false).map(|at| at.0)
    };
    assert_eq!(learning(Some(ballot(2))), Some(9 << 20));
    assert_eq!((learning(Some(ballot(3))), learning(None)), (None, None), "that is given up");
    // The adoption is in the log, and another ballot was promised before its record was processed.
    let adopting = entries.positions.needed(LogIndex(5), [Some(ballot(3)), None], true);
    assert_eq!(adopting, Some(Position(9 << 20)));
    // The copy of an older mark does not end the staging.
    record(&mut entries, RecordKind::Truncate, 1, 5, 0, 10 << 20);
    assert_eq!(needed(&entries, 5, 2), Some(9 << 20));
}

#[test]
fn floor_rises_to_last_entry_in_neither_log_nor_memory() {
    let mut entries = written_entries(8);
    entries.release_applied(LogIndex(6), true);
    entries.collapse(Position(0), LogIndex(6));
    assert_eq!(entries.floor(), LogIndex(0));
    entries.collapse(Position((3 << 20) + 1), LogIndex(6));
    assert_eq!(entries.floor(), LogIndex(3));
    entries.collapse(Position(9 << 20), LogIndex(8));
    assert_eq!(entries.floor(), LogIndex(6), "the rest is in memory");
}

/// The log is truncated within a run: its entries that are not applied are found and needed behind
/// the log's new start. A node that did not need the log there lost them with the next segment, and
/// could not restart (seed 145, once the simulator ran with runs as long as the product's).
#[test]
fn run_across_the_new_log_start_is_needed_until_applied() {
    let mut entries = Entries::restore(LogIndex(0), [], LogPositions::default());
    for (index, position) in [(1, 10), (2, 20), (3, 60), (4, 70)] {
        entries.accept(LogIndex(index), payload(&format!("v{index}")), true);
        record(&mut entries, RecordKind::Accept, 1, index, 0, position);
    }
    let needed =
        |entries: &Entries, applied| entries.positions.needed(LogIndex(applied), [None; 2], false);
    assert_eq!(needed(&entries, 2), Some(Position(10)), "all of it is one run");
    entries.collapse(Position(50), LogIndex(2));
    assert_eq!(needed(&entries, 2), Some(Position(50)));
    assert_eq!(entries.positions.find(LogIndex(4)), Some(Position(50)));
    assert_eq!(entries.positions.find(LogIndex(2)), None, "it went with the log");
    assert_eq!(needed(&entries, 4), None);
    record(&mut entries, RecordKind::Accept, 1, 5, 0, 80);
    assert_eq!(needed(&entries, 4), Some(Position(50)), "it is found behind there too");
}

#[test]
fn floor_rises_when_memory_evicts_entries_below_log_start() {
    let mut entries = written_entries(8);
    entries.collapse(Position(9 << 20), LogIndex(8));
    assert_eq!(entries.floor(), LogIndex(0), "memory has all of it");
    entries.release_applied(LogIndex(6), true);
    assert_eq!(entries.floor(), LogIndex(6));
}

#[test]
fn installed_snapshot_evicts_the_entries_it_covers() {
    let mut entries = written_entries(5);
    entries.install_snapshot(LogIndex(3), true);
    assert_eq!((text_at(&entries, 3), text_at(&entries, 4)), (None, Some("v4".into())));
    assert!(entries.positions.find(LogIndex(4)).is_some());
    entries.install_snapshot(LogIndex(9), true);
    assert_eq!(text_at(&entries, 5), None);
    entries.accept(LogIndex(10), payload("v10"), true);
    assert_eq!(text_at(&entries, 10), Some("v10".into()));
}

/// Entries were decided beyond the snapshot before it was installed, and then another master's log
/// is adopted behind them. Consensus goes on with it, so its entries must still be here.
#[test]
fn snapshot_behind_the_decided_index_keeps_the_log_being_adopted() {
    let mut entries = written_entries(5);
    entries.stage(ballot(2), LogIndex(6), payload("v6"));
    entries.install_snapshot(LogIndex(3), false);
    entries.adopt(ballot(2), LogIndex(5), LogIndex(6));
    assert_eq!(text_at(&entries, 6), Some("v6".into()));
    entries.stage(ballot(3), LogIndex(7), payload("void"));
    entries.install_snapshot(LogIndex(9), true);
    entries.stage(ballot(3), LogIndex(10), payload("v10"));
    entries.adopt(ballot(3), LogIndex(9), LogIndex(10));
    assert_eq!(text_at(&entries, 10), Some("v10".into()));
}

/// Entries that a snapshot replaced may have been superseded in the log, or are incomplete there. A
/// later run must neither send them nor report that it can (seed 9204).
#[test]
fn entries_covered_by_a_snapshot_are_not_found_in_the_log() {
    let at = |positions: &LogPositions, index| positions.find(LogIndex(index)).map(|at| at.0);
    let add_record = |positions: &mut LogPositions, kind, round, index, position| {
        positions.record(kind, ballot(round), LogIndex(index), LogIndex(0), Position(position));
    };
    // The log ends before the snapshot does.
    let mut positions = LogPositions::default();
    (1..=3).for_each(|index| add_record(&mut positions, RecordKind::Accept, 1, index, index * 10));
    add_record(&mut positions, RecordKind::Decided, 0, 6, 40);
    add_record(&mut positions, RecordKind::Truncate, 2, 6, 50);
    add_record(&mut positions, RecordKind::Accept, 2, 7, 60);
    assert_eq!(
        [2, 3, 5, 6, 7].map(|index| at(&positions, index)),
        [None, None, None, None, Some(60)]
    );
    let mut entries = Entries::restore(LogIndex(7), [], positions);
    assert_eq!(entries.floor(), LogIndex(6));
    entries.collapse(Position(70), LogIndex(7));
    assert_eq!(entries.floor(), LogIndex(7));
    // The log ends behind the snapshot, with entries that another master may still replace.
    let mut positions = LogPositions::default();
    (1..=6).for_each(|index| add_record(&mut positions, RecordKind::Accept, 1, index, index * 10));
    add_record(&mut positions, RecordKind::Decided, 0, 4, 70);
    assert_eq!([3, 4, 5, 6].map(|index| at(&positions, index)), [None, None, Some(10), Some(10)]);
    assert_eq!(Entries::restore(LogIndex(6), [], positions).floor(), LogIndex(4));
    // The snapshot was announced and not installed: entries of the log are needed until they are
    // applied.
    let mut positions = LogPositions::default();
    add_record(&mut positions, RecordKind::Accept, 1, 1, 10);
    add_record(&mut positions, RecordKind::Decided, 0, 4, 20);
    (2..=3).for_each(|index| add_record(&mut positions, RecordKind::Accept, 1, index, index * 20));
    let ballots = [Some(ballot(1)), None];
    assert_eq!(positions.needed(LogIndex(1), ballots, false), Some(Position(40)));
}

#[test]
fn entry_behind_superseded_entries_begins_a_new_run() {
    let at = |entries: &Entries, index| entries.positions.find(LogIndex(index)).map(|at| at.0);
    // Cut off by a mark that adopts nothing.
    let mut entries = Entries::restore(LogIndex(0), [], LogPositions::default());
    for index in 1..=3 {
        record(&mut entries, RecordKind::Accept, 1, index, 0, index * 10);
    }
    record(&mut entries, RecordKind::Truncate, 2, 2, 0, 40);
    record(&mut entries, RecordKind::Accept, 2, 3, 0, 50);
    assert_eq!((at(&entries, 2), at(&entries, 3)), (Some(10), Some(50)));
    assert_eq!(entries.positions.end(LogIndex(2)), LogIndex(2));
    // Staged, and never adopted.
    record(&mut entries, RecordKind::Stage, 3, 4, 0, 60);
    record(&mut entries, RecordKind::Truncate, 4, 3, 0, 70);
    record(&mut entries, RecordKind::Accept, 4, 4, 0, 80);
    assert_eq!((at(&entries, 3), at(&entries, 4)), (Some(50), Some(80)));
}

/// A new master sends the log that it adopts before its own disk has it, and reads back the entries
/// that found no space in memory.
#[test]
fn adopted_entry_is_not_read_back_before_its_adoption_is_written() {
    let mut entries = written_entries(5);
    let positions_of = |entries: &Entries, index| {
        entries.log_range(LogIndex(index)).map(|(position, last)| (position.0 >> 20, last.0))
    };
    // A shorter log was adopted: entries 4 and 5 are void, and their records are still there.
    record(&mut entries, RecordKind::Truncate, 2, 3, 0, 6 << 20);
    assert_eq!((positions_of(&entries, 3), positions_of(&entries, 4)), (Some((3, 3)), None));
    let group = base::GroupId(1);
    let adoption = adopt(group, ballot(3), LogIndex(3), LogIndex(5));
    entries.in_flight.record_appends(Position(7 << 20), std::slice::from_ref(&adoption));
    record(&mut entries, RecordKind::Stage, 3, 4, 0, 7 << 20);
    record(&mut entries, RecordKind::Stage, 3, 5, 0, 8 << 20);
    assert_eq!((positions_of(&entries, 3), positions_of(&entries, 4)), (Some((3, 3)), None));
    entries.in_flight.mark_processed(&adoption.completion(Position(9 << 20)));
    record(&mut entries, RecordKind::Truncate, 3, 5, 2, 9 << 20);
    assert_eq!(positions_of(&entries, 4), Some((7, 4)));
    assert_eq!(positions_of(&entries, 5), Some((8, 5)));
    // A later adoption that replaces entry 5 alone.
    let next = adopt(group, ballot(4), LogIndex(4), LogIndex(5));
    entries.in_flight.record_appends(Position(10 << 20), &[next]);
    assert_eq!((positions_of(&entries, 4), positions_of(&entries, 5)), (Some((7, 4)), None));
}
