//! Connection of a Riak client. Each request is answered before the next is read.

use super::frame::{self, Framed};
use super::pages::{names_bytes, split_page};
use super::path::is_riaks;
use super::tally::Tally;
use super::{
    RiakPlan, RiakResponse, RiakShape, errors, gather, go_on, next_page, plan, render, statistics,
};
use crate::buffer_budget::{AnswerBudget, overloaded};
use crate::connection::{Connection, ListenerKind, Shutdown};
use crate::counters::{ClientProtocol, OperationKind};
use crate::http_input::{Input, Unread};
use crate::shared::Shared;
use crate::writer;
use base::limits::{ANSWER_WRITE_MS_MAX, VALUE_BYTES_MAX};
use base::{Body, Error, Reason, Reply, Request};
use node::{Flow, Submitted};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

/// Most bytes of names in a list that is answered as a whole; a stream has no such limit.
const NAMES_BYTES_MAX: usize = 32 << 20;
/// Number of copies of a list in memory: as names, as a document, and as an answer.
const COPIES: usize = 3;
/// Larger bodies are sent from where they lie, not copied behind their heads.
const INLINE_BYTES_MAX: usize = 32 * 1024;
/// Pause in milliseconds between a stream's attempts to get memory.
const ROOM_PAUSE_MS: u64 = 5;

/// Serves one connection until it ends or the server closes. Returns the connection if its next
/// request is for the native front-end.
pub(crate) async fn serve(
    connection: Connection,
    shared: Arc<Shared>,
    tally: Arc<Tally>,
    shutdown: Shutdown,
) -> Option<Connection> {
    let Connection { stream, first, kind } = connection;
    let (flow, operation) = (Flow::default(), OperationKind::Other);
    let (input, room) = (Input::new(first), AnswerBudget::default());
    let mut talk =
        RiakConnection { stream, input, kind, shared, tally, shutdown, flow, room, operation };
    match talk.run().await {
        Ok(()) | Err(ConnectionEnd::Silent) => None,
        Err(ConnectionEnd::Refused(answer)) => {
            // The connection ends in any case, whether or not the client reads the answer.
            if talk.say(&answer, false, false).await.is_ok() {
                writer::hang_up(&mut talk.stream).await;
            }
            None
        }
        Err(ConnectionEnd::Foreign) => {
            let RiakConnection { stream, input, kind, .. } = talk;
            Some(Connection { stream, first: input.into_bytes(), kind })
        }
    }
}

/// Reason why a connection leaves this front-end.
enum ConnectionEnd {
    /// The socket is dead or idle, or the server closes.
    Silent,
    /// A refusal, which is sent before the connection ends.
    Refused(RiakResponse),
    /// A request of the native interface: its front-end takes over.
    Foreign,
}

impl From<io::Error> for ConnectionEnd {
    fn from(_: io::Error) -> ConnectionEnd {
        ConnectionEnd::Silent
    }
}

impl From<RiakResponse> for ConnectionEnd {
    fn from(answer: RiakResponse) -> ConnectionEnd {
        ConnectionEnd::Refused(answer)
    }
}

impl From<Unread> for ConnectionEnd {
    fn from(unread: Unread) -> ConnectionEnd {
        match unread {
            Unread::Dead => ConnectionEnd::Silent,
            Unread::Refused(refused) => frame::refused(refused).into(),
            Unread::TooLarge(_) => frame::too_large().into(),
            Unread::Overloaded => frame::overloaded().into(),
        }
    }
}

struct RiakConnection {
    stream: TcpStream,
    input: Input,
    kind: ListenerKind,
    shared: Arc<Shared>,
    tally: Arc<Tally>,
    shutdown: Shutdown,
    flow: Flow,
    /// Memory of the answer.
    room: AnswerBudget,
    /// Kind of operation that the current request is counted as.
    operation: OperationKind,
}

impl RiakConnection {
    async fn run(&mut self) -> Result<(), ConnectionEnd> {
        loop {
            let framed = self.head().await?;
            frame::check(&framed, &self.shared.guard)?;
            if framed.expects_continue {
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            }
            let mut asked = framed.asked;
            let RiakConnection { stream, input, shared, .. } = self;
            asked.body = input.body(stream, shared, framed.body, VALUE_BYTES_MAX).await?;
            asked.chance = rand::random();
            let since = Instant::now();
            let head_only = asked.method == crate::http::Method::Head;
            let keep_alive = framed.keep_alive && !self.shutdown.is_called();
            self.operation = OperationKind::Other;
            let plan = match plan(&asked) {
                RiakPlan::Statistics => RiakPlan::Say(statistics::answer(
                    &self.shared,
                    &self.tally,
                    asked.text("accept"),
                )),
                plan => plan,
            };
            let status = self.answer(plan, head_only, keep_alive).await?;
            self.input.finish_request();
            self.room.release();
            let verdict = frame::verdict(status);
            let (counters, operation) = (&self.shared.counters, self.operation);
            counters.observe(ClientProtocol::Riak, operation, verdict, since.elapsed());
            counters.note_second(operation, self.shared.clock.unix_ms() / 1_000);
            if !keep_alive {
                return Ok(());
            }
        }
    }

    /// Waits for the head of a request.
    async fn head(&mut self) -> Result<Framed, ConnectionEnd> {
        loop {
            if self.input.may_hold_head()
                && let Some((framed, used)) = frame::head(self.input.bytes())?
            {
                if self.kind != ListenerKind::Riak && !is_riaks(&framed.asked.path) {
                    return Err(ConnectionEnd::Foreign);
                }
                self.input.advance(used);
                return Ok(framed);
            }
            let RiakConnection { stream, input, shared, shutdown, .. } = self;
            if !input.listen(stream, shared, shutdown).await? {
                return Err(ConnectionEnd::Silent);
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
            RiakPlan::Look(request, look) => {
                let found = self.ask(*request).await;
                go_on(look, &found)
            }
            plan => plan,
        };
        let answer = match plan {
            RiakPlan::Say(answer) => answer,
            RiakPlan::Ask(request, shape) if shape.streams() && !head_only => {
                return self.stream_pages(*request, shape, keep_alive).await;
            }
            RiakPlan::Ask(request, shape) => self.whole(*request, shape).await,
            // Unreachable: `go_on` never plans another look, and statistics were rendered before.
            RiakPlan::Look(..) | RiakPlan::Statistics => {
                RiakResponse::text(500, "Error:\nlooked twice\n")
            }
        };
        let answer = self.fit(answer, head_only);
        self.say(&answer, head_only, keep_alive).await?;
        Ok(answer.status)
    }

    /// Reserves memory for the answer's body until the client has read it. Without it, returns an
    /// error in place of the answer.
    fn fit(&mut self, answer: RiakResponse, head_only: bool) -> RiakResponse {
        if head_only || self.room.holds(answer.body.len(), &self.shared) {
            return answer;
        }
        match self.operation {
            // The update takes effect; only its answer is lost.
            OperationKind::Put | OperationKind::Update if answer.status < 400 => {
                stored_without_value()
            }
            _ => errors::answer(&overloaded()),
        }
    }

    /// Answers a request whose reply is sent as a whole.
    async fn whole(&mut self, request: Request, mut shape: RiakShape) -> RiakResponse {
        let (tally, second) = (self.tally.clone(), self.shared.clock.unix_ms() / 1_000);
        shape.claimed_by(|| statistics::own_name(&self.shared));
        let is_read = tally.asked(&request, second);
        let _listing = shape.lists().then(|| tally.list(second));
        let reply = in_time(deadline(&shape), self.all_pages(request)).await;
        tally.note(is_read, &shape, &reply, second);
        render(&shape, &reply)
    }

    async fn ask(&mut self, request: Request) -> Result<Reply, Error> {
        self.operation = frame::operation(&request.call);
        match self.shared.node.submit(&mut self.flow, request) {
            Submitted::Ready(result) => result,
            Submitted::Later(reply) | Submitted::Independent(_, reply) => reply.await,
            Submitted::Pending(ticket, result) => {
                self.shared.node.decided(ticket).await?;
                result
            }
        }
    }

    /// Submits a request and those for all further pages. Returns the reply with all pages.
    async fn all_pages(&mut self, request: Request) -> Result<Reply, Error> {
        let mut reply = self.ask(request.clone()).await?;
        let mut bytes = names_bytes(&reply.body);
        self.make_room(bytes)?;
        let mut next = next_page(&request, &reply.body);
        while let Some(request) = next {
            let page = self.ask((*request).clone()).await?;
            bytes += names_bytes(&page.body);
            self.make_room(bytes)?;
            next = next_page(&request, &page.body);
            gather(&mut reply.body, page.body);
        }
        Ok(reply)
    }

    /// Reserves memory for a list with this many bytes of names. Fails if it is too large or no
    /// memory is free.
    fn make_room(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes > NAMES_BYTES_MAX {
            let words = format!("more than {NAMES_BYTES_MAX} bytes of names: ask for a stream");
            return Err(Error::new(Reason::TooLarge, words));
        }
        match self.room.holds(COPIES * bytes, &self.shared) {
            true => Ok(()),
            false => Err(overloaded()),
        }
    }

    /// Sends pages as chunks, each a document of its own; the last document is empty.
    async fn stream_pages(
        &mut self,
        request: Request,
        mut shape: RiakShape,
        keep_alive: bool,
    ) -> Result<u16, ConnectionEnd> {
        let (mut request, within) = (request, deadline(&shape));
        let (shared, tally) = (self.shared.clone(), self.tally.clone());
        let _listing = tally.list(shared.clock.unix_ms() / 1_000);
        let mut reply = in_time(within, self.ask(request.clone())).await;
        // A client that asked for a stream gives up its connection on any other status.
        if reply.as_ref().is_err_and(|error| error.reason != Reason::DeadlinePassed) {
            let answer = render(&shape, &reply);
            self.say(&answer, false, keep_alive).await?;
            return Ok(answer.status);
        }
        self.write(&frame::streaming(keep_alive, self.shared.clock.unix_ms())).await?;
        if let Some(document) = shape.first_page() {
            self.write(&frame::chunk(document.as_bytes())).await?;
        }
        while let Ok(found) = &mut reply {
            let next = next_page(&request, &found.body);
            let page = std::mem::replace(&mut found.body, Body::Done);
            if !self.wait_for_room(names_bytes(&page)).await {
                reply = Err(overloaded());
                break;
            }
            for body in split_page(page) {
                let document = render(&shape, &Ok(Reply { body, ..found.clone() }));
                self.write(&frame::chunk(&document.body)).await?;
            }
            let Some(next) = next else { break };
            request = *next;
            reply = in_time(within, self.ask(request.clone())).await;
        }
        tally.note(false, &shape, &reply, shared.clock.unix_ms() / 1_000);
        let last = if reply.is_ok() { shape.last_page() } else { frame::BROKEN };
        let mut last = frame::chunk(last);
        last.extend_from_slice(b"0\r\n\r\n");
        self.write(&last).await?;
        Ok(200)
    }

    /// Waits for memory for a page of a stream, as long as a client may take to read one. Returns
    /// false if none became free. The previous page's memory is released first: two streams could
    /// otherwise block each other.
    async fn wait_for_room(&mut self, bytes: usize) -> bool {
        let until = Instant::now() + Duration::from_millis(ANSWER_WRITE_MS_MAX);
        self.room.release();
        while !self.room.holds(bytes, &self.shared) {
            if Instant::now() >= until {
                return false;
            }
            sleep(Duration::from_millis(ROOM_PAUSE_MS)).await;
        }
        true
    }

    async fn say(
        &mut self,
        answer: &RiakResponse,
        head_only: bool,
        keep_alive: bool,
    ) -> io::Result<()> {
        let is_large = answer.body.len() > INLINE_BYTES_MAX && !head_only;
        let mut out = Vec::with_capacity(512 + answer.body.len().min(INLINE_BYTES_MAX));
        let now_ms = Some(self.shared.clock.unix_ms());
        answer.encode_on(&mut out, head_only || is_large, keep_alive, now_ms);
        self.write(&out).await?;
        if is_large { self.write(&answer.body).await } else { Ok(()) }
    }

    /// Sends bytes. Fails if the client does not read a part of them in time.
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        writer::write_bytes(&mut self.stream, bytes).await
    }
}

/// Returns the answer to a write that took effect but whose values do not fit into memory.
fn stored_without_value() -> RiakResponse {
    let cause = "{\"reason\":\"overloaded\",\"detail\":\"the value is stored; there is no memory \
                 to give it back (buffer_bytes_max)\"}";
    RiakResponse::bare(204).header("X-Credenza-Error", cause)
}

/// Returns the time by which a list must be complete. `None`: no limit.
fn deadline(shape: &RiakShape) -> Option<Instant> {
    let within = shape.timeout_ms().map(Duration::from_millis)?;
    Instant::now().checked_add(within)
}

/// Waits for a reply until the deadline. Fails with `DeadlinePassed` after it.
async fn in_time(
    deadline: Option<Instant>,
    asking: impl Future<Output = Result<Reply, Error>>,
) -> Result<Reply, Error> {
    let Some(deadline) = deadline else { return asking.await };
    let answer = timeout_at(deadline, asking).await;
    // A timer fires a little late, and a future that is ready at once never checks it.
    match answer {
        Ok(answer) if Instant::now() <= deadline => answer,
        _ => Err(Error::new(Reason::DeadlinePassed, "the list was not complete in time")),
    }
}
