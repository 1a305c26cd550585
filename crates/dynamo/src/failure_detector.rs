//! Failure detector input: records the outcome of each peer request, decides which nodes a
//! coordinator skips, and probes a node in doubt until it does as well as the others.
//!
//! Promises: no node is asked without a link; with one, a node is skipped only on evidence of its
//! own requests; no request waits here.
//! Never: tells other nodes (each finds out for itself).

use super::message::{VnodeQuestion, WriteAdmission};
use super::timing::LATE_MS;
use crate::Available;
use base::{Error, Kind, Millis, NodeId, Result};
use logic::members::{Effect, Event, FailureDetector, Health};
use runtime::metrics::Metrics;
use runtime::world;
use runtime::world::{rest, sleep};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pause between checks of links, and between probes.
const PAUSE: Duration = Duration::from_millis(250);
/// Timeout of a probe.
const PROBE: Duration = Duration::from_secs(2);

/// Health of the other nodes, as this node sees it.
pub struct PeerHealth {
    watch: Mutex<FailureDetector>,
    metrics: Arc<Metrics>,
}

impl PeerHealth {
    /// Creates a detector that watches no node yet.
    pub fn new(metrics: Arc<Metrics>) -> PeerHealth {
        PeerHealth { watch: Mutex::default(), metrics }
    }

    /// Returns the health of a node.
    pub fn standing(&self, node: NodeId) -> Health {
        self.watch.lock().expect("no one panics while holding it").standing(node)
    }

    /// Returns true if a node's requests fail or are late.
    pub fn doubts(&self, node: NodeId) -> bool {
        self.watch.lock().expect("no one panics while holding it").doubts(node)
    }

    /// Feeds an event to the failure detector. Returns the nodes to probe.
    pub fn hear(&self, event: Event) -> Vec<NodeId> {
        let mut effects = Vec::new();
        self.watch.lock().expect("no one panics while holding it").step(event, &mut effects);
        let mut probes = Vec::new();
        for effect in effects {
            match effect {
                Effect::Changed { node, to } => {
                    Metrics::count(&self.metrics.available.failure_detector_transitions);
                    tracing::info!(target: "node", %node, "for available buckets: {to:?}");
                }
                Effect::Probe { node } => probes.push(node),
            }
        }
        probes
    }
}

/// Looks at links and sends probes until the node stops.
pub async fn run(available: Arc<Available>) {
    let stop = available.tasks.stop().clone();
    let mut linked = BTreeSet::new();
    let mut members = BTreeSet::new();
    while !stop.is_cancelled() {
        let now = Millis(world::milliseconds());
        let known = available.members.cluster();
        let others: BTreeSet<NodeId> = known.members.iter().map(|member| member.node).collect();
        let others: BTreeSet<_> =
            others.into_iter().filter(|node| *node != available.node).collect();
        if others != members {
            // The detector forgets a node that is no member. If it comes back, its link is news.
            linked.retain(|node| others.contains(node));
            available.failure_detector.hear(Event::Members { nodes: others.clone(), now });
            members = others;
        }
        for node in &members {
            let is = available.peers.get().is_some_and(|peers| peers.linked(*node));
            if is && linked.insert(*node) {
                available.failure_detector.hear(Event::Connected { node: *node });
            } else if !is && linked.remove(node) {
                available.failure_detector.hear(Event::Broken { node: *node, now });
            }
        }
        for node in available.failure_detector.hear(Event::Tick { now }) {
            let (tasks, available) = (&available.tasks, available.clone());
            // Not awaited: a node that hangs must not delay the look at the others.
            tasks.spawn_short(async move {
                let question = VnodeQuestion::Holds(WriteAdmission::Open).write();
                let asking = available.ask_vnode(node, question, PROBE);
                let _ = available.witnessed(node, asking).await;
            });
        }
        rest(&stop, PAUSE).await;
    }
}

impl Available {
    /// Awaits a request and records its outcome.
    pub(super) async fn witnessed<T>(
        &self,
        node: NodeId,
        asking: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let began = world::milliseconds();
        let mut asking = pin!(asking);
        let mut was_late = false;
        let answer = tokio::select! {
            biased;
            answer = &mut asking => answer,
            () = sleep(Duration::from_millis(LATE_MS)) => {
                was_late = true;
                let (after, now) = (Millis(LATE_MS), Millis(began + LATE_MS));
                self.failure_detector.hear(Event::Unanswered { node, after, now });
                asking.await
            }
        };
        let now = Millis(world::milliseconds());
        let after = Millis(now.0.saturating_sub(began));
        match answer.as_ref().map_err(Error::kind) {
            Ok(_) => self.failure_detector.hear(Event::Answered { node, after, now }),
            Err(Kind::Unavailable) => self.failure_detector.hear(Event::Failed { node, now }),
            Err(Kind::Unknown) if !was_late => {
                self.failure_detector.hear(Event::Unanswered { node, after, now })
            }
            // The node has answered: the error concerns the request.
            Err(Kind::Unknown) => Vec::new(),
            Err(_) => self.failure_detector.hear(Event::Answered { node, after, now }),
        };
        answer
    }
}
