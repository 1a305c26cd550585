//! The side that is asked: another node coordinates, and this one's vnodes answer.

use super::letter::{self, Question};
use crate::Inner;
use crate::consistent::view::damaged;
use crate::peers::{Asked, Peers, Sending};
use base::codec::Malformed;
use base::limits::{FORWARD_MS_MAX, PEER_CALL_BYTES_MAX, PEER_HEAD_BYTES_MAX};
use base::wire::write_answer;
use base::{Error, Reason, Result};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Between two attempts to send an answer through a full lane.
const PAUSE: Duration = Duration::from_millis(5);

/// Answers another node's question. Hands over and returns.
pub(crate) fn asked(inner: &Arc<Inner>, peers: &Peers, asked: Asked) {
    let Some(seat) = inner.desk.sit(asked.payload.len()) else {
        peers.decline(&asked);
        return;
    };
    let (inner, peers) = (inner.clone(), peers.clone());
    tokio::spawn(async move {
        let within = asked.within.min(Duration::from_millis(FORWARD_MS_MAX));
        let _ = timeout(within, attend(&inner, &peers, &asked)).await;
        drop(seat);
    });
}

async fn attend(inner: &Arc<Inner>, peers: &Peers, asked: &Asked) {
    let question = match Question::read(&asked.payload) {
        Ok(question) => question,
        Err(Malformed(field)) => {
            let from = format_args!("{:016x}", asked.from.0);
            tracing::warn!(target: "node", %from, "a question to a vnode is malformed: {field}");
            peers.decline(asked);
            return;
        }
    };
    let room = PEER_CALL_BYTES_MAX - PEER_HEAD_BYTES_MAX;
    let mut answer = match inner.attend(question, room).await {
        Ok(answer) => answer,
        Err(error) => letter::refused(&error),
    };
    if answer.len() > room {
        let text = "the values of this key are too large to go from node to node";
        answer = letter::refused(&Error::new(Reason::TooLarge, text));
    }
    let answer = Bytes::from(answer);
    // Without a link the one who asked is told so by its own side.
    while let Ok(Sending::Full) = peers.answer(asked, answer.clone()) {
        sleep(PAUSE).await;
    }
}

impl Inner {
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
            Question::Holds(meanwhile) => {
                let holds = self.holds_rows(meanwhile).await?;
                Ok(letter::told(|out| out.push(holds.into())))
            }
        }
    }
}
