//! Connection of the native front-end, from its first request to its end.

use super::login::AuthorizationValue;
use super::output::{self, AnswerOrigin, HttpOutput};
use super::target::{self, HttpRefusal, RequestTarget, too_large};
use super::translate::{self, NativePlan, NativeShape};
use super::{errors, feed_stream, operators, render, stream};
use crate::connection::{Connection, ListenerKind, ListenerRole, Shutdown};
use crate::counters::{OperationKind, Verdict};
use crate::http::answer::EncodeOptions;
use crate::http::{BodyFraming, HttpAnswer, Method, RequestRefusal, head};
use crate::http_input::{HttpReadError, Input};
use crate::riak::is_riak_path;
use crate::shared::Shared;
use crate::slow::SlowTarget;
use crate::stages::{StageTimes, WaitStage};
use crate::writer;
use base::request::Call;
use base::{BucketName, Error, Key, Reason, Reply, Request};
use bytes::Bytes;
use node::{Flow, SubmitResult};
use std::sync::Arc;
use std::time::Duration;
use tls::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

/// Maximum size of a refused request's body that is read and discarded; with a larger one the
/// connection ends.
const DISCARDED_BODY_BYTES_MAX: u64 = 256 * 1024;
/// Maximum time, and bytes, for which further input is discarded after an answer that ends the
/// connection.
const LINGER: (Duration, usize) = (Duration::from_secs(2), 16 << 20);

/// Reason why a connection leaves this front-end.
#[derive(Debug)]
pub enum ConnectionEnd {
    /// The connection is closed or reset, or the client was too slow for an answer.
    Disconnected,
    /// A refusal, which is sent before the connection ends.
    Refused(Box<HttpRefusal>),
    /// A request of Riak's interface, for Riak's front-end.
    RiakRequest,
}

impl From<std::io::Error> for ConnectionEnd {
    fn from(_: std::io::Error) -> ConnectionEnd {
        ConnectionEnd::Disconnected
    }
}

impl From<HttpRefusal> for ConnectionEnd {
    fn from(refusal: HttpRefusal) -> ConnectionEnd {
        ConnectionEnd::Refused(Box::new(refusal))
    }
}

impl From<RequestRefusal> for ConnectionEnd {
    fn from(refused: RequestRefusal) -> ConnectionEnd {
        HttpRefusal::from(refused).into()
    }
}

impl From<HttpReadError> for ConnectionEnd {
    fn from(error: HttpReadError) -> ConnectionEnd {
        match error {
            HttpReadError::Disconnected => ConnectionEnd::Disconnected,
            HttpReadError::Refused(refused) => refused.into(),
            HttpReadError::TooLarge(bytes_max) => too_large(bytes_max).into(),
            HttpReadError::Overloaded => {
                let text = "too many large requests are in progress; nothing was changed: try \
                             again later";
                HttpRefusal::from(Error::new(Reason::Overloaded, text)).into()
            }
        }
    }
}

/// Serves one connection until it ends or the server closes. Returns the connection if its next
/// request is for Riak's front-end.
pub(crate) async fn serve(
    connection: Connection,
    shared: Arc<Shared>,
    shutdown: Shutdown,
) -> Option<Connection> {
    let Connection { stream, first, role } = connection;
    let mut native = NativeConnection {
        stream,
        input: Input::new(first),
        output: HttpOutput::default(),
        flow: Flow::of(role.principal()),
        role,
        bucket: BucketName::default(),
        shared,
        shutdown,
    };
    match native.run().await {
        Ok(()) | Err(ConnectionEnd::Disconnected) => None,
        Err(ConnectionEnd::Refused(refusal)) => {
            let origin = answer_origin(&native.shared, OperationKind::Other, FINAL_MANNER);
            native.refuse(*refusal, origin);
            if native.flush().await.is_ok() {
                native.linger().await;
            }
            None
        }
        Err(ConnectionEnd::RiakRequest) => {
            native.flush().await.ok()?;
            let NativeConnection { stream, input, role, .. } = native;
            Some(Connection { stream, first: input.into_bytes(), role })
        }
    }
}

/// Encoding of the last answer of a connection.
const FINAL_MANNER: EncodeOptions =
    EncodeOptions { keep_alive: false, head_only: false, is_http_10: false };

/// State of one connection.
pub struct NativeConnection {
    pub(super) stream: Stream,
    pub(super) output: HttpOutput,
    pub(super) shared: Arc<Shared>,
    input: Input,
    pub(super) flow: Flow,
    pub(super) role: ListenerRole,
    bucket: BucketName,
    pub(super) shutdown: Shutdown,
}

/// Parsed head of a request, with the framing and limit of its body.
struct RequestHead {
    target: Result<RequestTarget, HttpRefusal>,
    body: BodyFraming,
    bytes_max: usize,
    encode_options: EncodeOptions,
    expects_continue: bool,
    /// Value of `Authorization`, while access is on.
    authorization: Option<AuthorizationValue>,
}

fn answer_origin(
    shared: &Shared,
    operation: OperationKind,
    encode_options: EncodeOptions,
) -> AnswerOrigin {
    let (parsed_at, stages) = (Instant::now(), StageTimes::new(shared));
    AnswerOrigin { operation, parsed_at, encode_options, target: None, stages, is_read: true }
}

impl NativeConnection {
    /// Reads and answers requests until the connection ends.
    async fn run(&mut self) -> Result<(), ConnectionEnd> {
        loop {
            while let Some(request_head) = self.parse_head()? {
                if !self.handle_request(request_head).await? {
                    self.flush().await?;
                    self.linger().await;
                    return Ok(());
                }
                if self.output.is_full() {
                    self.flush().await?;
                }
            }
            self.flush().await?;
            if !self.read_more().await? {
                return Ok(());
            }
        }
    }

    /// Waits for more bytes. Returns false if the connection ends.
    async fn read_more(&mut self) -> Result<bool, ConnectionEnd> {
        let NativeConnection { stream, input, shared, shutdown, .. } = self;
        Ok(input.wait_for_input(stream, shared, shutdown).await?)
    }

    /// Parses a head. Returns `None` if none has arrived completely.
    fn parse_head(&mut self) -> Result<Option<RequestHead>, ConnectionEnd> {
        if !self.input.has_head_candidate() {
            return Ok(None);
        }
        let head::Parsed::Head(head, used) = head::parse(self.input.bytes())? else {
            return Ok(None);
        };
        if self.role.kind == ListenerKind::Clients && is_riak_path(head.path) {
            return Err(ConnectionEnd::RiakRequest);
        }
        let role = self.role_of(&head);
        let target = target::parse(&head, &self.shared.access_control, role, &mut self.bucket);
        let request_head = RequestHead {
            bytes_max: target.as_ref().map_or(0, |target| target.route.request_body.bytes_max()),
            target,
            body: head.body,
            encode_options: EncodeOptions {
                keep_alive: head.keep_alive && !self.shutdown.is_requested(),
                head_only: head.method == Method::Head,
                is_http_10: head.is_http_10,
            },
            expects_continue: head.expects_continue,
            authorization: self.authorization(&head),
        };
        let has_credentials = head.authorization.is_some();
        self.input.advance(used, has_credentials);
        Ok(Some(request_head))
    }

    /// Reads a request's body and answers it. Returns false if the connection ends with the answer.
    async fn handle_request(&mut self, request_head: RequestHead) -> Result<bool, ConnectionEnd> {
        let mut encode_options = request_head.encode_options;
        let target = match request_head.target {
            Ok(target) => self.admit(request_head.authorization, target).await,
            Err(refusal) => Err(refusal),
        };
        let target = match target {
            Ok(target) => target,
            Err(refusal) => {
                let is_discarded =
                    self.discard_body(request_head.body, request_head.expects_continue).await?;
                encode_options.keep_alive &= is_discarded;
                let origin = answer_origin(&self.shared, OperationKind::Other, encode_options);
                self.refuse(refusal, origin);
                return Ok(encode_options.keep_alive);
            }
        };
        if !self.input.has_body(request_head.body) {
            self.flush().await?;
            if request_head.expects_continue {
                writer::write_bytes(&mut self.stream, b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            }
        }
        let NativeConnection { stream, input, shared, .. } = self;
        let body =
            input.read_body(stream, shared, request_head.body, request_head.bytes_max).await?;
        // The front-ends may have begun to close while the body arrived.
        encode_options.keep_alive &= !self.shutdown.is_requested();
        self.answer(target, body, encode_options).await?;
        self.input.finish_request();
        Ok(encode_options.keep_alive)
    }

    /// Discards the body of a refused request. Returns false if it is too large for that.
    async fn discard_body(
        &mut self,
        body: BodyFraming,
        expects_continue: bool,
    ) -> Result<bool, ConnectionEnd> {
        let length = match body {
            BodyFraming::None => 0,
            BodyFraming::Length(length)
                if length <= DISCARDED_BODY_BYTES_MAX && !expects_continue =>
            {
                length
            }
            _ => return Ok(false),
        };
        if !self.input.has_body(body) {
            self.flush().await?;
        }
        let NativeConnection { stream, input, shared, .. } = self;
        input
            .read_body(
                stream,
                shared,
                BodyFraming::Length(length),
                DISCARDED_BODY_BYTES_MAX as usize,
            )
            .await?;
        self.input.finish_request();
        Ok(true)
    }

    async fn answer(
        &mut self,
        target: RequestTarget,
        body: Bytes,
        encode_options: EncodeOptions,
    ) -> Result<(), ConnectionEnd> {
        let mut origin = answer_origin(&self.shared, target.route.operation, encode_options);
        let key = target.key.clone();
        match translate::plan(target, body) {
            Err(error) => self.refuse(error.into(), origin),
            Ok(NativePlan::Unconfirmed(plan, error)) => self.refuse_plan(&plan, error, origin),
            Ok(NativePlan::PreconditionFailed) => {
                let verdict = Verdict::Failed(base::Kind::Conflict);
                self.output.push(&self.shared, render::precondition_failed(), origin, verdict);
            }
            Ok(NativePlan::Submit(request, shape)) => {
                origin.is_read = matches!(request.call, Call::Read(..));
                origin.target = Some(SlowTarget::of(&request));
                self.submit(request, &shape, &key, origin).await?;
            }
            Ok(NativePlan::Stream(request)) => {
                origin.target = Some(SlowTarget::of(&request));
                stream::rows(self, request, origin).await?
            }
            Ok(NativePlan::Feed(request, form)) => {
                // On the heap: other connections need no room for it.
                Box::pin(feed_stream::answer(self, request, form, origin)).await?
            }
            Ok(NativePlan::Operator(call)) => match self.decide(&call) {
                Err(error) => self.refuse(error.into(), origin),
                Ok(act) => {
                    // Send earlier answers first: their clients must not wait for this operation.
                    self.flush().await?;
                    let (principal, act) = (self.flow.principal(), (call, act));
                    let answer = operators::answer(&self.shared, principal, act).await;
                    let verdict = operators::verdict(&answer);
                    self.output.push(&self.shared, answer, origin, verdict);
                }
            },
        }
        Ok(())
    }

    async fn submit(
        &mut self,
        request: Request,
        shape: &NativeShape,
        key: &Key,
        mut origin: AnswerOrigin,
    ) -> Result<(), ConnectionEnd> {
        let bucket = request.bucket.clone();
        let mut master = None;
        let submitted = self.shared.submit(&mut self.flow, request, &self.stream);
        let (result, ticket) = match submitted {
            SubmitResult::Ready(result) => (result, None),
            SubmitResult::Pending(ticket, result) => (result, Some(ticket)),
            SubmitResult::Later(reply) | SubmitResult::Independent(_, reply) => {
                self.flush().await?;
                let reply = origin.stages.measure(WaitStage::Reply, reply).await;
                // Only a delayed reply may have come from another node.
                master = self.shared.node.remote_master(&bucket);
                (reply, None)
            }
        };
        let (mut answer, verdict) = self.render(shape, key, &result, origin.is_read);
        answer.master = master;
        match ticket {
            Some(ticket) => {
                self.output.push_pending(&self.shared, answer, origin, verdict, ticket);
            }
            None => self.output.push(&self.shared, answer, origin, verdict),
        }
        Ok(())
    }

    /// Renders a result if there is memory for the answer.
    pub(super) fn render(
        &mut self,
        shape: &NativeShape,
        key: &Key,
        result: &Result<Reply, Error>,
        is_read: bool,
    ) -> (HttpAnswer, Verdict) {
        if !self.output.reserve(&self.shared, render::body_bytes(shape, result)) {
            let index = result.as_ref().ok().map(|reply| reply.index.0);
            return output::without_memory(index, is_read, Verdict::from_result(result));
        }
        let answer = render::answer(shape, key, result);
        let verdict = output::verdict(&answer, result);
        (answer, verdict)
    }

    pub(super) fn refuse(&mut self, refusal: HttpRefusal, origin: AnswerOrigin) {
        let mut answer = errors::with_status(refusal.status, &refusal.error);
        answer.allow = refusal.allow;
        let verdict = Verdict::from_result(&Err::<(), Error>(refusal.error));
        self.output.push(&self.shared, answer, origin, verdict);
    }

    /// Waits until all answers are decided, then sends them.
    pub(super) async fn flush(&mut self) -> std::io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        self.output.wait_decided(&self.shared).await;
        self.output.flush(&mut self.stream).await
    }

    /// Ends the connection so that the client can read the last answer. Discards further input for
    /// a while, because closing with unread input would send a reset.
    async fn linger(&mut self) {
        let (time_max, bytes_max) = LINGER;
        let _ = timeout(time_max, async {
            self.stream.shutdown().await?;
            let mut buffer = vec![0; 16 * 1024];
            let mut discarded = 0;
            while discarded < bytes_max {
                match self.stream.read(&mut buffer).await? {
                    0 => break,
                    read => discarded += read,
                }
            }
            Ok::<(), std::io::Error>(())
        })
        .await;
    }
}
