//! Replica side: another node coordinates, and the vnodes of this node answer.
//!
//! Fetch and store, the questions of every read and write, are answered without a task of their
//! own: a fetch at once, a store once its batch is applied.

use super::key_owners::no_ring;
use super::list::ListedNames;
use super::message::{self, VnodeQuestion};
use super::reply;
use super::vnode_ops::{KeyRef, WritePolicy};
use crate::Available;
use base::codec::Malformed;
use base::error::corrupt;
use base::limits::{PEER_CALL_BYTES_MAX, PEER_HEAD_BYTES_MAX};
use base::wire::write_answer_to;
use base::{Error, NodeId, Reason, Result};
use bytes::Bytes;
use std::sync::Arc;
use transport::{IncomingCall, Peers, incoming};

/// Maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = PEER_CALL_BYTES_MAX - PEER_HEAD_BYTES_MAX;

/// Answers another node's question. Never waits: long answers run in a task.
pub fn on_call(available: &Arc<Available>, peers: &Peers, call: IncomingCall) {
    let name = "a question to a vnode";
    match message::read_enveloped(&call.payload) {
        Ok((epoch, VnodeQuestion::Fetch(key_ref))) => {
            let Some(permit) = available.incoming.admit_or_decline(peers, &call) else { return };
            let answer = limit_size(available.answer_fetch(epoch, &key_ref));
            incoming::reply(permit, peers, call, answer);
        }
        Ok((epoch, VnodeQuestion::Store { key_ref, policy, hint, row })) => {
            store_row(available, peers, call, epoch, ReceivedRow { key_ref, policy, hint, row });
        }
        Ok((epoch, question)) => {
            let node = available.clone();
            available.incoming.serve(peers, call, name, move |_, _| async move {
                Ok(limit_size(node.answer_question(epoch, question).await))
            });
        }
        Err(Malformed(field)) => incoming::report_malformed(peers, &call, name, field),
    }
}

/// Row received from another replica.
pub struct ReceivedRow {
    /// Bucket and key.
    pub key_ref: KeyRef,
    /// Rules of the bucket for siblings and syncs.
    pub policy: WritePolicy,
    /// Owner for which this node stores it as a fallback. `None`: this node is an owner.
    pub hint: Option<NodeId>,
    /// Its versions, as [`vnode_rows::layout`] writes them.
    pub row: Bytes,
}

/// Merges a received row, and answers once it is stored.
fn store_row(
    available: &Arc<Available>,
    peers: &Peers,
    call: IncomingCall,
    epoch: u64,
    received: ReceivedRow,
) {
    let Some(permit) = available.incoming.admit_or_decline(peers, &call) else { return };
    let ticket = match available.merge_received(epoch, &received) {
        Ok(ticket) => ticket,
        Err(error) => {
            incoming::reply(permit, peers, call, limit_size(Err(error)));
            return;
        }
    };
    // Weak: a pending callback must not keep a stopped node alive.
    let (node, peers) = (Arc::downgrade(available), peers.clone());
    available.vnode_store.call_when_stored(ticket, move |result| {
        let Some(node) = node.upgrade() else { return };
        // Checked after the write: a node that compares with this one from now on finds the row.
        let must_forward = result.is_ok() && node.is_stale(epoch, &received.key_ref);
        if !must_forward {
            let answer = match result {
                Ok(()) => reply::stored(true),
                Err(error) => limit_size(Err(error)),
            };
            incoming::reply(permit, &peers, call, answer);
            return;
        }
        let tasks = node.tasks.clone();
        tasks.spawn_short(async move {
            let ReceivedRow { key_ref, policy, row, .. } = received;
            let is_complete = node.forward_write(epoch, key_ref, policy, row).await;
            incoming::reply(permit, &peers, call, reply::stored(is_complete));
        });
    });
}

/// Replaces an answer that does not fit into a message by an error.
fn limit_size(answer: Result<Vec<u8>>) -> Bytes {
    let answer = answer.unwrap_or_else(|error| reply::failure(&error));
    if answer.len() <= ANSWER_BYTES_MAX {
        return answer.into();
    }
    let text = "the values of this key are too large to be sent between nodes";
    reply::failure(&Error::new(Reason::TooLarge, text)).into()
}

impl Available {
    fn answer_fetch(&self, epoch: u64, key_ref: &KeyRef) -> Result<Vec<u8>> {
        self.check_read_epoch(epoch, key_ref)?;
        let row = self.vnode_store.read(key_ref)?;
        Ok(reply::success(|out| {
            out.push(row.is_some().into());
            out.extend_from_slice(&row.unwrap_or_default());
        }))
    }

    /// Merges a row from another replica; returns the ticket.
    pub fn merge_received(&self, epoch: u64, received: &ReceivedRow) -> Result<u64> {
        let ReceivedRow { key_ref, policy, hint, row } = received;
        self.lift_stale_fence();
        if hint.is_none() {
            self.check_write_epoch(epoch, key_ref)?;
        }
        let versions = vnode_rows::layout::read_row(row).map_err(corrupt)?;
        self.vnode_store.merge(key_ref, versions, *policy, *hint)
    }

    async fn answer_question(
        self: &Arc<Available>,
        epoch: u64,
        question: VnodeQuestion,
    ) -> Result<Vec<u8>> {
        match question {
            VnodeQuestion::Fetch(_) | VnodeQuestion::Store { .. } => {
                let text = "a fetch or a store has no place among questions that take their time";
                Err(Error::new(Reason::NotSupported, text))
            }
            VnodeQuestion::Forward(mut request) => {
                self.wait_for_warmup(&mut request).await;
                let answer = match self.properties(&request.bucket) {
                    Ok(properties) => self.coordinate(&request, &properties, None).await,
                    Err(error) => Err(error),
                };
                let call = &request.call;
                Ok(reply::success(|out| write_answer_to(call, &answer, ANSWER_BYTES_MAX - 1, out)))
            }
            VnodeQuestion::Keys { spans, bucket, after, rows_max } => {
                self.check_list_epoch(epoch, &spans, self.copies_of(&bucket)?)?;
                let names = ListedNames::Keys(bucket);
                let (keys, more) = self.local_names(spans, names, after, rows_max).await?;
                Ok(reply::success(|out| reply::put_names(&keys, more, out)))
            }
            VnodeQuestion::Buckets { spans, kind, after, rows_max } => {
                self.check_list_epoch(epoch, &spans, self.fewest_copies())?;
                let names = ListedNames::Buckets(kind);
                let (names, more) = self.local_names(spans, names, after, rows_max).await?;
                Ok(reply::success(|out| reply::put_names(&names, more, out)))
            }
            VnodeQuestion::Compare { tree_id, question } => {
                self.check_same_ring(epoch, tree_id.0)?;
                let answer = self.answer_comparison(tree_id, question).await?;
                Ok(reply::success(|out| answer.write(out)))
            }
            VnodeQuestion::Rows { tree_id, after, bytes_max } => {
                self.check_same_ring(epoch, tree_id.0)?;
                let page = self.rows_page(tree_id, after, bytes_max).await?;
                Ok(reply::success(|out| page.write(out)))
            }
            VnodeQuestion::Size => {
                let estimate = self.size_estimate().await?;
                Ok(reply::success(|out| estimate.write(out)))
            }
            VnodeQuestion::Progress => {
                let progress = self.handoff_tracker.progress();
                Ok(reply::success(|out| progress.write(out)))
            }
            VnodeQuestion::Ring => {
                let ring = self.schema.ring().ok_or_else(no_ring)?;
                Ok(reply::success(|out| out.extend_from_slice(&ring.encode())))
            }
            VnodeQuestion::Tombstones { epoch, rows, drop } => {
                let answers = self.check_tombstones(rows, epoch, drop).await?;
                Ok(reply::success(|out| out.extend(answers.into_iter().map(u8::from))))
            }
            VnodeQuestion::Index { spans, bucket, query } => {
                let answer = self.index_page(epoch, spans, bucket, query).await?;
                Ok(reply::success(|out| answer.write(out)))
            }
            VnodeQuestion::Feed(question) => self.answer_feed(epoch, question).await,
            VnodeQuestion::HasRows(admission) => {
                let has_rows = self.local_has_rows(admission).await?;
                Ok(reply::success(|out| out.push(has_rows.into())))
            }
        }
    }
}
