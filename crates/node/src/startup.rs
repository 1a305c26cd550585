//! Start of a node.

use crate::assembly::{RecoveredParts, assemble};
use crate::cluster::OwnIncarnations;
use crate::count_keeper::{self, CountKeeper};
use crate::index_keeper::{self, IndexKeeper};
use crate::locator::GroupLocator;
use crate::moves::RoutedDirectory;
use crate::ring_replacement::{self, RingReplacement};
use crate::route::Router;
use crate::shutdown::DropGuard;
use crate::vnode_index_keeper::{self, VnodeIndexKeeper};
use crate::{Node, NodeSettings, access_bootstrap, alarm_watch, cluster, dispatch, master_alarm};
use base::error::shutting_down;
use base::{Error, IncarnationId, NodeId, Reason, Result};
use dynamo::vnode_store::VnodeStore;
use dynamo::{
    Available, anti_entropy, failure_detector, feed_follower, feed_keeper, handoff, hints,
    operation_timers, reap,
};
use feed_watch::poll_buckets;
use logic::consensus::Configuration;
use replica_host::group_lifecycle::drive;
use replica_host::housekeeping::Merger;
use replica_host::recovery::{Recovered, recover};
use replica_host::{FeedKeeper, Groups, Lifecycle, disk_alarm};
use replication::group::Group;
use runtime::log_writer::{AppendCompletion, AppendSink, store_error};
use runtime::{Beat, Watch, world};
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::layout::VNODES;

/// Watch over loops that wait for nothing but their time: a quarter of the longest lease.
const BY_TIME: Watch = Watch::Every(Duration::from_secs(15));
/// Watch over loops that rest for moments, and wait for the directory, for other nodes and for
/// reads, each for a limited time.
const FOR_OTHERS: Watch = Watch::Every(Duration::from_secs(300));
/// Watch over loops whose steps read, send or compare a whole partition or group: this may be all
/// that a slow disk reads in an hour. Their pauses depend on settings and on the data.
const BY_PARTITION: Watch = Watch::Round(Duration::from_secs(3_600));
/// Watch over loops that rest until an event, and handle it at once.
const BY_EVENT: Watch = Watch::Round(Duration::from_secs(15));

/// Pause before a sole node whose mastership has ended looks for it again.
const MASTER_PAUSE: Duration = Duration::from_millis(10);

/// See [`Node::start`].
pub(crate) async fn start(settings: NodeSettings, first: Option<Configuration>) -> Result<Node> {
    let start_ms = world::milliseconds();
    let (recovered, incarnations) = recover_directory(settings.clone(), first).await?;
    let Recovered { directory: data, incarnation, trees, log, groups, is_witness, vnodes } =
        recovered;
    let (description, is_stored) = cluster::load_members(&data, &settings)?;
    let reader = log.reader();
    let parts = RecoveredParts {
        started_ms: start_ms,
        node: NodeId(data.node),
        data: Some(data),
        incarnations: OwnIncarnations { incarnation, known: incarnations },
        description,
        trees,
        reader,
        groups,
        is_witness,
        vnodes,
    };
    let interval = Duration::from_millis(settings.sync_interval_ms.max(1));
    let mut node = assemble(settings, parts)?;
    let completions = Arc::new(LogCompletions::of(&node));
    let disk = &node.housekeeper.disk;
    disk.log_writer.start(log, interval, completions, disk.metrics.clone())?;
    node.drop_guard = Some(Arc::new(DropGuard::of(&node)));
    dispatch::begin(&node).await?;
    start_loops(&node, is_stored);
    become_ready(&node).await?;
    start_threads(&node)?;
    let is_only_member = is_alone(&node.router.directory.group);
    if let Err(error) = access_bootstrap::apply(&node, is_only_member).await {
        // Whoever learns of it may start again: the data directory is free by then.
        let _ = node.stop().await;
        return Err(error);
    }
    tracing::info!(target: "node", took_ms = world::milliseconds() - start_ms, "serving");
    Ok(node)
}

/// Recovers the data directory, and returns the incarnations that this one may descend from. Empty
/// for a node without peers.
async fn recover_directory(
    settings: NodeSettings,
    first: Option<Configuration>,
) -> Result<(Recovered, Vec<IncarnationId>)> {
    let work = move || {
        let recovered = recover(&settings.host(), first)?;
        if let Some(reason) = recovered.directory.outdated_reason().map_err(store_error)? {
            return Err(Error::new(
                Reason::Forbidden,
                cluster::incarnations::outdated_text(&reason),
            ));
        }
        let incarnations = match settings.peers {
            Some(_) => cluster::incarnations::begin(&recovered.directory, recovered.incarnation)?,
            None => Vec::new(),
        };
        Ok((recovered, incarnations))
    };
    let recovered = tokio::task::spawn_blocking(work).await;
    recovered.unwrap_or_else(|_| Err(Error::new(Reason::StoreFailed, "recovery ended abnormally")))
}

/// Starts all background tasks. `is_stored`: see [`cluster::reconcile`].
fn start_loops(node: &Node, is_stored: bool) {
    let groups = node.router.locator.groups.all();
    groups.into_iter().for_each(|group| drive(&node.lifecycle, group));
    start_node_loops(node, is_stored);
}

/// Starts all background tasks but the drivers of groups.
pub(crate) fn start_node_loops(node: &Node, is_stored: bool) {
    let Node { router, cluster, lifecycle, .. } = node;
    let (loops, stop) = (&lifecycle.tasks.loops, || lifecycle.stop_signal());
    start_vnode_loops(&router.available, lifecycle);
    let reconcile = cluster::reconcile(cluster.clone(), is_stored);
    loops.spawn("cluster", FOR_OTHERS, reconcile);
    let (directory, available) = (router.directory.clone(), router.available.clone());
    let replacement = RingReplacement { directory, available };
    loops.spawn("ring replacement", FOR_OTHERS, ring_replacement::run(replacement, stop()));
    loops.spawn("audit", BY_PARTITION, cluster.calls.audit.clone().run());
    let watch = disk_alarm::watch(cluster.disk.clone(), stop());
    loops.spawn("disk alarm", BY_TIME, watch);
    let alarm = master_alarm::watch(router.clone());
    loops.spawn("master alarm", BY_TIME, alarm);
    let watch = alarm_watch::watch(node.status.clone(), stop());
    loops.spawn("alarms", BY_TIME, watch);
    loops.spawn("moves", FOR_OTHERS, bucket_moves::reconcile(node.moves.clone()));
    loops.spawn("counts", FOR_OTHERS, count_keeper::run(CountKeeper::new(router.clone())));
    loops.spawn("indexes", FOR_OTHERS, index_keeper::run(IndexKeeper::new(router.clone())));
    loops.spawn("feeds", FOR_OTHERS, feed_keeper(router).run());
    let (polled, signals) = (router.clone(), router.feed_watchers.polled.clone());
    loops.spawn("feed polls", BY_EVENT, poll_buckets(polled, signals, stop()));
    let keeper = VnodeIndexKeeper::new(router.clone());
    loops.spawn("indexes of vnodes", FOR_OTHERS, vnode_index_keeper::run(keeper));
}

/// Returns the keeper of the feeds of a node's groups.
pub(crate) fn feed_keeper(router: &Arc<Router>) -> FeedKeeper {
    let GroupLocator { groups, catalog, .. } = &router.locator;
    let directory = Box::new(RoutedDirectory(router.clone()));
    let (metrics, lifecycle) = (router.metrics.clone(), router.lifecycle.clone());
    FeedKeeper::new(groups.clone(), catalog.clone(), directory, metrics, lifecycle)
}

/// Starts all background tasks of available buckets.
pub(crate) fn start_vnode_loops(available: &Arc<Available>, lifecycle: &Arc<Lifecycle>) {
    let (vnode_store, owner) = (available.vnode_store.clone(), lifecycle.clone());
    let tasks = &available.tasks;
    let stop = tasks.cancellation_token().clone();
    tasks.spawn("vnodes", BY_EVENT, async move {
        if let Err(error) = vnode_store.run(stop).await {
            owner.fail(error);
        }
    });
    tasks.spawn("times of requests", BY_EVENT, operation_timers::run(available.clone()));
    let detector = failure_detector::run(available.clone());
    tasks.spawn("failure detector", BY_TIME, detector);
    tasks.spawn("hinted handoff", FOR_OTHERS, hints::run(available.clone()));
    tasks.spawn("anti-entropy", BY_PARTITION, anti_entropy::run(available.clone()));
    tasks.spawn("handoff", BY_PARTITION, handoff::run(available.clone()));
    tasks.spawn("tombstones", BY_PARTITION, reap::run(available.clone()));
    tasks.spawn("feeds of vnodes", FOR_OTHERS, feed_keeper::run(available.clone()));
    tasks.spawn("feeds of nodes", BY_EVENT, feed_follower::run(available.clone()));
}

fn start_threads(node: &Node) -> Result<()> {
    let loops = &node.lifecycle.tasks.loops;
    let keeper = node.housekeeper.clone();
    let start_merger = |name, merger| {
        let keeper = node.housekeeper.clone();
        loops.start_thread(name, move |beat| keeper.run_merger(merger, beat))
    };
    let started = loops.start_thread("housekeeper", move |beat| keeper.run_maintenance(beat));
    let started = started.and_then(|()| start_merger("merger", Merger::Any));
    let started = started.and_then(|()| start_merger("small merger", Merger::Small));
    let recorder = node.router.recorder.clone();
    let write_audit = move |beat: &Beat| recorder.trail.run(beat);
    let started = started.and_then(|()| loops.start_thread("audit writer", write_audit));
    let watchdog = node.status.diagnostics.watchdog.clone();
    let started = started.and_then(|()| loops.start_thread("watchdog", move |_| watchdog.run()));
    started
        .map_err(|error| Error::new(Reason::StartFailed, format!("can't start a thread: {error}")))
}

async fn become_ready(node: &Node) -> Result<()> {
    let serving = async {
        for group in node.router.locator.groups.all() {
            wait_for_master(&group).await?;
        }
        match is_alone(&node.router.directory.group) {
            true => found_cluster(node).await,
            false => Ok(()),
        }
    };
    tokio::select! {
        biased;
        error = node.wait_failed() => Err(error),
        opened = serving => opened,
    }
}

/// Founds the cluster, if it is not founded yet. The mastership that this needs may end meanwhile
/// for a moment, as that of a node whose disk hangs: then it goes on once it is back.
pub(crate) async fn found_cluster(node: &Node) -> Result<()> {
    loop {
        match node.cluster.found_cluster().await {
            Err(error) if error.reason == Reason::NotMaster => {
                tokio::time::sleep(MASTER_PAUSE).await;
                wait_for_master(&node.router.directory.group).await?;
            }
            founded => return founded,
        }
    }
}

/// Returns true if this node is the group's only member.
fn is_alone(group: &Group) -> bool {
    let configuration = group.configuration();
    let mut members = configuration.members().iter();
    members.all(|member| member.node == group.shared.node)
}

/// Resolves when a group of this node alone has its master and has applied what it must. A group of
/// several members need not have a master for a node to start.
async fn wait_for_master(group: &Group) -> Result<()> {
    if !is_alone(group) {
        return Ok(());
    }
    let mut leadership = group.leadership.subscribe();
    let elected = leadership.wait_for(|leadership| leadership.master.is_some()).await;
    elected.map(|_| ()).map_err(|_| shutting_down())
}

/// Passes completions of the log writer to the groups.
pub(crate) struct LogCompletions {
    groups: Arc<Groups>,
    vnode_store: Arc<VnodeStore>,
    lifecycle: Arc<Lifecycle>,
}

impl LogCompletions {
    pub(crate) fn of(node: &Node) -> LogCompletions {
        let Node { router, lifecycle, .. } = node;
        let (groups, vnode_store) =
            (router.locator.groups.clone(), router.available.vnode_store.clone());
        LogCompletions { groups, vnode_store, lifecycle: lifecycle.clone() }
    }
}

impl AppendSink for LogCompletions {
    fn on_completions(&self, records: &[AppendCompletion]) {
        for group_records in records.chunk_by(|record, following| record.group == following.group) {
            if group_records[0].group == VNODES {
                self.vnode_store.on_completions(group_records);
                continue;
            }
            let Some(group) = self.groups.get(group_records[0].group) else { continue };
            group.driver.report(group_records);
        }
    }

    fn on_log_failure(&self, error: Error) {
        tracing::error!(target: "log", %error, "the log failed: the node stops");
        self.lifecycle.fail_log(error);
    }
}
