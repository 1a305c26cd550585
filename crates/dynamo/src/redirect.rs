//! Redirection of writes: a node that keeps no copy of a key forwards a write to an owner, which
//! coordinates it.
//!
//! A write is never executed twice: a node that received it may have executed it, or may do so
//! later. So another owner is asked only if it is certain that nothing was done. If a node sends
//! nothing, not even heartbeats, the wait ends before its link breaks, with an error that the write
//! may have happened. That node is not asked from then on.
//!
//! Never: counts the time of a redirected write against its coordinator, which itself waits for
//! other replicas.

use super::key_owners::KeyOwners;
use super::message::VnodeQuestion;
use super::timing::{LATE_MS, time_until};
use super::warmup::timeout_field;
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

/// Pause between checks of the node's heartbeats while its answer is late.
const CHECK_PAUSE: Duration = Duration::from_millis(100);
/// Time without any received data, in milliseconds, after which a node is neither awaited nor
/// asked: three missing heartbeats.
const SILENT_MS: u64 = 750;

/// Coordinator of a request.
pub(super) enum Coordinator {
    /// This node; with the owners of the key if the request is a write.
    Local(Option<KeyOwners>),
    /// One of these owners, of which this node is none.
    Remote(KeyOwners),
}

impl Available {
    /// Chooses the coordinator of a request. A write goes to an owner of its key. This node
    /// coordinates if it is an owner, and all other requests.
    pub(super) fn coordinator(
        &self,
        request: &Request,
        properties: &Properties,
    ) -> Result<Coordinator> {
        let Some(key) = written_key(&request.call) else { return Ok(Coordinator::Local(None)) };
        let owners = self.key_owners(&request.bucket, key, properties.replication.n_val)?;
        Ok(match owners.replicas.primaries.contains(&self.node) {
            true => Coordinator::Local(Some(owners)),
            false => Coordinator::Remote(owners),
        })
    }

    /// Asks an owner to coordinate a write. If none can be reached, this node coordinates it as a
    /// fallback, with a hint.
    pub(super) async fn redirect(
        self: &Arc<Available>,
        request: &Request,
        properties: &Properties,
        mut owners: KeyOwners,
    ) -> Result<Reply> {
        let timeout_ms =
            timeout_field(&mut request.call.clone()).and_then(|it| *it).unwrap_or(FORWARD_MS_MAX);
        // The coordinator has the request's timeout, and `LATE_MS` more to report the outcome.
        let until_ms =
            world::milliseconds() + timeout_ms.saturating_add(LATE_MS).min(FORWARD_MS_MAX);
        let mut declined = BTreeSet::new();
        loop {
            let replicas = &owners.replicas;
            let is_unavailable = |node: &NodeId| {
                replicas.is_down(*node) || declined.contains(node) || self.is_silent(*node)
            };
            let candidates =
                replicas.primaries.iter().copied().filter(|node| !is_unavailable(node));
            let Some(node) = self.snitch.choose(candidates) else {
                return self.coordinate(request, properties, Some(owners)).await;
            };
            Metrics::count(&self.metrics.forwarded_out);
            Metrics::count(&self.metrics.available.redirected);
            let question = VnodeQuestion::Forward(request.clone()).write();
            match self.ask_owner(node, question, time_until(until_ms)).await {
                Ok(bytes) => {
                    let answer = read_answer(&bytes).unwrap_or_else(|Malformed(field)| {
                        let text = format!(
                            "the answer can't be decoded ({field}): the request may have been \
                             applied"
                        );
                        Err(Error::new(Reason::InDoubt, text))
                    });
                    return answer;
                }
                // Certainly not executed. After any other error it may have been, and a second
                // owner would write it under another dot: a sibling of itself.
                Err(error) if error.kind() == Kind::Unavailable => drop(declined.insert(node)),
                Err(error) => return Err(error),
            }
            // The ring may have changed meanwhile.
            match self.coordinator(request, properties)? {
                Coordinator::Local(owners) => {
                    return self.coordinate(request, properties, owners).await;
                }
                Coordinator::Remote(newest) => owners = newest,
            }
        }
    }

    /// Sends a request to an owner, and waits as long as heartbeats of that node arrive.
    async fn ask_owner(&self, node: NodeId, question: Bytes, within: Duration) -> Result<Bytes> {
        let request = self.ask_vnode(node, question, within);
        self.wait_unless_silent(node, request).await.unwrap_or_else(|| {
            let text = format!(
                "`{}`, the coordinator of the write, does not answer: the write may have been \
                 applied; read before retrying",
                self.members.name_of(node)
            );
            Err(Error::new(Reason::DeadlinePassed, text))
        })
    }

    /// Returns the result of a request to a node. `None`: nothing arrives from the node, not even
    /// heartbeats.
    pub(super) async fn wait_unless_silent<T>(
        &self,
        node: NodeId,
        request: impl Future<Output = T>,
    ) -> Option<T> {
        let mut request = pin!(request);
        let mut pause = Duration::from_millis(LATE_MS);
        loop {
            tokio::select! {
                biased;
                answer = &mut request => return Some(answer),
                () = sleep(pause) => {}
            }
            if self.is_silent(node) {
                return None;
            }
            pause = CHECK_PAUSE;
        }
    }

    fn is_silent(&self, node: NodeId) -> bool {
        let silent = self.peers.get().and_then(|peers| peers.silent_ms(node));
        silent.is_none_or(|silent| silent >= SILENT_MS)
    }
}

/// Returns the key of a call that concerns exactly one.
pub(super) fn single_key(call: &Call) -> Option<&Key> {
    match call {
        Call::Read(Read::Get(key), _)
        | Call::Available(
            AvailableCall::Fetch { key, .. } | AvailableCall::FetchType { key, .. },
        ) => Some(key),
        Call::Read(Read::MultiGet(keys) | Read::Exists(keys), _) => match &keys[..] {
            [key] => Some(key),
            _ => None,
        },
        call => written_key(call),
    }
}

/// Returns the key that a call writes.
fn written_key(call: &Call) -> Option<&Key> {
    match call {
        Call::Update(Update::Set { key, .. } | Update::Delete { key, .. })
        | Call::Available(AvailableCall::Remove { key, .. }) => Some(key),
        Call::Available(AvailableCall::Store(store)) => Some(&store.key),
        Call::Available(AvailableCall::Change(change)) => Some(&change.key),
        _ => None,
    }
}
