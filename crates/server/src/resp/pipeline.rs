//! Concurrent requests of one pipeline: which requests may run at the same time, and which must
//! wait.
//!
//! A request runs concurrently with others if it reads or writes one key of an available bucket,
//! and no other request of that key is in flight. Every other request waits until all before it are
//! answered: requests that change the connection (`MULTI`, another bucket, another protocol), that
//! take several keys or several requests, or that are no data requests at all.
//!
//! Never: reorders answers.

use super::client::Replies;
use super::output::Output;
use super::serve::{ANSWER_BYTES, DeferredReply, RespConnection};
use super::translate::table;
use super::window::{ParallelCall, WINDOW_REQUEST_BYTES_MAX, WindowAnswer};
use crate::counters::{ClientProtocol, OperationKind, Verdict};
use std::future::Future;
use std::pin::Pin;

impl RespConnection {
    /// Handles a request of this many bytes while others are in flight. An immediate answer is kept
    /// apart until they have answered.
    pub(super) async fn request_behind(
        &mut self,
        bytes: usize,
    ) -> Result<Option<DeferredReply>, ()> {
        let name = self.parser.command(&self.read_buffer.input[..bytes]);
        let is_of_rows = table::find(name).is_some_and(table::Command::is_of_rows);
        if !is_of_rows || self.client.transaction.is_some() {
            self.drain().await?;
            return Ok(self.request(bytes));
        }
        let apart = Output::new(self.out.protocol);
        let before = std::mem::replace(&mut self.out, apart);
        let slow = self.request(bytes);
        let said = std::mem::replace(&mut self.out, before);
        Ok(slow.or_else(|| (!said.is_empty()).then_some(DeferredReply::Ready(said))))
    }

    /// Starts a request concurrently with those in flight, as soon as the window admits it. Returns
    /// it to the caller if it must run alone.
    pub(super) async fn run_concurrently(
        &mut self,
        apart: ParallelCall,
        bytes: usize,
    ) -> Result<Option<ParallelCall>, ()> {
        // A client that waits for each answer needs no task for its request.
        let is_only = self.window.is_empty() && self.read_buffer.input.is_empty();
        let is_plain = matches!(self.client.replies, Replies::On | Replies::Off);
        if is_only || !is_plain || bytes > WINDOW_REQUEST_BYTES_MAX {
            return Ok(Some(apart));
        }
        while self.window.has(&apart.key) || !self.window.has_room(apart.operation, bytes) {
            self.step().await?;
        }
        let Some(seat) = self.registry.seat_beside(bytes) else { return Ok(Some(apart)) };
        self.window.begin(apart, bytes, seat);
        Ok(None)
    }

    /// Waits until no request is in flight, and writes all their answers.
    pub(super) async fn drain(&mut self) -> Result<(), ()> {
        while !self.window.is_empty() {
            self.step().await?;
        }
        Ok(())
    }

    /// Writes the answer of the first request in flight. Sends all earlier answers before it has to
    /// wait.
    async fn step(&mut self) -> Result<(), ()> {
        if self.out.len() < ANSWER_BYTES
            && let Some(answered) = self.window.done().await
        {
            self.tell(answered);
            return Ok(());
        }
        self.send().await?;
        let answered = self.window.first().await;
        self.tell(answered);
        Ok(())
    }

    /// Writes the answers that are ready, in order.
    pub(super) async fn settle(&mut self) {
        while self.out.len() < ANSWER_BYTES {
            let Some(answered) = self.window.done().await else { return };
            self.tell(answered);
        }
    }

    fn tell(&mut self, answered: WindowAnswer) {
        let WindowAnswer { reply, shape, operation, began } = answered;
        let (verdict, took) = (Verdict::of(&reply), began.elapsed());
        self.shared.counters.observe(ClientProtocol::Resp, operation, verdict, took);
        let (from, before) = (self.out.place(), self.out.len());
        self.say(&shape, reply);
        if operation == OperationKind::Get {
            self.window.brought(self.out.len() - before);
        }
        self.swallow(from);
    }

    /// Reads more input, and writes and sends answers meanwhile. Returns false if the input has
    /// ended; then all requests in flight have been answered.
    pub(super) async fn read_on(
        &mut self,
        mut ended: Pin<&mut impl Future<Output = bool>>,
    ) -> bool {
        loop {
            self.read_buffer.answers_follow = !self.window.is_empty();
            let answered = tokio::select! {
                biased;
                answered = self.window.first() => answered,
                more = self.read_buffer.read(&mut self.stream, ended.as_mut()) => {
                    if !more && self.drain().await.is_ok() {
                        // A client that only shut down its sending side still receives answers.
                        let _ = self.send().await;
                    }
                    self.add_up();
                    return more;
                }
            };
            self.tell(answered);
            self.settle().await;
            self.add_up();
            if self.send().await.is_err() {
                return false;
            }
        }
    }
}
