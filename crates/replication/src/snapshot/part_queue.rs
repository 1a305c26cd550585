//! Intake of snapshot parts: brings each part to the transfer that waits for it.

use super::message::{HEAD_BYTES, PartHead};
use base::{GroupId, NodeId};
use bytes::{Buf, Bytes};
use runtime::world;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use transport::{Credit, IncomingMessage};

/// Maximum number of parts that wait; their bytes are bounded by the credit of the lane. A part
/// that exceeds it is dropped. The receiver notices the gap in the numbers.
const PARTS_MAX: usize = 64;

/// Event for a receiver.
pub(super) enum PartEvent {
    /// A part; its credit is kept until the rows are taken.
    Part(PartHead, Bytes, Credit),
    /// The connection broke: no more parts of this stream come.
    Broken,
}

/// All receivers, one for each group at most.
#[derive(Default)]
pub(super) struct PartQueues(Mutex<BTreeMap<GroupId, PartQueue>>);

struct PartQueue {
    from: NodeId,
    stream: u32,
    way: mpsc::Sender<PartEvent>,
}

/// One receiver's end; the line is gone with it.
pub(super) struct PartReceiver<'a> {
    intakes: &'a PartQueues,
    group: GroupId,
    pub stream: u32,
    heard: mpsc::Receiver<PartEvent>,
}

impl PartQueues {
    fn all(&self) -> MutexGuard<'_, BTreeMap<GroupId, PartQueue>> {
        self.0.lock().expect("no one panics while holding it")
    }

    /// A new line from a node; none: the group has one already.
    pub fn begin(&self, group: GroupId, from: NodeId) -> Option<PartReceiver<'_>> {
        let (way, heard) = mpsc::channel(PARTS_MAX);
        let mut all = self.all();
        if all.contains_key(&group) {
            return None;
        }
        let stream = draw();
        all.insert(group, PartQueue { from, stream, way });
        Some(PartReceiver { intakes: self, group, stream, heard })
    }

    pub fn arrived(&self, delivered: IncomingMessage) {
        let IncomingMessage { from, group, mut payload, credit, .. } = delivered;
        let Ok(head) = PartHead::read(&payload) else {
            tracing::warn!(target: "consensus", %from, %group, "a part of a snapshot is malformed");
            return;
        };
        payload.advance(HEAD_BYTES);
        let all = self.all();
        let line = all.get(&group).filter(|line| (line.from, line.stream) == (from, head.stream));
        if let Some(line) = line {
            let _ = line.way.try_send(PartEvent::Part(head, payload, credit));
        }
    }

    pub fn broken(&self, node: NodeId) {
        for line in self.all().values().filter(|line| line.from == node) {
            let _ = line.way.try_send(PartEvent::Broken);
        }
    }
}

impl PartReceiver<'_> {
    /// Returns the next event. Never ends.
    pub async fn next(&mut self) -> PartEvent {
        // The sending end stays in the list as long as this.
        self.heard.recv().await.unwrap_or(PartEvent::Broken)
    }

    /// Begins a new stream. Parts of the stream before are skipped.
    pub fn renew(&mut self) -> u32 {
        self.stream = draw();
        if let Some(line) = self.intakes.all().get_mut(&self.group) {
            line.stream = self.stream;
        }
        while self.heard.try_recv().is_ok() {}
        self.stream
    }
}

impl Drop for PartReceiver<'_> {
    fn drop(&mut self) {
        self.intakes.all().remove(&self.group);
    }
}

fn draw() -> u32 {
    world::chance() as u32
}
