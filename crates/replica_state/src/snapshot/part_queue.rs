//! Queues of received snapshot parts: passes each part to the transfer that waits for it.

use super::message::{HEAD_BYTES, PartHead};
use base::{GroupId, NodeId};
use bytes::{Buf, Bytes};
use runtime::world;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use transport::{Credit, IncomingMessage};

/// Maximum number of queued parts; their bytes are bounded by the credit of the lane. A part that
/// exceeds it is dropped. The receiver detects the gap in the numbers.
const PARTS_MAX: usize = 64;

/// Event for a receiver.
pub(super) enum PartEvent {
    /// A part. Its credit is held until the store has taken the rows.
    Part(PartHead, Bytes, Credit),
    /// The connection broke: no more parts of this stream arrive.
    Broken,
}

/// Queues of all receivers, at most one for each group.
#[derive(Default)]
pub(super) struct PartQueues(Mutex<BTreeMap<GroupId, PartQueue>>);

struct PartQueue {
    from: NodeId,
    stream: u32,
    sender: mpsc::Sender<PartEvent>,
}

/// Receiving end of a queue. Dropping it removes the queue.
pub(super) struct PartReceiver<'a> {
    part_queues: &'a PartQueues,
    group: GroupId,
    pub stream: u32,
    events: mpsc::Receiver<PartEvent>,
}

impl PartQueues {
    fn all(&self) -> MutexGuard<'_, BTreeMap<GroupId, PartQueue>> {
        self.0.lock().expect("no one panics while holding it")
    }

    /// Creates a queue of parts from a node. `None`: the group has one already.
    pub fn begin(&self, group: GroupId, from: NodeId) -> Option<PartReceiver<'_>> {
        let (sender, events) = mpsc::channel(PARTS_MAX);
        let mut all = self.all();
        if all.contains_key(&group) {
            return None;
        }
        let stream = random_stream();
        all.insert(group, PartQueue { from, stream, sender });
        Some(PartReceiver { part_queues: self, group, stream, events })
    }

    pub fn on_part(&self, delivered: IncomingMessage) {
        let IncomingMessage { from, group, mut payload, credit, .. } = delivered;
        let Ok(head) = PartHead::read(&payload) else {
            tracing::warn!(target: "consensus", %from, %group, "a part of a snapshot is malformed");
            return;
        };
        payload.advance(HEAD_BYTES);
        let all = self.all();
        let queue =
            all.get(&group).filter(|queue| (queue.from, queue.stream) == (from, head.stream));
        if let Some(queue) = queue {
            let _ = queue.sender.try_send(PartEvent::Part(head, payload, credit));
        }
    }

    pub fn on_broken(&self, node: NodeId) {
        for queue in self.all().values().filter(|queue| queue.from == node) {
            let _ = queue.sender.try_send(PartEvent::Broken);
        }
    }
}

impl PartReceiver<'_> {
    /// Returns the next event. Never ends.
    pub async fn next(&mut self) -> PartEvent {
        // The sending end stays in the map as long as this receiver exists.
        self.events.recv().await.unwrap_or(PartEvent::Broken)
    }

    /// Begins a new stream. Parts of the stream before are skipped.
    pub fn begin_stream(&mut self) -> u32 {
        self.stream = random_stream();
        if let Some(queue) = self.part_queues.all().get_mut(&self.group) {
            queue.stream = self.stream;
        }
        while self.events.try_recv().is_ok() {}
        self.stream
    }
}

impl Drop for PartReceiver<'_> {
    fn drop(&mut self) {
        self.part_queues.all().remove(&self.group);
    }
}

fn random_stream() -> u32 {
    world::random_u64() as u32
}
