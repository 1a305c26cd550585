//! Replay of the log's records to their groups and vnodes, in stream order.
//!
//! A log may have holes: parts that can't be read and were skipped. Each group decides for itself
//! whether it can bear that (`logic::consensus::Replay`), and the vnodes whether a batch of theirs
//! is missing. To find the lost entries the log is read without applying anything.
//!
//! Never: accepts a group whose promises may stand in a hole.

use super::Terms;
use base::error::corrupt;
use base::limits::MENDED_VALUES_MAX;
use base::{Ballot, Error, GroupId, LogIndex, NodeId, Reason, Result};
use bytes::Bytes;
use dynamo::layout::VNODES;
use dynamo::{batch, replay as vnodes};
use logic::consensus::{Replay, Replica, Restored, Tear};
use replication::append_entry;
use replication::apply::apply_value;
use replication::entries::LogPositions;
use replication::entry::read_stop_sign;
use replication::layout::{Mark, configuration_key, mark_key, read_configuration};
use replication::records;
use replication::recovered::RecoveredGroup;
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use store::{Hole, Log, OwnedRecord, Position, Trees};

/// Values that other members gave back, by group.
pub(crate) type RepairedEntries = BTreeMap<GroupId, BTreeMap<LogIndex, Bytes>>;

/// Values of a group that stood in a hole: the first and the last of a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub group: GroupId,
    pub first: LogIndex,
    pub last: LogIndex,
}

/// Replays the log's records to their groups, and applies entries known to be decided. `mended`:
/// the entries that the log lost, if it has holes.
pub(crate) fn replay(
    log: &Log,
    mut records: store::Replay,
    trees: &dyn Trees,
    terms: &Terms,
    mended: &RepairedEntries,
) -> Result<(Vec<RecoveredGroup>, batch::Mark)> {
    let mut all = All::new(trees, terms, Some(mended))?;
    all.read(log, &mut records)?;
    let found = records.finish().map_err(store_error)?;
    if found.torn_bytes > 0 {
        tracing::info!(target: "log", bytes = found.torn_bytes, "cut a torn tail");
        all.torn(log.end());
    }
    let groups = all.groups.into_values().map(|group| group.finish(terms, trees));
    Ok((groups.collect::<Result<_>>()?, all.vnodes.finish()?))
}

/// Returns the needed entries that the log lost, and the positions of its holes. An error if the
/// log does not tell whether these are all.
pub(crate) fn survey(
    log: &Log,
    mut records: store::Replay,
    trees: &dyn Trees,
    terms: &Terms,
) -> Result<(Vec<Lost>, Vec<Hole>)> {
    let mut all = All::new(trees, terms, None)?;
    all.read(log, &mut records)?;
    all.vnodes.finish()?;
    let mut lost = Vec::new();
    for (group, Replaying { mut replay, .. }) in all.groups {
        let missing = replay.missing();
        let values: u64 = missing.iter().map(|(first, last)| last.0 + 1 - first.0).sum();
        if values > MENDED_VALUES_MAX {
            let text = format!("the log lost {values} values of group {group}");
            return Err(Error::new(Reason::Corrupt, text));
        }
        for (first, last) in missing {
            (first.0..=last.0).for_each(|index| replay.mend(LogIndex(index), Bytes::new()));
            lost.push(Lost { group, first, last });
        }
        replay.finish().map_err(records::contradiction)?;
    }
    Ok((lost, records.holes().to_vec()))
}

struct All<'a> {
    trees: &'a dyn Trees,
    terms: &'a Terms,
    groups: BTreeMap<GroupId, Replaying>,
    vnodes: vnodes::Replaying,
    /// Repaired entries. `None`: nothing is to be applied.
    mended: Option<&'a RepairedEntries>,
    holes: usize,
    tears: usize,
}

impl<'a> All<'a> {
    fn new(
        trees: &'a dyn Trees,
        terms: &'a Terms,
        mended: Option<&'a RepairedEntries>,
    ) -> Result<All<'a>> {
        let mut groups = BTreeMap::new();
        for id in [GroupId::DIRECTORY, GroupId::DEFAULT] {
            groups.insert(id, Replaying::new(id, trees, terms)?);
        }
        for id in terms.made.keys() {
            let group = Replaying::new(*id, trees, terms)?;
            if terms.own.contains(id) || group.mark.applied > 0 {
                groups.insert(*id, group);
            }
        }
        let vnodes = vnodes::Replaying::new(trees)?;
        Ok(All { trees, terms, groups, vnodes, mended, holes: 0, tears: 0 })
    }

    fn read(&mut self, log: &Log, records: &mut store::Replay) -> Result<()> {
        let mut start = log.start();
        while let Some(record) = records.next() {
            let (position, record) = record.map_err(store_error)?;
            if let Some(hole) = records.holes().get(self.holes..).and_then(<[_]>::last) {
                start = hole.end;
                self.hole();
                self.holes = records.holes().len();
            }
            self.look_at_tears(records);
            self.show(record, start).map_err(|error| at(error, position.0))?;
            start = position;
            if self.mended.is_some() {
                make_room(self.trees)?;
            }
        }
        // Behind the last hole stands only what the log states of itself.
        if records.holes().len() > self.holes {
            self.hole();
        }
        self.look_at_tears(records);
        Ok(())
    }

    /// Notes the tails that earlier runs cut: they may have held accepted entries.
    fn look_at_tears(&mut self, records: &store::Replay) {
        for tear in records.tears().get(self.tears..).unwrap_or_default() {
            self.torn(*tear);
        }
        self.tears = records.tears().len();
    }

    /// Notes that a torn tail was cut here.
    fn torn(&mut self, at: Position) {
        if Mutant::TornCountsAsWhole.is_active() {
            return;
        }
        self.groups.values_mut().for_each(|group| group.replay.torn(Tear(at.0)));
    }

    fn hole(&mut self) {
        self.vnodes.hole();
        self.groups.values_mut().for_each(|group| group.hole(self.mended));
    }

    fn show(&mut self, record: OwnedRecord, start: Position) -> Result<()> {
        let (id, apply) = (GroupId(record.owner.group), self.mended.is_some());
        if id == VNODES {
            return self.vnodes.show(&record, self.trees, apply);
        }
        if self.terms.is_dropped(id) {
            return Ok(());
        }
        let group = match self.groups.entry(id) {
            Entry::Occupied(group) => group.into_mut(),
            Entry::Vacant(none) => {
                self.terms.check(id)?;
                let group = none.insert(Replaying::new(id, self.trees, self.terms)?);
                // The first record that can be read: earlier ones may have stood in a hole.
                if self.holes > 0 {
                    group.hole(self.mended);
                }
                group
            }
        };
        group.show(record, start, self.trees, apply)
    }
}

fn make_room(trees: &dyn Trees) -> Result<()> {
    if trees.pressure().rotate_is_due() {
        trees.rotate().map_err(store_error)?;
        trees.flush().map_err(store_error)?;
    }
    Ok(())
}

fn at(error: Error, position: u64) -> Error {
    Error::new(error.reason, format!("{} (log position {position})", error.text()))
}

/// One group.
pub(super) struct Replaying {
    id: GroupId,
    mark: Mark,
    replay: Replay<Bytes>,
    runs: LogPositions,
    bare: bool,
    mended: BTreeMap<LogIndex, Bytes>,
}

impl Replaying {
    pub(super) fn new(id: GroupId, trees: &dyn Trees, terms: &Terms) -> Result<Replaying> {
        let mut key = Vec::new();
        mark_key(id, &mut key);
        let mark = match trees.get(&key).map_err(store_error)? {
            Some(bytes) => Mark::read(&bytes).map_err(corrupt)?,
            None => Mark::default(),
        };
        let replay = Replay::new(LogIndex(mark.applied));
        let bare = terms.witness && id != GroupId::DIRECTORY;
        let mended = BTreeMap::new();
        Ok(Replaying { id, mark, replay, runs: LogPositions::default(), bare, mended })
    }

    /// Notes a part of the log that can't be read; `mended`: the needed entries that it held.
    fn hole(&mut self, mended: Option<&RepairedEntries>) {
        // Before `mend`: it voids what the hole may have replaced, and the entries of other members
        // are known to be decided.
        self.replay.hole();
        self.runs.hole();
        if let Some(values) = mended.and_then(|mended| mended.get(&self.id)) {
            self.mended.clone_from(values);
        }
        self.mend();
    }

    fn mend(&mut self) {
        for (index, value) in &self.mended {
            self.replay.mend(*index, value.clone());
        }
    }

    /// Replays a record; `start`: its position, or a little before.
    fn show(
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
        records::show(record, &mut self.replay)?;
        self.runs.record(kind, ballot, index, decided, start);
        self.advance(trees, apply)
    }

    /// Applies entries that are known to be decided.
    fn advance(&mut self, trees: &dyn Trees, apply: bool) -> Result<()> {
        while let Some((index, payload)) = self.replay.next_decided() {
            self.mark = match (apply, self.bare) {
                (false, _) => continue,
                (true, true) => append_entry(self.id, trees, index, &payload, true)?,
                (true, false) => apply_value(self.id, trees, index, &payload, None)?,
            };
        }
        Ok(())
    }

    pub(super) fn finish(mut self, terms: &Terms, trees: &dyn Trees) -> Result<RecoveredGroup> {
        self.mend();
        self.advance(trees, true)?;
        let found = self.replay.finish().map_err(records::contradiction)?;
        let mut key = Vec::new();
        configuration_key(self.id, &mut key);
        // From the store, after `advance`: a stop-sign decided in this log is applied by now.
        let (base, configuration) = match trees.get(&key).map_err(store_error)? {
            Some(bytes) => read_configuration(&bytes).map_err(corrupt)?,
            None => (LogIndex(0), terms.first(self.id).clone()),
        };
        let mut signs = Vec::new();
        for (index, payload) in &found.tail {
            let sign = read_stop_sign(payload).map_err(corrupt)?;
            signs.extend(sign.map(|configuration| (*index, configuration)));
        }
        let replica = Replica::restore(Restored {
            node: terms.node,
            configuration,
            base,
            signs,
            promised: found.promised,
            accepted_ballot: found.accepted_ballot,
            last: found.last,
            decided: found.decided,
            tear: found.tear,
            lease: terms.lease,
        })
        .map_err(|error| Error::new(Reason::Corrupt, error.to_string()))?;
        let Replaying { id, mark, runs, bare, .. } = self;
        Ok(RecoveredGroup { id, replica, mark, tail: found.tail, runs, bare })
    }
}
