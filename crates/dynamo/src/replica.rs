//! The side that is asked: another node coordinates, and this one's vnodes answer.
//!
//! The two questions of every read and write are answered without a task of their own: a fetch at
//! once, a store when its batch is in the store.

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

/// Most bytes of an answer.
const ROOM: usize = PEER_CALL_BYTES_MAX - PEER_HEAD_BYTES_MAX;

/// Answers another node's question. Hands over and returns.
pub fn asked(available: &Arc<Available>, peers: &Peers, asked: IncomingCall) {
    let what = "a question to a vnode";
    match message::open(&asked.payload) {
        Ok((epoch, VnodeQuestion::Fetch(key_ref))) => {
            let Some(permit) = available.incoming.admit_or_decline(peers, &asked) else { return };
            let answer = fitting(available.fetched(epoch, &key_ref));
            incoming::reply(permit, peers, asked, answer);
        }
        Ok((epoch, VnodeQuestion::Store { key_ref, policy, hint, row })) => {
            take_up(available, peers, asked, epoch, ReceivedRow { key_ref, policy, hint, row });
        }
        Ok((epoch, question)) => {
            let owner = available.clone();
            available.incoming.serve(peers, asked, what, move |_, _| async move {
                Ok(fitting(owner.attend(epoch, question).await))
            });
        }
        Err(Malformed(field)) => incoming::malformed(peers, &asked, what, field),
    }
}

/// A row that another replica brings.
pub struct ReceivedRow {
    /// Bucket and key.
    pub key_ref: KeyRef,
    /// The bucket's rules for siblings, and whether the row is synced.
    pub policy: WritePolicy,
    /// Node for which a fallback keeps it. `None`: this node is an owner.
    pub hint: Option<NodeId>,
    /// Its versions, as [`crate::layout`] writes them.
    pub row: Bytes,
}

/// Answers that a row is kept, once it is.
fn take_up(
    available: &Arc<Available>,
    peers: &Peers,
    asked: IncomingCall,
    epoch: u64,
    brought: ReceivedRow,
) {
    let Some(permit) = available.incoming.admit_or_decline(peers, &asked) else { return };
    let ticket = match available.take(epoch, &brought) {
        Ok(ticket) => ticket,
        Err(error) => {
            incoming::reply(permit, peers, asked, fitting(Err(error)));
            return;
        }
    };
    // A node that is given up with this in hand must not be kept by it.
    let (owner, peers) = (Arc::downgrade(available), peers.clone());
    available.vnode_store.when_settled(ticket, move |settled| {
        let Some(owner) = owner.upgrade() else { return };
        // Checked after the write: a node that compares with this one from now on finds the row.
        let goes_on = settled.is_ok() && owner.is_stale(epoch, &brought.key_ref);
        if !goes_on {
            let answer = fitting(settled.map(|()| reply::stored(true)));
            incoming::reply(permit, &peers, asked, answer);
            return;
        }
        let tasks = owner.tasks.clone();
        tasks.spawn_short(async move {
            let ReceivedRow { key_ref, policy, row, .. } = brought;
            let everywhere = owner.hand_on(epoch, key_ref, policy, row).await;
            incoming::reply(permit, &peers, asked, reply::stored(everywhere).into());
        });
    });
}

/// An answer that fits into a message.
fn fitting(answer: Result<Vec<u8>>) -> Bytes {
    let answer = answer.unwrap_or_else(|error| reply::refused(&error));
    if answer.len() <= ROOM {
        return answer.into();
    }
    let text = "the values of this key are too large to go from node to node";
    reply::refused(&Error::new(Reason::TooLarge, text)).into()
}

impl Available {
    fn fetched(&self, epoch: u64, key_ref: &KeyRef) -> Result<Vec<u8>> {
        self.keeps_still(epoch, key_ref)?;
        let row = self.vnode_store.read(key_ref)?;
        Ok(reply::told(|out| {
            out.push(row.is_some().into());
            out.extend_from_slice(&row.unwrap_or_default());
        }))
    }

    /// Merges what another replica brings; gives the ticket.
    pub fn take(&self, epoch: u64, brought: &ReceivedRow) -> Result<u64> {
        let ReceivedRow { key_ref, policy, hint, row } = brought;
        self.look_at_fence();
        if hint.is_none() {
            self.takes_still(epoch, key_ref)?;
        }
        let versions = super::layout::read_row(row).map_err(corrupt)?;
        self.vnode_store.merge(key_ref, versions, *policy, *hint)
    }

    async fn attend(self: &Arc<Available>, epoch: u64, question: VnodeQuestion) -> Result<Vec<u8>> {
        match question {
            VnodeQuestion::Fetch(_) | VnodeQuestion::Store { .. } => {
                let text = "a fetch or a store has no place among questions that take their time";
                Err(Error::new(Reason::NotSupported, text))
            }
            VnodeQuestion::PassedOn(request) => {
                let request = self.after_finding_others(request).await;
                let call = request.call.clone();
                let answer = match self.properties(&request.bucket) {
                    Ok(properties) => self.coordinate(request, &properties, None).await,
                    Err(error) => Err(error),
                };
                Ok(reply::told(|out| write_answer_to(&call, &answer, ROOM - 1, out)))
            }
            VnodeQuestion::Keys { spans, bucket, after, rows_max } => {
                self.covers_still(epoch, &spans, self.copies_of(&bucket)?)?;
                let names = ListedNames::Keys { bucket, after };
                let (keys, more) = self.names_here(spans, names, rows_max).await?;
                Ok(reply::told(|out| reply::put_names(&keys, more, out)))
            }
            VnodeQuestion::Buckets { spans, kind, after, rows_max } => {
                self.covers_still(epoch, &spans, self.fewest_copies())?;
                let names = ListedNames::Buckets { kind, after };
                let (names, more) = self.names_here(spans, names, rows_max).await?;
                Ok(reply::told(|out| reply::put_names(&names, more, out)))
            }
            VnodeQuestion::Compare { which, question } => {
                self.knows_as_much(epoch, which.0)?;
                let answer = self.compared(which, question).await?;
                Ok(reply::told(|out| answer.write(out)))
            }
            VnodeQuestion::Rows { which, after, bytes_max } => {
                self.knows_as_much(epoch, which.0)?;
                let page = self.rows_to_give(which, after, bytes_max).await?;
                Ok(reply::told(|out| page.write(out)))
            }
            VnodeQuestion::Weight => {
                let weight = self.weight().await?;
                Ok(reply::told(|out| weight.write(out)))
            }
            VnodeQuestion::Progress => {
                let progress = self.moving.progress();
                Ok(reply::told(|out| progress.write(out)))
            }
            VnodeQuestion::Ring => {
                let ring = self.schema.ring().ok_or_else(no_ring)?;
                Ok(reply::told(|out| out.extend_from_slice(&ring.encode())))
            }
            VnodeQuestion::Tombstones { epoch, rows, drop } => {
                let said = self.are_bare(rows, epoch, drop).await?;
                Ok(reply::told(|out| out.extend(said.into_iter().map(u8::from))))
            }
            VnodeQuestion::Holds(meanwhile) => {
                let holds = self.holds_rows(meanwhile).await?;
                Ok(reply::told(|out| out.push(holds.into())))
            }
        }
    }
}
