//! Requests of several keys of an available bucket: the keys are asked concurrently, and answered
//! in order. A key that a batch changes twice is changed in that order, too.
//!
//! Promises: one request asks no more keys at a time than the limits below, and all requests no
//! more than the node's permits; the first error in the order of the keys is the answer.
//! Never: outlives the request.

use crate::Available;
use base::error::shutting_down;
use base::request::Steps;
use base::{
    Body, BucketName, Call, Error, Key, Kind, LogIndex, Outcome, Properties, Read, ReadLevel,
    Reason, Reply, Request, Result, Row, Update, check,
};
use runtime::TaskScope;
use runtime::submit::{LaterReply, Submitted};
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Maximum number of keys of one request that are asked at a time: as many as a connection may have
/// requests under way.
pub const KEYS_BESIDE_MAX: usize = 64;
/// Fewer where their values are expected to be more bytes together.
const BESIDE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Assumed size of a key's value, in bytes, before any is known.
const KEY_BYTES: usize = BESIDE_BYTES_MAX / 16;
/// Number of rows for which space is allocated at first.
const ROWS_AT_FIRST: usize = 1_024;
/// Maximum number of keys that all requests together ask beyond the first of each.
const SEATS: usize = 1_024;

/// Permits for keys beyond the first of each request.
pub struct KeyPermits {
    free: Arc<Semaphore>,
    /// Parent of the keys' tasks.
    tasks: TaskScope,
}

/// A key whose request is running.
struct RunningKey<T> {
    answer: oneshot::Receiver<Result<T>>,
    _seat: Option<OwnedSemaphorePermit>,
}

impl KeyPermits {
    /// Makes them all; `tasks` is the parent of the keys' tasks.
    pub fn new(tasks: TaskScope) -> KeyPermits {
        KeyPermits { free: Arc::new(Semaphore::new(SEATS)), tasks }
    }

    /// Runs tasks concurrently, as many as there are permits for, and at least one. Takes their
    /// results in order; `take` returns the bytes that each brought.
    async fn beside<T: Send + 'static>(
        &self,
        mut tasks: impl Iterator<Item = impl Future<Output = Result<T>> + Send + 'static>,
        mut take: impl FnMut(T) -> Result<usize>,
    ) -> Result<()> {
        let (mut going, mut expected) = (VecDeque::new(), KEY_BYTES);
        loop {
            while going.len() < (BESIDE_BYTES_MAX / expected).clamp(1, KEYS_BESIDE_MAX) {
                let seat = self.free.clone().try_acquire_owned().ok();
                if seat.is_none() && !going.is_empty() {
                    break;
                }
                let Some(task) = tasks.next() else { break };
                going.push_back(RunningKey { answer: begin(&self.tasks, task), _seat: seat });
            }
            let Some(first) = going.pop_front() else { return Ok(()) };
            let bytes = take(first.answer.await.unwrap_or_else(|_| Err(shutting_down()))?)?;
            expected = bytes.max(expected - expected / 8).max(1);
        }
    }
}

/// Begins a task that is cancelled once its receiver is dropped.
fn begin<T: Send + 'static>(
    tasks: &TaskScope,
    task: impl Future<Output = Result<T>> + Send + 'static,
) -> oneshot::Receiver<Result<T>> {
    let (mut told, answer) = oneshot::channel();
    tasks.spawn_short(async move {
        let done = tokio::select! {
            biased;
            done = task => done,
            () = told.closed() => return,
        };
        let _ = told.send(done); // Whoever asked may have gone meanwhile.
    });
    answer
}

/// Refuses a call beyond the program's limits or the bucket's, before any other node hears of it.
/// The part of each key is checked again where it is done.
pub(super) fn within_limits(call: &Call, properties: &Properties) -> Result<()> {
    match call {
        Call::Read(read, _) => check::read(read, properties),
        Call::Update(update) => check::update(update, properties),
        Call::Available(_) | Call::Session(_) | Call::Directory(_) => Ok(()),
    }
}

/// Answers a request of several keys; gives back one of another kind.
pub(super) fn submit_multi_key(
    available: &Arc<Available>,
    request: Request,
    properties: &Arc<Properties>,
) -> ControlFlow<Submitted, Request> {
    let Request { bucket, call, retry: None } = request else { return Continue(request) };
    let (available, properties) = (available.clone(), properties.clone());
    let asked = MultiKeyRequest { available, bucket, properties };
    let reply: LaterReply = match call {
        Call::Read(Read::MultiGet(keys), how) if keys.len() > 1 => {
            Box::pin(asked.values(keys, how))
        }
        Call::Read(Read::MultiGetAll(keys), how) => Box::pin(asked.all_values(keys, how)),
        Call::Read(Read::Exists(keys), how) if keys.len() > 1 => Box::pin(asked.count(keys, how)),
        Call::Update(batch @ Update::Sequence { mode: Steps::Batch, .. }) => {
            Box::pin(asked.batch(batch))
        }
        call => return Continue(Request { bucket: asked.bucket, call, retry: None }),
    };
    Break(Submitted::Later(reply))
}

/// Request that reads or changes several keys.
struct MultiKeyRequest {
    available: Arc<Available>,
    bucket: BucketName,
    properties: Arc<Properties>,
}

impl MultiKeyRequest {
    async fn values(self, keys: Vec<Key>, how: ReadLevel) -> Result<Reply> {
        let mut rows = Vec::with_capacity(keys.len().min(ROWS_AT_FIRST));
        let mut bytes = 0;
        let gets = keys.into_iter().map(|key| self.ask(Call::Read(Read::Get(key), how)));
        let take = |body| {
            let Body::Row(row) = body else { return Err(strange()) };
            let brought = row.as_ref().map_or(0, |row: &Row| row.value.len());
            bytes += brought;
            rows.push(row);
            check::values(bytes).map(|()| brought)
        };
        self.available.key_permits.beside(gets, take).await?;
        Ok(Reply::new(LogIndex(0), Body::Rows(rows)))
    }

    /// The values of keys that are all there.
    async fn all_values(self, keys: Vec<Key>, how: ReadLevel) -> Result<Reply> {
        let reply = self.values(keys.clone(), how).await?;
        let Body::Rows(rows) = &reply.body else { return Err(strange()) };
        match keys.iter().zip(rows).find(|(_, row)| row.is_none()) {
            Some((key, _)) => Err(Error::key(Reason::NotFound, key)),
            None => Ok(reply),
        }
    }

    async fn count(self, keys: Vec<Key>, how: ReadLevel) -> Result<Reply> {
        let mut sum = 0;
        let looks = keys.into_iter().map(|key| self.ask(Call::Read(Read::Exists(vec![key]), how)));
        let take = |body| {
            let Body::Count(count) = body else { return Err(strange()) };
            sum += count;
            Ok(0)
        };
        self.available.key_permits.beside(looks, take).await?;
        Ok(Reply::new(LogIndex(0), Body::Count(sum)))
    }

    /// Applies a batch. Changes nothing if any step is not supported in available buckets.
    async fn batch(self, batch: Update) -> Result<Reply> {
        let Update::Sequence { steps, .. } = batch else { return Err(strange()) };
        if !steps.iter().all(|step| changed(step).is_some()) {
            let text = "in an available bucket a batch sets and deletes keys, and nothing else";
            return Err(Error::new(Reason::NotSupported, text));
        }
        let (mut outcomes, count) = (Vec::with_capacity(steps.len()), steps.len());
        let mut steps = steps.into_iter().peekable();
        while steps.peek().is_some() {
            let mut keys = BTreeSet::new();
            let others = std::iter::from_fn(|| {
                steps.next_if(|step| changed(step).is_some_and(|key| keys.insert(key.clone())))
            });
            let asks = others.map(|step| self.ask(Call::Update(step)));
            let take = |body| {
                let Body::Updated(outcome) = body else { return Err(strange()) };
                outcomes.push(Ok(outcome));
                Ok(0)
            };
            self.available
                .key_permits
                .beside(asks, take)
                .await
                .map_err(|error| partly(error, count))?;
        }
        Ok(Reply::new(LogIndex(0), Body::Updated(Outcome::Steps(outcomes))))
    }

    /// Reads or changes one key.
    fn ask(&self, call: Call) -> impl Future<Output = Result<Body>> + Send + use<> {
        let (available, properties) = (self.available.clone(), self.properties.clone());
        let request = Request { bucket: self.bucket.clone(), call, retry: None };
        async move { available.answer(request, &properties).await.map(|reply| reply.body) }
    }
}

/// Returns the error of a batch of so many steps. If there are other steps, an error of one must
/// not say that nothing was done, or the client would repeat all. Other errors describe a key, and
/// stay.
fn partly(error: Error, steps: usize) -> Error {
    if steps < 2 || error.kind() != Kind::Unavailable {
        return error;
    }
    let text = format!("a step failed ({error}); any of the {steps} steps may be done: read first");
    Error::new(Reason::InDoubt, text)
}

/// The key that a step of a batch changes; none: it does something else.
fn changed(step: &Update) -> Option<&Key> {
    match step {
        Update::Set { key, .. } | Update::Delete { key, .. } => Some(key),
        _ => None,
    }
}

fn strange() -> Error {
    Error::new(Reason::Malformed, "what was asked of one key was answered with something else")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::sync::{Barrier, watch};

    /// Counter of running tasks, and of all tasks so far.
    #[derive(Default)]
    struct JoinSet {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    struct Present(Arc<JoinSet>);

    impl Present {
        fn among(tasks: &Arc<JoinSet>) -> Present {
            let now = tasks.now.fetch_add(1, Ordering::SeqCst) + 1;
            tasks.most.fetch_max(now, Ordering::SeqCst);
            Present(tasks.clone())
        }
    }

    impl Drop for Present {
        fn drop(&mut self) {
            self.0.now.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn permits(number: usize) -> KeyPermits {
        KeyPermits { free: Arc::new(Semaphore::new(number)), tasks: TaskScope::new("test") }
    }

    /// Returns the numbers of tasks in the order in which they were taken; each brings so many
    /// bytes. The tasks hang if they wait for others that never begin.
    async fn taken<F>(
        permits: &KeyPermits,
        tasks: impl Iterator<Item = F>,
        bytes: usize,
    ) -> Vec<usize>
    where
        F: Future<Output = Result<usize>> + Send + 'static,
    {
        let mut taken = Vec::new();
        let take = |number| {
            taken.push(number);
            Ok(bytes)
        };
        let all = tokio::time::timeout(Duration::from_secs(20), permits.beside(tasks, take));
        all.await.expect("they are beside each other").expect("none fails");
        taken
    }

    #[tokio::test]
    async fn what_is_done_last_is_taken_in_its_place() {
        let done = Arc::new(watch::Sender::new(BTreeSet::new()));
        let task = |number: usize| {
            let done = done.clone();
            async move {
                // Of ten in a row the last is done first.
                if number % 10 != 9 {
                    let _ = done.subscribe().wait_for(|done| done.contains(&(number + 1))).await;
                }
                done.send_modify(|done| {
                    done.insert(number);
                });
                Ok(number)
            }
        };
        let found = taken(&permits(SEATS), (0..40).map(task), 10).await;
        assert_eq!(found, (0..40).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn as_many_are_under_way_as_the_limits_allow_and_no_more() {
        let (tasks, gate) = (Arc::new(JoinSet::default()), Arc::new(Barrier::new(KEYS_BESIDE_MAX)));
        let task = |number: usize| {
            let (tasks, gate) = (tasks.clone(), gate.clone());
            async move {
                let _present = Present::among(&tasks);
                // By then it is known that they are small.
                if number >= 64 {
                    gate.wait().await;
                }
                Ok(number)
            }
        };
        let all = 64 + 3 * KEYS_BESIDE_MAX;
        assert_eq!(taken(&permits(SEATS), (0..all).map(task), 10).await.len(), all);
        assert_eq!(tasks.most.load(Ordering::SeqCst), KEYS_BESIDE_MAX);
    }

    /// Maximum number of tasks that ran at a time, of those behind the first ones.
    async fn most(key_permits: &KeyPermits, bytes: usize) -> usize {
        let tasks = Arc::new(JoinSet::default());
        let task = |number: usize| {
            let tasks = tasks.clone();
            async move {
                let present = (number >= 20).then(|| Present::among(&tasks));
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                drop(present);
                Ok(number)
            }
        };
        assert_eq!(taken(key_permits, (0..60).map(task), bytes).await, (0..60).collect::<Vec<_>>());
        tasks.most.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn large_values_and_a_busy_node_leave_room_for_few() {
        assert_eq!(most(&permits(SEATS), BESIDE_BYTES_MAX / 4).await, 4);
        assert_eq!(most(&permits(SEATS), 3 * BESIDE_BYTES_MAX).await, 1);
        assert_eq!(most(&permits(3), 10).await, 3);
        assert_eq!(most(&permits(0), 10).await, 1, "one in any case");
    }

    #[test]
    fn a_batch_with_several_steps_that_fails_may_have_happened() {
        let refused = || Error::new(Reason::OutOfSpace, "full");
        assert_eq!(partly(refused(), 1), refused(), "one step alone did nothing");
        assert_eq!(partly(refused(), 2).kind(), Kind::Unknown);
        for other in [Reason::WriteQuorumUnmet, Reason::NotFound] {
            let error = Error::new(other, "1 of 2");
            assert_eq!(partly(error.clone(), 2), error);
        }
    }

    #[tokio::test]
    async fn the_first_error_by_place_is_the_answer_and_nothing_goes_on_behind_it() {
        let (tasks, key_permits) = (Arc::new(JoinSet::default()), permits(SEATS));
        let task = |number: usize| {
            let tasks = tasks.clone();
            async move {
                let _present = Present::among(&tasks);
                match number {
                    0..3 => Ok(number),
                    3 => {
                        tokio::task::yield_now().await;
                        Err(Error::new(Reason::NoQuorum, "of the fourth"))
                    }
                    4 => Err(Error::new(Reason::DeadlinePassed, "of the fifth")),
                    _ => std::future::pending().await,
                }
            }
        };
        let mut taken = Vec::new();
        let answer = key_permits.beside((0..20).map(task), |number| {
            taken.push(number);
            Ok(0)
        });
        assert_eq!(answer.await, Err(Error::new(Reason::NoQuorum, "of the fourth")));
        assert_eq!(taken, [0, 1, 2]);
        while tasks.now.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(key_permits.free.available_permits(), SEATS);
        let full = key_permits.beside((0..9).map(|number| async move { Ok(number) }), |number| {
            if number == 2 { Err(Error::new(Reason::TooLarge, "all of them")) } else { Ok(0) }
        });
        assert_eq!(full.await, Err(Error::new(Reason::TooLarge, "all of them")));
    }
}
