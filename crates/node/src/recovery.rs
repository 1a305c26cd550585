//! From whatever a crash left to the last promise kept.
//!
//! The store knows how far each group is applied durably; the log knows the rest. Replay shows the
//! log's records to `logic::consensus::Replay` in stream order, applies what is known to be
//! decided, and keeps only the undecided tail.
//!
//! Whom a group began with stands in the node's list of members, which is written before anything
//! of the group is logged: so a node comes back to every group in which it ever had a word.
//!
//! Promises: what was acknowledged is found again; damage ends the start with file and offset,
//! nothing is cut silently.
//! Never: answers anyone; writes to the log.

use crate::available::layout::VNODES;
use crate::available::{batch, former, replay};
use crate::consistent::apply::apply_value;
use crate::consistent::layout::{Mark, configuration_key, mark_key, read_configuration};
use crate::consistent::records;
use crate::consistent::value::read_sign;
use crate::consistent::values::Runs;
use crate::consistent::view::damaged;
use crate::consistent::witness::keep_value;
use crate::keeper::store_error;
use crate::settings::NodeSettings;
use base::{
    Ballot, ClusterDescription, ConfigurationId, Error, GroupId, LogIndex, Millis, NodeId, Part,
    Placement, Reason, Result,
};
use bytes::Bytes;
use logic::consensus::{Configuration, LeaseClock, Member, Replay, Replica, Restored};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{
    Chunk, DataDir, FileDisk, Log, LogSettings, LsmTrees, OwnedRecord, Position, StoreError,
    TreeSettings, Trees,
};

/// The directory's group.
pub(crate) const DIRECTORY: GroupId = GroupId(0);
/// The group of consistent buckets.
pub(crate) const DEFAULT_GROUP: GroupId = GroupId(1);

/// What was found in the data directory.
pub(crate) struct Recovered {
    pub directory: DataDir,
    /// The number of the life that begins.
    pub incarnation: u64,
    pub trees: Arc<dyn Trees>,
    pub log: Log,
    pub groups: Vec<RecoveredGroup>,
    /// This node is a witness.
    pub witness: bool,
    /// How far the vnodes are.
    pub vnodes: batch::Mark,
}

/// What is the same for all groups.
pub(crate) struct Terms {
    node: NodeId,
    lease: LeaseClock,
    /// The members of a group of which nothing is known yet.
    first: Configuration,
    /// The groups that were made since, each with those it began with.
    made: BTreeMap<GroupId, Configuration>,
    /// Those of them in which this node has a part, or is to get one.
    own: BTreeSet<GroupId>,
    /// The highest number that any group had; of those below, the ones that are not known were
    /// dropped.
    made_upto: GroupId,
    /// This node is a witness: it keeps rows of the directory only.
    pub witness: bool,
}

/// One group's state.
pub(crate) struct RecoveredGroup {
    pub id: GroupId,
    pub replica: Replica,
    pub mark: Mark,
    /// Accepted values behind the mark, not known to be decided.
    pub tail: BTreeMap<LogIndex, Bytes>,
    /// Where values stand in the log.
    pub runs: Runs,
    /// This node keeps no rows of it.
    pub bare: bool,
}

/// Opens everything under the data directory and replays the log. Blocking. `first`: the members of
/// a group of which nothing is known yet; this node alone, if nothing is said.
pub(crate) fn recover(settings: &NodeSettings, first: Option<Configuration>) -> Result<Recovered> {
    let directory = DataDir::open(&settings.data).map_err(unusable)?;
    directory.check_log().map_err(unusable)?;
    let trees = LsmTrees::open(TreeSettings {
        memory_bytes_max: settings.memory_bytes_max,
        ..TreeSettings::new(directory.path.join("store"))
    });
    let trees: Arc<dyn Trees> = Arc::new(trees.map_err(store_error)?);
    let disk = Arc::new(FileDisk::open(&directory.path.join("log")).map_err(store_error)?);
    let log_settings = LogSettings {
        segment_bytes: settings.segment_bytes,
        id: directory.node,
        ..LogSettings::default()
    };
    let (log, records) = Log::open(disk, log_settings).map_err(store_error)?;
    let incarnation = directory.begin_life().map_err(unusable)?;
    let known = directory.members().map_err(store_error)?;
    let first = match first {
        Some(first) => Some(first),
        None => known.as_ref().map_or(Ok(None), founder)?,
    };
    let mut terms = terms(NodeId(directory.node), settings.lease_ms, first)?;
    terms.witness = known.as_ref().is_some_and(|known| known.is_witness(terms.node));
    for placement in known.iter().flat_map(|known| &known.groups) {
        terms.add(placement)?;
    }
    terms.made_upto = directory.made_upto().map_err(store_error)?.max(DEFAULT_GROUP);
    let (groups, vnodes) = replay(&log, records, &*trees, &terms)?;
    drop_rows(&terms, &*trees)?;
    let rows = former::put_in_slots(&*trees)?;
    if rows > 0 {
        tracing::info!(target: "store", rows, "rows of an earlier version have their new places");
    }
    let witness = terms.witness;
    Ok(Recovered { directory, incarnation, trees, log, groups, witness, vnodes })
}

/// A group begins with the founder of the cluster alone; none: this node founds one, or has.
fn founder(known: &ClusterDescription) -> Result<Option<Configuration>> {
    if known.founder.0 == 0 {
        return Ok(None);
    }
    let alone = Configuration::alone(ConfigurationId(0), known.founder);
    alone.map(Some).map_err(|error| Error::new(Reason::Damaged, error.to_string()))
}

/// A group that begins on this node: it has promised nothing and holds nothing. Whom the group
/// began with must be written down before.
pub(crate) fn begin(
    placement: &Placement,
    (node, lease_ms, witness): (NodeId, u64, bool),
    trees: &dyn Trees,
) -> Result<RecoveredGroup> {
    let first = founders(placement)?;
    let terms = Terms { witness, ..terms(node, lease_ms, Some(first))? };
    Replaying::new(placement.group, trees, &terms)?.finish(&terms, trees)
}

/// Those a group began with.
fn founders(placement: &Placement) -> Result<Configuration> {
    let voter = |node: &NodeId| Member { node: *node, part: Part::Voter };
    let members = placement.founders.iter().map(voter).collect();
    Configuration::new(ConfigurationId(0), members).map_err(|error| {
        let text = format!("whom group {} began with: {error}", placement.group);
        Error::new(Reason::Damaged, text)
    })
}

/// Shows the log's records to their groups, and applies what is known to be decided.
pub(crate) fn replay(
    log: &Log,
    mut records: store::Replay,
    trees: &dyn Trees,
    terms: &Terms,
) -> Result<(Vec<RecoveredGroup>, batch::Mark)> {
    let mut vnodes = replay::Replaying::new(trees)?;
    let mut groups = BTreeMap::new();
    for id in [DIRECTORY, DEFAULT_GROUP] {
        groups.insert(id, Replaying::new(id, trees, terms)?);
    }
    for id in terms.made.keys() {
        let group = Replaying::new(*id, trees, terms)?;
        if terms.own.contains(id) || group.mark.applied > 0 {
            groups.insert(*id, group);
        }
    }
    let mut start = log.start();
    for record in records.by_ref() {
        let (position, record) = record.map_err(store_error)?;
        if record.owner.group == VNODES.0 {
            vnodes.show(&record, trees).map_err(|error| at(error, position.0))?;
            start = position;
            make_room(trees)?;
            continue;
        }
        if terms.is_dropped(GroupId(record.owner.group)) {
            start = position;
            continue;
        }
        let group = match groups.entry(GroupId(record.owner.group)) {
            Entry::Occupied(group) => group.into_mut(),
            Entry::Vacant(none) => {
                terms.check(*none.key()).map_err(|error| at(error, position.0))?;
                let group = Replaying::new(*none.key(), trees, terms)?;
                none.insert(group)
            }
        };
        group.show(record, start, trees).map_err(|error| at(error, position.0))?;
        start = position;
        make_room(trees)?;
    }
    let found = records.finish().map_err(store_error)?;
    if found.torn_bytes > 0 {
        tracing::info!(target: "log", bytes = found.torn_bytes, "cut a torn tail");
    }
    let groups = groups.into_values().map(|group| group.finish(terms, trees));
    Ok((groups.collect::<Result<_>>()?, vnodes.finish()))
}

fn make_room(trees: &dyn Trees) -> Result<()> {
    if trees.pressure().rotate_is_due() {
        trees.rotate().map_err(store_error)?;
        trees.flush().map_err(store_error)?;
    }
    Ok(())
}

/// A group may have been dropped when its rows were not gone yet.
fn drop_rows(terms: &Terms, trees: &dyn Trees) -> Result<()> {
    let numbers = (DEFAULT_GROUP.0 + 1)..=terms.made_upto.0;
    for id in numbers.map(GroupId).filter(|id| terms.is_dropped(*id)) {
        let prefix = id.0.to_be_bytes();
        let found = Chunk::read(&*trees.snapshot(), &prefix, None, 1).map_err(store_error)?;
        if !found.rows.is_empty() {
            trees.drop_prefix(&prefix).map_err(store_error)?;
        }
    }
    Ok(())
}

/// What is the same for all groups of this node. `first`: see [`recover`].
pub(crate) fn terms(node: NodeId, lease_ms: u64, first: Option<Configuration>) -> Result<Terms> {
    let lease = LeaseClock { length: Millis(lease_ms), ..LeaseClock::default() };
    let alone = || Configuration::alone(ConfigurationId(0), node);
    let first = first
        .map_or_else(alone, Ok)
        .map_err(|error| Error::new(Reason::Damaged, error.to_string()))?;
    Ok(Terms {
        node,
        lease,
        first,
        made: BTreeMap::new(),
        own: BTreeSet::new(),
        made_upto: DEFAULT_GROUP,
        witness: false,
    })
}

impl Terms {
    /// A group that was made.
    pub(crate) fn add(&mut self, placement: &Placement) -> Result<()> {
        if placement.founders.is_empty() {
            return Ok(()); // It began as all do of which nothing else is known.
        }
        self.made.insert(placement.group, founders(placement)?);
        if placement.concerns(self.node) {
            self.own.insert(placement.group);
        }
        Ok(())
    }

    /// Whether there was a group of this number, and is none any more.
    fn is_dropped(&self, group: GroupId) -> bool {
        group > DEFAULT_GROUP && group <= self.made_upto && !self.made.contains_key(&group)
    }

    /// Whether it is known whom the group of a record began with.
    fn check(&self, group: GroupId) -> Result<()> {
        if self.made.contains_key(&group) {
            return Ok(());
        }
        let text = format!(
            "the log holds a record of group {group}, and this node's list of members (MEMBERS) \
             does not say whom that group began with: put the list back, or replace the node"
        );
        Err(Error::new(Reason::Damaged, text))
    }

    /// Those a group began with.
    fn first(&self, group: GroupId) -> &Configuration {
        self.made.get(&group).unwrap_or(&self.first)
    }
}

fn at(error: Error, position: u64) -> Error {
    Error::new(error.reason, format!("{} (log position {position})", error.text()))
}

struct Replaying {
    id: GroupId,
    mark: Mark,
    replay: Replay<Bytes>,
    runs: Runs,
    bare: bool,
}

impl Replaying {
    fn new(id: GroupId, trees: &dyn Trees, terms: &Terms) -> Result<Replaying> {
        let mut key = Vec::new();
        mark_key(id, &mut key);
        let mark = match trees.get(&key).map_err(store_error)? {
            Some(bytes) => Mark::read(&bytes).map_err(damaged)?,
            None => Mark::default(),
        };
        let replay = Replay::new(LogIndex(mark.applied));
        let bare = terms.witness && id != DIRECTORY;
        Ok(Replaying { id, mark, replay, runs: Runs::default(), bare })
    }

    /// A record, and where it begins, or a little before.
    fn show(&mut self, record: OwnedRecord, start: Position, trees: &dyn Trees) -> Result<()> {
        let (round, node) = record.ballot;
        let ballot = Ballot { round, node: NodeId(node) };
        let (kind, index, decided) =
            (record.kind, LogIndex(record.index), LogIndex(record.decided));
        records::show(record, &mut self.replay)?;
        self.runs.record(kind, ballot, index, decided, start);
        while let Some((index, payload)) = self.replay.next_decided() {
            self.mark = match self.bare {
                true => keep_value(self.id, trees, index, &payload, true)?,
                false => apply_value(self.id, trees, index, &payload, None)?,
            };
        }
        Ok(())
    }

    fn finish(self, terms: &Terms, trees: &dyn Trees) -> Result<RecoveredGroup> {
        let found = self.replay.finish().map_err(records::contradiction)?;
        let mut key = Vec::new();
        configuration_key(self.id, &mut key);
        let (base, configuration) = match trees.get(&key).map_err(store_error)? {
            Some(bytes) => read_configuration(&bytes).map_err(damaged)?,
            None => (LogIndex(0), terms.first(self.id).clone()),
        };
        let mut signs = Vec::new();
        for (index, payload) in &found.tail {
            let sign = read_sign(payload).map_err(damaged)?;
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
            log_intact: true,
            lease: terms.lease,
        })
        .map_err(|error| Error::new(Reason::Damaged, error.to_string()))?;
        let Replaying { id, mark, runs, bare, .. } = self;
        Ok(RecoveredGroup { id, replica, mark, tail: found.tail, runs, bare })
    }
}

/// A data directory that can't be used is its operator's to mend: nothing has failed yet.
pub(crate) fn unusable(error: StoreError) -> Error {
    use std::io::ErrorKind::{
        AlreadyExists, InvalidInput, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
    };
    match &error {
        StoreError::Locked { .. } => {
            let text = format!("{error}: stop that one, or name another directory with `data`");
            Error::new(Reason::TooMany, text)
        }
        StoreError::Io { source, .. } => {
            let reason = match source.kind() {
                PermissionDenied => Reason::Forbidden,
                AlreadyExists | InvalidInput | NotADirectory | NotFound | ReadOnlyFilesystem => {
                    Reason::Malformed
                }
                _ => Reason::StoreFailed,
            };
            Error::new(reason, error.to_string())
        }
        _ => store_error(error),
    }
}
