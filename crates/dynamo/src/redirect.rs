//! Redirection of writes: a node that keeps no copy of a key passes a write on to an owner, which
//! coordinates it.
//!
//! A write is never done twice: a node that was sent it may have done it, or may do it later. So
//! another owner is asked only if it is certain that nothing was done. If a node falls silent and
//! even its heartbeats are missing, the wait ends before its link breaks: the client learns that
//! the write may have happened. That node is not asked from then on.
//!
//! Never: counts the time of a redirected write against its node: that node waits for others.

use super::key_owners::KeyOwners;
use super::message::VnodeQuestion;
use super::timing::{LATE_MS, until};
use super::warmup::time_of;
use crate::Available;
use base::codec::Malformed;
use base::limits::FORWARD_MS_MAX;
use base::wire::read_answer;
use base::{
    AvailableCall, Call, Error, Key, Kind, NodeId, Properties, Read, Reason, Reply, Request,
    Result, Update,
};
use bytes::Bytes;
use runtime::metrics::Metrics;
use runtime::world;
use runtime::world::sleep;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Pause between checks of a late answer whether its node is still there.
const LOOK: Duration = Duration::from_millis(100);
/// Time of complete silence, in milliseconds, after which a node is neither waited for nor asked:
/// three missing heartbeats.
const SILENT_MS: u64 = 750;

/// Coordinator of a request.
pub(super) enum Coordinator {
    /// The local node; with the owners of the key if the request is a write.
    This(Option<KeyOwners>),
    /// Another node, which has answered.
    Other(Reply),
}

impl Available {
    /// Chooses the coordinator of a request: of a write an owner, to which it is passed on; this
    /// node if it is one, if no owner can be reached, and for everything else.
    pub(super) async fn coordinator(
        self: &Arc<Available>,
        request: &Request,
        properties: &Properties,
    ) -> Result<Coordinator> {
        let Some(key) = written(&request.call) else { return Ok(Coordinator::This(None)) };
        let time = time_of(&mut request.call.clone()).and_then(|it| *it).unwrap_or(FORWARD_MS_MAX);
        // The coordinator has that time, and a moment to report the outcome.
        let until_ms = world::milliseconds() + time.saturating_add(LATE_MS).min(FORWARD_MS_MAX);
        let n = properties.replication.n_val;
        let mut did_nothing = BTreeSet::new();
        loop {
            let owners = self.key_owners(&request.bucket, key, n)?;
            let replicas = &owners.replicas;
            if replicas.primaries.contains(&self.node) {
                return Ok(Coordinator::This(Some(owners)));
            }
            let away = |node: &NodeId| {
                replicas.down.contains(node) || did_nothing.contains(node) || self.is_silent(*node)
            };
            let there = replicas.primaries.iter().copied().filter(|node| !away(node));
            // Without an owner this node takes it as a fallback, with a hint.
            let Some(node) = self.snitch.of(there) else {
                return Ok(Coordinator::This(Some(owners)));
            };
            Metrics::count(&self.metrics.forwarded_out);
            Metrics::count(&self.metrics.available.redirected);
            let question = VnodeQuestion::PassedOn(request.clone()).write();
            match self.ask_owner(node, question, until(until_ms)).await {
                Ok(bytes) => {
                    let answer = read_answer(&bytes).unwrap_or_else(|Malformed(field)| {
                        let text =
                            format!("an answer can't be read ({field}): it may have happened");
                        Err(Error::new(Reason::InDoubt, text))
                    });
                    return answer.map(Coordinator::Other);
                }
                // Certainly not done there. After any other error it may be, and a second owner
                // would write it with another dot: a sibling of itself.
                Err(error) if error.kind() == Kind::Unavailable => drop(did_nothing.insert(node)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks a node, and waits for it as long as it seems to be there.
    async fn ask_owner(&self, node: NodeId, question: Bytes, within: Duration) -> Result<Bytes> {
        let asking = self.ask_vnode(node, question, within);
        self.while_there(node, asking).await.unwrap_or_else(|| {
            let text = format!(
                "`{}` was to coordinate the write and is not heard of: it may have happened; \
                 read before retrying",
                self.members.name_of(node)
            );
            Err(Error::new(Reason::DeadlinePassed, text))
        })
    }

    /// Returns the answer of a node. `None`: it is silent, and even its heartbeats are missing.
    pub(super) async fn while_there<T>(
        &self,
        node: NodeId,
        asking: impl Future<Output = T>,
    ) -> Option<T> {
        let mut asking = pin!(asking);
        let mut look = Duration::from_millis(LATE_MS);
        loop {
            tokio::select! {
                biased;
                answer = &mut asking => return Some(answer),
                () = sleep(look) => {}
            }
            if self.is_silent(node) {
                return None;
            }
            look = LOOK;
        }
    }

    fn is_silent(&self, node: NodeId) -> bool {
        let silent = self.peers.get().and_then(|peers| peers.silent_ms(node));
        silent.is_none_or(|silent| silent >= SILENT_MS)
    }
}

/// The one key that a call concerns, if it is one.
pub(super) fn only_key(call: &Call) -> Option<&Key> {
    match call {
        Call::Read(Read::Get(key), _)
        | Call::Available(
            AvailableCall::Fetch { key, .. } | AvailableCall::FetchType { key, .. },
        ) => Some(key),
        Call::Read(Read::MultiGet(keys) | Read::Exists(keys), _) => match &keys[..] {
            [key] => Some(key),
            _ => None,
        },
        call => written(call),
    }
}

/// The key that a call writes.
fn written(call: &Call) -> Option<&Key> {
    match call {
        Call::Update(Update::Set { key, .. } | Update::Delete { key, .. })
        | Call::Available(AvailableCall::Remove { key, .. }) => Some(key),
        Call::Available(AvailableCall::Store(store)) => Some(&store.key),
        Call::Available(AvailableCall::Change(change)) => Some(&change.key),
        _ => None,
    }
}
