//! Stages of requests: which of their waits took how long, for the slow log.
//!
//! A wait that is over at once costs no clock; any other costs two reads of it. Without a slow log
//! nothing is measured.

use crate::shared::Shared;
use node::{SlowStages, Ticket};
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// Stage in which a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStage {
    /// Until updates are decided.
    Decide,
    /// For a reply that comes later.
    Reply,
    /// Until the client's connection takes the answer.
    Send,
}

/// Times of the waits of a request, or of several that are answered together.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageTimes {
    is_measured: bool,
    decide: Duration,
    reply: Duration,
    send: Duration,
    /// Last ticket that was waited for.
    ticket: Option<Ticket>,
}

impl StageTimes {
    /// Returns no times, to which are added those of this server's requests.
    #[inline]
    pub fn new(shared: &Shared) -> StageTimes {
        StageTimes { is_measured: shared.node.has_slow_log(), ..StageTimes::default() }
    }

    /// Returns the times of a request that did nothing but wait for its reply.
    pub fn of_reply(reply: Duration) -> StageTimes {
        StageTimes { reply, ..StageTimes::default() }
    }

    /// Awaits, and adds the time to that of the stage.
    #[inline]
    pub async fn measure<F: Future>(&mut self, stage: WaitStage, wait: F) -> F::Output {
        let mut wait = pin!(wait);
        if !self.is_measured {
            return wait.await;
        }
        let mut since = None;
        let output = poll_fn(|context| {
            let polled = wait.as_mut().poll(context);
            if polled.is_pending() && since.is_none() {
                since = Some(Instant::now());
            }
            polled
        });
        let output = output.await;
        if let Some(since) = since {
            *self.time(stage) += since.elapsed();
        }
        output
    }

    /// Notes that the request waited for a ticket.
    #[inline]
    pub fn note_ticket(&mut self, ticket: Ticket) {
        self.ticket = Some(ticket);
    }

    /// Adds the times of other waits.
    pub fn add(&mut self, other: &StageTimes) {
        self.decide += other.decide;
        self.reply += other.reply;
        self.send += other.send;
        self.ticket = other.ticket.or(self.ticket);
    }

    /// Returns the stages of a slow request that took this long.
    pub fn of_slow(&self, shared: &Shared, took: Duration) -> SlowStages {
        let StageTimes { decide, reply, send, ticket, .. } = *self;
        SlowStages {
            evaluate: took.saturating_sub(decide + reply + send),
            decide,
            entry: ticket.and_then(|ticket| shared.node.entry_stages(ticket)),
            reply,
            send,
        }
    }

    fn time(&mut self, stage: WaitStage) -> &mut Duration {
        match stage {
            WaitStage::Decide => &mut self.decide,
            WaitStage::Reply => &mut self.reply,
            WaitStage::Send => &mut self.send,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;
    use tokio::time::sleep;

    const WAIT: Duration = Duration::from_millis(2);

    #[tokio::test]
    async fn each_wait_is_added_to_its_stage() {
        let mut times = StageTimes { is_measured: true, ..StageTimes::default() };
        times.measure(WaitStage::Decide, sleep(WAIT)).await;
        times.measure(WaitStage::Reply, sleep(WAIT)).await;
        times.measure(WaitStage::Reply, sleep(WAIT)).await;
        times.measure(WaitStage::Send, ready(())).await;
        // A sleep takes its time or longer.
        assert!(times.decide >= WAIT && times.reply >= WAIT * 2, "{times:?}");
        assert_eq!(times.send, Duration::ZERO);
        let mut all = StageTimes::of_reply(WAIT);
        all.add(&times);
        assert_eq!((all.decide, all.reply), (times.decide, WAIT + times.reply));
    }

    #[tokio::test]
    async fn nothing_is_measured_without_a_slow_log() {
        let mut times = StageTimes::default();
        times.measure(WaitStage::Send, sleep(WAIT)).await;
        assert_eq!(times.send, Duration::ZERO);
    }
}
