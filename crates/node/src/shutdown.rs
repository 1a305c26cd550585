//! Shutdown of a node.

use crate::Node;
use crate::locator::GroupLocator;
use crate::route::Router;
use base::{Error, Reason, Result};
use logic::consensus::Role;
use replica_host::{Housekeeper, Lifecycle};
use replication::group::Group;
use runtime::Watchdog;
use std::sync::Arc;
use std::time::Duration;
use transport::{Lane, PeerStatus};

/// Maximum wait of a node that steps down for other masters. If all nodes stop there are none.
const STEP_DOWN_WAIT: Duration = Duration::from_secs(1);
/// Maximum wait of a stop until its last messages are sent.
const LAST_MESSAGES_WAIT: Duration = Duration::from_secs(1);
/// Pause between two checks whether they are sent.
const LAST_MESSAGES_PAUSE: Duration = Duration::from_millis(2);
/// Maximum wait of a stop for requests in flight.
const STOP_WAIT: Duration = Duration::from_secs(30);
/// The same while the log has no disk space: requests in flight can't complete.
const STOP_WAIT_FULL: Duration = Duration::from_secs(1);
/// Maximum wait of a stop for tasks that wait for nothing else.
pub(crate) const TASKS_WAIT: Duration = Duration::from_secs(5);

/// Guard of a started node: if its last handle is dropped without a stop, its tasks and threads end
/// soon, and the directory is unlocked then. As after a kill, the next start finds what was
/// acknowledged.
pub(crate) struct DropGuard {
    router: Arc<Router>,
    housekeeper: Arc<Housekeeper>,
    watchdog: Arc<Watchdog>,
    lifecycle: Arc<Lifecycle>,
}

impl DropGuard {
    pub(crate) fn of(node: &Node) -> DropGuard {
        let Node { router, housekeeper, status, lifecycle, .. } = node;
        DropGuard {
            router: router.clone(),
            housekeeper: housekeeper.clone(),
            watchdog: status.diagnostics.watchdog.clone(),
            lifecycle: lifecycle.clone(),
        }
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        if !self.lifecycle.begin_stop() {
            return;
        }
        self.housekeeper.close();
        self.watchdog.close();
        self.router.locator.groups.close();
        self.lifecycle.tasks.all.cancel();
        self.router.recorder.trail.begin_close();
        self.housekeeper.disk.log_writer.begin_stop();
    }
}

/// See [`Node::step_down`].
pub(crate) async fn step_down(node: &Node) {
    let is_led = |group: &Arc<Group>| group.state().replica.role() == Role::Master;
    // If no other node can lead, requests are served here until the stop.
    let groups = node.router.locator.groups.all();
    let leaving = groups.into_iter().filter(|group| !group.is_sole_member() && is_led(group));
    let leaving: Vec<_> = leaving.inspect(|group| group.retire()).collect();
    let handed_over = async {
        for group in &leaving {
            group.leadership.wait_for_other_master().await;
        }
    };
    let in_time = tokio::time::timeout(STEP_DOWN_WAIT, handed_over).await.is_ok();
    let groups = leaving.len();
    tracing::info!(target: "node", groups, in_time, "stepped down");
}

/// Sends the answers to other nodes, and the messages of the groups' last turns.
async fn send_last_messages(router: &Router) {
    let Some(peers) = router.locator.links.peers.get() else { return };
    let sent = async {
        router.incoming.close().await;
        let is_waiting =
            |lane: Lane, status: &PeerStatus| status.lanes[lane as usize].waiting_messages > 0;
        let has_waiting = |status: PeerStatus| {
            let lanes = [Lane::Control, Lane::Data, Lane::Call];
            status.connected.is_some() && lanes.into_iter().any(|lane| is_waiting(lane, &status))
        };
        while peers.status().into_iter().any(has_waiting) {
            tokio::time::sleep(LAST_MESSAGES_PAUSE).await;
        }
    };
    let _ = tokio::time::timeout(LAST_MESSAGES_WAIT, sent).await;
}

/// See [`Node::stop`].
pub(crate) async fn stop(node: &Node) -> Result<()> {
    let Node { router, housekeeper, lifecycle, .. } = node;
    let GroupLocator { groups, links, .. } = &router.locator;
    if !lifecycle.begin_stop() {
        return Ok(());
    }
    housekeeper.close();
    node.status.diagnostics.watchdog.close();
    groups.close();
    lifecycle.tasks.end_loops();
    let drivers_ended = async {
        for group in groups.all() {
            group.driver.wait_for_end().await;
        }
        router.available.vnode_store.wait_stopped().await
    };
    let no_space = housekeeper.disk.log_writer.waits_for_space();
    let wait = if no_space { STOP_WAIT_FULL } else { STOP_WAIT };
    let drivers_ended = tokio::time::timeout(wait, drivers_ended).await;
    let (in_time, vnodes_ended) = (drivers_ended.is_ok(), drivers_ended.unwrap_or(false));
    send_last_messages(router).await;
    if let Some(peers) = links.peers.get() {
        // Before the log writer: messages accepted later could not be written.
        peers.stop().await;
    }
    let (flusher, vnode_store) = (housekeeper.flusher.clone(), housekeeper.vnode_store.clone());
    let stopped = tokio::task::spawn_blocking(move || {
        // Everything is synced before the mark of a clean shutdown is written: a mark that outlived
        // a lost batch would let a vnode reuse its dots.
        flusher.log_writer.stop();
        // A maintenance round in progress ends first: it writes the same files.
        let _guard = flusher.exclude();
        if vnodes_ended {
            vnode_store.record_clean_shutdown()?;
        }
        flusher.flush_tables()
    });
    let stopped = stopped.await;
    // The groups have ended, so every outcome is known.
    lifecycle.tasks.records.cancel_and_wait(TASKS_WAIT).await;
    // Before the directory's lock is released: the next node goes on with its last line.
    router.recorder.trail.close().await;
    // If a task still writes files, the directory stays locked until that task or the process ends.
    if tokio::time::timeout(STOP_WAIT, housekeeper.file_tasks.wait_all()).await.is_ok() {
        node.cluster.data.close();
    }
    let running = lifecycle.tasks.all.cancel_and_wait(TASKS_WAIT).await;
    if !running.is_empty() {
        let tasks = running.join(", ");
        tracing::warn!(
            target: "node", tasks, "the node has stopped, but some tasks have not ended"
        );
    }
    stopped.unwrap_or_else(|_| Err(Error::new(Reason::StoreFailed, "the stop failed")))?;
    if let Some(error) = lifecycle.failure() {
        return Err(error);
    }
    if !in_time {
        return Err(Error::new(
            Reason::DeadlinePassed,
            "updates in flight did not complete in time",
        ));
    }
    Ok(())
}
