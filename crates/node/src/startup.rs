//! Start of a node.

use crate::assembly::{Parts, assemble};
use crate::cluster::OwnIncarnations;
use crate::group_lifecycle::drive;
use crate::groups::Groups;
use crate::lifecycle::Lifecycle;
use crate::recovery::{Recovered, recover};
use crate::ring_replacement::{self, RingReplacement};
use crate::{Node, NodeSettings, cluster, disk_alarm, dispatch, master_alarm, transfer};
use base::error::shutting_down;
use base::{Error, IncarnationId, NodeId, Reason, Result};
use dynamo::layout::VNODES;
use dynamo::vnode_store::VnodeStore;
use dynamo::{Available, anti_entropy, failure_detector, handoff, hints, reap};
use logic::consensus::Configuration;
use replication::group::Group;
use runtime::log_writer::{AppendSink, LoggedRecord, store_error};
use runtime::world;
use std::sync::Arc;
use std::time::Duration;

/// See [`Node::start`].
pub(crate) async fn start(settings: NodeSettings, first: Option<Configuration>) -> Result<Node> {
    let began = world::milliseconds();
    let (found, incarnations) = found(settings.clone(), first).await?;
    let Recovered { directory: data, incarnation, trees, log, groups, witness, vnodes } = found;
    let (known, is_written_down) = cluster::known(&data, &settings)?;
    let reader = log.reader();
    let parts = Parts {
        began_ms: began,
        node: NodeId(data.node),
        data: Some(data),
        incarnations: OwnIncarnations { incarnation, known: incarnations },
        known,
        trees,
        reader,
        groups,
        witness,
        vnodes,
    };
    let interval = Duration::from_millis(settings.sync_interval_ms.max(1));
    let node = assemble(settings, parts)?;
    let post = Arc::new(LogCompletions::of(&node));
    let disk = &node.housekeeper.disk;
    disk.log_writer.start(log, interval, post, disk.metrics.clone())?;
    dispatch::begin(&node).await?;
    start_loops(&node, is_written_down);
    become_ready(&node).await?;
    start_threads(&node)?;
    tracing::info!(target: "node", took_ms = world::milliseconds() - began, "serving");
    Ok(node)
}

/// Recovers the data directory, and returns the incarnations that this one may descend from. A node
/// without peers has none.
async fn found(
    settings: NodeSettings,
    first: Option<Configuration>,
) -> Result<(Recovered, Vec<IncarnationId>)> {
    let warmup = move || {
        let found = recover(&settings, first)?;
        if let Some(words) = found.directory.outdated().map_err(store_error)? {
            return Err(Error::new(Reason::Forbidden, cluster::incarnations::outdated(&words)));
        }
        let incarnations = match settings.peers {
            Some(_) => cluster::incarnations::begin(&found.directory, found.incarnation)?,
            None => Vec::new(),
        };
        Ok((found, incarnations))
    };
    let found = tokio::task::spawn_blocking(warmup).await;
    found.unwrap_or_else(|_| Err(Error::new(Reason::StoreFailed, "recovery ended abnormally")))
}

/// Starts all background tasks. `is_written_down`: see [`cluster::reconcile`].
fn start_loops(node: &Node, is_written_down: bool) {
    let Node { router, cluster, lifecycle, .. } = node;
    let (loops, stop) = (&lifecycle.tasks.loops, || lifecycle.stop_signal());
    let groups = router.locator.groups.all();
    groups.into_iter().for_each(|group| drive(lifecycle, group));
    start_vnode_loops(&router.available, lifecycle);
    loops.spawn("cluster", cluster::reconcile(cluster.clone(), is_written_down));
    let (directory, available) = (router.directory.clone(), router.available.clone());
    let replacement = RingReplacement { directory, available };
    loops.spawn("ring replacement", ring_replacement::run(replacement, stop()));
    loops.spawn("audit", cluster.calls.audit.clone().run());
    loops.spawn("disk alarm", disk_alarm::watch(cluster.disk.clone(), stop()));
    let alarm = master_alarm::watch(router.readiness.clone(), lifecycle.clone());
    loops.spawn("master alarm", alarm);
    loops.spawn("moves", transfer::reconcile(node.moves.clone()));
}

/// Starts all background tasks of available buckets.
pub(crate) fn start_vnode_loops(available: &Arc<Available>, lifecycle: &Arc<Lifecycle>) {
    let (vnode_store, owner) = (available.vnode_store.clone(), lifecycle.clone());
    let tasks = &available.tasks;
    let stop = tasks.stop().clone();
    tasks.spawn("vnodes", async move {
        if let Err(error) = vnode_store.drive(stop).await {
            owner.fail(error);
        }
    });
    tasks.spawn("failure detector", failure_detector::run(available.clone()));
    tasks.spawn("hinted handoff", hints::run(available.clone()));
    tasks.spawn("anti-entropy", anti_entropy::run(available.clone()));
    tasks.spawn("handoff", handoff::run(available.clone()));
    tasks.spawn("tombstones", reap::run(available.clone()));
}

fn start_threads(node: &Node) -> Result<()> {
    let (keeper, merger) = (node.housekeeper.clone(), node.housekeeper.clone());
    let loops = &node.lifecycle.tasks.loops;
    let started = loops.start_thread("housekeeper", move || keeper.run_maintenance());
    let started =
        started.and_then(|()| loops.start_thread("merger", move || merger.keep_merging()));
    started
        .map_err(|error| Error::new(Reason::StartFailed, format!("no thread to be had: {error}")))
}

async fn become_ready(node: &Node) -> Result<()> {
    let serving = async {
        for group in node.router.locator.groups.all() {
            led(&group).await?;
        }
        match is_alone(&node.router.directory.group) {
            true => node.cluster.found().await,
            false => Ok(()),
        }
    };
    tokio::select! {
        biased;
        error = node.failed() => Err(error),
        opened = serving => opened,
    }
}

/// Returns true if this node is the group's only member.
fn is_alone(group: &Group) -> bool {
    let configuration = group.configuration();
    let mut members = configuration.members().iter();
    members.all(|member| member.node == group.shared.node)
}

/// Resolves when this node knows the group's master and, if it is the master itself, has applied
/// what it must. A group of several members need not have a master for a node to start.
async fn led(group: &Group) -> Result<()> {
    if !is_alone(group) {
        return Ok(());
    }
    let mut standing = group.leadership.standing();
    let led = standing.wait_for(|standing| standing.master.is_some()).await;
    led.map(|_| ()).map_err(|_| shutting_down())
}

/// Brings completions of the log writer to the groups.
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
    fn done(&self, done: &[LoggedRecord]) {
        for mine in done.chunk_by(|one, next| one.group == next.group) {
            if mine[0].group == VNODES {
                self.vnode_store.done(mine);
                continue;
            }
            let Some(group) = self.groups.get(mine[0].group) else { continue };
            group.driver.report(mine);
        }
    }

    fn failed(&self, error: Error) {
        tracing::error!(target: "log", %error, "the log failed: the node stops");
        self.lifecycle.fail_log(error);
    }
}
