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
use crate::slow::{self, NamedRequest};
use crate::stages::{StageTimes, WaitStage};
use std::future::Future;
use std::pin::Pin;

impl RespConnection {
    /// Handles a request of this many bytes while others are in flight. An immediate answer is
    /// held back until those are answered.
    pub(super) async fn handle_pipelined_request(
        &mut self,
        bytes: usize,
    ) -> Result<Option<DeferredReply>, ()> {
        let name = self.parser.command(&self.read_buffer.input[..bytes]);
        let is_row_command = table::find(name).is_some_and(table::Command::is_row_command);
        if !is_row_command || self.client.transaction.is_some() {
            self.drain().await?;
            return Ok(self.handle_request(bytes));
        }
        let separate = Output::new(self.out.protocol);
        let outer = std::mem::replace(&mut self.out, separate);
        let deferred = self.handle_request(bytes);
        let answer = std::mem::replace(&mut self.out, outer);
        Ok(deferred.or_else(|| (!answer.is_empty()).then_some(DeferredReply::Ready(answer))))
    }

    /// Starts a request concurrently with those in flight, as soon as the window admits it. Returns
    /// it to the caller if it must run alone.
    pub(super) async fn run_concurrently(
        &mut self,
        call: ParallelCall,
        bytes: usize,
    ) -> Result<Option<ParallelCall>, ()> {
        // A client that waits for each answer needs no window.
        let is_single = self.window.is_empty() && self.read_buffer.input.is_empty();
        let skips_no_reply = matches!(self.client.replies, Replies::On | Replies::Off);
        if is_single || !skips_no_reply || bytes > WINDOW_REQUEST_BYTES_MAX {
            return Ok(Some(call));
        }
        while self.window.contains_key(&call.key) || !self.window.admits(call.operation, bytes) {
            self.write_first_answer().await?;
        }
        let Some(permit) = self.registry.reserve_window(bytes) else { return Ok(Some(call)) };
        self.window.start(call, bytes, permit);
        self.window.begin_last().await;
        // A read of this node's own rows is done at once.
        while self.out.len() < ANSWER_BYTES
            && let Some(answer) = self.window.take_done()
        {
            self.write_window_answer(answer);
        }
        Ok(None)
    }

    /// Waits until no request is in flight, and writes all their answers.
    pub(super) async fn drain(&mut self) -> Result<(), ()> {
        while !self.window.is_empty() {
            self.write_first_answer().await?;
        }
        Ok(())
    }

    /// Writes the answer of the first request in flight. Sends all earlier answers before it has to
    /// wait.
    async fn write_first_answer(&mut self) -> Result<(), ()> {
        if self.out.len() < ANSWER_BYTES
            && let Some(answer) = self.window.try_first_answer().await
        {
            self.write_window_answer(answer);
            return Ok(());
        }
        self.send().await?;
        let answer = self.stages.measure(WaitStage::Reply, self.window.first_answer()).await;
        self.write_window_answer(answer);
        Ok(())
    }

    /// Writes the answers that are ready, in order.
    pub(super) async fn write_ready_answers(&mut self) {
        while self.out.len() < ANSWER_BYTES {
            let Some(answer) = self.window.try_first_answer().await else { return };
            self.write_window_answer(answer);
        }
    }

    fn write_window_answer(&mut self, answer: WindowAnswer) {
        let WindowAnswer { key, reply, shape, operation, began } = answer;
        let (verdict, elapsed) = (Verdict::from_result(&reply), began.elapsed());
        self.shared.counters.observe(ClientProtocol::Resp, operation, verdict, elapsed);
        if self.shared.node.is_slow(elapsed) {
            let request = NamedRequest::of_key(slow::operation_name(operation), &key);
            let client = (ClientProtocol::Resp, Some(self.client.info.address));
            let target = (Some(&self.client.bucket), request);
            let stages = StageTimes::of_reply(elapsed);
            slow::report(&self.shared, client, target, (1, elapsed), &stages);
        }
        let (from, bytes_before) = (self.out.position(), self.out.len());
        self.write_reply(&shape, reply);
        if operation == OperationKind::Get {
            self.window.record_read_bytes(self.out.len() - bytes_before);
        }
        self.suppress_reply(from);
    }

    /// Reads more input, and writes and sends answers meanwhile. Returns false if the input has
    /// ended; then all requests in flight have been answered.
    pub(super) async fn read_and_answer(
        &mut self,
        mut ended: Pin<&mut impl Future<Output = bool>>,
    ) -> bool {
        loop {
            self.read_buffer.expects_answers = !self.window.is_empty();
            let answer = tokio::select! {
                biased;
                answer = self.window.first_answer() => answer,
                is_open = self.read_buffer.read(&mut self.stream, ended.as_mut()) => {
                    if !is_open && self.drain().await.is_ok() {
                        // A client that only shut down its sending side still receives answers.
                        let _ = self.send().await;
                    }
                    self.flush_counts();
                    return is_open;
                }
            };
            self.write_window_answer(answer);
            self.write_ready_answers().await;
            self.flush_counts();
            if self.send().await.is_err() {
                return false;
            }
        }
    }
}
