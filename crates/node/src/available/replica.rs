//! The side that is asked: another node coordinates, and this one's vnodes answer.

use super::letter::{self, Question};
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
        let question = Question::read(&payload)?;
        Ok(inner.answer_vnodes(question).await)
    });
}

impl Inner {
    async fn answer_vnodes(self: &Arc<Inner>, question: Question) -> Bytes {
        let room = PEER_CALL_BYTES_MAX - PEER_HEAD_BYTES_MAX;
        let mut answer = match self.attend(question, room).await {
            Ok(answer) => answer,
            Err(error) => letter::refused(&error),
        };
        if answer.len() > room {
            let text = "the values of this key are too large to go from node to node";
            answer = letter::refused(&Error::new(Reason::TooLarge, text));
        }
        answer.into()
    }

    async fn attend(self: &Arc<Inner>, question: Question, room: usize) -> Result<Vec<u8>> {
        match question {
            Question::Fetch(spot) => {
                let row = self.shelf.read(&spot)?;
                Ok(letter::told(|out| {
                    out.push(row.is_some().into());
                    out.extend_from_slice(&row.unwrap_or_default());
                }))
            }
            Question::Store { spot, rules, hint, row } => {
                self.look_at_fence();
                let row = super::layout::read_row(&row).map_err(damaged)?;
                let ticket = self.shelf.merge(&spot, row, rules, hint)?;
                self.shelf.settled(ticket).await?;
                Ok(letter::told(|_| ()))
            }
            Question::PassedOn(request) => {
                let answer = self.coordinate(request).await;
                Ok(letter::told(|out| write_answer(&answer, room - 1, out)))
            }
            Question::Keys { partitions, bucket, after, rows_max } => {
                let (keys, more) = self.keys_here(partitions, bucket, after, rows_max).await?;
                Ok(letter::told(|out| letter::put_names(&keys, more, out)))
            }
            Question::Buckets { partitions, kind, after, rows_max } => {
                let (names, more) = self.buckets_here(partitions, kind, after, rows_max).await?;
                Ok(letter::told(|out| letter::put_names(&names, more, out)))
            }
            Question::Compare { which, question } => {
                let answer = self.compared(which, question).await?;
                Ok(letter::told(|out| answer.write(out)))
            }
            Question::Bare { spot, epoch, digest, drop } => {
                let yes = match drop {
                    true => self.reap_here(&spot, epoch, digest).await?,
                    false => self.has_just(&spot, epoch, digest)?,
                };
                Ok(letter::told(|out| out.push(yes.into())))
            }
            Question::Holds(meanwhile) => {
                let holds = self.holds_rows(meanwhile).await?;
                Ok(letter::told(|out| out.push(holds.into())))
            }
        }
    }
}
