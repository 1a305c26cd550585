//! Failure detector input: records the outcome of each peer request, decides which nodes a
//! coordinator skips, and probes a suspected node until it is as responsive as the others.
//!
//! Promises: no node is asked without a link; with one, a node is skipped only because of its own
//! requests' outcomes; no request waits here.
//! Never: shares its state with other nodes (each has its own detector).

use super::message::{VnodeQuestion, WriteAdmission};
use super::timing::LATE_MS;
use crate::Available;
use base::{Error, Kind, Millis, NodeId, Result};
use logic::members::{Effect, Event, FailureDetector, Health};
use runtime::metrics::Metrics;
use runtime::world::{sleep, until_next};
use runtime::{round, world};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// Period of the checks of links and of the probes while a node is suspect.
const PERIOD: Duration = Duration::from_millis(250);
/// Period of the checks otherwise. Changes of links wake the loop.
const PERIOD_IDLE: Duration = Duration::from_secs(1);
/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Health of the other nodes, as this node sees it.
pub struct PeerHealth {
    detector: Mutex<FailureDetector>,
    metrics: Arc<Metrics>,
    /// Signals that a link began or ended, or that a node's health changed.
    changed: Notify,
}

impl PeerHealth {
    /// Creates a detector that watches no node yet.
    pub fn new(metrics: Arc<Metrics>) -> PeerHealth {
        PeerHealth { detector: Mutex::default(), metrics, changed: Notify::new() }
    }

    /// Notes that a link to a node began or ended.
    pub fn note_link_change(&self) {
        self.changed.notify_one();
    }

    /// Returns the time until the links are to be checked, unless something changes.
    fn until_check(&self) -> Duration {
        let detector = self.detector.lock().expect("no one panics while holding it");
        until_next(if detector.is_at_rest() { PERIOD_IDLE } else { PERIOD })
    }

    /// Returns the health of a node.
    pub fn health(&self, node: NodeId) -> Health {
        self.detector.lock().expect("no one panics while holding it").health(node)
    }

    /// Returns true if a node is suspected: its requests fail or are late.
    pub fn is_suspected(&self, node: NodeId) -> bool {
        self.detector.lock().expect("no one panics while holding it").is_suspected(node)
    }

    /// Feeds an event to the failure detector. Returns the nodes to probe.
    pub fn on_event(&self, event: Event) -> Vec<NodeId> {
        let mut effects = Vec::new();
        self.detector.lock().expect("no one panics while holding it").step(event, &mut effects);
        let mut probes = Vec::new();
        for effect in effects {
            match effect {
                Effect::Changed { node, to: health } => {
                    self.changed.notify_one();
                    Metrics::count(&self.metrics.available.failure_detector_transitions);
                    tracing::info!(
                        target: "node", %node, "health for available buckets: {health:?}"
                    );
                }
                Effect::Probe { node } => probes.push(node),
            }
        }
        probes
    }
}

/// Checks links and sends probes until the node stops.
pub async fn run(available: Arc<Available>) {
    let stop = available.tasks.cancellation_token().clone();
    let mut linked = BTreeSet::new();
    let mut members = BTreeSet::new();
    while !stop.is_cancelled() {
        let now = Millis(world::milliseconds());
        let cluster = available.members.cluster();
        let peers: BTreeSet<NodeId> = cluster.members.iter().map(|member| member.node).collect();
        let peers: BTreeSet<_> = peers.into_iter().filter(|node| *node != available.node).collect();
        if peers != members {
            // The detector drops a node that is no member. If it is added again, its link is
            // reported anew.
            linked.retain(|node| peers.contains(node));
            available.failure_detector.on_event(Event::Members { nodes: peers.clone(), now });
            members = peers;
        }
        for node in &members {
            let is_linked = available.peers.get().is_some_and(|peers| peers.is_linked(*node));
            if is_linked && linked.insert(*node) {
                available.failure_detector.on_event(Event::Connected { node: *node });
            } else if !is_linked && linked.remove(node) {
                available.failure_detector.on_event(Event::Disconnected { node: *node, now });
            }
        }
        for node in available.failure_detector.on_event(Event::Tick { now }) {
            let (tasks, available) = (&available.tasks, available.clone());
            // Not awaited: a hanging node must not delay the checks of the others.
            tasks.spawn_short(async move {
                let question = VnodeQuestion::HasRows(WriteAdmission::Open).write();
                let request = available.ask_vnode(node, question, PROBE_TIMEOUT);
                let _ = available.observe_request(node, request).await;
            });
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = available.failure_detector.changed.notified() => {}
            () = round::rest(sleep(available.failure_detector.until_check())) => {}
        }
    }
}

impl Available {
    /// Awaits a request and records its outcome.
    pub(super) async fn observe_request<T>(
        &self,
        node: NodeId,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let began = world::milliseconds();
        let mut request = pin!(request);
        let mut was_late = false;
        let answer = tokio::select! {
            biased;
            answer = &mut request => answer,
            () = sleep(Duration::from_millis(LATE_MS)) => {
                was_late = true;
                self.record_late(node, began);
                request.await
            }
        };
        self.record_outcome(node, (began, was_late), answer.as_ref().err());
        answer
    }

    /// Records that a node has not answered a request in time. `began_ms`: begin of the request.
    pub(super) fn record_late(&self, node: NodeId, began_ms: u64) {
        let (after, now) = (Millis(LATE_MS), Millis(began_ms + LATE_MS));
        self.failure_detector.on_event(Event::Unanswered { node, after, now });
    }

    /// Records the outcome of a request: an answer, or an error. `was_late`: it was reported as
    /// late.
    pub(super) fn record_outcome(
        &self,
        node: NodeId,
        (began_ms, was_late): (u64, bool),
        error: Option<&Error>,
    ) {
        let now = Millis(world::milliseconds());
        let after = Millis(now.0.saturating_sub(began_ms));
        let event = match error.map(Error::kind) {
            Some(Kind::Unavailable) => Event::Failed { node, now },
            Some(Kind::Unknown) if was_late => return,
            Some(Kind::Unknown) => Event::Unanswered { node, after, now },
            // The node has answered: the error concerns the request.
            None | Some(_) => Event::Answered { node, after, now },
        };
        self.failure_detector.on_event(event);
    }
}
