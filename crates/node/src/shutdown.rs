//! Shutdown of a node.

use crate::Node;
use crate::locator::GroupLocator;
use crate::route::Router;
use base::{Error, Reason, Result};
use logic::consensus::Role;
use replication::group::Group;
use std::sync::Arc;
use std::time::Duration;
use transport::{Lane, PeerStatus};

/// Time for which a node that steps down waits for other masters. If all nodes stop there are none.
const STEP_DOWN_WAIT: Duration = Duration::from_secs(1);
/// Time for which a stop waits for its last messages to be sent.
const LAST_WORDS_WAIT: Duration = Duration::from_secs(1);
/// Pause between checks whether they are sent.
const LAST_WORDS_PAUSE: Duration = Duration::from_millis(2);
/// Time for which a stop waits for requests in flight.
const STOP_WAIT: Duration = Duration::from_secs(30);
/// That time while the log has no space on the disk: requests in flight can't end.
const STOP_WAIT_FULL: Duration = Duration::from_secs(1);
/// A stop waits this long for tasks that have nothing more to wait for.
pub(crate) const TASKS_WAIT: Duration = Duration::from_secs(5);

/// See [`Node::step_down`].
pub(crate) async fn step_down(node: &Node) {
    let led = |group: &Arc<Group>| group.state().replica.role() == Role::Master;
    // If no other node can lead, requests are served here until the stop.
    let groups = node.router.locator.groups.all();
    let leaving = groups.into_iter().filter(|group| !group.is_alone() && led(group));
    let leaving: Vec<_> = leaving.inspect(|group| group.retire()).collect();
    let followed = async {
        for group in &leaving {
            group.leadership.led_elsewhere().await;
        }
    };
    let in_time = tokio::time::timeout(STEP_DOWN_WAIT, followed).await.is_ok();
    let groups = leaving.len();
    tracing::info!(target: "node", groups, in_time, "stepped down");
}

/// Sends the answers to other nodes, and the messages of the groups' last turns.
async fn last_words_said(router: &Router) {
    let Some(peers) = router.locator.links.peers.get() else { return };
    let said = async {
        router.incoming.close().await;
        let waits =
            |lane: Lane, status: &PeerStatus| status.lanes[lane as usize].waiting_messages > 0;
        let any = |status: PeerStatus| {
            let lanes = [Lane::Control, Lane::Data, Lane::Call];
            status.connected.is_some() && lanes.into_iter().any(|lane| waits(lane, &status))
        };
        while peers.status().into_iter().any(any) {
            tokio::time::sleep(LAST_WORDS_PAUSE).await;
        }
    };
    let _ = tokio::time::timeout(LAST_WORDS_WAIT, said).await;
}

/// See [`Node::stop`].
pub(crate) async fn stop(node: &Node) -> Result<()> {
    let Node { router, housekeeper, lifecycle, .. } = node;
    let GroupLocator { groups, links, .. } = &router.locator;
    if !lifecycle.begin_stop() {
        return Ok(());
    }
    housekeeper.close();
    groups.close();
    lifecycle.tasks.end_loops();
    let retired = async {
        for group in groups.all() {
            group.driver.ends().await;
        }
        router.available.vnode_store.ends().await
    };
    let no_space = housekeeper.disk.log_writer.no_space();
    let wait = if no_space { STOP_WAIT_FULL } else { STOP_WAIT };
    let retired = tokio::time::timeout(wait, retired).await;
    let (in_time, vnodes_ended) = (retired.is_ok(), retired.unwrap_or(false));
    last_words_said(router).await;
    if let Some(peers) = links.peers.get() {
        // Before the log writer: nothing more is taken from others that could not be written.
        peers.stop().await;
    }
    let (flusher, vnode_store) = (housekeeper.flusher.clone(), housekeeper.vnode_store.clone());
    let ended = tokio::task::spawn_blocking(move || {
        // All is synced before the mark of a good end is written: a mark that outlived a lost batch
        // would have a vnode give its dots again.
        flusher.log_writer.stop();
        // A round of maintenance that is under way ends first: it writes the same files.
        let _one = flusher.exclude();
        if vnodes_ended {
            vnode_store.end_well()?;
        }
        flusher.flush_tables()
    });
    let ended = ended.await;
    // A running task still writes files: then the directory stays locked until it ends, or until
    // the process does, which harms nothing.
    if tokio::time::timeout(STOP_WAIT, housekeeper.file_tasks.ended()).await.is_ok() {
        node.cluster.data.close();
    }
    let left = lifecycle.tasks.all.end(TASKS_WAIT).await;
    if !left.is_empty() {
        let tasks = left.join(", ");
        tracing::warn!(target: "node", tasks, "the node has stopped, and tasks have not ended");
    }
    ended.unwrap_or_else(|_| Err(Error::new(Reason::StoreFailed, "the stop failed")))?;
    if let Some(error) = lifecycle.failure() {
        return Err(error);
    }
    if !in_time {
        return Err(Error::new(Reason::DeadlinePassed, "updates in flight did not end in time"));
    }
    Ok(())
}
