//! Connection of one RESP client: reads requests, submits them, waits once, answers once.

use super::client::{Client, Replies};
use super::errors::no_siblings;
use super::frame::{ParseProgress, Parser};
use super::operation::operation;
use super::output::Output;
use super::registry::{ClientInfo, Registry};
use super::translate::{self, CommandContext, MultiStep, RecentCommand, RespPlan, RespShape};
use super::window::{ParallelCall, WINDOW_REQUEST_BYTES_MAX, Window};
use crate::buffer_budget::BufferBudget;
use crate::counters::{OperationKind, Verdict};
use crate::read_buffer::ReadBuffer;
use crate::shared::shutting_down_error;
use crate::slow::NamedRequest;
use crate::stages::{StageTimes, WaitStage};
use crate::{Connection, Shared, Shutdown, writer};
use base::limits::PIPELINE_DEPTH_MAX;
use base::{BucketName, Call, Reply, Request, Result};
use node::{Flow, LaterReply, RecordedAct, SubmitResult};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tls::Stream;
use tokio::time::Instant;

/// Size of a batch's answers at which they are sent before more requests are read.
pub(super) const ANSWER_BYTES: usize = 1024 * 1024;

/// Serves one connection until it ends or the server closes.
pub(crate) async fn serve(
    connection: Connection,
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    shutdown: Shutdown,
) {
    let addresses = (connection.stream.peer_addr(), connection.stream.local_addr());
    // Both calls fail only on a dead socket.
    let (Ok(address), Ok(local)) = addresses else { return };
    let info = registry.add_client((address, local), connection.role.rights());
    let _idle = shared.idle.register(info.activity.clone());
    let ended = pin!(info.activity.clone().wait_for_end_or_shutdown(shutdown.clone()));
    let state = (registry, info, shutdown);
    RespConnection::new(connection, shared, state).run(ended).await;
}

/// Request that is not answered at once.
pub(super) enum DeferredReply {
    /// Request of one reply. No later request is handled before the reply has arrived.
    Reply(LaterReply, RespShape, OperationKind),
    /// Command that takes several requests, or an act. No later request is handled before it is
    /// done.
    MultiStep(MultiStep, RecordedAct),
    /// Request of one key. Requests of other keys may run concurrently.
    Independent(ParallelCall),
    /// Answer that is complete, but must follow answers that are not.
    Ready(Output),
}

/// Connection that serves requests.
pub(super) struct RespConnection {
    pub(super) stream: Stream,
    pub(super) shared: Arc<Shared>,
    /// State that all RESP connections share.
    pub(super) registry: Arc<Registry>,
    /// Signal that the server closes.
    pub(super) shutdown: Shutdown,
    pub(super) client: Client,
    pub(super) out: Output,
    pub(super) answer_budget: BufferBudget,
    pub(super) read_buffer: ReadBuffer,
    pub(super) parser: Parser,
    /// Requests in flight.
    pub(super) window: Window,
    pub(super) flow: Flow,
    /// Number of the next requests that go alone, because a run left them out.
    pub(super) lone_requests: usize,
    /// Last command, for a quick look-up.
    recent: RecentCommand,
    /// True if a request was refused because the server closes. The connection then ends.
    refused_by_close: bool,
    /// First request of this batch, for the slow log.
    pub(super) first_request: Option<NamedRequest>,
    /// Waits of this batch.
    pub(super) stages: StageTimes,
    /// Time of this batch in which it waited for events of a feed, which is no latency.
    pub(super) waited: Duration,
    /// Outcomes of this batch's requests; equal ones in a row are merged.
    pub(super) verdicts: Vec<(OperationKind, Verdict, u64)>,
}

impl Drop for RespConnection {
    fn drop(&mut self) {
        self.registry.remove_client(&self.client.info);
    }
}

impl RespConnection {
    fn new(
        connection: Connection,
        shared: Arc<Shared>,
        (registry, info, shutdown): (Arc<Registry>, Arc<ClientInfo>, Shutdown),
    ) -> RespConnection {
        let idle = shared.live.resp_idle_ms_max();
        RespConnection {
            flow: Flow::of(connection.role.principal()),
            stream: connection.stream,
            shared,
            registry,
            shutdown,
            client: Client::new(info),
            out: Output::default(),
            answer_budget: BufferBudget::default(),
            lone_requests: 0,
            recent: RecentCommand::default(),
            refused_by_close: false,
            read_buffer: ReadBuffer::new(connection.first).with_idle_timeout(idle),
            parser: Parser::default(),
            window: Window::default(),
            first_request: None,
            stages: StageTimes::default(),
            waited: Duration::ZERO,
            verdicts: Vec::new(),
        }
    }

    async fn run(&mut self, mut ended: Pin<&mut impl Future<Output = bool>>) {
        loop {
            let Ok(needed) = self.answer().await else { return };
            // Finish requests in flight first: the wait for memory may take a while.
            if needed > WINDOW_REQUEST_BYTES_MAX && self.drain().await.is_err() {
                return;
            }
            if !self.read_buffer.reserve(needed, &self.shared).await {
                let _ = self.drain().await;
                self.out
                    .error("OVERLOADED too many large requests are in progress: try again later");
                let _ = self.send().await;
                return writer::close_after_answer(&mut self.stream).await;
            }
            if !self.read_and_answer(ended.as_mut()).await {
                return;
            }
        }
    }

    /// Answers all complete requests. Returns the minimum length in bytes of the next request, or
    /// `Err` if the connection must end.
    async fn answer(&mut self) -> std::result::Result<usize, ()> {
        loop {
            let began = Instant::now();
            self.stages = StageTimes::new(&self.shared);
            let mut needed = None;
            let mut requests = 0;
            while requests < PIPELINE_DEPTH_MAX && self.out.len() < ANSWER_BYTES {
                let is_stranger = self.is_stranger();
                self.parser.set_stranger(is_stranger);
                let answered = self.handle_run(PIPELINE_DEPTH_MAX - requests);
                if answered > 0 {
                    requests += answered;
                    continue;
                }
                match self.parser.parse(&self.read_buffer.input) {
                    Ok(ParseProgress::Frame(bytes)) => {
                        requests += 1;
                        let deferred = match self.window.is_empty() {
                            true => self.handle_request(bytes),
                            false => self.handle_pipelined_request(bytes).await?,
                        };
                        if let Some(deferred) = deferred {
                            self.await_deferred(deferred, bytes).await?;
                        }
                        if self.client.closing {
                            break;
                        }
                    }
                    Ok(ParseProgress::More(bytes)) => {
                        needed = Some(bytes);
                        break;
                    }
                    Err(fault) => {
                        self.drain().await?;
                        self.out.error(&fault.text());
                        self.client.counts.errors += 1;
                        let _ = self.send().await;
                        writer::close_after_answer(&mut self.stream).await;
                        return Err(());
                    }
                }
            }
            self.write_ready_answers().await;
            self.publish_command();
            self.send().await?;
            self.record_batch(began, requests);
            if self.client.closing || self.client.info.activity.is_ending() {
                self.drain().await?;
                self.send().await?;
                return Err(());
            }
            if self.refused_by_close && self.read_buffer.input.is_empty() {
                self.drain().await?;
                self.send().await?;
                writer::close_after_answer(&mut self.stream).await;
                return Err(());
            }
            if let Some(needed) = needed {
                return Ok(needed);
            }
        }
    }

    /// Handles one request of this many bytes. Returns a `DeferredReply` if it can't be answered at
    /// once.
    #[inline]
    pub(super) fn handle_request(&mut self, bytes: usize) -> Option<DeferredReply> {
        let frame = self.parser.take_frame(&mut self.read_buffer.input, bytes);
        let args = self.parser.args(frame);
        if args.is_empty() {
            self.parser.reset();
            return None;
        }
        if self.client.replies == Replies::SkipNext {
            self.client.replies = Replies::Skip;
        }
        let (from, bytes_before) = (self.out.position(), self.out.len());
        let plan = translate::translate(
            self.recent.find(args.get(0)),
            &args,
            &mut CommandContext {
                client: &mut self.client,
                out: &mut self.out,
                clock: self.registry.clock,
                shared: &self.shared,
                is_step: false,
                depth: 0,
            },
        );
        self.parser.reset();
        self.charge_large_answer(from, bytes_before);
        let deferred = self.execute(plan);
        if self.client.replies != Replies::On && deferred.is_none() {
            self.suppress_reply(from);
        }
        deferred
    }

    /// Drops an answer that the client has switched off (`CLIENT REPLY`).
    pub(super) fn suppress_reply(&mut self, from: super::output::OutputPosition) {
        if self.client.replies != Replies::On {
            self.out.truncate(from);
        }
        if self.client.replies == Replies::Skip {
            self.client.replies = Replies::On;
        }
    }

    #[inline]
    fn execute(&mut self, plan: RespPlan) -> Option<DeferredReply> {
        let (bucket, call, shape) = match plan {
            RespPlan::Answered => {
                self.record_outcome(OperationKind::Other, Verdict::Success);
                self.end_login_after_reset();
                return None;
            }
            RespPlan::Call(call, shape) => (self.client.bucket.clone(), call, shape),
            RespPlan::Directory(bucket, call, shape) => (bucket, Call::Directory(call), shape),
            RespPlan::MultiStep(multi_step) => return self.defer(multi_step),
        };
        let operation = operation(&call);
        if self.first_request.is_none() {
            self.first_request = Some(NamedRequest::of_call(self.client.last_command, &call));
        }
        let request = Request { bucket, call, retry: self.client.retry.take() };
        match self.submit(request) {
            SubmitResult::Ready(reply) => {
                self.count_and_write_reply(&shape, operation, reply);
                None
            }
            SubmitResult::Pending(ticket, reply) => {
                let from = self.out.position();
                self.count_and_write_reply(&shape, operation, reply);
                self.out.attach_ticket(from, ticket);
                None
            }
            SubmitResult::Later(reply) => Some(DeferredReply::Reply(reply, shape, operation)),
            SubmitResult::Independent(key, answer) => {
                Some(DeferredReply::Independent(ParallelCall { key, answer, shape, operation }))
            }
        }
    }

    /// Submits a request to the node. Refuses it instead if the server is closing: the refusal
    /// states that the request had no effect.
    #[inline]
    pub(super) fn submit(&mut self, request: Request) -> SubmitResult {
        if self.read_buffer.is_closing() {
            self.refused_by_close = true;
            return SubmitResult::Ready(Err(shutting_down_error()));
        }
        // A consistent bucket has one value per key. Refuse, so that no client takes the answer for
        // a read of siblings.
        if matches!(request.call, Call::Available(_)) && self.is_consistent(&request.bucket) {
            // Only those who may use the bucket learn what it is.
            let allowed = self.shared.node.authorize_request(&mut self.flow, &request);
            return SubmitResult::Ready(allowed.and(Err(no_siblings(&request.bucket))));
        }
        self.shared.submit(&mut self.flow, request, &self.stream)
    }

    /// Returns true if the bucket is consistent.
    fn is_consistent(&self, bucket: &BucketName) -> bool {
        self.shared.node.placement(bucket).is_ok()
    }

    #[inline]
    fn count_and_write_reply(
        &mut self,
        shape: &RespShape,
        operation: OperationKind,
        reply: Result<Reply>,
    ) {
        self.record_outcome(operation, Verdict::from_result(&reply));
        self.write_reply(shape, reply);
    }

    #[inline]
    pub(super) fn write_reply(&mut self, shape: &RespShape, reply: Result<Reply>) {
        if !self.reserve_reply(&reply, shape) {
            return;
        }
        let answer = reply.map(|reply| {
            self.client.last_index = reply.index;
            reply.body
        });
        shape.encode(
            answer,
            &mut CommandContext {
                client: &mut self.client,
                out: &mut self.out,
                clock: self.registry.clock,
                shared: &self.shared,
                is_step: false,
                depth: 0,
            },
        );
    }

    /// Waits for a slow answer after sending all earlier answers, unless the request may run
    /// concurrently.
    async fn await_deferred(
        &mut self,
        deferred: DeferredReply,
        bytes: usize,
    ) -> std::result::Result<(), ()> {
        let deferred = match deferred {
            DeferredReply::Independent(call) => match self.run_concurrently(call, bytes).await? {
                Some(ParallelCall { answer, shape, operation, .. }) => {
                    DeferredReply::Reply(answer, shape, operation)
                }
                None => return Ok(()),
            },
            deferred => deferred,
        };
        self.drain().await?;
        if let DeferredReply::Ready(answer) = deferred {
            self.out.append(answer);
            return Ok(());
        }
        self.send().await?;
        let from = self.out.position();
        match deferred {
            DeferredReply::Independent(_) | DeferredReply::Ready(_) => {}
            DeferredReply::Reply(reply, shape, operation) => {
                let reply = self.stages.measure(WaitStage::Reply, reply).await;
                self.count_and_write_reply(&shape, operation, reply);
            }
            DeferredReply::MultiStep(multi_step, act) => {
                self.run_and_charge(multi_step, act).await?;
            }
        }
        self.suppress_reply(from);
        Ok(())
    }
}
