//! Connection of one RESP client: reads requests, submits them, waits once, answers once.

use super::client::{Client, Replies};
use super::errors::no_siblings;
use super::frame::{ParseProgress, Parser};
use super::operation::operation;
use super::output::Output;
use super::registry::{Card, Registry};
use super::translate::{self, CommandContext, MultiStep, RecentCommand, RespPlan, RespShape};
use super::window::{ParallelCall, WINDOW_REQUEST_BYTES_MAX, Window};
use crate::buffer_budget::AnswerBudget;
use crate::counters::{OperationKind, Verdict};
use crate::read_buffer::ReadBuffer;
use crate::shared::closing;
use crate::{Connection, Shared, Shutdown, writer};
use base::limits::PIPELINE_DEPTH_MAX;
use base::{BucketName, Call, Reply, Request, Result};
use node::{Flow, LaterReply, Submitted};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use tokio::net::TcpStream;
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
    let card = registry.enter(address, local);
    let _idle = shared.idle.enter(card.activity.clone());
    let ended = pin!(card.activity.clone().ended(shutdown));
    RespConnection::new(connection, shared, registry, card).run(ended).await;
}

/// Request that is not answered at once.
pub(super) enum DeferredReply {
    /// Request of one reply. No later request is looked at before the reply has come.
    Reply(LaterReply, RespShape, OperationKind),
    /// Command that takes several requests. No later request is looked at before it is done.
    MultiStep(MultiStep),
    /// Request of one key. Requests of other keys may run concurrently.
    Independent(ParallelCall),
    /// Answer that is known, but must follow answers that are not.
    Ready(Output),
}

/// Connection that serves requests.
pub(super) struct RespConnection {
    pub(super) stream: TcpStream,
    pub(super) shared: Arc<Shared>,
    /// State that all RESP connections share.
    pub(super) registry: Arc<Registry>,
    pub(super) client: Client,
    pub(super) out: Output,
    pub(super) room: AnswerBudget,
    pub(super) read_buffer: ReadBuffer,
    pub(super) parser: Parser,
    /// Requests in flight.
    pub(super) window: Window,
    flow: Flow,
    /// Last command, for a quick look-up.
    recent: RecentCommand,
    /// True if a request was refused because the server closes. The connection then ends.
    refused: bool,
    /// Outcomes of this batch's requests; equal ones in a row are merged.
    pub(super) verdicts: Vec<(OperationKind, Verdict, u64)>,
}

impl Drop for RespConnection {
    fn drop(&mut self) {
        self.registry.leave(&self.client.card);
    }
}

impl RespConnection {
    fn new(
        connection: Connection,
        shared: Arc<Shared>,
        registry: Arc<Registry>,
        card: Arc<Card>,
    ) -> RespConnection {
        let idle = shared.settings.resp_idle_ms_max;
        RespConnection {
            stream: connection.stream,
            shared,
            registry,
            client: Client::new(card),
            out: Output::default(),
            room: AnswerBudget::default(),
            flow: Flow::default(),
            recent: RecentCommand::default(),
            refused: false,
            read_buffer: ReadBuffer::new(connection.first).closing_idle(idle),
            parser: Parser::default(),
            window: Window::default(),
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
                self.out.error("OVERLOADED too many large requests at a time: try again later");
                let _ = self.send().await;
                return writer::hang_up(&mut self.stream).await;
            }
            if !self.read_on(ended.as_mut()).await {
                return;
            }
        }
    }

    /// Answers all complete requests. Returns the minimum length in bytes of the next request, or
    /// `Err` if the connection must end.
    async fn answer(&mut self) -> std::result::Result<usize, ()> {
        loop {
            let began = Instant::now();
            let mut needed = None;
            let mut requests = 0;
            while requests < PIPELINE_DEPTH_MAX && self.out.len() < ANSWER_BYTES {
                match self.parser.parse(&self.read_buffer.input) {
                    Ok(ParseProgress::Frame(bytes)) => {
                        requests += 1;
                        let slow = match self.window.is_empty() {
                            true => self.request(bytes),
                            false => self.request_behind(bytes).await?,
                        };
                        if let Some(slow) = slow {
                            self.wait_for(slow, bytes).await?;
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
                        self.client.tally.errors += 1;
                        let _ = self.send().await;
                        writer::hang_up(&mut self.stream).await;
                        return Err(());
                    }
                }
            }
            self.settle().await;
            self.show_command();
            self.send().await?;
            self.count(began, requests);
            if self.client.closing || self.client.card.activity.is_ending() {
                self.drain().await?;
                self.send().await?;
                return Err(());
            }
            if self.refused && self.read_buffer.input.is_empty() {
                self.drain().await?;
                self.send().await?;
                writer::hang_up(&mut self.stream).await;
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
    pub(super) fn request(&mut self, bytes: usize) -> Option<DeferredReply> {
        let frame = self.read_buffer.input.split_to(bytes).freeze();
        let words = self.parser.words(frame);
        if words.is_empty() {
            self.parser.reset();
            return None;
        }
        if self.client.replies == Replies::SkipNext {
            self.client.replies = Replies::Skip;
        }
        let from = self.out.place();
        let plan = translate::translate(
            self.recent.find(words.get(0)),
            &words,
            &mut CommandContext {
                client: &mut self.client,
                out: &mut self.out,
                clock: self.registry.clock,
                shared: &self.shared,
                as_step: false,
                depth: 0,
            },
        );
        self.parser.reset();
        let slow = self.act(plan);
        if self.client.replies != Replies::On && slow.is_none() {
            self.swallow(from);
        }
        slow
    }

    /// Drops an answer that the client does not want (`CLIENT REPLY`).
    pub(super) fn swallow(&mut self, from: super::output::OutputPosition) {
        if self.client.replies != Replies::On {
            self.out.truncate(from);
        }
        if self.client.replies == Replies::Skip {
            self.client.replies = Replies::On;
        }
    }

    #[inline]
    fn act(&mut self, plan: RespPlan) -> Option<DeferredReply> {
        let (bucket, call, shape) = match plan {
            RespPlan::Said => {
                self.verdict(OperationKind::Other, Verdict::Fine);
                return None;
            }
            RespPlan::Ask(call, shape) => (self.client.bucket.clone(), call, shape),
            RespPlan::Directory(bucket, call, shape) => (bucket, Call::Directory(call), shape),
            RespPlan::Run(multi_step) => return Some(DeferredReply::MultiStep(multi_step)),
        };
        let operation = operation(&call);
        let request = Request { bucket, call, retry: self.client.retry.take() };
        match self.submit(request) {
            Submitted::Ready(reply) => {
                self.speak(&shape, operation, reply);
                None
            }
            Submitted::Pending(ticket, reply) => {
                let from = self.out.place();
                self.speak(&shape, operation, reply);
                self.out.wait_for(from, ticket);
                None
            }
            Submitted::Later(reply) => Some(DeferredReply::Reply(reply, shape, operation)),
            Submitted::Independent(key, answer) => {
                Some(DeferredReply::Independent(ParallelCall { key, answer, shape, operation }))
            }
        }
    }

    /// Submits a request to the node. Refuses it instead if the server is closing: the client
    /// learns that the request had no effect.
    #[inline]
    pub(super) fn submit(&mut self, request: Request) -> Submitted {
        if self.read_buffer.is_last() {
            self.refused = true;
            return Submitted::Ready(Err(closing()));
        }
        // A consistent bucket has one value per key. Refuse, so that no client believes it asked
        // for siblings.
        if matches!(request.call, Call::Available(_)) && self.is_consistent(&request.bucket) {
            return Submitted::Ready(Err(no_siblings(&request.bucket)));
        }
        self.shared.node.submit(&mut self.flow, request)
    }

    /// Returns true if the bucket is consistent.
    fn is_consistent(&self, bucket: &BucketName) -> bool {
        self.shared.node.place(bucket).is_ok()
    }

    #[inline]
    fn speak(&mut self, shape: &RespShape, operation: OperationKind, reply: Result<Reply>) {
        self.verdict(operation, Verdict::of(&reply));
        self.say(shape, reply);
    }

    #[inline]
    pub(super) fn say(&mut self, shape: &RespShape, reply: Result<Reply>) {
        let (from, applied) = (self.out.place(), super::large::applied(&reply));
        let answer = reply.map(|reply| {
            self.client.last_index = reply.index;
            reply.body
        });
        shape.speak(
            answer,
            &mut CommandContext {
                client: &mut self.client,
                out: &mut self.out,
                clock: self.registry.clock,
                shared: &self.shared,
                as_step: false,
                depth: 0,
            },
        );
        self.make_room(from, applied);
    }

    /// Waits for a slow answer after sending all earlier answers, unless the request may run
    /// concurrently.
    async fn wait_for(&mut self, slow: DeferredReply, bytes: usize) -> std::result::Result<(), ()> {
        let slow = match slow {
            DeferredReply::Independent(apart) => match self.run_concurrently(apart, bytes).await? {
                Some(ParallelCall { answer, shape, operation, .. }) => {
                    DeferredReply::Reply(answer, shape, operation)
                }
                None => return Ok(()),
            },
            slow => slow,
        };
        self.drain().await?;
        if let DeferredReply::Ready(said) = slow {
            self.out.append(said);
            return Ok(());
        }
        self.send().await?;
        let from = self.out.place();
        match slow {
            DeferredReply::Independent(_) | DeferredReply::Ready(_) => {}
            DeferredReply::Reply(reply, shape, operation) => {
                let reply = reply.await;
                self.speak(&shape, operation, reply);
            }
            DeferredReply::MultiStep(multi_step) => self.run_multi_step(multi_step).await?,
        }
        self.swallow(from);
        Ok(())
    }

    /// Waits until every answer of the batch is decided, then sends the batch.
    pub(super) async fn send(&mut self) -> std::result::Result<(), ()> {
        if self.out.is_empty() {
            return Ok(());
        }
        if !self.out.pending().is_empty() {
            self.decide().await;
        }
        writer::write(&mut self.stream, &self.out).await.map_err(|_| ())?;
        self.out.clear();
        self.room.release();
        Ok(())
    }

    /// Waits for the tickets of the batch. The last ticket of each group covers all earlier ones;
    /// only if one fails is every ticket waited for by itself.
    async fn decide(&mut self) {
        let node = &self.shared.node;
        let pending = self.out.pending();
        let mut all_well = true;
        for (at, waiting) in pending.iter().enumerate() {
            let is_last =
                pending.get(at + 1).is_none_or(|next| next.ticket.group != waiting.ticket.group);
            if is_last && node.decided(waiting.ticket).await.is_err() {
                all_well = false;
            }
        }
        if all_well {
            return;
        }
        let mut judged = Vec::with_capacity(pending.len());
        for waiting in pending {
            let failed = node.decided(waiting.ticket).await.err();
            judged.push(failed.map(|error| super::errors::text(&error)));
        }
        self.client.tally.errors += judged.iter().flatten().count() as u64;
        self.out.judge(&judged);
    }
}
