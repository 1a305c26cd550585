//! The side that is asked: another node coordinates, and this one's vnodes answer.

use super::coordinate::no_ring;
use super::letter::{self, Question};
use super::list::Names;
use crate::Inner;
use crate::consistent::view::damaged;
use crate::forward::desk;
use crate::peers::{Asked, Peers};
use base::limits::{PEER_CALL_BYTES_MAX, PEER_HEAD_BYTES_MAX};
use base::wire::write_answer;
use base::{Error, Reason, Result};
use bytes::Bytes;
use std::sync::Arc;

/// Answers another node's question. Hands over and returns.
pub(crate) fn asked(inner: &Arc<Inner>, peers: &Peers, asked: Asked) {
    desk::serve(inner, peers, asked, "a question to a vnode", |inner, _, payload| async move {
        let (epoch, question) = letter::open(&payload)?;
        Ok(inner.answer_vnodes(epoch, question).await)
    });
}

impl Inner {
    async fn answer_vnodes(self: &Arc<Inner>, epoch: u64, question: Question) -> Bytes {
        let room = PEER_CALL_BYTES_MAX - PEER_HEAD_BYTES_MAX;
        let mut answer = match self.attend(epoch, question, room).await {
            Ok(answer) => answer,
            Err(error) => letter::refused(&error),
        };
        if answer.len() > room {
            let text = "the values of this key are too large to go from node to node";
            answer = letter::refused(&Error::new(Reason::TooLarge, text));
        }
        answer.into()
    }

    async fn attend(
        self: &Arc<Inner>,
        epoch: u64,
        question: Question,
        room: usize,
    ) -> Result<Vec<u8>> {
        match question {
            Question::Fetch(spot) => {
                self.keeps_still(epoch, &spot)?;
                let row = self.shelf.read(&spot)?;
                Ok(letter::told(|out| {
                    out.push(row.is_some().into());
                    out.extend_from_slice(&row.unwrap_or_default());
                }))
            }
            Question::Store { spot, rules, hint, row } => {
                self.look_at_fence();
                if hint.is_none() {
                    self.takes_still(epoch, &spot)?;
                }
                let versions = super::layout::read_row(&row).map_err(damaged)?;
                let ticket = self.shelf.merge(&spot, versions, rules, hint)?;
                self.shelf.settled(ticket).await?;
                self.hand_on(epoch, spot, rules, row).await;
                Ok(letter::told(|_| ()))
            }
            Question::PassedOn(request) => {
                let request = self.after_finding_others(request).await;
                let answer = self.coordinate(request).await;
                Ok(letter::told(|out| write_answer(&answer, room - 1, out)))
            }
            Question::Keys { spans, bucket, after, rows_max } => {
                self.covers_still(epoch, &spans, self.copies_of(&bucket)?)?;
                let names = Names::Keys { bucket, after };
                let (keys, more) = self.names_here(spans, names, rows_max).await?;
                Ok(letter::told(|out| letter::put_names(&keys, more, out)))
            }
            Question::Buckets { spans, kind, after, rows_max } => {
                self.covers_still(epoch, &spans, self.fewest_copies())?;
                let names = Names::Buckets { kind, after };
                let (names, more) = self.names_here(spans, names, rows_max).await?;
                Ok(letter::told(|out| letter::put_names(&names, more, out)))
            }
            Question::Compare { which, question } => {
                self.knows_as_much(epoch, which.0)?;
                let answer = self.compared(which, question).await?;
                Ok(letter::told(|out| answer.write(out)))
            }
            Question::Rows { which, after, bytes_max } => {
                self.knows_as_much(epoch, which.0)?;
                let page = self.rows_to_give(which, after, bytes_max).await?;
                Ok(letter::told(|out| page.write(out)))
            }
            Question::Weight => {
                let weight = self.weight().await?;
                Ok(letter::told(|out| weight.write(out)))
            }
            Question::Progress => {
                let progress = self.moving.progress();
                Ok(letter::told(|out| progress.write(out)))
            }
            Question::Ring => {
                let ring = self.catalog.available.ring().ok_or_else(no_ring)?;
                Ok(letter::told(|out| out.extend_from_slice(&ring.encode())))
            }
            Question::Bare { spot, epoch, digest, drop } => {
                let yes = self.is_bare(&spot, (epoch, digest), drop).await?;
                Ok(letter::told(|out| out.push(yes.into())))
            }
            Question::Holds(meanwhile) => {
                let holds = self.holds_rows(meanwhile).await?;
                Ok(letter::told(|out| out.push(holds.into())))
            }
        }
    }
}
