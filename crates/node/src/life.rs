//! How a node begins.

use crate::answers::Answers;
use crate::group_lifecycle::drive;
use crate::groups::Groups;
use crate::metadata::Directory;
use crate::metadata::catalog::Catalog;
use crate::recovery::{Recovered, recover};
use crate::transfer::Transfers;
use crate::{
    Inner, Node, NodeSettings, audit, cluster, disk_alarm, exchange, master_alarm, ring,
    ring_heirs, transfer,
};
use base::error::shutting_down;
use base::{BucketName, ClusterDescription, Error, GroupId, Lived, NodeId, Reason, Result};
use dynamo::batch::Mark;
use dynamo::finding::Finding;
use dynamo::layout::VNODES;
use dynamo::moving::{self, Moving};
use dynamo::multi_key::Seats;
use dynamo::quickest::Quickest;
use dynamo::shelf::Shelf;
use dynamo::watching::{self, Watching};
use dynamo::{Available, Members, hints, reap, sync};
use logic::consensus::Configuration;
use replication::comparison::Comparisons;
use replication::group::{Group, GroupLimits, Shared};
use replication::recovered::RecoveredGroup;
use replication::snapshot::{Pace, Snapshots};
use runtime::keeper::{AppendSink, Keeper, LoggedRecord, store_error};
use runtime::maintenance_signal::MaintenanceSignal;
use runtime::metrics::Metrics;
use runtime::world;
use runtime::{DiskSpace, file_tasks::FileTasks};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use store::{DataDir, LogReader, Trees};
use tokio::sync::watch;
use transport::incoming::CallAdmission;

/// See [`Node::start`].
pub(crate) async fn start(settings: NodeSettings, first: Option<Configuration>) -> Result<Node> {
    let began = world::milliseconds();
    let (found, lives) = found(settings.clone(), first).await?;
    let Recovered { directory: data, incarnation, trees, log, groups, witness, vnodes } = found;
    let (known, is_written_down) = cluster::known(&data, &settings)?;
    let reader = log.reader();
    let parts = Parts {
        began_ms: began,
        node: NodeId(data.node),
        data: Some(data),
        incarnation,
        lives,
        known,
        is_written_down,
        trees,
        reader,
        groups,
        witness,
        vnodes,
    };
    let inner = assemble(settings, parts)?;
    let post = Arc::new(Post::of(&inner));
    let interval = Duration::from_millis(inner.settings.sync_interval_ms.max(1));
    inner.keeper.start(log, interval, post, inner.metrics.clone())?;
    exchange::begin(&inner).await?;
    let node = Node { inner };
    watch_over(&node);
    become_ready(&node).await?;
    start_threads(&node.inner)?;
    tracing::info!(target: "node", took_ms = world::milliseconds() - began, "serving");
    Ok(node)
}

/// What a node is made of.
pub(crate) struct Parts {
    pub began_ms: u64,
    pub node: NodeId,
    /// None: it has no directory.
    pub data: Option<DataDir>,
    pub incarnation: u64,
    /// Those that the cluster may have on record; with this one, if it has a token.
    pub lives: Vec<Lived>,
    pub known: ClusterDescription,
    pub is_written_down: bool,
    pub trees: Arc<dyn Trees>,
    pub reader: LogReader,
    pub groups: Vec<RecoveredGroup>,
    pub witness: bool,
    pub vnodes: Mark,
}

/// A node that does nothing yet.
pub(crate) fn assemble(settings: NodeSettings, parts: Parts) -> Result<Arc<Inner>> {
    let Parts { node, data, incarnation, known, is_written_down, trees, witness, .. } = parts;
    let (keeper, metrics) = (Keeper::new(), Arc::new(Metrics::default()));
    let (maintenance, peers) = (Arc::new(MaintenanceSignal::default()), Arc::default());
    let file_tasks = Arc::<FileTasks>::default();
    let around = (metrics.clone(), file_tasks.clone());
    let snapshots = Snapshots::new(trees.clone(), around, Pace::default());
    let shared = Shared {
        node,
        trees: trees.clone(),
        keeper: keeper.clone(),
        reader: parts.reader,
        metrics: metrics.clone(),
        maintenance: maintenance.clone(),
        peers: Arc::clone(&peers),
        snapshots: Arc::clone(&snapshots),
        comparisons: Comparisons::new(trees.clone()),
        limits: GroupLimits {
            memory_bytes_max: settings.memory_bytes_max,
            lease_ms: settings.lease_ms,
            catch_up_bytes_per_second: settings.catch_up_bytes_per_second,
            kept_bytes_max: settings.log_bytes_max,
        },
        witness,
        forced_master: Arc::new(AtomicU64::new(settings.forced_among(&known).0)),
    };
    let cluster = known.cluster;
    let catalog = Arc::new(Catalog::new(known));
    let group = |found| Arc::new(Group::new(found, shared.clone()));
    let groups = Arc::new(Groups::new(parts.groups.into_iter().map(group).collect()));
    let directory = Directory::new(groups.find(GroupId::DIRECTORY)?, catalog.clone())?;
    let answers = Answers::new(settings.memory_bytes_max);
    let incoming = Arc::<CallAdmission>::default();
    let space = Arc::new(DiskSpace::default());
    let limits = (Arc::clone(&incoming), Arc::clone(&space));
    let available = available(&settings, &shared, &catalog, (incarnation, parts.vnodes), limits);
    let inner = Arc::new(Inner {
        settings,
        node,
        incarnation,
        lives: parts.lives,
        cluster,
        is_written_down,
        data: Mutex::new(data),
        groups,
        peers,
        snapshots,
        catalog,
        directory,
        heard_directory: AtomicBool::new(false),
        incoming,
        available,
        answers,
        transfers: Transfers::default(),
        keeper,
        trees,
        metrics,
        maintenance,
        flushed_at: AtomicU64::new(0),
        flushing: Mutex::new(()),
        file_tasks,
        space,
        stopping: AtomicBool::new(false),
        stop: watch::Sender::new(false),
        failed: watch::Sender::new(None),
        started_ms: parts.began_ms,
    });
    ring::connect(&inner);
    Ok(inner)
}

/// Returns the available path, with what the data directory holds of its vnodes.
fn available(
    settings: &NodeSettings,
    shared: &Shared,
    catalog: &Arc<Catalog>,
    found: (u64, Mark),
    (incoming, space): (Arc<CallAdmission>, Arc<DiskSpace>),
) -> Arc<Available> {
    Arc::new(Available {
        node: shared.node,
        cluster: catalog.cluster().cluster,
        settings: settings.available(),
        schema: catalog.available.clone(),
        members: Members::new((shared.node, settings.name.clone()), catalog.watch_cluster()),
        peers: Arc::clone(&shared.peers),
        incoming,
        directory: OnceLock::new(),
        shelf: shelf(shared, catalog.clone(), found),
        watching: Watching::new(shared.metrics.clone()),
        finding: Finding::begin(),
        quickest: Quickest::default(),
        seats: Seats::default(),
        space,
        moving: Moving::default(),
        trees: shared.trees.clone(),
        metrics: shared.metrics.clone(),
    })
}

/// What the data directory holds, and the lives that this one comes from: of a node that speaks to
/// no others nobody asks.
async fn found(
    settings: NodeSettings,
    first: Option<Configuration>,
) -> Result<(Recovered, Vec<Lived>)> {
    let finding = move || {
        let found = recover(&settings, first)?;
        if let Some(words) = found.directory.outdated().map_err(store_error)? {
            return Err(Error::new(Reason::Forbidden, cluster::lives::outdated(&words)));
        }
        let lives = match settings.peers {
            Some(_) => cluster::lives::begin(&found.directory, found.incarnation)?,
            None => Vec::new(),
        };
        Ok((found, lives))
    };
    let found = tokio::task::spawn_blocking(finding).await;
    found.unwrap_or_else(|_| Err(Error::new(Reason::StoreFailed, "recovery ended abnormally")))
}

/// What the vnodes hold, as it was found.
fn shelf(shared: &Shared, catalog: Arc<Catalog>, found: (u64, Mark)) -> Arc<Shelf> {
    let Shared { node, trees, keeper, maintenance, .. } = shared;
    let known = catalog.clone();
    let alone = Box::new(move || known.cluster().members.len() < 2);
    let copies = move |bucket: &BucketName| Some(catalog.available.find(bucket)?.replication.n_val);
    let around = (Box::new(copies) as _, alone as _);
    Arc::new(Shelf::new(*node, found, trees.clone(), keeper.clone(), maintenance.clone(), around))
}

fn watch_over(node: &Node) {
    let inner = &node.inner;
    inner.groups.all().into_iter().for_each(|group| drive(inner, group));
    tend_vnodes(inner);
    tokio::spawn(cluster::tend(node.clone(), inner.stop.subscribe()));
    tokio::spawn(ring_heirs::tend(inner.clone(), inner.stop.subscribe()));
    tokio::spawn(audit::audit(inner.clone(), inner.stop.subscribe()));
    tokio::spawn(disk_alarm::watch(inner.clone(), inner.stop.subscribe()));
    tokio::spawn(master_alarm::watch(inner.clone(), inner.stop.subscribe()));
    world::spawn(transfer::tend(inner.clone(), inner.stop.subscribe()));
}

/// All that goes on in the background of available buckets.
pub(crate) fn tend_vnodes(inner: &Arc<Inner>) {
    let (owner, stop) = (inner.clone(), inner.stop.subscribe());
    world::spawn(async move {
        if let Err(error) = owner.available.shelf.drive(stop).await {
            owner.fail(error);
        }
    });
    world::spawn(watching::tend(inner.available.clone(), inner.stop.subscribe()));
    world::spawn(hints::tend(inner.available.clone(), inner.stop.subscribe()));
    world::spawn(sync::tend(inner.available.clone(), inner.stop.subscribe()));
    world::spawn(moving::tend(inner.available.clone(), inner.stop.subscribe()));
    world::spawn(reap::tend(inner.available.clone(), inner.stop.subscribe()));
}

fn start_threads(inner: &Arc<Inner>) -> Result<()> {
    let (keeper, merger) = (inner.clone(), inner.clone());
    start_thread("housekeeper", move || keeper.keep_house())?;
    start_thread("merger", move || merger.keep_merging())
}

fn start_thread(name: &str, life: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(life)
        .map(|_| ())
        .map_err(|error| Error::new(Reason::StartFailed, format!("no thread to be had: {error}")))
}

async fn become_ready(node: &Node) -> Result<()> {
    let serving = async {
        for group in node.inner.groups.all() {
            led(&group).await?;
        }
        match is_alone(&node.inner.directory.group) {
            true => node.inner.found().await,
            false => Ok(()),
        }
    };
    tokio::select! {
        biased;
        error = node.failed() => Err(error),
        opened = serving => opened,
    }
}

/// Whether this node is all there is of the group.
fn is_alone(group: &Group) -> bool {
    let configuration = group.configuration();
    let mut members = configuration.members().iter();
    members.all(|member| member.node == group.shared.node)
}

/// Resolves when this node knows who is master of the group, having applied what it must if it is
/// itself. A group of several need not have one for a node to begin.
async fn led(group: &Group) -> Result<()> {
    if !is_alone(group) {
        return Ok(());
    }
    let mut standing = group.leadership.standing();
    let led = standing.wait_for(|standing| standing.master.is_some()).await;
    led.map(|_| ()).map_err(|_| shutting_down())
}

/// Brings the keeper's news to the groups.
pub(crate) struct Post {
    groups: Arc<Groups>,
    shelf: Arc<Shelf>,
    failed: watch::Sender<Option<Error>>,
}

impl Post {
    pub(crate) fn of(inner: &Inner) -> Post {
        let (groups, shelf) = (inner.groups.clone(), inner.available.shelf.clone());
        Post { groups, shelf, failed: inner.failed.clone() }
    }
}

impl AppendSink for Post {
    fn done(&self, done: &[LoggedRecord]) {
        for mine in done.chunk_by(|one, next| one.group == next.group) {
            if mine[0].group == VNODES {
                self.shelf.done(mine);
                continue;
            }
            let Some(group) = self.groups.get(mine[0].group) else { continue };
            group.driver.report(mine);
        }
    }

    fn failed(&self, error: Error) {
        tracing::error!(target: "log", %error, "the log failed: the node stops");
        // First, so that whoever asks whether the node is ready is told this, and not what follows
        // from it. Nothing is acknowledged any more: the log says nothing more.
        self.failed.send_replace(Some(error.clone()));
        for group in self.groups.all() {
            group.fail(error.clone());
        }
        self.shelf.fail(error);
    }
}
