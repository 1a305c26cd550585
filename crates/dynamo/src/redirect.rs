//! A write of a key that this node keeps no copy of is passed on to an owner, which coordinates it.
//!
//! It is one write, and nobody makes two of it: who has been sent it may have done it, or do it
//! later. So another owner is asked only if it is sure that nothing was done. One of whom nothing
//! is heard any more, not even signs of life, is not waited for until its link breaks: who asked
//! hears that it may have happened. Nor is it asked from then on.
//!
//! Never: takes what a passed on write took as a sign of how quick its node is: it waits for
//! others.

use super::message::VnodeQuestion;
use super::timing::{LATE_MS, until};
use super::warmup::time_of;
use crate::Available;
use base::codec::Malformed;
use base::limits::FORWARD_MS_MAX;
use base::wire::read_answer;
use base::{
    AvailableCall, Call, Error, Key, Kind, NodeId, Read, Reason, Reply, Request, Result, Update,
};
use bytes::Bytes;
use runtime::metrics::Metrics;
use runtime::world;
use runtime::world::sleep;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Once an answer is late it is looked so often whether its node is still there.
const LOOK: Duration = Duration::from_millis(100);
/// One that says nothing at all for so long is not waited for, nor asked, milliseconds: three signs
/// of life that did not come.
const SILENT_MS: u64 = 750;

impl Available {
    /// Has an owner coordinate a write; none: this node does, as an owner, or since no owner is
    /// there.
    pub(super) async fn passed_on(
        self: &Arc<Available>,
        request: &Request,
    ) -> Result<Option<Reply>> {
        let Some(key) = written(&request.call) else { return Ok(None) };
        let time = time_of(&mut request.call.clone()).and_then(|it| *it).unwrap_or(FORWARD_MS_MAX);
        // Who coordinates has that time, and a moment to say what came of it.
        let until_ms = world::milliseconds() + time.saturating_add(LATE_MS).min(FORWARD_MS_MAX);
        let n = self.properties(&request.bucket)?.replication.n_val;
        let mut did_nothing = BTreeSet::new();
        loop {
            let replicas = self.key_owners(&request.bucket, key, n)?.replicas;
            if replicas.primaries.contains(&self.node) {
                return Ok(None);
            }
            let away = |node: &NodeId| {
                replicas.down.contains(node) || did_nothing.contains(node) || self.is_silent(*node)
            };
            let there = replicas.primaries.iter().copied().filter(|node| !away(node));
            let Some(node) = self.snitch.of(there) else { return Ok(None) };
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
                    return answer.map(Some);
                }
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

    /// What a node answers; none: it is not heard of, not even by signs of life.
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
