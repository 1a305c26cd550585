//! The operators' local socket: the native front-end over a Unix socket in the data directory, for
//! the user that the node runs as, and root.
//!
//! Its callers always have all rights, so that nobody is locked out. Requests are answered one by
//! one.

use super::feed::FeedForm;
use super::translate::{NativePlan, NativeShape};
use super::{errors, login, operators, render, target, translate};
use crate::connection::{Access, ListenerKind, ListenerRole, Shutdown};
use crate::http::answer::EncodeOptions;
use crate::http::date::DateCache;
use crate::http::{HttpAnswer, Method, Parsed, head};
use crate::http_input::{HttpReadError, Input};
use crate::shared::Shared;
use base::access::Origin;
use base::limits::ANSWER_WRITE_MS_MAX;
use base::{BucketName, Error, Principal, Reason, Reply, Request};
use bytes::BytesMut;
use node::{Flow, SubmitResult, round};
use rustix::fs::Mode;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Maximum number of connections at a time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 16;
/// Role of the socket: its user is an operator, and may do everything else too.
const ROLE: ListenerRole = ListenerRole {
    kind: ListenerKind::Clients,
    access: Access::Operator,
    origin: Origin { protocol: "local", address: None },
};

/// Opens the socket at this path. What a former run left there is removed: the directory's lock
/// keeps two nodes apart.
pub(crate) fn bind(path: &Path) -> Result<UnixListener, Error> {
    let failed = |error: std::io::Error| {
        let path = path.display();
        let text = format!("can't open the local socket {path}: {error}");
        Error::new(Reason::StartFailed, text)
    };
    match rustix::fs::unlink(path) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(failed(error.into())),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let owner_only = Mode::RUSR | Mode::WUSR;
    rustix::fs::chmod(path, owner_only).map_err(|error| failed(error.into()))?;
    Ok(listener)
}

/// Accepts connections until the server closes.
pub(crate) async fn run(listener: UnixListener, shared: Arc<Shared>, mut shutdown: Shutdown) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // Operators may hold all places for as long as they like.
        let Ok(place) = round::rest(places.clone().acquire_owned()).await else { return };
        let accepted = tokio::select! {
            biased;
            _ = shutdown.wait() => return,
            accepted = round::rest(listener.accept()) => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, for a moment.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (shared, shutdown) = (shared.clone(), shutdown.clone());
        tokio::spawn(async move {
            if is_trusted(&stream) {
                LocalConnection::new(stream, shared, shutdown).run().await;
            }
            drop(place);
        });
    }
}

/// Returns true if the other end belongs to this process' user, or to root.
fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own)
}

struct LocalConnection {
    stream: UnixStream,
    shared: Arc<Shared>,
    shutdown: Shutdown,
    input: Input,
    flow: Flow,
    bucket: BucketName,
}

impl LocalConnection {
    fn new(stream: UnixStream, shared: Arc<Shared>, shutdown: Shutdown) -> LocalConnection {
        let flow = Flow::of(Principal::LocalOperator);
        let (input, bucket) = (Input::new(BytesMut::new()), BucketName::default());
        LocalConnection { stream, shared, shutdown, input, flow, bucket }
    }

    async fn run(&mut self) {
        while let Ok(true) = self.serve_next().await {}
    }

    /// Answers the next request. Returns false if the connection ends.
    async fn serve_next(&mut self) -> Result<bool, HttpReadError> {
        let LocalConnection { stream, input, shared, shutdown, .. } = self;
        while !input.has_head_candidate() {
            if !input.wait_for_input(stream, shared, shutdown).await? {
                return Ok(false);
            }
        }
        let (target, body, options, used) = match head::parse(input.bytes())? {
            Parsed::Head(head, used) => {
                let control = &shared.access_control;
                let target = target::parse(&head, control, ROLE, &mut self.bucket);
                let options = EncodeOptions {
                    keep_alive: head.keep_alive && !shutdown.is_requested() && target.is_ok(),
                    head_only: head.method == Method::Head,
                    is_http_10: head.is_http_10,
                };
                (target, head.body, options, used)
            }
            Parsed::More => return input.wait_for_input(stream, shared, shutdown).await,
        };
        input.advance(used, false);
        let answer = match target {
            Ok(target) => {
                let bytes_max = target.route.request_body.bytes_max();
                let body = input.read_body(stream, shared, body, bytes_max).await?;
                self.answer(target, body).await
            }
            Err(refusal) => errors::with_status(refusal.status, &refusal.error),
        };
        self.input.finish_request();
        self.send(&answer, options).await?;
        Ok(options.keep_alive)
    }

    async fn answer(&mut self, target: target::RequestTarget, body: bytes::Bytes) -> HttpAnswer {
        let key = target.key.clone();
        match translate::plan(target, body) {
            // Its caller has all rights.
            Err(error) | Ok(NativePlan::Unconfirmed(_, error)) => errors::answer(&error),
            Ok(NativePlan::PreconditionFailed) => render::precondition_failed(),
            Ok(NativePlan::Submit(request, shape)) => {
                render::answer(&shape, &key, &self.submit(request).await)
            }
            Ok(NativePlan::Feed(request, FeedForm::Page)) => {
                render::answer(&NativeShape::Json, &key, &self.submit(request).await)
            }
            Ok(NativePlan::Stream(_) | NativePlan::Feed(..)) => {
                let text = "streams are served at `listen`; read pages here";
                errors::answer(&Error::new(Reason::NotSupported, text))
            }
            Ok(NativePlan::Operator(call)) => {
                let principal = Principal::LocalOperator;
                match login::decide(&self.shared, &principal, &call) {
                    Ok(act) => operators::answer(&self.shared, &principal, (call, act)).await,
                    Err(error) => errors::answer(&error),
                }
            }
        }
    }

    async fn submit(&mut self, request: Request) -> Result<Reply, Error> {
        let node = &self.shared.node;
        match node.submit(&mut self.flow, request) {
            SubmitResult::Ready(result) => result,
            SubmitResult::Pending(ticket, result) => {
                node.wait_decided(ticket).await?;
                result
            }
            SubmitResult::Later(reply) | SubmitResult::Independent(_, reply) => reply.await,
        }
    }

    async fn send(
        &mut self,
        answer: &HttpAnswer,
        options: EncodeOptions,
    ) -> Result<(), HttpReadError> {
        let (mut out, now_ms) = (Vec::new(), self.shared.clock.unix_ms());
        answer.encode_head(&mut out, options, DateCache::new(now_ms).format_at(now_ms));
        if !options.head_only {
            out.extend_from_slice(&answer.content.bytes());
        }
        let time_limit = Duration::from_millis(ANSWER_WRITE_MS_MAX);
        let written = timeout(time_limit, self.stream.write_all(&out)).await;
        Ok(written.map_err(|_| HttpReadError::Disconnected)??)
    }
}
