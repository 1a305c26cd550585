//! Set of futures awaited together, in a deterministic order.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

type JoinSetTask<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Futures of one kind; few, so all are polled whenever one of them wakes.
pub struct JoinSet<T> {
    all: Vec<JoinSetTask<T>>,
}

impl<T> Default for JoinSet<T> {
    fn default() -> JoinSet<T> {
        JoinSet::new()
    }
}

impl<T> JoinSet<T> {
    /// Creates an empty set.
    pub fn new() -> JoinSet<T> {
        JoinSet { all: Vec::new() }
    }

    /// Adds a future.
    pub fn push(&mut self, task: impl Future<Output = T> + Send + 'static) {
        self.all.push(Box::pin(task));
    }

    /// Returns the next result, of the task that has waited longest. Never resolves if there is no
    /// task.
    pub async fn next(&mut self) -> T {
        poll_fn(|context| {
            for index in 0..self.all.len() {
                if let Poll::Ready(ready) = self.all[index].as_mut().poll(context) {
                    drop(self.all.remove(index));
                    return Poll::Ready(ready);
                }
            }
            Poll::Pending
        })
        .await
    }
}
