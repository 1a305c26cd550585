//! Recovery of a node: from what a crash left to the last promise kept.
//!
//! The store knows how far each group is applied durably; the log knows the rest. Replay shows the
//! log's records to `logic::consensus::Replay` in stream order, applies what is known to be
//! decided, and keeps only the undecided tail.
//!
//! The founders of a group stand in the node's list of members, which is written before anything of
//! the group is logged. So a node finds every group again in which it ever spoke.
//!
//! A log that can't be read everywhere may be mended where it is: `recovery/repair.rs`.
//!
//! Promises: what was acknowledged is found again; damage ends the start with file and offset,
//! nothing is cut silently.
//! Never: answers anyone; writes to the log.

mod repair;
mod replay;
mod trust_log;

use crate::settings::NodeSettings;
use base::{
    ClusterDescription, ConfigurationId, Error, GroupId, Millis, NodeId, Part, Placement, Reason,
    Result,
};
use dynamo::{batch, migrate_v1};
use logic::consensus::{Configuration, LeaseClock, Member};
pub use repair::LogRepair;
#[cfg(test)]
pub(crate) use repair::write_anew;
use replay::Replaying;
#[cfg(test)]
pub(crate) use replay::{Lost, survey};
pub(crate) use replay::{RepairedEntries, replay};
use replication::recovered::RecoveredGroup;
use runtime::log_writer::store_error;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{
    Chunk, DataDir, FileDisk, Log, LogSettings, LsmTrees, StoreError, TreeSettings, Trees,
};
pub use trust_log::trust_log;

/// State that was recovered from the data directory.
pub(crate) struct Recovered {
    pub directory: DataDir,
    /// Number of the incarnation that begins.
    pub incarnation: u64,
    pub trees: Arc<dyn Trees>,
    pub log: Log,
    pub groups: Vec<RecoveredGroup>,
    /// True if this node is a witness.
    pub witness: bool,
    /// Applied mark of the vnodes.
    pub vnodes: batch::Mark,
}

/// Settings that all groups share.
pub(crate) struct Terms {
    node: NodeId,
    pub lease: LeaseClock,
    /// Members of a group that is not recorded yet.
    first: Configuration,
    /// Groups created since, each with its founders.
    made: BTreeMap<GroupId, Configuration>,
    /// Groups of them in which this node has a replica, or is to get one.
    own: BTreeSet<GroupId>,
    /// Highest number that any group had. Unknown groups below it were dropped.
    made_upto: GroupId,
    /// True if this node is a witness: it keeps rows of the directory only.
    pub witness: bool,
}

/// Opens everything under the data directory and replays the log. Blocking. `first`: the members of
/// a group that is not recorded yet. `None`: this node alone.
pub(crate) fn recover(settings: &NodeSettings, first: Option<Configuration>) -> Result<Recovered> {
    let directory = DataDir::open(&settings.data_dir).map_err(unusable)?;
    let Opened { trees, log, records, terms } = open(settings, &directory, first, false)?;
    let incarnation = directory.begin_life().map_err(unusable)?;
    let (groups, vnodes) = replay(&log, records, &*trees, &terms, &RepairedEntries::default())?;
    drop_rows(&terms, &*trees)?;
    let rows = migrate_v1::put_in_slots(&*trees)?;
    if rows > 0 {
        tracing::info!(target: "store", rows, "rows of an earlier version have their new places");
    }
    let witness = terms.witness;
    Ok(Recovered { directory, incarnation, trees, log, groups, witness, vnodes })
}

/// Parts that are needed to replay a log.
struct Opened {
    trees: Arc<dyn Trees>,
    log: Log,
    records: store::Replay,
    terms: Terms,
}

fn open(
    settings: &NodeSettings,
    directory: &DataDir,
    first: Option<Configuration>,
    past_damage: bool,
) -> Result<Opened> {
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
    let opened = if past_damage {
        Log::open_past_damage(disk, log_settings)
    } else {
        Log::open(disk, log_settings)
    };
    let (log, records) = opened.map_err(store_error)?;
    let known = directory.members().map_err(store_error)?;
    let first = match first {
        Some(first) => Some(first),
        None => known.as_ref().map_or(Ok(None), founder)?,
    };
    let mut terms = terms(NodeId(directory.node), settings.lease_ms, first)?;
    terms.lease.reads = settings.lease_reads;
    terms.witness = known.as_ref().is_some_and(|known| known.is_witness(terms.node));
    for placement in known.iter().flat_map(|known| &known.groups) {
        terms.add(placement)?;
    }
    terms.made_upto = directory.made_upto().map_err(store_error)?.max(GroupId::DEFAULT);
    Ok(Opened { trees, log, records, terms })
}

/// A group begins with the founder of the cluster alone; none: this node founds one, or has.
fn founder(known: &ClusterDescription) -> Result<Option<Configuration>> {
    if known.founder.0 == 0 {
        return Ok(None);
    }
    let alone = Configuration::alone(ConfigurationId(0), known.founder);
    alone.map(Some).map_err(|error| Error::new(Reason::Corrupt, error.to_string()))
}

/// Creates a group that begins on this node: it has promised nothing and holds nothing. Its
/// founders must be stored before.
pub(crate) fn begin(
    placement: &Placement,
    (node, settings, witness): (NodeId, &NodeSettings, bool),
    trees: &dyn Trees,
) -> Result<RecoveredGroup> {
    let first = founders(placement)?;
    let mut terms = Terms { witness, ..terms(node, settings.lease_ms, Some(first))? };
    terms.lease.reads = settings.lease_reads;
    Replaying::new(placement.group, trees, &terms)?.finish(&terms, trees)
}

/// Returns the founders of a group as its first configuration.
fn founders(placement: &Placement) -> Result<Configuration> {
    let voter = |node: &NodeId| Member { node: *node, part: Part::Voter };
    let members = placement.founders.iter().map(voter).collect();
    Configuration::new(ConfigurationId(0), members).map_err(|error| {
        let text = format!("whom group {} began with: {error}", placement.group);
        Error::new(Reason::Corrupt, text)
    })
}

/// A group may have been dropped when its rows were not gone yet.
fn drop_rows(terms: &Terms, trees: &dyn Trees) -> Result<()> {
    let numbers = (GroupId::DEFAULT.0 + 1)..=terms.made_upto.0;
    for id in numbers.map(GroupId).filter(|id| terms.is_dropped(*id)) {
        let prefix = id.0.to_be_bytes();
        let found = Chunk::read(&*trees.snapshot(), &prefix, None, 1).map_err(store_error)?;
        if !found.rows.is_empty() {
            trees.drop_prefix(&prefix).map_err(store_error)?;
        }
    }
    Ok(())
}

/// Returns the settings that all groups of this node share. `first`: see [`recover`].
pub(crate) fn terms(node: NodeId, lease_ms: u64, first: Option<Configuration>) -> Result<Terms> {
    let lease = LeaseClock { length: Millis(lease_ms), ..LeaseClock::default() };
    let alone = || Configuration::alone(ConfigurationId(0), node);
    let first = first
        .map_or_else(alone, Ok)
        .map_err(|error| Error::new(Reason::Corrupt, error.to_string()))?;
    Ok(Terms {
        node,
        lease,
        first,
        made: BTreeMap::new(),
        own: BTreeSet::new(),
        made_upto: GroupId::DEFAULT,
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

    /// Returns true if a group of this number existed and was dropped.
    fn is_dropped(&self, group: GroupId) -> bool {
        group > GroupId::DEFAULT && group <= self.made_upto && !self.made.contains_key(&group)
    }

    /// Checks that the founders of a record's group are known.
    fn check(&self, group: GroupId) -> Result<()> {
        if self.made.contains_key(&group) {
            return Ok(());
        }
        let text = format!(
            "the log holds a record of group {group}, and this node's list of members (MEMBERS) \
             does not say whom that group began with: put the list back, or replace the node"
        );
        Err(Error::new(Reason::Corrupt, text))
    }

    /// Returns the first configuration of a group.
    fn first(&self, group: GroupId) -> &Configuration {
        self.made.get(&group).unwrap_or(&self.first)
    }
}

/// Converts an error of a data directory that can't be used. Its operator has to mend it; nothing
/// has failed.
pub(crate) fn unusable(error: StoreError) -> Error {
    use std::io::ErrorKind::{
        AlreadyExists, InvalidInput, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
    };
    match &error {
        StoreError::Locked { .. } => {
            let text = format!("{error}: stop that one, or name another directory with `data_dir`");
            Error::new(Reason::InUse, text)
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
