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

use crate::settings::HostSettings;
use base::{
    ClusterDescription, ConfigurationId, Error, FeatureLevel, GroupId, Millis, NodeId, Part,
    Placement, Reason, Result,
};
use logic::consensus::{Configuration, LeaseClock, Member};
pub use repair::{LogRepair, rewrite_log};
use replay::GroupReplay;
pub use replay::{LostEntries, RepairedEntries, replay, survey};
use replication::recovered::RecoveredGroup;
use runtime::log_writer::store_error;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{
    Chunk, DataDir, FileDisk, Log, LogSettings, LsmTrees, StoreError, TreeSettings, Trees,
};
pub use trust_log::trust_log;
use vnode_rows::{batch, migrate_v1};

/// State that was recovered from the data directory.
pub struct Recovered {
    /// The data directory, locked.
    pub directory: DataDir,
    /// Number of the incarnation that begins.
    pub incarnation: u64,
    /// Store of the rows.
    pub trees: Arc<dyn Trees>,
    /// The log, open at its end.
    pub log: Log,
    /// Groups with a replica here.
    pub groups: Vec<RecoveredGroup>,
    /// True if this node is a witness.
    pub is_witness: bool,
    /// Applied mark of the vnodes.
    pub vnodes: batch::Mark,
}

/// Settings and founders that the replay of a log needs.
pub struct ReplayContext {
    node: NodeId,
    /// Lease of every group.
    pub lease: LeaseClock,
    /// Default first configuration, of groups without recorded founders.
    initial: Configuration,
    /// Groups that were created later, each with its founders.
    created: BTreeMap<GroupId, Configuration>,
    /// Created groups of which this node has a replica, or is to get one.
    local_groups: BTreeSet<GroupId>,
    /// Highest number of all groups so far. Unknown groups up to it were dropped.
    highest_group: GroupId,
    /// True if this node is a witness: it keeps rows of the directory only.
    pub is_witness: bool,
}

/// Opens everything under the data directory and replays the log. Blocking. `initial`: first
/// configuration of groups without recorded founders. `None`: this node alone.
pub fn recover(settings: &HostSettings, initial: Option<Configuration>) -> Result<Recovered> {
    let directory = DataDir::open(&settings.data_dir).map_err(data_dir_error)?;
    let Opened { trees, log, records, context } = open(settings, &directory, initial, false)?;
    let incarnation = directory.increment_incarnation().map_err(data_dir_error)?;
    let (groups, vnodes) = replay(&log, records, &*trees, &context, &RepairedEntries::default())?;
    drop_rows(&context, &*trees)?;
    let rows = migrate_v1::migrate(&*trees)?;
    if rows > 0 {
        tracing::info!(target: "store", rows, "rows of an earlier version are migrated");
    }
    let is_witness = context.is_witness;
    Ok(Recovered { directory, incarnation, trees, log, groups, is_witness, vnodes })
}

/// Parts that are needed to replay a log.
struct Opened {
    trees: Arc<dyn Trees>,
    log: Log,
    records: store::Replay,
    context: ReplayContext,
}

fn open(
    settings: &HostSettings,
    directory: &DataDir,
    initial: Option<Configuration>,
    past_damage: bool,
) -> Result<Opened> {
    directory.check_log().map_err(data_dir_error)?;
    let trees = LsmTrees::open(TreeSettings {
        memory_bytes_max: settings.memory_bytes_max,
        packs_values: directory.level >= FeatureLevel::WITH_COUNTS,
        ..TreeSettings::new(directory.path.join("store"))
    });
    let trees: Arc<dyn Trees> = Arc::new(trees.map_err(store_error)?);
    let disk = Arc::new(FileDisk::open(&directory.path.join("log")).map_err(store_error)?);
    let log_settings = LogSettings {
        segment_bytes: settings.segment_bytes,
        log_id: directory.node,
        ..LogSettings::default()
    };
    let opened = if past_damage {
        Log::open_past_damage(disk, log_settings)
    } else {
        Log::open(disk, log_settings)
    };
    let (log, records) = opened.map_err(store_error)?;
    let cluster = directory.members().map_err(store_error)?;
    let initial = match initial {
        Some(initial) => Some(initial),
        None => cluster.as_ref().map_or(Ok(None), founder)?,
    };
    let mut context = context(NodeId(directory.node), settings.lease_ms, initial)?;
    context.lease.allows_reads = settings.lease_reads;
    context.is_witness = cluster.as_ref().is_some_and(|cluster| cluster.is_witness(context.node));
    for placement in cluster.iter().flat_map(|cluster| &cluster.groups) {
        context.add(placement)?;
    }
    context.highest_group = directory.highest_group().map_err(store_error)?.max(GroupId::DEFAULT);
    Ok(Opened { trees, log, records, context })
}

/// Returns the first configuration: the cluster's founder alone. `None`: this node founds a
/// cluster, or has founded it.
fn founder(cluster: &ClusterDescription) -> Result<Option<Configuration>> {
    if cluster.founder.0 == 0 {
        return Ok(None);
    }
    let sole_member = Configuration::single_member(ConfigurationId(0), cluster.founder);
    sole_member.map(Some).map_err(|error| Error::new(Reason::Corrupt, error.to_string()))
}

/// Creates the state of a group's new replica: no promised ballot and no entries. The founders must
/// be stored before.
pub fn new_group(
    placement: &Placement,
    (node, settings, is_witness): (NodeId, &HostSettings, bool),
    trees: &dyn Trees,
) -> Result<RecoveredGroup> {
    let initial = founders(placement)?;
    let mut context =
        ReplayContext { is_witness, ..context(node, settings.lease_ms, Some(initial))? };
    context.lease.allows_reads = settings.lease_reads;
    GroupReplay::new(placement.group, trees, &context)?.finish(&context, trees)
}

/// Returns the founders of a group as its first configuration.
fn founders(placement: &Placement) -> Result<Configuration> {
    let voter = |node: &NodeId| Member { node: *node, part: Part::Voter };
    let members = placement.founders.iter().map(voter).collect();
    Configuration::new(ConfigurationId(0), members).map_err(|error| {
        let text = format!("invalid founders of group {}: {error}", placement.group);
        Error::new(Reason::Corrupt, text)
    })
}

/// Removes rows of dropped groups that an interrupted stop left behind.
fn drop_rows(context: &ReplayContext, trees: &dyn Trees) -> Result<()> {
    let ids = (GroupId::DEFAULT.0 + 1)..=context.highest_group.0;
    for id in ids.map(GroupId).filter(|id| context.is_dropped(*id)) {
        let prefix = id.0.to_be_bytes();
        let rows = Chunk::read(&*trees.snapshot(), &prefix, None, 1).map_err(store_error)?;
        if !rows.rows.is_empty() {
            trees.drop_prefix(&prefix).map_err(store_error)?;
        }
    }
    Ok(())
}

/// Returns the settings that all groups of this node share. `initial`: see [`recover`].
pub fn context(
    node: NodeId,
    lease_ms: u64,
    initial: Option<Configuration>,
) -> Result<ReplayContext> {
    let lease = LeaseClock { length: Millis(lease_ms), ..LeaseClock::default() };
    let sole_member = || Configuration::single_member(ConfigurationId(0), node);
    let initial = initial
        .map_or_else(sole_member, Ok)
        .map_err(|error| Error::new(Reason::Corrupt, error.to_string()))?;
    Ok(ReplayContext {
        node,
        lease,
        initial,
        created: BTreeMap::new(),
        local_groups: BTreeSet::new(),
        highest_group: GroupId::DEFAULT,
        is_witness: false,
    })
}

impl ReplayContext {
    /// Registers a created group.
    pub fn add(&mut self, placement: &Placement) -> Result<()> {
        if placement.founders.is_empty() {
            return Ok(()); // It has the default first configuration.
        }
        self.created.insert(placement.group, founders(placement)?);
        if placement.involves(self.node) {
            self.local_groups.insert(placement.group);
        }
        Ok(())
    }

    /// Returns true if a group of this number existed and was dropped.
    fn is_dropped(&self, group: GroupId) -> bool {
        group > GroupId::DEFAULT
            && group <= self.highest_group
            && !self.created.contains_key(&group)
    }

    /// Checks that the founders of a record's group are known.
    fn check(&self, group: GroupId) -> Result<()> {
        if self.created.contains_key(&group) {
            return Ok(());
        }
        let text = format!(
            "the log has a record of group {group}, but the file MEMBERS does not name the \
             founders of that group: restore the file, or replace the node"
        );
        Err(Error::new(Reason::Corrupt, text))
    }

    /// Returns the first configuration of a group.
    fn initial(&self, group: GroupId) -> &Configuration {
        self.created.get(&group).unwrap_or(&self.initial)
    }
}

/// Converts an error of opening a data directory, which the operator must resolve.
pub fn data_dir_error(error: StoreError) -> Error {
    use std::io::ErrorKind::{
        AlreadyExists, InvalidInput, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
    };
    match &error {
        StoreError::Locked { .. } => {
            let text =
                format!("{error}: stop that process, or choose another directory with `data_dir`");
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
