//! Connection of a client. Each request is answered before the next is carried out.

use super::super::counters::RiakCounters;
use super::super::deadline::{deadline, with_deadline};
use super::super::errors::STORED_WITHOUT_VALUE;
use super::super::frame::operation;
use super::super::page_stream::all_pages;
use super::super::serve::wait_for_reply;
use super::super::statistics::{self, VERSION};
use super::super::translate::{PendingPlan, RiakPlan, plan_after_read};
use super::errors::error_text;
use super::plan::{PbcPlan, PbcShape, plan};
use super::render::render;
use crate::buffer_budget::{BufferBudget, overloaded, reply_bytes};
use crate::connection::{Connection, ListenerRole, Shutdown};
use crate::counters::{ClientProtocol, OperationKind, Verdict};
use crate::idle::Activity;
use crate::read_buffer::ReadBuffer;
use crate::shared::{Shared, shutting_down_error};
use crate::slow::{self, SlowTarget};
use crate::stages::{StageTimes, WaitStage};
use crate::writer;
use base::{Error, Kind, Reply, Request};
use bytes::Bytes;
use node::Flow;
use riak_pbc::*;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use tls::{ListenerMode, Stream};
use tokio::time::Instant;

/// Largest frame, in bytes, of a client that has to log in first.
const STRANGER_BYTES_MAX: usize = 16 * 1024;
/// Largest id of a client, in bytes; clients send four.
const CLIENT_ID_BYTES_MAX: usize = 64;
/// Copies of values in memory: as values, and in the frame of the answer.
const ANSWER_COPIES: usize = 2;

/// Serves one connection until it ends or the server closes.
pub(crate) async fn serve(
    connection: Connection,
    shared: Arc<Shared>,
    counters: Arc<RiakCounters>,
    shutdown: Shutdown,
) {
    let activity = Arc::new(Activity::new(shared.clock.unix_ms()));
    let _idle = shared.idle.register(activity.clone());
    let mut end_signal = pin!(activity.clone().wait_for_end_or_shutdown(shutdown));
    let Connection { stream, first, role } = connection;
    let mut connection = PbcConnection {
        stream,
        role,
        shared,
        counters,
        flow: Flow::of(role.principal()),
        budget: BufferBudget::default(),
        read_buffer: ReadBuffer::new(first),
        out: Vec::new(),
        client_id: Bytes::from_static(&[0; 4]),
        failed_logins: 0,
        activity,
        operation: OperationKind::Other,
        target: None,
        stages: StageTimes::default(),
    };
    if let Err(PbcDisconnect::Refused) = connection.run(end_signal.as_mut()).await {
        // The connection ends in any case, even if the client does not read the answer.
        if connection.send().await.is_ok() {
            writer::close_after_answer(&mut connection.stream).await;
        }
    }
}

/// Reason why a connection ends.
pub(super) enum PbcDisconnect {
    /// The socket is dead, or the server closes.
    Closed,
    /// The last answer is a refusal, which is sent before the connection ends.
    Refused,
}

impl From<io::Error> for PbcDisconnect {
    fn from(_: io::Error) -> PbcDisconnect {
        PbcDisconnect::Closed
    }
}

pub(super) struct PbcConnection {
    pub(super) stream: Stream,
    pub(super) role: ListenerRole,
    pub(super) shared: Arc<Shared>,
    counters: Arc<RiakCounters>,
    pub(super) flow: Flow,
    /// Memory of the answer.
    pub(super) budget: BufferBudget,
    read_buffer: ReadBuffer,
    /// Frames that are not sent yet.
    pub(super) out: Vec<u8>,
    client_id: Bytes,
    pub(super) failed_logins: u8,
    activity: Arc<Activity>,
    /// Kind of operation that the current request is counted as.
    operation: OperationKind,
    target: Option<SlowTarget>,
    /// Waits of the current request.
    stages: StageTimes,
}

impl PbcConnection {
    async fn run(
        &mut self,
        mut end_signal: Pin<&mut impl Future<Output = bool>>,
    ) -> Result<(), PbcDisconnect> {
        loop {
            let needed = match next_frame(&self.read_buffer.input) {
                Framed::Complete { code, bytes } => {
                    let body = self.read_buffer.input.split_to(bytes).freeze();
                    self.answer(code, body.slice(FRAME_HEAD_BYTES..)).await?;
                    continue;
                }
                Framed::Incomplete(bytes) => bytes,
                Framed::Invalid(length) => {
                    return self.refuse(&format!("a frame can't have {length} bytes"));
                }
            };
            if needed > STRANGER_BYTES_MAX && self.is_stranger() {
                return self.refuse("log in first: large requests need a user (RpbAuthReq)");
            }
            if !self.read_buffer.reserve(needed, &self.shared).await {
                return self.refuse("too many large requests are in progress; nothing was changed");
            }
            if !self.read_buffer.read(&mut self.stream, end_signal.as_mut()).await {
                return Err(PbcDisconnect::Closed);
            }
        }
    }

    /// Answers with an error and ends the connection.
    fn refuse(&mut self, text: &str) -> Result<(), PbcDisconnect> {
        append_error(&mut self.out, text);
        Err(PbcDisconnect::Refused)
    }

    /// Carries out one request and sends its answer.
    async fn answer(&mut self, code: u8, body: Bytes) -> Result<(), PbcDisconnect> {
        let started = Instant::now();
        self.activity.record_request(self.shared.clock.unix_ms());
        self.stages = StageTimes::new(&self.shared);
        self.operation = OperationKind::Other;
        let verdict = self.carry_out(code, body).await?;
        self.send().await?;
        self.budget.release();
        let (shared, operation, elapsed) = (&self.shared, self.operation, started.elapsed());
        shared.counters.observe(ClientProtocol::Riak, operation, verdict, elapsed);
        let request = (ClientProtocol::Riak, operation);
        let target = self.target.take();
        slow::report_one(shared, request, target.as_ref(), elapsed, &self.stages);
        shared.counters.record_second(operation, shared.clock.unix_ms() / 1_000);
        Ok(())
    }

    async fn carry_out(&mut self, code: u8, body: Bytes) -> Result<Verdict, PbcDisconnect> {
        let request = match PbcRequest::decode(code, body) {
            Ok(request) => request,
            Err(refusal) => return Ok(self.reject(&refusal.to_string(), Kind::Invalid)),
        };
        if let Some(text) = PbcConnection::stranger_refusal(&request)
            && self.is_stranger()
        {
            return Ok(self.reject(text, Kind::Denied));
        }
        if request == PbcRequest::StartTls && self.shared.settings.tls_mode() != ListenerMode::Off {
            let text = "STARTTLS must be the first message of a connection";
            return Ok(self.reject(text, Kind::Invalid));
        }
        match plan(request, rand::random()) {
            Err(text) => return Ok(self.reject(&text, Kind::Invalid)),
            Ok(PbcPlan::Answer(code)) => append_empty(&mut self.out, code),
            Ok(PbcPlan::ClientId(None)) => {
                let client_id = self.client_id.clone();
                append_answer(&mut self.out, &RpbGetClientIdResp { client_id });
            }
            Ok(PbcPlan::ClientId(Some(id))) if id.len() > CLIENT_ID_BYTES_MAX => {
                return Ok(self.reject("a client's id has at most 64 bytes", Kind::Invalid));
            }
            Ok(PbcPlan::ClientId(Some(id))) => {
                self.client_id = Bytes::copy_from_slice(&id);
                append_empty(&mut self.out, code::SET_CLIENT_ID);
            }
            Ok(PbcPlan::ServerInfo) => {
                let node = Some(statistics::local_name(&self.shared).into());
                let server_version = Some(VERSION.into());
                append_answer(&mut self.out, &RpbGetServerInfoResp { node, server_version });
            }
            Ok(PbcPlan::Login(auth)) => Box::pin(self.log_in(auth)).await?,
            Ok(PbcPlan::RemoveAfterRead(read, pending)) => {
                return Ok(Box::pin(self.remove(*read, *pending)).await);
            }
            Ok(PbcPlan::Submit(request, shape)) => return self.request(*request, &shape).await,
        }
        Ok(Verdict::Success)
    }

    fn reject(&mut self, text: &str, kind: Kind) -> Verdict {
        append_error(&mut self.out, text);
        Verdict::Failed(kind)
    }

    fn fail(&mut self, shape: &PbcShape, error: &Error) -> Verdict {
        let text = error_text(shape, error);
        self.reject(&text, error.kind())
    }

    async fn request(
        &mut self,
        request: Request,
        shape: &PbcShape,
    ) -> Result<Verdict, PbcDisconnect> {
        let (counters, second) = (self.counters.clone(), self.shared.clock.unix_ms() / 1_000);
        let is_read = counters.count_request(&request, second);
        let _active_list = counters.begin_list(shape.is_name_list(), second);
        let reply = match shape.list() {
            Some(true) => {
                // Boxed, like all that is rare: a connection's future has no space for it.
                let outcome = Box::pin(self.stream_pages(request, shape)).await?;
                if outcome.is_err() && shape.is_name_list() {
                    counters.lists_failed.record(second);
                }
                return Ok(Verdict::from_result(&outcome));
            }
            Some(false) => {
                let end = deadline(shape.timeout_ms());
                Box::pin(with_deadline(end, all_pages(self, request))).await
            }
            None => self.submit(request).await,
        };
        counters.record_answer(is_read, shape.is_name_list(), &reply, second);
        Ok(self.answer_reply(shape, reply))
    }

    fn answer_reply(&mut self, shape: &PbcShape, reply: Result<Reply, Error>) -> Verdict {
        // Counted before the answer is built, which is a copy of all values.
        let has_memory = self.budget.try_reserve(ANSWER_COPIES * reply_bytes(&reply), &self.shared);
        let verdict = Verdict::from_result(&reply);
        match reply {
            Ok(_) if !has_memory => match self.operation {
                OperationKind::Put | OperationKind::Update => {
                    self.reject(STORED_WITHOUT_VALUE, Kind::Unavailable)
                }
                _ => self.fail(shape, &overloaded()),
            },
            Ok(reply) => match render(&mut self.out, shape, reply.body) {
                Ok(()) => verdict,
                Err(text) => self.reject(&text, Kind::Conflict),
            },
            Err(error) => self.fail(shape, &error),
        }
    }

    /// Carries out a delete, after the read that finds its context. An absent key is no error.
    async fn remove(&mut self, read: Request, pending: PendingPlan) -> Verdict {
        let found = self.submit(read).await;
        if let Err(error) = &found {
            return self.fail(&PbcShape::Removed, error);
        }
        match plan_after_read(pending, &found) {
            RiakPlan::Submit(request, _) => {
                let reply = self.submit(*request).await;
                self.answer_reply(&PbcShape::Removed, reply)
            }
            _ => {
                self.operation = OperationKind::Delete;
                append_empty(&mut self.out, code::DEL);
                Verdict::Success
            }
        }
    }

    /// Submits a request to the node. Refuses it instead if the server is closing.
    pub(super) async fn submit(&mut self, request: Request) -> Result<Reply, Error> {
        if self.read_buffer.is_closing() {
            return Err(shutting_down_error());
        }
        self.operation = operation(&request.call);
        self.target = Some(SlowTarget::of(&request));
        wait_for_reply(&self.shared, &mut self.flow, request, (&self.stream, &mut self.stages))
            .await
    }

    /// Sends the frames of the answer. Fails if the client does not read a part of them in time.
    pub(super) async fn send(&mut self) -> io::Result<()> {
        let out = std::mem::take(&mut self.out);
        let writing = writer::write_bytes(&mut self.stream, &out);
        self.stages.measure(WaitStage::Send, writing).await
    }
}
