//! Requests of several keys of an available bucket: the keys are processed concurrently, and
//! answered in order. A key that a batch changes twice is changed in that order, too.
//!
//! Promises: the keys in progress are bounded for one request by the limits below, and for all by
//! the node's permits; the first error in the order of the keys is the answer.
//! Never: outlives the request.

use crate::Available;
use base::error::shutting_down;
use base::request::SequenceMode;
use base::{
    Body, BucketName, Call, Error, Key, Kind, LogIndex, Outcome, Properties, Read, ReadLevel,
    Reason, Reply, Request, Result, Row, Update, check,
};
use runtime::TaskScope;
use runtime::submit::{LaterReply, SubmitResult};
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Maximum number of keys of one request in progress: as many as requests of a connection.
pub const CONCURRENT_KEYS_MAX: usize = 64;
/// Maximum expected bytes of the values of keys in progress; larger values reduce their number.
const CONCURRENT_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Assumed size of a key's value, in bytes, before any is known.
const KEY_BYTES_ASSUMED: usize = CONCURRENT_BYTES_MAX / 16;
/// Maximum number of rows for which space is allocated in advance.
const ROWS_AT_FIRST: usize = 1_024;
/// Maximum number of keys in progress of all requests together, beyond the first of each.
const PERMITS: usize = 1_024;

/// Permits for keys beyond the first of each request.
pub struct KeyPermits {
    free: Arc<Semaphore>,
    /// Parent of the keys' tasks.
    tasks: TaskScope,
}

/// Request of one key in progress.
struct RunningKey<T> {
    answer: oneshot::Receiver<Result<T>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl KeyPermits {
    /// Creates the permits. `tasks`: parent of the keys' tasks.
    pub fn new(tasks: TaskScope) -> KeyPermits {
        KeyPermits { free: Arc::new(Semaphore::new(PERMITS)), tasks }
    }

    /// Runs tasks concurrently, as many as there are permits for, and at least one. Passes their
    /// results to `consume` in order, which returns the bytes of each.
    async fn run_all<T: Send + 'static>(
        &self,
        mut tasks: impl Iterator<Item = impl Future<Output = Result<T>> + Send + 'static>,
        mut consume: impl FnMut(T) -> Result<usize>,
    ) -> Result<()> {
        let (mut running, mut expected) = (VecDeque::new(), KEY_BYTES_ASSUMED);
        loop {
            while running.len() < (CONCURRENT_BYTES_MAX / expected).clamp(1, CONCURRENT_KEYS_MAX) {
                let permit = self.free.clone().try_acquire_owned().ok();
                if permit.is_none() && !running.is_empty() {
                    break;
                }
                let Some(task) = tasks.next() else { break };
                running.push_back(RunningKey { answer: spawn(&self.tasks, task), _permit: permit });
            }
            let Some(first) = running.pop_front() else { return Ok(()) };
            let bytes = consume(first.answer.await.unwrap_or_else(|_| Err(shutting_down()))?)?;
            expected = bytes.max(expected - expected / 8).max(1);
        }
    }
}

/// Spawns a task that is cancelled once its receiver is dropped.
fn spawn<T: Send + 'static>(
    tasks: &TaskScope,
    task: impl Future<Output = Result<T>> + Send + 'static,
) -> oneshot::Receiver<Result<T>> {
    let (mut sender, answer) = oneshot::channel();
    tasks.spawn_short(async move {
        let done = tokio::select! {
            biased;
            done = task => done,
            () = sender.closed() => return,
        };
        let _ = sender.send(done); // The caller may have gone.
    });
    answer
}

/// Refuses a call beyond the program's limits or the bucket's, before anything is sent to another
/// node. The part of each key is checked again where it is executed.
pub(super) fn within_limits(call: &Call, properties: &Properties) -> Result<()> {
    match call {
        Call::Read(read, _) => check::read(read, properties),
        Call::Update(update) => check::update(update, properties),
        Call::Available(_) | Call::Session(_) | Call::Directory(_) => Ok(()),
    }
}

/// Answers a request of several keys; returns a request of another kind unchanged.
pub(super) fn submit_multi_key(
    available: &Arc<Available>,
    request: Request,
    properties: &Arc<Properties>,
) -> ControlFlow<SubmitResult, Request> {
    let Request { bucket, call, retry: None } = request else { return Continue(request) };
    let (available, properties) = (available.clone(), properties.clone());
    let multi_key = MultiKeyRequest { available, bucket, properties };
    let reply: LaterReply = match call {
        Call::Read(Read::MultiGet(keys), level) if keys.len() > 1 => {
            Box::pin(multi_key.values(keys, level))
        }
        Call::Read(Read::MultiGetAll(keys), level) => Box::pin(multi_key.all_values(keys, level)),
        Call::Read(Read::Exists(keys), level) if keys.len() > 1 => {
            Box::pin(multi_key.count(keys, level))
        }
        Call::Update(batch @ Update::Sequence { mode: SequenceMode::Batch, .. }) => {
            Box::pin(multi_key.batch(batch))
        }
        call => return Continue(Request { bucket: multi_key.bucket, call, retry: None }),
    };
    Break(SubmitResult::Later(reply))
}

/// Request that reads or changes several keys.
struct MultiKeyRequest {
    available: Arc<Available>,
    bucket: BucketName,
    properties: Arc<Properties>,
}

impl MultiKeyRequest {
    async fn values(self, keys: Vec<Key>, level: ReadLevel) -> Result<Reply> {
        let mut rows = Vec::with_capacity(keys.len().min(ROWS_AT_FIRST));
        let mut bytes = 0;
        let requests = keys.into_iter().map(|key| self.ask(Call::Read(Read::Get(key), level)));
        let consume = |body| {
            let Body::Row(row) = body else { return Err(unexpected_answer()) };
            let value_bytes = row.as_ref().map_or(0, |row: &Row| row.value.len());
            bytes += value_bytes;
            rows.push(row);
            check::values(bytes).map(|()| value_bytes)
        };
        self.available.key_permits.run_all(requests, consume).await?;
        Ok(Reply::new(LogIndex(0), Body::Rows(rows)))
    }

    /// Reads values that must all exist.
    async fn all_values(self, keys: Vec<Key>, level: ReadLevel) -> Result<Reply> {
        let reply = self.values(keys.clone(), level).await?;
        let Body::Rows(rows) = &reply.body else { return Err(unexpected_answer()) };
        match keys.iter().zip(rows).find(|(_, row)| row.is_none()) {
            Some((key, _)) => Err(Error::key(Reason::NotFound, key)),
            None => Ok(reply),
        }
    }

    async fn count(self, keys: Vec<Key>, level: ReadLevel) -> Result<Reply> {
        let mut sum = 0;
        let requests =
            keys.into_iter().map(|key| self.ask(Call::Read(Read::Exists(vec![key]), level)));
        let consume = |body| {
            let Body::Count(count) = body else { return Err(unexpected_answer()) };
            sum += count;
            Ok(0)
        };
        self.available.key_permits.run_all(requests, consume).await?;
        Ok(Reply::new(LogIndex(0), Body::Count(sum)))
    }

    /// Applies a batch. Changes nothing if any step is not supported in available buckets.
    async fn batch(self, batch: Update) -> Result<Reply> {
        let Update::Sequence { steps, .. } = batch else { return Err(unexpected_answer()) };
        if !steps.iter().all(|step| changed_key(step).is_some()) {
            let text = "in an available bucket a batch supports only set and delete";
            return Err(Error::new(Reason::NotSupported, text));
        }
        let (mut outcomes, count) = (Vec::with_capacity(steps.len()), steps.len());
        let mut steps = steps.into_iter().peekable();
        while steps.peek().is_some() {
            let mut keys = BTreeSet::new();
            let distinct = std::iter::from_fn(|| {
                steps.next_if(|step| changed_key(step).is_some_and(|key| keys.insert(key.clone())))
            });
            let requests = distinct.map(|step| self.ask(Call::Update(step)));
            let consume = |body| {
                let Body::Updated(outcome) = body else { return Err(unexpected_answer()) };
                outcomes.push(Ok(outcome));
                Ok(0)
            };
            self.available
                .key_permits
                .run_all(requests, consume)
                .await
                .map_err(|error| batch_error(error, count))?;
        }
        Ok(Reply::new(LogIndex(0), Body::Updated(Outcome::Steps(outcomes))))
    }

    /// Reads or changes one key.
    fn ask(&self, call: Call) -> impl Future<Output = Result<Body>> + Send + use<> {
        let (available, properties) = (self.available.clone(), self.properties.clone());
        let mut request = Request { bucket: self.bucket.clone(), call, retry: None };
        async move { available.answer(&mut request, &properties).await.map(|reply| reply.body) }
    }
}

/// Returns the error of a batch. With several steps, the error of one must not claim that nothing
/// was done, or the client would repeat all. Errors about a key stay.
fn batch_error(error: Error, steps: usize) -> Error {
    if steps < 2 || error.kind() != Kind::Unavailable {
        return error;
    }
    let text = format!("a step failed ({error}); any of {steps} steps may be applied: read first");
    Error::new(Reason::InDoubt, text)
}

/// Returns the key that a step of a batch changes. `None`: it does something else.
fn changed_key(step: &Update) -> Option<&Key> {
    match step {
        Update::Set { key, .. } | Update::Delete { key, .. } => Some(key),
        _ => None,
    }
}

fn unexpected_answer() -> Error {
    Error::new(Reason::Malformed, "the answer does not match the request")
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
    struct TaskCounter {
        now: AtomicUsize,
        max_running: AtomicUsize,
    }

    struct RunningTask(Arc<TaskCounter>);

    impl RunningTask {
        fn enter(tasks: &Arc<TaskCounter>) -> RunningTask {
            let now = tasks.now.fetch_add(1, Ordering::SeqCst) + 1;
            tasks.max_running.fetch_max(now, Ordering::SeqCst);
            RunningTask(tasks.clone())
        }
    }

    impl Drop for RunningTask {
        fn drop(&mut self) {
            self.0.now.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn permits(number: usize) -> KeyPermits {
        KeyPermits { free: Arc::new(Semaphore::new(number)), tasks: TaskScope::new("test") }
    }

    /// Returns the numbers of tasks in the order in which their results were consumed, each of
    /// `bytes`. Times out if the tasks wait for others that never begin.
    async fn taken<F>(
        permits: &KeyPermits,
        tasks: impl Iterator<Item = F>,
        bytes: usize,
    ) -> Vec<usize>
    where
        F: Future<Output = Result<usize>> + Send + 'static,
    {
        let mut taken = Vec::new();
        let consume = |number| {
            taken.push(number);
            Ok(bytes)
        };
        let all = tokio::time::timeout(Duration::from_secs(20), permits.run_all(tasks, consume));
        all.await.expect("they are beside each other").expect("none fails");
        taken
    }

    #[tokio::test]
    async fn results_arrive_in_key_order_despite_completion_order() {
        let done = Arc::new(watch::Sender::new(BTreeSet::new()));
        let task = |number: usize| {
            let done = done.clone();
            async move {
                // Of each ten tasks the last is done first.
                if number % 10 != 9 {
                    let _ = done.subscribe().wait_for(|done| done.contains(&(number + 1))).await;
                }
                done.send_modify(|done| {
                    done.insert(number);
                });
                Ok(number)
            }
        };
        let found = taken(&permits(PERMITS), (0..40).map(task), 10).await;
        assert_eq!(found, (0..40).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn concurrent_keys_reach_and_never_exceed_the_limit() {
        let (tasks, gate) =
            (Arc::new(TaskCounter::default()), Arc::new(Barrier::new(CONCURRENT_KEYS_MAX)));
        let task = |number: usize| {
            let (tasks, gate) = (tasks.clone(), gate.clone());
            async move {
                let _running_task = RunningTask::enter(&tasks);
                // By then the values are known to be small.
                if number >= 64 {
                    gate.wait().await;
                }
                Ok(number)
            }
        };
        let all = 64 + 3 * CONCURRENT_KEYS_MAX;
        assert_eq!(taken(&permits(PERMITS), (0..all).map(task), 10).await.len(), all);
        assert_eq!(tasks.max_running.load(Ordering::SeqCst), CONCURRENT_KEYS_MAX);
    }

    /// Returns the maximum number of tasks that ran at a time, after the first 20.
    async fn max_running(key_permits: &KeyPermits, bytes: usize) -> usize {
        let tasks = Arc::new(TaskCounter::default());
        let task = |number: usize| {
            let tasks = tasks.clone();
            async move {
                let running_task = (number >= 20).then(|| RunningTask::enter(&tasks));
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                drop(running_task);
                Ok(number)
            }
        };
        assert_eq!(taken(key_permits, (0..60).map(task), bytes).await, (0..60).collect::<Vec<_>>());
        tasks.max_running.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn large_values_and_scarce_permits_reduce_key_concurrency() {
        assert_eq!(max_running(&permits(PERMITS), CONCURRENT_BYTES_MAX / 4).await, 4);
        assert_eq!(max_running(&permits(PERMITS), 3 * CONCURRENT_BYTES_MAX).await, 1);
        assert_eq!(max_running(&permits(3), 10).await, 3);
        assert_eq!(max_running(&permits(0), 10).await, 1, "one in any case");
    }

    #[test]
    fn failed_batch_of_several_steps_has_unknown_outcome() {
        let refused = || Error::new(Reason::OutOfSpace, "full");
        assert_eq!(batch_error(refused(), 1), refused(), "one step alone did nothing");
        assert_eq!(batch_error(refused(), 2).kind(), Kind::Unknown);
        for other in [Reason::WriteQuorumUnmet, Reason::NotFound] {
            let error = Error::new(other, "1 of 2");
            assert_eq!(batch_error(error.clone(), 2), error);
        }
    }

    #[tokio::test]
    async fn first_error_in_key_order_is_returned_and_later_keys_are_cancelled() {
        let (tasks, key_permits) = (Arc::new(TaskCounter::default()), permits(PERMITS));
        let task = |number: usize| {
            let tasks = tasks.clone();
            async move {
                let _running_task = RunningTask::enter(&tasks);
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
        let answer = key_permits.run_all((0..20).map(task), |number| {
            taken.push(number);
            Ok(0)
        });
        assert_eq!(answer.await, Err(Error::new(Reason::NoQuorum, "of the fourth")));
        assert_eq!(taken, [0, 1, 2]);
        while tasks.now.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(key_permits.free.available_permits(), PERMITS);
        let full = key_permits.run_all((0..9).map(|number| async move { Ok(number) }), |number| {
            if number == 2 { Err(Error::new(Reason::TooLarge, "all of them")) } else { Ok(0) }
        });
        assert_eq!(full.await, Err(Error::new(Reason::TooLarge, "all of them")));
    }
}
