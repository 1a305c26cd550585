//! Connection of a Riak client. Each request is answered before the next is read.

use super::counters::RiakCounters;
use super::deadline::{deadline, with_deadline};
use super::frame::{self, RequestFrame};
use super::page_stream::all_pages;
use super::path::is_riak_path;
use super::{RiakPlan, RiakResponse, RiakShape, errors, plan_after_read, render, statistics};
use crate::buffer_budget::{BufferBudget, overloaded, reply_bytes};
use crate::connection::{Connection, ListenerKind, ListenerRole, Shutdown};
use crate::counters::{ClientProtocol, OperationKind};
use crate::http_input::{HttpReadError, Input};
use crate::shared::Shared;
use crate::slow::{self, SlowTarget};
use crate::stages::{StageTimes, WaitStage};
use crate::writer;
use base::limits::VALUE_BYTES_MAX;
use base::rights::Operate;
use base::{Error, Reply, Request};
use node::{Flow, SubmitResult};
use serde_json::json;
use std::io;
use std::sync::Arc;
use tls::Stream;
use tokio::time::Instant;

/// Maximum size of a body that is copied behind its head; larger ones are sent separately.
const INLINE_BYTES_MAX: usize = 32 * 1024;

/// Serves one connection until it ends or the server closes. Returns the connection if its next
/// request is for the native front-end.
pub(crate) async fn serve(
    connection: Connection,
    shared: Arc<Shared>,
    counters: Arc<RiakCounters>,
    shutdown: Shutdown,
) -> Option<Connection> {
    let Connection { stream, first, role } = connection;
    let (flow, operation) = (Flow::of(role.principal()), OperationKind::Other);
    let (input, budget) = (Input::new(first), BufferBudget::default());
    let mut riak_connection = RiakConnection {
        stream,
        input,
        role,
        shared,
        counters,
        shutdown,
        flow,
        budget,
        operation,
        target: None,
        stages: StageTimes::default(),
    };
    match riak_connection.run().await {
        Ok(()) | Err(ConnectionEnd::Closed) => None,
        Err(ConnectionEnd::Refused(answer)) => {
            // The connection ends in any case, even if the client does not read the answer.
            if riak_connection.send(&answer, false, false).await.is_ok() {
                writer::close_after_answer(&mut riak_connection.stream).await;
            }
            None
        }
        Err(ConnectionEnd::NativeRequest) => {
            let RiakConnection { stream, input, role, .. } = riak_connection;
            Some(Connection { stream, first: input.into_bytes(), role })
        }
    }
}

/// Reason why a connection leaves this front-end.
pub(super) enum ConnectionEnd {
    /// The socket is dead or idle, or the server closes.
    Closed,
    /// A refusal, which is sent before the connection ends.
    Refused(RiakResponse),
    /// A request of the native interface, for the native front-end.
    NativeRequest,
}

impl From<io::Error> for ConnectionEnd {
    fn from(_: io::Error) -> ConnectionEnd {
        ConnectionEnd::Closed
    }
}

impl From<RiakResponse> for ConnectionEnd {
    fn from(answer: RiakResponse) -> ConnectionEnd {
        ConnectionEnd::Refused(answer)
    }
}

impl From<HttpReadError> for ConnectionEnd {
    fn from(error: HttpReadError) -> ConnectionEnd {
        match error {
            HttpReadError::Disconnected => ConnectionEnd::Closed,
            HttpReadError::Refused(refused) => frame::refused(refused).into(),
            HttpReadError::TooLarge(_) => frame::too_large().into(),
            HttpReadError::Overloaded => frame::overloaded().into(),
        }
    }
}

pub(super) struct RiakConnection {
    pub(super) stream: Stream,
    input: Input,
    pub(super) role: ListenerRole,
    pub(super) shared: Arc<Shared>,
    pub(super) counters: Arc<RiakCounters>,
    shutdown: Shutdown,
    pub(super) flow: Flow,
    /// Memory of the answer.
    pub(super) budget: BufferBudget,
    /// Kind of operation that the current request is counted as.
    operation: OperationKind,
    target: Option<SlowTarget>,
    /// Waits of the current request.
    stages: StageTimes,
}

impl RiakConnection {
    async fn run(&mut self) -> Result<(), ConnectionEnd> {
        loop {
            let framed = self.read_head().await?;
            frame::check(&framed, &self.shared.access_control)?;
            self.log_in(&framed.request).await?;
            if framed.expects_continue {
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            }
            let mut request = framed.request;
            let RiakConnection { stream, input, shared, .. } = self;
            request.body = input.read_body(stream, shared, framed.body, VALUE_BYTES_MAX).await?;
            request.random_key = rand::random();
            let started = Instant::now();
            self.stages = StageTimes::new(&self.shared);
            let head_only = request.method == crate::http::Method::Head;
            let keep_alive = framed.keep_alive && !self.shutdown.is_requested();
            self.operation = OperationKind::Other;
            let plan = match self.plan(&request) {
                RiakPlan::Statistics => RiakPlan::Answer(statistics::answer(
                    &self.shared,
                    &self.counters,
                    self.shared
                        .node
                        .authorize(self.flow.principal(), Operate::ShowStatistics)
                        .is_ok(),
                    request.text("accept"),
                )),
                plan => plan,
            };
            let status = self.answer(plan, head_only, keep_alive).await?;
            self.input.finish_request();
            self.budget.release();
            let verdict = frame::verdict(status);
            let (counters, operation) = (&self.shared.counters, self.operation);
            let elapsed = started.elapsed();
            counters.observe(ClientProtocol::Riak, operation, verdict, elapsed);
            let request = (ClientProtocol::Riak, operation);
            let target = self.target.take();
            slow::report_one(&self.shared, request, target.as_ref(), elapsed, &self.stages);
            counters.record_second(operation, self.shared.clock.unix_ms() / 1_000);
            if !keep_alive {
                return Ok(());
            }
        }
    }

    /// Waits for the head of a request.
    async fn read_head(&mut self) -> Result<RequestFrame, ConnectionEnd> {
        loop {
            if self.input.has_head_candidate()
                && let Some((framed, used)) = frame::head(self.input.bytes())?
            {
                if self.role.kind != ListenerKind::Riak && !is_riak_path(&framed.request.path) {
                    return Err(ConnectionEnd::NativeRequest);
                }
                let has_credentials = framed.request.header("authorization").is_some();
                self.input.advance(used, has_credentials);
                return Ok(framed);
            }
            let RiakConnection { stream, input, shared, shutdown, .. } = self;
            if !input.wait_for_input(stream, shared, shutdown).await? {
                return Err(ConnectionEnd::Closed);
            }
        }
    }

    /// Carries out a plan and sends the answer. Returns the status of the answer.
    async fn answer(
        &mut self,
        plan: RiakPlan,
        head_only: bool,
        keep_alive: bool,
    ) -> Result<u16, ConnectionEnd> {
        let plan = match plan {
            RiakPlan::ReadFirst(request, pending) => {
                let found = self.submit(*request).await;
                plan_after_read(pending, &found)
            }
            plan => plan,
        };
        let answer = match plan {
            RiakPlan::Answer(answer) => answer,
            RiakPlan::Submit(request, shape) if shape.is_streamed() && !head_only => {
                // Boxed, like all that is rare: a connection's future has no space for it.
                return Box::pin(self.stream_pages(*request, shape, keep_alive)).await;
            }
            RiakPlan::Submit(request, shape) => self.answer_unstreamed(*request, shape).await,
            // Unreachable: `plan_after_read` plans no second read, and statistics were rendered
            // before.
            RiakPlan::ReadFirst(..) | RiakPlan::Statistics => {
                RiakResponse::text(500, "Error:\nlooked twice\n")
            }
        };
        let answer = self.reserve_answer(answer, head_only);
        self.send(&answer, head_only, keep_alive).await?;
        Ok(answer.status)
    }

    /// Reserves memory for the answer's body until the client has read it. Without it, returns an
    /// error in place of the answer.
    fn reserve_answer(&mut self, answer: RiakResponse, head_only: bool) -> RiakResponse {
        if head_only || self.budget.try_reserve(answer.body.len(), &self.shared) {
            return answer;
        }
        self.without_memory(answer.status < 400)
    }

    /// Returns the answer in place of one for which there is no memory. `is_success`: the request
    /// succeeded.
    fn without_memory(&self, is_success: bool) -> RiakResponse {
        match self.operation {
            // The update takes effect; only its answer is lost.
            OperationKind::Put | OperationKind::Update if is_success => stored_without_value(),
            _ => errors::answer(&overloaded()),
        }
    }

    /// Answers a request whose reply is sent in one document.
    async fn answer_unstreamed(&mut self, request: Request, mut shape: RiakShape) -> RiakResponse {
        let (counters, second) = (self.counters.clone(), self.shared.clock.unix_ms() / 1_000);
        shape.set_claimant(|| statistics::local_name(&self.shared));
        let is_read = counters.count_request(&request, second);
        let _active_list = counters.begin_list(shape.is_name_list(), second);
        let reply = match shape.is_list() {
            true => {
                Box::pin(with_deadline(deadline(shape.timeout_ms()), all_pages(self, request)))
                    .await
            }
            false => self.submit(request).await,
        };
        counters.record_answer(is_read, shape.is_name_list(), &reply, second);
        // Counted before the answer is built: that of several siblings is a copy of all.
        if !self.budget.try_reserve(reply_bytes(&reply), &self.shared) {
            return self.without_memory(reply.is_ok());
        }
        render(&shape, &reply)
    }

    pub(super) async fn submit(&mut self, request: Request) -> Result<Reply, Error> {
        self.operation = frame::operation(&request.call);
        self.target = Some(SlowTarget::of(&request));
        wait_for_reply(&self.shared, &mut self.flow, request, (&self.stream, &mut self.stages))
            .await
    }

    pub(super) async fn send(
        &mut self,
        answer: &RiakResponse,
        head_only: bool,
        keep_alive: bool,
    ) -> io::Result<()> {
        let is_large = answer.body.len() > INLINE_BYTES_MAX && !head_only;
        let mut out = Vec::with_capacity(512 + answer.body.len().min(INLINE_BYTES_MAX));
        let now_ms = Some(self.shared.clock.unix_ms());
        answer.encode_with(&mut out, head_only || is_large, keep_alive, now_ms);
        self.write(&out).await?;
        if is_large { self.write(&answer.body).await } else { Ok(()) }
    }

    /// Sends bytes. Fails if the client does not read a part of them in time.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let writing = writer::write_bytes(&mut self.stream, bytes);
        self.stages.measure(WaitStage::Send, writing).await
    }
}

/// Submits a request to the node, waits for its reply, and measures the waits.
pub(super) async fn wait_for_reply(
    shared: &Shared,
    flow: &mut Flow,
    request: Request,
    (stream, stages): (&Stream, &mut StageTimes),
) -> Result<Reply, Error> {
    match shared.submit(flow, request, stream) {
        SubmitResult::Ready(result) => result,
        SubmitResult::Later(reply) | SubmitResult::Independent(_, reply) => {
            stages.measure(WaitStage::Reply, reply).await
        }
        SubmitResult::Pending(ticket, result) => {
            stages.note_ticket(ticket);
            let decided = shared.node.wait_decided(ticket);
            stages.measure(WaitStage::Decide, decided).await?;
            result
        }
    }
}

/// Returns the answer to a write that took effect but whose values do not fit into memory.
fn stored_without_value() -> RiakResponse {
    let cause = json!({ "reason": "overloaded", "detail": errors::STORED_WITHOUT_VALUE });
    RiakResponse::empty(204).with_header("X-Credenza-Error", cause.to_string())
}
