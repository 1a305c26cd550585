//! Connection of the native front-end, from its first request to its end.

use super::output::{self, AnswerOrigin, HttpOutput};
use super::target::{self, HttpRefusal, RequestTarget, too_large};
use super::translate::{self, NativePlan, NativeShape};
use super::{errors, operators, render, stream};
use crate::connection::{Connection, ListenerKind, Shutdown};
use crate::counters::{OperationKind, Verdict};
use crate::http::answer::Manner;
use crate::http::{BodyFraming, Method, Refused, head};
use crate::http_input::{Input, Unread};
use crate::riak::is_riaks;
use crate::shared::Shared;
use base::request::Call;
use base::{BucketName, Error, Key, Reason, Request};
use bytes::Bytes;
use node::{Flow, Submitted};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// A body that nobody wants is read to its end if it is not larger; else the connection ends.
const UNWANTED_BYTES_MAX: u64 = 256 * 1024;
/// Maximum time, and bytes, for which further input is discarded after an answer that ends the
/// connection.
const LINGER: (Duration, usize) = (Duration::from_secs(2), 16 << 20);

/// Reason why a connection leaves this front-end.
#[derive(Debug)]
pub enum Stop {
    /// The socket is dead, or the client was too slow for an answer.
    Dead,
    /// A refusal, which is sent before the connection ends.
    Refused(Box<HttpRefusal>),
    /// A request of Riak's interface: Riak's front-end takes over.
    Foreign,
}

impl From<std::io::Error> for Stop {
    fn from(_: std::io::Error) -> Stop {
        Stop::Dead
    }
}

impl From<HttpRefusal> for Stop {
    fn from(refusal: HttpRefusal) -> Stop {
        Stop::Refused(Box::new(refusal))
    }
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Stop {
        HttpRefusal::from(refused).into()
    }
}

impl From<Unread> for Stop {
    fn from(unread: Unread) -> Stop {
        match unread {
            Unread::Dead => Stop::Dead,
            Unread::Refused(refused) => refused.into(),
            Unread::TooLarge(bytes_max) => too_large(bytes_max).into(),
            Unread::Overloaded => {
                let words = "too many large requests are on their way; nothing was changed";
                HttpRefusal::from(Error::new(Reason::Overloaded, words)).into()
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
    let mut conversation = NativeConnection {
        stream: connection.stream,
        input: Input::new(connection.first),
        output: HttpOutput::default(),
        flow: Flow::default(),
        kind: connection.kind,
        bucket: BucketName::default(),
        shared,
        shutdown,
    };
    match conversation.talk().await {
        Ok(()) | Err(Stop::Dead) => None,
        Err(Stop::Refused(refusal)) => {
            let asked = asked(OperationKind::Other, FINAL);
            conversation.refuse(*refusal, asked);
            if conversation.say().await.is_ok() {
                conversation.linger().await;
            }
            None
        }
        Err(Stop::Foreign) => {
            conversation.say().await.ok()?;
            let NativeConnection { stream, input, kind, .. } = conversation;
            Some(Connection { stream, first: input.into_bytes(), kind })
        }
    }
}

/// Encoding of the last answer of a connection.
const FINAL: Manner = Manner { keep_alive: false, head_only: false, is_http_10: false };

/// State of one connection.
pub struct NativeConnection {
    pub(super) stream: TcpStream,
    pub(super) output: HttpOutput,
    pub(super) shared: Arc<Shared>,
    input: Input,
    flow: Flow,
    kind: ListenerKind,
    bucket: BucketName,
    shutdown: Shutdown,
}

/// Parsed head of a request, with what is needed to read its body.
struct Begun {
    target: Result<RequestTarget, HttpRefusal>,
    body: BodyFraming,
    bytes_max: usize,
    manner: Manner,
    expects_continue: bool,
}

fn asked(operation: OperationKind, manner: Manner) -> AnswerOrigin {
    AnswerOrigin { operation, since: Instant::now(), manner, is_read: true }
}

impl NativeConnection {
    /// Reads and answers requests until the connection ends.
    async fn talk(&mut self) -> Result<(), Stop> {
        loop {
            while let Some(begun) = self.begin()? {
                if !self.go_on(begun).await? {
                    self.say().await?;
                    self.linger().await;
                    return Ok(());
                }
                if self.output.is_full() {
                    self.say().await?;
                }
            }
            self.say().await?;
            if !self.listen().await? {
                return Ok(());
            }
        }
    }

    /// Waits for more bytes. Returns false if the connection ends.
    async fn listen(&mut self) -> Result<bool, Stop> {
        let NativeConnection { stream, input, shared, shutdown, .. } = self;
        Ok(input.listen(stream, shared, shutdown).await?)
    }

    /// Parses a head. Returns `None` if none has arrived completely.
    fn begin(&mut self) -> Result<Option<Begun>, Stop> {
        if !self.input.may_hold_head() {
            return Ok(None);
        }
        let head::Parsed::Head(head, used) = head::parse(self.input.bytes())? else {
            return Ok(None);
        };
        if matches!(self.kind, ListenerKind::Both | ListenerKind::Clients) && is_riaks(head.path) {
            return Err(Stop::Foreign);
        }
        let target = target::read(&head, &self.shared.guard, self.kind, &mut self.bucket);
        let begun = Begun {
            bytes_max: target.as_ref().map_or(0, |target| target.route.takes.bytes_max()),
            target,
            body: head.body,
            manner: Manner {
                keep_alive: head.keep_alive && !self.shutdown.is_called(),
                head_only: head.method == Method::Head,
                is_http_10: head.is_http_10,
            },
            expects_continue: head.expects_continue,
        };
        self.input.advance(used);
        Ok(Some(begun))
    }

    /// Reads a request's body and answers it. Returns false if the connection ends with the answer.
    async fn go_on(&mut self, begun: Begun) -> Result<bool, Stop> {
        let mut manner = begun.manner;
        let target = match begun.target {
            Ok(target) => target,
            Err(refusal) => {
                let unwanted = self.pass_over(begun.body, begun.expects_continue).await?;
                manner.keep_alive &= unwanted;
                self.refuse(refusal, asked(OperationKind::Other, manner));
                return Ok(manner.keep_alive);
            }
        };
        if !self.input.has_body(begun.body) {
            self.say().await?;
            if begun.expects_continue {
                output::write(&mut self.stream, b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            }
        }
        let NativeConnection { stream, input, shared, .. } = self;
        let body = input.body(stream, shared, begun.body, begun.bytes_max).await?;
        // The front-ends may have begun to close while the body arrived.
        manner.keep_alive &= !self.shutdown.is_called();
        self.answer(target, body, manner).await?;
        self.input.finish_request();
        Ok(manner.keep_alive)
    }

    /// Discards the body of a refused request. Returns false if it is too large for that.
    async fn pass_over(&mut self, body: BodyFraming, expects_continue: bool) -> Result<bool, Stop> {
        let length = match body {
            BodyFraming::None => 0,
            BodyFraming::Length(length) if length <= UNWANTED_BYTES_MAX && !expects_continue => {
                length
            }
            _ => return Ok(false),
        };
        if !self.input.has_body(body) {
            self.say().await?;
        }
        let NativeConnection { stream, input, shared, .. } = self;
        input
            .body(stream, shared, BodyFraming::Length(length), UNWANTED_BYTES_MAX as usize)
            .await?;
        self.input.finish_request();
        Ok(true)
    }

    async fn answer(
        &mut self,
        target: RequestTarget,
        body: Bytes,
        manner: Manner,
    ) -> Result<(), Stop> {
        let mut asked = asked(target.route.operation, manner);
        let key = target.key.clone();
        match translate::plan(target, body) {
            Err(error) => self.refuse(error.into(), asked),
            Ok(NativePlan::ConditionFails) => {
                let verdict = Verdict::Failed(base::Kind::Conflict);
                self.output.push(&self.shared, render::condition_fails(), asked, verdict);
            }
            Ok(NativePlan::Ask(request, shape)) => {
                asked.is_read = matches!(request.call, Call::Read(..));
                self.ask(request, &shape, &key, asked).await?;
            }
            Ok(NativePlan::Stream(request, range)) => {
                stream::rows(self, request, range, asked).await?
            }
            Ok(NativePlan::Operate(what)) => {
                // Send earlier answers first: their clients must not wait for this operation.
                self.say().await?;
                let answer = operators::answer(&self.shared, what).await;
                let verdict = operators::verdict(&answer);
                self.output.push(&self.shared, answer, asked, verdict);
            }
        }
        Ok(())
    }

    async fn ask(
        &mut self,
        request: Request,
        shape: &NativeShape,
        key: &Key,
        asked: AnswerOrigin,
    ) -> Result<(), Stop> {
        let bucket = request.bucket.clone();
        let mut master = None;
        let (result, ticket) = match self.shared.node.submit(&mut self.flow, request) {
            Submitted::Ready(result) => (result, None),
            Submitted::Pending(ticket, result) => (result, Some(ticket)),
            Submitted::Later(reply) | Submitted::Independent(_, reply) => {
                self.say().await?;
                let reply = reply.await;
                // Only a delayed reply may have come from another node.
                master = self.shared.node.other_master(&bucket);
                (reply, None)
            }
        };
        let mut answer = render::answer(shape, key, &result);
        answer.master = master;
        let verdict = output::verdict(&answer, &result);
        match ticket {
            Some(ticket) => {
                self.output.push_waiting(&self.shared, answer, asked, verdict, ticket);
            }
            None => self.output.push(&self.shared, answer, asked, verdict),
        }
        Ok(())
    }

    fn refuse(&mut self, refusal: HttpRefusal, asked: AnswerOrigin) {
        let mut answer = errors::with_status(refusal.status, &refusal.error);
        answer.allow = refusal.allow;
        let verdict = Verdict::of(&Err::<(), Error>(refusal.error));
        self.output.push(&self.shared, answer, asked, verdict);
    }

    /// Waits until all answers are decided, then sends them.
    pub(super) async fn say(&mut self) -> std::io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        self.output.settle(&self.shared).await;
        self.output.flush(&mut self.stream).await
    }

    /// Ends the connection so that the client can read the last answer. Discards further input for
    /// a while, because closing with unread input would send a reset.
    async fn linger(&mut self) {
        let (bound, bytes_max) = LINGER;
        let _ = timeout(bound, async {
            self.stream.shutdown().await?;
            let mut rest = vec![0; 16 * 1024];
            let mut taken = 0;
            while taken < bytes_max {
                match self.stream.read(&mut rest).await? {
                    0 => break,
                    read => taken += read,
                }
            }
            Ok::<(), std::io::Error>(())
        })
        .await;
    }
}
