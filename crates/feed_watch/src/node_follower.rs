//! Follower of the feeds of other nodes: asks each node of the ring which feeds have changed, and
//! changes the signals of their buckets here.
//!
//! One question for each node is under way, for all buckets and all waiters. A node answers once
//! something has changed, or after [`CHANGES_WAIT_MS`]. A node that does not answer is not read,
//! either: what its copies had is in the feeds of other owners, and its first answer afterwards
//! tells that any feed may have changed, if it does not know what did.
//!
//! Promises: while no bucket is watched, no node is asked; at most one question to a node each
//! [`PAUSE_MS`].

use crate::feed_signals::FeedSignals;
use base::{NodeId, Result};
use change_feed::{ChangeMark, FeedChanges};
use runtime::join_set::JoinSet;
use runtime::{CancellationToken, round, world};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Time for which a node waits for a change before it answers that there is none, in milliseconds.
pub const CHANGES_WAIT_MS: u32 = 5_000;
/// Pause before the next question to a node, in milliseconds: what changes meanwhile is one answer.
const PAUSE_MS: u64 = 50;
/// Pause before the next question to a node that did not answer, in milliseconds.
const RETRY_MS: u64 = 1_000;
/// Period in milliseconds in which the nodes are looked up, and whether anyone waits.
const CHECK_MS: u64 = 1_000;

/// Changes of a node's feeds, once they are known.
pub type ChangesFuture = Pin<Box<dyn Future<Output = Result<FeedChanges>> + Send>>;

/// Access to the nodes of the ring.
pub trait ChangeSource: Send + Sync {
    /// Returns the nodes whose feeds readers here may read: this one, too.
    fn nodes(&self) -> BTreeSet<NodeId>;

    /// Asks a node for the changes behind a mark. It waits for some ([`CHANGES_WAIT_MS`]).
    fn changes(self: Arc<Self>, node: NodeId, behind: Option<ChangeMark>) -> ChangesFuture;
}

/// Answer of a node, or why there is none.
type NodeAnswer = (NodeId, Result<FeedChanges>);

/// See the head of this file.
struct NodeFollower<S> {
    source: Arc<S>,
    signals: Arc<FeedSignals>,
    /// Nodes that are asked now.
    asked: BTreeSet<NodeId>,
    /// Mark of the last answer of each node.
    marks: BTreeMap<NodeId, ChangeMark>,
    asks: JoinSet<NodeAnswer>,
}

/// Follows the feeds of all nodes while some bucket is watched, until the token is cancelled.
pub async fn follow_nodes<S: ChangeSource + 'static>(
    source: Arc<S>,
    signals: Arc<FeedSignals>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = round::rest(signals.wait_watched()) => {}
        }
        NodeFollower::new(source.clone(), signals.clone()).run(&stop).await;
    }
}

impl<S: ChangeSource + 'static> NodeFollower<S> {
    fn new(source: Arc<S>, signals: Arc<FeedSignals>) -> NodeFollower<S> {
        let (asked, marks, asks) = (BTreeSet::new(), BTreeMap::new(), JoinSet::new());
        NodeFollower { source, signals, asked, marks, asks }
    }

    /// Runs until no bucket is watched, or the token is cancelled.
    async fn run(mut self, stop: &CancellationToken) {
        let mut check_ms = 0;
        loop {
            let now_ms = world::milliseconds();
            if now_ms >= check_ms {
                if self.signals.watched().is_empty() {
                    return;
                }
                self.ask_new_nodes();
                check_ms = now_ms + CHECK_MS;
            }
            let pause = Duration::from_millis(check_ms - now_ms);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                answer = round::rest(self.asks.next()) => self.on_answer(answer),
                () = round::rest(world::sleep(pause)) => {}
            }
        }
    }

    /// Asks the nodes that are not asked yet.
    fn ask_new_nodes(&mut self) {
        let nodes = self.source.nodes();
        self.marks.retain(|node, _| nodes.contains(node));
        for node in nodes.difference(&self.asked.clone()) {
            self.ask(*node, Duration::ZERO);
        }
    }

    fn ask(&mut self, node: NodeId, pause: Duration) {
        self.asked.insert(node);
        let (source, behind) = (self.source.clone(), self.marks.get(&node).copied());
        self.asks.push(async move {
            if !pause.is_zero() {
                world::sleep(pause).await;
            }
            (node, source.changes(node, behind).await)
        });
    }

    /// Takes an answer: changes signals, and asks the node again after a pause, if it is still one
    /// of the ring's.
    fn on_answer(&mut self, (node, answer): NodeAnswer) {
        let pause_ms = match answer {
            Ok(FeedChanges { mark, buckets }) => {
                self.marks.insert(node, mark);
                match buckets {
                    Some(buckets) => buckets.iter().for_each(|it| self.signals.signal(it)),
                    None => self.signals.signal_all(),
                }
                PAUSE_MS
            }
            Err(_) => RETRY_MS,
        };
        self.asked.remove(&node);
        if self.source.nodes().contains(&node) {
            self.ask(node, Duration::from_millis(pause_ms));
        }
    }
}
