//! Connection of one Arakoon client: reads the prologue, then handles batches of requests.

use super::commands::ArakoonCommand;
use super::errors::ArakoonRefusal;
use super::frame::{Hello, ParseProgress, Parser, hello};
use super::output::Output;
use super::registry::Registry;
use super::statistics::{Class, Statistics};
use super::translate::{self, ArakoonShape, ClusterQuery, CommandPlan};
use super::{clusters, views};
use crate::buffer_budget::AnswerBudget;
use crate::counters::{OperationKind, Verdict};
use crate::idle::Activity;
use crate::read_buffer::ReadBuffer;
use crate::shared::closing;
use crate::writer::{self, Pieces};
use crate::{Connection, Shared, Shutdown};
use base::limits::{HELLO_MS_MAX, PIPELINE_DEPTH_MAX, WHOLE_RANGE_BYTES_MAX};
use base::{
    Body, BucketName, Call, Error, Kind, Range, ReadLevel, Reason, Reply, Request, Result, Update,
    limits,
};
use node::{Flow, Submitted};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// Size of a batch's answers at which they are sent before more requests are read.
const ANSWER_BYTES: usize = 1024 * 1024;

/// Serves one connection until it ends or the server closes.
pub(crate) async fn serve(
    connection: Connection,
    shared: Arc<Shared>,
    registry: &Registry,
    shutdown: Shutdown,
) {
    let activity = Arc::new(Activity::new(shared.clock.unix_ms()));
    let _idle = shared.idle.enter(activity.clone());
    let mut ended = pin!(activity.clone().ended(shutdown));
    let Connection { mut stream, first, .. } = connection;
    // `local_addr` fails only on a dead socket.
    let Ok(local) = stream.local_addr() else { return };
    let mut read_buffer = ReadBuffer::new(first);
    let greeting = greet(&mut stream, &mut read_buffer, &shared, ended.as_mut());
    let greeting = timeout(Duration::from_millis(HELLO_MS_MAX), greeting);
    let Ok(Some(cluster)) = greeting.await else { return };
    let entered = clusters::enter(&shared.node, &cluster, &shared.settings.arakoon_clusters).await;
    match entered {
        Ok(bucket) => {
            let statistics = registry.of(&bucket);
            let mut visit = ArakoonConnection {
                stream,
                shared,
                cluster,
                bucket,
                local,
                out: Output::default(),
                room: AnswerBudget::default(),
                // These clients look for the master themselves.
                flow: Flow::redirected(),
                read_buffer,
                parser: Parser::default(),
                notes: Vec::new(),
                last: "",
                activity,
                statistics,
            };
            visit.run(ended).await;
        }
        Err(error) => clusters::answer_until_started(&mut stream, &shared, &cluster, &error).await,
    }
}

/// Reads the prologue and returns its cluster id. Returns `None` if the bytes are not a prologue or
/// the connection ends first.
async fn greet(
    stream: &mut TcpStream,
    read_buffer: &mut ReadBuffer,
    shared: &Shared,
    mut ended: Pin<&mut impl Future<Output = bool>>,
) -> Option<Vec<u8>> {
    loop {
        match hello(&read_buffer.input) {
            Hello::Foreign => return None,
            Hello::Cluster(cluster, length) => {
                let _ = read_buffer.input.split_to(length);
                return Some(cluster);
            }
            Hello::More => {
                let there = read_buffer.reserve(1, shared).await;
                if !there || !read_buffer.read(stream, ended.as_mut()).await {
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
pub(super) struct Note {
    pub(super) operation: OperationKind,
    pub(super) class: Option<Class>,
    pub(super) verdict: Verdict,
    pub(super) size: u64,
}

/// Connection that has passed the prologue and serves requests.
pub(super) struct ArakoonConnection {
    stream: TcpStream,
    pub(super) shared: Arc<Shared>,
    pub(super) cluster: Vec<u8>,
    pub(super) bucket: BucketName,
    pub(super) local: SocketAddr,
    out: Output,
    room: AnswerBudget,
    flow: Flow,
    read_buffer: ReadBuffer,
    parser: Parser,
    pub(super) notes: Vec<Note>,
    /// Name of the last command, for the log of slow requests.
    pub(super) last: &'static str,
    pub(super) activity: Arc<Activity>,
    pub(super) statistics: Arc<Mutex<Statistics>>,
}

impl ArakoonConnection {
    async fn run(&mut self, mut ended: Pin<&mut impl Future<Output = bool>>) {
        loop {
            let Ok(needed) = self.answer().await else { return };
            if !self.read_buffer.reserve(needed, &self.shared).await {
                self.out.refuse(&ArakoonRefusal::failure("too many large requests at a time"));
                let _ = self.send().await;
                return writer::hang_up(&mut self.stream).await;
            }
            if !self.read_buffer.read(&mut self.stream, ended.as_mut()).await {
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
            while requests < PIPELINE_DEPTH_MAX && self.out.len() < ANSWER_BYTES && !self.out.ends {
                match self.parser.parse(&self.read_buffer.input) {
                    Ok(ParseProgress::Frame(command, length)) => {
                        requests += 1;
                        if let Some(slow) = self.request(command, length) {
                            self.wait_for(slow).await?;
                        }
                    }
                    Ok(ParseProgress::More(length)) => {
                        needed = Some(length);
                        break;
                    }
                    Err(fault) => self.out.refuse(&fault.into()),
                }
            }
            let ends = self.send().await?;
            self.count(began);
            if ends {
                writer::hang_up(&mut self.stream).await;
                return Err(());
            }
            if let Some(needed) = needed {
                return Ok(needed);
            }
        }
    }

    /// Handles one request of `length` bytes. Returns a `DeferredReply` if it can't be answered at
    /// once.
    fn request(
        &mut self,
        command: &'static ArakoonCommand,
        length: usize,
    ) -> Option<DeferredReply> {
        self.last = command.word;
        let mut frame = self.read_buffer.input.split_to(length).freeze();
        self.parser.reset();
        let body = frame.split_off(4);
        match translate::translate(command, body, &self.cluster) {
            Ok(CommandPlan::Say(body)) => {
                self.out.say(&body);
                self.note(command, Verdict::Fine, 0);
                None
            }
            Ok(CommandPlan::Ask(call, shape)) => self.ask(command, call, shape),
            Ok(CommandPlan::Range(range, level, shape)) => {
                Some(DeferredReply::Range(range, level, shape, command))
            }
            Ok(CommandPlan::Look(ClusterQuery::DropMaster)) => {
                Some(DeferredReply::DropMaster(command))
            }
            Ok(CommandPlan::Look(view)) => {
                let seen = views::look(self, &view);
                self.finish(command, seen.map(|body| (body, 0)));
                None
            }
            Err(refusal) => {
                self.finish(command, Err(refusal));
                None
            }
        }
    }

    fn ask(
        &mut self,
        command: &'static ArakoonCommand,
        call: Call,
        shape: ArakoonShape,
    ) -> Option<DeferredReply> {
        let written = match &call {
            Call::Update(Update::Set { value, .. }) => Some(value.len() as u64),
            _ => None,
        };
        let request = Request { bucket: self.bucket.clone(), call, retry: None };
        let from = self.out.bytes.len();
        match self.submit(request) {
            Submitted::Ready(reply) => self.speak(command, &shape, reply),
            Submitted::Pending(ticket, reply) => {
                self.speak(command, &shape, reply);
                self.out.wait_for(from, ticket);
            }
            Submitted::Later(reply) | Submitted::Independent(_, reply) => {
                return Some(DeferredReply::Reply(reply, shape, command));
            }
        }
        if let (Some(size), Some(note)) = (written, self.notes.last_mut()) {
            note.size = size;
        }
        None
    }

    /// Submits a request to the node. Refuses it instead if the server is closing.
    fn submit(&mut self, request: Request) -> Submitted {
        match self.read_buffer.is_last() {
            true => Submitted::Ready(Err(closing())),
            false => self.shared.node.submit(&mut self.flow, request),
        }
    }

    fn speak(
        &mut self,
        command: &'static ArakoonCommand,
        shape: &ArakoonShape,
        reply: Result<Reply>,
    ) {
        let (verdict, from) = (Verdict::of(&reply), self.out.bytes.len());
        let spoken = match (&reply, shape) {
            (Err(error), _) => Err(ArakoonRefusal::from(error)),
            (Ok(_), ArakoonShape::View(view)) => views::look(self, view).map(|body| {
                self.out.say(&body);
                0
            }),
            (Ok(reply), shape) => shape.speak(&reply.body, &mut self.out.bytes),
        };
        match spoken {
            Ok(size) => self.note(command, verdict, size),
            Err(refusal) => {
                self.out.refuse(&refusal);
                self.note(command, verdict, 0);
            }
        }
        if !self.room.holds(self.out.len(), &self.shared) {
            self.out.bytes.truncate(from);
            self.out.refuse(&ArakoonRefusal::no_room(&reply));
        }
    }

    /// Writes an answer that needed no request to the node.
    fn finish(
        &mut self,
        command: &'static ArakoonCommand,
        answer: std::result::Result<(Vec<u8>, u64), ArakoonRefusal>,
    ) {
        match answer {
            Ok((body, size)) => {
                self.out.say(&body);
                self.note(command, Verdict::Fine, size);
            }
            Err(refusal) => {
                self.out.refuse(&refusal);
                self.note(command, Verdict::Failed(Kind::Invalid), 0);
            }
        }
    }

    /// Sends all earlier answers, then waits for a slow request and writes its answer.
    async fn wait_for(&mut self, slow: DeferredReply) -> std::result::Result<(), ()> {
        if self.send().await? {
            return Ok(());
        }
        match slow {
            DeferredReply::Reply(reply, shape, command) => {
                let reply = reply.await;
                self.speak(command, &shape, reply);
            }
            DeferredReply::Range(range, level, shape, command) => {
                let reply = self.range(range, level).await;
                self.speak(command, &shape, reply);
            }
            DeferredReply::DropMaster(command) => {
                // Checked first, because a node alone refuses to drop its mastership.
                let answer = match views::look(self, &ClusterQuery::DropMaster) {
                    Ok(body) => match self.shared.node.drop_master(&self.bucket).await {
                        Ok(()) => Ok((body, 0)),
                        Err(error) => Err(ArakoonRefusal::from(&error)),
                    },
                    Err(refusal) => Err(refusal),
                };
                self.finish(command, answer);
            }
        }
        Ok(())
    }

    /// Reads a range of any length as of one moment: first a page, then the whole range if the page
    /// was not all.
    async fn range(&mut self, range: Range, level: ReadLevel) -> Result<Reply> {
        let wanted = range.rows_max.unwrap_or(usize::MAX);
        let rows_max = Some(wanted.min(limits::PAGE_ROWS_MAX));
        let page = Range { rows_max, ..range.clone() };
        let reply = self.read(page, level).await?;
        match &reply.body {
            Body::Page(page) if page.more && page.entries.len() < wanted => {}
            _ => return Ok(reply),
        }
        drop(reply);
        let Some(share) = self.shared.reserve(WHOLE_RANGE_BYTES_MAX) else {
            let text = "too many large ranges at a time: try again later, or ask for fewer keys";
            return Err(Error::new(Reason::Overloaded, text));
        };
        let reply = self.read(translate::whole(range), level).await;
        drop(share);
        reply
    }

    async fn read(&mut self, range: Range, level: ReadLevel) -> Result<Reply> {
        let call = Call::Read(base::Read::Range(range), level);
        let request = Request { bucket: self.bucket.clone(), call, retry: None };
        match self.submit(request) {
            Submitted::Ready(reply) => reply,
            Submitted::Pending(ticket, reply) => self.shared.node.decided(ticket).await.and(reply),
            Submitted::Later(reply) | Submitted::Independent(_, reply) => reply.await,
        }
    }

    /// Waits until every answer of the batch is decided, then sends the batch. Returns true if the
    /// connection ends with it.
    async fn send(&mut self) -> std::result::Result<bool, ()> {
        if !self.out.pending().is_empty() {
            self.decide().await;
        }
        if self.out.len() > 0 {
            writer::write(&mut self.stream, &self.out).await.map_err(|_| ())?;
            self.out.clear();
            self.room.release();
        }
        Ok(self.out.ends)
    }

    /// Waits for the tickets of the batch. The last ticket covers all earlier ones; only if it
    /// fails is each ticket waited for by itself.
    async fn decide(&mut self) {
        let node = &self.shared.node;
        let pending = self.out.pending();
        let Some(last) = pending.last() else { return };
        // All tickets are of one group, because a bucket has exactly one.
        if node.decided(last.ticket).await.is_ok() {
            return;
        }
        let mut judged = Vec::with_capacity(pending.len());
        for waiting in pending {
            judged
                .push(node.decided(waiting.ticket).await.err().as_ref().map(ArakoonRefusal::from));
        }
        self.out.judge(&judged);
    }
}
