//! Replay of the log's records to their groups and vnodes, in stream order.
//!
//! A log may have holes: parts that can't be read and were skipped. Each group decides for itself
//! whether it can bear that (`logic::consensus::Replay`), and the vnodes whether a batch of theirs
//! is missing. To find the lost entries the log is read without applying anything.
//!
//! Never: accepts a group whose promises may stand in a hole.

use super::ReplayContext;
use base::error::corrupt;
use base::limits::MENDED_VALUES_MAX;
use base::{Ballot, Error, GroupId, LogIndex, NodeId, Reason, Result};
use bytes::Bytes;
use dynamo::replay as vnodes;
use logic::consensus::{Replay, Replica, RestoredState, Tear};
use replica_state::entry::read_stop_sign;
use replica_state::feed::AppliedFeeds;
use replica_state::layout::{Mark, configuration_key, mark_key, read_configuration};
use replication::append_entry;
use replication::apply::apply_entry_to;
use replication::entries::LogPositions;
use replication::records;
use replication::recovered::RecoveredGroup;
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use store::{Hole, Log, OwnedRecord, Position, Trees};
use vnode_rows::batch;
use vnode_rows::layout::VNODES;

/// Entries that other members returned, by group.
pub type RepairedEntries = BTreeMap<GroupId, BTreeMap<LogIndex, Bytes>>;

/// Range of a group's entries that stood in a hole of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostEntries {
    /// The group.
    pub group: GroupId,
    /// Index of the first one.
    pub first: LogIndex,
    /// Index of the last one.
    pub last: LogIndex,
}

/// Replays the log's records to their groups, and applies entries known to be decided. `repaired`:
/// the entries that the log lost, if it has holes.
pub fn replay(
    log: &Log,
    mut records: store::Replay,
    trees: &dyn Trees,
    context: &ReplayContext,
    repaired: &RepairedEntries,
) -> Result<(Vec<RecoveredGroup>, batch::Mark)> {
    let mut log_replay = LogReplay::new(trees, context, Some(repaired))?;
    log_replay.read_log(log, &mut records)?;
    let tail = records.finish().map_err(store_error)?;
    if tail.torn_bytes > 0 {
        tracing::info!(target: "log", bytes = tail.torn_bytes, "truncated a torn tail of the log");
        log_replay.on_torn_tail(log.end());
    }
    let groups = log_replay.groups.into_values().map(|group| group.finish(context, trees));
    Ok((groups.collect::<Result<_>>()?, log_replay.vnodes.finish()?))
}

/// Returns the needed entries that the log lost, and the positions of its holes. An error if the
/// log does not prove that these are all.
pub fn survey(
    log: &Log,
    mut records: store::Replay,
    trees: &dyn Trees,
    context: &ReplayContext,
) -> Result<(Vec<LostEntries>, Vec<Hole>)> {
    let mut log_replay = LogReplay::new(trees, context, None)?;
    log_replay.read_log(log, &mut records)?;
    log_replay.vnodes.finish()?;
    let mut lost = Vec::new();
    for (group, GroupReplay { mut replay, .. }) in log_replay.groups {
        let missing = replay.missing();
        let values: u64 = missing.iter().map(|(first, last)| last.0 + 1 - first.0).sum();
        if values > MENDED_VALUES_MAX {
            let text = format!("the log lost {values} entries of group {group}, too many to fetch");
            return Err(Error::new(Reason::Corrupt, text));
        }
        for (first, last) in missing {
            (first.0..=last.0).for_each(|index| replay.mend(LogIndex(index), Bytes::new()));
            lost.push(LostEntries { group, first, last });
        }
        replay.finish().map_err(records::replay_error)?;
    }
    Ok((lost, records.holes().to_vec()))
}

struct LogReplay<'a> {
    trees: &'a dyn Trees,
    context: &'a ReplayContext,
    groups: BTreeMap<GroupId, GroupReplay>,
    vnodes: vnodes::VnodeReplay,
    /// Repaired entries. `None`: apply nothing.
    repaired: Option<&'a RepairedEntries>,
    holes: usize,
    tears: usize,
}

impl<'a> LogReplay<'a> {
    fn new(
        trees: &'a dyn Trees,
        context: &'a ReplayContext,
        repaired: Option<&'a RepairedEntries>,
    ) -> Result<LogReplay<'a>> {
        let mut groups = BTreeMap::new();
        for id in [GroupId::DIRECTORY, GroupId::DEFAULT] {
            groups.insert(id, GroupReplay::new(id, trees, context)?);
        }
        for id in context.created.keys() {
            let group = GroupReplay::new(*id, trees, context)?;
            if context.local_groups.contains(id) || group.mark.applied > 0 {
                groups.insert(*id, group);
            }
        }
        let vnodes = vnodes::VnodeReplay::new(trees)?;
        Ok(LogReplay { trees, context, groups, vnodes, repaired, holes: 0, tears: 0 })
    }

    fn read_log(&mut self, log: &Log, records: &mut store::Replay) -> Result<()> {
        let mut start = log.start();
        while let Some(record) = records.next() {
            let (position, record) = record.map_err(store_error)?;
            if let Some(hole) = records.holes().get(self.holes..).and_then(<[_]>::last) {
                start = hole.end;
                self.on_hole();
                self.holes = records.holes().len();
            }
            self.on_tears(records);
            self.replay_record(record, start).map_err(|error| with_position(error, position.0))?;
            start = position;
            if self.repaired.is_some() {
                flush_if_full(self.trees)?;
            }
        }
        // Only records of the log's head follow the last hole.
        if records.holes().len() > self.holes {
            self.on_hole();
        }
        self.on_tears(records);
        Ok(())
    }

    /// Records the torn tails that earlier runs truncated: they may have held accepted entries.
    fn on_tears(&mut self, records: &store::Replay) {
        for tear in records.torn_tails().get(self.tears..).unwrap_or_default() {
            self.on_torn_tail(*tear);
        }
        self.tears = records.torn_tails().len();
    }

    /// Records that a torn tail was truncated at this position.
    fn on_torn_tail(&mut self, position: Position) {
        if Mutant::TreatTornLogAsComplete.is_active() {
            return;
        }
        self.groups.values_mut().for_each(|group| group.replay.replay_torn_tail(Tear(position.0)));
    }

    fn on_hole(&mut self) {
        self.vnodes.mark_unreadable();
        self.groups.values_mut().for_each(|group| group.on_hole(self.repaired));
    }

    fn replay_record(&mut self, record: OwnedRecord, start: Position) -> Result<()> {
        let (id, apply) = (GroupId(record.owner.group), self.repaired.is_some());
        if id == VNODES {
            return self.vnodes.replay(&record, self.trees, apply);
        }
        if self.context.is_dropped(id) {
            return Ok(());
        }
        let group = match self.groups.entry(id) {
            Entry::Occupied(group) => group.into_mut(),
            Entry::Vacant(vacant) => {
                self.context.check(id)?;
                let group = vacant.insert(GroupReplay::new(id, self.trees, self.context)?);
                // The group's first readable record: earlier ones may have stood in a hole.
                if self.holes > 0 {
                    group.on_hole(self.repaired);
                }
                group
            }
        };
        group.replay_record(record, start, self.trees, apply)
    }
}

fn flush_if_full(trees: &dyn Trees) -> Result<()> {
    if trees.pressure().is_rotation_due() {
        trees.rotate().map_err(store_error)?;
        trees.flush().map_err(store_error)?;
    }
    Ok(())
}

fn with_position(error: Error, position: u64) -> Error {
    Error::new(error.reason, format!("{} (log position {position})", error.text()))
}

/// Replay of one group.
pub(super) struct GroupReplay {
    id: GroupId,
    mark: Mark,
    replay: Replay<Bytes>,
    positions: LogPositions,
    is_witness_replica: bool,
    repaired: BTreeMap<LogIndex, Bytes>,
    /// Feeds by the applied rows.
    feeds: AppliedFeeds,
}

impl GroupReplay {
    pub(super) fn new(
        id: GroupId,
        trees: &dyn Trees,
        context: &ReplayContext,
    ) -> Result<GroupReplay> {
        let mut key = Vec::new();
        mark_key(id, &mut key);
        let mark = match trees.get(&key).map_err(store_error)? {
            Some(bytes) => Mark::read(&bytes).map_err(corrupt)?,
            None => Mark::default(),
        };
        let replay = Replay::new(LogIndex(mark.applied));
        let is_witness_replica = context.is_witness && id != GroupId::DIRECTORY;
        let repaired = BTreeMap::new();
        Ok(GroupReplay {
            id,
            mark,
            replay,
            positions: LogPositions::default(),
            is_witness_replica,
            repaired,
            feeds: AppliedFeeds::load(id, trees)?,
        })
    }

    /// Records an unreadable part of the log. `repaired`: the needed entries that it held.
    fn on_hole(&mut self, repaired: Option<&RepairedEntries>) {
        // Before the repaired entries are added: the hole voids what it may have replaced, while
        // the repaired entries are known to be decided.
        self.replay.replay_hole();
        self.positions.record_hole();
        if let Some(values) = repaired.and_then(|repaired| repaired.get(&self.id)) {
            self.repaired.clone_from(values);
        }
        self.add_repaired();
    }

    fn add_repaired(&mut self) {
        for (index, value) in &self.repaired {
            self.replay.mend(*index, value.clone());
        }
    }

    /// Replays a record; `start`: its position, or a little before.
    fn replay_record(
        &mut self,
        mut record: OwnedRecord,
        start: Position,
        trees: &dyn Trees,
        apply: bool,
    ) -> Result<()> {
        let (round, node) = record.ballot;
        let ballot = Ballot { round, node: NodeId(node) };
        let (kind, index, decided) =
            (record.kind, LogIndex(record.index), LogIndex(record.decided));
        if !apply {
            record.payload = Bytes::new();
        }
        records::add_to_replay(record, &mut self.replay)?;
        self.positions.record(kind, ballot, index, decided, start);
        self.advance(trees, apply)
    }

    /// Applies entries that are known to be decided.
    fn advance(&mut self, trees: &dyn Trees, apply: bool) -> Result<()> {
        while let Some((index, payload)) = self.replay.next_decided() {
            self.mark = match (apply, self.is_witness_replica) {
                (false, _) => continue,
                (true, true) => append_entry(self.id, trees, index, &payload, true)?,
                (true, false) => {
                    apply_entry_to(self.id, trees, index, &payload, (None, &self.feeds))?
                }
            };
        }
        Ok(())
    }

    pub(super) fn finish(
        mut self,
        context: &ReplayContext,
        trees: &dyn Trees,
    ) -> Result<RecoveredGroup> {
        self.add_repaired();
        self.advance(trees, true)?;
        let restored = self.replay.finish().map_err(records::replay_error)?;
        let mut key = Vec::new();
        configuration_key(self.id, &mut key);
        // From the store, after `advance`: a stop-sign decided in this log is applied by now.
        let (base, configuration) = match trees.get(&key).map_err(store_error)? {
            Some(bytes) => read_configuration(&bytes).map_err(corrupt)?,
            None => (LogIndex(0), context.initial(self.id).clone()),
        };
        let mut signs = Vec::new();
        for (index, payload) in &restored.tail {
            let sign = read_stop_sign(payload).map_err(corrupt)?;
            signs.extend(sign.map(|configuration| (*index, configuration)));
        }
        let replica = Replica::restore(RestoredState {
            node: context.node,
            configuration,
            base,
            signs,
            promised: restored.promised,
            accepted_ballot: restored.accepted_ballot,
            last: restored.last,
            decided: restored.decided,
            tear: restored.tear,
            lease: context.lease,
        })
        .map_err(|error| Error::new(Reason::Corrupt, error.to_string()))?;
        let GroupReplay { id, mark, positions, is_witness_replica, .. } = self;
        Ok(RecoveredGroup { id, replica, mark, tail: restored.tail, positions, is_witness_replica })
    }
}
