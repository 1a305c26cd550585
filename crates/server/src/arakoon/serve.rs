//! Connection of one Arakoon client: reads the prologue, then handles batches of requests.

use super::commands::ArakoonCommand;
use super::errors::ArakoonRefusal;
use super::frame::{ParseProgress, Parser, Prologue, parse_prologue};
use super::login::principal;
use super::output::Output;
use super::registry::Registry;
use super::statistics::{Class, Statistics};
use super::translate::{self, ArakoonShape, ClusterQuery, CommandPlan};
use super::{clusters, views};
use crate::buffer_budget::{BufferBudget, reply_bytes};
use crate::counters::{OperationKind, Verdict};
use crate::idle::Activity;
use crate::read_buffer::ReadBuffer;
use crate::shared::shutting_down_error;
use crate::stages::{StageTimes, WaitStage};
use crate::writer::{self, Pieces};
use crate::{Connection, Shared, Shutdown, slow};
use base::limits::{HELLO_MS_MAX, PIPELINE_DEPTH_MAX};
use base::{BucketName, Call, Kind, Range, ReadLevel, Reply, Request, Result, Update};
use node::{Flow, KeyFingerprint, SubmitResult};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tls::Stream;
use tokio::time::{Instant, timeout};

/// Size of a batch's answers in bytes at which they are sent before more requests are read.
const BATCH_BYTES: usize = 1024 * 1024;

/// Serves one connection until it ends or the server closes.
pub(crate) async fn serve(
    connection: Connection,
    shared: Arc<Shared>,
    registry: &Registry,
    shutdown: Shutdown,
) {
    let activity = Arc::new(Activity::new(shared.clock.unix_ms()));
    let _idle = shared.idle.register(activity.clone());
    let mut end_signal = pin!(activity.clone().wait_for_end_or_shutdown(shutdown));
    let Connection { mut stream, first, role } = connection;
    // `local_addr` fails only on a dead socket.
    let Ok(local_address) = stream.local_addr() else { return };
    let mut read_buffer = ReadBuffer::new(first);
    let prologue = read_prologue(&mut stream, &mut read_buffer, &shared, end_signal.as_mut());
    let prologue = timeout(Duration::from_millis(HELLO_MS_MAX), prologue);
    let Ok(Some(cluster)) = prologue.await else { return };
    let principal = principal(&shared, role, &stream);
    let opened = clusters::open(&shared, &principal, &cluster).await;
    match opened {
        Ok(bucket) => {
            let statistics = registry.statistics_of(&bucket);
            let mut connection = ArakoonConnection {
                stream,
                shared,
                cluster,
                bucket,
                local_address,
                out: Output::default(),
                budget: BufferBudget::default(),
                // These clients locate the master themselves.
                flow: Flow::with_redirects(principal),
                read_buffer,
                parser: Parser::default(),
                outcomes: Vec::new(),
                last_command: "",
                slow_key: None,
                stages: StageTimes::default(),
                activity,
                statistics,
            };
            connection.run(end_signal).await;
        }
        Err(error) => clusters::reject_client(&mut stream, &shared, &cluster, &error).await,
    }
}

/// Reads the prologue and returns its cluster id. Returns `None` if the bytes are not a prologue or
/// the connection ends first.
async fn read_prologue(
    stream: &mut Stream,
    read_buffer: &mut ReadBuffer,
    shared: &Shared,
    mut end_signal: Pin<&mut impl Future<Output = bool>>,
) -> Option<Vec<u8>> {
    loop {
        match parse_prologue(&read_buffer.input) {
            Prologue::Invalid => return None,
            Prologue::Cluster(cluster, length) => {
                let _ = read_buffer.input.split_to(length);
                return Some(cluster);
            }
            Prologue::Incomplete => {
                let is_reserved = read_buffer.reserve(1, shared).await;
                if !is_reserved || !read_buffer.read(stream, end_signal.as_mut()).await {
                    return None;
                }
            }
        }
    }
}

/// Request that must finish before the connection reads the next one.
enum DeferredReply {
    Reply(
        Pin<Box<dyn Future<Output = Result<Reply>> + Send>>,
        ArakoonShape,
        &'static ArakoonCommand,
    ),
    Range(Range, ReadLevel, ArakoonShape, &'static ArakoonCommand),
    DropMaster(&'static ArakoonCommand),
}

/// Outcome of one request, for the counters.
pub(super) struct RequestOutcome {
    pub(super) operation: OperationKind,
    pub(super) class: Option<Class>,
    pub(super) verdict: Verdict,
    pub(super) size: u64,
}

/// Connection that has passed the prologue and serves requests.
pub(super) struct ArakoonConnection {
    stream: Stream,
    pub(super) shared: Arc<Shared>,
    pub(super) cluster: Vec<u8>,
    pub(super) bucket: BucketName,
    pub(super) local_address: SocketAddr,
    out: Output,
    budget: BufferBudget,
    pub(super) flow: Flow,
    read_buffer: ReadBuffer,
    parser: Parser,
    pub(super) outcomes: Vec<RequestOutcome>,
    /// Name of the last command, for the slow log.
    pub(super) last_command: &'static str,
    /// First key of this batch, for the slow log.
    pub(super) slow_key: Option<KeyFingerprint>,
    /// Waits of this batch, for the slow log.
    pub(super) stages: StageTimes,
    pub(super) activity: Arc<Activity>,
    pub(super) statistics: Arc<Mutex<Statistics>>,
}

impl ArakoonConnection {
    async fn run(&mut self, mut end_signal: Pin<&mut impl Future<Output = bool>>) {
        loop {
            let Ok(needed) = self.answer().await else { return };
            if !self.read_buffer.reserve(needed, &self.shared).await {
                self.out.refuse(&ArakoonRefusal::fatal("too many large requests at a time"));
                let _ = self.send().await;
                return writer::close_after_answer(&mut self.stream).await;
            }
            if !self.read_buffer.read(&mut self.stream, end_signal.as_mut()).await {
                return;
            }
        }
    }

    /// Answers all complete requests. Returns the minimum length in bytes of the next request, or
    /// `Err` if the connection must end.
    async fn answer(&mut self) -> std::result::Result<usize, ()> {
        loop {
            let started = Instant::now();
            self.stages = StageTimes::new(&self.shared);
            let mut needed = None;
            let mut frames = 0;
            while frames < PIPELINE_DEPTH_MAX && self.out.len() < BATCH_BYTES && !self.out.is_last {
                match self.parser.parse(&self.read_buffer.input) {
                    Ok(ParseProgress::Complete(command, length)) => {
                        frames += 1;
                        if let Some(deferred) = self.handle(command, length) {
                            self.complete(deferred).await?;
                        }
                    }
                    Ok(ParseProgress::Incomplete(length)) => {
                        needed = Some(length);
                        break;
                    }
                    Err(fault) => self.out.refuse(&fault.into()),
                }
            }
            let is_last = self.send().await?;
            self.record_batch(started);
            if is_last {
                writer::close_after_answer(&mut self.stream).await;
                return Err(());
            }
            if let Some(needed) = needed {
                return Ok(needed);
            }
        }
    }

    /// Handles one request of `length` bytes. Returns a `DeferredReply` if it can't be answered at
    /// once.
    fn handle(&mut self, command: &'static ArakoonCommand, length: usize) -> Option<DeferredReply> {
        self.last_command = command.protocol_name;
        let mut frame = self.read_buffer.input.split_to(length).freeze();
        self.parser.reset();
        let body = frame.split_off(4);
        match translate::translate(command, body, &self.cluster) {
            Ok(CommandPlan::Answer(body)) => {
                self.out.push_ok(&body);
                self.record(command, Verdict::Success, 0);
                None
            }
            Ok(CommandPlan::Submit(call, shape)) => self.submit_call(command, call, shape),
            Ok(CommandPlan::Range(range, level, shape)) => {
                Some(DeferredReply::Range(range, level, shape, command))
            }
            Ok(CommandPlan::Query(ClusterQuery::DropMaster)) => {
                Some(DeferredReply::DropMaster(command))
            }
            Ok(CommandPlan::Query(query)) => {
                let body = views::answer_query(self, &query);
                self.write_answer(command, body.map(|body| (body, 0)));
                None
            }
            Err(refusal) => {
                self.write_answer(command, Err(refusal));
                None
            }
        }
    }

    fn submit_call(
        &mut self,
        command: &'static ArakoonCommand,
        call: Call,
        shape: ArakoonShape,
    ) -> Option<DeferredReply> {
        let written_bytes = match &call {
            Call::Update(Update::Set { value, .. }) => Some(value.len() as u64),
            _ => None,
        };
        if self.slow_key.is_none() {
            self.slow_key = slow::fingerprint(&call);
        }
        let request = Request { bucket: self.bucket.clone(), call, retry: None };
        let from = self.out.bytes.len();
        match self.submit(request) {
            SubmitResult::Ready(reply) => self.write_reply(command, &shape, reply),
            SubmitResult::Pending(ticket, reply) => {
                self.write_reply(command, &shape, reply);
                self.out.mark_pending(from, ticket);
            }
            SubmitResult::Later(reply) | SubmitResult::Independent(_, reply) => {
                return Some(DeferredReply::Reply(reply, shape, command));
            }
        }
        if let (Some(size), Some(outcome)) = (written_bytes, self.outcomes.last_mut()) {
            outcome.size = size;
        }
        None
    }

    /// Submits a request to the node. Refuses it instead if the server is closing.
    pub(super) fn submit(&mut self, request: Request) -> SubmitResult {
        match self.read_buffer.is_closing() {
            true => SubmitResult::Ready(Err(shutting_down_error())),
            false => self.shared.node.submit(&mut self.flow, request),
        }
    }

    fn write_reply(
        &mut self,
        command: &'static ArakoonCommand,
        shape: &ArakoonShape,
        reply: Result<Reply>,
    ) {
        let verdict = Verdict::from_result(&reply);
        if !self.budget.try_reserve(self.out.len() + reply_bytes(&reply), &self.shared) {
            self.out.refuse(&ArakoonRefusal::no_memory(&reply));
            return self.record(command, verdict, 0);
        }
        let size = match (&reply, shape) {
            (Err(error), _) => Err(ArakoonRefusal::from(error)),
            (Ok(_), ArakoonShape::View(query)) => views::answer_query(self, query).map(|body| {
                self.out.push_ok(&body);
                0
            }),
            (Ok(reply), shape) => shape.encode(&reply.body, &mut self.out.bytes),
        };
        match size {
            Ok(size) => self.record(command, verdict, size),
            Err(refusal) => {
                self.out.refuse(&refusal);
                self.record(command, verdict, 0);
            }
        }
    }

    /// Writes an answer that needed no request to the node.
    fn write_answer(
        &mut self,
        command: &'static ArakoonCommand,
        answer: std::result::Result<(Vec<u8>, u64), ArakoonRefusal>,
    ) {
        match answer {
            Ok((body, size)) => {
                self.out.push_ok(&body);
                self.record(command, Verdict::Success, size);
            }
            Err(refusal) => {
                self.out.refuse(&refusal);
                self.record(command, Verdict::Failed(Kind::Invalid), 0);
            }
        }
    }

    /// Sends all earlier answers, then waits for a deferred reply and writes its answer.
    async fn complete(&mut self, deferred: DeferredReply) -> std::result::Result<(), ()> {
        if self.send().await? {
            return Ok(());
        }
        match deferred {
            DeferredReply::Reply(reply, shape, command) => {
                let reply = self.stages.measure(WaitStage::Reply, reply).await;
                self.write_reply(command, &shape, reply);
            }
            DeferredReply::Range(range, level, shape, command) => {
                let mut stages = self.stages;
                let reply = stages.measure(WaitStage::Reply, self.range(range, level)).await;
                self.stages = stages;
                self.write_reply(command, &shape, reply);
            }
            DeferredReply::DropMaster(command) => {
                let answer = views::drop_master(self).await;
                self.write_answer(command, answer.map(|body| (body, 0)));
            }
        }
        Ok(())
    }

    /// Waits until every answer of the batch is decided, then sends the batch. Returns true if the
    /// connection ends with it.
    async fn send(&mut self) -> std::result::Result<bool, ()> {
        if let Some(last) = self.out.pending().last() {
            let mut stages = self.stages;
            stages.note_ticket(last.ticket);
            stages.measure(WaitStage::Decide, self.wait_decided()).await;
            self.stages = stages;
        }
        if self.out.len() > 0 {
            let writing = writer::write(&mut self.stream, &self.out);
            self.stages.measure(WaitStage::Send, writing).await.map_err(|_| ())?;
            self.out.clear();
            self.budget.release();
        }
        Ok(self.out.is_last)
    }

    /// Waits for the tickets of the batch. The last ticket covers all earlier ones; if it fails,
    /// waits for each ticket.
    async fn wait_decided(&mut self) {
        let node = &self.shared.node;
        let pending = self.out.pending();
        let Some(last) = pending.last() else { return };
        // All tickets are of one group, because a bucket has exactly one.
        if node.wait_decided(last.ticket).await.is_ok() {
            return;
        }
        let mut refusals = Vec::with_capacity(pending.len());
        for answer in pending {
            refusals.push(
                node.wait_decided(answer.ticket).await.err().as_ref().map(ArakoonRefusal::from),
            );
        }
        self.out.replace_failed(&refusals);
    }
}
