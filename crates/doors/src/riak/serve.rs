//! The socket: requests one after the other, each answered before the next is read.

use super::frame::{self, Framed, SMALL_BYTES_MAX};
use super::path::is_riaks;
use super::{Answer, Plan, Shape, gather, go_on, next_page, plan, render, statistics};
use crate::counters::{Operation, Tongue};
use crate::http::{Body, Chunks, Decoded};
use crate::intake::LAST_WORDS_MS;
use crate::listener::{Connection, Face, Shutdown};
use crate::native;
use crate::shared::Shared;
use base::limits::{ANSWER_WRITE_MS_MAX, PAGE_BYTES_MAX, REQUEST_READ_MS_MAX, VALUE_BYTES_MAX};
use base::{Error, Reason, Reply, Request};
use bytes::{Buf, Bytes, BytesMut};
use node::{Flow, Submitted};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};

/// What is read at a time.
const READ_BYTES: usize = 16 * 1024;
/// Most names in a list that is answered as a whole; a stream has no such limit.
const NAMES_MAX: usize = 16 * PAGE_BYTES_MAX / 64;

/// Serves one connection until it ends or the doors close.
pub(crate) async fn serve(connection: Connection, shared: Arc<Shared>, shutdown: Shutdown) {
    let Connection { stream, first, face } = connection;
    let flow = Flow::default();
    let (bytes, operation) = (first, Operation::Other);
    let mut talk = Talk { stream, bytes, face, shared, shutdown, flow, reserved: None, operation };
    match talk.run().await {
        Err(Ended::Refused(answer)) => {
            // The connection ends either way; that the client still reads is its own affair.
            let _ = talk.say(&answer, false, false).await;
        }
        Err(Ended::Foreign) => {
            let Talk { stream, bytes: first, face, shared, shutdown, .. } = talk;
            native::serve(Connection { stream, first, face }, shared, shutdown).await;
        }
        Ok(()) | Err(Ended::Silent) => {}
    }
}

/// Why a connection ends.
enum Ended {
    /// The socket is dead, or idle, or the doors close.
    Silent,
    /// This is answered first.
    Refused(Answer),
    /// What is asked now is none of Riak's: the house's own door goes on.
    Foreign,
}

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Ended {
        Ended::Silent
    }
}

impl From<Answer> for Ended {
    fn from(answer: Answer) -> Ended {
        Ended::Refused(answer)
    }
}

struct Talk {
    stream: TcpStream,
    bytes: BytesMut,
    face: Face,
    shared: Arc<Shared>,
    shutdown: Shutdown,
    flow: Flow,
    /// A share of the common memory for a large body.
    reserved: Option<OwnedSemaphorePermit>,
    /// As what the present request is counted.
    operation: Operation,
}

impl Talk {
    async fn run(&mut self) -> Result<(), Ended> {
        loop {
            let (framed, deadline) = self.head().await?;
            frame::check(&framed, &self.shared.guard)?;
            if framed.expects_continue {
                self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            }
            let mut asked = framed.asked;
            asked.body = self.body(framed.body, deadline).await?;
            asked.chance = rand::random();
            let since = Instant::now();
            let head_only = asked.method == crate::http::Method::Head;
            let keep_alive = framed.keep_alive && !self.shutdown.is_called();
            self.operation = Operation::Other;
            let plan = match plan(&asked) {
                Plan::Statistics => {
                    Plan::Say(statistics::answer(&self.shared, asked.text("accept")))
                }
                plan => plan,
            };
            let status = self.answer(plan, head_only, keep_alive).await?;
            self.reserved = None;
            let verdict = frame::verdict(status);
            let (counters, operation) = (&self.shared.counters, self.operation);
            counters.observe(Tongue::Riak, operation, verdict, since.elapsed());
            counters.note_second(operation, self.shared.clock.unix_ms() / 1_000);
            if !keep_alive {
                return Ok(());
            }
        }
    }

    /// Waits for a request's head; none comes before the client has said something.
    async fn head(&mut self) -> Result<(Framed, Instant), Ended> {
        let (mut deadline, mut last) = (None, None);
        loop {
            if let Some((framed, used)) = frame::head(&self.bytes)? {
                if self.face != Face::Riak && !is_riaks(&framed.asked.path) {
                    return Err(Ended::Foreign);
                }
                self.bytes.advance(used);
                let bound = Duration::from_millis(REQUEST_READ_MS_MAX);
                return Ok((framed, deadline.unwrap_or_else(|| Instant::now() + bound)));
            }
            self.bytes.reserve(READ_BYTES);
            let begun = !self.bytes.is_empty();
            let idle = self.shared.settings.http_idle_ms_max;
            let bound = Duration::from_millis(if begun { REQUEST_READ_MS_MAX } else { idle });
            let until = match begun {
                true => *deadline.get_or_insert_with(|| Instant::now() + bound),
                false => Instant::now() + bound,
            };
            let until = last.map_or(until, |last: Instant| last.min(until));
            let read = tokio::select! {
                biased;
                read = timeout_at(until, self.stream.read_buf(&mut self.bytes)) => read,
                () = self.shutdown.called(), if last.is_none() => {
                    // What a client says before it can know is answered, and told to be the last.
                    last = Some(Instant::now() + Duration::from_millis(LAST_WORDS_MS));
                    continue;
                }
            };
            match read {
                Ok(Ok(1..)) => {}
                _ => return Err(Ended::Silent),
            }
        }
    }

    async fn fill(&mut self, deadline: Instant) -> Result<(), Ended> {
        self.bytes.reserve(READ_BYTES);
        match timeout_at(deadline, self.stream.read_buf(&mut self.bytes)).await {
            Ok(Ok(1..)) => Ok(()),
            _ => Err(Ended::Silent),
        }
    }

    async fn body(&mut self, body: Body, deadline: Instant) -> Result<Bytes, Ended> {
        match body {
            Body::None => Ok(Bytes::new()),
            Body::Length(length) => {
                let length = usize::try_from(length).ok().filter(|it| *it <= VALUE_BYTES_MAX);
                let length = length.ok_or_else(frame::too_large)?;
                self.reserve(length)?;
                while self.bytes.len() < length {
                    self.fill(deadline).await?;
                }
                // A copy: a small value must not keep the whole buffer alive.
                let body = Bytes::copy_from_slice(&self.bytes[..length]);
                self.bytes.advance(length);
                Ok(body)
            }
            Body::Chunked => self.chunked(deadline).await,
        }
    }

    async fn chunked(&mut self, deadline: Instant) -> Result<Bytes, Ended> {
        let mut chunks = Chunks::default();
        let mut body = Vec::new();
        self.reserve(VALUE_BYTES_MAX)?;
        loop {
            match chunks.step(&self.bytes).map_err(frame::refused)? {
                Decoded::Data(bytes, used) => {
                    if body.len() + bytes.len() > VALUE_BYTES_MAX {
                        return Err(frame::too_large().into());
                    }
                    body.extend_from_slice(bytes);
                    self.bytes.advance(used);
                }
                Decoded::Skip(used) => self.bytes.advance(used),
                Decoded::End => return Ok(body.into()),
                Decoded::More => self.fill(deadline).await?,
            }
        }
    }

    /// Counts a large body against the memory that all connections share.
    fn reserve(&mut self, bytes: usize) -> Result<(), Ended> {
        if bytes <= SMALL_BYTES_MAX {
            return Ok(());
        }
        self.reserved = self.shared.reserve(bytes);
        match self.reserved {
            Some(_) => Ok(()),
            None => Err(frame::overloaded().into()),
        }
    }

    /// Carries a plan out and says its answer; its status is told.
    async fn answer(
        &mut self,
        plan: Plan,
        head_only: bool,
        keep_alive: bool,
    ) -> Result<u16, Ended> {
        let plan = match plan {
            Plan::Look(request, look) => {
                let found = self.ask(*request).await;
                go_on(look, &found)
            }
            plan => plan,
        };
        let answer = match plan {
            Plan::Say(answer) => answer,
            Plan::Ask(request, shape) if shape.streams() && !head_only => {
                return self.stream_pages(*request, shape, keep_alive).await;
            }
            Plan::Ask(request, shape) => self.whole(*request, shape).await,
            // What has looked does not look again, and what is counted was told.
            Plan::Look(..) | Plan::Statistics => Answer::text(500, "Error:\nlooked twice\n"),
        };
        self.say(&answer, head_only, keep_alive).await?;
        Ok(answer.status)
    }

    /// The answer to a request that is told as a whole.
    async fn whole(&mut self, request: Request, mut shape: Shape) -> Answer {
        let shared = self.shared.clone();
        let second = shared.clock.unix_ms() / 1_000;
        shape.claimed_by(|| statistics::own_name(&shared));
        let is_read = shared.riak.asked(&request, second);
        let _listing = shape.lists().then(|| shared.riak.list(second));
        let reply = in_time(deadline(&shape), self.all_pages(request)).await;
        shared.riak.note(is_read, &shape, &reply, second);
        render(&shape, &reply)
    }

    async fn ask(&mut self, request: Request) -> Result<Reply, Error> {
        self.operation = frame::operation(&request.call);
        match self.shared.node.submit(&mut self.flow, request) {
            Submitted::Ready(result) => result,
            Submitted::Later(reply) | Submitted::Apart(_, reply) => reply.await,
            Submitted::Pending(ticket, result) => {
                self.shared.node.decided(ticket).await?;
                result
            }
        }
    }

    /// A reply with all pages behind it.
    async fn all_pages(&mut self, request: Request) -> Result<Reply, Error> {
        let mut reply = self.ask(request.clone()).await?;
        let mut names = 0;
        let mut next = next_page(&request, &reply.body);
        while let Some(request) = next {
            names += base::limits::PAGE_ROWS_DEFAULT;
            if names > NAMES_MAX {
                let words = format!("more than {NAMES_MAX} names: ask for a stream");
                return Err(Error::new(Reason::TooLarge, words));
            }
            let page = self.ask((*request).clone()).await?;
            next = next_page(&request, &page.body);
            gather(&mut reply.body, page.body);
        }
        Ok(reply)
    }

    /// Pages as chunks, each a document of its own, the last one empty.
    async fn stream_pages(
        &mut self,
        request: Request,
        mut shape: Shape,
        keep_alive: bool,
    ) -> Result<u16, Ended> {
        let (mut request, within) = (request, deadline(&shape));
        let shared = self.shared.clone();
        let _listing = shared.riak.list(shared.clock.unix_ms() / 1_000);
        let mut reply = in_time(within, self.ask(request.clone())).await;
        // Clients that asked for a stream give up their connection for any other status.
        if reply.as_ref().is_err_and(|error| error.reason != Reason::DeadlinePassed) {
            let answer = render(&shape, &reply);
            self.say(&answer, false, keep_alive).await?;
            return Ok(answer.status);
        }
        self.write(&frame::streaming(keep_alive, self.shared.clock.unix_ms())).await?;
        if let Some(document) = shape.first_page() {
            self.write(&frame::chunk(document.as_bytes())).await?;
        }
        while let Ok(found) = &reply {
            let next = next_page(&request, &found.body);
            let page = render(&shape, &reply);
            self.write(&frame::chunk(&page.body)).await?;
            let Some(next) = next else { break };
            request = *next;
            reply = in_time(within, self.ask(request.clone())).await;
        }
        shared.riak.note(false, &shape, &reply, shared.clock.unix_ms() / 1_000);
        let last = if reply.is_ok() { shape.last_page() } else { frame::BROKEN };
        let mut last = frame::chunk(last);
        last.extend_from_slice(b"0\r\n\r\n");
        self.write(&last).await?;
        Ok(200)
    }

    async fn say(&mut self, answer: &Answer, head_only: bool, keep_alive: bool) -> io::Result<()> {
        let mut out = Vec::with_capacity(512 + answer.body.len());
        answer.encode_on(&mut out, head_only, keep_alive, Some(self.shared.clock.unix_ms()));
        self.write(&out).await
    }

    /// Writes all; a client that does not take it in time is given up.
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let bound = Duration::from_millis(ANSWER_WRITE_MS_MAX);
        let written = timeout(bound, self.stream.write_all(bytes)).await;
        written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}

/// When a list must be there.
fn deadline(shape: &Shape) -> Option<Instant> {
    let within = shape.timeout_ms().map(Duration::from_millis)?;
    Instant::now().checked_add(within)
}

/// What comes in time, or that it did not.
async fn in_time(
    deadline: Option<Instant>,
    asking: impl Future<Output = Result<Reply, Error>>,
) -> Result<Reply, Error> {
    let Some(deadline) = deadline else { return asking.await };
    let answer = timeout_at(deadline, asking).await;
    // A timer is a little late, and what was there at once has never looked at it.
    match answer {
        Ok(answer) if Instant::now() <= deadline => answer,
        _ => Err(Error::new(Reason::DeadlinePassed, "the list was not complete in time")),
    }
}
