//! Driver of a node in this process. It submits requests as a front-end does: without waiting, then
//! it waits for the tickets of undecided updates.

use super::{Answer, Call, Driver, Failure, Sink, Target};
use crate::config::{EmbeddedConfig, Operation};
use crate::error::BenchError;
use base::request::{Expiry, OnMissing, SequenceMode};
use base::{Body, Bound, BucketName, DirectoryCall, Outcome, Range, Read, ReadLevel, Reason};
use base::{Principal, Reply, Request, Update};
use bytes::Bytes;
use node::{Flow, Node, NodeSettings, SubmitResult, Ticket};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// A node that was started in this process, and its runtime.
pub struct EmbeddedTarget {
    node: Node,
    bucket: BucketName,
    runtime: Runtime,
}

impl EmbeddedTarget {
    /// Starts the node and creates or changes the bucket.
    pub fn start(config: &EmbeddedConfig) -> Result<EmbeddedTarget, String> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let settings = NodeSettings { data_dir: config.data.clone(), ..NodeSettings::default() };
        let node = runtime.block_on(Node::start(settings)).map_err(|error| error.to_string())?;
        let target = EmbeddedTarget { node, bucket: config.bucket.clone(), runtime };
        target.create_bucket(&config.properties)?;
        Ok(target)
    }

    fn create_bucket(&self, properties: &[(String, String)]) -> Result<(), String> {
        let submit = |call| {
            let request = Request {
                bucket: self.bucket.clone(),
                call: base::Call::Directory(call),
                retry: None,
            };
            self.runtime.block_on(self.node.handle(&base::Principal::Node, request))
        };
        match submit(DirectoryCall::CreateBucket(properties.to_vec())) {
            Ok(_) => Ok(()),
            Err(error) if error.reason != Reason::AlreadyExists => Err(error.to_string()),
            Err(_) if properties.is_empty() => Ok(()),
            Err(_) => match submit(DirectoryCall::AlterBucket(properties.to_vec())) {
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

impl Target for EmbeddedTarget {
    fn version(&self) -> String {
        format!("credenza {} in process", self.node.status().version)
    }

    fn supports(&self, operation: Operation) -> Result<(), String> {
        super::refuse_resp_operation("embedded", operation)
    }

    fn driver(&self, clients: usize) -> Result<Box<dyn Driver>, BenchError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let calls = Calls {
            node: self.node.clone(),
            bucket: self.bucket.clone(),
            clients: (0..clients).map(|_| EmbeddedClient::new()).collect(),
            ready: Vec::new(),
            undecided: VecDeque::new(),
            first_wait: None,
            deferred: Vec::new(),
        };
        Ok(Box::new(EmbeddedDriver { runtime, calls }))
    }

    fn close(&self) -> Result<(), String> {
        self.runtime.block_on(self.node.stop()).map_err(|error| error.to_string())
    }
}

type EmbeddedResult = base::Result<Reply>;
type PendingAnswer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A client's flow, and the number of times that its calls were forgotten: answers to calls of an
/// older incarnation are dropped.
struct EmbeddedClient {
    flow: Flow,
    incarnation: u64,
}

impl EmbeddedClient {
    fn new() -> EmbeddedClient {
        EmbeddedClient { flow: Flow::of(Principal::Node), incarnation: 0 }
    }
}

struct EmbeddedDriver {
    runtime: Runtime,
    calls: Calls,
}

struct Calls {
    node: Node,
    bucket: BucketName,
    clients: Vec<EmbeddedClient>,
    /// Answers to hand over.
    ready: Vec<(usize, u64, Instant, EmbeddedResult)>,
    /// Answers valid once their ticket is decided, in the order of submission.
    undecided: VecDeque<(usize, u64, Ticket, EmbeddedResult)>,
    /// The wait for the first of `undecided`.
    first_wait: Option<PendingAnswer<base::Result<()>>>,
    /// Answers of requests that could not be evaluated at once.
    deferred: Vec<(usize, u64, PendingAnswer<EmbeddedResult>)>,
}

impl Calls {
    fn first_wait(&mut self) -> Option<&mut PendingAnswer<base::Result<()>>> {
        if self.first_wait.is_none() {
            let ticket = self.undecided.front()?.2;
            let node = self.node.clone();
            self.first_wait = Some(Box::pin(async move { node.wait_decided(ticket).await }));
        }
        self.first_wait.as_mut()
    }

    /// Moves all answers that are complete to `ready`; pending while `ready` is empty.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(wait) = self.first_wait() {
            let Poll::Ready(decided) = wait.as_mut().poll(context) else { break };
            self.first_wait = None;
            if let Some((client, incarnation, _, reply)) = self.undecided.pop_front() {
                self.ready.push((client, incarnation, Instant::now(), decided.and(reply)));
            }
        }
        let ready = &mut self.ready;
        self.deferred.retain_mut(|(client, incarnation, answer)| {
            match answer.as_mut().poll(context) {
                Poll::Ready(result) => {
                    ready.push((*client, *incarnation, Instant::now(), result));
                    false
                }
                Poll::Pending => true,
            }
        });
        if self.ready.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Driver for EmbeddedDriver {
    fn begin(&mut self, client: usize, call: &Call<'_>) {
        let calls = &mut self.calls;
        let request = Request { bucket: calls.bucket.clone(), call: call_of(call), retry: None };
        let EmbeddedClient { flow, incarnation } = &mut calls.clients[client];
        let incarnation = *incarnation;
        match calls.node.submit(flow, request) {
            SubmitResult::Ready(result) => {
                calls.ready.push((client, incarnation, Instant::now(), result))
            }
            SubmitResult::Pending(ticket, reply) => {
                calls.undecided.push_back((client, incarnation, ticket, reply));
            }
            SubmitResult::Later(answer) | SubmitResult::Independent(_, answer) => {
                calls.deferred.push((client, incarnation, answer))
            }
        }
    }

    fn send(&mut self, _client: usize) {}

    fn wait(&mut self, timeout: Duration, sink: Sink<'_>) {
        let EmbeddedDriver { runtime, calls } = self;
        // Undecided answers are polled even if others are ready; otherwise reads would starve
        // writes.
        let timeout = if calls.ready.is_empty() { timeout } else { Duration::ZERO };
        if !calls.undecided.is_empty() || !calls.deferred.is_empty() || calls.ready.is_empty() {
            let answers = std::future::poll_fn(|context| calls.poll(context));
            // The result is ignored: `ready` holds the answers.
            let _ = runtime.block_on(async { tokio::time::timeout(timeout, answers).await });
        }
        for (client, incarnation, at, result) in calls.ready.drain(..) {
            if calls.clients[client].incarnation == incarnation {
                sink(client, at, answer_of(&result));
            }
        }
    }

    fn forget(&mut self, client: usize) {
        self.calls.clients[client].incarnation += 1;
    }
}

fn call_of(call: &Call<'_>) -> base::Call {
    let key = Bytes::copy_from_slice;
    let read = |read| base::Call::Read(read, ReadLevel::Consistent);
    let set = |row: &[u8], value: &[u8]| Update::Set {
        key: key(row),
        value: key(value),
        expiry: Expiry::Default,
    };
    match *call {
        Call::Get(row) => read(Read::Get(key(row))),
        Call::Exists(row) => read(Read::Exists(vec![key(row)])),
        Call::MultiGet(rows) => read(Read::MultiGet(rows.iter().map(|row| key(row)).collect())),
        Call::Range(from, rows) => read(Read::Range(Range {
            low: Bound::Included(key(from)),
            rows_max: Some(rows),
            ..Range::default()
        })),
        Call::Put(row, value) | Call::Replace { key: row, value, .. } => {
            base::Call::Update(set(row, value))
        }
        Call::Delete(row) => {
            base::Call::Update(Update::Delete { key: key(row), missing: OnMissing::Skip })
        }
        Call::TestAndSet { key: row, expected, wanted } => base::Call::Update(Update::TestAndSet {
            key: key(row),
            expected: expected.map(key),
            wanted: Some(key(wanted)),
        }),
        Call::Sequence(rows) => base::Call::Update(Update::Sequence {
            steps: rows.iter().map(|(row, value)| set(row, value)).collect(),
            mode: SequenceMode::AllOrNothing,
        }),
        // Unreachable: `supports` refuses these operations.
        Call::Resp(_) | Call::Document(_) => base::Call::Update(Update::Sequence {
            steps: Vec::new(),
            mode: SequenceMode::AllOrNothing,
        }),
    }
}

fn answer_of(result: &EmbeddedResult) -> Result<Answer<'_>, Failure> {
    let reply = result.as_ref().map_err(|error| Failure::refused(error.reason.name()))?;
    Ok(match &reply.body {
        Body::Row(row) => Answer::Value(row.as_ref().map(|row| &row.value[..])),
        Body::Rows(rows) => Answer::Count(rows.iter().flatten().count() as u64),
        Body::Page(page) => Answer::Count(page.entries.len() as u64),
        Body::Count(count) => Answer::Count(*count),
        Body::Updated(Outcome::Old(old)) => Answer::Old(old.as_deref().map(Cow::Borrowed)),
        _ => Answer::Done,
    })
}
